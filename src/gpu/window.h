/* SPDX-License-Identifier: BSD-3-Clause */
/* Symmetric memory on the GPU: this PE's, in chunks that are created as the heap grows, and the
 * peers', each chunk mapped here from a descriptor. With CUDA VMM my own memory lies at the agreed
 * address; without it (NVSHMEM_DISABLE_CUDA_VMM, old devices) it is one piece of cuMemAlloc at any
 * address, shared by CUDA IPC, which cannot grow.
 *
 * Chunk 0 is the device control area and stays; chunk 1 is the heap at its first size; each growth
 * adds one. Every PE has the same chunks, so that they can be passed in lock step. */
#ifndef PX_GPU_WINDOW_H
#define PX_GPU_WINDOW_H

#include "src/gpu/gpu.h"

#include "heap/heap.h"

#if PX_HAVE_CUDA
#define PX_GPU_CHUNKS 1024
/* CUDA grants a wish for an address only where it is a multiple of something larger than the
 * granularity of its chunks: 32 or 64 MiB were seen. */
#define PX_GPU_ALIGN ((size_t)512 << 20)

/* What a PE tells its peers of the node, in its host control area. */
struct px_gpu_card {
    uint64_t magic;
    uint32_t n_chunks, vmm;
    uint8_t uuid[16];
    CUipcMemHandle handle; /* without VMM */
    uint64_t handle_offset, handle_bytes;
    struct {
        uint64_t bytes;
        int64_t fd;
    } chunk[PX_GPU_CHUNKS];
};

/* device.c */
#define PX_GPU_VISIBLE_MAX 64
/* What this process could use, in the driver's order; looking makes no context. */
struct px_gpu_view {
    bool has_current; /* the program has made a context current */
    struct px_gpu_id current;
    size_t n_visible;
    struct px_gpu_id visible[PX_GPU_VISIBLE_MAX];
};
px_status px_gpu_look(const char *cuda_path, struct px_gpu_view *view, struct px_error *error);
/* Take the current one, else the one at that address: `share` counts those who were given it. */
px_status px_gpu_open(uint64_t pci, uint32_t share, struct px_error *error);
void px_gpu_close(void);
bool px_gpu_describe(const void *address, char *text, size_t size);
px_status px_gpu_memory(size_t *free_bytes, size_t *total, struct px_error *error);

/* Create control area and `bytes` of heap. PX_ERR_NO_MEMORY says what there is. */
px_status px_gpu_window_create(size_t bytes, bool no_vmm, struct px_error *error);
size_t px_gpu_window_granularity(void);
/* Map it at `start` with room up to `span`; PX_ERR_UNREACHABLE: CUDA does not give that address. A
 * second call moves it. Sets px_gpu.control; *data and *room are for programs' memory. */
struct px_gpu_place {
    uintptr_t start; /* 0: wherever CUDA likes, so it differs between PEs */
    size_t span, granularity; /* the largest of the job: chunks are multiples of it everywhere */
};
px_status px_gpu_window_place(const struct px_gpu_place *place, uintptr_t *data, size_t *room,
                              struct px_error *error);
/* Fill my card; after every change of the chunks. */
void px_gpu_window_publish(struct px_gpu_card *card);

/* Map what is new at the peers of the node: on all PEs of the node, which have met since they
 * published; `meet` lets them meet between two chunks. Peers that cannot be mapped stay PX_NOT_MAPPED
 * in px_gpu.delta. `card_of` finds the card of a peer in its control area, NULL when not mapped. */
typedef const struct px_gpu_card *px_gpu_card_fn(void *arg, uint32_t rank);
struct px_gpu_attach {
    struct px_heap *heap;
    const struct px_heap_peer *peers;
    uint32_t n_peers, my_pe;
    px_gpu_card_fn *card_of;
    void (*meet)(void *arg);
    void *arg;
};
void px_gpu_window_attach(const struct px_gpu_attach *attach);

/* The heap has `bytes` from now on, here; then publish, meet, attach. px_gpu_window_undo takes the
 * last growth back before it was published. */
px_status px_gpu_window_grow(size_t bytes, struct px_error *error);
void px_gpu_window_undo(size_t bytes);
/* Drop the heap and all peers' mappings of it, then make it anew with `bytes`. */
px_status px_gpu_window_reset(size_t bytes, struct px_error *error);
void px_gpu_window_destroy(void);
/* Piece `i` of it, in order of addresses; false when there is none. */
bool px_gpu_window_piece(uint32_t i, uintptr_t *start, size_t *bytes);
/* struct px_transport_ops: for networks that register GPU memory by dma-buf. */
px_status px_gpu_dmabuf(uintptr_t address, size_t bytes, int *fd, uint64_t *offset,
                        struct px_error *error);
size_t px_gpu_window_bytes(void); /* that exist here, from px_gpu.control on */
const char *px_gpu_window_words(void); /* for info output */
#endif
#endif
