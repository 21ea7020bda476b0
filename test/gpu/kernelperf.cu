/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of communication from inside kernels, between PEs 0 and 1: puts and gets of a thread, a warp and
 * a block, bulk by several blocks, single elements, atomics, signals, barriers and collectives. Uses
 * nothing but the interface, so that it can be compiled against another library. Best of several. */
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t e = call;                                                                      \
        if (e != cudaSuccess) {                                                                    \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));                             \
            nvshmem_global_exit(1);                                                                \
        }                                                                                          \
    } while (0)

static int me, peer;
static cudaEvent_t start_event, stop_event;
static char *there, *here;
static uint64_t *signals;

enum { THREAD, WARP, BLOCK };

template <int SCOPE, bool GET>
__global__ void move(char *dest, const char *source, size_t bytes, int turns, int pe)
{
    dest += blockIdx.x * bytes;
    source += blockIdx.x * bytes;
    for (int i = 0; i < turns; i++) {
        if (SCOPE == THREAD)
            GET ? nvshmem_double_get((double *)dest, (const double *)source, bytes / 8, pe)
                : nvshmem_double_put((double *)dest, (const double *)source, bytes / 8, pe);
        else if (SCOPE == WARP)
            GET ? nvshmemx_double_get_warp((double *)dest, (const double *)source, bytes / 8, pe)
                : nvshmemx_double_put_warp((double *)dest, (const double *)source, bytes / 8, pe);
        else
            GET ? nvshmemx_double_get_block((double *)dest, (const double *)source, bytes / 8, pe)
                : nvshmemx_double_put_block((double *)dest, (const double *)source, bytes / 8, pe);
        if (threadIdx.x == 0)
            nvshmem_quiet();
        if (SCOPE == BLOCK)
            __syncthreads();
    }
}

__global__ void elements(int kind, int *words, int turns, int pe, int *sink)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x, sum = 0;
    for (int i = 0; i < turns; i++) {
        int *word = words + id + (size_t)(i % 8) * all;
        if (kind == 0)
            nvshmem_int_p(word, i, pe);
        else if (kind == 1)
            sum += nvshmem_int_g(word, pe);
        else if (kind == 2)
            sum += nvshmem_int_atomic_fetch_add(word, 1, pe);
        else
            nvshmem_int_atomic_add(word, 1, pe);
    }
    nvshmem_quiet();
    if (sum == -1)
        *sink = sum;
}

template <int SCOPE>
__global__ void ping_pong(char *dest, char *source, size_t bytes, uint64_t *signal, int turns, int me, int peer)
{
    for (int i = 1; i <= turns; i++) {
        if (me == 1) {
            if (threadIdx.x == 0)
                nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, i);
            __syncthreads();
        }
        if (SCOPE == THREAD)
            nvshmem_double_put_signal((double *)dest, (double *)source, bytes / 8, signal, i, NVSHMEM_SIGNAL_SET, peer);
        else
            nvshmemx_double_put_signal_block((double *)dest, (double *)source, bytes / 8, signal, i, NVSHMEM_SIGNAL_SET, peer);
        if (me == 0) {
            if (threadIdx.x == 0)
                nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, i);
            __syncthreads();
        }
    }
}

__global__ void barriers(int turns)
{
    for (int i = 0; i < turns; i++)
        nvshmemx_barrier_all_block();
}

__global__ void collective(int kind, float *dest, float *source, size_t n, int turns)
{
    for (int i = 0; i < turns; i++) {
        float *to = dest + (i & 1) * 2 * n;
        if (kind == 0)
            nvshmemx_float_alltoall_block(NVSHMEM_TEAM_WORLD, to, source, n);
        else if (kind == 1)
            nvshmemx_float_fcollect_block(NVSHMEM_TEAM_WORLD, to, source, n);
        else if (kind == 2)
            nvshmemx_float_sum_reduce_block(NVSHMEM_TEAM_WORLD, to, source, n);
        else
            nvshmemx_float_broadcast_block(NVSHMEM_TEAM_WORLD, to, source, n, 0);
    }
}

/* Microseconds of one launch, the best of five; `both`: PE 1 launches too. */
template <class F> static double best(bool both, F launch)
{
    float least = 1e9f, ms = 0;
    for (int turn = 0; turn < 6; turn++) {
        nvshmem_barrier_all();
        if (me == 0 || both) {
            CUDA(cudaEventRecord(start_event));
            launch();
            if (cudaGetLastError() != cudaSuccess) /* more registers than there are for so many threads, say */
                return 0;
            CUDA(cudaEventRecord(stop_event));
            CUDA(cudaDeviceSynchronize());
            CUDA(cudaEventElapsedTime(&ms, start_event, stop_event));
            if (turn)
                least = ms < least ? ms : least;
        }
        nvshmem_barrier_all();
    }
    return 1e3 * least;
}

static void say(const char *what, size_t size, double value, const char *unit)
{
    if (me == 0)
        printf("%-26s %9zu %12.2f %s\n", what, size, value, value > 0 ? unit : "did not start");
    fflush(stdout);
}

template <int SCOPE, bool GET> static void latency(const char *what, int threads)
{
    for (size_t bytes = 8; bytes <= (SCOPE == THREAD ? 65536u : 4u << 20); bytes *= 8) {
        int turns = bytes > 100000 ? 10 : bytes > 5000 && SCOPE == THREAD ? 10 : 50;
        double us = best(false, [=] { move<SCOPE, GET><<<1, threads>>>(there, here, bytes, turns, peer); });
        say(what, bytes, us / turns, "us");
    }
}

template <bool GET> static void bulk(const char *what)
{
    for (int blocks = 1; blocks <= 132; blocks = blocks == 32 ? 132 : blocks * 4 > 32 && blocks < 32 ? 32 : blocks * 4) {
        size_t bytes = (size_t)(64 << 20) / blocks / 1024 * 1024;
        double us = best(false, [=] { move<BLOCK, GET><<<blocks, 1024>>>(there, here, bytes, 2, peer); });
        say(what, blocks, 2.0 * bytes * blocks / us / 1e3, "GB/s by this many blocks");
    }
}

static void element_rates(void)
{
    static const char *const names[] = {"p", "g", "fetch_add", "add"};
    int *words = (int *)there, *sink = (int *)here;
    for (int kind = 0; kind < 4; kind++) {
        double one = best(false, [=] { elements<<<1, 1>>>(kind, words, 200, peer, sink); });
        double many = best(false, [=] { elements<<<132, 512>>>(kind, words, 2000, peer, sink); });
        say(names[kind], 1, one / 200, "us, one thread");
        say(names[kind], 132 * 512, 132.0 * 512 * 2000 / many / 1e3, "10^9 a second");
    }
}

template <int SCOPE> static void signal_times(const char *what, int threads)
{
    for (size_t bytes = 8; bytes <= 65536; bytes *= 16) {
        int turns = 100;
        double us = best(true, [=] {
            CUDA(cudaMemsetAsync(signals, 0, 64));
            CUDA(cudaDeviceSynchronize());
            nvshmem_barrier_all();
            CUDA(cudaEventRecord(start_event));
            ping_pong<SCOPE><<<1, threads>>>(there, here, bytes, signals, turns, me, peer);
        });
        say(what, bytes, us / turns / 2, "us one way");
    }
}

int main(void)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    if (nvshmem_n_pes() != 2)
        return fprintf(stderr, "for two PEs\n");
    peer = 1 - me;
    CUDA(cudaSetDevice(0));
    CUDA(cudaEventCreate(&start_event));
    CUDA(cudaEventCreate(&stop_event));
    there = (char *)nvshmem_malloc((size_t)80 << 20);
    here = (char *)nvshmem_malloc((size_t)80 << 20);
    signals = (uint64_t *)nvshmem_calloc(8, 8);
    CUDA(cudaMemset(here, 1, (size_t)80 << 20));
    double us = best(false, [] { CUDA(cudaMemcpyAsync(there, here, (size_t)64 << 20, cudaMemcpyDeviceToDevice)); });
    say("device's own copy", 64 << 20, (64 << 20) / us / 1e3, "GB/s");
    latency<THREAD, false>("put, thread", 1);
    latency<WARP, false>("put, warp", 32);
    latency<BLOCK, false>("put, block of 1024", 1024);
    latency<BLOCK, false>("put, block of 256", 256);
    latency<THREAD, true>("get, thread", 1);
    latency<WARP, true>("get, warp", 32);
    latency<BLOCK, true>("get, block of 1024", 1024);
    bulk<false>("bulk put");
    bulk<true>("bulk get");
    element_rates();
    signal_times<THREAD>("put_signal, thread", 1);
    signal_times<BLOCK>("put_signal, block", 256);
    us = best(true, [] { barriers<<<1, 256>>>(100); });
    say("barrier_all, block", 2, us / 100, "us");
    static const char *const names[] = {"alltoall", "fcollect", "sum_reduce", "broadcast"};
    for (int kind = 0; kind < 4; kind++)
        for (size_t n = 16; n <= 1 << 20; n *= 16) {
            us = best(true, [=] { collective<<<1, 256>>>(kind, (float *)there, (float *)here, n, 10); });
            say(names[kind], 4 * n, us / 10, "us, block of 256");
        }
    nvshmem_free(signals);
    nvshmem_free(here);
    nvshmem_free(there);
    nvshmem_finalize();
    return 0;
}
