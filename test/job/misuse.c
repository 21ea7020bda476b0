/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that are wrong, or that are struck: `misuse CASE`. The stories in *.t look at what users are told. */
#include <nvshmem.h>
#include <nvshmemx.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int me, n;
static int rank_by_launcher(void)
{
    const char *rank = getenv("PMIX_RANK");
    return rank ? atoi(rank) : 0;
}

static void start(void)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
}

static void early_put(void)
{
    int word = 0;
    nvshmem_int_put(&word, &word, 1, 0);
}

static void early_malloc(void)
{
    nvshmem_malloc(8);
}

static void early_barrier(void)
{
    nvshmem_barrier_all();
}

static void early_rank(void)
{
    printf("my_pe %d, n_pes %d\n", nvshmem_my_pe(), nvshmem_n_pes());
}

static void late_put(void)
{
    start();
    int *word = nvshmem_malloc(sizeof(*word));
    nvshmem_finalize();
    nvshmem_int_p(word, 1, 0);
}

/* What destructors of static objects do. */
static void late_free(void)
{
    start();
    int *word = nvshmem_malloc(sizeof(*word));
    nvshmem_finalize();
    nvshmem_free(word);
    nvshmem_free(word);
}

static void extra_finalize(void)
{
    start();
    nvshmem_finalize();
    nvshmem_finalize();
}

/* PEs whose collectives would take different ways. */
static void differing_setting(void)
{
    setenv("NVSHMEM_REDUCE_ALGO", rank_by_launcher() == 2 ? "one-level" : "two-level", 1);
    start();
    nvshmem_finalize();
}

/* PE 1 never calls init: it sleeps, or leaves. */
static void sleeper(void)
{
    if (rank_by_launcher() == 1)
        sleep(600);
    start();
    nvshmem_finalize();
}

static void quitter(void)
{
    if (rank_by_launcher() == 1)
        exit(0);
    start();
    nvshmem_finalize();
}

static void free_unknown(void)
{
    start();
    int *block = nvshmem_malloc(1000);
    nvshmem_free(block + 1);
    nvshmem_free(block);
    nvshmem_free(block);
    nvshmem_free((void *)0x1234);
    printf("error_check %d: %s\n", nvshmem_error_check(), nvshmemx_error_string(nvshmem_error_check()));
    nvshmem_finalize();
}

static void differing_size(void)
{
    start();
    nvshmem_malloc(me == 1 ? 64 : 128);
    nvshmem_finalize();
}

static void differing_free(void)
{
    start();
    char *a = nvshmem_malloc(100), *b = nvshmem_malloc(100);
    nvshmem_free(me == 1 ? b : a);
    nvshmem_finalize();
}

static void missing_free(void)
{
    start();
    char *a = nvshmem_malloc(100);
    if (me != 1)
        nvshmem_free(a);
    nvshmem_barrier_all();
    nvshmem_finalize();
}

/* The example that is often shown: one PE allocates alone. */
static void lonely_malloc(void)
{
    start();
    if (me == n - 1)
        nvshmem_malloc(64);
    else
        sleep(600);
    nvshmem_finalize();
}

/* PE 1 is killed, or kills itself, while the others do the second word of the case. */
static void killed_in_barrier(void)
{
    start();
    if (me == 1)
        raise(SIGKILL);
    nvshmem_barrier_all();
    nvshmem_finalize();
}

/* After the PEs have talked, so that the network library of jobs on several nodes is open. */
static void talk(void)
{
    start();
    int *word = nvshmem_calloc(1, sizeof(*word));
    nvshmem_int_p(word, me, (me + 1) % n);
    nvshmem_barrier_all();
}

static void fault(void)
{
    talk();
    if (me == 1)
        raise(SIGSEGV);
    nvshmem_barrier_all();
}

static void failed_assertion(void)
{
    talk();
    if (me == 1)
        abort();
    nvshmem_barrier_all();
}

static void exit_with_3(void)
{
    talk();
    if (me == 1)
        exit(3);
    nvshmem_barrier_all();
}

static void leaves_alone(void)
{
    talk();
    if (me == 1)
        exit(0);
    nvshmem_barrier_all();
}

static void forked(void)
{
    int child_status = -1;
    talk();
    pid_t child = fork();
    if (child == 0)
        exit(0); /* the library's exit handler is not for it */
    waitpid(child, &child_status, 0);
    nvshmem_barrier_all();
    nvshmem_finalize();
    printf("child %d\n", child_status);
}

static void killed_in_put(void)
{
    start();
    char *target = nvshmem_malloc((size_t)32 << 20), *source = malloc((size_t)32 << 20);
    memset(source, 1, (size_t)32 << 20);
    if (me == 1)
        for (int i = 0;; i++) {
            nvshmem_putmem(target, source, (size_t)32 << 20, (me + 1) % n);
            if (i == 20)
                raise(SIGKILL);
        }
    nvshmem_barrier_all();
    nvshmem_finalize();
}

static void killed_in_wait(void)
{
    start();
    uint64_t *word = nvshmem_calloc(1, sizeof(*word));
    if (me == 1) {
        usleep(200000);
        raise(SIGKILL);
    }
    nvshmem_signal_wait_until(word, NVSHMEM_CMP_EQ, 1);
    nvshmem_finalize();
}

/* A team that the dead PE was in; PE 0 is not in it and waits for one that is. */
static void killed_in_team(void)
{
    start();
    nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
    long *words = nvshmem_calloc(2000, sizeof(*words)), *flag = nvshmem_calloc(1, sizeof(*flag));
    nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 1, 1, n - 1, NULL, 0, &team);
    for (int i = 0; team != NVSHMEM_TEAM_INVALID && i < 100000; i++) {
        if (me == 1 && i == 50)
            raise(SIGKILL);
        nvshmem_long_sum_reduce(team, words, words + 1000, i % 2 ? 1 : 1000);
    }
    nvshmem_long_wait_until(flag, NVSHMEM_CMP_EQ, 1);
}

/* The others wait for the dead PE to join a team by its id. */
static void killed_in_join(void)
{
    start();
    nvshmem_team_t team;
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    uint64_t *id = nvshmem_calloc(2, sizeof(*id));
    if (me == 0)
        nvshmemx_team_get_uniqueid(&id[1]);
    nvshmem_uint64_broadcast(NVSHMEM_TEAM_WORLD, id, id + 1, 1, 0);
    config.uniqueid = *id;
    if (me == 1)
        raise(SIGKILL);
    nvshmemx_team_init(&team, &config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID, n, me);
}

static void no_finalize(void)
{
    start();
    int *word = nvshmem_calloc(1, sizeof(*word));
    nvshmem_int_p(word, me, (me + 1) % n);
    nvshmem_barrier_all(); /* the PEs have talked to each other before */
    nvshmem_int_put_nbi(word, &me, 1, (me + 1) % n);
    exit(0);
}

static void private_memory(void)
{
    start();
    int *private = malloc(sizeof(*private));
    nvshmem_int_p(private, 1, (me + 1) % n);
    nvshmem_finalize();
}

static void too_much(void)
{
    start();
    void *block = nvshmem_malloc((size_t)1 << 46);
    printf("PE %d: %p, error %d\n", me, block, nvshmem_error_check());
    nvshmem_finalize();
}

static void exit_with_7(void)
{
    start();
    if (me == n - 1)
        nvshmem_global_exit(7);
    sleep(600);
}

static void init_attr(void)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    int code = nvshmemx_init_attr(0, &attr);
    printf("init_attr %d: %s\n", code, code ? nvshmemx_error_string(code) : "fine");
    if (code) {
        unsetenv("NVSHMEM_SYMMETRIC_SIZE");
        printf("again %d\n", nvshmemx_init_attr(0, &attr));
    }
    nvshmem_finalize();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"early_put", early_put},
    {"early_malloc", early_malloc},
    {"early_barrier", early_barrier},
    {"early_rank", early_rank},
    {"late_put", late_put},
    {"late_free", late_free},
    {"extra_finalize", extra_finalize},
    {"differing_setting", differing_setting},
    {"sleeper", sleeper},
    {"quitter", quitter},
    {"free_unknown", free_unknown},
    {"differing_size", differing_size},
    {"differing_free", differing_free},
    {"missing_free", missing_free},
    {"lonely_malloc", lonely_malloc},
    {"killed_in_barrier", killed_in_barrier},
    {"fault", fault},
    {"failed_assertion", failed_assertion},
    {"exit_with_3", exit_with_3},
    {"forked", forked},
    {"leaves_alone", leaves_alone},
    {"killed_in_put", killed_in_put},
    {"killed_in_wait", killed_in_wait},
    {"killed_in_team", killed_in_team},
    {"killed_in_join", killed_in_join},
    {"no_finalize", no_finalize},
    {"private_memory", private_memory},
    {"too_much", too_much},
    {"exit_with_7", exit_with_7},
    {"init_attr", init_attr},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "misuse: no such case\n");
    return 2;
}
