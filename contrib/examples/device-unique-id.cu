/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up with a unique id that PE 0 makes and the program hands to the others, here through MPI. */
#include <cuda_runtime.h>
#include <mpi.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdio.h>

__global__ void greet(int *dest)
{
    nvshmem_int_p(dest + nvshmem_my_pe(), nvshmem_my_pe() + 1, 0);
}

int main(int argc, char **argv)
{
    int rank, ranks, devices = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    if (rank == 0)
        nvshmemx_get_uniqueid(&id);
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    nvshmemx_set_attr_uniqueid_args(rank, ranks, &id, &attr);
    nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr);
    cudaGetDeviceCount(&devices);
    cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices);
    int *dest = (int *)nvshmem_calloc(ranks, sizeof(int)), last = 0;
    greet<<<1, 1>>>(dest);
    cudaDeviceSynchronize();
    nvshmem_barrier_all();
    cudaMemcpy(&last, dest + ranks - 1, sizeof last, cudaMemcpyDeviceToHost);
    if (rank == 0)
        printf("the last PE sent %d\n", last);
    nvshmem_free(dest);
    nvshmem_finalize();
    MPI_Finalize();
}
