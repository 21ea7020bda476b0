/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels put from and get into memory of the program's own: only the other side has to be symmetric. */
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

#define N 4096

__global__ void through(float *symmetric, float *own, int peer)
{
    nvshmemx_float_put_block(symmetric, own, N, peer);
    nvshmemx_barrier_all_block();
    nvshmemx_float_get_block(own, symmetric, N, peer);
}

int main()
{
    int devices = 1;
    float *own, last = 0, value;
    nvshmem_init();
    int me = nvshmem_my_pe();
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    float *symmetric = (float *)nvshmem_malloc(N * sizeof(float));
    cudaMalloc(&own, N * sizeof(float));
    nvshmemx_buffer_register(own, N * sizeof(float)); /* saves work when PEs are far */
    value = (float)me;
    cudaMemcpy(own + N - 1, &value, sizeof value, cudaMemcpyHostToDevice);
    nvshmem_barrier_all();
    through<<<1, 256>>>(symmetric, own, (me + 1) % nvshmem_n_pes());
    cudaDeviceSynchronize();
    cudaMemcpy(&last, own + N - 1, sizeof last, cudaMemcpyDeviceToHost);
    printf("PE %d: its own %g came back as %g\n", me, value, last);
    nvshmem_barrier_all();
    nvshmemx_buffer_unregister(own);
    cudaFree(own);
    nvshmem_free(symmetric);
    nvshmem_finalize();
}
