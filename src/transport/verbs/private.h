/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the verbs transport share.
 *
 * One lock guards everything below; it is held for one step at a time and never while waiting.
 * Functions expect it to be held unless their comment says otherwise. Three kinds of threads meet
 * here: those of the program, which call the table's functions; the progress thread, which sleeps
 * until a peer wants something; nobody else.
 *
 * A lane is one reliable connection (queue pair) to a peer. Small transfers, messages and signals
 * use lane 0, so they keep their order: a reliable connection executes requests in the order of
 * posting, and memory is registered without relaxed ordering, so that what it writes reaches memory
 * in that order. The other lanes carry parts of large transfers. The last request that was handed
 * to the device on a lane is always a signalled one: completions of all earlier ones follow, and a
 * full queue always drains. */
#ifndef PX_TRANSPORT_VERBS_PRIVATE_H
#define PX_TRANSPORT_VERBS_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/transport/transport.h"
#include "src/transport/verbs/choose.h"
#include "src/transport/verbs/gid.h"
#include "src/transport/verbs/gpu.h"
#include "src/transport/verbs/library.h"
#include "src/transport/verbs/wire.h"
#include "src/transport/wait.h"

/* What peers may do with registered memory. */
#define PX_VERBS_REMOTE_ACCESS                                                                     \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC)

#define PX_VERBS_CHAIN     16 /* requests handed to the device with one doorbell at most */
#define PX_VERBS_BUSY      4 /* so many outstanding requests make a stream: then chains are built */
#define PX_VERBS_INLINE    128  /* bytes asked for inline */
#define PX_VERBS_WINDOW    64   /* messages to a peer that it has not carried out yet */
#define PX_VERBS_RESERVED  8    /* places of a send queue kept for replies */
#define PX_VERBS_BOUNCE    8192 /* bytes of a bounce buffer */
#define PX_VERBS_BOUNCES   256
#define PX_VERBS_NO_BOUNCE UINT32_MAX

/* A large transfer of private memory registers it for the time of the transfer from this size on;
 * below, copying to bounce buffers is cheaper than the system call. */
#define PX_VERBS_REGISTER_FROM (256u << 10)
#define PX_VERBS_STRIPE_FROM   (256u << 10) /* from here a transfer is spread over lanes */
#define PX_VERBS_STRIPE_MIN    (64u << 10)

struct px_verbs_peer;
struct px_verbs_lane;

/* A port in use, with what belongs to it. */
struct px_verbs_nic {
    char name[PX_VERBS_NAME_MAX];
    uint8_t port;
    bool software; /* Soft-RoCE, Soft-iWARP: the kernel copies bytes, an 8-byte word may be seen
                      half written */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *send_cq;
    uint32_t send_cq_size, signalled; /* signalled requests that have not been polled */
    struct ibv_device_attr device;
    struct ibv_port_attr attributes;
    struct px_verbs_address address;
    struct ibv_mr *bounce_mr;
    struct px_verbs_lane **lanes; /* by slot, the upper half of wr_id */
    uint32_t n_lanes, lane_capacity;
};

/* Registered memory [offset, offset+length) of the window. */
struct px_verbs_chunk {
    size_t offset, length;
    bool gpu; /* the processor must not touch it */
    struct ibv_mr *mr[PX_VERBS_NICS_MAX];
};

/* What a blocking or registering transfer waits for. `pending` counts requests; `mr` is released
 * with the last one. */
struct px_verbs_op {
    uint32_t pending;
    bool owned; /* allocated: free it when pending falls to 0 */
    struct ibv_mr *mr[PX_VERBS_NICS_MAX];
};

enum px_verbs_kind { PX_KIND_PUT, PX_KIND_GET, PX_KIND_AMO, PX_KIND_SIGNAL, PX_KIND_MESSAGE };

/* What to do when a request is complete, and what to say when it fails. */
struct px_verbs_track {
    uint8_t kind; /* enum px_verbs_kind */
    uint32_t bytes;
    uint32_t bounce; /* to give back; PX_VERBS_NO_BOUNCE */
    void *copy_to;   /* get through a bounce buffer, or result of an atomic */
    uint64_t remote; /* for the message */
    struct px_verbs_op *op;
};

struct px_verbs_lane {
    struct px_verbs_nic *nic;
    struct px_verbs_peer *peer;
    struct ibv_qp *qp;
    uint32_t slot, number, psn;
    uint8_t mtu; /* enum ibv_mtu, agreed; 0 before */
    uint32_t depth, max_inline;
    uint64_t posted, completed;    /* requests handed to the device; known complete */
    struct px_verbs_track *tracks; /* [depth], of request n at n % depth */
    uint32_t held;                 /* in the chain, not yet handed over */
    uint64_t held_since;           /* tick of the progress thread */
    struct ibv_send_wr wr[PX_VERBS_CHAIN];
    struct ibv_sge sge[PX_VERBS_CHAIN];
    uint8_t (*bytes)[PX_VERBS_INLINE]; /* [PX_VERBS_CHAIN] copies of inline data of held requests */
};

/* An answer that is waited for. */
struct px_verbs_answer {
    void *result; /* NULL: not wanted */
    uint8_t width;
    bool *arrived;
};

struct px_verbs_peer {
    uint32_t pe;
    enum px_verbs_level level; /* how far I am; PX_LEVEL_READY: use it */
    struct px_verbs_card card;
    struct ibv_ah *ah; /* the way to its datagram queue pair */
    uint64_t greeted_ns, backoff_ns;
    struct px_verbs_greeting theirs; /* the one that the lanes were connected with */
    uint32_t n_lanes;
    struct px_verbs_lane *lanes[PX_VERBS_LANES_MAX];
    intptr_t delta; /* its window base minus mine */

    uint32_t (*keys)[PX_VERBS_NICS_MAX]; /* [chunk] of its ports */
    bool *key_known;                     /* [chunk] */
    uint32_t key_capacity;
    uint64_t keys_asked; /* number of the message that asks for keys; 0: none is under way */

    uint64_t asked, asking,
        done; /* messages sent; the last that asks for an answer; carried out as far as known */
    struct px_verbs_answer answers[PX_VERBS_WINDOW];
    uint64_t
        silent_since; /* while an answer is due and nothing is on its way to the peer; 0: not so */
    uint64_t served;  /* its requests that I carried out */
    struct px_verbs_message *replies; /* ring, written when the send queue was full */
    uint32_t reply_head, reply_count, reply_capacity;

    bool active; /* in self->active: something may be pending */
    bool fenced; /* a fence came, and what follows must look at the two below */
    uint64_t fence_posted[PX_VERBS_LANES_MAX]; /* requests of each lane that came before it */
    uint64_t fence_asked;                      /* and messages */
};

struct px_verbs {
    const struct px_ibv *ibv;
    struct px_transport_setup setup;
    _Atomic uint32_t lock;

    struct px_verbs_nic nics[PX_VERBS_NICS_MAX];
    uint32_t n_nics, lanes_per_nic;
    uint32_t queue_depth, timeout, retries, sl, traffic_class;
    bool native_atomics; /* 64-bit fetch-and-add and compare-and-swap of the device are coherent
                            with the processor */
    bool signal_by_write;

    struct px_verbs_peer **peers; /* [size], made at first use */
    struct px_verbs_peer **active;
    uint32_t n_active, active_capacity;
    uint64_t connections;
    uint32_t connecting; /* threads that wait for a greeting */

    struct px_verbs_chunk *chunks;
    uint32_t n_chunks, chunk_capacity, epoch;
    enum px_gpu_way gpu_way; /* how GPU memory is registered; PX_GPU_ANY before the first */

    uint8_t *bounces;
    uint32_t free_bounces[PX_VERBS_BOUNCES], n_free_bounces;

    /* Of nics[0]: datagrams for greetings, a shared receive queue for messages. */
    struct ibv_comp_channel *channel;
    struct ibv_cq *receive_cq, *datagram_cq, *datagram_send_cq;
    struct ibv_srq *srq;
    struct ibv_qp *datagram_qp;
    struct ibv_mr *receive_mr, *datagram_mr;
    uint8_t *receives, *datagrams;
    uint32_t n_receives, datagram_sends, next_datagram;
    struct px_verbs_card card;
    px_transport_find_fn *find;
    void *find_arg;

    pthread_t thread;
    bool thread_started;
    _Atomic bool stopping;
    int wake_fd;
    _Atomic bool
        dozing; /* the progress thread sleeps without limit: wake it when a chain is held */
    uint64_t tick;
    uint32_t held_lanes, waiting_replies, quieting;
};

/* A lock that yields, because on a busy node its holder may not be running. progress.c has the slow
 * half. */
void px_verbs_lock_slow(struct px_verbs *self);

static inline void px_verbs_lock(struct px_verbs *self)
{
    uint32_t expected = 0;
    if (__builtin_expect(!atomic_compare_exchange_strong_explicit(
                             &self->lock, &expected, 1, memory_order_acquire, memory_order_relaxed),
                         0))
        px_verbs_lock_slow(self);
}

static inline void px_verbs_unlock(struct px_verbs *self)
{
    atomic_store_explicit(&self->lock, 0, memory_order_release);
}

bool px_verbs_try_lock(struct px_verbs *self);

/* Let go of the lock, wait a turn, take it again. What was looked up before may have changed. */
void px_verbs_relax(struct px_verbs *self, struct px_wait *wait);
uint64_t px_verbs_now_ns(void);

/* device.c */
px_status px_verbs_probe_devices(const struct px_transport_setup *setup, struct px_error *error);
px_status px_verbs_open_devices(struct px_verbs *self, struct px_error *error);
void px_verbs_close_devices(struct px_verbs *self);

/* receive.c: the receiving side of nics[0] */
px_status px_verbs_open_receives(struct px_verbs *self, struct px_error *error);
void px_verbs_close_receives(struct px_verbs *self);
bool px_verbs_poll_receives(struct px_verbs *self);
bool px_verbs_poll_datagrams(struct px_verbs *self);
/* False when the datagram could not be sent now; greetings are repeated anyway. */
bool px_verbs_send_datagram(struct px_verbs *self, struct px_verbs_peer *peer, const void *bytes,
                            size_t length);

/* connect.c */
struct px_verbs_peer *px_verbs_ready_peer(struct px_verbs *self, uint32_t pe); /* may wait */
void px_verbs_peer_is_ready(struct px_verbs *self, struct px_verbs_peer *peer);
void px_verbs_greeted(struct px_verbs *self, const void *bytes, size_t length);
void px_verbs_free_peer(struct px_verbs *self, struct px_verbs_peer *peer);

/* memory.c */
px_status px_verbs_add_chunk(struct px_verbs *self, size_t offset, size_t length,
                             struct px_error *error);
px_status px_verbs_append_chunk(struct px_verbs *self, const struct px_verbs_chunk *chunk,
                                struct px_error *error); /* takes over its registrations */
void px_verbs_drop_chunks(struct px_verbs *self, size_t offset);
/* The chunk that holds `address` of my window, or -1. */
int64_t px_verbs_chunk_of(const struct px_verbs *self, uintptr_t address);
bool px_verbs_covers(const struct px_verbs *self, uintptr_t address,
                     size_t bytes); /* without a gap */
bool px_verbs_keys_known(struct px_verbs *self, struct px_verbs_peer *peer,
                         uint32_t chunk); /* asks when not */
void px_verbs_keys_of(const struct px_verbs *self, uint32_t chunk,
                      uint32_t keys[PX_VERBS_NICS_MAX]); /* mine */
void px_verbs_note_keys(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t chunk,
                        uint32_t epoch, const uint32_t keys[PX_VERBS_NICS_MAX]);
struct ibv_mr *px_verbs_register(const struct px_verbs *self, const struct px_verbs_nic *nic,
                                 void *start, size_t length, const char *what,
                                 struct px_error *error);
px_status px_verbs_open_bounces(struct px_verbs *self, struct px_error *error);
void px_verbs_close_memory(struct px_verbs *self);

/* gpumem.c */
px_status px_verbs_add_gpu_chunk(struct px_verbs *self, size_t offset, size_t length,
                                 px_transport_dmabuf_fn *dmabuf, struct px_error *error);

/* queue.c */
px_status px_verbs_make_lane(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t number,
                             struct px_error *error);
px_status px_verbs_connect_lane(struct px_verbs *self, struct px_verbs_lane *lane,
                                const struct px_verbs_greeting *theirs, struct px_error *error);
uint32_t
px_verbs_reads(const struct px_verbs_nic *nic); /* read and atomic requests served at once */
void px_verbs_fill_route(const struct px_verbs *self, const struct px_verbs_nic *nic,
                         const struct px_verbs_address *theirs, struct ibv_ah_attr *route);
void px_verbs_free_lane(struct px_verbs *self, struct px_verbs_lane *lane);
bool px_verbs_has_room(struct px_verbs *self, struct px_verbs_lane *lane,
                       bool urgent); /* polls when full */
/* There must be room. `inline_data` is copied when the request is held and `stable` is false. */
void px_verbs_append(struct px_verbs *self, struct px_verbs_lane *lane,
                     const struct ibv_send_wr *wr, const struct px_verbs_track *track,
                     bool may_hold, bool stable);
void px_verbs_flush(struct px_verbs *self, struct px_verbs_lane *lane);
void px_verbs_flush_held(struct px_verbs *self, uint64_t older_than);
bool px_verbs_poll_sends(struct px_verbs *self);
/* One hold less; the last one releases registrations. NULL is harmless. */
void px_verbs_let_go(struct px_verbs *self, struct px_verbs_op *op);
void px_verbs_mark_active(struct px_verbs *self, struct px_verbs_peer *peer);

/* message.c */
void px_verbs_message_arrived(struct px_verbs *self, struct px_verbs_peer *peer, const void *bytes,
                              size_t length);
void px_verbs_store(void *result, uint8_t width, uint64_t old);
bool px_verbs_send_replies(struct px_verbs *self);
/* Waits for the window when `wait` is given, else returns false when there is no room. */
bool px_verbs_send_message(struct px_verbs *self, struct px_verbs_peer *peer,
                           struct px_verbs_message *message, const struct px_verbs_answer *answer,
                           struct px_wait *wait, bool may_hold);
/* px_verbs_relax while an answer of the peer is due. */
void px_verbs_relax_for(struct px_verbs *self, struct px_verbs_peer *peer, struct px_wait *wait);
/* Ask for an answer to everything sent so far, unless the last message did. */
void px_verbs_ask_done(struct px_verbs *self, struct px_verbs_peer *peer, struct px_wait *wait);

/* progress.c */
px_status px_verbs_start_thread(struct px_verbs *self, struct px_error *error);
void px_verbs_stop_thread(struct px_verbs *self);
void px_verbs_poke_thread(struct px_verbs *self);
bool px_verbs_poll(
    struct px_verbs *self); /* one look at everything; true when something was there */

/* words.c */
_Noreturn void px_verbs_broken_lane(struct px_verbs *self, struct px_verbs_lane *lane,
                                    const struct ibv_wc *wc);
void px_verbs_memlock_text(size_t need, char *text, size_t size);
px_status px_verbs_check_memlock(size_t need, struct px_error *error); /* can so much be pinned? */
const char *px_verbs_usual_cause(enum ibv_wc_status status);

/* order.c */
/* Wait until what came before the last fence has taken effect, as far as what follows could pass it. */
void px_verbs_settle(struct px_verbs *self, struct px_verbs_peer *peer, uint32_t lane, bool message,
                     struct px_wait *wait);

/* atomic.c */
bool px_verbs_is_native(const struct px_verbs *self, const struct px_amo *amo);
void px_verbs_native_amo(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t remote,
                         const struct px_amo *amo, void *result, struct px_verbs_op *op,
                         struct px_wait *wait);
void px_verbs_message_amo(struct px_verbs *self, struct px_verbs_peer *peer, uintptr_t remote,
                          const struct px_amo *amo, const struct px_verbs_answer *answer,
                          struct px_wait *wait);

/* data.c, atomic.c, order.c: the table's functions */
void px_verbs_put(void *self, uint32_t pe, void *remote, const void *source, size_t bytes);
void px_verbs_put_nbi(void *self, uint32_t pe, void *remote, const void *source, size_t bytes);
void px_verbs_get(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes);
void px_verbs_get_nbi(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes);
uint64_t px_verbs_amo(void *self, uint32_t pe, void *remote, const struct px_amo *amo);
void px_verbs_send_note(void *self, uint32_t pe, const void *note);
void px_verbs_amo_nbi(void *self, uint32_t pe, void *remote, const struct px_amo *amo,
                      void *result);
void px_verbs_put_signal(void *self, uint32_t pe, void *remote, const void *source, size_t bytes,
                         uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi);
void px_verbs_fence(void *self);
void px_verbs_quiet(void *self);
void px_verbs_quiet_pe(void *self, uint32_t pe);

#endif
