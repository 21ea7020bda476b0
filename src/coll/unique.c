/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams of any PEs, which have nothing in common but an id. The id names the PE that made it and an
 * entry in that PE's control area, where the members register by one-sided operations; its maker
 * need not be one of them and calls nothing. When all have registered, each reads the list, and
 * from then on they are a team on the slot behind the last one, which only serves to agree on a
 * real slot. The first member clears the entry; an id makes one team. */
#include "config.h"
#include "src/coll/private.h"

#include <inttypes.h>
#include <stdlib.h>

#include "src/diag/log.h"

#define ENTRIES      32u
#define COUNTER_BITS 40

/* One cache line, then a word for each member: its PE + 1, and above that its epoch on the meeting
 * slot. */
struct entry {
    uint64_t id;       /* 0: not in use */
    uint64_t expected; /* members, as the first one said; 0: nobody has come */
    uint64_t arrived;
    _Alignas(PX_CACHE_LINE) uint64_t member[];
};

/* The caller's id counter and where it left off on the meeting slot. */
static _Atomic uint64_t last_id;
static uint32_t meeting_epoch;

/* Every PE has one meeting slot. Threads that took turns on it could wait for each other across PEs. */
static atomic_flag joining = ATOMIC_FLAG_INIT;

static size_t entry_bytes(uint32_t n_pes)
{
    size_t bytes = sizeof(struct entry) + n_pes * sizeof(uint64_t);
    return (bytes + PX_CACHE_LINE - 1) & ~(size_t)(PX_CACHE_LINE - 1);
}

size_t px_coll_control_bytes(uint32_t max_teams, uint32_t n_pes)
{
    return ((size_t)max_teams + 1) * PX_TEAM_SLOT_BYTES + ENTRIES * entry_bytes(n_pes);
}

static struct entry *entry_of(uint64_t id)
{
    const struct px_coll_setup *setup = &px_coll.setup;
    uintptr_t entries =
        setup->base + PX_CONTROL_BYTES + ((size_t)setup->max_teams + 1) * PX_TEAM_SLOT_BYTES;
    return (struct entry *)(entries + id % ENTRIES * entry_bytes(setup->n_pes));
}

static uint32_t maker_of(uint64_t id)
{
    return (uint32_t)(id >> COUNTER_BITS);
}

static uint64_t amo(uint32_t pe, uint64_t *word, enum px_amo_op op, uint64_t operand,
                    uint64_t compare)
{
    const struct px_amo amo = {
        .op = op, .width = 8, .fetching = true, .operand = operand, .compare = compare};
    return px_amo(pe, word, &amo);
}

/* An entry that nobody has come to may be taken again: most ids that are made are never used. */
px_status px_team_unique_id(uint64_t *id, struct px_error *error)
{
    uint32_t me = px_coll.setup.my_pe;
    for (unsigned tries = 0; tries < ENTRIES; tries++) {
        uint64_t next = (uint64_t)me << COUNTER_BITS | (++last_id & ((1ull << COUNTER_BITS) - 1));
        struct entry *entry = entry_of(next);
        if (amo(me, &entry->expected, PX_AMO_FETCH, 0, 0) != 0)
            continue;
        amo(me, &entry->id, PX_AMO_SWAP, next, 0);
        *id = next;
        return PX_OK;
    }
    return px_error_set(error, PX_ERR_NO_MEMORY,
                        "%u teams whose ids this PE has made are still being formed", ENTRIES);
}

/* Register as member `index`. What the other members could only wait for is fatal. */
static px_status sign_in(uint64_t id, uint32_t size, uint32_t index, const char *call,
                         struct px_error *error)
{
    struct entry *entry = entry_of(id);
    uint32_t maker = maker_of(id), me = px_coll.setup.my_pe;
    if (amo(maker, &entry->id, PX_AMO_FETCH, 0, 0) != id)
        return px_error_set(error, PX_ERR_INVALID,
                            "the unique id %#" PRIx64 " of PE %u has made its team, or is too old",
                            id, maker);
    uint64_t expected = amo(maker, &entry->expected, PX_AMO_COMPARE_SWAP, size, 0);
    if (expected && expected != size)
        px_fatal(1,
                 "%s: PE %u gives %u members, another PE gives %" PRIu64 " for the same unique id",
                 call, me, size, expected);
    uint64_t taken = amo(maker, &entry->member[index], PX_AMO_COMPARE_SWAP,
                         (uint64_t)meeting_epoch << 32 | (me + 1), 0);
    if (taken)
        px_fatal(1, "%s: PE %u and PE %u both come as member %u of a team", call,
                 (uint32_t)taken - 1, me, index);
    amo(maker, &entry->arrived, PX_AMO_ADD, 1, 0);
    return PX_OK;
}

/* Wait for all, then read who they are; the latest epoch of the meeting slot of any. */
static uint32_t read_members(uint64_t id, uint32_t size, uint32_t *list, const char *call)
{
    struct entry *entry = entry_of(id);
    uint32_t maker = maker_of(id), epoch = 0;
    struct px_wait wait = PX_WAIT_INIT(call);
    while (amo(maker, &entry->arrived, PX_AMO_FETCH, 0, 0) < size)
        px_wait_turn(&wait);
    for (uint32_t i = 0; i < size; i++) {
        uint64_t word = amo(maker, &entry->member[i], PX_AMO_FETCH, 0, 0);
        list[i] = (uint32_t)word - 1;
        if (list[i] >= px_coll.setup.n_pes)
            px_fatal(1, "%s: PE %u lists PE %u as a member; there is no such PE", call, maker,
                     list[i]);
        epoch = word >> 32 > epoch ? (uint32_t)(word >> 32) : epoch;
    }
    return epoch;
}

static void clear_entry(uint64_t id, uint32_t size)
{
    struct entry *entry = entry_of(id);
    uint32_t maker = maker_of(id);
    amo(maker, &entry->id, PX_AMO_SWAP, 0, 0);
    for (uint32_t i = 0; i < size; i++)
        amo(maker, &entry->member[i], PX_AMO_SWAP, 0, 0);
    amo(maker, &entry->arrived, PX_AMO_SWAP, 0, 0);
    amo(maker, &entry->expected, PX_AMO_SWAP, 0, 0); /* last: now it may be taken again */
}

/* The members are known: meet on the slot behind the last one and agree. */
static int found(uint64_t id, const struct px_members *members, uint32_t epoch,
                 struct px_team **team, const struct px_call *call)
{
    struct px_error error = PX_ERROR_INIT;
    struct px_team *meeting = px_team_new(members, &error), *new = px_team_new(members, &error);
    if (!meeting)
        px_fatal(1, "%s: %s", call->name, error.text);
    px_team_place(meeting, px_coll.setup.max_teams, epoch);
    struct px_visit visit = px_enter(meeting, call);
    int refused = px_teams_agree(&visit, &new, 1, &error);
    if (members->rank == 0)
        clear_entry(id, members->size);
    px_leave(&visit);
    meeting_epoch = meeting->epoch;
    px_team_free(meeting);
    if (refused)
        px_team_free(new);
    else
        *team = new;
    return refused;
}

static int join(uint64_t id, uint32_t size, uint32_t index, struct px_team **team,
                const struct px_call *call)
{
    struct px_error error = PX_ERROR_INIT;
    uint32_t *list = malloc(size * sizeof(*list));
    if (!list)
        px_fatal(1, "%s: no memory for a team of %u PEs", call->name, size);
    if (sign_in(id, size, index, call->name, &error) != PX_OK) {
        px_warn("%s: %s", call->name, error.text);
        free(list);
        return PX_TEAM_REFUSED;
    }
    uint32_t epoch = read_members(id, size, list, call->name);
    struct px_members members = {.rank = index, .size = size, .list = list};
    int refused = found(id, &members, epoch, team, call);
    free(list);
    return refused;
}

int px_team_join(uint64_t id, uint32_t size, uint32_t index, struct px_team **team,
                 const struct px_call *call)
{
    if (maker_of(id) >= px_coll.setup.n_pes) {
        px_warn("%s: %#" PRIx64 " is no unique id; nvshmemx_team_get_uniqueid makes them",
                call->name, id);
        return PX_TEAM_REFUSED;
    }
    if (atomic_flag_test_and_set(&joining))
        px_fatal(1, "%s: another thread of this PE is in this call; a PE joins one team at a time",
                 call->name);
    struct px_visit visit = px_announce(call);
    int refused = join(id, size, index, team, call);
    px_leave(&visit);
    atomic_flag_clear(&joining);
    return refused;
}
