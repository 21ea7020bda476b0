/* SPDX-License-Identifier: BSD-3-Clause */
/* Each PE's kernel stores its number at the next PE. nvcc -rdc=true, with pxshmem-device. */
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <stdio.h>

__global__ void ring(int *dest)
{
    int me = nvshmem_my_pe();
    nvshmem_int_p(dest, me, (me + 1) % nvshmem_n_pes());
}

int main()
{
    int got, devices = 1;
    nvshmem_init();
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    int *dest = (int *)nvshmem_malloc(sizeof(int));
    ring<<<1, 1>>>(dest);
    cudaDeviceSynchronize();
    nvshmem_barrier_all();
    cudaMemcpy(&got, dest, sizeof got, cudaMemcpyDeviceToHost);
    printf("PE %d of %d: got %d\n", nvshmem_my_pe(), nvshmem_n_pes(), got);
    nvshmem_free(dest);
    nvshmem_finalize();
}
