/* SPDX-License-Identifier: BSD-3-Clause */
/* The crossovers between algorithms; see tune.c. */
#ifndef PX_COLL_TUNE_H
#define PX_COLL_TUNE_H

#include <stddef.h>
#include <stdint.h>

struct px_env;

enum px_levels { PX_LEVELS_AUTO, PX_LEVELS_ONE, PX_LEVELS_TWO };

struct px_tuning {
    uint32_t direct_max; /* largest team that meets each to each */
    size_t short_bytes;  /* largest block that rides on such a meeting, if a cell holds it */
    enum px_levels reduce, broadcast, fcollect;
};
struct px_tuning px_tune(const struct px_env *env);

/* A fold carries PX_CELL_TREE bytes. A long reduction over the nodes costs five meetings, so up to
 * so many folds in a row are cheaper; within a node it costs two, as one fold does. */
#define PX_SHORT_FOLDS 4

/* Largest team with one PE on each node that meets each to each: messages are dear. */
#define PX_DIRECT_NODES 4

/* A broadcast goes in pieces from so many nodes and bytes on. */
#define PX_PIECES_GROUPS 3
#define PX_PIECES_BYTES  ((size_t)64 << 10)

#endif
