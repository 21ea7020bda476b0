/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of the stand-in: queues, each with a thread that does what is in it, in order. The legacy
 * stream and blocking ones wait for each other. While a stream is captured what is put into it goes to
 * a graph, which a launch copies into a queue; operations of all streams that joined are in one line
 * there. What a real driver refuses during a capture is refused here. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/standin/standin.h"

#define STREAMS   256
#define ARGUMENTS 16

enum kind { COPY, COPY_2D, SET, KERNEL, HOST, WRITE, WAIT, RECORD, AFTER };

struct op {
    struct op *next;
    enum kind kind;
    CUdeviceptr dest, source; /* or the word */
    size_t bytes;
    uint64_t value;
    unsigned flags, width;
    CUDA_MEMCPY2D copy;
    int kernel;
    unsigned char *arguments; /* one after the other, each at a multiple of 16 */
    CUhostFn host;
    void *user;
    struct CUevent_st *event;
    struct CUstream_st *other; /* AFTER: what it has done */
    uint64_t ticket;
};

struct CUgraph_st {
    struct op *first, **last;
};

struct CUstream_st {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool used, running, blocking, stop;
    struct op *first, **last;
    uint64_t put, done;
    struct CUgraph_st *capture; /* what it is captured into */
    bool origin;                /* the capture began here */
};

struct CUevent_st {
    struct CUstream_st *stream;
    uint64_t ticket;
    struct CUgraph_st *capture;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st streams[STREAMS]; /* 0 is the legacy one */
static _Thread_local struct CUstream_st *per_thread;

/* --- doing --- */

/* Small aligned copies are one store, as they are on a GPU. */
static void copy_part(char *to, const char *from, size_t bytes)
{
    if (bytes == 8 && ((uintptr_t)to | (uintptr_t)from) % 8 == 0)
        __atomic_store_n((uint64_t *)to, __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
    else if (bytes == 4 && ((uintptr_t)to | (uintptr_t)from) % 4 == 0)
        __atomic_store_n((uint32_t *)to, __atomic_load_n((const uint32_t *)from, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELEASE);
    else
        memmove(to, from, bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void standin_copy(CUdeviceptr dest, CUdeviceptr source, size_t bytes)
{
    while (bytes) {
        size_t part = bytes, a = standin_left(dest), b = standin_left(source);
        part = a < part ? a : part;
        part = b < part ? b : part;
        copy_part(standin_reach(dest, part), standin_reach(source, part), part);
        dest += part;
        source += part;
        bytes -= part;
    }
}

static void set_bytes(CUdeviceptr dest, unsigned char value, size_t bytes)
{
    while (bytes) {
        size_t part = standin_left(dest) < bytes ? standin_left(dest) : bytes;
        memset(standin_reach(dest, part), value, part);
        dest += part;
        bytes -= part;
    }
}

static bool reached(const struct op *op)
{
    uint64_t seen = op->width == 8
                        ? __atomic_load_n((uint64_t *)standin_reach(op->dest, 8), __ATOMIC_ACQUIRE)
                        : __atomic_load_n((uint32_t *)standin_reach(op->dest, 4), __ATOMIC_ACQUIRE);
    int64_t distance = op->width == 8 ? (int64_t)(seen - op->value)
                                      : (int32_t)((uint32_t)seen - (uint32_t)op->value);
    switch (op->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return distance >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return distance == 0;
    case CU_STREAM_WAIT_VALUE_AND:
        return (seen & op->value) != 0;
    default:
        return ~(seen | op->value) != 0;
    }
}

static void wait_ticket(struct CUstream_st *stream, uint64_t ticket)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->done < ticket)
        pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

static void run_kernel(const struct op *op)
{
    void *arguments[ARGUMENTS];
    unsigned char *at = op->arguments;
    for (unsigned i = 0; standin_arguments(op->kernel, i); i++) {
        arguments[i] = at;
        at += (standin_arguments(op->kernel, i) + 15) / 16 * 16;
    }
    standin_run(op->kernel, arguments);
}

static void carry_out(const struct op *op)
{
    switch (op->kind) {
    case COPY:
        standin_copy(op->dest, op->source, op->bytes);
        break;
    case COPY_2D:
        for (size_t i = 0; i < op->copy.Height; i++)
            standin_copy(op->copy.dstDevice + i * op->copy.dstPitch,
                       op->copy.srcDevice + i * op->copy.srcPitch, op->copy.WidthInBytes);
        break;
    case SET:
        set_bytes(op->dest, (unsigned char)op->value, op->bytes);
        break;
    case KERNEL:
        run_kernel(op);
        break;
    case HOST:
        op->host(op->user);
        break;
    case WRITE:
        if (op->width == 8)
            __atomic_store_n((uint64_t *)standin_reach(op->dest, 8), op->value, __ATOMIC_SEQ_CST);
        else
            __atomic_store_n((uint32_t *)standin_reach(op->dest, 4), (uint32_t)op->value,
                             __ATOMIC_SEQ_CST);
        break;
    case WAIT:
        while (!reached(op))
            usleep(20);
        break;
    case AFTER:
        wait_ticket(op->other, op->ticket);
        break;
    case RECORD:
        break;
    }
}

static void *work(void *arg)
{
    struct CUstream_st *stream = arg;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->first && !stream->stop)
            pthread_cond_wait(&stream->changed, &stream->lock);
        struct op *op = stream->first;
        if (!op)
            break;
        pthread_mutex_unlock(&stream->lock);
        carry_out(op);
        pthread_mutex_lock(&stream->lock);
        stream->first = op->next;
        if (!stream->first)
            stream->last = &stream->first;
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
        free(op->arguments);
        free(op);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* --- streams --- */

static struct CUstream_st *new_stream(bool blocking)
{
    struct CUstream_st *stream = NULL;
    pthread_mutex_lock(&list_lock);
    if (!streams[0].used)
        streams[0] = (struct CUstream_st){.used = true,
                                          .lock = PTHREAD_MUTEX_INITIALIZER,
                                          .changed = PTHREAD_COND_INITIALIZER,
                                          .last = &streams[0].first};
    for (size_t i = 1; i < STREAMS && !stream; i++)
        if (!streams[i].used)
            stream = &streams[i];
    if (!stream)
        abort();
    *stream = (struct CUstream_st){.used = true,
                                   .blocking = blocking,
                                   .lock = PTHREAD_MUTEX_INITIALIZER,
                                   .changed = PTHREAD_COND_INITIALIZER,
                                   .last = &stream->first};
    pthread_mutex_unlock(&list_lock);
    return stream;
}

static struct CUstream_st *stream_of(CUstream handle)
{
    if (handle == CU_STREAM_PER_THREAD) {
        if (!per_thread)
            per_thread = new_stream(true);
        return per_thread;
    }
    if (handle && handle != CU_STREAM_LEGACY)
        return handle;
    if (!streams[0].used)
        new_stream(false)->used = false; /* makes the legacy one */
    return &streams[0];
}

static void push(struct CUstream_st *stream, const struct op *op)
{
    struct op *copy = malloc(sizeof(*copy));
    *copy = *op;
    copy->next = NULL;
    if (op->arguments) {
        size_t bytes = 0;
        for (unsigned i = 0; standin_arguments(op->kernel, i); i++)
            bytes += (standin_arguments(op->kernel, i) + 15) / 16 * 16;
        copy->arguments = aligned_alloc(16, bytes);
        memcpy(copy->arguments, op->arguments, bytes);
    }
    if (stream->capture) {
        *stream->capture->last = copy;
        stream->capture->last = &copy->next;
        return;
    }
    pthread_mutex_lock(&stream->lock);
    *stream->last = copy;
    stream->last = &copy->next;
    stream->put++;
    if (!stream->running)
        stream->running = pthread_create(&stream->thread, NULL, work, stream) == 0;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void push_after(struct CUstream_st *stream, struct CUstream_st *other)
{
    pthread_mutex_lock(&other->lock);
    const struct op op = {.kind = AFTER, .other = other, .ticket = other->put};
    bool wait = other->done < other->put;
    pthread_mutex_unlock(&other->lock);
    if (wait)
        push(stream, &op);
}

/* The legacy stream follows all blocking ones, and they follow it. */
static CUresult put(CUstream handle, const struct op *op)
{
    struct CUstream_st *stream = stream_of(handle);
    if (standin_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stream == &streams[0]) {
        for (size_t i = 1; i < STREAMS; i++)
            if (streams[i].used && streams[i].blocking && streams[i].capture)
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        for (size_t i = 1; i < STREAMS; i++)
            if (streams[i].used && streams[i].blocking)
                push_after(stream, &streams[i]);
    } else if (stream->blocking && !stream->capture && streams[0].used) {
        push_after(stream, &streams[0]);
    }
    push(stream, op);
    return CUDA_SUCCESS;
}

static CUresult drain(struct CUstream_st *stream)
{
    pthread_mutex_lock(&stream->lock);
    uint64_t ticket = stream->put;
    pthread_mutex_unlock(&stream->lock);
    wait_ticket(stream, ticket);
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags)
{
    if (standin_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *stream = new_stream(!(flags & CU_STREAM_NON_BLOCKING));
    return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
    drain(stream);
    pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    if (stream->running)
        pthread_join(stream->thread, NULL);
    stream->used = false;
    return CUDA_SUCCESS;
}

static CUresult stream_sync(CUstream handle)
{
    struct CUstream_st *stream = stream_of(handle);
    if (standin_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stream->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream == &streams[0])
        for (size_t i = 1; i < STREAMS; i++)
            if (streams[i].used && streams[i].blocking)
                drain(&streams[i]);
    return drain(stream);
}

static CUresult context_sync(void)
{
    if (standin_device() < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    for (size_t i = 0; i < STREAMS; i++)
        if (streams[i].used)
            drain(&streams[i]);
    return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream handle)
{
    struct CUstream_st *stream = stream_of(handle);
    pthread_mutex_lock(&stream->lock);
    bool busy = stream->done < stream->put;
    pthread_mutex_unlock(&stream->lock);
    return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *context)
{
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* --- operations --- */

/* Memory of malloc is read or written before the call returns, unless it is captured. */
static CUresult plain(CUstream handle, CUdeviceptr dest, CUdeviceptr source)
{
    struct CUstream_st *stream = stream_of(handle);
    bool wait = !stream->capture && (!standin_is_gpu(dest) || !standin_is_gpu(source));
    return wait ? drain(stream) : CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr dest, CUdeviceptr source, size_t bytes, CUstream stream)
{
    const struct op op = {.kind = COPY, .dest = dest, .source = source, .bytes = bytes};
    CUresult result = put(stream, &op);
    return result == CUDA_SUCCESS ? plain(stream, dest, source) : result;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    const struct op op = {.kind = COPY_2D, .copy = *copy};
    if (copy->srcMemoryType != CU_MEMORYTYPE_UNIFIED ||
        copy->dstMemoryType != CU_MEMORYTYPE_UNIFIED || copy->srcPitch < copy->WidthInBytes ||
        copy->dstPitch < copy->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = put(stream, &op);
    return result == CUDA_SUCCESS ? plain(stream, copy->dstDevice, copy->srcDevice) : result;
}

static CUresult set(CUdeviceptr dest, unsigned char value, size_t bytes, CUstream stream)
{
    const struct op op = {.kind = SET, .dest = dest, .value = value, .bytes = bytes};
    return standin_is_gpu(dest) ? put(stream, &op) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult host_function(CUstream stream, CUhostFn function, void *user)
{
    const struct op op = {.kind = HOST, .host = function, .user = user};
    return put(stream, &op);
}

static CUresult launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **arguments,
                       void **extra)
{
    unsigned char bytes[4096];
    struct op op = {.kind = KERNEL, .kernel = (int)(intptr_t)function - 1, .arguments = bytes};
    unsigned char *at = bytes;
    (void)shared, (void)extra;
    if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; standin_arguments(op.kernel, i); i++) {
        memcpy(at, arguments[i], standin_arguments(op.kernel, i));
        at += (standin_arguments(op.kernel, i) + 15) / 16 * 16;
    }
    return put(stream, &op);
}

static CUresult write_64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    const struct op op = {.kind = WRITE, .dest = address, .value = value, .width = 8};
    (void)flags;
    return standin_planned("no-memops") ? CUDA_ERROR_NOT_SUPPORTED : put(stream, &op);
}

static CUresult write_32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    const struct op op = {.kind = WRITE, .dest = address, .value = value, .width = 4};
    (void)flags;
    return standin_planned("no-memops") ? CUDA_ERROR_NOT_SUPPORTED : put(stream, &op);
}

static CUresult wait_64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    const struct op op = {
        .kind = WAIT, .dest = address, .value = value, .flags = flags, .width = 8};
    return standin_planned("no-memops") ? CUDA_ERROR_NOT_SUPPORTED : put(stream, &op);
}

static CUresult wait_32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    const struct op op = {
        .kind = WAIT, .dest = address, .value = value, .flags = flags, .width = 4};
    return standin_planned("no-memops") ? CUDA_ERROR_NOT_SUPPORTED : put(stream, &op);
}

/* --- events --- */

static CUresult event_create(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(**event));
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    free(event);
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream handle)
{
    struct CUstream_st *stream = stream_of(handle);
    const struct op op = {.kind = RECORD, .event = event};
    CUresult result = put(handle, &op);
    pthread_mutex_lock(&stream->lock);
    *event =
        (struct CUevent_st){.stream = stream, .ticket = stream->put, .capture = stream->capture};
    pthread_mutex_unlock(&stream->lock);
    return result;
}

static CUresult event_sync(CUevent event)
{
    if (event->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (event->stream)
        wait_ticket(event->stream, event->ticket);
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
    if (!event->stream)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&event->stream->lock);
    bool done = event->stream->done >= event->ticket;
    pthread_mutex_unlock(&event->stream->lock);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* A stream that waits for an event of a capture joins the capture. */
static CUresult wait_event(CUstream handle, CUevent event, unsigned flags)
{
    struct CUstream_st *stream = stream_of(handle);
    (void)flags;
    if (event->capture) {
        stream->capture = event->capture;
        return CUDA_SUCCESS;
    }
    const struct op op = {.kind = AFTER, .other = event->stream, .ticket = event->ticket};
    return event->stream ? put(handle, &op) : CUDA_SUCCESS;
}

/* --- graphs --- */

static CUresult begin_capture(CUstream handle, CUstreamCaptureMode mode)
{
    struct CUstream_st *stream = stream_of(handle);
    (void)mode;
    if (stream == &streams[0] || stream->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream->capture = calloc(1, sizeof(*stream->capture));
    stream->capture->last = &stream->capture->first;
    stream->origin = true;
    return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream handle, CUgraph *graph)
{
    struct CUstream_st *stream = stream_of(handle);
    if (!stream->capture || !stream->origin)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    *graph = stream->capture;
    for (size_t i = 0; i < STREAMS; i++)
        if (streams[i].capture == *graph)
            streams[i].capture = NULL;
    stream->origin = false;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream handle, CUstreamCaptureStatus *status)
{
    struct CUstream_st *stream = stream_of(handle);
    if (stream == &streams[0])
        for (size_t i = 1; i < STREAMS; i++)
            if (streams[i].used && streams[i].blocking && streams[i].capture)
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode current;
    CUstreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* A graph that can be launched is the graph. */
static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = (CUgraphExec)graph;
    return CUDA_SUCCESS;
}

static CUresult graph_launch(CUgraphExec exec, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (const struct op *op = ((CUgraph)exec)->first; op && result == CUDA_SUCCESS; op = op->next)
        result = put(stream, op);
    return result;
}

static CUresult exec_destroy(CUgraphExec exec)
{
    (void)exec;
    return CUDA_SUCCESS;
}

static CUresult graph_destroy(CUgraph graph)
{
    while (graph->first) {
        struct op *op = graph->first;
        graph->first = op->next;
        free(op->arguments);
        free(op);
    }
    free(graph);
    return CUDA_SUCCESS;
}

void *standin_stream_function(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } table[] = {
        {"cuMemcpyAsync", copy},
        {"cuMemcpy2DAsync", copy_2d},
        {"cuMemsetD8Async", set},
        {"cuStreamCreate", stream_create},
        {"cuStreamDestroy", stream_destroy},
        {"cuStreamSynchronize", stream_sync},
        {"cuStreamQuery", stream_query},
        {"cuStreamGetCtx", stream_context},
        {"cuStreamWaitEvent", wait_event},
        {"cuStreamIsCapturing", is_capturing},
        {"cuStreamBeginCapture", begin_capture},
        {"cuStreamEndCapture", end_capture},
        {"cuThreadExchangeStreamCaptureMode", exchange_mode},
        {"cuStreamWriteValue32", write_32},
        {"cuStreamWriteValue64", write_64},
        {"cuStreamWaitValue32", wait_32},
        {"cuStreamWaitValue64", wait_64},
        {"cuLaunchHostFunc", host_function},
        {"cuLaunchKernel", launch},
        {"cuEventCreate", event_create},
        {"cuEventDestroy", event_destroy},
        {"cuEventRecord", event_record},
        {"cuEventSynchronize", event_sync},
        {"cuEventQuery", event_query},
        {"cuGraphInstantiateWithFlags", instantiate},
        {"cuGraphLaunch", graph_launch},
        {"cuGraphExecDestroy", exec_destroy},
        {"cuGraphDestroy", graph_destroy},
        {"cuCtxSynchronize", context_sync},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].function;
    return NULL;
}
