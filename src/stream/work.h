/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel on a stream has to do: the one parameter of each of them, for the code that launches
 * them, the kernels themselves (kernels.cu, CUDA) and the tests' stand-in for the driver. Nothing in
 * it changes when a captured graph is replayed: what counts is kept in device memory, in the slots. */
#ifndef PX_STREAM_WORK_H
#define PX_STREAM_WORK_H

#include <stdint.h>

/* Members of a team whose meetings are kernels; larger ones are served by the proxy. */
#define PX_STREAM_MEMBERS 64

/* A block of this many threads reduces so many elements of each without a pause for memory. */
#define PX_STREAM_THREADS 1024
#define PX_STREAM_HELD    4

enum px_stream_signal { PX_STREAM_SET, PX_STREAM_ADD };
enum px_stream_cmp {
    PX_STREAM_EQ,
    PX_STREAM_NE,
    PX_STREAM_GT,
    PX_STREAM_LE,
    PX_STREAM_LT,
    PX_STREAM_GE
};

struct px_stream_work {
    uint64_t dest, source; /* addresses here; `source` of a collective gets members' deltas added */
    uint64_t count;        /* bytes or elements */
    int64_t dest_step, source_step; /* between elements, or between members' blocks */
    uint64_t word, value;           /* a signal, or what is awaited */
    uint64_t status, values;        /* of a set that is awaited, 0: none */
    uint64_t skip;                  /* bits of elements that are not awaited */
    uint32_t size;                  /* bytes of an element */
    uint32_t what;                  /* enum px_stream_signal or px_stream_cmp */
    uint32_t op;                    /* enum px_op of src/coll/dtype.h */
    uint32_t is_signed;

    /* The team. Two words for each pair of PEs in a slot: how often I have met it, at
     * slot[pe], and how often it has met me, at slot[n_pes + pe], written by it. */
    uint32_t rank, members, my_pe, n_pes;
    uint32_t first, blocks; /* members whose blocks are moved */
    uint32_t before, after; /* meet before and after the work, in a launch of one block only */
    uint64_t slot;
    int64_t delta[PX_STREAM_MEMBERS]; /* or values of a set that is awaited */
    uint16_t pe[PX_STREAM_MEMBERS];
};

#endif
