/* SPDX-License-Identifier: BSD-3-Clause */
/* Making teams out of a team, and their end. The members of the parent agree, in one meeting, on a
 * slot that is free on all of them and on whether anybody failed; in a second one, on whether each
 * could still reserve it, as another thread may make a team of other PEs meanwhile, and on the epoch
 * at which it starts. So all get the same answer. In a split into rows and columns the rows share one slot number and
 * the columns another, since they do not overlap.
 *
 * Slots above 1024 are agreed on 1024 at a time. */
#include "config.h"
#include "src/coll/private.h"

#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"

#define WINDOW_WORDS 16
#define WINDOW       (WINDOW_WORDS * 64)

struct claim {
    uint64_t free[WINDOW_WORDS]; /* bit: slot window + bit is free on all */
    uint32_t epoch;              /* no member has used a later one in any slot */
    uint32_t failed;
};

static void fold_claim(void *arg, void *lower, const void *upper)
{
    struct claim a, b;
    memcpy(&a, lower, sizeof(a));
    memcpy(&b, upper, sizeof(b));
    for (unsigned i = 0; i < WINDOW_WORDS; i++)
        a.free[i] &= b.free[i];
    a.epoch = b.epoch > a.epoch ? b.epoch : a.epoch;
    a.failed |= b.failed;
    memcpy(lower, &a, sizeof(a));
}

static struct claim my_claim(uint32_t window, bool failed)
{
    struct claim claim = {.failed = failed};
    claim.epoch = px_team_free_slots(window, claim.free, WINDOW_WORDS);
    return claim;
}

/* The lowest slots that are free on all; how many of the `wanted` ones were found. */
static unsigned take_slots(const struct claim *claim, uint32_t window, uint32_t *slots,
                           unsigned found, unsigned wanted)
{
    for (uint32_t bit = 0; bit < WINDOW && found < wanted; bit++)
        if (claim->free[bit / 64] >> bit % 64 & 1)
            slots[found++] = window + bit;
    return found;
}

enum agreement { AGREED, SOMEBODY_FAILED, NO_SLOT };

static enum agreement agree_on_slots(struct px_visit *visit, bool failed, uint32_t *slots,
                                     unsigned wanted)
{
    unsigned found = 0;
    for (uint32_t window = 0; window < px_coll.setup.max_teams && found < wanted;
         window += WINDOW) {
        struct claim claim = my_claim(window, failed);
        px_fold(visit, &claim, sizeof(claim), fold_claim, NULL);
        if (claim.failed)
            return SOMEBODY_FAILED;
        found = take_slots(&claim, window, slots, found, wanted);
    }
    return found == wanted ? AGREED : NO_SLOT;
}

/* Reserve the slots of the teams that have this PE as a member. */
static bool reserve(struct px_team *const *teams, const uint32_t *slots, unsigned count)
{
    unsigned i = 0;
    while (i < count && (!teams[i] || px_team_reserve(slots[i])))
        i++;
    bool all = i == count;
    while (!all && i-- > 0)
        if (teams[i])
            px_team_unreserve(slots[i]);
    return all;
}

/* The slots are these teams' on all members, or on none. */
static bool settle(struct px_visit *visit, struct px_team *const *teams, const uint32_t *slots,
                   unsigned count, uint32_t *epoch)
{
    bool mine = reserve(teams, slots, count);
    struct claim claim = my_claim(0, !mine);
    px_fold(visit, &claim, sizeof(claim), fold_claim, NULL);
    *epoch = claim.epoch;
    for (unsigned i = 0; mine && claim.failed && i < count; i++)
        if (teams[i])
            px_team_unreserve(slots[i]);
    return !claim.failed;
}

int px_teams_agree(struct px_visit *visit, struct px_team *const *teams, unsigned count,
                   const struct px_error *error)
{
    uint32_t slots[2], epoch = 0;
    bool failed = error->status != PX_OK;
    const char *name = visit->call->name;
    enum agreement agreement;
    do
        agreement = agree_on_slots(visit, failed, slots, count);
    while (agreement == AGREED && !settle(visit, teams, slots, count, &epoch));
    switch (agreement) {
    case AGREED:
        break;
    case SOMEBODY_FAILED:
        if (failed)
            px_warn("%s: %s", name, error->text);
        return PX_TEAM_REFUSED;
    case NO_SLOT:
        px_warn_once_per_node(
            "%s: no slot is left for another team: NVSHMEM_MAX_TEAMS is %u, predefined teams "
            "included; destroy teams that are done, or raise it",
            name, px_coll.setup.max_teams);
        return PX_TEAM_REFUSED;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!teams[i])
            continue;
        px_team_place(teams[i], slots[i], epoch);
        px_team_enlist(teams[i]);
    }
    return 0;
}

/* Members of the parent to world PEs. Where the parent's members are in equal steps, so are the
 * child's. */
static struct px_team *make_child(const struct px_team *parent, uint32_t start, uint32_t stride,
                                  uint32_t size, uint32_t rank, struct px_error *error)
{
    struct px_members members = {.rank = rank, .size = size};
    if (!parent->list) {
        members.start = parent->start + start * parent->stride;
        members.stride = stride * parent->stride;
        return px_team_new(&members, error);
    }
    uint32_t *list = malloc(size * sizeof(*list));
    if (!list) {
        px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a team of %u PEs", size);
        return NULL;
    }
    for (uint32_t i = 0; i < size; i++)
        list[i] = px_team_pe(parent, start + i * stride);
    members.list = list;
    struct px_team *team = px_team_new(&members, error);
    free(list);
    return team;
}

/* Plain arithmetic, the same on all members: what is wrong with a split, or NULL. */
static const char *wrong_with(const struct px_team *parent, int64_t start, int64_t stride,
                              int64_t size)
{
    int64_t last;
    if (size < 1 || size > (int64_t)parent->size)
        return "the size is not 1 to the size of the parent";
    if (start < 0 || start >= (int64_t)parent->size)
        return "the start is not a member of the parent";
    if (stride == 0 && size > 1)
        return "a stride of 0 names the same member more than once";
    if (__builtin_mul_overflow(stride, size - 1, &last) ||
        __builtin_add_overflow(last, start, &last) || last < 0 || last >= (int64_t)parent->size)
        return "start, stride and size lead out of the parent";
    return NULL;
}

/* My number among start, start + stride, ...; -1 for those left out. */
static int64_t rank_in(int64_t me, int64_t start, int64_t stride, int64_t size)
{
    if (size == 1)
        return me == start ? 0 : -1;
    int64_t rank = (me - start) / stride;
    return rank >= 0 && rank < size && start + rank * stride == me ? rank : -1;
}

int px_team_split(struct px_team *parent, int64_t start, int64_t stride, int64_t size,
                  struct px_team **child, const struct px_call *call)
{
    struct px_error error = PX_ERROR_INIT;
    struct px_visit visit = px_enter(parent, call);
    const char *wrong = wrong_with(parent, start, stride, size);
    if (wrong) {
        px_meet(&visit); /* arguments are compared, then all refuse */
        px_leave(&visit);
        px_warn_once_per_node("%s: start %lld, stride %lld, size %lld on a parent of %u PEs: %s",
                              call->name, (long long)start, (long long)stride, (long long)size,
                              parent->size, wrong);
        return PX_TEAM_REFUSED;
    }
    int64_t rank = rank_in(parent->rank, start, stride, size);
    struct px_team *team = NULL;
    if (rank >= 0)
        team = make_child(parent, (uint32_t)start, (uint32_t)stride, (uint32_t)size, (uint32_t)rank,
                          &error);
    int refused = px_teams_agree(&visit, &team, 1, &error);
    px_leave(&visit);
    if (refused)
        px_team_free(team);
    else
        *child = team;
    return refused;
}

int px_team_split_2d(struct px_team *parent, int64_t xrange, struct px_team **x, struct px_team **y,
                     const struct px_call *call)
{
    struct px_error error = PX_ERROR_INIT;
    struct px_visit visit = px_enter(parent, call);
    if (xrange < 1) {
        px_meet(&visit);
        px_leave(&visit);
        px_warn_once_per_node("%s: a row has %lld members; it needs at least 1", call->name,
                              (long long)xrange);
        return PX_TEAM_REFUSED;
    }
    uint32_t size = parent->size, row = xrange < size ? (uint32_t)xrange : size;
    uint32_t column_of_me = parent->rank % row, row_of_me = parent->rank / row,
             row_start = row_of_me * row;
    uint32_t in_row = size - row_start < row ? size - row_start : row;
    uint32_t in_column = (size - column_of_me + row - 1) / row;
    struct px_team *teams[2];
    teams[0] = make_child(parent, row_start, 1, in_row, column_of_me, &error);
    teams[1] =
        teams[0] ? make_child(parent, column_of_me, row, in_column, row_of_me, &error) : NULL;
    int refused = px_teams_agree(&visit, teams, 2, &error);
    px_leave(&visit);
    if (refused) {
        px_team_free(teams[0]);
        px_team_free(teams[1]);
        return refused;
    }
    *x = teams[0];
    *y = teams[1];
    return 0;
}

/* The meeting makes sure that nobody still reads from the slot when it is given to another team. */
void px_team_destroy(struct px_team *team, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    px_meet(&visit);
    px_leave(&visit);
    px_team_strike(team);
    px_team_free(team);
}
