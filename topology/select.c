/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ports may be used at all: the user's lists first, else what state, fabric, speed and
 * neighbours say.
 *
 * NVSHMEM_HCA_LIST and NVSHMEM_HCA_PE_MAPPING count whether or not NVSHMEM_ENABLE_NIC_PE_MAPPING
 * is set: NVIDIA's library ignores them without it, which nobody who sets them can want. The switch
 * decides how the ports of a list are given out: dealt in turn, or by distance. A port that the user
 * names is used whatever it is, but a name that leads to no working port is an error: another NIC
 * than the one asked for would be a worse answer. Names are otherwise never looked at: a NIC is known
 * by what it can do. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A port slower than the fastest by more than this is for management, not for the job. */
#define SLOW_FACTOR 4

struct entry {
    bool exclude;
    char device[PX_TOPOLOGY_NAME_MAX];
    unsigned port;  /* 0: all of them */
    unsigned count; /* PEs, in a mapping */
};

static bool is_set(const char *text)
{
    return text && text[0];
}

static bool parse_number(const char *text, unsigned *number)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || value == 0 || value > 65535)
        return false;
    *number = (unsigned)value;
    return true;
}

/* name, name:port or, in a mapping, name:port:count. Takes `text` apart. */
static bool parse_entry(char *text, bool mapping, struct entry *entry)
{
    *entry = (struct entry){.count = 1};
    if (*text == '^') {
        entry->exclude = true;
        text++;
    }
    char *port = strchr(text, ':'), *count = NULL;
    if (port)
        *port++ = '\0';
    if (port && mapping && (count = strchr(port, ':')))
        *count++ = '\0';
    if (text[0] == '\0' || strlen(text) >= sizeof(entry->device) ||
        (mapping && (entry->exclude || !port)))
        return false;
    if ((port && !parse_number(port, &entry->port)) ||
        (count && !parse_number(count, &entry->count)))
        return false;
    memcpy(entry->device, text, strlen(text) + 1);
    return true;
}

static size_t count_entries(const char *list)
{
    size_t n = 1;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

static px_status parse_list(const char *variable, const char *list, bool mapping,
                            struct entry **entries, size_t *n_entries, struct px_error *error)
{
    size_t n = 0;
    char *copy = strdup(list);
    struct entry *result = calloc(count_entries(list), sizeof(*result));
    if (!copy || !result) {
        free(copy);
        free(result);
        return px_error_errno(error, ENOMEM, "reading %s", variable);
    }
    char *rest = copy;
    for (char *item; (item = strsep(&rest, ","));) {
        item += strspn(item, " ");
        item[strcspn(item, " ")] = '\0';
        char shown[PX_TOPOLOGY_NAME_MAX * 2];
        snprintf(shown, sizeof(shown), "%s", item);
        if (parse_entry(item, mapping, &result[n++]))
            continue;
        free(copy);
        free(result);
        return px_error_set(
            error, PX_ERR_INVALID, "%s: \"%s\" in \"%s\" is not %s; ports and counts start at 1",
            variable, shown, list,
            mapping ? "device:port or device:port:count" : "device, device:port or ^device");
    }
    free(copy);
    *entries = result;
    *n_entries = n;
    return PX_OK;
}

static bool names(const struct entry *entry, const struct px_topology_port *port)
{
    return strcmp(entry->device, port->device) == 0 &&
           (entry->port == 0 || entry->port == port->number);
}

/* "mlx5_0:1, mlx5_1:1 (down)" */
static void list_ports(const struct px_topology_machine *machine, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < machine->n_ports; i++)
        px_topology_say(text, size, "%s%s:%u%s", i ? ", " : "", machine->ports[i].device,
                        machine->ports[i].number,
                        machine->ports[i].state == PX_TOPOLOGY_DOWN ? " (down)" : "");
    if (machine->n_ports == 0)
        px_topology_say(text, size, "none");
}

static void set_aside(struct px_topology_verdict *verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void set_aside(struct px_topology_verdict *verdict, const char *format, ...)
{
    if (!verdict->usable)
        return;
    va_list args;
    va_start(args, format);
    verdict->usable = false;
    vsnprintf(verdict->reason, sizeof(verdict->reason), format, args);
    va_end(args);
}

static void drop_down(const struct px_topology_machine *machine, struct px_topology_verdict *ports)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (machine->ports[i].state == PX_TOPOLOGY_DOWN)
            set_aside(&ports[i], "the port is down");
}

/* Where the system owns a device it should not use its virtual functions, which are for guests; a
 * guest has no more than those. They share the bus of the device they belong to. */
static void drop_virtual(const struct px_topology_machine *machine,
                         struct px_topology_verdict *ports)
{
    for (size_t i = 0; i < machine->n_ports; i++) {
        if (!machine->ports[i].virtual_function)
            continue;
        for (size_t j = 0; j < machine->n_ports; j++)
            if (ports[j].usable && !machine->ports[j].virtual_function &&
                machine->ports[j].pci >> 8 == machine->ports[i].pci >> 8)
                set_aside(&ports[i], "a virtual function, and %s is the device itself",
                          machine->ports[j].device);
    }
}

/* Ports of different fabrics cannot talk to each other, so a job needs all PEs on one: the one with
 * most to give. */
static void drop_other_fabrics(const struct px_topology_machine *machine,
                               struct px_topology_verdict *ports)
{
    uint64_t sum[PX_TOPOLOGY_SLINGSHOT + 1] = {0};
    enum px_topology_fabric best = PX_TOPOLOGY_FABRIC_UNKNOWN;
    for (size_t i = 0; i < machine->n_ports; i++)
        if (ports[i].usable)
            sum[machine->ports[i].fabric] += machine->ports[i].speed ? machine->ports[i].speed : 1;
    for (int fabric = PX_TOPOLOGY_INFINIBAND; fabric <= PX_TOPOLOGY_SLINGSHOT; fabric++)
        if (sum[fabric] > (best ? sum[best] : 0))
            best = (enum px_topology_fabric)fabric;
    for (size_t i = 0; i < machine->n_ports; i++)
        if (machine->ports[i].fabric && machine->ports[i].fabric != best)
            set_aside(&ports[i], "%s, and the faster fabric of the node is %s",
                      px_topology_fabric_words(machine->ports[i].fabric),
                      px_topology_fabric_words(best));
}

static void drop_slow(const struct px_topology_machine *machine, struct px_topology_verdict *ports)
{
    unsigned fastest = 0;
    for (size_t i = 0; i < machine->n_ports; i++)
        if (ports[i].usable && machine->ports[i].speed > fastest)
            fastest = machine->ports[i].speed;
    for (size_t i = 0; i < machine->n_ports; i++)
        if (machine->ports[i].speed && machine->ports[i].speed < fastest / SLOW_FACTOR)
            set_aside(&ports[i], "%g Gb/s, less than a quarter of the fastest port (%g Gb/s)",
                      machine->ports[i].speed / 1e3, fastest / 1e3);
}

static void select_by_merit(const struct px_topology_machine *machine,
                            struct px_topology_verdict *ports)
{
    drop_down(machine, ports);
    drop_virtual(machine, ports);
    drop_other_fabrics(machine, ports);
    drop_slow(machine, ports);
}

/* A list of ports to use must not end on another port because of a typing error. */
static px_status refuse_unknown(const struct px_topology_machine *machine,
                                const struct entry *entries, size_t n_entries,
                                struct px_error *error)
{
    char present[PX_TOPOLOGY_REASON_MAX], port[16] = "";
    for (size_t e = 0; e < n_entries; e++) {
        bool found = entries[e].exclude;
        for (size_t i = 0; i < machine->n_ports && !found; i++)
            found = names(&entries[e], &machine->ports[i]);
        if (found)
            continue;
        list_ports(machine, present, sizeof(present));
        if (entries[e].port)
            snprintf(port, sizeof(port), ":%u", entries[e].port);
        return px_error_set(error, PX_ERR_INVALID,
                            "NVSHMEM_HCA_LIST names %s%s, which this node does not have; it has %s",
                            entries[e].device, port, present);
    }
    return PX_OK;
}

/* Position of the last entry that decides about the port: an exclusion beats all, else the first
 * inclusion. */
static int listed_at(const struct entry *entries, size_t n_entries,
                     const struct px_topology_port *port)
{
    int at = -1;
    for (size_t e = 0; e < n_entries; e++) {
        if (!names(&entries[e], port))
            continue;
        if (entries[e].exclude)
            return -1;
        if (at < 0)
            at = (int)e;
    }
    return at;
}

static void keep_listed(const struct px_topology_machine *machine, const struct entry *entries,
                        size_t n_entries, struct px_topology_verdict *ports)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (listed_at(entries, n_entries, &machine->ports[i]) < 0)
            set_aside(&ports[i], "not in NVSHMEM_HCA_LIST");
    drop_down(machine, ports);
}

static void exclude_listed(const struct px_topology_machine *machine, const struct entry *entries,
                           size_t n_entries, struct px_topology_verdict *ports)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        for (size_t e = 0; e < n_entries; e++)
            if (names(&entries[e], &machine->ports[i]))
                set_aside(&ports[i], "excluded by NVSHMEM_HCA_LIST");
    select_by_merit(machine, ports);
}

/* The usable port that is dealt k-th: in the order of the list, or of the machine; -1 past the end.
 */
static int dealt(const struct px_topology_machine *machine, const struct entry *entries,
                 size_t n_entries, const struct px_topology_verdict *ports, size_t k)
{
    for (size_t e = 0; e < (n_entries ? n_entries : 1); e++)
        for (size_t i = 0; i < machine->n_ports; i++) {
            bool here =
                n_entries == 0 || listed_at(entries, n_entries, &machine->ports[i]) == (int)e;
            if (ports[i].usable && here && k-- == 0)
                return (int)i;
        }
    return -1;
}

static void deal(const struct px_topology_machine *machine, const struct entry *entries,
                 size_t n_entries, const struct px_topology_verdict *ports, size_t n_pes,
                 int *chosen)
{
    size_t n = 0;
    while (dealt(machine, entries, n_entries, ports, n) >= 0)
        n++;
    for (size_t pe = 0; pe < n_pes && n; pe++)
        chosen[pe] = dealt(machine, entries, n_entries, ports, pe % n);
}

static px_status select_list(const struct px_topology_machine *machine,
                             const struct px_topology_options *options, size_t n_pes,
                             struct px_topology_verdict *ports, int *chosen, struct px_error *error)
{
    struct entry *entries;
    size_t n_entries;
    px_status status =
        parse_list("NVSHMEM_HCA_LIST", options->hca_list, false, &entries, &n_entries, error);
    if (status != PX_OK)
        return status;
    /* A leading ^ turns the whole list round. */
    bool exclude = entries[0].exclude;
    status = exclude ? PX_OK : refuse_unknown(machine, entries, n_entries, error);
    if (status == PX_OK && exclude)
        exclude_listed(machine, entries, n_entries, ports);
    else if (status == PX_OK)
        keep_listed(machine, entries, n_entries, ports);
    if (status == PX_OK && options->nic_pe_mapping)
        deal(machine, entries, exclude ? 0 : n_entries, ports, n_pes, chosen);
    bool some = dealt(machine, NULL, 0, ports, 0) >= 0;
    free(entries);
    if (status != PX_OK || some)
        return status;
    char present[PX_TOPOLOGY_REASON_MAX];
    list_ports(machine, present, sizeof(present));
    return px_error_set(error, PX_ERR_INVALID,
                        "NVSHMEM_HCA_LIST \"%s\" leaves no usable port on this node, which has %s",
                        options->hca_list, present);
}

/* The port of one entry of a mapping. */
static px_status find_port(const struct px_topology_machine *machine, const struct entry *entry,
                           int *port, struct px_error *error)
{
    char present[PX_TOPOLOGY_REASON_MAX];
    list_ports(machine, present, sizeof(present));
    for (size_t i = 0; i < machine->n_ports; i++) {
        if (!names(entry, &machine->ports[i]))
            continue;
        if (machine->ports[i].state == PX_TOPOLOGY_DOWN)
            return px_error_set(error, PX_ERR_INVALID,
                                "NVSHMEM_HCA_PE_MAPPING gives %s:%u to a PE, but that port is "
                                "down; this node has %s",
                                entry->device, entry->port, present);
        *port = (int)i;
        return PX_OK;
    }
    return px_error_set(
        error, PX_ERR_INVALID,
        "NVSHMEM_HCA_PE_MAPPING gives %s:%u to a PE, but this node does not have it; it has %s",
        entry->device, entry->port, present);
}

/* The ports of the first PEs, and from the start again when there are more. */
static px_status select_mapping(const struct px_topology_machine *machine, const char *list,
                                size_t n_pes, struct px_topology_verdict *ports, int *chosen,
                                FILE *warnings, struct px_error *error)
{
    struct entry *entries;
    size_t n_entries, served = 0;
    px_status status =
        parse_list("NVSHMEM_HCA_PE_MAPPING", list, true, &entries, &n_entries, error);
    if (status != PX_OK)
        return status;
    for (size_t e = 0; e < n_entries && served < n_pes && status == PX_OK; e++) {
        int port = -1;
        status = find_port(machine, &entries[e], &port, error);
        for (unsigned k = 0; k < entries[e].count && served < n_pes && port >= 0; k++)
            chosen[served++] = port;
    }
    free(entries);
    if (status != PX_OK)
        return status;
    if (served < n_pes)
        fprintf(warnings,
                "NVSHMEM_HCA_PE_MAPPING \"%s\" serves %zu of the %zu PEs of this node (PEs are "
                "counted on each node from 0); it begins again for the others\n",
                list, served, n_pes);
    for (size_t pe = served; pe < n_pes; pe++)
        chosen[pe] = chosen[pe - served];
    for (size_t i = 0; i < machine->n_ports; i++) {
        bool given = false;
        for (size_t pe = 0; pe < n_pes && !given; pe++)
            given = chosen[pe] == (int)i;
        if (!given)
            set_aside(&ports[i], "given to no PE by NVSHMEM_HCA_PE_MAPPING");
    }
    return PX_OK;
}

px_status px_topology_select(const struct px_topology_machine *machine,
                             const struct px_topology_options *options, size_t n_pes,
                             struct px_topology_verdict *ports, int *chosen, FILE *warnings,
                             struct px_error *error)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        ports[i] = (struct px_topology_verdict){.usable = true};
    for (size_t pe = 0; pe < n_pes; pe++)
        chosen[pe] = -1;
    /* A list for the nodes that have NICs is no reason to fail on one that has none. */
    if (machine->n_ports == 0)
        return PX_OK;
    if (is_set(options->hca_list) && is_set(options->hca_pe_mapping))
        fprintf(warnings, "NVSHMEM_HCA_LIST is not used, for NVSHMEM_HCA_PE_MAPPING is set\n");
    if (is_set(options->hca_pe_mapping))
        return select_mapping(machine, options->hca_pe_mapping, n_pes, ports, chosen, warnings,
                              error);
    if (is_set(options->hca_prefix))
        for (size_t i = 0; i < machine->n_ports; i++)
            if (strncmp(machine->ports[i].device, options->hca_prefix,
                        strlen(options->hca_prefix)) != 0)
                set_aside(&ports[i], "the name does not begin with NVSHMEM_HCA_PREFIX, %.32s",
                          options->hca_prefix);
    if (is_set(options->hca_list))
        return select_list(machine, options, n_pes, ports, chosen, error);
    select_by_merit(machine, ports);
    if (options->nic_pe_mapping)
        deal(machine, NULL, 0, ports, n_pes, chosen);
    return PX_OK;
}
