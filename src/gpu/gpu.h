/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU of this PE and the symmetric memory on it, for the layers that move data: host-initiated
 * operations (move.c here), on-stream operations and kernels.
 *
 * The window of a PE with GPU memory: [base, data) is the control area in host memory as always;
 * from `control` on it is GPU memory, first PX_GPU_CONTROL_BYTES that are ours, zero at start, then
 * what programs allocate, from px_world.memory.data on. Peers' GPU memory is mapped a second time:
 * address + px_gpu.delta[pe]. Kernels and copies of this PE's GPU may use these addresses.
 *
 * PEs whose delta is PX_NOT_MAPPED (far.h) are reached by px_put, px_get, px_amo and px_put_signal of
 * src/transport/move.h with symmetric addresses, like all others; local addresses may be host memory
 * or any GPU's. Any thread may call these, but not a function that CUDA calls (cuLaunchHostFunc),
 * since they call CUDA; px_quiet completes them. */
#ifndef PX_GPU_GPU_H
#define PX_GPU_GPU_H

#include "src/gpu/driver.h"

#include <stdint.h>

/* In front of programs' GPU memory: flags and staging of stream collectives and kernels. */
#define PX_GPU_CONTROL_BYTES ((size_t)4 << 20)

/* A GPU in all processes of the node: domain << 16 | bus << 8 | device << 3, and the UUID, which is
 * that of the instance under MIG. */
struct px_gpu_id {
    uint64_t pci;
    uint8_t uuid[16];
};

#if PX_HAVE_CUDA
struct px_gpu {
    bool up;   /* a device is chosen, its context is there */
    bool heap; /* programs' symmetric memory is GPU memory; else it is host memory */
    bool far;  /* some PE cannot map the memory of another: agents run (far.h) */
    bool direct; /* the network reaches GPU memory by itself: put and get need no agent there */
    bool vmm;  /* memory is made of CUDA VMM chunks: the same address on all PEs */
    CUdevice device;
    struct px_gpu_id id;
    CUcontext context;
    CUstream stream;   /* ours, non-blocking, for host-initiated operations */
    uintptr_t control; /* the device control area of this PE, at the start of its GPU memory */
    intptr_t *delta;   /* [n_pes] as px_peers.delta, for GPU memory; 0 for this PE */
    char name[96];     /* "GPU 0 (NVIDIA H200, 00000000:01:00.0)" */
    char why_not[512]; /* why programs' memory is not on a GPU, "" when it is */
};
extern struct px_gpu px_gpu;

/* Make the context current for this thread; every enter needs its leave. Threads that use the
 * context already pay one query. */
struct px_gpu_visit {
    bool pushed;
};
px_status px_gpu_enter(struct px_gpu_visit *visit, struct px_error *error);
void px_gpu_leave(const struct px_gpu_visit *visit);

/* Is this symmetric address of a peer in GPU memory? Only its place counts. */
bool px_gpu_holds(const void *address);
#endif /* PX_HAVE_CUDA */
#endif
