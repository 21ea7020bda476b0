/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic operations. An address is updated by agents that are coherent with each other only: the device's own atomics
 * are used where it says that they are coherent with the processor (IBV_ATOMIC_GLOB), for the three operations that it
 * has; all others, and all on other devices, are messages to the target's progress thread. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <string.h>

#include "src/diag/log.h"
#include "src/transport/move.h"

/* Whether the device carries it out coherently with the processor. */
bool px_verbs_is_native(const struct px_verbs *self, const struct px_amo *amo)
{
    return self->native_atomics && amo->width == 8 &&
           (amo->op == PX_AMO_FETCH || amo->op == PX_AMO_ADD || amo->op == PX_AMO_COMPARE_SWAP);
}

/* The device stores the old value in a bounce buffer; completion copies it to `result`. */
void px_verbs_native_amo(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t remote,
                         const struct px_amo *amo, void *result, struct px_verbs_op *op,
                         struct px_wait *wait)
{
    struct px_verbs_lane *lane = peer->lanes[0];
    int64_t chunk = px_verbs_chunk_of(self, remote);
    if (chunk < 0)
        px_fatal(1, "atomic operation at %p on PE %u: not symmetric memory", (void *)remote,
                 peer->pe);
    while (!px_verbs_keys_known(self, peer, (uint32_t)chunk) ||
           !px_verbs_has_room(self, lane, false) || !self->n_free_bounces)
        px_verbs_relax_for(self, peer, wait);
    struct px_verbs_track track = {
        .kind = PX_KIND_AMO, .bytes = 8, .remote = remote, .copy_to = result, .op = op};
    track.bounce = self->free_bounces[--self->n_free_bounces];
    struct ibv_sge sge = {.addr = (uintptr_t)self->bounces + (size_t)track.bounce * PX_VERBS_BOUNCE,
                          .length = 8,
                          .lkey = lane->nic->bounce_mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
    wr.wr.atomic.remote_addr = remote + (uintptr_t)peer->delta;
    wr.wr.atomic.rkey = peer->keys[chunk][0];
    wr.wr.atomic.compare_add = amo->op == PX_AMO_ADD ? amo->operand : 0;
    if (amo->op == PX_AMO_COMPARE_SWAP) {
        wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr.wr.atomic.compare_add = amo->compare;
        wr.wr.atomic.swap = amo->operand;
    }
    px_verbs_append(self, lane, &wr, &track, !op, true);
}

void px_verbs_message_amo(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t remote,
                          const struct px_amo *amo, const struct px_verbs_answer *answer,
                          struct px_wait *wait)
{
    struct px_verbs_message message = {
        .kind = PX_MESSAGE_AMO,
        .op = (uint8_t)amo->op,
        .width = amo->width,
        .amo = {.offset = remote - self->setup.base,
                .operand = amo->operand,
                .compare = amo->compare},
    };
    (void)px_verbs_send_message(self, peer, &message, answer, wait,
                                !answer); /* waits for its turn */
}

void px_verbs_send_note(void *arg, uint32_t pe, const void *note)
{
    struct px_verbs *self = arg;
    struct px_wait wait = PX_WAIT_INIT("a request to a PE");
    struct px_verbs_message message = {.kind = PX_MESSAGE_NOTE};
    memcpy(message.note, note, sizeof(message.note));
    px_verbs_lock(self);
    struct px_verbs_peer *peer = px_verbs_ready_peer(self, pe);
    px_verbs_settle(self, peer, 0, true, &wait);
    (void)px_verbs_send_message(self, peer, &message, NULL, &wait, false); /* waits for its turn */
    px_verbs_unlock(self);
}

static void amo_stores(struct px_verbs *self, uint32_t pe, void *remote, const struct px_amo *amo,
                       void *result)
{
    struct px_wait wait = PX_WAIT_INIT("remote atomic operation");
    const struct px_verbs_answer answer = {.result = result, .width = amo->width};
    px_verbs_lock(self);
    struct px_verbs_peer *peer = px_verbs_ready_peer(self, pe);
    bool native = px_verbs_is_native(self, amo);
    px_verbs_settle(self, peer, 0, !native, &wait);
    if (native)
        px_verbs_native_amo(self, peer, (uintptr_t)remote, amo, result, NULL, &wait);
    else
        px_verbs_message_amo(self, peer, (uintptr_t)remote, amo, result ? &answer : NULL, &wait);
    px_verbs_unlock(self);
}

static uint64_t amo_waits(struct px_verbs *self, uint32_t pe, void *remote,
                          const struct px_amo *amo)
{
    struct px_wait wait = PX_WAIT_INIT("remote atomic operation");
    struct px_verbs_op op = {.pending = 0};
    uint64_t old = 0;
    bool arrived = false;
    const struct px_verbs_answer answer = {.result = &old, .width = 8, .arrived = &arrived};
    px_verbs_lock(self);
    struct px_verbs_peer *peer = px_verbs_ready_peer(self, pe);
    bool native = px_verbs_is_native(self, amo);
    px_verbs_settle(self, peer, 0, !native, &wait);
    if (native)
        px_verbs_native_amo(self, peer, (uintptr_t)remote, amo, &old, &op, &wait);
    else
        px_verbs_message_amo(self, peer, (uintptr_t)remote, amo, &answer, &wait);
    while (native ? op.pending > 0 : !arrived)
        px_verbs_relax_for(self, peer, &wait);
    px_verbs_unlock(self);
    return old;
}

uint64_t px_verbs_amo(void *arg, uint32_t pe, void *remote, const struct px_amo *amo)
{
    struct px_verbs *self = arg;
    if (pe == self->setup.rank)
        return px_amo_apply(remote, amo);
    if (amo->fetching)
        return amo_waits(self, pe, remote, amo);
    amo_stores(self, pe, remote, amo, NULL);
    return 0;
}

void px_verbs_amo_nbi(void *arg, uint32_t pe, void *remote, const struct px_amo *amo, void *result)
{
    struct px_verbs *self = arg;
    if (pe == self->setup.rank)
        px_verbs_store(result, amo->width, px_amo_apply(remote, amo));
    else
        amo_stores(self, pe, remote, amo, result);
}
