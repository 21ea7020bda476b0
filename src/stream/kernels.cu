/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of on-stream operations. Those that wait for other PEs are launched with one block, so
 * that kernels of PEs that share a GPU never keep each other from running; those with many blocks
 * never wait. Each takes one struct px_stream_work.
 *
 * They use no header of CUDA's but the compiler's own, and only what Turing has: built to PTX and
 * machine code with the library, loaded by the driver that is there. */
#include "src/stream/meet.cuh"

extern "C" __global__ void px_stream_meet(const __grid_constant__ px_stream_work work)
{
    meet(work);
}

/* --- moving --- */

template <class T>
static __device__ __forceinline__ uint64_t copy_as(char *dest, const char *source, uint64_t bytes,
                                                   uint64_t first, uint64_t step)
{
    for (uint64_t i = first; i < bytes / sizeof(T); i += step)
        ((T *)dest)[i] = ((const T *)source)[i];
    return bytes / sizeof(T) * sizeof(T);
}

/* By threads first, first + step ...; as wide as both ends are aligned. */
static __device__ void copy_bytes(char *dest, const char *source, uint64_t bytes, uint64_t first,
                                  uint64_t step)
{
    uint64_t both = (uint64_t)dest | (uint64_t)source, done = 0;
    if (both % 16 == 0)
        done = copy_as<uint4>(dest, source, bytes, first, step);
    else if (both % 8 == 0)
        done = copy_as<word_t>(dest, source, bytes, first, step);
    else if (both % 4 == 0)
        done = copy_as<uint32_t>(dest, source, bytes, first, step);
    copy_as<char>(dest + done, source + done, bytes - done, first, step);
}

/* Members' blocks of `count` bytes, starting with the own one so that no member is asked by all. */
static __device__ void gather(const px_stream_work &work, uint64_t first, uint64_t step)
{
    for (uint32_t k = 0; k < work.blocks; k++) {
        uint32_t i = work.first + (work.rank + k) % work.blocks;
        char *dest = (char *)work.dest + (int64_t)(i - work.first) * work.dest_step;
        const char *source = (const char *)(work.source + (uint64_t)work.delta[i]);
        if (dest != source)
            copy_bytes(dest, source, work.count, first, step);
    }
}

/* Collectives that only move data, all of it in one launch. */
extern "C" __global__ void px_stream_gather(const __grid_constant__ px_stream_work work)
{
    if (work.before)
        meet(work);
    gather(work, (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, (uint64_t)gridDim.x * blockDim.x);
    if (work.after)
        meet(work);
}

template <class T>
static __device__ void spread(const px_stream_work &work, uint64_t first, uint64_t step)
{
    for (uint64_t i = first; i < work.count; i += step)
        *(T *)(work.dest + (int64_t)i * work.dest_step) =
            *(const T *)(work.source + (int64_t)i * work.source_step);
}

/* Elements `step` bytes apart at either end; elements are aligned to their size. */
extern "C" __global__ void px_stream_spread(const __grid_constant__ px_stream_work work)
{
    uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    switch (work.size) {
    case 1:
        return spread<uint8_t>(work, first, step);
    case 2:
        return spread<uint16_t>(work, first, step);
    case 4:
        return spread<uint32_t>(work, first, step);
    case 8:
        return spread<word_t>(work, first, step);
    default:
        return spread<uint4>(work, first, step);
    }
}

extern "C" __global__ void px_stream_copy(const __grid_constant__ px_stream_work work)
{
    copy_bytes((char *)work.dest, (const char *)work.source, work.count,
               (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, (uint64_t)gridDim.x * blockDim.x);
}

/* One thread. */
extern "C" __global__ void px_stream_store(const __grid_constant__ px_stream_work work)
{
    switch (work.size) {
    case 1:
        *(volatile uint8_t *)work.dest = (uint8_t)work.value;
        break;
    case 2:
        *(volatile uint16_t *)work.dest = (uint16_t)work.value;
        break;
    case 4:
        *(volatile uint32_t *)work.dest = (uint32_t)work.value;
        break;
    default:
        *(volatile word_t *)work.dest = work.value;
    }
    __threadfence_system();
}

/* One block: `count` bytes, then the signal. */
extern "C" __global__ void px_stream_signal(const __grid_constant__ px_stream_work work)
{
    copy_bytes((char *)work.dest, (const char *)work.source, work.count, threadIdx.x, blockDim.x);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x)
        return;
    __threadfence_system();
    if (work.what == PX_STREAM_SET)
        atomicExch_system((word_t *)work.word, (word_t)work.value);
    else
        atomicAdd_system((word_t *)work.word, (word_t)work.value);
    __threadfence_system();
}

/* --- waiting --- */

/* Unsigned order is the order of all types, after this. */
static __device__ uint64_t widen(uint64_t word, uint32_t size, uint32_t is_signed)
{
    uint32_t unused = 64 - 8 * size;
    word <<= unused;
    return is_signed ? (uint64_t)((int64_t)word >> unused) ^ 1ull << 63 : word >> unused;
}

static __device__ uint64_t load_word(uint64_t address, uint32_t size)
{
    uint64_t value = 0;
    if (size == 8)
        value = *(volatile word_t *)address;
    else if (size == 4)
        value = *(volatile uint32_t *)address;
    else
        value = *(volatile uint16_t *)address;
    return value;
}

static __device__ bool holds(uint64_t seen, uint64_t value, uint32_t cmp)
{
    switch (cmp) {
    case PX_STREAM_EQ:
        return seen == value;
    case PX_STREAM_NE:
        return seen != value;
    case PX_STREAM_GT:
        return seen > value;
    case PX_STREAM_LE:
        return seen <= value;
    case PX_STREAM_LT:
        return seen < value;
    default:
        return seen >= value;
    }
}

/* One block; `count` elements, of which those are awaited that neither status nor a bit of `skip`
 * excludes. Values are one for all, one each in memory, or one each here (source_step). */
extern "C" __global__ void px_stream_await(const __grid_constant__ px_stream_work work)
{
    for (uint64_t i = threadIdx.x; i < work.count; i += blockDim.x) {
        uint64_t value = work.source_step ? (uint64_t)work.delta[i] : work.value;
        if (work.status && ((const int *)work.status)[i])
            continue;
        if (i < 64 && work.skip >> i & 1)
            continue;
        if (work.values)
            value = load_word(work.values + i * work.size, work.size);
        value = widen(value, work.size, work.is_signed);
        while (!holds(widen(load_word(work.word + i * work.size, work.size), work.size,
                            work.is_signed),
                      value, work.what))
            ;
        __threadfence_system();
    }
    __syncthreads();
}
