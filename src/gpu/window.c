/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory of this PE and its peers: see window.h. A chunk's descriptor stays open until the next
 * growth, before which all peers have taken it; its handle as long as it lives, for it may have to be
 * mapped elsewhere in another round of start-up. */
#include "config.h"
#include "src/gpu/window.h"

#if PX_HAVE_CUDA
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/diag/log.h"
#include "src/transport/move.h"

#define MAGIC   0x70786770u /* "pxgp" */
#define MEBI(b) ((b) >> 20)

struct chunk {
    CUmemGenericAllocationHandle handle;
    size_t bytes;
    int fd;
};

struct peer {
    uintptr_t address; /* 0: not mapped */
    size_t mapped;     /* bytes of it */
    uint32_t n_chunks;
    bool refused; /* cannot be mapped: said so, not tried again */
};

static struct {
    bool vmm;
    CUmemAllocationProp properties;
    size_t granularity;
    uintptr_t start; /* 0: not placed yet */
    size_t span, bytes;
    uint32_t n_chunks,
        passed; /* passed: those that the PEs of the node have handed to each other */
    struct chunk chunk[PX_GPU_CHUNKS];
    CUdeviceptr piece; /* without VMM: what cuMemAlloc gave */
    struct peer *peers;
    uint32_t n_peers;
} window;

static size_t round_up(size_t value, size_t granule)
{
    return (value + granule - 1) / granule * granule;
}

/* --- chunks of mine --- */

static px_status no_memory(size_t bytes, struct px_error *error)
{
    size_t free_bytes = 0, total = 0;
    if (px_gpu_memory(&free_bytes, &total, NULL) != PX_OK)
        return PX_ERR_NO_MEMORY;
    return px_error_set(error, PX_ERR_NO_MEMORY,
                        "%s has no %zu MiB for the symmetric heap: %zu of its %zu MiB are free; "
                        "lower NVSHMEM_SYMMETRIC_SIZE, or use host memory "
                        "(NVSHMEM_HEAP_KIND=SYSMEM)",
                        px_gpu.name, MEBI(bytes), MEBI(free_bytes), MEBI(total));
}

static px_status export_chunk(struct chunk *chunk, struct px_error *error)
{
    return px_cu(error, cuMemExportToShareableHandle(&chunk->fd, chunk->handle,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

static void close_chunk_fd(struct chunk *chunk)
{
    if (chunk->fd >= 0)
        close(chunk->fd);
    chunk->fd = -1;
}

static px_status map_at(uintptr_t address, CUmemGenericAllocationHandle handle, size_t bytes,
                        struct px_error *error)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = px_gpu.device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    px_status status = px_cu(error, cuMemMap(address, bytes, 0, handle, 0));
    if (status != PX_OK)
        return status;
    status = px_cu(error, cuMemSetAccess(address, bytes, &access, 1));
    if (status != PX_OK)
        (void)px_cuda.cuMemUnmap(address, bytes); /* the first cause is the one to tell */
    return status;
}

static px_status map_chunk(struct chunk *chunk, uintptr_t address, struct px_error *error)
{
    return map_at(address, chunk->handle, chunk->bytes, error);
}

static px_status add_chunk(size_t bytes, struct px_error *error)
{
    if (window.n_chunks == PX_GPU_CHUNKS)
        return px_error_set(error, PX_ERR_NO_MEMORY,
                            "the symmetric heap has grown %d times: start with a larger "
                            "NVSHMEM_SYMMETRIC_SIZE",
                            PX_GPU_CHUNKS);
    struct chunk *chunk = &window.chunk[window.n_chunks];
    *chunk = (struct chunk){.bytes = round_up(bytes, window.granularity), .fd = -1};
    CUresult result = px_cuda.cuMemCreate(&chunk->handle, chunk->bytes, &window.properties, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return no_memory(chunk->bytes, error);
    px_status status = px_cuda_status(result, "cuMemCreate", error);
    if (status == PX_OK) {
        status = export_chunk(chunk, error);
        if (status == PX_OK && window.start)
            status = map_chunk(chunk, window.start + window.bytes, error);
        if (status != PX_OK) {
            close_chunk_fd(chunk);
            (void)px_cuda.cuMemRelease(chunk->handle);
        }
    }
    if (status != PX_OK)
        return status;
    window.bytes += chunk->bytes;
    window.n_chunks++;
    return PX_OK;
}

static void drop_last_chunk(void)
{
    struct chunk *chunk = &window.chunk[--window.n_chunks];
    window.bytes -= chunk->bytes;
    if (window.start)
        (void)px_cuda.cuMemUnmap(window.start + window.bytes, chunk->bytes);
    (void)px_cuda.cuMemRelease(chunk->handle); /* was created by us: cannot fail */
    close_chunk_fd(chunk);
}

/* --- create and place --- */

static bool has(CUdevice_attribute attribute)
{
    int value = 0;
    return px_cuda.cuDeviceGetAttribute(&value, attribute, px_gpu.device) == CUDA_SUCCESS && value;
}

static bool vmm_works(void)
{
    return px_cuda.cuMemAddressReserve && px_cuda.cuMemAddressFree && px_cuda.cuMemCreate &&
           px_cuda.cuMemRelease && px_cuda.cuMemMap && px_cuda.cuMemUnmap &&
           px_cuda.cuMemSetAccess && px_cuda.cuMemGetAllocationGranularity &&
           px_cuda.cuMemExportToShareableHandle && px_cuda.cuMemImportFromShareableHandle &&
           has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
           has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

static px_status create_chunks(size_t bytes, struct px_error *error)
{
    window.properties = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = px_gpu.device},
    };
    window.properties.allocFlags.gpuDirectRDMACapable =
        has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    px_status status =
        px_cu(error, cuMemGetAllocationGranularity(&window.granularity, &window.properties,
                                                   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (status == PX_OK)
        status = add_chunk(PX_GPU_CONTROL_BYTES, error);
    if (status == PX_OK)
        status = add_chunk(bytes, error);
    return status;
}

/* Room in front, so that the heap begins where large alignments hold. */
static px_status create_piece(size_t bytes, struct px_error *error)
{
    window.granularity = PX_HEAP_UNIT;
    window.bytes = PX_GPU_CONTROL_BYTES + bytes;
    CUresult result = px_cuda.cuMemAlloc(&window.piece, window.bytes + PX_HEAP_UNIT);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return no_memory(window.bytes, error);
    px_status status = px_cuda_status(result, "cuMemAlloc", error);
    if (status == PX_OK)
        window.start = round_up(window.piece, PX_HEAP_UNIT);
    return status;
}

px_status px_gpu_window_create(size_t bytes, bool no_vmm, struct px_error *error)
{
    struct px_gpu_visit visit;
    memset(&window, 0, sizeof(window));
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    window.vmm = px_gpu.vmm = !no_vmm && vmm_works();
    status = window.vmm ? create_chunks(bytes, error) : create_piece(bytes, error);
    px_gpu_leave(&visit);
    if (status != PX_OK)
        px_gpu_window_destroy();
    return status;
}

size_t px_gpu_window_granularity(void)
{
    return window.granularity;
}

static void unplace(void)
{
    if (!window.vmm || !window.start)
        return;
    (void)px_cuda.cuMemUnmap(window.start, window.bytes); /* ours: cannot fail */
    (void)px_cuda.cuMemAddressFree(window.start, window.span);
    window.start = 0;
}

static px_status reserve(uintptr_t start, size_t span, struct px_error *error)
{
    CUdeviceptr got = 0;
    CUresult result = px_cuda.cuMemAddressReserve(&got, span, window.granularity, start, 0);
    if (result == CUDA_SUCCESS && (got == start || start == 0)) {
        window.start = got;
        return PX_OK;
    }
    if (result == CUDA_SUCCESS)
        (void)px_cuda.cuMemAddressFree(got, span);
    return px_error_set(error, PX_ERR_UNREACHABLE,
                        "%s cannot have the addresses from 0x%zx on (%zu MiB): CUDA offers 0x%zx",
                        px_gpu.name, (size_t)start, MEBI(span), (size_t)got);
}

static px_status map_all(uintptr_t start, struct px_error *error)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < window.n_chunks; i++) {
        px_status status = map_chunk(&window.chunk[i], start + offset, error);
        if (status != PX_OK && offset)
            (void)px_cuda.cuMemUnmap(start, offset);
        if (status != PX_OK)
            return status;
        offset += window.chunk[i].bytes;
    }
    return PX_OK;
}

/* Chunks made before the others' granularity was known. */
static px_status remake(size_t granularity, struct px_error *error)
{
    size_t heap = window.bytes - window.chunk[0].bytes;
    unplace();
    while (window.n_chunks)
        drop_last_chunk();
    window.granularity = granularity;
    px_status status = add_chunk(PX_GPU_CONTROL_BYTES, error);
    return status == PX_OK ? add_chunk(heap, error) : status;
}

static px_status place_chunks(const struct px_gpu_place *place, struct px_error *error)
{
    px_status status = PX_OK;
    if (place->granularity > window.granularity)
        status = remake(place->granularity, error);
    if (status != PX_OK || (window.start && window.start == place->start && window.span == place->span))
        return status;
    unplace();
    status = reserve(place->start, place->span, error);
    if (status != PX_OK)
        return status;
    window.span = place->span;
    status = map_all(window.start, error);
    if (status != PX_OK) {
        (void)px_cuda.cuMemAddressFree(window.start, window.span);
        window.start = 0;
    }
    return status;
}

static px_status clear_control(struct px_error *error)
{
    px_status status =
        px_cu(error, cuMemsetD8Async(window.start, 0, PX_GPU_CONTROL_BYTES, px_gpu.stream));
    return status == PX_OK ? px_cu(error, cuStreamSynchronize(px_gpu.stream)) : status;
}

px_status px_gpu_window_place(const struct px_gpu_place *place, uintptr_t *data, size_t *room,
                              struct px_error *error)
{
    struct px_gpu_visit visit;
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    if (window.vmm)
        status = place_chunks(place, error);
    else
        window.span = window.bytes;
    if (status == PX_OK)
        status = clear_control(error);
    px_gpu_leave(&visit);
    if (status != PX_OK)
        return status;
    px_gpu.control = window.start;
    *data = window.start + PX_GPU_CONTROL_BYTES;
    *room = window.span - PX_GPU_CONTROL_BYTES;
    return PX_OK;
}

bool px_gpu_holds(const void *address)
{
    return px_gpu.heap && (uintptr_t)address - window.start < window.span;
}

/* --- peers --- */

void px_gpu_window_publish(struct px_gpu_card *card)
{
    struct px_gpu_visit visit;
    CUuuid uuid = {{0}};
    card->vmm = window.vmm;
    if (px_gpu_enter(&visit, NULL) == PX_OK) {
        (void)px_cuda.cuDeviceGetUuid(&uuid, px_gpu.device); /* for reports */
        if (!window.vmm && px_cuda.cuIpcGetMemHandle(&card->handle, window.piece) == CUDA_SUCCESS)
            card->handle_bytes = window.bytes;
        px_gpu_leave(&visit);
    }
    memcpy(card->uuid, uuid.bytes, sizeof(card->uuid));
    card->handle_offset = window.start - window.piece;
    for (uint32_t i = 0; i < window.n_chunks; i++) {
        card->chunk[i].bytes = window.chunk[i].bytes;
        card->chunk[i].fd = window.chunk[i].fd;
    }
    card->n_chunks = window.n_chunks;
    card->magic = MAGIC;
}

static void detach(struct peer *peer)
{
    if (peer->address && window.vmm) {
        if (peer->mapped)
            (void)px_cuda.cuMemUnmap(peer->address, peer->mapped);
        (void)px_cuda.cuMemAddressFree(peer->address, window.span);
    } else if (peer->address) {
        (void)px_cuda.cuIpcCloseMemHandle(peer->address);
    }
    *peer = (struct peer){.refused = peer->refused};
}

static px_status import(struct peer *peer, int fd, size_t bytes, struct px_error *error)
{
    CUmemGenericAllocationHandle handle;
    if (bytes == 0 || bytes % window.granularity || bytes > window.span - peer->mapped)
        return px_error_set(error, PX_ERR_PROTOCOL, "a chunk of %zu bytes cannot be", bytes);
    px_status status = PX_OK;
    if (!peer->address) {
        CUdeviceptr got;
        status = px_cu(error, cuMemAddressReserve(&got, window.span, window.granularity, 0, 0));
        if (status == PX_OK)
            peer->address = got;
    }
    if (status == PX_OK)
        status =
            px_cu(error, cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
                                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    if (status != PX_OK)
        return status;
    status = map_at(peer->address + peer->mapped, handle, bytes, error);
    (void)px_cuda.cuMemRelease(handle); /* the mapping keeps the memory */
    if (status != PX_OK)
        return status;
    peer->mapped += bytes;
    peer->n_chunks++;
    return PX_OK;
}

static void refuse(struct peer *peer, uint32_t rank, const struct px_error *cause)
{
    detach(peer);
    peer->refused = true;
    px_info(PX_SUB_MEM, "GPU memory of PE %u is not mapped: %s", rank, cause->text);
}

static void attach_chunk(const struct px_gpu_attach *attach, uint32_t k, const int *fds)
{
    for (uint32_t i = 0; i < attach->n_peers; i++) {
        struct px_error cause = PX_ERROR_INIT;
        struct peer *peer = &window.peers[i];
        uint32_t rank = attach->peers[i].rank;
        const struct px_gpu_card *card = attach->card_of(attach->arg, rank);
        if (rank == attach->my_pe)
            continue;
        if (fds[i] < 0 || !card || peer->n_chunks != k)
            px_error_set(&cause, PX_ERR_UNREACHABLE, "no descriptor of it");
        else if (!peer->refused)
            (void)import(peer, fds[i], card->chunk[k].bytes, &cause);
        if (cause.status != PX_OK && !peer->refused)
            refuse(peer, rank, &cause);
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

static void fetch_chunk(const struct px_gpu_attach *attach, uint32_t k, int *theirs, int *fds)
{
    struct px_error error = PX_ERROR_INIT;
    for (uint32_t i = 0; i < attach->n_peers; i++) {
        const struct px_gpu_card *card = attach->card_of(attach->arg, attach->peers[i].rank);
        theirs[i] =
            card && card->magic == MAGIC && k < card->n_chunks ? (int)card->chunk[k].fd : -1;
    }
    if (px_heap_fetch(attach->heap, attach->peers, attach->n_peers, theirs, window.chunk[k].fd, fds,
                      &error) != PX_OK)
        px_info(PX_SUB_MEM, "descriptors of GPU memory: %s", error.text);
}

static void attach_pieces(const struct px_gpu_attach *attach)
{
    for (uint32_t i = 0; i < attach->n_peers; i++) {
        struct px_error cause = PX_ERROR_INIT;
        struct peer *peer = &window.peers[i];
        uint32_t rank = attach->peers[i].rank;
        const struct px_gpu_card *card = attach->card_of(attach->arg, rank);
        CUdeviceptr got;
        if (rank == attach->my_pe || peer->address || peer->refused)
            continue;
        if (!card || card->magic != MAGIC || card->vmm || card->handle_bytes != window.bytes)
            px_error_set(&cause, PX_ERR_UNREACHABLE, "it has no CUDA IPC handle");
        else if (px_cu(&cause, cuIpcOpenMemHandle(&got, card->handle,
                                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) == PX_OK)
            *peer = (struct peer){.address = got, .mapped = card->handle_offset};
        if (cause.status != PX_OK)
            refuse(peer, rank, &cause);
    }
}

static void fill_deltas(const struct px_gpu_attach *attach)
{
    for (uint32_t i = 0; i < attach->n_peers; i++) {
        const struct peer *peer = &window.peers[i];
        uint32_t rank = attach->peers[i].rank;
        uintptr_t start = peer->address + (window.vmm ? 0 : peer->mapped);
        px_gpu.delta[rank] = rank == attach->my_pe ? 0
                             : peer->address       ? (intptr_t)(start - window.start)
                                                   : PX_NOT_MAPPED;
    }
}

void px_gpu_window_attach(const struct px_gpu_attach *attach)
{
    struct px_gpu_visit visit;
    if (!window.peers) {
        window.peers = calloc(attach->n_peers, sizeof(*window.peers));
        window.n_peers = window.peers ? attach->n_peers : 0;
    }
    int *fds = calloc(attach->n_peers, 2 * sizeof(*fds));
    if (!fds || !window.peers || px_gpu_enter(&visit, NULL) != PX_OK)
        px_fatal(1, "mapping GPU memory of %u peers: no memory or no context", attach->n_peers);
    for (uint32_t k = window.passed; window.vmm && k < window.n_chunks; k++) {
        if (k > window.passed)
            attach->meet(attach->arg);
        fetch_chunk(attach, k, fds + attach->n_peers, fds);
        attach_chunk(attach, k, fds);
    }
    window.passed = window.n_chunks;
    if (!window.vmm)
        attach_pieces(attach);
    px_gpu_leave(&visit);
    fill_deltas(attach);
    free(fds);
}

/* --- growing and ending --- */

px_status px_gpu_window_grow(size_t bytes, struct px_error *error)
{
    struct px_gpu_visit visit;
    size_t total = PX_GPU_CONTROL_BYTES + bytes;
    if (total <= window.bytes)
        return PX_OK;
    if (!window.vmm)
        return px_error_set(error, PX_ERR_NO_MEMORY,
                            "without CUDA VMM the heap cannot grow: set NVSHMEM_SYMMETRIC_SIZE");
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    for (uint32_t i = 0; i < window.n_chunks; i++)
        close_chunk_fd(&window.chunk[i]);
    status = add_chunk(total - window.bytes, error);
    px_gpu_leave(&visit);
    return status;
}

void px_gpu_window_undo(size_t bytes)
{
    struct px_gpu_visit visit;
    if (!window.vmm || px_gpu_enter(&visit, NULL) != PX_OK)
        return;
    while (window.n_chunks > 2 &&
           window.bytes - window.chunk[window.n_chunks - 1].bytes >= PX_GPU_CONTROL_BYTES + bytes)
        drop_last_chunk();
    px_gpu_leave(&visit);
}

/* Peers keep the control area only. */
static void trim_peers(void)
{
    for (uint32_t i = 0; i < window.n_peers; i++) {
        struct peer *peer = &window.peers[i];
        size_t keep = window.chunk[0].bytes;
        if (!peer->address || peer->mapped <= keep)
            continue;
        (void)px_cuda.cuMemUnmap(peer->address + keep, peer->mapped - keep);
        peer->mapped = keep;
        peer->n_chunks = 1;
    }
}

px_status px_gpu_window_reset(size_t bytes, struct px_error *error)
{
    struct px_gpu_visit visit;
    if (!window.vmm)
        return bytes <= window.bytes - PX_GPU_CONTROL_BYTES ? PX_OK
                                                            : px_gpu_window_grow(bytes, error);
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    trim_peers();
    while (window.n_chunks > 1)
        drop_last_chunk();
    window.passed = 1;
    status = add_chunk(bytes, error);
    px_gpu_leave(&visit);
    return status;
}

void px_gpu_window_destroy(void)
{
    struct px_gpu_visit visit;
    if (!px_gpu.up || px_gpu_enter(&visit, NULL) != PX_OK)
        return;
    for (uint32_t i = 0; i < window.n_peers; i++)
        detach(&window.peers[i]);
    if (window.vmm) {
        uintptr_t start = window.start;
        size_t span = window.span;
        while (window.n_chunks)
            drop_last_chunk();
        if (start)
            (void)px_cuda.cuMemAddressFree(start, span);
    } else if (window.piece) {
        (void)px_cuda.cuMemFree(window.piece);
    }
    px_gpu_leave(&visit);
    free(window.peers);
    memset(&window, 0, sizeof(window));
}

bool px_gpu_window_piece(uint32_t i, uintptr_t *start, size_t *bytes)
{
    if (!window.vmm || i >= window.n_chunks)
        return false;
    *start = window.start;
    for (uint32_t k = 0; k < i; k++)
        *start += window.chunk[k].bytes;
    *bytes = window.chunk[i].bytes;
    return true;
}

px_status px_gpu_dmabuf(uintptr_t address, size_t bytes, int *fd, uint64_t *offset,
                        struct px_error *error)
{
    struct px_gpu_visit visit;
    if (!px_cuda.cuMemGetHandleForAddressRange || !has(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
        return px_error_set(error, PX_ERR_UNSUPPORTED, "the driver exports no dma-buf of %s",
                            px_gpu.name);
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = px_cu(error, cuMemGetHandleForAddressRange(fd, address, bytes,
                                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    px_gpu_leave(&visit);
    if (status == PX_OK)
        *offset = 0; /* it begins with the range */
    return status;
}

size_t px_gpu_window_bytes(void)
{
    return window.bytes;
}

const char *px_gpu_window_words(void)
{
    return window.vmm ? "CUDA VMM" : "cuMemAlloc with CUDA IPC";
}
#endif
