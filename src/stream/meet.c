/* SPDX-License-Identifier: BSD-3-Clause */
/* Meetings of a team on a stream. Each pair of PEs counts its meetings in a slot, one counter at
 * either end; a slot belongs to the number of a team, which is the same at all its members. Counters
 * are never reset: both ends of a pair have been in the same meetings, whatever teams had the number
 * before, so teams may come and go without a word between the PEs. */
#include "config.h"
#include "src/stream/private.h"

#if PX_HAVE_CUDA
static size_t slot_bytes(void)
{
    return 2 * sizeof(uint64_t) * px_peers.n_pes;
}

bool px_stream_reaches_team(const struct px_team *team)
{
    bool all = px_team_size(team) <= PX_STREAM_MEMBERS &&
               px_team_slot(team) < PX_STREAM_CONTROL_BYTES / slot_bytes();
    for (uint32_t i = 0; all && i < px_team_size(team); i++)
        all = px_stream_reaches(px_team_pe(team, i));
    return all;
}

void px_stream_fill(const struct px_team *team, struct px_stream_work *work)
{
    work->slot = px_gpu.control + px_team_slot(team) * slot_bytes();
    work->rank = px_team_rank(team);
    work->members = px_team_size(team);
    work->my_pe = px_peers.my_pe;
    work->n_pes = px_peers.n_pes;
    for (uint32_t i = 0; i < work->members; i++) {
        uint32_t pe = px_team_pe(team, i);
        work->pe[i] = (uint16_t)pe;
        work->delta[i] = px_gpu.delta[pe];
    }
}

void px_stream_meet(const struct px_stream *s, const struct px_stream_work *team)
{
    if (team->members > 1)
        px_stream_launch(s, PX_KERNEL_MEET, 1, team->members <= 32 ? 32 : PX_STREAM_MEMBERS, team);
}

void px_stream_sync(const struct px_stream *s, struct px_team *team)
{
    struct px_gpu_visit visit;
    struct px_stream_work work = {.count = 0};
    px_stream_enter(s, &visit);
    px_stream_fill(team, &work);
    px_stream_meet(s, &work);
    px_gpu_leave(&visit);
}
#endif
