/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving side of a PE: one datagram queue pair for greetings and one shared receive queue
 * for messages of all peers, so that its memory does not grow with the job. Both wake the progress
 * thread through one channel. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "src/diag/log.h"

#define RECEIVES       512
#define RECEIVE_BYTES  64
#define DATAGRAMS      64
#define DATAGRAM_BYTES 1088 /* 40 of them for the route header that comes first */
#define ROUTE_HEADER   40
#define SENDS          16

static uint32_t datagram_key(uint64_t nonce)
{
    return (uint32_t)nonce & 0x7fffffff; /* the top bit means "use the sender's own key" */
}

static void post_receive(struct px_verbs *self, uint64_t index)
{
    struct ibv_sge sge = {.addr = (uintptr_t)self->receives + index * RECEIVE_BYTES,
                          .length = RECEIVE_BYTES,
                          .lkey = self->receive_mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;
    int code = ibv_post_srq_recv(self->srq, &wr, &bad);
    if (code)
        px_fatal(1, "verbs: posting a receive on %s: %s", self->nics[0].name, strerror(code));
}

static void post_datagram(struct px_verbs *self, uint64_t index)
{
    struct ibv_sge sge = {.addr = (uintptr_t)self->datagrams + index * DATAGRAM_BYTES,
                          .length = DATAGRAM_BYTES,
                          .lkey = self->datagram_mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;
    int code = ibv_post_recv(self->datagram_qp, &wr, &bad);
    if (code)
        px_fatal(1, "verbs: posting a datagram receive on %s: %s", self->nics[0].name,
                 strerror(code));
}

/* Shared mapping: a fork of the program must not copy pages that the device writes to. */
static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static px_status open_channel(struct px_verbs *self, struct px_error *error)
{
    self->channel = self->ibv->ibv_create_comp_channel(self->nics[0].context);
    if (!self->channel)
        return px_error_errno(error, errno, "%s: completion channel", self->nics[0].name);
    int flags = fcntl(self->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(self->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return px_error_errno(error, errno, "%s: completion channel", self->nics[0].name);
    return PX_OK;
}

static px_status open_messages(struct px_verbs *self, struct px_error *error)
{
    struct px_verbs_nic *nic = &self->nics[0];
    uint32_t most = (uint32_t)nic->device.max_srq_wr;
    self->n_receives = most < RECEIVES ? most : RECEIVES;
    struct ibv_srq_init_attr attributes = {.attr = {.max_wr = self->n_receives, .max_sge = 1}};
    self->receive_cq =
        self->ibv->ibv_create_cq(nic->context, (int)self->n_receives + 16, NULL, self->channel, 0);
    if (!self->receive_cq)
        return px_error_errno(error, errno, "%s: completion queue", nic->name);
    self->srq = self->ibv->ibv_create_srq(nic->pd, &attributes);
    if (!self->srq)
        return px_error_errno(error, errno, "%s: shared receive queue of %u entries", nic->name,
                              self->n_receives);
    self->receives = pages((size_t)RECEIVES * RECEIVE_BYTES);
    if (!self->receives)
        return px_error_errno(error, errno, "receive buffers");
    self->receive_mr = px_verbs_register(
        self, nic, self->receives, (size_t)RECEIVES * RECEIVE_BYTES, "receive buffers", error);
    if (!self->receive_mr)
        return error ? error->status : PX_ERR_SYSTEM;
    for (uint32_t i = 0; i < self->n_receives; i++)
        post_receive(self, i);
    return PX_OK;
}

static px_status raise_datagram_qp(struct px_verbs *self, struct px_error *error)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .port_num = self->nics[0].port,
                               .qkey = datagram_key(self->card.nonce)};
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR}, send = {.qp_state = IBV_QPS_RTS};
    int code = self->ibv->ibv_modify_qp(
        self->datagram_qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (!code)
        code = self->ibv->ibv_modify_qp(self->datagram_qp, &receive, IBV_QP_STATE);
    if (!code)
        code = self->ibv->ibv_modify_qp(self->datagram_qp, &send, IBV_QP_STATE | IBV_QP_SQ_PSN);
    return code ? px_error_errno(error, code, "%s: starting the datagram queue pair",
                                 self->nics[0].name)
                : PX_OK;
}

static px_status open_datagrams(struct px_verbs *self, struct px_error *error)
{
    struct px_verbs_nic *nic = &self->nics[0];
    size_t bytes = (size_t)(DATAGRAMS + SENDS) * DATAGRAM_BYTES;
    self->datagram_cq =
        self->ibv->ibv_create_cq(nic->context, DATAGRAMS + 16, NULL, self->channel, 0);
    self->datagram_send_cq = self->ibv->ibv_create_cq(nic->context, SENDS + 16, NULL, NULL, 0);
    if (!self->datagram_cq || !self->datagram_send_cq)
        return px_error_errno(error, errno, "%s: completion queue", nic->name);
    struct ibv_qp_init_attr attributes = {
        .qp_type = IBV_QPT_UD,
        .send_cq = self->datagram_send_cq,
        .recv_cq = self->datagram_cq,
        .cap = {.max_send_wr = SENDS,
                .max_recv_wr = DATAGRAMS,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .sq_sig_all = 1,
    };
    self->datagram_qp = self->ibv->ibv_create_qp(nic->pd, &attributes);
    if (!self->datagram_qp)
        return px_error_errno(error, errno, "%s: datagram queue pair", nic->name);
    self->datagrams = pages(bytes);
    if (!self->datagrams)
        return px_error_errno(error, errno, "datagram buffers");
    self->datagram_mr =
        px_verbs_register(self, nic, self->datagrams, bytes, "datagram buffers", error);
    if (!self->datagram_mr)
        return error ? error->status : PX_ERR_SYSTEM;
    px_status status = raise_datagram_qp(self, error);
    for (uint32_t i = 0; i < DATAGRAMS && status == PX_OK; i++)
        post_datagram(self, i);
    return status;
}

px_status px_verbs_open_receives(struct px_verbs *self, struct px_error *error)
{
    uint64_t nonce;
    if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce))
        return px_error_errno(error, errno, "getrandom");
    self->card = (struct px_verbs_card){.magic = PX_VERBS_MAGIC,
                                        .version = PX_VERBS_VERSION,
                                        .size = sizeof(self->card),
                                        .nonce = nonce,
                                        .address = self->nics[0].address};
    px_status status = open_channel(self, error);
    if (status == PX_OK)
        status = open_messages(self, error);
    if (status == PX_OK)
        status = open_datagrams(self, error);
    if (status != PX_OK)
        return status;
    self->card.qpn = self->datagram_qp->qp_num;
    /* Replies are sent unsolicited: who waits for one polls, and the progress thread sleeps on. */
    int code = ibv_req_notify_cq(self->receive_cq, 1);
    if (!code)
        code = ibv_req_notify_cq(self->datagram_cq, 0);
    return code ? px_error_errno(error, code, "%s: asking for events", self->nics[0].name) : PX_OK;
}

void px_verbs_close_receives(struct px_verbs *self)
{
    const struct px_ibv *ibv = self->ibv;
    if (self->datagram_qp)
        ibv->ibv_destroy_qp(self->datagram_qp);
    if (self->srq)
        ibv->ibv_destroy_srq(self->srq);
    if (self->datagram_mr)
        ibv->ibv_dereg_mr(self->datagram_mr);
    if (self->receive_mr)
        ibv->ibv_dereg_mr(self->receive_mr);
    if (self->datagrams)
        munmap(self->datagrams, (size_t)(DATAGRAMS + SENDS) * DATAGRAM_BYTES);
    if (self->receives)
        munmap(self->receives, (size_t)RECEIVES * RECEIVE_BYTES);
    if (self->datagram_cq)
        ibv->ibv_destroy_cq(self->datagram_cq);
    if (self->datagram_send_cq)
        ibv->ibv_destroy_cq(self->datagram_send_cq);
    if (self->receive_cq)
        ibv->ibv_destroy_cq(self->receive_cq);
    if (self->channel)
        ibv->ibv_destroy_comp_channel(self->channel);
}

/* The sender's number must belong to the connection that the message came by. */
static struct px_verbs_peer *sender(struct px_verbs *self, const struct px_verbs_message *message,
                                    uint32_t qpn)
{
    struct px_verbs_peer *peer =
        message->from < self->setup.size ? self->peers[message->from] : NULL;
    if (!peer || !peer->n_lanes || peer->lanes[0]->qp->qp_num != qpn)
        px_fatal(1, "verbs: a message that says it is from PE %u came by another connection",
                 message->from);
    return peer;
}

static void received(struct px_verbs *self, const struct ibv_wc *wc)
{
    struct px_verbs_message message = {.kind = 0};
    if (wc->status == IBV_WC_WR_FLUSH_ERR)
        return; /* its connection broke, and the sending side says why */
    if (wc->status != IBV_WC_SUCCESS)
        px_fatal(1, "verbs: receiving a message on %s: %s", self->nics[0].name,
                 self->ibv->ibv_wc_status_str(wc->status));
    size_t length = wc->byte_len < sizeof(message) ? wc->byte_len : sizeof(message);
    memcpy(&message, self->receives + wc->wr_id * RECEIVE_BYTES, length);
    post_receive(self, wc->wr_id);
    px_verbs_message_arrived(self, sender(self, &message, wc->qp_num), &message, wc->byte_len);
}

bool px_verbs_poll_receives(struct px_verbs *self)
{
    struct ibv_wc wc[16];
    int n = ibv_poll_cq(self->receive_cq, 16, wc);
    for (int i = 0; i < n; i++)
        received(self, &wc[i]);
    return n > 0;
}

static void drain_datagram_sends(struct px_verbs *self)
{
    struct ibv_wc wc[SENDS];
    int n = ibv_poll_cq(self->datagram_send_cq, SENDS, wc);
    if (n > 0)
        self->datagram_sends -=
            (uint32_t)n; /* success or not: greetings are repeated until answered */
}

bool px_verbs_poll_datagrams(struct px_verbs *self)
{
    struct ibv_wc wc[16];
    uint8_t bytes[DATAGRAM_BYTES];
    int n = ibv_poll_cq(self->datagram_cq, 16, wc);
    for (int i = 0; i < n; i++) {
        size_t length = wc[i].status == IBV_WC_SUCCESS && wc[i].byte_len > ROUTE_HEADER
                            ? wc[i].byte_len - ROUTE_HEADER
                            : 0;
        memcpy(bytes, self->datagrams + wc[i].wr_id * DATAGRAM_BYTES + ROUTE_HEADER, length);
        if (wc[i].status != IBV_WC_WR_FLUSH_ERR)
            post_datagram(self, wc[i].wr_id);
        if (length)
            px_verbs_greeted(self, bytes, length);
    }
    return n > 0;
}

bool px_verbs_send_datagram(struct px_verbs *self, struct px_verbs_peer *peer, const void *bytes,
                            size_t length)
{
    drain_datagram_sends(self);
    if (self->datagram_sends == SENDS)
        return false;
    /* Any buffer will do as long as it is not in flight, and sends complete in order. */
    static const size_t first = DATAGRAMS;
    uint8_t *buffer = self->datagrams + (first + self->next_datagram++ % SENDS) * DATAGRAM_BYTES;
    memcpy(buffer, bytes, length);
    struct ibv_sge sge = {
        .addr = (uintptr_t)buffer, .length = (uint32_t)length, .lkey = self->datagram_mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.ud.ah = peer->ah;
    wr.wr.ud.remote_qpn = peer->card.qpn;
    wr.wr.ud.remote_qkey = datagram_key(peer->card.nonce);
    if (ibv_post_send(self->datagram_qp, &wr, &bad) != 0)
        return false;
    self->datagram_sends++;
    return true;
}
