/* SPDX-License-Identifier: BSD-3-Clause */
/* What every transport must do, run over each: the program is built once per transport
 * (PX_TEST_TRANSPORT), and another name can be given as its argument. A transport that cannot run
 * here is skipped with its own reason. */
#include "config.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "src/transport/move.h"
#include "src/transport/wait.h"
#include "test/unit/pes.h"

static const char *transport = PX_TEST_TRANSPORT;
static struct pes_job *job;
enum { PES = 3 };
static char reason[1600];

static uint32_t next_pe(const struct pes *pe)
{
    return (pe->me + 1) % pe->n;
}

static uint32_t previous_pe(const struct pes *pe)
{
    return (pe->me + pe->n - 1) % pe->n;
}

/* The part of a window that `source` may write on its owner, and where it lies in memory that I can
 * see. */
static char *region(struct pes *pe, uint32_t source, size_t *bytes)
{
    *bytes = PES_DATA_BYTES / PES_MAX & ~(size_t)4095;
    return pe->base + PES_DATA + source * *bytes;
}

static char *seen(struct pes *pe, uint32_t owner, const void *symmetric)
{
    return pes_window(pe, owner) + ((const char *)symmetric - pe->base);
}

static void fill(char *bytes, size_t count, uint64_t seed)
{
    for (; count >= 8; count -= 8, bytes += 8) {
        uint64_t word = pes_random(&seed);
        memcpy(bytes, &word, 8);
    }
    for (; count; count--)
        *bytes++ = (char)pes_random(&seed);
}

static void wait_word(struct pes *pe, const uint64_t *word, uint64_t at_least)
{
    for (unsigned turn = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < at_least; turn++) {
        pe->ops->progress(pe->self);
        if (turn % 16 == 0)
            sched_yield(); /* there may be more PEs than processors */
    }
}

static const size_t sizes[] = {1,     2,     3,      4,      7,      8,       9,       31,
                               63,    64,    65,     128,    255,    256,     1000,    2047,
                               2048,  2049,  4096,   4100,   8192,   16383,   16384,   16385,
                               40000, 65536, 100001, 262144, 262147, 1048576, 4194304, 5000001};

/* Every size, blocking and not, source and destination at odd places; looked at directly after
 * quiet. */
static void puts_of_all_sizes(struct pes *pe)
{
    size_t room;
    char *there = region(pe, pe->me, &room), *source = malloc(room);
    uint32_t to = next_pe(pe);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int nbi = 0; nbi < 2; nbi++) {
            size_t at = i % 5 + (size_t)nbi, from = i % 3;
            fill(source, sizes[i] + from, pe->seed + i * 2 + (size_t)nbi);
            seen(pe, to, there)[at + sizes[i]] = 'x';
            (nbi ? pe->ops->put_nbi : pe->ops->put)(pe->self, to, there + at, source + from,
                                                    sizes[i]);
            pe->ops->quiet(pe->self);
            pes_check(memcmp(seen(pe, to, there) + at, source + from, sizes[i]) == 0,
                      "%zu bytes, nbi %d", sizes[i], nbi);
            pes_check(seen(pe, to, there)[at + sizes[i]] == 'x', "%zu bytes overran", sizes[i]);
        }
    }
    free(source);
}

/* A blocking put hands the source back at once. */
static void put_sources_may_be_reused(struct pes *pe)
{
    size_t room;
    char *there = region(pe, pe->me, &room), *source = malloc(300000);
    uint32_t to = next_pe(pe);
    for (size_t bytes = 1; bytes <= 300000 / 8; bytes = bytes * 3 + 1) {
        for (size_t k = 0; k < 8; k++) {
            memset(source, (int)('a' + k), bytes);
            pe->ops->put(pe->self, to, there + k * bytes, source, bytes);
            memset(source, '!', bytes);
        }
        pe->ops->quiet(pe->self);
        for (size_t k = 0; k < 8 * bytes; k++)
            pes_check(seen(pe, to, there)[k] == (char)('a' + k / bytes), "byte %zu of 8 times %zu",
                      k, bytes);
    }
    free(source);
}

static void gets_of_all_sizes(struct pes *pe)
{
    size_t room;
    uint32_t from = next_pe(pe);
    char *there = region(pe, pe->me, &room), *dest = malloc(room);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int nbi = 0; nbi < 2; nbi++) {
            size_t at = i % 5 + (size_t)nbi;
            fill(seen(pe, from, there) + at, sizes[i], pe->seed + i * 2 + (size_t)nbi);
            dest[sizes[i]] = 'x';
            (nbi ? pe->ops->get_nbi : pe->ops->get)(pe->self, from, dest, there + at, sizes[i]);
            if (nbi)
                pe->ops->quiet(pe->self);
            pes_check(memcmp(seen(pe, from, there) + at, dest, sizes[i]) == 0, "%zu bytes, nbi %d",
                      sizes[i], nbi);
            pes_check(dest[sizes[i]] == 'x', "%zu bytes overran", sizes[i]);
        }
    }
    free(dest);
}

/* Memory is added in chunks; a transfer may cross their border. Only PE 0 writes there. */
static void transfers_cross_chunks(struct pes *pe)
{
    if (pe->me != 0)
        return;
    enum { BYTES = 300000 };
    char *source = malloc(BYTES), *back = malloc(BYTES);
    for (size_t before = 1; before < BYTES; before = before * 7 + 1) {
        char *there = pe->base + PES_SECOND_CHUNK - before;
        fill(source, BYTES, pe->seed + before);
        pe->ops->put(pe->self, 1, there, source, BYTES);
        pe->ops->quiet(pe->self);
        pes_check(memcmp(seen(pe, 1, there), source, BYTES) == 0,
                  "put, %zu bytes before the border", before);
        pe->ops->get(pe->self, 1, back, there, BYTES);
        pes_check(memcmp(back, source, BYTES) == 0, "get, %zu bytes before the border", before);
    }
    free(source);
    free(back);
}

/* The control area in front of the data is reachable too. */
static void control_area_is_reachable(struct pes *pe)
{
    uint64_t value = 0x1234000 + pe->me, back = 0;
    uint64_t *word = (uint64_t *)(pe->base + PES_CONTROL - 64) + pe->me;
    pe->ops->put(pe->self, next_pe(pe), word, &value, 8);
    pe->ops->quiet(pe->self);
    pe->ops->get(pe->self, next_pe(pe), &back, word, 8);
    pes_check(back == value, "got %llx", (unsigned long long)back);
}

static void zero_bytes_do_nothing(struct pes *pe)
{
    size_t room;
    char *there = region(pe, pe->me, &room), byte = 0;
    pe->ops->put(pe->self, next_pe(pe), there, &byte, 0);
    pe->ops->put_nbi(pe->self, next_pe(pe), there, &byte, 0);
    pe->ops->get(pe->self, next_pe(pe), &byte, there, 0);
    pe->ops->get_nbi(pe->self, next_pe(pe), &byte, there, 0);
    pe->ops->quiet(pe->self);
    pe->ops->quiet(pe->self);
    pe->ops->fence(pe->self);
    pe->ops->quiet_pe(pe->self, next_pe(pe));
}

/* Random operations on random peers against a model of what I wrote to each. Within a round slots
 * do not overlap; rounds are parted by fence or quiet, so that a later round overwrites an earlier
 * one. */
enum { SLOTS = 64, SLOT = 4096, FENCES = 4 };

struct random_walk {
    struct pes *pe;
    size_t offset; /* into my region, so that threads do not meet */
    uint64_t seed;
    int rounds;
};

static void walk_check(struct random_walk *walk, char *model, char *there)
{
    struct pes *pe = walk->pe;
    for (uint32_t to = 0; to < pe->n; to++)
        if (to != pe->me)
            pes_check(memcmp(seen(pe, to, there), model + to * SLOTS * SLOT, SLOTS * SLOT) == 0,
                      "memory on PE %u differs from the model", (unsigned)to);
}

static void walk_round(struct random_walk *walk, char *model, char *there, char *scratch)
{
    struct pes *pe = walk->pe;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        uint64_t dice = pes_random(&walk->seed);
        uint32_t to = (uint32_t)((pe->me + 1 + dice % (pe->n - 1)) % pe->n);
        size_t bytes = dice >> 32 & 1 ? 8 : 1 + (dice >> 33) % (SLOT - 8),
               at = slot * SLOT + (bytes == 8 ? 0 : dice >> 20 & 7);
        char *mine = model + (size_t)to * SLOTS * SLOT + at, *source = scratch + slot * SLOT;
        struct px_amo amo = {.op = PX_AMO_ADD, .width = 8, .operand = dice};
        switch (dice >> 8 & 3) {
        case 0:
            fill(mine, bytes, dice);
            pe->ops->put(pe->self, to, there + at, mine, bytes);
            break;
        case 1:
            fill(source, bytes, dice);
            memcpy(mine, source, bytes);
            pe->ops->put_nbi(pe->self, to, there + at, source, bytes);
            break;
        case 2: {
            uint64_t word;
            memcpy(&word, model + (size_t)to * SLOTS * SLOT + slot * SLOT, 8);
            word += dice;
            memcpy(model + (size_t)to * SLOTS * SLOT + slot * SLOT, &word, 8);
            pe->ops->amo_nbi(pe->self, to, there + slot * SLOT, &amo, NULL);
            break;
        }
        default: {
            uint64_t word, old;
            memcpy(&word, model + (size_t)to * SLOTS * SLOT + slot * SLOT, 8);
            amo.fetching = true;
            old = pe->ops->amo(pe->self, to, there + slot * SLOT, &amo);
            pes_check(old == word, "fetch_add saw %llx, the model has %llx",
                      (unsigned long long)old, (unsigned long long)word);
            word += dice;
            memcpy(model + (size_t)to * SLOTS * SLOT + slot * SLOT, &word, 8);
        }
        }
    }
}

static void *walk_run(void *arg)
{
    struct random_walk *walk = arg;
    struct pes *pe = walk->pe;
    size_t room;
    char *there = region(pe, pe->me, &room) + walk->offset;
    char *model = calloc(pe->n, SLOTS * SLOT), *scratch = malloc(FENCES * SLOTS * SLOT);
    for (uint32_t to = 0; to < pe->n; to++)
        memset(seen(pe, to, there), 0, to == pe->me ? 0 : SLOTS * SLOT);
    for (int round = 0; round < walk->rounds; round++) {
        int fences = (int)(pes_random(&walk->seed) % FENCES);
        for (int i = 0; i < fences; i++) {
            walk_round(walk, model, there, scratch + i * SLOTS * SLOT);
            pe->ops->fence(pe->self);
        }
        walk_round(walk, model, there, scratch + fences * SLOTS * SLOT);
        pe->ops->quiet(pe->self);
        walk_check(walk, model, there);
    }
    free(model);
    free(scratch);
    return NULL;
}

static void random_operations_match_a_model(struct pes *pe)
{
    struct random_walk walk = {.pe = pe, .seed = pe->seed, .rounds = 40};
    (void)walk_run(&walk);
}

/* Two threads of a PE at once, each with its own words and blocks. */
static void threads_do_not_disturb_each_other(struct pes *pe)
{
    struct random_walk walks[2];
    pthread_t thread;
    for (size_t i = 0; i < 2; i++)
        walks[i] = (struct random_walk){
            .pe = pe, .offset = i * SLOTS * SLOT, .seed = pe->seed * 31 + i, .rounds = 20};
    pes_check(pthread_create(&thread, NULL, walk_run, &walks[0]) == 0, "no thread");
    (void)walk_run(&walks[1]);
    pthread_join(thread, NULL);
}

/* Each operation, both widths, against what the processor's own would do. The neighbouring word
 * must not change. */
static void atomics_do_what_they_say(struct pes *pe)
{
    size_t room;
    uint32_t to = next_pe(pe);
    char *there = region(pe, pe->me, &room);
    uint64_t seed = pe->seed;
    for (int i = 0; i < 4 * 2 * PX_AMO_COUNT; i++) {
        struct px_amo amo = {.op = (enum px_amo_op)(i % PX_AMO_COUNT),
                             .width = i / PX_AMO_COUNT % 2 ? 4 : 8,
                             .fetching = true,
                             .operand = pes_random(&seed)};
        uint64_t model[2] = {pes_random(&seed), pes_random(&seed)}, old = 0;
        if (i / PX_AMO_COUNT / 2 % 2)
            memcpy(&amo.compare, model,
                   amo.width); /* so that half of the compare-and-swaps succeed */
        memcpy(seen(pe, to, there), model, 16);
        uint64_t expected = px_amo_apply(model, &amo);
        if (i / PX_AMO_COUNT / 4 % 2) {
            pe->ops->amo_nbi(pe->self, to, there, &amo, &old);
            pe->ops->quiet(pe->self);
        } else {
            old = pe->ops->amo(pe->self, to, there, &amo);
        }
        pes_check(old == expected, "operation %d width %d: old value %llx, want %llx", amo.op,
                  amo.width, (unsigned long long)old, (unsigned long long)expected);
        pes_check(memcmp(seen(pe, to, there), model, 16) == 0,
                  "operation %d width %d: wrong memory", amo.op, amo.width);
    }
}

static void atomics_without_result(struct pes *pe)
{
    size_t room;
    uint32_t to = next_pe(pe);
    char *there = region(pe, pe->me, &room);
    uint64_t seed = pe->seed, model = 0;
    memset(seen(pe, to, there), 0, 8);
    static const enum px_amo_op ops[] = {PX_AMO_SET, PX_AMO_ADD, PX_AMO_AND, PX_AMO_OR, PX_AMO_XOR};
    for (int i = 0; i < 500; i++) {
        struct px_amo amo = {
            .op = ops[i % 5], .width = i % 2 ? 4 : 8, .operand = pes_random(&seed)};
        (void)px_amo_apply(&model, &amo);
        if (i % 3)
            (void)pe->ops->amo(pe->self, to, there, &amo);
        else
            pe->ops->amo_nbi(pe->self, to, there, &amo, NULL);
        pe->ops->fence(pe->self);
    }
    pe->ops->quiet(pe->self);
    pes_check(memcmp(seen(pe, to, there), &model, 8) == 0, "memory differs from the model");
}

/* All PEs and the owner's own processor add to one word at once: no addition is lost, no ticket
 * drawn twice. */
static void atomics_are_exact_together_with_the_owner(struct pes *pe)
{
    enum { EACH = 2000 };
    size_t room;
    uint64_t *sum = (uint64_t *)region(pe, 0, &room), *tickets = sum + 8;
    uint32_t *half = (uint32_t *)(sum + 16);
    if (pe->me == 0)
        memset(sum, 0, 256);
    pes_barrier(pe);
    uint64_t xor = 0;
    for (uint64_t i = 1; i <= EACH; i++) {
        struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = i};
        struct px_amo ticket = {.op = PX_AMO_ADD, .width = 8, .operand = 1, .fetching = true};
        struct px_amo half_add = {.op = PX_AMO_ADD, .width = 4, .operand = (uint32_t)-1};
        if (pe->me == 0) {
            __atomic_fetch_add(sum, i, __ATOMIC_RELAXED);
            xor ^= __atomic_fetch_add(tickets, 1, __ATOMIC_RELAXED);
            __atomic_fetch_sub(half, 1, __ATOMIC_RELAXED);
        } else {
            (void)pe->ops->amo(pe->self, 0, sum, &add);
            xor ^= pe->ops->amo(pe->self, 0, tickets, &ticket);
            pe->ops->amo_nbi(pe->self, 0, half, &half_add, NULL);
        }
    }
    pe->ops->quiet(pe->self);
    atomic_fetch_xor(pes_shared(pe, 0), xor);
    pes_barrier(pe);
    uint64_t all = (uint64_t)EACH * pe->n, all_xor = 0;
    for (uint64_t i = 0; i < all; i++)
        all_xor ^= i;
    pes_check(*(volatile uint64_t *)seen(pe, 0, sum) == pe->n * (uint64_t)EACH * (EACH + 1) / 2,
              "the sum is wrong");
    pes_check(*(volatile uint64_t *)seen(pe, 0, tickets) == all, "the number of tickets is wrong");
    pes_check(*(volatile uint32_t *)seen(pe, 0, half) == (uint32_t)-all, "the 4-byte sum is wrong");
    pes_check(atomic_load(pes_shared(pe, 0)) == all_xor, "a ticket was drawn twice");
}

/* A lock by compare-and-swap on PE 0 around a counter moved by get and put. */
static void a_lock_excludes(struct pes *pe)
{
    enum { EACH = 100 };
    size_t room;
    uint64_t *lock = (uint64_t *)region(pe, 0, &room), *counter = lock + 8;
    if (pe->me == 0)
        memset(lock, 0, 128);
    pes_barrier(pe);
    for (int i = 0; pe->me != 0 && i < EACH; i++) {
        struct px_amo take = {
            .op = PX_AMO_COMPARE_SWAP, .width = 8, .fetching = true, .operand = pe->me};
        struct px_amo give = {.op = PX_AMO_SET, .width = 8};
        while (pe->ops->amo(pe->self, 0, lock, &take) != 0)
            pe->ops->progress(pe->self);
        uint64_t value;
        pe->ops->get(pe->self, 0, &value, counter, 8);
        value++;
        pe->ops->put(pe->self, 0, counter, &value, 8);
        pe->ops->quiet(pe->self);
        (void)pe->ops->amo(pe->self, 0, lock, &give);
    }
    pe->ops->quiet(pe->self);
    pes_barrier(pe);
    pes_check(*(volatile uint64_t *)seen(pe, 0, counter) == (uint64_t)EACH * (pe->n - 1),
              "updates were lost");
}

/* A ring of puts with signal: each PE checks what its left neighbour sent as soon as the signal
 * shows it. */
static void a_signal_never_passes_its_data(struct pes *pe)
{
    size_t room;
    uint64_t *signals = (uint64_t *)(region(pe, PES_MAX - 1, &room) + room - 4096);
    uint64_t *arrived = signals, *taken = signals + 8;
    static const size_t bytes[] = {0, 8, 64, 520, 2048, 2056, 5000, 20000, 70000, 300000};
    char *source = malloc(300000);
    memset(arrived, 0, 128);
    pes_barrier(pe);
    for (uint64_t i = 1; i <= 600; i++) {
        size_t length = bytes[i % 10], unused;
        char *there = region(pe, pe->me, &unused), *here = region(pe, previous_pe(pe), &unused);
        memset(source, (int)i, length);
        bool nbi = i % 3 == 0;
        pe->ops->put_signal(pe->self, next_pe(pe), there, source, length, arrived, i % 2 ? i : 1,
                            i % 2 ? PX_AMO_SET : PX_AMO_ADD, nbi);
        if (!nbi)
            memset(source, 'z', length);
        wait_word(pe, arrived, i);
        for (size_t k = 0; k < length; k++)
            pes_check(((volatile char *)here)[k] == (char)i, "round %u: byte %zu of %zu is late",
                      (unsigned)i, k, length);
        struct px_amo reply = {.op = PX_AMO_SET, .width = 8, .operand = i};
        (void)pe->ops->amo(pe->self, previous_pe(pe), taken, &reply);
        wait_word(pe, taken, i);
        if (nbi)
            pe->ops->quiet(pe->self);
    }
    pe->ops->quiet(pe->self);
    free(source);
}

/* Many signals in flight: each one's data must be there when its addition shows. */
static void signals_in_flight_count(struct pes *pe)
{
    enum { COUNT = 300, LENGTH = 3000 };
    size_t room;
    char *there = region(pe, pe->me, &room), *here = region(pe, previous_pe(pe), &room);
    uint64_t *arrived = (uint64_t *)(region(pe, PES_MAX - 1, &room) + room - 4096);
    char *source = malloc(COUNT * LENGTH);
    fill(source, COUNT * LENGTH, 77 + pe->me);
    *arrived = 0;
    memset(here, 0, COUNT * LENGTH);
    pes_barrier(pe);
    for (size_t i = 0; i < COUNT; i++)
        pe->ops->put_signal(pe->self, next_pe(pe), there + i * LENGTH, source + i * LENGTH,
                            i % 2 ? LENGTH : 8, arrived, 1, PX_AMO_ADD, true);
    wait_word(pe, arrived, COUNT);
    pe->ops->quiet(pe->self);
    fill(source, COUNT * LENGTH, 77 + previous_pe(pe));
    for (size_t i = 0; i < COUNT; i++)
        pes_check(memcmp(here + i * LENGTH, source + i * LENGTH, i % 2 ? LENGTH : 8) == 0,
                  "block %zu differs", i);
    free(source);
}

/* Message passing by put, fence, put (or amo), the target only loads. */
static void fence_orders_puts_and_atomics(struct pes *pe)
{
    size_t room;
    uint64_t *flag = (uint64_t *)(region(pe, PES_MAX - 1, &room) + room - 4096), *taken = flag + 8;
    uint64_t *there = (uint64_t *)region(pe, pe->me, &room),
             *here = (uint64_t *)region(pe, previous_pe(pe), &room);
    uint64_t source[600];
    memset(flag, 0, 128);
    pes_barrier(pe);
    for (uint64_t i = 1; i <= 1500; i++) {
        size_t count = i % 16 == 0 ? 600 : 1 + i % 8;
        struct px_amo set = {.op = PX_AMO_SET, .width = 8, .operand = i};
        for (size_t k = 0; k < count; k++)
            source[k] = i;
        for (size_t k = 0; k < count; k += 100) /* several puts, then one flag */
            pe->ops->put(pe->self, next_pe(pe), there + k, source + k,
                         (count - k < 100 ? count - k : 100) * 8);
        if (i % 4 == 1)
            (void)pe->ops->amo(pe->self, next_pe(pe), there + 600, &set);
        pe->ops->fence(pe->self);
        if (i % 2)
            pe->ops->put(pe->self, next_pe(pe), flag, &i, 8);
        else
            (void)pe->ops->amo(pe->self, next_pe(pe), flag, &set);
        wait_word(pe, flag, i);
        for (size_t k = 0; k < count; k++)
            pes_check(((volatile uint64_t *)here)[k] == i, "round %u: word %zu is late",
                      (unsigned)i, k);
        if (i % 4 == 1)
            pes_check(((volatile uint64_t *)here)[600] == i,
                      "round %u: the amo before the fence is late", (unsigned)i);
        pe->ops->put(pe->self, previous_pe(pe), taken, &i, 8);
        wait_word(pe, taken, i);
    }
    pe->ops->quiet(pe->self);
}

static void quiet_completes_many(struct pes *pe)
{
    enum { COUNT = 20000 };
    size_t room;
    uint64_t *there = (uint64_t *)region(pe, pe->me, &room), *source = malloc(COUNT * 8),
             *back = calloc(COUNT, 8);
    uint64_t *counter = there + COUNT;
    for (uint32_t to = 0; to < pe->n; to++)
        if (to != pe->me)
            memset(seen(pe, to, counter), 0, 8);
    fill((char *)source, COUNT * 8, pe->seed);
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t to = (uint32_t)((pe->me + 1 + i % (pe->n - 1)) % pe->n);
        struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = 1};
        pe->ops->put_nbi(pe->self, to, there + i, source + i, 8);
        if (i % 8 == 0)
            pe->ops->amo_nbi(pe->self, to, counter, &add, NULL);
    }
    pe->ops->quiet(pe->self);
    uint64_t added = 0;
    for (uint32_t to = 0; to < pe->n; to++)
        if (to != pe->me)
            added += *(volatile uint64_t *)seen(pe, to, counter);
    pes_check(added == (COUNT + 7) / 8, "%llu additions", (unsigned long long)added);
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t to = (uint32_t)((pe->me + 1 + i % (pe->n - 1)) % pe->n);
        pes_check(*(volatile uint64_t *)seen(pe, to, there + i) == source[i], "word %zu is late",
                  i);
        pe->ops->get_nbi(pe->self, to, back + i, there + i, 8);
    }
    pe->ops->quiet(pe->self);
    pes_check(memcmp(back, source, COUNT * 8) == 0, "gets differ");
    free(source);
    free(back);
}

static void quiet_of_one_pe(struct pes *pe)
{
    size_t room;
    char *there = region(pe, pe->me, &room), *source = malloc(200000);
    for (uint64_t i = 0; i < 20; i++) {
        fill(source, 200000, pe->seed + i);
        for (uint32_t to = 0; to < pe->n; to++)
            if (to != pe->me)
                pe->ops->put_nbi(pe->self, to, there, source, 200000);
        pe->ops->quiet_pe(pe->self, next_pe(pe));
        pes_check(memcmp(seen(pe, next_pe(pe), there), source, 200000) == 0, "late");
        pe->ops->quiet(pe->self);
    }
    free(source);
}

/* One-sided means that the target need not call: everybody but PE 0 sleeps until PE 0 is done. */
static void a_target_need_not_call(struct pes *pe)
{
    size_t room;
    uint64_t *there = (uint64_t *)region(pe, pe->me, &room), back[100], source[100];
    while (pe->me != 0 && atomic_load(pes_shared(pe, 0)) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (uint64_t i = 0; pe->me == 0 && i < 200; i++) {
        struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = 1, .fetching = true};
        for (size_t k = 0; k < 100; k++)
            source[k] = i * k;
        pe->ops->put(pe->self, 1, there, source, sizeof(source));
        pe->ops->quiet(pe->self);
        pe->ops->get(pe->self, 1, back, there, sizeof(back));
        pes_check(memcmp(back, source, sizeof(back)) == 0, "round %u", (unsigned)i);
        pes_check(pe->ops->amo(pe->self, 1, there + 50, &add) == i * 50, "round %u", (unsigned)i);
    }
    if (pe->me == 0)
        atomic_store(pes_shared(pe, 0), 1);
}

static void connections_are_made_at_first_use(struct pes *pe)
{
    uint64_t count = pe->ops->connections(pe->self);
    pes_check(count <= pe->n, "%llu connections", (unsigned long long)count);
    uint64_t *word = (uint64_t *)(pe->base + PES_DATA) + pe->me, value = 1;
    pe->ops->put(pe->self, next_pe(pe), word, &value, 8);
    pe->ops->quiet(pe->self);
    pes_check(pe->ops->connections(pe->self) >= 1, "none after a put");
}

/* Memory goes and comes again, as reinit does. */
static void memory_can_be_dropped_and_added(struct pes *pe)
{
    struct px_error error = PX_ERROR_INIT;
    uint64_t *word = (uint64_t *)(pe->base + PES_SECOND_CHUNK) + pe->me, back;
    for (uint64_t i = 1; i <= 20; i++) {
        pe->ops->quiet(pe->self);
        pes_barrier(pe);
        pe->ops->drop_memory(pe->self, PES_DATA);
        size_t first = (size_t)(1 + i % 3) << 20;
        pes_check(!pe->ops->add_memory(pe->self, PES_DATA, first, &error), "%s", error.text);
        pes_check(
            !pe->ops->add_memory(pe->self, PES_DATA + first, PES_WINDOW - PES_DATA - first, &error),
            "%s", error.text);
        pes_barrier(pe);
        uint64_t value = i * 100 + pe->me;
        pe->ops->put(pe->self, next_pe(pe), word, &value, 8);
        pe->ops->quiet(pe->self);
        pe->ops->get(pe->self, next_pe(pe), &back, word, 8);
        pes_check(back == value, "round %u", (unsigned)i);
        pes_barrier(pe);
    }
}

/* A PE that is stopped for a while (by a debugger, say) is late, not dead. */
static void a_stopped_peer_is_not_dead(struct pes *pe)
{
    size_t room;
    uint64_t *word = (uint64_t *)region(pe, pe->me, &room), value = 1;
    struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = 1, .fetching = true};
    if (pe->me == 1) {
        atomic_store(pes_shared(pe, 0), (uint64_t)getpid());
        raise(SIGSTOP);
    } else if (pe->me == 2) {
        while (atomic_load(pes_shared(pe, 0)) == 0)
            sched_yield();
        sleep(3);
        kill((pid_t)atomic_load(pes_shared(pe, 0)), SIGCONT);
    } else {
        while (atomic_load(pes_shared(pe, 0)) == 0)
            sched_yield();
        usleep(10000);
        pe->ops->put(pe->self, 1, word, &value, 8);
        pes_check(pe->ops->amo(pe->self, 1, word + 1, &add) ==
                      *(uint64_t *)seen(pe, 1, word + 1) - 1,
                  "wrong value");
        pe->ops->quiet(pe->self);
    }
}

static unsigned count_of(const char *folder)
{
    unsigned count = 0;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)getpid(), folder);
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* Files and threads do not pile up when a program initialises and finalises again and again. */
static void opening_again_and_again_leaves_nothing(struct pes *pe)
{
    size_t room;
    uint64_t *word = (uint64_t *)region(pe, pe->me, &room), value = 0, back = 0;
    unsigned files = 0, threads = 0;
    for (int i = 0; i < 60; i++) {
        pes_close(pe);
        if (i == 10) {
            files = count_of("fd");
            threads = count_of("task");
        }
        if (i > 10) {
            pes_check(count_of("fd") <= files, "%u files, %u before", count_of("fd"), files);
            pes_check(count_of("task") <= threads, "%u threads, %u before", count_of("task"),
                      threads);
        }
        pes_open(pe);
        value++;
        pe->ops->put(pe->self, next_pe(pe), word, &value, 8);
        pe->ops->quiet(pe->self);
        pe->ops->get(pe->self, next_pe(pe), &back, word, 8);
        pes_check(back == value, "round %d", i);
    }
}

static int doomed_operation;

/* PE 1 is killed while PE 0 works with it: PE 0 must end with a message that names it, whatever it
 * was doing. */
static void work_until_it_fails(struct pes *pe)
{
    size_t room;
    uint64_t *there = (uint64_t *)region(pe, 0, &room), value = 1;
    if (pe->me == 1) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        raise(SIGKILL);
    }
    for (uint64_t i = 0; pe->me == 0; i++) {
        struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = 1, .fetching = true};
        if (doomed_operation == 0)
            (void)pe->ops->amo(pe->self, 1, there, &add);
        else if (doomed_operation == 1)
            pe->ops->get(pe->self, 1, &value, there, 8);
        else
            pe->ops->put(pe->self, 1, there, &value, 8);
        pe->ops->quiet(pe->self);
    }
}

static void a_dead_peer_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        doomed_operation = i; /* the PEs are forks: they know */
        struct pes_job *doomed = pes_start(transport, 2, false, reason, sizeof(reason));
        assert_non_null(doomed);
        pes_begin(doomed, work_until_it_fails);
        time_t limit = time(NULL) + 60; /* against a hang of the test */
        while ((pes_alive(doomed, 0) || pes_alive(doomed, 1)) && time(NULL) < limit)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_false(pes_alive(doomed, 0));
        assert_non_null(strstr(pes_last_line(doomed, 0), "PE 1"));
        (void)pes_stop(doomed); /* its failure is the point */
    }
}

static void run(void **state)
{
    pes_case_fn *const *fn = *state;
    if (!job)
        job = pes_start(transport, PES, true, reason, sizeof(reason));
    assert_non_null(job);
    const char *failure = pes_run(job, *fn, 120);
    if (failure) {
        char text[700];
        snprintf(text, sizeof(text), "%s", failure);
        (void)pes_stop(job); /* its failure is the one we have */
        job = NULL;          /* the next case gets fresh PEs */
        fail_msg("%s", text);
    }
}

static void closing_leaves_nothing(void **state)
{
    (void)state;
    const char *failure = job ? pes_stop(job) : NULL;
    job = NULL;
    if (failure)
        fail_msg("%s", failure);
}

static const struct {
    const char *name;
    pes_case_fn *fn;
} cases[] = {
    {"zero bytes do nothing", zero_bytes_do_nothing},
    {"connections are made at first use", connections_are_made_at_first_use},
    {"the control area is reachable", control_area_is_reachable},
    {"puts of all sizes", puts_of_all_sizes},
    {"put sources may be reused", put_sources_may_be_reused},
    {"gets of all sizes", gets_of_all_sizes},
    {"transfers cross chunks", transfers_cross_chunks},
    {"random operations match a model", random_operations_match_a_model},
    {"threads do not disturb each other", threads_do_not_disturb_each_other},
    {"atomics do what they say", atomics_do_what_they_say},
    {"atomics without result", atomics_without_result},
    {"atomics are exact together with the owner", atomics_are_exact_together_with_the_owner},
    {"a lock excludes", a_lock_excludes},
    {"a signal never passes its data", a_signal_never_passes_its_data},
    {"signals in flight count", signals_in_flight_count},
    {"fence orders puts and atomics", fence_orders_puts_and_atomics},
    {"quiet completes many", quiet_completes_many},
    {"quiet of one PE", quiet_of_one_pe},
    {"a target need not call", a_target_need_not_call},
    {"memory can be dropped and added", memory_can_be_dropped_and_added},
    {"a stopped peer is not dead", a_stopped_peer_is_not_dead},
    {"opening again and again leaves nothing", opening_again_and_again_leaves_nothing},
};

#ifndef PX_TEST_DISTRUST
#define PX_TEST_DISTRUST 0
#endif
#if PX_TEST_DISTRUST
extern bool px_ofi_distrust;
#endif

int main(int argc, char **argv)
{
#if PX_TEST_DISTRUST
    px_ofi_distrust = true;
#endif
    enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
    struct CMUnitTest tests[COUNT + 2] = {{0}};
    if (argc > 1)
        transport = argv[1];
    if (argc > 2)
        cmocka_set_test_filter(argv[2]); /* as "a dead*" */
    setvbuf(stdout, NULL, _IOLBF, 0);
    job = pes_start(transport, PES, true, reason, sizeof(reason));
    if (!job) {
        printf("1..0 # SKIP %s\n", reason);
        return 0;
    }
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = run, .initial_state = (void *)&cases[i].fn};
    tests[COUNT] =
        (struct CMUnitTest){.name = "closing leaves nothing", .test_func = closing_leaves_nothing};
    tests[COUNT + 1] =
        (struct CMUnitTest){.name = "a dead peer is named", .test_func = a_dead_peer_is_named};
    /* a dead PE's memory can still be reached by shuffle */
    size_t last = strcmp(transport, "shuffle") == 0 ? COUNT + 1 : COUNT + 2;
    return _cmocka_run_group_tests(transport, tests, last, NULL, NULL);
}
