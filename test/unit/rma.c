/* SPDX-License-Identifier: BSD-3-Clause */
/* Put, get, strided forms and put-with-signal of every type and width, to a mapped PE, a remote one
 * and the caller itself, against copies made by hand. What surrounds the destination must stay as
 * it was. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nvshmem.h"
#include "test/unit/trio.h"
#include "test/unit/types.h"

#define BYTES 65536 /* of the two regions of a case, in the symmetric window */

static char *there, *here; /* symmetric destination or source; local memory */
static char expected[BYTES];

static int start(void **state)
{
    trio_start();
    there = trio_base + 4096;
    here = trio_base + 4096 + 2 * BYTES;
    return 0;
}

static int stop(void **state)
{
    trio_stop();
    return 0;
}

/* New contents; `expected` is what the symmetric region of `pe` (put) or the local one (get) holds
 * now. */
static void refresh(int pe, bool put)
{
    for (int i = 0; i < TRIO_PES; i++)
        trio_fill(trio_of(i, there), BYTES);
    trio_fill(here, BYTES);
    memcpy(expected, put ? trio_of(pe, there) : (void *)here, BYTES);
}

static void same(const void *seen, const struct rma_type *type, const char *call, int pe, size_t n)
{
    if (memcmp(seen, expected, BYTES) != 0)
        fail_msg("%s %s of %zu elements, PE %d", type->name, call, n, pe);
}

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 63, 300};

typedef void each_fn(const struct rma_type *type, int pe, size_t n);

/* Unaligned too: two odd offsets for each count. */
static size_t to_offset, from_offset;
static void each(each_fn *fn)
{
    for (const struct rma_type *type = rma_types; type < rma_types + rma_type_count; type++)
        for (int pe = 0; pe < TRIO_PES; pe++)
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
                to_offset = trio_random() % 64 * (trio_random() % 2 ? 1 : type->size);
                from_offset = trio_random() % 64 * (trio_random() % 2 ? 1 : type->size);
                fn(type, pe, counts[k]);
            }
}

static void one_put(const struct rma_type *type, int pe, size_t n)
{
    refresh(pe, true);
    memcpy(expected + to_offset, here + from_offset, n * type->size);
    type->put(there + to_offset, here + from_offset, n, pe);
    same(trio_of(pe, there), type, "put", pe, n);
}

static void one_get(const struct rma_type *type, int pe, size_t n)
{
    refresh(pe, false);
    memcpy(expected + to_offset, (char *)trio_of(pe, there) + from_offset, n * type->size);
    type->get(here + to_offset, there + from_offset, n, pe);
    same(here, type, "get", pe, n);
}

static void one_put_nbi(const struct rma_type *type, int pe, size_t n)
{
    if (!type->put_nbi)
        return;
    refresh(pe, true);
    memcpy(expected + to_offset, here + from_offset, n * type->size);
    type->put_nbi(there + to_offset, here + from_offset, n, pe);
    nvshmem_quiet();
    same(trio_of(pe, there), type, "put_nbi", pe, n);
}

static void one_get_nbi(const struct rma_type *type, int pe, size_t n)
{
    if (!type->get_nbi)
        return;
    refresh(pe, false);
    memcpy(expected + to_offset, (char *)trio_of(pe, there) + from_offset, n * type->size);
    type->get_nbi(here + to_offset, there + from_offset, n, pe);
    nvshmem_pe_quiet(&pe, 1);
    same(here, type, "get_nbi", pe, n);
}

static void put_arrives(void **state)
{
    each(one_put);
}

static void get_fetches(void **state)
{
    each(one_get);
}

static void put_nbi_is_there_after_quiet(void **state)
{
    each(one_put_nbi);
}

static void get_nbi_is_there_after_pe_quiet(void **state)
{
    each(one_get_nbi);
}

static void one_scalar(const struct rma_type *type, int pe, size_t n)
{
    char value[16] = {0};
    if (!type->p)
        return;
    refresh(pe, true);
    memcpy(expected + to_offset, here + from_offset, type->size);
    memcpy(value, here + from_offset, type->size);
    type->p(there + to_offset, value, pe);
    same(trio_of(pe, there), type, "p", pe, 1);
    memset(value, 0, sizeof value);
    type->g(value, there + to_offset, pe);
    assert_memory_equal(value, here + from_offset, type->size);
}

static void p_and_g_carry_one_element(void **state)
{
    each(one_scalar);
}

static void one_iput(const struct rma_type *type, int pe, size_t n)
{
    if (!type->iput)
        return;
    size_t to = 1 + trio_random() % 4, from = 1 + trio_random() % 4, size = type->size;
    refresh(pe, true);
    for (size_t i = 0; i < n; i++)
        memcpy(expected + to_offset + i * to * size, here + from_offset + i * from * size, size);
    type->iput(there + to_offset, here + from_offset, (ptrdiff_t)to, (ptrdiff_t)from, n, pe);
    assert_int_equal(trio_pending(), 0); /* the source may be reused at once */
    same(trio_of(pe, there), type, "iput", pe, n);
}

static void one_iget(const struct rma_type *type, int pe, size_t n)
{
    if (!type->iget)
        return;
    size_t to = 1 + trio_random() % 4, from = 1 + trio_random() % 4, size = type->size;
    refresh(pe, false);
    for (size_t i = 0; i < n; i++)
        memcpy(expected + to_offset + i * to * size,
               (char *)trio_of(pe, there) + from_offset + i * from * size, size);
    type->iget(here + to_offset, there + from_offset, (ptrdiff_t)to, (ptrdiff_t)from, n, pe);
    same(here, type, "iget", pe, n);
}

static void strides_are_in_elements(void **state)
{
    each(one_iput);
    each(one_iget);
}

/* Both operators; zero elements signal too. */
static void one_signal(const struct rma_type *type, int pe, size_t n)
{
    if (!type->put_signal)
        return;
    uint64_t *word = (uint64_t *)(trio_base + 8 * (1 + trio_random() % 100));
    uint64_t *signal = trio_of(pe, word), before = *signal, value = trio_random();
    bool add = trio_random() % 2, nbi = trio_random() % 2;
    refresh(pe, true);
    memcpy(expected + to_offset, here + from_offset, n * type->size);
    (nbi ? type->put_signal_nbi
         : type->put_signal)(there + to_offset, here + from_offset, n, word, value,
                             add ? NVSHMEM_SIGNAL_ADD : NVSHMEM_SIGNAL_SET, pe);
    nvshmem_quiet();
    same(trio_of(pe, there), type, "put_signal", pe, n);
    assert_true(*signal == (add ? before + value : value));
}

static void put_signal_carries_data_and_signal(void **state)
{
    each(one_signal);
}

/* The one overlap that is defined. */
static void a_put_onto_itself_changes_nothing(void **state)
{
    for (const struct rma_type *type = rma_types; type < rma_types + rma_type_count; type++) {
        refresh(0, true);
        type->put(there, there, BYTES / type->size, 0);
        same(there, type, "put", 0, BYTES / type->size);
    }
}

/* Pointers of empty transfers are not looked at. */
static void empty_transfers_touch_nothing(void **state)
{
    for (const struct rma_type *type = rma_types; type < rma_types + rma_type_count; type++)
        for (int pe = 0; pe < TRIO_PES; pe++) {
            type->put(NULL, NULL, 0, pe);
            type->get(NULL, NULL, 0, pe);
            if (type->put_nbi)
                type->put_nbi(NULL, NULL, 0, pe);
            if (type->get_nbi)
                type->get_nbi(NULL, NULL, 0, pe);
            if (type->iput)
                type->iput(NULL, NULL, 1, 1, 0, pe);
            if (type->iget)
                type->iget(NULL, NULL, 1, 1, 0, pe);
        }
    assert_int_equal(trio_pending(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_arrives),
        cmocka_unit_test(get_fetches),
        cmocka_unit_test(put_nbi_is_there_after_quiet),
        cmocka_unit_test(get_nbi_is_there_after_pe_quiet),
        cmocka_unit_test(p_and_g_carry_one_element),
        cmocka_unit_test(strides_are_in_elements),
        cmocka_unit_test(put_signal_carries_data_and_signal),
        cmocka_unit_test(a_put_onto_itself_changes_nothing),
        cmocka_unit_test(empty_transfers_touch_nothing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
