/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of the ofi transport.
 *
 *   fabric.c    the library, the choice of provider and interface
 *   ofi.c       opening, memory, closing, the table
 *   op.c        operations in flight: numbered, listed, posted, completed, waited for
 *   data.c      put, get, fence, quiet
 *   message.c   requests carried out by the target's processor: atomics, signals, keys
 *   doubt.c     is a peer that does not answer still there
 *   progress.c  the thread that serves others while the program computes
 *
 * One lock guards the endpoint and everything here, so the provider needs none. No function that
 * completes operations ever waits; what cannot be posted now is deferred. Only the functions of the
 * program's threads wait, in px_ofi_turn.
 *
 * Every operation has a number and is listed, until it is complete, with all others and with those
 * of its kind to its peer, both in order of issue. So "is everything before N complete" is one look
 * at the head of a list, and a fence only notes a number: the next operation to a peer waits for
 * what is older, if the network would let it overtake. */
#ifndef PX_TRANSPORT_OFI_PRIVATE_H
#define PX_TRANSPORT_OFI_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "src/transport/transport.h"
#include "src/transport/wait.h"

#define PX_OFI_PAYLOAD_MAX 2048 /* bytes of data that travel with their signal */
#define PX_OFI_INLINE_MAX  192  /* bytes of source kept inside an operation */
#define PX_OFI_COPY_MAX                                                                            \
    16384 /* a blocking put up to here copies its source and returns at once                       \
           */
#define PX_OFI_RECEIVES     128
#define PX_OFI_BLOCK        64   /* operations allocated at once */
#define PX_OFI_IN_FLIGHT    2048 /* completion queues have room for that */
#define PX_OFI_REQUESTS_MAX 256  /* to one peer, so that its buffers are not flooded */

/* The few functions of libfabric that are not inlined through tables of the objects themselves. */
#define PX_OFI_CALLS(X)                                                                            \
    X(int, fi_getinfo,                                                                             \
      (uint32_t version, const char *node, const char *service, uint64_t flags,                    \
       const struct fi_info *hints, struct fi_info **info))                                        \
    X(void, fi_freeinfo, (struct fi_info * info))                                                  \
    X(struct fi_info *, fi_dupinfo, (const struct fi_info *info))                                  \
    X(int, fi_fabric, (struct fi_fabric_attr * attr, struct fid_fabric * *fabric, void *context))  \
    X(const char *, fi_strerror, (int error))                                                      \
    X(uint32_t, fi_version, (void))

/* What requests and replies look like on the wire; both sides have the same byte order (the card's
 * version says so). */
enum px_ofi_type { PX_OFI_AMO = 1, PX_OFI_SIGNAL, PX_OFI_KEY, PX_OFI_PING, PX_OFI_REPLY, PX_OFI_NOTE };

struct px_ofi_message {
    uint32_t magic;
    uint8_t type, op, width, fetching;
    uint32_t source;     /* PE */
    uint32_t index;      /* of the operation that waits for the reply, at its sender */
    uint32_t generation; /* of that operation, so that a stale reply is noticed */
    uint32_t data_bytes; /* of a signal: that many follow */
    uint64_t address;    /* symmetric address of the word; number of the chunk */
    uint64_t operand;    /* a reply: the old value, the key */
    uint64_t compare;    /* of a signal: symmetric address of its data; a key: its base */
};
#define PX_OFI_MAGIC 0x6f667802u /* the last byte is the version */

enum px_ofi_kind {
    PX_OFI_OP_PUT,
    PX_OFI_OP_GET,
    PX_OFI_OP_REQUEST,
    PX_OFI_OP_REPLY,
    PX_OFI_OP_RECEIVE
};
#define PX_OFI_LISTED 3 /* the kinds that fence and quiet know come first */

struct px_ofi_op {
    struct fi_context2 context;                        /* first: completions give its address */
    struct px_ofi_op *next, *previous;                 /* of all */
    struct px_ofi_op *next_of_peer, *previous_of_peer; /* of its kind */
    struct px_ofi_op *next_deferred;                   /* or free */
    uint64_t number;
    uint32_t index, generation;
    enum px_ofi_kind kind;
    unsigned events;        /* still to come: the provider's completion, the reply */
    unsigned holds;         /* a request: puts that must be delivered before it is sent */
    struct px_ofi_op *then; /* a put: the request that it holds */
    struct px_ofi_peer *peer;
    bool *done;          /* somebody waits */
    void *result;        /* where the old value goes, `width` bytes */
    uint64_t *key_reply; /* key and base */
    uint8_t width;
    void *copied;      /* of the source; released with the operation */
    struct fid_mr *mr; /* of private memory, where the provider wants it registered */
    void *local;       /* what the provider reads or writes */
    void *descriptor;
    size_t bytes;
    uint64_t remote, key;
    struct px_ofi_message message;
    char inlined[PX_OFI_INLINE_MAX]; /* right behind the message: they travel together */
};

struct px_ofi_list {
    struct px_ofi_op *first, *last;
};

struct px_ofi_key {
    uint64_t key, base;
    bool known;
};

struct px_ofi_peer {
    uint32_t pe;
    fi_addr_t address;
    const void *name; /* the address as on its card */
    struct px_ofi_list list[PX_OFI_LISTED];
    unsigned requests;
    struct px_ofi_key *keys; /* by chunk, where the provider chooses them */
    size_t n_keys;
};

struct px_ofi_chunk {
    size_t offset, length;
    struct fid_mr *mr;
    void *descriptor;
    uint64_t key, base; /* what peers must use */
};

struct px_ofi {
    struct px_transport_setup setup;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    int cq_fd; /* -1: the provider's queue cannot be slept on */

    bool virtual_addresses, ask_keys, register_local;
    bool ordered; /* messages and writes to a peer arrive and take effect in order of issue */

    pthread_mutex_t lock;
    px_transport_find_fn *find;
    void *find_arg;
    struct px_ofi_peer **peers; /* [size], made at first use */
    uint64_t connections;
    uint32_t next_doubt; /* PE */
    size_t address_length;

    struct px_ofi_chunk *chunks;
    size_t n_chunks;
    uint64_t next_key;

    struct px_ofi_op **blocks;
    struct fid_mr **block_mrs;
    size_t n_blocks;
    struct px_ofi_op *free;
    struct px_ofi_list all;
    struct px_ofi_op *deferred, **deferred_end;
    uint64_t next_number, fence_number;
    size_t in_flight;

    char *receive_memory;
    struct fid_mr *receive_mr;
    struct px_ofi_op *receives[PX_OFI_RECEIVES];

    pthread_t thread;
    bool thread_runs;
    int stop_fd;
    _Atomic bool stop;
    _Atomic uint64_t
        polled; /* by the program's threads: the progress thread keeps away meanwhile */
};

struct px_ofi_calls {
#define PX_OFI_FIELD(type, name, arguments) type(*name) arguments;
    PX_OFI_CALLS(PX_OFI_FIELD)
#undef PX_OFI_FIELD
};

/* Test hook: ask peers for keys, register local buffers and trust no order, even where the provider
 * does not need it. */
extern bool px_ofi_distrust;

/* fabric.c */
px_status px_ofi_load(const struct px_ofi_calls **calls, struct px_error *error);
px_status px_ofi_choose(const struct px_transport_setup *setup, struct fi_info **info,
                        struct px_error *error);
int px_ofi_score(bool bridge, int family, const void *address); /* higher is better */
px_status px_ofi_error(struct px_error *error, int code, const char *call);
const char *px_ofi_words(int code);

/* op.c; the lock is held */
struct px_ofi_op *px_ofi_new(struct px_ofi *self, enum px_ofi_kind kind, struct px_ofi_peer *peer);
void px_ofi_list(struct px_ofi *self, struct px_ofi_op *op);
void px_ofi_release(struct px_ofi *self, struct px_ofi_op *op);
void px_ofi_event(struct px_ofi *self, struct px_ofi_op *op);
ssize_t px_ofi_post(struct px_ofi *self, struct px_ofi_op *op);
void px_ofi_post_now(struct px_ofi *self, struct px_ofi_op *op); /* waits */
void px_ofi_defer(struct px_ofi *self, struct px_ofi_op *op);    /* never waits */
void *px_ofi_describe(struct px_ofi *self, struct px_ofi_op *op, void *memory, size_t bytes);
unsigned px_ofi_poll(struct px_ofi *self);
void px_ofi_free_ops(struct px_ofi *self);

struct px_ofi_wait {
    struct px_wait wait;
    uint32_t pe; /* waited for, UINT32_MAX for several */
    unsigned doubts;
};
void px_ofi_turn(struct px_ofi *self, struct px_ofi_wait *wait);
bool px_ofi_is_older(const struct px_ofi_list *list,
                     uint64_t number); /* than that number, the oldest in it */
void px_ofi_respect_fence(struct px_ofi *self, struct px_ofi_peer *peer, enum px_ofi_kind kind);
void px_ofi_await_room(struct px_ofi *self);

/* ofi.c; the lock is held */
struct px_ofi_peer *px_ofi_peer(struct px_ofi *self, uint32_t pe);
struct px_ofi_chunk *px_ofi_chunk(struct px_ofi *self, uintptr_t address);

/* data.c */
void px_ofi_put(void *self, uint32_t pe, void *remote, const void *source, size_t bytes);
void px_ofi_put_nbi(void *self, uint32_t pe, void *remote, const void *source, size_t bytes);
void px_ofi_get(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes);
void px_ofi_get_nbi(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes);
void px_ofi_put_signal(void *self, uint32_t pe, void *remote, const void *source, size_t bytes,
                       uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi);
void px_ofi_fence(void *self);
void px_ofi_quiet(void *self);
void px_ofi_quiet_pe(void *self, uint32_t pe);

/* message.c */
uint64_t px_ofi_amo(void *self, uint32_t pe, void *remote, const struct px_amo *amo);
void px_ofi_amo_nbi(void *self, uint32_t pe, void *remote, const struct px_amo *amo, void *result);
struct px_ofi_op *px_ofi_request(struct px_ofi *self, struct px_ofi_peer *peer,
                                 enum px_ofi_type type);
void px_ofi_await_key(struct px_ofi *self, struct px_ofi_peer *peer, size_t chunk);
void px_ofi_send_note(void *self, uint32_t pe, const void *note);
void px_ofi_received(struct px_ofi *self, struct px_ofi_op *receive, size_t length);

/* doubt.c; the lock is held */
void px_ofi_doubt(struct px_ofi *self, uint32_t pe);

/* progress.c */
px_status px_ofi_start(struct px_ofi *self, struct px_error *error);
void px_ofi_stop(struct px_ofi *self);
void px_ofi_progress(void *self);

#endif
