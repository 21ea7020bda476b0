/* SPDX-License-Identifier: BSD-3-Clause */
/* Single words as other PEs and the host see them: loads and stores at system scope, and the two
 * fences. Everything that other agents may write while a kernel runs is read through here, as the
 * first-level cache of the GPU is not coherent. */
#ifndef NVSHMEM_DEVICE_WORD_H
#define NVSHMEM_DEVICE_WORD_H

#include "nvshmem_device/threads.h"

namespace nvshmemi
{

/* The unsigned type of a width. */
template <size_t BYTES> struct word_of;
template <> struct word_of<1> {
    typedef uint8_t type;
};
template <> struct word_of<2> {
    typedef uint16_t type;
};
template <> struct word_of<4> {
    typedef uint32_t type;
};
template <> struct word_of<8> {
    typedef uint64_t type;
};

/* Keeps an argument out of the deduction of its type. */
template <class T> struct same {
    typedef T type;
};

template <class To, class From> static __device__ __forceinline__ To bits(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "equal widths");
    To to;
    __builtin_memcpy(&to, &from, sizeof(to));
    return to;
}

static __device__ __forceinline__ uint8_t load(const uint8_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.sys.u8 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return (uint8_t)v;
}

static __device__ __forceinline__ uint16_t load(const uint16_t *p)
{
    uint16_t v;
    asm volatile("ld.relaxed.sys.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ uint32_t load(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ uint64_t load(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ uint4 load(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ uint16_t load_acquire(const uint16_t *p)
{
    uint16_t v;
    asm volatile("ld.acquire.sys.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ uint32_t load_acquire(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ uint64_t load_acquire(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ void store(uint8_t *p, uint8_t v)
{
    asm volatile("st.relaxed.sys.u8 [%0], %1;" ::"l"(p), "r"((uint32_t)v) : "memory");
}

static __device__ __forceinline__ void store(uint16_t *p, uint16_t v)
{
    asm volatile("st.relaxed.sys.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}

static __device__ __forceinline__ void store(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

static __device__ __forceinline__ void store(uint64_t *p, uint64_t v)
{
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

static __device__ __forceinline__ void store(uint4 *p, uint4 v)
{
    asm volatile("st.relaxed.sys.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
}

/* What this thread, and those it has met in a barrier, did before is seen by who sees this value. Unlike a
 * fence it leaves the first-level cache as it is. */
static __device__ __forceinline__ void store_release(uint64_t *p, uint64_t v)
{
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

static __device__ __forceinline__ void add_release(uint64_t *p, uint64_t v)
{
    asm volatile("red.release.sys.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Everything before it, of this thread and of those it has met in a barrier, comes before everything
 * after it for every observer. Peers may be on other GPUs, so nothing narrower than the system is
 * enough; the weaker order (acq_rel rather than sc) is. */
static __device__ __forceinline__ void fence_system()
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

} // namespace nvshmemi
#endif
