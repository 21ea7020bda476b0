/* SPDX-License-Identifier: BSD-3-Clause */
/* Folding a small value over a team in one meeting. Direct teams collect all values and fold them
 * in member order. In others the value goes up a binomial tree of the node, is exchanged by the
 * leaders (recursive doubling; who is beyond the power of two joins a partner) and comes down
 * again. Each partial result is computed from the same operands in the same order on all who
 * compute it, so that everyone ends with the same bits. */
#include "config.h"
#include "src/coll/private.h"

#include <string.h>

size_t px_fold_max(const struct px_team *team)
{
    size_t cell = team->shape == PX_SHAPE_DIRECT ? px_direct_cell(team) : PX_CELL_TREE;
    return cell < PX_CELL_TREE ? cell : PX_CELL_TREE;
}

/* A value with the fold that it is under. */
struct folding {
    struct px_visit *visit;
    void *value;
    size_t bytes;
    px_fold_fn *fold;
    void *arg;
};

static void hand(const struct folding *f, uint32_t member, unsigned line)
{
    px_hand(f->visit, px_team_pe(f->visit->team, member), line, line * PX_CELL_TREE, f->value,
            f->bytes);
}

static const void *take(const struct folding *f, uint32_t member, unsigned line)
{
    return px_take(f->visit, px_team_pe(f->visit->team, member), line, line * PX_CELL_TREE,
                   f->bytes);
}

static uint32_t local_member(const struct px_team *team, uint32_t local)
{
    return team->by_group[team->groups[team->my_group].first + local];
}

static uint32_t leader(const struct px_team *team, uint32_t group)
{
    return team->by_group[team->groups[group].first];
}

/* From the children, in ascending order, then to the parent. Returns the bit that leads to the
 * parent. */
static uint32_t fold_up(const struct folding *f)
{
    const struct px_team *team = f->visit->team;
    uint32_t me = team->local_rank, count = team->groups[team->my_group].count, bit = 1;
    for (unsigned round = 0; bit < count; bit <<= 1, round++) {
        if (me & bit) {
            hand(f, local_member(team, me - bit), PX_LINE_UP + round);
            break;
        }
        if (me + bit < count)
            f->fold(f->arg, f->value, take(f, local_member(team, me + bit), PX_LINE_UP + round));
    }
    return bit;
}

static void come_down(const struct folding *f, uint32_t bit)
{
    const struct px_team *team = f->visit->team;
    uint32_t me = team->local_rank, count = team->groups[team->my_group].count;
    if (me)
        memcpy(f->value, take(f, local_member(team, me - bit), PX_LINE_DOWN), f->bytes);
    while (bit >>= 1)
        if (me + bit < count)
            hand(f, local_member(team, me + bit), PX_LINE_DOWN);
}

static void exchange_pairwise(const struct folding *f, uint32_t ranks)
{
    const struct px_team *team = f->visit->team;
    unsigned char own[PX_CELL_TREE];
    for (uint32_t bit = 1, round = 0; bit < ranks; bit <<= 1, round++) {
        uint32_t partner = leader(team, team->my_group ^ bit);
        hand(f, partner, PX_LINE_ROUND + round);
        const void *other = take(f, partner, PX_LINE_ROUND + round);
        if (!(team->my_group & bit)) {
            f->fold(f->arg, f->value, other);
            continue;
        }
        memcpy(own, f->value, f->bytes);
        memcpy(f->value, other, f->bytes);
        f->fold(f->arg, f->value, own);
    }
}

static void exchange_leaders(const struct folding *f)
{
    const struct px_team *team = f->visit->team;
    uint32_t ranks = 1, me = team->my_group;
    while (ranks * 2 <= team->n_groups)
        ranks *= 2;
    if (me >= ranks) {
        hand(f, leader(team, me - ranks), PX_LINE_FOLD);
        memcpy(f->value, take(f, leader(team, me - ranks), PX_LINE_UNFOLD), f->bytes);
        return;
    }
    bool has_guest = me + ranks < team->n_groups;
    if (has_guest)
        f->fold(f->arg, f->value, take(f, leader(team, me + ranks), PX_LINE_FOLD));
    exchange_pairwise(f, ranks);
    if (has_guest)
        hand(f, leader(team, me + ranks), PX_LINE_UNFOLD);
}

static void fold_direct(const struct folding *f)
{
    const struct px_team *team = f->visit->team;
    unsigned char own[PX_CELL_TREE];
    px_direct_hand(f->visit, f->value, 0, f->bytes);
    memcpy(own, f->value, f->bytes);
    for (uint32_t i = 0; i < team->size; i++) {
        const void *part = i == team->rank ? own : px_direct_take(f->visit, i, f->bytes);
        if (i == 0)
            memcpy(f->value, part, f->bytes);
        else
            f->fold(f->arg, f->value, part);
    }
}

void px_fold(struct px_visit *visit, void *value, size_t bytes, px_fold_fn *fold, void *arg)
{
    struct folding f = {.visit = visit, .value = value, .bytes = bytes, .fold = fold, .arg = arg};
    if (visit->team->shape == PX_SHAPE_DIRECT) {
        fold_direct(&f);
        return;
    }
    px_next_meeting(visit);
    uint32_t bit = fold_up(&f);
    if (visit->team->local_rank == 0)
        exchange_leaders(&f);
    come_down(&f, bit);
}

static void fold_min(void *arg, void *lower, const void *upper)
{
    uint64_t a, b;
    memcpy(&a, lower, sizeof(a));
    memcpy(&b, upper, sizeof(b));
    if (b < a)
        memcpy(lower, &b, sizeof(b));
}

uint64_t px_agree_min(struct px_team *team, uint64_t value, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    px_fold(&visit, &value, sizeof(value), fold_min, NULL);
    px_leave(&visit);
    return value;
}
