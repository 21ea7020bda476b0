/* SPDX-License-Identifier: BSD-3-Clause */
/* hwloc's tree becomes the plain struct that all else works on. The only file that knows hwloc.
 *
 * The whole node is read, also what the job's cpuset excludes, because all PEs must see the same
 * machine. hwloc's plugins for CUDA, NVML and others stay off: they would start the GPU driver
 * behind the program's back, and in the wrong order. So does the one for libpciaccess: hwloc reads
 * the same from sysfs, and the names that libpciaccess adds cost time and memory that it never
 * gives back. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#define VENDOR_NVIDIA   0x10de
#define VENDOR_MELLANOX 0x15b3
#define VENDOR_AMAZON   0x1d0f
#define VENDOR_CRAY     0x17db

#define CLASS_VGA        0x0300
#define CLASS_3D         0x0302
#define CLASS_ETHERNET   0x0200
#define CLASS_INFINIBAND 0x0207

struct reader {
    hwloc_topology_t hwloc;
    const char *sysfs;
    struct px_topology_machine *machine;
};

void px_topology_free(struct px_topology_machine *machine)
{
    if (!machine)
        return;
    free(machine->packages);
    free(machine->cores);
    free(machine->numas);
    free(machine->gpus);
    free(machine->ports);
    free(machine);
}

static px_status load(const struct px_topology_source *source, hwloc_topology_t *topology,
                      struct px_error *error)
{
    static const char *const plugins[] = {"cuda", "nvml",      "opencl", "gl",
                                          "rsmi", "levelzero", "pci"};
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0)
        return px_error_errno(error, ENOMEM, "hwloc_topology_init");
    for (size_t i = 0; i < sizeof(plugins) / sizeof(plugins[0]); i++)
        /* Fails for a plugin that this hwloc does not have, which is as good. */
        (void)hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            plugins[i]);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    errno = 0;
    if ((source->xml_file && hwloc_topology_set_xml(t, source->xml_file) != 0) ||
        hwloc_topology_load(t) != 0) {
        int errnum = errno ? errno : EINVAL;
        hwloc_topology_destroy(t);
        if (source->xml_file)
            return px_error_set(error, PX_ERR_INVALID,
                                "%s is not a topology that hwloc can read (XML of hwloc 2, as "
                                "lstopo writes): %s",
                                source->xml_file, strerror(errnum));
        return px_error_errno(error, errnum, "hwloc_topology_load");
    }
    *topology = t;
    return PX_OK;
}

static struct px_topology_cpus cpus_of(hwloc_const_bitmap_t bitmap)
{
    struct px_topology_cpus cpus = {{0}};
    for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0 && cpu < PX_TOPOLOGY_CPUS_MAX;
         cpu = hwloc_bitmap_next(bitmap, cpu))
        px_topology_cpus_add(&cpus, (size_t)cpu);
    return cpus;
}

/* The processor sets of all objects of a kind. */
static px_status read_sets(struct reader *r, hwloc_obj_type_t type, struct px_topology_cpus **sets,
                           size_t *n_sets)
{
    int n = hwloc_get_nbobjs_by_type(r->hwloc, type);
    *sets = calloc((size_t)(n > 0 ? n : 1), sizeof(**sets));
    if (!*sets)
        return PX_ERR_NO_MEMORY;
    for (int i = 0; i < n; i++)
        (*sets)[i] = cpus_of(hwloc_get_obj_by_type(r->hwloc, type, (unsigned)i)->cpuset);
    *n_sets = (size_t)(n > 0 ? n : 0);
    return PX_OK;
}

static int package_around(const struct px_topology_machine *machine,
                          const struct px_topology_cpus *cpus)
{
    for (size_t i = 0; i < machine->n_packages; i++)
        if (px_topology_cpus_within(cpus, &machine->packages[i]))
            return (int)i;
    return -1;
}

static bool same_cpus(const struct px_topology_cpus *a, const struct px_topology_cpus *b)
{
    return px_topology_cpus_within(a, b) && px_topology_cpus_within(b, a);
}

/* Memory of GPUs and of other devices is a NUMA node, too, with no processors or those of a whole
 * package; two kinds of memory can serve the same processors. What counts here are the smallest
 * groups of processors that share memory. */
static bool is_new_domain(const struct px_topology_machine *machine, hwloc_topology_t hwloc,
                          size_t n_nodes, const struct px_topology_cpus *cpus)
{
    if (px_topology_cpus_empty(cpus))
        return false;
    for (size_t i = 0; i < machine->n_numas; i++)
        if (same_cpus(&machine->numas[i].cpus, cpus))
            return false;
    for (size_t i = 0; i < n_nodes; i++) {
        struct px_topology_cpus other =
            cpus_of(hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_NUMANODE, (unsigned)i)->cpuset);
        if (!px_topology_cpus_empty(&other) && px_topology_cpus_within(&other, cpus) &&
            !same_cpus(&other, cpus))
            return false;
    }
    return true;
}

static px_status read_numas(struct reader *r)
{
    struct px_topology_machine *machine = r->machine;
    int n = hwloc_get_nbobjs_by_type(r->hwloc, HWLOC_OBJ_NUMANODE);
    size_t n_nodes = n > 0 ? (size_t)n : 0;
    machine->numas = calloc(n_nodes + 1, sizeof(*machine->numas));
    if (!machine->numas)
        return PX_ERR_NO_MEMORY;
    for (size_t i = 0; i < n_nodes && machine->n_numas < PX_TOPOLOGY_NUMAS_MAX; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(r->hwloc, HWLOC_OBJ_NUMANODE, (unsigned)i);
        struct px_topology_cpus cpus = cpus_of(node->cpuset);
        if (!is_new_domain(machine, r->hwloc, n_nodes, &cpus))
            continue;
        machine->numas[machine->n_numas++] = (struct px_topology_numa){
            .cpus = cpus, .package = package_around(machine, &cpus), .os_index = node->os_index};
    }
    return PX_OK;
}

static px_status read_processors(struct reader *r)
{
    struct px_topology_machine *machine = r->machine;
    machine->cpus = cpus_of(hwloc_topology_get_topology_cpuset(r->hwloc));
    machine->allowed = cpus_of(hwloc_topology_get_allowed_cpuset(r->hwloc));
    px_status status = read_sets(r, HWLOC_OBJ_PACKAGE, &machine->packages, &machine->n_packages);
    if (status != PX_OK)
        return status;
    if (machine->n_packages == 0) { /* some virtual machines tell of none */
        machine->packages[0] = machine->cpus;
        machine->n_packages = 1;
    }
    status = read_sets(r, HWLOC_OBJ_CORE, &machine->cores, &machine->n_cores);
    return status == PX_OK ? read_numas(r) : status;
}

/* ---- devices ---- */

static struct px_topology_place place_of(const struct reader *r, hwloc_obj_t device)
{
    struct px_topology_place place = {.package = -1, .numa = -1, .host_bridge = -1};
    hwloc_obj_t at, path[PX_TOPOLOGY_BRIDGES_MAX];
    size_t depth = 0;
    for (at = device; at && !at->cpuset; at = at->parent) {
        if (at->type != HWLOC_OBJ_BRIDGE)
            continue;
        if (at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST)
            place.host_bridge = (int)at->gp_index;
        else if (depth < PX_TOPOLOGY_BRIDGES_MAX)
            path[depth++] = at;
    }
    while (depth)
        place.bridges[place.n_bridges++] = (int)path[--depth]->gp_index;
    if (!at)
        return place;
    struct px_topology_cpus cpus = cpus_of(at->cpuset);
    place.package = package_around(r->machine, &cpus);
    for (size_t i = 0; i < r->machine->n_numas && place.numa < 0; i++)
        if (px_topology_cpus_within(&cpus, &r->machine->numas[i].cpus))
            place.numa = (int)i;
    return place;
}

static px_topology_pci pci_of(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
    return (uint64_t)a->domain << 16 | (uint64_t)a->bus << 8 | (uint64_t)a->dev << 3 | a->func;
}

static void *grow(void *array, size_t n, size_t size)
{
    /* Powers of two, so that this is called seldom. */
    return n & (n - 1) ? array : realloc(array, (n ? 2 * n : 1) * size);
}

static px_status add_gpu(struct px_topology_machine *machine, const struct px_topology_gpu *gpu)
{
    struct px_topology_gpu *gpus = grow(machine->gpus, machine->n_gpus, sizeof(*gpus));
    if (!gpus)
        return PX_ERR_NO_MEMORY;
    machine->gpus = gpus;
    gpus[machine->n_gpus++] = *gpu;
    return PX_OK;
}

static px_status add_port(struct px_topology_machine *machine, const struct px_topology_port *port)
{
    struct px_topology_port *ports = grow(machine->ports, machine->n_ports, sizeof(*ports));
    if (!ports)
        return PX_ERR_NO_MEMORY;
    machine->ports = ports;
    ports[machine->n_ports++] = *port;
    return PX_OK;
}

static bool is_gpu(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
    return a->vendor_id == VENDOR_NVIDIA && (a->class_id == CLASS_3D || a->class_id == CLASS_VGA);
}

static px_status read_gpus(struct reader *r)
{
    for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(r->hwloc, pci));) {
        if (!is_gpu(pci))
            continue;
        const char *name = hwloc_obj_get_info_by_name(pci, "PCIDevice");
        struct px_topology_gpu gpu = {.pci = pci_of(pci), .place = place_of(r, pci)};
        px_topology_say(gpu.name, sizeof(gpu.name), "%s", name ? name : "");
        px_status status = add_gpu(r->machine, &gpu);
        if (status != PX_OK)
            return status;
    }
    return PX_OK;
}

/* GPUs that the driver knows and hwloc does not: in a container without the PCI part of sysfs. */
static px_status add_driver_gpus(struct px_topology_machine *machine, const px_topology_pci *gpus,
                                 size_t n_gpus)
{
    for (size_t i = 0; i < n_gpus; i++) {
        if (px_topology_find_gpu(machine, gpus[i]) >= 0)
            continue;
        px_status status = add_gpu(
            machine, &(struct px_topology_gpu){
                         .pci = gpus[i], .place = {.package = -1, .numa = -1, .host_bridge = -1}});
        if (status != PX_OK)
            return status;
    }
    return PX_OK;
}

static hwloc_obj_t pci_above(hwloc_obj_t device)
{
    while (device && device->type != HWLOC_OBJ_PCI_DEVICE)
        device = device->cpuset ? NULL : device->parent;
    return device;
}

/* Mellanox gives each generation an even number for its virtual functions, up to one that serves
 * all newer ones. */
static bool is_virtual(const struct reader *r, hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
    if (r->sysfs && px_topology_sysfs_virtual(r->sysfs, pci_of(pci)))
        return true;
    return a->vendor_id == VENDOR_MELLANOX && a->device_id >= 0x1014 && a->device_id <= 0x101e &&
           a->device_id % 2 == 0;
}

static enum px_topology_fabric guess_fabric(hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *a = &pci->attr->pcidev;
    if (a->class_id == CLASS_INFINIBAND)
        return PX_TOPOLOGY_INFINIBAND;
    if (a->vendor_id == VENDOR_CRAY)
        return PX_TOPOLOGY_SLINGSHOT;
    if (a->vendor_id == VENDOR_AMAZON)
        return PX_TOPOLOGY_EFA;
    return a->class_id == CLASS_ETHERNET ? PX_TOPOLOGY_ROCE : PX_TOPOLOGY_FABRIC_UNKNOWN;
}

static const char *port_info(hwloc_obj_t device, unsigned number, const char *what)
{
    char key[32];
    snprintf(key, sizeof(key), "Port%u%s", number, what);
    return hwloc_obj_get_info_by_name(device, key);
}

/* hwloc knows the state; the speed ("Port1Rate", in Gb/s) is there only if whoever wrote the file
 * put it there. */
static void read_port(const struct reader *r, hwloc_obj_t device, struct px_topology_port *port)
{
    const char *state = port_info(device, port->number, "State"),
               *rate = port_info(device, port->number, "Rate");
    if (state)
        port->state = atoi(state) == 4 ? PX_TOPOLOGY_UP : PX_TOPOLOGY_DOWN;
    double speed = rate ? strtod(rate, NULL) : 0;
    if (speed > 0 && speed < 1e6)
        port->speed = (unsigned)(speed * 1000);
    if (r->sysfs)
        px_topology_sysfs_port(r->sysfs, port);
}

static unsigned count_ports(const struct reader *r, hwloc_obj_t device)
{
    unsigned n = r->sysfs ? px_topology_sysfs_n_ports(r->sysfs, device->name) : 0;
    while (n < 255 && port_info(device, n + 1, "State"))
        n++;
    return n ? n : 1;
}

static px_status add_device(struct reader *r, hwloc_obj_t device, const char *name)
{
    hwloc_obj_t pci = pci_above(device);
    struct px_topology_port port = {.pci = PX_TOPOLOGY_PCI_NONE, .place = place_of(r, device)};
    if (strlen(name) >= sizeof(port.device))
        return PX_OK; /* the kernel's limit is the same: not a device that can be opened */
    memcpy(port.device, name, strlen(name) + 1);
    if (pci) {
        port.pci = pci_of(pci);
        port.fabric = guess_fabric(pci);
        port.virtual_function = is_virtual(r, pci);
    }
    unsigned n_ports = count_ports(r, device);
    for (port.number = 1; port.number <= n_ports; port.number++) {
        struct px_topology_port copy = port;
        read_port(r, device, &copy);
        px_status status = add_port(r->machine, &copy);
        if (status != PX_OK)
            return status;
    }
    return PX_OK;
}

static bool is_known(const struct px_topology_machine *machine, px_topology_pci pci,
                     const char *name)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (machine->ports[i].pci == pci || strcmp(machine->ports[i].device, name) == 0)
            return true;
    return false;
}

static px_status read_rdma(struct reader *r)
{
    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_osdev(r->hwloc, device));) {
        if (device->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS || !device->name)
            continue;
        bool twice = false; /* a bond may be listed below each of its members */
        for (size_t i = 0; i < r->machine->n_ports; i++)
            twice |= strcmp(r->machine->ports[i].device, device->name) == 0;
        px_status status = twice ? PX_OK : add_device(r, device, device->name);
        if (status != PX_OK)
            return status;
    }
    return PX_OK;
}

/* hwloc sees a Slingshot NIC as the network interface hsnN only; libfabric calls it cxiN. */
static px_status read_slingshot(struct reader *r)
{
    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_osdev(r->hwloc, device));) {
        hwloc_obj_t pci = pci_above(device);
        char name[PX_TOPOLOGY_NAME_MAX];
        if (!pci || pci->attr->pcidev.vendor_id != VENDOR_CRAY || !device->name ||
            device->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK)
            continue;
        if (!r->sysfs || !px_topology_sysfs_cxi(r->sysfs, pci_of(pci), name))
            snprintf(name, sizeof(name), "cxi%.8s",
                     device->name + strcspn(device->name, "0123456789"));
        px_status status =
            is_known(r->machine, pci_of(pci), name) ? PX_OK : add_device(r, device, name);
        if (status != PX_OK)
            return status;
    }
    return PX_OK;
}

static int compare_gpus(const void *a, const void *b)
{
    const struct px_topology_gpu *x = a, *y = b;
    return x->pci < y->pci ? -1 : x->pci > y->pci;
}

/* Names decide only where nothing else can: among devices without a PCI address. */
static int compare_ports(const void *a, const void *b)
{
    const struct px_topology_port *x = a, *y = b;
    if (x->pci != y->pci)
        return x->pci < y->pci ? -1 : 1;
    int order = x->pci == PX_TOPOLOGY_PCI_NONE ? strcmp(x->device, y->device) : 0;
    return order ? order : x->number < y->number ? -1 : x->number > y->number;
}

static px_status sort_gpus(struct px_topology_machine *machine, struct px_error *error)
{
    if (machine->n_gpus > PX_TOPOLOGY_GPUS_MAX)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "%zu GPUs on one node: at most %d are supported", machine->n_gpus,
                            PX_TOPOLOGY_GPUS_MAX);
    if (machine->n_gpus)
        qsort(machine->gpus, machine->n_gpus, sizeof(*machine->gpus), compare_gpus);
    return PX_OK;
}

px_status px_topology_add_gpus(struct px_topology_machine *machine, const px_topology_pci *gpus,
                               size_t n_gpus, struct px_error *error)
{
    if (add_driver_gpus(machine, gpus, n_gpus) != PX_OK)
        return px_error_errno(error, ENOMEM, "reading the topology");
    return sort_gpus(machine, error);
}

static px_status read_devices(struct reader *r, const struct px_topology_source *source,
                              struct px_error *error)
{
    px_status status = read_gpus(r);
    if (status == PX_OK)
        status = add_driver_gpus(r->machine, source->gpus, source->n_gpus);
    if (status == PX_OK)
        status = read_rdma(r);
    if (status == PX_OK)
        status = read_slingshot(r);
    if (status != PX_OK)
        return px_error_errno(error, ENOMEM, "reading the topology");
    if (r->machine->n_ports)
        qsort(r->machine->ports, r->machine->n_ports, sizeof(*r->machine->ports), compare_ports);
    return sort_gpus(r->machine, error);
}

px_status px_topology_read(const struct px_topology_source *source,
                           struct px_topology_machine **machine, struct px_error *error)
{
    static const struct px_topology_source here;
    struct reader r = {.machine = NULL};
    source = source ? source : &here;
    px_status status = load(source, &r.hwloc, error);
    if (status != PX_OK)
        return status;
    r.machine = calloc(1, sizeof(*r.machine));
    status = r.machine ? PX_OK : px_error_errno(error, ENOMEM, "reading the topology");
    if (status != PX_OK)
        goto destroy_topology;
    /* HWLOC_XMLFILE can describe another machine as well. */
    r.machine->described = !hwloc_topology_is_thissystem(r.hwloc);
    r.sysfs = source->sysfs || r.machine->described ? source->sysfs : "/sys";
    if (read_processors(&r) != PX_OK)
        status = px_error_errno(error, ENOMEM, "reading the topology");
    if (status == PX_OK)
        status = read_devices(&r, source, error);
    if (status == PX_OK)
        *machine = r.machine;
    else
        px_topology_free(r.machine);
destroy_topology:
    hwloc_topology_destroy(r.hwloc);
    return status;
}
