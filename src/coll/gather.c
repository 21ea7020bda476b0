/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathering a block of every member on all members: fcollect, collect, and the last part of large
 * reductions. Blocks of the own node are read where they are. Those of other nodes are dealt out
 * among the members of a node, each is fetched over the network once, and the others copy it from
 * there. */
#include "config.h"
#include "src/coll/private.h"

#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"

/* Of member `i`: where it belongs in dest, how long it is, and where it lies in the memory of its
 * owner. */
struct block {
    size_t offset, bytes;
    const void *from;
};

static struct block block_of(const struct px_blocks *blocks, const void *from, uint32_t i)
{
    struct block block = {.offset = i * blocks->bytes, .bytes = blocks->bytes};
    if (blocks->offsets) {
        block.offset = blocks->offsets[i];
        block.bytes = blocks->offsets[i + 1] - blocks->offsets[i];
    }
    block.from = (const char *)from + (blocks->in_place ? block.offset : 0);
    return block;
}

/* Not waited for: the caller quiets. */
static void fetch(const struct px_team *team, void *dest, const void *from,
                  const struct px_blocks *blocks, uint32_t i)
{
    struct block block = block_of(blocks, from, i);
    void *to = (char *)dest + block.offset;
    if (block.bytes && !blocks->have_all && !(i == team->rank && to == block.from))
        px_get_nbi(px_team_pe(team, i), to, block.from, block.bytes);
}

/* Member i of another node was fetched by this member of mine. */
static uint32_t fetcher(const struct px_team *team, uint32_t order)
{
    const struct px_group *mine = &team->groups[team->my_group];
    return team->by_group[mine->first + order % mine->count];
}

static bool in_my_group(const struct px_team *team, uint32_t position)
{
    const struct px_group *mine = &team->groups[team->my_group];
    return position >= mine->first && position < mine->first + mine->count;
}

static void gather_by_nodes(struct px_visit *visit, void *dest, const void *from,
                            const struct px_blocks *blocks)
{
    const struct px_team *team = visit->team;
    for (uint32_t p = 0, order = 0; p < team->size; p++)
        if (in_my_group(team, p) || fetcher(team, order++) == team->rank)
            fetch(team, dest, from, blocks, team->by_group[p]);
    px_quiet();
    px_meet(visit);
    for (uint32_t p = 0, order = 0; p < team->size; p++) {
        if (in_my_group(team, p))
            continue;
        uint32_t who = fetcher(team, order++);
        struct block block = block_of(blocks, from, team->by_group[p]);
        void *there = (char *)dest + block.offset;
        if (who != team->rank && block.bytes && !blocks->have_all)
            px_get_nbi(px_team_pe(team, who), there, there, block.bytes);
    }
    px_quiet();
    px_meet(visit);
}

void px_gather(struct px_visit *visit, void *dest, const void *from, const struct px_blocks *blocks)
{
    const struct px_team *team = visit->team;
    if (blocks->by_nodes) {
        gather_by_nodes(visit, dest, from, blocks);
        return;
    }
    for (uint32_t i = 0; i < team->size;
         i++) /* each starts with its own, so that not all read the same one */
        fetch(team, dest, from, blocks,
              team->rank + i < team->size ? team->rank + i : team->rank + i - team->size);
    px_quiet();
    px_meet(visit);
}

static void fcollect_direct(struct px_visit *visit, void *dest, const void *source, size_t bytes)
{
    const struct px_team *team = visit->team;
    px_direct_hand(visit, source, 0, bytes);
    for (uint32_t i = 0; i < team->size; i++) {
        const void *block = i == team->rank ? source : px_direct_take(visit, i, bytes);
        void *to = (char *)dest + i * bytes;
        if (to != block)
            px_copy(to, block, bytes);
    }
}

/* Blocks side by side in a zeroed value, joined by or. */
static void fold_or(void *arg, void *lower, const void *upper)
{
    unsigned char *a = lower;
    const unsigned char *b = upper;
    for (size_t i = 0; i < *(const size_t *)arg; i++)
        a[i] |= b[i];
}

static void fcollect_fold(struct px_visit *visit, void *dest, const void *source, size_t bytes)
{
    unsigned char value[PX_CELL_TREE] = {0};
    size_t all = visit->team->size * bytes;
    memcpy(value + visit->team->rank * bytes, source, bytes);
    px_fold(visit, value, all, fold_or, &all);
    memcpy(dest, value, all);
}

/* One meeting, if the blocks are short enough. */
static bool fcollect_short(struct px_visit *visit, void *dest, const void *source, size_t bytes)
{
    const struct px_team *team = visit->team;
    if (px_direct_fits(team, bytes))
        fcollect_direct(visit, dest, source, bytes);
    else if (team->shape != PX_SHAPE_DIRECT && bytes <= px_fold_max(team) / team->size)
        fcollect_fold(visit, dest, source, bytes);
    else
        return false;
    return true;
}

void px_fcollect(struct px_team *team, void *dest, const void *source, size_t bytes,
                 const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    if (!fcollect_short(&visit, dest, source, bytes)) {
        px_meet(&visit);
        px_gather(&visit, dest, source,
                  &(struct px_blocks){.bytes = bytes,
                                      .by_nodes = px_by_nodes(team, px_coll.tuning.fcollect)});
    }
    px_leave(&visit);
}

/* Each leaves its size in its slot before the meeting and the others read it there. The cells of
 * this meeting are free: nobody hands anything over in it. */
static void read_sizes(struct px_visit *visit, uint64_t bytes, uint64_t *sizes)
{
    const struct px_team *team = visit->team;
    uint64_t *mine = (uint64_t *)team->slot->cells[(team->epoch + 1) & 1];
    *mine = bytes;
    px_meet(visit);
    for (uint32_t i = 0; i < team->size; i++)
        px_get_nbi(px_team_pe(team, i), &sizes[i], mine, sizeof(*sizes));
    px_quiet();
}

uint64_t *px_offsets(struct px_team *team, const char *call)
{
    if (!team->offsets)
        team->offsets = malloc(((size_t)team->size + 1) * sizeof(*team->offsets));
    if (!team->offsets)
        px_fatal(1, "%s: no memory for the offsets of %u blocks", call, team->size);
    return team->offsets;
}

void px_collect(struct px_team *team, void *dest, const void *source, size_t bytes,
                const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    uint64_t *offsets = px_offsets(team, call->name);
    uint64_t mine = bytes;
    if (!fcollect_short(&visit, offsets + 1, &mine, sizeof(mine)))
        read_sizes(&visit, bytes, offsets + 1);
    offsets[0] = 0;
    for (uint32_t i = 0; i < team->size; i++)
        offsets[i + 1] += offsets[i];
    px_gather(&visit, dest, source,
              &(struct px_blocks){.offsets = offsets,
                                  .by_nodes = px_by_nodes(team, px_coll.tuning.fcollect)});
    px_leave(&visit);
}
