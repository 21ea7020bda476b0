/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of start-up, memory, barriers and operations on streams, with nothing but the interface, so that
 * the same source can be compiled against another library of the interface: one figure a line,
 * "name microseconds", medians. test/gpu/compare runs it with both and prints them side by side. */
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TURNS 7
#define MOST  ((size_t)64 << 20)

static double times[TURNS];
static int me;
static cudaStream_t stream;
static cudaEvent_t started, ended;

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

static void report(const char *what, size_t size)
{
    qsort(times, TURNS, sizeof *times, order);
    if (me == 0 && size)
        printf("figure %s_%zu %.2f\n", what, size, times[TURNS / 2]);
    else if (me == 0)
        printf("figure %s %.2f\n", what, times[TURNS / 2]);
    fflush(stdout);
}

enum what { DO_PUT, DO_GET, DO_PUT_SIGNAL, DO_P, DO_BARRIER, DO_SYNC, DO_REDUCE, DO_BROADCAST, DO_FCOLLECT };

static void issue(enum what what, char *dest, char *source, size_t size, int next)
{
    switch (what) {
    case DO_PUT:
        nvshmemx_putmem_on_stream(dest, source, size, next, stream);
        break;
    case DO_GET:
        nvshmemx_getmem_on_stream(dest, source, size, next, stream);
        break;
    case DO_PUT_SIGNAL:
        nvshmemx_putmem_signal_on_stream(dest, source, size, (uint64_t *)(dest + MOST), 1,
                                         NVSHMEM_SIGNAL_SET, next, stream);
        break;
    case DO_P:
        nvshmemx_int_p_on_stream((int *)dest, 1, next, stream);
        break;
    case DO_BARRIER:
        nvshmemx_barrier_all_on_stream(stream);
        break;
    case DO_SYNC:
        nvshmemx_sync_all_on_stream(stream);
        break;
    case DO_REDUCE:
        nvshmemx_float_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, (float *)dest, (float *)source,
                                            size / sizeof(float), stream);
        break;
    case DO_BROADCAST:
        nvshmemx_broadcastmem_on_stream(NVSHMEM_TEAM_WORLD, dest, source, size, 0, stream);
        break;
    case DO_FCOLLECT:
        nvshmemx_fcollectmem_on_stream(NVSHMEM_TEAM_WORLD, dest, source, size, stream);
        break;
    }
}

/* `_each`: one of many behind each other; `_alone`: call to the end of the wait for it. */
static void measure(const char *name, enum what what, char *dest, char *source, size_t size,
                    int count)
{
    int next = (me + 1) % nvshmem_n_pes();
    char text[64];
    for (int turn = -1; turn < TURNS; turn++) {
        float ms = 0;
        nvshmem_barrier_all();
        cudaEventRecord(started, stream);
        for (int i = 0; i < count; i++)
            issue(what, dest, source, size, next);
        cudaEventRecord(ended, stream);
        cudaStreamSynchronize(stream);
        cudaEventElapsedTime(&ms, started, ended);
        if (turn >= 0)
            times[turn] = 1e3 * ms / count;
    }
    snprintf(text, sizeof text, "%s_each", name);
    report(text, size);
    for (int turn = -1; turn < TURNS; turn++) {
        nvshmem_barrier_all();
        double start = now();
        issue(what, dest, source, size, next);
        cudaStreamSynchronize(stream);
        if (turn >= 0)
            times[turn] = now() - start;
    }
    snprintf(text, sizeof text, "%s_alone", name);
    report(text, size);
}

static void host_figures(void)
{
    for (int turn = 0; turn < TURNS; turn++) {
        double start = now();
        for (int i = 0; i < 20; i++)
            nvshmem_barrier_all();
        times[turn] = (now() - start) / 20;
    }
    report("host_barrier_all", 0);
    for (size_t bytes = 1024; bytes <= (size_t)1 << 30; bytes <<= 10) {
        for (int turn = 0; turn < TURNS; turn++) {
            double start = now();
            void *block = nvshmem_malloc(bytes);
            nvshmem_free(block);
            times[turn] = now() - start;
        }
        report("malloc_and_free", bytes);
    }
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 50;
    if (cudaSetDevice(0) != cudaSuccess || cudaFree(0) != cudaSuccess)
        return 1;
    double start = now();
    nvshmem_init();
    double up = now() - start;
    me = nvshmem_my_pe();
    if (me == 0)
        printf("figure init %.0f\n", up);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaEventCreate(&started);
    cudaEventCreate(&ended);
    host_figures();
    int n = nvshmem_n_pes();
    char *dest = (char *)nvshmem_malloc(MOST + 4096);
    char *source = (char *)nvshmem_malloc(MOST + 4096);
    if (!dest || !source)
        return 2;
    cudaMemset(dest, 0, MOST + 4096);
    cudaMemset(source, 0, MOST + 4096);
    cudaDeviceSynchronize();
    measure("barrier", DO_BARRIER, dest, source, 0, count);
    measure("sync", DO_SYNC, dest, source, 0, count);
    measure("p", DO_P, dest, source, 0, count);
    for (size_t bytes = 8; bytes <= MOST; bytes *= bytes < 4096 ? 8 : 16) {
        int few = bytes > (1 << 20) ? (count + 4) / 5 : count;
        measure("put", DO_PUT, dest, source, bytes, few);
        measure("get", DO_GET, dest, source, bytes, few);
    }
    measure("put", DO_PUT, dest, source, MOST, (count + 4) / 5);
    measure("get", DO_GET, dest, source, MOST, (count + 4) / 5);
    for (size_t bytes = 8; bytes <= ((size_t)1 << 20); bytes *= 128)
        measure("put_signal", DO_PUT_SIGNAL, dest, source, bytes, count);
    for (size_t bytes = 4; bytes <= MOST; bytes *= 64) {
        int few = bytes > (1 << 20) ? (count + 4) / 5 : count;
        measure("reduce", DO_REDUCE, dest, source, bytes, few);
    }
    for (size_t bytes = 8; bytes <= (size_t)8 << 20; bytes *= 128) {
        measure("broadcast", DO_BROADCAST, dest, source, bytes, count);
        measure("fcollect", DO_FCOLLECT, dest, source, bytes / (size_t)n, count);
    }
    nvshmem_barrier_all();
    nvshmem_finalize();
    if (me == 0)
        printf("figures end\n");
    return 0;
}
