/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting from MPI communicators: the world, a permuted one, halves and odd and even ranks that are up at once; nested
 * inits and wrong handles; MPI calls while symmetric memory is in use. With the argument "whole" the launcher has no meetings
 * of a part of the job: those are refused on every PE. */
#include <mpi.h>
#include <string.h>

#include "test/job/group.h"
#include "test/job/tap.h"

static int rank, size;
static bool whole_only;

static int start(MPI_Comm *comm)
{
    nvshmemx_init_attr_t attr; /* unversioned, as programs have it */
    attr.mpi_comm = comm;
    return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr);
}

static bool one_world(MPI_Comm comm, int salt)
{
    int me, n, sum = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    if (start(&comm) != 0)
        return false;
    bool good = group_works(me, n, salt);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    good &= sum == n * (n - 1) / 2 && group_works(me, n, salt + 50);
    nvshmem_finalize();
    return good;
}

static bool split_world(int color, int key, int salt)
{
    MPI_Comm part;
    int members;
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &part);
    MPI_Comm_size(part, &members);
    bool refused = whole_only && members < size;
    bool good = one_world(part, salt + 1000 * color) != refused;
    MPI_Comm_free(&part);
    return good;
}

static void nested(void)
{
    MPI_Comm world = MPI_COMM_WORLD, turned, self = MPI_COMM_SELF;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    ok(start(&world) == 0, "up with MPI_COMM_WORLD");
    ok(start(&world) == 0, "the same once more is counted");
    ok(size == 1 || start(&turned) != 0, "another order is refused on every PE");
    ok(size == 1 || start(&self) != 0, "so are fewer PEs");
    nvshmem_finalize();
    ok(group_works(rank, size, 77), "and nothing has changed");
    nvshmem_finalize();
    MPI_Comm_free(&turned);
}

static void wrong_handles(void)
{
    MPI_Comm null = MPI_COMM_NULL;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    ok(start(&null) == NVSHMEMX_ERROR_INVALID_VALUE, "MPI_COMM_NULL is refused");
    ok(start(NULL) == NVSHMEMX_ERROR_INVALID_VALUE, "no communicator is refused");
    ok(nvshmemx_set_attr_mpi_comm_args(NULL, &attr) == NVSHMEMX_ERROR_INVALID_VALUE,
       "by the setter too");
}

int main(int argc, char **argv)
{
    MPI_Comm early = MPI_COMM_WORLD;
    int provided, too_early = start(&early);
    whole_only = argc > 1 && strcmp(argv[1], "whole") == 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    tap_start(rank);
    ok(too_early == NVSHMEMX_ERROR_INVALID_VALUE, "before MPI_Init: %d", too_early);
    wrong_handles();
    ok(one_world(MPI_COMM_WORLD, 100), "all ranks");
    ok(split_world(0, -rank, 200), "all ranks in reverse order");
    ok(split_world(rank % 2, rank, 300), "odd and even ranks at once");
    ok(split_world(rank >= size / 2, -rank, 400), "two halves at once, in reverse order");
    nested();
    ok(split_world(rank == 0, rank, 500), "one alone, and the rest");
    nvshmem_init();
    ok(group_works(rank, size, 600), "nvshmem_init after different numbers of worlds");
    nvshmem_finalize();
    MPI_Finalize();
    return tap_done();
}
