/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of heap/ offer each other; neighbours use heap.h and alloc.h only. */
#ifndef PX_HEAP_PRIVATE_H
#define PX_HEAP_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "heap/heap.h"
#include "heap/memory.h"
#include "src/diag/error.h"

static inline size_t px_round_up(size_t value, size_t granule)
{
    return (value + granule - 1) & ~(granule - 1);
}

static inline size_t px_round_down(size_t value, size_t granule)
{
    return value & ~(granule - 1);
}

/* "256 MiB", "1.50 GiB": for messages; the result lives in `text`. */
#define PX_SIZE_TEXT 32
const char *px_size_text(size_t bytes, char text[PX_SIZE_TEXT]);

/* --- limits.c: how much memory and address space there is --- */

struct px_limits {
    size_t physical;  /* of the node, or the lowest limit of a control group */
    size_t available; /* now, before anything is ended or swapped out */
    char
        limited_by[160]; /* what `available` comes from: "MemAvailable" or a control group's file */
};
/* `root` is put in front of every path: "" outside tests. */
px_status px_limits_read(const char *root, struct px_limits *limits, struct px_error *error);

/* May each of n_pes have `bytes`, of which `resident` are there already? Plain values: warns
 * through `warning` (set to
 * "" otherwise) above 80 %. */
#define PX_LIMITS_WARNING 256
px_status px_limits_check(const struct px_limits *limits, size_t bytes, size_t resident,
                          size_t control_bytes, uint32_t n_pes, char warning[PX_LIMITS_WARNING],
                          struct px_error *error);

/* Address space that may still be mapped under RLIMIT_AS, a reserve for the program left out (a
 * smaller one where `needed` would not fit otherwise); SIZE_MAX = no limit. */
size_t px_limits_address_space(size_t needed);
/* The arithmetic of it. */
size_t px_limits_address_room(size_t limit, size_t used, size_t needed);

/* --- offer.c: which addresses are free --- */

/* Read lines of /proc/PID/maps; lines inside [mine, mine + mine_length) count as free. Returns how
 * many ranges. */
size_t px_offer_ranges(FILE *maps, uintptr_t mine, size_t mine_length,
                       struct px_heap_range ranges[PX_HEAP_RANGES]);
/* Clear the slots that [from, to) touches; the same as px_offer_ranges by slots. */
void px_offer_take(uint64_t *slots, uintptr_t from, uintptr_t to);
void px_offer_slots(FILE *maps, uintptr_t mine, size_t mine_length, uint64_t slots[PX_HEAP_SLOTS / 64]);

/* The window to wish for: max_size if given, else by physical memory; at least size; n_pes windows
 * must fit into `room`. 0 = not even the least fits. */
size_t px_offer_span(size_t size, size_t max_size, size_t control_bytes, size_t physical,
                     size_t room, uint32_t n_pes);

/* --- share.c: descriptors of local peers --- */

struct px_share;

struct px_share_id { /* of the owner */
    const char *job;
    uint32_t rank;
    uint64_t nonce;
    uint32_t tag;
};
/* Binds the socket that peers may send to. It need not succeed while the direct way works: the
 * reason is kept. */
px_status px_share_open(const struct px_share_id *id, struct px_share **share,
                        struct px_error *error);
void px_share_close(struct px_share *share);

/* Does this PE expect that it and its peers can use pidfd_getfd on each other? `why` gets the
 * reason when not. */
#define PX_SHARE_WHY 128
bool px_share_direct_expected(char why[PX_SHARE_WHY]);
uint32_t px_share_pid_namespace(void); /* 0 = unknown */

/* Duplicate descriptor `fd` of process `pid`. */
px_status px_share_take(int pid, int fd, int *mine, struct px_error *error);

struct px_share_peer {
    uint32_t rank;
    uint64_t nonce;
    uint32_t tag;
    int fd;              /* out: the peer's descriptor, -1 = not got */
    bool sent, given_up; /* inner state, start with false */
};
/* Send my descriptor to all peers and receive theirs; all of them do the same. Peers without a path
 * are given up (PX_ERR_UNREACHABLE, the others' descriptors are there); PX_ERR_TIMEOUT names the
 * first that did not send. */
px_status px_share_pass(struct px_share *share, int fd, struct px_share_peer *peers,
                        uint32_t n_peers, unsigned timeout_s, struct px_error *error);

/* --- heap.c and attach.c: the pool --- */

struct px_heap_mapping {
    uint32_t rank;
    uint64_t nonce;
    uintptr_t address;
};

struct px_heap {
    struct px_heap_options options;
    size_t control_bytes, initial; /* initial: size of the heap at start, in whole pages */
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
    struct px_heap_mapping *peers;
    uint32_t n_peers;
    uintptr_t data;             /* data_elsewhere: where programs' memory lies, 0 = not yet */
    bool data_apart;
    size_t data_room;           /* and how much of it there can be */
    struct px_heap_range avoid; /* an address that was refused */
};

/* How much of a window is mapped from this memory. */
static inline size_t px_heap_mapped(const struct px_heap *heap, size_t span)
{
    return heap->options.data_elsewhere ? heap->control_bytes : span;
}

size_t px_heap_least_span(const struct px_heap *heap);
/* A refusal for lack of address space is answered with half the window in the next round, while
 * that is enough. */
px_status px_heap_offer_less(struct px_heap *heap, size_t refused, struct px_error *error);
void px_heap_drop_peers(struct px_heap *heap);

#endif
