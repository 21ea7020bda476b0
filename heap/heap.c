/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of one PE: ties together limits, memory, address, descriptors of peers and the
 * allocator, in the order that heap.h describes. What can be decided with plain values is decided
 * in the other files.
 *
 * Invariant: the control area is mapped exactly once at any time for its owner, at `early` before
 * px_heap_place and at `base` after; a peer is in `peers` exactly while its window is mapped. */
#include "config.h"
#include "heap/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "heap/private.h"
#include "src/diag/log.h"

#define PAGE              ((size_t)4096)
#define GROWTH_STEP       ((size_t)32 << 20)
#define GRANULARITY_SLACK ((size_t)64 << 20)

/* --- create and destroy --- */

static px_status draw_numbers(struct px_heap *heap, struct px_error *error)
{
    struct {
        uint64_t nonce;
        uint32_t tag;
    } drawn;
    ssize_t got;
    do
        got = getrandom(&drawn, sizeof(drawn), 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(drawn))
        return px_error_errno(error, errno, "random numbers for the heap");
    heap->nonce = drawn.nonce ? drawn.nonce : 1;
    heap->tag = drawn.tag;
    return PX_OK;
}

/* Whether the node has memory for `size` per PE; what comes from a pool of its own has been checked
 * there. */
static px_status check_limits(struct px_heap *heap, size_t size, struct px_error *error)
{
    char warning[PX_LIMITS_WARNING];
    px_status status = px_limits_read("", &heap->limits, error);
    if (status != PX_OK || heap->options.data_elsewhere || heap->ops->from_pool(heap->memory))
        return status;
    status = px_limits_check(&heap->limits, heap->control_bytes + size,
                             heap->ops->resident(heap->memory), heap->control_bytes,
                             heap->options.local_size, warning, error);
    if (status == PX_OK && warning[0])
        px_warn_once_per_node("%s", warning);
    return status;
}

static px_status check_options(const struct px_heap_options *options, struct px_error *error)
{
    const size_t most = (size_t)1 << 56;
    if (options->local_size == 0)
        return px_error_set(error, PX_ERR_INVALID, "no PE on this node");
    if (options->size == 0 || options->size > most || options->max_size > most ||
        options->control_bytes == 0 || options->control_bytes > most)
        return px_error_set(
            error, PX_ERR_INVALID,
            "a symmetric heap of %zu bytes (at most %zu) with a control area of %zu "
            "bytes is not possible",
            options->size, options->max_size, options->control_bytes);
    if (options->max_size && options->max_size < options->size)
        return px_error_set(error, PX_ERR_INVALID,
                            "NVSHMEM_SYMMETRIC_SIZE (%zu bytes) is above NVSHMEM_MAX_MEMORY_PER_PE "
                            "(%zu bytes)",
                            options->size, options->max_size);
    return PX_OK;
}

static px_status make_memory(struct px_heap *heap, struct px_error *error)
{
    const struct px_memory_options wanted = {.rank = heap->options.rank,
                                             .huge = heap->options.huge,
                                             .numa_node = heap->options.numa_node,
                                             .control_bytes = heap->control_bytes};
    px_status status = heap->ops->create(
        &wanted, px_heap_mapped(heap, heap->control_bytes + heap->initial), &heap->memory, error);
    if (status != PX_OK)
        return status;
    return heap->ops->attach(heap->memory, heap->ops->descriptor(heap->memory), heap->control_bytes,
                             &heap->early, error);
}

static px_status make_share(struct px_heap *heap, struct px_error *error)
{
    char why[PX_SHARE_WHY];
    px_status status = draw_numbers(heap, error);
    if (status != PX_OK)
        return status;
    heap->direct = !heap->options.no_direct && px_share_direct_expected(why);
    if (!heap->direct)
        px_info(PX_SUB_MEM, "descriptors are passed over sockets: %s",
                heap->options.no_direct ? "asked for" : why);
    const struct px_share_id id = {.job = heap->options.job,
                                   .rank = heap->options.rank,
                                   .nonce = heap->nonce,
                                   .tag = heap->tag};
    return px_share_open(&id, &heap->share, error);
}

px_status px_heap_create(const struct px_heap_options *options, struct px_heap **out,
                         struct px_error *error)
{
    px_status status = check_options(options, error);
    if (status != PX_OK)
        return status;
    struct px_heap *heap = calloc(1, sizeof(*heap));
    if (!heap)
        return px_error_errno(error, ENOMEM, "books of the symmetric heap");
    heap->options = *options;
    heap->ops = &px_memory_host;
    heap->control_bytes = px_round_up(options->control_bytes, PAGE);
    heap->initial = px_round_up(options->size, PAGE);
    heap->span_cap = SIZE_MAX;
    status = make_memory(heap, error);
    if (status == PX_OK)
        status = check_limits(heap, heap->initial, error);
    if (status == PX_OK)
        status = make_share(heap, error);
    if (status == PX_OK && px_alloc_create(heap->initial, &heap->alloc) != PX_OK)
        status = px_error_errno(error, ENOMEM, "books of the allocator");
    if (status != PX_OK) {
        px_heap_destroy(heap);
        return status;
    }
    *out = heap;
    return PX_OK;
}

static void unmap_own(struct px_heap *heap)
{
    if (heap->base)
        heap->ops->unmap(heap->memory, heap->base, px_heap_mapped(heap, heap->span));
    if (heap->early)
        heap->ops->unmap(heap->memory, heap->early, heap->control_bytes);
    heap->base = heap->early = 0;
}

void px_heap_destroy(struct px_heap *heap)
{
    if (!heap)
        return;
    int saved = errno;
    px_heap_drop_peers(heap);
    if (heap->memory) {
        unmap_own(heap);
        heap->ops->destroy(heap->memory);
    }
    px_share_close(heap->share);
    px_alloc_destroy(heap->alloc);
    free(heap->peers);
    free(heap);
    errno = saved;
}

void *px_heap_control(const struct px_heap *heap)
{
    return (void *)(heap->base ? heap->base : heap->early);
}

uint64_t px_heap_nonce(const struct px_heap *heap)
{
    return heap->nonce;
}

/* --- offer --- */

static size_t own_granularity(const struct px_heap *heap)
{
    size_t asked = heap->options.granularity;
    return asked > PX_HEAP_UNIT ? asked : PX_HEAP_UNIT;
}

size_t px_heap_data_start(const struct px_heap *heap, size_t granularity)
{
    bool elsewhere = heap->options.data_elsewhere;
    return elsewhere ? px_round_up(heap->control_bytes, granularity) : heap->control_bytes;
}

/* What lies in front of programs' memory, before the job's granularity is known. */
static size_t front(const struct px_heap *heap)
{
    return px_heap_data_start(heap, own_granularity(heap)) + heap->options.front_bytes;
}

size_t px_heap_least_span(const struct px_heap *heap)
{
    return px_round_up(front(heap) + heap->initial, PX_HEAP_UNIT);
}

static px_status choose_span(const struct px_heap *heap, size_t *span, struct px_error *error)
{
    uint32_t n = heap->options.local_size;
    size_t least = px_heap_least_span(heap), room = px_limits_address_space(least * n);
    if (room != SIZE_MAX && heap->base) /* what this heap has mapped already can be used again */
        room += heap->span * (1 + (size_t)heap->n_peers);
    if (heap->options.data_elsewhere) /* it is reserved by others, outside of our limits */
        room = SIZE_MAX;
    size_t found = px_offer_span(heap->initial, heap->options.max_size,
                                 px_round_up(front(heap), own_granularity(heap)),
                                 heap->limits.physical, room, n);
    if (heap->options.data_elsewhere) /* other PEs may need more before their memory begins */
        found = px_round_up(found, own_granularity(heap)) + GRANULARITY_SLACK;
    if (found > heap->span_cap)
        found = heap->span_cap;
    if (found >= least) {
        *span = found;
        return PX_OK;
    }
    char have[PX_SIZE_TEXT], each[PX_SIZE_TEXT];
    return px_error_set(
        error, PX_ERR_NO_MEMORY,
        "address space: %s are left for the windows of %u PEs on this node, which need "
        "%s each; lower NVSHMEM_SYMMETRIC_SIZE or raise the limit (ulimit -v)",
        px_size_text(room, have), n, px_size_text(least, each));
}

/* Of a range with a refused part in it the larger rest is offered. */
static void leave_out(struct px_heap_range ranges[PX_HEAP_RANGES], const struct px_heap_range *part)
{
    for (size_t i = 0; i < PX_HEAP_RANGES && part->length; i++) {
        uintptr_t start = ranges[i].start, end = start + ranges[i].length;
        uintptr_t from = part->start, to = from + part->length;
        if (to <= start || from >= end)
            continue;
        size_t below = from > start ? from - start : 0, above = end > to ? end - to : 0;
        ranges[i].start = below > above ? start : to;
        ranges[i].length = below > above ? below : above;
    }
}

px_status px_heap_card(struct px_heap *heap, uint8_t bytes[PX_HEAP_CARD_BYTES],
                       struct px_error *error)
{
    struct px_heap_card card = {
        .granularity = own_granularity(heap),
        .nonce = heap->nonce,
        .tag = heap->tag,
        .pid_namespace = px_share_pid_namespace(),
        .pid = (int32_t)getpid(),
        .fd = heap->ops->descriptor(heap->memory),
        .direct = heap->direct,
    };
    px_status status = choose_span(heap, &card.span, error);
    if (status != PX_OK)
        return status;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return px_error_errno(error, errno, "opening /proc/self/maps");
    px_offer_ranges(maps, heap->base, heap->base ? px_heap_mapped(heap, heap->span) : 0, card.free);
    rewind(maps);
    px_offer_slots(maps, heap->base, heap->base ? px_heap_mapped(heap, heap->span) : 0, card.slots);
    fclose(maps);
    leave_out(card.free, &heap->avoid);
    px_offer_take(card.slots, heap->avoid.start, heap->avoid.start + heap->avoid.length);
    px_heap_card_encode(&card, bytes);
    return PX_OK;
}

/* --- place --- */

/* A refusal for lack of address space is answered with half the window in the next round, while
 * that is enough. */
px_status px_heap_offer_less(struct px_heap *heap, size_t refused, struct px_error *error)
{
    size_t half = px_round_down(refused / 2, PX_HEAP_UNIT), least = px_heap_least_span(heap);
    if (refused <= least)
        return PX_ERR_NO_MEMORY;
    heap->span_cap = half > least ? half : least;
    px_info(PX_SUB_MEM, "a symmetric window of %zu MiB was refused, trying %zu MiB", refused >> 20,
            heap->span_cap >> 20);
    if (error)
        error->status = PX_ERR_UNREACHABLE;
    return PX_ERR_UNREACHABLE;
}

static px_status back_to_early(struct px_heap *heap)
{
    if (heap->early)
        return PX_OK;
    return heap->ops->attach(heap->memory, heap->ops->descriptor(heap->memory), heap->control_bytes,
                             &heap->early, NULL);
}

px_status px_heap_place(struct px_heap *heap, uintptr_t base, size_t span, struct px_error *error)
{
    if (base == 0 || (base | span) % PX_HEAP_UNIT || span < px_heap_least_span(heap))
        return px_error_set(error, PX_ERR_INVALID,
                            "a window of 0x%zx bytes at 0x%zx is not possible", span, (size_t)base);
    if (heap->base == base && heap->span == span)
        return PX_OK;
    px_heap_drop_peers(heap);
    if (heap->base) {
        if (back_to_early(heap) != PX_OK)
            return px_error_set(error, PX_ERR_NO_MEMORY, "no room to map the control area");
        heap->ops->unmap(heap->memory, heap->base, px_heap_mapped(heap, heap->span));
        heap->base = 0;
    }
    px_status status = heap->ops->place(heap->memory, base, px_heap_mapped(heap, span), error);
    if (status == PX_ERR_NO_MEMORY)
        return px_heap_offer_less(heap, span, error);
    if (status != PX_OK)
        return status;
    heap->ops->unmap(heap->memory, heap->early, heap->control_bytes);
    heap->early = 0;
    heap->base = base;
    heap->span = span;
    return PX_OK;
}

/* --- facts and growth --- */

/* What all PEs have: the allocator's size. The file may be larger where a growth that failed elsewhere succeeded. */
static size_t agreed_size(const struct px_heap *heap)
{
    struct px_alloc_stats stats;
    px_alloc_stats(heap->alloc, &stats);
    return stats.size;
}

static uintptr_t data_address(const struct px_heap *heap)
{
    if (heap->options.data_elsewhere)
        return heap->data;
    return heap->base ? heap->base + heap->control_bytes : 0;
}

/* The most that programs' memory can grow to. */
static size_t room(const struct px_heap *heap)
{
    if (heap->options.data_elsewhere)
        return heap->data_room;
    return heap->span > heap->control_bytes ? heap->span - heap->control_bytes : 0;
}

size_t px_heap_granularity(const struct px_heap_card *cards, uint32_t n_pes)
{
    size_t granularity = PX_HEAP_UNIT;
    for (uint32_t pe = 0; pe < n_pes; pe++)
        if (cards[pe].granularity > granularity)
            granularity = cards[pe].granularity;
    return granularity;
}

void px_heap_data_at(struct px_heap *heap, uintptr_t data, size_t max_size)
{
    heap->data = data;
    heap->data_room = max_size;
}

void px_heap_data_apart(struct px_heap *heap)
{
    heap->data_apart = true;
}

void px_heap_avoid(struct px_heap *heap)
{
    heap->avoid = (struct px_heap_range){.start = heap->base, .length = heap->span};
}

void px_heap_facts(const struct px_heap *heap, struct px_heap_facts *facts)
{
    *facts = (struct px_heap_facts){
        .base = heap->base,
        .data = data_address(heap),
        .span = heap->span,
        .control_bytes = heap->control_bytes,
        .size = agreed_size(heap),
        .max_size = room(heap),
        .apart = heap->data_apart,
        .fd = heap->ops->descriptor(heap->memory),
    };
    heap->ops->describe(heap->memory, facts->pages, sizeof(facts->pages));
}

void px_heap_where(const struct px_heap *heap, const void *pointer, struct px_heap_where *where)
{
    uintptr_t address = (uintptr_t)pointer;
    *where = (struct px_heap_where){.kind = PX_HEAP_OUTSIDE, .symmetric = address};
    if (!heap->base)
        return;
    if (address - data_address(heap) < room(heap)) {
        bool exists = address - data_address(heap) < agreed_size(heap);
        where->rank = heap->options.rank;
        where->kind = exists ? PX_HEAP_MINE : PX_HEAP_MINE_UNUSED;
        return;
    }
    if (address - heap->base < heap->span) {
        where->rank = heap->options.rank;
        where->kind = PX_HEAP_CONTROL;
        return;
    }
    for (uint32_t i = 0; i < heap->n_peers; i++) {
        size_t offset = address - heap->peers[i].address;
        if (offset >= px_heap_mapped(heap, heap->span))
            continue;
        where->kind = PX_HEAP_OF_PEER;
        where->rank = heap->peers[i].rank;
        where->symmetric = heap->base + offset;
    }
}

struct px_alloc *px_heap_allocator(struct px_heap *heap)
{
    return heap->alloc;
}

/* Other memory grows by a chunk each time, which peers have to map: large heaps take larger ones. */
static size_t growth_step(const struct px_heap *heap)
{
    size_t step = GROWTH_STEP, size = agreed_size(heap);
    while (heap->options.data_elsewhere && step < size / 32)
        step *= 2;
    return step;
}

size_t px_heap_growth(const struct px_heap *heap, size_t bytes, size_t alignment)
{
    size_t need = px_alloc_size_for(heap->alloc, bytes, alignment);
    size_t most = room(heap);
    if (need == 0 || need > most)
        return 0;
    size_t size = px_round_up(need, growth_step(heap));
    return size < most ? size : most;
}

static px_status check_window(const struct px_heap *heap, size_t size, struct px_error *error)
{
    char asked[PX_SIZE_TEXT], most[PX_SIZE_TEXT];
    if (size <= room(heap))
        return PX_OK;
    return px_error_set(error, PX_ERR_NO_MEMORY,
                        "a symmetric heap of %s does not fit into the window, which holds %s; set "
                        "NVSHMEM_MAX_MEMORY_PER_PE (or NVSHMEM_SYMMETRIC_SIZE) before initialising",
                        px_size_text(size, asked), px_size_text(room(heap), most));
}

px_status px_heap_grow(struct px_heap *heap, size_t new_size, struct px_error *error)
{
    px_status status = check_window(heap, new_size, error);
    if (status != PX_OK || new_size <= agreed_size(heap) || heap->options.data_elsewhere)
        return status;
    size_t size = px_round_up(new_size, PAGE);
    status = check_limits(heap, size, error);
    if (status == PX_OK)
        status = heap->ops->grow(heap->memory, heap->control_bytes + size, error);
    return status;
}

void px_heap_clear(struct px_heap *heap, size_t offset, size_t length)
{
    heap->ops->clear(heap->memory, heap->base + heap->control_bytes + offset, length);
}

px_status px_heap_reset(struct px_heap *heap, size_t new_size, struct px_error *error)
{
    size_t agreed = agreed_size(heap), size = px_round_up(new_size, PAGE);
    px_status status = check_window(heap, size, error);
    if (status == PX_OK)
        status = check_limits(heap, size, error);
    if (heap->options.data_elsewhere) {
        px_alloc_reset(heap->alloc, status == PX_OK ? size : agreed);
        return status;
    }
    if (status == PX_OK)
        status =
            heap->ops->reset(heap->memory, heap->control_bytes, heap->control_bytes + size, error);
    else /* empty it all the same, so that the next step starts from the same on all PEs */
        (void)heap->ops->reset(heap->memory, heap->control_bytes, heap->control_bytes + agreed,
                               NULL);
    px_alloc_reset(heap->alloc, status == PX_OK ? size : agreed);
    return status;
}
