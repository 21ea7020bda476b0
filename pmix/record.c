/* SPDX-License-Identifier: BSD-3-Clause */
/* The envelope of published data. Layout, little endian:
 *   magic 2, format 1, library version 3, rank 4, round 2, sequence 2, key hash 2, salt 4, view 4,
 *   checksum 4, data
 * The checksum covers the whole record except itself. */
#include "config.h"
#include "pmix/record.h"

#include "pmix/wire.h"

#define MAGIC       0x7870u /* "px" */
#define FORMAT      2
#define LOW         0xffffu /* rounds and sequences travel as 16 bits and are compared so */
#define VERSION_AT  3
#define CHECKSUM_AT (PX_RECORD_HEADER - 4)

static uint32_t crc32(uint32_t crc, const uint8_t *bytes, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static uint32_t checksum(const uint8_t *record, size_t size)
{
    uint32_t crc = crc32(0, record, CHECKSUM_AT);
    return crc32(crc, record + PX_RECORD_HEADER, size - PX_RECORD_HEADER);
}

static uint16_t key_hash(const char *key)
{
    return (uint16_t)crc32(0, (const uint8_t *)key, strlen(key));
}

size_t px_record_seal(const struct px_record_label *label, const void *data, size_t length,
                      uint8_t *out)
{
    struct px_writer w = {.bytes = out, .capacity = PX_RECORD_HEADER + length};
    px_write_uint(&w, MAGIC, 2);
    px_write_uint(&w, FORMAT, 1);
    px_write_uint(&w, PX_VERSION_MAJOR, 1);
    px_write_uint(&w, PX_VERSION_MINOR, 1);
    px_write_uint(&w, PX_VERSION_PATCH, 1);
    px_write_uint(&w, label->rank, 4);
    px_write_uint(&w, label->epoch, 2);
    px_write_uint(&w, label->sequence, 2);
    px_write_uint(&w, key_hash(label->key), 2);
    px_write_uint(&w, label->salt, 4);
    px_write_uint(&w, label->view, 4);
    px_write_uint(&w, 0, 4); /* the checksum's place */
    px_write_bytes(&w, data, length);
    struct px_writer sum = {.bytes = out + CHECKSUM_AT, .capacity = 4};
    px_write_uint(&sum, checksum(out, w.used), 4);
    return w.used;
}

/* The library version is named only after the magic proved that the bytes are there. */
static px_status refuse(struct px_error *error, const struct px_record_label *label,
                        const uint8_t *record, const char *field, uint64_t found, uint64_t expected)
{
    return px_error_set(
        error, PX_ERR_PROTOCOL,
        "record \"%s\" of PE %u has %s %llu, expected %llu (written by pxshmem %u.%u.%u, "
        "read by pxshmem %d.%d.%d)",
        label->key, label->rank, field, (unsigned long long)found, (unsigned long long)expected,
        record[VERSION_AT], record[VERSION_AT + 1], record[VERSION_AT + 2], PX_VERSION_MAJOR,
        PX_VERSION_MINOR, PX_VERSION_PATCH);
}

px_status px_record_open(const struct px_record_label *label, const uint8_t *bytes, size_t size,
                         struct px_record *record, struct px_error *error)
{
    struct px_reader r = {.bytes = bytes, .length = size};
    uint64_t magic = px_read_uint(&r, 2);
    if (size < PX_RECORD_HEADER || magic != MAGIC)
        return px_error_set(error, PX_ERR_PROTOCOL,
                            "record \"%s\" of PE %u is not ours: %zu bytes, first word 0x%04llx "
                            "instead of 0x%04x (read by pxshmem %d.%d.%d; the writer's version is "
                            "unknown)",
                            label->key, label->rank, size, (unsigned long long)magic, MAGIC,
                            PX_VERSION_MAJOR, PX_VERSION_MINOR, PX_VERSION_PATCH);
    uint64_t format = px_read_uint(&r, 1);
    if (format != FORMAT)
        return refuse(error, label, bytes, "format", format, FORMAT);
    px_read_uint(&r, 3); /* library version: stated in refusals, no reason for one */
    uint64_t rank = px_read_uint(&r, 4), epoch = px_read_uint(&r, 2),
             sequence = px_read_uint(&r, 2);
    uint64_t hash = px_read_uint(&r, 2);
    px_read_uint(&r, 4); /* the salt is there to make checksums differ */
    uint64_t view = px_read_uint(&r, 4), sum = px_read_uint(&r, 4);
    if (sum != checksum(bytes, size))
        return refuse(error, label, bytes, "checksum", sum, checksum(bytes, size));
    if (rank != label->rank)
        return refuse(error, label, bytes, "PE number", rank, label->rank);
    if (epoch != (label->epoch & LOW))
        return refuse(error, label, bytes, "round", epoch, label->epoch & LOW);
    if (((label->sequence - sequence) & LOW) >= LOW / 2)
        return refuse(error, label, bytes, "sequence", sequence, label->sequence);
    if (hash != key_hash(label->key))
        return refuse(error, label, bytes, "key hash", hash, key_hash(label->key));
    *record = (struct px_record){.data = bytes + PX_RECORD_HEADER,
                                 .length = size - PX_RECORD_HEADER,
                                 .sequence = (uint32_t)sequence,
                                 .view = (uint32_t)view,
                                 .checksum = (uint32_t)sum};
    return PX_OK;
}

uint32_t px_record_view_add(uint32_t view, uint32_t rank, uint32_t checksum)
{
    uint8_t bytes[8];
    struct px_writer w = {.bytes = bytes, .capacity = sizeof(bytes)};
    px_write_uint(&w, rank, 4);
    px_write_uint(&w, checksum, 4);
    return view ^ crc32(0, bytes, sizeof(bytes));
}
