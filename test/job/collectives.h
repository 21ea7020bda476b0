/* SPDX-License-Identifier: BSD-3-Clause */
/* The typed collectives as a table of untyped ones, as test/unit/types.h has it for the other families. */
#ifndef PX_TEST_JOB_COLLECTIVES_H
#define PX_TEST_JOB_COLLECTIVES_H

#include <stddef.h>
#include <stdint.h>

/* One row for each function of a type, `op` as in the name. What a call does not take is ignored. */
struct coll_args {
    int32_t team;
    void *dest;
    const void *source;
    size_t count;
    int root;
    ptrdiff_t dest_stride, source_stride;
};
struct coll_type {
    const char *name, *op;
    size_t size;
    int (*call)(const struct coll_args *args);
};
extern const struct coll_type coll_types[];
extern const size_t coll_type_count;

#endif
