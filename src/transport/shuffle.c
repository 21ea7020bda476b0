/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport for tests: the memory of the node's other PEs is at hand, yet every operation is held
 * back and carried out in any order that the specification allows, so that a missing fence shows on
 * one machine. The order follows from the seed and from the moments at which threads run.
 *
 * Operations wait in one queue per target, in order of issue. What may be carried out next is what
 * belongs to the oldest fence interval of its target, except a signal whose own data is still
 * waiting. Puts are torn at multiples of 8 bytes of their destination, since elements are never
 * torn. Gets read at once (fence does not order them) or, when not blocking, late. A thread carries
 * out queued operations at random moments, so that targets need no call. */
#include "config.h"
#include "src/transport/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/diag/log.h"
#include "src/env/env.h"
#include "src/transport/control.h"
#include "src/transport/move.h"
#include "src/transport/wait.h"

#define LOOK_AHEAD   64   /* operations that may overtake each other */
#define PIECES_MAX   5    /* into which a put is torn */
#define HELD_MAX     4096 /* operations; beyond them the caller carries some out itself */
#define HELD_BYTES   ((size_t)64 << 20)
#define DELAY_NS_MAX 100000

enum kind { PUT, GET, AMO, SIGNAL };

struct held {
    struct held *next, *previous; /* in the queue of its target */
    enum kind kind;
    uint64_t number;   /* of issue */
    uint64_t interval; /* fences before it */
    char *remote;      /* symmetric */
    const char *source;
    char *dest;
    size_t bytes;
    struct px_amo amo;
    void *result;          /* of an amo, 4 or 8 bytes */
    struct held *signal;   /* of a put: to be carried out after it */
    unsigned data_waiting; /* of a signal: pieces in front of it */
    bool *done;            /* somebody waits */
    char copy[];           /* of the source of a blocking put */
};

struct queue {
    struct held *first, *last;
    intptr_t delta;
    bool reachable, used;
};

struct shuffle {
    struct px_transport_setup setup;
    pthread_mutex_t lock;
    pthread_cond_t more;
    pthread_t thread;
    bool stop;
    uint64_t random, issued, interval;
    size_t held, held_bytes;
    struct queue queue[]; /* [size] */
};

static uint64_t draw(struct shuffle *self)
{
    uint64_t x = self->random; /* xorshift64 */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return self->random = x;
}

static struct queue *queue_of(struct shuffle *self, uint32_t pe)
{
    struct queue *queue = &self->queue[pe];
    if (!queue->used) {
        if (!self->setup.map(self->setup.map_arg, pe, &queue->delta))
            px_fatal(
                1, "the shuffle test transport cannot reach PE %u: it only serves PEs of one node",
                (unsigned)pe);
        queue->used = true;
    }
    return queue;
}

/* The word that its owner may sleep on changes hands with the data. */
static void wake(struct shuffle *self, const struct queue *queue)
{
    struct px_control *control = (struct px_control *)(self->setup.base + (uintptr_t)queue->delta);
    if (self->setup.control_bytes >= sizeof(*control))
        px_wait_wake(&control->sleeping);
}

static void carry_out(struct shuffle *self, const struct queue *queue, struct held *held)
{
    void *place = (void *)((uintptr_t)held->remote + (uintptr_t)queue->delta);
    atomic_thread_fence(memory_order_seq_cst);
    if (held->kind == PUT) {
        px_copy(place, held->source, held->bytes);
        if (held->signal)
            held->signal->data_waiting--;
    } else if (held->kind == GET) {
        px_copy(held->dest, place, held->bytes);
    } else {
        uint64_t old = px_amo_apply(place, &held->amo);
        if (held->result && held->amo.width == 4)
            *(uint32_t *)held->result = (uint32_t)old;
        else if (held->result)
            *(uint64_t *)held->result = old;
    }
    atomic_thread_fence(memory_order_seq_cst);
    if (held->kind != GET)
        wake(self, queue);
}

static bool is_free(const struct held *held, uint64_t interval)
{
    return held->kind == GET || (held->interval == interval && held->data_waiting == 0);
}

/* Fence orders everything but gets, so the interval that may run is that of the oldest other
 * operation. */
static uint64_t oldest_interval(const struct queue *queue)
{
    for (const struct held *held = queue->first; held; held = held->next)
        if (held->kind != GET)
            return held->interval;
    return 0;
}

static struct held *choose(struct shuffle *self, const struct queue *queue)
{
    uint64_t interval = oldest_interval(queue), seen = 0;
    struct held *chosen = NULL;
    int left = LOOK_AHEAD;
    for (struct held *held = queue->first; held && left > 0; held = held->next, left--)
        if (is_free(held, interval) && draw(self) % ++seen == 0)
            chosen = held;
    return chosen;
}

static void finish(struct shuffle *self, struct queue *queue, struct held *held)
{
    *(held->previous ? &held->previous->next : &queue->first) = held->next;
    *(held->next ? &held->next->previous : &queue->last) = held->previous;
    self->held--;
    self->held_bytes -= held->bytes;
    if (held->done)
        *held->done = true;
    free(held);
}

/* One operation to a random target; the queue of `pe` alone when it is not UINT32_MAX. */
static void one(struct shuffle *self, uint32_t pe)
{
    uint32_t size = self->setup.size, start = pe == UINT32_MAX ? (uint32_t)(draw(self) % size) : pe;
    for (uint32_t i = 0; i < (pe == UINT32_MAX ? size : 1); i++) {
        struct queue *queue = &self->queue[(start + i) % size];
        struct held *held = choose(self, queue);
        if (!held)
            continue;
        carry_out(self, queue, held);
        finish(self, queue, held);
        return;
    }
}

static void *carrier(void *arg)
{
    struct shuffle *self = arg;
    pthread_mutex_lock(&self->lock);
    while (!self->stop) {
        if (!self->held) {
            pthread_cond_wait(&self->more, &self->lock);
            continue;
        }
        struct timespec delay = {.tv_nsec = (long)(draw(self) % DELAY_NS_MAX)};
        unsigned count = 1 + (unsigned)(draw(self) % 8);
        pthread_mutex_unlock(&self->lock);
        nanosleep(&delay, NULL);
        pthread_mutex_lock(&self->lock);
        while (count-- && self->held)
            one(self, UINT32_MAX);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static struct held *hold(struct shuffle *self, uint32_t pe, const struct held *what, size_t copied)
{
    struct queue *queue = queue_of(self, pe);
    while (self->held >= HELD_MAX ||
           (self->held_bytes && self->held_bytes + what->bytes > HELD_BYTES))
        one(self, UINT32_MAX);
    struct held *held = malloc(sizeof(*held) + copied);
    if (!held)
        px_fatal(1, "the shuffle test transport is out of memory with %zu operations waiting",
                 self->held);
    *held = *what;
    if (copied) {
        memcpy(held->copy, what->source, copied);
        held->source = held->copy;
    }
    held->number = self->issued++;
    held->interval = self->interval;
    held->next = NULL;
    held->previous = queue->last;
    *(queue->last ? &queue->last->next : &queue->first) = held;
    queue->last = held;
    if (self->held++ == 0)
        pthread_cond_signal(&self->more);
    self->held_bytes += held->bytes;
    return held;
}

static void hold_put(struct shuffle *self, uint32_t pe, char *remote, const char *source,
                     size_t bytes, bool nbi, struct held *signal)
{
    size_t piece = bytes / (1 + draw(self) % PIECES_MAX) + 8;
    while (bytes) {
        size_t length = bytes <= piece ? bytes : piece - ((uintptr_t)remote + piece) % 8;
        struct held what = {
            .kind = PUT, .remote = remote, .source = source, .bytes = length, .signal = signal};
        if (signal)
            signal->data_waiting++;
        (void)hold(self, pe, &what, nbi ? 0 : length);
        remote += length;
        source += length;
        bytes -= length;
    }
}

static void shuffle_put(void *arg, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    struct shuffle *self = arg;
    pthread_mutex_lock(&self->lock);
    hold_put(self, pe, remote, source, bytes, false, NULL);
    pthread_mutex_unlock(&self->lock);
}

static void shuffle_put_nbi(void *arg, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    struct shuffle *self = arg;
    pthread_mutex_lock(&self->lock);
    hold_put(self, pe, remote, source, bytes, true, NULL);
    pthread_mutex_unlock(&self->lock);
}

static void shuffle_get(void *arg, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    struct shuffle *self = arg;
    pthread_mutex_lock(&self->lock);
    struct held now = {
        .kind = GET, .remote = (char *)(uintptr_t)remote, .dest = dest, .bytes = bytes};
    carry_out(self, queue_of(self, pe), &now);
    pthread_mutex_unlock(&self->lock);
}

static void shuffle_get_nbi(void *arg, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    struct shuffle *self = arg;
    struct held what = {
        .kind = GET, .remote = (char *)(uintptr_t)remote, .dest = dest, .bytes = bytes};
    pthread_mutex_lock(&self->lock);
    if (bytes)
        (void)hold(self, pe, &what, 0);
    pthread_mutex_unlock(&self->lock);
}

static uint64_t shuffle_amo(void *arg, uint32_t pe, void *remote, const struct px_amo *amo)
{
    struct shuffle *self = arg;
    uint64_t old = 0;
    uint32_t old_4 = 0;
    bool done = false;
    struct held what = {.kind = AMO, .remote = remote, .amo = *amo};
    if (amo->fetching) {
        what.result = amo->width == 4 ? (void *)&old_4 : &old;
        what.done = &done;
    }
    pthread_mutex_lock(&self->lock);
    (void)hold(self, pe, &what, 0);
    while (amo->fetching && !done)
        one(self, pe);
    pthread_mutex_unlock(&self->lock);
    return amo->width == 4 ? old_4 : old;
}

static void shuffle_amo_nbi(void *arg, uint32_t pe, void *remote, const struct px_amo *amo,
                            void *result)
{
    struct shuffle *self = arg;
    struct held what = {.kind = AMO, .remote = remote, .amo = *amo, .result = result};
    pthread_mutex_lock(&self->lock);
    (void)hold(self, pe, &what, 0);
    pthread_mutex_unlock(&self->lock);
}

static void shuffle_put_signal(void *arg, uint32_t pe, void *remote, const void *source,
                               size_t bytes, uint64_t *signal, uint64_t value, enum px_amo_op op,
                               bool nbi)
{
    struct shuffle *self = arg;
    struct held what = {
        .kind = SIGNAL, .remote = (char *)signal, .amo = {.op = op, .width = 8, .operand = value}};
    pthread_mutex_lock(&self->lock);
    what.data_waiting = 1; /* keeps it back while its data is queued */
    struct held *held = hold(self, pe, &what, 0);
    hold_put(self, pe, remote, source, bytes, nbi, held);
    held->data_waiting--;
    pthread_mutex_unlock(&self->lock);
}

static void shuffle_fence(void *arg)
{
    struct shuffle *self = arg;
    pthread_mutex_lock(&self->lock);
    self->interval++;
    pthread_mutex_unlock(&self->lock);
}

static bool any_before(const struct queue *queue, uint64_t number)
{
    return queue->first && queue->first->number < number; /* queues are in order of issue */
}

static void shuffle_quiet_pe(void *arg, uint32_t pe)
{
    struct shuffle *self = arg;
    pthread_mutex_lock(&self->lock);
    for (uint64_t now = self->issued; any_before(&self->queue[pe], now);)
        one(self, pe);
    pthread_mutex_unlock(&self->lock);
}

static void shuffle_quiet(void *arg)
{
    struct shuffle *self = arg;
    pthread_mutex_lock(&self->lock);
    for (uint64_t now = self->issued;;) {
        uint32_t pe = 0;
        while (pe < self->setup.size && !any_before(&self->queue[pe], now))
            pe++;
        if (pe == self->setup.size)
            break;
        one(self, UINT32_MAX);
    }
    pthread_mutex_unlock(&self->lock);
}

static void shuffle_progress(void *arg)
{
    struct shuffle *self = arg;
    if (pthread_mutex_trylock(&self->lock) != 0)
        return;
    if (self->held && draw(self) % 4 == 0)
        one(self, UINT32_MAX);
    pthread_mutex_unlock(&self->lock);
}

static uint64_t shuffle_connections(void *arg)
{
    struct shuffle *self = arg;
    uint64_t count = 0;
    pthread_mutex_lock(&self->lock);
    for (uint32_t pe = 0; pe < self->setup.size; pe++)
        count += self->queue[pe].used;
    pthread_mutex_unlock(&self->lock);
    return count;
}

static px_status shuffle_probe(const struct px_transport_setup *setup, struct px_error *error)
{
    if (!setup->map)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "the shuffle test transport needs PEs that are mapped");
    return PX_OK;
}

static px_status shuffle_open(const struct px_transport_setup *setup, void **self, void *address,
                              size_t *length, struct px_error *error)
{
    (void)address;
    px_status status = shuffle_probe(setup, error);
    if (status)
        return status;
    struct shuffle *new = calloc(1, sizeof(*new) + setup->size * sizeof(new->queue[0]));
    if (!new)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the queues of %u PEs",
                            (unsigned)setup->size);
    new->setup = *setup;
    uint64_t seed = setup->env ? (uint64_t)setup->env->shuffle_seed : 1;
    new->random = (seed * 0x9e3779b97f4a7c15ull) ^ ((setup->rank + 1) * 0xbf58476d1ce4e5b9ull);
    new->random += new->random == 0; /* the generator's only fixed point */
    pthread_mutex_init(&new->lock, NULL);
    pthread_cond_init(&new->more, NULL);
    int failed = pthread_create(&new->thread, NULL, carrier, new);
    if (failed) {
        free(new);
        return px_error_errno(error, failed, "the shuffle test transport cannot start its thread");
    }
    *self = new;
    *length = 0;
    return PX_OK;
}

static px_status shuffle_connect(void *self, px_transport_find_fn *find, void *arg,
                                 struct px_error *error)
{
    (void)self, (void)find, (void)arg, (void)error; /* mapped peers need no address */
    return PX_OK;
}

static px_status shuffle_add_memory(void *self, size_t offset, size_t length,
                                    struct px_error *error)
{
    (void)self, (void)offset, (void)length, (void)error;
    return PX_OK;
}

static px_status shuffle_add_gpu_memory(void *self, size_t offset, size_t length,
                                        px_transport_dmabuf_fn *dmabuf, struct px_error *error)
{
    (void)self, (void)offset, (void)length, (void)dmabuf;
    return px_error_set(error, PX_ERR_UNSUPPORTED, "shuffle: a test transport for host memory");
}

static void shuffle_drop_memory(void *self, size_t offset)
{
    (void)offset;
    shuffle_quiet(self);
}

/* Its peers are mapped, so their control areas take notes. */
static void shuffle_send_note(void *self, uint32_t pe, const void *note)
{
    (void)self, (void)note;
    px_fatal(1, "shuffle: a note for PE %u: this test transport carries none", (unsigned)pe);
}

static void shuffle_close(void *arg)
{
    struct shuffle *self = arg;
    shuffle_quiet(self);
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_signal(&self->more);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->more);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

extern const struct px_transport_ops px_transport_shuffle;
const struct px_transport_ops px_transport_shuffle = {
    .name = "shuffle",
    .only_by_name = true,
    .probe = shuffle_probe,
    .open = shuffle_open,
    .connect = shuffle_connect,
    .add_memory = shuffle_add_memory,
    .add_gpu_memory = shuffle_add_gpu_memory,
    .drop_memory = shuffle_drop_memory,
    .put = shuffle_put,
    .put_nbi = shuffle_put_nbi,
    .get = shuffle_get,
    .get_nbi = shuffle_get_nbi,
    .amo = shuffle_amo,
    .amo_nbi = shuffle_amo_nbi,
    .put_signal = shuffle_put_signal,
    .send_note = shuffle_send_note,
    .fence = shuffle_fence,
    .quiet = shuffle_quiet,
    .quiet_pe = shuffle_quiet_pe,
    .progress = shuffle_progress,
    .connections = shuffle_connections,
    .close = shuffle_close,
};
