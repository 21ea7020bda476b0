/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of card and verdict: little endian, fixed part first, then what varies. */
#include "config.h"
#include "pmix/card.h"

#include <stdio.h>
#include <string.h>

#include "pmix/wire.h"

#define CARD_FORMAT    0xc4u /* changes with the layout */
#define VERDICT_FORMAT 0xd1u
#define FLAG_GPU       1u
#define FLAG_FAILED    2u
#define FLAG_CHOOSING  4u
#define FLAGS          (FLAG_GPU | FLAG_FAILED | FLAG_CHOOSING)
#define SETTING_BYTES  3
#define PCI_BYTES      6 /* a domain of 32 bits, bus, device and function of 16 */

static px_status refuse(struct px_error *error, const uint8_t version[3], const char *field,
                        uint64_t value, const char *rule)
{
    return px_error_set(error, PX_ERR_PROTOCOL,
                        "%s %llu %s (written by pxshmem %u.%u.%u, read by pxshmem %d.%d.%d)", field,
                        (unsigned long long)value, rule, version[0], version[1], version[2],
                        PX_VERSION_MAJOR, PX_VERSION_MINOR, PX_VERSION_PATCH);
}

static px_status check_ends(const struct px_reader *r, size_t length, const uint8_t version[3],
                            struct px_error *error)
{
    if (r->overrun)
        return refuse(error, version, "length", length, "is too short");
    if (r->used != length)
        return refuse(error, version, "length", length, "is too long");
    return PX_OK;
}

static void write_seat(struct px_writer *w, const struct px_card_seat *seat)
{
    px_write_uint(w, seat->numa_mask, 8);
    if (seat->has_gpu) {
        px_write_bytes(w, seat->gpu_uuid, sizeof(seat->gpu_uuid));
        px_write_uint(w, seat->gpu, PCI_BYTES);
    }
    px_write_uint(w, seat->n_visible, 1);
    for (size_t i = 0; i < seat->n_visible && i < PX_CARD_GPUS_MAX; i++)
        px_write_uint(w, seat->visible[i], PCI_BYTES);
}

px_status px_card_encode(const struct px_card *card, uint8_t bytes[PX_CARD_MAX], size_t *length,
                         struct px_error *error)
{
    struct px_writer w = {.bytes = bytes, .capacity = PX_CARD_MAX};
    px_write_uint(&w, CARD_FORMAT, 1);
    px_write_uint(&w, PX_VERSION_MAJOR, 1);
    px_write_uint(&w, PX_VERSION_MINOR, 1);
    px_write_uint(&w, PX_VERSION_PATCH, 1);
    px_write_uint(&w,
                  (card->seat.has_gpu ? FLAG_GPU : 0) | (card->failed ? FLAG_FAILED : 0) |
                      (card->choosing ? FLAG_CHOOSING : 0),
                  1);
    px_write_uint(&w, card->heap_kind, 1);
    px_write_uint(&w, card->transports, 2);
    px_write_uint(&w, card->pe, 4);
    px_write_uint(&w, card->heap_bytes, 8);
    if (!card->choosing) {
        px_write_bytes(&w, card->memory, sizeof(card->memory));
        for (size_t i = 0; i < PX_CARD_SETTINGS_MAX; i++)
            px_write_uint(&w, card->settings[i], SETTING_BYTES);
    }
    write_seat(&w, &card->seat);
    if (w.overrun)
        return px_error_set(error, PX_ERR_INTERNAL, "card: %u bytes are too few",
                            (unsigned)PX_CARD_MAX);
    *length = w.used;
    return PX_OK;
}

static void read_seat(struct px_reader *r, struct px_card_seat *seat)
{
    seat->numa_mask = px_read_uint(r, 8);
    if (seat->has_gpu) {
        px_read_bytes(r, seat->gpu_uuid, sizeof(seat->gpu_uuid));
        seat->gpu = px_read_uint(r, PCI_BYTES);
    }
    seat->n_visible = px_read_uint(r, 1);
    for (size_t i = 0; i < seat->n_visible && i < PX_CARD_GPUS_MAX; i++)
        seat->visible[i] = px_read_uint(r, PCI_BYTES);
}

static px_status check_card(const struct px_card *card, uint64_t flags, struct px_error *error)
{
    if (flags & ~(uint64_t)FLAGS)
        return refuse(error, card->version, "flags", flags, "are unknown here");
    if (card->heap_kind > 1)
        return refuse(error, card->version, "heap kind", card->heap_kind, "is unknown here");
    if (!card->failed && card->heap_bytes == 0)
        return refuse(error, card->version, "heap size", 0, "cannot be");
    if (card->seat.n_visible > (card->choosing ? PX_CARD_GPUS_MAX : 1) ||
        (card->choosing && card->seat.n_visible == 0))
        return refuse(error, card->version, "number of GPUs", card->seat.n_visible, "cannot be");
    return PX_OK;
}

px_status px_card_decode(const uint8_t *bytes, size_t length, struct px_card *out,
                         struct px_error *error)
{
    struct px_reader r = {.bytes = bytes, .length = length};
    struct px_card card = {.pe = 0};
    uint64_t format = px_read_uint(&r, 1);
    px_read_bytes(&r, card.version, sizeof(card.version));
    if (format != CARD_FORMAT)
        return refuse(error, card.version, "format", format, "is unknown here");
    uint64_t flags = px_read_uint(&r, 1);
    card.failed = flags & FLAG_FAILED;
    card.choosing = flags & FLAG_CHOOSING;
    card.seat.has_gpu = flags & FLAG_GPU;
    card.heap_kind = (uint8_t)px_read_uint(&r, 1);
    card.transports = (uint16_t)px_read_uint(&r, 2);
    card.pe = (uint32_t)px_read_uint(&r, 4);
    card.heap_bytes = px_read_uint(&r, 8);
    if (!card.choosing) {
        px_read_bytes(&r, card.memory, sizeof(card.memory));
        for (size_t i = 0; i < PX_CARD_SETTINGS_MAX; i++)
            card.settings[i] = (uint32_t)px_read_uint(&r, SETTING_BYTES);
    }
    read_seat(&r, &card.seat);
    px_status status = check_ends(&r, length, card.version, error);
    if (status == PX_OK)
        status = check_card(&card, flags, error);
    if (status == PX_OK)
        *out = card;
    return status;
}

px_status px_verdict_encode(const struct px_verdict *verdict, uint8_t bytes[PX_VERDICT_MAX],
                            size_t *length, struct px_error *error)
{
    struct px_writer w = {.bytes = bytes, .capacity = PX_VERDICT_MAX};
    size_t text = strnlen(verdict->text, sizeof(verdict->text) - 1);
    if (verdict->address_length > sizeof(verdict->address))
        return px_error_set(error, PX_ERR_INTERNAL, "verdict: address of %zu bytes",
                            verdict->address_length);
    px_write_uint(&w, VERDICT_FORMAT, 1);
    px_write_uint(&w, (uint64_t)-verdict->status, 1);
    px_write_uint(&w, verdict->transport, 1);
    px_write_uint(&w, verdict->address_length, 1);
    px_write_uint(&w, text, 2);
    px_write_bytes(&w, verdict->address, verdict->address_length);
    px_write_bytes(&w, verdict->text, text);
    if (w.overrun)
        return px_error_set(error, PX_ERR_INTERNAL, "verdict: %u bytes are too few",
                            (unsigned)PX_VERDICT_MAX);
    *length = w.used;
    return PX_OK;
}

px_status px_verdict_decode(const uint8_t *bytes, size_t length, struct px_verdict *out,
                            struct px_error *error)
{
    static const uint8_t unknown[3] = {0};
    struct px_reader r = {.bytes = bytes, .length = length};
    struct px_verdict verdict = {.status = PX_OK};
    uint64_t format = px_read_uint(&r, 1);
    uint64_t reason = px_read_uint(&r, 1);
    verdict.transport = (uint8_t)px_read_uint(&r, 1);
    verdict.address_length = px_read_uint(&r, 1);
    size_t text = px_read_uint(&r, 2);
    if (format != VERDICT_FORMAT)
        return refuse(error, unknown, "format", format, "is unknown here");
    if (reason > (uint64_t)-PX_ERR_INTERNAL)
        return refuse(error, unknown, "status", reason, "is unknown here");
    if (verdict.transport > PX_CARD_TRANSPORTS_MAX)
        return refuse(error, unknown, "transport", verdict.transport, "is unknown here");
    if (verdict.address_length > sizeof(verdict.address))
        return refuse(error, unknown, "address length", verdict.address_length, "is too long");
    if (text >= sizeof(verdict.text))
        return refuse(error, unknown, "text length", text, "is too long");
    px_read_bytes(&r, verdict.address, verdict.address_length);
    px_read_bytes(&r, verdict.text, text);
    verdict.status = (px_status) - (int)reason;
    px_status status = check_ends(&r, length, unknown, error);
    if (status == PX_OK)
        *out = verdict;
    return status;
}
