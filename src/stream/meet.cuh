/* SPDX-License-Identifier: BSD-3-Clause */
/* The meeting of a team, for the kernels that need one: kernels.cu, reduce.cu. */
#ifndef PX_STREAM_MEET_CUH
#define PX_STREAM_MEET_CUH

#include "src/stream/work.h"

typedef unsigned long long word_t;

/* --- words that other PEs see --- */

static __device__ __forceinline__ void store_release(uint64_t address, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

static __device__ __forceinline__ uint64_t load_acquire(uint64_t address)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

/* --- meeting --- */

/* All threads of the one block. What the members did before is visible to all afterwards. */
static __device__ void meet(const px_stream_work &work)
{
    word_t *met = (word_t *)work.slot;
    uint64_t flags = work.slot + 8ull * work.n_pes;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < work.members; i += blockDim.x) {
        uint32_t pe = work.pe[i];
        if (i == work.rank)
            continue;
        word_t turn = ++met[pe];
        __threadfence_system();
        store_release(flags + 8ull * work.my_pe + (uint64_t)work.delta[i], turn);
        while (load_acquire(flags + 8ull * pe) < turn)
            ;
        __threadfence_system();
    }
    __syncthreads();
}

#endif
