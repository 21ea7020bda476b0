/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory of PEs that this PE's GPU cannot map: on other nodes, with NVSHMEM_DISABLE_P2P, or on a
 * GPU without peer-to-peer access. Networks without access to GPU memory, and atomics on any, need a
 * helper at the target, so there is one for everything: the agent, a thread of each PE (agent.c).
 *
 * A request is a note (its place, its size) and a slot of the requester: a record and a stage in its
 * control area, which is host memory that all PEs reach. The agent fetches a put's bytes from that
 * stage, carries the request out on its GPU, stores a get's bytes there, and marks the record. So a
 * target needs no memory per requester, and each requester limits itself by its slots.
 *
 * The agent serves the requests of a PE one by one in the order of issue: so fence costs nothing, a
 * signal follows its data, and every atomic of a remote PE is carried out by one agent, on the GPU. */
#ifndef PX_GPU_FAR_H
#define PX_GPU_FAR_H

#include "src/gpu/gpu.h"

#include "src/transport/move.h"

#if PX_HAVE_CUDA
/* In the control area, at the same place on all PEs. Zero at start. */
#define PX_GPU_SLOTS      32
#define PX_GPU_SLOT_BYTES ((size_t)256 << 10)
size_t px_gpu_far_bytes(void);

/* Prepare my part of the control area; before any PE can send. `area`: px_gpu_far_bytes of it. */
void px_gpu_far_init(void *area);
/* Start the agent: on all PEs when any PE needs any; nobody sends before all have met afterwards. */
px_status px_gpu_agent_start(struct px_error *error);
void px_gpu_agent_stop(void);
/* For the transport: struct px_transport_setup. */
void px_gpu_take_note(uint32_t pe, const void *note);

/* --- what programs' operations come down to. Any thread of the program, `pe` not mapped, `remote` in
 * GPU memory; local addresses may be host memory or any GPU's. put returns when the source may be
 * reused, get when the data is there; the others' results are there after px_gpu_far_quiet. */
void px_gpu_far_put(uint32_t pe, void *remote, const void *source, size_t bytes);
void px_gpu_far_get(uint32_t pe, void *dest, const void *remote, size_t bytes);
void px_gpu_far_get_nbi(uint32_t pe, void *dest, const void *remote, size_t bytes);
uint64_t px_gpu_far_amo(uint32_t pe, void *remote, const struct px_amo *amo);
void px_gpu_far_amo_nbi(uint32_t pe, void *remote, const struct px_amo *amo, void *result);
void px_gpu_far_quiet(void);
void px_gpu_far_quiet_pe(uint32_t pe);
bool px_gpu_far_is_host(const void *address); /* host memory, pinned or not */

/* --- between far.c and agent.c --- */

enum px_gpu_note_kind { PX_GPU_NOTE_PUT = 1, PX_GPU_NOTE_GET, PX_GPU_NOTE_AMO, PX_GPU_NOTE_STORE };

struct px_gpu_note {
    uint8_t kind, op, width, slot; /* STORE: a put of `width` bytes, at most 8, in `operand` */
    uint32_t number;               /* of the request at its slot: what the record becomes */
    uint64_t offset;               /* from the start of the target's GPU memory */
    uint64_t operand, compare;     /* PUT, GET: bytes in operand */
};

struct px_gpu_record {
    _Alignas(64) _Atomic uint64_t done; /* the number of the last request that was carried out */
    uint64_t old;                       /* of an atomic */
};

#define PX_GPU_RING 256
/* Notes from PEs of this node, whose stores reach this memory. */
struct px_gpu_ring {
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) _Atomic uint32_t asleep; /* futex word of the agent */
    struct {
        _Atomic uint64_t turn;
        uint32_t pe;
        struct px_gpu_note note;
    } entry[PX_GPU_RING];
};

struct px_gpu_area {
    struct px_gpu_ring ring;
    struct px_gpu_record record[PX_GPU_SLOTS];
    _Alignas(4096) char stage[PX_GPU_SLOTS][PX_GPU_SLOT_BYTES];
    char agent_stage[PX_GPU_SLOT_BYTES];
};

struct px_gpu_far {
    struct px_gpu_area *area;               /* mine; the same address serves for the peers' */
    const struct px_transport_ops *network; /* to control areas that are not mapped */
    void *network_self;
};
extern struct px_gpu_far px_gpu_far;

/* Control areas: by load and store where mapped, else by the network. */
void px_gpu_far_read(uint32_t pe, void *dest, const void *control, size_t bytes);
void px_gpu_far_write(uint32_t pe, void *control, const void *source, size_t bytes,
                      _Atomic uint64_t *mark, uint64_t value); /* then *mark = value */
void px_gpu_wake_agent(struct px_gpu_ring *ring);
#endif
#endif
