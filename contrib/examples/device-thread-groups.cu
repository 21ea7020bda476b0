/* SPDX-License-Identifier: BSD-3-Clause */
/* The same data by one thread, by a warp and by a block: all threads of the group call together. */
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

#define N 1000

__global__ void by_groups(double *dest, const double *source, int peer)
{
    if (threadIdx.x == 0)
        nvshmem_double_put(dest, source, N, peer);
    if (threadIdx.x / 32 == 1)
        nvshmemx_double_put_warp(dest + N, source, N, peer);
    nvshmemx_double_put_block(dest + 2 * N, source, N, peer);
    nvshmemx_barrier_all_block();
}

int main()
{
    int devices = 1;
    double host[3 * N] = {0}, mine[N];
    nvshmem_init();
    int me = nvshmem_my_pe(), pes = nvshmem_n_pes(), wrong = 0;
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    double *dest = (double *)nvshmem_malloc(sizeof host), *source = (double *)nvshmem_malloc(sizeof mine);
    for (int i = 0; i < N; i++)
        mine[i] = me * N + i;
    cudaMemcpy(source, mine, sizeof mine, cudaMemcpyHostToDevice);
    nvshmem_barrier_all();
    by_groups<<<1, 128>>>(dest, source, (me + 1) % pes);
    cudaDeviceSynchronize();
    cudaMemcpy(host, dest, sizeof host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 3 * N; i++)
        wrong += host[i] != (me + pes - 1) % pes * N + i % N;
    printf("PE %d: %d wrong\n", me, wrong);
    nvshmem_free(source);
    nvshmem_free(dest);
    nvshmem_finalize();
    return wrong != 0;
}
