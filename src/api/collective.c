/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations (9.10), untyped: find the team, check the arguments, describe the call so
 * that members that disagree are told apart, and pass on bytes. A team that is invalid or destroyed
 * gives a non-zero return. */
#include "config.h"
#include "src/api/collective.h"

#include "src/api/check.h"
#include "src/api/entry.h"
#include "src/api/world.h"
#include "src/coll/coll.h"
#include "src/diag/log.h"

#define BAD_TEAM 1

struct px_team *px_collective_team(nvshmem_team_t handle, const char *call)
{
    if (px_suspect_call())
        px_check_up(call);
    struct px_team *team = px_team_of(handle);
    if (!team && handle != NVSHMEM_TEAM_INVALID)
        px_warn("%s: %d is not a team of this PE: it was destroyed, or never made", call,
                (int)handle);
    return team;
}

/* `count` blocks of nelems elements each. */
void px_collective_check(const char *call, const char *argument, const void *address, size_t nelems,
                         size_t size, size_t blocks)
{
    if (px_suspect_call())
        px_check_symmetric(call, argument, address,
                           nelems <= SIZE_MAX / blocks ? nelems * blocks : SIZE_MAX, size);
}

/* An address as all PEs would say it. */
static uint64_t symmetric_address(const void *address)
{
    return (uintptr_t)address - (px_world.memory.apart ? px_world.memory.data : 0);
}

static struct px_call describe(const char *name, const void *dest, const void *source,
                               size_t nelems, uint64_t other)
{
    return (struct px_call){
        .name = name,
        .arguments = {symmetric_address(dest), symmetric_address(source), nelems, other}};
}

int px_api_barrier(nvshmem_team_t handle)
{
    static const struct px_call call = {.name = "nvshmem_barrier"};
    struct px_team *team = px_collective_team(handle, call.name);
    if (!team)
        return BAD_TEAM;
    px_barrier(team, &call);
    return 0;
}

void px_api_barrier_all(void)
{
    static const struct px_call call = {.name = "nvshmem_barrier_all"};
    if (px_suspect_call())
        px_check_up(call.name);
    px_barrier(px_team_world(), &call);
}

static int sync_team(nvshmem_team_t handle, const struct px_call *call)
{
    struct px_team *team = px_collective_team(handle, call->name);
    if (!team)
        return BAD_TEAM;
    px_sync(team, call);
    return 0;
}

int px_api_sync(nvshmem_team_t team)
{
    static const struct px_call call = {.name = "nvshmem_sync"};
    return sync_team(team, &call);
}

/* The same operation under its other name: members may mix the two. */
int px_api_team_sync(nvshmem_team_t team)
{
    return px_api_sync(team);
}

void px_api_sync_all(void)
{
    static const struct px_call call = {.name = "nvshmem_sync_all"};
    if (px_suspect_call())
        px_check_up(call.name);
    px_sync(px_team_world(), &call);
}

void px_collective_root(const char *call, const struct px_team *team, int root)
{
    if (root < 0 || (uint32_t)root >= px_team_size(team))
        px_fatal(1, "%s: root %d is not in the team, whose members are 0 to %u", call, root,
                 px_team_size(team) - 1);
}

int px_api_broadcast(nvshmem_team_t handle, void *dest, const void *source, size_t nelems,
                     size_t size, int root, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    px_collective_root(name, team, root);
    px_collective_check(name, "dest", dest, nelems, size, 1);
    px_collective_check(name, "source", source, nelems, size, 1);
    const struct px_call call = describe(name, dest, source, nelems, (uint64_t)root);
    (px_data_is_far() ? px_far_broadcast : px_broadcast)(team, dest, source, nelems * size,
                                                         (uint32_t)root, &call);
    return 0;
}

int px_api_fcollect(nvshmem_team_t handle, void *dest, const void *source, size_t nelems,
                    size_t size, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    px_collective_check(name, "dest", dest, nelems, size, px_team_size(team));
    px_collective_check(name, "source", source, nelems, size, 1);
    const struct px_call call = describe(name, dest, source, nelems, 0);
    (px_data_is_far() ? px_far_fcollect : px_fcollect)(team, dest, source, nelems * size, &call);
    return 0;
}

/* How much arrives in dest only the sizes of all members tell, so its end is not checked. */
int px_api_collect(nvshmem_team_t handle, void *dest, const void *source, size_t nelems,
                   size_t size, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    px_collective_check(name, "dest", dest, nelems, size, 1);
    px_collective_check(name, "source", source, nelems, size, 1);
    struct px_call call = describe(name, dest, source, nelems, 0);
    call.own = 1u << 2;
    (px_data_is_far() ? px_far_collect : px_collect)(team, dest, source, nelems * size, &call);
    return 0;
}

int px_api_alltoall(nvshmem_team_t handle, void *dest, const void *source, size_t nelems,
                    size_t size, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    px_collective_check(name, "dest", dest, nelems, size, px_team_size(team));
    px_collective_check(name, "source", source, nelems, size, px_team_size(team));
    const struct px_call call = describe(name, dest, source, nelems, 0);
    (px_data_is_far() ? px_far_alltoall : px_alltoall)(team, dest, source, nelems * size, &call);
    return 0;
}

static void check_stride(const char *call, const char *argument, ptrdiff_t stride)
{
    if (stride < 1)
        px_fatal(1, "%s: the stride of %s is %td; it is in elements and at least 1", call, argument,
                 stride);
}

/* From the first to the last of `nelems` elements for each member, `stride` apart. */
static void check_strided(const char *call, const char *argument, const void *address, size_t nelems,
                          size_t size, size_t blocks, size_t stride)
{
    size_t span;
    if (nelems == 0 || !px_suspect_call())
        return;
    if (__builtin_mul_overflow(nelems, blocks, &span) ||
        __builtin_mul_overflow(span - 1, stride, &span) || __builtin_add_overflow(span, 1, &span))
        span = SIZE_MAX;
    px_check_symmetric(call, argument, address, span, size);
}

int px_api_alltoalls(nvshmem_team_t handle, void *dest, const void *source, ptrdiff_t dest_stride,
                     ptrdiff_t source_stride, size_t nelems, size_t size, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    check_stride(name, "dest", dest_stride);
    check_stride(name, "source", source_stride);
    check_strided(name, "dest", dest, nelems, size, px_team_size(team), (size_t)dest_stride);
    check_strided(name, "source", source, nelems, size, px_team_size(team), (size_t)source_stride);
    uint64_t strides_word = (uint64_t)dest_stride << 32 ^ (uint64_t)source_stride;
    const struct px_call call = describe(name, dest, source, nelems, strides_word);
    const struct px_strides strides = {.dest = (size_t)dest_stride,
                                       .source = (size_t)source_stride,
                                       .count = nelems,
                                       .width = size};
    px_alltoalls(team, dest, source, &strides, &call);
    return 0;
}

/* Regions of a reduction are equal or apart. */
void px_collective_apart(const char *call, const void *dest, const void *source, size_t bytes)
{
    uintptr_t d = (uintptr_t)dest, s = (uintptr_t)source;
    size_t distance = d > s ? d - s : s - d;
    if (px_suspect_call() && distance && distance < bytes)
        px_fatal(1,
                 "%s: dest %p and source %p are %zu bytes apart and overlap in the %zu bytes to "
                 "reduce; they are "
                 "equal or apart",
                 call, dest, source, distance, bytes);
}

int px_api_reduce(nvshmem_team_t handle, void *dest, const void *source, size_t nreduce,
                  enum px_dtype type, enum px_op op, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    size_t size = px_dtype_info[type].size;
    px_collective_check(name, "dest", dest, nreduce, size, 1);
    px_collective_check(name, "source", source, nreduce, size, 1);
    px_collective_apart(name, dest, source, nreduce * size);
    const struct px_call call = describe(name, dest, source, nreduce, 0);
    (px_data_is_far() ? px_far_reduce : px_reduce)(team, dest, source, nreduce,
                                                   (struct px_arithmetic){type, op}, &call);
    return 0;
}

int px_api_reducescatter(nvshmem_team_t handle, void *dest, const void *source, size_t nreduce,
                         enum px_dtype type, enum px_op op, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    size_t size = px_dtype_info[type].size;
    px_collective_check(name, "dest", dest, nreduce, size, 1);
    px_collective_check(name, "source", source, nreduce, size, px_team_size(team));
    const struct px_call call = describe(name, dest, source, nreduce, 0);
    (px_data_is_far() ? px_far_reducescatter : px_reducescatter)(
        team, dest, source, nreduce, (struct px_arithmetic){type, op}, &call);
    return 0;
}

static int scan(nvshmem_team_t handle, void *dest, const void *source, size_t nreduce,
                struct px_arithmetic arithmetic, bool inclusive, const char *name)
{
    struct px_team *team = px_collective_team(handle, name);
    if (!team)
        return BAD_TEAM;
    size_t size = px_dtype_info[arithmetic.type].size;
    px_collective_check(name, "dest", dest, nreduce, size, 1);
    px_collective_check(name, "source", source, nreduce, size, 1);
    px_collective_apart(name, dest, source, nreduce * size);
    const struct px_call call = describe(name, dest, source, nreduce, 0);
    (px_data_is_far() ? px_far_scan : px_scan)(team, dest, source, nreduce, arithmetic, inclusive,
                                               &call);
    return 0;
}

int px_api_inscan(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                  enum px_dtype type, enum px_op op, const char *name)
{
    return scan(team, dest, source, nreduce, (struct px_arithmetic){type, op}, true, name);
}

int px_api_exscan(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                  enum px_dtype type, enum px_op op, const char *name)
{
    return scan(team, dest, source, nreduce, (struct px_arithmetic){type, op}, false, name);
}
