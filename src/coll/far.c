/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives over memory that the processor cannot reach, a GPU's. What only moves data is gets
 * between two meetings, so that it goes from GPU to GPU. What computes is staged a piece at a time
 * through host memory in front of the heap, where the ordinary collectives do their work.
 *
 * Each team has a stage of its own: collectives of several teams may be under way at once. */
#include "config.h"
#include "src/coll/private.h"

#include <stdlib.h>

#include "src/diag/log.h"

static char *stage(const struct px_team *team)
{
    return (char *)px_coll.setup.stages + (size_t)team->slot_number * PX_COLL_STAGE_BYTES;
}

/* From or to memory of this PE, wherever it is: PE and process are the same here. */
static void fetch(void *host, const void *far, size_t bytes)
{
    px_get(px_peers.my_pe, host, far, bytes);
}

static void store(void *far, const void *host, size_t bytes)
{
    px_put(px_peers.my_pe, far, host, bytes);
}

/* --- moving --- */

void px_far_broadcast(struct px_team *team, void *dest, const void *source, size_t bytes,
                      uint32_t root, const struct px_call *call)
{
    px_sync(team, call);
    if (dest != source || team->rank != root)
        px_get(px_team_pe(team, root), dest, source, bytes);
    px_sync(team, call);
}

/* Starting with the own block, so that no member is asked by all at once. */
static uint32_t turn(const struct px_team *team, uint32_t i)
{
    return (uint32_t)(((uint64_t)team->rank + i) % team->size);
}

void px_far_fcollect(struct px_team *team, void *dest, const void *source, size_t bytes,
                     const struct px_call *call)
{
    px_sync(team, call);
    for (uint32_t i = 0; i < team->size; i++)
        px_get_nbi(px_team_pe(team, turn(team, i)), (char *)dest + turn(team, i) * bytes, source,
                   bytes);
    px_quiet();
    px_sync(team, call);
}

void px_far_collect(struct px_team *team, void *dest, const void *source, size_t bytes,
                    const struct px_call *call)
{
    uint64_t *offsets = px_offsets(team, call->name), *mine = (uint64_t *)stage(team);
    px_sync(team, call); /* nobody reads the last call's sizes any more */
    *mine = bytes;
    px_sync(team, call);
    offsets[0] = 0;
    for (uint32_t i = 0; i < team->size; i++) {
        px_get(px_team_pe(team, i), &offsets[i + 1], mine, sizeof(*mine));
        offsets[i + 1] += offsets[i];
    }
    for (uint32_t i = 0; i < team->size; i++) {
        uint32_t member = turn(team, i);
        px_get_nbi(px_team_pe(team, member), (char *)dest + offsets[member], source,
                   offsets[member + 1] - offsets[member]);
    }
    px_quiet();
    px_sync(team, call);
}

void px_far_alltoall(struct px_team *team, void *dest, const void *source, size_t bytes,
                     const struct px_call *call)
{
    px_sync(team, call);
    for (uint32_t i = 0; i < team->size; i++)
        px_get_nbi(px_team_pe(team, turn(team, i)), (char *)dest + turn(team, i) * bytes,
                   (const char *)source + team->rank * bytes, bytes);
    px_quiet();
    px_sync(team, call);
}

/* --- computing --- */

/* Elements whose `blocks` copies fit into a part of the stage. */
static size_t piece(size_t count, size_t width, size_t blocks)
{
    size_t fits = PX_COLL_STAGE_BYTES / 2 / (width * blocks);
    return count < fits ? count : fits;
}

void px_far_reduce(struct px_team *team, void *dest, const void *source, size_t count,
                   struct px_arithmetic arithmetic, const struct px_call *call)
{
    size_t width = px_dtype_info[arithmetic.type].size, step = piece(count, width, 1);
    char *in = stage(team), *out = in + PX_COLL_STAGE_BYTES / 2;
    size_t first = 0;
    do {
        size_t n = count - first < step ? count - first : step, at = first * width;
        fetch(in, (const char *)source + at, n * width);
        px_reduce(team, out, in, n, arithmetic, call);
        store((char *)dest + at, out, n * width);
        first += n;
    } while (first < count);
}

void px_far_scan(struct px_team *team, void *dest, const void *source, size_t count,
                 struct px_arithmetic arithmetic, bool inclusive, const struct px_call *call)
{
    size_t width = px_dtype_info[arithmetic.type].size, step = piece(count, width, 1);
    char *in = stage(team), *out = in + PX_COLL_STAGE_BYTES / 2;
    size_t first = 0;
    do {
        size_t n = count - first < step ? count - first : step, at = first * width;
        fetch(in, (const char *)source + at, n * width);
        px_scan(team, out, in, n, arithmetic, inclusive, call);
        store((char *)dest + at, out, n * width);
        first += n;
    } while (first < count);
}

/* dest may lie in source, whose later parts are still to be read: results wait in the caller's own
 * block, a part of which is read just before it is written. */
void px_far_reducescatter(struct px_team *team, void *dest, const void *source, size_t count,
                          struct px_arithmetic arithmetic, const struct px_call *call)
{
    size_t width = px_dtype_info[arithmetic.type].size, block = count * width;
    size_t step = piece(count, width, team->size), first = 0;
    char *in = stage(team), *out = in + PX_COLL_STAGE_BYTES / 2;
    char *mine = (char *)(uintptr_t)source + team->rank * block;
    bool overlap = (uintptr_t)dest < (uintptr_t)source + team->size * block &&
                   (uintptr_t)source < (uintptr_t)dest + block;
    char *result = overlap ? mine : dest;
    if (step == 0 && count)
        px_fatal(1, "%s: a team of %u PEs is too large for reductions to parts in GPU memory",
                 call->name, team->size);
    do {
        size_t n = count - first < step ? count - first : step, at = first * width;
        for (uint32_t i = 0; i < team->size; i++)
            fetch(in + i * n * width, (const char *)source + i * block + at, n * width);
        px_reducescatter(team, out, in, n, arithmetic, call);
        store(result + at, out, n * width);
        first += n;
    } while (first < count);
    for (size_t at = 0; overlap && dest != mine && at < block;) {
        /* forwards where dest is below, as memmove would; the two may overlap each other */
        size_t n = block - at < PX_COLL_STAGE_BYTES / 2 ? block - at : PX_COLL_STAGE_BYTES / 2;
        size_t from = (uintptr_t)dest < (uintptr_t)mine ? at : block - at - n;
        fetch(out, mine + from, n);
        store((char *)dest + from, out, n);
        at += n;
    }
}
