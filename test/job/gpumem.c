/* SPDX-License-Identifier: BSD-3-Clause */
/* The host interface over symmetric memory that the processor cannot touch: what is written goes out
 * of host memory and what is checked comes back to it. Runs on GPU memory, real or pretended (the
 * stand-in of test/standin), and on host memory alike. */
#include <cuda.h>
#include <dlfcn.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define WORDS ((size_t)50000)

static int me, n_pes, next, before;
static int64_t *mine; /* host memory, WORDS * n_pes */

static int64_t word(int pe, size_t i, int salt)
{
    return (int64_t)(((uint64_t)pe * 0x9e3779b97f4a7c15u + i * 0xc2b2ae3d27d4eb4fu +
                      (uint64_t)salt * 0x165667b19e3779f9u) >>
                     8);
}

static void fill(int64_t *words, int pe, size_t count, int salt)
{
    for (size_t i = 0; i < count; i++)
        words[i] = word(pe, i, salt);
}

static size_t wrong_words(const int64_t *words, int pe, size_t count, int salt)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += words[i] != word(pe, i, salt);
    return wrong;
}

static void set_own(int64_t *symmetric, int pe, size_t count, int salt)
{
    fill(mine, pe, count, salt);
    nvshmem_int64_put(symmetric, mine, count, me);
}

static size_t wrong_own(const int64_t *symmetric, int pe, size_t count, int salt)
{
    memset(mine, 0, count * sizeof *mine);
    nvshmem_int64_get(mine, symmetric, count, me);
    return wrong_words(mine, pe, count, salt);
}

static void try_put_get(int64_t *a, int64_t *b)
{
    size_t wrong = 0;
    for (size_t count = 1; count <= WORDS; count = count * 7 + 1) {
        fill(mine, me, count, (int)count);
        nvshmem_int64_put(a, mine, count, next);
        nvshmem_barrier_all();
        wrong += wrong_own(a, before, count, (int)count);
        nvshmem_int64_get(mine, a, count, next); /* my own words */
        wrong += wrong_words(mine, me, count, (int)count);
        nvshmem_int64_put_nbi(b, a, count, next); /* from symmetric memory */
        nvshmem_quiet();
        nvshmem_barrier_all();
        wrong += wrong_own(b, (before + n_pes - 1) % n_pes, count, (int)count);
        nvshmem_int64_get_nbi(b, a, count, before); /* into it */
        nvshmem_quiet();
        wrong += wrong_own(b, (before + n_pes - 1) % n_pes, count, (int)count);
        nvshmem_barrier_all();
    }
    ok(wrong == 0, "put and get, blocking and not, host and symmetric: %zu wrong", wrong);
}

static void try_small(int64_t *a)
{
    int64_t three[3] = {11, 22, 33}, got[6];
    nvshmem_int64_p(a + me, word(me, 0, 3), next);
    nvshmem_barrier_all();
    int64_t seen = nvshmem_int64_g(a + before, me), there = nvshmem_int64_g(a + me, next);
    ok(seen == word(before, 0, 3) && there == word(me, 0, 3), "p and g");
    nvshmem_barrier_all();
    memset(mine, 0, 6 * sizeof *mine);
    nvshmem_int64_put(a, mine, 6, me);
    nvshmem_barrier_all();
    nvshmem_int64_iput(a, three, 2, 1, 3, next);
    nvshmem_barrier_all();
    nvshmem_int64_get(got, a, 6, me);
    ok(got[0] == 11 && got[2] == 22 && got[4] == 33 && got[1] == 0 && got[3] == 0, "iput");
    nvshmem_int64_iget(got, a, 1, 2, 3, next);
    ok(got[0] == 11 && got[1] == 22 && got[2] == 33, "iget");
    nvshmem_barrier_all();
}

static void try_atomics(int64_t *a)
{
    const int rounds = 20;
    int32_t *small = (int32_t *)(a + 8);
    memset(mine, 0, 16 * sizeof *mine);
    nvshmem_int64_put(a, mine, 16, me);
    nvshmem_barrier_all();
    for (int i = 0; i < rounds; i++) {
        nvshmem_int64_atomic_add(a, me + 1, 0);
        nvshmem_int32_atomic_inc(small, n_pes - 1);
    }
    int64_t old = nvshmem_int64_atomic_fetch_or((int64_t *)(void *)(a + 1), (int64_t)1 << me, 0);
    nvshmem_barrier_all();
    int64_t sum = nvshmem_int64_atomic_fetch(a, 0), bits = nvshmem_int64_atomic_fetch(a + 1, 0);
    int32_t count = nvshmem_int32_atomic_fetch(small, n_pes - 1);
    ok(sum == (int64_t)rounds * n_pes * (n_pes + 1) / 2 && count == rounds * n_pes &&
           bits == ((int64_t)1 << n_pes) - 1 && !(old & (int64_t)1 << me),
       "atomics of all PEs on one word: sum %ld, count %d, bits %lx", (long)sum, count, (long)bits);
    nvshmem_barrier_all();
    int64_t was = nvshmem_int64_atomic_compare_swap(a + 2, 0, me + 1, 0);
    nvshmem_barrier_all();
    int64_t winner = nvshmem_int64_atomic_fetch(a + 2, 0);
    ok(winner > 0 && winner <= n_pes && (was == 0) == (winner == me + 1), "compare and swap");
    ok(nvshmem_int64_atomic_swap(a + 3 + me, 5, me) == 0 && nvshmem_int64_g(a + 3 + me, me) == 5,
       "swap");
    nvshmem_barrier_all();
}

static void try_signals(int64_t *a, uint64_t *signal)
{
    uint64_t zero = 0;
    size_t wrong = 0;
    nvshmem_putmem(signal, &zero, sizeof zero, me);
    nvshmem_barrier_all();
    for (int round = 1; round <= 10; round++) {
        fill(mine, me, 1000, round);
        nvshmem_int64_put_signal(a, mine, 1000, signal, (uint64_t)round, NVSHMEM_SIGNAL_SET, next);
        nvshmem_signal_wait_until(signal, NVSHMEM_CMP_GE, (uint64_t)round);
        wrong += wrong_own(a, before, 1000, round);
        nvshmem_barrier_all();
    }
    ok(wrong == 0 && nvshmem_signal_fetch(signal) == 10, "signals and their data: %zu wrong",
       wrong);
    nvshmem_barrier_all();
    nvshmemx_signal_op(signal, 5, NVSHMEM_SIGNAL_ADD, next);
    nvshmem_uint64_wait_until(signal, NVSHMEM_CMP_EQ, 15);
    ok(nvshmem_uint64_test(signal, NVSHMEM_CMP_GT, 14), "a signal that adds, wait_until, test");
    nvshmem_barrier_all();
}

static void try_moving(int64_t *a, int64_t *b)
{
    size_t count = WORDS / (size_t)n_pes, wrong = 0;
    set_own(a, me, count, 40);
    nvshmem_int64_broadcast(NVSHMEM_TEAM_WORLD, b, a, count, n_pes - 1);
    wrong += wrong_own(b, n_pes - 1, count, 40);
    nvshmem_int64_fcollect(NVSHMEM_TEAM_WORLD, b, a, count);
    for (int pe = 0; pe < n_pes; pe++)
        wrong += wrong_own(b + (size_t)pe * count, pe, count, 40);
    nvshmem_int64_collect(NVSHMEM_TEAM_WORLD, b, a, 10 + (size_t)me);
    for (size_t pe = 0, at = 0; pe < (size_t)n_pes; at += 10 + pe++)
        wrong += wrong_own(b + at, (int)pe, 10 + pe, 40);
    for (int pe = 0; pe < n_pes; pe++) {
        fill(mine, me * 100 + pe, count, 41);
        nvshmem_int64_put(a + (size_t)pe * count, mine, count, me);
    }
    nvshmem_int64_alltoall(NVSHMEM_TEAM_WORLD, b, a, count);
    for (int pe = 0; pe < n_pes; pe++)
        wrong += wrong_own(b + (size_t)pe * count, pe * 100 + me, count, 41);
    ok(wrong == 0, "broadcast, fcollect, collect, alltoall: %zu wrong", wrong);
}

static void try_computing(int64_t *a, int64_t *b)
{
    size_t wrong = 0, block = WORDS / (size_t)n_pes;
    set_own(a, me, WORDS, 50);
    nvshmem_int64_sum_reduce(NVSHMEM_TEAM_WORLD, b, a, WORDS);
    nvshmem_int64_get(mine, b, WORDS, me);
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t sum = 0;
        for (int pe = 0; pe < n_pes; pe++)
            sum += (uint64_t)word(pe, i, 50);
        wrong += mine[i] != (int64_t)sum;
    }
    ok(wrong == 0, "sum_reduce: %zu wrong", wrong);
    wrong = 0;
    set_own(a, me, WORDS, 51);
    nvshmem_int64_sum_reducescatter(NVSHMEM_TEAM_WORLD, a, a, block); /* into its own source */
    nvshmem_int64_get(mine, a, block, me);
    for (size_t i = 0; i < block; i++) {
        uint64_t sum = 0;
        for (int pe = 0; pe < n_pes; pe++)
            sum += (uint64_t)word(pe, (size_t)me * block + i, 51);
        wrong += mine[i] != (int64_t)sum;
    }
    ok(wrong == 0, "sum_reducescatter in place: %zu wrong", wrong);
}

/* calloc's zeros after other data, realloc that moves, growth, and a lock. */
static void try_memory(void)
{
    int64_t *dirty = nvshmem_malloc(WORDS * sizeof *dirty);
    set_own(dirty, me, WORDS, 60);
    nvshmem_free(dirty);
    int64_t *clean = nvshmem_calloc(WORDS, sizeof *clean);
    size_t wrong = 0;
    nvshmem_int64_get(mine, clean, WORDS, me);
    for (size_t i = 0; i < WORDS; i++)
        wrong += mine[i] != 0;
    ok(wrong == 0, "calloc after free: %zu words are not zero", wrong);
    set_own(clean, me, 1000, 61);
    void *wall = nvshmem_malloc(8);
    int64_t *moved = nvshmem_realloc(clean, 20 * WORDS * sizeof *moved);
    ok(moved && wrong_own(moved, me, 1000, 61) == 0, "realloc keeps what was there");
    nvshmem_free(wall);
    nvshmem_free(moved);
}

static void try_growth(size_t bytes)
{
    size_t words = bytes / sizeof(int64_t);
    int64_t *large = nvshmem_malloc(bytes);
    if (!ok(large != NULL, "malloc of %zu MiB makes the heap grow", bytes >> 20))
        return;
    fill(mine, me, 1000, 70);
    nvshmem_int64_put(large + words - 1000, mine, 1000, next);
    nvshmem_barrier_all();
    ok(wrong_own(large + words - 1000, before, 1000, 70) == 0, "its end is there at the peers");
    nvshmem_free(large);
}

static void try_lock(long *lock, int64_t *counter)
{
    for (int i = 0; i < 5; i++) {
        nvshmem_set_lock(lock);
        nvshmem_int64_p(counter, nvshmem_int64_g(counter, 0) + 1, 0);
        nvshmem_quiet();
        nvshmem_clear_lock(lock);
    }
    nvshmem_barrier_all();
    int64_t count = nvshmem_int64_g(counter, 0);
    ok(count == 5 * n_pes, "a lock keeps %d increments apart: %ld", 5 * n_pes, (long)count);
    nvshmem_barrier_all();
}

/* As cudaMalloc does; the driver is the one that the library opened. */
static void *allocate_on_gpu(size_t bytes)
{
    typedef CUresult find_fn(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *);
    char path[4096];
    const char *folder = getenv("NVSHMEM_CUDA_PATH");
    snprintf(path, sizeof path, "%s%slibcuda.so.1", folder ? folder : "", folder ? "/" : "");
    void *driver = dlopen(path, RTLD_NOW);
    find_fn *find = NULL;
    *(void **)&find = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
    CUresult (*retain)(CUcontext *, CUdevice) = NULL, (*set)(CUcontext) = NULL;
    CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
    CUcontext context;
    CUdeviceptr pointer;
    if (!find || find("cuDevicePrimaryCtxRetain", (void **)&retain, 7000, 0, NULL) ||
        find("cuCtxSetCurrent", (void **)&set, 4000, 0, NULL) ||
        find("cuMemAlloc", (void **)&alloc, 3020, 0, NULL) || retain(&context, 0) || set(context) ||
        alloc(&pointer, bytes))
        return NULL;
    return (void *)(uintptr_t)pointer;
}

static bool on_pretend_gpu(void)
{
    const char *kind = getenv("NVSHMEM_HEAP_KIND");
    return kind && strcmp(kind, "DEVICE") == 0 && getenv("NVSHMEM_CUDA_PATH");
}

/* Memory that the program has by itself, host's or GPU's, announced or not, as source and destination. */
static void try_private(int64_t *a, int64_t *b)
{
    int64_t *host = malloc(WORDS * sizeof *host);
    int64_t *gpu = on_pretend_gpu() ? allocate_on_gpu(WORDS * sizeof *gpu) : NULL;
    int64_t *buffers[] = {host, gpu};
    size_t wrong = 0, bad = 0;
    for (int i = 0; i < 2; i++) {
        if (!buffers[i])
            continue;
        bad += nvshmemx_buffer_register(buffers[i], WORDS * sizeof *host) != 0;
        bad += nvshmemx_buffer_register(buffers[i] + 1, 8) == 0; /* a part again */
        set_own(a, me, WORDS, 90 + i);
        nvshmem_int64_get(buffers[i], a, WORDS, me);
        nvshmem_int64_put(b, buffers[i], WORDS, next);
        nvshmem_barrier_all();
        wrong += wrong_own(b, before, WORDS, 90 + i);
        nvshmem_int64_get_nbi(buffers[i], a, WORDS, before);
        nvshmem_quiet();
        nvshmem_int64_put_nbi(b, buffers[i], WORDS, me);
        nvshmem_quiet();
        wrong += wrong_own(b, before, WORDS, 90 + i);
        bad += nvshmemx_buffer_unregister(buffers[i]) != 0;
        bad += nvshmemx_buffer_unregister(buffers[i]) == 0;
        nvshmem_barrier_all();
    }
    ok(wrong == 0 && bad == 0, "buffers of the program's own%s: %zu words wrong, %zu answers",
       gpu ? ", one on the GPU" : "", wrong, bad);
    free(host);
}

/* Between PEs of a node, unless that was planned otherwise; never between nodes. */
static bool should_map(int pe)
{
    const char *hidden = getenv("NVSHMEM_DISABLE_P2P"), *fail = getenv("STANDIN_FAIL");
    const char *gpus = getenv("STANDIN_GPUS");
    int node = nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, pe, NVSHMEMX_TEAM_NODE);
    int mine_there = nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE), n_gpus = gpus ? atoi(gpus) : 2;
    if (pe == me)
        return true;
    if (node < 0 || (hidden && strcmp(hidden, "0") != 0))
        return false;
    return !(fail && strstr(fail, "no-p2p")) || node % n_gpus == mine_there % n_gpus;
}

static void try_pointers(int64_t *a, int64_t *table)
{
    int unexpected = 0, differ = 0;
    for (int pe = 0; pe < n_pes; pe++) {
        unexpected += (nvshmem_ptr(a, pe) != NULL) != should_map(pe);
        nvshmem_int64_p(table + me, (int64_t)(intptr_t)a, pe);
    }
    nvshmem_barrier_all();
    nvshmem_int64_get(mine, table, (size_t)n_pes, me);
    for (int pe = 0; pe < n_pes; pe++)
        differ += mine[pe] != (int64_t)(intptr_t)a;
    ok(unexpected == 0, "peers are mapped where they can be: %d are not as expected", unexpected);
    ok(differ == 0 || getenv("NVSHMEM_DISABLE_CUDA_VMM") || getenv("STANDIN_FAIL"),
       "the same address on all PEs: %d differ", differ);
    nvshmem_barrier_all();
}

/* GPUs are dealt to the PEs of a node in turn. */
static void try_gpu_teams(int64_t *a)
{
    const char *gpus = getenv("STANDIN_GPUS");
    int n_gpus = gpus ? atoi(gpus) : 2, mine_there = nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE);
    int on_node = nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE), expected = 0;
    for (int i = mine_there % n_gpus; i < on_node; i += n_gpus)
        expected++;
    int size = nvshmem_team_n_pes(NVSHMEMI_TEAM_SAME_GPU);
    int leads = nvshmem_team_my_pe(NVSHMEMI_TEAM_GPU_LEADERS) >= 0;
    ok(size == expected && leads == (mine_there < n_gpus),
       "%d PEs share this GPU, %d expected; leads it: %d", size, expected, leads);
    nvshmem_int64_p(a, 1, me);
    nvshmem_int64_sum_reduce(NVSHMEMI_TEAM_SAME_GPU, a + 1, a, 1);
    ok(nvshmem_int64_g(a + 1, me) == expected, "they reduce");
    nvshmem_barrier_all();
}

/* More than the GPU has: NULL on every PE, and the heap goes on. */
static void try_full(void)
{
    void *huge = nvshmem_malloc((size_t)900 << 20);
    ok(huge == NULL && nvshmem_error_check() != 0, "what does not fit is NULL and an error");
    int64_t *small = nvshmem_malloc(WORDS * sizeof *small);
    if (!ok(small != NULL, "what fits is there"))
        return;
    fill(mine, me, WORDS, 80);
    nvshmem_int64_put(small, mine, WORDS, next);
    nvshmem_barrier_all();
    ok(wrong_own(small, before, WORDS, 80) == 0, "and holds data");
}

/* Memory of the GPU that is not symmetric, and what nvshmem_ptr gives: wrong arguments, both. */
static void misuse(const char *what)
{
    int64_t *foreign = nvshmem_ptr(nvshmem_malloc(4096), next);
    if (strcmp(what, "foreign") == 0)
        foreign = allocate_on_gpu(4096);
    if (foreign)
        nvshmem_int64_p(foreign, 1, next);
}

int main(int argc, char **argv)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n_pes = nvshmem_n_pes();
    next = (me + 1) % n_pes;
    before = (me + n_pes - 1) % n_pes;
    tap_start(me);
    mine = malloc(WORDS * (size_t)n_pes * sizeof *mine);
    if (argc > 1 && strcmp(argv[1], "full") == 0) {
        try_full();
        nvshmem_finalize();
        return tap_done();
    }
    if (argc > 1 && !strtoull(argv[1], NULL, 10)) {
        misuse(argv[1]);
        return 0; /* not reached */
    }
    int64_t *a = nvshmem_malloc(WORDS * sizeof *a), *b = nvshmem_malloc(WORDS * sizeof *b);
    uint64_t *signal = nvshmem_calloc(8, sizeof *signal);
    ok(a && b && signal && mine, "memory");
    try_pointers(a, b);
    if (on_pretend_gpu())
        try_gpu_teams(a);
    try_put_get(a, b);
    try_small(a);
    try_private(a, b);
    try_atomics(a);
    try_signals(a, signal);
    try_moving(a, b);
    try_computing(a, b);
    try_lock((long *)(signal + 2), (int64_t *)(signal + 4));
    try_memory();
    if (argc > 1)
        try_growth(strtoull(argv[1], NULL, 10) << 20);
    ok(nvshmem_reinit((size_t)8 << 20) == 0, "reinit");
    a = nvshmem_malloc(WORDS * sizeof *a);
    b = nvshmem_malloc(WORDS * sizeof *b);
    if (ok(a && b, "memory after reinit"))
        try_put_get(a, b);
    nvshmem_finalize();
    free(mine);
    return tap_done();
}
