/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap's common part: chooses the backend, seals and checks every record, numbers rounds
 * and meetings, and turns a meeting that does not happen into the list of who is missing. Nothing
 * from another PE is used before record.c has checked it. */
#include "config.h"
#include "pmix/private.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "pmix/choose.h"
#include "pmix/names.h"
#include "pmix/record.h"
#include "src/diag/log.h"

static const struct px_backend *const backends[] = {
    [PX_BACKEND_PMIX] = &px_backend_pmix,

#if PX_HAVE_PMI2
    [PX_BACKEND_PMI2] = &px_backend_pmi2,
#endif

    [PX_BACKEND_ALONE] = &px_backend_alone,
};

/* Rounds of the whole job are counted, from the first thing that is published or met for; all PEs have as many. */
static _Atomic uint32_t rounds;

static const struct px_backend *_Atomic last_joined;

/* Every bootstrap error names backend and versions: a mismatch is the cause more often than the
 * text suggests. */
static px_status explain(const struct px_boot *boot, const char *doing, struct px_error *error)
{
    return px_error_context(error, "%s over %s (client %s%s%s)", doing, boot->backend->name,
                            boot->facts.client_version ? boot->facts.client_version : "unknown",
                            *boot->server_version ? ", server " : "", boot->server_version);
}

/* A name on the node that says "this PE has come so far"; without it only the failure report is poorer. */
static int announce(const struct px_boot *boot, const char *purpose)
{
    struct sockaddr_un name;
    socklen_t length = px_socket_name(&name, boot->job, boot->launcher.rank, purpose);
    int fd = boot->launcher.size > 1 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, length) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void drop_name(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The name of a meeting stays until the next one: who has left it has come to it. */
static void announce_meeting(struct px_boot *boot)
{
    char purpose[PX_PURPOSE_MAX];
    px_meeting_purpose(purpose, boot->epoch, ++boot->meetings);
    drop_name(&boot->at_meeting);
    boot->at_meeting = announce(boot, purpose);
}

static void release(struct px_boot *boot)
{
    drop_name(&boot->presence);
    drop_name(&boot->at_meeting);
    px_group_release(boot);
    for (uint32_t i = 0; boot->hosts && i < boot->facts.nodes; i++)
        free(boot->hosts[i]);
    free(boot->hosts);
    free(boot->job);
    free(boot->published);
    free(boot->seen);
    free((void *)boot->facts.node_of);
    free((void *)boot->facts.local_ranks);
    pthread_mutex_destroy(&boot->lock);
    free(boot);
}

static struct px_boot *create(const struct px_boot_options *options, enum px_backend_kind kind)
{
    struct px_boot *boot = calloc(1, sizeof(*boot));
    if (!boot)
        return NULL;
    pthread_mutex_init(&boot->lock, NULL);
    boot->backend = backends[kind];
    boot->timeout_s = options->timeout_s;
    boot->presence = boot->at_meeting = -1;
    boot->facts.backend = boot->backend->name;
    boot->facts.server_version = boot->server_version;
    if (getrandom(&boot->salt, sizeof(boot->salt), GRND_NONBLOCK) != sizeof(boot->salt))
        boot->salt = (uint32_t)getpid();
    boot->run = 1;
    return boot;
}

px_status px_boot_open(const struct px_boot_options *options, struct px_boot **out,
                       struct px_error *error)
{
    struct px_launch_hints hints;
    enum px_backend_kind kind;
    px_launch_hints_read(&hints);
    px_status status = px_backend_choose(options->backend ? options->backend : "",
                                         options->allow_alone, &hints, &kind, error);
    if (status != PX_OK)
        return status;
    if (!backends[kind])
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "the launcher offers PMI-2, which this build does not speak: start the "
                            "program with srun --mpi=pmix");
    struct px_boot *boot = create(options, kind);
    if (!boot)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the bootstrap");
    status = boot->backend->open(boot, error);
    if (status != PX_OK) {
        explain(boot, "joining the job", error);
        release(boot);
        return status;
    }
    atomic_store(&last_joined, boot->backend);
    boot->seen = calloc(boot->facts.size, sizeof(*boot->seen));
    if (!boot->seen) {
        status = px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", boot->facts.size);
        boot->backend->close(boot);
        release(boot);
        return status;
    }
    boot->facts.job = boot->job;
    boot->launcher = boot->facts;
    boot->presence = announce(boot, "here");
    px_info(PX_SUB_BOOTSTRAP,
            "job %s over %s (client %s, server %s), node %u of %u, local %u of %u", boot->job,
            boot->backend->name, boot->facts.client_version, boot->server_version, boot->facts.node,
            boot->facts.nodes, boot->facts.local_rank, boot->facts.local_size);
    *out = boot;
    return PX_OK;
}

const struct px_boot_facts *px_boot_facts(const struct px_boot *boot)
{
    return &boot->facts;
}

const char *px_boot_host(const struct px_boot *boot, uint32_t node)
{
    static _Thread_local char unnamed[24];
    char **hosts = boot->members ? boot->group_hosts : boot->hosts;
    if (node < boot->facts.nodes && hosts && hosts[node])
        return hosts[node];
    snprintf(unnamed, sizeof(unnamed), "node %u", node);
    return unnamed;
}

static void begin_round(struct px_boot *boot)
{
    if (!boot->epoch)
        boot->epoch = atomic_fetch_add(&rounds, 1) + 1;
}

static px_status wire_key(const struct px_boot *boot, const char *key, char wire[PX_BOOT_KEY_MAX],
                          struct px_error *error)
{
    int length = snprintf(wire, PX_BOOT_KEY_MAX, "px%u.%u.%s", boot->run, boot->epoch, key);
    if (length >= PX_BOOT_KEY_MAX)
        return px_error_set(error, PX_ERR_INVALID, "the key \"%s\" is too long to publish", key);
    return PX_OK;
}

/* Launchers differ in what they do with a key that is put twice, so nobody may. */
static px_status claim(struct px_boot *boot, const char *wire, struct px_error *error)
{
    for (size_t i = 0; i < boot->n_published; i++)
        if (strcmp(boot->published[i], wire) == 0)
            return px_error_set(error, PX_ERR_INVALID, "the key was published before");
    void *more = realloc(boot->published, (boot->n_published + 1) * sizeof(*boot->published));
    if (!more)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for one more key");
    boot->published = more;
    memcpy(boot->published[boot->n_published++], wire, PX_BOOT_KEY_MAX);
    return PX_OK;
}

/* Launchers may hand out records of an earlier program of the same step, which nothing in the record itself betrays. So
 * each record carries a digest of what its writer saw in the exchange before: PEs that saw different records notice it
 * in the next exchange. 0 when not everything was looked at. */
static uint32_t view_of_last_exchange(const struct px_boot *boot)
{
    uint32_t view = 0;
    for (uint32_t pe = 0; pe < boot->facts.size; pe++) {
        if (!boot->seen[pe])
            return 0;
        view = px_record_view_add(view, pe, boot->seen[pe]);
    }
    return view;
}

static void remember(struct px_boot *boot, uint32_t rank, const char *wire,
                     const struct px_record *record)
{
    if (strcmp(wire, boot->seen_key) == 0)
        boot->seen[rank] = record->checksum ? record->checksum : 1;
}

static void begin_next_exchange(struct px_boot *boot)
{
    boot->exchanges++;
    boot->view = view_of_last_exchange(boot);
    memcpy(boot->seen_key, boot->mark, sizeof(boot->seen_key));
    memset(boot->seen, 0, boot->facts.size * sizeof(*boot->seen));
}

static px_status compare_views(const struct px_boot *boot, uint32_t rank,
                               const struct px_record *record, struct px_error *error)
{
    if (record->sequence != (boot->exchanges & 0xffff) || !record->view || !boot->view ||
        record->view == boot->view)
        return PX_OK;
    return px_error_set(
        error, PX_ERR_PROTOCOL,
        "PE %u was given other records than this PE in the exchange before, some of "
        "them of an earlier program: run one program per job step (srun)",
        rank);
}

static px_status seal_and_put(struct px_boot *boot, const char *key, const char *wire,
                              const void *data, size_t length, struct px_error *error)
{
    uint8_t *record = malloc(PX_RECORD_HEADER + length);
    if (!record)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %zu bytes", length);
    struct px_record_label label = {.rank = boot->facts.rank,
                                    .epoch = boot->epoch,
                                    .sequence = boot->exchanges + 1,
                                    .key = key,
                                    .salt = boot->salt,
                                    .view = view_of_last_exchange(boot)};
    size_t size = px_record_seal(&label, data, length, record);
    px_status status = boot->backend->put(boot, wire, record, size, error);
    if (status == PX_OK && wire != boot->mark)
        memcpy(boot->mark, wire, PX_BOOT_KEY_MAX);
    free(record);
    return status;
}

px_status px_boot_publish(struct px_boot *boot, const char *key, const void *data, size_t length,
                          struct px_error *error)
{
    char wire[PX_BOOT_KEY_MAX] = "";
    px_status status = PX_OK;
    begin_round(boot);
    if (length > PX_RECORD_DATA_MAX)
        status = px_error_set(error, PX_ERR_INVALID,
                              "%zu bytes are too many for the launcher, "
                              "at most %d",
                              length, PX_RECORD_DATA_MAX);
    if (status == PX_OK)
        status = wire_key(boot, key, wire, error);
    if (status == PX_OK)
        status = claim(boot, wire, error);
    if (status == PX_OK)
        status = seal_and_put(boot, key, wire, data, length, error);
    if (status != PX_OK) {
        px_error_context(error, "\"%s\"", key);
        explain(boot, "publishing", error);
    }
    return status;
}

/* After a timeout the missing are those whose last key before this meeting is nowhere to be found. Records serve as such
 * marks, because launchers get slower with every key that they hold; PEs publish the same keys in the same order. */
static px_status leave_mark(struct px_boot *boot, struct px_error *error)
{
    char key[16];
    if (*boot->mark || !boot->backend->arrivals)
        return PX_OK;
    snprintf(key, sizeof(key), "m%u", boot->meetings);
    px_status status = wire_key(boot, key, boot->mark, error);
    return status == PX_OK ? seal_and_put(boot, key, boot->mark, "", 0, error) : status;
}

static px_status meet(struct px_boot *boot, bool collect, struct px_error *error)
{
    begin_round(boot);
    announce_meeting(boot);
    px_status status = leave_mark(boot, error);
    if (status == PX_OK)
        status = boot->backend->fence(boot, error);
    if (status == PX_ERR_TIMEOUT)
        px_missing_report(boot, boot->mark, error);
    else if (status != PX_OK)
        px_missing_dead(boot, error);
    if (status != PX_OK && boot->later_program)
        px_error_context(error, "another program ran before in this job step, which some servers "
                                "do not support, so start this one by a step (srun) of its own");
    if (status != PX_OK)
        explain(boot, collect ? "exchanging records" : "meeting", error);
    else if (collect)
        begin_next_exchange(boot);
    boot->mark[0] = '\0';
    return status;
}

px_status px_boot_exchange(struct px_boot *boot, struct px_error *error)
{
    return meet(boot, true, error);
}

px_status px_boot_barrier(struct px_boot *boot, struct px_error *error)
{
    return meet(boot, false, error);
}

void px_boot_limit(struct px_boot *boot, unsigned timeout_s)
{
    boot->timeout_s = timeout_s;
}

static px_status get_and_open(struct px_boot *boot, uint32_t rank, const char *key, void *data,
                              size_t capacity, size_t *length, struct px_error *error)
{
    char wire[PX_BOOT_KEY_MAX];
    px_status status = wire_key(boot, key, wire, error);
    if (status != PX_OK)
        return status;
    uint8_t *bytes = malloc(PX_RECORD_HEADER + capacity);
    if (!bytes)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %zu bytes", capacity);
    struct px_record_label label = {
        .rank = rank, .epoch = boot->epoch, .sequence = boot->exchanges, .key = key};
    struct px_record record = {.length = 0};
    size_t size = 0;
    status = boot->backend->get(boot, px_launcher_rank(boot, rank), wire, bytes, PX_RECORD_HEADER + capacity, &size, error);
    if (status == PX_OK)
        status = px_record_open(&label, bytes, size, &record, error);
    if (status == PX_OK)
        status = compare_views(boot, rank, &record, error);
    if (status == PX_OK) {
        remember(boot, rank, wire, &record);
        memcpy(data, record.data, record.length);
        *length = record.length;
    }
    free(bytes);
    return status;
}

px_status px_boot_lookup(struct px_boot *boot, uint32_t rank, const char *key, void *data,
                         size_t capacity, size_t *length, struct px_error *error)
{
    px_status status;
    if (rank >= boot->facts.size)
        status = px_error_set(error, PX_ERR_INVALID, "there is no PE %u among %u", rank,
                              boot->facts.size);
    else
        status = get_and_open(boot, rank, key, data, capacity, length, error);
    if (status == PX_ERR_NOT_FOUND)
        px_error_context(error, px_missing_is_dead(boot, rank)
                                    ? "its process has ended"
                                    : "it has not published it, or its process has ended");
    if (status != PX_OK) {
        px_error_context(error, "\"%s\" of PE %u on %s", key, rank,
                         rank < boot->facts.size ? px_boot_host(boot, boot->facts.node_of[rank])
                                                 : "no node");
        explain(boot, "looking up", error);
    }
    return status;
}

/* A failure that came before anybody wanted to hear of it is told at once. */
void px_boot_on_failure(struct px_boot *boot, px_boot_failure_fn *fn, void *arg)
{
    pthread_mutex_lock(&boot->lock);
    boot->on_failure = fn;
    boot->on_failure_arg = arg;
    bool tell = fn && boot->failed;
    uint32_t rank = boot->failed_rank;
    char what[sizeof(boot->failed_what)];
    memcpy(what, boot->failed_what, sizeof(what));
    pthread_mutex_unlock(&boot->lock);
    if (tell)
        fn(arg, rank, what);
}

void px_boot_failed(struct px_boot *boot, uint32_t rank, const char *what, bool sure)
{
    pthread_mutex_lock(&boot->lock);
    if (sure && !boot->failed) {
        boot->failed = true;
        boot->failed_rank = rank;
        snprintf(boot->failed_what, sizeof(boot->failed_what), "%s", what);
    }
    px_boot_failure_fn *fn = boot->on_failure;
    void *arg = boot->on_failure_arg;
    pthread_mutex_unlock(&boot->lock);
    if (fn)
        fn(arg, rank, what);
}

bool px_boot_has_failed(struct px_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    bool failed = boot->failed;
    pthread_mutex_unlock(&boot->lock);
    return failed;
}

px_status px_boot_failure(struct px_boot *boot, struct px_error *error)
{
    pthread_mutex_lock(&boot->lock);
    uint32_t rank = boot->failed_rank;
    if (rank < boot->facts.size)
        px_error_set(error, PX_ERR_PEER, "PE %u on %s failed: %s", rank,
                     px_boot_host(boot, boot->facts.node_of[rank]), boot->failed_what);
    else
        px_error_set(error, PX_ERR_PEER, "a PE failed: %s", boot->failed_what);
    pthread_mutex_unlock(&boot->lock);
    return PX_ERR_PEER;
}

px_status px_boot_watch(struct px_boot *boot, const uint32_t *ranks, const int *pids, size_t count,
                        struct px_error *error)
{
    return px_watch_add(boot, ranks, pids, count, error);
}

/* Backends keep their connection until exit, so the last one joined can be spoken through without a boot object. */
void px_boot_abort(struct px_boot *boot, int exit_status, const char *message)
{
    const struct px_backend *backend = boot ? boot->backend : atomic_load(&last_joined);
    if (backend)
        backend->abort(exit_status, message);
}

void px_boot_close(struct px_boot *boot)
{
    if (!boot)
        return;
    int saved = errno;
    px_watch_close(boot->watch);
    boot->watch = NULL;
    boot->backend->close(boot);
    release(boot);
    errno = saved;
}
