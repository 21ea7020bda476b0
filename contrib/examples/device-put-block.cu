/* SPDX-License-Identifier: BSD-3-Clause */
/* Each block sends its part of an array; one signal for each tells the receiver that it is there. */
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

#define BLOCKS 8
#define PART   4096

__global__ void send(float *dest, const float *source, uint64_t *arrived, int peer)
{
    size_t first = (size_t)blockIdx.x * PART;
    nvshmemx_float_put_signal_block(dest + first, source + first, PART, arrived, 1, NVSHMEM_SIGNAL_ADD, peer);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        nvshmem_signal_wait_until(arrived, NVSHMEM_CMP_EQ, BLOCKS);
}

int main()
{
    int devices = 1;
    float last = 0;
    nvshmem_init();
    int me = nvshmem_my_pe();
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    float *dest = (float *)nvshmem_malloc(BLOCKS * PART * sizeof(float)),
          *source = (float *)nvshmem_malloc(BLOCKS * PART * sizeof(float)), value = (float)me;
    uint64_t *arrived = (uint64_t *)nvshmem_calloc(1, sizeof *arrived);
    cudaMemcpy(source + BLOCKS * PART - 1, &value, sizeof value, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
    nvshmem_barrier_all();
    send<<<BLOCKS, 256>>>(dest, source, arrived, (me + 1) % nvshmem_n_pes());
    cudaDeviceSynchronize();
    cudaMemcpy(&last, dest + BLOCKS * PART - 1, sizeof last, cudaMemcpyDeviceToHost);
    printf("PE %d: the last element is %g\n", me, last);
    nvshmem_free(arrived);
    nvshmem_free(source);
    nvshmem_free(dest);
    nvshmem_finalize();
}
