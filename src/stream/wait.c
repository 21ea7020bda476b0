/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_until on a stream: what is behind it in the stream starts when the words of this PE are as
 * they should be. A word that is to equal a value is watched by the GPU's front end, which costs no
 * processor of it; other comparisons are a kernel that looks, as the front end compares in a circle. */
#include "config.h"
#include "src/stream/private.h"

#if PX_HAVE_CUDA
#include <string.h>

#define BATCH 64 /* values that fit into a work */

static bool watched_by_front_end(const struct px_stream *s, const struct px_stream_set *set,
                                 uint64_t value)
{
    struct px_error error = PX_ERROR_INIT;
    CUdeviceptr word = px_stream_address(set->words);
    px_status status;
    if (set->nelems != 1 || set->status || set->cmp != PX_STREAM_EQ || set->size < 4 ||
        !px_cuda.cuStreamWaitValue64 || !px_cuda.cuStreamWaitValue32 ||
        px_stream_captures(s->stream)) /* where a refusal would spoil the capture */
        return false;
    if (set->size == 8)
        status =
            px_cu(&error, cuStreamWaitValue64(s->stream, word, value, CU_STREAM_WAIT_VALUE_EQ));
    else
        status = px_cu(&error, cuStreamWaitValue32(s->stream, word, (cuuint32_t)value,
                                                   CU_STREAM_WAIT_VALUE_EQ));
    return status == PX_OK; /* a device without it takes the kernel */
}

static uint64_t value_at(const struct px_stream_set *set, size_t i)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)set->values + (set->each ? i * set->size : 0), set->size);
    return value; /* little endian */
}

static void await(const struct px_stream *s, const struct px_stream_work *work)
{
    uint32_t threads = work->count < PX_STREAM_THREADS ? (uint32_t)work->count : PX_STREAM_THREADS;
    px_stream_launch(s, PX_KERNEL_AWAIT, 1, threads, work);
}

/* Status or values that are in host memory travel in the work, some at a time. */
static void await_batches(const struct px_stream *s, const struct px_stream_set *set,
                          struct px_stream_work *work)
{
    bool status_here = set->status && !work->status, values_here = set->each && !work->values;
    for (size_t first = 0; first < set->nelems; first += BATCH) {
        size_t count = set->nelems - first < BATCH ? set->nelems - first : BATCH;
        struct px_stream_work part = *work;
        part.word += first * set->size;
        part.count = count;
        part.status += work->status ? first * sizeof(int) : 0;
        part.values += work->values ? first * set->size : 0;
        part.source_step = values_here;
        for (size_t i = 0; i < count; i++) {
            part.delta[i] = values_here ? (int64_t)value_at(set, first + i) : 0;
            part.skip |= (uint64_t)(status_here && set->status[first + i]) << i;
        }
        await(s, &part);
    }
}

void px_stream_wait(const struct px_stream *s, const struct px_stream_set *set)
{
    struct px_gpu_visit visit;
    if (set->nelems == 0)
        return;
    px_stream_enter(s, &visit);
    bool status_far = set->status && px_stream_on_gpu(set->status);
    bool values_far = set->each && px_stream_on_gpu(set->values);
    struct px_stream_work work = {.word = px_stream_address(set->words),
                                  .value = set->each ? 0 : value_at(set, 0),
                                  .status = status_far ? px_stream_address(set->status) : 0,
                                  .values = values_far ? px_stream_address(set->values) : 0,
                                  .count = set->nelems,
                                  .size = (uint32_t)set->size,
                                  .is_signed = set->is_signed,
                                  .what = set->cmp};
    if ((set->status && !status_far) || (set->each && !values_far))
        await_batches(s, set, &work);
    else if (!watched_by_front_end(s, set, work.value))
        await(s, &work);
    px_gpu_leave(&visit);
}
#endif
