/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this folder share: launching, and the place of members in a work. */
#ifndef PX_STREAM_PRIVATE_H
#define PX_STREAM_PRIVATE_H

#include "src/stream/stream.h"

#include "src/diag/log.h"
#include "src/gpu/gpu.h"
#include "src/transport/move.h"

/* Words of meetings in the device control area, from its start; device code has the second half. */
#define PX_STREAM_CONTROL_BYTES ((size_t)1 << 20)

#if PX_HAVE_CUDA
#define PX_STREAM_BLOCK 256 /* threads of a block that does not hold results */

/* launch.c: kernels in the order of their names there. */
enum px_stream_kernel {
    PX_KERNEL_MEET,
    PX_KERNEL_GATHER,
    PX_KERNEL_SPREAD,
    PX_KERNEL_COPY,
    PX_KERNEL_STORE,
    PX_KERNEL_SIGNAL,
    PX_KERNEL_AWAIT,
    PX_KERNEL_BASE, /* those before are of the first module */
    PX_KERNEL_REDUCE_8 = PX_KERNEL_BASE,
    PX_KERNEL_REDUCE_16,
    PX_KERNEL_REDUCE_32,
    PX_KERNEL_REDUCE_64,
    PX_KERNEL_REDUCE_FLOAT,
    PX_KERNEL_REDUCE_DOUBLE,
    PX_KERNEL_REDUCE_HALF,
    PX_KERNEL_REDUCE_BFLOAT16,
    PX_KERNEL_COUNT
};

/* Around everything that asks the driver for something. */
void px_stream_enter(const struct px_stream *s, struct px_gpu_visit *visit);

void px_stream_launch(const struct px_stream *s, enum px_stream_kernel kernel, uint32_t blocks,
                      uint32_t threads, const struct px_stream_work *work);
void px_stream_copy(const struct px_stream *s, void *dest, const void *source, size_t bytes);
/* Blocks for so many threads' worth of work: as many as run at once, at most. */
uint32_t px_stream_blocks(size_t threads);
_Noreturn void px_stream_failed(const struct px_stream *s, const struct px_error *error);

/* May a kernel use this address? */
bool px_stream_on_gpu(const void *address);

/* meet.c: the team in a work; then its meeting alone. */
void px_stream_fill(const struct px_team *team, struct px_stream_work *work);
void px_stream_meet(const struct px_stream *s, const struct px_stream_work *team);

static inline uint64_t px_stream_address(const void *address)
{
    return (uintptr_t)address;
}

/* host.c: is this stream being captured? */
bool px_stream_captures(struct CUstream_st *stream);
/* Waits for the stream. */
void px_stream_drain(const struct px_stream *s);
#endif

#endif
