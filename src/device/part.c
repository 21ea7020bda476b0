/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the program with device code, and the state that is copied into each: see device.h. What is
 * the same for all parts is kept here once; tables that kernels read lie in GPU memory of ours. */
#include "config.h"
#include "src/device/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/private.h"
#include "src/diag/log.h"
#include "src/transport/move.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nvshmemx_device_part_t *parts;
static struct px_error misfit = PX_ERROR_INIT; /* the first part that does not fit */
static const nvshmemx_device_part_t *misfit_part;

static const char *file_of(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "the program";
}

/* Nothing of a part but its size is read before that is known to be as expected. */
static px_status fits(const nvshmemx_device_part_t *part, struct px_error *error)
{
    if (part->size != sizeof(*part))
        return px_error_set(error, PX_ERR_INVALID,
                            "device code in %s was linked with a libpxshmem_device of another "
                            "release than %s (" NVSHMEM_VENDOR_STRING
                            "): link it again with the library that is used",
                            file_of(part), file_of(&parts));
    if (part->state_version == NVSHMEMI_STATE_VERSION &&
        part->state_size == sizeof(struct nvshmemi_state))
        return PX_OK;
    return px_error_set(error, PX_ERR_INVALID,
                        "device code in %s was linked with libpxshmem_device of %s (state %u of %u "
                        "bytes), the library %s is " NVSHMEM_VENDOR_STRING
                        " (state %d of %zu bytes): link it again with the library that is used",
                        file_of(part), part->release, part->state_version, part->state_size,
                        file_of(&parts), NVSHMEMI_STATE_VERSION, sizeof(struct nvshmemi_state));
}

px_status px_device_check(struct px_error *error)
{
    pthread_mutex_lock(&lock);
    if (misfit.status != PX_OK)
        *error = misfit;
    pthread_mutex_unlock(&lock);
    return misfit.status;
}

#if PX_HAVE_CUDA
#include "src/gpu/gpu.h"

static struct {
    bool open;
    struct nvshmemi_state state;
    int sharers;
    CUdeviceptr offsets, teams;
    CUdeviceptr *lists; /* [max_teams] of teams whose members are not in equal steps */
} device;

#define SAME(name) ((int)NVSHMEMI_AMO_##name == (int)PX_AMO_##name)
_Static_assert(SAME(FETCH) && SAME(SET) && SAME(SWAP) && SAME(COMPARE_SWAP) && SAME(ADD) &&
                   SAME(AND) && SAME(OR) && SAME(XOR),
               "kernels name operations as the library does");

static px_status upload(CUdeviceptr to, const void *from, size_t bytes, struct px_error *error)
{
    px_status status =
        px_cu(error, cuMemcpyAsync(to, (CUdeviceptr)(uintptr_t)from, bytes, px_gpu.stream));
    return status == PX_OK ? px_cu(error, cuStreamSynchronize(px_gpu.stream)) : status;
}

static px_status fill_at(CUdeviceptr at, size_t size, const char *where, struct px_error *error)
{
    if (size != sizeof(device.state))
        return px_error_set(error, PX_ERR_INVALID,
                            "the state of device code in %s has %zu bytes, not %zu", where, size,
                            sizeof(device.state));
    return upload(at, &device.state, sizeof(device.state), error);
}

static px_status fill(nvshmemx_device_part_t *part, struct px_error *error)
{
    void *state = NULL;
    size_t size = 0;
    int code = part->find(&state, &size);
    if (code)
        return px_error_set(error, PX_ERR_NOT_FOUND,
                            "device code in %s has no form for %s, or cannot be loaded (CUDA error "
                            "%d): compile it for this GPU's architecture",
                            file_of(part), px_gpu.name, code);
    part->sharers = device.sharers;
    return fill_at((CUdeviceptr)(uintptr_t)state, size, file_of(part), error);
}

static px_status fill_all(struct px_error *error)
{
    px_status status = PX_OK;
    pthread_mutex_lock(&lock);
    for (nvshmemx_device_part_t *part = parts; part && status == PX_OK; part = part->next)
        status = fill(part, error);
    pthread_mutex_unlock(&lock);
    return status;
}

/* --- teams --- */

static void put_team(uint32_t slot, const struct nvshmemi_team *team)
{
    struct px_error error = PX_ERROR_INIT;
    struct px_gpu_visit visit;
    px_status status = px_gpu_enter(&visit, &error);
    if (status == PX_OK) {
        status = upload(device.teams + slot * sizeof(*team), team, sizeof(*team), &error);
        px_gpu_leave(&visit);
    }
    if (status != PX_OK)
        px_fatal(1, "telling kernels of a team: %s", error.text);
}

/* The members' PEs in GPU memory; 0 where they are in equal steps. */
static CUdeviceptr put_list(const struct px_team *team, const struct nvshmemi_team *entry,
                            struct px_error *error)
{
    CUdeviceptr list = 0;
    int32_t *pes = malloc((size_t)entry->size * sizeof(*pes));
    bool stepped = true;
    if (!pes)
        px_fatal(1, "telling kernels of a team: no memory");
    for (int32_t i = 0; i < entry->size; i++) {
        pes[i] = (int32_t)px_team_pe(team, (uint32_t)i);
        stepped &= pes[i] == entry->start + i * entry->stride;
    }
    struct px_gpu_visit visit;
    if (!stepped && px_gpu_enter(&visit, error) == PX_OK) {
        size_t bytes = (size_t)entry->size * sizeof(*pes);
        if (px_cu(error, cuMemAlloc(&list, bytes)) == PX_OK)
            (void)upload(list, pes, bytes, error); /* in `error` */
        px_gpu_leave(&visit);
    }
    free(pes);
    return list;
}

static bool has_remote(const struct px_team *team)
{
    for (uint32_t i = 0; i < px_team_size(team); i++)
        if (px_gpu.delta[px_team_pe(team, i)] == PX_NOT_MAPPED)
            return true;
    return false;
}

static void drop_list(uint32_t slot)
{
    struct px_gpu_visit visit;
    if (!device.lists[slot] || px_gpu_enter(&visit, NULL) != PX_OK)
        return;
    (void)px_cuda.cuMemFree(device.lists[slot]); /* nothing can be done about it */
    device.lists[slot] = 0;
    px_gpu_leave(&visit);
}

void px_device_team(const struct px_team *team)
{
    struct px_error error = PX_ERROR_INIT;
    uint32_t slot = (uint32_t)px_team_handle(team) & 0xffff;
    if (!device.open || slot >= (uint32_t)device.state.max_teams)
        return;
    int32_t start = (int32_t)px_team_pe(team, 0), size = (int32_t)px_team_size(team);
    struct nvshmemi_team entry = {
        .handle = px_team_handle(team),
        .rank = (int32_t)px_team_rank(team),
        .size = size,
        .start = start,
        .stride = size > 1 ? (int32_t)px_team_pe(team, 1) - start : 0,
        .remote = has_remote(team),
        .epoch = (uint64_t)px_team_epoch(team) << 32,
    };
    drop_list(slot);
    device.lists[slot] = put_list(team, &entry, &error);
    if (error.status != PX_OK)
        px_fatal(1, "telling kernels of a team: %s", error.text);
    entry.list = (const int32_t *)(uintptr_t)device.lists[slot];
    put_team(slot, &entry);
}

void px_device_no_team(int32_t handle)
{
    const struct nvshmemi_team none = {.handle = -1};
    uint32_t slot = (uint32_t)handle & 0xffff;
    if (!device.open || slot >= (uint32_t)device.state.max_teams)
        return;
    put_team(slot, &none);
    drop_list(slot);
}

/* --- open and close --- */

static px_status put_offsets(struct px_error *error)
{
    size_t bytes = px_peers.n_pes * sizeof(int64_t);
    _Static_assert(sizeof(*px_gpu.delta) == sizeof(int64_t) && PX_NOT_MAPPED == NVSHMEMI_REMOTE,
                   "the driver's table is the kernels'");
    for (uint32_t pe = 0; pe < px_peers.n_pes; pe++) {
        device.state.any_remote |= px_gpu.delta[pe] == PX_NOT_MAPPED;
        if (pe < NVSHMEMI_NEAR)
            device.state.near_offsets[pe] = px_gpu.delta[pe];
    }
    px_status status = px_cu(error, cuMemAlloc(&device.offsets, bytes));
    device.state.offsets = (int64_t *)(uintptr_t)device.offsets;
    return status == PX_OK ? upload(device.offsets, px_gpu.delta, bytes, error) : status;
}

static px_status make_teams(uint32_t max_teams, struct px_error *error)
{
    size_t rows =
        (PX_DEVICE_SCRATCH_OFFSET - PX_DEVICE_FLAGS_OFFSET) / (NVSHMEMI_FLAGS * sizeof(uint64_t));
    size_t teams = max_teams < rows ? max_teams : rows;
    size_t bytes = teams * sizeof(struct nvshmemi_team);
    device.lists = calloc(teams, sizeof(*device.lists));
    if (!device.lists)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %zu teams", teams);
    px_status status = px_cu(error, cuMemAlloc(&device.teams, bytes));
    if (status == PX_OK) /* every handle -1 */
        status = px_cu(error, cuMemsetD8Async(device.teams, 0xff, bytes, px_gpu.stream));
    if (status == PX_OK)
        status = px_cu(error, cuStreamSynchronize(px_gpu.stream));
    device.state.teams = (struct nvshmemi_team *)(uintptr_t)device.teams;
    device.state.max_teams = (int32_t)teams;
    return status;
}

static px_status open_visited(const struct px_device_setup *setup, struct px_error *error)
{
    px_status status = put_offsets(error);
    if (status == PX_OK)
        status = make_teams(setup->max_teams, error);
    if (status == PX_OK && device.state.any_remote)
        status = px_proxy_open(&device.state.ring, error);
    if (status != PX_OK)
        return status;
    device.open = true;
    for (int32_t slot = 0; slot < PX_TEAM_PREDEFINED; slot++)
        if (px_team_of(PX_TEAM_HANDLE_BASE + slot)) /* not every PE is in each of them */
            px_device_team(px_team_of(PX_TEAM_HANDLE_BASE + slot));
    return fill_all(error);
}

px_status px_device_open(const struct px_device_setup *setup, struct px_error *error)
{
    struct px_gpu_visit visit;
    device.sharers = (int)setup->sharers;
    device.state = (struct nvshmemi_state){
        .version = NVSHMEMI_STATE_VERSION,
        .size = sizeof(device.state),
        .my_pe = (int32_t)px_peers.my_pe,
        .n_pes = (int32_t)px_peers.n_pes,
        .heap = setup->heap,
        .heap_bytes = setup->heap_bytes,
        .flags = px_gpu.control + PX_DEVICE_FLAGS_OFFSET,
        .scratch = px_gpu.control + PX_DEVICE_SCRATCH_OFFSET,
        .scratch_bytes = PX_DEVICE_SCRATCH_BYTES,
    };
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = open_visited(setup, error);
    px_gpu_leave(&visit);
    if (status != PX_OK)
        px_device_close();
    return status;
}

/* Kernels see that the library is down; what they used is given back. */
void px_device_close(void)
{
    struct px_gpu_visit visit;
    struct px_error ignored = PX_ERROR_INIT;
    px_proxy_close();
    if (px_gpu.up && px_gpu_enter(&visit, NULL) == PX_OK) {
        uint32_t teams = device.lists ? (uint32_t)device.state.max_teams : 0;
        device.state = (struct nvshmemi_state){.my_pe = -1, .n_pes = -1};
        if (device.open)
            (void)fill_all(&ignored); /* parts may be gone with their CUDA */
        for (uint32_t slot = 0; slot < teams; slot++)
            drop_list(slot);
        (void)px_cuda.cuMemFree(device.teams);
        (void)px_cuda.cuMemFree(device.offsets);
        px_gpu_leave(&visit);
    }
    free(device.lists);
    device.lists = NULL;
    device.teams = device.offsets = 0;
    device.open = false;
}

/* --- parts that come while the job runs, and modules --- */

static px_status fill_now(nvshmemx_device_part_t *part, struct px_error *error)
{
    struct px_gpu_visit visit;
    if (!device.open)
        return PX_OK;
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = fill(part, error);
    px_gpu_leave(&visit);
    return status;
}

static px_status need_open(struct px_error *error)
{
    return device.open ? PX_OK
                       : px_error_set(error, PX_ERR_UNSUPPORTED,
                                      "the job has no GPU memory: NVSHMEM_DEBUG=INFO says why");
}

px_status px_device_module(struct CUmod_st *module, struct px_error *error)
{
    struct px_gpu_visit visit;
    CUdeviceptr state;
    size_t size;
    px_status status = need_open(error);
    if (status == PX_OK)
        status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = px_cu(error, cuModuleGetGlobal(&state, &size, module, NVSHMEMI_STATE_NAME));
    if (status == PX_OK)
        status = fill_at(state, size, "this module", error);
    else
        (void)px_error_context(error, "the module has no " NVSHMEMI_STATE_NAME
                                      " (link it with libpxshmem_device of this release)");
    px_gpu_leave(&visit);
    return status;
}

px_status px_device_library(struct CUlib_st *library, struct px_error *error)
{
    struct px_gpu_visit visit;
    CUdeviceptr state;
    size_t size;
    px_status status = need_open(error);
    if (status == PX_OK && !px_cuda.cuLibraryGetGlobal)
        status = px_error_set(error, PX_ERR_UNSUPPORTED, "the driver knows no libraries");
    if (status == PX_OK)
        status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = px_cu(error, cuLibraryGetGlobal(&state, &size, library, NVSHMEMI_STATE_NAME));
    if (status == PX_OK)
        status = fill_at(state, size, "this library", error);
    else
        (void)px_error_context(error, "the library has no " NVSHMEMI_STATE_NAME
                                      " (link it with libpxshmem_device of this release)");
    px_gpu_leave(&visit);
    return status;
}

#else /* !PX_HAVE_CUDA */

static px_status fill_now(nvshmemx_device_part_t *part, struct px_error *error)
{
    (void)part;
    (void)error;
    return PX_OK;
}

static px_status no_cuda(struct px_error *error)
{
    return px_error_set(error, PX_ERR_UNSUPPORTED, "this library was built without CUDA");
}

void px_device_team(const struct px_team *team)
{
    (void)team;
}

void px_device_no_team(int32_t handle)
{
    (void)handle;
}

px_status px_device_module(struct CUmod_st *module, struct px_error *error)
{
    (void)module;
    return no_cuda(error);
}

px_status px_device_library(struct CUlib_st *library, struct px_error *error)
{
    (void)library;
    return no_cuda(error);
}
#endif

px_status px_device_add(nvshmemx_device_part_t *part, struct px_error *error)
{
    px_status status = fits(part, error);
    pthread_mutex_lock(&lock);
    if (status == PX_OK) {
        part->next = parts;
        parts = part;
    } else if (misfit.status == PX_OK) {
        misfit = *error;
        misfit_part = part;
    }
    pthread_mutex_unlock(&lock);
    return status == PX_OK ? fill_now(part, error) : status;
}

void px_device_remove(nvshmemx_device_part_t *part)
{
    pthread_mutex_lock(&lock);
    if (part == misfit_part)
        misfit = (struct px_error)PX_ERROR_INIT;
    for (nvshmemx_device_part_t **at = &parts; *at; at = &(*at)->next)
        if (*at == part) {
            *at = part->next;
            break;
        }
    pthread_mutex_unlock(&lock);
}
