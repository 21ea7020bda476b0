/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of moving data that are too large to inline: the processor's atomics and put with
 * signal. */
#include "config.h"
#include "src/transport/move.h"

#include "src/transport/control.h"
#include "src/transport/wait.h"

struct px_peers px_peers = {.remote = &px_transport_none};

static uint64_t apply_4(uint32_t *word, const struct px_amo *amo)
{
    uint32_t operand = (uint32_t)amo->operand, expected = (uint32_t)amo->compare;
    switch (amo->op) {
    case PX_AMO_FETCH:
        return __atomic_load_n(word, __ATOMIC_SEQ_CST);
    case PX_AMO_SET:
        if (!amo->fetching) {
            __atomic_store_n(word, operand, __ATOMIC_SEQ_CST);
            return 0;
        }
        /* fallthrough */
    case PX_AMO_SWAP:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case PX_AMO_COMPARE_SWAP:
        (void)__atomic_compare_exchange_n(
            word, &expected, operand, false, __ATOMIC_SEQ_CST,
            __ATOMIC_SEQ_CST); /* expected becomes the old value when it differs */
        return expected;
    case PX_AMO_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case PX_AMO_AND:
        return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case PX_AMO_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case PX_AMO_XOR:
        return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    case PX_AMO_COUNT:
        break;
    }
    return 0;
}

static uint64_t apply_8(uint64_t *word, const struct px_amo *amo)
{
    uint64_t expected = amo->compare;
    switch (amo->op) {
    case PX_AMO_FETCH:
        return __atomic_load_n(word, __ATOMIC_SEQ_CST);
    case PX_AMO_SET:
        if (!amo->fetching) {
            __atomic_store_n(word, amo->operand, __ATOMIC_SEQ_CST);
            return 0;
        }
        /* fallthrough */
    case PX_AMO_SWAP:
        return __atomic_exchange_n(word, amo->operand, __ATOMIC_SEQ_CST);
    case PX_AMO_COMPARE_SWAP:
        (void)__atomic_compare_exchange_n(word, &expected, amo->operand, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
        return expected;
    case PX_AMO_ADD:
        return __atomic_fetch_add(word, amo->operand, __ATOMIC_SEQ_CST);
    case PX_AMO_AND:
        return __atomic_fetch_and(word, amo->operand, __ATOMIC_SEQ_CST);
    case PX_AMO_OR:
        return __atomic_fetch_or(word, amo->operand, __ATOMIC_SEQ_CST);
    case PX_AMO_XOR:
        return __atomic_fetch_xor(word, amo->operand, __ATOMIC_SEQ_CST);
    case PX_AMO_COUNT:
        break;
    }
    return 0;
}

uint64_t px_amo_apply(void *word, const struct px_amo *amo)
{
    return amo->width == 4 ? apply_4(word, amo) : apply_8(word, amo);
}

void px_wake_pe(uint32_t pe)
{
    if (px_peers.control && px_control_is_mapped(pe))
        px_wait_wake(&((struct px_control *)px_control_mapped(pe, px_peers.control))->sleeping);
}

void px_put_signal(uint32_t pe, void *dest, const void *source, size_t bytes, uint64_t *signal,
                   uint64_t value, enum px_amo_op op, bool nbi)
{
    if (!px_is_mapped(pe)) {
        px_peers.remote->put_signal(px_peers.remote_self, pe, dest, source, bytes, signal, value,
                                    op, nbi);
        return;
    }
    px_copy(px_mapped(pe, dest), source, bytes);
    uint64_t *word = px_mapped(pe, signal);
    if (op == PX_AMO_ADD)
        (void)__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    px_wake_pe(pe);
}
