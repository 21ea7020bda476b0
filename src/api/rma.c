/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get (9.6) where rma.h's inline path does not do: with checks, and to PEs that are not
 * mapped; and strided ones. To a remote PE strided elements go out without waiting and are waited
 * for together: one round trip, not one each. */
#include "config.h"
#include "src/api/rma.h"

static void check_put(void *dest, const void *source, size_t nelems, size_t size, int pe,
                      const char *call)
{
    if (px_suspect(pe)) {
        px_check_rma(call, "dest", dest, nelems, size, pe);
        px_check_overlap(call, dest, source, nelems, size, pe);
    }
}

static void check_get(void *dest, const void *source, size_t nelems, size_t size, int pe,
                      const char *call)
{
    if (px_suspect(pe)) {
        px_check_rma(call, "source", source, nelems, size, pe);
        px_check_overlap(call, dest, source, nelems, size, pe);
    }
}

void px_far_put(void *dest, const void *source, size_t nelems, size_t size, int pe,
                const char *call)
{
    check_put(dest, source, nelems, size, pe, call);
    if (nelems)
        px_put((uint32_t)pe, dest, source, nelems * size);
}

void px_far_get(void *dest, const void *source, size_t nelems, size_t size, int pe,
                const char *call)
{
    check_get(dest, source, nelems, size, pe, call);
    if (nelems)
        px_get((uint32_t)pe, dest, source, nelems * size);
}

void px_far_put_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                    const char *call)
{
    check_put(dest, source, nelems, size, pe, call);
    if (nelems)
        px_put_nbi((uint32_t)pe, dest, source, nelems * size);
}

void px_far_get_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                    const char *call)
{
    check_get(dest, source, nelems, size, pe, call);
    if (nelems)
        px_get_nbi((uint32_t)pe, dest, source, nelems * size);
}

void px_far_p(void *dest, uint64_t value, size_t size, int pe, const char *call)
{
    if (px_suspect(pe))
        px_check_rma(call, "dest", dest, 1, size, pe);
    px_put((uint32_t)pe, dest, &value, size);
}

uint64_t px_far_g(const void *source, size_t size, int pe, const char *call)
{
    uint64_t value = 0;
    if (px_suspect(pe))
        px_check_rma(call, "source", source, 1, size, pe);
    px_get((uint32_t)pe, &value, source, size);
    return value;
}

static void copy_strided(char *dest, const char *source, ptrdiff_t dest_step, ptrdiff_t source_step,
                         size_t nelems, size_t size)
{
    for (size_t i = 0; i < nelems; i++) {
        px_copy_elements(dest, source, 1, size);
        dest += dest_step;
        source += source_step;
    }
}

void px_api_iput(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t nelems, size_t size, int pe, const char *call)
{
    if (px_suspect(pe))
        px_check_strided(call, "dest", dest, dest_stride, nelems, size, pe);
    if (nelems == 0)
        return;
    ptrdiff_t dest_step = dest_stride * (ptrdiff_t)size;
    ptrdiff_t source_step = source_stride * (ptrdiff_t)size;
    if (px_is_mapped((uint32_t)pe)) {
        copy_strided(px_mapped((uint32_t)pe, dest), source, dest_step, source_step, nelems, size);
        return;
    }
    for (size_t i = 0; i < nelems; i++)
        px_put_nbi((uint32_t)pe, (char *)dest + (ptrdiff_t)i * dest_step,
                   (const char *)source + (ptrdiff_t)i * source_step, size);
    px_peers.remote->quiet_pe(px_peers.remote_self, (uint32_t)pe);
}

void px_api_iget(void *dest, const void *source, ptrdiff_t dest_stride, ptrdiff_t source_stride,
                 size_t nelems, size_t size, int pe, const char *call)
{
    if (px_suspect(pe))
        px_check_strided(call, "source", source, source_stride, nelems, size, pe);
    if (nelems == 0)
        return;
    ptrdiff_t dest_step = dest_stride * (ptrdiff_t)size;
    ptrdiff_t source_step = source_stride * (ptrdiff_t)size;
    if (px_is_mapped((uint32_t)pe)) {
        copy_strided(dest, px_mapped((uint32_t)pe, source), dest_step, source_step, nelems, size);
        return;
    }
    for (size_t i = 0; i < nelems; i++)
        px_get_nbi((uint32_t)pe, (char *)dest + (ptrdiff_t)i * dest_step,
                   (const char *)source + (ptrdiff_t)i * source_step, size);
    px_peers.remote->quiet_pe(px_peers.remote_self, (uint32_t)pe);
}
