/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI and symmetric memory in one program: MPI_Init first, MPI calls in between, finalize before
 * MPI_Finalize. mpicc mpi-first.c $(pkg-config --cflags --libs pxshmem) -o mpi-first && srun
 * --mpi=pmix -n4 ./mpi-first */
#include <mpi.h>
#include <nvshmem.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    nvshmem_init();

    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    int *counter = nvshmem_calloc(1, sizeof(*counter));
    nvshmem_int_atomic_add(counter, me + 1, 0);
    nvshmem_barrier_all();

    /* The same sum through MPI, while the symmetric heap is alive. */
    int mine = rank + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    int wrong = me != rank || n != size || (me == 0 && *counter != sum);
    if (me == 0)
        printf("mpi-first: %d PEs, sum by atomics %d, by MPI %d\n", n, *counter, sum);

    nvshmem_free(counter);
    nvshmem_finalize();
    MPI_Finalize();
    return wrong;
}
