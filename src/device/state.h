/* SPDX-License-Identifier: BSD-3-Clause */
/* What kernels know of the job: one structure, filled by the library at start-up, read by the inline
 * functions of the other headers here. Installed, as programs compile those. The name of the symbol
 * carries the version of the layout, so that object files of different releases do not link, and the
 * library compares version and size before it fills one. Anything that changes the meaning of a field
 * raises the version. */
#ifndef NVSHMEM_DEVICE_STATE_H
#define NVSHMEM_DEVICE_STATE_H

#include <stdint.h>

enum {
    NVSHMEMI_STATE_VERSION = 1,
    NVSHMEMI_NEAR = 64,        /* PEs whose offsets are in the state itself */
    NVSHMEMI_FLAGS = 64,       /* words of a team to meet with */
    NVSHMEMI_RING_SLOTS = 4096 /* a power of two */
};
#define NVSHMEMI_STATE_SYMBOL nvshmemi_state_v1
#define NVSHMEMI_STATE_NAME   "nvshmemi_state_v1"

/* The offset of a PE that has to be reached by the network. */
#define NVSHMEMI_REMOTE INT64_MIN

/* A team as kernels see it, in GPU memory, by the lower half of its handle. */
struct nvshmemi_team {
    int32_t handle; /* -1: none */
    int32_t rank, size, start, stride;
    int32_t remote;      /* does it have members to be reached by the network? */
    const int32_t *list; /* PEs of the members, NULL: start + i * stride */
    uint64_t epoch;      /* meetings so far, counted by kernels */
};

/* A request to the proxy: four chunks of 16 bytes, each with the number of the request in its last
 * word, so that the proxy sees whether all have arrived, without a fence between them. */
struct nvshmemi_request {
    struct {
        uint32_t word[3], turn;
    } chunk[4];
};

/* Answers to requests that wait for one, by slot. */
struct nvshmemi_answer {
    uint64_t value, turn;
};

/* The ring of a PE: `requests`, `answers` and `done` in pinned host memory, the rest in GPU memory. */
struct nvshmemi_ring {
    struct nvshmemi_request *requests;     /* [NVSHMEMI_RING_SLOTS] */
    struct nvshmemi_answer *answers;       /* [NVSHMEMI_RING_SLOTS] */
    const uint64_t *done;                  /* requests the proxy is through with */
    uint64_t head;                         /* requests made */
    uint64_t seen;                         /* what `done` was when last looked */
    uint32_t waiting[NVSHMEMI_RING_SLOTS]; /* 1: somebody reads the answer of this slot */
};

struct nvshmemi_state {
    uint32_t version, size;    /* of this structure */
    int32_t my_pe, n_pes;      /* -1: the library is not up */
    uint64_t heap, heap_bytes; /* where symmetric memory is, and how much room it has */
    int64_t *offsets;          /* [n_pes] to add to a symmetric address, or NVSHMEMI_REMOTE */
    struct nvshmemi_team *teams;
    uint64_t flags; /* symmetric: NVSHMEMI_FLAGS words for each team */
    struct nvshmemi_ring *ring;
    uint64_t scratch, scratch_bytes; /* mine, for collectives with remote members */
    int32_t max_teams;
    int32_t any_remote;
    int64_t near_offsets[NVSHMEMI_NEAR]; /* the first of `offsets` */
};

/* What is asked of the proxy, in the upper half of a request's last word but one. */
enum {
    NVSHMEMI_ASK_PUT = 1, /* dest, source, bytes */
    NVSHMEMI_ASK_GET,
    NVSHMEMI_ASK_VALUE, /* dest, value, bytes: the value itself travels */
    NVSHMEMI_ASK_READ,  /* source, bytes: answered with the value */
    NVSHMEMI_ASK_AMO,   /* dest, value, compare, bytes, operation */
    NVSHMEMI_ASK_FENCE,
    NVSHMEMI_ASK_QUIET,
    NVSHMEMI_ASK_EXIT, /* value: exit status */
    NVSHMEMI_ASK_LAST
};

/* Operations on a word; the library's own numbers, compared when it is compiled. */
enum {
    NVSHMEMI_AMO_FETCH,
    NVSHMEMI_AMO_SET,
    NVSHMEMI_AMO_SWAP,
    NVSHMEMI_AMO_COMPARE_SWAP,
    NVSHMEMI_AMO_ADD,
    NVSHMEMI_AMO_AND,
    NVSHMEMI_AMO_OR,
    NVSHMEMI_AMO_XOR
};

#endif
