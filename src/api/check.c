/* SPDX-License-Identifier: BSD-3-Clause */
/* Argument checks: see check.h. This is the cold side; what is right here costs time only with
 * NVSHMEM_CHECK, and what is wrong ends the job with words. Every message says what was given, what
 * is known about it and what would be right. */
#include "config.h"
#include "src/api/check.h"

#include <inttypes.h>

#include "nvshmem.h"
#include "src/api/world.h"
#include "src/diag/log.h"

#define WORDS 768

void px_check_up(const char *call)
{
    px_world_require_up(call);
}

static void check_pe(const char *call, int pe)
{
    if ((uint32_t)pe >= px_peers.n_pes)
        px_fatal(1, "%s: PE %d does not exist; this job has PEs 0 to %" PRIu32, call, pe,
                 px_peers.n_pes - 1);
}

static _Noreturn void not_symmetric(const char *call, const char *argument, const void *address)
{
    char words[WORDS];
    px_world_describe(address, words, sizeof words);
    px_fatal(1, "%s: %s %p is not in symmetric memory that is allocated: %s", call, argument,
             address, words);
}

/* A count that no memory can hold is most often a negative number. */
static void check_count(const char *call, size_t nelems, size_t size)
{
    if (nelems > (size_t)PTRDIFF_MAX / size)
        px_fatal(1,
                 "%s: a count of %zu elements of %zu bytes is more than any memory; as a signed "
                 "number it is %td",
                 call, nelems, size, (ptrdiff_t)nelems);
}

/* `bytes` from `address` on lie in one live block. */
static void check_range(const char *call, const char *argument, const void *address, size_t bytes)
{
    struct px_heap_where where;
    struct px_block block;
    px_world_where(address, &where);
    size_t offset = (uintptr_t)address - px_world.memory.data;
    pthread_rwlock_rdlock(&px_world.books);
    bool found = where.kind == PX_HEAP_MINE &&
                 px_alloc_find(px_heap_allocator(px_world.heap), offset, &block);
    pthread_rwlock_unlock(&px_world.books);
    if (!found)
        not_symmetric(call, argument, address);
    size_t inside = offset - block.offset;
    if (inside > block.asked || bytes > block.asked - inside)
        px_fatal(1,
                 "%s: %s %p with %zu bytes runs past the end of its block: allocation %" PRIu64
                 ", %zu bytes from %p to %p",
                 call, argument, address, bytes, block.serial, block.asked,
                 px_heap_address(&px_world.memory, block.offset),
                 px_heap_address(&px_world.memory, block.offset + block.asked));
}

static void check_alignment(const char *call, const char *argument, const void *word, size_t size)
{
    if ((uintptr_t)word % size)
        px_fatal(1, "%s: %s %p is not aligned to the %zu bytes of its type", call, argument, word,
                 size);
}

void px_check_rma(const char *call, const char *argument, const void *address, size_t nelems,
                  size_t size, int pe)
{
    px_check_up(call);
    check_pe(call, pe);
    px_check_symmetric(call, argument, address, nelems, size);
}

void px_check_symmetric(const char *call, const char *argument, const void *address, size_t nelems,
                        size_t size)
{
    px_check_up(call);
    if (!(px_gate & PX_GATE_CHECK) || nelems == 0)
        return;
    check_count(call, nelems, size);
    check_range(call, argument, address, nelems * size);
}

void px_check_strided(const char *call, const char *argument, const void *address, ptrdiff_t stride,
                      size_t nelems, size_t size, int pe)
{
    px_check_up(call);
    check_pe(call, pe);
    if (!(px_gate & PX_GATE_CHECK) || nelems == 0)
        return;
    if (stride < 1)
        px_fatal(1, "%s: the stride of %s is %td; it is in elements and at least 1", call, argument,
                 stride);
    check_count(call, nelems, size);
    if (nelems > 1)
        check_count(call, nelems, size * (size_t)stride);
    check_range(call, argument, address, ((nelems - 1) * (size_t)stride + 1) * size);
}

void px_check_amo(const char *call, const char *argument, const void *word, size_t size, int pe)
{
    px_check_rma(call, argument, word, 1, size, pe);
    if (px_gate & PX_GATE_CHECK)
        check_alignment(call, argument, word, size);
}

void px_check_own(const char *call, const char *argument, const void *address, size_t nelems,
                  size_t size)
{
    px_check_symmetric(call, argument, address, nelems, size);
    if (px_gate & PX_GATE_CHECK && nelems)
        check_alignment(call, argument, address, size);
}

void px_check_overlap(const char *call, const void *dest, const void *source, size_t nelems,
                      size_t size, int pe)
{
    uintptr_t d = (uintptr_t)dest, s = (uintptr_t)source;
    size_t apart = d > s ? d - s : s - d;
    if (px_gate & PX_GATE_CHECK && (uint32_t)pe == px_peers.my_pe && apart && apart < nelems * size)
        px_fatal(
            1, "%s: dest %p and source %p are %zu bytes apart and overlap in the %zu bytes to copy",
            call, dest, source, apart, nelems * size);
}

/* Which set a wrong constant comes from. */
static const char *known_constant(int value)
{
    if (value >= NVSHMEM_CMP_EQ && value <= NVSHMEM_CMP_GE)
        return ", which is a comparison";
    if (value == NVSHMEM_SIGNAL_SET || value == NVSHMEM_SIGNAL_ADD)
        return ", which is a signal operation";
    return "";
}

void px_check_bad_signal_op(const char *call, int sig_op)
{
    px_fatal(1, "%s: sig_op is %d%s; it is NVSHMEM_SIGNAL_SET or NVSHMEM_SIGNAL_ADD", call, sig_op,
             known_constant(sig_op));
}

void px_check_bad_comparison(const char *call, int cmp)
{
    px_fatal(1, "%s: cmp is %d%s; it is one of NVSHMEM_CMP_EQ, NE, GT, GE, LT, LE", call, cmp,
             known_constant(cmp));
}
