/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel that meets the kernels of other PEs has to be launched with all its blocks at once. */
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

/* The sum over the PEs, by one block; the others would compute meanwhile. */
__global__ void reduce(int *sum, int *mine)
{
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0)
            *mine = nvshmem_my_pe() + 1;
        __syncthreads();
        nvshmemx_int_sum_reduce_block(NVSHMEM_TEAM_WORLD, sum, mine, 1);
    }
}

int main()
{
    int devices = 1, blocks = 0, result = 0;
    nvshmem_init();
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    int *sum = (int *)nvshmem_malloc(sizeof(int)), *mine = (int *)nvshmem_malloc(sizeof(int));
    void *args[] = {&sum, &mine};
    nvshmemx_collective_launch_query_gridsize((void *)reduce, dim3(128), args, 0, &blocks);
    int status = nvshmemx_collective_launch((void *)reduce, dim3(blocks < 4 ? blocks : 4), dim3(128), args, 0, 0);
    cudaDeviceSynchronize();
    cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost);
    printf("PE %d: launch %d, sum %d\n", nvshmem_my_pe(), status, result);
    nvshmem_free(mine);
    nvshmem_free(sum);
    nvshmem_finalize();
}
