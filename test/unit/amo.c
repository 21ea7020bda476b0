/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations of every type, against a model on bits; the 4 or 8 bytes beside the word must
 * stay as they were. Then several threads on one word. */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nvshmem.h"
#include "test/unit/trio.h"
#include "test/unit/types.h"

static int start(void **state)
{
    trio_start();
    return 0;
}

static int stop(void **state)
{
    trio_stop();
    return 0;
}

static uint64_t cut(uint64_t bits, size_t size)
{
    return size == 4 ? (uint32_t)bits : bits;
}

static uint64_t load(const void *word, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, word, size);
    return bits;
}

/* What the word is to become. */
static uint64_t model(const char *op, uint64_t old, uint64_t value, uint64_t compare)
{
    const char *what = strncmp(op, "fetch_", 6) == 0 ? op + 6 : op;
    if (strcmp(what, "fetch") == 0)
        return old;
    if (strcmp(what, "set") == 0 || strcmp(what, "swap") == 0)
        return value;
    if (strcmp(what, "compare_swap") == 0)
        return old == compare ? value : old;
    if (strcmp(what, "inc") == 0)
        return old + 1;
    if (strcmp(what, "add") == 0)
        return old + value;
    if (strcmp(what, "and") == 0)
        return old & value;
    if (strcmp(what, "or") == 0)
        return old | value;
    assert_string_equal(what, "xor");
    return old ^ value;
}

static void one(const struct amo_type *type, int pe, bool matching)
{
    char *word = trio_base + type->size * (1 + trio_random() % 1000);
    char *target = trio_of(pe, word);
    uint64_t value = trio_random(), result = 0;
    uint64_t old = load(target, type->size);
    uint64_t compare = matching ? old : trio_random();
    uint64_t before = load(target - type->size, type->size);
    uint64_t after = load(target + type->size, type->size);
    type->call(&result, word, &value, &compare, pe);
    if (type->nbi)
        nvshmem_quiet();
    uint64_t wanted =
        cut(model(type->op, old, cut(value, type->size), cut(compare, type->size)), type->size);
    if (load(target, type->size) != wanted)
        fail_msg("%s %s, PE %d: %llx became %llx", type->name, type->op, pe,
                 (unsigned long long)old, (unsigned long long)load(target, type->size));
    if (type->fetches)
        assert_true(result == old);
    assert_true(load(target - type->size, type->size) == before);
    assert_true(load(target + type->size, type->size) == after);
}

static void every_operation_follows_the_model(void **state)
{
    for (const struct amo_type *type = amo_types; type < amo_types + amo_type_count; type++)
        for (int pe = 0; pe < TRIO_PES; pe++)
            for (int round = 0; round < 20; round++)
                one(type, pe, round % 2);
}

/* An nbi result is not promised before quiet, and the trio's transport makes use of that. */
static void nbi_waits_for_quiet(void **state)
{
    long *word = (long *)trio_base, result = 0;
    *(long *)trio_of(2, word) = 41;
    nvshmem_long_atomic_fetch_inc_nbi(&result, word, 2);
    assert_int_equal(trio_pending(), 1);
    nvshmem_quiet();
    assert_int_equal(result, 41);
    assert_int_equal(*(long *)trio_of(2, word), 42);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *hammer(void *arg)
{
    uint32_t *words = arg;
    for (int i = 0; i < ROUNDS; i++) {
        nvshmem_uint32_atomic_inc(&words[0], 1);
        (void)nvshmem_uint64_atomic_fetch_add((uint64_t *)words + 1, 3, 1);
        for (uint32_t old = nvshmem_uint32_atomic_fetch(&words[4], 1), seen;
             (seen = nvshmem_uint32_atomic_compare_swap(&words[4], old, old + 5, 1)) != old;)
            old = seen;
    }
    return NULL;
}

static void threads_lose_no_update(void **state)
{
    uint32_t *words = (uint32_t *)trio_base, *theirs = trio_of(1, words);
    pthread_t threads[THREADS];
    memset(theirs, 0, 32);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, words), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(theirs[0], THREADS * ROUNDS);
    assert_int_equal(((uint64_t *)theirs)[1], 3 * THREADS * ROUNDS);
    assert_int_equal(theirs[4], 5 * THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_follows_the_model),
        cmocka_unit_test(nbi_waits_for_quiet),
        cmocka_unit_test(threads_lose_no_update),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
