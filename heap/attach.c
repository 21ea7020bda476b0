/* SPDX-License-Identifier: BSD-3-Clause */
/* The windows of the other PEs of the node: get their descriptors the direct way or passed over
 * sockets, map them, have them confirmed. A peer is in heap->peers exactly while its window is
 * mapped. */
#include "config.h"
#include "heap/private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct px_heap_mapping *find_peer(const struct px_heap *heap, uint32_t rank)
{
    for (uint32_t i = 0; i < heap->n_peers; i++)
        if (heap->peers[i].rank == rank)
            return &heap->peers[i];
    return NULL;
}

void px_heap_drop_peers(struct px_heap *heap)
{
    for (uint32_t i = 0; i < heap->n_peers; i++)
        heap->ops->unmap(heap->memory, heap->peers[i].address, px_heap_mapped(heap, heap->span));
    heap->n_peers = 0;
}

void px_heap_detach(struct px_heap *heap, uint32_t rank)
{
    struct px_heap_mapping *peer = find_peer(heap, rank);
    if (!peer)
        return;
    heap->ops->unmap(heap->memory, peer->address, px_heap_mapped(heap, heap->span));
    *peer = heap->peers[--heap->n_peers];
}

intptr_t px_heap_delta(const struct px_heap *heap, uint32_t rank)
{
    if (rank == heap->options.rank)
        return 0;
    const struct px_heap_mapping *peer = find_peer(heap, rank);
    return peer ? (intptr_t)(peer->address - heap->base) : PX_HEAP_NOT_MAPPED;
}

struct confirm {
    px_heap_confirm_fn *fn;
    void *arg;
};

/* A file that is shorter than its control area would be SIGBUS for whoever looks into it. */
static px_status check_file(const struct px_heap *heap, int fd, struct px_error *error)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return px_error_errno(error, errno, "looking at the received descriptor");
    if (!S_ISREG(file.st_mode) || (size_t)file.st_size < heap->control_bytes)
        return px_error_set(error, PX_ERR_PEER,
                            "what was received is not a symmetric window (mode %o, %lld bytes)",
                            file.st_mode, (long long)file.st_size);
    return PX_OK;
}

static px_status map_peer(struct px_heap *heap, const struct px_heap_peer *peer, int fd,
                          const struct confirm *confirm, struct px_error *error)
{
    uintptr_t address;
    px_status status = check_file(heap, fd, error);
    if (status != PX_OK)
        return status;
    status = heap->ops->attach(heap->memory, fd, px_heap_mapped(heap, heap->span), &address, error);
    if (status == PX_ERR_NO_MEMORY)
        return px_heap_offer_less(heap, heap->span, error);
    if (status != PX_OK)
        return status;
    if (confirm->fn)
        status = confirm->fn(confirm->arg, peer->rank, (void *)address, peer->card->nonce, error);
    if (status != PX_OK) {
        heap->ops->unmap(heap->memory, address, px_heap_mapped(heap, heap->span));
        return status;
    }
    heap->peers[heap->n_peers++] = (struct px_heap_mapping){
        .rank = peer->rank, .nonce = peer->card->nonce, .address = address};
    return PX_OK;
}

/* Mapped already in an earlier round, and still the same memory? */
static bool is_attached(struct px_heap *heap, const struct px_heap_peer *peer)
{
    const struct px_heap_mapping *known = find_peer(heap, peer->rank);
    if (known && known->nonce != peer->card->nonce)
        px_heap_detach(heap, peer->rank);
    else if (known)
        return true;
    return peer->rank == heap->options.rank;
}

/* All PEs of the node come to the same answer from the same cards. */
static bool all_direct(const struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n)
{
    uint32_t mine = px_share_pid_namespace();
    bool direct = heap->direct;
    for (uint32_t i = 0; i < n; i++)
        direct = direct && peers[i].card->direct && peers[i].card->pid_namespace == mine;
    return direct;
}

/* Keep going after a lost peer: the others' mappings are wanted anyway. The first cause is kept. */
static void keep_first(px_status status, const struct px_error *cause, px_status *first,
                       struct px_error *error)
{
    if (status == PX_OK || *first != PX_OK)
        return;
    *first = status;
    if (error)
        *error = *cause;
}

static px_status attach_direct(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n,
                               const struct confirm *confirm, struct px_error *error)
{
    px_status first = PX_OK;
    for (uint32_t i = 0; i < n; i++) {
        struct px_error cause = PX_ERROR_INIT;
        int fd;
        if (is_attached(heap, &peers[i]))
            continue;
        px_status status = px_share_take(peers[i].card->pid, peers[i].card->fd, &fd, &cause);
        if (status == PX_OK) {
            status = map_peer(heap, &peers[i], fd, confirm, &cause);
            close(fd);
        } else {
            heap->direct = false; /* for the next round's card */
        }
        if (status != PX_OK)
            px_error_context(&cause, "mapping the memory of PE %u", peers[i].rank);
        keep_first(status, &cause, &first, error);
    }
    return first;
}

/* What passing over sockets wants to know of the other PEs of the node, in their order; NULL without memory. */
static struct px_share_peer *others(const struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n,
                                    uint32_t *count)
{
    struct px_share_peer *passed = calloc(n, sizeof(*passed));
    *count = 0;
    for (uint32_t i = 0; passed && i < n; i++)
        if (peers[i].rank != heap->options.rank)
            passed[(*count)++] = (struct px_share_peer){.rank = peers[i].rank,
                                                        .nonce = peers[i].card->nonce,
                                                        .tag = peers[i].card->tag,
                                                        .fd = -1};
    return passed;
}

static px_status attach_passed(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n,
                               const struct confirm *confirm, struct px_error *error)
{
    struct px_error cause = PX_ERROR_INIT;
    uint32_t n_passed;
    struct px_share_peer *passed = others(heap, peers, n, &n_passed);
    px_status first = PX_OK;
    if (!passed)
        return px_error_errno(error, ENOMEM, "books for receiving descriptors");
    px_status status = px_share_pass(heap->share, heap->ops->descriptor(heap->memory), passed,
                                     n_passed, heap->options.timeout_s, &cause);
    keep_first(status, &cause, &first, error);
    for (uint32_t i = 0, j = 0; i < n; i++) {
        if (peers[i].rank == heap->options.rank)
            continue;
        int fd = passed[j++].fd;
        if (fd < 0)
            continue;
        status =
            is_attached(heap, &peers[i]) ? PX_OK : map_peer(heap, &peers[i], fd, confirm, &cause);
        close(fd);
        if (status != PX_OK)
            px_error_context(&cause, "mapping the memory of PE %u", peers[i].rank);
        keep_first(status, &cause, &first, error);
    }
    free(passed);
    return first;
}

px_status px_heap_attach(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n_peers,
                         px_heap_confirm_fn *confirm_fn, void *arg, struct px_error *error)
{
    const struct confirm confirm = {.fn = confirm_fn, .arg = arg};
    if (!heap->base)
        return px_error_set(error, PX_ERR_INTERNAL, "peers attached before the window was placed");
    if (n_peers == 0)
        return PX_OK;
    struct px_heap_mapping *room =
        realloc(heap->peers, (heap->n_peers + (size_t)n_peers) * sizeof(*room));
    if (!room)
        return px_error_errno(error, ENOMEM, "books of %u peers", n_peers);
    heap->peers = room;
    if (all_direct(heap, peers, n_peers))
        return attach_direct(heap, peers, n_peers, &confirm, error);
    return attach_passed(heap, peers, n_peers, &confirm, error);
}

/* --- descriptors of other memory --- */

static px_status fetch_direct(const struct px_heap *heap, const struct px_heap_peer *peers,
                              uint32_t n, const int *theirs, int *fds, struct px_error *error)
{
    px_status first = PX_OK;
    for (uint32_t i = 0; i < n; i++) {
        struct px_error cause = PX_ERROR_INIT;
        if (peers[i].rank == heap->options.rank)
            continue;
        px_status status = px_share_take(peers[i].card->pid, theirs[i], &fds[i], &cause);
        keep_first(status, &cause, &first, error);
    }
    return first;
}

static px_status fetch_passed(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n,
                              int mine, int *fds, struct px_error *error)
{
    uint32_t n_passed;
    struct px_share_peer *passed = others(heap, peers, n, &n_passed);
    if (!passed)
        return px_error_errno(error, ENOMEM, "books for receiving descriptors");
    px_status status =
        px_share_pass(heap->share, mine, passed, n_passed, heap->options.timeout_s, error);
    for (uint32_t i = 0, j = 0; i < n; i++)
        if (peers[i].rank != heap->options.rank)
            fds[i] = passed[j++].fd;
    free(passed);
    return status;
}

px_status px_heap_fetch(struct px_heap *heap, const struct px_heap_peer *peers, uint32_t n_peers,
                        const int *theirs, int mine, int *fds, struct px_error *error)
{
    for (uint32_t i = 0; i < n_peers; i++)
        fds[i] = -1;
    if (all_direct(heap, peers, n_peers))
        return fetch_direct(heap, peers, n_peers, theirs, fds, error);
    return fetch_passed(heap, peers, n_peers, mine, fds, error);
}
