/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcast. A short block in a direct team rides on one meeting. Otherwise the members fetch it
 * from the root between two meetings: first one member of each node, then, where there are several,
 * the others from that one. */
#include "config.h"
#include "src/coll/private.h"

static void from_root(const struct px_team *team, void *dest, const void *source, size_t bytes,
                      uint32_t root)
{
    if (team->rank != root)
        px_get(px_team_pe(team, root), dest, source, bytes);
    else if (dest != source)
        px_copy(dest, source, bytes);
}

static void broadcast_short(struct px_visit *visit, void *dest, const void *source, size_t bytes,
                            uint32_t root)
{
    const struct px_team *team = visit->team;
    if (team->rank == root) {
        px_direct_hand(visit, source, 0, bytes);
        if (dest != source)
            px_copy(dest, source, bytes);
    } else {
        px_direct_hand(visit, NULL, 0, 0);
    }
    for (uint32_t i = 0; i < team->size; i++) {
        const void *block =
            i == team->rank ? NULL : px_direct_take(visit, i, i == root ? bytes : 0);
        if (i == root && block)
            px_copy(dest, block, bytes);
    }
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

static void broadcast_by_nodes(struct px_visit *visit, void *dest, const void *source, size_t bytes,
                               uint32_t root)
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

void px_broadcast(struct px_team *team, void *dest, const void *source, size_t bytes, uint32_t root,
                  const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    if (px_direct_fits(team, bytes)) {
        broadcast_short(&visit, dest, source, bytes, root);
    } else if (team->shape == PX_SHAPE_TWO_LEVEL) {
        broadcast_by_nodes(&visit, dest, source, bytes, root);
    } else {
        px_meet(&visit);
        from_root(team, dest, source, bytes, root);
        px_meet(&visit);
    }
    px_leave();
}
