/* SPDX-License-Identifier: BSD-3-Clause */
/* What the typed collectives call: the generated functions name the element size or type and pass
 * on their own name. Each checks its arguments (check.h) and calls src/coll. All return 0, or
 * non-zero for an invalid team. Counts are in elements as the caller gave them, so that a product
 * that overflows can still be told. */
#ifndef PX_API_COLLECTIVE_H
#define PX_API_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>

#include "nvshmem.h"
#include "src/coll/dtype.h"

int px_api_broadcast(nvshmem_team_t team, void *dest, const void *source, size_t nelems,
                     size_t size, int root, const char *call);
int px_api_fcollect(nvshmem_team_t team, void *dest, const void *source, size_t nelems, size_t size,
                    const char *call);
int px_api_collect(nvshmem_team_t team, void *dest, const void *source, size_t nelems, size_t size,
                   const char *call);
int px_api_alltoall(nvshmem_team_t team, void *dest, const void *source, size_t nelems, size_t size,
                    const char *call);
/* Strides in elements. */
int px_api_alltoalls(nvshmem_team_t team, void *dest, const void *source, ptrdiff_t dest_stride,
                     ptrdiff_t source_stride, size_t nelems, size_t size, const char *call);
int px_api_reduce(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                  enum px_dtype type, enum px_op op, const char *call);
int px_api_reducescatter(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                         enum px_dtype type, enum px_op op, const char *call);
int px_api_inscan(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                  enum px_dtype type, enum px_op op, const char *call);
int px_api_exscan(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                  enum px_dtype type, enum px_op op, const char *call);

/* What collectives on streams check too. The team, NULL when there is none, after a message; `blocks`
 * blocks of nelems elements at a symmetric address; a root that must be a member; regions of a
 * reduction, which are equal or apart. */
struct px_team;
struct px_team *px_collective_team(nvshmem_team_t handle, const char *call);
void px_collective_check(const char *call, const char *argument, const void *address, size_t nelems,
                         size_t size, size_t blocks);
void px_collective_root(const char *call, const struct px_team *team, int root);
void px_collective_apart(const char *call, const void *dest, const void *source, size_t bytes);

#endif
