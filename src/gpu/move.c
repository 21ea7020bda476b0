/* SPDX-License-Identifier: BSD-3-Clause */
/* Host-initiated operations on GPU memory. What this PE's GPU can map: copies and, for atomics, a kernel of one thread, all on
 * one stream of ours, so that they happen in the order of issue. Blocking calls wait for the stream,
 * nbi ones leave that to quiet. Signals are atomics behind their data.
 *
 * Copies may name memory of the host or of any device: the driver knows addresses. GPU memory of PEs
 * that are not mapped is far.c's. */
#include "config.h"
#include "src/gpu/move.h"

#if PX_HAVE_CUDA
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"
#include "src/gpu/amo_ptx.h"
#include "src/gpu/far.h"
#include "src/transport/control.h"
#include "src/transport/wait.h"

static struct {
    CUmodule module;
    CUfunction amo;
    uint64_t *result; /* pinned: the kernel writes the old value here */
    pthread_mutex_t amo_lock;
    atomic_bool pending; /* something was left to quiet */
    struct px_gpu_hooks hooks;
    struct px_peers before; /* what we stand in front of */
    intptr_t *nowhere;      /* [n_pes] PX_NOT_MAPPED, this PE too */
} mover = {.amo_lock = PTHREAD_MUTEX_INITIALIZER};

static _Noreturn void failed(const char *what, const struct px_error *error)
{
    px_fatal(1, "%s on %s: %s", what, px_gpu.name, error->text);
}

static void enter(struct px_gpu_visit *visit, const char *what)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_gpu_enter(visit, &error) != PX_OK)
        failed(what, &error);
}

static void wait_stream(const char *what)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_cu(&error, cuStreamSynchronize(px_gpu.stream)) != PX_OK)
        failed(what, &error);
}

static void start_copy(void *dest, const void *source, size_t bytes)
{
    struct px_error error = PX_ERROR_INIT;
    if (bytes && dest != source &&
        px_cu(&error, cuMemcpyAsync((CUdeviceptr)(uintptr_t)dest, (CUdeviceptr)(uintptr_t)source,
                                    bytes, px_gpu.stream)) != PX_OK)
        px_fatal(1, "copying %zu bytes from %p to %p on %s: %s", bytes, source, dest, px_gpu.name,
                 error.text);
}

void px_gpu_copy(void *dest, const void *source, size_t bytes)
{
    struct px_gpu_visit visit;
    enter(&visit, "copying");
    start_copy(dest, source, bytes);
    wait_stream("copying");
    px_gpu_leave(&visit);
}

void px_gpu_clear(void *address, size_t bytes)
{
    struct px_gpu_visit visit;
    struct px_error error = PX_ERROR_INIT;
    enter(&visit, "clearing");
    if (bytes && px_cu(&error, cuMemsetD8Async((CUdeviceptr)(uintptr_t)address, 0, bytes,
                                               px_gpu.stream)) != PX_OK)
        failed("clearing", &error);
    wait_stream("clearing");
    px_gpu_leave(&visit);
}

static const struct px_transport_ops gpu_ops;

/* --- where an address is --- */

/* Who reaches a symmetric address of a PE: this process or its GPU, the network alone (control areas
 * are host memory), or the agent of the PE. */
enum way { MAPPED, BY_NETWORK, BY_AGENT };

static enum way way_to(uint32_t pe, const void *symmetric)
{
    if (px_gpu_holds(symmetric))
        return px_gpu.delta[pe] == PX_NOT_MAPPED ? BY_AGENT : MAPPED;
    return px_peers.control_delta[pe] == PX_NOT_MAPPED ? BY_NETWORK : MAPPED;
}

/* The same for data, whose other end counts too: the network reaches symmetric memory of both kinds and
 * ordinary host memory, not what a program allocated on the GPU by itself. */
static enum way way_of_data(uint32_t pe, const void *symmetric, const void *local)
{
    enum way way = way_to(pe, symmetric);
    if (way == BY_AGENT && px_gpu.direct && px_peers.control_delta[pe] == PX_NOT_MAPPED &&
        (px_gpu_holds(local) || px_gpu_far_is_host(local)))
        return BY_NETWORK;
    return way;
}

/* Of a mapped one. */
static void *place(uint32_t pe, const void *symmetric)
{
    intptr_t delta = px_gpu_holds(symmetric) ? px_gpu.delta[pe] : px_peers.control_delta[pe];
    return (void *)((uintptr_t)symmetric + (uintptr_t)delta);
}

static void copy(void *dest, const void *source, size_t bytes, bool wait)
{
    struct px_gpu_visit visit;
    if (!bytes)
        return;
    enter(&visit, "copying");
    start_copy(dest, source, bytes);
    if (wait)
        wait_stream("copying");
    else
        atomic_store_explicit(&mover.pending, true, memory_order_release);
    px_gpu_leave(&visit);
}

static void put(uint32_t pe, void *remote, const void *source, size_t bytes, bool wait)
{
    enum way way = way_of_data(pe, remote, source);
    if (way == BY_AGENT)
        px_gpu_far_put(pe, remote, source, bytes);
    else if (way == BY_NETWORK)
        (wait ? mover.before.remote->put : mover.before.remote->put_nbi)(mover.before.remote_self,
                                                                         pe, remote, source, bytes);
    else if (px_gpu_holds(remote) || px_gpu_holds(source))
        copy(place(pe, remote), source, bytes, wait);
    else
        px_copy(place(pe, remote), source, bytes);
}

static void get(uint32_t pe, void *dest, const void *remote, size_t bytes, bool wait)
{
    enum way way = way_of_data(pe, remote, dest);
    if (way == BY_AGENT)
        (wait ? px_gpu_far_get : px_gpu_far_get_nbi)(pe, dest, remote, bytes);
    else if (way == BY_NETWORK)
        (wait ? mover.before.remote->get : mover.before.remote->get_nbi)(mover.before.remote_self,
                                                                         pe, dest, remote, bytes);
    else if (px_gpu_holds(remote) || px_gpu_holds(dest))
        copy(dest, place(pe, remote), bytes, wait);
    else
        px_copy(dest, place(pe, remote), bytes);
}

/* --- atomics --- */

px_status px_gpu_amo_start(void *word, const struct px_amo *amo, uint64_t *result, CUstream stream,
                           struct px_error *error)
{
    uint64_t address = (uintptr_t)word, operand = amo->operand, compare = amo->compare;
    uint64_t answer = (uintptr_t)result;
    uint32_t op = amo->op, width = amo->width;
    void *arguments[] = {&address, &operand, &compare, &answer, &op, &width};
    return px_cu(error, cuLaunchKernel(mover.amo, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void launch(void *word, const struct px_amo *amo, uint64_t *result)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_gpu_amo_start(word, amo, result, px_gpu.stream, &error) != PX_OK)
        failed("an atomic operation", &error);
}

static uint64_t amo_on_gpu(void *word, const struct px_amo *amo)
{
    struct px_gpu_visit visit;
    pthread_mutex_lock(&mover.amo_lock);
    enter(&visit, "an atomic operation");
    launch(word, amo, mover.result);
    wait_stream("an atomic operation");
    uint64_t old = *(volatile uint64_t *)mover.result;
    px_gpu_leave(&visit);
    pthread_mutex_unlock(&mover.amo_lock);
    return old;
}

static uint64_t gpu_amo(void *self, uint32_t pe, void *remote, const struct px_amo *amo)
{
    enum way way = way_to(pe, remote);
    (void)self;
    if (way == BY_AGENT)
        return px_gpu_far_amo(pe, remote, amo);
    if (way == BY_NETWORK)
        return mover.before.remote->amo(mover.before.remote_self, pe, remote, amo);
    void *word = place(pe, remote);
    uint64_t old = px_gpu_holds(remote) ? amo_on_gpu(word, amo) : px_amo_apply(word, amo);
    px_wake_pe(pe);
    return old;
}

/* The result may lie in GPU memory too. */
static void gpu_amo_nbi(void *self, uint32_t pe, void *remote, const struct px_amo *amo,
                        void *result)
{
    struct px_amo fetching = *amo;
    fetching.fetching = true;
    if (way_to(pe, remote) == BY_AGENT) {
        px_gpu_far_amo_nbi(pe, remote, amo, result);
        return;
    }
    uint64_t old = gpu_amo(self, pe, remote, &fetching);
    px_gpu_copy(result, &old, amo->width);
}

/* --- the table --- */

static void gpu_put(void *self, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    (void)self;
    put(pe, remote, source, bytes, true);
}

static void gpu_put_nbi(void *self, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    (void)self;
    put(pe, remote, source, bytes, false);
}

static void gpu_get(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    (void)self;
    get(pe, dest, remote, bytes, true);
}

static void gpu_get_nbi(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    (void)self;
    get(pe, dest, remote, bytes, false);
}

static void signal_on_gpu(uint32_t pe, uint64_t *signal, uint64_t value, enum px_amo_op op,
                          bool wait)
{
    struct px_gpu_visit visit;
    const struct px_amo amo = {.op = op, .width = 8, .operand = value};
    enter(&visit, "a signal");
    launch(place(pe, signal), &amo, NULL);
    if (wait)
        wait_stream("a signal");
    else
        atomic_store_explicit(&mover.pending, true, memory_order_release);
    px_gpu_leave(&visit);
}

/* Data that goes another way than its signal must have arrived before that sets out. */
static void signal_apart(void *self, uint32_t pe, uint64_t *signal, uint64_t value,
                         enum px_amo_op op)
{
    const struct px_amo amo = {.op = op, .width = 8, .operand = value};
    gpu_ops.quiet_pe(self, pe);
    (void)gpu_amo(self, pe, signal, &amo); /* the old value is not asked for */
}

static void gpu_put_signal(void *self, uint32_t pe, void *remote, const void *source, size_t bytes,
                           uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi)
{
    const struct px_amo amo = {.op = op, .width = 8, .operand = value};
    enum way way = way_to(pe, signal), data = bytes ? way_of_data(pe, remote, source) : way;
    if (way == data && way == BY_NETWORK) {
        mover.before.remote->put_signal(mover.before.remote_self, pe, remote, source, bytes, signal,
                                        value, op, nbi);
        return;
    }
    if (bytes)
        put(pe, remote, source, bytes, false);
    if (way != data)
        signal_apart(self, pe, signal, value, op);
    else if (way == BY_AGENT)
        (void)px_gpu_far_amo(pe, signal, &amo);
    else if (px_gpu_holds(signal))
        signal_on_gpu(pe, signal, value, op, !nbi);
    else
        (void)px_amo_apply(place(pe, signal), &amo);
    px_wake_pe(pe);
}

/* One stream keeps the order, and so does an agent; but not agent and network. */
static void gpu_fence(void *self)
{
    (void)self;
    if (px_gpu.direct)
        px_gpu_far_quiet();
    if (mover.before.any_remote)
        mover.before.remote->fence(mover.before.remote_self);
}

static void quiet_stream(void)
{
    struct px_gpu_visit visit;
    if (!atomic_exchange_explicit(&mover.pending, false, memory_order_acq_rel))
        return;
    enter(&visit, "quiet");
    wait_stream("quiet");
    px_gpu_leave(&visit);
}

static void gpu_quiet(void *self)
{
    (void)self;
    quiet_stream();
    if (px_gpu.far)
        px_gpu_far_quiet();
    if (mover.before.any_remote)
        mover.before.remote->quiet(mover.before.remote_self);
}

static void gpu_quiet_pe(void *self, uint32_t pe)
{
    (void)self;
    quiet_stream();
    if (px_gpu.far)
        px_gpu_far_quiet_pe(pe);
    if (mover.before.any_remote)
        mover.before.remote->quiet_pe(mover.before.remote_self, pe);
}

static void gpu_progress(void *self)
{
    (void)self;
    if (mover.before.any_remote)
        mover.before.remote->progress(mover.before.remote_self);
}

static void gpu_send_note(void *self, uint32_t pe, const void *note)
{
    (void)self;
    mover.before.remote->send_note(mover.before.remote_self, pe, note);
}

static px_status gpu_add_memory(void *self, size_t offset, size_t length, struct px_error *error)
{
    (void)self;
    (void)offset;
    (void)length;
    return mover.hooks.grown(error);
}

/* The peers' mappings go with px_gpu_window_reset. */
static void gpu_drop_memory(void *self, size_t offset)
{
    (void)offset;
    gpu_quiet(self);
    mover.hooks.dropped();
}

static uint64_t gpu_connections(void *self)
{
    (void)self;
    return mover.before.any_remote ? mover.before.remote->connections(mover.before.remote_self) : 0;
}

/* Stands in front of others, so it is in no list and is never probed, opened or connected. */
static const struct px_transport_ops gpu_ops = {
    .name = "gpu",
    .only_by_name = true,
    .add_memory = gpu_add_memory,
    .drop_memory = gpu_drop_memory,
    .put = gpu_put,
    .put_nbi = gpu_put_nbi,
    .get = gpu_get,
    .get_nbi = gpu_get_nbi,
    .amo = gpu_amo,
    .amo_nbi = gpu_amo_nbi,
    .put_signal = gpu_put_signal,
    .send_note = gpu_send_note,
    .fence = gpu_fence,
    .quiet = gpu_quiet,
    .quiet_pe = gpu_quiet_pe,
    .progress = gpu_progress,
    .connections = gpu_connections,
};

/* --- open and close --- */

static px_status load(struct px_error *error)
{
    px_status status = px_cu(error, cuModuleLoadData(&mover.module, px_gpu_amo_ptx));
    if (status == PX_OK)
        status = px_cu(error, cuModuleGetFunction(&mover.amo, mover.module, "px_amo"));
    if (status == PX_OK)
        status = px_cu(error, cuMemHostAlloc((void **)&mover.result, sizeof(*mover.result),
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    return status;
}

static void unload(void)
{
    if (mover.result)
        (void)px_cuda.cuMemFreeHost(mover.result); /* ours */
    if (mover.module)
        (void)px_cuda.cuModuleUnload(mover.module);
    mover.result = NULL;
    mover.module = NULL;
}

px_status px_gpu_move_open(struct px_error *error)
{
    struct px_gpu_visit visit;
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = load(error);
    mover.nowhere = status == PX_OK ? malloc(px_peers.n_pes * sizeof(*mover.nowhere)) : NULL;
    if (status == PX_OK && !mover.nowhere)
        status = px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", px_peers.n_pes);
    if (status != PX_OK)
        unload();
    px_gpu_leave(&visit);
    if (status != PX_OK)
        return status;
    for (uint32_t pe = 0; pe < px_peers.n_pes; pe++)
        mover.nowhere[pe] = PX_NOT_MAPPED;
    mover.before = px_peers;
    px_gpu_far.network = px_peers.remote;
    px_gpu_far.network_self = px_peers.remote_self;
    px_peers.delta = mover.nowhere;
    px_peers.remote = &gpu_ops;
    px_peers.any_remote = true;
    return PX_OK;
}

void px_gpu_move_on_growth(const struct px_gpu_hooks *hooks)
{
    mover.hooks = *hooks;
}

void px_gpu_move_close(void)
{
    struct px_gpu_visit visit;
    if (!mover.nowhere)
        return;
    px_peers.delta = mover.before.delta;
    px_peers.remote = mover.before.remote;
    px_peers.any_remote = mover.before.any_remote;
    free(mover.nowhere);
    mover.nowhere = NULL;
    if (px_gpu_enter(&visit, NULL) != PX_OK)
        return;
    unload();
    px_gpu_leave(&visit);
}
#endif
