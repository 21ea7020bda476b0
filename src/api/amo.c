/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations (9.7) where amo.h's inline path does not do: with checks, to PEs that are not
 * mapped, and those that fetch without waiting. */
#include "config.h"
#include "src/api/amo.h"

static void check(enum px_amo_op op, const void *dest, size_t size, int pe, const char *call)
{
    if (px_suspect(pe))
        px_check_amo(call, op == PX_AMO_FETCH ? "source" : "dest", dest, size, pe);
}

uint64_t px_far_amo(enum px_amo_op op, const void *dest, uint64_t operand, uint64_t compare,
                    bool fetching, size_t size, int pe, const char *call)
{
    check(op, dest, size, pe, call);
    const struct px_amo amo = {.op = op,
                               .width = (uint8_t)size,
                               .fetching = fetching,
                               .operand = operand,
                               .compare = compare};
    return px_amo((uint32_t)pe, (void *)(uintptr_t)dest, &amo);
}

void px_api_amo_nbi(enum px_amo_op op, void *fetch, const void *dest, const void *value,
                    const void *compare, size_t size, int pe, const char *call)
{
    check(op, dest, size, pe, call);
    const struct px_amo amo = {.op = op,
                               .width = (uint8_t)size,
                               .fetching = true,
                               .operand = px_amo_bits(value, size),
                               .compare = px_amo_bits(compare, size)};
    void *word = (void *)(uintptr_t)dest;
    if (px_is_mapped((uint32_t)pe))
        px_amo_store(fetch, px_amo_apply(px_mapped((uint32_t)pe, word), &amo), size);
    else
        px_peers.remote->amo_nbi(px_peers.remote_self, (uint32_t)pe, word, &amo, fetch);
}
