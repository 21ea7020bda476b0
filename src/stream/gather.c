/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on streams that move data: each member fetches what it is to get, between two meetings.
 * Small ones are one launch of one block, large ones copy engines between two meetings. */
#include "config.h"
#include "src/stream/private.h"

#if PX_HAVE_CUDA
#define ONE_LAUNCH ((size_t)64 << 10)

/* `bytes` of each of the members first .. first + blocks - 1, to dest, dest + bytes, ... */
static void gather(const struct px_stream *s, struct px_stream_work *work, size_t bytes)
{
    work->count = bytes;
    work->dest_step = (int64_t)bytes;
    if (bytes * work->blocks <= ONE_LAUNCH) {
        work->before = work->after = work->members > 1;
        px_stream_launch(s, PX_KERNEL_GATHER, 1,
                         bytes <= 4096 ? PX_STREAM_BLOCK : PX_STREAM_THREADS, work);
        return;
    }
    px_stream_meet(s, work);
    for (uint32_t k = 0; k < work->blocks; k++) {
        uint32_t i = work->first + (work->rank + k) % work->blocks;
        px_stream_copy(s, (void *)(work->dest + (i - work->first) * bytes),
                       (void *)(work->source + (uint64_t)work->delta[i]), bytes);
    }
    px_stream_meet(s, work);
}

static void collect(const struct px_stream *s, struct px_team *team, void *dest, const void *source,
                    size_t bytes, uint32_t first, uint32_t blocks)
{
    struct px_gpu_visit visit;
    struct px_stream_work work = {.dest = px_stream_address(dest),
                                  .source = px_stream_address(source),
                                  .first = first,
                                  .blocks = blocks};
    px_stream_enter(s, &visit);
    px_stream_fill(team, &work);
    gather(s, &work, bytes);
    px_gpu_leave(&visit);
}

void px_stream_broadcast(const struct px_stream *s, struct px_team *team, void *dest,
                         const void *source, size_t bytes, uint32_t root)
{
    collect(s, team, dest, source, bytes, root, 1);
}

void px_stream_fcollect(const struct px_stream *s, struct px_team *team, void *dest,
                        const void *source, size_t bytes)
{
    collect(s, team, dest, source, bytes, 0, px_team_size(team));
}

void px_stream_alltoall(const struct px_stream *s, struct px_team *team, void *dest,
                        const void *source, size_t bytes)
{
    collect(s, team, dest, (const char *)source + px_team_rank(team) * bytes, bytes, 0,
            px_team_size(team));
}
#endif
