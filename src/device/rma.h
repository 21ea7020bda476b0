/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a peer's memory is; put, get and their kin. The forms that return at once and those that wait
 * are the same towards mapped peers. Each ends with a meeting of the threads that take part, so that
 * the source may be reused, or the data read, by any of them. */
#ifndef NVSHMEM_DEVICE_RMA_H
#define NVSHMEM_DEVICE_RMA_H

#include "nvshmem_device/copy.h"
#include "nvshmem_device/remote.h"

namespace nvshmemi
{

static __device__ __forceinline__ int64_t offset_of(int pe)
{
    return pe < NVSHMEMI_NEAR ? state().near_offsets[pe] : state().offsets[pe];
}

template <class T> static __device__ __forceinline__ T *at(T *symmetric, int64_t offset)
{
    return (T *)((char *)symmetric + offset);
}

static __device__ __forceinline__ int my_pe(thread)
{
    return state().my_pe;
}

static __device__ __forceinline__ int n_pes(thread)
{
    return state().n_pes;
}

static __device__ __forceinline__ void *ptr(const void *dest, int pe, thread)
{
    if (pe < 0 || pe >= state().n_pes || (uint64_t)dest - state().heap >= state().heap_bytes)
        return nullptr;
    int64_t offset = offset_of(pe);
    return offset == NVSHMEMI_REMOTE ? nullptr : at((void *)dest, offset);
}

static __device__ __forceinline__ void *mc_ptr(nvshmem_team_t, const void *, thread)
{
    return nullptr; /* no multicast objects are made */
}

static __device__ __forceinline__ void info_get_version(int *major, int *minor, thread)
{
    *major = NVSHMEM_MAJOR_VERSION;
    *minor = NVSHMEM_MINOR_VERSION;
}

static __device__ __forceinline__ void vendor_get_version_info(int *major, int *minor, int *patch,
                                                               thread)
{
    *major = NVSHMEM_VENDOR_MAJOR_VERSION;
    *minor = NVSHMEM_VENDOR_MINOR_VERSION;
    *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}

static __device__ __forceinline__ void info_get_name(char *name, thread)
{
    const char text[] = NVSHMEM_VENDOR_STRING;
    for (unsigned i = 0; i < sizeof(text) && i < NVSHMEM_MAX_NAME_LEN; i++)
        name[i] = text[i];
}

static __device__ __forceinline__ void global_exit(int status, thread)
{
    remote_exit(status);
}

/* --- put and get --- */

template <class E, class S>
static __device__ __forceinline__ void put_bytes(void *dest, const void *source, size_t bytes,
                                                 int pe, bool wait, S threads)
{
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE) {
        copy<false, E>(at(dest, offset), source, bytes, threads);
    } else {
        threads.sync();
        if (threads.rank() == 0 && bytes)
            remote_put(dest, source, bytes, pe, wait);
    }
    threads.sync();
}

template <class E, class S>
static __device__ __forceinline__ void get_bytes(void *dest, const void *source, size_t bytes,
                                                 int pe, bool wait, S threads)
{
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE) {
        copy<true, E>(dest, at(source, offset), bytes, threads);
    } else {
        threads.sync();
        if (threads.rank() == 0 && bytes)
            remote_get(dest, source, bytes, pe, wait);
    }
    threads.sync();
}

template <class T, class S>
static __device__ __forceinline__ void put(T *dest, const T *source, size_t nelems, size_t, int pe,
                                           S s)
{
    put_bytes<typename word_of<sizeof(T)>::type>(dest, source, nelems * sizeof(T), pe, true, s);
}

template <class S>
static __device__ __forceinline__ void put(void *dest, const void *source, size_t n, size_t size,
                                           int pe, S s)
{
    put_bytes<uint8_t>(dest, source, n * size, pe, true, s);
}

template <class T, class S>
static __device__ __forceinline__ void put_nbi(T *dest, const T *source, size_t nelems, size_t,
                                               int pe, S s)
{
    put_bytes<typename word_of<sizeof(T)>::type>(dest, source, nelems * sizeof(T), pe, false, s);
}

template <class S>
static __device__ __forceinline__ void put_nbi(void *dest, const void *source, size_t n,
                                               size_t size, int pe, S s)
{
    put_bytes<uint8_t>(dest, source, n * size, pe, false, s);
}

template <class T, class S>
static __device__ __forceinline__ void get(T *dest, const T *source, size_t nelems, size_t, int pe,
                                           S s)
{
    get_bytes<typename word_of<sizeof(T)>::type>(dest, source, nelems * sizeof(T), pe, true, s);
}

template <class S>
static __device__ __forceinline__ void get(void *dest, const void *source, size_t n, size_t size,
                                           int pe, S s)
{
    get_bytes<uint8_t>(dest, source, n * size, pe, true, s);
}

template <class T, class S>
static __device__ __forceinline__ void get_nbi(T *dest, const T *source, size_t nelems, size_t,
                                               int pe, S s)
{
    get_bytes<typename word_of<sizeof(T)>::type>(dest, source, nelems * sizeof(T), pe, false, s);
}

template <class S>
static __device__ __forceinline__ void get_nbi(void *dest, const void *source, size_t n,
                                               size_t size, int pe, S s)
{
    get_bytes<uint8_t>(dest, source, n * size, pe, false, s);
}

/* --- one element --- */

template <class T>
static __device__ __forceinline__ void p(T *dest, const T *value, size_t, int pe, thread)
{
    typedef typename word_of<sizeof(T)>::type word;
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE)
        store((word *)at(dest, offset), bits<word>(*value));
    else
        remote_value(dest, bits<word>(*value), sizeof(T), pe);
}

template <class T>
static __device__ __forceinline__ void g(T *result, const T *source, size_t, int pe, thread)
{
    typedef typename word_of<sizeof(T)>::type word;
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE)
        *result = bits<T>(load((const word *)at(source, offset)));
    else
        *result = bits<T>((word)remote_read(source, sizeof(T), pe));
}

/* --- strided: elements of W --- */

template <class W>
static __device__ __forceinline__ void put_word(W *dest, W value, int64_t offset, int pe)
{
    if (offset != NVSHMEMI_REMOTE)
        *at(dest, offset) = value;
    else
        remote_value(dest, (uint64_t)value, sizeof(W), pe);
}

static __device__ __forceinline__ void put_word(uint4 *dest, uint4 value, int64_t offset, int pe)
{
    if (offset != NVSHMEMI_REMOTE) {
        *at(dest, offset) = value;
        return;
    }
    uint64_t *half = (uint64_t *)dest;
    remote_value(half, (uint64_t)value.y << 32 | value.x, 8, pe);
    remote_value(half + 1, (uint64_t)value.w << 32 | value.z, 8, pe);
}

template <class W>
static __device__ __forceinline__ W get_word(const W *source, int64_t offset, int pe)
{
    if (offset != NVSHMEMI_REMOTE)
        return load(at(source, offset));
    return (W)remote_read(source, sizeof(W), pe);
}

static __device__ __forceinline__ uint4 get_word(const uint4 *source, int64_t offset, int pe)
{
    if (offset != NVSHMEMI_REMOTE)
        return load(at(source, offset));
    uint64_t low = remote_read(source, 8, pe),
             high = remote_read((const uint64_t *)source + 1, 8, pe);
    return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

template <class W, class S>
static __device__ __forceinline__ void iput_words(W *dest, const W *source, ptrdiff_t dest_stride,
                                                  ptrdiff_t source_stride, size_t nelems, int pe,
                                                  S threads)
{
    int64_t offset = offset_of(pe);
    for (ptrdiff_t i = threads.rank(); i < (ptrdiff_t)nelems; i += threads.size())
        put_word(dest + i * dest_stride, source[i * source_stride], offset, pe);
    threads.sync();
}

template <class W, class S>
static __device__ __forceinline__ void iget_words(W *dest, const W *source, ptrdiff_t dest_stride,
                                                  ptrdiff_t source_stride, size_t nelems, int pe,
                                                  S threads)
{
    int64_t offset = offset_of(pe);
    for (ptrdiff_t i = threads.rank(); i < (ptrdiff_t)nelems; i += threads.size())
        dest[i * dest_stride] = get_word(source + i * source_stride, offset, pe);
    threads.sync();
}

template <class T, class S>
static __device__ __forceinline__ void iput(T *dest, const T *source, ptrdiff_t dest_stride,
                                            ptrdiff_t source_stride, size_t nelems, size_t, int pe,
                                            S s)
{
    typedef typename word_of<sizeof(T)>::type word;
    iput_words((word *)dest, (const word *)source, dest_stride, source_stride, nelems, pe, s);
}

template <class T, class S>
static __device__ __forceinline__ void iget(T *dest, const T *source, ptrdiff_t dest_stride,
                                            ptrdiff_t source_stride, size_t nelems, size_t, int pe,
                                            S s)
{
    typedef typename word_of<sizeof(T)>::type word;
    iget_words((word *)dest, (const word *)source, dest_stride, source_stride, nelems, pe, s);
}

/* By width: elements are aligned to it. The width is a constant of the caller. */
template <class S>
static __device__ __forceinline__ void iput(void *dest, const void *source, ptrdiff_t to,
                                            ptrdiff_t from, size_t n, size_t size, int pe, S s)
{
    if (size == 1)
        iput_words((uint8_t *)dest, (const uint8_t *)source, to, from, n, pe, s);
    else if (size == 2)
        iput_words((uint16_t *)dest, (const uint16_t *)source, to, from, n, pe, s);
    else if (size == 4)
        iput_words((uint32_t *)dest, (const uint32_t *)source, to, from, n, pe, s);
    else if (size == 8)
        iput_words((uint64_t *)dest, (const uint64_t *)source, to, from, n, pe, s);
    else
        iput_words((uint4 *)dest, (const uint4 *)source, to, from, n, pe, s);
}

template <class S>
static __device__ __forceinline__ void iget(void *dest, const void *source, ptrdiff_t to,
                                            ptrdiff_t from, size_t n, size_t size, int pe, S s)
{
    if (size == 1)
        iget_words((uint8_t *)dest, (const uint8_t *)source, to, from, n, pe, s);
    else if (size == 2)
        iget_words((uint16_t *)dest, (const uint16_t *)source, to, from, n, pe, s);
    else if (size == 4)
        iget_words((uint32_t *)dest, (const uint32_t *)source, to, from, n, pe, s);
    else if (size == 8)
        iget_words((uint64_t *)dest, (const uint64_t *)source, to, from, n, pe, s);
    else
        iget_words((uint4 *)dest, (const uint4 *)source, to, from, n, pe, s);
}

/* --- order --- */

static __device__ __forceinline__ void fence(thread)
{
    fence_system();
    if (state().any_remote)
        remote_fence();
}

static __device__ __forceinline__ void quiet(thread)
{
    fence_system();
    if (state().any_remote)
        remote_quiet();
}

template <class S>
static __device__ __forceinline__ void qp_fence(int, nvshmemx_qp_handle_t *, int, S threads)
{
    threads.sync();
    if (threads.rank() == 0)
        fence(thread());
    threads.sync();
}

template <class S>
static __device__ __forceinline__ void qp_quiet(int, nvshmemx_qp_handle_t *, int, S threads)
{
    threads.sync();
    if (threads.rank() == 0)
        quiet(thread());
    threads.sync();
}

} // namespace nvshmemi
#endif
