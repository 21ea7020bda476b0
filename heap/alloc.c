/* SPDX-License-Identifier: BSD-3-Clause */
/* Books of the allocator: every byte of [0, size) belongs to exactly one piece, free or in use.
 * Pieces hang in a list in the order of their offsets, so neighbours are one step away; free ones
 * also in a tree by size, used ones in a tree by offset. Two free pieces never lie side by side.
 * Nothing here reads or writes the memory itself.
 *
 * What a call needs from the host's malloc it gets before it changes anything. */
#include "config.h"
#include "heap/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "heap/tree.h"

/* Candidates looked at for a request whose alignment their start may miss, before taking one that
 * fits for sure. */
#define TRIES 16
/* Pieces got from the host at a time. */
#define CHUNK_PIECES 128
/* One call makes at most this many new pieces: what remains before and behind a block. */
#define SPARES 2

struct piece {
    struct px_node node; /* by size when free, by offset when used */
    struct piece *before, *after;
    size_t offset, size, asked;
    uint64_t serial; /* 0 = free */
};

struct chunk {
    struct chunk *next;
    struct piece pieces[CHUNK_PIECES];
};

struct px_alloc {
    struct px_node *free, *used; /* by size and offset; by offset */
    struct piece *first, *last;
    struct piece *spare; /* linked by `after` */
    size_t spares;
    struct chunk *chunks;
    size_t origin;     /* address of offset 0 */
    size_t size, end;  /* as told; what is managed: size without a last part of a granule */
    size_t high_water; /* no block ever reached beyond */
    size_t in_use, peak, blocks, free_pieces;
    uint64_t allocations;
    struct px_block freed[PX_ALLOC_REMEMBERED]; /* a ring */
    uint64_t n_freed;
};

static struct piece *piece_of(const struct px_node *node)
{
    return node ? (struct piece *)((char *)node - offsetof(struct piece, node)) : NULL;
}

static int order_numbers(size_t a, size_t b)
{
    return a < b ? -1 : a > b;
}

static int by_offset(const struct px_node *a, const struct px_node *b)
{
    return order_numbers(piece_of(a)->offset, piece_of(b)->offset);
}

static int by_size(const struct px_node *a, const struct px_node *b)
{
    int c = order_numbers(piece_of(a)->size, piece_of(b)->size);
    return c ? c : by_offset(a, b);
}

/* --- the store of pieces --- */

static bool get_spares(struct px_alloc *alloc)
{
    if (alloc->spares >= SPARES)
        return true;
    struct chunk *chunk = malloc(sizeof(*chunk));
    if (!chunk)
        return false;
    chunk->next = alloc->chunks;
    alloc->chunks = chunk;
    for (size_t i = 0; i < CHUNK_PIECES; i++) {
        chunk->pieces[i].after = alloc->spare;
        alloc->spare = &chunk->pieces[i];
    }
    alloc->spares += CHUNK_PIECES;
    return true;
}

static void give_back(struct px_alloc *alloc, struct piece *piece)
{
    piece->after = alloc->spare;
    alloc->spare = piece;
    alloc->spares++;
}

/* A piece behind `before` (NULL: at the front), in the list but in no tree. */
static struct piece *add_piece(struct px_alloc *alloc, struct piece *before, size_t offset,
                               size_t size)
{
    struct piece *piece = alloc->spare;
    alloc->spare = piece->after;
    alloc->spares--;
    struct piece *after = before ? before->after : alloc->first;
    *piece = (struct piece){.before = before, .after = after, .offset = offset, .size = size};
    *(before ? &before->after : &alloc->first) = piece;
    *(after ? &after->before : &alloc->last) = piece;
    return piece;
}

static void drop_piece(struct px_alloc *alloc, struct piece *piece)
{
    *(piece->before ? &piece->before->after : &alloc->first) = piece->after;
    *(piece->after ? &piece->after->before : &alloc->last) = piece->before;
    give_back(alloc, piece);
}

static void enter_free(struct px_alloc *alloc, struct piece *piece)
{
    piece->serial = 0;
    px_tree_insert(&alloc->free, &piece->node, by_size);
    alloc->free_pieces++;
}

static void leave_free(struct px_alloc *alloc, struct piece *piece)
{
    px_tree_remove(&alloc->free, &piece->node, by_size);
    alloc->free_pieces--;
}

static bool is_free(const struct piece *piece)
{
    return piece && piece->serial == 0;
}

/* --- making and ending the books --- */

px_status px_alloc_create(size_t size, struct px_alloc **out)
{
    struct px_alloc *alloc = calloc(1, sizeof(*alloc));
    if (!alloc)
        return PX_ERR_NO_MEMORY;
    if (!get_spares(alloc)) {
        free(alloc);
        return PX_ERR_NO_MEMORY;
    }
    px_alloc_reset(alloc, size);
    *out = alloc;
    return PX_OK;
}

void px_alloc_destroy(struct px_alloc *alloc)
{
    if (!alloc)
        return;
    for (struct chunk *chunk = alloc->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(alloc);
}

static size_t round_up(size_t value, size_t granule)
{
    return (value + granule - 1) & ~(granule - 1);
}

static size_t round_down(size_t value, size_t granule)
{
    return value & ~(granule - 1);
}

void px_alloc_origin(struct px_alloc *alloc, size_t address)
{
    alloc->origin = round_down(address, PX_ALLOC_ALIGN);
}

void px_alloc_reset(struct px_alloc *alloc, size_t new_size)
{
    while (alloc->first)
        drop_piece(alloc, alloc->first);
    alloc->free = alloc->used = NULL;
    alloc->size = new_size;
    alloc->end = round_down(new_size, PX_ALLOC_ALIGN);
    alloc->high_water = alloc->in_use = alloc->peak = alloc->blocks = alloc->free_pieces = 0;
    alloc->n_freed = 0;
    if (alloc->end > 0)
        enter_free(alloc, add_piece(alloc, NULL, 0, alloc->end));
}

px_status px_alloc_extend(struct px_alloc *alloc, size_t new_size)
{
    if (new_size <= alloc->size)
        return PX_OK;
    size_t end = round_down(new_size, PX_ALLOC_ALIGN);
    struct piece *tail = alloc->last;
    if (end > alloc->end && is_free(tail)) {
        leave_free(alloc, tail);
        tail->size += end - alloc->end;
        enter_free(alloc, tail);
    } else if (end > alloc->end) {
        if (!get_spares(alloc))
            return PX_ERR_NO_MEMORY;
        enter_free(alloc, add_piece(alloc, tail, alloc->end, end - alloc->end));
    }
    alloc->end = end;
    alloc->size = new_size;
    return PX_OK;
}

/* --- finding room --- */

struct request {
    size_t size;    /* multiple of PX_ALLOC_ALIGN */
    size_t granule; /* the block starts on a multiple of it */
};

/* `tidy`: large blocks also get a page of their own; wanted first, given up when there is no such
 * room. */
static bool make_request(size_t bytes, size_t alignment, bool tidy, struct request *request)
{
    bool large = tidy && bytes >= PX_ALLOC_LARGE;
    size_t unit = large ? PX_ALLOC_LARGE_ALIGN : PX_ALLOC_ALIGN;
    if (bytes == 0 || (alignment & (alignment - 1)) || bytes > SIZE_MAX - unit)
        return false;
    request->size = round_up(bytes, unit);
    request->granule = alignment > unit ? alignment : unit;
    return request->size <= SIZE_MAX - request->granule;
}

/* The first offset in the piece whose address is a multiple of the granule. */
static size_t aligned_start(const struct px_alloc *alloc, const struct piece *piece, size_t granule)
{
    return round_up(alloc->origin + piece->offset, granule) - alloc->origin;
}

static bool holds(const struct px_alloc *alloc, const struct piece *piece,
                  const struct request *request)
{
    if (request->granule == PX_ALLOC_ALIGN)
        return piece->size >= request->size;
    size_t lost = aligned_start(alloc, piece, request->granule) - piece->offset;
    return piece->size >= lost && piece->size - lost >= request->size;
}

static struct piece *first_of_size(const struct px_alloc *alloc, size_t size, size_t offset)
{
    struct piece key = {.size = size, .offset = offset};
    return piece_of(px_tree_at_least(alloc->free, &key.node, by_size));
}

static struct piece *find_room(const struct px_alloc *alloc, const struct request *request)
{
    struct piece *piece = first_of_size(alloc, request->size, 0);
    for (int i = 0; piece && i < TRIES; i++) {
        if (holds(alloc, piece, request))
            return piece;
        piece = first_of_size(alloc, piece->size, piece->offset + 1);
    }
    return piece ? first_of_size(alloc, request->size + request->granule - PX_ALLOC_ALIGN, 0)
                 : NULL;
}

static struct piece *find_fit(const struct px_alloc *alloc, size_t bytes, size_t alignment,
                              struct request *request)
{
    struct piece *piece = NULL;
    if (make_request(bytes, alignment, true, request))
        piece = find_room(alloc, request);
    if (!piece && make_request(bytes, alignment, false, request))
        piece = find_room(alloc, request);
    return piece;
}

size_t px_alloc_size_for(const struct px_alloc *alloc, size_t bytes, size_t alignment)
{
    struct request request;
    if (find_fit(alloc, bytes, alignment, &request))
        return alloc->size;
    if (!make_request(bytes, alignment, false, &request))
        return 0;
    size_t start = is_free(alloc->last) ? alloc->last->offset : alloc->end;
    size_t room = request.size + request.granule - PX_ALLOC_ALIGN;
    return room <= SIZE_MAX - start ? start + room : 0;
}

/* --- malloc, free, resize --- */

static void describe(const struct piece *piece, struct px_block *block)
{
    *block = (struct px_block){.offset = piece->offset,
                               .asked = piece->asked,
                               .size = piece->size,
                               .serial = piece->serial};
}

/* The block covers its bytes from now on: which of them may hold old data? */
static size_t account_dirty(struct px_alloc *alloc, const struct piece *piece)
{
    size_t end = piece->offset + piece->size, high = alloc->high_water;
    if (end > high)
        alloc->high_water = end;
    if (high <= piece->offset)
        return 0;
    return (end < high ? end : high) - piece->offset;
}

static void account_use(struct px_alloc *alloc, size_t more, size_t less)
{
    alloc->in_use += more;
    alloc->in_use -= less;
    if (alloc->in_use > alloc->peak)
        alloc->peak = alloc->in_use;
}

/* Cut the piece, in no tree, to [offset, offset + size); what remains on both sides becomes free.
 */
static void carve(struct px_alloc *alloc, struct piece *piece, size_t offset, size_t size)
{
    size_t front = offset - piece->offset, back = piece->size - front - size;
    if (front)
        enter_free(alloc, add_piece(alloc, piece->before, piece->offset, front));
    if (back)
        enter_free(alloc, add_piece(alloc, piece, offset + size, back));
    piece->offset = offset;
    piece->size = size;
}

px_status px_alloc_malloc(struct px_alloc *alloc, size_t bytes, size_t alignment,
                          struct px_block *block)
{
    struct request request;
    struct piece *piece = find_fit(alloc, bytes, alignment, &request);
    if (!piece || !get_spares(alloc))
        return PX_ERR_NO_MEMORY;
    leave_free(alloc, piece);
    carve(alloc, piece, aligned_start(alloc, piece, request.granule), request.size);
    piece->asked = bytes;
    piece->serial = ++alloc->allocations;
    px_tree_insert(&alloc->used, &piece->node, by_offset);
    alloc->blocks++;
    account_use(alloc, piece->size, 0);
    describe(piece, block);
    block->dirty = account_dirty(alloc, piece);
    return PX_OK;
}

/* The used block that contains the offset. */
static struct piece *find_used(const struct px_alloc *alloc, size_t offset)
{
    struct piece key = {.offset = offset};
    struct piece *piece = piece_of(px_tree_at_most(alloc->used, &key.node, by_offset));
    return piece && offset - piece->offset < piece->size ? piece : NULL;
}

/* Swallow the free neighbour behind; both are in no tree afterwards. */
static void swallow_next(struct px_alloc *alloc, struct piece *piece)
{
    struct piece *next = piece->after;
    leave_free(alloc, next);
    piece->size += next->size;
    drop_piece(alloc, next);
}

static void remember_freed(struct px_alloc *alloc, const struct piece *piece)
{
    describe(piece, &alloc->freed[alloc->n_freed++ % PX_ALLOC_REMEMBERED]);
}

px_status px_alloc_free(struct px_alloc *alloc, size_t offset)
{
    struct piece *piece = find_used(alloc, offset);
    if (!piece || piece->offset != offset)
        return PX_ERR_NOT_FOUND;
    remember_freed(alloc, piece);
    px_tree_remove(&alloc->used, &piece->node, by_offset);
    alloc->blocks--;
    account_use(alloc, 0, piece->size);
    if (is_free(piece->after))
        swallow_next(alloc, piece);
    if (is_free(piece->before)) {
        piece = piece->before;
        leave_free(alloc, piece);
        piece->size += piece->after->size;
        drop_piece(alloc, piece->after);
    }
    enter_free(alloc, piece);
    return PX_OK;
}

px_status px_alloc_resize(struct px_alloc *alloc, size_t offset, size_t bytes,
                          struct px_block *block)
{
    struct piece *piece = find_used(alloc, offset);
    if (!piece || piece->offset != offset)
        return PX_ERR_NOT_FOUND;
    struct request request;
    size_t room = piece->size + (is_free(piece->after) ? piece->after->size : 0);
    if (!make_request(bytes, 0, false, &request) || request.size > room || !get_spares(alloc))
        return PX_ERR_NO_MEMORY;
    size_t old = piece->size;
    if (is_free(piece->after))
        swallow_next(alloc, piece);
    /* The size is no key of the tree by offset, so a used piece may be cut where it hangs. */
    carve(alloc, piece, offset, request.size);
    piece->asked = bytes;
    account_use(alloc, piece->size, old);
    describe(piece, block);
    block->dirty = account_dirty(alloc, piece);
    return PX_OK;
}

/* --- asking --- */

bool px_alloc_find(const struct px_alloc *alloc, size_t offset, struct px_block *block)
{
    struct piece *piece = find_used(alloc, offset);
    if (piece)
        describe(piece, block);
    return piece != NULL;
}

bool px_alloc_find_freed(const struct px_alloc *alloc, size_t offset, struct px_block *block)
{
    uint64_t n = alloc->n_freed < PX_ALLOC_REMEMBERED ? alloc->n_freed : PX_ALLOC_REMEMBERED;
    for (uint64_t i = 1; i <= n; i++) {
        const struct px_block *freed = &alloc->freed[(alloc->n_freed - i) % PX_ALLOC_REMEMBERED];
        if (offset >= freed->offset && offset - freed->offset < freed->size) {
            *block = *freed;
            return true;
        }
    }
    return false;
}

void px_alloc_stats(const struct px_alloc *alloc, struct px_alloc_stats *stats)
{
    const struct piece *largest = piece_of(px_tree_last(alloc->free));
    *stats = (struct px_alloc_stats){.size = alloc->size,
                                     .in_use = alloc->in_use,
                                     .largest_free = largest ? largest->size : 0,
                                     .peak = alloc->peak,
                                     .blocks = alloc->blocks,
                                     .free_pieces = alloc->free_pieces,
                                     .allocations = alloc->allocations};
}

void px_alloc_each(const struct px_alloc *alloc, px_alloc_visit_fn *visit, void *arg)
{
    for (const struct piece *piece = alloc->first; piece; piece = piece->after) {
        struct px_block block;
        describe(piece, &block);
        if (!is_free(piece))
            visit(arg, &block);
    }
}
