/* SPDX-License-Identifier: BSD-3-Clause */
/* Hears of the end of processes of this node. One thread sleeps in poll on their pidfds; where
 * pidfd_open is refused (old kernels, strict seccomp filters) it looks every 200 ms whether the
 * process is still there. */
#include "config.h"
#include "pmix/private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MS 200

struct watched {
    uint32_t rank;
    int pid; /* 0 once its end was told */
    int fd;  /* -1: look for it */
};

struct px_watch {
    struct px_boot *boot;
    pthread_t thread;
    int wake; /* eventfd: something changed */
    pthread_mutex_t lock;
    bool stop;
    struct watched *list;
    size_t count;
};

static int open_pidfd(int pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    errno = ENOSYS;
    return -1;
#endif
}

/* Descriptors to poll; returns how many, the first being the wake-up. Holds the lock. */
static size_t collect(const struct px_watch *watch, struct pollfd *fds, bool *look)
{
    size_t n = 0;
    *look = false;
    fds[n++] = (struct pollfd){.fd = watch->wake, .events = POLLIN};
    for (size_t i = 0; i < watch->count; i++) {
        if (watch->list[i].fd >= 0)
            fds[n++] = (struct pollfd){.fd = watch->list[i].fd, .events = POLLIN};
        else if (watch->list[i].pid)
            *look = true;
    }
    return n;
}

static bool has_ended(const struct watched *process)
{
    if (process->fd >= 0) {
        struct pollfd fd = {.fd = process->fd, .events = POLLIN};
        return poll(&fd, 1, 0) == 1;
    }
    return kill(process->pid, 0) != 0 && errno == ESRCH;
}

/* Takes one process that has ended off the list. */
static bool take_ended(struct px_watch *watch, uint32_t *rank)
{
    for (size_t i = 0; i < watch->count; i++) {
        struct watched *process = &watch->list[i];
        if (!process->pid || !has_ended(process))
            continue;
        if (process->fd >= 0)
            close(process->fd);
        process->fd = -1;
        process->pid = 0;
        *rank = process->rank;
        return true;
    }
    return false;
}

static bool turn(struct px_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool look, stop = watch->stop;
    struct pollfd *fds = calloc(watch->count + 1, sizeof(*fds));
    size_t n = fds ? collect(watch, fds, &look) : 0;
    pthread_mutex_unlock(&watch->lock);
    if (stop || !fds) {
        free(fds);
        return false;
    }
    (void)poll(fds, n, look ? LOOK_MS : -1); /* whatever woke us, the list is looked through */
    uint64_t drained;
    if (fds[0].revents)
        (void)!read(watch->wake, &drained, sizeof(drained));
    free(fds);

    uint32_t rank = 0;
    for (bool ended = true; ended;) {
        pthread_mutex_lock(&watch->lock);
        ended = !watch->stop && take_ended(watch, &rank);
        pthread_mutex_unlock(&watch->lock);
        if (ended)
            px_boot_failed(watch->boot, rank, "its process has ended", false);
    }
    return true;
}

static void *run(void *arg)
{
    while (turn(arg))
        ;
    return NULL;
}

static px_status start(struct px_boot *boot, struct px_error *error)
{
    struct px_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory to watch the PEs of this node");
    watch->boot = boot;
    pthread_mutex_init(&watch->lock, NULL);
    watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = watch->wake < 0 ? errno : pthread_create(&watch->thread, NULL, run, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result == 0) {
        boot->watch = watch;
        return PX_OK;
    }
    if (watch->wake >= 0)
        close(watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
    return px_error_errno(error, result, "start the thread that watches the PEs of this node");
}

static void wake(struct px_watch *watch)
{
    uint64_t one = 1;
    (void)!write(watch->wake, &one, sizeof(one)); /* a full counter wakes as well */
}

px_status px_watch_add(struct px_boot *boot, const uint32_t *ranks, const int *pids, size_t count,
                       struct px_error *error)
{
    if (!boot->watch) {
        px_status status = start(boot, error);
        if (status != PX_OK)
            return status;
    }
    struct px_watch *watch = boot->watch;
    pthread_mutex_lock(&watch->lock);
    struct watched *list = realloc(watch->list, (watch->count + count + 1) * sizeof(*list));
    if (list) {
        watch->list = list;
        for (size_t i = 0; i < count; i++)
            if (pids[i] > 0)
                list[watch->count++] =
                    (struct watched){.rank = ranks[i], .pid = pids[i], .fd = open_pidfd(pids[i])};
    }
    pthread_mutex_unlock(&watch->lock);
    wake(watch);
    return list ? PX_OK
                : px_error_set(error, PX_ERR_NO_MEMORY, "no memory to watch the PEs of this node");
}

void px_watch_close(struct px_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    pthread_mutex_unlock(&watch->lock);
    wake(watch);
    pthread_join(watch->thread, NULL);
    for (size_t i = 0; i < watch->count; i++)
        if (watch->list[i].fd >= 0)
            close(watch->list[i].fd);
    close(watch->wake);
    pthread_mutex_destroy(&watch->lock);
    free(watch->list);
    free(watch);
}
