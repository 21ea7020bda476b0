/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreeing on a window, and the card that carries the offers: arithmetic on plain values. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "heap/heap.h"

#define MIB       ((size_t)1 << 20)
#define GIB       ((size_t)1 << 30)
#define TIB       ((size_t)1 << 40)
#define PREFERRED ((uintptr_t)0x200000000000)

static uint64_t random_state = 88172645463325252u;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* As an ordinary program offers it. */
static struct px_heap_card ordinary(void)
{
    return (struct px_heap_card){.free = {{4 * GIB, 80 * TIB}, {90 * TIB, 30 * TIB}},
                                 .span = 24 * GIB,
                                 .granularity = PX_HEAP_UNIT,
                                 .nonce = 0x0123456789abcdef,
                                 .tag = 0xfeedf00d,
                                 .pid_namespace = 0xf0000001,
                                 .pid = 411,
                                 .fd = 5,
                                 .direct = true};
}

static void usual_cards_give_the_usual_base(void **state)
{
    struct px_heap_card cards[3] = {ordinary(), ordinary(), ordinary()};
    struct px_error error = PX_ERROR_INIT;
    char note[PX_HEAP_NOTE_MAX];
    uintptr_t base;
    size_t span;
    cards[1].span = 20 * GIB;
    assert_int_equal(px_heap_agree(cards, 3, GIB, &base, &span, note, &error), PX_OK);
    assert_int_equal(base, PREFERRED);
    assert_int_equal(span, 20 * GIB);
    assert_string_equal(note, "");
    assert_int_equal(px_heap_agree(cards, 3, GIB, &base, &span, NULL, &error), PX_OK);
}

static void another_range_where_the_usual_one_is_taken(void **state)
{
    struct px_heap_card cards[2] = {ordinary(), ordinary()};
    uintptr_t base;
    size_t span;
    /* PE 1 has something just behind the usual base. */
    cards[1].free[0] = (struct px_heap_range){4 * GIB, PREFERRED + GIB - 4 * GIB};
    cards[1].free[1] = (struct px_heap_range){PREFERRED + 2 * GIB, 40 * TIB};
    cards[1].free[2] = (struct px_heap_range){95 * TIB, 1 * TIB};
    assert_int_equal(px_heap_agree(cards, 2, GIB, &base, &span, NULL, NULL), PX_OK);
    assert_int_equal(base, PREFERRED + 2 * GIB);
    assert_int_equal(span, 24 * GIB);
}

static void a_window_that_does_not_fit_shrinks_and_says_so(void **state)
{
    struct px_heap_card cards[2] = {ordinary(), ordinary()};
    char note[PX_HEAP_NOTE_MAX];
    uintptr_t base;
    size_t span;
    memset(cards[1].free, 0, sizeof(cards[1].free));
    cards[1].free[0] = (struct px_heap_range){8 * GIB, 512 * MIB};
    assert_int_equal(px_heap_agree(cards, 2, 256 * MIB, &base, &span, note, NULL), PX_OK);
    assert_int_equal(base, 8 * GIB);
    assert_int_equal(span, 512 * MIB);
    assert_non_null(strstr(note, "512 MiB instead of 24 GiB"));
}

static void the_blocking_pe_is_named(void **state)
{
    struct px_heap_card cards[4] = {ordinary(), ordinary(), ordinary(), ordinary()};
    struct px_error error = PX_ERROR_INIT;
    uintptr_t base = 7;
    size_t span = 9;
    cards[2].free[0] = (struct px_heap_range){8 * GIB, 512 * MIB};
    memset(&cards[2].free[1], 0, sizeof(cards[2].free[1]));
    assert_int_equal(px_heap_agree(cards, 4, GIB, &base, &span, NULL, &error), PX_ERR_NO_MEMORY);
    assert_non_null(strstr(error.text, "PE 2"));
    assert_non_null(strstr(error.text, "512 MiB"));
    memset(cards[2].free, 0, sizeof(cards[2].free));
    assert_int_equal(px_heap_agree(cards, 4, GIB, &base, &span, NULL, &error), PX_ERR_NO_MEMORY);
    assert_non_null(strstr(error.text, "PE 2"));
    cards[2] = ordinary();
    cards[3].span = 100 * MIB;
    assert_int_equal(px_heap_agree(cards, 4, GIB, &base, &span, NULL, &error), PX_ERR_NO_MEMORY);
    assert_non_null(strstr(error.text, "PE 3 can map a symmetric window of 100 MiB only"));
    assert_int_equal(base, 7);
    assert_int_equal(span, 9);
}

static void the_largest_granularity_counts(void **state)
{
    struct px_heap_card cards[2] = {ordinary(), ordinary()};
    uintptr_t base;
    size_t span;
    cards[0].granularity = 512 * MIB;
    for (int i = 0; i < 2; i++) {
        memset(cards[i].free, 0, sizeof(cards[i].free));
        cards[i].free[0] = (struct px_heap_range){8 * GIB + 2 * MIB, 3 * GIB};
        cards[i].span = 3 * GIB;
    }
    assert_int_equal(px_heap_agree(cards, 2, GIB + 1, &base, &span, NULL, NULL), PX_OK);
    assert_int_equal(base % (512 * MIB), 0);
    assert_int_equal(span % (512 * MIB), 0);
    assert_true(base >= cards[0].free[0].start);
    assert_true(base + span <= cards[0].free[0].start + cards[0].free[0].length);
    assert_int_equal(span, 2560 * MIB);
}

static struct px_heap_card random_card(void)
{
    struct px_heap_card card = ordinary();
    uintptr_t at = 4 * GIB;
    memset(card.free, 0, sizeof(card.free));
    for (size_t i = 0; i < 1 + random_u64() % PX_HEAP_RANGES; i++) {
        at += random_u64() % (8 * TIB) / PX_HEAP_UNIT * PX_HEAP_UNIT;
        size_t length = (1 + random_u64() % (24 * TIB / PX_HEAP_UNIT)) * PX_HEAP_UNIT;
        card.free[i] = (struct px_heap_range){at, length};
        at += length;
    }
    card.granularity = PX_HEAP_UNIT << random_u64() % 4;
    card.span = (1 + random_u64() % 20000) * PX_HEAP_UNIT;
    card.nonce = random_u64();
    card.tag = (uint32_t)random_u64();
    card.pid = 1 + (int32_t)(random_u64() % 4000000);
    card.fd = (int32_t)(random_u64() % 1000);
    card.direct = random_u64() % 2;
    return card;
}

static bool lies_in(const struct px_heap_card *card, uintptr_t base, size_t span)
{
    for (size_t i = 0; i < PX_HEAP_RANGES; i++)
        if (base >= card->free[i].start &&
            base + span <= card->free[i].start + card->free[i].length)
            return true;
    return false;
}

/* Whatever is agreed is free everywhere, aligned for everybody, and does not depend on the order of
 * the cards. */
static void any_answer_suits_everybody(void **state)
{
    size_t agreed = 0;
    for (int round = 0; round < 20000; round++) {
        enum { N = 6 };
        struct px_heap_card cards[N], turned[N];
        uintptr_t base, base2;
        size_t span, span2, needed = 64 * MIB;
        for (int i = 0; i < N; i++)
            cards[i] = random_card();
        for (int i = 0; i < N; i++)
            turned[i] = cards[(i + round) % N];
        px_status status = px_heap_agree(cards, N, needed, &base, &span, NULL, NULL);
        assert_int_equal(px_heap_agree(turned, N, needed, &base2, &span2, NULL, NULL), status);
        if (status != PX_OK)
            continue;
        agreed++;
        assert_int_equal(base, base2);
        assert_int_equal(span, span2);
        assert_true(span >= needed);
        for (int i = 0; i < N; i++) {
            assert_true(lies_in(&cards[i], base, span));
            assert_int_equal((base | span) % cards[i].granularity, 0);
            assert_true(span <= cards[i].span);
        }
    }
    assert_true(agreed > 1000 && agreed < 20000); /* both outcomes were seen */
}

static void many_pes_with_holes(void **state)
{
    enum { N = 10000 };
    struct px_heap_card *cards = calloc(N, sizeof(*cards));
    uintptr_t base;
    size_t span;
    assert_non_null(cards);
    for (size_t i = 0; i < N; i++) {
        cards[i] = ordinary();
        uintptr_t hole = 4 * GIB + (1 + i % 300) * 8 * GIB;
        cards[i].free[0] = (struct px_heap_range){4 * GIB, hole - 4 * GIB};
        cards[i].free[1] = (struct px_heap_range){hole + PX_HEAP_UNIT, 30 * TIB};
    }
    assert_int_equal(px_heap_agree(cards, N, GIB, &base, &span, NULL, NULL), PX_OK);
    for (size_t i = 0; i < N; i++)
        assert_true(lies_in(&cards[i], base, span));
    free(cards);
}

/* Eight PEs with 200 small mappings each at random places: no large range in common, but slots are. */
static void crowded_address_spaces_meet_in_a_slot(void **state)
{
    for (int round = 0; round < 100; round++) {
        struct px_heap_card cards[8];
        uintptr_t base;
        size_t span;
        for (size_t pe = 0; pe < 8; pe++) {
            cards[pe] = ordinary();
            memset(cards[pe].slots, 0xff, sizeof(cards[pe].slots));
            for (int i = 0; i < 50; i++) { /* those that fall among the slots */
                size_t taken = random_u64() % PX_HEAP_SLOTS;
                cards[pe].slots[taken / 64] &= ~((uint64_t)1 << taken % 64);
            }
            memset(cards[pe].free, 0, sizeof(cards[pe].free));
            cards[pe].free[0] = (struct px_heap_range){(4 + 2 * pe) * TIB, TIB};
        }
        assert_int_equal(px_heap_agree(cards, 8, GIB, &base, &span, NULL, NULL), PX_OK);
        assert_int_equal(span, 24 * GIB);
        size_t slot = (base - PX_HEAP_SLOT_BASE) / PX_HEAP_SLOT;
        for (size_t pe = 0; pe < 8; pe++)
            assert_true(cards[pe].slots[slot / 64] >> slot % 64 & 1);
        for (size_t pe = 0; pe < 8; pe++)
            memset(cards[pe].slots, 0, sizeof(cards[pe].slots));
        assert_int_equal(px_heap_agree(cards, 8, GIB, &base, &span, NULL, NULL), PX_ERR_NO_MEMORY);
    }
}

/* --- the card --- */

static void a_card_survives_the_wire(void **state)
{
    for (int round = 0; round < 20000; round++) {
        struct px_heap_card card = random_card(), back;
        uint8_t bytes[PX_HEAP_CARD_BYTES];
        px_heap_card_encode(&card, bytes);
        assert_int_equal(px_heap_card_decode(bytes, sizeof(bytes), &back, NULL), PX_OK);
        for (size_t i = 0; i < PX_HEAP_RANGES; i++) {
            assert_int_equal(card.free[i].start, back.free[i].start);
            assert_int_equal(card.free[i].length, back.free[i].length);
        }
        assert_memory_equal(card.slots, back.slots, sizeof(card.slots));
        assert_int_equal(card.span, back.span);
        assert_int_equal(card.granularity, back.granularity);
        assert_int_equal(card.nonce, back.nonce);
        assert_int_equal(card.tag, back.tag);
        assert_int_equal(card.pid_namespace, back.pid_namespace);
        assert_int_equal(card.pid, back.pid);
        assert_int_equal(card.fd, back.fd);
        assert_int_equal(card.direct, back.direct);
    }
}

static void each_field_is_checked(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *named;
    } faults[] = {
        {0, 9, "version"},  {1, 0x80, "flags"},  {2, 20, "granularity"}, {2, 52, "granularity"},
        {3, 5, "number"},   {3, 1, "unused"},    {7, 0x80, "pid"},       {11, 0x80, "descriptor"},
        {23, 0xff, "span"}, {35, 0xff, "range"}, {39, 0xff, "range"},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct px_heap_card card = ordinary(), back;
        struct px_error error = PX_ERROR_INIT;
        uint8_t bytes[PX_HEAP_CARD_BYTES];
        px_heap_card_encode(&card, bytes);
        bytes[faults[i].at] = faults[i].value;
        assert_int_equal(px_heap_card_decode(bytes, sizeof(bytes), &back, &error), PX_ERR_PROTOCOL);
        assert_non_null(strstr(error.text, faults[i].named));
    }
    struct px_heap_card card = ordinary(), back;
    uint8_t bytes[PX_HEAP_CARD_BYTES + 1];
    px_heap_card_encode(&card, bytes);
    for (size_t length = 0; length <= sizeof(bytes); length++)
        if (length != PX_HEAP_CARD_BYTES)
            assert_int_equal(px_heap_card_decode(bytes, length, &back, NULL), PX_ERR_PROTOCOL);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(px_heap_card_decode(bytes, PX_HEAP_CARD_BYTES, &back, NULL), PX_ERR_PROTOCOL);
}

/* A damaged card is refused, or means what its bytes say; and whatever is accepted can be used in
 * agreeing. */
static void damaged_cards_do_no_harm(void **state)
{
    for (int round = 0; round < 200000; round++) {
        struct px_heap_card card = random_card(), cards[2] = {ordinary()};
        uint8_t bytes[PX_HEAP_CARD_BYTES], again[PX_HEAP_CARD_BYTES];
        uintptr_t base;
        size_t span;
        px_heap_card_encode(&card, bytes);
        for (uint64_t n = random_u64() % 4; n > 0; n--)
            bytes[random_u64() % sizeof(bytes)] = (uint8_t)random_u64();
        if (px_heap_card_decode(bytes, sizeof(bytes), &cards[1], NULL) != PX_OK)
            continue;
        px_heap_card_encode(&cards[1], again);
        assert_memory_equal(bytes, again, sizeof(bytes));
        if (px_heap_agree(cards, 2, MIB, &base, &span, NULL, NULL) == PX_OK) {
            assert_true(lies_in(&cards[0], base, span));
            assert_true(lies_in(&cards[1], base, span));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_cards_give_the_usual_base),
        cmocka_unit_test(another_range_where_the_usual_one_is_taken),
        cmocka_unit_test(a_window_that_does_not_fit_shrinks_and_says_so),
        cmocka_unit_test(the_blocking_pe_is_named),
        cmocka_unit_test(the_largest_granularity_counts),
        cmocka_unit_test(any_answer_suits_everybody),
        cmocka_unit_test(many_pes_with_holes),
        cmocka_unit_test(crowded_address_spaces_meet_in_a_slot),
        cmocka_unit_test(a_card_survives_the_wire),
        cmocka_unit_test(each_field_is_checked),
        cmocka_unit_test(damaged_cards_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
