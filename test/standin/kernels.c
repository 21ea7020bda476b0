/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's kernels as the stand-in carries them out: one processor does what the threads would,
 * member after member and word after word. The arithmetic is that of the host. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/coll/dtype.h"
#include "src/stream/work.h"
#include "test/standin/standin.h"

typedef struct px_stream_work work_t;

static void *at(uint64_t address, size_t bytes)
{
    return standin_reach(address, bytes);
}

/* --- atomic operations of the host interface --- */

enum { FETCH, SET, SWAP, COMPARE_SWAP, ADD, AND, OR, XOR };

#define AMO(TYPE, NAME)                                                                            \
    static TYPE NAME(TYPE *word, TYPE operand, TYPE compare, uint32_t op)                          \
    {                                                                                              \
        switch (op) {                                                                              \
        case FETCH:                                                                                \
            return __atomic_load_n(word, __ATOMIC_SEQ_CST);                                        \
        case SET:                                                                                  \
        case SWAP:                                                                                 \
            return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);                           \
        case COMPARE_SWAP:                                                                         \
            __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST,          \
                                        __ATOMIC_SEQ_CST);                                         \
            return compare;                                                                        \
        case ADD:                                                                                  \
            return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);                            \
        case AND:                                                                                  \
            return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);                            \
        case OR:                                                                                   \
            return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);                             \
        default:                                                                                   \
            return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);                            \
        }                                                                                          \
    }
AMO(uint32_t, amo_4)
AMO(uint64_t, amo_8)

static void run_amo(void **arguments)
{
    uint64_t address = *(uint64_t *)arguments[0], old;
    uint64_t operand = *(uint64_t *)arguments[1], compare = *(uint64_t *)arguments[2];
    uint64_t *result = (uint64_t *)(uintptr_t) * (uint64_t *)arguments[3];
    uint32_t op = *(uint32_t *)arguments[4], width = *(uint32_t *)arguments[5];
    if (width == 4)
        old = amo_4(at(address, 4), (uint32_t)operand, (uint32_t)compare, op);
    else
        old = amo_8(at(address, 8), operand, compare, op);
    if (result)
        *result = old;
}

/* --- streams --- */

static void meet(const work_t *work)
{
    uint64_t flags = work->slot + 8ull * work->n_pes;
    for (uint32_t i = 0; i < work->members; i++) {
        uint64_t *met = at(work->slot + 8ull * work->pe[i], 8);
        if (i != work->rank)
            __atomic_store_n(
                (uint64_t *)at(flags + 8ull * work->my_pe + (uint64_t)work->delta[i], 8), ++*met,
                __ATOMIC_SEQ_CST);
    }
    for (uint32_t i = 0; i < work->members; i++) {
        uint64_t turn = *(uint64_t *)at(work->slot + 8ull * work->pe[i], 8);
        uint64_t *flag = at(flags + 8ull * work->pe[i], 8);
        while (i != work->rank && __atomic_load_n(flag, __ATOMIC_SEQ_CST) < turn)
            sched_yield();
    }
}

static void run_gather(const work_t *work)
{
    if (work->before)
        meet(work);
    for (uint32_t k = 0; k < work->blocks; k++)
        standin_copy(work->dest + (uint64_t)((int64_t)k * work->dest_step),
             work->source + (uint64_t)work->delta[work->first + k], work->count);
    if (work->after)
        meet(work);
}

static void run_spread(const work_t *work)
{
    for (uint64_t i = 0; i < work->count; i++)
        standin_copy(work->dest + i * (uint64_t)work->dest_step,
             work->source + i * (uint64_t)work->source_step, work->size);
}

static void run_store(const work_t *work)
{
    memcpy(at(work->dest, work->size), &work->value, work->size);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void run_signal(const work_t *work)
{
    standin_copy(work->dest, work->source, work->count);
    uint64_t *word = at(work->word, 8);
    if (work->what == PX_STREAM_SET)
        __atomic_store_n(word, work->value, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_add(word, work->value, __ATOMIC_SEQ_CST);
}

static uint64_t load(uint64_t address, uint32_t size, bool is_signed)
{
    if (size == 8)
        return __atomic_load_n((uint64_t *)at(address, 8), __ATOMIC_ACQUIRE) ^
               (is_signed ? 1ull << 63 : 0);
    if (size == 4) {
        uint32_t word = __atomic_load_n((uint32_t *)at(address, 4), __ATOMIC_ACQUIRE);
        return is_signed ? (uint64_t)(int64_t)(int32_t)word ^ 1ull << 63 : word;
    }
    uint16_t word = __atomic_load_n((uint16_t *)at(address, 2), __ATOMIC_ACQUIRE);
    return is_signed ? (uint64_t)(int64_t)(int16_t)word ^ 1ull << 63 : word;
}

static bool holds(uint64_t seen, uint64_t value, uint32_t cmp)
{
    const bool answers[] = {seen == value, seen != value, seen > value,
                            seen <= value, seen < value,  seen >= value};
    return answers[cmp];
}

static void run_await(const work_t *work)
{
    for (uint64_t i = 0; i < work->count; i++) {
        uint64_t given = work->source_step ? (uint64_t)work->delta[i] : work->value;
        uint64_t where = work->values ? work->values + i * work->size : (uint64_t)(uintptr_t)&given;
        uint64_t value = load(where, work->size, work->is_signed != 0);
        if ((work->status && *(int *)at(work->status + 4 * i, 4)) ||
            (i < 64 && work->skip >> i & 1))
            continue;
        while (!holds(load(work->word + i * work->size, work->size, work->is_signed != 0), value,
                      work->what))
            sched_yield();
    }
}

static void run_reduce(const work_t *work, const enum px_dtype types[2])
{
    enum px_dtype type = types[work->is_signed != 0];
    size_t size = px_dtype_info[type].size;
    char *held = malloc(work->count * size + 1);
    if (work->before)
        meet(work);
    for (uint64_t i = 0; i < work->count; i++) {
        memcpy(held + i * size, at(work->source + i * size + (uint64_t)work->delta[0], size), size);
        for (uint32_t m = 1; m < work->members; m++)
            px_reduce_kernel(type, (enum px_op)work->op, held + i * size,
                             at(work->source + i * size + (uint64_t)work->delta[m], size), 1);
    }
    if (work->after)
        meet(work);
    standin_copy(work->dest, (uintptr_t)held, work->count * size);
    free(held);
}

/* --- the list --- */

enum { AMO, MEET, GATHER, SPREAD, COPY, STORE, SIGNAL, AWAIT, REDUCE };
static const char *const names[] = {
    [AMO] = "px_amo",
    [MEET] = "px_stream_meet",
    [GATHER] = "px_stream_gather",
    [SPREAD] = "px_stream_spread",
    [COPY] = "px_stream_copy",
    [STORE] = "px_stream_store",
    [SIGNAL] = "px_stream_signal",
    [AWAIT] = "px_stream_await",
    [REDUCE] = "px_stream_reduce_8",
    "px_stream_reduce_16",
    "px_stream_reduce_32",
    "px_stream_reduce_64",
    "px_stream_reduce_float",
    "px_stream_reduce_double",
    "px_stream_reduce_half",
    "px_stream_reduce_bfloat16",
};
#define NAMES (int)(sizeof(names) / sizeof(names[0]))

static const enum px_dtype reduced[][2] = {
    {PX_TYPE_uint8, PX_TYPE_int8},   {PX_TYPE_uint16, PX_TYPE_int16},
    {PX_TYPE_uint32, PX_TYPE_int32}, {PX_TYPE_uint64, PX_TYPE_int64},
    {PX_TYPE_float, PX_TYPE_float},  {PX_TYPE_double, PX_TYPE_double},
    {PX_TYPE_half, PX_TYPE_half},    {PX_TYPE_bfloat16, PX_TYPE_bfloat16},
};

int standin_kernel(const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

size_t standin_arguments(int kernel, unsigned index)
{
    if (kernel == AMO)
        return index < 4 ? 8 : index < 6 ? 4 : 0;
    return index == 0 ? sizeof(work_t) : 0;
}

void standin_run(int kernel, void **arguments)
{
    const work_t *work = arguments[0];
    switch (kernel) {
    case AMO:
        return run_amo(arguments);
    case MEET:
        return meet(work);
    case GATHER:
        return run_gather(work);
    case SPREAD:
        return run_spread(work);
    case COPY:
        return standin_copy(work->dest, work->source, work->count);
    case STORE:
        return run_store(work);
    case SIGNAL:
        return run_signal(work);
    case AWAIT:
        return run_await(work);
    default:
        return run_reduce(work, reduced[kernel - REDUCE]);
    }
}

/* What the arithmetic calls when it is asked for what does not exist. */
_Noreturn void px_fatal(int status, const char *format, ...);
_Noreturn void px_fatal(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    exit(status);
}
