/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcast.
 *
 * short, direct team   rides on one meeting, each to each
 * short, others        rides on one meeting: a fold in which only the root has something to give
 * one level            everyone fetches it from the root between two meetings
 * two levels           one member of each node fetches it, the others of the node from that one
 * long, many nodes     every member fetches a piece from the root, then the pieces are gathered, so that the root sends
 *                      the block about twice and not once for each node */
#include "config.h"
#include "src/coll/private.h"

#include <string.h>

static void from_root(const struct px_team *team, void *dest, const void *source, size_t bytes,
                      uint32_t root)
{
    if (team->rank != root)
        px_get(px_team_pe(team, root), dest, source, bytes);
    else if (dest != source)
        px_copy(dest, source, bytes);
}

static void broadcast_direct(struct px_visit *visit, void *dest, const void *source, size_t bytes,
                             uint32_t root)
{
    const struct px_team *team = visit->team;
    bool give = team->rank == root;
    px_direct_hand(visit, source, 0, give ? bytes : 0);
    if (give && dest != source)
        px_copy(dest, source, bytes);
    for (uint32_t i = 0; i < team->size; i++) {
        const void *block =
            i == team->rank ? NULL : px_direct_take(visit, i, i == root ? bytes : 0);
        if (i == root && block)
            px_copy(dest, block, bytes);
    }
}

/* A block with a byte in front that is 1 where the rest means something. */
static void fold_present(void *arg, void *lower, const void *upper)
{
    if (*(const char *)upper)
        memcpy(lower, upper, *(const size_t *)arg);
}

static void broadcast_fold(struct px_visit *visit, void *dest, const void *source, size_t bytes,
                           uint32_t root)
{
    char value[PX_CELL_TREE] = {visit->team->rank == root};
    size_t length = bytes + 1;
    if (value[0])
        memcpy(value + 1, source, bytes);
    px_fold(visit, value, length, fold_present, &length);
    memcpy(dest, value + 1, bytes);
}

static void broadcast_one_level(struct px_visit *visit, void *dest, const void *source,
                                size_t bytes, uint32_t root)
{
    px_meet(visit);
    from_root(visit->team, dest, source, bytes, root);
    px_meet(visit);
}

/* Who fetches over the network for its node: the root where it is, else the first member. */
static uint32_t agent_of_node(const struct px_team *team, uint32_t root)
{
    const struct px_group *group = &team->groups[team->my_group];
    for (uint32_t i = 0; i < group->count; i++)
        if (team->by_group[group->first + i] == root)
            return root;
    return team->by_group[group->first];
}

static void broadcast_two_levels(struct px_visit *visit, void *dest, const void *source,
                                 size_t bytes, uint32_t root)
{
    const struct px_team *team = visit->team;
    uint32_t agent = agent_of_node(team, root);
    px_meet(visit);
    if (team->rank == agent)
        from_root(team, dest, source, bytes, root);
    px_meet(visit);
    if (team->rank != agent)
        px_get(px_team_pe(team, agent), dest, agent == root ? source : dest, bytes);
    px_meet(visit);
}

static void broadcast_pieces(struct px_visit *visit, void *dest, const void *source, size_t bytes,
                             uint32_t root)
{
    struct px_team *team = visit->team;
    struct px_range mine = px_range_of(bytes, 1, team->size, team->rank);
    uint64_t *offsets = px_offsets(team, visit->call->name);
    offsets[0] = 0;
    for (uint32_t i = 0; i < team->size; i++)
        offsets[i + 1] = px_range_of(bytes, 1, team->size, i).end;
    px_meet(visit);
    if (team->rank == root)
        from_root(team, dest, source, bytes, root);
    else
        from_root(team, (char *)dest + mine.first, (const char *)source + mine.first,
                  mine.end - mine.first, root);
    px_meet(visit);
    px_gather(visit, dest, dest,
              &(struct px_blocks){.offsets = offsets,
                                  .in_place = true,
                                  .have_all = team->rank == root,
                                  .by_nodes = px_by_nodes(team, px_coll.tuning.broadcast)});
}

void px_broadcast(struct px_team *team, void *dest, const void *source, size_t bytes, uint32_t root,
                  const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    if (px_direct_fits(team, bytes))
        broadcast_direct(&visit, dest, source, bytes, root);
    else if (team->shape != PX_SHAPE_DIRECT && bytes < px_fold_max(team))
        broadcast_fold(&visit, dest, source, bytes, root);
    else if (team->n_groups >= px_coll.tuning.pieces_groups && bytes >= px_coll.tuning.pieces_bytes)
        broadcast_pieces(&visit, dest, source, bytes, root);
    else if (px_by_nodes(team, px_coll.tuning.broadcast))
        broadcast_two_levels(&visit, dest, source, bytes, root);
    else
        broadcast_one_level(&visit, dest, source, bytes, root);
    px_leave(&visit);
}
