/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI and symmetric memory in one program, in any order. The argument spells it:
 *   I MPI_Init_thread(FUNNELED), T the same with SINGLE, F MPI_Finalize, m an MPI_Allreduce
 *   i nvshmem_init, c nvshmemx_init_attr with MPI_COMM_WORLD, f nvshmem_finalize, x puts, atomics and a barrier */
#include <mpi.h>

#include "test/job/group.h"
#include "test/job/tap.h"

static bool allreduce(int rank, int size)
{
    int one = rank + 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return sum == size * (size + 1) / 2;
}

static bool init_from_comm(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    attr.mpi_comm = &world;
    return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) == 0;
}

static bool init_plain(void)
{
    nvshmem_init();
    return true;
}

static bool finalize(void)
{
    nvshmem_finalize();
    return nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED;
}

static bool step(char letter, int rank, int size, int number)
{
    int provided;
    switch (letter) {
    case 'I':
        return MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS;
    case 'T':
        return MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS;
    case 'F':
        return MPI_Finalize() == MPI_SUCCESS;
    case 'm':
        return allreduce(rank, size);
    case 'i':
        return init_plain();
    case 'c':
        return init_from_comm();
    case 'f':
        return finalize();
    case 'x':
        return group_works(rank, size, number);
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int rank = group_rank(), size = atoi(argv[1]);
    tap_start(rank);
    for (int i = 0; argv[2][i]; i++)
        ok(step(argv[2][i], rank, size, i), "step %d of %s: %c", i, argv[2], argv[2][i]);
    return tap_done();
}
