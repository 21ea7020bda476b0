/* SPDX-License-Identifier: BSD-3-Clause */
/* Handing descriptors to the other PEs of a node, two ways.
 *
 * Direct: pidfd_getfd. It wants the right to trace the owner, which containers, Yama and separate
 * pid namespaces refuse. We do not ask Yama for an exception (PR_SET_PTRACER): that would open the
 * process to others too.
 *
 * Passed: every PE has a datagram socket with an abstract name from its first moment on, and in
 * px_share_pass each sends its descriptor to all others. A datagram waits in the receiver's queue,
 * so nobody needs a thread to serve; queues are short, so everyone keeps receiving while it sends.
 * Who may send is proven by the nonces of both sides, which only PEs of the job know, and by the
 * kernel's word for the sender's user.
 *
 * Abstract names belong to a network namespace: PEs in different ones have no way to each other
 * here. */
#include "config.h"
#include "heap/private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define MESSAGE_MAGIC    0x70786664u /* "pxfd" */
#define DEFAULT_TIMEOUT  120
#define POLL_MS          5
#define OVERFLOW_USER    65534 /* how a user without a number in our user namespace is shown */
#define CAPABILITY_TRACE 19    /* CAP_SYS_PTRACE */

struct px_share {
    int socket; /* -1: could not be had, see `why` */
    struct px_share_id id;
    char job[64]; /* of the job's name, as much as fits into a socket's name */
    struct px_error why;
};

struct message {
    uint32_t magic;
    uint32_t from;
    uint64_t from_nonce, to_nonce;
};

/* --- the direct way --- */

uint32_t px_share_pid_namespace(void)
{
    struct stat ns;
    return stat("/proc/self/ns/pid", &ns) == 0 ? (uint32_t)ns.st_ino : 0;
}

static bool may_trace_anybody(void)
{
    char line[256];
    unsigned long long effective = 0;
    FILE *file = fopen("/proc/self/status", "re");
    if (!file)
        return false;
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "CapEff: %llx", &effective) == 1)
            break;
    fclose(file);
    return effective >> CAPABILITY_TRACE & 1;
}

static int yama_scope(void)
{
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (!file)
        return 0; /* no Yama */
    if (fscanf(file, "%d", &scope) != 1)
        scope = 0;
    fclose(file);
    return scope;
}

px_status px_share_take(int pid, int fd, int *mine, struct px_error *error)
{
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0)
        return px_error_set(error, PX_ERR_UNREACHABLE, "pidfd_open of process %d: %s", pid,
                            strerror(errno));
    int got = (int)syscall(SYS_pidfd_getfd, process, fd, 0), cause = errno;
    close(process);
    if (got < 0)
        return px_error_set(error, PX_ERR_UNREACHABLE, "pidfd_getfd from process %d: %s", pid,
                            strerror(cause));
    *mine = got; /* close-on-exec by definition of the call */
    return PX_OK;
}

bool px_share_direct_expected(char why[PX_SHARE_WHY])
{
    struct px_error error = PX_ERROR_INIT;
    int got, probe = open("/dev/null", O_RDONLY | O_CLOEXEC), scope = yama_scope();
    px_status status = px_share_take((int)getpid(), probe, &got, &error);
    if (probe >= 0)
        close(probe);
    why[0] = '\0';
    if (status == PX_OK)
        close(got);
    if (status != PX_OK)
        snprintf(why, PX_SHARE_WHY, "%.*s", PX_SHARE_WHY - 1, error.text);
    else if (px_share_pid_namespace() == 0)
        snprintf(why, PX_SHARE_WHY, "the pid namespace is unknown (/proc not mounted?)");
    else if (scope > 2 || (scope > 0 && !may_trace_anybody()))
        snprintf(why, PX_SHARE_WHY, "kernel.yama.ptrace_scope is %d", scope);
    else if (prctl(PR_GET_DUMPABLE) != 1 && !may_trace_anybody())
        snprintf(why, PX_SHARE_WHY, "the process is not dumpable");
    return why[0] == '\0';
}

/* --- the sockets --- */

static socklen_t socket_name(const struct px_share *share, uint32_t rank, uint32_t tag,
                             struct sockaddr_un *name)
{
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "pxshmem-%s-%u-%08x",
                          share->job, rank, tag);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void open_socket(struct px_share *share)
{
    struct sockaddr_un name;
    socklen_t length = socket_name(share, share->id.rank, share->id.tag, &name);
    int on = 1;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    share->socket = fd;
    if (fd < 0) {
        px_error_errno(&share->why, errno, "a Unix socket");
        return;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
        bind(fd, (struct sockaddr *)&name, length) == 0)
        return;
    px_error_errno(&share->why, errno, "binding the abstract Unix socket @%s", name.sun_path + 1);
    close(fd);
    share->socket = -1;
}

px_status px_share_open(const struct px_share_id *id, struct px_share **out, struct px_error *error)
{
    struct px_share *share = calloc(1, sizeof(*share));
    if (!share)
        return px_error_errno(error, ENOMEM, "books for sharing descriptors");
    share->id = *id;
    snprintf(share->job, sizeof(share->job), "%s", id->job ? id->job : "");
    share->id.job = share->job;
    open_socket(share);
    *out = share;
    return PX_OK;
}

void px_share_close(struct px_share *share)
{
    if (!share)
        return;
    int saved = errno;
    if (share->socket >= 0)
        close(share->socket);
    free(share);
    errno = saved;
}

/* --- passing --- */

union fd_space {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* 0 or errno. */
static int send_to(const struct px_share *share, int fd, const struct px_share_peer *peer)
{
    struct sockaddr_un name;
    union fd_space space = {.bytes = {0}};
    struct message message = {.magic = MESSAGE_MAGIC,
                              .from = share->id.rank,
                              .from_nonce = share->id.nonce,
                              .to_nonce = peer->nonce};
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr header = {.msg_name = &name,
                            .msg_namelen = socket_name(share, peer->rank, peer->tag, &name),
                            .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = CMSG_SPACE(sizeof(int))};
    struct cmsghdr *control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &fd, sizeof(fd));
    return sendmsg(share->socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Our messages carry one descriptor. More (the buffer's padding has room for a second) come from
 * strangers. */
static int only_one(const struct cmsghdr *control)
{
    size_t n = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    int fd = -1;
    for (size_t i = 0; i < n; i++) {
        memcpy(&fd, CMSG_DATA(control) + i * sizeof(fd), sizeof(fd));
        if (n > 1)
            close(fd);
    }
    return n == 1 ? fd : -1;
}

/* What came with a message: the descriptor, or -1, and the sender's user. */
static void unpack_control(struct msghdr *header, int *fd, uid_t *user)
{
    *fd = -1;
    *user = (uid_t)-1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_RIGHTS) {
            *fd = only_one(c);
        } else if (c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(c), sizeof(sender));
            *user = sender.uid;
        }
    }
}

static struct px_share_peer *sender_of(const struct px_share *share, const struct message *message,
                                       uid_t user, struct px_share_peer *peers, uint32_t n_peers)
{
    if (message->magic != MESSAGE_MAGIC || message->to_nonce != share->id.nonce)
        return NULL;
    if (user != geteuid() && user != OVERFLOW_USER)
        return NULL;
    for (uint32_t i = 0; i < n_peers; i++)
        if (peers[i].rank == message->from && peers[i].nonce == message->from_nonce)
            return &peers[i];
    return NULL;
}

/* Take one datagram; false when none waits. Strangers' messages and their descriptors are dropped.
 */
static bool receive_one(const struct px_share *share, struct px_share_peer *peers, uint32_t n_peers,
                        bool *news)
{
    struct message message;
    union fd_space space;
    struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof(space.bytes)};
    ssize_t length = recvmsg(share->socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EINTR;
    int fd;
    uid_t user;
    unpack_control(&header, &fd, &user);
    struct px_share_peer *peer = NULL;
    if (length == sizeof(message) && fd >= 0)
        peer = sender_of(share, &message, user, peers, n_peers);
    if (peer && peer->fd < 0) {
        peer->fd = fd;
        *news = true;
    } else if (fd >= 0) {
        close(fd);
    }
    return true;
}

static bool may_come_later(int cause)
{
    return cause == EAGAIN || cause == EWOULDBLOCK || cause == EINTR || cause == ENOBUFS ||
           cause == ENOMEM || cause == ETOOMANYREFS;
}

/* One round over all; true when something moved. `first_failure` gets the text of the first peer
 * without a path. */
static bool move_on(struct px_share *share, int fd, struct px_share_peer *peers, uint32_t n_peers,
                    struct px_error *first_failure)
{
    bool moved = false;
    for (uint32_t i = 0; i < n_peers; i++) {
        struct px_share_peer *peer = &peers[i];
        if (peer->sent || peer->given_up)
            continue;
        int cause = send_to(share, fd, peer);
        if (may_come_later(cause))
            continue;
        moved = true;
        peer->sent = cause == 0;
        peer->given_up = cause != 0;
        if (cause && first_failure->status == PX_OK)
            px_error_set(
                first_failure, PX_ERR_UNREACHABLE,
                "no socket of PE %u on this node: %s (is it in another network namespace?)",
                peer->rank, strerror(cause));
    }
    while (receive_one(share, peers, n_peers, &moved))
        ;
    return moved;
}

static const struct px_share_peer *unfinished(const struct px_share_peer *peers, uint32_t n_peers)
{
    for (uint32_t i = 0; i < n_peers; i++)
        if (!peers[i].given_up && (!peers[i].sent || peers[i].fd < 0))
            return &peers[i];
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

px_status px_share_pass(struct px_share *share, int fd, struct px_share_peer *peers,
                        uint32_t n_peers, unsigned timeout_s, struct px_error *error)
{
    struct px_error first_failure = PX_ERROR_INIT;
    double deadline = now() + (timeout_s ? timeout_s : DEFAULT_TIMEOUT);
    const struct px_share_peer *missing;
    if (share->socket < 0)
        return px_error_set(error, PX_ERR_UNREACHABLE, "descriptors cannot be passed: %s",
                            share->why.text);
    while ((missing = unfinished(peers, n_peers))) {
        if (move_on(share, fd, peers, n_peers, &first_failure))
            continue;
        if (now() > deadline)
            return px_error_set(
                error, PX_ERR_TIMEOUT, "PE %u on this node %s its memory's descriptor within %u s",
                missing->rank, missing->sent ? "did not send" : "does not fetch ours or",
                timeout_s ? timeout_s : DEFAULT_TIMEOUT);
        struct pollfd wait = {.fd = share->socket, .events = POLLIN};
        (void)poll(&wait, 1, POLL_MS); /* queues of others give no event: look again soon */
    }
    if (first_failure.status != PX_OK && error)
        *error = first_failure;
    return first_failure.status;
}
