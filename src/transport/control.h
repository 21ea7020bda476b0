/* SPDX-License-Identifier: BSD-3-Clause */
/* The control area: the first bytes of the symmetric window of every PE, in front of the heap that programs see. It is
 * symmetric like the heap, so a peer's control area is reached like any symmetric address: mapped peers by load and
 * store, remote ones through their transport. Nothing in it is trusted before magic and version have been checked. */
#ifndef PX_TRANSPORT_CONTROL_H
#define PX_TRANSPORT_CONTROL_H

#include <stdatomic.h>
#include <stdint.h>

#define PX_CONTROL_MAGIC 0x70787368UL /* "pxsh" */
#define PX_CONTROL_VERSION 1
#define PX_CACHE_LINE 64

enum px_pe_state { PX_PE_STARTING, PX_PE_READY, PX_PE_FINALIZING, PX_PE_GONE };

/* Where a PE is, for the hang report: written by its owner only, `sequence` last. */
struct px_where {
    _Atomic uint64_t sequence; /* collectives entered so far on this PE; odd while inside one */
    _Atomic uint64_t since_ns; /* CLOCK_REALTIME of entry */
    uint64_t arguments[4];     /* of the call, in its own order */
    int32_t team;
    char call[44];             /* "nvshmem_broadcastmem"; "" while computing */
};

struct px_control {
    uint32_t magic, version, size; /* size of this structure */
    uint32_t pe;
    uint64_t nonce;                /* the owner's random number, also on its card: proves the mapping */
    _Atomic uint32_t state;        /* enum px_pe_state */
    _Alignas(PX_CACHE_LINE) struct px_where where;
    _Alignas(PX_CACHE_LINE) _Atomic uint32_t sleeping; /* futex word: the owner sleeps while it is 1 */
};

/* Offsets from the start of the window. Team slots hold what teams need to meet: see src/coll/. */
#define PX_CONTROL_BYTES 4096
#define PX_TEAM_SLOT_BYTES 16384

#endif
