/* SPDX-License-Identifier: BSD-3-Clause */
/* The envelope of everything that is published: who wrote it, with which library, in which round,
 * under which key, and a checksum. A zero, foreign, stale or damaged record is refused here, by
 * field, before anybody uses its contents. */
#ifndef PX_PMIX_RECORD_H
#define PX_PMIX_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

#define PX_RECORD_HEADER   28
#define PX_RECORD_DATA_MAX 65000 /* more belongs into the heap, not into the launcher */

/* What the writer states and the reader expects. */
struct px_record_label {
    uint32_t rank;
    uint32_t epoch;    /* which open of the bootstrap in this process, from 1 */
    uint32_t sequence; /* the exchange that carries it, from 1 */
    const char *key;
    uint32_t salt; /* of the writer: makes records of two runs of a program differ; not expected */
    uint32_t
        view; /* digest of the records that the writer saw in the exchange before, 0 unknown; not expected */
};

struct px_record {
    const uint8_t *data; /* within the bytes it was opened from */
    size_t length;
    uint32_t sequence, view, checksum;
};

/* Write header and data to `out`, at least PX_RECORD_HEADER + length bytes. Returns the bytes written. */
size_t px_record_seal(const struct px_record_label *label, const void *data, size_t length,
                      uint8_t *out);

/* Check a record against the label; sequences up to label->sequence are good. */
px_status px_record_open(const struct px_record_label *label, const uint8_t *bytes, size_t size,
                         struct px_record *record, struct px_error *error);

/* Add what was seen of one PE to a digest that does not depend on the order. */
uint32_t px_record_view_add(uint32_t view, uint32_t rank, uint32_t checksum);

#endif
