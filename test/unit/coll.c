/* SPDX-License-Identifier: BSD-3-Clause */
/* Meetings, agreement and broadcast over all shapes of teams: 1 to 9 PEs on one node, several
 * nodes, nothing mapped. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/coll/coll.h"
#include "src/transport/move.h"
#include "test/unit/coll_world.h"

static const struct px_call no_arguments = {.name = "test_barrier"};

/* Nodes of the layouts that are tried beside one node and all remote. */
static const uint32_t two_by_two[] = {0, 0, 1, 1}, three_and_two[] = {0, 0, 0, 1, 1},
                      cyclic[] = {0, 1, 2, 0, 1, 2, 0, 1, 2},
                      lonely[] = {0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}, apart[] = {4, 3, 2, 1, 0};

static void over_layouts(coll_body_fn *body, uint32_t pes)
{
    static const struct coll_world layouts[] = {
        {.n_pes = 4, .node_of = two_by_two}, {.n_pes = 5, .node_of = three_and_two},
        {.n_pes = 9, .node_of = cyclic},     {.n_pes = 12, .node_of = lonely},
        {.n_pes = 5, .node_of = apart},      {.n_pes = 4, .disable_p2p = true},
        {.n_pes = 9, .disable_p2p = true},   {.n_pes = 17},
    };
    for (uint32_t n = 1; n <= pes; n++)
        assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = n}, body, NULL), 0);
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        assert_int_equal(coll_world_run(&layouts[i], body, NULL), 0);
}

/* Nobody leaves round i before all have entered it: each sees the others' counters at i or i + 1.
 */
static void count_rounds(void *arg)
{
    volatile uint64_t *counter = (volatile uint64_t *)COLL_WORLD_HEAP;
    for (uint64_t i = 1; i <= 300; i++) {
        *counter = i;
        px_barrier(px_team_world(), &no_arguments);
        for (uint32_t pe = 0; pe < world_size; pe++) {
            uint64_t seen;
            px_get(pe, &seen, (void *)counter, sizeof(seen));
            world_check(seen == i || seen == i + 1);
        }
        px_sync(px_team_of(PX_TEAM_HANDLE_BASE + PX_TEAM_NODE), &no_arguments);
    }
    px_barrier(px_team_world(), &no_arguments);
}

static void a_barrier_waits_for_everyone(void **state)
{
    over_layouts(count_rounds, 9);
}

static void agree(void *arg)
{
    static const struct px_call call = {.name = "test_agree"};
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t least =
            px_agree_min(px_team_world(), 1000 * i + (world_pe + i) % world_size + 7, &call);
        world_check(least == 1000 * i + 7);
        world_check(
            px_agree_min(px_team_world(), i % world_size == world_pe ? 0 : UINT64_MAX, &call) == 0);
        px_sync(px_team_world(), &no_arguments);
    }
}

static void the_least_value_is_agreed_on(void **state)
{
    over_layouts(agree, 9);
}

static void broadcast_sizes(void *arg)
{
    static const size_t sizes[] = {0, 1, 8, 47, 48, 49, 200, 383, 768, 4099, 70001};
    unsigned char *source = COLL_WORLD_HEAP + 3, *dest = source + (1 << 20);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (uint32_t root = 0; root < world_size; root++) {
            size_t bytes = sizes[s];
            memset(source, (int)(world_pe + s), bytes);
            memset(dest, 0xee, bytes + 1);
            const struct px_call call = {
                "test_broadcast", {(uintptr_t)dest, (uintptr_t)source, bytes, root}, 0};
            px_broadcast(px_team_world(), dest, source, bytes, root, &call);
            memset(source, 0xdd, bytes); /* may be changed on return */
            for (size_t i = 0; i < bytes; i++)
                world_check(dest[i] == (unsigned char)(root + s));
            world_check(dest[bytes] == 0xee);
        }
    }
    px_barrier(px_team_world(), &no_arguments);
}

static void broadcast_fills_every_destination(void **state)
{
    over_layouts(broadcast_sizes, 5);
}

static void disagree(void *arg)
{
    const struct px_call mine = {"test_reduce", {0x500000001000, 0x500000002000, 64}, 0},
                         other = {"test_gather", {0x500000001000, 7}, 0};
    px_sync(px_team_world(), &no_arguments);
    px_sync(px_team_world(), world_pe == 2 ? &other : &mine);
}

static void a_mismatch_names_both_calls_and_pes(void **state)
{
    const struct coll_world layouts[] = {
        {.n_pes = 3}, {.n_pes = 4, .node_of = two_by_two}, {.n_pes = 17}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_not_equal(coll_world_run(&(struct coll_world){.n_pes = layouts[i].n_pes,
                                                                 .node_of = layouts[i].node_of,
                                                                 .seconds = 3},
                                            disagree, NULL),
                             0);
        const char *said = coll_world_said();
        assert_non_null(strstr(said, "test_reduce(0x500000001000, 0x500000002000, 64)"));
        assert_non_null(strstr(said, "test_gather(0x500000001000, 7)"));
        assert_non_null(strstr(said, "PE 2"));
    }
}

static void differ_where_allowed(void *arg)
{
    const struct px_call call = {"test_collect", {1, world_pe, 2}, 1u << 1};
    for (int i = 0; i < 10; i++)
        px_sync(px_team_world(), &call);
}

static void arguments_of_its_own_may_differ(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 5}, differ_where_allowed, NULL),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_waits_for_everyone),
        cmocka_unit_test(the_least_value_is_agreed_on),
        cmocka_unit_test(broadcast_fills_every_destination),
        cmocka_unit_test(a_mismatch_names_both_calls_and_pes),
        cmocka_unit_test(arguments_of_its_own_may_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
