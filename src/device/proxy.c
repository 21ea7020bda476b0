/* SPDX-License-Identifier: BSD-3-Clause */
/* The proxy: takes requests of kernels from the ring in order and carries them out with the library's
 * own put, get and atomics, which know the network and GPU memory. A request that is waited for is
 * answered when it is complete; the others are issued without waiting, and fence and quiet, which are
 * requests too, hold for all before them.
 *
 * Requests come from the program's own kernels, which can write anywhere; still nothing is done for a
 * PE or an operation that does not exist. */
#include "config.h"
#include "src/device/private.h"

#if PX_HAVE_CUDA
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "src/device/device.h"
#include "src/diag/log.h"
#include "src/gpu/gpu.h"
#include "src/transport/control.h"
#include "src/transport/move.h"

#define SPINS   4000
#define REST_NS 20000

static struct {
    bool running;
    pthread_t thread;
    _Atomic bool stop;
    void *pinned; /* requests, answers and the count of those done, for both sides */
    struct nvshmemi_request *requests;
    struct nvshmemi_answer *answers;
    _Atomic uint64_t *done;
    CUdeviceptr ring;
} proxy;

struct ask {
    void *dest;
    const void *source;
    uint64_t bytes, value, compare;
    uint32_t pe, what, operation;
    bool wait;
};

/* A request has come when all its chunks carry its number. */
static bool arrived(const struct nvshmemi_request *request, uint32_t turn)
{
    for (int i = 0; i < 4; i++)
        if (__atomic_load_n(&request->chunk[i].turn, __ATOMIC_ACQUIRE) != turn)
            return false;
    return true;
}

static uint64_t join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

static struct ask read_request(const struct nvshmemi_request *request)
{
    const uint32_t *a = request->chunk[0].word, *b = request->chunk[1].word,
                   *c = request->chunk[2].word, *d = request->chunk[3].word;
    struct ask ask = {
        .dest = (void *)(uintptr_t)join(a[0], a[1]),
        .source = (const void *)(uintptr_t)join(b[0], b[1]),
        .pe = a[2],
        .what = b[2] & 0xff,
        .operation = b[2] >> 8 & 0x7f,
        .wait = b[2] >> 15 & 1,
        .value = join(c[0], c[1]),
        .bytes = join(c[2], d[2]),
        .compare = join(d[0], d[1]),
    };
    if (ask.what == NVSHMEMI_ASK_PUT || ask.what == NVSHMEMI_ASK_GET)
        ask.wait = ask.operation & 1;
    return ask;
}

static uint64_t amo(const struct ask *ask)
{
    const struct px_amo amo = {
        .op = (enum px_amo_op)ask->operation,
        .width = (uint8_t)ask->bytes,
        .fetching = ask->wait,
        .operand = ask->value,
        .compare = ask->compare,
    };
    return px_amo(ask->pe, ask->dest, &amo);
}

static uint64_t read_value(const struct ask *ask)
{
    uint64_t value = 0;
    px_get(ask->pe, &value, ask->source, ask->bytes);
    return value;
}

static void check(const struct ask *ask)
{
    bool small = ask->what == NVSHMEMI_ASK_VALUE || ask->what == NVSHMEMI_ASK_READ;
    if (ask->what == 0 || ask->what >= NVSHMEMI_ASK_LAST)
        px_fatal(1,
                 "a kernel asked for operation %u: device code of another release, or memory was "
                 "overwritten",
                 ask->what);
    if (ask->pe >= px_peers.n_pes)
        px_fatal(1, "a kernel named PE %d; there are PEs 0 to %u", (int)ask->pe,
                 px_peers.n_pes - 1);
    if ((small && ask->bytes > 8) ||
        (ask->what == NVSHMEMI_ASK_AMO &&
         ((ask->bytes != 4 && ask->bytes != 8) || ask->operation >= PX_AMO_COUNT)))
        px_fatal(1, "a kernel asked for a value of %llu bytes", (unsigned long long)ask->bytes);
}

static uint64_t carry_out(const struct ask *ask)
{
    check(ask);
    switch (ask->what) {
    case NVSHMEMI_ASK_PUT:
        (ask->wait ? px_put : px_put_nbi)(ask->pe, ask->dest, ask->source, ask->bytes);
        return 0;
    case NVSHMEMI_ASK_GET:
        (ask->wait ? px_get : px_get_nbi)(ask->pe, ask->dest, ask->source, ask->bytes);
        return 0;
    case NVSHMEMI_ASK_VALUE:
        px_put(ask->pe, ask->dest, &ask->value, ask->bytes);
        return 0;
    case NVSHMEMI_ASK_READ:
        return read_value(ask);
    case NVSHMEMI_ASK_AMO:
        return amo(ask);
    case NVSHMEMI_ASK_FENCE:
        px_fence();
        return 0;
    case NVSHMEMI_ASK_EXIT:
        nvshmem_global_exit((int)ask->value);
        return 0;
    default:
        px_quiet();
        return 0;
    }
}

static bool answered(const struct ask *ask)
{
    return ask->wait || ask->what == NVSHMEMI_ASK_READ || ask->what == NVSHMEMI_ASK_QUIET;
}

static bool serve_one(uint64_t number)
{
    uint64_t slot = number % NVSHMEMI_RING_SLOTS;
    if (!arrived(&proxy.requests[slot], (uint32_t)(number + 1)))
        return false;
    struct ask ask = read_request(&proxy.requests[slot]);
    uint64_t value = carry_out(&ask);
    if (answered(&ask)) {
        proxy.answers[slot].value = value;
        __atomic_store_n(&proxy.answers[slot].turn, number + 1, __ATOMIC_RELEASE);
    }
    atomic_store_explicit(proxy.done, number + 1, memory_order_release);
    return true;
}

static void *serve(void *unused)
{
    const struct timespec rest = {.tv_nsec = REST_NS};
    uint64_t number = 0;
    unsigned idle = 0;
    (void)unused;
    px_cuda.cuCtxSetCurrent(px_gpu.context);
    for (;;) {
        if (serve_one(number)) {
            number++;
            idle = 0;
            continue;
        }
        if (atomic_load(&proxy.stop))
            return NULL;
        if (++idle > SPINS)
            nanosleep(&rest, NULL);
        else if (idle % 64 == 0)
            sched_yield();
    }
}

static px_status make_ring(struct px_error *error)
{
    size_t requests = sizeof(*proxy.requests) * NVSHMEMI_RING_SLOTS,
           answers = sizeof(*proxy.answers) * NVSHMEMI_RING_SLOTS;
    CUdeviceptr seen; /* the same memory as kernels address it */
    px_status status =
        px_cu(error, cuMemHostAlloc(&proxy.pinned, requests + answers + PX_CACHE_LINE,
                                    CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    if (status == PX_OK)
        status = px_cu(error, cuMemHostGetDevicePointer(&seen, proxy.pinned, 0));
    if (status == PX_OK)
        status = px_cu(error, cuMemAlloc(&proxy.ring, sizeof(struct nvshmemi_ring)));
    if (status != PX_OK)
        return status;
    memset(proxy.pinned, 0, requests + answers + PX_CACHE_LINE);
    proxy.requests = proxy.pinned;
    proxy.answers = (void *)((char *)proxy.pinned + requests);
    proxy.done = (void *)((char *)proxy.pinned + requests + answers);
    static struct nvshmemi_ring ring; /* too large for a stack */
    memset(&ring, 0, sizeof(ring));
    ring.requests = (void *)(uintptr_t)seen;
    ring.answers = (void *)(uintptr_t)(seen + requests);
    ring.done = (const void *)(uintptr_t)(seen + requests + answers);
    status = px_cu(error, cuMemcpyAsync(proxy.ring, (CUdeviceptr)(uintptr_t)&ring, sizeof(ring),
                                        px_gpu.stream));
    return status == PX_OK ? px_cu(error, cuStreamSynchronize(px_gpu.stream)) : status;
}

/* Signals are the program's. */
static px_status start_thread(struct px_error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&proxy.thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return px_error_set(error, PX_ERR_SYSTEM, "no thread for the proxy of kernels: %s",
                            strerror(code));
    proxy.running = true;
    return PX_OK;
}

px_status px_proxy_open(struct nvshmemi_ring **ring, struct px_error *error)
{
    atomic_store(&proxy.stop, false);
    px_status status = make_ring(error);
    if (status == PX_OK)
        status = start_thread(error);
    if (status == PX_OK)
        *ring = (struct nvshmemi_ring *)(uintptr_t)proxy.ring;
    return status;
}

void px_proxy_close(void)
{
    struct px_gpu_visit visit;
    if (proxy.running) {
        atomic_store(&proxy.stop, true);
        pthread_join(proxy.thread, NULL);
        proxy.running = false;
    }
    if (proxy.pinned && px_gpu_enter(&visit, NULL) == PX_OK) {
        (void)px_cuda.cuMemFreeHost(proxy.pinned); /* nothing can be done about it */
        (void)px_cuda.cuMemFree(proxy.ring);
        px_gpu_leave(&visit);
    }
    proxy.pinned = NULL;
    proxy.ring = 0;
}
#endif
