/* SPDX-License-Identifier: BSD-3-Clause */
/* The table's data calls. A transfer is cut at chunk ends, at the device's longest message, at
 * bounce buffers, and into parts for several lanes; each piece becomes one request. How private
 * memory is reached: put up to the inline size      the device copies it while posting up to
 * PX_VERBS_REGISTER_FROM   through bounce buffers (also a blocking put from symmetric memory, when
 * small) larger                         registered for the time of the transfer; bounced when that
 * is refused */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"
#include "src/transport/move.h"

#define LONGEST (1ull << 30)

struct transfer {
    struct px_verbs_peer *peer;
    enum px_verbs_kind kind; /* PX_KIND_PUT or PX_KIND_GET */
    uintptr_t remote, local; /* remote as this PE would use it */
    size_t bytes;
    bool blocking; /* the source may be reused, or the data is there, on return */
    bool signal_follows;
    bool wait_here;         /* so completion is awaited before return */
    uint32_t lanes;         /* over which it is spread */
    size_t piece;           /* longest request */
    struct px_verbs_op *op; /* NULL when nobody waits and nothing was registered */
    struct px_wait wait;
};

enum source { SOURCE_INLINE, SOURCE_BOUNCE, SOURCE_SYMMETRIC, SOURCE_REGISTERED };

/* Wait until requests of other lanes, and messages, that came before the last fence have taken
 * effect. `lane` is the only lane that what follows will use (it keeps its own order),
 * PX_VERBS_LANES_MAX for several; `message` when what follows is a message itself. */
static bool is_settled(const struct px_verbs_peer *peer, uint32_t lane, bool message)
{
    for (uint32_t i = 0; i < peer->n_lanes; i++)
        if (i != lane && peer->lanes[i]->completed < peer->fence_posted[i])
            return false;
    return message || peer->done >= peer->fence_asked;
}

static void settle(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t lane, bool message,
                   struct px_wait *wait)
{
    if (__builtin_expect(!peer->fenced, 1))
        return;
    if (!message && peer->done < peer->fence_asked)
        px_verbs_ask_done(self, peer, wait);
    while (!is_settled(peer, lane, message))
        px_verbs_relax_for(self, peer, wait);
    peer->fenced = !is_settled(peer, PX_VERBS_LANES_MAX, false);
}

static void out_of_window(const struct transfer *transfer)
{
    px_fatal(1, "%s of %zu bytes at %p on PE %u: not symmetric memory",
             transfer->kind == PX_KIND_PUT ? "put" : "get", transfer->bytes,
             (void *)transfer->remote, transfer->peer->pe);
}

static enum source source_of(struct px_verbs *self, const struct transfer *transfer)
{
    if (transfer->kind == PX_KIND_PUT && transfer->bytes <= transfer->peer->lanes[0]->max_inline)
        return SOURCE_INLINE;
    bool symmetric = px_verbs_chunk_of(self, transfer->local) >= 0 &&
                     px_verbs_chunk_of(self, transfer->local + transfer->bytes - 1) >= 0;
    if (transfer->kind == PX_KIND_PUT && transfer->blocking && transfer->bytes <= PX_VERBS_BOUNCE)
        return SOURCE_BOUNCE;
    return symmetric                                  ? SOURCE_SYMMETRIC
           : transfer->bytes < PX_VERBS_REGISTER_FROM ? SOURCE_BOUNCE
                                                      : SOURCE_REGISTERED;
}

/* Register private memory at every port for this transfer. Source memory may be read-only, so a put
 * asks for no write access. Refused (read-only files, devices' memory): bounce buffers do. */
static struct px_verbs_op *register_private(struct px_verbs *self, const struct transfer *transfer)
{
    int access = transfer->kind == PX_KIND_GET ? IBV_ACCESS_LOCAL_WRITE : 0;
    struct px_verbs_op *op = calloc(1, sizeof(*op));
    for (uint32_t i = 0; op && i < self->n_nics; i++) {
        op->mr[i] = self->ibv->ibv_reg_mr(self->nics[i].pd, (void *)transfer->local,
                                          transfer->bytes, access);
        if (!op->mr[i]) {
            while (i--)
                self->ibv->ibv_dereg_mr(op->mr[i]);
            free(op);
            return NULL;
        }
    }
    if (op)
        op->owned = true;
    return op;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many lanes, and the longest piece of each. */
static uint32_t plan_lanes(const struct transfer *transfer, enum source source, size_t *piece)
{
    const struct px_verbs_peer *peer = transfer->peer;
    uint32_t lanes = 1;
    *piece = transfer->bytes;
    if (source >= SOURCE_SYMMETRIC && peer->n_lanes > 1 &&
        transfer->bytes >= PX_VERBS_STRIPE_FROM) {
        lanes = peer->n_lanes;
        *piece = (transfer->bytes / lanes + 4095) & ~(size_t)4095;
        if (*piece < PX_VERBS_STRIPE_MIN)
            *piece = PX_VERBS_STRIPE_MIN;
    }
    if (source == SOURCE_BOUNCE)
        *piece = PX_VERBS_BOUNCE;
    size_t longest = LONGEST;
    for (uint32_t i = 0; i < lanes; i++)
        longest = least(longest, peer->lanes[i]->nic->attributes.max_msg_sz);
    *piece = least(*piece, longest ? longest : LONGEST);
    return lanes;
}

/* One piece: everything it needs is waited for first, then looked up and posted without letting go
 * of the lock. */
static size_t post_piece(struct px_verbs *self, struct transfer *transfer, enum source source,
                         struct px_verbs_lane *lane)
{
    struct px_verbs_peer *peer = transfer->peer;
    int64_t chunk = px_verbs_chunk_of(self, transfer->remote);
    if (chunk < 0)
        out_of_window(transfer);
    while (!px_verbs_keys_known(self, peer, (uint32_t)chunk) ||
           !px_verbs_has_room(self, lane, false) ||
           (source == SOURCE_BOUNCE && !self->n_free_bounces))
        px_verbs_relax_for(self, peer, &transfer->wait);

    const struct px_verbs_chunk *there = &self->chunks[chunk];
    size_t bytes = least(least(transfer->piece, transfer->bytes),
                         self->setup.base + there->offset + there->length - transfer->remote);
    uint32_t mine = (uint32_t)(lane->nic - self->nics);
    struct px_verbs_track track = {.kind = (uint8_t)transfer->kind,
                                   .bounce = PX_VERBS_NO_BOUNCE,
                                   .remote = transfer->remote,
                                   .op = transfer->op};
    struct ibv_sge sge = {.addr = transfer->local};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .opcode = transfer->kind == PX_KIND_PUT ? IBV_WR_RDMA_WRITE
                                                                     : IBV_WR_RDMA_READ};
    if (source == SOURCE_INLINE) {
        wr.send_flags = IBV_SEND_INLINE;
    } else if (source == SOURCE_BOUNCE) {
        track.bounce = self->free_bounces[--self->n_free_bounces];
        uint8_t *buffer = self->bounces + (size_t)track.bounce * PX_VERBS_BOUNCE;
        if (transfer->kind == PX_KIND_PUT)
            memcpy(buffer, (const void *)transfer->local, bytes);
        else
            track.copy_to = (void *)transfer->local;
        sge.addr = (uintptr_t)buffer;
        sge.lkey = lane->nic->bounce_mr->lkey;
    } else if (source == SOURCE_SYMMETRIC) {
        const struct px_verbs_chunk *here = &self->chunks[px_verbs_chunk_of(self, transfer->local)];
        bytes = least(bytes, self->setup.base + here->offset + here->length - transfer->local);
        sge.lkey = here->mr[mine]->lkey;
    } else {
        sge.lkey = transfer->op->mr[mine]->lkey;
    }
    sge.length = track.bytes = (uint32_t)bytes;
    wr.wr.rdma.remote_addr = transfer->remote + (uintptr_t)peer->delta;
    wr.wr.rdma.rkey = peer->keys[chunk][lane->number % peer->theirs.n_nics];
    px_verbs_append(self, lane, &wr, &track, true, !transfer->blocking);
    return bytes;
}

/* Posts the pieces; finish() must follow. The op is held once here, so that it stays until then. */
static void start(struct px_verbs *self, struct transfer *transfer, struct px_verbs_op *waited)
{
    enum source source = source_of(self, transfer);
    struct px_verbs_op *op = source == SOURCE_REGISTERED ? register_private(self, transfer) : NULL;
    if (source == SOURCE_REGISTERED && !op)
        source = SOURCE_BOUNCE;
    transfer->wait_here =
        transfer->blocking && (transfer->kind == PX_KIND_GET || source >= SOURCE_SYMMETRIC);
    transfer->lanes = plan_lanes(transfer, source, &transfer->piece);
    if (transfer->lanes > 1 && transfer->signal_follows)
        transfer->wait_here = true; /* other lanes know nothing of the order of lane 0 */
    transfer->op = op ? op : transfer->wait_here ? waited : NULL;
    if (transfer->op)
        transfer->op->pending = 1;
    settle(self, transfer->peer, transfer->lanes == 1 ? 0 : PX_VERBS_LANES_MAX, false,
           &transfer->wait);
    for (uint32_t turn = 0; transfer->bytes; turn++) {
        struct px_verbs_lane *lane = transfer->peer->lanes[turn % transfer->lanes];
        size_t done = post_piece(self, transfer, source, lane);
        transfer->remote += done;
        transfer->local += done;
        transfer->bytes -= done;
    }
}

static void finish(struct px_verbs *self, struct transfer *transfer)
{
    struct px_verbs_op *op = transfer->op;
    for (uint32_t i = 0; transfer->wait_here && i < transfer->lanes; i++)
        px_verbs_flush(self, transfer->peer->lanes[i]);
    while (transfer->wait_here && op->pending > 1)
        px_verbs_relax(self, &transfer->wait);
    px_verbs_let_go(self, op);
    transfer->op = NULL;
}

static void move(struct px_verbs *self, enum px_verbs_kind kind, uint32_t pe, void *remote,
                 void *local, size_t bytes, bool blocking)
{
    if (!bytes)
        return;
    if (pe == self->setup.rank) {
        memmove(kind == PX_KIND_PUT ? remote : local, kind == PX_KIND_PUT ? local : remote, bytes);
        return;
    }
    struct px_verbs_op waited = {.pending = 0};
    struct transfer transfer = {
        .kind = kind,
        .remote = (uintptr_t)remote,
        .local = (uintptr_t)local,
        .bytes = bytes,
        .blocking = blocking,
        .wait = PX_WAIT_INIT(kind == PX_KIND_PUT ? "remote put" : "remote get")};
    px_verbs_lock(self);
    transfer.peer = px_verbs_ready_peer(self, pe);
    start(self, &transfer, &waited);
    finish(self, &transfer);
    px_verbs_unlock(self);
}

void px_verbs_put(void *self, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    move(self, PX_KIND_PUT, pe, remote, (void *)source, bytes, true);
}

void px_verbs_put_nbi(void *self, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    move(self, PX_KIND_PUT, pe, remote, (void *)source, bytes, false);
}

void px_verbs_get(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    move(self, PX_KIND_GET, pe, (void *)remote, dest, bytes, true);
}

void px_verbs_get_nbi(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    move(self, PX_KIND_GET, pe, (void *)remote, dest, bytes, false);
}

/* Whether the device carries it out coherently with the processor. */
static bool is_native(const struct px_verbs *self, const struct px_amo *amo)
{
    return self->native_atomics && amo->width == 8 &&
           (amo->op == PX_AMO_FETCH || amo->op == PX_AMO_ADD || amo->op == PX_AMO_COMPARE_SWAP);
}

/* The device stores the old value in a bounce buffer; completion copies it to `result`. */
static void native_amo(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t remote,
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

static void message_amo(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t remote,
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

static void amo_stores(struct px_verbs *self, uint32_t pe, void *remote, const struct px_amo *amo,
                       void *result)
{
    struct px_wait wait = PX_WAIT_INIT("remote atomic operation");
    const struct px_verbs_answer answer = {.result = result, .width = amo->width};
    px_verbs_lock(self);
    struct px_verbs_peer *peer = px_verbs_ready_peer(self, pe);
    bool native = is_native(self, amo);
    settle(self, peer, 0, !native, &wait);
    if (native)
        native_amo(self, peer, (uintptr_t)remote, amo, result, NULL, &wait);
    else
        message_amo(self, peer, (uintptr_t)remote, amo, result ? &answer : NULL, &wait);
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
    bool native = is_native(self, amo);
    settle(self, peer, 0, !native, &wait);
    if (native)
        native_amo(self, peer, (uintptr_t)remote, amo, &old, &op, &wait);
    else
        message_amo(self, peer, (uintptr_t)remote, amo, &answer, &wait);
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

static void send_signal(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t signal,
                        uint64_t value, enum px_amo_op op, struct px_wait *wait)
{
    const struct px_amo amo = {.op = op, .width = 8, .operand = value};
    bool native = is_native(self, &amo), write = op == PX_AMO_SET && self->signal_by_write;
    settle(self, peer, 0, !native && !write, wait);
    if (native) {
        native_amo(self, peer, signal, &amo, NULL, NULL, wait);
    } else if (write) {
        struct transfer word = {.peer = peer,
                                .kind = PX_KIND_PUT,
                                .remote = signal,
                                .local = (uintptr_t)&value,
                                .bytes = 8,
                                .blocking = true,
                                .wait = *wait};
        start(self, &word, NULL); /* inline: nothing to wait for */
        finish(self, &word);
    } else {
        message_amo(self, peer, signal, &amo, NULL, wait);
    }
}

void px_verbs_put_signal(void *arg, uint32_t pe, void *remote, const void *source, size_t bytes,
                         uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi)
{
    struct px_verbs *self = arg;
    const struct px_amo amo = {.op = op, .width = 8, .operand = value};
    if (pe == self->setup.rank) {
        memmove(remote, source, bytes);
        (void)px_amo_apply(signal, &amo);
        return;
    }
    struct px_verbs_op waited = {.pending = 0};
    struct transfer transfer = {.kind = PX_KIND_PUT,
                                .remote = (uintptr_t)remote,
                                .local = (uintptr_t)source,
                                .bytes = bytes,
                                .blocking = !nbi,
                                .signal_follows = true,
                                .wait = PX_WAIT_INIT("remote put with signal")};
    px_verbs_lock(self);
    transfer.peer = px_verbs_ready_peer(self, pe);
    if (bytes)
        start(self, &transfer, &waited);
    if (transfer.lanes > 1)
        finish(self, &transfer);
    send_signal(self, transfer.peer, (uintptr_t)signal, value, op, &transfer.wait);
    finish(self, &transfer);
    px_verbs_flush(self, transfer.peer->lanes[0]); /* somebody waits for it */
    px_verbs_unlock(self);
}

/* One lane without messages keeps its own order; else what comes next looks at what was there
 * (settle). */
void px_verbs_fence(void *arg)
{
    struct px_verbs *self = arg;
    px_verbs_lock(self);
    for (uint32_t i = 0; i < self->n_active; i++) {
        struct px_verbs_peer *peer = self->active[i];
        peer->fence_asked = peer->asked;
        peer->fenced = peer->n_lanes > 1 || peer->done < peer->asked;
        for (uint32_t n = 0; n < peer->n_lanes; n++) {
            px_verbs_flush(self, peer->lanes[n]);
            peer->fence_posted[n] = peer->lanes[n]->posted;
        }
    }
    px_verbs_unlock(self);
}

static void start_quiet(struct px_verbs *self, struct px_verbs_peer *peer, struct px_wait *wait)
{
    px_verbs_ask_done(self, peer, wait);
    for (uint32_t i = 0; i < peer->n_lanes; i++)
        px_verbs_flush(self, peer->lanes[i]);
}

/* Waits for what is there now; what other threads add meanwhile is theirs to wait for. */
static void wait_quiet(struct px_verbs *self, struct px_verbs_peer *peer, struct px_wait *wait)
{
    uint64_t asked = peer->asked;
    for (uint32_t i = 0; i < peer->n_lanes; i++) {
        uint64_t posted = peer->lanes[i]->posted;
        while (peer->lanes[i]->completed < posted)
            px_verbs_relax(self, wait);
    }
    while (peer->done < asked)
        px_verbs_relax_for(self, peer, wait);
}

static bool is_idle(const struct px_verbs_peer *peer)
{
    for (uint32_t i = 0; i < peer->n_lanes; i++)
        if (peer->lanes[i]->held || peer->lanes[i]->completed < peer->lanes[i]->posted)
            return false;
    return peer->done == peer->asked;
}

/* Idle peers leave the list; not while another thread walks it. */
static void tidy_active(struct px_verbs *self)
{
    uint32_t kept = 0;
    if (self->quieting)
        return;
    for (uint32_t i = 0; i < self->n_active; i++) {
        struct px_verbs_peer *peer = self->active[i];
        peer->active = !is_idle(peer);
        if (peer->active)
            self->active[kept++] = peer;
    }
    self->n_active = kept;
}

void px_verbs_quiet(void *arg)
{
    struct px_verbs *self = arg;
    struct px_wait wait = PX_WAIT_INIT("quiet");
    px_verbs_lock(self);
    if (self->n_active) {
        self->quieting++;
        for (uint32_t i = 0; i < self->n_active; i++)
            start_quiet(self, self->active[i], &wait);
        for (uint32_t i = 0; i < self->n_active; i++)
            wait_quiet(self, self->active[i], &wait);
        self->quieting--;
        tidy_active(self);
    }
    px_verbs_unlock(self);
}

void px_verbs_quiet_pe(void *arg, uint32_t pe)
{
    struct px_verbs *self = arg;
    struct px_wait wait = PX_WAIT_INIT("quiet");
    px_verbs_lock(self);
    struct px_verbs_peer *peer = self->peers[pe];
    if (peer && peer->active) {
        start_quiet(self, peer, &wait);
        wait_quiet(self, peer, &wait);
    }
    px_verbs_unlock(self);
}
