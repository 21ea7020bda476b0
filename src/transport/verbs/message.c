/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: atomics that the device cannot do coherently with the processor, questions for keys,
 * and "have you carried out everything". They travel on lane 0 in order and are served in that
 * order by whoever polls at the target, usually its progress thread. Each carries a number; an
 * answer tells that all requests up to a number have been carried out. At most PX_VERBS_WINDOW are
 * on their way to a peer, and every quarter of that asks for an answer, so the window always opens
 * again. Serving never waits: answers that do not fit into the send queue are kept. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"
#include "src/transport/move.h"

#define SILENCE_NS 1000000000ull

/* The old value of an atomic operation, as a word of its width; nowhere when `result` is NULL. */
void px_verbs_store(void *result, uint8_t width, uint64_t old)
{
    uint32_t half = (uint32_t)old;
    if (result)
        memcpy(result, width == 4 ? (void *)&half : (void *)&old, width);
}

static void post(struct px_verbs *self, struct px_verbs_peer *peer,
                 struct px_verbs_message *message, bool solicited, bool may_hold)
{
    struct ibv_sge sge = {.addr = (uintptr_t)message, .length = sizeof(*message)};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_INLINE | (solicited ? IBV_SEND_SOLICITED : 0)};
    const struct px_verbs_track track = {
        .kind = PX_KIND_MESSAGE, .bytes = sizeof(*message), .bounce = PX_VERBS_NO_BOUNCE};
    message->from = self->setup.rank;
    px_verbs_append(self, peer->lanes[0], &wr, &track, may_hold, false);
}

/* An answer comes from the peer's process. If that ended after its device took the request, nothing
 * would ever be noticed here: so after some silence an empty write asks the device whether the
 * connection still exists. */
void px_verbs_relax_for(struct px_verbs *self, struct px_verbs_peer *peer, struct px_wait *wait)
{
    struct px_verbs_lane *lane = peer->lanes[0];
    px_verbs_relax(self, wait);
    if (lane->posted + lane->held > lane->completed)
        return;
    uint64_t now = px_verbs_now_ns();
    if (!peer->silent_since)
        peer->silent_since = now;
    if (now - peer->silent_since < SILENCE_NS)
        return;
    struct ibv_sge nothing = {.length = 0};
    const struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &nothing};
    const struct px_verbs_track track = {.kind = PX_KIND_MESSAGE, .bounce = PX_VERBS_NO_BOUNCE};
    peer->silent_since = now;
    px_verbs_append(self, lane, &wr, &track, false, true);
}

static bool has_window(const struct px_verbs_peer *peer)
{
    return peer->asked - peer->done < PX_VERBS_WINDOW;
}

bool px_verbs_send_message(struct px_verbs *self, struct px_verbs_peer *peer,
                           struct px_verbs_message *message, const struct px_verbs_answer *answer,
                           struct px_wait *wait, bool may_hold)
{
    while (!has_window(peer) || !px_verbs_has_room(self, peer->lanes[0], false)) {
        if (!wait)
            return false;
        px_verbs_flush(self, peer->lanes[0]);
        px_verbs_relax_for(self, peer, wait);
    }
    message->number = ++peer->asked;
    peer->answers[message->number % PX_VERBS_WINDOW] =
        answer ? *answer : (struct px_verbs_answer){.arrived = NULL};
    bool quiet = message->kind == PX_MESSAGE_AMO || message->kind == PX_MESSAGE_NOTE;
    if (answer || !quiet || message->number % (PX_VERBS_WINDOW / 4) == 0)
        message->flags |= PX_MESSAGE_ANSWER;
    if (message->flags & PX_MESSAGE_ANSWER)
        peer->asking = message->number;
    post(self, peer, message, true, may_hold);
    return true;
}

void px_verbs_ask_done(struct px_verbs *self, struct px_verbs_peer *peer, struct px_wait *wait)
{
    struct px_verbs_message flush = {.kind = PX_MESSAGE_FLUSH};
    if (peer->asking < peer->asked)
        (void)px_verbs_send_message(self, peer, &flush, NULL, wait,
                                    false); /* waits, so it is sent */
}

static void keep_reply(struct px_verbs *self, struct px_verbs_peer *peer,
                       const struct px_verbs_message *reply)
{
    if (!peer->replies)
        peer->replies = calloc(PX_VERBS_WINDOW, sizeof(*peer->replies));
    if (!peer->replies || peer->reply_count == PX_VERBS_WINDOW)
        px_fatal(1, "verbs: PE %u sent more requests than its window of %d allows", peer->pe,
                 PX_VERBS_WINDOW);
    peer->replies[(peer->reply_head + peer->reply_count++) % PX_VERBS_WINDOW] = *reply;
    self->waiting_replies++;
}

static void answer(struct px_verbs *self, struct px_verbs_peer *peer,
                   struct px_verbs_message *reply)
{
    if (peer->reply_count || !px_verbs_has_room(self, peer->lanes[0], true))
        keep_reply(self, peer, reply);
    else
        post(self, peer, reply, false, false);
}

bool px_verbs_send_replies(struct px_verbs *self)
{
    bool any = false;
    for (uint32_t pe = 0; self->waiting_replies && pe < self->setup.size; pe++) {
        struct px_verbs_peer *peer = self->peers[pe];
        while (peer && peer->reply_count && px_verbs_has_room(self, peer->lanes[0], true)) {
            post(self, peer, &peer->replies[peer->reply_head], false, false);
            peer->reply_head = (peer->reply_head + 1) % PX_VERBS_WINDOW;
            peer->reply_count--;
            self->waiting_replies--;
            any = true;
        }
    }
    return any;
}

static uint64_t carry_out(struct px_verbs *self, struct px_verbs_peer *peer,
                          const struct px_verbs_message *message)
{
    const struct px_amo amo = {.op = (enum px_amo_op)message->op,
                               .width = message->width,
                               .fetching = true,
                               .operand = message->amo.operand,
                               .compare = message->amo.compare};
    uintptr_t word = self->setup.base + message->amo.offset;
    if (message->amo.offset % message->width != 0 || !px_verbs_covers(self, word, message->width))
        px_fatal(1,
                 "verbs: PE %u asks for an atomic operation of %u bytes at %p (offset %#llx), "
                 "which is not symmetric memory of this PE",
                 peer->pe, message->width, (void *)word, (unsigned long long)message->amo.offset);
    uint64_t old = px_amo_apply((void *)word, &amo);
    if (px_wait_policy.sleeping)
        px_wait_wake(px_wait_policy.sleeping);
    return old;
}

static void tell_keys(struct px_verbs *self, const struct px_verbs_message *message,
                      struct px_verbs_message *reply)
{
    reply->kind = PX_MESSAGE_KEYS_REPLY;
    reply->keys.epoch = message->keys.epoch;
    reply->keys.chunk = message->keys.chunk;
    reply->keys.known = message->keys.epoch == self->epoch && message->keys.chunk < self->n_chunks;
    if (reply->keys.known)
        px_verbs_keys_of(self, message->keys.chunk, reply->keys.key);
}

static void serve(struct px_verbs *self, struct px_verbs_peer *peer,
                  const struct px_verbs_message *message)
{
    struct px_verbs_message reply = {.kind = PX_MESSAGE_REPLY, .number = message->number};
    if (message->number != ++peer->served)
        px_fatal(1, "verbs: PE %u sent request %llu where %llu was due", peer->pe,
                 (unsigned long long)message->number, (unsigned long long)peer->served);
    if (message->kind == PX_MESSAGE_AMO)
        reply.old = carry_out(self, peer, message);
    else if (message->kind == PX_MESSAGE_NOTE && self->setup.take_note)
        self->setup.take_note(peer->pe, message->note);
    else if (message->kind == PX_MESSAGE_NOTE)
        px_fatal(1, "verbs: PE %u sent a note, which nobody here takes", peer->pe);
    else if (message->kind == PX_MESSAGE_KEYS)
        tell_keys(self, message, &reply);
    if (message->flags & PX_MESSAGE_ANSWER)
        answer(self, peer, &reply);
}

static void deliver(struct px_verbs *self, struct px_verbs_peer *peer,
                    const struct px_verbs_message *reply)
{
    if (reply->number <= peer->done || reply->number > peer->asked)
        px_fatal(1, "verbs: PE %u answered request %llu, but %llu to %llu are open", peer->pe,
                 (unsigned long long)reply->number, (unsigned long long)peer->done + 1,
                 (unsigned long long)peer->asked);
    const struct px_verbs_answer *waiting = &peer->answers[reply->number % PX_VERBS_WINDOW];
    peer->done = reply->number;
    peer->silent_since = 0;
    if (reply->kind == PX_MESSAGE_KEYS_REPLY) {
        peer->keys_asked = 0;
        if (reply->keys.known)
            px_verbs_note_keys(self, peer, reply->keys.chunk, reply->keys.epoch, reply->keys.key);
        return;
    }
    px_verbs_store(waiting->result, waiting->width, reply->old);
    if (waiting->arrived)
        *waiting->arrived = true;
}

void px_verbs_message_arrived(struct px_verbs *self, struct px_verbs_peer *peer, const void *bytes,
                              size_t length)
{
    struct px_verbs_message message;
    struct px_error error = PX_ERROR_INIT;
    if (px_verbs_check_message(bytes, length, &message, &error) != PX_OK)
        px_fatal(1, "verbs: from PE %u: %s", peer->pe, error.text);
    px_verbs_peer_is_ready(self, peer); /* it sends, so it is connected */
    if (message.kind == PX_MESSAGE_REPLY || message.kind == PX_MESSAGE_KEYS_REPLY)
        deliver(self, peer, &message);
    else
        serve(self, peer, &message);
}
