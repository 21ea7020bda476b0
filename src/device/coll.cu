/* SPDX-License-Identifier: BSD-3-Clause */
/* Meetings of teams, and the collectives that move bytes: see team.h and coll.h. */
#define NVSHMEM_KERNELS 0 /* only what is below is wanted */
#include <nvshmemx.h>

#include "nvshmem_device/coll.h"

namespace nvshmemi
{

enum { DIRECT = 32 };

static __device__ __forceinline__ uint64_t *flags_of(const nvshmemi_team *team)
{
    return (uint64_t *)state().flags + (size_t)(team - state().teams) * NVSHMEMI_FLAGS;
}

/* What came before is seen by who sees the count; towards the proxy the fence is the caller's. */
static __device__ __forceinline__ void tell(const nvshmemi_team *team, int member, uint64_t *flag,
                                            uint64_t count)
{
    int pe = pe_of(team, member);
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE)
        store_release(at(flag, offset), count);
    else
        remote_value(flag, count, 8, pe);
}

static __device__ __forceinline__ void await(const uint64_t *flag, uint64_t count)
{
    while ((int64_t)(load_acquire(flag) - count) < 0)
        ;
}

static __device__ __forceinline__ void meet_in_rounds(const nvshmemi_team *team, uint64_t *flags,
                                                      uint64_t count)
{
    int round = 0;
    for (int distance = 1; distance < size_of(team); distance *= 2, round++) {
        int to = rank_of(team) + distance;
        tell(team, to < size_of(team) ? to : to - size_of(team), flags + round, count);
        await(flags + round, count);
        fence_system(); /* what was seen comes before what is told next */
    }
}

/* Arrive: what this group of threads did before comes before what the members do after. `part`: the
 * calling thread's number among the `parts` threads, all of one warp, that do it. */
__device__ void meet(nvshmemi_team *team, group threads)
{
    unsigned rank = threads.rank(), size = threads.size();
    unsigned parts = size < 32 ? size : 32;
    threads.sync();
    if (rank < parts) {
        uint64_t count = *(volatile uint64_t *)&team->epoch + 1;
        uint64_t *flags = flags_of(team);
        if (size_of(team) > DIRECT) {
            if (rank == 0) {
                fence_system();
                meet_in_rounds(team, flags, count);
            }
        } else {
            if (remote_of(team))
                fence_system();
            for (int i = rank; i < size_of(team); i += parts)
                if (i != rank_of(team))
                    tell(team, i, flags + rank_of(team), count);
            for (int i = rank; i < size_of(team); i += parts)
                if (i != rank_of(team))
                    await(flags + i, count);
        }
        if (size > 1)
            __syncwarp();
        if (rank == 0)
            *(volatile uint64_t *)&team->epoch = count;
    }
    threads.sync();
}

__device__ void complete(group threads)
{
    threads.sync();
    if (threads.rank() == 0)
        quiet(thread());
    threads.sync();
}

/* Bytes to one member, by all threads, without a meeting of them. */
__device__ void push(int pe, void *dest, const void *source, size_t bytes, group threads)
{
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE)
        copy<false, uint8_t>(at(dest, offset), source, bytes, threads);
    else if (threads.rank() == 0 && bytes)
        remote_put(dest, source, bytes, pe, false);
}

/* The other way, and the data is there for all threads. */
__device__ void pull(int pe, void *dest, const void *source, size_t bytes, group threads)
{
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE)
        copy<true, uint8_t>(dest, at(source, offset), bytes, threads);
    else if (threads.rank() == 0 && bytes)
        remote_get(dest, source, bytes, pe, true);
    threads.sync();
}

/* Everything is in place at the members, and they have arrived. */
__device__ void finish(nvshmemi_team *team, group threads)
{
    if (remote_of(team))
        complete(threads);
    meet(team, threads);
}

__device__ void broadcast_bytes(nvshmemi_team *team, void *dest, const void *source, size_t bytes,
                                int root, group threads)
{
    if (rank_of(team) == root) {
        threads.sync();
        for (int i = 0; i < size_of(team); i++) {
            int member = root + i < size_of(team) ? root + i : root + i - size_of(team);
            if (member != root || dest != source)
                push(pe_of(team, member), dest, source, bytes, threads);
        }
    }
    finish(team, threads);
}

__device__ void fcollect_bytes(nvshmemi_team *team, void *dest, const void *source, size_t bytes,
                               group threads)
{
    char *place = (char *)dest + rank_of(team) * bytes;
    threads.sync();
    for (int i = 0; i < size_of(team); i++) {
        int member = rank_of(team) + i < size_of(team) ? rank_of(team) + i : rank_of(team) + i - size_of(team);
        if (member != rank_of(team) || place != source)
            push(pe_of(team, member), place, source, bytes, threads);
    }
    finish(team, threads);
}

__device__ void alltoall_bytes(nvshmemi_team *team, void *dest, const void *source, size_t bytes,
                               group threads)
{
    char *place = (char *)dest + rank_of(team) * bytes;
    threads.sync();
    for (int i = 0; i < size_of(team); i++) {
        int member = rank_of(team) + i < size_of(team) ? rank_of(team) + i : rank_of(team) + i - size_of(team);
        push(pe_of(team, member), place, (const char *)source + member * bytes, bytes, threads);
    }
    finish(team, threads);
}

} // namespace nvshmemi
