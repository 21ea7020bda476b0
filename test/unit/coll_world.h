/* SPDX-License-Identifier: BSD-3-Clause */
/* A small job without a launcher: forked processes, each with its symmetric window at one agreed
 * address and the windows of its peers mapped elsewhere, so that what lies above px_peers can be
 * tested with any number of PEs and nodes. PEs of different nodes reach each other through the
 * shuffle transport, which delays and reorders what may be reordered. */
#ifndef PX_TEST_COLL_WORLD_H
#define PX_TEST_COLL_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coll_world {
    uint32_t n_pes;
    const uint32_t *node_of; /* NULL: all on one node */
    const uint32_t *gpu_of;  /* NULL: no GPUs */
    uint32_t seed;           /* of the shuffle transport */
    bool disable_p2p;
    uint32_t max_teams; /* 0: 64 */
    uint32_t seconds;   /* 0: 120, then a PE that still runs is killed */
};

/* In a PE: where its heap begins, the same on all. */
#define COLL_WORLD_HEAP       ((unsigned char *)0x500100000000u)
#define COLL_WORLD_HEAP_BYTES ((size_t)24 << 20)

extern uint32_t world_pe, world_size;

/* Run `body` in every PE; the number of PEs that failed (a check, a signal, an exit status). */
typedef void coll_body_fn(void *arg);
int coll_world_run(const struct coll_world *world, coll_body_fn *body, void *arg);

/* What the PEs of the last run said through the log, in one text. */
const char *coll_world_said(void);

/* In a PE: print and end it with failure. */
_Noreturn void world_failed(const char *file, int line, const char *what);
#define world_check(condition)                                                                     \
    ((condition) ? (void)0 : world_failed(__FILE__, __LINE__, #condition))

#endif
