/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap's decisions without a launcher: which backend, who is on which node, names of nodes; a job of one from
 * open to close; calls that do not come back; processes that end. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pmix/boot.h"
#include "pmix/choose.h"
#include "pmix/names.h"
#include "pmix/private.h"

static struct px_error error;

/* ---- choice ---- */

static void the_backend_follows_from_what_is_there(void **state)
{
    static const struct {
        const char *asked;
        bool pmix, pmi2;
        unsigned long tasks;
        bool allow_alone;
        px_status status;
        enum px_backend_kind kind;
        const char *word;
    } cases[] = {
        {"", true, true, 4, false, PX_OK, PX_BACKEND_PMIX, ""},
        {"auto", false, true, 4, false, PX_OK, PX_BACKEND_PMI2, ""},
        {"PMI", false, true, 4, false, PX_OK, PX_BACKEND_PMI2, ""},
        {"auto", false, false, 0, false, PX_OK, PX_BACKEND_ALONE, ""},
        {"auto", false, false, 1, false, PX_OK, PX_BACKEND_ALONE, ""},
        {"auto", false, false, 4, false, PX_ERR_UNREACHABLE, 0, "--mpi=pmix"},
        {"auto", false, false, 4, true, PX_OK, PX_BACKEND_ALONE, ""},
        {"alone", true, false, 4, false, PX_OK, PX_BACKEND_ALONE, ""},
        {"PMIX", true, true, 4, false, PX_OK, PX_BACKEND_PMIX, ""},
        {"pmix", false, true, 4, true, PX_ERR_UNREACHABLE, 0, "--mpi=pmix"},
        {"PMI-2", true, true, 4, false, PX_OK, PX_BACKEND_PMI2, ""},
        {"pmi2", true, false, 4, false, PX_ERR_UNREACHABLE, 0, "--mpi=pmi2"},
        {"mpi", true, true, 4, true, PX_ERR_INVALID, 0, "\"mpi\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct px_launch_hints hints = {.pmix = cases[i].pmix,
                                        .pmi2 = cases[i].pmi2,
                                        .tasks = cases[i].tasks,
                                        .launcher = "Slurm step 7.0",
                                        .mpi_type = "none"};
        enum px_backend_kind kind = PX_BACKEND_ALONE;
        error = (struct px_error)PX_ERROR_INIT;
        assert_int_equal(
            px_backend_choose(cases[i].asked, cases[i].allow_alone, &hints, &kind, &error),
            cases[i].status);
        if (cases[i].status == PX_OK)
            assert_int_equal(kind, cases[i].kind);
        assert_non_null(strstr(error.text, cases[i].word));
    }
}

static void clear_launcher(void)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "PMIX_RANK",
                                        "PMI_FD",         "PMI_RANK",
                                        "PMI_SIZE",       "SLURM_PROCID",
                                        "SLURM_NTASKS",   "SLURM_STEP_NUM_TASKS",
                                        "SLURM_JOB_ID",   "OMPI_COMM_WORLD_SIZE",
                                        "SLURM_STEP_ID",  "SLURM_MPI_TYPE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

static void a_batch_script_is_no_task_of_a_step(void **state)
{
    struct px_launch_hints hints;
    clear_launcher();
    setenv("SLURM_JOB_ID", "7", 1); /* as sbatch -n 8 sets it for the script */
    setenv("SLURM_NTASKS", "8", 1);
    setenv("SLURM_PROCID", "0", 1);
    px_launch_hints_read(&hints);
    assert_int_equal(hints.tasks, 0);
    setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    setenv("SLURM_STEP_ID", "3", 1);
    px_launch_hints_read(&hints);
    assert_int_equal(hints.tasks, 8);
    assert_string_equal(hints.launcher, "Slurm step 7.3");
    clear_launcher();
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    px_launch_hints_read(&hints);
    assert_int_equal(hints.tasks, 4);
    clear_launcher();
}

/* ---- nodes ---- */

static void free_nodes(struct px_boot_facts *facts)
{
    free((void *)facts->node_of);
    free((void *)facts->local_ranks);
}

static void nodes_are_numbered_in_order_of_the_launcher(void **state)
{
    static const uint32_t raw[] = {70, 5, 70, 9, 5};
    struct px_boot_facts facts = {.rank = 2, .size = 5};
    assert_int_equal(px_boot_set_nodes(&facts, raw, &error), PX_OK);
    assert_int_equal(facts.nodes, 3);
    assert_int_equal(facts.node, 2);
    assert_memory_equal(facts.node_of, ((uint32_t[]){2, 0, 2, 1, 0}), 5 * sizeof(uint32_t));
    assert_int_equal(facts.local_size, 2);
    assert_int_equal(facts.local_rank, 1);
    assert_memory_equal(facts.local_ranks, ((uint32_t[]){0, 2}), 2 * sizeof(uint32_t));
    free_nodes(&facts);
}

static void mappings_are_dealt_out(void **state)
{
    static const struct {
        const char *text;
        uint32_t raw[6];
    } good[] = {
        {"(vector,(0,2,3))", {0, 0, 0, 1, 1, 1}},
        {"(vector,(0,1,4),(1,1,2))", {0, 0, 0, 0, 1, 1}},
        {"(vector,(0,3,1))", {0, 1, 2, 0, 1, 2}},
        {"(vector,(5,1,1),(2,1,9))", {5, 2, 2, 2, 2, 2}},
    };
    uint32_t raw[6];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(px_mapping_parse(good[i].text, 6, raw, &error), PX_OK);
        assert_memory_equal(raw, good[i].raw, sizeof(raw));
    }
    static const char *const bad[] = {
        "",           "(vector,",          "(vector,)",         "(vector,(0,1,1)",
        "(scalar,1)", "(vector,(0,1,0))",  "(vector,(0,0,1))",  "(vector,(0,1))",
        "(vector,0)", "(vector,(-1,1,1))", "(vector,(0,1,1),)", "(vector,(99999999999,1,1))"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(px_mapping_parse(bad[i], 6, raw, &error), PX_ERR_PROTOCOL);
}

static void assert_names(const char *list, px_status status, const char *expected)
{
    struct px_names names = {.count = 0};
    char joined[512] = "";
    assert_int_equal(px_names_add_slurm(&names, list), status);
    for (uint32_t i = 0; i < names.count; i++)
        sprintf(joined + strlen(joined), "%s%s", i ? " " : "", names.list[i]);
    if (status == PX_OK)
        assert_string_equal(joined, expected);
    px_names_free(&names);
}

static void slurm_lists_are_spelt_out(void **state)
{
    assert_names("", PX_OK, "");
    assert_names("n1", PX_OK, "n1");
    assert_names("login,node[00-03,7]", PX_OK, "login node00 node01 node02 node03 node7");
    assert_names("a[9-11]-ib,b", PX_OK, "a9-ib a10-ib a11-ib b");
    assert_names("a[1-2", PX_ERR_PROTOCOL, "");
    assert_names("a[2-1]", PX_ERR_PROTOCOL, "");
    assert_names("a[x]", PX_ERR_PROTOCOL, "");
    assert_names("a[]", PX_ERR_PROTOCOL, "");
    assert_names("r[1-2]n[1-2]", PX_ERR_PROTOCOL, "");
    assert_names("a[0-99999999]", PX_ERR_PROTOCOL, "");
}

static void names_have_places(void **state)
{
    struct px_names names = {.count = 0};
    uint32_t place = 99;
    assert_int_equal(px_names_add_list(&names, "b,a,,c"), PX_OK);
    assert_int_equal(names.count, 3);
    assert_int_equal(px_names_index(&names, "a", &place), PX_OK);
    assert_int_equal(place, 1);
    assert_int_equal(px_names_index(&names, "new", &place), PX_OK);
    assert_int_equal(place, 3);
    px_names_free(&names);
}

static void socket_names_differ_and_fit(void **state)
{
    struct sockaddr_un a, b;
    char job[256];
    memset(job, 'j', sizeof(job));
    job[255] = '\0';
    socklen_t length = px_socket_name(&a, job, UINT32_MAX, "m4294967295.4294967295");
    assert_true(length <= sizeof(a));
    px_socket_name(&b, job, UINT32_MAX - 1, "m4294967295.4294967295");
    assert_memory_not_equal(&a, &b, sizeof(a));
    job[254] = 'k';
    px_socket_name(&b, job, UINT32_MAX, "m4294967295.4294967295");
    assert_memory_not_equal(&a, &b, sizeof(a));
}

/* ---- a job of one ---- */

static struct px_boot *open_alone(void)
{
    struct px_boot_options options = {.backend = "alone", .timeout_s = 5};
    struct px_boot *boot = NULL;
    error = (struct px_error)PX_ERROR_INIT;
    if (px_boot_open(&options, &boot, &error) != PX_OK)
        fail_msg("%s", error.text);
    return boot;
}

static void a_job_of_one_has_its_facts(void **state)
{
    struct px_boot *boot = open_alone();
    const struct px_boot_facts *facts = px_boot_facts(boot);
    assert_string_equal(facts->backend, "alone");
    assert_int_equal(facts->size, 1);
    assert_int_equal(facts->rank, 0);
    assert_int_equal(facts->nodes, 1);
    assert_int_equal(facts->local_size, 1);
    assert_int_equal(facts->local_ranks[0], 0);
    assert_int_equal(facts->node_of[0], 0);
    assert_non_null(facts->job);
    assert_true(strlen(px_boot_host(boot, 0)) > 0);
    assert_string_equal(px_boot_host(boot, 7), "node 7");
    px_boot_close(boot);
    px_boot_close(NULL);
}

static void a_record_comes_back_as_it_went(void **state)
{
    struct px_boot *boot = open_alone();
    uint8_t data[1000], back[1000];
    size_t length = 0;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7);
    assert_int_equal(px_boot_publish(boot, "key", data, sizeof(data), &error), PX_OK);
    assert_int_equal(px_boot_publish(boot, "empty", NULL, 0, &error), PX_OK);
    assert_int_equal(px_boot_exchange(boot, &error), PX_OK);
    assert_int_equal(px_boot_lookup(boot, 0, "key", back, sizeof(back), &length, &error), PX_OK);
    assert_int_equal(length, sizeof(data));
    assert_memory_equal(data, back, sizeof(data));
    assert_int_equal(px_boot_lookup(boot, 0, "empty", back, 0, &length, &error), PX_OK);
    assert_int_equal(length, 0);
    assert_int_equal(px_boot_barrier(boot, &error), PX_OK);
    px_boot_close(boot);
}

static void misuse_is_refused_by_name(void **state)
{
    struct px_boot *boot = open_alone();
    uint8_t byte = 1, *large = calloc(1, 70000);
    size_t length = 77;
    assert_int_equal(px_boot_lookup(boot, 0, "absent", &byte, 1, &length, &error),
                     PX_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "\"absent\" of PE 0"));
    assert_int_equal(px_boot_lookup(boot, 1, "k", &byte, 1, &length, &error), PX_ERR_INVALID);
    assert_int_equal(px_boot_publish(boot, "k", large, 70000, &error), PX_ERR_INVALID);
    assert_int_equal(px_boot_publish(boot, "a-key-that-is-longer-than-the-header-allows-it-to-be",
                                     &byte, 1, &error),
                     PX_ERR_INVALID);
    assert_int_equal(px_boot_publish(boot, "k", &byte, 1, &error), PX_OK);
    assert_int_equal(px_boot_publish(boot, "k", &byte, 1, &error), PX_ERR_INVALID);
    assert_non_null(strstr(error.text, "published before"));
    assert_int_equal(px_boot_exchange(boot, &error), PX_OK);
    assert_int_equal(px_boot_lookup(boot, 0, "k", &byte, 0, &length, &error), PX_ERR_PROTOCOL);
    assert_int_equal(length, 77);
    free(large);
    px_boot_close(boot);
}

static void rounds_do_not_see_each_other(void **state)
{
    for (int round = 0; round < 50; round++) {
        struct px_boot *boot = open_alone();
        int seen = -1;
        size_t length = 0;
        assert_int_equal(px_boot_publish(boot, "r", &round, sizeof(round), &error), PX_OK);
        assert_int_equal(px_boot_exchange(boot, &error), PX_OK);
        assert_int_equal(px_boot_lookup(boot, 0, "r", &seen, sizeof(seen), &length, &error), PX_OK);
        assert_int_equal(seen, round);
        px_boot_close(boot);
    }
}

/* ---- bounded calls ---- */

static void add_one(void *arg)
{
    ++*(int *)arg;
}

static void never_return(void *arg)
{
    *(int *)arg = 5;
    for (;;)
        pause();
}

static void a_call_is_waited_for_or_left(void **state)
{
    int value = 1;
    assert_true(px_bounded_call(add_one, &value, sizeof(value), 60));
    assert_int_equal(value, 2);
    assert_true(px_bounded_call(add_one, &value, sizeof(value), 0));
    assert_int_equal(value, 3);
    assert_false(px_bounded_call(never_return, &value, sizeof(value), 1));
    assert_int_equal(value, 3); /* what an abandoned call writes is not seen */
}

/* ---- failures ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t told;
    uint32_t ranks[4];
    int count;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};

static void hear(void *arg, uint32_t rank, const char *what)
{
    pthread_mutex_lock(&heard.lock);
    if (heard.count < 4)
        heard.ranks[heard.count++] = rank;
    pthread_cond_signal(&heard.told);
    pthread_mutex_unlock(&heard.lock);
}

static void wait_until_heard(int count)
{
    pthread_mutex_lock(&heard.lock);
    while (heard.count < count)
        pthread_cond_wait(&heard.told, &heard.lock);
    pthread_mutex_unlock(&heard.lock);
}

static pid_t start_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(120); /* should the test end early */
        for (;;)
            pause();
    }
    return pid;
}

static void the_end_of_a_watched_process_is_told_once(void **state)
{
    struct px_boot *boot = open_alone();
    pid_t pids[] = {start_sleeper(), start_sleeper()};
    heard.count = 0;
    px_boot_on_failure(boot, hear, NULL);
    assert_int_equal(
        px_boot_watch(boot, (uint32_t[]){4, 9, 5}, (int[]){pids[0], pids[1], 0}, 3, &error), PX_OK);
    kill(pids[1], SIGKILL);
    wait_until_heard(1);
    assert_int_equal(heard.ranks[0], 9);
    waitpid(pids[1], NULL, 0);
    kill(pids[0], SIGKILL);
    wait_until_heard(2);
    assert_int_equal(heard.ranks[1], 4);
    waitpid(pids[0], NULL, 0);
    px_boot_close(boot);
    assert_int_equal(heard.count, 2);
}

static void what_is_watched_may_be_added_to(void **state)
{
    struct px_boot *boot = open_alone();
    pid_t first = start_sleeper(), second = start_sleeper();
    heard.count = 0;
    px_boot_on_failure(boot, hear, NULL);
    assert_int_equal(px_boot_watch(boot, (uint32_t[]){1}, (int[]){first}, 1, &error), PX_OK);
    assert_int_equal(px_boot_watch(boot, (uint32_t[]){2}, (int[]){second}, 1, &error), PX_OK);
    kill(second, SIGKILL);
    wait_until_heard(1);
    assert_int_equal(heard.ranks[0], 2);
    px_boot_close(boot); /* joins the watcher; later ends are nobody's business */
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    waitpid(second, NULL, 0);
    assert_int_equal(heard.count, 1);
}

static void a_failure_before_the_call_back_is_kept(void **state)
{
    struct px_boot *boot = open_alone();
    heard.count = 0;
    px_boot_failed(boot, 0, "the launcher reports: gone", true);
    assert_true(px_boot_has_failed(boot));
    assert_int_equal(px_boot_failure(boot, &error), PX_ERR_PEER);
    assert_non_null(strstr(error.text, "the launcher reports: gone"));
    px_boot_on_failure(boot, hear, NULL);
    assert_int_equal(heard.count, 1);
    px_boot_close(boot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_backend_follows_from_what_is_there),
        cmocka_unit_test(a_batch_script_is_no_task_of_a_step),
        cmocka_unit_test(nodes_are_numbered_in_order_of_the_launcher),
        cmocka_unit_test(mappings_are_dealt_out),
        cmocka_unit_test(slurm_lists_are_spelt_out),
        cmocka_unit_test(names_have_places),
        cmocka_unit_test(socket_names_differ_and_fit),
        cmocka_unit_test(a_job_of_one_has_its_facts),
        cmocka_unit_test(a_record_comes_back_as_it_went),
        cmocka_unit_test(misuse_is_refused_by_name),
        cmocka_unit_test(rounds_do_not_see_each_other),
        cmocka_unit_test(a_call_is_waited_for_or_left),
        cmocka_unit_test(the_end_of_a_watched_process_is_told_once),
        cmocka_unit_test(what_is_watched_may_be_added_to),
        cmocka_unit_test(a_failure_before_the_call_back_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
