/* SPDX-License-Identifier: BSD-3-Clause */
/* The crossovers between algorithms; see tune.c. */
#ifndef PX_COLL_TUNE_H
#define PX_COLL_TUNE_H

#include <stddef.h>
#include <stdint.h>

struct px_env;

enum px_levels { PX_LEVELS_AUTO, PX_LEVELS_ONE, PX_LEVELS_TWO };

struct px_tuning {
    uint32_t direct_max;   /* largest team that meets each to each */
    uint32_t direct_nodes; /* the same with one PE on each node: messages are dear */
    size_t short_bytes;    /* largest block that rides on such a meeting, if a cell holds it */
    /* A fold carries PX_CELL_TREE bytes. A long reduction over the nodes costs five meetings, so up to so many folds in a
     * row are cheaper; within a node it costs two, as one fold does. */
    uint32_t short_folds;
    /* A broadcast goes in pieces from so many nodes and bytes on. */
    uint32_t pieces_groups;
    size_t pieces_bytes;
    enum px_levels reduce, broadcast, fcollect;
};
struct px_tuning px_tune(const struct px_env *env);

#endif
