/* SPDX-License-Identifier: BSD-3-Clause */
/* One base and one span for all PEs, computed by each from the same cards: arithmetic only, so that
 * all get the same answer. Free ranges are intersected PE by PE; the first PE that leaves too
 * little is the one to name. */
#include "config.h"
#include "heap/private.h"

#include <string.h>

/* Where the window lies when nobody objects: readable in hexadecimal, far from what loaders,
 * allocators, sanitizers and the CUDA driver use, the same in every job. */
#define PREFERRED ((uintptr_t)0x200000000000)
/* Common ranges followed; with more the smallest are forgotten. */
#define MAX_PIECES 64

struct pieces {
    struct px_heap_range at[MAX_PIECES];
    size_t n;
};

static void add_piece(struct pieces *pieces, uintptr_t from, uintptr_t to)
{
    if (to <= from)
        return;
    if (pieces->n == MAX_PIECES) {
        size_t least = 0;
        for (size_t i = 1; i < MAX_PIECES; i++)
            if (pieces->at[i].length < pieces->at[least].length)
                least = i;
        if (to - from <= pieces->at[least].length)
            return;
        memmove(&pieces->at[least], &pieces->at[least + 1],
                (MAX_PIECES - 1 - least) * sizeof(pieces->at[0]));
        pieces->n--;
    }
    pieces->at[pieces->n++] = (struct px_heap_range){.start = from, .length = to - from};
}

/* What of a range can be used at this granularity. */
static void aligned(const struct px_heap_range *range, size_t granularity, uintptr_t *from,
                    uintptr_t *to)
{
    *from = px_round_up(range->start, granularity);
    *to = px_round_down(range->start + range->length, granularity);
}

static void intersect(struct pieces *common, const struct px_heap_card *card, size_t granularity)
{
    struct pieces result = {.n = 0};
    for (size_t i = 0; i < common->n; i++) {
        for (size_t j = 0; j < PX_HEAP_RANGES; j++) {
            uintptr_t from, to, start = common->at[i].start, end = start + common->at[i].length;
            aligned(&card->free[j], granularity, &from, &to);
            add_piece(&result, from > start ? from : start, to < end ? to : end);
        }
    }
    *common = result;
}

static const struct px_heap_range *largest(const struct pieces *pieces)
{
    const struct px_heap_range *best = NULL;
    for (size_t i = 0; i < pieces->n; i++)
        if (!best || pieces->at[i].length > best->length)
            best = &pieces->at[i];
    return best;
}

static bool reaches(const struct px_heap_range *piece, uintptr_t base, size_t span)
{
    return piece->start <= base && base - piece->start <= piece->length &&
           piece->length - (base - piece->start) >= span;
}

static px_status smallest_span(const struct px_heap_card *cards, uint32_t n_pes, size_t needed,
                               size_t *span, uint32_t *who, struct px_error *error)
{
    *who = 0;
    for (uint32_t pe = 1; pe < n_pes; pe++)
        if (cards[pe].span < cards[*who].span)
            *who = pe;
    *span = cards[*who].span;
    if (*span >= needed)
        return PX_OK;
    char offered[PX_SIZE_TEXT], wanted[PX_SIZE_TEXT];
    return px_error_set(
        error, PX_ERR_NO_MEMORY,
        "PE %u can map a symmetric window of %s only, but %s are needed: lower "
        "NVSHMEM_SYMMETRIC_SIZE, raise NVSHMEM_MAX_MEMORY_PER_PE there, or allow more "
        "address space (ulimit -v)",
        *who, px_size_text(*span, offered), px_size_text(needed, wanted));
}

static px_status refuse(uint32_t pe, const struct px_heap_range *left, size_t needed,
                        struct px_error *error)
{
    char have[PX_SIZE_TEXT], want[PX_SIZE_TEXT];
    return px_error_set(
        error, PX_ERR_NO_MEMORY,
        "no address range of %s is free on all PEs: with PE %u the largest common one "
        "shrinks to %s; that PE has mapped much memory before initialising, or its "
        "address space is limited",
        px_size_text(needed, want), pe, px_size_text(left ? left->length : 0, have));
}

/* The longest run of slots that are free on all PEs, the first of equals. Address spaces with many small mappings have
 * few large ranges in common, but many slots. */
static struct px_heap_range common_slots(const struct px_heap_card *cards, uint32_t n_pes)
{
    uint64_t common[PX_HEAP_SLOTS / 64];
    size_t best = 0, best_length = 0, run = 0;
    memset(common, 0xff, sizeof(common));
    for (uint32_t pe = 0; pe < n_pes; pe++)
        for (size_t i = 0; i < PX_HEAP_SLOTS / 64; i++)
            common[i] &= cards[pe].slots[i];
    for (size_t i = 0; i < PX_HEAP_SLOTS; i++) {
        run = common[i / 64] >> i % 64 & 1 ? run + 1 : 0;
        if (run > best_length) {
            best_length = run;
            best = i + 1 - run;
        }
    }
    return (struct px_heap_range){.start = PX_HEAP_SLOT_BASE + best * PX_HEAP_SLOT,
                                  .length = best_length * PX_HEAP_SLOT};
}

px_status px_heap_agree(const struct px_heap_card *cards, uint32_t n_pes, size_t needed,
                        uintptr_t *base, size_t *span, char note[PX_HEAP_NOTE_MAX],
                        struct px_error *error)
{
    size_t granularity = PX_HEAP_UNIT, wish;
    uint32_t who;
    for (uint32_t pe = 0; pe < n_pes; pe++)
        if (cards[pe].granularity > granularity)
            granularity = cards[pe].granularity;
    needed = px_round_up(needed, granularity);
    px_status status = smallest_span(cards, n_pes, needed, &wish, &who, error);
    if (status != PX_OK)
        return status;
    wish = px_round_down(wish, granularity);

    struct px_heap_range slots = common_slots(cards, n_pes);
    struct pieces common = {.n = 0};
    add_piece(&common, granularity, px_round_down(UINTPTR_MAX, granularity));
    const struct px_heap_range *best = NULL;
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        intersect(&common, &cards[pe], granularity);
        best = largest(&common);
        if ((!best || best->length < needed) && slots.length < needed)
            return refuse(pe, best, needed, error);
    }
    if (!best || (best->length < wish && slots.length > best->length))
        best = &slots;

    size_t found = wish < best->length ? wish : best->length;
    if (note) {
        char wanted[PX_SIZE_TEXT], got[PX_SIZE_TEXT];
        note[0] = '\0';
        if (found < wish)
            snprintf(note, PX_HEAP_NOTE_MAX,
                     "the symmetric window is %s instead of %s: no larger range is free on all PEs",
                     px_size_text(found, got), px_size_text(wish, wanted));
    }
    uintptr_t preferred = px_round_up(PREFERRED, granularity);
    *base = best->start;
    for (size_t i = 0; i < common.n; i++)
        if (reaches(&common.at[i], preferred, found))
            *base = preferred;
    *span = found;
    return PX_OK;
}
