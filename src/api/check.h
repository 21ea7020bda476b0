/* SPDX-License-Identifier: BSD-3-Clause */
/* Argument checks. A call on the hot path asks one question, px_suspect: is the library down, were
 * checks asked for (NVSHMEM_CHECK), or is the PE number out of range? Only then is one of the
 * functions below called. They return when nothing is wrong; else they end the job with a message
 * that names call, argument, PE, block and bounds. Calls that move data ask px_at_hand, which
 * includes "is it mapped", and leave all else to a function out of line.
 *
 * Counts are given as element count and size, so that a product that overflows is seen. Zero
 * elements: only the PE number is looked at, never the pointers. */
#ifndef PX_API_CHECK_H
#define PX_API_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/transport/move.h"

extern unsigned px_gate __attribute__((visibility("hidden"))); /* world.h */

static inline bool px_suspect(int pe)
{
    return __builtin_expect((px_gate != 0) | ((uint32_t)pe >= px_peers.n_pes), 0);
}

/* Nothing to check, and a load or store is enough. */
static inline bool px_at_hand(int pe)
{
    return __builtin_expect(px_gate == 0 && (uint32_t)pe < px_peers.n_pes &&
                                px_peers.delta[(uint32_t)pe] != PX_NOT_MAPPED,
                            1);
}

/* For calls without a PE. */
static inline bool px_suspect_call(void)
{
    return __builtin_expect(px_gate != 0, 0);
}

/* Fatal when not initialised, naming the call; after a failed init it repeats the cause. */
void px_check_up(const char *call);

/* Up, PE in range, and with checks on: `address` is symmetric memory up to nelems * size bytes. */
void px_check_rma(const char *call, const char *argument, const void *address, size_t nelems,
                  size_t size, int pe);

/* The same for elements `stride` apart. */
void px_check_strided(const char *call, const char *argument, const void *address, ptrdiff_t stride,
                      size_t nelems, size_t size, int pe);

/* The same for one aligned word. */
void px_check_amo(const char *call, const char *argument, const void *word, size_t size, int pe);

/* Up, and with checks on: the caller's own symmetric memory, aligned for its type; or any symmetric
 * memory of a collective. Zero elements: nothing is looked at. */
void px_check_own(const char *call, const char *argument, const void *address, size_t nelems,
                  size_t size);
void px_check_symmetric(const char *call, const char *argument, const void *address, size_t nelems,
                        size_t size);

/* Put or get to oneself: with checks on, regions that overlap without being equal are refused. */
void px_check_overlap(const char *call, const void *dest, const void *source, size_t nelems,
                      size_t size, int pe);

/* A constant that is not of the set the call wants: always fatal, told apart by their ranges. */
_Noreturn void px_check_bad_signal_op(const char *call, int sig_op);
_Noreturn void px_check_bad_comparison(const char *call, int cmp);

#endif
