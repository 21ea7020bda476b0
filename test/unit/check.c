/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library says about wrong calls: every kind of mistake, the words that must be in its
 * message, and that the right call beside it passes. Also what is refused without NVSHMEM_CHECK. */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nvshmem.h"
#include "nvshmemx.h"
#include "src/api/world.h"
#include "test/unit/trio.h"
#include "test/unit/types.h"

static long *block; /* of 10 longs */
static long local[20];
static long *freed;

static int start(void **state)
{
    trio_start();
    block = trio_malloc(10 * sizeof *block);
    freed = trio_malloc(5000);
    trio_free(freed);
    return 0;
}

static int stop(void **state)
{
    trio_stop();
    return 0;
}

/* The message of a call that must be refused has all these words. */
static void refused(trio_fn *fn, const char *words[])
{
    const char *message = trio_fatal(fn, NULL);
    for (size_t i = 0; words[i]; i++)
        if (!strstr(message, words[i]))
            fail_msg("\"%s\" is not in \"%s\"", words[i], message);
}
#define WORDS(...)                                                                                 \
    (const char *[])                                                                               \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void passes(trio_fn *fn)
{
    assert_string_equal(trio_fatal(fn, NULL), "");
}

static void put_to_nobody(void *arg)
{
    nvshmem_long_put(block, local, 1, TRIO_PES);
}

static void get_from_negative(void *arg)
{
    nvshmem_getmem(local, block, 8, -1);
}

static void p_to_nobody(void *arg)
{
    nvshmem_char_p((char *)block, 'x', 1000);
}

static void add_on_nobody(void *arg)
{
    nvshmem_long_atomic_add(block, 1, 7);
}

static void empty_to_nobody(void *arg)
{
    nvshmem_long_put_nbi(NULL, NULL, 0, -5);
}

static void pe_quiet_of_nobody(void *arg)
{
    static const int pes[] = {0, 3};
    nvshmem_pe_quiet(pes, 2);
}

static void pe_numbers_are_checked_always(void **state)
{
    for (px_gate = 0; px_gate <= PX_GATE_CHECK; px_gate += PX_GATE_CHECK) {
        refused(put_to_nobody, WORDS("nvshmem_long_put:", "PE 3", "0 to 2"));
        refused(get_from_negative, WORDS("nvshmem_getmem:", "PE -1"));
        refused(p_to_nobody, WORDS("nvshmem_char_p:", "PE 1000"));
        refused(add_on_nobody, WORDS("nvshmem_long_atomic_add:", "PE 7"));
        refused(empty_to_nobody, WORDS("nvshmem_long_put_nbi:", "PE -5"));
        refused(pe_quiet_of_nobody, WORDS("nvshmem_pe_quiet:", "PE 3"));
    }
    px_gate = 0;
}

static void signal_with_comparison(void *arg)
{
    nvshmem_putmem_signal(block, local, 8, (uint64_t *)block + 9, 1, NVSHMEM_CMP_EQ, 1);
}

static void wait_with_signal_op(void *arg)
{
    nvshmem_signal_wait_until((uint64_t *)block, NVSHMEM_SIGNAL_SET, 1);
}

static void test_with_signal_op(void *arg)
{
    (void)nvshmem_long_test(block, NVSHMEM_SIGNAL_ADD, 1);
}

static void wait_any_with_team(void *arg)
{
    (void)nvshmem_long_wait_until_any(block, 2, NULL, NVSHMEM_TEAM_SHARED, 1);
}

static void signal_op_with_number(void *arg)
{
    nvshmemx_signal_op((uint64_t *)block, 1, 9, 1);
}

static void constants_of_another_set_are_refused_always(void **state)
{
    refused(signal_with_comparison,
            WORDS("nvshmem_putmem_signal:", "comparison", "NVSHMEM_SIGNAL_SET"));
    refused(wait_with_signal_op,
            WORDS("nvshmem_signal_wait_until:", "signal operation", "NVSHMEM_CMP_EQ"));
    refused(test_with_signal_op, WORDS("nvshmem_long_test:", "signal operation"));
    refused(wait_any_with_team, WORDS("nvshmem_long_wait_until_any:", "cmp is 1"));
    refused(signal_op_with_number, WORDS("nvshmemx_signal_op:", "sig_op is 9"));
}

static void put_in_the_block(void *arg)
{
    nvshmem_long_put(block, local, 10, 1);
    nvshmem_long_iput(block, local, 3, 2, 4, 2);
    nvshmem_long_put(NULL, NULL, 0, 1);
    nvshmem_long_atomic_add(block + 9, 1, 2);
    nvshmem_long_put(block, block, 10, 0);
    (void)nvshmem_long_test(block, NVSHMEM_CMP_EQ, 0);
}

static void put_local(void *arg)
{
    nvshmem_long_put(local, block, 1, 1);
}

static void put_unmapped(void *arg)
{
    nvshmem_long_put((long *)64, block, 1, 1);
}

static void put_peer_address(void *arg)
{
    nvshmem_putmem(trio_of(1, block + 2), local, 8, 1);
}

static void put_past_end(void *arg)
{
    nvshmem_long_put(block + 3, local, 8, 1);
}

static void put_nbi_past_end_remote(void *arg)
{
    nvshmem_long_put_nbi(block, local, 11, 2);
}

static void get_freed(void *arg)
{
    nvshmem_getmem(local, (char *)freed + 12, 4, 1);
}

static void get_unallocated(void *arg)
{
    nvshmem_getmem(local, trio_base + TRIO_WINDOW - 4096, 4, 1);
}

static void iput_past_end(void *arg)
{
    nvshmem_long_iput(block, local, 3, 1, 5, 1);
}

static void iput_backwards(void *arg)
{
    nvshmem_long_iput(block, local, -1, 1, 2, 1);
}

static void put_minus_one(void *arg)
{
    nvshmem_long_put(block, local, (size_t)-1, 1);
}

static void put_that_overflows(void *arg)
{
    nvshmem_long_put(block, local, (size_t)1 << 61, 1); /* times 8 is 0 */
}

static void put_onto_itself_shifted(void *arg)
{
    nvshmem_long_put(block + 1, block, 5, 0);
}

static void odd_atomic(void *arg)
{
    (void)nvshmem_int_atomic_fetch((int *)((char *)block + 2), 1);
}

static void odd_signal(void *arg)
{
    nvshmem_long_put_signal(block, local, 1, (uint64_t *)((char *)block + 12), 1,
                            NVSHMEM_SIGNAL_SET, 1);
}

static void wait_on_local(void *arg)
{
    nvshmem_long_wait_until(local, NVSHMEM_CMP_EQ, 0);
}

static void wait_past_end(void *arg)
{
    nvshmem_long_wait_until_all(block, 11, NULL, NVSHMEM_CMP_NE, 77);
}

static void lock_local(void *arg)
{
    nvshmem_set_lock(local);
}

static void set_twice(void *arg)
{
    memset(block, 0, 8);
    nvshmem_set_lock(block);
    nvshmem_set_lock(block);
}

static void clear_unheld(void *arg)
{
    memset(block, 0, 8);
    nvshmem_clear_lock(block);
}

static void test_held(void *arg)
{
    memset(block, 0, 8);
    nvshmem_set_lock(block);
    (void)nvshmem_test_lock(block);
}

static void locks_know_their_holder(void **state)
{
    memset(trio_of(1, block), 0, 8);
    memset(trio_of(2, block), 0, 8);
    refused(set_twice, WORDS("nvshmem_set_lock:", "holds the lock"));
    memset(trio_of(1, block), 0, 8);
    memset(trio_of(2, block), 0, 8);
    refused(test_held, WORDS("nvshmem_test_lock:", "holds the lock"));
    refused(clear_unheld, WORDS("nvshmem_clear_lock:", "does not hold"));
}

static void with_checks_addresses_are_named(void **state)
{
    char address[32];
    px_gate = PX_GATE_CHECK;
    passes(put_in_the_block);
    snprintf(address, sizeof address, "%p", (void *)local);
    refused(put_local,
            WORDS("nvshmem_long_put:", "dest", address, "not symmetric", "ordinary memory"));
    refused(put_unmapped, WORDS("nvshmem_long_put:", "0x40", "no mapped memory"));
    snprintf(address, sizeof address, "%p", (void *)(block + 2));
    refused(put_peer_address, WORDS("nvshmem_putmem:", "PE 1", "nvshmem_ptr", address));
    refused(put_past_end, WORDS("nvshmem_long_put:", "64 bytes", "past the end", "80 bytes"));
    refused(put_nbi_past_end_remote, WORDS("nvshmem_long_put_nbi:", "88 bytes", "past the end"));
    refused(get_freed, WORDS("nvshmem_getmem:", "source", "freed", "12 bytes into", "5000 bytes"));
    refused(get_unallocated, WORDS("nvshmem_getmem:", "not allocated"));
    refused(iput_past_end, WORDS("nvshmem_long_iput:", "past the end", "104 bytes"));
    refused(iput_backwards, WORDS("nvshmem_long_iput:", "stride of dest is -1"));
    refused(put_minus_one, WORDS("nvshmem_long_put:", "count", "-1"));
    refused(put_that_overflows, WORDS("nvshmem_long_put:", "count", "2305843009213693952"));
    refused(put_onto_itself_shifted, WORDS("nvshmem_long_put:", "8 bytes apart", "overlap"));
    refused(odd_atomic, WORDS("nvshmem_int_atomic_fetch:", "source", "aligned to the 4 bytes"));
    refused(odd_signal, WORDS("nvshmem_long_put_signal:", "sig_addr", "aligned to the 8 bytes"));
    refused(wait_on_local, WORDS("nvshmem_long_wait_until:", "ivar", "not symmetric"));
    refused(wait_past_end, WORDS("nvshmem_long_wait_until_all:", "ivars", "past the end"));
    refused(lock_local, WORDS("nvshmem_set_lock:", "lock", "not symmetric"));
    px_gate = 0;
    passes(put_in_the_block);
}

/* Every typed call checks its address and names itself: a loop over all of them with private
 * memory. */
static const struct rma_type *type;
static void typed_put(void *arg)
{
    type->put(local, block, 1, 1);
}
static void typed_get(void *arg)
{
    type->get(local, local + 10, 1, 2);
}
static void typed_put_nbi(void *arg)
{
    type->put_nbi(local, block, 1, 1);
}
static void typed_get_nbi(void *arg)
{
    type->get_nbi(local, local + 10, 1, 2);
}
static void typed_p(void *arg)
{
    type->p(local, block, 1);
}
static void typed_g(void *arg)
{
    type->g(local, local + 10, 1);
}
static void typed_iput(void *arg)
{
    type->iput(local, block, 1, 1, 1, 1);
}
static void typed_iget(void *arg)
{
    type->iget(local, local + 10, 1, 1, 1, 1);
}
static void typed_put_signal(void *arg)
{
    type->put_signal(local, block, 1, (uint64_t *)block, 1, NVSHMEM_SIGNAL_SET, 1);
}

static void typed_refused(trio_fn *fn, const char *op, bool exists)
{
    char name[64];
    if (!exists)
        return;
    if (type->name[0] >= 'a' && strcmp(type->name, "mem") != 0)
        snprintf(name, sizeof name, "nvshmem_%s_%s:", type->name, op);
    else /* nvshmem_put8_nbi */
        snprintf(name, sizeof name, "nvshmem_%.*s%s%s:", (int)strcspn(op, "_"), op, type->name,
                 op + strcspn(op, "_"));
    refused(fn, WORDS(name, "not symmetric"));
}

static void every_typed_call_names_itself(void **state)
{
    px_gate = PX_GATE_CHECK;
    for (type = rma_types; type < rma_types + rma_type_count; type++) {
        if (strchr(type->name, ','))
            continue; /* the generic forms call the typed ones */
        typed_refused(typed_put, "put", true);
        typed_refused(typed_get, "get", true);
        typed_refused(typed_put_nbi, "put_nbi", type->put_nbi);
        typed_refused(typed_get_nbi, "get_nbi", type->get_nbi);
        typed_refused(typed_p, "p", type->p);
        typed_refused(typed_g, "g", type->g);
        typed_refused(typed_iput, "iput", type->iput);
        typed_refused(typed_iget, "iget", type->iget);
        typed_refused(typed_put_signal, "put_signal", type->put_signal);
    }
    px_gate = 0;
}

static void amo_on_local(void *arg)
{
    const struct amo_type *amo = arg;
    long result;
    amo->call(&result, local, block, block, 1);
}

static void every_atomic_names_itself(void **state)
{
    px_gate = PX_GATE_CHECK;
    for (const struct amo_type *amo = amo_types; amo < amo_types + amo_type_count; amo++) {
        char name[64];
        snprintf(name, sizeof name, "nvshmem_%s_atomic_%s%s:", amo->name, amo->op,
                 amo->nbi ? "_nbi" : "");
        const char *message = trio_fatal(amo_on_local, (void *)(uintptr_t)amo);
        assert_true(strstr(message, name) == message);
        assert_non_null(strstr(message, "not symmetric"));
    }
    px_gate = 0;
}

static void put_well(void *arg)
{
    nvshmem_long_put(block, local, 1, 1);
}

static void fence(void *arg)
{
    nvshmem_fence();
}

static void g_well(void *arg)
{
    (void)nvshmem_half_g((nvshmemx_half_t *)block, 1);
}

static void a_library_that_is_down_says_why(void **state)
{
    px_gate = PX_GATE_DOWN;
    px_world.life = PX_LIFE_NEW;
    refused(put_well, WORDS("nvshmem_long_put:", "before nvshmem_init"));
    refused(fence, WORDS("nvshmem_fence:", "before nvshmem_init"));
    px_world.life = PX_LIFE_FINALIZED;
    refused(g_well, WORDS("nvshmem_half_g:", "after nvshmem_finalize"));
    px_world.life = PX_LIFE_FAILED;
    snprintf(px_world.failure.text, sizeof px_world.failure.text, "the moon was full");
    refused(put_well, WORDS("nvshmem_long_put:", "failed", "the moon was full"));
    px_world.life = PX_LIFE_UP;
    px_gate = 0;
    passes(put_well);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pe_numbers_are_checked_always),
        cmocka_unit_test(constants_of_another_set_are_refused_always),
        cmocka_unit_test(locks_know_their_holder),
        cmocka_unit_test(with_checks_addresses_are_named),
        cmocka_unit_test(every_typed_call_names_itself),
        cmocka_unit_test(every_atomic_names_itself),
        cmocka_unit_test(a_library_that_is_down_says_why),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
