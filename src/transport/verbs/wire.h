/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes that PEs send one another: the address on the card, the greeting that makes a
 * connection, and messages carried out by the target's progress thread. Fixed sizes, host byte
 * order (all PEs of a job have the same, the magic number notices otherwise). Nothing decoded here
 * is trusted before its check function has said so. */
#ifndef PX_TRANSPORT_VERBS_WIRE_H
#define PX_TRANSPORT_VERBS_WIRE_H

#include <stdint.h>

#include "src/diag/error.h"
#include "src/transport/transport.h"
#include "src/transport/verbs/choose.h"

#define PX_VERBS_MAGIC      0x70787662u /* "pxvb" */
#define PX_VERBS_VERSION    2
#define PX_VERBS_LANES_MAX  16 /* queue pairs to one peer, over all ports */
#define PX_VERBS_EARLY_KEYS 4  /* chunks whose keys travel with the greeting */

/* One port of one PE. */
struct px_verbs_address {
    uint8_t gid[16];
    uint16_t lid;
    uint8_t mtu; /* enum ibv_mtu */
    uint8_t ethernet;
    uint8_t gid_type; /* enum px_gid_type, for messages */
    uint8_t port;
    uint16_t gid_index;
};

/* On the card of a PE: where its datagram queue pair listens. */
struct px_verbs_card {
    uint32_t magic;
    uint16_t version, size;
    uint64_t nonce; /* random for each start; low bits are the datagram key, so only members of the
                       job can speak */
    uint32_t qpn;
    uint32_t reserved;
    struct px_verbs_address address;
};

/* How far the sender of a greeting is. Each side sends until it knows that the other is connected.
 */
enum px_verbs_level {
    PX_LEVEL_NONE,      /* not a message: nothing happened yet */
    PX_LEVEL_OFFERED,   /* my queue pairs exist */
    PX_LEVEL_CONNECTED, /* they are connected to yours and receive */
    PX_LEVEL_READY,     /* and I know that yours are too */
};

struct px_verbs_greeting {
    uint32_t magic;
    uint16_t version, size;
    uint64_t nonce, your_nonce;
    uint64_t base; /* where my symmetric window starts */
    uint32_t from, to;
    uint32_t level; /* enum px_verbs_level */
    uint32_t n_nics, n_lanes;
    uint32_t epoch, n_keys; /* of memory: see struct px_verbs_message */
    uint32_t reads;         /* that one of my queue pairs serves at once */
    struct px_verbs_address nics[PX_VERBS_NICS_MAX];
    uint32_t qpn[PX_VERBS_LANES_MAX], psn[PX_VERBS_LANES_MAX];
    uint32_t keys[PX_VERBS_EARLY_KEYS][PX_VERBS_NICS_MAX];
};

enum px_verbs_message_kind {
    PX_MESSAGE_AMO = 1, /* carry out, answer when PX_MESSAGE_ANSWER is set */
    PX_MESSAGE_KEYS,    /* tell the keys of a chunk */
    PX_MESSAGE_NOTE,    /* hand over to whoever takes notes */
    PX_MESSAGE_FLUSH,   /* answer when everything before it has been carried out */
    PX_MESSAGE_REPLY,   /* to AMO and FLUSH */
    PX_MESSAGE_KEYS_REPLY,
};
#define PX_MESSAGE_ANSWER 1

/* Over the reliable connection, on lane 0, in order. */
struct px_verbs_message {
    uint8_t kind, op, width, flags;
    uint32_t from;   /* checked against the connection it came by */
    uint64_t number; /* of the request at its sender, from 1; in a REPLY all up to it have been
                        carried out */
    union {
        struct {
            uint64_t offset; /* of the word in the window */
            uint64_t operand, compare;
        } amo;
        uint8_t note[PX_TRANSPORT_NOTE];
        uint64_t old; /* REPLY to AMO */
        struct {
            uint32_t epoch; /* how often memory was dropped: a chunk number means the same only
                               within one */
            uint32_t chunk;
            uint32_t known; /* REPLY: 0 while the target does not have the chunk yet */
            uint32_t key[PX_VERBS_NICS_MAX];
        } keys;
    };
};

px_status px_verbs_check_card(const void *bytes, size_t length, struct px_verbs_card *card,
                              struct px_error *error);
px_status px_verbs_check_greeting(const void *bytes, size_t length, uint32_t n_pes,
                                  struct px_verbs_greeting *greeting, struct px_error *error);
px_status px_verbs_check_message(const void *bytes, size_t length, struct px_verbs_message *message,
                                 struct px_error *error);

#endif
