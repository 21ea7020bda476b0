/* SPDX-License-Identifier: BSD-3-Clause */
/* See mpi.h. MPI libraries agree on names and arguments of functions, not on what a handle is: each call is made in the
 * one or the other form. */
#include "config.h"
#include "src/api/mpi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* MPICH fixes the values of its handles for all libraries that are compatible with it. */
#define MPICH_BYTE      0x4c00010d
#define MPICH_COMM_NULL 0x04000000

#define VERSION_MAX 8192 /* the largest MPI_MAX_LIBRARY_VERSION_STRING */

enum { THREAD_SINGLE, THREAD_FUNNELED }; /* of MPI: the levels that tie calls to one thread */

/* A function as POSIX lets dlsym give it. */
union symbol {
    void *address;
    int (*to_int)(int *);
    int (*to_text)(char *, int *);
    int (*comm_pointer)(void *, int *);
    int (*comm_number)(int, int *);
    int (*allgather_pointer)(const void *, int, void *, void *, int, void *, void *);
    int (*allgather_number)(const void *, int, int, void *, int, int, int);
};

/* Where the program's MPI is: among what it was linked with, or in a library that something else (an interpreter, a
 * plug-in) has opened for itself. */
static bool find_library(void **library)
{
    static const char *const names[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12",
                                        "libmpi.so", "libmpich.so"};
    *library = RTLD_DEFAULT;
    if (dlsym(RTLD_DEFAULT, "MPI_Initialized"))
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (*library && dlsym(*library, "MPI_Initialized"))
            return true; /* with one more reference, kept: MPI is not unloaded */
    }
    return false;
}

static union symbol find(void *library, const char *name)
{
    return (union symbol){.address = dlsym(library, name)};
}

static int int_of(void *library, const char *name, int fallback)
{
    union symbol function = find(library, name);
    int value;
    return function.address && function.to_int(&value) == 0 ? value : fallback;
}

static px_status check_running(void *library, struct px_error *error)
{
    if (!int_of(library, "MPI_Initialized", 0))
        return px_error_set(error, PX_ERR_INVALID, "MPI is not initialised: call MPI_Init before");
    if (int_of(library, "MPI_Finalized", 0))
        return px_error_set(error, PX_ERR_INVALID, "MPI has been finalised already");
    if (int_of(library, "MPI_Query_thread", THREAD_SINGLE) <= THREAD_FUNNELED &&
        !int_of(library, "MPI_Is_thread_main", 1))
        return px_error_set(error, PX_ERR_INVALID,
                            "only the thread that called MPI_Init may start from a communicator, "
                            "because MPI was not "
                            "asked for more than MPI_THREAD_FUNNELED");
    return PX_OK;
}

/* Which kind of handles, and the communicator; the null handle is refused here, the other calls would not survive it. */
static px_status read_handle(void *library, const void *comm, struct px_mpi *mpi,
                             struct px_error *error)
{
    char version[VERSION_MAX + 1] = "";
    int length;
    void *null_pointer = dlsym(library, "ompi_mpi_comm_null");
    bool null;
    mpi->byte_handle = dlsym(library, "ompi_mpi_byte");
    mpi->pointers = mpi->byte_handle && null_pointer;
    if (mpi->pointers) {
        memcpy(&mpi->comm.pointer, comm, sizeof(mpi->comm.pointer));
        null = !mpi->comm.pointer || mpi->comm.pointer == null_pointer;
    } else {
        union symbol function = find(library, "MPI_Get_library_version");
        if (function.address)
            (void)function.to_text(version, &length); /* no text: not known */
        if (!strstr(version, "PICH") && !strstr(version, "Intel(R) MPI"))
            return px_error_set(
                error, PX_ERR_UNSUPPORTED,
                "this MPI is neither Open MPI nor related to MPICH (\"%.80s\"): use "
                "NVSHMEMX_INIT_WITH_UNIQUEID and broadcast the unique id",
                version);
        memcpy(&mpi->comm.number, comm, sizeof(mpi->comm.number));
        null = mpi->comm.number == 0 || mpi->comm.number == MPICH_COMM_NULL;
    }
    return null ? px_error_set(error, PX_ERR_INVALID, "the communicator is MPI_COMM_NULL") : PX_OK;
}

static px_status ask_comm(void *library, const struct px_mpi *mpi, const char *name, int *value,
                          struct px_error *error)
{
    union symbol function = find(library, name);
    int code = -1;
    if (function.address)
        code = mpi->pointers ? function.comm_pointer(mpi->comm.pointer, value)
                             : function.comm_number(mpi->comm.number, value);
    return code == 0 ? PX_OK
                     : px_error_set(error, PX_ERR_INVALID, "%s refuses the communicator (code %d)",
                                    name, code);
}

px_status px_mpi_open(const void *comm, struct px_mpi *mpi, struct px_error *error)
{
    int joins_two = 0;
    void *library;
    if (!find_library(&library))
        return px_error_set(
            error, PX_ERR_INVALID,
            "no MPI library is loaded in this process: link the program with MPI, or start without "
            "NVSHMEMX_INIT_WITH_MPI_COMM");
    px_status status = check_running(library, error);
    if (status == PX_OK)
        status = read_handle(library, comm, mpi, error);
    if (status == PX_OK)
        status = ask_comm(library, mpi, "MPI_Comm_test_inter", &joins_two, error);
    if (status == PX_OK && joins_two)
        status = px_error_set(error, PX_ERR_INVALID, "the communicator is an intercommunicator");
    if (status == PX_OK)
        status = ask_comm(library, mpi, "MPI_Comm_rank", &mpi->rank, error);
    if (status == PX_OK)
        status = ask_comm(library, mpi, "MPI_Comm_size", &mpi->size, error);
    mpi->allgather = dlsym(library, "MPI_Allgather");
    if (status == PX_OK && !mpi->allgather)
        status = px_error_set(error, PX_ERR_UNSUPPORTED, "this MPI has no MPI_Allgather");
    return status;
}

px_status px_mpi_allgather(const struct px_mpi *mpi, const void *mine, size_t bytes, void *all,
                           struct px_error *error)
{
    union symbol function = {.address = mpi->allgather};
    int n = (int)bytes, code;
    if (mpi->pointers)
        code = function.allgather_pointer(mine, n, mpi->byte_handle, all, n, mpi->byte_handle,
                                          mpi->comm.pointer);
    else
        code = function.allgather_number(mine, n, MPICH_BYTE, all, n, MPICH_BYTE, mpi->comm.number);
    return code == 0
               ? PX_OK
               : px_error_set(error, PX_ERR_UNREACHABLE, "MPI_Allgather failed with code %d", code);
}
