/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for words of this PE's symmetric memory. Loads acquire, so what was put before the update
 * that is seen is seen too. A kernel that waits for another PE needs that PE's kernel to run at the
 * same time: see pxshmem-device(7). */
#ifndef NVSHMEM_DEVICE_WAIT_H
#define NVSHMEM_DEVICE_WAIT_H

#include "nvshmem_device/amo.h"

namespace nvshmemi
{

template <class T> static __device__ __forceinline__ T own_word(const T *p)
{
    return bits<T>(load_acquire((const typename word_of<sizeof(T)>::type *)p));
}

template <class T> static __device__ __forceinline__ bool holds(T value, int cmp, T reference)
{
    switch (cmp) {
    case NVSHMEM_CMP_EQ:
        return value == reference;
    case NVSHMEM_CMP_NE:
        return value != reference;
    case NVSHMEM_CMP_GT:
        return value > reference;
    case NVSHMEM_CMP_LE:
        return value <= reference;
    case NVSHMEM_CMP_LT:
        return value < reference;
    default:
        return value >= reference;
    }
}

template <class T>
static __device__ __forceinline__ void wait_until(T *ivar, int cmp, const T *value, thread)
{
    while (!holds(own_word(ivar), cmp, *value))
        ;
}

template <class T>
static __device__ __forceinline__ int test(T *ivar, int cmp, const T *value, thread)
{
    return holds(own_word(ivar), cmp, *value);
}

static __device__ __forceinline__ uint64_t signal_wait_until(uint64_t *signal, int cmp,
                                                             uint64_t value, thread)
{
    uint64_t seen;
    do
        seen = own_word(signal);
    while (!holds(seen, cmp, value));
    return seen;
}

/* Values: one for all (each 0) or one for each. */
template <class T>
static __device__ __forceinline__ bool element_holds(const T *ivars, size_t i, int cmp,
                                                     const T *values, int each)
{
    return holds(own_word(ivars + i), cmp, values[each ? i : 0]);
}

static __device__ __forceinline__ bool masked(const int *status, size_t i)
{
    return status && status[i];
}

template <class T>
static __device__ __forceinline__ void wait_until_all(T *ivars, size_t nelems, const int *status,
                                                      int cmp, const T *values, int each, thread)
{
    for (size_t i = 0; i < nelems; i++)
        while (!masked(status, i) && !element_holds(ivars, i, cmp, values, each))
            ;
}

template <class T>
static __device__ __forceinline__ int test_all(T *ivars, size_t nelems, const int *status, int cmp,
                                               const T *values, int each, thread)
{
    for (size_t i = 0; i < nelems; i++)
        if (!masked(status, i) && !element_holds(ivars, i, cmp, values, each))
            return 0;
    return 1;
}

/* The search starts anywhere, so that an element that stays true is not passed over for ever. `open`
 * becomes false when every element is masked. */
template <class T>
static __device__ __forceinline__ size_t find_one(const T *ivars, size_t nelems, const int *status,
                                                  int cmp, const T *values, int each, bool *open)
{
    size_t start = nelems ? (size_t)clock64() % nelems : 0;
    *open = false;
    for (size_t k = 0; k < nelems; k++) {
        size_t i = start + k < nelems ? start + k : start + k - nelems;
        if (masked(status, i))
            continue;
        *open = true;
        if (element_holds(ivars, i, cmp, values, each))
            return i;
    }
    return SIZE_MAX;
}

template <class T>
static __device__ __forceinline__ size_t test_any(T *ivars, size_t nelems, const int *status,
                                                  int cmp, const T *values, int each, thread)
{
    bool open;
    return find_one(ivars, nelems, status, cmp, values, each, &open);
}

template <class T>
static __device__ __forceinline__ size_t wait_until_any(T *ivars, size_t nelems, const int *status,
                                                        int cmp, const T *values, int each, thread)
{
    bool open;
    size_t found;
    do
        found = find_one(ivars, nelems, status, cmp, values, each, &open);
    while (found == SIZE_MAX && open);
    return found;
}

template <class T>
static __device__ __forceinline__ size_t find_some(const T *ivars, size_t nelems, size_t *indices,
                                                   const int *status, int cmp, const T *values,
                                                   int each, bool *open)
{
    size_t found = 0;
    *open = false;
    for (size_t i = 0; i < nelems; i++) {
        if (masked(status, i))
            continue;
        *open = true;
        if (element_holds(ivars, i, cmp, values, each))
            indices[found++] = i;
    }
    return found;
}

template <class T>
static __device__ __forceinline__ size_t test_some(T *ivars, size_t nelems, size_t *indices,
                                                   const int *status, int cmp, const T *values,
                                                   int each, thread)
{
    bool open;
    return find_some(ivars, nelems, indices, status, cmp, values, each, &open);
}

template <class T>
static __device__ __forceinline__ size_t wait_until_some(T *ivars, size_t nelems, size_t *indices,
                                                         const int *status, int cmp,
                                                         const T *values, int each, thread)
{
    bool open;
    size_t found;
    do
        found = find_some(ivars, nelems, indices, status, cmp, values, each, &open);
    while (!found && open);
    return found;
}

} // namespace nvshmemi
#endif
