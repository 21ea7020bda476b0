/* SPDX-License-Identifier: BSD-3-Clause */
/* Between pxshmem-info and its subjects: one file each, which takes the whole command line. */
#ifndef PX_TOOLS_INFO_H
#define PX_TOOLS_INFO_H

#include <stdbool.h>
#include <stdio.h>

#include "topology/topology.h"

enum { PX_INFO_OK = 0, PX_INFO_FAILED = 1, PX_INFO_USAGE = 2 };

/* Print "pxshmem-info: ..." on stderr and return the exit status given. */
int px_info_fail(int exit_status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A subject: returns the exit status. */
int px_info_topology(int argc, char **argv);
int px_info_check(int argc, char **argv);
int px_info_transports(int argc, char **argv);
int px_info_environment(int argc, char **argv);
int px_info_build(int argc, char **argv);
int px_info_version(int argc, char **argv);

/* What the pages about the topology show. The last three are what the library would do, as far as
 * can be known without a job; whoever runs a job fills them with what it does. */
struct px_info_node {
    const struct px_topology_machine *machine;
    const struct px_topology_plan *plan;
    const struct px_topology_pe *pes;
    const enum px_topology_link *links; /* between GPUs, as px_topology_links gives them */
    const char *title;
    const char *const *transports;    /* n_pes * n_pes words, a row per PE */
    const char *const *registrations; /* a word per PE */
};

/* dma-buf, peermem, staging, host memory, or not known: how the memory of a PE with that GPU would
 * be registered. */
const char *px_info_registration(const struct px_topology_machine *machine, int gpu,
                                 bool no_dmabuf);

/* Whether some PE uses the port. */
bool px_info_port_is_given(const struct px_topology_plan *plan, size_t port);

void px_info_topology_table(FILE *out, const struct px_info_node *node);
void px_info_topology_matrix(FILE *out, const struct px_info_node *node);
void px_info_topology_json(FILE *out, const struct px_info_node *node);
void px_info_topology_svg(FILE *out, const struct px_info_node *node);

#endif
