/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device ports a PE uses: a decision over plain values, with a reason for each port that is
 * not used. */
#ifndef PX_TRANSPORT_VERBS_CHOOSE_H
#define PX_TRANSPORT_VERBS_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

#define PX_VERBS_NAME_MAX  64
#define PX_VERBS_PORTS_MAX 64
#define PX_VERBS_NICS_MAX  4 /* that one PE uses at once */

struct px_verbs_port {
    char device[PX_VERBS_NAME_MAX];
    uint8_t port;
    bool active;
    bool ethernet;    /* RoCE; ports of both kinds do not reach each other */
    char why_not[96]; /* filled by the choice: "" when used */
};

struct px_verbs_rules {
    const char *list;    /* NVSHMEM_HCA_LIST: NAME[:PORT],... or ^NAME[:PORT],... */
    const char *mapping; /* NVSHMEM_HCA_PE_MAPPING: NAME:PORT:COUNT,... */
    const char *prefix;  /* NVSHMEM_HCA_PREFIX */
    const char
        *nearest; /* what topology found: names in order of preference, comma list; "" not known */
    bool deal;    /* NVSHMEM_ENABLE_NIC_PE_MAPPING: deal ports to PEs round robin, one each */
    uint32_t local_rank;
};

/* Positions in `ports` of those to use, the first carries small messages. A list or mapping that
 * names a port which does not exist is an error that says which do. */
px_status px_verbs_choose_ports(struct px_verbs_port *ports, size_t count,
                                const struct px_verbs_rules *rules,
                                size_t chosen[PX_VERBS_NICS_MAX], size_t *n_chosen,
                                struct px_error *error);

#endif
