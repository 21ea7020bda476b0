/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on streams: every typed one against the model of what it should do, on streams of all
 * kinds, several at once, captured into graphs and replayed. What is written comes out of host memory
 * and what is checked comes back to it, so it runs on GPU memory, real or pretended (test/standin), and
 * on host memory, where stream 0 is all there is.
 *
 *   onstream [quick]    onstream capture-g: a call that a capture cannot hold */
#include "config.h"
#include "test/job/onstream.h"

#include <stdint.h>

#include "test/job/collectives.h"
#include "test/job/driver.h"
#include "test/job/model.h"
#include "test/job/tap.h"
#include "test/unit/types.h"

#define SLOT  256
#define N     3
#define COUNT 1031
#define AREA  ((size_t)4 << 20)
#define LARGE ((size_t)60000)

cudaStream_t test_stream;

static int next, before;
static bool gpu, quick;     /* streams are real */
static char *dest, *source; /* symmetric, AREA bytes */
static uint64_t *signals;
static char *host; /* AREA bytes */

static void settle(void)
{
#if PX_HAVE_CUDA
    if (gpu && cuda.cuStreamSynchronize(test_stream) != CUDA_SUCCESS)
        ok(false, "the stream cannot be waited for");
#endif
}

/* All PEs have done what they put into their streams. */
static void everybody(void)
{
    settle();
    nvshmem_barrier_all();
}

static void set(void *symmetric, const void *bytes, size_t count)
{
    nvshmem_putmem(symmetric, bytes, count, me);
}

static const char *see(const void *symmetric, size_t count)
{
    nvshmem_getmem(host, symmetric, count, me);
    return host;
}

static void clear(void *symmetric, size_t count)
{
    memset(host, 0, count);
    set(symmetric, host, count);
}

/* --- put and get --- */

static void pattern(char *bytes, int pe, size_t row)
{
    for (size_t i = 0; i < SLOT; i++)
        bytes[i] = (char)(1 + (size_t)pe * 31 + row * 7 + i * 13);
}

static void put_all(const struct rma_type *t, const char *from)
{
    t->put(dest, from, N, next);
    t->put_nbi(dest + SLOT, from, N, next);
    if (t->p)
        t->p(dest + 2 * SLOT, from, next);
    if (t->iput)
        t->iput(dest + 3 * SLOT, from, 2, 1, N, next);
    t->put_signal(dest + 4 * SLOT, from, N, &signals[0], 5, NVSHMEM_SIGNAL_ADD, next);
    t->put_signal_nbi(dest + 5 * SLOT, from, N, &signals[1], 6, NVSHMEM_SIGNAL_SET, next);
}

static bool arrived(const struct rma_type *t, const char *wanted)
{
    const char *got = see(dest, 6 * SLOT);
    size_t bytes = N * t->size;
    bool good = memcmp(got, wanted, bytes) == 0 && memcmp(got + SLOT, wanted, bytes) == 0 &&
                memcmp(got + 4 * SLOT, wanted, bytes) == 0 &&
                memcmp(got + 5 * SLOT, wanted, bytes) == 0;
    good &= !t->p || memcmp(got + 2 * SLOT, wanted, t->size) == 0;
    for (size_t i = 0; t->iput && i < N; i++)
        good &= memcmp(got + 3 * SLOT + 2 * i * t->size, wanted + i * t->size, t->size) == 0;
    const uint64_t *raised = (const uint64_t *)(const void *)see(signals, 2 * sizeof *signals);
    return good && raised[0] == 5 && raised[1] == 6;
}

static bool fetched(const struct rma_type *t, const char *wanted)
{
    char a[SLOT] = {0}, b[SLOT] = {0}, c[SLOT] = {0}, d[SLOT] = {0};
    t->get(a, dest, N, next);
    t->get_nbi(b, dest, N, next);
    if (t->g)
        t->g(c, dest, next);
    if (t->iget)
        t->iget(d, dest, 1, 2, (N + 1) / 2, next);
    nvshmemx_quiet_on_stream(test_stream);
    settle();
    return memcmp(a, wanted, N * t->size) == 0 && memcmp(b, wanted, N * t->size) == 0 &&
           (!t->g || memcmp(c, wanted, t->size) == 0) &&
           (!t->iget || (memcmp(d, wanted, t->size) == 0 &&
                         memcmp(d + t->size, wanted + 2 * t->size, t->size) == 0));
}

/* From memory of malloc, then from symmetric memory. */
static bool transfer(size_t row)
{
    const struct rma_type *t = &rma_types[row];
    char mine[SLOT], theirs[SLOT];
    bool good = true;
    pattern(mine, me, row);
    pattern(theirs, before, row);
    set(source, mine, SLOT);
    for (int far = 0; far < 1 + (gpu && !t->p); far++) {
        clear(dest, 6 * SLOT);
        clear(signals, 2 * sizeof *signals);
        nvshmem_barrier_all();
        put_all(t, far ? source : mine);
        everybody();
        good &= arrived(t, theirs) && fetched(t, mine);
        nvshmem_barrier_all();
    }
    if (!good)
        diag("%s moves the wrong bytes", t->name);
    return good;
}

static void transfers(const char *which)
{
    int wrong = 0;
    size_t rows = 0;
    for (size_t row = 0; row < rma_type_count; row += quick ? 5 : 1, rows++)
        wrong += !transfer(row);
    ok(wrong == 0, "%zu kinds of elements put and got on %s stream: %d wrong", rows, which, wrong);
}

/* Sizes at which other ways are taken; strided ones in symmetric memory at both ends. */
static void sizes(void)
{
    int wrong = 0;
    for (size_t bytes = 1; bytes <= AREA; bytes = bytes * 5 + 3) {
        for (size_t i = 0; i < bytes; i++)
            host[i] = (char)(i * 7 + bytes + (size_t)me);
        set(source, host, bytes);
        clear(signals, sizeof *signals);
        nvshmem_barrier_all();
        nvshmemx_putmem_signal_on_stream(dest, source, bytes, signals, bytes, NVSHMEM_SIGNAL_SET,
                                         next, test_stream);
        nvshmemx_signal_wait_until_on_stream(signals, NVSHMEM_CMP_EQ, bytes, test_stream);
        everybody();
        const char *got = see(dest, bytes);
        for (size_t i = 0; i < bytes; i++)
            wrong += got[i] != (char)(i * 7 + bytes + (size_t)before);
        nvshmem_barrier_all();
    }
    ok(wrong == 0, "data that is there when its signal is: %d bytes wrong", wrong);
    wrong = 0;
    for (size_t i = 0; i < LARGE; i++)
        ((int32_t *)(void *)host)[i] = (int32_t)i + me;
    set(source, host, LARGE * 4);
    clear(dest, LARGE * 4);
    nvshmem_barrier_all();
    nvshmemx_int_iput_on_stream((int *)dest, (int *)source, 3, 2, LARGE / 4, next, test_stream);
    everybody();
    const int32_t *got = (const int32_t *)(const void *)see(dest, LARGE * 4);
    for (size_t i = 0; i < LARGE / 4; i++)
        wrong += got[3 * i] != (int32_t)(2 * i) + before || got[3 * i + 1] != 0;
    nvshmem_barrier_all();
    nvshmemx_int_iget_on_stream((int *)dest, (int *)source, 2, 3, LARGE / 4, next, test_stream);
    settle();
    got = (const int32_t *)(const void *)see(dest, LARGE * 4);
    for (size_t i = 0; i < LARGE / 4; i++)
        wrong += got[2 * i] != (int32_t)(3 * i) + next;
    ok(wrong == 0, "strided in symmetric memory at both ends: %d wrong", wrong);
    nvshmem_barrier_all();
}

/* --- waiting --- */

/* Of what `value` is compared with, one that holds. */
static int64_t that_holds(int cmp, int64_t value)
{
    switch (cmp) {
    case NVSHMEM_CMP_GT:
    case NVSHMEM_CMP_NE:
        return value + 1;
    case NVSHMEM_CMP_LT:
        return value - 1;
    default:
        return value;
    }
}

/* Values below 0 too: the order is that of the type. */
static bool wait_type_holds(const struct wait_type *t)
{
    static const int64_t values[] = {5, -7, 100};
    char words[3 * 8], wanted[3 * 8], mask[3 * sizeof(int)];
    for (int cmp = NVSHMEM_CMP_EQ; cmp <= NVSHMEM_CMP_GE; cmp++) {
        for (size_t i = 0; i < 3; i++) {
            int64_t value = t->is_signed || values[i] > 0 ? values[i] : 7;
            int64_t word = that_holds(cmp, value);
            memcpy(wanted + i * t->size, &value, t->size);
            memcpy(words + i * t->size, &word, t->size);
        }
        set(dest, words, 3 * t->size);
        t->wait_until(dest, cmp, wanted);
        t->wait_until(dest + t->size, cmp, wanted + t->size);
        t->wait_all(dest, 3, NULL, cmp, wanted, true);
        settle();
    }
    int64_t five = 5, six = 6;
    for (size_t i = 0; i < 3; i++)
        memcpy(words + i * t->size, i == 1 ? &six : &five, t->size);
    memcpy(mask, (const int[]){0, 1, 0}, sizeof mask);
    set(dest, words, 3 * t->size);
    t->wait_all(dest, 3, (const int *)(const void *)mask, NVSHMEM_CMP_EQ, &five, false);
    t->wait_all(dest + t->size, 1, NULL, NVSHMEM_CMP_EQ, &six, false);
    settle();
    return true; /* or it hangs */
}

static void waits(void)
{
    int types = 0;
    for (size_t row = 0; row < wait_type_count; row++)
        types += wait_type_holds(&wait_types[row]);
    ok(types == (int)wait_type_count, "waits of %d types end when all hold", types);
#if PX_HAVE_CUDA
    uint64_t zero = 0, big = (uint64_t)1 << 63;
    const uint64_t *words = signals;
    int early = 0;
    for (int cmp = NVSHMEM_CMP_EQ; gpu && cmp <= NVSHMEM_CMP_GE; cmp++) {
        if (cmp == NVSHMEM_CMP_LT || cmp == NVSHMEM_CMP_LE)
            continue;
        set(signals, &zero, 8);
        nvshmemx_signal_wait_until_on_stream(signals, cmp, cmp == NVSHMEM_CMP_NE ? 0 : big - 1,
                                             test_stream);
        nvshmemx_uint64_p_on_stream(signals + 1, (uint64_t)cmp, me, test_stream);
        for (int i = 0; i < 20; i++) {
            early += cuda.cuStreamQuery(test_stream) != CUDA_ERROR_NOT_READY;
            early += nvshmem_uint64_g(words + 1, me) == (uint64_t)cmp;
        }
        uint64_t right = cmp == NVSHMEM_CMP_EQ ? big - 1 : big + 5;
        nvshmem_uint64_p(signals, right, me);
        settle();
        early += nvshmem_uint64_g(words + 1, me) != (uint64_t)cmp;
    }
    if (gpu)
        ok(early == 0, "what is behind a wait in the stream waits: %d looks too early", early);
#endif
    nvshmem_barrier_all();
}

/* --- collectives --- */

static bool one_collective(const struct coll_type *t, size_t count)
{
    struct coll_args args = {.team = NVSHMEM_TEAM_WORLD,
                             .dest = dest + 3 * t->size,
                             .source = source + t->size,
                             .count = count,
                             .root = n - 1};
    size_t length = result_length(t, count);
    for (size_t i = 0; i < count * (size_t)n; i++)
        encode(t, given(me, i), host + i * t->size);
    set(source + t->size, host, count * (size_t)n * t->size);
    memset(host, 0x55, (length + 4) * t->size);
    set(dest, host, (length + 4) * t->size);
    nvshmem_sync_all(); /* dest is ready everywhere */
    bool good = t->call(&args) == 0;
    settle();
    good &= as_modelled(t, count, see(dest, (length + 4) * t->size) + 3 * t->size);
    nvshmem_sync_all();
    return good;
}

static void collectives(void)
{
    static const size_t counts[] = {1, 7, COUNT};
    int wrong = 0;
    size_t rows = 0;
    for (size_t row = 0; row < coll_type_count; row += quick ? 7 : 1, rows++) {
        const struct coll_type *t = &coll_types[row];
        bool good = true;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            good &= one_collective(t, counts[c]);
        if (!good)
            diag("%s %s is wrong", t->name, t->op);
        wrong += !good;
    }
    ok(wrong == 0, "%zu collectives on a stream: %d wrong", rows, wrong);
    wrong = 0;
    rows = 0;
    for (size_t row = 0; row < coll_type_count; row++) {
        const struct coll_type *t = &coll_types[row];
        if (strcmp(t->name, "int") && strcmp(t->name, "double") && strcmp(t->name, "half"))
            continue;
        bool good = one_collective(t, LARGE / (size_t)n);
        if (!good)
            diag("%s %s of %zu elements is wrong", t->name, t->op, LARGE / (size_t)n);
        wrong += !good;
        rows++;
    }
    ok(wrong == 0, "%zu large ones: %d wrong", rows, wrong);
}

static void fill_ints(size_t count, int salt)
{
    int32_t *words = (int32_t *)(void *)host;
    for (size_t i = 0; i < count; i++)
        words[i] = (int32_t)i * (me + 1) + salt;
    set(source, host, count * 4);
}

static int wrong_sums(const void *where, size_t first, size_t count, int salt)
{
    const int32_t *got = (const int32_t *)(const void *)see(where, count * 4);
    int wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += got[i] != (int32_t)(first + i) * (n * (n + 1) / 2) + salt * n;
    return wrong;
}

static void in_place(void)
{
    int wrong = 0;
    for (size_t count = 1; count <= LARGE; count = count * 9 + 2) {
        fill_ints(count, 3);
        nvshmem_barrier_all();
        nvshmemx_int_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, (int *)source, (int *)source, count,
                                          test_stream);
        settle();
        wrong += wrong_sums(source, 0, count, 3);
        size_t block = count / (size_t)n;
        nvshmem_barrier_all();
        fill_ints(block * (size_t)n, 4);
        nvshmem_barrier_all();
        nvshmemx_int_sum_reducescatter_on_stream(NVSHMEM_TEAM_WORLD, (int *)source, (int *)source,
                                                 block, test_stream);
        settle();
        wrong += wrong_sums(source, (size_t)me * block, block, 4);
        nvshmem_barrier_all();
    }
    ok(wrong == 0, "reductions in place: %d wrong", wrong);
}

/* A barrier on the stream after puts: they are there. Teams of some PEs, made and destroyed. */
static void meetings(void)
{
    int wrong = 0;
    for (int round = 1; round <= 20; round++) {
        for (int pe = 0; pe < n; pe++)
            nvshmemx_int_p_on_stream((int *)dest + me, round * 100 + me, pe, test_stream);
        if (round % 2)
            nvshmemx_barrier_all_on_stream(test_stream);
        else
            wrong += nvshmemx_barrier_on_stream(NVSHMEM_TEAM_WORLD, test_stream) != 0;
        nvshmemx_getmem_on_stream(host, dest, (size_t)n * sizeof(int), me, test_stream);
        nvshmemx_sync_all_on_stream(test_stream);
        wrong += nvshmemx_team_sync_on_stream(NVSHMEM_TEAM_WORLD, test_stream) != 0;
        settle();
        for (int pe = 0; pe < n; pe++)
            wrong += ((int *)(void *)host)[pe] != round * 100 + pe;
    }
    ok(wrong == 0, "puts before a barrier are there after it: %d wrong", wrong);
    wrong = nvshmemx_barrier_on_stream(NVSHMEM_TEAM_INVALID, test_stream) == 0;
    nvshmem_barrier_all();
    for (int round = 0; round < 4; round++) {
        nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
        int size = round % 2 ? n : (n + 1) / 2, start = round % 2 ? 0 : n - size;
        nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, start, 1, size, NULL, 0, &team);
        if (team != NVSHMEM_TEAM_INVALID) {
            int mine = me + 1, total = 0, sum = 0;
            set(source, &mine, sizeof mine);
            nvshmemx_int_sum_reduce_on_stream(team, (int *)dest, (int *)source, 1, test_stream);
            settle();
            for (int pe = start; pe < start + size; pe++)
                total += pe + 1;
            memcpy(&sum, see(dest, sizeof sum), sizeof sum);
            wrong += sum != total;
            nvshmem_team_destroy(team);
        }
        nvshmem_barrier_all();
    }
    ok(wrong == 0, "teams that come and go: %d wrong", wrong);
}

#if PX_HAVE_CUDA
/* --- streams --- */

/* Each has a team of its own, and its own part of the memory; nobody waits in between. */
static void several_streams(void)
{
    enum { STREAMS = 3, ROUNDS = 20 };
    CUstream streams[STREAMS];
    nvshmem_team_t teams[STREAMS];
    size_t count = 500, wrong = 0;
    for (int k = 0; k < STREAMS; k++) {
        cuda.cuStreamCreate(&streams[k], CU_STREAM_NON_BLOCKING);
        nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &teams[k]);
    }
    fill_ints(count * STREAMS, 9);
    nvshmem_barrier_all();
    for (int round = 0; round < ROUNDS; round++)
        for (size_t k = 0; k < STREAMS; k++) {
            int *to = (int *)dest + (size_t)(2 * round % 4) * STREAMS * count + k * count;
            nvshmemx_int_sum_reduce_on_stream(teams[k], to, (int *)source + k * count, count,
                                              streams[k]);
            nvshmemx_int_broadcast_on_stream(teams[k], to + STREAMS * count, to, count, round % n,
                                             streams[k]);
        }
    for (int k = 0; k < STREAMS; k++) {
        wrong += cuda.cuStreamSynchronize(streams[k]) != CUDA_SUCCESS;
        cuda.cuStreamDestroy(streams[k]);
    }
    nvshmem_barrier_all();
    wrong += (size_t)wrong_sums((int *)dest + STREAMS * count, 0, count * STREAMS, 9);
    for (int k = 0; k < STREAMS; k++)
        nvshmem_team_destroy(teams[k]);
    ok(wrong == 0, "%d streams at once: %zu wrong", STREAMS, wrong);
}

static void streams_of_all_kinds(void)
{
    static const struct {
        const char *name;
        uintptr_t handle;
    } kinds[] = {{"the default", 0}, {"the legacy", 1}, {"the thread's", 2}};
    bool all = quick;
    CUstream blocking;
    quick = true;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        test_stream = (cudaStream_t)kinds[k].handle;
        transfers(kinds[k].name);
        meetings();
    }
    cuda.cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
    test_stream = blocking;
    transfers("a blocking");
    in_place();
    settle();
    cuda.cuStreamDestroy(blocking);
    quick = all;
}

/* --- graphs --- */

static void replays(void)
{
    enum { REPLAYS = 5 };
    CUgraph graph;
    CUgraphExec exec;
    size_t count = 300, wrong = 0;
    clear(dest, count * 4 * 4);
    clear(signals, 4 * sizeof *signals);
    nvshmem_barrier_all();
    wrong += cuda.cuStreamBeginCapture(test_stream, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS;
    nvshmemx_int_put_on_stream((int *)dest, (int *)source, count, next, test_stream);
    nvshmemx_signal_op_on_stream(signals, 1, NVSHMEM_SIGNAL_ADD, next, test_stream);
    nvshmemx_signal_wait_until_on_stream(signals, NVSHMEM_CMP_GE, 1, test_stream);
    nvshmemx_uint64_wait_until_on_stream(signals + 1, NVSHMEM_CMP_EQ, 0, test_stream);
    nvshmemx_barrier_all_on_stream(test_stream);
    nvshmemx_int_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, (int *)dest + count, (int *)source, count,
                                      test_stream);
    nvshmemx_int_fcollect_on_stream(NVSHMEM_TEAM_WORLD, (int *)dest + 2 * count, (int *)source, 1,
                                    test_stream);
    nvshmemx_int_p_on_stream((int *)dest + 3 * count, 7, me, test_stream);
    wrong += cuda.cuStreamEndCapture(test_stream, &graph) != CUDA_SUCCESS;
    wrong += cuda.cuGraphInstantiateWithFlags(&exec, graph, 0) != CUDA_SUCCESS;
    ok(wrong == 0, "a graph is captured and made ready");
    uint64_t untouched = nvshmem_uint64_g(signals, me);
    ok(untouched == 0 && nvshmem_int_g((int *)dest + 3 * count, me) == 0,
       "nothing happens while it is captured");
    for (int replay = 0; replay < REPLAYS && !wrong; replay++) {
        fill_ints(count, 100 * replay);
        nvshmem_barrier_all();
        wrong += cuda.cuGraphLaunch(exec, test_stream) != CUDA_SUCCESS;
        everybody();
        const int32_t *got = (const int32_t *)(const void *)see(dest, count * 4);
        for (size_t i = 0; i < count; i++)
            wrong += got[i] != (int32_t)i * (before + 1) + 100 * replay;
        wrong += (size_t)wrong_sums((int *)dest + count, 0, count, 100 * replay);
        got = (const int32_t *)(const void *)see((int *)dest + 2 * count, (size_t)n * 4);
        for (int pe = 0; pe < n; pe++)
            wrong += got[pe] != 100 * replay;
        wrong += nvshmem_uint64_g(signals, me) != (uint64_t)replay + 1;
        nvshmem_barrier_all();
    }
    ok(wrong == 0, "%d replays with new data each: %zu wrong", REPLAYS, wrong);
    /* without anything between them */
    for (int replay = 0; replay < REPLAYS; replay++)
        wrong += cuda.cuGraphLaunch(exec, test_stream) != CUDA_SUCCESS;
    everybody();
    ok(wrong == 0 && nvshmem_uint64_g(signals, me) == 2 * REPLAYS, "replays back to back");
    cuda.cuGraphExecDestroy(exec);
    cuda.cuGraphDestroy(graph);
    nvshmem_barrier_all();
}

static void allocation_in_capture(void)
{
    CUgraph graph;
    CUstream blocking;
    cuda.cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
    cuda.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
    void *refused = nvshmem_malloc(100);
    ok(refused == NULL && nvshmem_error_check() == NVSHMEMX_ERROR_NOT_SUPPORTED,
       "no allocation while a stream is being captured");
    nvshmemx_barrier_all_on_stream(blocking);
    ok(cuda.cuStreamEndCapture(blocking, &graph) == CUDA_SUCCESS, "the capture goes on");
    cuda.cuGraphDestroy(graph);
    cuda.cuStreamDestroy(blocking);
    void *given = nvshmem_malloc(100);
    ok(given != NULL, "and allocation after it");
    nvshmem_free(given);
}

static void with_streams(void)
{
    CUstream ours;
    cuda.cuStreamCreate(&ours, CU_STREAM_NON_BLOCKING);
    streams_of_all_kinds();
    test_stream = ours;
    several_streams();
    replays();
    allocation_in_capture();
    test_stream = ours;
    transfers("a non-blocking");
}
#endif

int main(int argc, char **argv)
{
    const char *kind = getenv("NVSHMEM_HEAP_KIND");
    quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    nvshmem_init();
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    tap_start(me);
    host = calloc(1, AREA);
    dest = nvshmem_malloc(AREA);
    source = nvshmem_malloc(AREA);
    signals = nvshmem_calloc(8, sizeof *signals);
    ok(host && dest && source && signals, "memory");
#if PX_HAVE_CUDA
    if (kind && strcmp(kind, "DEVICE") == 0)
        ok(gpu = open_driver(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE)), "the driver");
    if (argc > 1 && strcmp(argv[1], "capture-g") == 0) {
        CUstream stream;
        cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        cuda.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
        return nvshmemx_int_g_on_stream((int *)dest, me, stream) == 12345;
    }
    if (gpu)
        with_streams();
#endif
    (void)kind;
    if (!gpu)
        transfers("no");
    sizes();
    waits();
    meetings();
    collectives();
    in_place();
    settle();
    nvshmem_finalize();
    free(host);
    return tap_done();
}
