/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying bytes to and from mapped memory. The C library's memcpy switches to `rep movsb` above a size at which some
 * processors fall from tens of GB/s to two when the destination lies just after the source modulo 4096; ours is a vector
 * loop without that hole, and streams past the caches when the block is larger than they are. */
#ifndef PX_TRANSPORT_COPY_H
#define PX_TRANSPORT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Above the sizes that are inlined. Regions may overlap only when they are equal. */
void px_copy_large(void *dest, const void *source, size_t bytes);

/* Small powers of two, the sizes of typed elements, are one load and one store: never torn when aligned. */
static inline void px_copy(void *dest, const void *source, size_t bytes)
{
    switch (bytes) {
    case 0:
        return;
    case 1:
        *(volatile uint8_t *)dest = *(const uint8_t *)source;
        return;
    case 2:
        __builtin_memcpy(dest, source, 2);
        return;
    case 4:
        __builtin_memcpy(dest, source, 4);
        return;
    case 8:
        __builtin_memcpy(dest, source, 8);
        return;
    default:
        px_copy_large(dest, source, bytes);
    }
}

#endif
