/* SPDX-License-Identifier: BSD-3-Clause */
/* Fence and quiet. A lane keeps the order of its own requests, and messages travel on lane 0; so a fence has something
 * to do only where other lanes are busy or messages have not been carried out, and then not at once: what comes next
 * to that peer waits (settle). Quiet waits for what each active peer has outstanding, nothing else. */
#include "config.h"
#include "src/transport/verbs/private.h"

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

void px_verbs_settle(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t lane, bool message,
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
