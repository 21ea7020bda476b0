/* SPDX-License-Identifier: BSD-3-Clause */
/* Put, get, put with signal, and what orders and completes them.
 *
 * Puts ask for delivery-complete, so a completed put is visible at its target. A blocking put of
 * moderate size copies its source and returns; a larger one waits. Where messages and writes to a
 * peer take effect in order of issue (one byte stream), a signal simply follows its data; elsewhere
 * it is sent by whoever sees the data delivered. */
#include "config.h"
#include "src/transport/ofi/private.h"

#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"

/* How a put treats its source. */
enum source { SOURCE_STAYS, SOURCE_IS_COPIED };

/* The part of a transfer that one operation can carry: within one chunk and the provider's largest
 * message. */
static size_t aim(struct px_ofi *self, struct px_ofi_op *op, uintptr_t remote, size_t bytes)
{
    struct px_ofi_chunk *chunk = px_ofi_chunk(self, remote);
    if (!chunk)
        px_fatal(1, "ofi: address %p lies in no memory of the symmetric heap (PE %u)",
                 (void *)remote, (unsigned)op->peer->pe);
    size_t offset = remote - self->setup.base - chunk->offset, room = chunk->length - offset;
    size_t limit = self->info->ep_attr->max_msg_size;
    size_t length = bytes < room ? bytes : room;
    op->bytes = length < limit ? length : limit;
    op->key = chunk->key;
    op->remote = chunk->base + offset;
    if (self->ask_keys) {
        const struct px_ofi_key *key = &op->peer->keys[chunk - self->chunks];
        op->key = key->key;
        op->remote = key->base + offset;
    }
    return op->bytes;
}

static void know_key(struct px_ofi *self, struct px_ofi_peer *peer, uintptr_t remote)
{
    struct px_ofi_chunk *chunk = px_ofi_chunk(self, remote);
    if (self->ask_keys && chunk)
        px_ofi_await_key(self, peer, (size_t)(chunk - self->chunks));
}

static void take_source(struct px_ofi *self, struct px_ofi_op *op, const char *source,
                        enum source how)
{
    op->local = (void *)(uintptr_t)source;
    if (how == SOURCE_IS_COPIED) {
        op->local = op->inlined;
        if (op->bytes > sizeof(op->inlined) && !(op->local = op->copied = malloc(op->bytes)))
            px_fatal(1, "ofi: out of memory for a copy of %zu bytes", op->bytes);
        memcpy(op->local, source, op->bytes);
    }
    op->descriptor = px_ofi_describe(self, op, op->local, op->bytes);
}

/* One put as operations; `then` is sent when all of them are delivered. */
static void issue_put(struct px_ofi *self, struct px_ofi_peer *peer, uintptr_t remote,
                      const char *source, size_t bytes, enum source how, struct px_ofi_op *then)
{
    while (bytes) {
        know_key(self, peer, remote);
        px_ofi_await_room(self);
        struct px_ofi_op *op = px_ofi_new(self, PX_OFI_OP_PUT, peer);
        size_t length = aim(self, op, remote, bytes);
        take_source(self, op, source, how);
        op->then = then;
        if (then)
            then->holds++;
        px_ofi_list(self, op);
        px_ofi_post_now(self, op);
        remote += length;
        source += length;
        bytes -= length;
    }
}

static void issue_get(struct px_ofi *self, struct px_ofi_peer *peer, uintptr_t remote, char *dest,
                      size_t bytes)
{
    while (bytes) {
        know_key(self, peer, remote);
        px_ofi_await_room(self);
        struct px_ofi_op *op = px_ofi_new(self, PX_OFI_OP_GET, peer);
        size_t length = aim(self, op, remote, bytes);
        op->local = dest;
        op->descriptor = px_ofi_describe(self, op, dest, length);
        px_ofi_list(self, op);
        px_ofi_post_now(self, op);
        remote += length;
        dest += length;
        bytes -= length;
    }
}

/* Until everything of this kind that was issued to the peer so far is complete. */
static void await(struct px_ofi *self, struct px_ofi_peer *peer, enum px_ofi_kind kind,
                  const char *call)
{
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT(call), .pe = peer->pe};
    for (uint64_t now = self->next_number; px_ofi_is_older(&peer->list[kind], now);)
        px_ofi_turn(self, &wait);
}

void px_ofi_put(void *arg, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    struct px_ofi_peer *peer = px_ofi_peer(self, pe);
    px_ofi_respect_fence(self, peer, PX_OFI_OP_PUT);
    issue_put(self, peer, (uintptr_t)remote, source, bytes,
              bytes <= PX_OFI_COPY_MAX ? SOURCE_IS_COPIED : SOURCE_STAYS, NULL);
    if (bytes > PX_OFI_COPY_MAX)
        await(self, peer, PX_OFI_OP_PUT, "put");
    pthread_mutex_unlock(&self->lock);
}

void px_ofi_put_nbi(void *arg, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    struct px_ofi_peer *peer = px_ofi_peer(self, pe);
    px_ofi_respect_fence(self, peer, PX_OFI_OP_PUT);
    issue_put(self, peer, (uintptr_t)remote, source, bytes,
              bytes <= PX_OFI_INLINE_MAX ? SOURCE_IS_COPIED : SOURCE_STAYS, NULL);
    pthread_mutex_unlock(&self->lock);
}

void px_ofi_get(void *arg, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    struct px_ofi_peer *peer = px_ofi_peer(self, pe);
    issue_get(self, peer, (uintptr_t)remote, dest, bytes);
    await(self, peer, PX_OFI_OP_GET, "get");
    pthread_mutex_unlock(&self->lock);
}

void px_ofi_get_nbi(void *arg, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    issue_get(self, px_ofi_peer(self, pe), (uintptr_t)remote, dest, bytes);
    pthread_mutex_unlock(&self->lock);
}

static struct px_ofi_op *make_signal(struct px_ofi *self, struct px_ofi_peer *peer,
                                     uint64_t *signal, uint64_t value, enum px_amo_op op)
{
    px_ofi_await_room(self);
    struct px_ofi_op *request = px_ofi_request(self, peer, PX_OFI_SIGNAL);
    request->message.op = (uint8_t)op;
    request->message.width = 8;
    request->message.address = (uintptr_t)signal;
    request->message.operand = value;
    return request;
}

/* Data and signal in one message. */
static void signal_with_data(struct px_ofi *self, struct px_ofi_op *request, void *remote,
                             const void *source, size_t bytes)
{
    request->message.compare = (uintptr_t)remote;
    request->message.data_bytes = (uint32_t)bytes;
    request->bytes = sizeof(request->message) + bytes;
    if (bytes > sizeof(request->inlined)) {
        request->copied = malloc(request->bytes);
        if (!request->copied)
            px_fatal(1, "ofi: out of memory for a message of %zu bytes", request->bytes);
        memcpy(request->copied, &request->message, sizeof(request->message));
        request->local = request->copied;
    }
    if (bytes)
        memcpy((char *)request->local + sizeof(request->message), source, bytes);
    request->descriptor = px_ofi_describe(self, request, request->local, request->bytes);
    px_ofi_list(self, request);
    px_ofi_post_now(self, request);
}

/* The signal waits for its data here, not in the caller. */
static void signal_when_delivered(struct px_ofi *self, struct px_ofi_op *request, uintptr_t remote,
                                  const void *source, size_t bytes)
{
    request->holds = 1; /* keeps it back while its data is issued */
    px_ofi_list(self, request);
    issue_put(self, request->peer, remote, source, bytes, SOURCE_STAYS, request);
    if (--request->holds == 0)
        px_ofi_defer(self, request);
}

void px_ofi_put_signal(void *arg, uint32_t pe, void *remote, const void *source, size_t bytes,
                       uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    struct px_ofi_peer *peer = px_ofi_peer(self, pe);
    bool together = bytes <= PX_OFI_PAYLOAD_MAX;
    px_ofi_respect_fence(self, peer, together ? PX_OFI_OP_REQUEST : PX_OFI_OP_PUT);
    if (together) {
        signal_with_data(self, make_signal(self, peer, signal, value, op), remote, source, bytes);
    } else if (self->ordered) {
        issue_put(self, peer, (uintptr_t)remote, source, bytes, SOURCE_STAYS, NULL);
        signal_with_data(self, make_signal(self, peer, signal, value, op), remote, source, 0);
    } else {
        signal_when_delivered(self, make_signal(self, peer, signal, value, op), (uintptr_t)remote,
                              source, bytes);
    }
    if (!nbi && !together)
        await(self, peer, PX_OFI_OP_PUT, "put with signal");
    pthread_mutex_unlock(&self->lock);
}

void px_ofi_fence(void *arg)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    self->fence_number = self->next_number;
    pthread_mutex_unlock(&self->lock);
}

void px_ofi_quiet(void *arg)
{
    struct px_ofi *self = arg;
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("quiet"), .pe = UINT32_MAX};
    pthread_mutex_lock(&self->lock);
    for (uint64_t now = self->next_number; px_ofi_is_older(&self->all, now);)
        px_ofi_turn(self, &wait);
    pthread_mutex_unlock(&self->lock);
}

void px_ofi_quiet_pe(void *arg, uint32_t pe)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    struct px_ofi_peer *peer = self->peers[pe];
    for (int kind = 0; peer && kind < PX_OFI_LISTED; kind++)
        await(self, peer, (enum px_ofi_kind)kind, "quiet");
    pthread_mutex_unlock(&self->lock);
}
