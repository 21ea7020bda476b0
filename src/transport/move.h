/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving data: the one place where "mapped or remote?" is asked. A mapped peer is reached by adding its constant to the
 * symmetric address; a remote one by its transport. These functions check nothing: callers in src/api have done so. */
#ifndef PX_TRANSPORT_MOVE_H
#define PX_TRANSPORT_MOVE_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "src/transport/copy.h"
#include "src/transport/transport.h"

#define PX_NOT_MAPPED INTPTR_MIN

struct px_control;

/* Read on every operation, written at start-up and by reinit only. */
struct px_peers {
    intptr_t *delta; /* [n_pes] to add to a symmetric address, PX_NOT_MAPPED for remote PEs */
    uint32_t my_pe, n_pes;
    const struct px_transport_ops *remote; /* none.c's refusals when all PEs are mapped */
    void *remote_self;
    bool any_remote;
    struct px_control *control; /* mine, where the window starts; NULL before there is one */
    /* [n_pes] the same for the control areas, which are host memory always; `delta` itself where
     * programs' memory is host memory too. */
    intptr_t *control_delta;
};
extern struct px_peers px_peers __attribute__((visibility("hidden"))); /* no detour by the GOT */

static inline bool px_is_mapped(uint32_t pe)
{
    return __builtin_expect(px_peers.delta[pe] != PX_NOT_MAPPED, 1);
}

static inline void *px_mapped(uint32_t pe, const void *symmetric)
{
    return (void *)((uintptr_t)symmetric + (uintptr_t)px_peers.delta[pe]);
}

/* Programs' memory is out of the processor's reach, this PE's own too. */
static inline bool px_data_is_far(void)
{
    return !px_is_mapped(px_peers.my_pe);
}

/* The same for what lies in a control area. */
static inline bool px_control_is_mapped(uint32_t pe)
{
    return __builtin_expect(px_peers.control_delta[pe] != PX_NOT_MAPPED, 1);
}

static inline void *px_control_mapped(uint32_t pe, const void *symmetric)
{
    return (void *)((uintptr_t)symmetric + (uintptr_t)px_peers.control_delta[pe]);
}

/* End the sleep of a mapped PE that waits for one of its words. */
void px_wake_pe(uint32_t pe);

static inline void px_put(uint32_t pe, void *dest, const void *source, size_t bytes)
{
    if (px_is_mapped(pe))
        px_copy(px_mapped(pe, dest), source, bytes);
    else
        px_peers.remote->put(px_peers.remote_self, pe, dest, source, bytes);
}

static inline void px_put_nbi(uint32_t pe, void *dest, const void *source, size_t bytes)
{
    if (px_is_mapped(pe))
        px_copy(px_mapped(pe, dest), source, bytes);
    else
        px_peers.remote->put_nbi(px_peers.remote_self, pe, dest, source, bytes);
}

static inline void px_get(uint32_t pe, void *dest, const void *source, size_t bytes)
{
    if (px_is_mapped(pe))
        px_copy(dest, px_mapped(pe, source), bytes);
    else
        px_peers.remote->get(px_peers.remote_self, pe, dest, source, bytes);
}

static inline void px_get_nbi(uint32_t pe, void *dest, const void *source, size_t bytes)
{
    if (px_is_mapped(pe))
        px_copy(dest, px_mapped(pe, source), bytes);
    else
        px_peers.remote->get_nbi(px_peers.remote_self, pe, dest, source, bytes);
}

/* The processor's own atomics, for mapped words and for targets that carry out remote requests. */
uint64_t px_amo_apply(void *word, const struct px_amo *amo);

static inline uint64_t px_amo(uint32_t pe, void *dest, const struct px_amo *amo)
{
    if (px_is_mapped(pe))
        return px_amo_apply(px_mapped(pe, dest), amo);
    return px_peers.remote->amo(px_peers.remote_self, pe, dest, amo);
}

/* A word of this PE's own symmetric memory, 2, 4 or 8 bytes, as it is now; what was put before it was
 * written is then seen too. */
static inline uint64_t px_own_word(const void *word, size_t size)
{
    uint64_t far = 0;
    if (__builtin_expect(px_peers.delta && px_data_is_far(), 0)) {
        px_peers.remote->get(px_peers.remote_self, px_peers.my_pe, &far, word, size);
        return far;
    }
    if (size == 8)
        return __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
    if (size == 4)
        return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
    return __atomic_load_n((const uint16_t *)word, __ATOMIC_ACQUIRE);
}

/* Data, then signal; `op` is PX_AMO_SET or PX_AMO_ADD. Wakes the target when it sleeps on a mapped word. */
void px_put_signal(uint32_t pe, void *dest, const void *source, size_t bytes, uint64_t *signal,
                   uint64_t value, enum px_amo_op op, bool nbi);

/* Stores to mapped peers are ordered by the processor's release fence; the remote part costs a call only where remote
 * PEs exist, and its transport returns at once when nothing is pending. */
static inline void px_fence(void)
{
    atomic_thread_fence(memory_order_release);
    if (px_peers.any_remote)
        px_peers.remote->fence(px_peers.remote_self);
}

static inline void px_quiet(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (px_peers.any_remote)
        px_peers.remote->quiet(px_peers.remote_self);
}

#endif
