/* SPDX-License-Identifier: BSD-3-Clause */
/* What the host knows of streams: whether one is being captured, and waiting for one. */
#include "config.h"
#include "src/stream/private.h"

#if PX_HAVE_CUDA
bool px_stream_captures(struct CUstream_st *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = px_cuda.cuStreamIsCapturing(stream, &status);
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* The driver tells of captures of ordinary streams when asked about the legacy one. */
bool px_stream_capture_under_way(void)
{
    struct px_gpu_visit visit;
    if (!px_gpu.up || px_gpu_enter(&visit, NULL) != PX_OK)
        return false;
    bool captures =
        px_stream_captures(CU_STREAM_LEGACY) || px_stream_captures(CU_STREAM_PER_THREAD);
    px_gpu_leave(&visit);
    return captures;
}

void px_stream_drain(const struct px_stream *s)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_cu(&error, cuStreamSynchronize(s->stream)) != PX_OK)
        px_fatal(1, "%s: waiting for stream %p: %s", s->call, (void *)s->stream, error.text);
}

void px_stream_settle(const struct px_stream *s, const char *cuda_path)
{
    struct px_error error = PX_ERROR_INIT;
    CUcontext context = NULL;
    if (px_cuda_open(cuda_path, &error) == PX_OK &&
        px_cu(&error, cuCtxGetCurrent(&context)) == PX_OK && context) {
        if (px_stream_captures(s->stream))
            px_fatal(1,
                     "%s: stream %p is being captured, but this call needs the host, as symmetric "
                     "memory is host memory or a peer is out of this GPU's reach: call it outside "
                     "the capture",
                     s->call, (void *)s->stream);
        px_stream_drain(s);
        return;
    }
    if (s->stream)
        px_fatal(1, "%s: %p is no stream here, as there is no GPU: %s; stream 0 would do", s->call,
                 (void *)s->stream, error.status == PX_OK ? "no context" : error.text);
}

#else /* !PX_HAVE_CUDA */

bool px_stream_capture_under_way(void)
{
    return false;
}

void px_stream_settle(const struct px_stream *s, const char *cuda_path)
{
    (void)cuda_path;
    if (s->stream)
        px_fatal(
            1,
            "%s: this library was built without CUDA, so %p cannot be a stream; stream 0 would "
            "do",
            s->call, (void *)s->stream);
}
#endif
