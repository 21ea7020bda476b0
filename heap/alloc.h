/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocator: manages the offsets [0, size) without ever touching the memory that they stand
 * for. Its books are ordinary host memory. What it answers is a pure function of the sequence of
 * calls, so PEs that make the same calls get the same offsets. Best fit; malloc, free and lookup
 * take O(log n) at worst; neighbours are joined.
 *
 * Not thread-safe: callers serialise (allocation is collective anyway). */
#ifndef PX_HEAP_ALLOC_H
#define PX_HEAP_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/status.h"

#define PX_ALLOC_ALIGN ((size_t)512) /* every block; sizes are rounded up to it */
#define PX_ALLOC_LARGE                                                                             \
    ((size_t)64 << 10) /* blocks from this size on start on a page of 4096 bytes */
#define PX_ALLOC_LARGE_ALIGN ((size_t)4096)
#define PX_ALLOC_REMEMBERED  256 /* freed blocks whose former place can still be named */

struct px_alloc;

struct px_block {
    size_t offset;
    size_t asked; /* bytes the caller wanted */
    size_t size;  /* bytes set aside for it */
    size_t
        dirty; /* new blocks: leading bytes that may hold old data; the rest was never handed out */
    uint64_t serial; /* of the allocation, counted from 1: the same on all PEs */
};

struct px_alloc_stats {
    size_t size, in_use, largest_free, peak; /* bytes; peak of in_use */
    size_t blocks, free_pieces;
    uint64_t allocations; /* so far */
};

px_status px_alloc_create(size_t size, struct px_alloc **alloc);
void px_alloc_destroy(struct px_alloc *alloc); /* NULL is harmless */

/* Where offset 0 lies, the same on all PEs: alignments are of addresses. Without it they are of offsets. */
void px_alloc_origin(struct px_alloc *alloc, size_t address);

/* bytes > 0. alignment: 0 or a power of two. PX_ERR_NO_MEMORY: does not fit, or no host memory for
 * the books; the state is then unchanged. An alignment above 512 may need a free piece of up to
 * size + alignment. */
px_status px_alloc_malloc(struct px_alloc *alloc, size_t bytes, size_t alignment,
                          struct px_block *block);

/* `offset` must be a block's first byte, else PX_ERR_NOT_FOUND and nothing changes. */
px_status px_alloc_free(struct px_alloc *alloc, size_t offset);

/* Shrink, or grow into a free neighbour behind. PX_ERR_NO_MEMORY: the neighbour is not free or too
 * small, nothing changed; PX_ERR_NOT_FOUND as for free. block->dirty counts from the block's start
 * and covers what it held before. */
px_status px_alloc_resize(struct px_alloc *alloc, size_t offset, size_t bytes,
                          struct px_block *block);

/* More offsets at the end; a size that is not larger changes nothing. */
px_status px_alloc_extend(struct px_alloc *alloc, size_t new_size);

/* Forget every block; size becomes new_size, everything counts as never handed out. Cannot fail. */
void px_alloc_reset(struct px_alloc *alloc, size_t new_size);

/* The block in use that contains the offset. */
bool px_alloc_find(const struct px_alloc *alloc, size_t offset, struct px_block *block);
/* The most recently freed block that contained the offset, among the last PX_ALLOC_REMEMBERED
 * freed. */
bool px_alloc_find_freed(const struct px_alloc *alloc, size_t offset, struct px_block *block);

/* The smallest size at which this request is sure to fit (the present size when it fits now); 0 on
 * overflow. */
size_t px_alloc_size_for(const struct px_alloc *alloc, size_t bytes, size_t alignment);

void px_alloc_stats(const struct px_alloc *alloc, struct px_alloc_stats *stats);

/* Call `visit` for every block in use in ascending order, for reports (leaks at finalise). */
typedef void px_alloc_visit_fn(void *arg, const struct px_block *block);
void px_alloc_each(const struct px_alloc *alloc, px_alloc_visit_fn *visit, void *arg);

#endif
