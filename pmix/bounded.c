/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls into libraries that may never return. The call runs in a detached thread on its own copy of
 * the arguments, so that after the limit the caller can walk away; the thread, should it ever come
 * back, frees the copy. */
#include "config.h"
#include "pmix/private.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct call {
    pthread_mutex_t lock;
    pthread_cond_t came_back;
    void (*fn)(void *arg);
    bool done, abandoned;
    _Alignas(16) unsigned char arg[];
};

struct timespec px_deadline(unsigned seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    now.tv_sec += (time_t)seconds;
    return now;
}

void px_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void release(struct call *call)
{
    pthread_cond_destroy(&call->came_back);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

static void *run(void *arg)
{
    struct call *call = arg;
    call->fn(call->arg);
    pthread_mutex_lock(&call->lock);
    call->done = true;
    bool abandoned = call->abandoned;
    pthread_cond_signal(&call->came_back);
    pthread_mutex_unlock(&call->lock);
    if (abandoned)
        release(call);
    return NULL;
}

/* Signals stay with the program's own threads. */
static int start(struct call *call)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&thread, NULL, run, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result == 0)
        pthread_detach(thread);
    return result;
}

static bool wait_for(struct call *call, unsigned timeout_s)
{
    struct timespec deadline = px_deadline(timeout_s);
    int result = 0;
    pthread_mutex_lock(&call->lock);
    while (!call->done && result == 0)
        result = timeout_s ? pthread_cond_timedwait(&call->came_back, &call->lock, &deadline)
                           : pthread_cond_wait(&call->came_back, &call->lock);
    bool done = call->done;
    call->abandoned = !done;
    pthread_mutex_unlock(&call->lock);
    return done;
}

bool px_bounded_call(void (*fn)(void *arg), void *arg, size_t size, unsigned timeout_s)
{
    struct call *call = calloc(1, sizeof(*call) + size);
    if (!call) { /* better unbounded than not at all */
        fn(arg);
        return true;
    }
    pthread_mutex_init(&call->lock, NULL);
    px_cond_init(&call->came_back);
    call->fn = fn;
    memcpy(call->arg, arg, size);
    if (start(call) != 0) {
        release(call);
        fn(arg);
        return true;
    }
    if (!wait_for(call, timeout_s))
        return false;
    memcpy(arg, call->arg, size);
    release(call);
    return true;
}
