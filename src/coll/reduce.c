/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions to all members. Each element is computed by one member, or by all from the same
 * operands in the same order, so that the result has the same bits everywhere, floating sums
 * included.
 *
 * short, direct team   one meeting: everyone hands its operand to everyone
 * short, others        one meeting for each few elements: fold.c
 * long, one level      each member computes a range of elements from all members and puts it to all
 * long, two levels     ranges are computed within each node, then over the nodes, then gathered */
#include "config.h"
#include "src/coll/private.h"

#include <string.h>

static void reduce_direct(struct px_visit *visit, void *dest, const void *source, size_t n,
                          struct px_arithmetic a)
{
    const struct px_team *team = visit->team;
    size_t bytes = n * px_dtype_info[a.type].size;
    unsigned char own[PX_CELLS];
    px_direct_hand(visit, source, 0, bytes);
    if (dest == source && team->rank != 0)
        source = memcpy(own, source, bytes);
    for (uint32_t i = 0; i < team->size; i++) {
        const void *operand = i == team->rank ? source : px_direct_take(visit, i, bytes);
        if (i > 0)
            px_reduce_kernel(a.type, a.op, dest, operand, n);
        else if (operand != dest)
            px_copy(dest, operand, bytes);
    }
}

struct short_fold {
    struct px_arithmetic arithmetic;
    size_t n;
};

static void fold_elements(void *arg, void *lower, const void *upper)
{
    const struct short_fold *fold = arg;
    px_reduce_kernel(fold->arithmetic.type, fold->arithmetic.op, lower, upper, fold->n);
}

static void reduce_short(struct px_visit *visit, void *dest, const void *source, size_t n,
                         struct px_arithmetic a)
{
    size_t width = px_dtype_info[a.type].size, most = px_fold_max(visit->team) / width;
    if (dest != source)
        px_copy(dest, source, n * width);
    size_t done = 0;
    do {
        struct short_fold fold = {.arithmetic = a, .n = n - done < most ? n - done : most};
        px_fold(visit, (char *)dest + done * width, fold.n * width, fold_elements, &fold);
        done += fold.n;
    } while (done < n);
}

static struct px_operand member_operand(const struct px_pieces *p, uint32_t i, size_t first)
{
    return (struct px_operand){.pe = px_team_pe(p->team, i), .from = p->source + first * p->width};
}

static void put_to_all(const struct px_pieces *p, size_t first, size_t n, const void *result)
{
    const struct px_team *team = p->team;
    for (uint32_t i = 0; i < team->size; i++) {
        uint32_t member =
            team->rank + i < team->size ? team->rank + i : team->rank + i - team->size;
        px_put(px_team_pe(team, member), p->dest + first * p->width, result, n * p->width);
    }
}

static void reduce_one_level(struct px_visit *visit, struct px_pieces *p)
{
    const struct px_team *team = visit->team;
    struct px_range mine = px_range_of(p->elements, p->width, team->size, team->rank);
    p->count = team->size;
    p->operand = member_operand;
    p->deliver = put_to_all;
    px_meet(visit);
    px_fold_pieces(p, mine.first, mine.end);
    px_quiet();
    px_meet(visit);
}

static struct px_operand local_operand(const struct px_pieces *p, uint32_t i, size_t first)
{
    const struct px_team *team = p->team;
    uint32_t member = team->by_group[team->groups[team->my_group].first + i];
    return (struct px_operand){.pe = px_team_pe(team, member),
                               .from = p->source + first * p->width};
}

/* The member of group i that has computed the element for its node. */
static struct px_operand group_operand(const struct px_pieces *p, uint32_t i, size_t first)
{
    const struct px_team *team = p->team;
    const struct px_group *group = &team->groups[i];
    size_t each = px_range_of(p->elements, p->width, group->count, 0).end;
    uint32_t member = team->by_group[group->first + first / each];
    return (struct px_operand){.pe = px_team_pe(team, member), .from = p->dest + first * p->width};
}

static void keep(const struct px_pieces *p, size_t first, size_t n, const void *result)
{
    px_copy(p->dest + first * p->width, result, n * p->width);
}

/* The next element at which the operand of some group changes hands. */
static size_t next_border(const struct px_pieces *p, size_t first, size_t end)
{
    for (uint32_t g = 0; g < p->team->n_groups; g++) {
        size_t each = px_range_of(p->elements, p->width, p->team->groups[g].count, 0).end;
        size_t border = (first / each + 1) * each;
        end = border < end ? border : end;
    }
    return end;
}

static void reduce_two_levels(struct px_visit *visit, struct px_pieces *p)
{
    struct px_team *team = visit->team;
    uint32_t locals = team->groups[team->my_group].count;
    struct px_range in_node = px_range_of(p->elements, p->width, locals, team->local_rank);
    struct px_range mine = px_range_of(p->elements, p->width, team->size, team->rank);
    p->count = locals;
    p->operand = local_operand;
    p->deliver = keep;
    px_meet(visit);
    px_fold_pieces(p, in_node.first, in_node.end);
    px_meet(visit);
    p->count = team->n_groups;
    p->operand = group_operand;
    for (size_t first = mine.first, border; first < mine.end; first = border) {
        border = next_border(p, first, mine.end);
        px_fold_pieces(p, first, border);
    }
    uint64_t *offsets = px_offsets(team, visit->call->name);
    for (uint32_t i = 0; i < team->size; i++)
        offsets[i + 1] = px_range_of(p->elements, p->width, team->size, i).end * p->width;
    offsets[0] = 0;
    px_meet(visit);
    px_gather(visit, p->dest, p->dest,
              &(struct px_blocks){.offsets = offsets, .in_place = true, .by_nodes = true});
}

static size_t short_bytes(const struct px_team *team)
{
    return px_fold_max(team) * (team->n_groups == 1 ? 1 : px_coll.tuning.short_folds);
}

void px_reduce(struct px_team *team, void *dest, const void *source, size_t count,
               struct px_arithmetic arithmetic, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    size_t width = px_dtype_info[arithmetic.type].size;
    struct px_pieces pieces = {.team = team,
                               .arithmetic = arithmetic,
                               .width = width,
                               .source = source,
                               .dest = dest,
                               .elements = count};
    if (px_direct_fits(team, count * width)) {
        reduce_direct(&visit, dest, source, count, arithmetic);
    } else if (team->shape != PX_SHAPE_DIRECT && count * width <= short_bytes(team)) {
        reduce_short(&visit, dest, source, count, arithmetic);
    } else {
        (void)px_scratch(team, call->name);
        if (px_by_nodes(team, px_coll.tuning.reduce))
            reduce_two_levels(&visit, &pieces);
        else
            reduce_one_level(&visit, &pieces);
    }
    px_leave(&visit);
}
