/* SPDX-License-Identifier: BSD-3-Clause */
/* The little that start-up needs of MPI. MPI is never linked and never started: it is the library that the program has
 * loaded already, found by name. */
#ifndef PX_API_MPI_H
#define PX_API_MPI_H

#include <stdbool.h>
#include <stddef.h>

#include "src/diag/error.h"

/* A communicator. Its handle is a pointer in Open MPI, a number in MPICH and its relatives. */
struct px_mpi {
    bool pointers;
    union {
        void *pointer;
        int number;
    } comm;
    int rank, size;
    void *allgather;   /* MPI_Allgather */
    void *byte_handle; /* MPI_BYTE, where handles are pointers */
};

/* `comm` points to the program's MPI_Comm. Refuses, by name, what cannot be used: no MPI, MPI not running, a communicator
 * that is null or joins two groups, a thread that may not call MPI. Local. */
px_status px_mpi_open(const void *comm, struct px_mpi *mpi, struct px_error *error);

/* Collective over the communicator: `all` gets everybody's `bytes`, by rank. */
px_status px_mpi_allgather(const struct px_mpi *mpi, const void *mine, size_t bytes, void *all,
                           struct px_error *error);

#endif
