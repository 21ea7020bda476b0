/* SPDX-License-Identifier: BSD-3-Clause */
/* The card and its envelope: every field survives, the largest fits into 256 bytes, and whatever is
 * zero, cut, foreign or damaged is refused by field. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pmix/card.h"
#include "pmix/record.h"

static struct px_error error;

/* Every field at its largest, every byte different from its neighbour. */
static struct px_card full_card(void)
{
    struct px_card card = {
        .version = {PX_VERSION_MAJOR, PX_VERSION_MINOR, PX_VERSION_PATCH},
        .pe = UINT32_MAX,
        .heap_kind = 1,
        .transports = UINT16_MAX,
        .heap_bytes = UINT64_MAX,
        .seat = {.numa_mask = UINT64_MAX - 1,
                 .has_gpu = true,
                 .gpu = 0xfedcba98fffeu,
                 .n_visible = 1,
                 .visible = {0xfedcba98fffeu}},
    };
    for (size_t i = 0; i < sizeof(card.memory); i++)
        card.memory[i] = (uint8_t)(i + 1);
    for (size_t i = 0; i < PX_CARD_SETTINGS_MAX; i++)
        card.settings[i] = 0xffffffu - (uint32_t)i;
    for (size_t i = 0; i < sizeof(card.seat.gpu_uuid); i++)
        card.seat.gpu_uuid[i] = (uint8_t)(i + 100);
    return card;
}

/* Before its memory is there: the list of GPUs has its place. */
static struct px_card choosing_card(void)
{
    struct px_card card = full_card();
    card.choosing = true;
    memset(card.memory, 0, sizeof(card.memory));
    memset(card.settings, 0, sizeof(card.settings));
    card.seat.n_visible = PX_CARD_GPUS_MAX;
    for (size_t i = 0; i < PX_CARD_GPUS_MAX; i++)
        card.seat.visible[i] = 0xfedcba980000u + i * 0x108;
    return card;
}

static void assert_same(const struct px_card *a, const struct px_card *b)
{
    assert_memory_equal(a->version, b->version, sizeof(a->version));
    assert_int_equal(a->pe, b->pe);
    assert_int_equal(a->failed, b->failed);
    assert_int_equal(a->heap_kind, b->heap_kind);
    assert_int_equal(a->transports, b->transports);
    assert_int_equal(a->heap_bytes, b->heap_bytes);
    assert_memory_equal(a->memory, b->memory, sizeof(a->memory));
    assert_memory_equal(a->settings, b->settings, sizeof(a->settings));
    assert_int_equal(a->choosing, b->choosing);
    assert_int_equal(a->seat.numa_mask, b->seat.numa_mask);
    assert_int_equal(a->seat.has_gpu, b->seat.has_gpu);
    assert_memory_equal(a->seat.gpu_uuid, b->seat.gpu_uuid, sizeof(a->seat.gpu_uuid));
    assert_int_equal(a->seat.gpu, b->seat.gpu);
    assert_int_equal(a->seat.n_visible, b->seat.n_visible);
    assert_memory_equal(a->seat.visible, b->seat.visible, sizeof(a->seat.visible));
}

static size_t encode(const struct px_card *card, uint8_t bytes[PX_CARD_MAX])
{
    size_t length = 0;
    error = (struct px_error)PX_ERROR_INIT;
    if (px_card_encode(card, bytes, &length, &error) != PX_OK)
        fail_msg("%s", error.text);
    return length;
}

static void every_field_survives(void **state)
{
    const struct px_card cards[] = {full_card(), choosing_card()};
    for (size_t i = 0; i < 2; i++) {
        uint8_t bytes[PX_CARD_MAX], again[PX_CARD_MAX];
        struct px_card seen;
        size_t length = encode(&cards[i], bytes);
        assert_true(length + PX_RECORD_HEADER <= 256);
        assert_int_equal(px_card_decode(bytes, length, &seen, &error), PX_OK);
        assert_same(&cards[i], &seen);
        assert_int_equal(encode(&seen, again), length);
        assert_memory_equal(bytes, again, length);
    }
}

static void a_plain_card_is_short(void **state)
{
    uint8_t bytes[PX_CARD_MAX];
    struct px_card card = {.pe = 3, .heap_bytes = 4096}, seen;
    memcpy(card.version, (uint8_t[]){PX_VERSION_MAJOR, PX_VERSION_MINOR, PX_VERSION_PATCH}, 3);
    size_t length = encode(&card, bytes);
    assert_true(length < 200);
    assert_int_equal(px_card_decode(bytes, length, &seen, &error), PX_OK);
    assert_same(&card, &seen);
}

static void values_that_cannot_be_are_refused_by_field(void **state)
{
    uint8_t bytes[PX_CARD_MAX];
    struct px_card seen, card = full_card();
    card.heap_kind = 2;
    assert_int_equal(px_card_decode(bytes, encode(&card, bytes), &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "heap kind 2"));
    card = full_card();
    card.heap_bytes = 0;
    assert_int_equal(px_card_decode(bytes, encode(&card, bytes), &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "heap size 0"));
    card.failed = true; /* then the rest is void */
    assert_int_equal(px_card_decode(bytes, encode(&card, bytes), &seen, &error), PX_OK);
    card = choosing_card();
    card.seat.n_visible = 0;
    assert_int_equal(px_card_decode(bytes, encode(&card, bytes), &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "number of GPUs 0"));
    card.seat.n_visible = 255; /* more than its list has */
    assert_int_equal(px_card_decode(bytes, encode(&card, bytes), &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "number of GPUs 255"));
    card = full_card();
    card.seat.n_visible = 2; /* which it no longer needs */
    assert_int_equal(px_card_decode(bytes, encode(&card, bytes), &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "number of GPUs 2"));
    card = full_card();
    size_t length = encode(&card, bytes);
    bytes[4] |= 0x80;
    assert_int_equal(px_card_decode(bytes, length, &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "flags"));
}

static void a_verdict_survives_and_its_lengths_are_checked(void **state)
{
    uint8_t bytes[PX_VERDICT_MAX + 1] = {0};
    struct px_verdict seen = {.transport = 9};
    struct px_verdict verdict = {
        .status = PX_ERR_NO_MEMORY, .transport = 3, .address_length = PX_VERDICT_ADDRESS_MAX};
    memset(verdict.text, 'w', sizeof(verdict.text) - 1);
    memset(verdict.address, 0xa5, sizeof(verdict.address));
    size_t length = 0;
    assert_int_equal(px_verdict_encode(&verdict, bytes, &length, &error), PX_OK);
    assert_true(length <= PX_VERDICT_MAX);
    for (size_t cut = 0; cut <= length + 1; cut++) {
        if (cut == length)
            continue;
        assert_int_equal(px_verdict_decode(bytes, cut, &seen, &error), PX_ERR_PROTOCOL);
        assert_int_equal(seen.transport, 9);
    }
    assert_int_equal(px_verdict_decode(bytes, length, &seen, &error), PX_OK);
    assert_int_equal(seen.status, PX_ERR_NO_MEMORY);
    assert_string_equal(seen.text, verdict.text);
    assert_memory_equal(seen.address, verdict.address, sizeof(seen.address));
    for (size_t at = 0; at < 6; at++) { /* format, status, transport, both lengths */
        uint8_t kept = bytes[at];
        bytes[at] = 0xff;
        assert_int_equal(px_verdict_decode(bytes, length, &seen, &error), PX_ERR_PROTOCOL);
        bytes[at] = kept;
    }
    verdict.address_length = PX_VERDICT_ADDRESS_MAX + 1;
    assert_int_equal(px_verdict_encode(&verdict, bytes, &length, &error), PX_ERR_INTERNAL);
}

static void every_other_length_is_refused(void **state)
{
    uint8_t bytes[PX_CARD_MAX + 1] = {0};
    struct px_card card = full_card(), seen = {.pe = 77};
    size_t length = encode(&card, bytes);
    for (size_t cut = 0; cut <= length + 1; cut++) {
        if (cut == length)
            continue;
        assert_int_equal(px_card_decode(bytes, cut, &seen, &error), PX_ERR_PROTOCOL);
        assert_int_equal(seen.pe, 77);
    }
}

static void a_foreign_card_names_field_and_versions(void **state)
{
    uint8_t bytes[PX_CARD_MAX] = {0};
    struct px_card card = full_card(), seen;
    assert_int_equal(px_card_decode(bytes, sizeof(bytes), &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "format 0"));
    size_t length = encode(&card, bytes);
    bytes[0]++;
    bytes[1] = 9;
    bytes[2] = 8;
    bytes[3] = 7;
    assert_int_equal(px_card_decode(bytes, length, &seen, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "format"));
    assert_non_null(strstr(error.text, "written by pxshmem 9.8.7"));
    assert_non_null(strstr(error.text, "read by pxshmem " PACKAGE_VERSION));
}

/* ---- the envelope ---- */

static const struct px_record_label label = {
    .rank = 5, .epoch = 3, .sequence = 2, .key = "card", .salt = 9, .view = 0x89abcdef};

static size_t seal(uint8_t record[64])
{
    return px_record_seal(&label, "contents", 8, record);
}

static px_status open_as(const struct px_record_label *as, const uint8_t *bytes, size_t size)
{
    struct px_record record = {.length = 0};
    error = (struct px_error)PX_ERROR_INIT;
    px_status status = px_record_open(as, bytes, size, &record, &error);
    if (status == PX_OK) {
        assert_int_equal(record.length, 8);
        assert_memory_equal(record.data, "contents", 8);
        assert_int_equal(record.sequence, label.sequence);
        assert_int_equal(record.view, label.view);
    }
    return status;
}

static void a_record_opens_as_what_it_was_sealed(void **state)
{
    uint8_t record[64];
    size_t size = seal(record);
    assert_int_equal(size, PX_RECORD_HEADER + 8);
    assert_int_equal(open_as(&label, record, size), PX_OK);
    struct px_record_label later = label;
    later.sequence = 7; /* an earlier exchange carried it */
    assert_int_equal(open_as(&later, record, size), PX_OK);
}

static void a_record_of_something_else_is_refused_by_field(void **state)
{
    uint8_t record[64];
    size_t size = seal(record);
    static const struct {
        struct px_record_label as;
        const char *field;
    } wrong[] = {
        {{.rank = 6, .epoch = 3, .sequence = 2, .key = "card"}, "PE number 5, expected 6"},
        {{.rank = 5, .epoch = 4, .sequence = 2, .key = "card"}, "round 3, expected 4"},
        {{.rank = 5, .epoch = 3, .sequence = 1, .key = "card"}, "sequence 2, expected 1"},
        {{.rank = 5, .epoch = 3, .sequence = 2, .key = "handle"}, "key hash"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(open_as(&wrong[i].as, record, size), PX_ERR_PROTOCOL);
        assert_non_null(strstr(error.text, wrong[i].field));
        assert_non_null(strstr(error.text, "written by pxshmem " PACKAGE_VERSION));
        assert_non_null(strstr(error.text, "read by pxshmem " PACKAGE_VERSION));
    }
}

static void a_zero_record_is_refused(void **state)
{
    uint8_t record[64] = {0};
    for (size_t size = 0; size <= sizeof(record); size++) {
        assert_int_equal(open_as(&label, record, size), PX_ERR_PROTOCOL);
        assert_non_null(strstr(error.text, "not ours"));
        assert_non_null(strstr(error.text, "PE 5"));
    }
}

static void every_damaged_bit_is_found(void **state)
{
    uint8_t record[64];
    size_t size = seal(record);
    for (size_t bit = 0; bit < size * 8; bit++) {
        record[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(open_as(&label, record, size), PX_ERR_PROTOCOL);
        record[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(open_as(&label, record, cut), PX_ERR_PROTOCOL);
    assert_int_equal(open_as(&label, record, size), PX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_survives),
        cmocka_unit_test(a_plain_card_is_short),
        cmocka_unit_test(values_that_cannot_be_are_refused_by_field),
        cmocka_unit_test(a_verdict_survives_and_its_lengths_are_checked),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(a_foreign_card_names_field_and_versions),
        cmocka_unit_test(a_record_opens_as_what_it_was_sealed),
        cmocka_unit_test(a_record_of_something_else_is_refused_by_field),
        cmocka_unit_test(a_zero_record_is_refused),
        cmocka_unit_test(every_damaged_bit_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
