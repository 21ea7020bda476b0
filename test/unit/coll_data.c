/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective that moves data against a serial model: all types and operators, sizes up to
 * 4099 elements at odd places, in place, over the world and over teams split from it, on one node,
 * on several and with nothing mapped. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/coll/coll.h"
#include "src/transport/move.h"
#include "test/unit/coll_world.h"

static const uint32_t two_by_two[] = {0, 0, 1, 1}, three_and_two[] = {0, 0, 0, 1, 1},
                      cyclic[] = {0, 1, 2, 0, 1, 2, 0, 1, 2}, apart[] = {4, 3, 2, 1, 0},
                      uneven[] = {0, 0, 0, 1, 2, 2, 0, 0, 1, 0, 2};

/* Element counts; the quick list is for layouts whose messages are delayed on purpose. */
static const size_t counts[] = {0, 1, 2, 3, 7, 12, 23, 49, 64, 100, 129, 513, 1025, 2048, 4099},
                    quick_counts[] = {0, 1, 3, 49, 129, 1025, 4099};

static const struct coll_world layouts[] = {
    {.n_pes = 1},
    {.n_pes = 2},
    {.n_pes = 3},
    {.n_pes = 5},
    {.n_pes = 9},
    {.n_pes = 4, .node_of = two_by_two, .seed = 1},
    {.n_pes = 5, .node_of = three_and_two, .seed = 2},
    {.n_pes = 9, .node_of = cyclic, .seed = 3},
    {.n_pes = 11, .node_of = uneven, .seed = 4},
    {.n_pes = 5, .node_of = apart, .seed = 5},
    {.n_pes = 9, .disable_p2p = true, .seed = 6},
};

static void over_layouts(coll_body_fn *body)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        bool quick = layouts[i].node_of || layouts[i].disable_p2p;
        assert_int_equal(coll_world_run(&layouts[i], body, quick ? &quick : NULL), 0);
    }
}

/* Two halves of the heap, used in turn: a member that is ahead may write to the next destination
 * already. */
static unsigned turn;

static unsigned char *area(unsigned which)
{
    return COLL_WORLD_HEAP + (turn & 1) * (COLL_WORLD_HEAP_BYTES / 2) +
           which * (COLL_WORLD_HEAP_BYTES / 4);
}

struct place {
    unsigned char *dest, *source;
};

/* Odd addresses that differ from turn to turn. */
static struct place next_place(void)
{
    turn++;
    return (struct place){.dest = area(0) + turn % 61, .source = area(1) + turn % 37};
}

/* The byte at `i` of what member `member` gives in this turn. */
static unsigned char byte_of(uint32_t member, size_t i)
{
    uint64_t x =
        (i + 1) * 0x9e3779b97f4a7c15u + member * 0xc2b2ae3d27d4eb4fu + turn * 0x165667b19e3779f9u;
    return (unsigned char)(x >> 57);
}

static void fill_bytes(unsigned char *at, uint32_t member, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = byte_of(member, i);
}

static struct px_call call_of(const char *name, struct place place, size_t count, uint64_t other)
{
    return (struct px_call){
        name, {(uintptr_t)place.dest, (uintptr_t)place.source, count, other}, 0};
}

/* The world, and halves of it that are taken forwards and backwards. */
static void over_teams(void (*test)(struct px_team *team, size_t count), const bool *quick)
{
    static const struct px_call split = {"test_split", {0}, 0}, destroy = {"test_destroy", {0}, 0};
    struct px_team *world = px_team_world(), *odd = NULL, *backwards = NULL;
    const size_t *list = quick ? quick_counts : counts;
    size_t n =
        quick ? sizeof(quick_counts) / sizeof(*quick_counts) : sizeof(counts) / sizeof(*counts);
    world_check(px_team_split(world, world_size > 1, 2, (world_size + (world_size == 1)) / 2, &odd,
                              &split) == 0);
    world_check(
        px_team_split(world, world_size - 1, -1, (world_size + 1) / 2, &backwards, &split) == 0);
    for (size_t i = 0; i < n; i++) {
        struct px_team *const teams[] = {world, odd, backwards};
        for (unsigned t = 0; t < 3; t++) {
            turn = (unsigned)(3 * i + t) *
                   1001; /* the same on all members, also after calls that some are not in */
            if (teams[t])
                test(teams[t], list[i]);
        }
    }
    px_sync(world, &split);
    if (odd)
        px_team_destroy(odd, &destroy);
    if (backwards)
        px_team_destroy(backwards, &destroy);
}

static void try_broadcast(struct px_team *team, size_t count)
{
    for (uint32_t root = 0; root < px_team_size(team); root += 1 + root) {
        struct place p = next_place();
        fill_bytes(p.source, px_team_rank(team), count);
        struct px_call call = call_of("test_broadcast", p, count, root);
        px_broadcast(team, p.dest, p.source, count, root, &call);
        for (size_t i = 0; i < count; i++)
            world_check(p.dest[i] == byte_of(root, i));
    }
}

static void try_fcollect(struct px_team *team, size_t count)
{
    struct place p = next_place();
    uint32_t size = px_team_size(team);
    fill_bytes(p.source, px_team_rank(team), count);
    p.dest[size * count] = 0xa5;
    struct px_call call = call_of("test_fcollect", p, count, 0);
    px_fcollect(team, p.dest, p.source, count, &call);
    memset(p.source, 0, count);
    for (uint32_t m = 0; m < size; m++)
        for (size_t i = 0; i < count; i++)
            world_check(p.dest[m * count + i] == byte_of(m, i));
    world_check(p.dest[size * count] == 0xa5);
}

static void try_collect(struct px_team *team, size_t count)
{
    struct place p = next_place();
    uint32_t size = px_team_size(team);
    size_t mine = count * (px_team_rank(team) % 3), at = 0;
    fill_bytes(p.source, px_team_rank(team), mine);
    struct px_call call = call_of("test_collect", p, mine, 0);
    call.own = 1u << 2;
    px_collect(team, p.dest, p.source, mine, &call);
    memset(p.source, 0, mine);
    for (uint32_t m = 0; m < size; m++)
        for (size_t i = 0; i < count * (m % 3); i++)
            world_check(p.dest[at++] == byte_of(m, i));
}

static void try_alltoall(struct px_team *team, size_t count)
{
    struct place p = next_place();
    uint32_t size = px_team_size(team), me = px_team_rank(team);
    fill_bytes(p.source, me, size * count);
    struct px_call call = call_of("test_alltoall", p, count, 0);
    px_alltoall(team, p.dest, p.source, count, &call);
    memset(p.source, 0, size * count);
    for (uint32_t m = 0; m < size; m++)
        for (size_t i = 0; i < count; i++)
            world_check(p.dest[m * count + i] == byte_of(m, me * count + i));
}

static void try_alltoalls(struct px_team *team, size_t count)
{
    struct place p = next_place();
    uint32_t size = px_team_size(team), me = px_team_rank(team);
    struct px_strides s = {
        .dest = 1 + turn % 3, .source = 1 + turn % 2, .count = count % 200, .width = 4};
    size_t source_block = s.count * s.source * s.width, dest_block = s.count * s.dest * s.width;
    fill_bytes(p.source, me, size * source_block);
    memset(p.dest, 0x5a, size * dest_block);
    struct px_call call = call_of("test_alltoalls", p, count, 0);
    px_alltoalls(team, p.dest, p.source, &s, &call);
    for (uint32_t m = 0; m < size; m++)
        for (size_t e = 0; e < s.count; e++)
            for (size_t b = 0; b < s.dest * s.width; b++) {
                unsigned char got = p.dest[m * dest_block + e * s.dest * s.width + b];
                unsigned char want = byte_of(m, me * source_block + e * s.source * s.width + b);
                world_check(got == (b < s.width ? want : 0x5a));
            }
}

/* Small numbers, so that sums and products are exact in every type. */
static void fill_numbers(unsigned char *at, enum px_dtype type, uint32_t member, size_t first,
                         size_t count)
{
    static const unsigned char floats[4][4] = {
        {0}, {0, 0, 0x80, 0x3f}, {0, 0, 0, 0x40}, {0, 0, 0x80, 0xbf}};
    static const uint16_t halves[4] = {0, 0x3c00, 0x4000, 0xbc00},
                          brains[4] = {0, 0x3f80, 0x4000, 0xbf80};
    static const double doubles[4] = {0, 1, 2, -1};
    size_t width = px_dtype_info[type].size;
    for (size_t i = 0; i < count; i++) {
        unsigned value = byte_of(member, first + i) & 3;
        unsigned char *element = at + i * width;
        if (type == PX_TYPE_float)
            memcpy(element, floats[value], 4);
        else if (type == PX_TYPE_double)
            memcpy(element, &doubles[value], 8);
        else if (type == PX_TYPE_half)
            memcpy(element, &halves[value], 2);
        else if (type == PX_TYPE_bfloat16)
            memcpy(element, &brains[value], 2);
        else
            for (size_t b = 0; b < width; b++)
                element[b] = byte_of(member + 100, (first + i) * width + b);
    }
}

/* The model: operands of members 0 to `last`, elements first to first + count of each, folded in
 * order. */
static void model(unsigned char *result, struct px_arithmetic a, uint32_t last, size_t first,
                  size_t count)
{
    unsigned char *operand = malloc(count * px_dtype_info[a.type].size + 1);
    fill_numbers(result, a.type, 0, first, count);
    for (uint32_t m = 1; m <= last; m++) {
        fill_numbers(operand, a.type, m, first, count);
        px_reduce_kernel(a.type, a.op, result, operand, count);
    }
    free(operand);
}

static unsigned char *model_room(void)
{
    static unsigned char room[4099 * 16];
    return room;
}

/* Every type in each call, the operators in turn. */
static struct px_arithmetic next_arithmetic(unsigned type)
{
    unsigned op = turn % PX_OP_COUNT;
    for (unsigned tried = 0; tried < PX_OP_COUNT; tried++, op = (op + 1) % PX_OP_COUNT)
        if (px_reduce_has((enum px_dtype)type, (enum px_op)op))
            return (struct px_arithmetic){(enum px_dtype)type, (enum px_op)op};
    return (struct px_arithmetic){PX_TYPE_int, PX_OP_SUM};
}

static void try_reduce(struct px_team *team, size_t count)
{
    uint32_t size = px_team_size(team);
    for (unsigned type = 0; type < PX_TYPE_COUNT; type++) {
        struct place p = next_place();
        struct px_arithmetic a = next_arithmetic(type);
        size_t bytes = count * px_dtype_info[a.type].size;
        if (turn % 3 == 0)
            p.dest = p.source;
        fill_numbers(p.source, a.type, px_team_rank(team), 0, count);
        p.dest[bytes] = 0xa5;
        struct px_call call = call_of("test_reduce", p, count, a.op);
        px_reduce(team, p.dest, p.source, count, a, &call);
        model(model_room(), a, size - 1, 0, count);
        world_check(memcmp(p.dest, model_room(), bytes) == 0);
        world_check(p.dest[bytes] == 0xa5);
    }
}

static void try_reducescatter(struct px_team *team, size_t count)
{
    uint32_t size = px_team_size(team), me = px_team_rank(team);
    for (unsigned type = turn % 3; type < PX_TYPE_COUNT; type += 3) {
        struct place p = next_place();
        struct px_arithmetic a = next_arithmetic(type);
        size_t bytes = count * px_dtype_info[a.type].size;
        if (turn % 2 == 0)
            p.dest = p.source;
        fill_numbers(p.source, a.type, me, 0, size * count);
        struct px_call call = call_of("test_reducescatter", p, count, a.op);
        px_reducescatter(team, p.dest, p.source, count, a, &call);
        model(model_room(), a, size - 1, me * count, count);
        world_check(memcmp(p.dest, model_room(), bytes) == 0);
    }
}

static void try_scan(struct px_team *team, size_t count)
{
    uint32_t me = px_team_rank(team);
    for (unsigned type = turn % 2; type < PX_TYPE_COUNT; type += 2) {
        struct place p = next_place();
        struct px_arithmetic a = next_arithmetic(type);
        size_t bytes = count * px_dtype_info[a.type].size;
        bool inclusive = turn % 2;
        if (turn % 3 == 0)
            p.dest = p.source;
        fill_numbers(p.source, a.type, me, 0, count);
        struct px_call call = call_of("test_scan", p, count, a.op);
        px_scan(team, p.dest, p.source, count, a, inclusive, &call);
        if (inclusive || me > 0)
            model(model_room(), a, inclusive ? me : me - 1, 0, count);
        else
            memset(model_room(), 0, bytes);
        world_check(memcmp(p.dest, model_room(), bytes) == 0);
    }
}

#define CASE(name)                                                                                 \
    static void body_##name(void *arg)                                                             \
    {                                                                                              \
        over_teams(try_##name, arg);                                                               \
    }                                                                                              \
    static void name##_agrees_with_the_model(void **state)                                         \
    {                                                                                              \
        over_layouts(body_##name);                                                                 \
    }

CASE(broadcast)
CASE(fcollect)
CASE(collect)
CASE(alltoall)
CASE(alltoalls)
CASE(reduce)
CASE(reducescatter)
CASE(scan)

/* What the environment can force: nothing short, nothing direct, levels the other way round. */
static void other_algorithms_agree_too(void **state)
{
    static const char *const settings[][2] = {
        {"NVSHMEM_TEAM_DIRECT_MAX", "2"},       {"NVSHMEM_COLL_SHORT_SIZE", "16"},
        {"NVSHMEM_REDUCE_ALGO", "two-level"},   {"NVSHMEM_BCAST_ALGO", "two-level"},
        {"NVSHMEM_FCOLLECT_ALGO", "two-level"}, {"NVSHMEM_REDUCE_SCRATCH_SIZE", "16"},
        {"NVSHMEM_TEAM_DIRECT_NODES", "1"},     {"NVSHMEM_REDUCE_SHORT_FOLDS", "1"},
        {"NVSHMEM_BCAST_PIECES_NODES", "2"},    {"NVSHMEM_BCAST_PIECES_SIZE", "1"},
    };
    static coll_body_fn *const bodies[] = {body_broadcast, body_fcollect, body_collect, body_reduce,
                                           body_scan};
    size_t n = sizeof(settings) / sizeof(settings[0]);
    for (size_t i = 0; i < n; i++)
        setenv(settings[i][0], settings[i][1], 1);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        over_layouts(bodies[i]);
    for (size_t i = 0; i < n; i++)
        setenv(settings[i][0], strstr(settings[i][0], "ALGO") ? "one-level" : settings[i][1], 1);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        over_layouts(bodies[i]);
    for (size_t i = 0; i < n; i++)
        unsetenv(settings[i][0]);
}

/* A little of everything, for many orders in which messages may arrive. */
static void mix(void *arg)
{
    for (unsigned i = 0; i < 3; i++) {
        static const size_t some[] = {1, 60, 700};
        turn = 1001 * i;
        try_fcollect(px_team_world(), some[i]);
        try_broadcast(px_team_world(), some[i]);
        try_alltoall(px_team_world(), some[i]);
        struct place p = next_place();
        fill_numbers(p.source, PX_TYPE_int, px_team_rank(px_team_world()), 0, some[i]);
        struct px_arithmetic a = {PX_TYPE_int, PX_OP_SUM};
        struct px_call call = call_of("test_reduce", p, some[i], a.op);
        px_reduce(px_team_world(), p.dest, p.source, some[i], a, &call);
        model(model_room(), a, world_size - 1, 0, some[i]);
        world_check(memcmp(p.dest, model_room(), some[i] * sizeof(int)) == 0);
    }
}

static void a_hundred_seeds(void **state)
{
    const char *given = getenv("PX_TEST_SEED");
    unsigned first = given ? (unsigned)atoi(given) : 1, last = given ? first : 100;
    for (unsigned seed = first; seed <= last; seed++) {
        struct coll_world world = layouts[5 + seed % 6];
        world.seed = seed;
        if (coll_world_run(&world, mix, NULL) != 0)
            fail_msg("with PX_TEST_SEED=%u", seed);
    }
}

/* Sums that round: whatever the order is, it is the same for all. */
static void sum_fractions(void *arg)
{
    static const struct px_call compare = {"test_compare", {0}, 0};
    for (size_t count = 1; count <= 4096; count *= 4) {
        struct place p = next_place();
        float *source = (float *)area(1), *dest = (float *)area(0);
        for (size_t i = 0; i < count; i++)
            source[i] = 1.0f / (float)(3 + i + 7 * world_pe);
        struct px_call call = call_of("test_sum", p, count, 0);
        px_reduce(px_team_world(), dest, source, count,
                  (struct px_arithmetic){PX_TYPE_float, PX_OP_SUM}, &call);
        px_barrier(px_team_world(), &compare);
        float *theirs = malloc(count * sizeof(*theirs));
        px_get((world_pe + 1) % world_size, theirs, dest, count * sizeof(*theirs));
        world_check(memcmp(theirs, dest, count * sizeof(*theirs)) == 0);
        free(theirs);
        px_barrier(px_team_world(), &compare);
    }
}

static void sums_have_the_same_bits_everywhere(void **state)
{
    over_layouts(sum_fractions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcast_agrees_with_the_model),
        cmocka_unit_test(fcollect_agrees_with_the_model),
        cmocka_unit_test(collect_agrees_with_the_model),
        cmocka_unit_test(alltoall_agrees_with_the_model),
        cmocka_unit_test(alltoalls_agrees_with_the_model),
        cmocka_unit_test(reduce_agrees_with_the_model),
        cmocka_unit_test(reducescatter_agrees_with_the_model),
        cmocka_unit_test(scan_agrees_with_the_model),
        cmocka_unit_test(a_hundred_seeds),
        cmocka_unit_test(other_algorithms_agree_too),
        cmocka_unit_test(sums_have_the_same_bits_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
