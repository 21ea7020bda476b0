/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals (9.8): put with signal, signal operations, reading and awaiting one's own signal word.
 * Signal words are plain 8-byte symmetric words: a signal may be awaited with
 * nvshmem_uint64_wait_until and an atomic with nvshmem_signal_wait_until. */
#include "config.h"
#include "src/api/signal.h"

#include "src/api/entry.h"
#include "src/transport/wait.h"

static enum px_amo_op signal_op(const char *call, int sig_op)
{
    if (__builtin_expect(sig_op == NVSHMEM_SIGNAL_SET, 1))
        return PX_AMO_SET;
    if (sig_op == NVSHMEM_SIGNAL_ADD)
        return PX_AMO_ADD;
    px_check_bad_signal_op(call, sig_op);
}

static inline void put_signal(void *dest, const void *source, size_t nelems, size_t size,
                              uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, bool nbi,
                              const char *call)
{
    if (px_suspect(pe)) {
        px_check_rma(call, "dest", dest, nelems, size, pe);
        px_check_overlap(call, dest, source, nelems, size, pe);
        px_check_amo(call, "sig_addr", sig_addr, sizeof *sig_addr, pe);
    }
    px_put_signal((uint32_t)pe, dest, source, nelems * size, sig_addr, signal,
                  signal_op(call, sig_op), nbi);
}

void px_api_put_signal(void *dest, const void *source, size_t nelems, size_t size,
                       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, const char *call)
{
    put_signal(dest, source, nelems, size, sig_addr, signal, sig_op, pe, false, call);
}

void px_api_put_signal_nbi(void *dest, const void *source, size_t nelems, size_t size,
                           uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                           const char *call)
{
    put_signal(dest, source, nelems, size, sig_addr, signal, sig_op, pe, true, call);
}

void px_api_signal_op(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)
{
    put_signal(NULL, NULL, 0, 1, sig_addr, signal, sig_op, pe, false, "nvshmemx_signal_op");
}

void px_api_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)
{
    put_signal(NULL, NULL, 0, 1, sig_addr, signal, NVSHMEM_SIGNAL_SET, pe, false,
               "nvshmem_signal_set");
}

void px_api_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)
{
    put_signal(NULL, NULL, 0, 1, sig_addr, signal, NVSHMEM_SIGNAL_ADD, pe, false,
               "nvshmem_signal_add");
}

uint64_t px_api_signal_fetch(uint64_t *sig_addr)
{
    if (px_suspect_call())
        px_check_own("nvshmem_signal_fetch", "sig_addr", sig_addr, 1, sizeof *sig_addr);
    if (px_peers.any_remote) /* programs poll with this call */
        px_peers.remote->progress(px_peers.remote_self);
    return px_own_word(sig_addr, sizeof *sig_addr);
}

static bool signal_holds(uint64_t value, int cmp, uint64_t wanted)
{
    switch (cmp) {
    case NVSHMEM_CMP_EQ:
        return value == wanted;
    case NVSHMEM_CMP_NE:
        return value != wanted;
    case NVSHMEM_CMP_GT:
        return value > wanted;
    case NVSHMEM_CMP_LE:
        return value <= wanted;
    case NVSHMEM_CMP_LT:
        return value < wanted;
    case NVSHMEM_CMP_GE:
        return value >= wanted;
    default:
        px_check_bad_comparison("nvshmem_signal_wait_until", cmp);
    }
}

uint64_t px_api_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)
{
    if (px_suspect_call())
        px_check_own("nvshmem_signal_wait_until", "sig_addr", sig_addr, 1, sizeof *sig_addr);
    struct px_wait wait = PX_WAIT_INIT("nvshmem_signal_wait_until");
    uint64_t value;
    while (!signal_holds(value = px_own_word(sig_addr, sizeof *sig_addr), cmp, cmp_value))
        px_wait_turn(&wait);
    return value;
}
