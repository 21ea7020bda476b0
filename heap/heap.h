/* SPDX-License-Identifier: BSD-3-Clause */
/* The symmetric pool: agree on one address, create memory, map the peers of the node, allocate.
 * This header is all that neighbours need. heap/ knows nothing of the bootstrap or the public
 * interface: cards travel as bytes by the caller's means, and every call is local to this PE unless
 * it says otherwise.
 *
 * The window of each PE is [base, base + span) on every PE of every node: first the control area
 * (control_bytes), then the heap that programs see, of which `size` bytes exist so far. Windows of
 * local peers are mapped a second time at any address: delta = mapped - base. Memory exists as a
 * file without a name, so nothing outlives the processes; growth changes only the file's size and
 * is seen through all mappings at once. No page is touched here.
 *
 * How start-up goes, in rounds:
 *
 *   px_heap_create(&options, &heap)       memory exists, checked against what the node has
 *   fill px_heap_control(heap)            magic and px_heap_nonce(heap), for the peers to confirm
 *
 * and in every round:
 *
 *   px_heap_card(heap, bytes)             PX_HEAP_CARD_BYTES for this PE's card
 *     (exchange of cards)                 and px_heap_card_decode for every PE's bytes
 *   px_heap_agree(cards of all PEs, ...)  the same base and span everywhere, or the same error
 *   px_heap_place(heap, base, span)       PX_ERR_UNREACHABLE: the range was lost meanwhile
 *   px_heap_attach(heap, local peers)     PX_ERR_UNREACHABLE: a descriptor could not be taken
 *     (all PEs learn whether all succeeded; if one got PX_ERR_UNREACHABLE, all do another round)
 *
 * A second round repairs both losses: its cards offer what is free now, and say that descriptors
 * have to be passed over sockets. Rounds after the first keep what already fits. After the last
 * round a peer may stay unmapped (px_heap_delta says so): the caller reaches it as a remote one. */
#ifndef PX_HEAP_HEAP_H
#define PX_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/alloc.h"
#include "src/diag/error.h"

#define PX_HEAP_RANGES     4                 /* free address ranges on a card */
#define PX_HEAP_UNIT       ((size_t)2 << 20) /* ranges, base and span are multiples of it */
#define PX_HEAP_CARD_BYTES 128
/* Besides, the address space from PX_HEAP_SLOT_BASE on in slots: a bit each, set when the whole slot is free. */
#define PX_HEAP_SLOTS     512
#define PX_HEAP_SLOT      ((size_t)64 << 30)
#define PX_HEAP_SLOT_BASE ((uintptr_t)0x200000000000)
#define PX_HEAP_NOT_MAPPED INTPTR_MIN /* equals PX_NOT_MAPPED of src/transport/move.h */

struct px_heap;

struct px_heap_options {
    size_t size;     /* of the heap at start, bytes per PE (NVSHMEM_SYMMETRIC_SIZE) */
    size_t max_size; /* most it may grow to (NVSHMEM_MAX_MEMORY_PER_PE); 0 = by physical memory */
    size_t control_bytes; /* in front of the heap; rounded up to 4096; sparse */
    uint32_t rank;        /* for names and messages */
    uint32_t local_size;  /* PEs on this node, me included: memory and address space are theirs
                             together */
    const char *job;      /* the launcher's name of the job, unique on the node */
    const char *huge;     /* pages of 2 MiB: NULL or "auto", "thp", "hugetlb", "off" */
    int numa_node;  /* preferred node for all pages; PX_HEAP_NUMA_AUTO = where this PE is bound */
    bool no_direct; /* never take descriptors with pidfd_getfd (tests; an override for odd
                       sandboxes) */
    unsigned timeout_s; /* limit of waiting for local peers in px_heap_attach; 0 = 120 */
    /* The heap's bytes are another memory's, a GPU's: here is the control area only. The window is
     * agreed on and the allocator kept as ever, but behind the control area it is left free for who
     * maps that memory and then says so with px_heap_data_at. max_size must be given. */
    bool data_elsewhere;
    size_t front_bytes; /* of that memory in front of the heap: not for programs */
    size_t granularity; /* of that memory, a power of two; 0 = PX_HEAP_UNIT */
};
#define PX_HEAP_NUMA_AUTO (-1)
#define PX_HEAP_NUMA_NONE (-2)

/* What one PE tells the others: plain values. Addresses are bytes. */
struct px_heap_range {
    uintptr_t start;
    size_t length;
};
struct px_heap_card {
    struct px_heap_range free[PX_HEAP_RANGES]; /* ascending, apart; length 0 = unused, at the end */
    uint64_t slots[PX_HEAP_SLOTS / 64];
    size_t span;            /* the window this PE would like and can map local_size times */
    size_t granularity;     /* of mapping: a power of two, at least PX_HEAP_UNIT */
    uint64_t nonce;         /* random; also in the owner's control area */
    uint32_t tag;           /* random; part of the socket's name */
    uint32_t pid_namespace; /* pids are comparable within one */
    int32_t pid, fd;        /* where the memory's descriptor is */
    bool direct;            /* as far as this PE knows, pidfd_getfd works for and on it */
};

/* Make this PE's memory: checks `size` times `local_size` against physical memory, available memory
 * and the limits of the control groups (PX_ERR_NO_MEMORY with asked, available and the largest that
 * would fit; above 80 % it warns). */
px_status px_heap_create(const struct px_heap_options *options, struct px_heap **heap,
                         struct px_error *error);

/* The control area: usable from create on, zero at first. The address changes to `base` in
 * px_heap_place. */
void *px_heap_control(const struct px_heap *heap);
uint64_t px_heap_nonce(const struct px_heap *heap);

/* What is free in this process now, and where the descriptor is; then as bytes for the card. */
px_status px_heap_card(struct px_heap *heap, uint8_t bytes[PX_HEAP_CARD_BYTES],
                       struct px_error *error);
/* Check and unpack what another PE sent: PX_ERR_PROTOCOL says which field cannot be right. */
px_status px_heap_card_decode(const uint8_t *bytes, size_t length, struct px_heap_card *card,
                              struct px_error *error);
/* The reverse, for tests. */
void px_heap_card_encode(const struct px_heap_card *card, uint8_t bytes[PX_HEAP_CARD_BYTES]);

/* Pure function: the same answer on all PEs. `needed` = control_bytes (rounded up) + the largest
 * heap size of any PE at start; span is the smallest offered, shrunk to what the common free ranges
 * hold, never below `needed`. The error names the PE that blocks. `note` (may be NULL) receives one
 * line when the span was shrunk, else "". */
#define PX_HEAP_NOTE_MAX 256
px_status px_heap_agree(const struct px_heap_card *cards, uint32_t n_pes, size_t needed,
                        uintptr_t *base, size_t *span, char note[PX_HEAP_NOTE_MAX],
                        struct px_error *error);

/* Map my window at base. PX_ERR_UNREACHABLE: something else lies there by now; take part in another
 * round. Called again with the same values it does nothing; with others it moves the window (peers'
 * mappings are dropped). */
px_status px_heap_place(struct px_heap *heap, uintptr_t base, size_t span, struct px_error *error);

/* For data_elsewhere: the granularity of the whole job; where the other memory begins, as an offset
 * into the window; and, once it is there, at which address programs' memory lies and how much of it
 * there can be. */
size_t px_heap_granularity(const struct px_heap_card *cards, uint32_t n_pes);
size_t px_heap_data_start(const struct px_heap *heap, size_t granularity);
void px_heap_data_at(struct px_heap *heap, uintptr_t data, size_t max_size);
void px_heap_data_apart(struct px_heap *heap); /* it differs between the PEs */
/* This window's address was refused by who maps the other memory: the next card does not offer it. */
void px_heap_avoid(struct px_heap *heap);

/* Asked for each mapped peer: is this the control area of `rank` with this nonce? Return PX_OK to
 * keep the mapping. */
typedef px_status px_heap_confirm_fn(void *arg, uint32_t rank, const void *control, uint64_t nonce,
                                     struct px_error *error);
struct px_heap_peer {
    uint32_t rank;
    const struct px_heap_card *card; /* of this round */
};
/* Map all PEs of my node (me among them or not). When every card of the node says `direct`, this is
 * local; otherwise all PEs of the node meet here to pass descriptors over Unix sockets: so call it
 * on all of them or on none. PX_ERR_UNREACHABLE: see the rounds above; peers that could be mapped
 * are. PX_ERR_PEER: the confirm function refused, PX_ERR_TIMEOUT names the peer that did not come.
 */
px_status px_heap_attach(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n_peers,
                         px_heap_confirm_fn *confirm, void *arg, struct px_error *error);
/* Drop the mapping of one peer (it is then not mapped). */
void px_heap_detach(struct px_heap *heap, uint32_t rank);

/* Descriptors of other memory of the peers, by the ways that px_heap_attach uses: `theirs[i]` is the
 * number in peer i's process, `mine` what they get from me, fds[i] the duplicate here, -1 for myself
 * and where there was no way. Call it on all PEs of the node, which have met since the last passing. */
px_status px_heap_fetch(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n_peers,
                        const int *theirs, int mine, int *fds, struct px_error *error);

/* mapped - base; 0 for myself; PX_HEAP_NOT_MAPPED. Found by search: copy it into a table for the
 * hot path. */
intptr_t px_heap_delta(const struct px_heap *heap, uint32_t rank);

/* Facts. `data` is base + control_bytes, where programs' memory starts; `size` is the allocator's:
 * what all PEs have. */
struct px_heap_facts {
    uintptr_t base, data;
    size_t span, control_bytes, size, max_size; /* max_size = span - control_bytes */
    bool apart; /* `data` differs between the PEs */
    int fd;
    char pages[96]; /* how memory is backed, for info output: "memfd, transparent huge pages, NUMA
                       node 0" */
};
void px_heap_facts(const struct px_heap *heap, struct px_heap_facts *facts);

/* Whose memory is this address? For messages about wrong pointers. */
enum px_heap_place_kind {
    PX_HEAP_OUTSIDE,
    PX_HEAP_MINE,
    PX_HEAP_MINE_UNUSED,
    PX_HEAP_CONTROL,
    PX_HEAP_OF_PEER
};
struct px_heap_where {
    enum px_heap_place_kind kind; /* MINE_UNUSED: within the window, beyond the size that exists */
    uint32_t rank;                /* OF_PEER: whose window */
    uintptr_t symmetric;          /* the address as the symmetric one */
};
void px_heap_where(const struct px_heap *heap, const void *address, struct px_heap_where *where);

/* The allocator over [0, size): offsets count from `data`. Only books, no memory; see alloc.h. */
struct px_alloc *px_heap_allocator(struct px_heap *heap);
static inline void *px_heap_address(const struct px_heap_facts *facts, size_t offset)
{
    return (void *)(facts->data + offset);
}

/* Growing, on all PEs in the same order: new_size = px_heap_growth(...) gives the same value on all
 * PEs; px_heap_grow makes the memory exist (local; may fail on some PE only; never shrinks; less
 * than the present size is fine); when all succeeded, px_alloc_extend on all. When one failed
 * nothing has to be undone. 0 = it can never fit into the window. */
size_t px_heap_growth(const struct px_heap *heap, size_t bytes, size_t alignment);
px_status px_heap_grow(struct px_heap *heap, size_t new_size, struct px_error *error);

/* Set bytes to zero, after px_alloc_* said that they may hold old data (block.dirty). */
void px_heap_clear(struct px_heap *heap, size_t offset, size_t length);

/* Reinit: the same base, all allocations forgotten, memory given back and zero again, the control
 * area kept, a new size. Barrier before and after; network registrations of the heap must have been
 * dropped before. On error the heap is emptied too, but keeps its size: so when it failed on some
 * PE, those where it succeeded call it again with the former size, and all agree again. */
px_status px_heap_reset(struct px_heap *heap, size_t new_size, struct px_error *error);

/* Unmap everything. NULL is harmless; errno is kept. */
void px_heap_destroy(struct px_heap *heap);

#endif
