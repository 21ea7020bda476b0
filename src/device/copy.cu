/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between places that differ within 16 bytes: as wide as both allow, and elements stay whole. */
#define NVSHMEM_KERNELS 0 /* only what is below is wanted */
#include <nvshmemx.h>

#include "nvshmem_device/copy.h"

namespace nvshmemi
{

template <bool FROM_PEER, class E>
static __device__ __forceinline__ void narrow(char *dest, const char *source, size_t bytes,
                                              unsigned rank, unsigned size)
{
    unsigned apart = (unsigned)((uintptr_t)dest ^ (uintptr_t)source);
    if (sizeof(E) <= 8 && (apart & 7) == 0)
        copy_as<FROM_PEER, 4, uint64_t, E>(dest, source, bytes, rank, size);
    else if (sizeof(E) <= 4 && (apart & 3) == 0)
        copy_as<FROM_PEER, 4, uint32_t, E>(dest, source, bytes, rank, size);
    else
        copy_words<FROM_PEER, 4>((E *)dest, (const E *)source, bytes / sizeof(E), rank, size);
}

template <bool FROM_PEER>
static __device__ __forceinline__ void by_width(char *dest, const char *source, size_t bytes,
                                                unsigned width, unsigned rank, unsigned size)
{
    if (width == 8)
        narrow<FROM_PEER, uint64_t>(dest, source, bytes, rank, size);
    else if (width == 4)
        narrow<FROM_PEER, uint32_t>(dest, source, bytes, rank, size);
    else if (width == 2 || (((uintptr_t)dest | (uintptr_t)source | bytes) & 1) == 0)
        narrow<FROM_PEER, uint16_t>(dest, source, bytes, rank, size);
    else
        narrow<FROM_PEER, uint8_t>(dest, source, bytes, rank, size);
}

__device__ void copy_narrow(char *dest, const char *source, size_t bytes, unsigned width,
                            bool from_peer, unsigned rank, unsigned size)
{
    if (from_peer)
        by_width<true>(dest, source, bytes, width, rank, size);
    else
        by_width<false>(dest, source, bytes, width, rank, size);
}

} // namespace nvshmemi
