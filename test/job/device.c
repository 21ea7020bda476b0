/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of device code, without a GPU: a part of the program announces itself as
 * libpxshmem_device would, over the coherent stand-in the processor reads the state that kernels would
 * read, and plays a kernel that asks the proxy for PEs whose memory is not mapped. */
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdlib.h>
#include <string.h>

#include "src/device/state.h"
#include "tap.h"

static struct nvshmemi_state state = {.my_pe = -1, .n_pes = -1};
static int found;

static int find(void **address, size_t *size)
{
    found++;
    *address = &state;
    *size = sizeof state;
    return 0;
}

static int nowhere(void **address, size_t *size)
{
    (void)address;
    (void)size;
    return 209; /* CUDA's "no kernel image for this device" */
}

static nvshmemx_device_part_t part = {
    .size = sizeof part,
    .state_version = NVSHMEMI_STATE_VERSION,
    .state_size = sizeof state,
    .release = NVSHMEM_VENDOR_STRING,
    .find = find,
};

static int me, n_pes, next, before;

/* --- the state --- */

static void try_state(const int64_t *symmetric)
{
    bool right = true;
    ok(found == 1 && state.version == NVSHMEMI_STATE_VERSION && state.size == sizeof state &&
           state.my_pe == me && state.n_pes == n_pes,
       "the state is filled at init: version %u, PE %d of %d", state.version, state.my_pe,
       state.n_pes);
    ok((uintptr_t)symmetric >= state.heap && (uintptr_t)symmetric < state.heap + state.heap_bytes,
       "the heap is where blocks are");
    for (int pe = 0; pe < n_pes; pe++) {
        int64_t offset = state.offsets[pe];
        char *there = nvshmem_ptr(symmetric, pe);
        right &= offset == state.near_offsets[pe];
        right &= offset == NVSHMEMI_REMOTE ? !there : there == (const char *)symmetric + offset;
    }
    ok(right && state.offsets[me] == 0, "offsets are what nvshmem_ptr adds");
    ok(part.sharers >= 1, "PEs on this GPU: %d", part.sharers);
}

static bool team_is(const struct nvshmemi_team *team, nvshmem_team_t handle)
{
    bool right = team->handle == handle && team->rank == nvshmem_team_my_pe(handle) &&
                 team->size == nvshmem_team_n_pes(handle);
    for (int i = 0; right && i < team->size; i++)
        right &= nvshmem_team_translate_pe(handle, i, NVSHMEM_TEAM_WORLD) ==
                 (team->list ? team->list[i] : team->start + i * team->stride);
    return right;
}

static void try_teams(void)
{
    ok(team_is(state.teams, NVSHMEM_TEAM_WORLD) && team_is(state.teams + 2, NVSHMEMX_TEAM_NODE),
       "predefined teams are in the table");
    uint64_t epoch = 0;
    bool right = true;
    for (int turn = 0; turn < 3; turn++) {
        nvshmem_team_t team;
        nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, n_pes - 1, -1, n_pes, NULL, 0, &team);
        struct nvshmemi_team *row = state.teams + (team & 0xffff);
        right &= team_is(row, team) && row->epoch >= epoch;
        epoch = row->epoch + 1;
        nvshmem_team_destroy(team);
        right &= row->handle == -1;
    }
    ok(right, "a team comes, its counts start above those of the one before, and it goes");
}

/* --- a kernel, played --- */

struct ask {
    const void *dest, *source;
    uint64_t bytes, value, compare;
    int pe, what, operation;
};

static uint64_t number;

/* Chunks in any order: the proxy waits for all. */
static void write_request(const struct ask *ask)
{
    struct nvshmemi_request *request = state.ring->requests + number % NVSHMEMI_RING_SLOTS;
    uint64_t dest = (uintptr_t)ask->dest, source = (uintptr_t)ask->source;
    uint32_t what = (uint32_t)ask->what | (uint32_t)ask->operation << 8;
    const uint32_t words[4][3] = {
        {(uint32_t)dest, (uint32_t)(dest >> 32), (uint32_t)ask->pe},
        {(uint32_t)source, (uint32_t)(source >> 32), what},
        {(uint32_t)ask->value, (uint32_t)(ask->value >> 32), (uint32_t)ask->bytes},
        {(uint32_t)ask->compare, (uint32_t)(ask->compare >> 32), (uint32_t)(ask->bytes >> 32)},
    };
    while (number >= __atomic_load_n(state.ring->done, __ATOMIC_ACQUIRE) + NVSHMEMI_RING_SLOTS)
        ;
    for (unsigned k = 0; k < 4; k++) {
        unsigned i = (k + (unsigned)number) % 4;
        memcpy(request->chunk[i].word, words[i], sizeof words[i]);
        __atomic_store_n(&request->chunk[i].turn, (uint32_t)(number + 1), __ATOMIC_RELEASE);
    }
    number++;
}

static uint64_t ask_and_wait(const struct ask *ask)
{
    write_request(ask);
    const struct nvshmemi_answer *answer = state.ring->answers + (number - 1) % NVSHMEMI_RING_SLOTS;
    while (__atomic_load_n(&answer->turn, __ATOMIC_ACQUIRE) != number)
        ;
    return answer->value;
}

static void quiet(void)
{
    (void)ask_and_wait(&(struct ask){.what = NVSHMEMI_ASK_QUIET});
}

static void try_proxy(int64_t *a, int64_t *b)
{
    const size_t words = 3000;
    size_t wrong = 0;
    for (size_t i = 0; i < words; i++)
        a[i] = me * 100000 + (int64_t)i;
    memset(b, 0, words * sizeof *b);
    nvshmem_barrier_all();
    (void)ask_and_wait(&(struct ask){.dest = b,
                                     .source = a,
                                     .bytes = 8 * words,
                                     .pe = next,
                                     .what = NVSHMEMI_ASK_PUT,
                                     .operation = 1});
    quiet();
    nvshmem_barrier_all();
    for (size_t i = 0; i < words; i++)
        wrong += b[i] != before * 100000 + (int64_t)i;
    (void)ask_and_wait(&(struct ask){.dest = b,
                                     .source = a,
                                     .bytes = 8 * words,
                                     .pe = next,
                                     .what = NVSHMEMI_ASK_GET,
                                     .operation = 1});
    for (size_t i = 0; i < words; i++)
        wrong += b[i] != next * 100000 + (int64_t)i;
    ok(wrong == 0, "put and get by the proxy: %zu words are wrong", wrong);
    int64_t read = (int64_t)ask_and_wait(
        &(struct ask){.source = a + 5, .bytes = 8, .pe = next, .what = NVSHMEMI_ASK_READ});
    ok(read == next * 100000 + 5, "a value is read: %lld", (long long)read);
    nvshmem_barrier_all();
}

/* More values than the ring has slots, none waited for, then a flag behind a fence. */
static void try_stream(int64_t *a, int64_t *b)
{
    const int turns = 3 * NVSHMEMI_RING_SLOTS;
    memset(b, 0, 64 * sizeof *b);
    nvshmem_barrier_all();
    for (int i = 1; i <= turns; i++)
        write_request(&(struct ask){.dest = b + i % 16,
                                    .value = (uint64_t)i,
                                    .bytes = 8,
                                    .pe = next,
                                    .what = NVSHMEMI_ASK_VALUE});
    write_request(&(struct ask){.what = NVSHMEMI_ASK_FENCE});
    write_request(&(struct ask){.dest = b + 32,
                                .value = 1,
                                .bytes = 8,
                                .pe = next,
                                .what = NVSHMEMI_ASK_AMO,
                                .operation = NVSHMEMI_AMO_ADD});
    nvshmem_int64_wait_until(b + 32, NVSHMEM_CMP_EQ, 1);
    size_t wrong = 0;
    for (int i = turns - 15; i <= turns; i++)
        wrong += nvshmem_int64_g(b + i % 16, me) != i;
    ok(wrong == 0, "%d values pass a ring of %d slots, and a signal does not overtake them", turns,
       NVSHMEMI_RING_SLOTS);
    a[0] = 0;
    nvshmem_barrier_all();
    for (int i = 0; i < 100; i++)
        wrong += ask_and_wait(&(struct ask){.dest = a,
                                            .value = 1,
                                            .bytes = 8,
                                            .pe = 0,
                                            .what = NVSHMEMI_ASK_AMO,
                                            .operation = NVSHMEMI_AMO_ADD | 0x80}) >=
                 (uint64_t)(100 * n_pes);
    quiet();
    nvshmem_barrier_all();
    int64_t sum = nvshmem_int64_g(a, 0);
    ok(wrong == 0 && sum == 100 * n_pes, "fetching atomics of all PEs: %lld", (long long)sum);
    nvshmem_barrier_all();
}

/* --- parts that do not fit --- */

static void try_misfits(void)
{
    nvshmemx_device_part_t later = part, other = part, small = {.size = 8}, absent = part;
    other.state_version = NVSHMEMI_STATE_VERSION + 1;
    other.release = "pxshmem v9.9.9";
    absent.find = nowhere;
    state.my_pe = -5;
    ok(nvshmemx_device_register(&later) == 0 && state.my_pe == me,
       "a part that comes later is filled at once");
    nvshmemx_device_unregister(&later);
    ok(nvshmemx_device_register(&other) == NVSHMEMX_ERROR_INVALID_VALUE,
       "a part of another release is refused");
    nvshmemx_device_unregister(&other);
    ok(nvshmemx_device_register(&small) == NVSHMEMX_ERROR_INVALID_VALUE,
       "so is one of another layout");
    nvshmemx_device_unregister(&small);
    ok(nvshmemx_device_register(&absent) == NVSHMEMX_ERROR_INVALID_VALUE,
       "and one with no code for this GPU");
    nvshmemx_device_unregister(&absent);
    ok(nvshmemx_cumodule_init(NULL) != 0 && nvshmemx_culibrary_init(NULL) != 0,
       "a module without the state is refused");
    ok(nvshmemx_cumodule_finalize(NULL) == 0 && nvshmemx_culibrary_finalize(NULL) == 0,
       "finalize of modules");
}

/* With a part of another release in the program init fails, and says what to do. */
static int start_with_misfit(void)
{
    nvshmemx_device_part_t other = part;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    other.state_size += 8;
    other.release = "pxshmem v9.9.9";
    int early = nvshmemx_device_register(&other);
    int status = nvshmemx_init_attr(0, &attr);
    const char *words = nvshmemx_error_string(status);
    tap_start(0);
    ok(early == NVSHMEMX_ERROR_INVALID_VALUE && status != 0,
       "init fails with a part of another release");
    ok(strstr(words, "v9.9.9") && strstr(words, NVSHMEM_VENDOR_STRING), "and names both: %s",
       words);
    nvshmemx_device_unregister(&other);
    status = nvshmemx_init_attr(0, &attr);
    ok(status == 0, "without it all is well");
    if (status == 0)
        nvshmem_finalize();
    return tap_done();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "misfit") == 0)
        return start_with_misfit();
    nvshmemx_device_register(&part);
    nvshmem_init();
    me = nvshmem_my_pe();
    n_pes = nvshmem_n_pes();
    next = (me + 1) % n_pes;
    before = (me + n_pes - 1) % n_pes;
    tap_start(me);
    int64_t *a = nvshmem_calloc(4096, sizeof *a), *b = nvshmem_calloc(4096, sizeof *b);
    try_state(a);
    try_teams();
    if (state.any_remote) {
        try_proxy(a, b);
        try_stream(a, b);
    } else {
        for (int i = 0; i < 4; i++)
            skip("every PE is mapped: there is no proxy");
    }
    try_misfits();
    nvshmem_free(b);
    nvshmem_free(a);
    nvshmem_finalize();
    ok(state.my_pe == -1 && state.n_pes == -1,
       "after finalize kernels see that the library is down");
    nvshmemx_device_unregister(&part);
    return tap_done();
}
