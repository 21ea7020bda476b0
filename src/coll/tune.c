/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm from which size on. The defaults, in env.tbl, were measured with two to 32 PEs on two processors, and
 * over TCP between two nodes; start-up makes sure that all PEs have the same. */
#include "config.h"
#include "src/coll/private.h"

#include <string.h>

#include "src/env/env.h"

static enum px_levels levels_of(const char *choice)
{
    if (choice && strcmp(choice, "one-level") == 0)
        return PX_LEVELS_ONE;
    if (choice && strcmp(choice, "two-level") == 0)
        return PX_LEVELS_TWO;
    return PX_LEVELS_AUTO;
}

struct px_tuning px_tune(const struct px_env *env)
{
    return (struct px_tuning){
        .direct_max = (uint32_t)env->team_direct_max,
        .direct_nodes = (uint32_t)env->team_direct_nodes,
        .short_bytes = env->coll_short_size,
        .short_folds = (uint32_t)env->reduce_short_folds,
        .pieces_groups = (uint32_t)env->bcast_pieces_nodes,
        .pieces_bytes = env->bcast_pieces_size,
        .reduce = levels_of(env->reduce_algo),
        .broadcast = levels_of(env->bcast_algo),
        .fcollect = levels_of(env->fcollect_algo),
    };
}
