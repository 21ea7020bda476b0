/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a PE in collectives of different teams at once, and making teams meanwhile, each out of a team of its own:
 * no slot is given twice, no answer goes astray, however the threads of the PEs overtake each other. */
#include <nvshmem.h>
#include <pthread.h>
#include <stdint.h>

#include "test/job/tap.h"

#define THREADS 4
#define ROUNDS  60

static int me, n;
static nvshmem_team_t parents[THREADS];
static int64_t *words; /* [THREADS][2] */
static int wrong[THREADS];

/* Members `first` to the last of the thread's parent; then a sum that only they make. */
static void one_round(int thread, int round)
{
    int first = round % n, size = n - first;
    nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
    int64_t *in = &words[2 * thread], *out = in + 1;
    if (nvshmem_team_split_strided(parents[thread], first, 1, size, NULL, 0, &team) != 0)
        wrong[thread]++;
    if ((team == NVSHMEM_TEAM_INVALID) != (me < first))
        wrong[thread]++;
    if (team == NVSHMEM_TEAM_INVALID)
        return;
    *in = (int64_t)round * 100 + thread * 7 + me;
    *out = -1;
    if (nvshmem_int64_sum_reduce(team, out, in, 1) != 0)
        wrong[thread]++;
    int64_t wanted = (int64_t)size * (round * 100 + thread * 7);
    for (int pe = first; pe < n; pe++)
        wanted += pe;
    wrong[thread] += *out != wanted || nvshmem_team_n_pes(team) != size;
    nvshmem_team_destroy(team);
    wrong[thread] += nvshmem_team_n_pes(team) != -1;
}

static void *work(void *arg)
{
    int thread = *(int *)arg;
    for (int round = 0; round < ROUNDS; round++) {
        one_round(thread, round);
        if (round % 8 == thread)
            nvshmem_barrier(parents[thread]);
    }
    return NULL;
}

int main(void)
{
    int provided = 0, numbers[THREADS];
    pthread_t threads[THREADS];
    nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE, &provided);
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    tap_start(me);
    ok(provided == NVSHMEM_THREAD_MULTIPLE, "thread level %d", provided);
    words = nvshmem_calloc(2 * THREADS, sizeof(*words));
    for (int t = 0; t < THREADS; t++)
        if (nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &parents[t]) != 0)
            return 1;
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        pthread_create(&threads[t], NULL, work, &numbers[t]);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) {
        ok(wrong[t] == 0, "thread %d: %d wrong in %d rounds", t, wrong[t], ROUNDS);
        nvshmem_team_destroy(parents[t]);
    }
    nvshmem_barrier_all();
    nvshmem_free(words);
    nvshmem_finalize();
    return tap_done();
}
