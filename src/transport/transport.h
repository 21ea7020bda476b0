/* SPDX-License-Identifier: BSD-3-Clause */
/* What a transport to remote PEs offers: one table of functions. Mapped peers need none of this (move.h).
 *
 * Addresses are symmetric: `remote` is the address as this PE would use it; the transport turns it into what its network
 * wants. All calls may come from several threads at once when the job was started so. A failure of the network in a
 * data call is fatal and reported by the transport (px_fatal with peer, operation and the usual causes), so these
 * functions return nothing.
 *
 * A new transport is its file with one const table at the end and one row in list.c, in order of preference. */
#ifndef PX_TRANSPORT_TRANSPORT_H
#define PX_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

#define PX_TRANSPORT_ADDRESS_MAX 96 /* bytes a transport may put on the card */

/* Atomic operations are on words of 4 or 8 bytes, bits only: adding wraps round, so signed and unsigned are the same,
 * and floating types only fetch, set and swap. */
enum px_amo_op {
    PX_AMO_FETCH,
    PX_AMO_SET,
    PX_AMO_SWAP,
    PX_AMO_COMPARE_SWAP,
    PX_AMO_ADD,
    PX_AMO_AND,
    PX_AMO_OR,
    PX_AMO_XOR,
    PX_AMO_COUNT
};

struct px_amo {
    enum px_amo_op op;
    uint8_t width;     /* 4 or 8 */
    bool fetching;     /* the old value is wanted */
    uint64_t operand;  /* low `width` bytes count */
    uint64_t compare;  /* PX_AMO_COMPARE_SWAP only */
};

/* A note: a few bytes for whoever serves others in the target's process, the agent of its GPU memory. */
#define PX_TRANSPORT_NOTE 32

/* What a transport is given at open. Pointers stay valid until close. */
struct px_transport_setup {
    uint32_t rank, size;
    uint32_t threads;          /* 1 when several threads may call at once */
    uint32_t local_rank;       /* among the PEs of the node: deals devices */
    const char *nics;          /* RDMA devices near this PE, NAME[:PORT],...; NULL or "" where that is not known */
    uint32_t progress_cpus;    /* how many processors this PE may use: 1 = do not spin in a helper thread */
    uintptr_t base;            /* the symmetric window: control area and heap, [base, base + span) */
    size_t span;               /* address space of the window */
    size_t control_bytes;      /* registered at open: [base, base + control_bytes) */
    /* What to add to a symmetric address to reach the memory of a PE of this node, whether or not it is used for data
     * (the shuffle transport needs it). Returns false for PEs that are not mapped. NULL where nothing is mapped. */
    bool (*map)(void *arg, uint32_t pe, intptr_t *delta);
    void *map_arg;
    /* Takes a note of another PE, in order of sending for each PE. Called from any thread that moves the transport on,
     * with its locks held: it keeps the note for another thread and returns. NULL: nobody expects notes. */
    void (*take_note)(uint32_t pe, const void *note);
    bool demanded;             /* the user named this transport: no silent fallback */
    const struct px_env *env;  /* the user's settings, src/env/env.h */
};

/* How a remote PE is addressed: what its transport put on its card. Looked up at first use, from any thread (a target
 * answers requests in a helper thread). The bytes stay valid until close. */
struct px_transport_peer {
    const void *address;
    size_t length;
};
typedef px_status px_transport_find_fn(void *arg, uint32_t pe, struct px_transport_peer *peer,
                                       struct px_error *error);

/* What a transport needs of the GPU's driver: the dma-buf of the pages of [address, address + length), and where the
 * address lies in it. The caller closes the descriptor. */
typedef px_status px_transport_dmabuf_fn(uintptr_t address, size_t length, int *fd, uint64_t *offset,
                                         struct px_error *error);

struct px_transport_ops {
    const char *name;
    bool only_by_name; /* never chosen automatically */

    /* Is the library there, is there a device? Cheap; the error says why not. */
    px_status (*probe)(const struct px_transport_setup *setup, struct px_error *error);

    /* Open endpoint and progress. `address` (at most PX_TRANSPORT_ADDRESS_MAX bytes) goes on the card. */
    px_status (*open)(const struct px_transport_setup *setup, void **self, void *address,
                      size_t *length, struct px_error *error);

    /* After the card exchange: how to find peers. Connections are made at first use of each. */
    px_status (*connect)(void *self, px_transport_find_fn *find, void *arg, struct px_error *error);

    /* Local, on every PE for every chunk in the same order: memory [base+offset, +length) now exists. Keys travel by
     * the transport's own means or are computed, not through the bootstrap. */
    px_status (*add_memory)(void *self, size_t offset, size_t length, struct px_error *error);
    /* The same for GPU memory, when it lies at the same address everywhere: let the network reach it by itself.
     * PX_ERR_UNSUPPORTED says why it cannot: then data is staged through host memory, whose transfers this transport
     * carries. When it can, put and get take addresses of such memory on both sides; nothing else does. */
    px_status (*add_gpu_memory)(void *self, size_t offset, size_t length, px_transport_dmabuf_fn *dmabuf,
                                struct px_error *error);
    /* Everything from `offset` on is about to go (reinit, finalise). */
    void (*drop_memory)(void *self, size_t offset);

    /* Blocking: source may be reused on return (put), data is there on return (get). nbi: at quiet. */
    void (*put)(void *self, uint32_t pe, void *remote, const void *source, size_t bytes);
    void (*put_nbi)(void *self, uint32_t pe, void *remote, const void *source, size_t bytes);
    void (*get)(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes);
    void (*get_nbi)(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes);

    /* Carried out so that it is atomic against loads, stores and locked instructions of the target's processors.
     * Returns the old value when fetching. The nbi form stores it (4 or 8 bytes) in *result by the next quiet. */
    uint64_t (*amo)(void *self, uint32_t pe, void *remote, const struct px_amo *amo);
    void (*amo_nbi)(void *self, uint32_t pe, void *remote, const struct px_amo *amo, void *result);

    /* Data, then the signal (PX_AMO_SET or PX_AMO_ADD on 8 bytes): who sees the signal sees the data. bytes may be 0.
     * nbi: source may be reused only after quiet. */
    void (*put_signal)(void *self, uint32_t pe, void *remote, const void *source, size_t bytes,
                       uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi);

    /* PX_TRANSPORT_NOTE bytes for the target's setup.take_note. Notes to a PE arrive in order of sending and after what
     * was fenced before them; quiet does not say that they were acted upon. */
    void (*send_note)(void *self, uint32_t pe, const void *note);

    /* fence: earlier puts, amos and signals to each PE take effect before later ones to the same PE.
     * quiet: everything this PE issued is complete and visible at its target; nbi results are in place. */
    void (*fence)(void *self);
    void (*quiet)(void *self);
    void (*quiet_pe)(void *self, uint32_t pe);

    /* Move things on; cheap when there is nothing to do. Called by waiting loops. */
    void (*progress)(void *self);

    /* Counters for pxshmem-info and tests: connections made so far. */
    uint64_t (*connections)(void *self);

    /* The caller has met all PEs after its last quiet. */
    void (*close)(void *self);
};

/* In order of preference; ends with NULL. */
extern const struct px_transport_ops *const px_transports[];

/* Refuses everything: where no PE is remote, so that callers need no test. */
extern const struct px_transport_ops px_transport_none;

/* By name or alias ("ibrc" is verbs, "libfabric" is ofi); NULL when this build has none of that name. */
const struct px_transport_ops *px_transport_by_name(const char *name);

#endif
