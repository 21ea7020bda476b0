/* SPDX-License-Identifier: BSD-3-Clause */
/* A PE that waits long sleeps: while the last PE stays away, the others use next to no processor time, threads of the
 * library included. The bound is a tenth of the wait, far above what is used and far below what spinning takes. */
#include <nvshmem.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "test/job/tap.h"

#define AWAY_S 3

static int me, n;
static uint64_t *signal_word;

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double processor_time(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void barrier_late(void)
{
    if (me == n - 1)
        sleep(AWAY_S);
    nvshmem_barrier_all();
}

static void signal_late(void)
{
    if (me == n - 1) {
        sleep(AWAY_S);
        for (int pe = 0; pe < n; pe++)
            nvshmem_uint64_p(signal_word, 1, pe);
        nvshmem_quiet();
    }
    nvshmem_uint64_wait_until(signal_word, NVSHMEM_CMP_EQ, 1);
}

static void measure(const char *name, void (*wait)(void))
{
    nvshmem_barrier_all();
    double used = processor_time(), began = now();
    wait();
    used = processor_time() - used;
    double lasted = now() - began;
    ok(lasted > AWAY_S - 1 && used < lasted / 10, "%s: %.3f s of processor time in %.1f s", name,
       used, lasted);
}

int main(void)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    tap_start(me);
    signal_word = nvshmem_calloc(1, sizeof(*signal_word));
    measure("a long barrier", barrier_late);
    measure("a long wait for a word", signal_late);
    nvshmem_finalize();
    return tap_done();
}
