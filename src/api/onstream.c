/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on CUDA streams: checks, then src/stream where programs' memory is on the GPU and the
 * peers' is mapped.
 *
 * Where it is host memory, or a peer is out of the GPU's reach, the call waits for what is in the
 * stream and does the host operation before it returns: later than it could be, never in another
 * order. Without a driver only stream 0 exists, and there is nothing to wait for. */
#include "config.h"
#include "src/api/onstream.h"

#include "src/api/check.h"
#include "src/api/collective.h"
#include "src/api/entry.h"
#include "src/api/gpumem.h"
#include "src/api/rma.h"
#include "src/api/signal.h"
#include "src/api/wait.h"
#include "src/api/world.h"
#include "src/diag/log.h"
#include "src/stream/stream.h"

#define BAD_TEAM 1

static struct px_stream on(const char *call, cudaStream_t stream)
{
    return (struct px_stream){.call = call, .stream = stream};
}

/* By the host then: the stream has ended its work. */
static bool by_host(const struct px_stream *s)
{
    px_stream_settle(s, px_world.env.cuda_path);
    return false;
}

/* Callers ask px_on_gpu too: a constant without CUDA, where there is nothing to call. */
static bool to_pe(const struct px_stream *s, int pe)
{
    return (px_on_gpu && px_stream_reaches((uint32_t)pe)) || by_host(s);
}

static bool among(const struct px_stream *s, const struct px_team *team)
{
    return (px_on_gpu && px_stream_reaches_team(team)) || by_host(s);
}

/* --- put and get --- */

static void check(const char *argument, const void *symmetric, void *dest, const void *source,
                  size_t nelems, size_t size, int pe, const char *call)
{
    if (px_suspect(pe)) {
        px_check_rma(call, argument, symmetric, nelems, size, pe);
        px_check_overlap(call, dest, source, nelems, size, pe);
    }
}

void px_on_stream_put(void *dest, const void *source, size_t nelems, size_t size, int pe,
                      const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    check("dest", dest, dest, source, nelems, size, pe, call);
    if (!to_pe(&s, pe))
        px_api_put(dest, source, nelems, size, pe, call);
    else if (px_on_gpu && nelems)
        px_stream_put(&s, (uint32_t)pe, dest, source, nelems * size);
}

void px_on_stream_get(void *dest, const void *source, size_t nelems, size_t size, int pe,
                      const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    check("source", source, dest, source, nelems, size, pe, call);
    if (!to_pe(&s, pe))
        px_api_get(dest, source, nelems, size, pe, call);
    else if (px_on_gpu && nelems)
        px_stream_get(&s, (uint32_t)pe, dest, source, nelems * size);
}

/* On a stream nobody waits, so these are the same. */
void px_on_stream_put_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                          const char *call, cudaStream_t stream)
{
    px_on_stream_put(dest, source, nelems, size, pe, call, stream);
}

void px_on_stream_get_nbi(void *dest, const void *source, size_t nelems, size_t size, int pe,
                          const char *call, cudaStream_t stream)
{
    px_on_stream_get(dest, source, nelems, size, pe, call, stream);
}

void px_on_stream_p(void *dest, const void *value, size_t size, int pe, const char *call,
                    cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    uint64_t bits = 0;
    if (px_suspect(pe))
        px_check_rma(call, "dest", dest, 1, size, pe);
    memcpy(&bits, value, size); /* little endian */
    if (to_pe(&s, pe) && px_on_gpu)
        px_stream_p(&s, (uint32_t)pe, dest, bits, size);
    else
        px_api_p(dest, value, size, pe, call);
}

void px_on_stream_g(void *result, const void *source, size_t size, int pe, const char *call,
                    cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    if (px_suspect(pe))
        px_check_rma(call, "source", source, 1, size, pe);
    if (to_pe(&s, pe) && px_on_gpu) {
        uint64_t bits = px_stream_g(&s, (uint32_t)pe, source, size);
        memcpy(result, &bits, size);
    } else {
        px_api_g(result, source, size, pe, call);
    }
}

/* --- strided --- */

static struct px_stream_strided strides(const char *call, ptrdiff_t dest_stride,
                                        ptrdiff_t source_stride, size_t nelems, size_t size)
{
    if (nelems && (dest_stride < 1 || source_stride < 1))
        px_fatal(1, "%s: the strides are %td and %td; they are in elements and at least 1", call,
                 dest_stride, source_stride);
    return (struct px_stream_strided){.dest_step = dest_stride * (ptrdiff_t)size,
                                      .source_step = source_stride * (ptrdiff_t)size,
                                      .nelems = nelems,
                                      .size = size};
}

void px_on_stream_iput(void *dest, const void *source, ptrdiff_t dest_stride,
                       ptrdiff_t source_stride, size_t nelems, size_t size, int pe,
                       const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    if (px_suspect(pe))
        px_check_strided(call, "dest", dest, dest_stride, nelems, size, pe);
    const struct px_stream_strided strided =
        strides(call, dest_stride, source_stride, nelems, size);
    if (!to_pe(&s, pe))
        px_api_iput(dest, source, dest_stride, source_stride, nelems, size, pe, call);
    else if (px_on_gpu && nelems)
        px_stream_iput(&s, (uint32_t)pe, dest, source, &strided);
}

void px_on_stream_iget(void *dest, const void *source, ptrdiff_t dest_stride,
                       ptrdiff_t source_stride, size_t nelems, size_t size, int pe,
                       const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    if (px_suspect(pe))
        px_check_strided(call, "source", source, source_stride, nelems, size, pe);
    const struct px_stream_strided strided =
        strides(call, dest_stride, source_stride, nelems, size);
    if (!to_pe(&s, pe))
        px_api_iget(dest, source, dest_stride, source_stride, nelems, size, pe, call);
    else if (px_on_gpu && nelems)
        px_stream_iget(&s, (uint32_t)pe, dest, source, &strided);
}

/* --- signals --- */

static enum px_stream_signal signal_of(const char *call, int sig_op)
{
    if (sig_op == NVSHMEM_SIGNAL_SET)
        return PX_STREAM_SET;
    if (sig_op == NVSHMEM_SIGNAL_ADD)
        return PX_STREAM_ADD;
    px_check_bad_signal_op(call, sig_op);
}

void px_on_stream_put_signal(void *dest, const void *source, size_t nelems, size_t size,
                             uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                             const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    check("dest", dest, dest, source, nelems, size, pe, call);
    if (px_suspect(pe))
        px_check_amo(call, "sig_addr", sig_addr, sizeof(*sig_addr), pe);
    const struct px_stream_note note = {
        .word = sig_addr, .value = signal, .what = signal_of(call, sig_op)};
    if (to_pe(&s, pe) && px_on_gpu)
        px_stream_put_signal(&s, (uint32_t)pe, dest, source, nelems * size, &note);
    else
        px_api_put_signal(dest, source, nelems, size, sig_addr, signal, sig_op, pe, call);
}

void px_on_stream_put_signal_nbi(void *dest, const void *source, size_t nelems, size_t size,
                                 uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                                 const char *call, cudaStream_t stream)
{
    px_on_stream_put_signal(dest, source, nelems, size, sig_addr, signal, sig_op, pe, call, stream);
}

void px_on_stream_signal_op(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                            cudaStream_t stream)
{
    px_on_stream_put_signal(NULL, NULL, 0, 1, sig_addr, signal, sig_op, pe,
                            "nvshmemx_signal_op_on_stream", stream);
}

/* --- waiting --- */

static enum px_stream_cmp comparison_of(const char *call, int cmp)
{
    switch (cmp) {
    case NVSHMEM_CMP_EQ:
        return PX_STREAM_EQ;
    case NVSHMEM_CMP_NE:
        return PX_STREAM_NE;
    case NVSHMEM_CMP_GT:
        return PX_STREAM_GT;
    case NVSHMEM_CMP_LE:
        return PX_STREAM_LE;
    case NVSHMEM_CMP_LT:
        return PX_STREAM_LT;
    case NVSHMEM_CMP_GE:
        return PX_STREAM_GE;
    default:
        px_check_bad_comparison(call, cmp);
    }
}

static void wait_for(const struct px_stream *s, void *ivars, size_t nelems, const int *status,
                     int cmp, const void *values, int each, enum px_dtype type)
{
    size_t size = px_dtype_info[type].size;
    if (px_suspect_call())
        px_check_own(s->call, nelems == 1 && !status ? "ivar" : "ivars", ivars, nelems, size);
    const struct px_stream_set set = {.words = ivars,
                                      .values = values,
                                      .status = status,
                                      .nelems = nelems,
                                      .size = size,
                                      .each = each != 0,
                                      .is_signed = px_dtype_info[type].is_signed,
                                      .cmp = comparison_of(s->call, cmp)};
    if (to_pe(s, (int)px_peers.my_pe) && px_on_gpu)
        px_stream_wait(s, &set);
    else
        px_api_wait_until_all(ivars, nelems, status, cmp, values, each, type, s->call);
}

void px_on_stream_wait_until(void *ivar, int cmp, const void *value, enum px_dtype type,
                             const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    wait_for(&s, ivar, 1, NULL, cmp, value, 0, type);
}

void px_on_stream_wait_until_all(void *ivars, size_t nelems, const int *status, int cmp,
                                 const void *values, int each, enum px_dtype type, const char *call,
                                 cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    wait_for(&s, ivars, nelems, status, cmp, values, each, type);
}

void px_on_stream_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value,
                                    cudaStream_t stream)
{
    const struct px_stream s = on("nvshmemx_signal_wait_until_on_stream", stream);
    wait_for(&s, sig_addr, 1, NULL, cmp, &cmp_value, 0, PX_TYPE_uint64);
}

/* --- ordering and meeting --- */

/* What the GPU did is complete when the stream is that far: see src/stream/move.c. */
static void complete(const struct px_stream *s)
{
    if (px_on_gpu && px_stream_reaches_all())
        return;
    px_stream_settle(s, px_world.env.cuda_path);
    px_api_quiet();
}

void px_on_stream_quiet(cudaStream_t stream)
{
    const struct px_stream s = on("nvshmemx_quiet_on_stream", stream);
    px_check_up(s.call);
    complete(&s);
}

static int meet(const struct px_stream *s, struct px_team *team, bool barrier)
{
    if (!team)
        return BAD_TEAM;
    if (barrier)
        complete(s);
    if (!among(s, team))
        return px_api_team_sync(px_team_handle(team));
    if (px_on_gpu)
        px_stream_sync(s, team);
    return 0;
}

int px_on_stream_barrier(nvshmem_team_t team, cudaStream_t stream)
{
    const struct px_stream s = on("nvshmemx_barrier_on_stream", stream);
    return meet(&s, px_collective_team(team, s.call), true);
}

void px_on_stream_barrier_all(cudaStream_t stream)
{
    const struct px_stream s = on("nvshmemx_barrier_all_on_stream", stream);
    (void)meet(&s, px_collective_team(NVSHMEM_TEAM_WORLD, s.call), true); /* it is there */
}

int px_on_stream_team_sync(nvshmem_team_t team, cudaStream_t stream)
{
    const struct px_stream s = on("nvshmemx_team_sync_on_stream", stream);
    return meet(&s, px_collective_team(team, s.call), false);
}

void px_on_stream_sync_all(cudaStream_t stream)
{
    const struct px_stream s = on("nvshmemx_sync_all_on_stream", stream);
    (void)meet(&s, px_collective_team(NVSHMEM_TEAM_WORLD, s.call), false); /* it is there */
}

/* --- collectives --- */

int px_on_stream_broadcast(nvshmem_team_t handle, void *dest, const void *source, size_t nelems,
                           size_t size, int root, const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    struct px_team *team = px_collective_team(handle, call);
    if (!team)
        return BAD_TEAM;
    px_collective_root(call, team, root);
    px_collective_check(call, "dest", dest, nelems, size, 1);
    px_collective_check(call, "source", source, nelems, size, 1);
    if (!among(&s, team))
        return px_api_broadcast(handle, dest, source, nelems, size, root, call);
    if (px_on_gpu)
        px_stream_broadcast(&s, team, dest, source, nelems * size, (uint32_t)root);
    return 0;
}

int px_on_stream_fcollect(nvshmem_team_t handle, void *dest, const void *source, size_t nelems,
                          size_t size, const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    struct px_team *team = px_collective_team(handle, call);
    if (!team)
        return BAD_TEAM;
    px_collective_check(call, "dest", dest, nelems, size, px_team_size(team));
    px_collective_check(call, "source", source, nelems, size, 1);
    if (!among(&s, team))
        return px_api_fcollect(handle, dest, source, nelems, size, call);
    if (px_on_gpu)
        px_stream_fcollect(&s, team, dest, source, nelems * size);
    return 0;
}

int px_on_stream_alltoall(nvshmem_team_t handle, void *dest, const void *source, size_t nelems,
                          size_t size, const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    struct px_team *team = px_collective_team(handle, call);
    if (!team)
        return BAD_TEAM;
    px_collective_check(call, "dest", dest, nelems, size, px_team_size(team));
    px_collective_check(call, "source", source, nelems, size, px_team_size(team));
    if (!among(&s, team))
        return px_api_alltoall(handle, dest, source, nelems, size, call);
    if (px_on_gpu)
        px_stream_alltoall(&s, team, dest, source, nelems * size);
    return 0;
}

int px_on_stream_reduce(nvshmem_team_t handle, void *dest, const void *source, size_t nreduce,
                        enum px_dtype type, enum px_op op, const char *call, cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    struct px_team *team = px_collective_team(handle, call);
    size_t size = px_dtype_info[type].size;
    if (!team)
        return BAD_TEAM;
    px_collective_check(call, "dest", dest, nreduce, size, 1);
    px_collective_check(call, "source", source, nreduce, size, 1);
    px_collective_apart(call, dest, source, nreduce * size);
    if (!among(&s, team))
        return px_api_reduce(handle, dest, source, nreduce, type, op, call);
    if (px_on_gpu)
        px_stream_reduce(&s, team, dest, source, nreduce, (struct px_arithmetic){type, op});
    return 0;
}

int px_on_stream_reducescatter(nvshmem_team_t handle, void *dest, const void *source,
                               size_t nreduce, enum px_dtype type, enum px_op op, const char *call,
                               cudaStream_t stream)
{
    const struct px_stream s = on(call, stream);
    struct px_team *team = px_collective_team(handle, call);
    size_t size = px_dtype_info[type].size;
    if (!team)
        return BAD_TEAM;
    px_collective_check(call, "dest", dest, nreduce, size, 1);
    px_collective_check(call, "source", source, nreduce, size, px_team_size(team));
    if (!among(&s, team))
        return px_api_reducescatter(handle, dest, source, nreduce, type, op, call);
    if (px_on_gpu)
        px_stream_reducescatter(&s, team, dest, source, nreduce, (struct px_arithmetic){type, op});
    return 0;
}
