/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams over GPU memory: each puts copies, kernels and stream memory operations into
 * the caller's stream and returns. Nothing is kept on the host between call and execution, so a
 * captured graph may be replayed; what counts meetings is in device memory.
 *
 * Called by src/api/onstream.c, which has checked its arguments. A failure of the driver ends the job
 * with the name of the call. */
#ifndef PX_STREAM_STREAM_H
#define PX_STREAM_STREAM_H

#include "config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/coll/coll.h"
#include "src/stream/work.h"

struct CUstream_st; /* CUDA's stream, so that this header needs nothing of CUDA's */

/* Everything that is loaded goes; no call is under way. Loading is done at first use. */
void px_stream_close(void);

/* Who calls, and on which stream. */
struct px_stream {
    const char *call;
    struct CUstream_st *stream;
};

/* Is the memory of a PE mapped on this GPU? Of all? Can kernels of a team meet? The calls below are for
 * those. */
bool px_stream_reaches(uint32_t pe);
bool px_stream_reaches_all(void);
bool px_stream_reaches_team(const struct px_team *team);

/* move.c; `bytes` may be 0 only for put_signal. */
void px_stream_put(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                   size_t bytes);
void px_stream_get(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                   size_t bytes);
void px_stream_p(const struct px_stream *s, uint32_t pe, void *dest, uint64_t value, size_t size);
uint64_t px_stream_g(const struct px_stream *s, uint32_t pe, const void *source, size_t size);
/* Steps in bytes. */
struct px_stream_strided {
    ptrdiff_t dest_step, source_step;
    size_t nelems, size;
};
void px_stream_iput(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                    const struct px_stream_strided *strided);
void px_stream_iget(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                    const struct px_stream_strided *strided);
struct px_stream_note {
    uint64_t *word, value;
    enum px_stream_signal what;
};
void px_stream_put_signal(const struct px_stream *s, uint32_t pe, void *dest, const void *source,
                          size_t bytes, const struct px_stream_note *note);

/* wait.c; words of this PE. `values` has one for all, or one each; it and `status` may be memory of
 * the host, read now, or of the GPU, read in stream order. */
struct px_stream_set {
    const void *words, *values;
    const int *status;
    size_t nelems, size;
    bool each, is_signed;
    enum px_stream_cmp cmp;
};
void px_stream_wait(const struct px_stream *s, const struct px_stream_set *set);

/* Collectives; sizes in bytes, counts in elements. */
/* A meeting; what the members put before it is there behind it. */
void px_stream_sync(const struct px_stream *s, struct px_team *team);
void px_stream_broadcast(const struct px_stream *s, struct px_team *team, void *dest,
                         const void *source, size_t bytes, uint32_t root);
void px_stream_fcollect(const struct px_stream *s, struct px_team *team, void *dest,
                        const void *source, size_t bytes);
void px_stream_alltoall(const struct px_stream *s, struct px_team *team, void *dest,
                        const void *source, size_t bytes);
void px_stream_reduce(const struct px_stream *s, struct px_team *team, void *dest,
                      const void *source, size_t count, struct px_arithmetic arithmetic);
void px_stream_reducescatter(const struct px_stream *s, struct px_team *team, void *dest,
                             const void *source, size_t count, struct px_arithmetic arithmetic);

/* host.c; before the host does a stream's operation: what is in the stream is done. Without a driver
 * only stream 0 exists and is idle. Ends the job while the stream is being captured. */
void px_stream_settle(const struct px_stream *s, const char *cuda_path);

/* Is a stream being captured that this thread's allocations would disturb? */
bool px_stream_capture_under_way(void);

#endif
