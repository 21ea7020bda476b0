/* SPDX-License-Identifier: BSD-3-Clause */
/* Setup and exit: init and finalise are counted, each init needs its finalise. The first brings the library up, the last
 * takes it down; both are collective. See world.c for what that means. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/coll/coll.h"
#include "src/diag/log.h"
#include "src/transport/move.h"

static int code_of(px_status status)
{
    switch (status) {
    case PX_OK:
        return NVSHMEMX_SUCCESS;
    case PX_ERR_INVALID:
        return NVSHMEMX_ERROR_INVALID_VALUE;
    case PX_ERR_NO_MEMORY:
        return NVSHMEMX_ERROR_OUT_OF_MEMORY;
    case PX_ERR_UNSUPPORTED:
        return NVSHMEMX_ERROR_NOT_SUPPORTED;
    default:
        return NVSHMEMX_ERROR_INTERNAL;
    }
}

#define EXIT_MEETING_S 15

static pid_t owner; /* a child that the program forked is no PE */

/* A program that leaves without nvshmem_finalize. When all PEs do, they meet here outside the heap, so that nothing under
 * way is cut off and no network is closed under another PE; one that leaves alone goes after this limit, and its peers
 * are told that this was no crash. One that reports a failure just goes: its peers end as when it had crashed. */
static void at_exit(int exit_status, void *unused)
{
    struct px_error error = PX_ERROR_INIT;
    (void)unused;
    if (px_world.life != PX_LIFE_UP || getpid() != owner || exit_status != 0)
        return;
    px_warn_once_per_node("exit without nvshmem_finalize: other PEs may still wait for this one");
    if (px_peers.any_remote)
        px_quiet();
    atomic_store(&px_world.control->state, PX_PE_GONE);
    px_boot_limit(px_world.boot, EXIT_MEETING_S);
    if (px_boot_barrier(px_world.boot, &error) == PX_OK)
        px_world_stop();
    else
        px_info(PX_SUB_INIT, "leaving alone: %s", error.text);
    px_gate = PX_GATE_DOWN;
    px_world.life = PX_LIFE_FINALIZED;
}

int px_start_failed(const char *call, const struct px_error *error)
{
    px_warn_once_per_node("%s: %s", call, error->text);
    px_world_note_error(code_of(error->status), "%s: %s", call, error->text);
    return code_of(error->status);
}

static int start(const struct px_start *how, const char *call, bool fatal)
{
    static bool hooked;
    struct px_error error = PX_ERROR_INIT;
    owner = getpid();
    px_status status = px_world_start(how, &error);
    if (status == PX_OK) {
        if (!hooked)
            hooked = on_exit(at_exit, NULL) == 0;
        return NVSHMEMX_SUCCESS;
    }
    if (fatal && px_world.said_elsewhere)
        px_fatal_said_elsewhere(1, "%s: %s", call, error.text);
    if (fatal)
        px_fatal(1, "%s: %s", call, error.text);
    if (!px_world.said_elsewhere)
        return px_start_failed(call, &error);
    px_world_note_error(code_of(status), "%s: %s", call, error.text);
    return code_of(status);
}

/* The library is up: an init more is counted, unless it names other PEs. */
static int nest(const struct px_start *how, const char *call)
{
    struct px_error error = PX_ERROR_INIT;
    if (!how->nested || how->nested(how->arg, &error) == PX_OK)
        return NVSHMEMX_SUCCESS;
    return px_start_failed(call, &error);
}

static int init(const struct px_start *how, const char *call, bool fatal)
{
    int code = NVSHMEMX_SUCCESS;
    pthread_mutex_lock(&px_world.setup_lock);
    if (px_world.life != PX_LIFE_UP)
        code = start(how, call, fatal);
    else
        code = nest(how, call);
    if (code == NVSHMEMX_SUCCESS)
        px_world.inits++;
    pthread_mutex_unlock(&px_world.setup_lock);
    return code;
}

void px_api_init(void)
{
    (void)init(&(struct px_start){.members = NULL}, "nvshmem_init", true);
}

int px_api_init_thread(int requested, int *provided)
{
    if (requested < NVSHMEM_THREAD_SINGLE || requested > NVSHMEM_THREAD_MULTIPLE) {
        px_warn("nvshmem_init_thread: requested is %d, it must be one of NVSHMEM_THREAD_SINGLE to "
                "NVSHMEM_THREAD_MULTIPLE",
                requested);
        px_world_note_error(NVSHMEMX_ERROR_INVALID_VALUE, "nvshmem_init_thread: requested is %d",
                            requested);
        return NVSHMEMX_ERROR_INVALID_VALUE;
    }
    int code = init(&(struct px_start){.members = NULL}, "nvshmem_init_thread", false);
    if (code == NVSHMEMX_SUCCESS && provided)
        *provided = NVSHMEM_THREAD_MULTIPLE; /* every call may come from any thread */
    return code;
}

int px_start_with(const struct px_start *how, const char *call)
{
    return init(how, call, false);
}

void px_api_query_thread(int *provided)
{
    *provided = NVSHMEM_THREAD_MULTIPLE;
}

void px_api_query_initialized(int *initialized)
{
    *initialized = px_world.life == PX_LIFE_UP;
}

int px_api_init_status(void)
{
    return px_world.life == PX_LIFE_UP ? NVSHMEM_STATUS_IS_INITIALIZED
                                       : NVSHMEM_STATUS_NOT_INITIALIZED;
}

/* The last message of a PE to another node may need the other's help to arrive: with a network, all meet once more
 * outside of it before it is closed. */
static void meet_outside(void)
{
    struct px_error error = PX_ERROR_INIT;
    if (!px_peers.any_remote)
        return;
    px_quiet();
    if (px_boot_barrier(px_world.boot, &error) != PX_OK)
        px_fatal(1, "nvshmem_finalize: %s", error.text);
}

void px_api_finalize(void)
{
    pthread_mutex_lock(&px_world.setup_lock);
    if (px_world.life != PX_LIFE_UP) {
        pthread_mutex_unlock(&px_world.setup_lock);
        px_warn("nvshmem_finalize: called without nvshmem_init, or more often than it: ignored");
        return;
    }
    const struct px_call call = {.name = "nvshmem_finalize", .arguments = {px_world.inits}};
    px_barrier(px_team_world(), &call);
    if (--px_world.inits == 0) {
        atomic_store(&px_world.control->state, PX_PE_FINALIZING);
        meet_outside();
        px_world_stop();
    }
    pthread_mutex_unlock(&px_world.setup_lock);
}

void px_api_hostlib_finalize(void)
{
    px_api_finalize();
}

void px_api_global_exit(int status)
{
    if (px_world.life == PX_LIFE_UP)
        atomic_store(&px_world.control->state, PX_PE_GONE);
    if (px_world.boot)
        px_boot_abort(px_world.boot, status, "nvshmem_global_exit");
    _exit(status);
}

int px_api_error_check(void)
{
    return px_world.first_error;
}

const char *px_api_error_string(int status)
{
    static const char *const words[] = {
        "success",
        "invalid value",
        "out of memory",
        "not supported",
        "not symmetric",
        "no GPU was selected",
        "collective launch failed",
        "internal error",
    };
    if (status != NVSHMEMX_SUCCESS && status == px_world.first_error)
        return px_world.first_error_text;
    return status >= 0 && status < (int)(sizeof(words) / sizeof(words[0])) ? words[status]
                                                                           : "unknown status";
}
