/* SPDX-License-Identifier: BSD-3-Clause */
/* A kind of memory that a window can be made of: one table of functions per kind, host memory
 * always present. A new kind is its file with one const table at the end. None of these functions
 * touches the memory's pages. */
#ifndef PX_HEAP_MEMORY_H
#define PX_HEAP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

struct px_memory_options {
    uint32_t rank;
    const char *huge;     /* "auto", "thp", "hugetlb", "off" */
    int numa_node;        /* or PX_HEAP_NUMA_AUTO, PX_HEAP_NUMA_NONE */
    size_t control_bytes; /* never backed by huge pages on request: it is sparse */
};

struct px_memory_ops {
    const char *name;

    /* `bytes` of zeroed memory without an address, shareable by a descriptor. */
    px_status (*create)(const struct px_memory_options *options, size_t bytes, void **self,
                        struct px_error *error);
    /* More bytes at the end, seen through every mapping that covers them. Fewer than now: nothing
     * happens. */
    px_status (*grow)(void *self, size_t bytes, struct px_error *error);
    /* Give back everything behind `keep`, which then reads as zero; the size becomes `bytes`. */
    px_status (*reset)(void *self, size_t keep, size_t bytes, struct px_error *error);

    /* Map the owner's window at an exact address; PX_ERR_UNREACHABLE when something lies there. */
    px_status (*place)(void *self, uintptr_t base, size_t span, struct px_error *error);
    /* Map the window behind a descriptor (a peer's, or one's own a second time) anywhere. */
    px_status (*attach)(void *self, int fd, size_t span, uintptr_t *address,
                        struct px_error *error);
    void (*unmap)(void *self, uintptr_t address, size_t span);

    int (*descriptor)(const void *self);
    bool (*from_pool)(
        const void *self); /* set aside beforehand, not taken from the node's free memory */
    size_t (*resident)(const void *self); /* bytes that are backed by pages now */
    void (*clear)(void *self, uintptr_t address, size_t length);
    void (*describe)(const void *self, char *text, size_t capacity);
    void (*destroy)(void *self);
};

extern const struct px_memory_ops px_memory_host;

#endif
