/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of what a host program does with symmetric memory: init, malloc and free, barrier_all, put and
 * get between two PEs. Uses nothing but the interface, so that it can be compiled against another
 * library. Prints a table; medians. */
#include <nvshmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define TURNS 51
static double times[TURNS];

static void report(const char *what, int me)
{
    qsort(times, TURNS, sizeof *times, order);
    if (me == 0)
        printf("%-28s %12.2f us\n", what, times[TURNS / 2]);
}

int main(void)
{
    char what[64];
    double start = now();
    nvshmem_init();
    double up = now() - start;
    int me = nvshmem_my_pe(), next = (me + 1) % nvshmem_n_pes();
    if (me == 0)
        printf("%-28s %12.0f us\n", "init (with the context)", up);
    for (int turn = 0; turn < TURNS; turn++) {
        start = now();
        nvshmem_barrier_all();
        times[turn] = now() - start;
    }
    report("barrier_all", me);
    for (size_t bytes = 1024; bytes <= (size_t)128 << 20; bytes <<= 17) {
        for (int turn = 0; turn < TURNS; turn++) {
            start = now();
            void *p = nvshmem_malloc(bytes);
            nvshmem_free(p);
            times[turn] = now() - start;
        }
        snprintf(what, sizeof what, "malloc and free %zu", bytes);
        report(what, me);
    }
    char *there = nvshmem_malloc((size_t)64 << 20), *host = malloc((size_t)64 << 20);
    memset(host, 1, (size_t)64 << 20);
    for (size_t bytes = 8; bytes <= (size_t)64 << 20; bytes *= 8) {
        for (int kind = 0; kind < 2; kind++) {
            for (int turn = 0; turn < TURNS; turn++) {
                start = now();
                if (kind)
                    nvshmem_getmem(host, there, bytes, next);
                else
                    nvshmem_putmem(there, host, bytes, next);
                times[turn] = now() - start;
            }
            snprintf(what, sizeof what, "%s host memory %zu", kind ? "get to" : "put from", bytes);
            report(what, me);
        }
    }
    nvshmem_barrier_all();
    nvshmem_finalize();
    free(host);
    return 0;
}
