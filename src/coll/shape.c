/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape of a team: which members share a node, how its meetings run, and their steps with all
 * addresses worked out, so that a meeting asks no questions. Everything that the members must agree
 * on follows from the list of members and the node of each PE alone; whether a partner is mapped
 * only decides how its flag is raised. */
#include "config.h"
#include "src/coll/private.h"

#include <stdlib.h>
#include <string.h>

#define TREE_ROUNDS (PX_LINE_DOWN - PX_LINE_UP)
#define STEPS_MAX                                                                                  \
    (2 *                                                                                           \
     (PX_LINES + PX_LINE_UP)) /* of any shape: direct 2 * 31, else rounds up, across and down  \
                                   */

/* A group number for each node seen, in order of first sight. */
struct numbering {
    uint32_t *group_of_node; /* UINT32_MAX: not seen */
    uint32_t count;
};

static px_status number_groups(const struct px_team *team, struct numbering *numbering,
                               struct px_error *error)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < team->size; i++) {
        uint32_t node = px_coll.group_of[px_team_pe(team, i)];
        nodes = node >= nodes ? node + 1 : nodes;
    }
    uint32_t *group_of_node = malloc(nodes * sizeof(*group_of_node));
    if (!group_of_node)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a team that spans %u nodes",
                            nodes);
    memset(group_of_node, 0xff, nodes * sizeof(*group_of_node));
    uint32_t count = 0;
    for (uint32_t i = 0; i < team->size; i++) {
        uint32_t *group = &group_of_node[px_coll.group_of[px_team_pe(team, i)]];
        if (*group == UINT32_MAX)
            *group = count++;
    }
    *numbering = (struct numbering){.group_of_node = group_of_node, .count = count};
    return PX_OK;
}

static uint32_t group_of_member(const struct px_team *team, const struct numbering *numbering,
                                uint32_t member)
{
    return numbering->group_of_node[px_coll.group_of[px_team_pe(team, member)]];
}

/* A counting sort of the members by group. */
static void sort_members(struct px_team *team, const struct numbering *numbering)
{
    for (uint32_t i = 0; i < team->size; i++)
        team->groups[group_of_member(team, numbering, i)].count++;
    for (uint32_t g = 1; g < team->n_groups; g++)
        team->groups[g].first = team->groups[g - 1].first + team->groups[g - 1].count;
    for (uint32_t g = 0; g < team->n_groups; g++)
        team->groups[g].count = 0;
    for (uint32_t i = 0; i < team->size; i++) {
        uint32_t g = group_of_member(team, numbering, i);
        struct px_group *group = &team->groups[g];
        if (i == team->rank) {
            team->my_group = g;
            team->local_rank = group->count;
        }
        team->by_group[group->first + group->count++] = i;
    }
}

static px_status find_groups(struct px_team *team, struct px_error *error)
{
    struct numbering numbering = {0};
    px_status status = number_groups(team, &numbering, error);
    if (status != PX_OK)
        return status;
    team->n_groups = numbering.count;
    team->groups = calloc(numbering.count, sizeof(*team->groups));
    team->by_group = malloc(team->size * sizeof(*team->by_group));
    if (team->groups && team->by_group)
        sort_members(team, &numbering);
    else
        status =
            px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a team of %u PEs", team->size);
    free(numbering.group_of_node);
    return status;
}

static void add_step(struct px_team *team, bool send, unsigned line, uint32_t member)
{
    uint32_t pe = px_team_pe(team, member);
    struct px_step step = {.send = send, .line = (uint8_t)line, .pe = pe};
    for (unsigned parity = 0; parity < 2; parity++) {
        struct px_line *at = &team->slot->lines[parity][line];
        if (!send)
            step.flag[parity] = &at->flag;
        else if (px_control_is_mapped(pe))
            step.flag[parity] = &((struct px_line *)px_control_mapped(pe, at))->flag;
    }
    if (send && px_control_is_mapped(pe))
        step.sleeping = &((struct px_control *)px_control_mapped(pe, px_coll.control))->sleeping;
    team->steps[team->n_steps++] = step;
}

static void steps_direct(struct px_team *team)
{
    for (uint32_t i = 1; i < team->size; i++)
        add_step(team, true, team->rank, (team->rank + i) % team->size);
    for (uint32_t i = 1; i < team->size; i++)
        add_step(team, false, (team->rank + i) % team->size, (team->rank + i) % team->size);
}

/* `count` ranks, of which rank r is member `member_of(r)`. */
typedef uint32_t member_fn(const struct px_team *team, uint32_t rank);

static void steps_dissemination(struct px_team *team, uint32_t me, uint32_t count,
                                member_fn *member_of)
{
    unsigned round = 0;
    for (uint64_t bit = 1; bit < count; bit <<= 1, round++) {
        add_step(team, true, PX_LINE_ROUND + round,
                 member_of(team, (uint32_t)((me + bit) % count)));
        add_step(team, false, PX_LINE_ROUND + round,
                 member_of(team, (uint32_t)((me + count - bit) % count)));
    }
}

static uint32_t same_member(const struct px_team *team, uint32_t rank)
{
    return rank;
}

static uint32_t leader_of(const struct px_team *team, uint32_t group)
{
    return team->by_group[team->groups[group].first];
}

static uint32_t local_member(const struct px_team *team, uint32_t local)
{
    return team->by_group[team->groups[team->my_group].first + local];
}

static void steps_two_level(struct px_team *team)
{
    uint32_t me = team->local_rank, count = team->groups[team->my_group].count, bit = 1;
    unsigned round = 0;
    for (; bit < count && !(me & bit); bit <<= 1, round++)
        if (me + bit < count)
            add_step(team, false, PX_LINE_UP + round, local_member(team, me + bit));
    if (me) {
        add_step(team, true, PX_LINE_UP + round, local_member(team, me - bit));
        add_step(team, false, PX_LINE_DOWN, local_member(team, me - bit));
    } else {
        steps_dissemination(team, team->my_group, team->n_groups, leader_of);
    }
    while (bit >>= 1)
        if (me + bit < count)
            add_step(team, true, PX_LINE_DOWN, local_member(team, me + bit));
}

/* Limits of the lines in a slot; far beyond machines of today. */
static px_status check_limits(const struct px_team *team, struct px_error *error)
{
    if (team->n_groups > 1u << PX_ROUNDS_MAX)
        return px_error_set(error, PX_ERR_UNSUPPORTED, "a team spans %u nodes, more than %u",
                            team->n_groups, 1u << PX_ROUNDS_MAX);
    for (uint32_t g = 0; g < team->n_groups; g++)
        if (team->groups[g].count > 1u << TREE_ROUNDS)
            return px_error_set(error, PX_ERR_UNSUPPORTED,
                                "a team has %u PEs on one node, more than %u",
                                team->groups[g].count, 1u << TREE_ROUNDS);
    return PX_OK;
}

static enum px_shape choose(const struct px_team *team)
{
    bool one_level = team->n_groups == 1 || team->n_groups == team->size;
    if (!one_level)
        return PX_SHAPE_TWO_LEVEL;
    bool few = team->size <= px_coll.tuning.direct_max &&
               (team->n_groups == 1 || team->size <= px_coll.tuning.direct_nodes);
    return few ? PX_SHAPE_DIRECT : PX_SHAPE_DISSEMINATION;
}

void px_lay_steps(struct px_team *team)
{
    team->n_steps = 0;
    switch (team->shape) {
    case PX_SHAPE_DIRECT:
        steps_direct(team);
        break;
    case PX_SHAPE_DISSEMINATION:
        steps_dissemination(team, team->rank, team->size, same_member);
        break;
    case PX_SHAPE_TWO_LEVEL:
        steps_two_level(team);
        break;
    }
}

px_status px_shape(struct px_team *team, struct px_error *error)
{
    px_status status = find_groups(team, error);
    if (status == PX_OK)
        status = check_limits(team, error);
    if (status != PX_OK)
        return status;
    team->shape = choose(team);
    team->steps = malloc(STEPS_MAX * sizeof(*team->steps));
    if (!team->steps)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the steps of a team");
    return PX_OK;
}

void px_unshape(struct px_team *team)
{
    free(team->groups);
    free(team->by_group);
    free(team->steps);
}
