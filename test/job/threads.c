/* SPDX-License-Identifier: BSD-3-Clause */
/* NVSHMEM_THREAD_MULTIPLE: threads of one PE put, add, signal, wait, fence and quiet at once. Each thread has a partner of
 * its own number on every PE; all of them share the counters, whose sums must come out exact. */
#include <nvshmem.h>
#include <nvshmemx.h>
#include <pthread.h>
#include <string.h>

#include "test/job/tap.h"

#define THREADS 4
#define ROUNDS  200
#define WORDS   512 /* of a message: beyond what is sent in one piece with its header */

struct mail {
    uint64_t signal;
    uint64_t words[WORDS];
};

static int me, n;
static struct mail *mail;  /* [THREADS] from the left neighbour's thread of the same number */
static uint64_t *returned; /* [THREADS] how many of my messages the right neighbour has read */
static uint64_t *sums;     /* [2] plain adds; fetching adds */
static uint64_t *places;   /* [THREADS * ROUNDS] on PE 0: who was given which ticket */
static unsigned *swapped;  /* [THREADS] */
static _Atomic int bad[THREADS];

static uint64_t pattern(int pe, int thread, int round, int word)
{
    return (uint64_t)pe << 48 | (uint64_t)thread << 40 | (uint64_t)round << 16 | (uint64_t)word;
}

static void send_mail(int thread, int round)
{
    uint64_t words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = pattern(me, thread, round, i);
    nvshmem_uint64_put_signal(mail[thread].words, words, WORDS, &mail[thread].signal,
                              (uint64_t)round, NVSHMEM_SIGNAL_SET, (me + 1) % n);
}

static void read_mail(int thread, int round)
{
    int left = (me + n - 1) % n;
    nvshmem_uint64_wait_until(&mail[thread].signal, NVSHMEM_CMP_GE, (uint64_t)round);
    for (int i = 0; i < WORDS; i++)
        bad[thread] += mail[thread].words[i] != pattern(left, thread, round, i);
    nvshmem_uint64_p(&returned[thread], (uint64_t)round, left);
}

/* Every ticket is drawn once by somebody: fetched values are as exact as sums. */
static void draw_ticket(int thread)
{
    uint64_t ticket = nvshmem_uint64_atomic_fetch_inc(&sums[1], 0);
    if (ticket >= (uint64_t)n * THREADS * ROUNDS)
        bad[thread]++;
    else
        nvshmem_uint64_atomic_add(&places[ticket], (uint64_t)me * THREADS + (uint64_t)thread + 1,
                                  0);
}

static void swap_and_back(int thread, int round)
{
    int pe = (me + 1) % n;
    unsigned was = nvshmem_uint_atomic_compare_swap(&swapped[thread], (unsigned)round - 1,
                                                    (unsigned)round, pe);
    bad[thread] +=
        was != (unsigned)round - 1 || nvshmem_uint_g(&swapped[thread], pe) != (unsigned)round;
}

static void *work(void *arg)
{
    int thread = *(int *)arg;
    for (int round = 1; round <= ROUNDS; round++) {
        send_mail(thread, round);
        for (int pe = 0; pe < n; pe++)
            nvshmem_uint64_atomic_add(&sums[0], (uint64_t)thread + 1, pe);
        draw_ticket(thread);
        swap_and_back(thread, round);
        read_mail(thread, round);
        if (round % 16 == 0)
            nvshmem_quiet();
        nvshmem_uint64_wait_until(&returned[thread], NVSHMEM_CMP_GE,
                                  (uint64_t)round); /* the letter box is free */
    }
    nvshmem_quiet();
    return NULL;
}

static int count_bad_tickets(void)
{
    int wrong = 0;
    for (int i = 0; me == 0 && i < n * THREADS * ROUNDS; i++)
        wrong += places[i] == 0 || places[i] > (uint64_t)n * THREADS;
    return wrong;
}

int main(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], provided = 0, wrong = 0;
    int code = nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE, &provided);
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    tap_start(me);
    ok(code == 0 && provided == NVSHMEM_THREAD_MULTIPLE, "NVSHMEM_THREAD_MULTIPLE is provided");
    mail = nvshmem_calloc(THREADS, sizeof(*mail));
    returned = nvshmem_calloc(THREADS, sizeof(*returned));
    sums = nvshmem_calloc(2, sizeof(*sums));
    places = nvshmem_calloc((size_t)n * THREADS * ROUNDS, sizeof(*places));
    swapped = nvshmem_calloc(THREADS, sizeof(*swapped));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, work, &numbers[i]) != 0)
            return 2;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong += bad[i];
    }
    nvshmem_barrier_all();
    uint64_t expected = (uint64_t)n * ROUNDS * THREADS * (THREADS + 1) / 2;
    ok(wrong == 0, "messages, tickets and swaps of %d threads: %d wrong", THREADS, wrong);
    ok(sums[0] == expected, "adds of all threads of all PEs: %llu, expected %llu",
       (unsigned long long)sums[0], (unsigned long long)expected);
    ok(me != 0 || sums[1] == (uint64_t)n * THREADS * ROUNDS, "as many tickets as draws: %llu",
       (unsigned long long)sums[1]);
    wrong = count_bad_tickets();
    ok(wrong == 0, "each was drawn once: %d wrong", wrong);
    nvshmem_finalize();
    return tap_done();
}
