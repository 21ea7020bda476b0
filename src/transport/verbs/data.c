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

static void out_of_window(const struct transfer *transfer)
{
    px_fatal(1, "%s of %zu bytes at %p on PE %u: not symmetric memory",
             transfer->kind == PX_KIND_PUT ? "put" : "get", transfer->bytes,
             (void *)transfer->remote, transfer->peer->pe);
}

static enum source source_of(struct px_verbs *self, const struct transfer *transfer)
{
    int64_t chunk = px_verbs_chunk_of(self, transfer->local);
    if (__builtin_expect(chunk >= 0 && self->chunks[chunk].gpu, 0))
        return SOURCE_SYMMETRIC; /* the device alone may read it */
    if (transfer->kind == PX_KIND_PUT && transfer->bytes <= transfer->peer->lanes[0]->max_inline)
        return SOURCE_INLINE;
    bool symmetric = px_verbs_covers(self, transfer->local, transfer->bytes);
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

static void wait_for_means(struct px_verbs *self, struct transfer *transfer, enum source source,
                           struct px_verbs_lane *lane, uint32_t chunk)
{
    while (!px_verbs_keys_known(self, transfer->peer, chunk) ||
           !px_verbs_has_room(self, lane, false) ||
           (source == SOURCE_BOUNCE && !self->n_free_bounces))
        px_verbs_relax_for(self, transfer->peer, &transfer->wait);
}

/* Where the device finds, or puts, `bytes` here; returns how many of them lie in one piece. */
static size_t aim(struct px_verbs *self, const struct transfer *transfer, enum source source,
                  const struct px_verbs_nic *nic, size_t bytes, struct ibv_sge *sge,
                  struct px_verbs_track *track)
{
    sge->addr = transfer->local;
    if (source == SOURCE_BOUNCE) {
        track->bounce = self->free_bounces[--self->n_free_bounces];
        uint8_t *buffer = self->bounces + (size_t)track->bounce * PX_VERBS_BOUNCE;
        if (transfer->kind == PX_KIND_PUT)
            memcpy(buffer, (const void *)transfer->local, bytes);
        else
            track->copy_to = (void *)transfer->local;
        sge->addr = (uintptr_t)buffer;
        sge->lkey = nic->bounce_mr->lkey;
    } else if (source == SOURCE_SYMMETRIC) {
        const struct px_verbs_chunk *here = &self->chunks[px_verbs_chunk_of(self, transfer->local)];
        bytes = least(bytes, self->setup.base + here->offset + here->length - transfer->local);
        sge->lkey = here->mr[nic - self->nics]->lkey;
    } else if (source == SOURCE_REGISTERED) {
        sge->lkey = transfer->op->mr[nic - self->nics]->lkey;
    }
    return bytes;
}

/* One piece: everything it needs is waited for first, then looked up and posted without letting go of the lock. */
static size_t post_piece(struct px_verbs *self, struct transfer *transfer, enum source source,
                         struct px_verbs_lane *lane)
{
    struct px_verbs_peer *peer = transfer->peer;
    int64_t chunk = px_verbs_chunk_of(self, transfer->remote);
    if (chunk < 0)
        out_of_window(transfer);
    wait_for_means(self, transfer, source, lane, (uint32_t)chunk);

    const struct px_verbs_chunk *there = &self->chunks[chunk];
    size_t bytes = least(least(transfer->piece, transfer->bytes),
                         self->setup.base + there->offset + there->length - transfer->remote);
    struct px_verbs_track track = {.kind = (uint8_t)transfer->kind,
                                   .bounce = PX_VERBS_NO_BOUNCE,
                                   .remote = transfer->remote,
                                   .op = transfer->op};
    struct ibv_sge sge = {.length = 0};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .opcode = transfer->kind == PX_KIND_PUT ? IBV_WR_RDMA_WRITE
                                                                     : IBV_WR_RDMA_READ,
                             .send_flags = source == SOURCE_INLINE ? IBV_SEND_INLINE : 0};
    bytes = aim(self, transfer, source, lane->nic, bytes, &sge, &track);
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
    px_verbs_settle(self, transfer->peer, transfer->lanes == 1 ? 0 : PX_VERBS_LANES_MAX, false,
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
    if (!op)
        return; /* nobody waits, or it was done already */
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

static void send_signal(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t signal,
                        uint64_t value, enum px_amo_op op, struct px_wait *wait)
{
    const struct px_amo amo = {.op = op, .width = 8, .operand = value};
    bool native = px_verbs_is_native(self, &amo), write = op == PX_AMO_SET && self->signal_by_write;
    px_verbs_settle(self, peer, 0, !native && !write, wait);
    if (native) {
        px_verbs_native_amo(self, peer, signal, &amo, NULL, NULL, wait);
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
        px_verbs_message_amo(self, peer, signal, &amo, NULL, wait);
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
