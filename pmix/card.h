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

struct px_card {
    uint8_t version[3]; /* of the library that wrote it; set by encode */
    uint32_t pe;
    bool failed; /* start-up has failed here already: the verdict says why; the rest is void */
    uint8_t heap_kind;   /* 0 host, 1 GPU */
    uint16_t transports; /* bit i: number i of the list works here */
    uint64_t heap_bytes; /* symmetric size asked for */
    uint8_t memory[PX_CARD_MEMORY_BYTES];
    bool has_gpu;
    uint8_t gpu_uuid[16];
    uint32_t gpu_domain; /* PCI address */
    uint8_t gpu_bus, gpu_device, gpu_function;
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
