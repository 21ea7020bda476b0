/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations, untyped: operands come by address and are taken as bits (see transport.h:
 * adding wraps round, so signedness does not matter, and floating types only fetch, set and swap).
 * Operation and size are constants wherever these are used, so a mapped one is the processor's one
 * instruction. */
#ifndef PX_API_AMO_H
#define PX_API_AMO_H

#include "src/api/check.h"

static inline uint64_t px_amo_bits(const void *value, size_t size)
{
    uint32_t bits4 = 0;
    uint64_t bits8 = 0;
    if (!value)
        return 0;
    if (size == 4) {
        memcpy(&bits4, value, 4);
        return bits4;
    }
    memcpy(&bits8, value, 8);
    return bits8;
}

static inline void px_amo_store(void *result, uint64_t bits, size_t size)
{
    uint32_t bits4 = (uint32_t)bits;
    if (size == 4)
        memcpy(result, &bits4, 4);
    else
        memcpy(result, &bits, 8);
}

/* On a mapped word; the cases fold away where `op` and `size` are known. */
static inline uint64_t px_amo_here(enum px_amo_op op, void *word, uint64_t operand,
                                   uint64_t compare, bool fetching, size_t size)
{
    if (op == PX_AMO_ADD)
        return size == 4 ? __atomic_fetch_add((uint32_t *)word, (uint32_t)operand, __ATOMIC_SEQ_CST)
                         : __atomic_fetch_add((uint64_t *)word, operand, __ATOMIC_SEQ_CST);
    if (op == PX_AMO_FETCH)
        return size == 4 ? __atomic_load_n((uint32_t *)word, __ATOMIC_SEQ_CST)
                         : __atomic_load_n((uint64_t *)word, __ATOMIC_SEQ_CST);
    const struct px_amo amo = {.op = op,
                               .width = (uint8_t)size,
                               .fetching = fetching,
                               .operand = operand,
                               .compare = compare};
    return px_amo_apply(word, &amo);
}

/* With checks, to PEs that are not mapped, or with a PE that does not exist. */
uint64_t px_far_amo(enum px_amo_op op, const void *dest, uint64_t operand, uint64_t compare,
                    bool fetching, size_t size, int pe, const char *call);

static inline uint64_t px_amo_word(enum px_amo_op op, const void *dest, const void *value,
                                   const void *compare, bool fetching, size_t size, int pe,
                                   const char *call)
{
    if (px_at_hand(pe))
        return px_amo_here(op, px_mapped((uint32_t)pe, dest), px_amo_bits(value, size),
                           px_amo_bits(compare, size), fetching, size);
    return px_far_amo(op, dest, px_amo_bits(value, size), px_amo_bits(compare, size), fetching,
                      size, pe, call);
}

static inline void px_api_amo(enum px_amo_op op, void *dest, const void *value, size_t size, int pe,
                              const char *call)
{
    (void)px_amo_word(op, dest, value, NULL, false, size, pe,
                      call); /* the old value: not asked for */
}

/* `compare` for compare-and-swap, else NULL; `value` NULL for fetch. */
static inline void px_api_amo_fetch(enum px_amo_op op, const void *dest, const void *value,
                                    const void *compare, void *result, size_t size, int pe,
                                    const char *call)
{
    px_amo_store(result, px_amo_word(op, dest, value, compare, true, size, pe, call), size);
}

/* *fetch has the old value after the next quiet. */
void px_api_amo_nbi(enum px_amo_op op, void *fetch, const void *dest, const void *value,
                    const void *compare, size_t size, int pe, const char *call);

#endif
