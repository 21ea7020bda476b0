/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes from other processes: right ones are accepted, and every wrong length, head or range is refused. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/transport/transport.h"
#include "src/transport/verbs/wire.h"

#define N_PES 8

static struct px_verbs_card good_card(void)
{
    return (struct px_verbs_card){.magic = PX_VERBS_MAGIC,
                                  .version = PX_VERBS_VERSION,
                                  .size = sizeof(struct px_verbs_card),
                                  .nonce = 77,
                                  .qpn = 0x11,
                                  .address = {.mtu = 3, .port = 1, .ethernet = 1, .gid_type = 3}};
}

static struct px_verbs_greeting good_greeting(void)
{
    struct px_verbs_greeting greeting = {.magic = PX_VERBS_MAGIC,
                                         .version = PX_VERBS_VERSION,
                                         .size = sizeof(greeting),
                                         .from = 3,
                                         .to = 1,
                                         .level = PX_LEVEL_CONNECTED,
                                         .n_nics = 2,
                                         .n_lanes = 4,
                                         .reads = 16,
                                         .n_keys = 1};
    greeting.nics[0] = greeting.nics[1] = good_card().address;
    return greeting;
}

static px_status check_card(struct px_verbs_card card)
{
    struct px_verbs_card out;
    return px_verbs_check_card(&card, sizeof(card), &out, NULL);
}

static px_status check_greeting(struct px_verbs_greeting greeting)
{
    struct px_verbs_greeting out;
    return px_verbs_check_greeting(&greeting, sizeof(greeting), N_PES, &out, NULL);
}

static px_status check_message(uint8_t kind, uint8_t op, uint8_t width)
{
    struct px_verbs_message out, message = {.kind = kind, .op = op, .width = width};
    return px_verbs_check_message(&message, sizeof(message), &out, NULL);
}

static void good_records_are_accepted_whole(void **state)
{
    struct px_verbs_card card = good_card(), card_out;
    struct px_verbs_greeting greeting = good_greeting(), greeting_out;
    assert_int_equal(px_verbs_check_card(&card, sizeof(card), &card_out, NULL), PX_OK);
    assert_memory_equal(&card, &card_out, sizeof(card));
    assert_int_equal(
        px_verbs_check_greeting(&greeting, sizeof(greeting), N_PES, &greeting_out, NULL), PX_OK);
    assert_memory_equal(&greeting, &greeting_out, sizeof(greeting));
}

static void other_lengths_are_refused(void **state)
{
    struct px_verbs_card card = good_card();
    struct px_verbs_greeting greeting = good_greeting();
    struct px_verbs_message message = {.kind = PX_MESSAGE_FLUSH};
    char bytes[1024] = {0};
    for (size_t length = 0; length < sizeof(bytes); length++) {
        if (length != sizeof(card))
            assert_int_equal(px_verbs_check_card(&card, length, &card, NULL), PX_ERR_PROTOCOL);
        if (length != sizeof(greeting))
            assert_int_equal(px_verbs_check_greeting(&greeting, length, N_PES, &greeting, NULL),
                             PX_ERR_PROTOCOL);
        if (length != sizeof(message))
            assert_int_equal(px_verbs_check_message(&message, length, &message, NULL),
                             PX_ERR_PROTOCOL);
    }
}

static void other_releases_and_byte_orders_are_named(void **state)
{
    struct px_verbs_card card = good_card(), out;
    struct px_error error = PX_ERROR_INIT;
    card.version++;
    assert_int_equal(px_verbs_check_card(&card, sizeof(card), &out, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "another release"));
    card = good_card();
    card.magic = __builtin_bswap32(card.magic);
    assert_int_equal(px_verbs_check_card(&card, sizeof(card), &out, &error), PX_ERR_PROTOCOL);
    assert_non_null(strstr(error.text, "byte order"));
}

static void ranges_are_checked(void **state)
{
    struct px_verbs_card card = good_card();
    struct px_verbs_greeting greeting;
#define CARD_WITH(field, value) (card = good_card(), card.field = (value), check_card(card))
#define GREETING_WITH(field, value)                                                                \
    (greeting = good_greeting(), greeting.field = (value), check_greeting(greeting))
    assert_int_equal(CARD_WITH(address.mtu, 0), PX_ERR_PROTOCOL);
    assert_int_equal(CARD_WITH(address.mtu, 6), PX_ERR_PROTOCOL);
    assert_int_equal(CARD_WITH(address.port, 0), PX_ERR_PROTOCOL);
    assert_int_equal(CARD_WITH(address.gid_type, 4), PX_ERR_PROTOCOL);
    assert_int_equal(CARD_WITH(qpn, 1 << 24), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(from, N_PES), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(level, PX_LEVEL_NONE), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(level, PX_LEVEL_READY + 1), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(n_nics, 0), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(n_nics, PX_VERBS_NICS_MAX + 1), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(n_lanes, 1), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(n_lanes, PX_VERBS_LANES_MAX + 1), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(n_keys, PX_VERBS_EARLY_KEYS + 1), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(reads, 0), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(nics[1].mtu, 9), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(nics[2].mtu, 9), PX_OK); /* not in use */
    assert_int_equal(GREETING_WITH(qpn[3], 1 << 24), PX_ERR_PROTOCOL);
    assert_int_equal(GREETING_WITH(psn[0], UINT32_MAX), PX_ERR_PROTOCOL);
}

static void messages_are_checked(void **state)
{
    assert_int_equal(check_message(PX_MESSAGE_AMO, PX_AMO_ADD, 8), PX_OK);
    assert_int_equal(check_message(PX_MESSAGE_AMO, PX_AMO_XOR, 4), PX_OK);
    assert_int_equal(check_message(PX_MESSAGE_AMO, PX_AMO_COUNT, 8), PX_ERR_PROTOCOL);
    assert_int_equal(check_message(PX_MESSAGE_AMO, PX_AMO_ADD, 2), PX_ERR_PROTOCOL);
    assert_int_equal(check_message(0, 0, 8), PX_ERR_PROTOCOL);
    assert_int_equal(check_message(PX_MESSAGE_KEYS_REPLY + 1, 0, 8), PX_ERR_PROTOCOL);
    assert_int_equal(check_message(PX_MESSAGE_FLUSH, 99, 99), PX_OK); /* has neither */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_records_are_accepted_whole),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(other_releases_and_byte_orders_are_named),
        cmocka_unit_test(ranges_are_checked),
        cmocka_unit_test(messages_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
