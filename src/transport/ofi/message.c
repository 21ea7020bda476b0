/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that the target's processor carries out, so that words which mapped and remote PEs share
 * stay exact: atomics and signals; and what a peer has to be asked, its keys. Each request is
 * answered by one reply, which completes it.
 *
 * What arrives is checked before it is used: a request names addresses of this PE's memory. */
#include "config.h"
#include "src/transport/ofi/private.h"

#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"
#include "src/transport/move.h"

_Static_assert(offsetof(struct px_ofi_op, inlined) ==
                   offsetof(struct px_ofi_op, message) + sizeof(struct px_ofi_message),
               "a message and its inlined data are sent as one piece");

/* A request that is neither listed nor posted yet. */
struct px_ofi_op *px_ofi_request(struct px_ofi *self, struct px_ofi_peer *peer,
                                 enum px_ofi_type type)
{
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("an answer of a PE"), .pe = peer->pe};
    while (peer->requests >= PX_OFI_REQUESTS_MAX)
        px_ofi_turn(self, &wait);
    struct px_ofi_op *op = px_ofi_new(self, PX_OFI_OP_REQUEST, peer);
    op->events = 2; /* sent, answered */
    op->message = (struct px_ofi_message){.magic = PX_OFI_MAGIC,
                                          .type = (uint8_t)type,
                                          .source = self->setup.rank,
                                          .index = op->index,
                                          .generation = op->generation};
    op->local = &op->message;
    op->bytes = sizeof(op->message);
    op->descriptor = px_ofi_describe(self, op, op->local, op->bytes);
    return op;
}

static struct px_ofi_op *make_amo(struct px_ofi *self, uint32_t pe, void *remote,
                                  const struct px_amo *amo)
{
    struct px_ofi_peer *peer = px_ofi_peer(self, pe);
    px_ofi_respect_fence(self, peer, PX_OFI_OP_REQUEST);
    px_ofi_await_room(self);
    struct px_ofi_op *op = px_ofi_request(self, peer, PX_OFI_AMO);
    op->width = amo->width;
    op->message.op = (uint8_t)amo->op;
    op->message.width = amo->width;
    op->message.fetching = amo->fetching;
    op->message.address = (uintptr_t)remote;
    op->message.operand = amo->operand;
    op->message.compare = amo->compare;
    return op;
}

uint64_t px_ofi_amo(void *arg, uint32_t pe, void *remote, const struct px_amo *amo)
{
    struct px_ofi *self = arg;
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("an atomic operation"), .pe = pe};
    uint64_t old = 0;
    uint32_t old_4 = 0;
    bool done = !amo->fetching;
    pthread_mutex_lock(&self->lock);
    struct px_ofi_op *op = make_amo(self, pe, remote, amo);
    if (amo->fetching) {
        op->result = amo->width == 4 ? (void *)&old_4 : &old;
        op->done = &done;
    }
    px_ofi_list(self, op);
    px_ofi_post_now(self, op);
    while (!done)
        px_ofi_turn(self, &wait);
    pthread_mutex_unlock(&self->lock);
    return amo->width == 4 ? old_4 : old;
}

void px_ofi_amo_nbi(void *arg, uint32_t pe, void *remote, const struct px_amo *amo, void *result)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    struct px_ofi_op *op = make_amo(self, pe, remote, amo);
    op->result = result;
    op->message.fetching = result != NULL;
    px_ofi_list(self, op);
    px_ofi_post_now(self, op);
    pthread_mutex_unlock(&self->lock);
}

/* Only the provider's own order keeps notes apart; where there is none each waits for the last one's
 * answer. */
void px_ofi_send_note(void *arg, uint32_t pe, const void *note)
{
    struct px_ofi *self = arg;
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("a request to a PE"), .pe = pe};
    pthread_mutex_lock(&self->lock);
    struct px_ofi_peer *peer = px_ofi_peer(self, pe);
    px_ofi_respect_fence(self, peer, PX_OFI_OP_REQUEST);
    for (uint64_t now = self->next_number;
         !self->ordered && px_ofi_is_older(&peer->list[PX_OFI_OP_REQUEST], now);)
        px_ofi_turn(self, &wait);
    px_ofi_await_room(self);
    struct px_ofi_op *op = px_ofi_request(self, peer, PX_OFI_NOTE);
    memcpy(op->inlined, note, PX_TRANSPORT_NOTE);
    op->bytes = sizeof(op->message) + PX_TRANSPORT_NOTE;
    op->descriptor = px_ofi_describe(self, op, op->local, op->bytes);
    px_ofi_list(self, op);
    px_ofi_post_now(self, op);
    pthread_mutex_unlock(&self->lock);
}

void px_ofi_await_key(struct px_ofi *self, struct px_ofi_peer *peer, size_t chunk)
{
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("the memory keys of a PE"), .pe = peer->pe};
    if (chunk < peer->n_keys && peer->keys[chunk].known)
        return;
    uint64_t reply[2];
    bool done = false;
    struct px_ofi_op *op = px_ofi_request(self, peer, PX_OFI_KEY);
    op->message.address = chunk;
    op->key_reply = reply;
    op->done = &done;
    px_ofi_list(self, op);
    px_ofi_post_now(self, op);
    while (!done)
        px_ofi_turn(self, &wait);
    if (chunk >= peer->n_keys) {
        struct px_ofi_key *keys = realloc(peer->keys, self->n_chunks * sizeof(*keys));
        if (!keys)
            px_fatal(1, "ofi: out of memory for the keys of PE %u", (unsigned)peer->pe);
        memset(keys + peer->n_keys, 0, (self->n_chunks - peer->n_keys) * sizeof(*keys));
        peer->keys = keys;
        peer->n_keys = self->n_chunks;
    }
    peer->keys[chunk] = (struct px_ofi_key){.key = reply[0], .base = reply[1], .known = true};
}

static _Noreturn void bad_message(const struct px_ofi_message *message, size_t length,
                                  const char *what)
{
    px_fatal(1,
             "ofi: a message of %zu bytes that claims to come from PE %u is not acceptable: %s "
             "(type %u, address %#llx). "
             "Do all PEs use the same version of the library?",
             length, (unsigned)message->source, what, (unsigned)message->type,
             (unsigned long long)message->address);
}

static bool is_mine(struct px_ofi *self, uint64_t address, size_t bytes, size_t alignment)
{
    struct px_ofi_chunk *chunk = px_ofi_chunk(self, address);
    if (!chunk || address % alignment)
        return false;
    size_t offset = address - self->setup.base - chunk->offset;
    if (bytes <= chunk->length - offset)
        return true;
    size_t first = chunk->length - offset; /* the rest may lie in the chunk behind it */
    return is_mine(self, address + first, bytes - first, 1);
}

static uint64_t apply(struct px_ofi *self, const struct px_ofi_message *message, size_t length)
{
    if ((message->width != 4 && message->width != 8) || message->op >= PX_AMO_COUNT)
        bad_message(message, length, "unknown operation");
    if (!is_mine(self, message->address, message->width, message->width))
        bad_message(message, length, "the address is not in this PE's memory");
    struct px_amo amo = {.op = (enum px_amo_op)message->op,
                         .width = message->width,
                         .fetching = message->fetching,
                         .operand = message->operand,
                         .compare = message->compare};
    uint64_t old = px_amo_apply((void *)(uintptr_t)message->address, &amo);
    if (px_wait_policy.sleeping)
        px_wait_wake(px_wait_policy.sleeping);
    return old;
}

static uint64_t apply_signal(struct px_ofi *self, const struct px_ofi_message *message,
                             size_t length)
{
    if (message->data_bytes != length - sizeof(*message))
        bad_message(message, length, "its length differs from what it says");
    if (message->data_bytes && !is_mine(self, message->compare, message->data_bytes, 1))
        bad_message(message, length, "its data would lie outside this PE's memory");
    if (message->data_bytes)
        memcpy((void *)(uintptr_t)message->compare, message + 1, message->data_bytes);
    return apply(self, message, length);
}

static void reply(struct px_ofi *self, const struct px_ofi_message *request, uint64_t value,
                  uint64_t second)
{
    struct px_ofi_op *op = px_ofi_new(self, PX_OFI_OP_REPLY, px_ofi_peer(self, request->source));
    op->message = (struct px_ofi_message){.magic = PX_OFI_MAGIC,
                                          .type = PX_OFI_REPLY,
                                          .source = self->setup.rank,
                                          .index = request->index,
                                          .generation = request->generation,
                                          .operand = value,
                                          .compare = second};
    op->local = &op->message;
    op->bytes = sizeof(op->message);
    op->descriptor = px_ofi_describe(self, op, op->local, op->bytes);
    px_ofi_defer(self, op);
}

static void give_key(struct px_ofi *self, const struct px_ofi_message *message, size_t length)
{
    if (message->address >= self->n_chunks)
        bad_message(message, length, "there is no such memory");
    const struct px_ofi_chunk *chunk = &self->chunks[message->address];
    reply(self, message, chunk->key, chunk->base);
}

static void take_reply(struct px_ofi *self, const struct px_ofi_message *message, size_t length)
{
    if (message->index >= self->n_blocks * PX_OFI_BLOCK)
        bad_message(message, length, "it answers nothing that was asked");
    struct px_ofi_op *op =
        &self->blocks[message->index / PX_OFI_BLOCK][message->index % PX_OFI_BLOCK];
    if (op->generation != message->generation || op->kind != PX_OFI_OP_REQUEST ||
        op->peer->pe != message->source)
        bad_message(message, length, "it answers nothing that was asked");
    if (op->key_reply) {
        op->key_reply[0] = message->operand;
        op->key_reply[1] = message->compare;
    }
    if (op->result)
        memcpy(op->result, &message->operand,
               op->width); /* low bytes first on the machines we run on */
    px_ofi_event(self, op);
}

static void handle(struct px_ofi *self, const struct px_ofi_message *message, size_t length)
{
    if (length < sizeof(*message) || message->magic != PX_OFI_MAGIC ||
        message->source >= self->setup.size)
        bad_message(message, length, "it is malformed");
    switch (message->type) {
    case PX_OFI_AMO:
        reply(self, message, apply(self, message, length), 0);
        break;
    case PX_OFI_SIGNAL:
        reply(self, message, apply_signal(self, message, length), 0);
        break;
    case PX_OFI_NOTE:
        if (length != sizeof(*message) + PX_TRANSPORT_NOTE || !self->setup.take_note)
            bad_message(message, length, "nobody here takes notes of that size");
        self->setup.take_note(message->source, message + 1);
        reply(self, message, 0, 0);
        break;
    case PX_OFI_KEY:
        give_key(self, message, length);
        break;
    case PX_OFI_PING: /* that it could be sent was the answer */
        break;
    case PX_OFI_REPLY:
        take_reply(self, message, length);
        break;
    default:
        bad_message(message, length, "its type is unknown");
    }
}

void px_ofi_received(struct px_ofi *self, struct px_ofi_op *receive, size_t length)
{
    handle(self, receive->local, length);
    px_ofi_defer(self, receive); /* the buffer is free again */
}
