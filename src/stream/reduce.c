/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions on streams. Up to a few thousand elements: one launch of one block, which meets, reads
 * all members, meets again and writes, so that dest may be source. More: each member reduces its part
 * of the elements with the whole GPU, then fetches the others' parts; nobody writes what another
 * still reads. Members compute in the order of the team: everyone gets the same bits. */
#include "config.h"
#include "src/stream/private.h"

#if PX_HAVE_CUDA
#define HELD ((size_t)PX_STREAM_THREADS * PX_STREAM_HELD)

/* As reduce.cu has them. */
_Static_assert(PX_OP_AND == 0 && PX_OP_OR == 1 && PX_OP_XOR == 2 && PX_OP_MAX == 3 &&
                   PX_OP_MIN == 4 && PX_OP_SUM == 5 && PX_OP_PROD == 6,
               "the operators of kernels");

static enum px_stream_kernel kernel_of(enum px_dtype type)
{
    switch (type) {
    case PX_TYPE_float:
        return PX_KERNEL_REDUCE_FLOAT;
    case PX_TYPE_double:
        return PX_KERNEL_REDUCE_DOUBLE;
    case PX_TYPE_half:
        return PX_KERNEL_REDUCE_HALF;
    case PX_TYPE_bfloat16:
        return PX_KERNEL_REDUCE_BFLOAT16;
    default:
        break;
    }
    switch (px_dtype_info[type].size) {
    case 1:
        return PX_KERNEL_REDUCE_8;
    case 2:
        return PX_KERNEL_REDUCE_16;
    case 4:
        return PX_KERNEL_REDUCE_32;
    default:
        return PX_KERNEL_REDUCE_64;
    }
}

struct job {
    const struct px_stream *s;
    struct px_stream_work team; /* members only */
    enum px_stream_kernel kernel;
    size_t size;
};

static void begin(struct job *job, const struct px_stream *s, struct px_team *team,
                  struct px_arithmetic arithmetic)
{
    *job = (struct job){
        .s = s,
        .kernel = kernel_of(arithmetic.type),
        .size = px_dtype_info[arithmetic.type].size,
        .team = {.op = arithmetic.op, .is_signed = px_dtype_info[arithmetic.type].is_signed}};
    px_stream_fill(team, &job->team);
}

/* `count` elements of all members at source, to dest. */
static void compute(const struct job *job, uint64_t dest, uint64_t source, size_t count)
{
    struct px_stream_work work = job->team;
    if (count == 0)
        return;
    work.dest = dest;
    work.source = source;
    work.count = count;
    px_stream_launch(job->s, job->kernel, px_stream_blocks(count), PX_STREAM_BLOCK, &work);
}

/* The same in one launch, with both meetings. */
static void compute_held(const struct job *job, uint64_t dest, uint64_t source, size_t count)
{
    struct px_stream_work work = job->team;
    size_t threads = (count > work.members ? count : work.members) + 31;
    work.dest = dest;
    work.source = source;
    work.count = count;
    work.before = work.after = 1;
    px_stream_launch(job->s, job->kernel, 1,
                     threads < PX_STREAM_THREADS ? (uint32_t)threads / 32 * 32 : PX_STREAM_THREADS,
                     &work);
}

/* Parts of the elements, a multiple of 16 bytes each but the last. */
static size_t part_start(const struct job *job, size_t count, uint32_t member)
{
    size_t unit = 16 / job->size, units = (count + unit - 1) / unit;
    size_t start = units * member / job->team.members * unit;
    return start < count ? start : count;
}

static void reduce_parts(const struct job *job, uint64_t dest, uint64_t source, size_t count)
{
    size_t first = part_start(job, count, job->team.rank);
    size_t end = part_start(job, count, job->team.rank + 1);
    px_stream_meet(job->s, &job->team);
    compute(job, dest + first * job->size, source + first * job->size, end - first);
    px_stream_meet(job->s, &job->team);
    for (uint32_t k = 1; k < job->team.members; k++) {
        uint32_t i = (job->team.rank + k) % job->team.members;
        uint64_t from = dest + part_start(job, count, i) * job->size;
        px_stream_copy(job->s, (void *)from, (void *)(from + (uint64_t)job->team.delta[i]),
                       (part_start(job, count, i + 1) - part_start(job, count, i)) * job->size);
    }
    px_stream_meet(job->s, &job->team);
}

void px_stream_reduce(const struct px_stream *s, struct px_team *team, void *dest,
                      const void *source, size_t count, struct px_arithmetic arithmetic)
{
    struct px_gpu_visit visit;
    struct job job;
    px_stream_enter(s, &visit);
    begin(&job, s, team, arithmetic);
    if (job.team.members == 1)
        px_stream_copy(s, dest, source, count * job.size);
    else if (count <= HELD)
        compute_held(&job, px_stream_address(dest), px_stream_address(source), count);
    else
        reduce_parts(&job, px_stream_address(dest), px_stream_address(source), count);
    px_gpu_leave(&visit);
}

/* With dest in source the result waits in the caller's own block, which nobody else reads, until all
 * have read. */
static void scatter_parts(const struct job *job, uint64_t dest, uint64_t source, size_t count)
{
    uint64_t block = count * job->size, mine = source + job->team.rank * block;
    bool inside = dest < source + job->team.members * block && source < dest + block;
    if (inside && (dest < source || (dest - source) % block))
        px_fatal(1,
                 "%s: dest overlaps source without being one of its blocks: the two are apart, or "
                 "dest is source",
                 job->s->call);
    px_stream_meet(job->s, &job->team);
    compute(job, inside ? mine : dest, mine, count);
    px_stream_meet(job->s, &job->team);
    if (inside)
        px_stream_copy(job->s, (void *)dest, (void *)mine, block);
}

void px_stream_reducescatter(const struct px_stream *s, struct px_team *team, void *dest,
                             const void *source, size_t count, struct px_arithmetic arithmetic)
{
    struct px_gpu_visit visit;
    struct job job;
    px_stream_enter(s, &visit);
    begin(&job, s, team, arithmetic);
    uint64_t from = px_stream_address(source);
    if (job.team.members == 1)
        px_stream_copy(s, dest, source, count * job.size);
    else if (count <= HELD)
        compute_held(&job, px_stream_address(dest), from + job.team.rank * count * job.size, count);
    else
        scatter_parts(&job, px_stream_address(dest), from, count);
    px_gpu_leave(&visit);
}
#endif
