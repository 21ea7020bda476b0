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
#define CONTROL   ((uintptr_t)COLL_WORLD_HEAP - BASE) /* far more than any test's teams need */
#define SAID_SIZE 65536
#define PES_MAX   64

uint32_t world_pe, world_size;

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

static bool reach_of(void *arg, uint32_t pe, intptr_t *delta)
{
    *delta = reach[pe];
    return true;
}

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

static void open_remote(const struct px_env *env)
{
    const struct px_transport_setup setup = {
        .rank = world_pe,
        .size = world_size,
        .base = BASE,
        .span = CONTROL + COLL_WORLD_HEAP_BYTES,
        .control_bytes = CONTROL,
        .env = env,
        .map = reach_of,
    };
    unsigned char address[PX_TRANSPORT_ADDRESS_MAX];
    size_t length;
    struct px_error error = PX_ERROR_INIT;
    const struct px_transport_ops *ops = px_transport_by_name("shuffle");
    if (!px_peers.any_remote)
        return;
    if (ops->open(&setup, &px_peers.remote_self, address, &length, &error) != PX_OK)
        world_failed(__FILE__, __LINE__, error.text);
    px_peers.remote = ops;
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
    px_peers.delta = px_peers.control_delta = known;
    px_peers.my_pe = world_pe;
    px_peers.n_pes = world_size;
    px_peers.control = (void *)BASE;
    struct px_control *control = (struct px_control *)BASE;
    px_wait_policy.sleeping = &control->sleeping;
    px_wait_policy.spin_turns = sysconf(_SC_NPROCESSORS_ONLN) < (long)world_size ? 0 : 4000;

    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    if (px_env_read(&env, &error) != PX_OK)
        world_failed(__FILE__, __LINE__, error.text);
    env.disable_p2p = world->disable_p2p;
    env.shuffle_seed = (long)world->seed;
    open_remote(&env);
    const struct px_coll_setup setup = {
        .my_pe = world_pe,
        .n_pes = world_size,
        .node_of = nodes,
        .gpu_of = world->gpu_of,
        .base = BASE,
        .max_teams = world->max_teams ? world->max_teams : 64,
        .env = &env,
    };
    alarm(world->seconds ? world->seconds : 120);
    if (px_coll_open(&setup, &error) != PX_OK)
        world_failed(__FILE__, __LINE__, error.text);
    body(arg);
    px_coll_close();
    if (px_peers.any_remote)
        px_peers.remote->close(px_peers.remote_self);
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
