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
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "heap/memory.h"
#include "heap/private.h"
#include "src/diag/log.h"

#define PAGE        ((size_t)4096)
#define GROWTH_STEP ((size_t)32 << 20)

struct peer {
    uint32_t rank;
    uint64_t nonce;
    uintptr_t address;
};

struct px_heap {
    struct px_heap_options options;
    size_t control_bytes, size;
    const struct px_memory_ops *ops;
    void *memory;
    struct px_alloc *alloc;
    struct px_limits limits;
    uintptr_t early; /* the control area's address while there is no window */
    uintptr_t base;  /* 0 = no window yet */
    size_t span;
    size_t span_cap; /* a larger window was refused */
    struct px_share *share;
    uint64_t nonce;
    uint32_t tag;
    bool direct; /* as the next card says */
    struct peer *peers;
    uint32_t n_peers;
};

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
static px_status check_limits(const struct px_heap *heap, size_t size, struct px_error *error)
{
    char warning[PX_LIMITS_WARNING];
    struct px_limits limits;
    if (heap->memory && heap->ops->from_pool(heap->memory))
        return PX_OK;
    size_t resident = heap->memory ? heap->ops->resident(heap->memory) : 0;
    px_status status = px_limits_read("", &limits, error);
    if (status == PX_OK)
        status = px_limits_check(&limits, heap->control_bytes + size, resident, heap->control_bytes,
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
    px_status status =
        heap->ops->create(&wanted, heap->control_bytes + heap->size, &heap->memory, error);
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
    heap->size = px_round_up(options->size, PAGE);
    heap->span_cap = SIZE_MAX;
    status = px_limits_read("", &heap->limits, error);
    if (status == PX_OK)
        status = make_memory(heap, error);
    if (status == PX_OK)
        status = check_limits(heap, heap->size, error);
    if (status == PX_OK)
        status = make_share(heap, error);
    if (status == PX_OK && px_alloc_create(heap->size, &heap->alloc) != PX_OK)
        status = px_error_errno(error, ENOMEM, "books of the allocator");
    if (status != PX_OK) {
        px_heap_destroy(heap);
        return status;
    }
    *out = heap;
    return PX_OK;
}

static void drop_peers(struct px_heap *heap)
{
    for (uint32_t i = 0; i < heap->n_peers; i++)
        heap->ops->unmap(heap->memory, heap->peers[i].address, heap->span);
    heap->n_peers = 0;
}

static void unmap_own(struct px_heap *heap)
{
    if (heap->base)
        heap->ops->unmap(heap->memory, heap->base, heap->span);
    if (heap->early)
        heap->ops->unmap(heap->memory, heap->early, heap->control_bytes);
    heap->base = heap->early = 0;
}

void px_heap_destroy(struct px_heap *heap)
{
    if (!heap)
        return;
    int saved = errno;
    drop_peers(heap);
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

static size_t least_span(const struct px_heap *heap)
{
    return px_round_up(heap->control_bytes + heap->size, PX_HEAP_UNIT);
}

static px_status choose_span(const struct px_heap *heap, size_t *span, struct px_error *error)
{
    uint32_t n = heap->options.local_size;
    size_t least = least_span(heap), room = px_limits_address_space(least * n);
    if (room != SIZE_MAX && heap->base) /* what this heap has mapped already can be used again */
        room += heap->span * (1 + (size_t)heap->n_peers);
    size_t found = px_offer_span(heap->size, heap->options.max_size, heap->control_bytes,
                                 heap->limits.physical, room, n);
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

px_status px_heap_card(struct px_heap *heap, uint8_t bytes[PX_HEAP_CARD_BYTES],
                       struct px_error *error)
{
    struct px_heap_card card = {
        .granularity = PX_HEAP_UNIT,
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
    px_offer_ranges(maps, heap->base, heap->base ? heap->span : 0, card.free);
    fclose(maps);
    px_heap_card_encode(&card, bytes);
    return PX_OK;
}

/* --- place --- */

/* A refusal for lack of address space is answered with half the window in the next round, while
 * that is enough. */
static px_status offer_less(struct px_heap *heap, size_t refused, struct px_error *error)
{
    size_t half = px_round_down(refused / 2, PX_HEAP_UNIT), least = least_span(heap);
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
    if (base == 0 || (base | span) % PX_HEAP_UNIT || span < least_span(heap))
        return px_error_set(error, PX_ERR_INVALID,
                            "a window of 0x%zx bytes at 0x%zx is not possible", span, (size_t)base);
    if (heap->base == base && heap->span == span)
        return PX_OK;
    drop_peers(heap);
    if (heap->base) {
        if (back_to_early(heap) != PX_OK)
            return px_error_set(error, PX_ERR_NO_MEMORY, "no room to map the control area");
        heap->ops->unmap(heap->memory, heap->base, heap->span);
        heap->base = 0;
    }
    px_status status = heap->ops->place(heap->memory, base, span, error);
    if (status == PX_ERR_NO_MEMORY)
        return offer_less(heap, span, error);
    if (status != PX_OK)
        return status;
    heap->ops->unmap(heap->memory, heap->early, heap->control_bytes);
    heap->early = 0;
    heap->base = base;
    heap->span = span;
    return PX_OK;
}

/* --- peers --- */

static struct peer *find_peer(const struct px_heap *heap, uint32_t rank)
{
    for (uint32_t i = 0; i < heap->n_peers; i++)
        if (heap->peers[i].rank == rank)
            return &heap->peers[i];
    return NULL;
}

void px_heap_detach(struct px_heap *heap, uint32_t rank)
{
    struct peer *peer = find_peer(heap, rank);
    if (!peer)
        return;
    heap->ops->unmap(heap->memory, peer->address, heap->span);
    *peer = heap->peers[--heap->n_peers];
}

intptr_t px_heap_delta(const struct px_heap *heap, uint32_t rank)
{
    if (rank == heap->options.rank)
        return 0;
    const struct peer *peer = find_peer(heap, rank);
    return peer ? (intptr_t)(peer->address - heap->base) : PX_HEAP_NOT_MAPPED;
}

struct confirm {
    px_heap_confirm_fn *fn;
    void *arg;
};

/* A file that is shorter than its control area would be SIGBUS for whoever looks into it. */
static px_status check_file(const struct px_heap *heap, int fd, struct px_error *error)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return px_error_errno(error, errno, "looking at the received descriptor");
    if (!S_ISREG(file.st_mode) || (size_t)file.st_size < heap->control_bytes)
        return px_error_set(error, PX_ERR_PEER,
                            "what was received is not a symmetric window (mode %o, %lld bytes)",
                            file.st_mode, (long long)file.st_size);
    return PX_OK;
}

static px_status map_peer(struct px_heap *heap, const struct px_heap_peer *peer, int fd,
                          const struct confirm *confirm, struct px_error *error)
{
    uintptr_t address;
    px_status status = check_file(heap, fd, error);
    if (status != PX_OK)
        return status;
    status = heap->ops->attach(heap->memory, fd, heap->span, &address, error);
    if (status == PX_ERR_NO_MEMORY)
        return offer_less(heap, heap->span, error);
    if (status != PX_OK)
        return status;
    if (confirm->fn)
        status = confirm->fn(confirm->arg, peer->rank, (void *)address, peer->card->nonce, error);
    if (status != PX_OK) {
        heap->ops->unmap(heap->memory, address, heap->span);
        return status;
    }
    heap->peers[heap->n_peers++] =
        (struct peer){.rank = peer->rank, .nonce = peer->card->nonce, .address = address};
    return PX_OK;
}

/* Mapped already in an earlier round, and still the same memory? */
static bool is_attached(struct px_heap *heap, const struct px_heap_peer *peer)
{
    const struct peer *known = find_peer(heap, peer->rank);
    if (known && known->nonce != peer->card->nonce)
        px_heap_detach(heap, peer->rank);
    else if (known)
        return true;
    return peer->rank == heap->options.rank;
}

/* All PEs of the node come to the same answer from the same cards. */
static bool all_direct(const struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n)
{
    uint32_t mine = px_share_pid_namespace();
    bool direct = heap->direct;
    for (uint32_t i = 0; i < n; i++)
        direct = direct && peers[i].card->direct && peers[i].card->pid_namespace == mine;
    return direct;
}

/* Keep going after a lost peer: the others' mappings are wanted anyway. The first cause is kept. */
static void keep_first(px_status status, const struct px_error *cause, px_status *first,
                       struct px_error *error)
{
    if (status == PX_OK || *first != PX_OK)
        return;
    *first = status;
    if (error)
        *error = *cause;
}

static px_status attach_direct(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n,
                               const struct confirm *confirm, struct px_error *error)
{
    px_status first = PX_OK;
    for (uint32_t i = 0; i < n; i++) {
        struct px_error cause = PX_ERROR_INIT;
        int fd;
        if (is_attached(heap, &peers[i]))
            continue;
        px_status status = px_share_take(peers[i].card->pid, peers[i].card->fd, &fd, &cause);
        if (status == PX_OK) {
            status = map_peer(heap, &peers[i], fd, confirm, &cause);
            close(fd);
        } else {
            heap->direct = false; /* for the next round's card */
        }
        if (status != PX_OK)
            px_error_context(&cause, "mapping the memory of PE %u", peers[i].rank);
        keep_first(status, &cause, &first, error);
    }
    return first;
}

static px_status attach_passed(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n,
                               const struct confirm *confirm, struct px_error *error)
{
    struct px_share_peer *passed = calloc(n, sizeof(*passed));
    struct px_error cause = PX_ERROR_INIT;
    uint32_t n_passed = 0;
    px_status first = PX_OK;
    if (!passed)
        return px_error_errno(error, ENOMEM, "books for receiving descriptors");
    for (uint32_t i = 0; i < n; i++)
        if (peers[i].rank != heap->options.rank)
            passed[n_passed++] = (struct px_share_peer){.rank = peers[i].rank,
                                                        .nonce = peers[i].card->nonce,
                                                        .tag = peers[i].card->tag,
                                                        .fd = -1};
    px_status status = px_share_pass(heap->share, heap->ops->descriptor(heap->memory), passed,
                                     n_passed, heap->options.timeout_s, &cause);
    keep_first(status, &cause, &first, error);
    for (uint32_t i = 0, j = 0; i < n; i++) {
        if (peers[i].rank == heap->options.rank)
            continue;
        int fd = passed[j++].fd;
        if (fd < 0)
            continue;
        status =
            is_attached(heap, &peers[i]) ? PX_OK : map_peer(heap, &peers[i], fd, confirm, &cause);
        close(fd);
        if (status != PX_OK)
            px_error_context(&cause, "mapping the memory of PE %u", peers[i].rank);
        keep_first(status, &cause, &first, error);
    }
    free(passed);
    return first;
}

px_status px_heap_attach(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n_peers,
                         px_heap_confirm_fn *confirm_fn, void *arg, struct px_error *error)
{
    const struct confirm confirm = {.fn = confirm_fn, .arg = arg};
    if (!heap->base)
        return px_error_set(error, PX_ERR_INTERNAL, "peers attached before the window was placed");
    if (n_peers == 0)
        return PX_OK;
    struct peer *room = realloc(heap->peers, (heap->n_peers + (size_t)n_peers) * sizeof(*room));
    if (!room)
        return px_error_errno(error, ENOMEM, "books of %u peers", n_peers);
    heap->peers = room;
    if (all_direct(heap, peers, n_peers))
        return attach_direct(heap, peers, n_peers, &confirm, error);
    return attach_passed(heap, peers, n_peers, &confirm, error);
}

/* --- facts and growth --- */

void px_heap_facts(const struct px_heap *heap, struct px_heap_facts *facts)
{
    *facts = (struct px_heap_facts){
        .base = heap->base,
        .data = heap->base ? heap->base + heap->control_bytes : 0,
        .span = heap->span,
        .control_bytes = heap->control_bytes,
        .size = heap->size,
        .max_size = heap->span > heap->control_bytes ? heap->span - heap->control_bytes : 0,
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
    if (address - heap->base < heap->span) {
        size_t offset = address - heap->base;
        where->rank = heap->options.rank;
        where->kind = offset < heap->control_bytes                ? PX_HEAP_CONTROL
                      : offset - heap->control_bytes < heap->size ? PX_HEAP_MINE
                                                                  : PX_HEAP_MINE_UNUSED;
        return;
    }
    for (uint32_t i = 0; i < heap->n_peers; i++) {
        size_t offset = address - heap->peers[i].address;
        if (offset >= heap->span)
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

size_t px_heap_growth(const struct px_heap *heap, size_t bytes, size_t alignment)
{
    size_t need = px_alloc_size_for(heap->alloc, bytes, alignment);
    size_t most = heap->span > heap->control_bytes ? heap->span - heap->control_bytes : 0;
    if (need == 0 || need > most)
        return 0;
    size_t size = px_round_up(need, GROWTH_STEP);
    return size < most ? size : most;
}

static px_status check_window(const struct px_heap *heap, size_t size, struct px_error *error)
{
    char asked[PX_SIZE_TEXT], most[PX_SIZE_TEXT];
    if (size <= heap->span - heap->control_bytes)
        return PX_OK;
    return px_error_set(error, PX_ERR_NO_MEMORY,
                        "a symmetric heap of %s does not fit into the window, which holds %s; set "
                        "NVSHMEM_MAX_MEMORY_PER_PE (or NVSHMEM_SYMMETRIC_SIZE) before initialising",
                        px_size_text(size, asked),
                        px_size_text(heap->span - heap->control_bytes, most));
}

px_status px_heap_grow(struct px_heap *heap, size_t new_size, struct px_error *error)
{
    px_status status = check_window(heap, new_size, error);
    if (status != PX_OK || new_size <= heap->size)
        return status;
    size_t size = px_round_up(new_size, PAGE);
    status = check_limits(heap, size, error);
    if (status == PX_OK)
        status = heap->ops->grow(heap->memory, heap->control_bytes + size, error);
    if (status == PX_OK)
        heap->size = size;
    return status;
}

void px_heap_clear(struct px_heap *heap, size_t offset, size_t length)
{
    heap->ops->clear(heap->memory, heap->base + heap->control_bytes + offset, length);
}

px_status px_heap_reset(struct px_heap *heap, size_t new_size, struct px_error *error)
{
    size_t size = px_round_up(new_size, PAGE), before = heap->size;
    px_status status = check_window(heap, size, error);
    if (status == PX_OK)
        status = check_limits(heap, size, error);
    if (status != PX_OK)
        size = before;
    struct px_error second = PX_ERROR_INIT;
    px_status done = heap->ops->reset(heap->memory, heap->control_bytes, heap->control_bytes + size,
                                      status == PX_OK ? error : &second);
    if (done != PX_OK)
        size = before;
    heap->size = size;
    px_alloc_reset(heap->alloc, size);
    return status != PX_OK ? status : done;
}
