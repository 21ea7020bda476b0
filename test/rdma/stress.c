/* SPDX-License-Identifier: BSD-3-Clause */
/* What only a real RDMA device shows, over the harness of the transport suite: stress CASE. One case is one process
 * tree; it prints what failed and its exit status says so. test/rdma/run starts it in the surroundings each case needs.
 *
 *   many      one million small puts
 *   large     256 MiB each way, symmetric and private memory
 *   both      both ends begin to connect at once, many times
 *   striped   several lanes: large transfers, signals and fences across them
 *   mixed     a bit of everything, checked; for a network that loses packets
 *   doomed    PE 1 is killed; PE 0 must say so
 *   probe     print why verbs cannot be used, or "usable" */
#include "config.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "src/diag/log.h"
#include "src/env/env.h"
#include "src/transport/move.h"
#include "test/unit/pes.h"

#define LIMIT_S 500 /* against a hang */

static uint32_t other(const struct pes *pe)
{
    return 1 - pe->me;
}

/* Word i of what PE `pe` sends in round `round`. */
static uint64_t word_of(uint32_t pe, uint64_t round, size_t i)
{
    return (round << 48) ^ ((uint64_t)pe << 40) ^ (i * 0x9e3779b97f4a7c15ull >> 24);
}

static void fill(uint64_t *words, size_t count, uint32_t pe, uint64_t round)
{
    for (size_t i = 0; i < count; i++)
        words[i] = word_of(pe, round, i);
}

static void check_words(const uint64_t *words, size_t count, uint32_t pe, uint64_t round,
                        const char *what)
{
    for (size_t i = 0; i < count; i++)
        pes_check(words[i] == word_of(pe, round, i), "%s, round %llu: word %zu is %llx", what,
                  (unsigned long long)round, i, (unsigned long long)words[i]);
}

static void wait_word(struct pes *pe, const uint64_t *word, uint64_t at_least)
{
    for (unsigned turn = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < at_least; turn++) {
        pe->ops->progress(pe->self);
        if (turn % 16 == 0)
            sched_yield();
    }
}

/* PE 0 sends, half of them blocking (from one variable, which must be copied), half not. */
static void many(struct pes *pe)
{
    enum { COUNT = 1000000, WORDS = 250000 };
    uint64_t *there = (uint64_t *)(pe->base + PES_DATA), *source = malloc(WORDS * sizeof(*source));
    for (uint64_t round = 1; pe->me == 0 && round <= COUNT / WORDS; round++) {
        fill(source, WORDS, 0, round);
        for (size_t i = 0; i < WORDS; i++) {
            uint64_t value = source[i];
            if (round % 2)
                pe->ops->put(pe->self, 1, there + i, &value, 8);
            else
                pe->ops->put_nbi(pe->self, 1, there + i, source + i, 8);
            value = 0;
        }
        pe->ops->quiet(pe->self);
        check_words((uint64_t *)(pes_window(pe, 1) + PES_DATA), WORDS, 0, round, "at the target");
    }
    free(source);
    pes_barrier(pe);
}

static void large(struct pes *pe)
{
    const size_t bytes = (size_t)256 << 20, count = bytes / 8;
    uint64_t *window = (uint64_t *)(pe->base + PES_DATA + 8),
             *private =
                 mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pes_check(private != MAP_FAILED, "no memory");
    if (pe->me == 0) {
        uint64_t *seen = (uint64_t *)(pes_window(pe, 1) + PES_DATA + 8);
        fill(private, count, 0, 1);
        pe->ops->put(pe->self, 1, window, private, bytes);
        memset(private, 0, bytes); /* it is ours again */
        pe->ops->quiet(pe->self);
        check_words(seen, count, 0, 1, "put from private memory");
        pe->ops->get_nbi(pe->self, 1, private, window, bytes);
        pe->ops->quiet(pe->self);
        check_words(private, count, 0, 1, "get to private memory");
        fill(window, count, 0, 2);
        pe->ops->put_nbi(pe->self, 1, window, window, bytes);
        pe->ops->quiet(pe->self);
        check_words(seen, count, 0, 2, "put from symmetric memory");
        memset(window, 0, bytes);
        pe->ops->get(pe->self, 1, window, window, bytes);
        check_words(window, count, 0, 2, "get to symmetric memory");
    }
    munmap(private, bytes);
    pes_barrier(pe);
}

static void both(struct pes *pe)
{
    uint64_t *there = (uint64_t *)(pe->base + PES_DATA),
             *seen = (uint64_t *)(pes_window(pe, other(pe)) + PES_DATA);
    for (uint64_t round = 1; round <= 30; round++) {
        if (round > 1) {
            pes_close(pe);
            pes_open(pe);
        }
        uint64_t value = round * 10 + pe->me;
        pes_barrier(pe); /* now, at the same time */
        pe->ops->put(pe->self, other(pe), there, &value, 8);
        pe->ops->quiet(pe->self);
        pes_check(*(volatile uint64_t *)seen == value, "round %u", (unsigned)round);
        pes_check(pe->ops->connections(pe->self) == 1, "%u connections",
                  (unsigned)pe->ops->connections(pe->self));
        pes_barrier(pe);
    }
}

/* Each PE sends blocks to the other and tells of them by signal, or by a fence and a flag. */
static void exchange_blocks(struct pes *pe, size_t bytes, unsigned rounds)
{
    size_t half = PES_DATA_BYTES / 2 & ~(size_t)4095, count = bytes / 8;
    uint64_t *flags = (uint64_t *)(pe->base + PES_CONTROL - 256);
    char *sources = pe->base + PES_DATA, *dests = sources + half;
    for (uint64_t round = 1; round <= rounds; round++) {
        uint64_t *source = (uint64_t *)(sources + round % 3 * 8),
                 *dest = (uint64_t *)(dests + round % 5 * 8);
        fill(source, count, pe->me, round);
        if (round % 2) {
            pe->ops->put_signal(pe->self, other(pe), dest, source, bytes, flags, round, PX_AMO_SET,
                                round % 4 == 1);
        } else {
            pe->ops->put_nbi(pe->self, other(pe), dest, source, bytes);
            pe->ops->fence(pe->self);
            pe->ops->put(pe->self, other(pe), flags, &round, 8);
        }
        wait_word(pe, flags, round);
        check_words(dest, count, other(pe), round, "block");
        pe->ops->quiet(pe->self);
        struct px_amo done = {.op = PX_AMO_ADD, .width = 8, .operand = 1};
        pe->ops->amo_nbi(pe->self, other(pe), flags + 8, &done, NULL);
        pe->ops->quiet(pe->self);
        wait_word(pe, flags + 8, round);
    }
}

static void striped(struct pes *pe)
{
    exchange_blocks(pe, (size_t)3 << 20, 8);
    pes_barrier(pe);
    memset(pe->base + PES_CONTROL - 256, 0, 256);
    pes_barrier(pe);
    exchange_blocks(pe, (size_t)256 << 10, 12);
}

static void mixed(struct pes *pe)
{
    enum { WORDS = 4000 };
    uint64_t *there = (uint64_t *)(pe->base + PES_DATA) + pe->me * WORDS,
             *back = calloc(WORDS, sizeof(*back));
    uint64_t *sum = (uint64_t *)(pe->base + PES_CONTROL - 512);
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t value = word_of(pe->me, 1, i);
        struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = i, .fetching = i % 10 == 0};
        pe->ops->put(pe->self, other(pe), there + i, &value, 8);
        if (i % 2 == 0)
            (void)pe->ops->amo(pe->self, other(pe), sum, &add);
    }
    pe->ops->quiet(pe->self);
    pe->ops->get(pe->self, other(pe), back, there, WORDS * 8);
    check_words(back, WORDS, pe->me, 1, "get");
    pes_barrier(pe);
    pes_check(*(volatile uint64_t *)sum == (uint64_t)(WORDS / 2) * (WORDS / 2 - 1),
              "the sum is wrong");
    free(back);
    pes_barrier(pe);
    exchange_blocks(pe, 100000, 20);
    pes_barrier(pe);
    memset(pe->base + PES_CONTROL - 256, 0, 256);
    pes_barrier(pe);
    exchange_blocks(pe, (size_t)2 << 20, 4);
}

/* PE 1 is stopped dead while PE 0 waits for an answer that only PE 1's process could give. */
static void doomed(struct pes *pe)
{
    uint64_t *there = (uint64_t *)(pe->base + PES_DATA), value = 1;
    struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = 1, .fetching = true};
    if (pe->me == 0)
        pe->ops->put(pe->self, 1, there, &value, 8);
    pe->ops->quiet(pe->self);
    pes_barrier(pe);
    if (pe->me == 1)
        raise(SIGKILL);
    for (;;)
        (void)pe->ops->amo(pe->self, 1, there, &add);
}

static int run_doomed(struct pes_job *job)
{
    time_t limit = time(NULL) + 120;
    pes_begin(job, doomed);
    while ((pes_alive(job, 0) || pes_alive(job, 1)) && time(NULL) < limit)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    printf("%s", pes_last_line(job, 0));
    int failed = pes_alive(job, 0) || !strstr(pes_last_line(job, 0), "to PE 1 failed");
    (void)pes_stop(job); /* its failure is the point */
    return failed;
}

static int run_probe(void)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    const struct px_transport_ops *ops = px_transport_by_name("verbs");
    if (px_env_read(&env, &error) != PX_OK) {
        printf("%s\n", error.text);
        return 1;
    }
    const struct px_transport_setup setup = {.size = 2, .env = &env};
    bool usable = ops && ops->probe(&setup, &error) == PX_OK;
    printf("%s\n", usable ? "usable" : error.text);
    px_env_free(&env);
    return !usable;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        pes_case_fn *fn;
    } cases[] = {
        {"many", many}, {"large", large}, {"both", both}, {"striped", striped}, {"mixed", mixed}};
    const char *name = argc == 2 ? argv[1] : "";
    char reason[1600];
    if (strcmp(name, "probe") == 0)
        return run_probe();
    px_log_configure(getenv("STRESS_DEBUG") ? "INFO" : "", "", "");
    struct pes_job *job = pes_start("verbs", 2, false, reason, sizeof(reason));
    if (!job) {
        printf("%s\n", reason);
        return 2;
    }
    if (strcmp(name, "doomed") == 0)
        return run_doomed(job);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(name, cases[i].name) != 0)
            continue;
        const char *failure = pes_run(job, cases[i].fn, LIMIT_S);
        if (!failure)
            failure = pes_stop(job);
        if (failure)
            printf("%s\n", failure);
        return failure != NULL;
    }
    fprintf(stderr, "usage: stress many|large|both|striped|mixed|doomed|probe\n");
    (void)pes_stop(job); /* nothing was run */
    return 2;
}
