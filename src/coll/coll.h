/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams and collectives, untyped: bytes, element counts and a data type number. Called by src/api, which has checked its
 * arguments; calls move.h and wait.h. All functions are collective over the team unless they say otherwise.
 *
 * Every meeting carries a digest of the call and its arguments, so that PEs that disagree find out as soon as they
 * meet: the message names call, arguments and PEs. */
#ifndef PX_COLL_COLL_H
#define PX_COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

struct px_team;

/* Handles are small integers (NVSHMEM_TEAM_WORLD ...); NULL for invalid or destroyed ones. Local. */
struct px_team *px_team_of(int32_t handle);
int32_t px_team_handle(const struct px_team *team);
uint32_t px_team_rank(const struct px_team *team); /* my number in it */
uint32_t px_team_size(const struct px_team *team);
uint32_t px_team_pe(const struct px_team *team, uint32_t member); /* world PE of a member */
int px_team_find(const struct px_team *team, uint32_t pe);        /* member number of a world PE, -1 */

/* What the collectives need to know of the job; node_of[pe] from the bootstrap. */
struct px_coll_setup {
    uint32_t my_pe, n_pes;
    const uint32_t *node_of;
    uintptr_t base;      /* start of the symmetric window; team slots start at base + PX_CONTROL_BYTES */
    uint32_t max_teams;  /* slots */
    const struct px_env *env;
};
/* Local: makes the predefined teams. The control area must be mapped by all peers before the first collective. */
px_status px_coll_open(const struct px_coll_setup *setup, struct px_error *error);
void px_coll_close(void);
size_t px_coll_control_bytes(uint32_t max_teams, uint32_t n_pes); /* room for the team slots */

/* A call with its arguments, for digests and the hang report. */
struct px_call {
    const char *name;
    uint64_t arguments[4];
};

/* sync: local stores visible, all PEs met. barrier: quiet first. */
void px_sync(struct px_team *team, const struct px_call *call);
void px_barrier(struct px_team *team, const struct px_call *call);

/* Minimum over the team of a value, as one meeting (used by malloc: NULL everywhere or nowhere). */
uint64_t px_agree_min(struct px_team *team, uint64_t value, const struct px_call *call);

void px_broadcast(struct px_team *team, void *dest, const void *source, size_t bytes, uint32_t root,
                  const struct px_call *call);

#endif
