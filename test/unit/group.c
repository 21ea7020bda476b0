/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of a job's processes, without a launcher: five processes on two nodes, this one is number 3, and a backend whose
 * search finds what a test has put there. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pmix/private.h"
#include "pmix/record.h"
#include "pmix/wire.h"

enum { PROCESSES = 5, ME = 3 };

static struct px_error error;
static struct px_boot boot;
static uint32_t heard; /* PE of the last failure that was passed on */

/* What other processes have said under any token: their index and count; count 0: nothing. */
static struct {
    uint32_t index, count;
} said[PROCESSES];

static px_status put(struct px_boot *b, const char *key, const void *data, size_t length,
                     struct px_error *e)
{
    return PX_OK;
}

static px_status search(struct px_boot *b, const char *key, px_found_fn *found, void *arg,
                        struct px_error *e)
{
    unsigned long long token = strtoull(strrchr(key, '.') + 1, NULL, 16);
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        uint8_t member[8], record[PX_RECORD_HEADER + sizeof(member)];
        struct px_writer w = {.bytes = member, .capacity = sizeof(member)};
        struct px_record_label label = {
            .rank = rank, .epoch = (uint32_t)token & 0xffff, .sequence = 1, .key = key};
        if (rank == ME || !said[rank].count)
            continue;
        px_write_uint(&w, said[rank].index, 4);
        px_write_uint(&w, said[rank].count, 4);
        size_t size = px_record_seal(&label, member, sizeof(member), record);
        if (found(arg, rank, record, size))
            return PX_OK;
    }
    return PX_ERR_TIMEOUT;
}

static const struct px_backend with_search = {.name = "fake", .put = put, .search = search};
static const struct px_backend without = {.name = "plain", .put = put};

static void on_failure(void *arg, uint32_t rank, const char *what)
{
    heard = rank;
}

static int set_up(void **state)
{
    static const uint32_t node[PROCESSES] = {0, 0, 1, 1, 1};
    static char *hosts[] = {"left", "right"};
    error = (struct px_error)PX_ERROR_INIT;
    boot = (struct px_boot){.backend = &with_search,
                            .job = "job",
                            .hosts = hosts,
                            .timeout_s = 1,
                            .seen = calloc(PROCESSES, sizeof(*boot.seen)),
                            .on_failure = on_failure};
    boot.launcher = (struct px_boot_facts){.rank = ME, .size = PROCESSES, .job = boot.job};
    assert_int_equal(px_boot_set_nodes(&boot.launcher, node, &error), PX_OK);
    boot.facts = boot.launcher;
    pthread_mutex_init(&boot.lock, NULL);
    memset(said, 0, sizeof(said));
    return 0;
}

static int tear_down(void **state)
{
    px_group_release(&boot);
    free((void *)boot.launcher.node_of);
    free((void *)boot.launcher.local_ranks);
    free(boot.seen);
    pthread_mutex_destroy(&boot.lock);
    return 0;
}

static void a_group_has_numbers_of_its_own(void **state)
{
    const struct px_boot_facts *facts = px_boot_facts(&boot);
    assert_int_equal(px_boot_select(&boot, (const uint32_t[]){4, 3, 0}, 3, 7, &error), PX_OK);
    assert_int_equal(facts->size, 3);
    assert_int_equal(facts->rank, 1);
    assert_int_equal(facts->nodes, 2);
    assert_int_equal(facts->node_of[0], facts->node_of[1]);
    assert_int_not_equal(facts->node_of[0], facts->node_of[2]);
    assert_int_equal(facts->local_size, 2);
    assert_int_equal(facts->local_ranks[0], 0);
    assert_int_equal(facts->local_ranks[1], 1);
    assert_string_equal(px_boot_host(&boot, facts->node_of[2]), "left");
    assert_string_equal(px_boot_host(&boot, facts->node_of[0]), "right");
    assert_int_equal(px_launcher_rank(&boot, 0), 4);
    assert_string_not_equal(facts->job, "job");
    assert_int_equal(px_boot_select(&boot, (const uint32_t[]){3}, 1, 8, &error), PX_OK);
    assert_int_equal(facts->size, 1);
    assert_int_equal(facts->nodes, 1);
    px_group_release(&boot);
    assert_int_equal(facts->size, PROCESSES);
    assert_string_equal(facts->job, "job");
}

static void wrong_members_are_named(void **state)
{
    static const struct {
        uint32_t ranks[3], count;
        const char *word;
    } cases[] = {
        {{3, 5}, 2, "process 5 is not in this job of 5"},
        {{3, 1, 3}, 3, "process 3 of the job is in the group twice"},
        {{0, 1}, 2, "this process (3 of the job) is not in the group"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        error = (struct px_error)PX_ERROR_INIT;
        assert_int_equal(px_boot_select(&boot, cases[i].ranks, cases[i].count, 1, &error),
                         PX_ERR_INVALID);
        assert_non_null(strstr(error.text, cases[i].word));
        assert_null(boot.members);
    }
    boot.backend = &without;
    error = (struct px_error)PX_ERROR_INIT;
    assert_int_equal(px_boot_select(&boot, (const uint32_t[]){3, 0}, 2, 1, &error),
                     PX_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "srun --mpi=pmix"));
    assert_int_equal(px_boot_select(&boot, (const uint32_t[]){4, 3, 2, 1, 0}, 5, 1, &error), PX_OK);
}

static void failures_carry_the_groups_numbers(void **state)
{
    assert_int_equal(px_boot_select(&boot, (const uint32_t[]){4, 3, 0}, 3, 7, &error), PX_OK);
    heard = 99;
    px_boot_event(&boot, 1, "left", true); /* not a member: not our business */
    assert_int_equal(heard, 99);
    assert_false(px_boot_has_failed(&boot));
    px_boot_event(&boot, 0, "died", true);
    assert_int_equal(heard, 2);
    assert_true(px_boot_has_failed(&boot));
    /* In the next group it is another PE, then nobody. */
    assert_int_equal(px_boot_select(&boot, (const uint32_t[]){0, 3}, 2, 8, &error), PX_OK);
    assert_true(px_boot_has_failed(&boot));
    assert_int_equal(boot.failed_rank, 0);
    assert_int_equal(px_boot_select(&boot, (const uint32_t[]){3, 2}, 2, 9, &error), PX_OK);
    assert_false(px_boot_has_failed(&boot));
}

static px_status gather(uint64_t token, uint32_t index, uint32_t count, uint32_t *ranks)
{
    uint32_t tag;
    error = (struct px_error)PX_ERROR_INIT;
    return px_boot_gather(&boot, token, index, count, ranks, &tag, &error);
}

static void processes_find_each_other_by_a_token(void **state)
{
    uint32_t ranks[PROCESSES], first, again;
    said[0].index = 2;
    said[2].index = 0;
    said[0].count = said[2].count = 3;
    assert_int_equal(px_boot_gather(&boot, 0x1001, 1, 3, ranks, &first, &error), PX_OK);
    assert_memory_equal(ranks, ((const uint32_t[]){2, ME, 0}), 3 * sizeof(*ranks));
    /* Once more: the same processes, another name for the group. */
    assert_int_equal(px_boot_gather(&boot, 0x1001, 1, 3, ranks, &again, &error), PX_OK);
    assert_int_not_equal(first, again);
    assert_int_equal(gather(0x1001, 0, 3, ranks), PX_ERR_INVALID);
    assert_non_null(strstr(error.text, "came as PE 1 of 3 with the same unique id before"));
}

static void who_is_wrong_or_missing_is_named(void **state)
{
    uint32_t ranks[PROCESSES];
    said[0].index = 0;
    said[0].count = 3;
    assert_int_equal(gather(0x2001, 1, 3, ranks), PX_ERR_TIMEOUT);
    assert_non_null(strstr(error.text, "only 2 of 3 PEs came within 1 s, missing: PE 2"));
    said[4].index = 0;
    said[4].count = 3;
    assert_int_equal(gather(0x2002, 1, 3, ranks), PX_ERR_INVALID);
    assert_non_null(strstr(error.text, "processes 0 and 4 of the job both come as PE 0"));
    said[4].count = 4;
    assert_int_equal(gather(0x2003, 1, 3, ranks), PX_ERR_INVALID);
    assert_non_null(strstr(error.text, "process 4 of the job comes as PE 0 of 4"));
    assert_int_equal(gather(0x2004, 3, 3, ranks), PX_ERR_INVALID);
    assert_int_equal(gather(0x2005, 0, 6, ranks), PX_ERR_INVALID);
    boot.backend = &without;
    assert_int_equal(gather(0x2006, 0, 2, ranks), PX_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group_has_numbers_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_members_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_carry_the_groups_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(processes_find_each_other_by_a_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_wrong_or_missing_is_named, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
