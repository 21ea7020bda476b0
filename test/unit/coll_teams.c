/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and destroying teams: odd arguments, teams of teams, many at once, a table that is full,
 * and teams of PEs that have only an id in common. */
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

static const struct px_call split = {"test_split", {0}, 0}, sync_call = {"test_sync", {0}, 0},
                            destroy = {"test_destroy", {0}, 0};
static const uint32_t three_and_two[] = {0, 0, 0, 1, 1}, cyclic[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};

/* Compare a team with what it should be: `start + i * stride` of the world for member i. */
static void expect(const struct px_team *team, int64_t start, int64_t stride, int64_t size)
{
    int64_t rank = -1;
    for (int64_t i = 0; i < size; i++)
        if (start + i * stride == world_pe)
            rank = i;
    world_check((team != NULL) == (rank >= 0));
    if (!team)
        return;
    world_check(px_team_rank(team) == rank && px_team_size(team) == size);
    world_check(px_team_of(px_team_handle(team)) == team);
    for (int64_t i = 0; i < size; i++) {
        world_check(px_team_pe(team, (uint32_t)i) == start + i * stride);
        world_check(px_team_find(team, (uint32_t)(start + i * stride)) == i);
    }
    world_check(px_team_find(team, 1000) == -1);
}

static void split_oddly(void *arg)
{
    static const struct {
        int64_t start, stride, size;
        bool good;
    } table[] = {
        {0, 1, 5, true},         {0, 1, 6, false},         {0, 1, 0, false},
        {0, 1, -1, false},       {4, -1, 5, true},         {4, -2, 3, true},
        {4, -2, 4, false},       {2, 0, 1, true},          {2, 0, 2, false},
        {5, 1, 1, false},        {-1, 1, 1, false},        {3, 1, 3, false},
        {1, 2, 2, true},         {1, INT32_MAX, 2, false}, {0, INT32_MIN, 2, false},
        {4, INT32_MAX, 1, true}, {0, 1, INT32_MAX, false}, {1, -1, 3, false},
        {3, -3, 2, true},        {0, -1, 1, true},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct px_team *team = NULL;
        int status = px_team_split(px_team_world(), table[i].start, table[i].stride, table[i].size,
                                   &team, &split);
        world_check((status == 0) == table[i].good);
        if (table[i].good)
            expect(team, table[i].start, table[i].stride, table[i].size);
        else
            world_check(team == NULL);
        if (team)
            px_sync(team, &sync_call);
        if (team)
            px_team_destroy(team, &destroy);
    }
    px_sync(px_team_world(), &sync_call);
}

static void odd_arguments_are_refused_by_all(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 5}, split_oddly, NULL), 0);
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 5, .node_of = three_and_two},
                                    split_oddly, NULL),
                     0);
}

/* Rows and columns of widths that do and do not divide the number of PEs, and wider than it. */
static void split_by_two(void *arg)
{
    for (int64_t width = 1; width <= 12; width++) {
        struct px_team *x = NULL, *y = NULL;
        int64_t row = width < world_size ? width : world_size, mine = world_pe / row * row,
                column = world_pe % row;
        world_check(px_team_split_2d(px_team_world(), width, &x, &y, &split) == 0);
        expect(x, mine, 1, mine + row <= world_size ? row : world_size - mine);
        expect(y, column, row, (world_size - column + row - 1) / row);
        px_sync(y, &sync_call);
        px_sync(x, &sync_call);
        px_sync(px_team_world(), &sync_call);
        px_team_destroy(x, &destroy);
        px_team_destroy(y, &destroy);
    }
    struct px_team *x = NULL, *y = NULL;
    world_check(px_team_split_2d(px_team_world(), 0, &x, &y, &split) != 0 && !x && !y);
    world_check(px_team_split_2d(px_team_world(), -3, &x, &y, &split) != 0 && !x && !y);
}

static void rows_and_columns(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 9}, split_by_two, NULL), 0);
    assert_int_equal(
        coll_world_run(&(struct coll_world){.n_pes = 9, .node_of = cyclic}, split_by_two, NULL), 0);
}

/* Of a team in reverse order, every second, and of that the node team's way: lists of lists. */
static void split_a_split(void *arg)
{
    struct px_team *reverse = NULL, *second = NULL,
                   *node = px_team_of(PX_TEAM_HANDLE_BASE + PX_TEAM_NODE), *half = NULL;
    world_check(px_team_split(px_team_world(), world_size - 1, -1, world_size, &reverse, &split) ==
                0);
    world_check(px_team_split(reverse, 0, 2, (world_size + 1) / 2, &second, &split) == 0);
    expect(second, world_size - 1, -2, (world_size + 1) / 2);
    world_check(
        px_team_split(node, px_team_size(node) - 1, -1, px_team_size(node), &half, &split) == 0);
    world_check(px_team_rank(half) == px_team_size(node) - 1 - px_team_rank(node));
    px_sync(half, &sync_call);
    if (second)
        px_sync(second, &sync_call);
    world_check(px_team_predefined(node) && !px_team_predefined(half));
    px_sync(px_team_world(), &sync_call);
}

static void teams_of_teams(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 7}, split_a_split, NULL), 0);
    assert_int_equal(
        coll_world_run(&(struct coll_world){.n_pes = 9, .node_of = cyclic}, split_a_split, NULL),
        0);
}

static void live_many(void *arg)
{
    struct px_team *teams[300];
    int32_t stale = -1;
    for (int i = 0; i < 300; i++) {
        teams[i] = NULL;
        world_check(px_team_split(px_team_world(), 0, 1, 1 + i % world_size, &teams[i], &split) ==
                    0);
    }
    for (int round = 0; round < 2; round++)
        for (int i = 299; i >= 0; i--)
            if (teams[i])
                px_sync(teams[i], &sync_call);
    for (int i = 0; i < 300; i++)
        if (teams[i]) {
            stale = px_team_handle(teams[i]);
            px_team_destroy(teams[i], &destroy);
            world_check(px_team_of(stale) == NULL);
        }
    for (int i = 0; i < 10000; i++) {
        struct px_team *team = NULL;
        world_check(px_team_split(px_team_world(), i % 2, 1, world_size - 1, &team, &split) == 0);
        world_check(px_team_of(stale) == NULL);
        if (team && i % 100 == 0)
            px_sync(team, &sync_call);
        if (team)
            px_team_destroy(team, &destroy);
    }
    px_sync(px_team_world(), &sync_call);
}

static void three_hundred_teams_and_ten_thousand_rounds(void **state)
{
    assert_int_equal(
        coll_world_run(&(struct coll_world){.n_pes = 3, .max_teams = 320}, live_many, NULL), 0);
}

/* A full table refuses everyone, also where some members have room, and loses nothing. */
static void fill_table(void *arg)
{
    for (int round = 0; round < 3; round++) {
        struct px_team *teams[80] = {NULL}, *more = NULL, *x = NULL, *y = NULL;
        int made = 0;
        /* PE 0 is in all of them, the others in every second. */
        while (made < 80 && px_team_split(px_team_world(), 0, 1, made % 2 ? 1 : world_size,
                                          &teams[made], &split) == 0)
            made++;
        world_check(made == 16 - PX_TEAM_PREDEFINED);
        world_check(px_team_split(px_team_world(), 0, 1, world_size, &more, &split) != 0 && !more);
        if (teams[made - 1])
            px_team_destroy(teams[made - 1], &destroy);
        world_check(px_team_split_2d(px_team_world(), 2, &x, &y, &split) != 0 && !x && !y);
        for (int i = 0; i < made - 1; i++)
            if (teams[i])
                px_team_destroy(teams[i], &destroy);
    }
    px_sync(px_team_world(), &sync_call);
}

static void a_full_table_refuses_and_recovers(void **state)
{
    assert_int_equal(
        coll_world_run(&(struct coll_world){.n_pes = 4, .max_teams = 16}, fill_table, NULL), 0);
    assert_non_null(strstr(coll_world_said(), "NVSHMEM_MAX_TEAMS is 16"));
}

/* PE 0 and the last are neighbours in one team, the PEs between them in another, at the same time;
 * ids come from PEs in and out of the team. */
static void join_by_id(void *arg)
{
    static const struct px_call join = {"test_join", {0}, 0};
    struct px_error error = PX_ERROR_INIT;
    uint64_t *ids = (uint64_t *)COLL_WORLD_HEAP, unused;
    for (int i = 0; i < 100; i++)
        world_check(px_team_unique_id(&unused, &error) == PX_OK);
    for (int round = 0; round < 50; round++) {
        world_check(px_team_unique_id(ids, &error) == PX_OK);
        px_sync(px_team_world(), &sync_call);
        uint64_t outer, inner;
        px_get(0, &outer, ids, sizeof(outer));
        px_get((uint32_t)round % world_size, &inner, ids, sizeof(inner));
        if (round % (int)world_size == 0)
            px_get(1, &inner, ids, sizeof(inner));
        struct px_team *team = NULL;
        bool at_end = world_pe == 0 || world_pe == world_size - 1;
        if (at_end)
            world_check(px_team_join(outer, 2, world_pe == 0, &team, &join) == 0);
        else
            world_check(
                px_team_join(inner, world_size - 2, world_size - 2 - world_pe, &team, &join) == 0);
        world_check(team && px_team_size(team) == (at_end ? 2 : world_size - 2));
        world_check(px_team_pe(team, px_team_rank(team)) == world_pe);
        world_check(px_team_pe(team, 0) == (at_end ? world_size - 1 : world_size - 2));
        for (int i = 0; i < round % 5; i++)
            px_sync(team, &sync_call);
        px_team_destroy(team, &destroy);
        px_sync(px_team_world(), &sync_call);
        world_check(px_team_join(at_end ? outer : inner, 2, 0, &team, &join) !=
                    0); /* an id makes one team */
        px_sync(px_team_world(), &sync_call);
    }
}

static void an_id_makes_a_team_of_any_pes(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 5}, join_by_id, NULL), 0);
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 5, .node_of = three_and_two},
                                    join_by_id, NULL),
                     0);
    assert_int_equal(
        coll_world_run(&(struct coll_world){.n_pes = 5, .disable_p2p = true}, join_by_id, NULL), 0);
}

/* Disjoint teams run different numbers of collectives. */
static void go_their_own_way(void *arg)
{
    struct px_team *low = NULL, *high = NULL;
    uint32_t half = world_size / 2;
    world_check(px_team_split(px_team_world(), 0, 1, half, &low, &split) == 0);
    world_check(px_team_split(px_team_world(), half, 1, world_size - half, &high, &split) == 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < (low ? 7 : 50); i++)
            world_check(px_agree_min(low ? low : high, world_pe + 5, &sync_call) ==
                        (low ? 5 : half + 5));
        px_sync(px_team_world(), &sync_call);
    }
}

static void disjoint_teams_are_independent(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 6}, go_their_own_way, NULL), 0);
    assert_int_equal(
        coll_world_run(&(struct coll_world){.n_pes = 9, .node_of = cyclic}, go_their_own_way, NULL),
        0);
}

static void look_at_predefined(void *arg)
{
    static const uint32_t index[] = {0, 1, 2, 0, 1};
    bool first = world_pe < 3;
    for (int32_t slot = PX_TEAM_SHARED; slot <= PX_TEAM_NODE; slot++)
        expect(px_team_of(PX_TEAM_HANDLE_BASE + slot), first ? 0 : 3, 1, first ? 3 : 2);
    struct px_team *same = px_team_of(PX_TEAM_HANDLE_BASE + PX_TEAM_SAME_MYPE_NODE);
    expect(same, index[world_pe], 3, index[world_pe] == 2 ? 1 : 2);
    expect(px_team_of(PX_TEAM_HANDLE_BASE + PX_TEAM_SAME_GPU), world_pe, 1, 1);
    expect(px_team_of(PX_TEAM_HANDLE_BASE + PX_TEAM_GPU_LEADERS), 0, 1, 5);
    world_check(!px_team_of(-1) && !px_team_of(6) && !px_team_of(INT32_MAX) &&
                !px_team_of(INT32_MIN));
    px_sync(same, &sync_call);
}

static void predefined_teams_follow_the_nodes(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 5, .node_of = three_and_two},
                                    look_at_predefined, NULL),
                     0);
}

static const uint32_t shared_gpus[] = {0, 1, 0, 3, 3};

static void look_at_gpu_teams(void *arg)
{
    static const uint32_t size[] = {2, 1, 2, 2, 2}, step[] = {2, 1, 2, 1, 1};
    struct px_team *same = px_team_of(PX_TEAM_HANDLE_BASE + PX_TEAM_SAME_GPU);
    struct px_team *leaders = px_team_of(PX_TEAM_HANDLE_BASE + PX_TEAM_GPU_LEADERS), *child;
    bool leads = shared_gpus[world_pe] == world_pe;
    expect(same, shared_gpus[world_pe], size[world_pe] > 1 ? step[world_pe] : 1, size[world_pe]);
    px_sync(same, &sync_call);
    world_check((leaders != NULL) == leads);
    if (leads) {
        static const uint32_t pes[] = {0, 1, 3};
        world_check(px_team_size(leaders) == 3);
        for (uint32_t i = 0; i < 3; i++)
            world_check(px_team_pe(leaders, i) == pes[i]);
        px_sync(leaders, &sync_call);
    }
    world_check(px_team_split(px_team_world(), 0, 1, world_size, &child, &split) == 0);
    world_check(px_team_handle(child) - PX_TEAM_HANDLE_BASE >= PX_TEAM_PREDEFINED);
    px_sync(child, &sync_call);
}

static void gpu_teams_follow_the_gpus(void **state)
{
    assert_int_equal(coll_world_run(&(struct coll_world){.n_pes = 5,
                                                         .node_of = three_and_two,
                                                         .gpu_of = shared_gpus},
                                    look_at_gpu_teams, NULL),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predefined_teams_follow_the_nodes),
        cmocka_unit_test(gpu_teams_follow_the_gpus),
        cmocka_unit_test(odd_arguments_are_refused_by_all),
        cmocka_unit_test(rows_and_columns),
        cmocka_unit_test(teams_of_teams),
        cmocka_unit_test(three_hundred_teams_and_ten_thousand_rounds),
        cmocka_unit_test(a_full_table_refuses_and_recovers),
        cmocka_unit_test(an_id_makes_a_team_of_any_pes),
        cmocka_unit_test(disjoint_teams_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
