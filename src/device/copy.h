/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying by one thread or many: 16 bytes at a time where source and destination have the same place
 * within 16 bytes, else as wide as they allow; a batch of loads is under way before its first store.
 * Loads from a peer bypass the first-level cache, which does not see the peer's stores. No element of
 * up to 8 bytes that is aligned on both sides is written in pieces. */
#ifndef NVSHMEM_DEVICE_COPY_H
#define NVSHMEM_DEVICE_COPY_H

#include "nvshmem_device/word.h"

namespace nvshmemi
{

/* Loads under way at once. A kernel of 1024 threads has 64 registers a thread, which must do for a copy in it. */
enum { BATCH = 4 };

template <bool FROM_PEER, class W> static __device__ __forceinline__ W fetch(const W *p)
{
    return FROM_PEER ? load(p) : *p;
}

template <bool FROM_PEER, int N, class W>
static __device__ __forceinline__ void copy_words(W *dest, const W *source, size_t count,
                                                  unsigned rank, unsigned size)
{
    W batch[N];
    size_t i = rank, step = size;
    for (; i + (N - 1) * step < count; i += N * step) {
#pragma unroll
        for (int k = 0; k < N; k++)
            batch[k] = fetch<FROM_PEER>(source + i + k * step);
#pragma unroll
        for (int k = 0; k < N; k++)
            dest[i + k * step] = batch[k];
    }
    if (i >= count)
        return;
    source += i;
    dest += i;
    count -= i;
#pragma unroll
    for (int k = 0; k < N - 1; k++)
        if (k * step < count)
            batch[k] = fetch<FROM_PEER>(source + k * step);
#pragma unroll
    for (int k = 0; k < N - 1; k++)
        if (k * step < count)
            dest[k * step] = batch[k];
}

/* Fewer than 16 bytes at an end, in elements of W. */
template <bool FROM_PEER, class W>
static __device__ __forceinline__ void copy_end(char *dest, const char *source, unsigned bytes,
                                                unsigned rank, unsigned size)
{
#pragma unroll 1
    for (unsigned i = rank * sizeof(W); i < bytes; i += size * sizeof(W))
        *(W *)(dest + i) = fetch<FROM_PEER>((const W *)(source + i));
}

/* Both at the same place within a W; E divides both addresses and the length. */
template <bool FROM_PEER, int N, class W, class E>
static __device__ __forceinline__ void copy_as(char *dest, const char *source, size_t bytes,
                                               unsigned rank, unsigned size)
{
    size_t head = (0 - (uintptr_t)dest) & (sizeof(W) - 1);
    head = head < bytes ? head : bytes;
    if (head)
        copy_end<FROM_PEER, E>(dest, source, (unsigned)head, rank, size);
    size_t words = (bytes - head) / sizeof(W);
    copy_words<FROM_PEER, N>((W *)(dest + head), (const W *)(source + head), words, rank, size);
    size_t done = head + words * sizeof(W);
    if (done < bytes)
        copy_end<FROM_PEER, E>(dest + done, source + done, (unsigned)(bytes - done), rank, size);
}

/* Those with another place within 16 bytes; `width` divides addresses and length. In the device library
 * (copy.cu), where a limit of registers holds. */
extern __device__ void copy_narrow(char *dest, const char *source, size_t bytes, unsigned width,
                                   bool from_peer, unsigned rank, unsigned size);

/* E: the type of the elements, for what is known of the alignment. */
template <bool FROM_PEER, class E, class S>
static __device__ __forceinline__ void copy(void *dest, const void *source, size_t bytes, S threads)
{
    char *to = (char *)dest;
    const char *from = (const char *)source;
    unsigned apart = (unsigned)((uintptr_t)to ^ (uintptr_t)from);
    if ((apart & 15) == 0)
        copy_as<FROM_PEER, BATCH, uint4, E>(to, from, bytes, threads.rank(), threads.size());
    else
        copy_narrow(to, from, bytes, sizeof(E), FROM_PEER, threads.rank(), threads.size());
}

} // namespace nvshmemi
#endif
