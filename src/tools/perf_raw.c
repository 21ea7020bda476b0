/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector loops as the compiler writes them for this processor, without a library call. */
#include "config.h"
#include "src/tools/perf_raw.h"

typedef uint64_t v32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef double d32 __attribute__((vector_size(32), aligned(1), may_alias));

#if defined(__x86_64__)
#define VECTOR __attribute__((target("avx2")))
#else
#define VECTOR
#endif

VECTOR void px_raw_copy(char *dest, const char *source, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) {
        v32 a = *(const v32 *)(source + i), b = *(const v32 *)(source + i + 32);
        *(v32 *)(dest + i) = a;
        *(v32 *)(dest + i + 32) = b;
    }
}

VECTOR void px_raw_add(char *dest, const char *a, const char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 32) {
        d32 x = *(const d32 *)(a + i), y = *(const d32 *)(b + i);
        *(d32 *)(dest + i) = x + y;
    }
}
