/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of topology/. */
#ifndef PX_TOPOLOGY_PRIVATE_H
#define PX_TOPOLOGY_PRIVATE_H

#include <stdio.h>

#include "topology/topology.h"

/* Costs of several ranks, one above the other in one number, so that the sum over a whole node of a
 * lower rank never reaches one unit of the next. That takes about 80 bits. */
typedef __int128 px_match_cost;
#define PX_MATCH_NEVER ((px_match_cost)1 << 120)

/* Give each client one server so that the total is least: cost[client * n_servers + server] for
 * each pair, and `share` times the number of clients that were there before for each client of a
 * server (so the second pays 1, the third 2); load says how many were there from the start, and is
 * counted up. server_of is -1 for a client that may use no server. Exact; equal totals are decided
 * by the order of clients and servers alone. */
px_status px_match(size_t n_clients, size_t n_servers, const px_match_cost *cost,
                   px_match_cost share, size_t *load, int *server_of);

/* Ports that the user's lists, their state and their neighbours leave; `chosen[pe]` is the port
 * that a mapping fixes for a PE, -1 where distance decides. Warnings go to the stream. */
px_status px_topology_select(const struct px_topology_machine *machine,
                             const struct px_topology_options *options, size_t n_pes,
                             struct px_topology_verdict *ports, int *chosen, FILE *warnings,
                             struct px_error *error);

/* Set gpu, then nics, of each choice, with reasons. */
px_status px_topology_assign_gpus(const struct px_topology_machine *machine,
                                  const struct px_topology_pe *pes, struct px_topology_plan *plan,
                                  struct px_error *error);
px_status px_topology_assign_nics(const struct px_topology_machine *machine,
                                  const struct px_topology_pe *pes, const int *chosen,
                                  struct px_topology_plan *plan, struct px_error *error);

/* "on the same PCI switch as" and so on: what follows is the other device. */
const char *px_topology_distance_phrase(enum px_topology_distance distance);

/* Whether a binding leaves the choice of the NUMA node open, or is not known. */
bool px_topology_unbound(const struct px_topology_machine *machine, uint64_t numa_mask);

/* How far a PE's processors are from a device; a PE that may run anywhere is near to all. */
enum px_topology_distance px_topology_cpu_distance(const struct px_topology_machine *machine,
                                                   uint64_t numa_mask,
                                                   const struct px_topology_place *place);

/* Processors for the helper threads of a PE that is bound to `own` (NULL: not known) and uses a
 * device at `near` (NULL: none). */
px_status px_topology_helpers(const struct px_topology_machine *machine, const char *wish,
                              const struct px_topology_cpus *own,
                              const struct px_topology_place *near,
                              struct px_topology_cpus *helpers, struct px_error *error);

/* Append to a fixed text; one that does not fit ends in "...". */
void px_topology_say(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A library of the driver, opened with all of these functions or not at all. The declarations beside
 * the uses are those of NVML's and CUDA's stable binary interfaces. */
struct px_topology_symbol {
    const char *name;
    void *slot;
};
void *px_topology_open_library(const char *name, const struct px_topology_symbol *symbols,
                               size_t n);
const char *px_topology_nvml_name(const struct px_topology_drivers *drivers);
const char *px_topology_cuda_name(const struct px_topology_drivers *drivers);

/* What sysfs adds to a port that hwloc named; leaves alone what it cannot read. */
void px_topology_sysfs_port(const char *sysfs, struct px_topology_port *port);
/* Number of ports of an RDMA device, 0 when sysfs does not know the device. */
unsigned px_topology_sysfs_n_ports(const char *sysfs, const char *device);
bool px_topology_sysfs_virtual(const char *sysfs, px_topology_pci pci);
/* The cxi device at an address; false leaves name alone. */
bool px_topology_sysfs_cxi(const char *sysfs, px_topology_pci pci, char name[PX_TOPOLOGY_NAME_MAX]);
/* The list in a file of a processor's folder: "thread_siblings_list" and so on. */
bool px_topology_sysfs_cpus(struct px_topology_cpus *cpus, size_t cpu, const char *what);

#endif
