/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that makes one-sided operations one-sided: it carries out what other PEs ask for while
 * the program computes. It sleeps on the completion queue's file descriptor, so an idle PE costs
 * nothing; while the program's own threads poll it keeps away, since two pollers only get in each
 * other's way. */
#include "config.h"
#include "src/transport/ofi/private.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define AWAY_NS 100000 /* between looks whether the program's threads still poll */
#define BUSY_MS 1      /* something waits to be posted, which raises no event */
#define BLIND_NS_MIN                                                                               \
    20000 /* where the queue cannot be slept on: looks come further and further apart */
#define BLIND_NS_MAX 1000000

static void sleep_ns(long ns)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL); /* waking early is harmless */
}

/* One look at the queue. Returns how long the thread may sleep on it, in ms: 0 not at all, -1 until
 * something comes. */
static int look(struct px_ofi *self, unsigned *found)
{
    struct fid *fids[] = {&self->cq->fid};
    pthread_mutex_lock(&self->lock);
    *found = px_ofi_poll(self);
    int ms = self->deferred ? BUSY_MS : -1;
    if (self->cq_fd >= 0 && fi_trywait(self->fabric, fids, 1) != 0)
        ms = 0;
    pthread_mutex_unlock(&self->lock);
    if (px_wait_policy.sleeping)
        px_wait_wake(px_wait_policy.sleeping); /* what arrived may be what the program waits for */
    return ms;
}

static void sleep_on_queue(struct px_ofi *self, int ms)
{
    struct pollfd fds[] = {{.fd = self->stop_fd, .events = POLLIN},
                           {.fd = self->cq_fd, .events = POLLIN}};
    (void)poll(fds, 2, ms); /* any outcome means: look again */
}

static void *serve(void *arg)
{
    struct px_ofi *self = arg;
    uint64_t polled = 0;
    long blind_ns = BLIND_NS_MIN;
    while (!atomic_load_explicit(&self->stop, memory_order_acquire)) {
        uint64_t now = atomic_load_explicit(&self->polled, memory_order_relaxed);
        if (now != polled) {
            polled = now;
            sleep_ns(AWAY_NS);
            continue;
        }
        unsigned found;
        int ms = look(self, &found);
        if (self->cq_fd >= 0 && ms != 0 && !found)
            sleep_on_queue(self, ms);
        if (self->cq_fd < 0) {
            blind_ns = found                         ? BLIND_NS_MIN
                       : blind_ns * 2 < BLIND_NS_MAX ? blind_ns * 2
                                                     : BLIND_NS_MAX;
            sleep_ns(blind_ns);
        }
    }
    return NULL;
}

/* Signals are the program's: its handlers must not run in a thread that it does not know. */
static int create_thread(struct px_ofi *self)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&self->thread, NULL, serve, self);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!failed)
        (void)pthread_setname_np(self->thread, "pxshmem-ofi");
    return failed;
}

px_status px_ofi_start(struct px_ofi *self, struct px_error *error)
{
    self->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (self->stop_fd < 0)
        return px_error_errno(error, errno, "eventfd");
    int failed = create_thread(self);
    if (failed) {
        close(self->stop_fd);
        self->stop_fd = -1;
        return px_error_errno(error, failed,
                              "the progress thread of the ofi transport cannot start");
    }
    self->thread_runs = true;
    return PX_OK;
}

void px_ofi_stop(struct px_ofi *self)
{
    if (!self->thread_runs)
        return;
    uint64_t one = 1;
    atomic_store_explicit(&self->stop, true, memory_order_release);
    (void)!write(self->stop_fd, &one, sizeof(one)); /* an eventfd at zero takes it */
    pthread_join(self->thread, NULL);
    close(self->stop_fd);
    self->thread_runs = false;
}

void px_ofi_progress(void *arg)
{
    struct px_ofi *self = arg;
    atomic_fetch_add_explicit(&self->polled, 1, memory_order_relaxed);
    if (pthread_mutex_trylock(&self->lock) != 0)
        return; /* somebody else is at it */
    unsigned found = px_ofi_poll(self);
    pthread_mutex_unlock(&self->lock);
    if (!found)
        sched_yield(); /* the network has nothing for microseconds to come, and its other end may need this processor */
}
