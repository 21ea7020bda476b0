/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread and the lock. The thread sleeps in poll until a peer sends a request or a
 * greeting, or the device reports an event; so operations complete while their target computes.
 * While chains of requests are held back for one doorbell it wakes every millisecond and hands over
 * what has been waiting. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "src/diag/log.h"

#define SPINS       64
#define TICK_MS     1
#define YIELD_TURNS 8
#define LINGER_NS                                                                                  \
    50000ull /* after a request the next one is often near: sleeping and waking costs more */

uint64_t px_verbs_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

bool px_verbs_try_lock(struct px_verbs *self)
{
    uint32_t expected = 0;
    return atomic_compare_exchange_strong_explicit(&self->lock, &expected, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

void px_verbs_lock_slow(struct px_verbs *self)
{
    for (uint32_t turn = 1; !px_verbs_try_lock(self); turn++)
        if (turn % SPINS == 0)
            sched_yield();
}

void px_verbs_relax(struct px_verbs *self, struct px_wait *wait)
{
    bool something = px_verbs_poll(self);
    px_verbs_unlock(self);
    if (something)
        wait->turns = 0; /* things move: look again soon */
    else
        px_wait_turn(wait);
    if (!something && self->setup.progress_cpus == 1 && wait->turns % YIELD_TURNS == 0)
        sched_yield(); /* what is waited for may need this processor */
    px_verbs_lock(self);
}

bool px_verbs_poll(struct px_verbs *self)
{
    bool any = px_verbs_poll_sends(self);
    any |= px_verbs_poll_receives(self);
    if (self->connecting) /* otherwise the thread alone looks after greetings */
        any |= px_verbs_poll_datagrams(self);
    if (self->held_lanes)
        px_verbs_flush_held(self, UINT64_MAX);
    if (self->waiting_replies)
        any |= px_verbs_send_replies(self);
    return any;
}

static void take_events(struct px_verbs *self)
{
    struct ibv_cq *cq;
    void *user;
    while (self->ibv->ibv_get_cq_event(self->channel, &cq, &user) == 0)
        self->ibv->ibv_ack_cq_events(cq, 1);
}

/* What there is, and what comes soon after; the program's threads get in between. */
static void serve(struct px_verbs *self)
{
    uint64_t last = px_verbs_now_ns(), now = last;
    while (now - last <= LINGER_NS) {
        px_verbs_lock(self);
        bool any = px_verbs_poll_receives(self);
        any |= px_verbs_poll_datagrams(self);
        px_verbs_unlock(self);
        if (!any && self->setup.progress_cpus == 1)
            return;
        if (!any)
            sched_yield();
        now = px_verbs_now_ns();
        if (any)
            last = now;
    }
}

/* Arm, then look once more: what came in between raises no event. Arming is a system call, in which this thread may
 * lose its processor: not with the lock held. */
static void arm(struct px_verbs *self)
{
    bool any = true;
    while (any) {
        int code = ibv_req_notify_cq(self->receive_cq, 1);
        if (!code)
            code = ibv_req_notify_cq(self->datagram_cq, 0);
        if (code)
            px_fatal(1, "verbs: asking %s for events: %s", self->nics[0].name, strerror(code));
        px_verbs_lock(self);
        any = px_verbs_poll_receives(self);
        any |= px_verbs_poll_datagrams(self);
        px_verbs_unlock(self);
    }
}

static void device_event(struct px_verbs *self, struct px_verbs_nic *nic)
{
    struct ibv_async_event event;
    if (self->ibv->ibv_get_async_event(nic->context, &event) != 0)
        return;
    enum ibv_event_type type = event.event_type;
    const char *words = self->ibv->ibv_event_type_str(type);
    self->ibv->ibv_ack_async_event(&event);
    if (type == IBV_EVENT_DEVICE_FATAL)
        px_fatal(1, "verbs: %s failed: %s (see dmesg)", nic->name, words);
    if (type == IBV_EVENT_PORT_ERR)
        px_warn("verbs: %s port %u went down; transfers wait until it is back, or fail after the "
                "retry limit",
                nic->name, nic->port);
    else
        px_info(PX_SUB_TRANSPORT, "verbs: %s: %s", nic->name, words);
}

/* What waits for the thread now; returns how long it may sleep. */
static int look_after_held(struct px_verbs *self)
{
    px_verbs_lock(self);
    uint64_t before = self->tick++;
    px_verbs_flush_held(self, before); /* held since an earlier tick */
    if (self->waiting_replies) {
        px_verbs_poll_sends(self);
        px_verbs_send_replies(self);
    }
    bool awake = self->held_lanes || self->waiting_replies;
    atomic_store(&self->dozing, !awake);
    px_verbs_unlock(self);
    return awake ? TICK_MS : -1;
}

static void *run(void *arg)
{
    struct px_verbs *self = arg;
    struct pollfd fds[2 + PX_VERBS_NICS_MAX] = {
        {.fd = self->channel->fd, .events = POLLIN},
        {.fd = self->wake_fd, .events = POLLIN},
    };
    nfds_t n = 2;
    for (uint32_t i = 0; i < self->n_nics; i++)
        fds[n++] = (struct pollfd){.fd = self->nics[i].context->async_fd, .events = POLLIN};
    while (!atomic_load(&self->stopping)) {
        if (poll(fds, n, look_after_held(self)) < 0 && errno != EINTR)
            px_fatal(1, "verbs: poll: %s", strerror(errno));
        uint64_t count;
        if (fds[1].revents)
            (void)!read(self->wake_fd, &count, sizeof(count)); /* only its waking matters */
        if (fds[0].revents) {
            serve(self); /* first: a peer waits */
            take_events(self);
            arm(self);
        }
        for (nfds_t i = 2; i < n; i++)
            if (fds[i].revents & POLLIN)
                device_event(self, &self->nics[i - 2]);
    }
    return NULL;
}

void px_verbs_poke_thread(struct px_verbs *self)
{
    static const uint64_t one = 1;
    if (!atomic_load_explicit(&self->dozing, memory_order_relaxed))
        return;
    atomic_store(&self->dozing, false);
    (void)!write(self->wake_fd, &one,
                 sizeof(one)); /* cannot be full: the thread reads it to zero */
}

px_status px_verbs_start_thread(struct px_verbs *self, struct px_error *error)
{
    sigset_t all, before;
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->wake_fd < 0)
        return px_error_errno(error, errno, "eventfd");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's business */
    int code = pthread_create(&self->thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return px_error_errno(error, code, "progress thread");
    (void)pthread_setname_np(self->thread, "px-verbs");
    self->thread_started = true;
    return PX_OK;
}

void px_verbs_stop_thread(struct px_verbs *self)
{
    static const uint64_t one = 1;
    if (self->thread_started) {
        atomic_store(&self->stopping, true);
        (void)!write(self->wake_fd, &one, sizeof(one));
        pthread_join(self->thread, NULL);
    }
    if (self->wake_fd >= 0)
        close(self->wake_fd);
}
