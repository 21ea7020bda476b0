/* SPDX-License-Identifier: BSD-3-Clause */
/* Who am I, what is this library, which addresses can be reached by load and store. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/gpumem.h"
#include "src/api/world.h"

#include <string.h>

#include "src/coll/coll.h"
#include "src/diag/log.h"
#include "src/transport/move.h"

/* A query before init is misuse without harm: it is reported and answered with -1. */
static int report_down(const char *call)
{
    px_warn("%s: called before nvshmem_init or after nvshmem_finalize: the answer is -1", call);
    return -1;
}

int px_api_my_pe(void)
{
    return px_gate & PX_GATE_DOWN ? report_down("nvshmem_my_pe") : (int)px_peers.my_pe;
}

int px_api_n_pes(void)
{
    return px_gate & PX_GATE_DOWN ? report_down("nvshmem_n_pes") : (int)px_peers.n_pes;
}

static bool in_heap(const void *address)
{
    uintptr_t offset = (uintptr_t)address - px_world.memory.data;
    return offset < px_world.memory.max_size;
}

void *px_api_ptr(const void *dest, int pe)
{
    px_world_require_up("nvshmem_ptr");
    if (pe < 0 || (uint32_t)pe >= px_peers.n_pes || !in_heap(dest) ||
        (!px_on_gpu && !px_is_mapped((uint32_t)pe)))
        return NULL;
    if (px_on_gpu)
        return px_gpumem_ptr(dest, (uint32_t)pe);
    return px_mapped((uint32_t)pe, dest);
}

void *px_api_team_ptr(nvshmem_team_t team, const void *dest, int pe)
{
    px_world_require_up("nvshmem_team_ptr");
    const struct px_team *members = px_team_of(team);
    if (!members || pe < 0 || (uint32_t)pe >= px_team_size(members))
        return NULL;
    return px_api_ptr(dest, (int)px_team_pe(members, (uint32_t)pe));
}

int px_api_pe_accessible(int pe)
{
    px_world_require_up("nvshmem_pe_accessible");
    return pe >= 0 && (uint32_t)pe < px_peers.n_pes;
}

int px_api_addr_accessible(const void *addr, int pe)
{
    px_world_require_up("nvshmem_addr_accessible");
    return px_api_pe_accessible(pe) && in_heap(addr);
}

void px_api_info_get_version(int *major, int *minor)
{
    *major = NVSHMEM_MAJOR_VERSION;
    *minor = NVSHMEM_MINOR_VERSION;
}

void px_api_info_get_name(char *name)
{
    memset(name, 0, NVSHMEM_MAX_NAME_LEN);
    strncpy(name, NVSHMEM_VENDOR_STRING, NVSHMEM_MAX_NAME_LEN - 1);
}

void px_api_vendor_get_version_info(int *major, int *minor, int *patch)
{
    *major = NVSHMEM_VENDOR_MAJOR_VERSION;
    *minor = NVSHMEM_VENDOR_MINOR_VERSION;
    *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}

void *px_api_mc_ptr(nvshmem_team_t team, const void *ptr)
{
    (void)team;
    (void)ptr;
    px_world_require_up("nvshmemx_mc_ptr");
    return NULL; /* no multicast addresses: the documented answer where there is none */
}
