/* SPDX-License-Identifier: BSD-3-Clause */
/* pxshmem-perf: what each operation costs between PE 0 and PE 1, beside the raw limit of the same processes at the same
 * time: plain loads, stores, locked instructions, flags and a vector copy on the same mapping. Figures are medians; the
 * ratio is the one to compare, times vary with the machine. Where PE 1 is on another node there is no raw limit here.
 *
 *   pxshmem-perf [-r REPEATS] [NAME...]   rows whose name contains one of the words; all without
 *   pxshmem-perf --init | --raw-init      time of nvshmem_init; of PMIx_Init and one fence. Two jobs, one figure each. */
#include "config.h"

#include <nvshmem.h>
#include <pmix.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/tools/perf_raw.h"

#define REPEATS_MAX  1001
#define BUFFER_BYTES ((size_t)65 << 20)

/* Symmetric memory of the benchmark, and PE 1's part as mapped on PE 0 (NULL when it is not). */
static struct {
    int me, n, repeats;
    char *source, *dest, *far;   /* far: dest on PE 1 */
    uint64_t *flags, *far_flags; /* each flag on a line of its own: index times 8 */
    char *private;
} ctx;

enum who { ONE, BOTH };

struct row {
    const char *name;
    enum who who; /* PE 0 alone works, or both together */
    long iterations;
    size_t bytes;                          /* moved by one iteration; 0: a latency */
    double (*ours)(const struct row *row); /* nanoseconds for one iteration */
    double (*raw)(const struct row *row);
    const char *limit; /* what raw is, in words */
    size_t shift;      /* of the destination against the source, modulo 4096 */
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

#define TIMED(statement)                                                                           \
    double start = now_ns();                                                                       \
    for (long i = 0; i < row->iterations; i++) {                                                   \
        statement;                                                                                 \
    }                                                                                              \
    return (now_ns() - start) / (double)row->iterations

static uint64_t *words(void *memory)
{
    return memory;
}

/* One-sided, eight bytes. The address moves over 64 words so that no store waits for the one before. */
static double put_8(const struct row *row)
{
    TIMED(nvshmem_uint64_put(words(ctx.dest) + (i & 63), words(ctx.source), 1, 1));
}
static double p_8(const struct row *row)
{
    TIMED(nvshmem_uint64_p(words(ctx.dest) + (i & 63), (uint64_t)i, 1));
}
static double put_nbi_8(const struct row *row)
{
    TIMED(nvshmem_uint64_put_nbi(words(ctx.dest) + (i & 63), words(ctx.source), 1, 1));
}
static double get_8(const struct row *row)
{
    TIMED(nvshmem_uint64_get(words(ctx.private), words(ctx.dest) + (i & 63), 1, 1));
}
static double g_8(const struct row *row)
{
    uint64_t sum = 0;
    double start = now_ns();
    for (long i = 0; i < row->iterations; i++)
        sum += nvshmem_uint64_g(words(ctx.dest) + (i & 63), 1);
    double taken = now_ns() - start;
    words(ctx.private)[0] = sum;
    return taken / (double)row->iterations;
}
static double put_quiet_8(const struct row *row)
{
    TIMED(nvshmem_uint64_put(words(ctx.dest) + (i & 63), words(ctx.source), 1, 1); nvshmem_quiet());
}
static double p_quiet_8(const struct row *row)
{
    TIMED(nvshmem_uint64_p(words(ctx.dest) + (i & 63), (uint64_t)i, 1); nvshmem_quiet());
}
static double fetch_add(const struct row *row)
{
    TIMED(nvshmem_uint64_atomic_fetch_add(&ctx.flags[512], 1, 1));
}
static double raw_store(const struct row *row)
{
    TIMED(px_raw_store(words(ctx.far) + (i & 63), (uint64_t)i));
}
static double raw_load(const struct row *row)
{
    TIMED(px_raw_load(words(ctx.far) + (i & 63)));
}
static double raw_store_fence(const struct row *row)
{
    TIMED(px_raw_store(words(ctx.far) + (i & 63), (uint64_t)i); px_raw_fence());
}
static double raw_fetch_add(const struct row *row)
{
    TIMED(px_raw_fetch_add(&ctx.far_flags[512]));
}

/* One-sided, blocks. */
static double put_block(const struct row *row)
{
    TIMED(nvshmem_putmem(ctx.dest + row->shift, ctx.source, row->bytes, 1));
}
static double get_block(const struct row *row)
{
    TIMED(nvshmem_getmem(ctx.private, ctx.dest, row->bytes, 1));
}
static double raw_put_block(const struct row *row)
{
    TIMED(px_raw_copy(ctx.far + row->shift, ctx.source, row->bytes));
}
static double raw_get_block(const struct row *row)
{
    TIMED(px_raw_copy(ctx.private, ctx.far, row->bytes));
}

/* Together. Flags count on from what they hold, so a row can be repeated. */
static double ping_pong(const struct row *row)
{
    int other = 1 - ctx.me;
    uint64_t *mine = &ctx.flags[64], base = *mine;
    double start = now_ns();
    for (uint64_t i = 1; i <= (uint64_t)row->iterations; i++) {
        if (ctx.me == 1)
            nvshmem_signal_wait_until(mine, NVSHMEM_CMP_GE, base + i);
        nvshmem_uint64_put_signal(words(ctx.dest), words(ctx.source), 1, mine, base + i,
                                  NVSHMEM_SIGNAL_SET, other);
        if (ctx.me == 0)
            nvshmem_signal_wait_until(mine, NVSHMEM_CMP_GE, base + i);
    }
    return (now_ns() - start) / (double)row->iterations / 2;
}
static double raw_ping_pong(const struct row *row)
{
    uint64_t base = ctx.flags[128];
    double start = now_ns();
    for (uint64_t i = 1; i <= (uint64_t)row->iterations; i++) {
        if (ctx.me == 1)
            px_raw_await(&ctx.flags[128], base + i);
        px_raw_store(words(ctx.far), i);
        px_raw_signal(&ctx.far_flags[128], base + i);
        if (ctx.me == 0)
            px_raw_await(&ctx.flags[128], base + i);
    }
    return (now_ns() - start) / (double)row->iterations / 2;
}
static void raw_meet(void)
{
    uint64_t next = ctx.flags[192 + 64] + 1; /* kept by its owner: meetings so far */
    ctx.flags[192 + 64] = next;
    px_raw_signal(&ctx.far_flags[192], next);
    px_raw_await(&ctx.flags[192], next);
}
static double barrier(const struct row *row)
{
    TIMED(nvshmem_barrier_all());
}
static double sync_all(const struct row *row)
{
    TIMED(nvshmem_sync_all());
}
static double raw_barrier(const struct row *row)
{
    TIMED(raw_meet());
}
static double two_fetch_adds(const struct row *row)
{
    nvshmem_sync_all();
    TIMED(nvshmem_uint64_atomic_fetch_add(&ctx.flags[576], 1, 1));
}
static double raw_two_fetch_adds(const struct row *row)
{
    uint64_t *word = ctx.me == 0 ? &ctx.far_flags[576] : &ctx.flags[576];
    nvshmem_sync_all();
    TIMED(px_raw_fetch_add(word));
}

/* Collectives alternate two destinations, as back-to-back calls must. */
static double reduce(const struct row *row)
{
    size_t n = row->bytes / sizeof(double);
    char *dest[2] = {ctx.dest, ctx.dest + ((size_t)8 << 20)};
    TIMED(nvshmem_double_sum_reduce(NVSHMEM_TEAM_WORLD, (double *)dest[i & 1], (double *)ctx.source,
                                    n));
}
static double raw_reduce_8(const struct row *row)
{
    TIMED(raw_meet());
}
static double raw_reduce(const struct row *row)
{
    size_t half = row->bytes / 2, mine = ctx.me == 0 ? 0 : half;
    char *far_source = nvshmem_ptr(ctx.source, 1 - ctx.me);
    char *far_dest = nvshmem_ptr(ctx.dest, 1 - ctx.me);
    TIMED(raw_meet(); px_raw_add(ctx.dest + mine, ctx.source + mine, far_source + mine, half);
          px_raw_copy(far_dest + mine, ctx.dest + mine, half); raw_meet());
}
static double broadcast(const struct row *row)
{
    char *dest[2] = {ctx.dest, ctx.dest + ((size_t)8 << 20)};
    TIMED(nvshmem_broadcastmem(NVSHMEM_TEAM_WORLD, dest[i & 1], ctx.source, row->bytes, 0));
}
static double raw_broadcast(const struct row *row)
{
    char *from = nvshmem_ptr(ctx.source, 0);
    TIMED(raw_meet(); px_raw_copy(ctx.dest, from, row->bytes); raw_meet());
}
static double malloc_free(const struct row *row)
{
    TIMED(nvshmem_free(nvshmem_malloc(row->shift)));
}
static double raw_two_meetings(const struct row *row)
{
    TIMED(raw_meet(); raw_meet());
}

static const struct row rows[] = {
    {"put 8 B", ONE, 20000, 0, put_8, raw_store, "store", 0},
    {"p 8 B", ONE, 20000, 0, p_8, raw_store, "store", 0},
    {"put_nbi 8 B", ONE, 20000, 0, put_nbi_8, raw_store, "store", 0},
    {"get 8 B", ONE, 20000, 0, get_8, raw_load, "load", 0},
    {"g 8 B", ONE, 20000, 0, g_8, raw_load, "load", 0},
    {"put + quiet 8 B", ONE, 20000, 0, put_quiet_8, raw_store_fence, "store, full fence", 0},
    {"p + quiet 8 B", ONE, 20000, 0, p_quiet_8, raw_store_fence, "store, full fence", 0},
    {"fetch_add", ONE, 20000, 0, fetch_add, raw_fetch_add, "locked add", 0},
    {"fetch_add, both on one word", BOTH, 20000, 0, two_fetch_adds, raw_two_fetch_adds,
     "locked add", 0},
    {"put 64 B", ONE, 10000, 64, put_block, raw_put_block, "vector copy", 0},
    {"put 1 KiB", ONE, 5000, 1024, put_block, raw_put_block, "vector copy", 0},
    {"get 1 KiB", ONE, 5000, 1024, get_block, raw_get_block, "vector copy", 0},
    {"put 64 KiB", ONE, 300, 65536, put_block, raw_put_block, "vector copy", 0},
    {"put 64 KiB, 16 B on", ONE, 300, 65536, put_block, raw_put_block, "vector copy", 16},
    {"put 4 MiB", ONE, 8, 4u << 20, put_block, raw_put_block, "vector copy", 0},
    {"get 4 MiB", ONE, 8, 4u << 20, get_block, raw_get_block, "vector copy", 0},
    {"put 64 MiB", ONE, 1, 64u << 20, put_block, raw_put_block, "vector copy", 0},
    {"put_signal ping-pong 8 B", BOTH, 2000, 0, ping_pong, raw_ping_pong, "store, flag; one way",
     0},
    {"barrier_all", BOTH, 2000, 0, barrier, raw_barrier, "flags both ways", 0},
    {"sync_all", BOTH, 2000, 0, sync_all, raw_barrier, "flags both ways", 0},
    {"sum reduce 8 B", BOTH, 2000, 8, reduce, raw_reduce_8, "flags both ways", 0},
    {"sum reduce 1 MiB", BOTH, 10, 1u << 20, reduce, raw_reduce, "half the sums each, 2 meetings",
     0},
    {"broadcast 1 MiB", BOTH, 20, 1u << 20, broadcast, raw_broadcast, "vector copy, 2 meetings", 0},
    {"malloc + free 1 KiB", BOTH, 500, 0, malloc_free, raw_two_meetings, "2 meetings", 1024},
    {"malloc + free 64 MiB", BOTH, 500, 0, malloc_free, raw_two_meetings, "2 meetings", 64u << 20},
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), ascending);
    return values[count / 2];
}

static const char *in_words(const struct row *row, double ns, char *text, size_t size)
{
    if (row->bytes >= 1024 && row->who == ONE)
        snprintf(text, size, "%8.2f GB/s", (double)row->bytes / ns);
    else if (ns < 1e4)
        snprintf(text, size, "%8.1f ns  ", ns);
    else
        snprintf(text, size, "%8.1f us  ", ns / 1e3);
    return text;
}

/* Both PEs take part in every meeting; only PE 0 (and PE 1 where both work) does anything in between. */
static void measure(const struct row *row)
{
    static double ours[REPEATS_MAX], raw[REPEATS_MAX];
    bool work = ctx.me == 0 || (row->who == BOTH && ctx.me == 1), limit = ctx.far != NULL;
    bool all = row->who == BOTH && ctx.n > 2; /* then PEs beyond 1 join the collectives as well */
    for (int r = -1; r < ctx.repeats; r++) {  /* the first one warms up */
        nvshmem_barrier_all();
        double a = work && limit ? row->raw(row) : 0;
        nvshmem_barrier_all();
        double b = work || all ? row->ours(row) : 0;
        if (r >= 0) {
            raw[r] = a;
            ours[r] = b;
        }
    }
    nvshmem_barrier_all();
    if (ctx.me != 0)
        return;
    char mine[32], theirs[32];
    double x = median(ours, ctx.repeats), y = median(raw, ctx.repeats);
    printf("%-28s %s", row->name, in_words(row, x, mine, sizeof(mine)));
    if (limit)
        printf("  %s  %6.2f  %s", in_words(row, y, theirs, sizeof(theirs)), x / y, row->limit);
    printf("\n");
    fflush(stdout);
}

static bool wanted(const struct row *row, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strstr(row->name, names[i]))
            return true;
    return count == 0;
}

static int time_init(void)
{
    double start = now_ns();
    nvshmem_init();
    double taken = now_ns() - start;
    if (nvshmem_my_pe() == 0)
        printf("nvshmem_init                 %8.2f ms\n", taken / 1e6);
    nvshmem_finalize();
    return 0;
}

static int time_raw_init(void)
{
    pmix_proc_t me;
    pmix_info_t collect;
    bool yes = true;
    double start = now_ns();
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr,
                "pxshmem-perf: PMIx_Init failed: start it with srun --mpi=pmix or mpirun\n");
        return 1;
    }
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    PMIx_Fence(NULL, 0, &collect, 1);
    double taken = now_ns() - start;
    if (me.rank == 0)
        printf("PMIx_Init and one fence      %8.2f ms\n", taken / 1e6);
    PMIx_Finalize(NULL, 0);
    return 0;
}

static void usage(FILE *to)
{
    fprintf(to,
            "usage: pxshmem-perf [-r REPEATS] [NAME...]\n"
            "       pxshmem-perf --init | --raw-init\n"
            "Start at least two PEs, as srun --mpi=pmix -n2 pxshmem-perf. NAME selects rows that "
            "contain it.\n"
            "REPEATS is 1 to %d, default 31.\n",
            REPEATS_MAX);
}

static int set_up(void)
{
    nvshmem_init();
    ctx.me = nvshmem_my_pe();
    ctx.n = nvshmem_n_pes();
    if (ctx.n < 2) {
        fprintf(stderr,
                "pxshmem-perf: at least two PEs are needed, as srun --mpi=pmix -n2 pxshmem-perf\n");
        nvshmem_finalize();
        return 1;
    }
    ctx.source = nvshmem_calloc(1, BUFFER_BYTES);
    ctx.dest = nvshmem_calloc(1, BUFFER_BYTES);
    ctx.flags = nvshmem_calloc(1024, sizeof(uint64_t));
    ctx.private = malloc(BUFFER_BYTES);
    if (!ctx.source || !ctx.dest || !ctx.flags || !ctx.private) {
        fprintf(stderr, "pxshmem-perf: no memory for buffers of %zu bytes\n", BUFFER_BYTES);
        nvshmem_global_exit(1);
    }
    memset(ctx.source, 1, BUFFER_BYTES);
    memset(ctx.dest, 2, BUFFER_BYTES);
    memset(ctx.private, 3, BUFFER_BYTES);
    int other = ctx.me == 0 ? 1 : 0;
    ctx.far = nvshmem_ptr(ctx.dest, other);
    ctx.far_flags = nvshmem_ptr(ctx.flags, other);
    return 0;
}

int main(int argc, char **argv)
{
    int first = 1;
    ctx.repeats = 31;
    if (argc > 1 && strcmp(argv[1], "--init") == 0)
        return time_init();
    if (argc > 1 && strcmp(argv[1], "--raw-init") == 0)
        return time_raw_init();
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        ctx.repeats = atoi(argv[2]);
        first = 3;
    }
    if (ctx.repeats < 1 || ctx.repeats > REPEATS_MAX || (argc > first && argv[first][0] == '-')) {
        usage(stderr);
        return 2;
    }
    if (set_up() != 0)
        return 1;
    if (ctx.me == 0)
        printf("pxshmem %s, %d PEs, median of %d; ratio = time / time of the raw limit in the same "
               "processes\n"
               "%-28s %13s  %13s  %6s  %s\n",
               PACKAGE_VERSION, ctx.n, ctx.repeats, "operation", "pxshmem  ", "raw    ", "ratio",
               "raw is");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (wanted(&rows[i], argc - first, argv + first))
            measure(&rows[i]);
    nvshmem_barrier_all();
    free(ctx.private);
    nvshmem_free(ctx.flags);
    nvshmem_free(ctx.dest);
    nvshmem_free(ctx.source);
    nvshmem_finalize();
    return 0;
}
