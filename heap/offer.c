/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process can offer: the largest free ranges of its address space, and how large a window
 * it would like.
 *
 * The lowest 4 GiB are left to whoever needs small pointers. Where a gap touches mappings, a margin
 * is left for what grows: mmap's area downwards, brk upwards. The gap below the stack is never
 * offered. */
#include "config.h"
#include "heap/private.h"

#include <string.h>

#define LOWEST ((uintptr_t)4 << 30)
#define HIGHEST                                                                                    \
    ((uintptr_t)1                                                                                  \
     << 47) /* what every 64-bit system in use gives a program that asks for nothing special */
#define MARGIN   ((size_t)1 << 40)
#define SMALLEST ((size_t)64 << 20)
/* Windows of all local peers together by default: address space is cheap but not endless. */
#define MOST_SPAN ((size_t)16 << 40)

/* Keep the PX_HEAP_RANGES largest, whatever the order. */
static void keep_range(struct px_heap_range *ranges, size_t *n, struct px_heap_range range)
{
    if (*n < PX_HEAP_RANGES) {
        ranges[(*n)++] = range;
        return;
    }
    size_t least = 0;
    for (size_t i = 1; i < PX_HEAP_RANGES; i++)
        if (ranges[i].length < ranges[least].length)
            least = i;
    if (range.length <= ranges[least].length)
        return;
    memmove(&ranges[least], &ranges[least + 1], (PX_HEAP_RANGES - 1 - least) * sizeof(range));
    ranges[PX_HEAP_RANGES - 1] = range;
}

/* The gap [from, to) without its margins, in whole units. */
static struct px_heap_range usable(uintptr_t from, uintptr_t to)
{
    struct px_heap_range none = {0};
    if (to > HIGHEST)
        to = HIGHEST;
    if (from < LOWEST)
        from = LOWEST;
    if (to <= from)
        return none;
    size_t margin = (to - from) / 8 < MARGIN ? (to - from) / 8 : MARGIN;
    if (from > LOWEST)
        from += margin;
    to -= margin;
    from = px_round_up(from, PX_HEAP_UNIT);
    to = px_round_down(to, PX_HEAP_UNIT);
    if (to < from + SMALLEST)
        return none;
    return (struct px_heap_range){.start = from, .length = to - from};
}

/* Clear the slots that [from, to) touches. */
void px_offer_take(uint64_t *slots, uintptr_t from, uintptr_t to)
{
    const uintptr_t end = PX_HEAP_SLOT_BASE + PX_HEAP_SLOTS * PX_HEAP_SLOT;
    if (to <= from || to <= PX_HEAP_SLOT_BASE || from >= end)
        return;
    size_t first = from <= PX_HEAP_SLOT_BASE ? 0 : (from - PX_HEAP_SLOT_BASE) / PX_HEAP_SLOT;
    size_t last = (to >= end ? end - 1 - PX_HEAP_SLOT_BASE : to - 1 - PX_HEAP_SLOT_BASE) / PX_HEAP_SLOT;
    for (size_t i = first; i <= last; i++)
        slots[i / 64] &= ~((uint64_t)1 << i % 64);
}

void px_offer_slots(FILE *maps, uintptr_t mine, size_t mine_length, uint64_t slots[PX_HEAP_SLOTS / 64])
{
    char line[4096 + 128];
    memset(slots, 0xff, PX_HEAP_SLOTS / 8);
    while (fgets(line, sizeof(line), maps)) {
        unsigned long long from, to;
        if (sscanf(line, "%llx-%llx", &from, &to) != 2 || (from >= mine && to <= mine + mine_length))
            continue;
        px_offer_take(slots, from, to);
    }
}

size_t px_offer_ranges(FILE *maps, uintptr_t mine, size_t mine_length,
                       struct px_heap_range ranges[PX_HEAP_RANGES])
{
    char line[4096 + 128];
    size_t n = 0;
    uintptr_t end = 0;
    memset(ranges, 0, PX_HEAP_RANGES * sizeof(*ranges));
    while (fgets(line, sizeof(line), maps)) {
        unsigned long long from, to;
        if (sscanf(line, "%llx-%llx", &from, &to) != 2)
            continue;
        if (from >= mine && to <= mine + mine_length)
            continue;
        struct px_heap_range range = usable(end, from);
        if (range.length && !strstr(line, "[stack]"))
            keep_range(ranges, &n, range);
        end = to;
    }
    return n;
}

size_t px_offer_span(size_t size, size_t max_size, size_t control_bytes, size_t physical,
                     size_t room, uint32_t n_pes)
{
    size_t least = px_round_up(control_bytes + size, PX_HEAP_UNIT);
    size_t wish = max_size ? max_size : physical;
    size_t most = MOST_SPAN / n_pes;
    if (!max_size && wish > most)
        wish = most;
    if (wish < size)
        wish = size;
    wish = px_round_up(control_bytes + wish, PX_HEAP_UNIT);
    if (wish > room / n_pes)
        wish = px_round_down(room / n_pes, PX_HEAP_UNIT);
    return wish < least ? 0 : wish;
}
