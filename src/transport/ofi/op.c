/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations in flight: made, listed, posted, completed, waited for. Everything here runs under the
 * lock; only px_ofi_turn and px_ofi_post_now, which are for the program's own threads, let go of it
 * and wait. */
#include "config.h"
#include "src/transport/ofi/private.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/diag/log.h"

#define YIELD_NS 2000000ull /* a wait longer than this sleeps on the queue's file descriptor */
#define SLEEP_MS 5
#define DOUBT_NS 1000000000ull /* between looks whether those waited for are alive */

static const char *const kind_names[] = {"put", "get", "request", "reply", "receive"};

static void grow(struct px_ofi *self)
{
    struct px_ofi_op **blocks = realloc(self->blocks, (self->n_blocks + 1) * sizeof(*blocks));
    if (blocks)
        self->blocks = blocks;
    struct fid_mr **mrs = realloc(self->block_mrs, (self->n_blocks + 1) * sizeof(*mrs));
    if (mrs)
        self->block_mrs = mrs;
    struct px_ofi_op *block = calloc(PX_OFI_BLOCK, sizeof(*block));
    if (!blocks || !mrs || !block)
        px_fatal(1, "ofi: out of memory with %zu operations in flight", self->in_flight);
    struct fid_mr *mr = NULL;
    if (self->register_local) {
        int code =
            fi_mr_reg(self->domain, block, PX_OFI_BLOCK * sizeof(*block),
                      FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, self->next_key++, 0, &mr, NULL);
        if (code)
            px_fatal(1, "ofi: fi_mr_reg of %zu bytes: %s", PX_OFI_BLOCK * sizeof(*block),
                     px_ofi_words(code));
    }
    for (size_t i = 0; i < PX_OFI_BLOCK; i++) {
        block[i].index = (uint32_t)(self->n_blocks * PX_OFI_BLOCK + i);
        block[i].next_deferred = self->free;
        self->free = &block[i];
    }
    self->blocks[self->n_blocks] = block;
    self->block_mrs[self->n_blocks++] = mr;
}

struct px_ofi_op *px_ofi_new(struct px_ofi *self, enum px_ofi_kind kind, struct px_ofi_peer *peer)
{
    if (!self->free)
        grow(self);
    struct px_ofi_op *op = self->free;
    self->free = op->next_deferred;
    uint32_t index = op->index, generation = op->generation + 1;
    memset(op, 0, offsetof(struct px_ofi_op, inlined));
    op->index = index;
    op->generation = generation;
    op->kind = kind;
    op->peer = peer;
    op->events = 1;
    self->in_flight++;
    return op;
}

/* From here on fence and quiet wait for it. */
void px_ofi_list(struct px_ofi *self, struct px_ofi_op *op)
{
    struct px_ofi_list *list = &op->peer->list[op->kind];
    op->number = self->next_number++;
    op->previous = self->all.last;
    *(op->previous ? &op->previous->next : &self->all.first) = op;
    self->all.last = op;
    op->previous_of_peer = list->last;
    *(op->previous_of_peer ? &op->previous_of_peer->next_of_peer : &list->first) = op;
    list->last = op;
    op->peer->requests += op->kind == PX_OFI_OP_REQUEST;
}

static void unlist(struct px_ofi *self, struct px_ofi_op *op)
{
    struct px_ofi_list *list = &op->peer->list[op->kind];
    *(op->previous ? &op->previous->next : &self->all.first) = op->next;
    *(op->next ? &op->next->previous : &self->all.last) = op->previous;
    *(op->previous_of_peer ? &op->previous_of_peer->next_of_peer : &list->first) = op->next_of_peer;
    *(op->next_of_peer ? &op->next_of_peer->previous_of_peer : &list->last) = op->previous_of_peer;
    op->peer->requests -= op->kind == PX_OFI_OP_REQUEST;
}

void px_ofi_release(struct px_ofi *self, struct px_ofi_op *op)
{
    if (op->mr)
        (void)fi_close(&op->mr->fid); /* memory of the program, not ours: nothing to repair */
    free(op->copied);
    op->generation++; /* replies to it are stale from here on */
    op->next_deferred = self->free;
    self->free = op;
    self->in_flight--;
}

/* One of the things that an operation waits for has happened. */
void px_ofi_event(struct px_ofi *self, struct px_ofi_op *op)
{
    if (--op->events)
        return;
    if (op->kind < PX_OFI_LISTED)
        unlist(self, op);
    if (op->then && --op->then->holds == 0)
        px_ofi_defer(self, op->then);
    if (op->done)
        *op->done = true;
    px_ofi_release(self, op);
}

void *px_ofi_describe(struct px_ofi *self, struct px_ofi_op *op, void *memory, size_t bytes)
{
    if (!self->register_local)
        return NULL;
    if ((char *)memory >= (char *)op && (char *)memory < (char *)(op + 1))
        return fi_mr_desc(self->block_mrs[op->index / PX_OFI_BLOCK]);
    struct px_ofi_chunk *chunk = px_ofi_chunk(self, (uintptr_t)memory);
    if (chunk && (uintptr_t)memory + bytes <= self->setup.base + chunk->offset + chunk->length)
        return chunk->descriptor;
    int code = fi_mr_reg(self->domain, memory, bytes, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0,
                         self->next_key++, 0, &op->mr, NULL);
    if (code)
        px_fatal(1,
                 "ofi: registering %zu bytes at %p for a %s: %s (check the limit of locked memory, "
                 "ulimit -l)",
                 bytes, memory, kind_names[op->kind], px_ofi_words(code));
    return fi_mr_desc(op->mr);
}

static ssize_t post_rma(struct px_ofi *self, struct px_ofi_op *op)
{
    struct iovec local = {.iov_base = op->local, .iov_len = op->bytes};
    struct fi_rma_iov remote = {.addr = op->remote, .len = op->bytes, .key = op->key};
    struct fi_msg_rma message = {.msg_iov = &local,
                                 .desc = &op->descriptor,
                                 .iov_count = 1,
                                 .addr = op->peer->address,
                                 .rma_iov = &remote,
                                 .rma_iov_count = 1,
                                 .context = op};
    if (op->kind == PX_OFI_OP_GET)
        return fi_readmsg(self->ep, &message, FI_COMPLETION);
    return fi_writemsg(self->ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

/* 0, -FI_EAGAIN, or an error of the provider. */
ssize_t px_ofi_post(struct px_ofi *self, struct px_ofi_op *op)
{
    switch (op->kind) {
    case PX_OFI_OP_PUT:
    case PX_OFI_OP_GET:
        return post_rma(self, op);
    case PX_OFI_OP_REQUEST:
    case PX_OFI_OP_REPLY:
        return fi_send(self->ep, op->local, op->bytes, op->descriptor, op->peer->address, op);
    case PX_OFI_OP_RECEIVE:
        return fi_recv(self->ep, op->local, op->bytes, op->descriptor, FI_ADDR_UNSPEC, op);
    }
    return -FI_EINVAL;
}

static _Noreturn void failed(struct px_ofi *self, struct px_ofi_op *op, int code,
                             const char *provider_words)
{
    const char *provider = self->info->fabric_attr->prov_name;
    if (!op || op->kind == PX_OFI_OP_RECEIVE)
        px_fatal(1, "ofi: receiving failed: %s (provider %s%s%s)", px_ofi_words(code), provider,
                 *provider_words ? ": " : "", provider_words);
    px_fatal(
        1,
        "ofi: a %s of %zu bytes with PE %u failed: %s (provider %s%s%s). The usual causes: that "
        "PE or its node has "
        "ended, or its address cannot be reached from here (NVSHMEM_OFI_INTERFACE chooses the "
        "interface)",
        kind_names[op->kind], op->bytes, (unsigned)op->peer->pe, px_ofi_words(code), provider,
        *provider_words ? ": " : "", provider_words);
}

void px_ofi_post_now(struct px_ofi *self, struct px_ofi_op *op)
{
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("a network operation"), .pe = op->peer->pe};
    ssize_t code;
    while ((code = px_ofi_post(self, op)) == -FI_EAGAIN)
        px_ofi_turn(self, &wait);
    if (code)
        failed(self, op, (int)code, "");
}

void px_ofi_defer(struct px_ofi *self, struct px_ofi_op *op)
{
    op->next_deferred = NULL;
    *self->deferred_end = op;
    self->deferred_end = &op->next_deferred;
}

/* What the provider does not take yet stays for the next poll; a peer that is slow does not hold up
 * the others. */
static unsigned post_deferred(struct px_ofi *self)
{
    unsigned count = 0;
    struct px_ofi_op **place = &self->deferred;
    while (*place) {
        struct px_ofi_op *op = *place, *next = op->next_deferred;
        ssize_t code = px_ofi_post(self, op);
        if (code == -FI_EAGAIN) {
            place = &op->next_deferred;
            continue;
        }
        if (code)
            failed(self, op, (int)code, "");
        *place = next;
        count++;
    }
    self->deferred_end = place;
    return count;
}

static void read_error(struct px_ofi *self)
{
    struct fi_cq_err_entry entry = {0};
    char words[200];
    ssize_t count = fi_cq_readerr(self->cq, &entry, 0);
    if (count == -FI_EAGAIN)
        return;
    if (count < 0)
        px_fatal(1, "ofi: fi_cq_readerr: %s", px_ofi_words((int)count));
    const char *said =
        fi_cq_strerror(self->cq, entry.prov_errno, entry.err_data, words, sizeof(words));
    failed(self, entry.op_context, entry.err, said ? said : "");
}

/* Move on whatever can be moved; returns how much happened. */
unsigned px_ofi_poll(struct px_ofi *self)
{
    struct fi_cq_msg_entry entries[16];
    unsigned total = 0;
    for (;;) {
        ssize_t count = fi_cq_read(self->cq, entries, 16);
        if (count == -FI_EAVAIL)
            read_error(self);
        else if (count < 0 && count != -FI_EAGAIN)
            px_fatal(1, "ofi: fi_cq_read: %s", px_ofi_words((int)count));
        for (ssize_t i = 0; i < count; i++) {
            struct px_ofi_op *op = entries[i].op_context;
            if (op->kind == PX_OFI_OP_RECEIVE)
                px_ofi_received(self, op, entries[i].len);
            else
                px_ofi_event(self, op);
        }
        total += count > 0 ? (unsigned)count : 0;
        if (count < 16)
            break;
    }
    return total + post_deferred(self);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* What a wait does when its turn found nothing: spin, yield, sleep on the queue, and tell of a
 * hang. */
static void pause_outside(struct px_ofi *self, struct px_wait *wait)
{
    if (++wait->turns <
        px_wait_policy.spin_turns / 64) { /* a turn here is a poll of the network, not one load */
        sched_yield();
        return;
    }
    uint64_t now = now_ns();
    if (!wait->started_ns)
        wait->started_ns = now;
    uint64_t waited = now - wait->started_ns;
    struct pollfd fd = {.fd = self->cq_fd, .events = POLLIN};
    if (waited < YIELD_NS)
        sched_yield();
    else
        (void)poll(&fd, self->cq_fd >= 0,
                   self->cq_fd >= 0 ? SLEEP_MS : 1); /* any outcome means: look again */
    if (px_wait_policy.hang_ns && !wait->reported && waited > px_wait_policy.hang_ns) {
        wait->reported = true;
        if (px_wait_policy.report)
            px_wait_policy.report(wait);
    }
}

static bool may_sleep(struct px_ofi *self)
{
    struct fid *fids[] = {&self->cq->fid};
    return self->cq_fd < 0 || fi_trywait(self->fabric, fids, 1) == 0;
}

void px_ofi_turn(struct px_ofi *self, struct px_ofi_wait *wait)
{
    atomic_fetch_add_explicit(&self->polled, 1, memory_order_relaxed);
    if (px_ofi_poll(self) || !may_sleep(self))
        return;
    if (wait->wait.started_ns && now_ns() - wait->wait.started_ns > (wait->doubts + 1) * DOUBT_NS) {
        wait->doubts++;
        px_ofi_doubt(self, wait->pe);
    }
    pthread_mutex_unlock(&self->lock);
    pause_outside(self, &wait->wait);
    pthread_mutex_lock(&self->lock);
}

bool px_ofi_is_older(const struct px_ofi_list *list, uint64_t number)
{
    return list->first && list->first->number < number;
}

/* Wait until what was issued before the last fence can no longer be overtaken by an operation of
 * this kind. Gets are not ordered by fence. Where a peer takes messages and writes in order, only a
 * write could overtake a request, which waits at the target for its processor. */
void px_ofi_respect_fence(struct px_ofi *self, struct px_ofi_peer *peer, enum px_ofi_kind kind)
{
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("fence"), .pe = peer->pe};
    bool after_puts = !self->ordered, after_requests = !self->ordered || kind == PX_OFI_OP_PUT;
    while ((after_puts && px_ofi_is_older(&peer->list[PX_OFI_OP_PUT], self->fence_number)) ||
           (after_requests && px_ofi_is_older(&peer->list[PX_OFI_OP_REQUEST], self->fence_number)))
        px_ofi_turn(self, &wait);
}

void px_ofi_await_room(struct px_ofi *self)
{
    struct px_ofi_wait wait = {.wait = PX_WAIT_INIT("room for a network operation"),
                               .pe = UINT32_MAX};
    while (self->in_flight >= PX_OFI_IN_FLIGHT)
        px_ofi_turn(self, &wait);
}

void px_ofi_free_ops(struct px_ofi *self)
{
    for (size_t i = 0; i < self->n_blocks; i++) {
        for (size_t k = 0; k < PX_OFI_BLOCK; k++)
            if (self->blocks[i][k].kind != PX_OFI_OP_RECEIVE && self->blocks[i][k].events)
                free(self->blocks[i][k].copied);
        if (self->block_mrs[i])
            (void)fi_close(&self->block_mrs[i]->fid);
        free(self->blocks[i]);
    }
    free(self->blocks);
    free(self->block_mrs);
}
