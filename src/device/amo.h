/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations and signals. Towards mapped peers the GPU's own atomics at system scope; towards
 * others a request. Floating types are only fetched, set and swapped, as bits. */
#ifndef NVSHMEM_DEVICE_AMO_H
#define NVSHMEM_DEVICE_AMO_H

#include "nvshmem_device/rma.h"

namespace nvshmemi
{

enum {
    AMO_FETCH = NVSHMEMI_AMO_FETCH,
    AMO_SET = NVSHMEMI_AMO_SET,
    AMO_SWAP = NVSHMEMI_AMO_SWAP,
    AMO_COMPARE_SWAP = NVSHMEMI_AMO_COMPARE_SWAP,
    AMO_ADD = NVSHMEMI_AMO_ADD,
    AMO_AND = NVSHMEMI_AMO_AND,
    AMO_OR = NVSHMEMI_AMO_OR,
    AMO_XOR = NVSHMEMI_AMO_XOR
};

/* CUDA's intrinsics know unsigned long long, not unsigned long. */
template <size_t BYTES> struct atomic_of;
template <> struct atomic_of<4> {
    typedef unsigned int type;
};
template <> struct atomic_of<8> {
    typedef unsigned long long type;
};

template <class A> static __device__ __forceinline__ A apply(A *word, int op, A value, A compare)
{
    switch (op) {
    case AMO_SWAP:
        return atomicExch_system(word, value);
    case AMO_COMPARE_SWAP:
        return atomicCAS_system(word, compare, value);
    case AMO_ADD:
        return atomicAdd_system(word, value);
    case AMO_AND:
        return atomicAnd_system(word, value);
    case AMO_OR:
        return atomicOr_system(word, value);
    default:
        return atomicXor_system(word, value);
    }
}

/* A null value is 1. `op` is a constant of the caller. */
template <class T>
static __device__ __forceinline__ void
amo_fetch(int op, const T *dest, const typename same<T>::type *value,
          const typename same<T>::type *compare, T *result, size_t, int pe, thread)
{
    typedef typename word_of<sizeof(T)>::type word;
    typedef typename atomic_of<sizeof(T)>::type atomic;
    word operand = value ? bits<word>(*value) : (word)1;
    word expected = compare ? bits<word>(*compare) : (word)0;
    int64_t offset = offset_of(pe);
    word before;
    if (offset == NVSHMEMI_REMOTE)
        before = (word)remote_amo((void *)dest, op, operand, expected, sizeof(T), pe, true);
    else if (op == AMO_FETCH)
        before = load((const word *)at(dest, offset));
    else
        before = (word)apply((atomic *)at(dest, offset), op, (atomic)operand, (atomic)expected);
    *result = bits<T>(before);
}

template <class T>
static __device__ __forceinline__ void amo(int op, T *dest, const typename same<T>::type *value,
                                           size_t, int pe, thread)
{
    typedef typename word_of<sizeof(T)>::type word;
    typedef typename atomic_of<sizeof(T)>::type atomic;
    word operand = value ? bits<word>(*value) : (word)1;
    int64_t offset = offset_of(pe);
    if (offset == NVSHMEMI_REMOTE)
        (void)remote_amo(dest, op, operand, 0, sizeof(T), pe, false);
    else if (op == AMO_SET)
        store((word *)at(dest, offset), operand);
    else
        (void)apply((atomic *)at(dest, offset), op, (atomic)operand, (atomic)0);
}

/* --- signals --- */

static __device__ __forceinline__ uint64_t signal_fetch(uint64_t *signal, thread)
{
    return load_acquire(signal);
}

static __device__ __forceinline__ void signal_at(uint64_t *signal, uint64_t value, int op, int pe,
                                                 int64_t offset)
{
    bool set = op == NVSHMEM_SIGNAL_SET;
    if (offset == NVSHMEMI_REMOTE)
        (void)remote_amo(signal, set ? AMO_SET : AMO_ADD, value, 0, 8, pe, false);
    else if (set)
        store(at(signal, offset), value);
    else
        (void)atomicAdd_system((unsigned long long *)at(signal, offset), (unsigned long long)value);
}

static __device__ __forceinline__ void signal_op(uint64_t *signal, uint64_t value, int op, int pe,
                                                 thread)
{
    signal_at(signal, value, op, pe, offset_of(pe));
}

/* The host's row passes the queue pair behind the PE. */
static __device__ __forceinline__ void signal_op(uint64_t *signal, uint64_t value, int op, int pe,
                                                 nvshmemx_qp_handle_t, thread)
{
    signal_at(signal, value, op, pe, offset_of(pe));
}

/* The threads meet when all data is written; then one of them lets the signal follow it. */
template <class E, class S>
static __device__ __forceinline__ void put_then_signal(void *dest, const void *source, size_t bytes,
                                                       uint64_t *signal, uint64_t value, int op,
                                                       int pe, bool wait, S threads)
{
    int64_t offset = offset_of(pe);
    if (offset != NVSHMEMI_REMOTE) {
        copy<false, E>(at(dest, offset), source, bytes, threads);
        threads.sync();
        if (threads.rank() == 0) {
            if (op == NVSHMEM_SIGNAL_SET)
                store_release(at(signal, offset), value);
            else
                add_release(at(signal, offset), value);
        }
        return;
    }
    threads.sync();
    if (threads.rank() == 0) {
        if (bytes)
            remote_put(dest, source, bytes, pe, wait);
        remote_fence();
        signal_at(signal, value, op, pe, offset);
    }
    threads.sync();
}

template <class T, class S>
static __device__ __forceinline__ void put_signal(T *dest, const T *source, size_t n, size_t,
                                                  uint64_t *signal, uint64_t value, int op, int pe,
                                                  S s)
{
    put_then_signal<typename word_of<sizeof(T)>::type>(dest, source, n * sizeof(T), signal, value,
                                                       op, pe, true, s);
}

template <class S>
static __device__ __forceinline__ void put_signal(void *dest, const void *source, size_t n,
                                                  size_t size, uint64_t *signal, uint64_t value,
                                                  int op, int pe, S s)
{
    put_then_signal<uint8_t>(dest, source, n * size, signal, value, op, pe, true, s);
}

template <class T, class S>
static __device__ __forceinline__ void put_signal_nbi(T *dest, const T *source, size_t n, size_t,
                                                      uint64_t *signal, uint64_t value, int op,
                                                      int pe, S s)
{
    put_then_signal<typename word_of<sizeof(T)>::type>(dest, source, n * sizeof(T), signal, value,
                                                       op, pe, false, s);
}

template <class S>
static __device__ __forceinline__ void put_signal_nbi(void *dest, const void *source, size_t n,
                                                      size_t size, uint64_t *signal, uint64_t value,
                                                      int op, int pe, S s)
{
    put_then_signal<uint8_t>(dest, source, n * size, signal, value, op, pe, false, s);
}

} // namespace nvshmemi
#endif
