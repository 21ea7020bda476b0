/* SPDX-License-Identifier: BSD-3-Clause */
/* See coll_world.h. Windows are memfds made before the fork. */
#include "config.h"
#include "test/unit/coll_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/coll/coll.h"
#include "src/diag/log.h"
#include "src/env/env.h"
#include "src/transport/control.h"
#include "src/transport/move.h"
#include "src/transport/wait.h"

#define BASE      0x500000000000u
#define CONTROL   ((uintptr_t)COLL_WORLD_HEAP - BASE)
#define SAID_SIZE 65536
#define PES_MAX   64

uint32_t world_pe, world_size;

struct px_peers px_peers;

static struct said {
    _Atomic size_t used;
    char text[SAID_SIZE];
} * said;

static intptr_t reach[PES_MAX]; /* of all peers, mapped for the library or not */
static intptr_t known[PES_MAX];

static void say(const char *line, size_t length)
{
    size_t at = atomic_fetch_add(&said->used, length);
    if (at + length < SAID_SIZE)
        memcpy(said->text + at, line, length);
}

const char *coll_world_said(void)
{
    return said ? said->text : "";
}

void world_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "# PE %u of %u: %s:%d: %s\n", world_pe, world_size, file, line, what);
    _exit(1);
}

static void *at(uint32_t pe, const void *symmetric)
{
    return (void *)((uintptr_t)symmetric + (uintptr_t)reach[pe]);
}

static void remote_put(void *self, uint32_t pe, void *dest, const void *source, size_t bytes)
{
    px_copy(at(pe, dest), source, bytes);
}

static void remote_get(void *self, uint32_t pe, void *dest, const void *source, size_t bytes)
{
    px_copy(dest, at(pe, source), bytes);
}

static void remote_put_signal(void *self, uint32_t pe, void *dest, const void *source, size_t bytes,
                              uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi)
{
    if (bytes)
        px_copy(at(pe, dest), source, bytes);
    world_check(op == PX_AMO_SET);
    atomic_store_explicit((_Atomic uint64_t *)at(pe, signal), value, memory_order_release);
    px_wait_wake(&((struct px_control *)at(pe, (void *)BASE))->sleeping);
}

static uint64_t remote_amo(void *self, uint32_t pe, void *word, const struct px_amo *amo)
{
    _Atomic uint64_t *there = at(pe, word);
    uint64_t old = amo->compare;
    switch (amo->op) {
    case PX_AMO_COMPARE_SWAP:
        atomic_compare_exchange_strong(there, &old, amo->operand);
        return old;
    case PX_AMO_ADD:
        return atomic_fetch_add(there, amo->operand);
    case PX_AMO_SET:
        atomic_store(there, amo->operand);
        return 0;
    case PX_AMO_FETCH:
        return atomic_load(there);
    default:
        world_failed(__FILE__, __LINE__, "an atomic that the world does not have");
    }
}

static void remote_nothing(void *self)
{
}

static const struct px_transport_ops remote_ops = {
    .name = "world",
    .put = remote_put,
    .put_nbi = remote_put,
    .get = remote_get,
    .get_nbi = remote_get,
    .amo = remote_amo,
    .put_signal = remote_put_signal,
    .fence = remote_nothing,
    .quiet = remote_nothing,
    .progress = remote_nothing,
};

static uint32_t node_of(const struct coll_world *world, uint32_t pe)
{
    return world->node_of ? world->node_of[pe] : 0;
}

static void map_window(const struct coll_world *world, int fd, uint32_t pe, size_t bytes)
{
    void *wanted = pe == world_pe ? (void *)BASE : NULL;
    void *got = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | (wanted ? MAP_FIXED_NOREPLACE : 0), fd, 0);
    if (got == MAP_FAILED || (wanted && got != wanted))
        world_failed(__FILE__, __LINE__, "mapping a window");
    reach[pe] = (intptr_t)got - (intptr_t)BASE;
    bool mapped =
        pe == world_pe || (node_of(world, pe) == node_of(world, world_pe) && !world->disable_p2p);
    known[pe] = mapped ? reach[pe] : PX_NOT_MAPPED;
    px_peers.any_remote |= !mapped;
}

static _Noreturn void be_pe(const struct coll_world *world, const int *fds, size_t bytes,
                            coll_body_fn *body, void *arg)
{
    static uint32_t nodes[PES_MAX];
    px_log_identify((int)world_pe, (int)world_size);
    px_log_to(say);
    for (uint32_t pe = 0; pe < world->n_pes; pe++) {
        map_window(world, fds[pe], pe, bytes);
        nodes[pe] = node_of(world, pe);
    }
    px_peers.delta = known;
    px_peers.my_pe = world_pe;
    px_peers.n_pes = world_size;
    px_peers.remote = &remote_ops;
    struct px_control *control = (struct px_control *)BASE;
    px_wait_policy.sleeping = &control->sleeping;
    px_wait_policy.spin_turns = sysconf(_SC_NPROCESSORS_ONLN) < (long)world_size ? 0 : 4000;

    struct px_env env = {.disable_p2p = world->disable_p2p};
    struct px_error error = PX_ERROR_INIT;
    const struct px_coll_setup setup = {
        .my_pe = world_pe,
        .n_pes = world_size,
        .node_of = nodes,
        .base = BASE,
        .max_teams = world->max_teams ? world->max_teams : 64,
        .env = &env,
    };
    alarm(world->seconds ? world->seconds : 120);
    if (px_coll_open(&setup, &error) != PX_OK)
        world_failed(__FILE__, __LINE__, error.text);
    body(arg);
    px_coll_close();
    exit(0);
}

int coll_world_run(const struct coll_world *world, coll_body_fn *body, void *arg)
{
    size_t bytes = CONTROL + COLL_WORLD_HEAP_BYTES;
    int fds[PES_MAX], failed = 0;
    pid_t pids[PES_MAX];
    if (!said)
        said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(said, 0, sizeof(*said));
    for (uint32_t pe = 0; pe < world->n_pes; pe++) {
        fds[pe] = memfd_create("coll_world", MFD_CLOEXEC);
        if (fds[pe] < 0 || ftruncate(fds[pe], (off_t)bytes) != 0)
            return -1;
    }
    fflush(NULL);
    world_size = world->n_pes;
    for (uint32_t pe = 0; pe < world->n_pes; pe++) {
        world_pe = pe;
        pids[pe] = fork();
        if (pids[pe] == 0)
            be_pe(world, fds, bytes, body, arg);
    }
    for (uint32_t pe = 0; pe < world->n_pes; pe++) {
        int status = -1;
        waitpid(pids[pe], &status, 0);
        failed += status != 0;
        close(fds[pe]);
    }
    return failed;
}
