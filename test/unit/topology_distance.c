/* SPDX-License-Identifier: BSD-3-Clause */
/* How far places are apart. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "topology/private.h"
#include "test/unit/topology_random.h"

#define PLACE(p, n, h, ...)                                                                        \
    {                                                                                              \
        .package = p, .numa = n, .host_bridge = h,                                                 \
        .n_bridges = sizeof((int[]){__VA_ARGS__}) / sizeof(int), .bridges = {                      \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static void each_class_has_its_case(void **state)
{
    /* Bridges: a root port, the upper side of a switch, the lower port; a second switch behind a
     * lower port. */
    static const struct {
        struct px_topology_place a, b;
        enum px_topology_distance expected;
    } cases[] = {
        {PLACE(0, 0, 1, 10, 11, 12), PLACE(0, 0, 1, 10, 11, 13), PX_TOPOLOGY_SWITCH},
        {PLACE(0, 0, 1, 10), PLACE(0, 0, 1, 10), PX_TOPOLOGY_SWITCH},
        {PLACE(0, 0, 1, 10, 11, 12), PLACE(0, 0, 1, 10, 11, 14, 15, 16), PX_TOPOLOGY_SWITCHES},
        {PLACE(0, 0, 1, 10, 11, 17, 18, 19), PLACE(0, 0, 1, 10, 11, 14, 15, 16),
         PX_TOPOLOGY_SWITCHES},
        {PLACE(0, 0, 1, 10, 11, 12), PLACE(0, 0, 1, 20), PX_TOPOLOGY_HOST_BRIDGE},
        {PLACE(-1, -1, 1, 10), PLACE(-1, -1, 1, 20), PX_TOPOLOGY_HOST_BRIDGE},
        {PLACE(0, 0, 1, 10), PLACE(0, 0, 2, 10), PX_TOPOLOGY_NUMA},
        {PLACE(0, 0, -1, 10), PLACE(0, 0, -1, 10), PX_TOPOLOGY_NUMA},
        {PLACE(0, 0, 1, 10), PLACE(0, 1, 2, 20), PX_TOPOLOGY_PACKAGE},
        {PLACE(0, -1, 1, 10), PLACE(0, -1, 2, 20), PX_TOPOLOGY_PACKAGE},
        {PLACE(0, 0, 1, 10), PLACE(1, 2, 3, 30), PX_TOPOLOGY_MACHINE},
        {PLACE(-1, -1, -1, 10), PLACE(-1, -1, -1, 10), PX_TOPOLOGY_MACHINE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(px_topology_distance(&cases[i].a, &cases[i].b), cases[i].expected);
        assert_int_equal(px_topology_distance(&cases[i].b, &cases[i].a), cases[i].expected);
    }
}

/* Of three devices, the two longest ways are equal: the machine is a tree. That is what makes
 * nearness fair to rank. */
static void distances_are_those_of_a_tree(void **state)
{
    struct random_machine r;
    for (int round = 0; round < 2000; round++) {
        draw_machine(&r, 3, 0);
        enum px_topology_distance d[3];
        bool placed = true;
        for (int i = 0; i < 3; i++) {
            d[i] = px_topology_distance(&r.gpus[i].place, &r.gpus[(i + 1) % 3].place);
            /* Below joined switches the number of bridges counts, which is no tree; nor is a place
             * unknown. */
            placed &= r.gpus[i].place.numa >= 0 && d[i] != PX_TOPOLOGY_SWITCHES;
        }
        for (int i = 0; i < 3 && placed; i++)
            assert_true(d[i] <= d[(i + 1) % 3] || d[i] <= d[(i + 2) % 3]);
    }
}

static void processors_are_near_what_they_may_run_beside(void **state)
{
    struct random_machine r;
    do
        draw_machine(&r, 0, 0);
    while (r.machine.n_numas != 4);
    const struct px_topology_place place = PLACE(0, 1, 1, 10), nowhere = PLACE(-1, -1, -1, 10);
    assert_int_equal(px_topology_cpu_distance(&r.machine, 0, &place), PX_TOPOLOGY_NUMA);
    assert_int_equal(px_topology_cpu_distance(&r.machine, 0xf, &place), PX_TOPOLOGY_NUMA);
    assert_int_equal(px_topology_cpu_distance(&r.machine, 1 << 1, &place), PX_TOPOLOGY_NUMA);
    assert_int_equal(px_topology_cpu_distance(&r.machine, 1 << 0, &place), PX_TOPOLOGY_PACKAGE);
    assert_int_equal(px_topology_cpu_distance(&r.machine, 1 << 2, &place), PX_TOPOLOGY_MACHINE);
    assert_int_equal(px_topology_cpu_distance(&r.machine, 1 << 2, &nowhere), PX_TOPOLOGY_MACHINE);
    assert_int_equal(px_topology_numa_mask(&r.machine, &r.numas[2].cpus), 1 << 2);
    assert_int_equal(px_topology_numa_mask(&r.machine, &r.machine.cpus), 0xf);
}

int main(void)
{
    seed_random();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_has_its_case),
        cmocka_unit_test(distances_are_those_of_a_tree),
        cmocka_unit_test(processors_are_near_what_they_may_run_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
