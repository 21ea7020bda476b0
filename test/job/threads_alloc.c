/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads of each PE at once: puts, gets, atomics, signals and waits, while the main thread allocates, frees and
 * meets the other PEs. Every thread talks to the thread of the same number on the next PE. */
#include "config.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "nvshmem.h"
#include "test/job/tap.h"

#define THREADS 4
#define ROUNDS  300
#define WORDS   200

/* One for each thread, in symmetric memory. */
struct lane {
    uint64_t signal, answer, count;
    uint32_t data[WORDS];
};

static struct lane *lanes;
static long *shared; /* all threads of all PEs add to the one of PE 0 */
static int me, n;
static long wrong[THREADS];

static void *talk(void *arg)
{
    size_t t = (size_t)(uintptr_t)arg;
    struct lane *lane = &lanes[t];
    int next = (me + 1) % n, before = (me + n - 1) % n;
    uint32_t source[WORDS], copy[WORDS];
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        for (size_t k = 0; k < WORDS; k++)
            source[k] = i * 7 + (uint32_t)t;
        if (i % 2) {
            nvshmem_uint32_put_signal(lane->data, source, WORDS, &lane->signal, i,
                                      NVSHMEM_SIGNAL_SET, next);
        } else {
            nvshmem_uint32_put_nbi(lane->data, source, WORDS, next);
            nvshmem_fence();
            nvshmem_signal_set(&lane->signal, i, next);
            nvshmem_quiet();
        }
        nvshmem_uint64_wait_until(&lane->signal, NVSHMEM_CMP_GE, i);
        for (size_t k = 0; k < WORDS; k++)
            wrong[t] += lane->data[k] != i * 7 + (uint32_t)t;
        nvshmem_uint32_get(copy, lane->data, WORDS, me);
        wrong[t] += copy[WORDS - 1] != i * 7 + (uint32_t)t;
        nvshmem_long_atomic_add(shared, 1, 0);
        wrong[t] += nvshmem_uint64_atomic_fetch_inc(&lane->count, next) != i - 1;
        nvshmem_signal_set(&lane->answer, i, before);
        (void)nvshmem_signal_wait_until(&lane->answer, NVSHMEM_CMP_GE, i);
    }
    return NULL;
}

/* Collective calls stay with one thread, and go on beside the others. */
static long allocate_meanwhile(void)
{
    long bad = 0;
    for (size_t i = 0; i < 20; i++) {
        char *block = nvshmem_calloc(1000 + i, 3);
        bad += !block || block[2999];
        nvshmem_barrier_all();
        nvshmem_free(block);
    }
    return bad;
}

int main(void)
{
    int provided;
    pthread_t threads[THREADS];
    nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE, &provided);
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    tap_start(me);
    ok(provided == NVSHMEM_THREAD_MULTIPLE, "thread level %d", provided);
    lanes = nvshmem_calloc(THREADS, sizeof *lanes);
    shared = nvshmem_calloc(1, sizeof *shared);
    for (size_t t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, talk, (void *)(uintptr_t)t) != 0)
            nvshmem_global_exit(2);
    long bad = allocate_meanwhile();
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    nvshmem_barrier_all();
    for (size_t t = 0; t < THREADS; t++)
        ok(wrong[t] == 0, "thread %zu: %ld wrong", t, wrong[t]);
    ok(bad == 0, "allocating beside them: %ld wrong", bad);
    long sum = nvshmem_long_g(shared, 0);
    ok(sum == (long)n * THREADS * ROUNDS, "sum of all threads: %ld", sum);
    nvshmem_finalize();
    return tap_done();
}
