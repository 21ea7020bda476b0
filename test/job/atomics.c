/* SPDX-License-Identifier: BSD-3-Clause */
/* Every atomic operation of every type from all PEs on one word at once, so that mapped and remote PEs meet on it: sums
 * are exact, bits are where their PE put them, swapped values are neither lost nor doubled, and nothing is torn.
 * First argument: increments of the one big counter, in all. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nvshmem.h"
#include "test/job/tap.h"
#include "test/unit/types.h"

#define ROUNDS 25

static int me, n;
static uint64_t *word; /* on every PE; the one of PE 0 is hit */

static uint64_t call(const struct amo_type *type, uint64_t value, uint64_t compare)
{
    uint64_t result = 0;
    type->call(&result, word, &value, &compare, 0);
    if (type->nbi)
        nvshmem_quiet();
    return result;
}

static const struct amo_type *find(const char *name, const char *op)
{
    for (size_t i = 0; i < amo_type_count; i++)
        if (strcmp(amo_types[i].name, name) == 0 && strcmp(amo_types[i].op, op) == 0)
            return &amo_types[i];
    abort();
}

static uint64_t cut(uint64_t bits, const struct amo_type *type)
{
    return type->size == 4 ? (uint32_t)bits : bits;
}

/* All PEs act between two barriers on a word that starts as `start`; returns what it became. */
typedef void act_fn(const struct amo_type *type);
static uint64_t all_at_once(const struct amo_type *type, uint64_t start, act_fn *act)
{
    if (me == 0)
        memcpy(word, &start, type->size);
    nvshmem_barrier_all();
    act(type);
    nvshmem_barrier_all();
    uint64_t end = 0;
    nvshmem_getmem(&end, word, type->size, 0);
    nvshmem_barrier_all();
    return end;
}

static void count(const struct amo_type *type)
{
    for (int i = 0; i < ROUNDS; i++)
        (void)call(type, (uint64_t)me + 1, 0);
}

static void toggle(const struct amo_type *type) /* an odd number of times */
{
    for (int i = 0; i < ROUNDS; i++)
        (void)call(type, (uint64_t)1 << me, 0);
}

static void clear_bit(const struct amo_type *type)
{
    (void)call(type, ~((uint64_t)1 << me), 0);
}

static void count_by_compare_swap(const struct amo_type *type)
{
    const struct amo_type *fetch = find(type->name, "fetch");
    for (int i = 0; i < ROUNDS; i++)
        for (uint64_t seen, old = call(fetch, 0, 0); (seen = call(type, old + 1, old)) != old;)
            old = seen;
}

/* What a PE puts in and takes out; over all PEs the difference is what is left in the word. */
static uint64_t balance;
static void pass_on(const struct amo_type *type)
{
    balance = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t value = (uint64_t)(me + 1) * 1000 + (uint64_t)i;
        balance += value - call(type, value, 0);
    }
}

static uint64_t sum_of(uint64_t value)
{
    static uint64_t *in, *out;
    if (!in) {
        in = nvshmem_malloc(sizeof *in);
        out = nvshmem_malloc(sizeof *out);
    }
    *in = value;
    nvshmem_uint64_sum_reduce(NVSHMEM_TEAM_WORLD, out, in, 1);
    return *out;
}

/* Words whose bytes are all equal, set by everybody and fetched by everybody. */
static unsigned torn;
static void set_and_look(const struct amo_type *type)
{
    const struct amo_type *fetch = find(type->name, "fetch");
    for (int i = 0; i < ROUNDS; i++) {
        (void)call(type, 0x0101010101010101u * (uint64_t)(me + 1), 0);
        uint64_t seen = call(fetch, 0, 0);
        torn += seen != cut(0x0101010101010101u * (seen & 0xff), type);
    }
}

static void one_operation(const struct amo_type *type)
{
    uint64_t bits = ((uint64_t)1 << n) - 1, people = (uint64_t)n * (uint64_t)(n + 1) / 2, end;
    const char *op = strncmp(type->op, "fetch_", 6) == 0 ? type->op + 6 : type->op;
    const char *form = type->nbi ? "_nbi" : "";
    if (strcmp(op, "inc") == 0 || strcmp(op, "add") == 0) {
        end = all_at_once(type, 7, count);
        ok(end == cut(7 + ROUNDS * (*op == 'i' ? (uint64_t)n : people), type), "%s %s%s: %llx",
           type->name, type->op, form, (unsigned long long)end);
    } else if (strcmp(op, "xor") == 0 || strcmp(op, "or") == 0) {
        end = all_at_once(type, 0, toggle);
        ok(end == bits, "%s %s%s: %llx", type->name, type->op, form, (unsigned long long)end);
    } else if (strcmp(op, "and") == 0) {
        end = all_at_once(type, ~(uint64_t)0, clear_bit);
        ok(end == cut(~bits, type), "%s %s%s: %llx", type->name, type->op, form,
           (unsigned long long)end);
    } else if (strcmp(op, "compare_swap") == 0) {
        end = all_at_once(type, 0, count_by_compare_swap);
        ok(end == (uint64_t)n * ROUNDS, "%s %s%s: %llu", type->name, type->op, form,
           (unsigned long long)end);
    } else if (strcmp(op, "swap") == 0) {
        end = all_at_once(type, 0, pass_on);
        uint64_t left = sum_of(balance);
        ok(end == left, "%s %s%s: %llu of %llu", type->name, type->op, form,
           (unsigned long long)end, (unsigned long long)left);
    } else if (strcmp(op, "set") == 0) {
        torn = 0;
        (void)all_at_once(type, 0, set_and_look);
        ok(torn == 0, "%s set and fetch: %u torn", type->name, torn);
    }
}

static void one_big_counter(long increments)
{
    long mine = increments / n + (me < increments % n);
    long *counter = nvshmem_calloc(1, sizeof *counter);
    for (long i = 0; i < mine; i++)
        nvshmem_long_atomic_inc(counter, 0);
    nvshmem_barrier_all();
    long seen = nvshmem_long_atomic_fetch(counter, 0);
    ok(seen == increments, "%ld increments of one word: %ld", increments, seen);
    nvshmem_free(counter);
}

int main(int argc, char **argv)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    tap_start(me);
    word = nvshmem_malloc(sizeof *word);
    for (size_t i = 0; i < amo_type_count; i++)
        one_operation(&amo_types[i]);
    one_big_counter(argc > 1 ? strtol(argv[1], NULL, 0) : 20000);
    nvshmem_free(word);
    nvshmem_finalize();
    return tap_done();
}
