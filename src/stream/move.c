/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations on streams, to PEs whose GPU memory is mapped here: copy engines for what is
 * in one piece, a kernel for the rest. Stream order makes blocking and nbi forms the same, and quiet
 * has nothing to do: an operation is complete when the next one of its stream starts. */
#include "config.h"
#include "src/stream/private.h"

#if PX_HAVE_CUDA
/* Up to so many bytes one block copies them and raises the signal behind them in one launch. */
#define SIGNAL_COPY ((size_t)32 << 10)

bool px_stream_reaches(uint32_t pe)
{
    return px_gpu.delta[pe] != PX_NOT_MAPPED;
}

bool px_stream_reaches_all(void)
{
    bool all = true;
    for (uint32_t pe = 0; pe < px_peers.n_pes && all; pe++)
        all = px_stream_reaches(pe);
    return all;
}

/* The place of a symmetric address of a peer here. */
static void *place(uint32_t pe, const void *symmetric)
{
    return (void *)((uintptr_t)symmetric + (uintptr_t)px_gpu.delta[pe]);
}

void px_stream_put(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                   size_t bytes)
{
    struct px_gpu_visit visit;
    px_stream_enter(s, &visit);
    px_stream_copy(s, place(pe, dest), source, bytes);
    px_gpu_leave(&visit);
}

void px_stream_get(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                   size_t bytes)
{
    struct px_gpu_visit visit;
    px_stream_enter(s, &visit);
    px_stream_copy(s, dest, place(pe, source), bytes);
    px_gpu_leave(&visit);
}

void px_stream_p(const struct px_stream *s, uint32_t pe, void *dest, uint64_t value, size_t size)
{
    struct px_gpu_visit visit;
    px_stream_enter(s, &visit);
    const struct px_stream_work work = {
        .dest = px_stream_address(place(pe, dest)), .value = value, .size = (uint32_t)size};
    px_stream_launch(s, PX_KERNEL_STORE, 1, 1, &work);
    px_gpu_leave(&visit);
}

uint64_t px_stream_g(const struct px_stream *s, uint32_t pe, const void *source, size_t size)
{
    struct px_gpu_visit visit;
    uint64_t value = 0;
    if (px_stream_captures(s->stream))
        px_fatal(1,
                 "%s: stream %p is being captured; a value that is returned now cannot come from a "
                 "graph that runs later: use the get form",
                 s->call, (void *)s->stream);
    px_stream_enter(s, &visit);
    px_stream_copy(s, &value, place(pe, source), size);
    px_stream_drain(s);
    px_gpu_leave(&visit);
    return value;
}

/* --- strided --- */

/* What kernels cannot reach, the memory of malloc, goes by the copy engine. */
static void spread_by_engine(const struct px_stream *s, void *dest, const void *source,
                             const struct px_stream_strided *strided)
{
    struct px_error error = PX_ERROR_INIT;
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = px_stream_address(source),
                                .srcPitch = (size_t)strided->source_step,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = px_stream_address(dest),
                                .dstPitch = (size_t)strided->dest_step,
                                .WidthInBytes = strided->size,
                                .Height = strided->nelems};
    if (px_cu(&error, cuMemcpy2DAsync(&copy, s->stream)) != PX_OK)
        px_stream_failed(s, &error);
}

static void spread(const struct px_stream *s, void *dest, const void *source,
                   const struct px_stream_strided *strided)
{
    uint64_t all = px_stream_address(dest) | px_stream_address(source) |
                   (uint64_t)strided->dest_step | (uint64_t)strided->source_step;
    const struct px_stream_work work = {.dest = px_stream_address(dest),
                                        .source = px_stream_address(source),
                                        .dest_step = strided->dest_step,
                                        .source_step = strided->source_step,
                                        .count = strided->nelems,
                                        .size = (uint32_t)strided->size};
    if (all % strided->size || !px_stream_on_gpu(dest) || !px_stream_on_gpu(source))
        spread_by_engine(s, dest, source, strided);
    else
        px_stream_launch(s, PX_KERNEL_SPREAD, px_stream_blocks(strided->nelems), PX_STREAM_BLOCK,
                         &work);
}

void px_stream_iput(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                    const struct px_stream_strided *strided)
{
    struct px_gpu_visit visit;
    px_stream_enter(s, &visit);
    spread(s, place(pe, dest), source, strided);
    px_gpu_leave(&visit);
}

void px_stream_iget(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                    const struct px_stream_strided *strided)
{
    struct px_gpu_visit visit;
    px_stream_enter(s, &visit);
    spread(s, dest, place(pe, source), strided);
    px_gpu_leave(&visit);
}

/* --- signals --- */

void px_stream_put_signal(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                          size_t bytes, const struct px_stream_note *note)
{
    struct px_gpu_visit visit;
    px_stream_enter(s, &visit);
    struct px_stream_work work = {
        .word = px_stream_address(place(pe, note->word)), .value = note->value, .what = note->what};
    uint32_t threads = 1;
    if (bytes && bytes <= SIGNAL_COPY && px_stream_on_gpu(source)) {
        work.dest = px_stream_address(place(pe, dest));
        work.source = px_stream_address(source);
        work.count = bytes;
        threads = bytes < 2048 ? PX_STREAM_BLOCK / 2 : PX_STREAM_THREADS;
    } else if (bytes) {
        px_stream_copy(s, place(pe, dest), source, bytes);
    }
    px_stream_launch(s, PX_KERNEL_SIGNAL, 1, threads, &work);
    px_gpu_leave(&visit);
}
#endif
