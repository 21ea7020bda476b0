/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get, untyped: what the generated functions call with the size of their element and their
 * own name. Inline, because the whole cost of a small put is a handful of instructions; size is a
 * constant wherever they are used. */
#ifndef PX_API_RMA_H
#define PX_API_RMA_H

#include "src/api/check.h"

/* With checks, to PEs that are not mapped, or with a PE that does not exist. */
void px_far_put(void *dest, const void *source, size_t nelems, size_t size, int pe,
                const char *call);
void px_far_get(void *dest, const void *source, size_t nelems, size_t size, int pe,
                const char *call);
void px_far_put_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                    const char *call);
void px_far_get_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                    const char *call);
void px_far_p(void *dest, uint64_t value, size_t size, int pe, const char *call);
uint64_t px_far_g(const void *source, size_t size, int pe, const char *call);

/* One element, of a size known to the compiler, is one load and one store. */
static inline void px_copy_elements(void *dest, const void *source, size_t nelems, size_t size)
{
    if (size == 1 || nelems != 1)
        px_copy(dest, source, nelems * size);
    else if (size == 16)
        memcpy(dest, source, 16);
    else
        px_copy(dest, source, size);
}

static inline void px_api_put(void *dest, const void *source, size_t nelems, size_t size, int pe,
                              const char *call)
{
    if (px_at_hand(pe))
        px_copy_elements(px_mapped((uint32_t)pe, dest), source, nelems, size);
    else
        px_far_put(dest, source, nelems, size, pe, call);
}

static inline void px_api_get(void *dest, const void *source, size_t nelems, size_t size, int pe,
                              const char *call)
{
    if (px_at_hand(pe))
        px_copy_elements(dest, px_mapped((uint32_t)pe, source), nelems, size);
    else
        px_far_get(dest, source, nelems, size, pe, call);
}

static inline void px_api_put_nbi(void *dest, const void *source, size_t nelems, size_t size,
                                  int pe, const char *call)
{
    if (px_at_hand(pe))
        px_copy_elements(px_mapped((uint32_t)pe, dest), source, nelems, size);
    else
        px_far_put_nbi(dest, source, nelems, size, pe, call);
}

static inline void px_api_get_nbi(void *dest, const void *source, size_t nelems, size_t size,
                                  int pe, const char *call)
{
    if (px_at_hand(pe))
        px_copy_elements(dest, px_mapped((uint32_t)pe, source), nelems, size);
    else
        px_far_get_nbi(dest, source, nelems, size, pe, call);
}

/* The value of a scalar travels to the far side in a register, so that here it need not be stored.
 */
static inline void px_api_p(void *dest, const void *value, size_t size, int pe, const char *call)
{
    uint64_t bits = 0;
    memcpy(&bits, value, size);
    if (px_at_hand(pe))
        px_copy(px_mapped((uint32_t)pe, dest), &bits, size);
    else
        px_far_p(dest, bits, size, pe, call);
}

static inline void px_api_g(void *result, const void *source, size_t size, int pe, const char *call)
{
    uint64_t bits = 0;
    if (px_at_hand(pe))
        px_copy(&bits, px_mapped((uint32_t)pe, source), size);
    else
        bits = px_far_g(source, size, pe, call);
    memcpy(result, &bits, size); /* little endian */
}

/* Strides in elements. */
void px_api_iput(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t nelems, size_t size, int pe, const char *call);
void px_api_iget(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t nelems, size_t size, int pe, const char *call);

#endif
