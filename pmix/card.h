/* SPDX-License-Identifier: BSD-3-Clause */
/* What PEs tell each other at start-up: the card before anything is agreed on, the verdict after each PE has done its
 * part. card.c is the only code that knows the bytes. With the envelope of record.h a card never exceeds 256 bytes.
 * Nothing decoded is trusted beyond "well formed". */
#ifndef PX_PMIX_CARD_H
#define PX_PMIX_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/record.h"
#include "src/diag/error.h"

#define PX_CARD_MAX            (256 - PX_RECORD_HEADER)
#define PX_CARD_MEMORY_BYTES   128 /* the heap's own part, opaque here */
#define PX_CARD_TRANSPORTS_MAX 16
#define PX_CARD_SETTINGS_MAX   12
#define PX_CARD_GPUS_MAX       24 /* more in one process are left out */

/* What the PEs of a node choose GPUs, NICs and processors by: the same bytes for all, so the same
 * choice. A PCI address is domain << 16 | bus << 8 | device << 3 | function. */
struct px_card_seat {
    uint64_t numa_mask; /* NUMA nodes of its binding; 0 when not known */
    bool has_gpu;       /* it uses this one */
    uint64_t gpu;
    uint8_t gpu_uuid[16];
    size_t n_visible; /* those it may choose from; once it has one, that one if there is no other */
    uint64_t visible[PX_CARD_GPUS_MAX];
};

struct px_card {
    uint8_t version[3]; /* of the library that wrote it; set by encode */
    uint32_t pe;
    bool failed; /* start-up has failed here already: the verdict says why; the rest is void */
    uint8_t heap_kind;   /* 0 host, 1 GPU */
    uint16_t transports; /* bit i: number i of the list works here */
    uint64_t heap_bytes; /* symmetric size asked for */
    bool choosing; /* its memory waits until all know who sits where: `memory` is void, visible is not */
    uint8_t memory[PX_CARD_MEMORY_BYTES];
    uint32_t settings[PX_CARD_SETTINGS_MAX]; /* of 24 bits, the same on all PEs; opaque here, void like memory */
    struct px_card_seat seat;
};

px_status px_card_encode(const struct px_card *card, uint8_t bytes[PX_CARD_MAX], size_t *length,
                         struct px_error *error);
px_status px_card_decode(const uint8_t *bytes, size_t length, struct px_card *card,
                         struct px_error *error);

#define PX_VERDICT_TEXT_MAX    320
#define PX_VERDICT_ADDRESS_MAX 96 /* equals PX_TRANSPORT_ADDRESS_MAX */
#define PX_VERDICT_MAX         (8 + PX_VERDICT_ADDRESS_MAX + PX_VERDICT_TEXT_MAX)

struct px_verdict {
    px_status status;
    char text[PX_VERDICT_TEXT_MAX]; /* why it failed; "" for success */
    uint8_t transport;              /* number in the list, PX_CARD_TRANSPORTS_MAX for none */
    size_t address_length;
    uint8_t address[PX_VERDICT_ADDRESS_MAX];
};

px_status px_verdict_encode(const struct px_verdict *verdict, uint8_t bytes[PX_VERDICT_MAX],
                            size_t *length, struct px_error *error);
px_status px_verdict_decode(const uint8_t *bytes, size_t length, struct px_verdict *verdict,
                            struct px_error *error);

#endif
