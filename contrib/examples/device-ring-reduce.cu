/* SPDX-License-Identifier: BSD-3-Clause */
/* A sum over all PEs that travels once round the ring and back: each adds its part to what came, and passes it on with a
 * signal. One block for each chunk, so that chunks follow each other. */
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

#define CHUNKS 4
#define CHUNK  1024

__global__ void ring_reduce(int *sum, const int *mine, uint64_t *signals)
{
    int me = nvshmem_my_pe(), pes = nvshmem_n_pes(), next = (me + 1) % pes;
    int *part = sum + blockIdx.x * CHUNK;
    uint64_t *signal = signals + blockIdx.x;
    if (me != 0 && threadIdx.x == 0)
        nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, 1);
    __syncthreads();
    for (int i = threadIdx.x; i < CHUNK; i += blockDim.x)
        part[i] = mine[blockIdx.x * CHUNK + i] + (me == 0 ? 0 : part[i]);
    __syncthreads();
    /* to the next, the last one's to PE 0: that is the whole sum, which goes round once more */
    nvshmemx_int_put_signal_block(part, part, CHUNK, signal, 1, NVSHMEM_SIGNAL_ADD, next);
    if (threadIdx.x == 0)
        nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, me == 0 ? 1 : 2);
    __syncthreads();
    if (me < pes - 1)
        nvshmemx_int_put_signal_block(part, part, CHUNK, signal, 1, NVSHMEM_SIGNAL_ADD, next);
}

int main()
{
    int devices = 1, last = 0, me, host[CHUNKS * CHUNK];
    nvshmem_init();
    me = nvshmem_my_pe();
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    int *sum = (int *)nvshmem_malloc(sizeof host), *mine = (int *)nvshmem_malloc(sizeof host);
    uint64_t *signals = (uint64_t *)nvshmem_calloc(CHUNKS, sizeof(uint64_t));
    for (int i = 0; i < CHUNKS * CHUNK; i++)
        host[i] = me + 1;
    cudaMemcpy(mine, host, sizeof host, cudaMemcpyHostToDevice);
    nvshmem_barrier_all();
    void *args[] = {&sum, &mine, &signals};
    nvshmemx_collective_launch((void *)ring_reduce, dim3(CHUNKS), dim3(256), args, 0, 0);
    cudaDeviceSynchronize();
    nvshmem_barrier_all();
    cudaMemcpy(&last, sum + CHUNKS * CHUNK - 1, sizeof last, cudaMemcpyDeviceToHost);
    printf("PE %d: sum %d\n", me, last);
    nvshmem_free(signals);
    nvshmem_free(mine);
    nvshmem_free(sum);
    nvshmem_finalize();
}
