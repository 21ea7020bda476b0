/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of kernels to the proxy. A request takes a number from the head of the ring, one atomic for
 * all threads of a warp that ask at the same time; waits until its slot is free; and is written in four
 * stores of 16 bytes, which the bus can join to one transaction. Each store carries the number, so no
 * fence stands between them.
 *
 * A slot is free again when the proxy is through with its request and, where somebody waits for the
 * answer, when that was read. */
#define NVSHMEM_KERNELS 0 /* only the state is wanted */
#include <nvshmemx.h>

#include "nvshmem_device/remote.h"

namespace nvshmemi
{

struct ask {
    void *dest;
    const void *source;
    uint64_t bytes, value, compare;
    int pe, what, operation;
};

static __device__ uint64_t take_number(nvshmemi_ring *ring)
{
    unsigned threads = __activemask(), lane = thread_in_block() % 32;
    unsigned long long first = 0;
    int leader = __ffs((int)threads) - 1;
    if ((int)lane == leader)
        first = atomicAdd((unsigned long long *)&ring->head, (unsigned long long)__popc(threads));
    first = __shfl_sync(threads, first, leader);
    return first + __popc(threads & ((1u << lane) - 1));
}

static __device__ void rest()
{
#if __CUDA_ARCH__ >= 700
    __nanosleep(100);
#endif
}

/* `seen` spares the way to host memory while there is room. */
static __device__ void await_done(nvshmemi_ring *ring, uint64_t count)
{
    volatile uint64_t *seen = &ring->seen;
    if ((int64_t)(*seen - count) >= 0)
        return;
    uint64_t done;
    while ((int64_t)((done = load_acquire(ring->done)) - count) < 0)
        rest();
    atomicMax((unsigned long long *)seen, (unsigned long long)done);
}

static __device__ void await_slot(nvshmemi_ring *ring, uint64_t number)
{
    if (number >= NVSHMEMI_RING_SLOTS)
        await_done(ring, number - NVSHMEMI_RING_SLOTS + 1);
    while (*(volatile uint32_t *)&ring->waiting[number % NVSHMEMI_RING_SLOTS])
        rest();
}

static __device__ void write_request(nvshmemi_request *request, const ask &ask, uint32_t turn)
{
    uint64_t dest = (uint64_t)ask.dest, source = (uint64_t)ask.source;
    uint32_t what = (uint32_t)ask.what | (uint32_t)ask.operation << 8;
    uint4 *chunk = (uint4 *)request;
    store(chunk + 0, make_uint4((uint32_t)dest, (uint32_t)(dest >> 32), (uint32_t)ask.pe, turn));
    store(chunk + 1, make_uint4((uint32_t)source, (uint32_t)(source >> 32), what, turn));
    store(chunk + 2,
          make_uint4((uint32_t)ask.value, (uint32_t)(ask.value >> 32), (uint32_t)ask.bytes, turn));
    store(chunk + 3, make_uint4((uint32_t)ask.compare, (uint32_t)(ask.compare >> 32),
                                (uint32_t)(ask.bytes >> 32), turn));
}

static __device__ void tell_proxy(const ask &ask)
{
    nvshmemi_ring *ring = state().ring;
    uint64_t number = take_number(ring);
    await_slot(ring, number);
    write_request(ring->requests + number % NVSHMEMI_RING_SLOTS, ask, (uint32_t)(number + 1));
}

static __device__ uint64_t ask_proxy(const ask &ask)
{
    nvshmemi_ring *ring = state().ring;
    uint64_t number = take_number(ring);
    unsigned slot = number % NVSHMEMI_RING_SLOTS;
    await_slot(ring, number);
    atomicExch(&ring->waiting[slot], 1u);
    fence_system(); /* the slot is marked before the proxy can be through with it */
    write_request(ring->requests + slot, ask, (uint32_t)(number + 1));
    const nvshmemi_answer *answer = ring->answers + slot;
    while (load_acquire(&answer->turn) != number + 1)
        ;
    uint64_t value = load(&answer->value);
    atomicExch(&ring->waiting[slot], 0u);
    return value;
}

/* What the proxy is to read was written by these threads. */
__device__ void remote_put(void *dest, const void *source, size_t bytes, int pe, bool wait)
{
    ask request = {dest, source, bytes, 0, 0, pe, NVSHMEMI_ASK_PUT, wait};
    fence_system();
    if (wait)
        (void)ask_proxy(request);
    else
        tell_proxy(request);
}

__device__ void remote_get(void *dest, const void *source, size_t bytes, int pe, bool wait)
{
    ask request = {dest, source, bytes, 0, 0, pe, NVSHMEMI_ASK_GET, wait};
    fence_system();
    if (wait)
        (void)ask_proxy(request);
    else
        tell_proxy(request);
}

__device__ void remote_value(void *dest, uint64_t value, unsigned bytes, int pe)
{
    tell_proxy(ask{dest, nullptr, bytes, value, 0, pe, NVSHMEMI_ASK_VALUE, 0});
}

__device__ uint64_t remote_read(const void *source, unsigned bytes, int pe)
{
    return ask_proxy(ask{nullptr, source, bytes, 0, 0, pe, NVSHMEMI_ASK_READ, 0});
}

__device__ uint64_t remote_amo(void *dest, int operation, uint64_t value, uint64_t compare,
                               unsigned bytes, int pe, bool wait)
{
    ask request = {
        dest, nullptr, bytes, value, compare, pe, NVSHMEMI_ASK_AMO, operation | (wait ? 0x80 : 0)};
    if (wait)
        return ask_proxy(request);
    tell_proxy(request);
    return 0;
}

__device__ void remote_fence()
{
    tell_proxy(ask{nullptr, nullptr, 0, 0, 0, 0, NVSHMEMI_ASK_FENCE, 0});
}

__device__ void remote_quiet()
{
    (void)ask_proxy(ask{nullptr, nullptr, 0, 0, 0, 0, NVSHMEMI_ASK_QUIET, 0});
}

/* Without a proxy the kernel ends with an error, which the host sees. */
__device__ void remote_exit(int status)
{
    if (state().ring)
        tell_proxy(ask{nullptr, nullptr, 0, (uint64_t)(int64_t)status, 0, 0, NVSHMEMI_ASK_EXIT, 0});
    else
        __trap();
}

} // namespace nvshmemi
