/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections, made when a peer is first used. Each side sends the same greeting, with what it
 * offers and how far it is, until it knows that the other is connected too; whatever is lost is
 * sent again by whoever wants the connection. There are no roles, so both may begin at once. The
 * side that does not need the connection yet only answers, in its progress thread. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"
#include "src/env/env.h"

#define FIRST_BACKOFF_NS 20000000ull
#define MOST_BACKOFF_NS  500000000ull
#define GIVE_UP_NS       30000000000ull

static px_status make_route(struct px_verbs *self, struct px_verbs_peer *peer,
                            struct px_error *error)
{
    const struct px_verbs_nic *nic = &self->nics[0];
    const struct px_verbs_address *theirs = &peer->card.address;
    struct ibv_ah_attr route;
    px_verbs_fill_route(self, nic, theirs, &route);
    peer->ah = self->ibv->ibv_create_ah(nic->pd, &route);
    return peer->ah ? PX_OK
                    : px_error_errno(error, errno, "%s: route to PE %u", nic->name, peer->pe);
}

/* Two ports that cannot reach each other are told here, not by a time-out. */
static px_status check_match(const struct px_verbs_address *mine,
                             const struct px_verbs_address *theirs, struct px_error *error)
{
    char my_text[PX_GID_TEXT_MAX], their_text[PX_GID_TEXT_MAX];
    struct px_gid my = {.type = (enum px_gid_type)mine->gid_type},
                  their = {.type = (enum px_gid_type)theirs->gid_type};
    memcpy(my.raw, mine->gid, 16);
    memcpy(their.raw, theirs->gid, 16);
    if (mine->ethernet != theirs->ethernet)
        return px_error_set(
            error, PX_ERR_UNREACHABLE,
            "its port is %s, this PE's is %s: choose ports of one kind with NVSHMEM_HCA_LIST",
            theirs->ethernet ? "Ethernet" : "InfiniBand",
            mine->ethernet ? "Ethernet" : "InfiniBand");
    if (!px_gid_match(&my, &their))
        return px_error_set(
            error, PX_ERR_UNREACHABLE,
            "its GID is %s, this PE's is %s: they do not reach each other. NVSHMEM_IB_ADDR_FAMILY, "
            "NVSHMEM_IB_ADDR_RANGE and NVSHMEM_IB_ROCE_VERSION_NUM make the choice the same on all "
            "nodes",
            px_gid_format(&their, their_text), px_gid_format(&my, my_text));
    return PX_OK;
}

static px_status read_card(struct px_verbs *self, uint32_t pe, struct px_verbs_card *card,
                           struct px_error *error)
{
    struct px_transport_peer found;
    px_status status = self->find(self->find_arg, pe, &found, error);
    if (status == PX_OK)
        status = px_verbs_check_card(found.address, found.length, card, error);
    if (status == PX_OK)
        status = check_match(&self->nics[0].address, &card->address, error);
    return status == PX_OK ? PX_OK : px_error_context(error, "address of PE %u", pe);
}

static struct px_verbs_peer *know_peer(struct px_verbs *self, uint32_t pe, struct px_error *error)
{
    if (self->peers[pe])
        return self->peers[pe];
    struct px_verbs_peer *peer = calloc(1, sizeof(*peer));
    if (!peer) {
        px_error_set(error, PX_ERR_NO_MEMORY, "connection to PE %u", pe);
        return NULL;
    }
    peer->pe = pe;
    if (read_card(self, pe, &peer->card, error) != PX_OK ||
        make_route(self, peer, error) != PX_OK) {
        free(peer);
        return NULL;
    }
    self->peers[pe] = peer;
    return peer;
}

void px_verbs_free_peer(struct px_verbs *self, struct px_verbs_peer *peer)
{
    if (!peer)
        return;
    for (uint32_t i = 0; i < peer->n_lanes; i++)
        px_verbs_free_lane(self, peer->lanes[i]);
    if (peer->ah)
        self->ibv->ibv_destroy_ah(peer->ah);
    free(peer->replies);
    free(peer->keys);
    free(peer->key_known);
    free(peer);
}

/* Queue pairs of both sides pair up by number; ports take turns, so that lane 0 is on the first
 * port of each. */
static px_status offer(struct px_verbs *self, struct px_verbs_peer *peer, struct px_error *error)
{
    uint32_t n = self->n_nics * self->lanes_per_nic;
    if (n > PX_VERBS_LANES_MAX)
        n = PX_VERBS_LANES_MAX;
    while (peer->n_lanes < n) {
        px_status status = px_verbs_make_lane(self, peer, peer->n_lanes, error);
        if (status != PX_OK)
            return px_error_context(error, "connecting to PE %u", peer->pe);
        peer->n_lanes++;
    }
    peer->level = PX_LEVEL_OFFERED;
    peer->backoff_ns = FIRST_BACKOFF_NS;
    return PX_OK;
}

static void greet(struct px_verbs *self, struct px_verbs_peer *peer)
{
    struct px_verbs_greeting mine = {
        .magic = PX_VERBS_MAGIC,
        .version = PX_VERBS_VERSION,
        .size = sizeof(mine),
        .nonce = self->card.nonce,
        .your_nonce = peer->card.nonce,
        .base = self->setup.base,
        .from = self->setup.rank,
        .to = peer->pe,
        .level = peer->level,
        .n_nics = self->n_nics,
        .n_lanes = peer->n_lanes,
        .epoch = self->epoch,
        .reads = px_verbs_reads(&self->nics[0]),
    };
    for (uint32_t i = 0; i < self->n_nics; i++)
        mine.nics[i] = self->nics[i].address;
    for (uint32_t i = 0; i < peer->n_lanes; i++) {
        mine.qpn[i] = peer->lanes[i]->qp->qp_num;
        mine.psn[i] = peer->lanes[i]->psn;
    }
    for (; mine.n_keys < PX_VERBS_EARLY_KEYS && mine.n_keys < self->n_chunks; mine.n_keys++)
        px_verbs_keys_of(self, mine.n_keys, mine.keys[mine.n_keys]);
    peer->greeted_ns = px_verbs_now_ns();
    (void)px_verbs_send_datagram(self, peer, &mine,
                                 sizeof(mine)); /* not sent is as good as lost: sent again */
}

static px_status join(struct px_verbs *self, struct px_verbs_peer *peer,
                      const struct px_verbs_greeting *theirs, struct px_error *error)
{
    while (peer->n_lanes > theirs->n_lanes)
        px_verbs_free_lane(self, peer->lanes[--peer->n_lanes]);
    peer->theirs = *theirs;
    for (uint32_t i = 0; i < peer->n_lanes; i++) {
        px_status status = px_verbs_connect_lane(self, peer->lanes[i], theirs, error);
        if (status != PX_OK)
            return px_error_context(error, "connecting to PE %u", peer->pe);
    }
    peer->delta = (intptr_t)(theirs->base - self->setup.base);
    for (uint32_t i = 0; i < theirs->n_keys; i++)
        px_verbs_note_keys(self, peer, i, theirs->epoch, theirs->keys[i]);
    peer->level = PX_LEVEL_CONNECTED;
    return PX_OK;
}

void px_verbs_peer_is_ready(struct px_verbs *self, struct px_verbs_peer *peer)
{
    if (peer->level != PX_LEVEL_CONNECTED)
        return;
    peer->level = PX_LEVEL_READY;
    self->connections++;
    px_info(PX_SUB_TRANSPORT,
            "verbs: connected to PE %u by %u lane%s of %s, mtu %u; %llu connections", peer->pe,
            peer->n_lanes, peer->n_lanes == 1 ? "" : "s", self->nics[0].name,
            128u << peer->lanes[0]->mtu, (unsigned long long)self->connections);
}

/* Is it a greeting of this start of this job, for me? Anything else on the network may send
 * datagrams too. */
static struct px_verbs_peer *
greeter(struct px_verbs *self, const struct px_verbs_greeting *greeting, struct px_error *error)
{
    if (greeting->to != self->setup.rank || greeting->from == self->setup.rank ||
        greeting->your_nonce != self->card.nonce) {
        px_error_set(error, PX_ERR_PROTOCOL, "for another PE or an earlier start");
        return NULL;
    }
    struct px_verbs_peer *peer = know_peer(self, greeting->from, error);
    if (peer && peer->card.nonce != greeting->nonce) {
        px_error_set(error, PX_ERR_PROTOCOL, "from another start of PE %u", greeting->from);
        return NULL;
    }
    return peer;
}

void px_verbs_greeted(struct px_verbs *self, const void *bytes, size_t length)
{
    struct px_verbs_greeting theirs;
    struct px_error error = PX_ERROR_INIT;
    if (!self->find)
        return; /* cards have not been exchanged here yet; it will be sent again */
    px_status status = px_verbs_check_greeting(bytes, length, self->setup.size, &theirs, &error);
    struct px_verbs_peer *peer = status == PX_OK ? greeter(self, &theirs, &error) : NULL;
    if (!peer) {
        px_info(PX_SUB_TRANSPORT, "verbs: a greeting was ignored: %s", error.text);
        return;
    }
    if (peer->level == PX_LEVEL_NONE)
        status = offer(self, peer, &error);
    if (status == PX_OK && peer->level == PX_LEVEL_OFFERED)
        status = join(self, peer, &theirs, &error);
    if (status != PX_OK)
        px_fatal(1, "verbs: %s", error.text);
    if (theirs.level >= PX_LEVEL_CONNECTED)
        px_verbs_peer_is_ready(self, peer);
    if (theirs.level < PX_LEVEL_READY)
        greet(self, peer);
}

static void give_up(struct px_verbs *self, struct px_verbs_peer *peer, uint64_t waited)
{
    struct px_gid gid = {.type = (enum px_gid_type)peer->card.address.gid_type},
                  my = {.type = (enum px_gid_type)self->card.address.gid_type};
    char theirs[PX_GID_TEXT_MAX], mine[PX_GID_TEXT_MAX];
    memcpy(gid.raw, peer->card.address.gid, 16);
    memcpy(my.raw, self->card.address.gid, 16);
    px_fatal(1,
             "verbs: PE %u does not answer on the network for %llu s: from %s port %u, %s, lid %u "
             "to %s, lid %u. Its process has "
             "ended, or the two addresses do not reach each other (try: ibv_ud_pingpong -d %s -g "
             "%u on both nodes)",
             peer->pe, (unsigned long long)(waited / 1000000000), self->nics[0].name,
             self->nics[0].port, px_gid_format(&my, mine), self->card.address.lid,
             px_gid_format(&gid, theirs), peer->card.address.lid, self->nics[0].name,
             self->card.address.gid_index);
}

static void shake_hands(struct px_verbs *self, uint32_t pe)
{
    struct px_wait wait = PX_WAIT_INIT("connecting to a PE");
    struct px_error error = PX_ERROR_INIT;
    struct px_verbs_peer *peer = know_peer(self, pe, &error);
    if (!peer || (peer->level == PX_LEVEL_NONE && offer(self, peer, &error) != PX_OK))
        px_fatal(1, "verbs: %s", error.text);
    uint64_t began = px_verbs_now_ns();
    if (!peer->greeted_ns)
        greet(self, peer);
    self->connecting++;
    while (peer->level < PX_LEVEL_READY) {
        px_verbs_relax(self, &wait);
        uint64_t now = px_verbs_now_ns();
        if (now - began > GIVE_UP_NS)
            give_up(self, peer, now - began);
        if (peer->level < PX_LEVEL_READY && now - peer->greeted_ns > peer->backoff_ns) {
            peer->backoff_ns =
                peer->backoff_ns * 2 < MOST_BACKOFF_NS ? peer->backoff_ns * 2 : MOST_BACKOFF_NS;
            greet(self, peer);
        }
    }
    self->connecting--;
}

struct px_verbs_peer *px_verbs_ready_peer(struct px_verbs *self, uint32_t pe)
{
    struct px_verbs_peer *peer = self->peers[pe];
    if (__builtin_expect(!peer || peer->level < PX_LEVEL_READY, 0))
        shake_hands(self, pe);
    return self->peers[pe];
}
