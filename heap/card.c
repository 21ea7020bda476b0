/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap's part of a PE's card as bytes: little-endian, fixed places, versioned. Addresses and
 * lengths are counted in units of PX_HEAP_UNIT to fit into four bytes. Whatever cannot be right is
 * refused by name.
 *
 *   0 version  1 flags  2 log2 of granularity  3 number of ranges  4 pid  8 fd  12 tag  16 pid
 * namespace 20 span  24 nonce (8 bytes)  32 four times start, length  64 slots */
#include "config.h"
#include "heap/private.h"

#include <string.h>

#define CARD_VERSION 2
#define FLAG_DIRECT  1
#define UNIT_BITS    21
#define MAX_BITS     52 /* of addresses that offers may speak of; four bytes of units reach to 53 */

_Static_assert(PX_HEAP_UNIT == (size_t)1 << UNIT_BITS, "one unit");
#define SLOTS_AT (32 + 8 * PX_HEAP_RANGES)
_Static_assert(SLOTS_AT + PX_HEAP_SLOTS / 8 == PX_HEAP_CARD_BYTES, "the card is full");

static void put32(uint8_t *bytes, uint64_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

void px_heap_card_encode(const struct px_heap_card *card, uint8_t bytes[PX_HEAP_CARD_BYTES])
{
    memset(bytes, 0, PX_HEAP_CARD_BYTES);
    bytes[0] = CARD_VERSION;
    bytes[1] = card->direct ? FLAG_DIRECT : 0;
    bytes[2] = (uint8_t)__builtin_ctzll(card->granularity);
    put32(bytes + 4, (uint32_t)card->pid);
    put32(bytes + 8, (uint32_t)card->fd);
    put32(bytes + 12, card->tag);
    put32(bytes + 16, card->pid_namespace);
    put32(bytes + 20, card->span >> UNIT_BITS);
    put32(bytes + 24, card->nonce);
    put32(bytes + 28, card->nonce >> 32);
    for (size_t i = 0; i < PX_HEAP_RANGES && card->free[i].length; i++) {
        put32(bytes + 32 + 8 * i, card->free[i].start >> UNIT_BITS);
        put32(bytes + 36 + 8 * i, card->free[i].length >> UNIT_BITS);
        bytes[3] = (uint8_t)(i + 1);
    }
    for (size_t i = 0; i < PX_HEAP_SLOTS / 64; i++) {
        put32(bytes + SLOTS_AT + 8 * i, card->slots[i]);
        put32(bytes + SLOTS_AT + 8 * i + 4, card->slots[i] >> 32);
    }
}

static px_status bad(struct px_error *error, const char *field, uint64_t value)
{
    return px_error_set(error, PX_ERR_PROTOCOL, "heap card: %s cannot be %llu", field,
                        (unsigned long long)value);
}

static px_status decode_ranges(const uint8_t *bytes, size_t n, struct px_heap_card *card,
                               struct px_error *error)
{
    const uint64_t end_of_space = (uint64_t)1 << (MAX_BITS - UNIT_BITS);
    uint64_t end = 0;
    for (size_t i = 0; i < PX_HEAP_RANGES; i++) {
        uint64_t start = get32(bytes + 8 * i), length = get32(bytes + 8 * i + 4);
        if (i >= n && (start || length))
            return bad(error, "an unused address range", start | length);
        if (i < n && (length == 0 || start < end || start + length > end_of_space))
            return bad(error, "the start of an address range", start << UNIT_BITS);
        end = start + length;
        card->free[i].start = (uintptr_t)start << UNIT_BITS;
        card->free[i].length = (size_t)length << UNIT_BITS;
    }
    return PX_OK;
}

px_status px_heap_card_decode(const uint8_t *bytes, size_t length, struct px_heap_card *card,
                              struct px_error *error)
{
    if (length != PX_HEAP_CARD_BYTES)
        return bad(error, "the length", length);
    if (bytes[0] != CARD_VERSION)
        return bad(error, "the version", bytes[0]);
    if (bytes[1] & ~FLAG_DIRECT)
        return bad(error, "the flags", bytes[1]);
    if (bytes[2] < UNIT_BITS || bytes[2] >= MAX_BITS)
        return bad(error, "the granularity's exponent", bytes[2]);
    if (bytes[3] > PX_HEAP_RANGES)
        return bad(error, "the number of address ranges", bytes[3]);
    struct px_heap_card found = {
        .direct = bytes[1] & FLAG_DIRECT,
        .granularity = (size_t)1 << bytes[2],
        .pid = (int32_t)get32(bytes + 4),
        .fd = (int32_t)get32(bytes + 8),
        .tag = get32(bytes + 12),
        .pid_namespace = get32(bytes + 16),
        .span = (size_t)get32(bytes + 20) << UNIT_BITS,
        .nonce = get32(bytes + 24) | (uint64_t)get32(bytes + 28) << 32,
    };
    if (found.pid <= 0)
        return bad(error, "the pid", (uint32_t)found.pid);
    if (found.fd < 0)
        return bad(error, "the descriptor", (uint32_t)found.fd);
    if (found.span == 0 || found.span >> MAX_BITS)
        return bad(error, "the span", found.span);
    for (size_t i = 0; i < PX_HEAP_SLOTS / 64; i++)
        found.slots[i] =
            get32(bytes + SLOTS_AT + 8 * i) | (uint64_t)get32(bytes + SLOTS_AT + 8 * i + 4) << 32;
    px_status status = decode_ranges(bytes + 32, bytes[3], &found, error);
    if (status == PX_OK)
        *card = found;
    return status;
}
