/* SPDX-License-Identifier: BSD-3-Clause */
/* What the typed operations on streams call: as rma.h, signal.h, wait.h and collective.h have it for
 * the host, with the stream last. */
#ifndef PX_API_ONSTREAM_H
#define PX_API_ONSTREAM_H

#include <stddef.h>
#include <stdint.h>

#include "nvshmem.h"
#include "src/coll/dtype.h"

void px_on_stream_put(void *dest, const void *source, size_t nelems, size_t size, int pe,
                      const char *call, cudaStream_t stream);
void px_on_stream_get(void *dest, const void *source, size_t nelems, size_t size, int pe,
                      const char *call, cudaStream_t stream);
void px_on_stream_put_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                          const char *call, cudaStream_t stream);
void px_on_stream_get_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                          const char *call, cudaStream_t stream);
void px_on_stream_p(void *dest, const void *value, size_t size, int pe, const char *call,
                    cudaStream_t stream);
void px_on_stream_g(void *result, const void *source, size_t size, int pe, const char *call,
                    cudaStream_t stream);
/* Strides in elements. */
void px_on_stream_iput(void *dest, const void *source, ptrdiff_t dest_stride,
                       ptrdiff_t source_stride, size_t nelems, size_t size, int pe,
                       const char *call, cudaStream_t stream);
void px_on_stream_iget(void *dest, const void *source, ptrdiff_t dest_stride,
                       ptrdiff_t source_stride, size_t nelems, size_t size, int pe,
                       const char *call, cudaStream_t stream);
void px_on_stream_put_signal(void *dest, const void *source, size_t nelems, size_t size,
                             uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                             const char *call, cudaStream_t stream);
void px_on_stream_put_signal_nbi(void *dest, const void *source, size_t nelems, size_t size,
                                 uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                 const char *call, cudaStream_t stream);
void px_on_stream_wait_until(void *ivar, int cmp, const void *value, enum px_dtype type,
                             const char *call, cudaStream_t stream);
/* `each`: a value for every element, else one for all. */
void px_on_stream_wait_until_all(void *ivars, size_t nelems, const int *status, int cmp,
                                 const void *values, int each, enum px_dtype type, const char *call,
                                 cudaStream_t stream);
int px_on_stream_broadcast(nvshmem_team_t team, void *dest, const void *source, size_t nelems,
                           size_t size, int root, const char *call, cudaStream_t stream);
int px_on_stream_fcollect(nvshmem_team_t team, void *dest, const void *source, size_t nelems,
                          size_t size, const char *call, cudaStream_t stream);
int px_on_stream_alltoall(nvshmem_team_t team, void *dest, const void *source, size_t nelems,
                          size_t size, const char *call, cudaStream_t stream);
int px_on_stream_reduce(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                        enum px_dtype type, enum px_op op, const char *call, cudaStream_t stream);
int px_on_stream_reducescatter(nvshmem_team_t team, void *dest, const void *source, size_t nreduce,
                               enum px_dtype type, enum px_op op, const char *call,
                               cudaStream_t stream);

#endif
