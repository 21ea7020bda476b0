/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams, and how their members meet. Each member has a row of words in its own memory and counts its
 * meetings. Up to 32 members, each tells every other by storing the count into its word there; larger
 * teams meet in rounds, each time twice as far. Counts only grow, so a member that is ahead by one
 * meeting is understood; a team that takes over a slot starts above all earlier counts.
 *
 * One group of threads of a PE takes part in a meeting of a team at a time. */
#ifndef NVSHMEM_DEVICE_TEAM_H
#define NVSHMEM_DEVICE_TEAM_H

#include "nvshmem_device/wait.h"

namespace nvshmemi
{

static __device__ __forceinline__ nvshmemi_team *team_of(nvshmem_team_t handle)
{
    unsigned slot = (unsigned)handle & 0xffff;
    if (handle < 0 || slot >= (unsigned)state().max_teams)
        return nullptr;
    nvshmemi_team *team = state().teams + slot;
    if (handle == NVSHMEM_TEAM_WORLD)
        return team;
    return team->handle == handle ? team : nullptr;
}

/* Of the team of all PEs everything is in the state: no load is waited for. */
static __device__ __forceinline__ bool is_world(const nvshmemi_team *team)
{
    return team == state().teams;
}

static __device__ __forceinline__ int size_of(const nvshmemi_team *team)
{
    return is_world(team) ? state().n_pes : team->size;
}

static __device__ __forceinline__ int rank_of(const nvshmemi_team *team)
{
    return is_world(team) ? state().my_pe : team->rank;
}

static __device__ __forceinline__ int remote_of(const nvshmemi_team *team)
{
    return is_world(team) ? state().any_remote : team->remote;
}

static __device__ __forceinline__ int pe_of(const nvshmemi_team *team, int member)
{
    if (is_world(team))
        return member;
    return team->list ? team->list[member] : team->start + member * team->stride;
}

static __device__ __forceinline__ int member_of(const nvshmemi_team *team, int pe)
{
    for (int i = 0; i < size_of(team); i++)
        if (pe_of(team, i) == pe)
            return i;
    return -1;
}

static __device__ __forceinline__ int team_my_pe(nvshmem_team_t handle, thread)
{
    const nvshmemi_team *team = team_of(handle);
    return team ? rank_of(team) : -1;
}

static __device__ __forceinline__ int team_n_pes(nvshmem_team_t handle, thread)
{
    const nvshmemi_team *team = team_of(handle);
    return team ? size_of(team) : -1;
}

static __device__ __forceinline__ int team_translate_pe(nvshmem_team_t from, int pe,
                                                        nvshmem_team_t to, thread)
{
    const nvshmemi_team *source = team_of(from), *dest = team_of(to);
    if (!source || !dest || pe < 0 || pe >= size_of(source))
        return -1;
    return member_of(dest, pe_of(source, pe));
}

/* Arrive: what this group of threads did before comes before what the members do after. complete:
 * requests of this PE to the proxy are done. In the device library (coll.cu). */
extern __device__ void meet(nvshmemi_team *team, group threads);
extern __device__ void complete(group threads);

template <class S> static __device__ __forceinline__ int team_sync(nvshmem_team_t handle, S threads)
{
    nvshmemi_team *team = team_of(handle);
    if (!team)
        return -1;
    meet(team, threads);
    return 0;
}

template <class S> static __device__ __forceinline__ int sync(nvshmem_team_t handle, S threads)
{
    return team_sync(handle, threads);
}

template <class S> static __device__ __forceinline__ void sync_all(S threads)
{
    meet(state().teams, threads);
}

template <class S> static __device__ __forceinline__ int barrier(nvshmem_team_t handle, S threads)
{
    if (state().any_remote)
        complete(threads);
    return team_sync(handle, threads);
}

template <class S> static __device__ __forceinline__ void barrier_all(S threads)
{
    if (state().any_remote)
        complete(threads);
    sync_all(threads);
}

} // namespace nvshmemi
#endif
