/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of the card. Little endian, fixed part first, then what varies: free ranges, GPU, transport
 * address. Addresses and spans travel as numbers of 4 KiB pages in 6 bytes, enough for 57-bit
 * address spaces. */
#include "config.h"
#include "pmix/card.h"

#include "pmix/wire.h"

#define FORMAT      0xc1u /* changes with the layout */
#define FLAG_GPU    8u
#define RANGES_MASK 7u

#define PAGES_LIMIT (1ull << 48)

static px_status refuse(struct px_error *error, const uint8_t version[3], const char *field,
                        uint64_t value, const char *rule)
{
    return px_error_set(error, PX_ERR_PROTOCOL,
                        "card of a PE: %s %llu %s (written by pxshmem %u.%u.%u, read by pxshmem "
                        "%d.%d.%d)",
                        field, (unsigned long long)value, rule, version[0], version[1], version[2],
                        PX_VERSION_MAJOR, PX_VERSION_MINOR, PX_VERSION_PATCH);
}

static px_status cannot_write(struct px_error *error, const char *field, uint64_t value)
{
    return px_error_set(error, PX_ERR_INVALID, "card: %s %llu cannot be sent", field,
                        (unsigned long long)value);
}

static bool is_pages(uint64_t bytes)
{
    return bytes % PX_CARD_PAGE == 0 && bytes / PX_CARD_PAGE < PAGES_LIMIT;
}

static bool is_power(uint64_t value)
{
    return value && (value & (value - 1)) == 0;
}

static px_status check_writable(const struct px_card *card, struct px_error *error)
{
    if (card->n_ranges > PX_CARD_RANGES)
        return cannot_write(error, "number of free ranges", card->n_ranges);
    for (uint32_t i = 0; i < card->n_ranges; i++)
        if (!is_pages(card->ranges[i].start) || !is_pages(card->ranges[i].length))
            return cannot_write(error, "free range at", card->ranges[i].start);
    if (!is_pages(card->largest_span))
        return cannot_write(error, "largest span", card->largest_span);
    if (!is_power(card->page))
        return cannot_write(error, "page granularity", card->page);
    if (card->pid_ns >> 32 || card->net_ns >> 32)
        return cannot_write(error, "namespace", card->pid_ns >> 32 ? card->pid_ns : card->net_ns);
    if (strnlen(card->transport, sizeof(card->transport)) > 8)
        return cannot_write(error, "length of the transport's name", sizeof(card->transport));
    if (card->address_length > PX_TRANSPORT_ADDRESS_MAX)
        return cannot_write(error, "length of the transport's address", card->address_length);
    return PX_OK;
}

static void write_variable(struct px_writer *w, const struct px_card *card)
{
    for (uint32_t i = 0; i < card->n_ranges; i++) {
        px_write_uint(w, card->ranges[i].start / PX_CARD_PAGE, 6);
        px_write_uint(w, card->ranges[i].length / PX_CARD_PAGE, 6);
    }
    if (card->has_gpu) {
        px_write_bytes(w, card->gpu_uuid, sizeof(card->gpu_uuid));
        px_write_uint(w, card->gpu_domain, 4);
        px_write_uint(w, card->gpu_bus, 1);
        px_write_uint(w, (uint64_t)card->gpu_device << 3 | (card->gpu_function & 7u), 1);
    }
    px_write_bytes(w, card->address, card->address_length);
}

px_status px_card_encode(const struct px_card *card, uint8_t *bytes, size_t capacity,
                         size_t *length, struct px_error *error)
{
    px_status status = check_writable(card, error);
    if (status != PX_OK)
        return status;
    struct px_writer w = {.bytes = bytes, .capacity = capacity};
    px_write_uint(&w, FORMAT, 1);
    px_write_uint(&w, PX_VERSION_MAJOR, 1);
    px_write_uint(&w, PX_VERSION_MINOR, 1);
    px_write_uint(&w, PX_VERSION_PATCH, 1);
    px_write_uint(&w, card->n_ranges | (card->has_gpu ? FLAG_GPU : 0), 1);
    px_write_uint(&w, card->address_length, 1);
    px_write_uint(&w, card->heap_kind, 1);
    px_write_uint(&w, (uint64_t)__builtin_ctzll(card->page), 1);
    px_write_uint(&w, card->pe, 4);
    px_write_bytes(&w, card->node_id, sizeof(card->node_id));
    px_write_uint(&w, card->pid, 4);
    px_write_uint(&w, card->pid_ns, 4);
    px_write_uint(&w, card->net_ns, 4);
    px_write_uint(&w, card->nonce, 8);
    px_write_uint(&w, card->largest_span / PX_CARD_PAGE, 6);
    px_write_uint(&w, card->heap_bytes, 8);
    px_write_bytes(&w, card->transport, 8);
    write_variable(&w, card);
    if (w.overrun)
        return px_error_set(error, PX_ERR_INVALID, "card: %zu bytes are too few", capacity);
    *length = w.used;
    return PX_OK;
}

static void read_gpu(struct px_reader *r, struct px_card *card)
{
    px_read_bytes(r, card->gpu_uuid, sizeof(card->gpu_uuid));
    card->gpu_domain = (uint32_t)px_read_uint(r, 4);
    card->gpu_bus = (uint8_t)px_read_uint(r, 1);
    uint64_t slot = px_read_uint(r, 1);
    card->gpu_device = (uint8_t)(slot >> 3);
    card->gpu_function = slot & 7;
}

static px_status read_head(struct px_reader *r, uint8_t version[3], struct px_error *error)
{
    uint64_t format = px_read_uint(r, 1);
    px_read_bytes(r, version, 3);
    if (format != FORMAT)
        return refuse(error, version, "format", format, "is unknown here");
    return PX_OK;
}

px_status px_card_decode(const uint8_t *bytes, size_t length, struct px_card *out,
                         struct px_error *error)
{
    struct px_reader r = {.bytes = bytes, .length = length};
    struct px_card card = {.pe = 0};
    px_status status = read_head(&r, card.version, error);
    if (status != PX_OK)
        return status;
    uint64_t flags = px_read_uint(&r, 1);
    card.n_ranges = (uint32_t)(flags & RANGES_MASK);
    card.address_length = px_read_uint(&r, 1);
    card.heap_kind = (uint8_t)px_read_uint(&r, 1);
    uint64_t page_bits = px_read_uint(&r, 1);
    card.pe = (uint32_t)px_read_uint(&r, 4);
    px_read_bytes(&r, card.node_id, sizeof(card.node_id));
    card.pid = (uint32_t)px_read_uint(&r, 4);
    card.pid_ns = px_read_uint(&r, 4);
    card.net_ns = px_read_uint(&r, 4);
    card.nonce = px_read_uint(&r, 8);
    card.largest_span = px_read_uint(&r, 6) * PX_CARD_PAGE;
    card.heap_bytes = px_read_uint(&r, 8);
    px_read_bytes(&r, card.transport, 8);

    if (flags & ~(uint64_t)(FLAG_GPU | RANGES_MASK))
        return refuse(error, card.version, "flags", flags, "are unknown here");
    if (card.n_ranges > PX_CARD_RANGES)
        return refuse(error, card.version, "number of free ranges", card.n_ranges, "exceeds 4");
    if (card.address_length > PX_TRANSPORT_ADDRESS_MAX)
        return refuse(error, card.version, "address length", card.address_length, "exceeds 96");
    if (page_bits > 63)
        return refuse(error, card.version, "page bits", page_bits, "exceed 63");
    card.page = 1ull << page_bits;
    card.has_gpu = flags & FLAG_GPU;
    for (uint32_t i = 0; i < card.n_ranges; i++) {
        card.ranges[i].start = px_read_uint(&r, 6) * PX_CARD_PAGE;
        card.ranges[i].length = px_read_uint(&r, 6) * PX_CARD_PAGE;
    }
    if (card.has_gpu)
        read_gpu(&r, &card);
    px_read_bytes(&r, card.address, card.address_length);
    if (r.overrun || r.used != length)
        return refuse(error, card.version, "length", length, "does not fit its contents");
    *out = card;
    return PX_OK;
}
