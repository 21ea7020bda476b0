/* SPDX-License-Identifier: BSD-3-Clause */
/* pxshmem-info about the topology: the command line becomes a machine and its PEs, topology/
 * decides, and one of the pages (table, matrix, JSON, picture) shows the plan. Without a job
 * nothing is known of other PEs but what the options say. */
#include "config.h"
#include "src/tools/info.h"
#include "src/env/env.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request {
    bool table, matrix, json, host_memory;
    const char *svg, *file, *sysfs, *visible, *cpus;
    size_t n_pes;
};

/* All that a page needs; what is owned is freed by finish. */
struct answer {
    struct px_env env;
    struct px_topology_machine *machine;
    struct px_topology_plan *plan;
    struct px_topology_pe *pes;
    struct px_topology_cpus *cpus; /* of each PE */
    enum px_topology_link *links;
    const char **transports, **registrations;
    char title[256];
};

static const char help[] =
    "usage: pxshmem-info --topology [--matrix] [--json] [--svg FILE] [option ...]\n"
    "  --topology            a table: the GPU, NICs and processors of each PE, and why\n"
    "  --matrix              distances between GPUs and NICs (PIX PXB PHB NODE SYS)\n"
    "  --json                the same for programs\n"
    "  --svg FILE            a picture of the node\n"
    "  --pes N               PEs on the node (default 1)\n"
    "  --topology-file FILE  the node that this XML file of lstopo describes, not this one\n"
    "  --cpus LIST[:LIST..]  processors that the PEs are bound to, as 0-7:8-15; the last is for "
    "all others\n"
    "  --gpus LIST           only these GPUs are visible, as CUDA_VISIBLE_DEVICES has it\n"
    "  --host-memory         PEs use no GPU\n";

static int parse_pes(const char *text, size_t *n_pes)
{
    char *end;
    errno = 0;
    unsigned long value = isdigit((unsigned char)text[0]) ? strtoul(text, &end, 10) : 0;
    if (value == 0 || errno || *end || value > 1024)
        return px_info_fail(PX_INFO_USAGE, "--pes %s: a number from 1 to 1024 is needed", text);
    *n_pes = value;
    return PX_INFO_OK;
}

static int parse_options(int argc, char **argv, struct request *request)
{
    enum { TOPOLOGY, MATRIX, JSON, SVG, PES, FILE_, SYSFS, CPUS, GPUS, HOST_MEMORY, HELP };
    static const struct option options[] = {
        {"topology", no_argument, NULL, TOPOLOGY},
        {"matrix", no_argument, NULL, MATRIX},
        {"json", no_argument, NULL, JSON},
        {"svg", required_argument, NULL, SVG},
        {"pes", required_argument, NULL, PES},
        {"topology-file", required_argument, NULL, FILE_},
        {"sysfs", required_argument, NULL, SYSFS},
        {"cpus", required_argument, NULL, CPUS},
        {"gpus", required_argument, NULL, GPUS},
        {"host-memory", no_argument, NULL, HOST_MEMORY},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    *request = (struct request){.n_pes = 1};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case TOPOLOGY:
            request->table = true;
            break;
        case MATRIX:
            request->matrix = true;
            break;
        case JSON:
            request->json = true;
            break;
        case SVG:
            request->svg = optarg;
            break;
        case PES:
            if (parse_pes(optarg, &request->n_pes) != PX_INFO_OK)
                return PX_INFO_USAGE;
            break;
        case FILE_:
            request->file = optarg;
            break;
        case SYSFS:
            request->sysfs = optarg;
            break;
        case CPUS:
            request->cpus = optarg;
            break;
        case GPUS:
            request->visible = optarg;
            break;
        case HOST_MEMORY:
            request->host_memory = true;
            break;
        case HELP:
            fputs(help, stdout);
            exit(PX_INFO_OK);
        default:
            fputs(help, stderr);
            return PX_INFO_USAGE;
        }
    }
    if (optind < argc)
        return px_info_fail(PX_INFO_USAGE, "\"%s\" is not an option", argv[optind]);
    return PX_INFO_OK;
}

static px_status parse_list(const char *list, const struct px_topology_machine *machine,
                            struct px_topology_cpus *cpus, struct px_error *error)
{
    char allowed[256];
    px_status status = px_topology_cpus_parse(list, cpus, error);
    if (status != PX_OK || px_topology_cpus_within(cpus, &machine->allowed))
        return status;
    px_topology_cpus_text(&machine->allowed, allowed, sizeof(allowed));
    return px_error_set(error, PX_ERR_INVALID, "%s: PEs may use the processors %s here", list,
                        allowed);
}

/* "0-7:8-15": a list for each PE, the last one for all that follow. */
static px_status parse_cpus(const char *text, struct answer *a, size_t n_pes,
                            struct px_error *error)
{
    char *copy = strdup(text), *rest = copy;
    px_status status = copy ? PX_OK : px_error_errno(error, ENOMEM, "--cpus");
    for (size_t pe = 0; pe < n_pes && status == PX_OK; pe++) {
        char *list = strsep(&rest, ":");
        if (!list)
            a->cpus[pe] = a->cpus[pe - 1];
        else
            status = parse_list(list, a->machine, &a->cpus[pe], error);
        a->pes[pe].cpus = &a->cpus[pe];
        a->pes[pe].numa_mask = px_topology_numa_mask(a->machine, &a->cpus[pe]);
    }
    free(copy);
    return status == PX_OK ? PX_OK : px_error_context(error, "--cpus");
}

/* All PEs where this process may run; on a described machine, where a job may. */
static px_status default_cpus(const struct request *request, struct answer *a,
                              struct px_error *error)
{
    struct px_topology_cpus cpus = a->machine->allowed;
    px_status status = a->machine->described ? PX_OK : px_topology_own_cpus(&cpus, error);
    for (size_t pe = 0; pe < request->n_pes && status == PX_OK; pe++) {
        a->cpus[pe] = cpus;
        a->pes[pe].cpus = &a->cpus[pe];
        a->pes[pe].numa_mask = px_topology_numa_mask(a->machine, &cpus);
    }
    return status;
}

/* Bits of the GPUs that PEs may use: as the options say, else as the driver does. On a described
 * machine all; on this one without a driver none. */
static px_status find_visible(const struct request *request, const struct answer *a, uint64_t *mask,
                              struct px_error *error)
{
    px_topology_pci gpus[PX_TOPOLOGY_GPUS_MAX];
    size_t n = 0;
    *mask = 0;
    if (request->host_memory)
        return PX_OK;
    if (request->visible) {
        px_status status = px_topology_visible_mask(a->machine, request->visible, mask, error);
        return status == PX_OK ? PX_OK : px_error_context(error, "--gpus");
    }
    if (a->machine->described) {
        *mask = UINT64_MAX;
        return PX_OK;
    }
    /* Without a driver GPUs are of no use. */
    (void)px_topology_visible_gpus(NULL, gpus, &n, NULL);
    for (size_t i = 0; i < n; i++)
        if (px_topology_find_gpu(a->machine, gpus[i]) >= 0)
            *mask |= (uint64_t)1 << px_topology_find_gpu(a->machine, gpus[i]);
    return PX_OK;
}

static px_status describe_pes(const struct request *request, struct answer *a,
                              struct px_error *error)
{
    uint64_t visible;
    a->pes = calloc(request->n_pes, sizeof(*a->pes));
    a->cpus = calloc(request->n_pes, sizeof(*a->cpus));
    if (!a->pes || !a->cpus)
        return px_error_errno(error, ENOMEM, "describing the PEs");
    px_status status = find_visible(request, a, &visible, error);
    if (status != PX_OK)
        return status;
    for (size_t pe = 0; pe < request->n_pes; pe++)
        a->pes[pe] = (struct px_topology_pe){
            .gpu = visible ? PX_TOPOLOGY_CHOOSE : PX_TOPOLOGY_NO_GPU, .gpu_mask = visible};
    return request->cpus ? parse_cpus(request->cpus, a, request->n_pes, error)
                         : default_cpus(request, a, error);
}

/* How one PE reaches the memory of another on its node. */
static const char *way_between(const struct answer *a, size_t pe, size_t peer)
{
    int mine = a->plan->pes[pe].gpu, theirs = a->plan->pes[peer].gpu;
    if (pe == peer)
        return "self";
    if (a->env.disable_p2p)
        return "remote";
    if (mine >= 0 && theirs >= 0 && mine != theirs &&
        a->links[(size_t)mine * a->machine->n_gpus + (size_t)theirs] == PX_TOPOLOGY_LINK_NONE)
        return "agent";
    return "mapped";
}

static px_status describe_rest(const struct request *request, struct answer *a,
                               struct px_error *error)
{
    size_t n = a->machine->n_gpus, n_pes = request->n_pes;
    a->links = calloc(n * n + 1, sizeof(*a->links));
    a->transports = calloc(n_pes * n_pes, sizeof(*a->transports));
    a->registrations = calloc(n_pes, sizeof(*a->registrations));
    if (!a->links || !a->transports || !a->registrations)
        return px_error_errno(error, ENOMEM, "describing the node");
    if (!a->machine->described)
        /* Without a driver the links stay unknown, and are shown so. */
        (void)px_topology_links(a->machine, NULL, a->links, NULL);
    for (size_t i = 0; i < n_pes * n_pes; i++)
        a->transports[i] = way_between(a, i / n_pes, i % n_pes);
    for (size_t pe = 0; pe < n_pes; pe++)
        a->registrations[pe] =
            px_info_registration(a->machine, a->plan->pes[pe].gpu, a->env.ib_disable_dmabuf);
    return PX_OK;
}

static px_status find_answer(const struct request *request, struct answer *a,
                             struct px_error *error)
{
    px_topology_pci gpus[PX_TOPOLOGY_GPUS_MAX];
    struct px_topology_source source = {
        .xml_file = request->file, .sysfs = request->sysfs, .gpus = gpus};
    /* Without NVML hwloc has to find the GPUs. */
    if (!request->file && px_topology_driver_gpus(NULL, gpus, &source.n_gpus, NULL) != PX_OK)
        (void)px_topology_visible_gpus(NULL, gpus, &source.n_gpus, NULL);
    px_status status = px_env_read(&a->env, error);
    if (status == PX_OK)
        status = px_topology_read(&source, &a->machine, error);
    if (status == PX_OK && !request->file && px_env_is_set("HWLOC_XMLFILE") &&
        !a->machine->described)
        status = px_error_set(
            error, PX_ERR_INVALID,
            "hwloc cannot read the file that HWLOC_XMLFILE names, and describes this node instead");
    if (status == PX_OK)
        status = describe_pes(request, a, error);
    if (status != PX_OK)
        return status;
    const struct px_topology_options options = {
        .nic_pe_mapping = a->env.enable_nic_pe_mapping,
        .hca_list = a->env.hca_list,
        .hca_pe_mapping = a->env.hca_pe_mapping,
        .hca_prefix = a->env.hca_prefix,
        .helper_cpus = a->env.helper_cpus,
    };
    status = px_topology_decide(a->machine, &options, a->pes, request->n_pes, &a->plan, error);
    return status == PX_OK ? describe_rest(request, a, error) : status;
}

static void finish(struct answer *a)
{
    free(a->registrations);
    free(a->transports);
    free(a->links);
    px_topology_plan_free(a->plan);
    free(a->cpus);
    free(a->pes);
    px_topology_free(a->machine);
    px_env_free(&a->env);
}

static void find_title(const struct request *request, struct answer *a)
{
    const char *name = request->file ? strrchr(request->file, '/') : NULL;
    if (request->file)
        snprintf(a->title, sizeof(a->title), "%s", name ? name + 1 : request->file);
    else if (gethostname(a->title, sizeof(a->title) - 1) != 0)
        snprintf(a->title, sizeof(a->title), "this node");
}

static int write_svg(const char *path, const struct px_info_node *node)
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!out)
        return px_info_fail(PX_INFO_FAILED, "%s: %s", path, strerror(errno));
    px_info_topology_svg(out, node);
    bool bad = ferror(out) != 0;
    bad |= out != stdout && fclose(out) != 0;
    return bad ? px_info_fail(PX_INFO_FAILED, "%s: could not be written", path) : PX_INFO_OK;
}

static int show(const struct request *request, const struct px_info_node *node)
{
    if (request->json)
        px_info_topology_json(stdout, node);
    if (!request->json && request->table)
        px_info_topology_table(stdout, node);
    if (!request->json && request->matrix)
        px_info_topology_matrix(stdout, node);
    return request->svg ? write_svg(request->svg, node) : PX_INFO_OK;
}

int px_info_topology(int argc, char **argv)
{
    struct request request;
    struct answer a = {.machine = NULL};
    struct px_error error = PX_ERROR_INIT;
    int result = parse_options(argc, argv, &request);
    if (result != PX_INFO_OK)
        return result;
    if (find_answer(&request, &a, &error) == PX_OK) {
        find_title(&request, &a);
        const struct px_info_node node = {
            .machine = a.machine,
            .plan = a.plan,
            .pes = a.pes,
            .links = a.links,
            .title = a.title,
            .transports = a.transports,
            .registrations = a.registrations,
        };
        result = show(&request, &node);
    } else {
        result = px_info_fail(PX_INFO_FAILED, "%s", error.text);
    }
    finish(&a);
    return result;
}
