/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU of this PE and its context. The device whose context the program has made current is
 * adopted; without one it is told which to take (src/api/place.c), by PCI address, as numbers mean
 * something else in each process. Visibility (CUDA_VISIBLE_DEVICES with numbers, UUIDs or MIG
 * instances, Slurm's binding) is the driver's business.
 *
 * A context that was made here becomes current in the thread that starts the library, so that a
 * program that never chooses a device gets the one where its symmetric memory is, not number 0.
 *
 * Calls come from any thread: each makes the context current for its own length. */
#include "config.h"
#include "src/gpu/gpu.h"

#if PX_HAVE_CUDA
#include <stdio.h>
#include <string.h>

#include "src/diag/log.h"
#include "src/gpu/window.h"
#include "src/transport/move.h"

struct px_gpu px_gpu;

static struct {
    bool retained; /* the primary context, by us */
    bool told;     /* that another device is current */
} state;

static void write_name(void)
{
    char model[64] = "unknown", address[32] = "?";
    (void)px_cuda.cuDeviceGetName(model, sizeof(model), px_gpu.device); /* only words */
    (void)px_cuda.cuDeviceGetPCIBusId(address, sizeof(address), px_gpu.device);
    snprintf(px_gpu.name, sizeof(px_gpu.name), "GPU %d (%.48s, %.24s)", px_gpu.device, model,
             address);
}

static px_status identify(CUdevice device, struct px_gpu_id *id, struct px_error *error)
{
    int domain = 0, bus = 0, slot = 0;
    CUuuid uuid;
    px_status status =
        px_cu(error, cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device));
    if (status == PX_OK)
        status = px_cu(error, cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device));
    if (status == PX_OK)
        status =
            px_cu(error, cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device));
    if (status == PX_OK)
        status = px_cu(error, cuDeviceGetUuid(&uuid, device));
    if (status != PX_OK)
        return status;
    id->pci = (uint64_t)(uint32_t)domain << 16 | (uint64_t)(bus & 0xff) << 8 |
              (uint64_t)(slot & 0x1f) << 3;
    memcpy(id->uuid, uuid.bytes, sizeof(id->uuid));
    return PX_OK;
}

static px_status look_at_current(struct px_gpu_view *view, struct px_error *error)
{
    CUcontext context = NULL;
    CUdevice device;
    px_status status = px_cu(error, cuCtxGetCurrent(&context));
    if (status != PX_OK || !context)
        return status;
    status = px_cu(error, cuCtxGetDevice(&device));
    if (status == PX_OK)
        status = identify(device, &view->current, error);
    view->has_current = status == PX_OK;
    return status;
}

px_status px_gpu_look(const char *cuda_path, struct px_gpu_view *view, struct px_error *error)
{
    int count = 0;
    *view = (struct px_gpu_view){.n_visible = 0};
    px_status status = px_cuda_open(cuda_path, error);
    if (status == PX_OK)
        status = look_at_current(view, error);
    if (status == PX_OK)
        status = px_cu(error, cuDeviceGetCount(&count));
    for (int i = 0; status == PX_OK && i < count && i < PX_GPU_VISIBLE_MAX; i++) {
        CUdevice device;
        status = px_cu(error, cuDeviceGet(&device, i));
        if (status == PX_OK)
            status = identify(device, &view->visible[view->n_visible++], error);
    }
    return status;
}

/* MIG instances share the address of their GPU: PEs that share it get different ones while there
 * are enough. */
static px_status find_device(uint64_t pci, uint32_t share, CUdevice *device, struct px_error *error)
{
    CUdevice found[PX_GPU_VISIBLE_MAX];
    int count = 0;
    size_t n_found = 0;
    px_status status = px_cu(error, cuDeviceGetCount(&count));
    for (int i = 0; status == PX_OK && i < count && i < PX_GPU_VISIBLE_MAX; i++) {
        struct px_gpu_id id = {.pci = 0};
        status = px_cu(error, cuDeviceGet(&found[n_found], i));
        if (status == PX_OK)
            status = identify(found[n_found], &id, error);
        n_found += status == PX_OK && id.pci == pci;
    }
    if (status == PX_OK && n_found == 0)
        return px_error_set(error, PX_ERR_NOT_FOUND, "the GPU chosen is not visible any more");
    if (status == PX_OK)
        *device = found[share % n_found];
    return status;
}

static px_status adopt_or_take(uint64_t pci, uint32_t share, struct px_error *error)
{
    px_status status = px_cu(error, cuCtxGetCurrent(&px_gpu.context));
    if (status == PX_OK && px_gpu.context)
        return px_cu(error, cuCtxGetDevice(&px_gpu.device));
    if (status == PX_OK)
        status = find_device(pci, share, &px_gpu.device, error);
    if (status == PX_OK)
        status = px_cu(error, cuDevicePrimaryCtxRetain(&px_gpu.context, px_gpu.device));
    if (status != PX_OK)
        return status;
    state.retained = true;
    return px_cu(error, cuCtxSetCurrent(px_gpu.context));
}

px_status px_gpu_open(uint64_t pci, uint32_t share, struct px_error *error)
{
    px_gpu = (struct px_gpu){.up = false};
    state.retained = state.told = false;
    px_status status = adopt_or_take(pci, share, error);
    if (status == PX_OK)
        status = identify(px_gpu.device, &px_gpu.id, error);
    if (status != PX_OK)
        goto undo;
    px_gpu.up = true;
    write_name();
    struct px_gpu_visit visit;
    status = px_gpu_enter(&visit, error);
    if (status == PX_OK) {
        status = px_cu(error, cuStreamCreate(&px_gpu.stream, CU_STREAM_NON_BLOCKING));
        px_gpu_leave(&visit);
    }
    if (status == PX_OK)
        return PX_OK;
undo:
    px_gpu_close();
    return status;
}

/* The thread that ends the library may have our context current without having asked for it. */
static void release_context(void)
{
    CUcontext current = NULL;
    if (px_cuda.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == px_gpu.context)
        (void)px_cuda.cuCtxSetCurrent(NULL); /* at the end nothing can be done about it */
    (void)px_cuda.cuDevicePrimaryCtxRelease(px_gpu.device);
    state.retained = false;
}

void px_gpu_close(void)
{
    struct px_gpu_visit visit;
    if (px_gpu.up && px_gpu.stream && px_gpu_enter(&visit, NULL) == PX_OK) {
        (void)px_cuda.cuStreamDestroy(px_gpu.stream); /* at the end nothing can be done about it */
        px_gpu_leave(&visit);
    }
    if (state.retained)
        release_context();
    px_gpu = (struct px_gpu){.up = false};
}

/* Host-initiated operations still work, kernels on the other device would not. */
static void tell_other_device(void)
{
    CUdevice device;
    if (state.told || px_cuda.cuCtxGetDevice(&device) != CUDA_SUCCESS || device == px_gpu.device)
        return;
    state.told = true;
    px_warn(
        "symmetric memory of this PE is on %s, but the program has made GPU %d current: select "
        "the GPU before nvshmem_init, or leave the choice to it, as kernels on another one cannot "
        "use this memory",
        px_gpu.name, device);
}

px_status px_gpu_enter(struct px_gpu_visit *visit, struct px_error *error)
{
    CUcontext current = NULL;
    visit->pushed = false;
    px_status status = px_cu(error, cuCtxGetCurrent(&current));
    if (status != PX_OK || current == px_gpu.context)
        return status;
    if (current)
        tell_other_device();
    status = px_cu(error, cuCtxPushCurrent(px_gpu.context));
    visit->pushed = status == PX_OK;
    return status;
}

void px_gpu_leave(const struct px_gpu_visit *visit)
{
    CUcontext ours;
    if (visit->pushed)
        (void)px_cuda.cuCtxPopCurrent(&ours); /* it was pushed by px_gpu_enter */
}

/* A peer's memory as nvshmem_ptr shows it. */
static bool describe_peer(const void *address, char *text, size_t size)
{
    for (uint32_t pe = 0; px_gpu.heap && pe < px_peers.n_pes; pe++) {
        intptr_t delta = px_gpu.delta[pe];
        const void *symmetric = (const void *)((uintptr_t)address - (uintptr_t)delta);
        if (delta == 0 || delta == PX_NOT_MAPPED || !px_gpu_holds(symmetric))
            continue;
        snprintf(text, size,
                 "it is PE %u's memory as nvshmem_ptr shows it; pass the symmetric address %p and "
                 "the PE number",
                 pe, symmetric);
        return true;
    }
    return false;
}

bool px_gpu_describe(const void *address, char *text, size_t size)
{
    unsigned type = 0;
    int device = -1;
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    if (describe_peer(address, text, size))
        return true;
    if (!px_cuda.cuPointerGetAttribute ||
        px_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) !=
            CUDA_SUCCESS)
        return false;
    (void)px_cuda.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
    if (type == CU_MEMORYTYPE_DEVICE)
        snprintf(text, size, "it is ordinary memory of GPU %d (cudaMalloc), not symmetric memory",
                 device);
    else if (type == CU_MEMORYTYPE_HOST)
        snprintf(text, size, "it is pinned host memory (cudaMallocHost), not symmetric memory");
    else
        return false;
    return true;
}

px_status px_gpu_memory(size_t *free_bytes, size_t *total, struct px_error *error)
{
    struct px_gpu_visit visit;
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = px_cu(error, cuMemGetInfo(free_bytes, total));
    px_gpu_leave(&visit);
    return status;
}
#endif
