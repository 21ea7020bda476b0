/* SPDX-License-Identifier: BSD-3-Clause */
/* Bringing the library up and down in one process, layer by layer, in this order: settings, bootstrap,
 * memory, meeting the others, teams. What fails is undone in reverse and leaves nothing behind. */
#include "config.h"
#include "src/api/world.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/api/gpumem.h"
#include "src/coll/coll.h"
#include "src/device/device.h"
#include "src/diag/log.h"
#include "src/transport/move.h"
#include "src/transport/wait.h"

#define NS_PER_S 1000000000ull

unsigned px_gate = PX_GATE_DOWN;
struct px_world px_world = {.setup_lock = PTHREAD_MUTEX_INITIALIZER,
                            .books = PTHREAD_RWLOCK_INITIALIZER};

static const char *boot_backend(const struct px_env *env)
{
    const char *asked = env->bootstrap;
    if (strcmp(asked, "PMI") == 0)
        asked = env->bootstrap_pmi;
    if (strcmp(asked, "PMIX") == 0)
        return "pmix";
    if (strcmp(asked, "PMI-2") == 0)
        return "pmi2";
    return strcmp(asked, "alone") == 0 ? "alone" : "auto";
}

/* NVSHMEM_SYMMETRIC_SIZE wins over NVSHMEM_SYMMETRIC_SIZE_MB; both together deserve a word. */
static size_t heap_size(const struct px_env *env)
{
    bool bytes_given = px_env_is_set("NVSHMEM_SYMMETRIC_SIZE");
    return env->symmetric_size_mb && !bytes_given ? env->symmetric_size_mb << 20
                                                  : env->symmetric_size;
}

static void review_sizes(const struct px_env *env)
{
    if (env->symmetric_size_mb && px_env_is_set("NVSHMEM_SYMMETRIC_SIZE"))
        px_warn_once_per_node(
            "NVSHMEM_SYMMETRIC_SIZE and NVSHMEM_SYMMETRIC_SIZE_MB are both set: the first one is "
            "used, %llu bytes",
            (unsigned long long)env->symmetric_size);
}

static void say_setting(const char *line)
{
    px_warn_once_per_node("%s", line);
}

static px_status read_settings(struct px_error *error)
{
    struct px_env *env = &px_world.env;
    px_status status = px_env_read(env, error);
    if (status != PX_OK)
        return status;
    const char *level = strcmp(env->debug, "NONE") == 0 ? "" : env->debug;
    if (!px_log_configure(level, env->debug_subsys, env->debug_file))
        return px_error_set(
            error, PX_ERR_INVALID,
            "NVSHMEM_DEBUG_SUBSYS \"%s\" has an unknown name, or the file of NVSHMEM_DEBUG_FILE "
            "\"%s\" cannot be opened",
            env->debug_subsys, env->debug_file);
    if (px_env_review(say_setting) && env->strict_env)
        return px_error_set(error, PX_ERR_INVALID,
                            "an unknown NVSHMEM_ variable is set and NVSHMEM_STRICT_ENV is on");
    review_sizes(env);
    if (env->debug_attach_delay)
        sleep(env->debug_attach_delay);
    return PX_OK;
}

static void abort_job(int exit_status, const char *message)
{
    px_boot_abort(px_world.boot, exit_status, message);
}

/* Programs' memory starts on a large page. */
static size_t control_bytes(uint32_t max_teams, uint32_t n_pes)
{
    size_t bytes = PX_CONTROL_BYTES + px_coll_control_bytes(max_teams, n_pes);
    if (px_on_gpu)
        bytes += px_gpumem_host_bytes();
    return (bytes + PX_HEAP_UNIT - 1) / PX_HEAP_UNIT * PX_HEAP_UNIT;
}

px_status px_world_create_heap(struct px_error *error)
{
    const struct px_env *env = &px_world.env;
    const struct px_boot_facts *facts = px_world.facts;
    px_status status = px_on_gpu ? px_gpumem_open(error) : PX_OK;
    if (status != PX_OK)
        return status;
    uint64_t limit = env->max_memory_per_pe ? env->max_memory_per_pe : env->max_memory_per_gpu;
    struct px_heap_options options = {
        .size = heap_size(env),
        .max_size = limit,
        .control_bytes = control_bytes((uint32_t)env->max_teams, facts->size),
        .rank = facts->rank,
        .local_size = facts->local_size,
        .job = facts->job,
        .huge = env->huge_pages,
        .numa_node = PX_HEAP_NUMA_AUTO,
        .timeout_s = env->bootstrap_timeout,
    };
    if (limit && options.size > limit)
        return px_error_set(error, PX_ERR_INVALID,
                            "NVSHMEM_SYMMETRIC_SIZE (%zu bytes) is larger than "
                            "NVSHMEM_MAX_MEMORY_PER_PE (%llu bytes)",
                            options.size, (unsigned long long)limit);
    if (px_on_gpu && (status = px_gpumem_create(options.size, error)) == PX_OK)
        px_gpumem_heap_options(&options);
    if (status == PX_OK)
        status = px_heap_create(&options, &px_world.heap, error);
    if (status != PX_OK)
        return status;
    struct px_control *control = px_heap_control(px_world.heap);
    control->magic = PX_CONTROL_MAGIC;
    control->version = PX_CONTROL_VERSION;
    control->size = sizeof(*control);
    control->pe = facts->rank;
    control->nonce = px_heap_nonce(px_world.heap);
    atomic_store(&control->state, PX_PE_STARTING);
    return PX_OK;
}

static uint32_t allowed_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    return (uint32_t)CPU_COUNT(&set);
}

/* Spin only while every PE of the node has a processor of its own. A PE bound to part of the node's processors has at
 * least one of them; an unbound one shares all of them with the other PEs. */
static void set_wait_policy(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cpus = allowed_cpus(), local = px_world.facts->local_size;
    bool bound = online > 0 && cpus < (uint32_t)online;
    bool crowded = bound ? (uint64_t)local > (uint64_t)online : local > cpus;
    px_wait_policy.spin_turns = crowded ? 0 : 4000;
    px_wait_policy.hang_ns = px_world.env.hang_timeout * NS_PER_S;
    px_wait_policy.sleeping = &px_world.control->sleeping;
    px_wait_policy.report = px_hang_report;
}

static px_status open_teams(struct px_error *error)
{
    struct px_coll_setup setup = {
        .my_pe = px_world.facts->rank,
        .n_pes = px_world.facts->size,
        .node_of = px_world.facts->node_of,
        .base = px_world.memory.base,
        .max_teams = (uint32_t)px_world.env.max_teams,
        .env = &px_world.env,
    };
    uint32_t *gpu_of = malloc(setup.n_pes * sizeof(*gpu_of));
    if (!gpu_of)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", setup.n_pes);
    px_startup_gpus(gpu_of);
    setup.gpu_of = gpu_of;
    if (px_on_gpu)
        setup.stages = px_gpumem_stages();
    px_status status = px_coll_open(&setup, error);
    free(gpu_of);
    return status;
}

/* A process of this node ended: in order when it had said so in its control area. */
static void on_failure(void *arg, uint32_t rank, const char *what)
{
    if (px_world.life != PX_LIFE_UP)
        return; /* failures while starting show in the meetings, those while stopping are no loss */
    if (rank < px_world.facts->size && px_heap_delta(px_world.heap, rank) != PX_HEAP_NOT_MAPPED) {
        const struct px_control *control =
            (const void *)(px_world.memory.base + (uintptr_t)px_heap_delta(px_world.heap, rank));
        if (atomic_load(&control->state) >= PX_PE_FINALIZING)
            return;
    }
    char name[128] = "a PE";
    if (rank < px_world.facts->size)
        px_world_pe_name(rank, name, sizeof(name));
    px_fatal(1, "%s died (%s): the job ends", name, what);
}

static px_status watch_peers(struct px_error *error)
{
    const struct px_boot_facts *facts = px_world.facts;
    uint32_t *ranks = calloc(facts->local_size, sizeof(*ranks));
    int *pids = calloc(facts->local_size, sizeof(*pids));
    size_t count = 0;
    px_status status = PX_OK;
    px_boot_on_failure(px_world.boot, on_failure, NULL);
    if (!ranks || !pids)
        status =
            px_error_set(error, PX_ERR_NO_MEMORY, "no memory to watch %u peers", facts->local_size);
    for (uint32_t i = 0; status == PX_OK && i < facts->local_size; i++) {
        uint32_t pe = facts->local_ranks[i];
        if (pe == facts->rank || !px_world.pids[pe])
            continue;
        ranks[count] = pe;
        pids[count++] = (int)px_world.pids[pe];
    }
    if (count)
        status = px_boot_watch(px_world.boot, ranks, pids, count, error);
    free(pids);
    free(ranks);
    return status;
}

static void say_hello(void)
{
    const struct px_boot_facts *facts = px_world.facts;
    bool version = px_world.env.version || strcmp(px_world.env.debug, "NONE") != 0;
    if (facts->rank == 0 && version)
        px_log_line("pxshmem %s, %s%s%s", PACKAGE_VERSION, facts->client_version,
                    facts->server_version[0] ? ", server " : "", facts->server_version);
    for (size_t i = 0; facts->rank == 0 && px_world.env.info && i < px_env_row_count; i++) {
        char value[256];
        if (px_env_rows[i].type != PX_ENV_FOREIGN)
            px_log_line("%s=%s (%s)", px_env_rows[i].name,
                        px_env_format(&px_world.env, &px_env_rows[i], value, sizeof(value)),
                        px_env_origin(&px_env_rows[i]));
    }
    char gpu[160];
    px_info(PX_SUB_INIT,
            "up: %u PEs on %u nodes by %s, heap %zu bytes at %p (%zu on this node), %s, remote "
            "transport %s",
            facts->size, facts->nodes, facts->backend, px_world.memory.size,
            (void *)px_world.memory.data, px_world.memory.size * facts->local_size,
            px_on_gpu ? px_gpumem_words(gpu, sizeof(gpu)) : px_world.memory.pages, px_peers.any_remote ? px_peers.remote->name : "not needed");
}

static px_status allocate_tables(struct px_error *error)
{
    uint32_t size = px_world.facts->size;
    px_world.pids = calloc(size, sizeof(*px_world.pids));
    px_peers = (struct px_peers){
        .my_pe = px_world.facts->rank,
        .n_pes = size,
        .delta = calloc(size, sizeof(*px_peers.delta)),
    };
    px_peers.control_delta = px_peers.delta;
    if (!px_world.pids || !px_peers.delta)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for tables of %u PEs", size);
    return PX_OK;
}

static void drop_tables(void)
{
    free(px_peers.delta);
    free(px_world.pids);
    px_world.pids = NULL;
    px_peers = (struct px_peers){0};
}

static void drop_heap(void)
{
    px_wait_policy.sleeping = NULL;
    px_world.control = px_peers.control = NULL;
    px_heap_destroy(px_world.heap);
    px_world.heap = NULL;
    if (px_on_gpu)
        px_gpumem_close();
    px_place_forget();
}

static void close_boot(void)
{
    px_boot_close(px_world.boot);
    px_world.boot = NULL;
    px_world.facts = NULL;
}

/* Without `members` the PEs are the launcher's processes. */
static px_status join(const struct px_start *start, const struct px_boot_options *options, struct px_error *error)
{
    struct px_members members = {.ranks = NULL};
    px_status status = px_boot_open(options, &px_world.boot, error);
    if (start->members)
        status = start->members(start->arg, px_world.boot, &members, error);
    if (status == PX_OK && start->members)
        status = px_boot_select(px_world.boot, members.ranks, members.count, members.tag, error);
    free(members.ranks);
    px_world.token = members.token;
    if (status != PX_OK) {
        close_boot();
        return status;
    }
    px_world.facts = px_boot_facts(px_world.boot);
    px_log_identify((int)px_world.facts->rank, (int)px_world.facts->size);
    return PX_OK;
}

px_status px_world_start(const struct px_start *start, struct px_error *error)
{
    struct px_error mine = PX_ERROR_INIT;
    px_world.said_elsewhere = false;
    px_status status = read_settings(&mine);
    struct px_boot_options boot = {
        .backend = status == PX_OK ? boot_backend(&px_world.env) : "auto",
        .timeout_s = px_world.env.bootstrap_timeout,
        .allow_alone = px_world.env.allow_singleton,
    };
    px_log_on_fatal(abort_job);
    if (join(start, &boot, error) != PX_OK)
        goto undo_settings;
    if (allocate_tables(error) != PX_OK)
        goto undo_tables;
    if (status == PX_OK)
        status = px_device_check(&mine);
    if (status == PX_OK)
        status = px_gpumem_choose(&mine);
    if (status == PX_OK && !px_place_undecided())
        (void)px_world_create_heap(&mine); /* told to the others when it failed */
    if (px_startup_meet(heap_size(&px_world.env), &mine, error) != PX_OK)
        goto undo_heap;
    px_world.control = px_peers.control = (struct px_control *)px_world.memory.base;
    set_wait_policy();
    if (open_teams(error) != PX_OK)
        goto undo_meeting;
    if (px_on_gpu && px_gpumem_connect(error) != PX_OK)
        goto undo_teams;
    if (watch_peers(error) != PX_OK)
        goto undo_teams;
    atomic_store(&px_world.control->state, PX_PE_READY);
    px_gate = px_world.env.check || px_world.env.enable_error_checks ? PX_GATE_CHECK : 0;
    px_world.life = PX_LIFE_UP;
    say_hello();
    return PX_OK;

undo_teams:
    if (px_on_gpu)
        px_gpumem_disconnect();
    px_coll_close();
undo_meeting:
    px_startup_forget();
undo_heap:
    drop_heap();
undo_tables:
    drop_tables();
    close_boot();
undo_settings:
    px_env_free(&px_world.env);
    px_world.life = PX_LIFE_FAILED;
    px_world.failure = *error;
    return error->status;
}

void px_world_stop(void)
{
    px_gate = PX_GATE_DOWN;
    px_world.life = PX_LIFE_FINALIZED;
    if (px_on_gpu)
        px_gpumem_disconnect();
    px_coll_close();
    px_startup_forget();
    close_boot(); /* ends the thread that watches peers and reads their control areas */
    drop_heap();
    drop_tables();
    px_env_free(&px_world.env);
}

void px_world_note_error(int code, const char *format, ...)
{
    if (px_world.first_error)
        return;
    px_world.first_error = code;
    va_list args;
    va_start(args, format);
    vsnprintf(px_world.first_error_text, sizeof(px_world.first_error_text), format, args);
    va_end(args);
}

const char *px_world_pe_name(uint32_t pe, char *text, size_t size)
{
    snprintf(text, size, "PE %u (%s)", pe,
             px_boot_host(px_world.boot, px_world.facts->node_of[pe]));
    return text;
}
