/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes: making and connecting queue pairs, handing requests to the device, noticing completions.
 * See private.h for the rule that keeps a full queue from ever blocking: the last request of every
 * chain is signalled. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/diag/log.h"

#define NUMBER_BITS 40 /* of wr_id: the request; above it the lane's slot */
#define NUMBER_MASK ((1ull << NUMBER_BITS) - 1)
#define READS_MOST  16
#define HOP_LIMIT   64
#define RNR_FOREVER                                                                                \
    7 /* the peer's receive queue is short for a moment; its death is noticed by the retry limit   \
       */
#define RNR_TIMER        12 /* 0.64 ms */
#define SOFTWARE_RETRIES 6  /* Soft-RoCE takes 7 for "for ever" */

uint32_t px_verbs_reads(const struct px_verbs_nic *nic)
{
    uint32_t most = (uint32_t)nic->device.max_qp_rd_atom;
    return most < 1 ? 1 : most < READS_MOST ? most : READS_MOST;
}

void px_verbs_fill_route(const struct px_verbs *self, const struct px_verbs_nic *nic,
                         const struct px_verbs_address *theirs, struct ibv_ah_attr *route)
{
    *route =
        (struct ibv_ah_attr){.dlid = theirs->lid, .sl = (uint8_t)self->sl, .port_num = nic->port};
    bool other_subnet = memcmp(theirs->gid, nic->address.gid, 8) != 0;
    if (!nic->address.ethernet && !other_subnet)
        return;
    route->is_global = 1;
    memcpy(route->grh.dgid.raw, theirs->gid, 16);
    route->grh.sgid_index = (uint8_t)nic->address.gid_index;
    route->grh.hop_limit = HOP_LIMIT;
    route->grh.traffic_class = (uint8_t)self->traffic_class;
}

static px_status take_slot(struct px_verbs_nic *nic, struct px_verbs_lane *lane)
{
    for (uint32_t i = 0; i < nic->n_lanes; i++)
        if (!nic->lanes[i]) {
            nic->lanes[i] = lane;
            lane->slot = i;
            return PX_OK;
        }
    if (nic->n_lanes == nic->lane_capacity) {
        uint32_t capacity = nic->lane_capacity ? nic->lane_capacity * 2 : 16;
        void *lanes = realloc(nic->lanes, capacity * sizeof(*nic->lanes));
        if (!lanes)
            return PX_ERR_NO_MEMORY;
        nic->lanes = lanes;
        nic->lane_capacity = capacity;
    }
    lane->slot = nic->n_lanes;
    nic->lanes[nic->n_lanes++] = lane;
    return PX_OK;
}

static px_status create_queue(struct px_verbs *self, struct px_verbs_lane *lane,
                              struct px_error *error)
{
    struct px_verbs_nic *nic = lane->nic;
    bool first = nic == &self->nics[0];
    uint32_t depth = self->queue_depth < (uint32_t)nic->device.max_qp_wr
                         ? self->queue_depth
                         : (uint32_t)nic->device.max_qp_wr;
    struct ibv_qp_init_attr attributes = {
        .qp_type = IBV_QPT_RC,
        .send_cq = nic->send_cq,
        .recv_cq = first ? self->receive_cq : nic->send_cq,
        .srq = first ? self->srq : NULL,
        .cap = {.max_send_wr = depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = PX_VERBS_INLINE},
    };
    lane->qp = self->ibv->ibv_create_qp(nic->pd, &attributes);
    if (!lane->qp)
        return px_error_errno(error, errno,
                              "%s: making a queue pair of %u entries (the device allows %d queue "
                              "pairs; this PE has %u. "
                              "NVSHMEM_QP_DEPTH makes them smaller)",
                              nic->name, depth, nic->device.max_qp, nic->n_lanes);
    lane->depth = depth;
    lane->max_inline = attributes.cap.max_inline_data < PX_VERBS_INLINE
                           ? attributes.cap.max_inline_data
                           : PX_VERBS_INLINE;
    lane->tracks = calloc(depth, sizeof(*lane->tracks));
    lane->bytes = calloc(PX_VERBS_CHAIN, sizeof(*lane->bytes));
    if (!lane->tracks || !lane->bytes)
        return px_error_set(error, PX_ERR_NO_MEMORY, "books of a queue pair of %u entries", depth);
    if (lane->max_inline < sizeof(struct px_verbs_message))
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "%s sends only %u bytes inline, %zu are needed", nic->name,
                            lane->max_inline, sizeof(struct px_verbs_message));
    return PX_OK;
}

static px_status initialise_queue(struct px_verbs *self, struct px_verbs_lane *lane,
                                  struct px_error *error)
{
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT,
        .port_num = lane->nic->port,
        .qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    };
    int code = self->ibv->ibv_modify_qp(
        lane->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return code ? px_error_errno(error, code, "%s: initialising a queue pair", lane->nic->name)
                : PX_OK;
}

px_status px_verbs_make_lane(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t number,
                             struct px_error *error)
{
    struct px_verbs_lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return px_error_set(error, PX_ERR_NO_MEMORY, "lane");
    *lane = (struct px_verbs_lane){.nic = &self->nics[number % self->n_nics],
                                   .peer = peer,
                                   .number = number,
                                   .slot = UINT32_MAX};
    px_status status = PX_OK;
    if (getrandom(&lane->psn, sizeof(lane->psn), 0) != (ssize_t)sizeof(lane->psn))
        status = px_error_errno(error, errno, "getrandom");
    lane->psn &= 0xffffff;
    if (status == PX_OK)
        status = create_queue(self, lane, error);
    if (status == PX_OK)
        status = initialise_queue(self, lane, error);
    if (status == PX_OK && take_slot(lane->nic, lane) != PX_OK)
        status = px_error_set(error, PX_ERR_NO_MEMORY, "lane");
    if (status != PX_OK) {
        px_verbs_free_lane(self, lane);
        return status;
    }
    peer->lanes[number] = lane;
    return PX_OK;
}

void px_verbs_free_lane(struct px_verbs *self, struct px_verbs_lane *lane)
{
    if (!lane)
        return;
    if (lane->qp)
        self->ibv->ibv_destroy_qp(lane->qp);
    if (lane->slot != UINT32_MAX)
        lane->nic->lanes[lane->slot] = NULL;
    free(lane->tracks);
    free(lane->bytes);
    free(lane);
}

static int to_receive(struct px_verbs *self, struct px_verbs_lane *lane,
                      const struct px_verbs_greeting *theirs)
{
    const struct px_verbs_address *address = &theirs->nics[lane->number % theirs->n_nics];
    uint32_t reads = px_verbs_reads(lane->nic);
    lane->mtu = address->mtu < lane->nic->address.mtu ? address->mtu : lane->nic->address.mtu;
    struct ibv_qp_attr receive = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)lane->mtu,
        .dest_qp_num = theirs->qpn[lane->number],
        .rq_psn = theirs->psn[lane->number],
        .max_dest_rd_atomic = (uint8_t)reads,
        .min_rnr_timer = RNR_TIMER,
    };
    px_verbs_fill_route(self, lane->nic, address, &receive.ah_attr);
    return self->ibv->ibv_modify_qp(lane->qp, &receive,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                        IBV_QP_MIN_RNR_TIMER);
}

static int to_send(struct px_verbs *self, struct px_verbs_lane *lane,
                   const struct px_verbs_greeting *theirs)
{
    uint32_t most = (uint32_t)lane->nic->device.max_qp_init_rd_atom;
    uint32_t reads = theirs->reads < most ? theirs->reads : most;
    struct ibv_qp_attr send = {
        .qp_state = IBV_QPS_RTS,
        .timeout = (uint8_t)self->timeout,
        .retry_cnt =
            (uint8_t)(lane->nic->software && self->retries > SOFTWARE_RETRIES ? SOFTWARE_RETRIES
                                                                              : self->retries),
        .rnr_retry = RNR_FOREVER,
        .sq_psn = lane->psn,
        .max_rd_atomic = (uint8_t)(reads < READS_MOST ? reads : READS_MOST),
    };
    return self->ibv->ibv_modify_qp(lane->qp, &send,
                                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

px_status px_verbs_connect_lane(struct px_verbs *self, struct px_verbs_lane *lane,
                                const struct px_verbs_greeting *theirs, struct px_error *error)
{
    int code = to_receive(self, lane, theirs);
    if (code)
        return px_error_errno(error, code, "%s: queue pair to receive (GID index %u, mtu %u)",
                              lane->nic->name, lane->nic->address.gid_index, 128u << lane->mtu);
    code = to_send(self, lane, theirs);
    return code ? px_error_errno(error, code, "%s: queue pair to send", lane->nic->name) : PX_OK;
}

void px_verbs_let_go(struct px_verbs *self, struct px_verbs_op *op)
{
    if (!op || --op->pending)
        return;
    for (uint32_t i = 0; i < self->n_nics; i++)
        if (op->mr[i])
            self->ibv->ibv_dereg_mr(op->mr[i]);
    if (op->owned)
        free(op);
}

static void finish(struct px_verbs *self, struct px_verbs_track *track)
{
    if (track->bounce != PX_VERBS_NO_BOUNCE) {
        if (track->copy_to)
            memcpy(track->copy_to, self->bounces + (size_t)track->bounce * PX_VERBS_BOUNCE,
                   track->bytes);
        self->free_bounces[self->n_free_bounces++] = track->bounce;
    }
    px_verbs_let_go(self, track->op);
}

static void completed(struct px_verbs *self, struct px_verbs_nic *nic, const struct ibv_wc *wc)
{
    struct px_verbs_lane *lane = nic->lanes[wc->wr_id >> NUMBER_BITS];
    if (wc->status != IBV_WC_SUCCESS)
        px_verbs_broken_lane(self, lane, wc);
    nic->signalled--;
    uint64_t last = lane->completed + ((wc->wr_id - lane->completed) & NUMBER_MASK);
    while (lane->completed <= last) {
        finish(self, &lane->tracks[lane->completed % lane->depth]);
        lane->completed++;
    }
}

bool px_verbs_poll_sends(struct px_verbs *self)
{
    struct ibv_wc wc[16];
    bool any = false;
    for (uint32_t i = 0; i < self->n_nics; i++) {
        struct px_verbs_nic *nic = &self->nics[i];
        int n = nic->signalled ? ibv_poll_cq(nic->send_cq, 16, wc) : 0;
        for (int k = 0; k < n; k++)
            completed(self, nic, &wc[k]);
        any |= n > 0;
    }
    return any;
}

bool px_verbs_has_room(struct px_verbs *self, struct px_verbs_lane *lane, bool urgent)
{
    struct px_verbs_nic *nic = lane->nic;
    for (int turn = 0; turn < 2; turn++) {
        uint64_t used = lane->posted + lane->held - lane->completed;
        /* A chain that is held will need one completion entry too. */
        if (used < lane->depth - (urgent ? 0 : PX_VERBS_RESERVED) &&
            nic->signalled + self->held_lanes + 1 < nic->send_cq_size)
            return true;
        if (turn == 0) {
            px_verbs_flush(self, lane);
            px_verbs_poll_sends(self);
        }
    }
    return false;
}

void px_verbs_mark_active(struct px_verbs *self, struct px_verbs_peer *peer)
{
    if (peer->active)
        return;
    if (self->n_active == self->active_capacity) {
        uint32_t capacity = self->active_capacity ? self->active_capacity * 2 : 16;
        void *active = realloc(self->active, capacity * sizeof(*self->active));
        if (!active)
            px_fatal(1, "verbs: out of memory for a list of %u peers", capacity);
        self->active = active;
        self->active_capacity = capacity;
    }
    peer->active = true;
    self->active[self->n_active++] = peer;
}

void px_verbs_flush(struct px_verbs *self, struct px_verbs_lane *lane)
{
    struct ibv_send_wr *bad;
    uint32_t n = lane->held;
    if (!n)
        return;
    for (uint32_t i = 0; i + 1 < n; i++)
        lane->wr[i].next = &lane->wr[i + 1];
    lane->wr[n - 1].next = NULL;
    lane->wr[n - 1].send_flags |= IBV_SEND_SIGNALED;
    int code = ibv_post_send(lane->qp, lane->wr, &bad);
    if (code)
        px_fatal(1, "verbs: handing %u requests to %s for PE %u: %s (%llu of %u are outstanding)",
                 n, lane->nic->name, lane->peer->pe, strerror(code),
                 (unsigned long long)(lane->posted - lane->completed), lane->depth);
    lane->posted += n;
    lane->held = 0;
    lane->nic->signalled++;
    if (lane->held_since) {
        lane->held_since = 0;
        self->held_lanes--;
    }
}

static void keep_inline(struct px_verbs_lane *lane, uint32_t position)
{
    struct ibv_sge *sge = &lane->sge[position];
    memcpy(lane->bytes[position], (const void *)(uintptr_t)sge->addr, sge->length);
    sge->addr = (uintptr_t)lane->bytes[position];
}

void px_verbs_append(struct px_verbs *self, struct px_verbs_lane *lane,
                     const struct ibv_send_wr *wr, const struct px_verbs_track *track,
                     bool may_hold, bool stable)
{
    uint32_t position = lane->held++;
    uint64_t number = lane->posted + position;
    lane->tracks[number % lane->depth] = *track;
    if (track->op)
        track->op->pending++;
    lane->sge[position] = *wr->sg_list;
    lane->wr[position] = *wr;
    lane->wr[position].sg_list = &lane->sge[position];
    lane->wr[position].num_sge = wr->sg_list->length ? 1 : 0;
    lane->wr[position].wr_id = (uint64_t)lane->slot << NUMBER_BITS | (number & NUMBER_MASK);
    px_verbs_mark_active(self, lane->peer);
    if (!may_hold || lane->held == PX_VERBS_CHAIN ||
        lane->posted - lane->completed < PX_VERBS_BUSY) {
        px_verbs_flush(self, lane);
        px_verbs_poll_sends(self);
        return;
    }
    if ((wr->send_flags & IBV_SEND_INLINE) && !stable)
        keep_inline(lane, position);
    if (position == 0) {
        lane->held_since = self->tick + 1; /* never 0 */
        self->held_lanes++;
        px_verbs_poke_thread(self);
    }
}

void px_verbs_flush_held(struct px_verbs *self, uint64_t older_than)
{
    for (uint32_t i = 0; self->held_lanes && i < self->n_active; i++)
        for (uint32_t n = 0; n < self->active[i]->n_lanes; n++) {
            struct px_verbs_lane *lane = self->active[i]->lanes[n];
            if (lane->held_since && lane->held_since <= older_than)
                px_verbs_flush(self, lane);
        }
}
