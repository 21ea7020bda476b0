/* SPDX-License-Identifier: BSD-3-Clause */
/* Scans. Short ones in a direct team: everyone hands its operand to everyone and folds what it
 * needs. Otherwise each member takes a range of elements, walks over the members in order and puts
 * to each its partial result, so that every element is read and written once. */
#include "config.h"
#include "src/coll/private.h"

#include <string.h>

static void scan_direct(struct px_visit *visit, void *dest, const void *source, size_t n,
                        struct px_arithmetic a, bool inclusive)
{
    const struct px_team *team = visit->team;
    size_t bytes = n * px_dtype_info[a.type].size;
    uint32_t end = team->rank + inclusive;
    unsigned char own[PX_CELLS];
    px_direct_hand(visit, source, 0, bytes);
    px_copy(own, source, bytes);
    if (end == 0)
        memset(dest, 0, bytes);
    for (uint32_t i = 0; i < team->size; i++) {
        const void *operand = i == team->rank ? own : px_direct_take(visit, i, bytes);
        if (i == 0 && end > 0)
            px_copy(dest, operand, bytes);
        else if (i < end)
            px_reduce_kernel(a.type, a.op, dest, operand, n);
    }
}

struct scan {
    const struct px_team *team;
    struct px_arithmetic arithmetic;
    size_t width;
    char *dest;
    const char *source;
    bool inclusive;
};

/* dest of a member may be its source, so the operand is read before the result of an exclusive scan
 * is put. */
static void scan_piece(const struct scan *scan, char *acc, size_t first, size_t n)
{
    size_t bytes = n * scan->width, at = first * scan->width;
    char operand[PX_PIECE];
    memset(acc, 0, bytes);
    for (uint32_t i = 0; i < scan->team->size; i++) {
        uint32_t pe = px_team_pe(scan->team, i);
        px_get(pe, operand, scan->source + at, bytes);
        if (!scan->inclusive)
            px_put(pe, scan->dest + at, acc, bytes);
        if (i == 0)
            px_copy(acc, operand, bytes);
        else
            px_reduce_kernel(scan->arithmetic.type, scan->arithmetic.op, acc, operand, n);
        if (scan->inclusive)
            px_put(pe, scan->dest + at, acc, bytes);
    }
}

static void scan_long(struct px_visit *visit, const struct scan *scan, size_t count)
{
    char acc[PX_PIECE];
    size_t length = PX_PIECE / scan->width;
    struct px_range mine = px_range_of(count, scan->width, scan->team->size, scan->team->rank);
    px_meet(visit);
    for (size_t first = mine.first; first < mine.end; first += length)
        scan_piece(scan, acc, first, mine.end - first < length ? mine.end - first : length);
    px_quiet();
    px_meet(visit);
}

void px_scan(struct px_team *team, void *dest, const void *source, size_t count,
             struct px_arithmetic arithmetic, bool inclusive, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    size_t width = px_dtype_info[arithmetic.type].size;
    struct scan scan = {team, arithmetic, width, dest, source, inclusive};
    if (px_direct_fits(team, count * width))
        scan_direct(&visit, dest, source, count, arithmetic, inclusive);
    else
        scan_long(&visit, &scan, count);
    px_leave(&visit);
}
