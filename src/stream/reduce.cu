/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions on streams: see kernels.cu. A file, and a module of the GPU, of its own: it is large, and
 * programs that never reduce do not load it. */
#include "src/stream/meet.cuh"

/* enum px_op of src/coll/dtype.h, which reduce.c compares. */
enum { OP_AND, OP_OR, OP_XOR, OP_MAX, OP_MIN, OP_SUM, OP_PROD };

/* half and bfloat16 are computed in float and rounded to nearest even after each step. */
struct half_t {
    uint16_t bits;
};
struct bfloat_t {
    uint16_t bits;
};

template <class T> struct number {
    typedef T wide;
    static __device__ T up(T value)
    {
        return value;
    }
    static __device__ T down(T value)
    {
        return value;
    }
};

template <> struct number<half_t> {
    typedef float wide;
    static __device__ float up(half_t value)
    {
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
        return wide;
    }
    static __device__ half_t down(float wide)
    {
        half_t value;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(value.bits) : "f"(wide));
        return value;
    }
};

template <> struct number<bfloat_t> {
    typedef float wide;
    static __device__ float up(bfloat_t value)
    {
        return __uint_as_float((uint32_t)value.bits << 16);
    }
    static __device__ bfloat_t down(float wide)
    {
        uint32_t bits = __float_as_uint(wide);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            return {(uint16_t)(bits >> 16 | 0x40)};
        return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
    }
};

template <int op, class W> static __device__ __forceinline__ W combine(W a, W b)
{
    if constexpr (op == OP_AND)
        return (W)(a & b);
    else if constexpr (op == OP_OR)
        return (W)(a | b);
    else if constexpr (op == OP_XOR)
        return (W)(a ^ b);
    else if constexpr (op == OP_MAX)
        return b > a ? b : a;
    else if constexpr (op == OP_MIN)
        return b < a ? b : a;
    else if constexpr (op == OP_SUM)
        return (W)(a + b);
    else
        return (W)(a * b);
}

/* In the order of the members, so that all get the same bits. */
template <class T, int op>
static __device__ __forceinline__ T reduce_one(const px_stream_work &work, uint64_t i)
{
    const T *source = (const T *)(work.source + (uint64_t)work.delta[0]);
    T result = source[i];
#pragma unroll 1
    for (uint32_t m = 1; m < work.members; m++) {
        const T *other = (const T *)(work.source + (uint64_t)work.delta[m]);
        result = number<T>::down(
            combine<op, typename number<T>::wide>(number<T>::up(result), number<T>::up(other[i])));
    }
    return result;
}

/* A launch that meets is of one block and holds all its results until all members have read. */
template <class T, int op> static __device__ void reduce(const px_stream_work &work)
{
    T *dest = (T *)work.dest;
    if (!work.after) {
        uint64_t step = (uint64_t)gridDim.x * blockDim.x;
#pragma unroll 2
        for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < work.count;
             i += step)
            dest[i] = reduce_one<T, op>(work, i);
        return;
    }
    T held[PX_STREAM_HELD];
    meet(work);
#pragma unroll
    for (uint32_t k = 0; k < PX_STREAM_HELD; k++)
        if (k * blockDim.x + threadIdx.x < work.count)
            held[k] = reduce_one<T, op>(work, k * blockDim.x + threadIdx.x);
    meet(work);
#pragma unroll
    for (uint32_t k = 0; k < PX_STREAM_HELD; k++)
        if (k * blockDim.x + threadIdx.x < work.count)
            dest[k * blockDim.x + threadIdx.x] = held[k];
}

template <class T> static __device__ void reduce_bits(const px_stream_work &work)
{
    if (work.op == OP_AND)
        reduce<T, OP_AND>(work);
    else if (work.op == OP_OR)
        reduce<T, OP_OR>(work);
    else
        reduce<T, OP_XOR>(work);
}

template <class T> static __device__ void reduce_order(const px_stream_work &work)
{
    if (work.op == OP_MAX)
        reduce<T, OP_MAX>(work);
    else
        reduce<T, OP_MIN>(work);
}

template <class T> static __device__ void reduce_sums(const px_stream_work &work)
{
    if (work.op == OP_SUM)
        reduce<T, OP_SUM>(work);
    else
        reduce<T, OP_PROD>(work);
}

/* Bits, sums and products of integers are those of the unsigned type, as they wrap round. */
template <class U, class S> static __device__ void reduce_integer(const px_stream_work &work)
{
    if (work.op <= OP_XOR)
        reduce_bits<U>(work);
    else if (work.op >= OP_SUM)
        reduce_sums<U>(work);
    else if (work.is_signed)
        reduce_order<S>(work);
    else
        reduce_order<U>(work);
}

template <class T> static __device__ void reduce_real(const px_stream_work &work)
{
    if (work.op >= OP_SUM)
        reduce_sums<T>(work);
    else
        reduce_order<T>(work);
}

extern "C" __global__ void px_stream_reduce_8(const __grid_constant__ px_stream_work work)
{
    reduce_integer<uint8_t, int8_t>(work);
}

extern "C" __global__ void px_stream_reduce_16(const __grid_constant__ px_stream_work work)
{
    reduce_integer<uint16_t, int16_t>(work);
}

extern "C" __global__ void px_stream_reduce_32(const __grid_constant__ px_stream_work work)
{
    reduce_integer<uint32_t, int32_t>(work);
}

extern "C" __global__ void px_stream_reduce_64(const __grid_constant__ px_stream_work work)
{
    reduce_integer<word_t, long long>(work);
}

extern "C" __global__ void px_stream_reduce_float(const __grid_constant__ px_stream_work work)
{
    reduce_real<float>(work);
}

extern "C" __global__ void px_stream_reduce_double(const __grid_constant__ px_stream_work work)
{
    reduce_real<double>(work);
}

extern "C" __global__ void px_stream_reduce_half(const __grid_constant__ px_stream_work work)
{
    reduce_real<half_t>(work);
}

extern "C" __global__ void px_stream_reduce_bfloat16(const __grid_constant__ px_stream_work work)
{
    reduce_real<bfloat_t>(work);
}
