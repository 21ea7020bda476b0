/* SPDX-License-Identifier: BSD-3-Clause */
/* Where helper threads go, on a machine of two sockets with four cores of two hardware threads
 * each. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topology/private.h"

#define N_CORES 8

static struct px_topology_cpus packages[2], cores[N_CORES];
static struct px_topology_numa numas[2];
static struct px_topology_machine machine = {.packages = packages,
                                             .cores = cores,
                                             .numas = numas,
                                             .n_packages = 2,
                                             .n_cores = N_CORES,
                                             .n_numas = 2};

/* Core k has the hardware threads k and k + 8. */
static int make_machine(void **state)
{
    for (size_t cpu = 0; cpu < 2 * N_CORES; cpu++) {
        size_t core = cpu % N_CORES, package = core / 4;
        px_topology_cpus_add(&cores[core], cpu);
        px_topology_cpus_add(&packages[package], cpu);
        px_topology_cpus_add(&numas[package].cpus, cpu);
        px_topology_cpus_add(&machine.cpus, cpu);
        numas[package].package = (int)package;
    }
    machine.allowed = machine.cpus;
    return 0;
}

static const struct px_topology_place socket[2] = {{.package = 0, .numa = 0, .host_bridge = -1},
                                                   {.package = 1, .numa = 1, .host_bridge = -1}};

static void expect(const char *wish, const char *own, const struct px_topology_place *near,
                   const char *expected)
{
    struct px_topology_cpus bound, helpers;
    struct px_error error = PX_ERROR_INIT;
    char text[128];
    if (own)
        assert_int_equal(px_topology_cpus_parse(own, &bound, NULL), PX_OK);
    if (px_topology_helpers(&machine, wish, own ? &bound : NULL, near, &helpers, &error) != PX_OK)
        fail_msg("%s", error.text);
    px_topology_cpus_text(&helpers, text, sizeof(text));
    assert_string_equal(text, expected);
}

static void an_unbound_pe_has_them_near_the_nic(void **state)
{
    expect(NULL, NULL, &socket[1], "4-7,12-15");
    expect(NULL, "0-15", &socket[0], "0-3,8-11");
    expect(NULL, NULL, NULL, "0-15");
}

static void a_binding_to_several_cores_is_kept(void **state)
{
    expect(NULL, "0-3", &socket[0], "0-3");
    expect(NULL, "0-5", &socket[1], "4-5");
    /* The NIC is on the other socket, and still. */
    expect(NULL, "0-3", &socket[1], "0-3");
}

static void the_only_core_is_left_to_the_program(void **state)
{
    expect(NULL, "0", &socket[0], "1-3,9-11");
    expect(NULL, "0,8", &socket[0], "1-3,9-11");
    expect(NULL, "0", &socket[1], "4-7,12-15");
}

static void the_only_core_is_used_if_there_is_no_other(void **state)
{
    struct px_topology_cpus all = machine.allowed;
    assert_int_equal(px_topology_cpus_parse("2,10", &machine.allowed, NULL), PX_OK);
    expect(NULL, "2", &socket[0], "2");
    expect(NULL, NULL, &socket[1], "2,10");
    machine.allowed = all;
}

static void the_job_is_never_left(void **state)
{
    struct px_topology_cpus all = machine.allowed;
    assert_int_equal(px_topology_cpus_parse("0-2", &machine.allowed, NULL), PX_OK);
    expect(NULL, "0", &socket[0], "1-2");
    expect(NULL, "0", &socket[1], "1-2");
    machine.allowed = all;
}

static void a_wish_is_followed(void **state)
{
    expect("7", "0-3", &socket[0], "7");
    expect("4-5,12", NULL, NULL, "4-5,12");
    expect("any", "0", &socket[0], "");
    expect("", "0-3", &socket[0], "0-3");
}

static void a_wish_that_cannot_be_is_refused(void **state)
{
    struct px_topology_cpus helpers = {{9}};
    struct px_error error = PX_ERROR_INIT;
    assert_int_equal(px_topology_helpers(&machine, "15-16", NULL, NULL, &helpers, &error),
                     PX_ERR_INVALID);
    assert_non_null(strstr(error.text, "15-16 is wanted, the job may use 0-15"));
    assert_int_equal(px_topology_helpers(&machine, "none", NULL, NULL, &helpers, &error),
                     PX_ERR_INVALID);
    assert_int_equal(helpers.word[0], 9);
}

/* On this machine, whatever it has: beside one processor are only others, beside all of them none, and
 * asking changes nothing. */
static void beside_one_core_are_the_others(void **state)
{
    struct px_topology_cpus allowed, one = {{0}}, others, after;
    size_t first = 0;
    assert_int_equal(px_topology_own_cpus(&allowed, NULL), PX_OK);
    while (!px_topology_cpus_has(&allowed, first))
        first++;
    px_topology_cpus_add(&one, first);
    assert_int_equal(px_topology_bind_thread(&one, NULL), PX_OK);
    px_topology_beside(&one, &others);
    assert_int_equal(px_topology_own_cpus(&after, NULL), PX_OK);
    assert_memory_equal(&after, &one, sizeof(one));
    assert_int_equal(px_topology_bind_thread(&allowed, NULL), PX_OK);
    assert_false(px_topology_cpus_has(&others, first));
    struct px_topology_machine *here = NULL;
    assert_int_equal(px_topology_read(NULL, &here, NULL), PX_OK);
    if (here->n_cores > 1 && px_topology_cpus_within(&here->cpus, &here->allowed))
        assert_false(px_topology_cpus_empty(&others));
    if (here->n_cores > 1) {
        px_topology_beside(&here->allowed, &others);
        assert_true(px_topology_cpus_empty(&others));
    }
    px_topology_free(here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unbound_pe_has_them_near_the_nic),
        cmocka_unit_test(a_binding_to_several_cores_is_kept),
        cmocka_unit_test(the_only_core_is_left_to_the_program),
        cmocka_unit_test(the_only_core_is_used_if_there_is_no_other),
        cmocka_unit_test(the_job_is_never_left),
        cmocka_unit_test(a_wish_is_followed),
        cmocka_unit_test(a_wish_that_cannot_be_is_refused),
        cmocka_unit_test(beside_one_core_are_the_others),
    };
    return cmocka_run_group_tests(tests, make_machine, NULL);
}
