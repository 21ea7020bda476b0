/* SPDX-License-Identifier: BSD-3-Clause */
/* Host-initiated operations on GPU memory, as a transport: while programs' memory is on the GPU,
 * px_peers says that no PE is mapped, this one included, and every operation comes here. So the paths
 * of host memory stay as they are. What concerns the control areas, which are host memory, goes on by
 * load and store, or through the transport to other nodes. */
#ifndef PX_GPU_MOVE_H
#define PX_GPU_MOVE_H

#include "src/gpu/gpu.h"

#include "src/transport/move.h"

#if PX_HAVE_CUDA
/* Put it in front of what px_peers has; px_gpu.delta and px_peers.control_delta are complete. */
px_status px_gpu_move_open(struct px_error *error);
/* px_peers as it was before. */
void px_gpu_move_close(void);

/* What add_memory and drop_memory come down to: given by who knows the peers. */
struct px_gpu_hooks {
    px_status (*grown)(struct px_error *error);
    void (*dropped)(void); /* programs' memory is about to go */
};
void px_gpu_move_on_growth(const struct px_gpu_hooks *hooks);

/* The kernel that carries out an atomic operation on memory that this PE's GPU reaches; `result`:
 * where it may write the old value, or NULL. The context is current. */
px_status px_gpu_amo_start(void *word, const struct px_amo *amo, uint64_t *result, CUstream stream,
                           struct px_error *error);

/* Between any two addresses, host or device, now. */
void px_gpu_copy(void *dest, const void *source, size_t bytes);
void px_gpu_clear(void *address, size_t bytes);
#endif
#endif
