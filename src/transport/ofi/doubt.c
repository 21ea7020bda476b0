/* SPDX-License-Identifier: BSD-3-Clause */
/* Is a peer that does not answer still there? Providers over sockets connect again and again to a
 * process that has ended, without a word; so the question is put to the kernel of the peer's node:
 * a listening process, also one that is stopped, accepts a connection, one that has ended refuses
 * it. Other providers report a failed message, so they are given one. A node that has vanished
 * answers nothing; finding that out is left to the launcher. */
#include "config.h"
#include "src/transport/ofi/private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/diag/log.h"

#define PATIENCE_MS 200 /* for one answer, with the lock held */
#define AT_ONCE     4

/* 0 when it answers or nothing can be said. */
static int knock(const void *address, socklen_t length)
{
    struct sockaddr_storage name;
    int failure = 0;
    socklen_t size = sizeof(failure);
    memcpy(&name, address, length);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return 0;
    if (connect(fd, (struct sockaddr *)&name, length) != 0)
        failure = errno;
    struct pollfd waiting = {.fd = fd, .events = POLLOUT};
    if (failure == EINPROGRESS && (poll(&waiting, 1, PATIENCE_MS) != 1 ||
                                   getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0))
        failure = 0;
    close(fd);
    return failure == ECONNREFUSED || failure == EHOSTUNREACH || failure == ENETUNREACH ? failure
                                                                                        : 0;
}

static const char *spell(const void *address, char *text, socklen_t size)
{
    const struct sockaddr_in *v4 = address;
    const struct sockaddr_in6 *v6 = address;
    const void *ip = v4->sin_family == AF_INET ? (const void *)&v4->sin_addr : &v6->sin6_addr;
    return inet_ntop(v4->sin_family, ip, text, size) ? text : "?";
}

static void ping(struct px_ofi *self, struct px_ofi_peer *peer)
{
    struct px_ofi_op *op = px_ofi_new(self, PX_OFI_OP_REPLY, peer);
    op->message = (struct px_ofi_message){
        .magic = PX_OFI_MAGIC, .type = PX_OFI_PING, .source = self->setup.rank};
    op->local = &op->message;
    op->bytes = sizeof(op->message);
    op->descriptor = px_ofi_describe(self, op, op->local, op->bytes);
    px_ofi_defer(self, op);
}

static bool owes(const struct px_ofi_peer *peer)
{
    return peer->list[PX_OFI_OP_PUT].first || peer->list[PX_OFI_OP_GET].first ||
           peer->list[PX_OFI_OP_REQUEST].first;
}

static void doubt(struct px_ofi *self, struct px_ofi_peer *peer)
{
    char text[INET6_ADDRSTRLEN];
    size_t length = self->info->addr_format == FI_SOCKADDR_IN    ? sizeof(struct sockaddr_in)
                    : self->info->addr_format == FI_SOCKADDR_IN6 ? sizeof(struct sockaddr_in6)
                                                                 : 0;
    if (length == 0 || length > self->address_length) {
        ping(self, peer);
        return;
    }
    int failure = knock(peer->name, (socklen_t)length);
    if (failure)
        px_fatal(1,
                 "ofi: PE %u does not answer, and no process listens at its address %s: %s. It or "
                 "its node has ended",
                 (unsigned)peer->pe, spell(peer->name, text, sizeof(text)), strerror(failure));
}

/* The peer waited for, or, when `pe` is UINT32_MAX, some of those that owe an answer: others get their turn next time,
 * so that silent nodes do not keep the lock for long. */
void px_ofi_doubt(struct px_ofi *self, uint32_t pe)
{
    int left = AT_ONCE;
    if (pe != UINT32_MAX) {
        if (self->peers[pe])
            doubt(self, self->peers[pe]);
        return;
    }
    for (uint32_t i = 0; left > 0 && i < self->setup.size; i++) {
        struct px_ofi_peer *peer = self->peers[self->next_doubt];
        self->next_doubt = (self->next_doubt + 1) % self->setup.size;
        if (peer && owes(peer)) {
            doubt(self, peer);
            left--;
        }
    }
}
