/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_until and test of every type: comparisons against a model, sets with and without a status,
 * empty sets, elements that stay true, waits that a second thread ends, and signals awaited as
 * words and words as signals. */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "nvshmem.h"
#include "nvshmemx.h"
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

static const int comparisons[] = {NVSHMEM_CMP_EQ, NVSHMEM_CMP_NE, NVSHMEM_CMP_GT,
                                  NVSHMEM_CMP_LE, NVSHMEM_CMP_LT, NVSHMEM_CMP_GE};
enum { COMPARISONS = 6, N = 9 };

/* Sign extension by the book, 128 bits wide so that all types fit. */
static __int128 number(const struct wait_type *type, const void *place)
{
    uint64_t bits = 0;
    memcpy(&bits, place, type->size);
    __int128 value = bits, half = (__int128)1 << (8 * type->size - 1);
    return type->is_signed && value >= half ? value - 2 * half : value;
}

static bool model(const struct wait_type *type, const void *seen, int cmp, const void *value)
{
    __int128 a = number(type, seen), b = number(type, value);
    return cmp == NVSHMEM_CMP_EQ   ? a == b
           : cmp == NVSHMEM_CMP_NE ? a != b
           : cmp == NVSHMEM_CMP_GT ? a > b
           : cmp == NVSHMEM_CMP_LE ? a <= b
           : cmp == NVSHMEM_CMP_LT ? a < b
                                   : a >= b;
}

/* Values near each other and near the ends of the range, where sign mistakes show. */
static void interesting(const struct wait_type *type, void *place)
{
    static const uint64_t corners[] = {0,      1,          ~0ull,      ~0ull - 1,  0x8000,
                                       0x7fff, 0x80000000, 0x7fffffff, 1ull << 63, ~0ull >> 1};
    uint64_t value = corners[trio_random() % (sizeof corners / sizeof *corners)];
    memcpy(place, &value, type->size);
}

static void comparisons_follow_the_type(void **state)
{
    for (const struct wait_type *type = wait_types; type < wait_types + wait_type_count; type++)
        for (int round = 0; round < 300; round++) {
            int cmp = comparisons[round % COMPARISONS];
            char value[8];
            interesting(type, trio_base);
            interesting(type, value);
            bool wanted = model(type, trio_base, cmp, value);
            assert_int_equal(type->test(trio_base, cmp, value), wanted);
            if (wanted)
                type->wait_until(trio_base, cmp, value);
        }
}

static void one_set(const struct wait_type *type, bool with_status, bool vector)
{
    size_t size = type->size, indices[N], hits = 0, left = 0;
    int cmp = comparisons[trio_random() % COMPARISONS], status[N];
    char values[N * 8];
    bool wanted[N] = {false};
    for (size_t i = 0; i < N; i++) {
        interesting(type, trio_base + i * size);
        interesting(type, values + i * size);
        status[i] = trio_random() % 3 == 0 ? 7 : 0;
        if (with_status && status[i])
            continue;
        left++;
        wanted[i] = model(type, trio_base + i * size, cmp, values + (vector ? i : 0) * size);
        hits += wanted[i];
    }
    const int *mask = with_status ? status : NULL;
    assert_int_equal(type->test_all(trio_base, N, mask, cmp, values, vector), hits == left);
    size_t any = type->test_any(trio_base, N, mask, cmp, values, vector);
    assert_true(hits ? any < N && wanted[any] : any == SIZE_MAX);
    assert_int_equal(type->test_some(trio_base, N, indices, mask, cmp, values, vector), hits);
    for (size_t i = 0; i < hits; i++)
        assert_true(indices[i] < N && wanted[indices[i]] &&
                    (i == 0 || indices[i] > indices[i - 1]));
    if (hits || !left) {
        any = type->wait_any(trio_base, N, mask, cmp, values, vector);
        assert_true(left ? any < N && wanted[any] : any == SIZE_MAX);
        assert_int_equal(type->wait_some(trio_base, N, indices, mask, cmp, values, vector), hits);
    }
    if (hits == left)
        type->wait_all(trio_base, N, mask, cmp, values, vector);
}

static void sets_follow_the_model(void **state)
{
    for (const struct wait_type *type = wait_types; type < wait_types + wait_type_count; type++)
        for (int round = 0; round < 200; round++)
            one_set(type, round & 1, round & 2);
}

static void masked_and_empty_sets_return_at_once(void **state)
{
    static const int all[N] = {1, -1, 2, 1, 1, 1, 1, 1, 1};
    for (const struct wait_type *type = wait_types; type < wait_types + wait_type_count; type++)
        for (int vector = 0; vector < 2; vector++)
            for (size_t n = 0; n <= N; n += N) {
                char values[N * 8] = {0};
                size_t indices[N];
                void *ivars = n ? trio_base : NULL;
                const int *mask = n ? all : NULL;
                type->wait_all(ivars, n, mask, NVSHMEM_CMP_EQ, values, vector);
                assert_true(type->wait_any(ivars, n, mask, NVSHMEM_CMP_EQ, values, vector) ==
                            SIZE_MAX);
                assert_int_equal(
                    type->wait_some(ivars, n, indices, mask, NVSHMEM_CMP_EQ, values, vector), 0);
                assert_int_equal(type->test_all(ivars, n, mask, NVSHMEM_CMP_EQ, values, vector), 1);
                assert_true(type->test_any(ivars, n, mask, NVSHMEM_CMP_EQ, values, vector) ==
                            SIZE_MAX);
                assert_int_equal(
                    type->test_some(ivars, n, indices, mask, NVSHMEM_CMP_EQ, values, vector), 0);
            }
}

/* Two sets tested by turns: the start of a look must not fall into step with them. */
static void an_element_that_stays_true_is_reported(void **state)
{
    int *words = (int *)trio_base;
    unsigned seen[2][N] = {{0}};
    memset(words, 0, 2 * N * sizeof *words);
    for (int round = 0; round < 100 * N; round++)
        seen[round % 2][nvshmem_int_test_any(words + round % 2 * N, N, NULL, NVSHMEM_CMP_EQ, 0)]++;
    for (int i = 0; i < N; i++) {
        assert_true(seen[0][i] > 0);
        assert_true(seen[1][i] > 0);
    }
}

/* A second thread fulfils what the first one waits for, element by element. */
struct delivery {
    const struct wait_type *type;
    size_t n;
};

static void *deliver(void *arg)
{
    const struct delivery *delivery = arg;
    for (size_t i = 0; i < delivery->n; i++) {
        usleep(200);
        char *word = trio_base + i * delivery->type->size;
        if (delivery->type->size == 2)
            __atomic_store_n((uint16_t *)word, 5, __ATOMIC_RELEASE);
        else if (delivery->type->size == 4)
            __atomic_store_n((uint32_t *)word, 5, __ATOMIC_RELEASE);
        else
            __atomic_store_n((uint64_t *)word, 5, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void waits_end_when_the_last_element_comes(void **state)
{
    for (const struct wait_type *type = wait_types; type < wait_types + wait_type_count; type++) {
        struct delivery delivery = {.type = type, .n = N};
        uint64_t five = 5;
        size_t indices[N], taken = 0;
        int status[N] = {0};
        pthread_t thread;
        memset(trio_base, 0, N * type->size);
        assert_int_equal(pthread_create(&thread, NULL, deliver, &delivery), 0);
        type->wait_until(trio_base, NVSHMEM_CMP_EQ, &five);
        while (taken < N) { /* each element is taken once */
            size_t count =
                type->wait_some(trio_base, N, indices, status, NVSHMEM_CMP_EQ, &five, false);
            assert_true(count > 0);
            for (size_t i = 0; i < count; i++)
                status[indices[i]] = 1;
            taken += count;
        }
        assert_int_equal(taken, N);
        type->wait_all(trio_base, N, NULL, NVSHMEM_CMP_EQ, &five, false);
        pthread_join(thread, NULL);
    }
}

static void *send(void *arg)
{
    uint64_t *word = arg;
    usleep(1000);
    nvshmem_signal_add(word, 4, 0);
    usleep(1000);
    nvshmemx_signal_op(word + 1, 17, NVSHMEM_SIGNAL_SET, 0);
    usleep(1000);
    nvshmem_uint64_atomic_set(word + 2, 23, 0);
    return NULL;
}

static void signals_and_words_can_be_awaited_as_each_other(void **state)
{
    uint64_t *words = (uint64_t *)trio_base;
    pthread_t thread;
    memset(words, 0, 3 * sizeof *words);
    assert_int_equal(pthread_create(&thread, NULL, send, words), 0);
    assert_int_equal(nvshmem_signal_wait_until(&words[0], NVSHMEM_CMP_GE, 3),
                     4); /* what satisfied it */
    nvshmem_uint64_wait_until(&words[1], NVSHMEM_CMP_EQ, 17);
    assert_int_equal(nvshmem_signal_wait_until(&words[2], NVSHMEM_CMP_NE, 0), 23);
    assert_int_equal(nvshmem_signal_fetch(&words[1]), 17);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons_follow_the_type),
        cmocka_unit_test(sets_follow_the_model),
        cmocka_unit_test(masked_and_empty_sets_return_at_once),
        cmocka_unit_test(an_element_that_stays_true_is_reported),
        cmocka_unit_test(waits_end_when_the_last_element_comes),
        cmocka_unit_test(signals_and_words_can_be_awaited_as_each_other),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
