/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx backend. PMIx counts its initialisations per process and MPI may hold one too, so ours
 * is taken at the first open and given back at exit, not at close: some releases cannot be
 * initialised again after the last finalise. Rounds are kept apart by their keys instead.
 *
 * Calls that may block are made in their non-blocking form with our own limit; what they write to
 * stays allocated until PMIx has answered, however late. Uses no symbol that PMIx 3.2, 4 or 5
 * deprecates. */
#include "config.h"
#include "pmix/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix.h>

#include "pmix/pmix_call.h"
#include "src/diag/log.h"

#define GIVE_BACK_S 5 /* limit of abort and finalise, when nobody waits for an answer any more */

/* One connection per process, shared by all opens. */
static struct {
    pthread_mutex_t lock;
    bool connected;
    uint32_t run; /* which program of the step */
    pid_t owner;  /* a forked child must not speak for its parent */
    pmix_proc_t me;
    struct px_boot *open; /* the one open bootstrap that hears of events */
    bool listening;
} session = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct init_call {
    pmix_status_t status;
    pmix_proc_t me;
};

static void call_init(void *arg)
{
    struct init_call *call = arg;
    call->status = PMIx_Init(&call->me, NULL, 0);
}

static px_status put_bytes(const char *key, const void *data, size_t length, struct px_error *error)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)data; /* PMIx copies */
    value.data.bo.size = length;
    return px_pmix_status(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put", error);
}

/* Servers keep what an earlier program of the step has put, and may hand it out in place of what a later one puts under
 * the same key. So each program leaves a sign, and the number of signs becomes part of all keys. Where a server forgets
 * the signs too, the records' digests (boot.c) find what is stale. */
static px_status count_runs(unsigned timeout_s, struct px_error *error)
{
    char key[PX_BOOT_KEY_MAX];
    px_status status;
    do {
        char byte;
        size_t length;
        snprintf(key, sizeof(key), "pxrun%u", ++session.run);
        status = px_pmix_get_bytes(&session.me, session.me.rank, key, timeout_s, &byte, 1, &length,
                                   NULL);
    } while (status == PX_OK);
    return put_bytes(key, "", 1, error);
}

static px_status connect_session(unsigned timeout_s, struct px_error *error)
{
    if (session.connected)
        return PX_OK;
    struct init_call call = {.status = PMIX_SUCCESS};
    if (!px_bounded_call(call_init, &call, sizeof(call), timeout_s))
        return px_error_set(error, PX_ERR_TIMEOUT,
                            "PMIx_Init has not come back after %u s: the "
                            "PMIx server of this node does not answer",
                            timeout_s);
    if (call.status != PMIX_SUCCESS)
        return px_pmix_explain_init(call.status, error);
    session.me = call.me;
    session.connected = true;
    session.owner = getpid();
    return count_runs(timeout_s, error);
}

static void call_finalize(void *arg)
{
    *(pmix_status_t *)arg = PMIx_Finalize(NULL, 0);
}

/* Runs at exit and when the library is unloaded, after the program's own exit handlers. */
__attribute__((destructor)) static void leave(void)
{
    pmix_status_t status = PMIX_SUCCESS;
    if (!session.connected || session.owner != getpid())
        return;
    session.connected = false;
    (void)px_bounded_call(call_finalize, &status, sizeof(status), GIVE_BACK_S);
}

/* ---- events ---- */

/* Codes by which releases report the end of a process, and which of them mean that it was in order. */
#ifdef PMIX_EVENT_PROC_TERMINATED
#define PROC_ENDED PMIX_EVENT_PROC_TERMINATED
#else
#define PROC_ENDED PMIX_PROC_TERMINATED
#endif

static pmix_status_t codes[] = {
    PROC_ENDED,
#if PMIX_NUMERIC_VERSION >= 0x00040200
    PMIX_ERR_PROC_REQUESTED_ABORT,
    PMIX_ERR_PROC_KILLED_BY_CMD,
    PMIX_ERR_PROC_ABORTED_BY_SIG,
#endif
#if PMIX_NUMERIC_VERSION >= 0x00040000
    PMIX_ERR_PROC_TERM_WO_SYNC,
    PMIX_ERR_JOB_ABORTED,
    PMIX_ERR_LOST_CONNECTION,
#else
    PMIX_ERR_PROC_ABORTED,
    PMIX_ERR_PROC_REQUESTED_ABORT,
    PMIX_ERR_LOST_CONNECTION_TO_SERVER,
#endif
};

struct news {
    uint32_t rank;
    pmix_status_t status;
};

static void *tell(void *arg)
{
    struct news *news = arg;
    pthread_mutex_lock(&session.lock);
    struct px_boot *boot = session.open;
    if (boot) {
        char what[128];
        snprintf(what, sizeof(what), "the launcher reports: %s", PMIx_Error_string(news->status));
        px_boot_event(boot, news->rank, what, news->status != PROC_ENDED);
    }
    pthread_mutex_unlock(&session.lock);
    free(news);
    return NULL;
}

/* Who hears of a failure may end the job, and PMIx_Abort waits for PMIx's thread: so that thread must not be the one who
 * tells. Without a thread the news is lost; limits still end every wait. */
static void tell_in_own_thread(uint32_t rank, pmix_status_t status)
{
    pthread_t thread;
    struct news *news = malloc(sizeof(*news));
    if (!news)
        return;
    *news = (struct news){.rank = rank, .status = status};
    if (pthread_create(&thread, NULL, tell, news) == 0)
        pthread_detach(thread);
    else
        free(news);
}

static void on_event(size_t handler, pmix_status_t status, const pmix_proc_t *source,
                     pmix_info_t *info, size_t n_info, pmix_info_t *results, size_t n_results,
                     pmix_event_notification_cbfunc_fn_t done, void *done_arg)
{
    uint32_t rank = UINT32_MAX;
    for (size_t i = 0; i < n_info; i++) /* source is who reports it, often the server */
        if (strncmp(info[i].key, PMIX_EVENT_AFFECTED_PROC, PMIX_MAX_KEYLEN) == 0 &&
            info[i].value.type == PMIX_PROC && info[i].value.data.proc &&
            strncmp(info[i].value.data.proc->nspace, session.me.nspace, PMIX_MAX_NSLEN) == 0)
            rank = info[i].value.data.proc->rank;
    tell_in_own_thread(rank, status);
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
}

static void on_registered(pmix_status_t status, size_t handler, void *arg)
{
}

/* A server that offers no events is no error: peers of the node are watched anyway. */
static void listen_for_events(void)
{
    if (session.listening)
        return;
    PMIx_Register_event_handler(codes, sizeof(codes) / sizeof(codes[0]), NULL, 0, on_event,
                                on_registered, NULL);
    session.listening = true;
}

/* ---- facts ---- */

/* Node names in the launcher's order, then one name per PE; both are in the client's own store. */
static px_status nodes_by_host(struct px_boot *boot, uint32_t *raw, struct px_error *error)
{
    struct px_names names = {.count = 0};
    char *list = px_pmix_get_string(&session.me, PMIX_RANK_WILDCARD, PMIX_NODE_LIST);
    px_status status = list ? px_names_add_list(&names, list) : PX_OK;
    free(list);
    for (uint32_t pe = 0; status == PX_OK && pe < boot->facts.size; pe++) {
        char *host = px_pmix_get_string(&session.me, pe, PMIX_HOSTNAME);
        status = !host ? PX_ERR_NOT_FOUND : px_names_index(&names, host, &raw[pe]);
        free(host);
    }
    px_names_free(&names);
    if (status == PX_ERR_NOT_FOUND)
        return px_error_set(
            error, status,
            "the server does not say on which node each PE is; if another program ran before in "
            "this job step, start this one by a step (srun, mpirun) of its own");
    return status == PX_OK ? PX_OK : px_error_set(error, status, "no memory for the node names");
}

/* Slurm 22.05 numbers only the nodes of local PEs, Open MPI's servers all of them. For a PE without
 * a number a client of PMIx 5 gives that of the asking PE's node, so the whole must have as many PEs
 * here as the server says. */
static bool nodes_by_number(const struct px_boot *boot, uint32_t *raw)
{
    uint32_t here = 0, local;
    for (uint32_t pe = 0; pe < boot->facts.size; pe++)
        if (!px_pmix_get_u32(&session.me, pe, PMIX_NODEID, &raw[pe]))
            return false;
    for (uint32_t pe = 0; pe < boot->facts.size; pe++)
        here += raw[pe] == raw[boot->facts.rank];
    return px_pmix_get_u32(&session.me, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &local) &&
           here == local;
}

static bool nodes_by_mapping(const struct px_boot *boot, uint32_t *raw)
{
    char *map = px_pmix_get_string(&session.me, PMIX_RANK_WILDCARD, PMIX_ANL_MAP);
    bool good = map && px_mapping_parse(map, boot->facts.size, raw, NULL) == PX_OK;
    free(map);
    return good;
}

/* All that is left to a second program of a step in some releases. */
static bool all_on_one_node(const struct px_boot *boot, uint32_t *raw)
{
    uint32_t local;
    if (!px_pmix_get_u32(&session.me, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &local) ||
        local != boot->facts.size)
        return false;
    memset(raw, 0, boot->facts.size * sizeof(*raw));
    return true;
}

static px_status find_nodes(struct px_boot *boot, struct px_error *error)
{
    uint32_t *raw = malloc(boot->facts.size * sizeof(*raw));
    if (!raw)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", boot->facts.size);
    px_status status = PX_OK;
    if (!nodes_by_number(boot, raw) && !nodes_by_mapping(boot, raw) && !all_on_one_node(boot, raw))
        status = nodes_by_host(boot, raw, error);
    if (status == PX_OK)
        status = px_boot_set_nodes(&boot->facts, raw, error);
    free(raw);
    return status;
}

/* The name of a node is the host of its first PE. */
static px_status find_hosts(struct px_boot *boot, struct px_error *error)
{
    boot->hosts = calloc(boot->facts.nodes, sizeof(*boot->hosts));
    if (!boot->hosts)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u node names",
                            boot->facts.nodes);
    uint32_t named = 0;
    for (uint32_t pe = 0; pe < boot->facts.size && named < boot->facts.nodes; pe++) {
        char **host = &boot->hosts[boot->facts.node_of[pe]];
        if (*host)
            continue;
        *host = px_pmix_get_string(&session.me, pe, PMIX_HOSTNAME);
        named++;
    }
    return PX_OK;
}

/* What the launcher says of my node must be what it says of everybody's. */
static void compare_local_peers(const struct px_boot *boot)
{
    uint32_t size;
    if (px_pmix_get_u32(&session.me, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &size) &&
        size != boot->facts.local_size)
        px_warn("the PMIx server says that this node has %u PEs, its node table says %u", size,
                boot->facts.local_size);
}

/* "OpenPMIx 4.2.2" of "OpenPMIx 4.2.2 (PMIx Standard: 4.2, ...)". */
static const char *client_version(void)
{
    static char version[64];
    snprintf(version, sizeof(version), "%s", PMIx_Get_version());
    version[strcspn(version, "(,")] = '\0';
    size_t length = strlen(version);
    while (length && version[length - 1] == ' ')
        version[--length] = '\0';
    return version;
}

static px_status find_facts(struct px_boot *boot, struct px_error *error)
{
    struct px_boot_facts *facts = &boot->facts;
    facts->rank = session.me.rank;
    if (!px_pmix_get_u32(&session.me, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &facts->size))
        return px_error_set(error, PX_ERR_PROTOCOL,
                            "the server does not say how many PEs there are "
                            "(%s)",
                            PMIX_JOB_SIZE);
    if (facts->size == 0 || facts->rank >= facts->size)
        return px_error_set(error, PX_ERR_PROTOCOL, "the server gave rank %u in a job of %u",
                            facts->rank, facts->size);
    boot->job = strdup(session.me.nspace);
    if (!boot->job)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the job's name");
    px_status status = find_nodes(boot, error);
    if (status == PX_OK)
        status = find_hosts(boot, error);
    if (status == PX_OK)
        compare_local_peers(boot);
    return status;
}

/* ---- the table ---- */

static px_status pmix_open(struct px_boot *boot, struct px_error *error)
{
    boot->facts.client_version = client_version();
    px_pmix_server_version(boot->server_version, sizeof(boot->server_version));
    if (px_pmix_fences_pending())
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "an earlier meeting of this process never ended, so PMIx cannot hold "
                            "another: the program must be started again");
    px_status status = connect_session(boot->timeout_s, error);
    if (status == PX_OK)
        status = find_facts(boot, error);
    if (status != PX_OK)
        return status;
    boot->run = session.run;
    boot->later_program = session.run > 1 || px_pmix_store_is_damaged();
    listen_for_events();
    pthread_mutex_lock(&session.lock);
    session.open = boot;
    pthread_mutex_unlock(&session.lock);
    return PX_OK;
}

static px_status pmix_put(struct px_boot *boot, const char *key, const void *data, size_t length,
                          struct px_error *error)
{
    return put_bytes(key, data, length, error);
}

static bool count_one(void *arg, uint32_t rank, const void *bytes, size_t length)
{
    uint32_t *missing = arg;
    return --*missing == 0;
}

/* A part of the job meets by looking for each other's mark, which brings the records along. PMIx has fences for that, but
 * Slurm's plugin tells its other nodes a list of members that names the first one over and over: the fence fails or never
 * ends as soon as that member's node is not everybody's. */
static px_status meet_members(struct px_boot *boot, struct px_error *error)
{
    uint32_t missing = boot->facts.size - 1;
    if (missing == 0)
        return PX_OK;
    return px_pmix_search(boot, &session.me, boot->mark, count_one, &missing, error);
}

static px_status pmix_fence(struct px_boot *boot, struct px_error *error)
{
    px_status status = px_pmix_status(PMIx_Commit(), "PMIx_Commit", error);
    if (status != PX_OK)
        return status;
    if (boot->facts.size < boot->launcher.size)
        return meet_members(boot, error);
    return px_pmix_fence(boot, &session.me, error);
}

static px_status pmix_get(struct px_boot *boot, uint32_t rank, const char *key, void *data,
                          size_t capacity, size_t *length, struct px_error *error)
{
    return px_pmix_get_bytes(&session.me, rank, key, boot->timeout_s, data, capacity, length,
                             error);
}

static void pmix_arrivals(const struct px_boot *boot, const char *mark, enum px_arrival *state)
{
    px_pmix_find_marks(boot, &session.me, mark, state);
}

static px_status pmix_search(struct px_boot *boot, const char *key, px_found_fn *found, void *arg,
                             struct px_error *error)
{
    px_status status = px_pmix_status(PMIx_Commit(), "PMIx_Commit", error);
    return status == PX_OK ? px_pmix_search(boot, &session.me, key, found, arg, error) : status;
}

struct abort_call {
    int status;
    char message[1024];
};

static void call_abort(void *arg)
{
    struct abort_call *call = arg;
    (void)PMIx_Abort(call->status, call->message, NULL, 0);
}

static void pmix_abort(int exit_status, const char *message)
{
    struct abort_call call = {.status = exit_status};
    snprintf(call.message, sizeof(call.message), "%s", message);
    (void)px_bounded_call(call_abort, &call, sizeof(call), GIVE_BACK_S);
}

static void pmix_close(struct px_boot *boot)
{
    pthread_mutex_lock(&session.lock);
    if (session.open == boot)
        session.open = NULL;
    pthread_mutex_unlock(&session.lock);
}

const struct px_backend px_backend_pmix = {
    .name = "pmix",
    .open = pmix_open,
    .put = pmix_put,
    .fence = pmix_fence,
    .get = pmix_get,
    .arrivals = pmix_arrivals,
    .search = pmix_search,
    .abort = pmix_abort,
    .close = pmix_close,
};
