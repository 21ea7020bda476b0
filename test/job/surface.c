/* SPDX-License-Identifier: BSD-3-Clause */
/* Every function that is made from the tables of types, under its public name and towards another PE, against what it
 * should do; and the single functions that no other job program calls. test/interface runs this under a tool that notes
 * each call, so that a name which exists but does nothing, or does another's work, is found.
 * Values are small and exact in every type; what sizes and algorithms do is the business of the other programs. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nvshmem.h"
#include "nvshmemx.h"
#include "test/job/collectives.h"
#include "test/job/model.h"
#include "test/job/tap.h"
#include "test/unit/types.h"

#define SLOT  256 /* bytes that a transfer may use */
#define N     3   /* elements of a transfer */
#define COUNT 1031
#define AREA  ((size_t)1 << 20)
#define SWEEP 4099

static int next, before;
static char *dest, *source; /* symmetric, AREA bytes */
static uint64_t *signals;

/* --- put and get --- */

static void pattern(char *bytes, int pe, size_t row)
{
    for (size_t i = 0; i < SLOT; i++)
        bytes[i] = (char)(1 + (size_t)pe * 31 + row * 7 + i * 13);
}

/* Everything that a row can put, a slot each; NULL functions do not exist for the type. */
static void put_all(const struct rma_type *t, const char *from)
{
    t->put(dest, from, N, next);
    if (t->put_nbi)
        t->put_nbi(dest + SLOT, from, N, next);
    if (t->p)
        t->p(dest + 2 * SLOT, from, next);
    if (t->iput)
        t->iput(dest + 3 * SLOT, from, 2, 1, N, next);
    if (t->put_signal)
        t->put_signal(dest + 4 * SLOT, from, N, &signals[0], 5, NVSHMEM_SIGNAL_ADD, next);
    if (t->put_signal_nbi)
        t->put_signal_nbi(dest + 5 * SLOT, from, N, &signals[1], 6, NVSHMEM_SIGNAL_SET, next);
}

static bool arrived(const struct rma_type *t, const char *wanted)
{
    bool good = memcmp(dest, wanted, N * t->size) == 0;
    good &= !t->put_nbi || memcmp(dest + SLOT, wanted, N * t->size) == 0;
    good &= !t->p || memcmp(dest + 2 * SLOT, wanted, t->size) == 0;
    for (size_t i = 0; t->iput && i < N; i++)
        good &= memcmp(dest + 3 * SLOT + 2 * i * t->size, wanted + i * t->size, t->size) == 0;
    good &=
        !t->put_signal || (signals[0] == 5 && memcmp(dest + 4 * SLOT, wanted, N * t->size) == 0);
    good &= !t->put_signal_nbi ||
            (signals[1] == 6 && memcmp(dest + 5 * SLOT, wanted, N * t->size) == 0);
    return good;
}

static bool fetched(const struct rma_type *t, const char *wanted)
{
    char a[SLOT] = {0}, b[SLOT] = {0}, c[SLOT] = {0}, d[SLOT] = {0};
    t->get(a, dest, N, next);
    if (t->get_nbi)
        t->get_nbi(b, dest, N, next);
    if (t->g)
        t->g(c, dest, next);
    if (t->iget)
        t->iget(d, dest, 1, 2, (N + 1) / 2, next);
    nvshmem_quiet();
    return memcmp(a, wanted, N * t->size) == 0 &&
           (!t->get_nbi || memcmp(b, wanted, N * t->size) == 0) &&
           (!t->g || memcmp(c, wanted, t->size) == 0) &&
           (!t->iget || (memcmp(d, wanted, t->size) == 0 &&
                         memcmp(d + t->size, wanted + 2 * t->size, t->size) == 0));
}

static void transfers(void)
{
    int wrong = 0;
    for (size_t row = 0; row < rma_type_count; row++) {
        const struct rma_type *t = &rma_types[row];
        char mine[SLOT], theirs[SLOT];
        pattern(mine, me, row);
        pattern(theirs, before, row);
        memset(dest, 0, 6 * SLOT);
        signals[0] = signals[1] = 0;
        nvshmem_barrier_all();
        put_all(t, mine);
        nvshmem_barrier_all();
        bool good = arrived(t, theirs) && fetched(t, mine);
        if (!good)
            diag("%s moves the wrong bytes", t->name);
        wrong += !good;
        nvshmem_barrier_all();
    }
    ok(wrong == 0, "%zu kinds of elements put and got: %d wrong", rma_type_count, wrong);
}

/* --- atomics --- */

static uint64_t after(const char *op, uint64_t old, uint64_t value, uint64_t compare)
{
    if (strncmp(op, "fetch_", 6) == 0)
        op += 6;
    switch (op[0] == 's' ? op[1] : op[0]) {
    case 'f': /* fetch */
        return old;
    case 'e': /* set */
    case 'w': /* swap */
        return value;
    case 'c':
        return old == compare ? value : old;
    case 'i':
        return old + 1;
    case 'o':
        return old | value;
    case 'x':
        return old ^ value;
    default:
        return op[1] == 'd' ? old + value : old & value;
    }
}

static bool one_atomic(const struct amo_type *t, uint64_t compare)
{
    uint64_t old = 0x3ff0f0f03ff0f0f0, value = 0x0123456701234567, result = 0, seen = 0;
    uint64_t mask = t->size == 4 ? UINT32_MAX : UINT64_MAX;
    nvshmem_putmem(dest, &old, t->size, next);
    nvshmem_quiet();
    t->call(&result, dest, &value, &compare, next);
    nvshmem_quiet();
    nvshmem_getmem(&seen, dest, t->size, next);
    return seen == (after(t->op, old, value, compare) & mask) &&
           (!t->fetches || result == (old & mask));
}

static void atomics(void)
{
    int wrong = 0;
    for (size_t row = 0; row < amo_type_count; row++) {
        const struct amo_type *t = &amo_types[row];
        bool good = one_atomic(t, 0x3ff0f0f03ff0f0f0) && one_atomic(t, 0x3ff0f0f13ff0f0f1);
        if (!good)
            diag("%s %s%s is wrong", t->name, t->op, t->nbi ? "_nbi" : "");
        wrong += !good;
    }
    ok(wrong == 0, "%zu atomic operations: %d wrong", amo_type_count, wrong);
    nvshmem_barrier_all();
}

/* --- waiting --- */

/* Words 1, 2, 3 come from the neighbour; every form waits for what only a comparison of its type gives. */
static bool one_wait(const struct wait_type *t)
{
    char words[3 * 8] = {0}, zeros[3 * 8] = {0};
    static const int only_second[] = {1, 0, 1};
    size_t indices[3];
    for (size_t i = 0; i < 3; i++)
        words[i * t->size] = (char)(i + 1);
    memset(dest, 0, sizeof words);
    nvshmem_barrier_all();
    nvshmem_putmem(dest, words, 3 * t->size, next);
    bool good = true;
    t->wait_until(dest, NVSHMEM_CMP_EQ, words);
    for (int vector = 0; vector < 2; vector++) {
        t->wait_all(dest, 3, NULL, NVSHMEM_CMP_GT, zeros, vector);
        good &= t->wait_any(dest, 3, only_second, NVSHMEM_CMP_NE, zeros, vector) == 1;
        good &= t->wait_some(dest, 3, indices, only_second, NVSHMEM_CMP_GE, zeros, vector) == 1 &&
                indices[0] == 1;
        good &= t->test_all(dest, 3, NULL, NVSHMEM_CMP_LE, zeros, vector) == 0;
        good &= t->test_any(dest, 3, NULL, NVSHMEM_CMP_EQ, zeros, vector) == SIZE_MAX;
        good &= t->test_some(dest, 3, indices, NULL, NVSHMEM_CMP_LT, zeros, vector) == 0;
        good &= t->test_all(dest, 3, NULL, NVSHMEM_CMP_EQ, words, vector) == vector;
    }
    good &= t->test(dest, NVSHMEM_CMP_EQ, words) == 1 && t->test(dest, NVSHMEM_CMP_NE, words) == 0;
    nvshmem_barrier_all();
    return good;
}

static void waits(void)
{
    int wrong = 0;
    for (size_t row = 0; row < wait_type_count; row++) {
        bool good = one_wait(&wait_types[row]);
        if (!good)
            diag("%s waits wrongly", wait_types[row].name);
        wrong += !good;
    }
    ok(wrong == 0, "waiting and testing for %zu types: %d wrong", wait_type_count, wrong);
}

/* --- collectives --- */

/* Source and destination begin at elements 1 and 3, so that nothing relies on more alignment than the type's own. */
static bool one_collective(const struct coll_type *t, size_t count)
{
    struct coll_args args = {.team = NVSHMEM_TEAM_WORLD,
                             .dest = dest + 3 * t->size,
                             .source = source + t->size,
                             .count = count,
                             .root = n - 1,
                             .dest_stride = 1,
                             .source_stride = 1};
    size_t length = result_length(t, count);
    for (size_t i = 0; i < count * (size_t)n; i++)
        encode(t, given(me, i), source + (1 + i) * t->size);
    memset(dest, 0x55, (length + 4) * t->size);
    nvshmem_sync(NVSHMEM_TEAM_WORLD);
    bool good = t->call(&args) == 0;
    good &= as_modelled(t, count, args.dest);
    nvshmem_sync_all();
    return good;
}

static void collectives(void)
{
    static const size_t counts[] = {1, 7, COUNT};
    int wrong = 0;
    for (size_t row = 0; row < coll_type_count; row++) {
        const struct coll_type *t = &coll_types[row];
        bool good = true;
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            good &= one_collective(t, counts[c]);
        if (!good)
            diag("%s %s is wrong", t->name, t->op);
        wrong += !good;
    }
    ok(wrong == 0, "%zu collectives: %d wrong", coll_type_count, wrong);
}

/* Every length from 1 on, at offsets that go round: none of them meets a short cut that is wrong. */
static void every_length(void)
{
    int wrong = 0;
    for (size_t count = 1; count <= SWEEP; count++) {
        int32_t *from = (int32_t *)source + 1 + count % 17, *to = (int32_t *)dest + 1 + count % 13;
        for (size_t i = 0; i < count; i++)
            from[i] = (int32_t)(i * (size_t)(me + 1) + count);
        to[-1] = to[count] = 77;
        nvshmem_int32_sum_reduce(NVSHMEM_TEAM_WORLD, to, from, count);
        for (size_t i = 0; i < count; i++)
            wrong += to[i] != (int32_t)(i * (size_t)(n * (n + 1) / 2) + count * (size_t)n);
        wrong += to[-1] != 77 || to[count] != 77;
    }
    ok(wrong == 0, "sums of 1 to %d elements at odd offsets: %d wrong", SWEEP, wrong);
    nvshmem_barrier_all();
}

/* Blocks that end with the last element, as the checks know where blocks end. */
static void strides_to_the_end(void)
{
    size_t span = (5 * (size_t)n - 1) * 3 + 1;
    long *from = nvshmem_malloc(span * sizeof *from), *to = nvshmem_malloc(span * sizeof *to);
    int wrong = 0;
    for (size_t i = 0; i < span; i++)
        from[i] = (long)i + 1000 * me;
    wrong += nvshmem_long_alltoalls(NVSHMEM_TEAM_WORLD, to, from, 3, 3, 5);
    for (size_t i = 0; i < 5 * (size_t)n; i++)
        wrong += to[3 * i] != 3 * (5 * (long)me + (long)(i % 5)) + 1000 * (long)(i / 5);
    ok(wrong == 0, "alltoalls in blocks that end with the last element: %d wrong", wrong);
    nvshmem_free(to);
    nvshmem_free(from);
}

/* --- single functions --- */

static void reach(void)
{
    int local = 0;
    ok(nvshmem_pe_accessible(next) == 1 && nvshmem_pe_accessible(n) == 0 &&
           nvshmem_pe_accessible(-1) == 0,
       "PEs of the job are accessible, others are not");
    ok(nvshmem_addr_accessible(dest, next) == 1 && nvshmem_addr_accessible(&local, next) == 0 &&
           nvshmem_addr_accessible(dest, n) == 0,
       "so is symmetric memory");
    char *mine = nvshmem_team_ptr(NVSHMEM_TEAM_WORLD, dest, me);
    ok(mine == dest && nvshmem_team_ptr(NVSHMEM_TEAM_INVALID, dest, 0) == NULL &&
           nvshmem_team_ptr(NVSHMEM_TEAM_WORLD, &local, me) == NULL &&
           nvshmem_team_ptr(NVSHMEM_TEAM_WORLD, dest, n) == NULL,
       "team_ptr of oneself, and of what there is not");
    int shared = nvshmem_team_n_pes(NVSHMEM_TEAM_SHARED), nulls = 0;
    for (int pe = 0; pe < shared; pe++)
        nulls += nvshmem_team_ptr(NVSHMEM_TEAM_SHARED, dest, pe) == NULL;
    ok(nulls == 0, "every member of TEAM_SHARED can be reached by load and store");
    ok(nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, dest) == NULL, "there are no multicast addresses");
}

static void versions(void)
{
    int major = -1, minor = -1, patch = -1;
    char name[NVSHMEM_MAX_NAME_LEN];
    nvshmem_info_get_version(&major, &minor);
    nvshmem_info_get_name(name);
    ok(major == NVSHMEM_MAJOR_VERSION && minor == NVSHMEM_MINOR_VERSION &&
           strcmp(name, NVSHMEM_VENDOR_STRING) == 0,
       "interface %d.%d of %s", major, minor, name);
    nvshmemx_vendor_get_version_info(&major, &minor, &patch);
    ok(major == NVSHMEM_VENDOR_MAJOR_VERSION && minor == NVSHMEM_VENDOR_MINOR_VERSION &&
           patch == NVSHMEM_VENDOR_PATCH_VERSION,
       "version %d.%d.%d", major, minor, patch);
}

static void registration(void)
{
    static char buffer[4096];
    ok(nvshmemx_buffer_register(buffer, sizeof buffer) == 0, "local memory can be announced");
    nvshmem_putmem(dest, buffer, sizeof buffer, next);
    ok(nvshmemx_buffer_register(buffer + 100, 8) == NVSHMEMX_ERROR_INVALID_VALUE, "not twice");
    ok(nvshmemx_buffer_unregister(buffer) == 0 &&
           nvshmemx_buffer_unregister(buffer) == NVSHMEMX_ERROR_INVALID_VALUE,
       "and taken back, once");
    ok(nvshmemx_buffer_register(dest, 8) == NVSHMEMX_ERROR_INVALID_VALUE,
       "symmetric memory needs no announcement");
    ok(nvshmemx_buffer_register(buffer, 8) == 0, "a buffer");
    nvshmemx_buffer_unregister_all();
    ok(nvshmemx_buffer_register(buffer, 16) == 0, "is gone after unregister_all");
    nvshmemx_buffer_unregister_all();
}

/* Sets that are masked or empty end at once, whatever is waited for. */
static void ordering(void)
{
    int everyone[64], few = n < 64 ? n : 64;
    for (int pe = 0; pe < few; pe++)
        everyone[pe] = pe;
    memset(dest, 0, 8);
    nvshmem_barrier_all();
    nvshmem_long_put_nbi((long *)dest, &(long){me + 100}, 1, next);
    nvshmem_pe_quiet(everyone, (size_t)few);
    ok(nvshmem_long_g((long *)dest, next) == me + 100, "pe_quiet completes a put");
    nvshmem_pe_quiet(NULL, 0);
    nvshmem_barrier_all();
    *signals = 0;
    nvshmem_barrier(NVSHMEM_TEAM_WORLD);
    nvshmem_signal_set(signals, 40, next);
    nvshmem_fence();
    nvshmem_signal_add(signals, 2, next);
    ok(nvshmem_signal_wait_until(signals, NVSHMEM_CMP_EQ, 42) == 42 &&
           nvshmem_signal_fetch(signals) == 42,
       "signal_set, then signal_add");
    nvshmem_barrier_all();
}

int main(void)
{
    int provided = -1, initialized = -1;
    nvshmem_query_initialized(&initialized);
    int early = initialized, status = nvshmemx_init_status();
    nvshmem_init();
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    next = (me + 1) % n;
    before = (me + n - 1) % n;
    tap_start(me);
    nvshmem_query_initialized(&initialized);
    ok(early == 0 && status == NVSHMEM_STATUS_NOT_INITIALIZED && initialized == 1 &&
           nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED,
       "up after init, not before");
    nvshmem_query_thread(&provided);
    ok(provided == NVSHMEM_THREAD_MULTIPLE, "thread level %d", provided);
    dest = nvshmem_malloc(AREA);
    source = nvshmem_malloc(AREA);
    signals = nvshmem_calloc(2, sizeof *signals);
    transfers();
    atomics();
    waits();
    collectives();
    every_length();
    strides_to_the_end();
    reach();
    versions();
    registration();
    ordering();
    nvshmem_free(signals);
    nvshmem_free(source);
    nvshmem_free(dest);
    nvshmem_init();
    nvshmemx_hostlib_finalize();
    nvshmem_query_initialized(&initialized);
    ok(initialized == 1, "a nested finalize leaves the library up");
    nvshmem_finalize();
    nvshmem_query_initialized(&initialized);
    ok(initialized == 0 && nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED,
       "the last one does not");
    return tap_done();
}
