/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI program whose kernels communicate: PEs are the ranks of a communicator. */
#include <cuda_runtime.h>
#include <mpi.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

__global__ void count(int *counter)
{
    nvshmem_int_atomic_inc(counter, 0);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm world = MPI_COMM_WORLD;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    attr.mpi_comm = &world;
    nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr);
    int devices = 1, counted = 0;
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    int *counter = (int *)nvshmem_calloc(1, sizeof(int));
    count<<<1, 64>>>(counter);
    cudaDeviceSynchronize();
    nvshmem_barrier_all();
    cudaMemcpy(&counted, counter, sizeof counted, cudaMemcpyDeviceToHost);
    if (nvshmem_my_pe() == 0)
        printf("%d threads of %d PEs\n", counted, nvshmem_n_pes());
    nvshmem_free(counter);
    nvshmem_finalize();
    MPI_Finalize();
}
