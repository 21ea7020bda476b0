/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of the verbs transport between two PEs, for comparison with perftest in the same surroundings (test/rdma/perf).
 * Prints one line "NAME BYTES VALUE UNIT" for each; medians for times, totals for bandwidth.
 *
 *   write_bw, read_bw   put_nbi and get_nbi, quiet at the end: MB/s (10^6)
 *   write_lat           ping-pong of put, half a round trip: us
 *   read_lat, atomic_lat, put_quiet, signal_lat   one operation until it is known complete: us */
#include "config.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/diag/log.h"
#include "src/transport/wait.h"
#include "test/unit/pes.h"

static unsigned iterations = 500;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, size_t bytes, double value, const char *unit)
{
    printf("%s %zu %.2f %s\n", name, bytes, value, unit);
    fflush(stdout);
}

/* PE 1 sleeps meanwhile, as perftest's server does: a process that spins would take time from the device. */
static void meet_asleep(struct pes *pe, size_t word, uint64_t round)
{
    if (pe->me == 0)
        atomic_store(pes_shared(pe, word), round);
    while (atomic_load(pes_shared(pe, word)) < round)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    pes_barrier(pe);
}

static void bandwidth(struct pes *pe, const char *name, bool read, size_t bytes, uint64_t round)
{
    enum { WARM = 16 };
    char *there = pe->base + PES_DATA, *here = there + ((size_t)8 << 20);
    unsigned count = (unsigned)(((size_t)48 << 20) / bytes);
    count = count > iterations ? iterations : count;
    for (unsigned i = 0; pe->me == 0 && i < WARM; i++)
        (read ? pe->ops->get : pe->ops->put)(pe->self, 1, read ? here : there, read ? there : here,
                                             bytes);
    double began = now_us();
    for (unsigned i = 0; pe->me == 0 && i < count; i++)
        (read ? pe->ops->get_nbi : pe->ops->put_nbi)(pe->self, 1, read ? here : there,
                                                     read ? there : here, bytes);
    if (pe->me == 0) {
        pe->ops->quiet(pe->self);
        report(name, bytes, (double)bytes * count / (now_us() - began), "MB/s");
    }
    meet_asleep(pe, 0, round);
}

/* What one step of PE 0 takes; PE 1 answers, or sleeps. */
typedef void step_fn(struct pes *pe, uint64_t i);

static void latency(struct pes *pe, const char *name, step_fn *ask, step_fn *answer, double share,
                    uint64_t round)
{
    double *times = calloc(iterations, sizeof(*times));
    memset(pe->base + PES_DATA, 0, 4096);
    pes_barrier(pe);
    for (unsigned i = 0; i < iterations && (pe->me == 0 || answer); i++) {
        double began = now_us();
        if (pe->me == 0)
            ask(pe, i + 1);
        else
            answer(pe, i + 1);
        times[i] = now_us() - began;
    }
    qsort(times, iterations, sizeof(*times), ascending);
    if (pe->me == 0)
        report(name, 8, times[iterations / 2] * share, "us");
    free(times);
    meet_asleep(pe, 1, round);
}

static uint64_t *slot(struct pes *pe, size_t i)
{
    return (uint64_t *)(pe->base + PES_DATA) + i * 8;
}

static void await(struct pes *pe, const uint64_t *word, uint64_t value)
{
    while (*(const volatile uint64_t *)word < value)
        pe->ops->progress(pe->self);
}

static void ping(struct pes *pe, uint64_t i)
{
    pe->ops->put(pe->self, 1, slot(pe, 0), &i, 8);
    await(pe, slot(pe, 1), i);
}

static void pong(struct pes *pe, uint64_t i)
{
    await(pe, slot(pe, 0), i);
    pe->ops->put(pe->self, 0, slot(pe, 1), &i, 8);
}

static void signal_ping(struct pes *pe, uint64_t i)
{
    pe->ops->put_signal(pe->self, 1, slot(pe, 2), &i, 8, slot(pe, 0), i, PX_AMO_SET, false);
    await(pe, slot(pe, 1), i);
}

static void signal_pong(struct pes *pe, uint64_t i)
{
    await(pe, slot(pe, 0), i);
    pe->ops->put_signal(pe->self, 0, slot(pe, 2), &i, 8, slot(pe, 1), i, PX_AMO_SET, false);
}

static void one_get(struct pes *pe, uint64_t i)
{
    (void)i;
    pe->ops->get(pe->self, 1, slot(pe, 3), slot(pe, 3), 8);
}

static void one_put_quiet(struct pes *pe, uint64_t i)
{
    pe->ops->put(pe->self, 1, slot(pe, 3), &i, 8);
    pe->ops->quiet(pe->self);
}

static void one_add(struct pes *pe, uint64_t i)
{
    const struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = i, .fetching = true};
    (void)pe->ops->amo(pe->self, 1, slot(pe, 4), &add);
}

static void measure(struct pes *pe)
{
    static const size_t sizes[] = {8, 4096, 65536, 1048576, 4194304};
    latency(pe, "write_lat", ping, pong, 0.5, 1);
    latency(pe, "read_lat", one_get, NULL, 1, 2);
    latency(pe, "atomic_lat", one_add, NULL, 1, 3);
    latency(pe, "put_quiet", one_put_quiet, NULL, 1, 4);
    latency(pe, "signal_lat", signal_ping, signal_pong, 0.5, 5);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        bandwidth(pe, "write_bw", false, sizes[i], 2 * i + 1);
        bandwidth(pe, "read_bw", true, sizes[i], 2 * i + 2);
    }
}

int main(int argc, char **argv)
{
    char reason[1600];
    if (argc > 1)
        iterations = (unsigned)strtoul(argv[1], NULL, 10);
    px_log_configure("", "", "");
    struct pes_job *job =
        iterations ? pes_start(argc > 2 ? argv[2] : "verbs", 2, false, reason, sizeof(reason))
                   : NULL;
    if (!job) {
        fprintf(stderr, "%s\n", iterations ? reason : "usage: bench [ITERATIONS [TRANSPORT]]");
        return 2;
    }
    const char *failure = pes_run(job, measure, 600);
    if (!failure)
        failure = pes_stop(job);
    if (failure)
        fprintf(stderr, "%s\n", failure);
    return failure != NULL;
}
