/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this folder share: the layout of a team's slot, the team itself, and the visit
 * to a collective.
 *
 * The invariant that all of them keep: every meeting (one epoch of a team) is a full one, nobody
 * leaves it before all have entered. So whoever starts epoch e+2 knows that all members have left
 * epoch e, and what the slot holds is doubled by the parity of the epoch and needs no
 * acknowledgement. */
#ifndef PX_COLL_PRIVATE_H
#define PX_COLL_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/coll/coll.h"
#include "src/coll/tune.h"
#include "src/transport/control.h"
#include "src/transport/move.h"
#include "src/transport/wait.h"

#define PX_LINES      32
#define PX_LINE_BYTES 48   /* of data that ride in the flag's own cache line */
#define PX_CELLS      6144 /* bytes for larger messages, divided by the algorithm */

/* Lines by use; a direct meeting of up to 32 members uses line = rank of the sender instead. */
enum {
    PX_LINE_ROUND = 0,   /* dissemination and pairwise exchange, by round */
    PX_LINE_FOLD = 18,   /* who is beyond the power of two hands its part over ... */
    PX_LINE_UNFOLD = 19, /* ... and gets the result */
    PX_LINE_UP = 20,     /* child to parent within the node, by round */
    PX_LINE_DOWN = 31,   /* parent to child */
};
#define PX_ROUNDS_MAX PX_LINE_FOLD
#define PX_CELL_TREE  (PX_CELLS / PX_LINES) /* 192 */

struct px_line {
    _Alignas(PX_CACHE_LINE) _Atomic uint64_t flag; /* epoch << 32 | digest of the call */
    _Alignas(16) unsigned char data[PX_LINE_BYTES];
};

struct px_slot {
    struct px_line lines[2][PX_LINES];
    _Alignas(PX_CACHE_LINE) unsigned char cells[2][PX_CELLS];
};
_Static_assert(sizeof(struct px_slot) == PX_TEAM_SLOT_BYTES, "a team slot fills its place");

/* One turn of a meeting: raise a flag at a member, or wait for one of ours. */
struct px_step {
    bool send;
    uint8_t line;
    uint32_t pe;
    _Atomic uint64_t *flag[2];  /* by parity; NULL when the partner is not mapped */
    _Atomic uint32_t *sleeping; /* of the partner */
};

enum px_shape {
    PX_SHAPE_DIRECT,        /* each to each: few members */
    PX_SHAPE_DISSEMINATION, /* log2(n) rounds: one node, or one member on each */
    PX_SHAPE_TWO_LEVEL,     /* up a tree in the node, leaders by dissemination, down again */
};

/* Members of one node: positions first .. first+count-1 of px_team.by_group. */
struct px_group {
    uint32_t first, count;
};

struct px_team {
    int32_t handle;
    uint32_t slot_number;
    uint32_t rank, size;
    uint32_t start, stride; /* see struct px_members */
    uint32_t *list;
    uint32_t epoch;
    long num_contexts;    /* as configured, reported back only */
    struct px_slot *slot; /* mine; the same symmetric address everywhere */

    enum px_shape shape;
    struct px_step *steps;
    uint32_t n_steps;

    /* Members by node, in the order of their first members. by_group holds member numbers. */
    uint32_t n_groups, my_group, local_rank;
    struct px_group *groups;
    uint32_t *by_group;

    uint64_t *offsets; /* [size + 1] where blocks begin; NULL before the first use */
    char *scratch;     /* of large reductions; NULL before the first */
};

/* What the job looks like; set by px_coll_open. */
struct px_coll_state {
    struct px_coll_setup setup;
    struct px_control *control; /* my own */
    _Atomic(struct px_team *) *teams; /* [max_teams], by slot number; written under a lock */
    uint32_t last_epoch;        /* the highest of any destroyed team: new ones start after it */
    struct px_tuning tuning;
    const uint32_t *group_of; /* [n_pes]: node, or the PE itself where nothing is mapped */
};
extern struct px_coll_state px_coll;

/* A collective under way. */
struct px_visit {
    struct px_team *team;
    const struct px_call *call;
    uint32_t digest;
    unsigned parity;
    uint64_t value; /* of the flags of this meeting */
    bool announced; /* px_where speaks of it, and not of a call of another thread */
};

/* visit.c */
/* Where this PE is, without a meeting yet; the team is -1. */
struct px_visit px_announce(const struct px_call *call);
struct px_visit px_enter(struct px_team *team, const struct px_call *call);
void px_leave(const struct px_visit *visit);
void px_visit_since(const struct px_visit *visit); /* the wait takes long: note the time */
_Noreturn void px_coll_mismatch(const struct px_visit *visit, uint32_t pe);

/* Start the next meeting of a visit. */
static inline void px_next_meeting(struct px_visit *visit)
{
    uint32_t epoch = ++visit->team->epoch;
    visit->parity = epoch & 1;
    visit->value = (uint64_t)epoch << 32 | visit->digest;
}

/* Whether an algorithm over two levels serves the team. */
static inline bool px_by_nodes(const struct px_team *team, enum px_levels levels)
{
    return levels == PX_LEVELS_AUTO ? team->shape == PX_SHAPE_TWO_LEVEL : levels == PX_LEVELS_TWO;
}

/* meet.c */
void px_meet(struct px_visit *visit);
/* Wait for a line of this meeting; `pe` is who raises it. */
void px_await_slow(const struct px_visit *visit, const _Atomic uint64_t *flag, uint32_t pe);

static inline void px_await(const struct px_visit *visit, const _Atomic uint64_t *flag, uint32_t pe)
{
    if (atomic_load_explicit(flag, memory_order_acquire) != visit->value)
        px_await_slow(visit, flag, pe);
}

/* Hand `bytes` to a PE and raise its line. Short ones ride in the line, others lie at `cell` of the
 * cells. */
void px_hand(const struct px_visit *visit, uint32_t pe, unsigned line, size_t cell,
             const void *data, size_t bytes);
/* Wait for what px_hand of `pe` brings; valid until the meeting after the next begins. */
const void *px_take(const struct px_visit *visit, uint32_t pe, unsigned line, size_t cell,
                    size_t bytes);

/* shape.c: groups, shape and room for the steps of a team whose members are known; then, with its
 * slot, the steps. */
px_status px_shape(struct px_team *team, struct px_error *error);
void px_lay_steps(struct px_team *team); /* again, after peers were mapped anew */
void px_unshape(struct px_team *team);

/* fold.c: one meeting after which `value` is the fold of all members' values, the same bits
 * everywhere. Lower members come first in each step. bytes <= px_fold_max(). */
typedef void px_fold_fn(void *arg, void *lower, const void *upper); /* lower = lower OP upper */
void px_fold(struct px_visit *visit, void *value, size_t bytes, px_fold_fn *fold, void *arg);
size_t px_fold_max(const struct px_team *team);

/* direct.c: one meeting of a direct team in which each member hands a block to each other. */
static inline size_t px_direct_cell(const struct px_team *team)
{
    return PX_CELLS / team->size & ~(size_t)(PX_CACHE_LINE - 1);
}
static inline bool px_direct_fits(const struct px_team *team, size_t bytes)
{
    return team->shape == PX_SHAPE_DIRECT && bytes <= px_direct_cell(team) &&
           bytes <= px_coll.tuning.short_bytes;
}
/* Member i gets `source + i * stride`; call px_direct_take for every member afterwards. */
void px_direct_hand(struct px_visit *visit, const void *source, size_t stride, size_t bytes);
const void *px_direct_take(const struct px_visit *visit, uint32_t member, size_t bytes);

/* gather.c: the block of each member, from `from` (the same on all) into dest + offset. */
struct px_blocks {
    size_t bytes;            /* of every block, or ... */
    const uint64_t *offsets; /* ... [size + 1] where each begins in dest */
    bool in_place;           /* a member's block lies at its offset of `from`, not at its start */
    bool have_all;           /* this PE has all blocks already: it only serves others */
    bool by_nodes;           /* two levels */
};
/* Room for offsets; ends the job when there is none. */
uint64_t *px_offsets(struct px_team *team, const char *call);
/* All members have entered and their blocks are ready; on return this PE has all of them and nobody
 * reads any more. */
void px_gather(struct px_visit *visit, void *dest, const void *from,
               const struct px_blocks *blocks);

/* pieces.c: folding what lies at several PEs, a piece at a time. */
struct px_operand {
    uint32_t pe;
    const void *from; /* symmetric */
};
struct px_pieces {
    struct px_team *team;
    struct px_arithmetic arithmetic;
    size_t width;       /* bytes of an element */
    uint32_t count;     /* operands */
    const char *source; /* these three for the functions below */
    char *dest;
    size_t elements;
    /* Operand i of the piece that starts at element `first`. */
    struct px_operand (*operand)(const struct px_pieces *pieces, uint32_t i, size_t first);
    /* What to do with the result of a piece; it is overwritten afterwards. */
    void (*deliver)(const struct px_pieces *pieces, size_t first, size_t n, const void *result);
};
/* Elements [first, end), all operands in order. */
void px_fold_pieces(const struct px_pieces *pieces, size_t first, size_t end);
/* Room of a team for a piece and for what comes from remote members. */
char *px_scratch(struct px_team *team, const char *call);
size_t px_scratch_landing(void);
#define PX_PIECE ((size_t)8192) /* bytes: two of them and their sources stay in the first cache */

/* Elements [first, end) that member i of `parts` computes: whole cache lines. */
struct px_range {
    size_t first, end;
};
static inline struct px_range px_range_of(size_t elements, size_t width, uint32_t parts, uint32_t i)
{
    size_t unit = PX_CACHE_LINE / width ? PX_CACHE_LINE / width : 1;
    size_t each = (elements / parts + (elements % parts != 0) + unit - 1) / unit * unit;
    size_t first = each * i < elements ? each * i : elements;
    return (struct px_range){.first = first,
                             .end = elements - first < each ? elements : first + each};
}

/* Who is in a team: member i is PE start + i * stride modulo 2^32, or list[i] where there is a
 * list. */
struct px_members {
    uint32_t rank, size;
    uint32_t start, stride;
    const uint32_t *list;
};

/* team.c: make (members are copied), give a slot with its first epoch, enter into the table; and
 * the reverse. Threads may make teams at once: a slot is reserved first, or another thread has it. */
struct px_team *px_team_new(const struct px_members *members, struct px_error *error);
bool px_team_reserve(uint32_t slot);
void px_team_unreserve(uint32_t slot);
void px_team_place(struct px_team *team, uint32_t slot, uint32_t epoch);
void px_team_enlist(struct px_team *team);
/* Bit i: slot first + i is free, up to 64 * words of them. Returns the highest epoch of any team that is gone. */
uint32_t px_team_free_slots(uint32_t first, uint64_t *free, unsigned words);
void px_team_strike(struct px_team *team);
void px_team_free(struct px_team *team);

/* split.c: agree in the visit of the parent on slots for up to two teams, of which some may be NULL
 * here, or on the failure of a member, `error`. 0 or PX_TEAM_REFUSED, the same on all. */
int px_teams_agree(struct px_visit *visit, struct px_team *const *teams, unsigned count,
                   const struct px_error *error);

#endif
