/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing little-endian integers in a bounded buffer. A cursor that would run over its
 * end stops there and remembers it, so that callers check once, at the end. */
#ifndef PX_PMIX_WIRE_H
#define PX_PMIX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct px_writer {
    uint8_t *bytes;
    size_t capacity, used;
    bool overrun;
};

struct px_reader {
    const uint8_t *bytes;
    size_t length, used;
    bool overrun;
};

static inline void px_write_bytes(struct px_writer *w, const void *data, size_t length)
{
    if (w->overrun || length > w->capacity - w->used) {
        w->overrun = true;
        return;
    }
    if (length)
        memcpy(w->bytes + w->used, data, length);
    w->used += length;
}

/* The low `width` bytes of value, 1 to 8. */
static inline void px_write_uint(struct px_writer *w, uint64_t value, size_t width)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    px_write_bytes(w, bytes, width);
}

static inline void px_read_bytes(struct px_reader *r, void *data, size_t length)
{
    if (r->overrun || length > r->length - r->used) {
        r->overrun = true;
        memset(data, 0, length);
        return;
    }
    if (length)
        memcpy(data, r->bytes + r->used, length);
    r->used += length;
}

static inline uint64_t px_read_uint(struct px_reader *r, size_t width)
{
    uint8_t bytes[8];
    uint64_t value = 0;
    px_read_bytes(r, bytes, width);
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

#endif
