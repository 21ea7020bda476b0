/* SPDX-License-Identifier: BSD-3-Clause */
/* The other ways to initialise: with attributes. Every way returns a code, leaves nothing behind when it fails, and may be
 * tried again. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/world.h"

#include "src/diag/log.h"

static int refuse(const char *call, int code, const char *what)
{
    px_warn_once_per_node("%s: %s", call, what);
    px_world_note_error(code, "%s: %s", call, what);
    return code;
}

int px_api_init_attr(unsigned int flags, nvshmemx_init_attr_t *attr)
{
    static const char call[] = "nvshmemx_init_attr";
    (void)attr;
    if (flags != 0)
        return refuse(call, NVSHMEMX_ERROR_NOT_SUPPORTED,
                      "this version initialises over the launcher only: flags must be 0");
    return px_start_with(&(struct px_start){.thread_level = NVSHMEM_THREAD_MULTIPLE}, call);
}

int px_api_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t *attr)
{
    return px_api_init_attr(flags, attr);
}

int px_api_get_uniqueid(nvshmemx_uniqueid_t *uniqueid)
{
    (void)uniqueid;
    return refuse("nvshmemx_get_uniqueid", NVSHMEMX_ERROR_NOT_SUPPORTED, "not in this version");
}

int px_api_set_attr_uniqueid_args(int myrank, int nranks, const nvshmemx_uniqueid_t *uniqueid,
                                  nvshmemx_init_attr_t *attr)
{
    (void)myrank, (void)nranks, (void)uniqueid, (void)attr;
    return refuse("nvshmemx_set_attr_uniqueid_args", NVSHMEMX_ERROR_NOT_SUPPORTED, "not in this version");
}

int px_api_set_attr_mpi_comm_args(void *mpi_comm, nvshmemx_init_attr_t *attr)
{
    (void)mpi_comm, (void)attr;
    return refuse("nvshmemx_set_attr_mpi_comm_args", NVSHMEMX_ERROR_NOT_SUPPORTED, "not in this version");
}
