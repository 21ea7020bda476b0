/* SPDX-License-Identifier: BSD-3-Clause */
/* Passing descriptors: all to all with short queues, strangers, PEs that do not come, and the
 * direct way. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "test/unit/pretend.h"

#include <cmocka.h>

#include "heap/private.h"

static uint64_t nonce_of(uint32_t rank)
{
    return 0x1000 + rank;
}

static struct px_share *open_share(uint32_t rank)
{
    const struct px_share_id id = {
        .job = "unit share", .rank = rank, .nonce = nonce_of(rank), .tag = (uint32_t)getppid()};
    struct px_share *share;
    pe_check(px_share_open(&id, &share, NULL) == PX_OK);
    return share;
}

static uint32_t fill_peers(uint32_t n, uint32_t me, uint32_t tag, struct px_share_peer *peers)
{
    uint32_t filled = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i != me)
            peers[filled++] =
                (struct px_share_peer){.rank = i, .nonce = nonce_of(i), .tag = tag, .fd = -1};
    return filled;
}

static int token(uint32_t rank)
{
    int fd = memfd_create("token", MFD_CLOEXEC);
    pe_check(fd >= 0 && ftruncate(fd, 1000 + rank) == 0);
    return fd;
}

static void check_token(int fd, uint32_t rank)
{
    struct stat file;
    pe_check(fstat(fd, &file) == 0 && file.st_size == 1000 + rank);
    pe_check(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}

static void passing_job(struct pretend *job, uint32_t rank)
{
    struct px_share_peer peers[PRETEND_MAX];
    struct px_share *share = open_share(rank);
    pretend_barrier(job);
    for (int round = 0; round < 50; round++) {
        int mine = token(rank);
        uint32_t n = fill_peers(job->n, rank, (uint32_t)getppid(), peers);
        pe_check(px_share_pass(share, mine, peers, n, 20, NULL) == PX_OK);
        for (uint32_t i = 0; i < n; i++)
            check_token(peers[i].fd, peers[i].rank);
        close(mine);
        pretend_barrier(job);
    }
    px_share_close(share);
}

static void all_get_all(void **state)
{
    assert_int_equal(pretend_run(2, passing_job), 0);
    assert_int_equal(pretend_run(8, passing_job), 0);
}

/* Descriptors in flight are counted against the limit of open files: few may wait, the rest come
 * later. */
static void few_descriptors_job(struct pretend *job, uint32_t rank)
{
    struct rlimit limit = {.rlim_cur = 24, .rlim_max = 24};
    pe_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    passing_job(job, rank);
}

static void few_descriptors_are_enough(void **state)
{
    assert_int_equal(pretend_run(8, few_descriptors_job), 0);
}

static void send_rubbish(uint32_t rank, uint32_t tag, const void *bytes, size_t length, int n_fds)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char control[CMSG_SPACE(3 * sizeof(int))] = {0};
    int fds[3] = {0, 1, 2}, fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    int used = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "pxshmem-%s-%u-%08x",
                        "unit share", rank, tag);
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr header = {.msg_name = &name,
                            .msg_namelen = (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)used),
                            .msg_iov = &part,
                            .msg_iovlen = 1};
    if (n_fds) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)n_fds * sizeof(int));
    }
    pe_check(sendmsg(fd, &header, MSG_DONTWAIT) == (ssize_t)length);
    close(fd);
}

static size_t count_open(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

struct wire { /* as share.c lays it out */
    uint32_t magic, from;
    uint64_t from_nonce, to_nonce;
};

static void stranger_job(struct pretend *job, uint32_t rank)
{
    uint32_t tag = (uint32_t)getppid();
    size_t before = count_open();
    struct px_share *share = open_share(rank);
    struct px_share_peer peers[PRETEND_MAX];
    pretend_barrier(job);
    if (rank == 0) {
        struct wire wire = {0x70786664u, 0, nonce_of(0) + 1, nonce_of(1)}, late = wire;
        late.from_nonce = nonce_of(0);
        late.to_nonce = nonce_of(2);
        send_rubbish(1, tag, "x", 1, 0);
        send_rubbish(1, tag, "x", 1, 3);
        send_rubbish(1, tag, &wire, sizeof(wire), 1); /* the sender's nonce is wrong */
        send_rubbish(1, tag, &late, sizeof(late), 1); /* the receiver's is */
        wire.from = 77;
        send_rubbish(1, tag, &wire, sizeof(wire), 3); /* nobody of the node */
    }
    pretend_barrier(job);
    int mine = token(rank);
    uint32_t n = fill_peers(job->n, rank, tag, peers);
    pe_check(px_share_pass(share, mine, peers, n, 20, NULL) == PX_OK);
    for (uint32_t i = 0; i < n; i++)
        check_token(peers[i].fd, peers[i].rank);
    close(mine);
    px_share_close(share);
    pe_check(count_open() == before); /* also the rubbish's descriptors are gone */
}

static void strangers_are_ignored(void **state)
{
    assert_int_equal(pretend_run(2, stranger_job), 0);
}

static void lazy_job(struct pretend *job, uint32_t rank)
{
    struct px_share *share = open_share(rank);
    struct px_share_peer peers[PRETEND_MAX];
    struct px_error error = PX_ERROR_INIT;
    pretend_barrier(job);
    uint32_t n = fill_peers(job->n, rank, (uint32_t)getppid(), peers);
    if (rank != 1) { /* 1 has a socket and never takes part */
        int mine = token(rank);
        pe_check(px_share_pass(share, mine, peers, n, 1, &error) == PX_ERR_TIMEOUT);
        pe_check(strstr(error.text, "PE 1 "));
        for (uint32_t i = 0; i < n; i++)
            pe_check((peers[i].fd >= 0) == (peers[i].rank != 1)); /* the others are served */
        close(mine);
    }
    pretend_barrier(job);
    px_share_close(share);
}

static void who_does_not_come_is_named(void **state)
{
    assert_int_equal(pretend_run(3, lazy_job), 0);
}

static void absent_job(struct pretend *job, uint32_t rank)
{
    struct px_share *share = rank == 1 ? NULL : open_share(rank);
    struct px_share_peer peers[PRETEND_MAX];
    struct px_error error = PX_ERROR_INIT;
    pretend_barrier(job);
    uint32_t n = fill_peers(job->n, rank, (uint32_t)getppid(), peers);
    if (rank != 1) { /* 1 has no socket at all: known at once */
        int mine = token(rank);
        pe_check(px_share_pass(share, mine, peers, n, 100, &error) == PX_ERR_UNREACHABLE);
        pe_check(strstr(error.text, "PE 1 "));
        for (uint32_t i = 0; i < n; i++)
            pe_check((peers[i].fd >= 0) == (peers[i].rank != 1));
        close(mine);
    }
    pretend_barrier(job);
    px_share_close(share);
}

static void who_has_no_socket_is_given_up(void **state)
{
    assert_int_equal(pretend_run(3, absent_job), 0);
}

static void a_second_owner_of_the_name_is_refused(void **state)
{
    struct px_error error = PX_ERROR_INIT;
    struct px_share *first = open_share(0), *second = open_share(0);
    struct px_share_peer peer = {.rank = 1, .fd = -1};
    assert_int_equal(px_share_pass(second, 0, &peer, 1, 1, &error), PX_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "Address already in use"));
    px_share_close(first);
    px_share_close(second);
    px_share_close(NULL);
}

static void the_direct_way_takes_what_it_is_told(void **state)
{
    char why[PX_SHARE_WHY];
    struct px_error error = PX_ERROR_INIT;
    int fd = token(3), copy = -1;
    if (!px_share_direct_expected(why)) {
        print_message("skipped: %s\n", why);
        skip();
    }
    assert_int_equal(px_share_take((int)getpid(), fd, &copy, &error), PX_OK);
    check_token(copy, 3);
    close(fd);
    assert_int_equal(px_share_take((int)getpid(), 987, &copy, &error), PX_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "Bad file descriptor"));
    assert_int_equal(px_share_take(0x7ffffff, fd, &copy, &error), PX_ERR_UNREACHABLE);
    assert_non_null(strstr(error.text, "No such process"));
    assert_true(px_share_pid_namespace() != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_all),
        cmocka_unit_test(few_descriptors_are_enough),
        cmocka_unit_test(strangers_are_ignored),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(who_has_no_socket_is_given_up),
        cmocka_unit_test(a_second_owner_of_the_name_is_refused),
        cmocka_unit_test(the_direct_way_takes_what_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
