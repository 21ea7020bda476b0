/* SPDX-License-Identifier: BSD-3-Clause */
/* The card: what a PE tells all others in the first exchange. card.c is the only code that knows
 * its bytes; with the envelope of record.h it never exceeds 256 bytes. Nothing in a decoded card is
 * trusted beyond "well formed". */
#ifndef PX_PMIX_CARD_H
#define PX_PMIX_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmix/record.h"
#include "src/diag/error.h"
#include "src/transport/transport.h"

#define PX_CARD_MAX    (256 - PX_RECORD_HEADER)
#define PX_CARD_RANGES 4
#define PX_CARD_PAGE   4096ul /* unit of ranges and spans on the wire */

/* A piece of address space; start and length are multiples of PX_CARD_PAGE. */
struct px_card_range {
    uint64_t start, length;
};

struct px_card {
    uint8_t version[3]; /* of the library that wrote it; set by encode */
    uint32_t pe;
    uint8_t
        node_id[16]; /* of machine and boot: a hint, the launcher decides and mapping confirms */
    uint32_t pid;    /* in its own PID namespace */
    uint64_t pid_ns, net_ns; /* inode numbers of its namespaces, as the kernel has them: 32 bits */
    uint64_t nonce;
    uint32_t n_ranges;
    struct px_card_range ranges[PX_CARD_RANGES]; /* free address space */
    uint64_t largest_span; /* it could reserve in one piece; a multiple of PX_CARD_PAGE */
    uint64_t page;         /* granularity of its heap's memory, a power of two */
    uint64_t heap_bytes;   /* symmetric size asked for */
    uint8_t heap_kind;
    bool has_gpu;
    uint8_t gpu_uuid[16];
    uint32_t gpu_domain; /* PCI address */
    uint8_t gpu_bus, gpu_device, gpu_function;
    char transport[9]; /* name, at most 8 characters; "" when it has none */
    size_t address_length;
    uint8_t address[PX_TRANSPORT_ADDRESS_MAX];
};

/* Refuses values that the wire cannot carry, by field. `capacity` PX_CARD_MAX always suffices. */
px_status px_card_encode(const struct px_card *card, uint8_t *bytes, size_t capacity,
                         size_t *length, struct px_error *error);

px_status px_card_decode(const uint8_t *bytes, size_t length, struct px_card *card,
                         struct px_error *error);

#endif
