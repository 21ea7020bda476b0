/* SPDX-License-Identifier: BSD-3-Clause */
/* reducescatter: the reduction of block i of every member's source goes to member i, which computes
 * it. */
#include "config.h"
#include "src/coll/private.h"

static void scatter_direct(struct px_visit *visit, void *dest, const void *source, size_t n,
                           struct px_arithmetic a)
{
    const struct px_team *team = visit->team;
    size_t bytes = n * px_dtype_info[a.type].size;
    unsigned char own[PX_CELLS];
    px_direct_hand(visit, source, bytes, bytes);
    px_copy(own, (const char *)source + team->rank * bytes, bytes); /* dest may lie on it */
    for (uint32_t i = 0; i < team->size; i++) {
        const void *operand = i == team->rank ? own : px_direct_take(visit, i, bytes);
        if (i > 0)
            px_reduce_kernel(a.type, a.op, dest, operand, n);
        else
            px_copy(dest, operand, bytes);
    }
}

static struct px_operand my_block_of(const struct px_pieces *p, uint32_t i, size_t first)
{
    const char *block = p->source + p->team->rank * p->elements * p->width;
    return (struct px_operand){.pe = px_team_pe(p->team, i), .from = block + first * p->width};
}

static void keep(const struct px_pieces *p, size_t first, size_t n, const void *result)
{
    px_copy(p->dest + first * p->width, result, n * p->width);
}

static bool overlap(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* A dest inside source would overwrite blocks that others still read. Nobody else reads the
 * caller's own block of its own source, so the result waits there until all are done. */
static void scatter_long(struct px_visit *visit, struct px_pieces *p)
{
    const struct px_team *team = visit->team;
    size_t bytes = p->elements * p->width;
    char *dest = p->dest;
    if (overlap(dest, bytes, p->source, team->size * bytes))
        p->dest = (char *)(uintptr_t)p->source + team->rank * bytes;
    px_meet(visit);
    px_fold_pieces(p, 0, p->elements);
    px_meet(visit);
    if (dest != p->dest)
        __builtin_memmove(dest, p->dest, bytes);
}

void px_reducescatter(struct px_team *team, void *dest, const void *source, size_t count,
                      struct px_arithmetic arithmetic, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    size_t width = px_dtype_info[arithmetic.type].size;
    struct px_pieces pieces = {.team = team,
                               .arithmetic = arithmetic,
                               .width = width,
                               .count = team->size,
                               .source = source,
                               .dest = dest,
                               .elements = count,
                               .operand = my_block_of,
                               .deliver = keep};
    if (px_direct_fits(team, count * width)) {
        scatter_direct(&visit, dest, source, count, arithmetic);
    } else {
        (void)px_scratch(team, call->name);
        scatter_long(&visit, &pieces);
    }
    px_leave(&visit);
}
