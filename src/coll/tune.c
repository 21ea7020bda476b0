/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm from which size on: all crossovers are here and in tune.h. They were measured with two to 32 PEs on
 * two processors, and over TCP between two nodes; the environment overrides them, with the same values on all PEs. */
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
        .short_bytes = env->coll_short_size,
        .reduce = levels_of(env->reduce_algo),
        .broadcast = levels_of(env->bcast_algo),
        .fcollect = levels_of(env->fcollect_algo),
    };
}
