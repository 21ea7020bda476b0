/* SPDX-License-Identifier: BSD-3-Clause */
/* Who takes part in a call: one thread, a warp, four warps or a block, all of which call together with
 * equal arguments. A form that names a queue pair is the same as the one without: which queue carries
 * a request is the proxy's business. */
#ifndef NVSHMEM_DEVICE_THREADS_H
#define NVSHMEM_DEVICE_THREADS_H

#include "nvshmem_device/state.h"

#define NVSHMEMI_KERNEL static __device__ __forceinline__
#define NVSHMEMI_BOTH   static __host__ __device__ __forceinline__

extern "C" {
extern __constant__ struct nvshmemi_state NVSHMEMI_STATE_SYMBOL;
}

namespace nvshmemi
{

static __device__ __forceinline__ const nvshmemi_state &state()
{
    return NVSHMEMI_STATE_SYMBOL;
}

static __device__ __forceinline__ unsigned thread_in_block()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

static __device__ __forceinline__ unsigned threads_of_block()
{
    return blockDim.x * blockDim.y * blockDim.z;
}

/* Of a part of the block of `width` threads, the last of which may be smaller. */
static __device__ __forceinline__ unsigned threads_of_part(unsigned width)
{
    unsigned rest = threads_of_block() - thread_in_block() / width * width;
    return rest < width ? rest : width;
}

struct thread {
    __device__ __forceinline__ thread(int = 0)
    {
    }
    __device__ __forceinline__ unsigned rank() const
    {
        return 0;
    }
    __device__ __forceinline__ unsigned size() const
    {
        return 1;
    }
    __device__ __forceinline__ void sync() const
    {
    }
};

struct warp {
    __device__ __forceinline__ warp(int = 0)
    {
    }
    __device__ __forceinline__ unsigned rank() const
    {
        return thread_in_block() % 32;
    }
    __device__ __forceinline__ unsigned size() const
    {
        return threads_of_part(32);
    }
    __device__ __forceinline__ void sync() const
    {
        __syncwarp();
    }
};

/* Its barriers are those from 8 on: a block has eight warp groups at most. */
struct warpgroup {
    __device__ __forceinline__ warpgroup(int = 0)
    {
    }
    __device__ __forceinline__ unsigned rank() const
    {
        return thread_in_block() % 128;
    }
    __device__ __forceinline__ unsigned size() const
    {
        return threads_of_part(128);
    }
    __device__ __forceinline__ void sync() const
    {
        unsigned threads = (size() + 31) / 32 * 32;
        asm volatile("bar.sync %0, %1;" ::"r"(8 + thread_in_block() / 128), "r"(threads)
                     : "memory");
    }
};

struct block {
    __device__ __forceinline__ block(int = 0)
    {
    }
    __device__ __forceinline__ unsigned rank() const
    {
        return thread_in_block();
    }
    __device__ __forceinline__ unsigned size() const
    {
        return threads_of_block();
    }
    __device__ __forceinline__ void sync() const
    {
        __syncthreads();
    }
};

/* Any of them, for the functions of the device library: those are compiled once. */
struct group {
    unsigned rank_, size_;
    enum { THREAD, WARP, WARPGROUP, BLOCK } kind;
    __device__ __forceinline__ group(thread) : rank_(0), size_(1), kind(THREAD)
    {
    }
    __device__ __forceinline__ group(warp w) : rank_(w.rank()), size_(w.size()), kind(WARP)
    {
    }
    __device__ __forceinline__ group(warpgroup w)
        : rank_(w.rank()), size_(w.size()), kind(WARPGROUP)
    {
    }
    __device__ __forceinline__ group(block b) : rank_(b.rank()), size_(b.size()), kind(BLOCK)
    {
    }
    __device__ __forceinline__ unsigned rank() const
    {
        return rank_;
    }
    __device__ __forceinline__ unsigned size() const
    {
        return size_;
    }
    __device__ __forceinline__ void sync() const
    {
        if (kind == BLOCK)
            __syncthreads();
        else if (kind == WARP)
            __syncwarp();
        else if (kind == WARPGROUP)
            warpgroup().sync();
    }
};

} // namespace nvshmemi
#endif
