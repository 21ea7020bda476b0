/* SPDX-License-Identifier: BSD-3-Clause */
/* That the shuffle transport is as unkind as it promises: what it must keep is in the suite of all transports
 * (transport.c), what it must break is here. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "test/unit/pes.h"

enum { ROUNDS = 2000 };

static volatile uint64_t *on_pe_1(struct pes *pe, const void *symmetric)
{
    return (volatile uint64_t *)(pes_window(pe, 1) + ((const char *)symmetric - pe->base));
}

/* Two puts without a fence: the second is seen first at times, and at times it is not. */
static void puts_overtake(struct pes *pe)
{
    uint64_t *first = (uint64_t *)(pe->base + PES_DATA), *second = first + 8;
    int overtaken = 0;
    for (uint64_t i = 1; pe->me == 0 && i <= ROUNDS; i++) {
        pe->ops->put(pe->self, 1, first, &i, 8);
        pe->ops->put(pe->self, 1, second, &i, 8);
        while (*on_pe_1(pe, second) != i)
            pe->ops->progress(pe->self);
        overtaken += *on_pe_1(pe, first) != i;
        pe->ops->quiet(pe->self);
    }
    pes_check(pe->me != 0 || (overtaken > ROUNDS / 20 && overtaken < ROUNDS - ROUNDS / 20),
              "%d of %d", overtaken, ROUNDS);
}

static void atomics_overtake_puts(struct pes *pe)
{
    uint64_t *data = (uint64_t *)(pe->base + PES_DATA), *flag = data + 8;
    int overtaken = 0;
    for (uint64_t i = 1; pe->me == 0 && i <= ROUNDS; i++) {
        struct px_amo add = {.op = PX_AMO_ADD, .width = 8, .operand = 1, .fetching = true};
        pe->ops->put(pe->self, 1, data, &i, 8);
        (void)pe->ops->amo(pe->self, 1, flag, &add);
        overtaken += *on_pe_1(pe, data) != i;
        pe->ops->quiet(pe->self);
    }
    pes_check(pe->me != 0 || overtaken > ROUNDS / 20, "%d of %d", overtaken, ROUNDS);
}

/* The last word of a put is seen before the first one at times. */
static void puts_are_torn(struct pes *pe)
{
    uint64_t *there = (uint64_t *)(pe->base + PES_DATA), source[64];
    int torn = 0;
    for (uint64_t i = 1; pe->me == 0 && i <= ROUNDS; i++) {
        for (size_t k = 0; k < 64; k++)
            source[k] = i;
        pe->ops->put(pe->self, 1, there, source, sizeof(source));
        while (*on_pe_1(pe, there + 63) != i)
            pe->ops->progress(pe->self);
        torn += *on_pe_1(pe, there) != i;
        pe->ops->quiet(pe->self);
    }
    pes_check(pe->me != 0 || torn > ROUNDS / 20, "%d of %d", torn, ROUNDS);
}

/* Sources of non-blocking puts are read late, destinations of non-blocking gets are written late. */
static void nbi_is_late(struct pes *pe)
{
    uint64_t *there = (uint64_t *)(pe->base + PES_DATA);
    int early = 0;
    for (uint64_t i = 1; pe->me == 0 && i <= ROUNDS; i++) {
        uint64_t back = 0;
        *on_pe_1(pe, there) = i;
        pe->ops->get_nbi(pe->self, 1, &back, there, 8);
        early += *(volatile uint64_t *)&back == i;
        pe->ops->quiet(pe->self);
        pes_check(back == i, "quiet did not complete it");
    }
    pes_check(early < ROUNDS / 2, "%d of %d", early, ROUNDS);
}

/* A put that was issued before a put with signal, without a fence, may come after the signal. */
static void signals_pass_other_puts(struct pes *pe)
{
    uint64_t *other = (uint64_t *)(pe->base + PES_DATA), *data = other + 8, *signal = other + 16;
    int passed = 0;
    for (uint64_t i = 1; pe->me == 0 && i <= ROUNDS; i++) {
        pe->ops->put(pe->self, 1, other, &i, 8);
        pe->ops->put_signal(pe->self, 1, data, &i, 8, signal, i, PX_AMO_SET, false);
        while (*on_pe_1(pe, signal) != i)
            pe->ops->progress(pe->self);
        passed += *on_pe_1(pe, other) != i;
        pes_check(*on_pe_1(pe, data) == i, "the signal passed its own data");
        pe->ops->quiet(pe->self);
    }
    pes_check(pe->me != 0 || passed > ROUNDS / 20, "%d of %d", passed, ROUNDS);
}

static void run(void **state)
{
    pes_case_fn *const *fn = *state;
    char reason[600];
    struct pes_job *job = pes_start("shuffle", 2, false, reason, sizeof(reason));
    assert_non_null(job);
    const char *failure = pes_run(job, *fn, 120);
    if (failure)
        print_error("%s\n", failure);
    bool failed = failure != NULL;
    (void)pes_stop(job); /* closing is tested in transport.c */
    assert_false(failed);
}

#define CASE(fn)                                                                                   \
    {                                                                                              \
        .name = #fn, .test_func = run, .initial_state = &(pes_case_fn *)                           \
        {                                                                                          \
            fn                                                                                     \
        }                                                                                          \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(puts_overtake), CASE(atomics_overtake_puts),   CASE(puts_are_torn),
        CASE(nbi_is_late),   CASE(signals_pass_other_puts),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
