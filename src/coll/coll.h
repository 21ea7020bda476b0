/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams and collectives, untyped: bytes, element counts and a data type number. Called by src/api,
 * which has checked its arguments; calls move.h and wait.h. All functions are collective over the
 * team unless they say otherwise.
 *
 * Every meeting carries a digest of the call and its arguments, so that PEs that disagree find out
 * as soon as they meet: the message names call, arguments and PEs. */
#ifndef PX_COLL_COLL_H
#define PX_COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/coll/dtype.h"
#include "src/diag/error.h"

struct px_team;

/* Slots of the predefined teams; their handles are PX_TEAM_HANDLE_BASE + slot, as in nvshmem.h. */
enum {
    PX_TEAM_WORLD,
    PX_TEAM_SHARED,
    PX_TEAM_NODE,
    PX_TEAM_SAME_MYPE_NODE,
    PX_TEAM_SAME_GPU,
    PX_TEAM_GPU_LEADERS,
    PX_TEAM_PREDEFINED
};
#define PX_TEAM_HANDLE_BASE 0
#define PX_TEAMS_LIMIT      65536

/* Handles are small integers (NVSHMEM_TEAM_WORLD ...); NULL for invalid or destroyed ones. Local.
 */
struct px_team *px_team_of(int32_t handle);
int32_t px_team_handle(const struct px_team *team);
struct px_team *px_team_world(void); /* NULL before px_coll_open */
bool px_team_predefined(const struct px_team *team);
long px_team_contexts(const struct px_team *team); /* num_contexts of its configuration */
void px_team_set_contexts(struct px_team *team, long num_contexts);
uint32_t px_team_slot(const struct px_team *team); /* the same at all members, below max_teams */
uint32_t px_team_rank(const struct px_team *team); /* my number in it */
uint32_t px_team_size(const struct px_team *team);
uint32_t px_team_pe(const struct px_team *team, uint32_t member); /* world PE of a member */
/* Meetings so far: the same on all members between two of them, and later than any of a team that had
 * this slot before. */
uint32_t px_team_epoch(const struct px_team *team);
int px_team_find(const struct px_team *team, uint32_t pe); /* member number of a world PE, -1 */

/* What the collectives need to know of the job; node_of[pe] from the bootstrap. */
struct px_coll_setup {
    uint32_t my_pe, n_pes;
    const uint32_t *node_of;
    const uint32_t *gpu_of; /* the first PE that uses the same GPU; NULL without GPUs. Read while opening only */
    uintptr_t base; /* start of the symmetric window; team slots start at base + PX_CONTROL_BYTES */
    uint32_t max_teams; /* slots */
    const struct px_env *env;
    uintptr_t stages; /* max_teams times PX_COLL_STAGE_BYTES of host memory in the control area, where
                         programs' memory is a GPU's; else 0 */
};
#define PX_COLL_STAGE_BYTES ((size_t)512 << 10)
/* Local: makes the predefined teams. px_peers must be complete; the control area must be mapped by
 * all peers before the first collective. On failure nothing is left. */
px_status px_coll_open(const struct px_coll_setup *setup, struct px_error *error);
void px_coll_close(void);
void px_coll_remap(
    void); /* px_peers has changed (reinit): look up all flags anew; no collective is under way */
size_t px_coll_control_bytes(uint32_t max_teams, uint32_t n_pes); /* room for the team slots */

/* A call with its arguments, for digests and the hang report. The name must live and stay as it is:
 * a literal. */
struct px_call {
    const char *name;
    uint64_t arguments[4];
    uint8_t own; /* bit i: argument i may differ between the members */
};

/* sync: local stores visible, all PEs met. barrier: quiet first. */
void px_sync(struct px_team *team, const struct px_call *call);
void px_barrier(struct px_team *team, const struct px_call *call);

/* Minimum over the team of a value, as one meeting (used by malloc: NULL everywhere or nowhere). */
uint64_t px_agree_min(struct px_team *team, uint64_t value, const struct px_call *call);

/* Sizes in bytes. `source` may be changed when the call returns, `dest` is ready then. */
void px_broadcast(struct px_team *team, void *dest, const void *source, size_t bytes, uint32_t root,
                  const struct px_call *call);
/* Everyone gets the blocks of all members in their order: equal blocks, or each of its own size. */
void px_fcollect(struct px_team *team, void *dest, const void *source, size_t bytes,
                 const struct px_call *call);
void px_collect(struct px_team *team, void *dest, const void *source, size_t bytes,
                const struct px_call *call);
/* Block j of member i becomes block i of member j. */
void px_alltoall(struct px_team *team, void *dest, const void *source, size_t bytes,
                 const struct px_call *call);
/* The same for blocks of `count` elements of `width` bytes, strides in elements, at least 1. */
struct px_strides {
    size_t dest, source, count, width;
};
void px_alltoalls(struct px_team *team, void *dest, const void *source,
                  const struct px_strides *strides, const struct px_call *call);

/* Element-wise over the members; `count` elements. Everyone gets the same bits. dest == source is
 * allowed. */
struct px_arithmetic {
    enum px_dtype type;
    enum px_op op;
};
void px_reduce(struct px_team *team, void *dest, const void *source, size_t count,
               struct px_arithmetic arithmetic, const struct px_call *call);
/* source holds a block of `count` elements for each member, dest the result of the caller's block.
 * dest may overlap source, which then is left undefined. */
void px_reducescatter(struct px_team *team, void *dest, const void *source, size_t count,
                      struct px_arithmetic arithmetic, const struct px_call *call);
/* The result over members 0 to the caller, itself included or not. Exclusive: member 0 gets zeros.
 */
void px_scan(struct px_team *team, void *dest, const void *source, size_t count,
             struct px_arithmetic arithmetic, bool inclusive, const struct px_call *call);

/* far.c: the same for memory that the processor cannot reach. alltoalls does for both. */
void px_far_broadcast(struct px_team *team, void *dest, const void *source, size_t bytes,
                      uint32_t root, const struct px_call *call);
void px_far_fcollect(struct px_team *team, void *dest, const void *source, size_t bytes,
                     const struct px_call *call);
void px_far_collect(struct px_team *team, void *dest, const void *source, size_t bytes,
                    const struct px_call *call);
void px_far_alltoall(struct px_team *team, void *dest, const void *source, size_t bytes,
                     const struct px_call *call);
void px_far_reduce(struct px_team *team, void *dest, const void *source, size_t count,
                   struct px_arithmetic arithmetic, const struct px_call *call);
void px_far_reducescatter(struct px_team *team, void *dest, const void *source, size_t count,
                          struct px_arithmetic arithmetic, const struct px_call *call);
void px_far_scan(struct px_team *team, void *dest, const void *source, size_t count,
                 struct px_arithmetic arithmetic, bool inclusive, const struct px_call *call);

/* Returned by the calls that make teams, next to 0. */
#define PX_TEAM_REFUSED 1

/* Split: member start + i * stride of the parent becomes member i. All members of the parent call
 * and get the same return value, 0 or PX_TEAM_REFUSED (the reason is logged once); *child is NULL
 * for those left out. */
int px_team_split(struct px_team *parent, int64_t start, int64_t stride, int64_t size,
                  struct px_team **child, const struct px_call *call);
/* Rows of `xrange` members: one team along the row, one along the column. Both or none. */
int px_team_split_2d(struct px_team *parent, int64_t xrange, struct px_team **x, struct px_team **y,
                     const struct px_call *call);
/* A team of any `size` PEs that share an id, which one of them, or somebody else, has made; the
 * caller becomes member `index`. Collective over the members, with the same return value on all,
 * except that a wrong id is refused at once. */
px_status px_team_unique_id(uint64_t *id, struct px_error *error);
int px_team_join(uint64_t id, uint32_t size, uint32_t index, struct px_team **team,
                 const struct px_call *call);
/* Collective over the team, which is gone afterwards. Not for predefined ones. */
void px_team_destroy(struct px_team *team, const struct px_call *call);

#endif
