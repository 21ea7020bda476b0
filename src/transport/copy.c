/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy routine behind copy.h.
 *
 * Up to 128 bytes: a handful of overlapping loads and stores without a loop. Above: a loop of
 * 32-byte vectors, its stores aligned, the tail stored with one overlapping step. From
 * px_copy_stream_bytes on: stores that do not pass through the caches, fenced at the end, since a
 * block that large would only evict what the program still needs. All loads of the head and the
 * tail come before the stores that could overwrite them, so equal regions are fine. */
#include "config.h"
#include "src/transport/copy.h"

#include <stdatomic.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef uint64_t v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t v32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t v32a __attribute__((vector_size(32), aligned(32), may_alias));
typedef uint64_t u64 __attribute__((aligned(1), may_alias));
typedef uint32_t u32 __attribute__((aligned(1), may_alias));
typedef uint16_t u16 __attribute__((aligned(1), may_alias));

static inline void copy_below_16(char *dest, const char *source, size_t bytes)
{
    if (bytes >= 8) {
        u64 head = *(const u64 *)source, tail = *(const u64 *)(source + bytes - 8);
        *(u64 *)dest = head;
        *(u64 *)(dest + bytes - 8) = tail;
    } else if (bytes >= 4) {
        u32 head = *(const u32 *)source, tail = *(const u32 *)(source + bytes - 4);
        *(u32 *)dest = head;
        *(u32 *)(dest + bytes - 4) = tail;
    } else if (bytes >= 2) {
        u16 head = *(const u16 *)source, tail = *(const u16 *)(source + bytes - 2);
        *(u16 *)dest = head;
        *(u16 *)(dest + bytes - 2) = tail;
    } else if (bytes) {
        *dest = *source;
    }
}

static inline void copy_16_to_128(char *dest, const char *source, size_t bytes)
{
    v16 a = *(const v16 *)source, z = *(const v16 *)(source + bytes - 16);
    if (bytes > 32) {
        v16 b = *(const v16 *)(source + 16), y = *(const v16 *)(source + bytes - 32);
        if (bytes > 64) {
            v16 c = *(const v16 *)(source + 32), d = *(const v16 *)(source + 48);
            v16 w = *(const v16 *)(source + bytes - 64), x = *(const v16 *)(source + bytes - 48);
            *(v16 *)(dest + 32) = c;
            *(v16 *)(dest + 48) = d;
            *(v16 *)(dest + bytes - 64) = w;
            *(v16 *)(dest + bytes - 48) = x;
        }
        *(v16 *)(dest + 16) = b;
        *(v16 *)(dest + bytes - 32) = y;
    }
    *(v16 *)dest = a;
    *(v16 *)(dest + bytes - 16) = z;
}

#if defined(__x86_64__)
/* From where on a copy goes past the caches: set from the size of the last-level cache, at the
 * first large copy. Threads may find it, and what follows, at once: they find the same. */
static _Atomic size_t stream_from;

static size_t find_stream_from(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = cache > 0 ? (size_t)cache : (size_t)32 << 20;
    /* A virtual machine may show the cache of a whole socket: a single copy has no claim to all of
     * it. */
    return bytes > (size_t)32 << 20 ? (size_t)32 << 20 : bytes;
}

__attribute__((target("avx2"))) static void copy_avx(char *dest, const char *source, size_t bytes)
{
    v32 head = *(const v32 *)source;
    v32 t0 = *(const v32 *)(source + bytes - 128), t1 = *(const v32 *)(source + bytes - 96);
    v32 t2 = *(const v32 *)(source + bytes - 64), t3 = *(const v32 *)(source + bytes - 32);
    char *last = dest + bytes - 128;
    size_t skip = 32 - ((uintptr_t)dest & 31);
    char *to = dest + skip;
    const char *from = source + skip;
    for (; to < last; to += 128, from += 128) {
        v32 a = *(const v32 *)from, b = *(const v32 *)(from + 32);
        v32 c = *(const v32 *)(from + 64), d = *(const v32 *)(from + 96);
        *(v32a *)to = a;
        *(v32a *)(to + 32) = b;
        *(v32a *)(to + 64) = c;
        *(v32a *)(to + 96) = d;
    }
    *(v32 *)dest = head;
    *(v32 *)last = t0;
    *(v32 *)(last + 32) = t1;
    *(v32 *)(last + 64) = t2;
    *(v32 *)(last + 96) = t3;
}

__attribute__((target("avx2"))) static void stream_avx(char *dest, const char *source, size_t bytes)
{
    size_t skip = 32 - ((uintptr_t)dest & 31);
    *(v32 *)dest = *(const v32 *)source;
    char *to = dest + skip;
    const char *from = source + skip;
    size_t left = bytes - skip;
    for (; left >= 128; left -= 128, to += 128, from += 128) {
        __builtin_prefetch(from + 1024, 0, 0);
        __builtin_prefetch(from + 1088, 0, 0);
        for (size_t i = 0; i < 128; i += 32)
            _mm256_stream_si256((__m256i *)(to + i), (__m256i)(*(const v32 *)(from + i)));
    }
    _mm_sfence();
    memcpy(to, from, left);
}

static inline int has_avx2(void)
{
    static _Atomic int known; /* 0: not asked, 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (__builtin_expect(!answer, 0)) {
        answer = 1 + !!__builtin_cpu_supports("avx2");
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* True when the block was copied. */
static inline int copy_vector(char *dest, const char *source, size_t bytes)
{
    if (!has_avx2())
        return 0;
    size_t limit = atomic_load_explicit(&stream_from, memory_order_relaxed);
    if (__builtin_expect(!limit, 0)) {
        limit = find_stream_from();
        atomic_store_explicit(&stream_from, limit, memory_order_relaxed);
    }
    if (__builtin_expect(bytes >= limit, 0) && dest != source)
        stream_avx(dest, source, bytes);
    else
        copy_avx(dest, source, bytes);
    return 1;
}
#else
static inline int copy_vector(char *dest, const char *source, size_t bytes)
{
    return 0;
}
#endif

void px_copy_large(void *dest, const void *source, size_t bytes)
{
    if (bytes < 16)
        copy_below_16(dest, source, bytes);
    else if (bytes <= 128)
        copy_16_to_128(dest, source, bytes);
    else if (bytes < 160 || !copy_vector(dest, source, bytes))
        memmove(dest, source, bytes);
}
