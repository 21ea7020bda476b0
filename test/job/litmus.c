/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory model as programs that run: what fence, quiet, signals and atomics promise, each as the shortest program
 * that would see the promise broken. The man page on the model shows the same ones.
 * First argument: rounds of each. */
#include "config.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nvshmem.h"
#include "nvshmemx.h"
#include "test/job/tap.h"

#define BIG 500 /* words: more than one packet, so that a signal could overtake the rest */

static int me, n, next, before;
static long rounds;
static uint64_t *data, *flag, *back, *block;

static void start_over(void)
{
    nvshmem_barrier_all();
    memset(data, 0, 64 * sizeof *data);
    *flag = *back = 0;
    nvshmem_barrier_all();
}

/* Each PE writes to the next one, which answers when it has looked: nobody runs more than a round ahead. */
static void answer(uint64_t round)
{
    nvshmemx_signal_op(back, round, NVSHMEM_SIGNAL_SET, before);
    (void)nvshmem_signal_wait_until(back, NVSHMEM_CMP_GE, round);
}

/* Message passing: put, fence, flag. Who sees the flag sees the data. */
static void put_fence_put(void)
{
    long stale = 0;
    start_over();
    for (long i = 1; i <= rounds; i++) {
        nvshmem_uint64_p(&data[i % 64], (uint64_t)i, next);
        nvshmem_fence();
        nvshmem_uint64_p(flag, (uint64_t)i, next);
        nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_GE, (uint64_t)i);
        stale += data[i % 64] < (uint64_t)i;
        answer((uint64_t)i);
    }
    ok(stale == 0, "put, fence, put: %ld of %ld stale", stale, rounds);
}

/* The same with an atomic as the flag. */
static void put_fence_atomic(void)
{
    long stale = 0;
    start_over();
    for (long i = 1; i <= rounds; i++) {
        nvshmem_uint64_put_nbi(&data[i % 64], &(uint64_t){(uint64_t)i}, 1, next);
        nvshmem_fence();
        nvshmem_uint64_atomic_inc(flag, next);
        nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_GE, (uint64_t)i);
        stale += data[i % 64] < (uint64_t)i;
        nvshmem_quiet(); /* the source of put_nbi goes out of scope */
        answer((uint64_t)i);
    }
    ok(stale == 0, "put_nbi, fence, atomic: %ld of %ld stale", stale, rounds);
}

/* A signal never overtakes its data, for small and large puts, set and add, blocking and not. */
static void signal_with_data(void)
{
    static uint64_t source[BIG];
    long stale = 0;
    start_over();
    for (long i = 1; i <= rounds; i++) {
        size_t count = i % 7 == 0 ? BIG : (size_t)(i % 5) + 1;
        int op = i % 2 ? NVSHMEM_SIGNAL_ADD : NVSHMEM_SIGNAL_SET;
        uint64_t value = i % 2 ? 1 : (uint64_t)i;
        for (size_t k = 0; k < count; k++)
            source[k] = (uint64_t)i;
        if (i % 3)
            nvshmem_uint64_put_signal(block, source, count, flag, value, op, next);
        else
            nvshmem_uint64_put_signal_nbi(block, source, count, flag, value, op, next);
        (void)nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, (uint64_t)i);
        for (size_t k = 0; k < count; k++)
            stale += block[k] != (uint64_t)i;
        nvshmem_quiet();
        answer((uint64_t)i);
    }
    ok(stale == 0, "put with signal: %ld stale words in %ld rounds", stale, rounds);
}

/* Store buffering: both PEs of a pair put, quiet, and look at what the other one put. One at least sees it. */
static void store_buffering(void)
{
    long both = 0;
    int partner = me ^ 1;
    start_over();
    for (long i = 1; i <= rounds / 10 && partner < n; i++) {
        nvshmem_uint64_p(&data[0], (uint64_t)i, partner); /* mine, where it sees it */
        nvshmem_quiet();
        uint64_t seen = __atomic_load_n(&data[0], __ATOMIC_SEQ_CST);
        nvshmem_uint64_p(&data[1], seen >= (uint64_t)i, partner);
        nvshmem_fence();
        nvshmem_uint64_p(&data[2], (uint64_t)i, partner);
        nvshmem_uint64_wait_until(&data[2], NVSHMEM_CMP_GE, (uint64_t)i);
        both += seen < (uint64_t)i && !data[1];
        nvshmem_uint64_p(&data[3], (uint64_t)i, partner); /* no new round before both have looked */
        nvshmem_uint64_wait_until(&data[3], NVSHMEM_CMP_GE, (uint64_t)i);
    }
    ok(both == 0, "put, quiet, load on two PEs: %ld of %ld blind on both", both, rounds / 10);
}

/* A chain over three PEs: 0 puts data on 2, quiet, tells 1; 1 tells 2; 2 sees the data. */
static void chain(void)
{
    long stale = 0;
    start_over();
    for (long i = 1; i <= rounds / 10 && n >= 3; i++) {
        if (me == 0) {
            nvshmem_uint64_p(&data[5], (uint64_t)i, 2);
            nvshmem_quiet();
            nvshmem_uint64_p(flag, (uint64_t)i, 1);
            nvshmem_uint64_wait_until(back, NVSHMEM_CMP_GE, (uint64_t)i);
        } else if (me == 1) {
            nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_GE, (uint64_t)i);
            nvshmem_uint64_p(flag, (uint64_t)i, 2);
        } else if (me == 2) {
            nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_GE, (uint64_t)i);
            stale += data[5] < (uint64_t)i;
            nvshmem_uint64_p(back, (uint64_t)i, 0);
        }
    }
    nvshmem_barrier_all();
    ok(stale == 0, "a chain of three PEs: %ld of %ld stale", stale, rounds / 10);
}

/* quiet completes gets that were not waited for, and results of atomics. */
static void nbi_results(void)
{
    long wrong = 0;
    start_over();
    data[9] = (uint64_t)me + 100;
    nvshmem_barrier_all();
    for (long i = 0; i < rounds / 10; i++) {
        uint64_t seen = 0, old = 0;
        nvshmem_uint64_get_nbi(&seen, &data[9], 1, next);
        nvshmem_uint64_atomic_fetch_add_nbi(&old, &data[10], 1, next);
        nvshmem_quiet();
        wrong += seen != (uint64_t)next + 100 || old != (uint64_t)i;
    }
    nvshmem_barrier_all();
    ok(wrong == 0, "get_nbi and fetch_add_nbi after quiet: %ld of %ld wrong", wrong, rounds / 10);
}

/* One-sided means it: the target computes and calls nothing while it is read and written. */
static void target_computes(void)
{
    start_over();
    if (me == 0) {
        for (volatile long spin = 0; __atomic_load_n(&data[20], __ATOMIC_ACQUIRE) < (uint64_t)n - 1;
             spin++)
            if (spin % 1000 == 0)
                sched_yield(); /* the test's own courtesy to a machine with few processors */
    } else {
        uint64_t value = 0;
        nvshmem_uint64_p(&data[30 + me % 8], (uint64_t)me, 0);
        nvshmem_quiet();
        nvshmem_uint64_get(&value, &data[30 + me % 8], 1, 0);
        (void)nvshmem_uint64_atomic_fetch_inc(&data[20], 0);
    }
    ok(true, "put, get and fetch_inc on a PE that calls nothing");
    nvshmem_barrier_all();
}

int main(int argc, char **argv)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    rounds = argc > 1 ? strtol(argv[1], NULL, 0) : 5000;
    tap_start(me);
    data = nvshmem_calloc(64, sizeof *data);
    block = nvshmem_calloc(BIG, sizeof *block);
    flag = nvshmem_calloc(1, sizeof *flag);
    back = nvshmem_calloc(1, sizeof *back);
    put_fence_put();
    put_fence_atomic();
    signal_with_data();
    store_buffering();
    chain();
    nbi_results();
    target_computes();
    nvshmem_finalize();
    return tap_done();
}
