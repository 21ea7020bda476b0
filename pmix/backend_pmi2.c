/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMI-2 backend, for srun --mpi=pmi2. libpmi2 is opened at run time, so programs do not depend on it. Its values are
 * short strings: records travel in hexadecimal, in pieces, the first of which begins with the length. A PMI-2 connection
 * cannot be made twice in a process, so it is kept until exit, and each call has a limit of ours because PMI-2 has none.
 *
 * libpmi2 is not made for a second call while one hangs: after a meeting that timed out only abort is tried. */
#include "config.h"
#include "pmix/private.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if HAVE_SLURM_PMI2_H
#include <slurm/pmi2.h>
#else
#include <pmi2.h>
#endif

#define GIVE_BACK_S  5
#define PIECE_BYTES  510 /* twice as many characters, and the end, fit into PMI2_MAX_VALLEN */
#define LENGTH_BYTES 4   /* in front of the first piece */

static struct {
    void *opened;
    bool connected, stuck;
    pid_t owner;
    int rank, size;
    int (*init)(int *spawned, int *size, int *rank, int *appnum);
    int (*initialized)(void);
    int (*finalize)(void);
    int (*abort)(int flag, const char *message);
    int (*job_id)(char *id, int size);
    int (*job_attribute)(const char *name, char *value, int size, int *found);
    int (*put)(const char *key, const char *value);
    int (*get)(const char *job, int source, const char *key, char *value, int size, int *length);
    int (*fence)(void);
} pmi2;

static px_status open_library(struct px_error *error)
{
    const struct {
        const char *name;
        void *function;
    } symbols[] = {
        {"PMI2_Init", &pmi2.init},         {"PMI2_Initialized", &pmi2.initialized},
        {"PMI2_Finalize", &pmi2.finalize}, {"PMI2_Abort", &pmi2.abort},
        {"PMI2_Job_GetId", &pmi2.job_id},  {"PMI2_Info_GetJobAttr", &pmi2.job_attribute},
        {"PMI2_KVS_Put", &pmi2.put},       {"PMI2_KVS_Get", &pmi2.get},
        {"PMI2_KVS_Fence", &pmi2.fence},
    };
    if (pmi2.opened)
        return PX_OK;
    void *library = dlopen("libpmi2.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "%s. Install it (Debian, Ubuntu: apt-get install libpmi2-0; RHEL: dnf "
                            "install slurm-libpmi), or use srun --mpi=pmix",
                            dlerror());
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            dlclose(library);
            return px_error_set(error, PX_ERR_UNSUPPORTED, "libpmi2.so.0 has no %s",
                                symbols[i].name);
        }
        memcpy(symbols[i].function, &address, sizeof(address));
    }
    pmi2.opened = library;
    return PX_OK;
}

/* ---- one call at a time, each with a limit ---- */

struct call {
    enum {
        CALL_INIT,
        CALL_JOB_ID,
        CALL_MAPPING,
        CALL_PUT,
        CALL_GET,
        CALL_FENCE,
        CALL_FINALIZE
    } what;
    int result, rank, size, found;
    char key[PMI2_MAX_KEYLEN];
    char value[PMI2_MAX_VALLEN + 1];
};

static void carry_out(void *arg)
{
    struct call *call = arg;
    int spawned = 0, appnum = 0, length = 0;
    switch (call->what) {
    case CALL_INIT:
        call->result = pmi2.init(&spawned, &call->size, &call->rank, &appnum);
        break;
    case CALL_JOB_ID:
        call->result = pmi2.job_id(call->value, sizeof(call->value));
        break;
    case CALL_MAPPING:
        call->result = pmi2.job_attribute("PMI_process_mapping", call->value, PMI2_MAX_ATTRVALUE,
                                          &call->found);
        break;
    case CALL_PUT:
        call->result = pmi2.put(call->key, call->value);
        break;
    case CALL_GET:
        call->result =
            pmi2.get(NULL, PMI2_ID_NULL, call->key, call->value, PMI2_MAX_VALLEN, &length);
        break;
    case CALL_FENCE:
        call->result = pmi2.fence();
        break;
    case CALL_FINALIZE:
        call->result = pmi2.finalize();
        break;
    }
}

/* PX_ERR_TIMEOUT has no text. */
static px_status perform(struct call *call, const char *name, unsigned timeout_s,
                         struct px_error *error)
{
    if (pmi2.stuck)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "an earlier PMI-2 call of this process never ended, so there cannot be "
                            "another: the program must be started again");
    if (!px_bounded_call(carry_out, call, sizeof(*call), timeout_s)) {
        pmi2.stuck = true;
        return PX_ERR_TIMEOUT;
    }
    if (call->result == PMI2_SUCCESS)
        return PX_OK;
    return px_error_set(error, PX_ERR_UNREACHABLE, "%s failed with code %d", name, call->result);
}

static px_status perform_short(struct call *call, const char *name, unsigned timeout_s,
                               struct px_error *error)
{
    px_status status = perform(call, name, timeout_s, error);
    if (status == PX_ERR_TIMEOUT)
        px_error_set(error, status,
                     "%s has not come back after %u s: the PMI-2 server of this node "
                     "does not answer",
                     name, timeout_s);
    return status;
}

/* ---- who am I ---- */

/* MPI may hold the connection already; then the launcher's variables have the answer. */
static px_status connect_session(unsigned timeout_s, struct px_error *error)
{
    if (pmi2.connected)
        return PX_OK;
    struct call call = {.what = CALL_INIT};
    const char *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE"); /* launcher identity */
    if (pmi2.initialized()) {
        call.rank = rank ? atoi(rank) : -1;
        call.size = size ? atoi(size) : -1;
    } else {
        px_status status = perform_short(&call, "PMI2_Init", timeout_s, error);
        if (status == PX_ERR_UNREACHABLE)
            return px_error_set(
                error, status,
                "PMI2_Init failed with code %d: PMI-2 serves one program per job step, "
                "so if another one ran before in this task, start this one by an srun "
                "of its own or use --mpi=pmix",
                call.result);
        if (status != PX_OK)
            return status;
        pmi2.owner = getpid();
    }
    if (call.rank < 0 || call.size < 1 || call.rank >= call.size)
        return px_error_set(error, PX_ERR_PROTOCOL, "the server gave rank %d in a job of %d",
                            call.rank, call.size);
    pmi2.rank = call.rank;
    pmi2.size = call.size;
    pmi2.connected = true;
    return PX_OK;
}

__attribute__((destructor)) static void leave(void)
{
    struct call call = {.what = CALL_FINALIZE};
    if (!pmi2.connected || pmi2.owner != getpid())
        return;
    pmi2.connected = false;
    (void)perform(&call, "PMI2_Finalize", GIVE_BACK_S, NULL); /* nobody is left to be told */
}

/* Node names where Slurm lists as many as there are nodes. */
static px_status find_hosts(struct px_boot *boot, struct px_error *error)
{
    struct px_names names = {.count = 0};
    const char *list = getenv("SLURM_STEP_NODELIST"); /* launcher identity */
    px_status status = list ? px_names_add_slurm(&names, list) : PX_ERR_NOT_FOUND;
    if (status == PX_OK && names.count == boot->facts.nodes)
        boot->hosts = names.list;
    else
        px_names_free(&names);
    return status == PX_ERR_NO_MEMORY ? px_error_set(error, status, "no memory for node names")
                                      : PX_OK;
}

static px_status find_nodes(struct px_boot *boot, struct px_error *error)
{
    struct call call = {.what = CALL_MAPPING};
    px_status status = perform_short(&call, "PMI2_Info_GetJobAttr", boot->timeout_s, error);
    if (status == PX_OK && !call.found)
        status = px_error_set(error, PX_ERR_PROTOCOL,
                              "the server does not say on which node each PE "
                              "is (PMI_process_mapping)");
    if (status != PX_OK)
        return status;
    uint32_t *raw = malloc(boot->facts.size * sizeof(*raw));
    if (!raw)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", boot->facts.size);
    status = px_mapping_parse(call.value, boot->facts.size, raw, error);
    if (status == PX_OK)
        status = px_boot_set_nodes(&boot->facts, raw, error);
    free(raw);
    return status == PX_OK ? find_hosts(boot, error) : status;
}

static px_status pmi2_open(struct px_boot *boot, struct px_error *error)
{
    struct call call = {.what = CALL_JOB_ID};
    boot->facts.client_version = "PMI-2";
    px_status status = open_library(error);
    if (status == PX_OK)
        status = connect_session(boot->timeout_s, error);
    if (status == PX_OK)
        status = perform_short(&call, "PMI2_Job_GetId", boot->timeout_s, error);
    if (status != PX_OK)
        return status;
    boot->facts.rank = (uint32_t)pmi2.rank;
    boot->facts.size = (uint32_t)pmi2.size;
    boot->job = strdup(call.value);
    if (!boot->job)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the job's name");
    return find_nodes(boot, error);
}

/* ---- values ---- */

static void to_hex(char *text, const uint8_t *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        *text++ = digits[bytes[i] >> 4];
        *text++ = digits[bytes[i] & 15];
    }
    *text = '\0';
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool from_hex(uint8_t *bytes, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * length] == '\0';
}

static void piece_name(char name[PMI2_MAX_KEYLEN], const char *key, uint32_t rank, size_t piece)
{
    snprintf(name, PMI2_MAX_KEYLEN, "%s.%u.%zu", key, rank, piece);
}

static px_status put_pieces(struct px_boot *boot, const char *key, const uint8_t *bytes,
                            size_t total, struct px_error *error)
{
    px_status status = PX_OK;
    for (size_t piece = 0; status == PX_OK && piece * PIECE_BYTES < total; piece++) {
        struct call call = {.what = CALL_PUT};
        size_t at = piece * PIECE_BYTES;
        piece_name(call.key, key, (uint32_t)pmi2.rank, piece);
        to_hex(call.value, bytes + at, total - at < PIECE_BYTES ? total - at : PIECE_BYTES);
        status = perform_short(&call, "PMI2_KVS_Put", boot->timeout_s, error);
    }
    return status;
}

static px_status pmi2_put(struct px_boot *boot, const char *key, const void *data, size_t length,
                          struct px_error *error)
{
    size_t total = LENGTH_BYTES + length;
    uint8_t *bytes = malloc(total);
    if (!bytes)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %zu bytes", total);
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + LENGTH_BYTES, data, length);
    px_status status = put_pieces(boot, key, bytes, total, error);
    free(bytes);
    return status;
}

/* One piece of exactly `wanted` bytes, or with wanted 0 of as many as come. */
static px_status get_piece(struct px_boot *boot, uint32_t rank, const char *key, size_t piece,
                           uint8_t *bytes, size_t *length, struct px_error *error)
{
    struct call call = {.what = CALL_GET};
    piece_name(call.key, key, rank, piece);
    px_status status = perform_short(&call, "PMI2_KVS_Get", boot->timeout_s, error);
    if (status == PX_ERR_UNREACHABLE) /* PMI-2 has no code of its own for this */
        return px_error_set(error, PX_ERR_NOT_FOUND, "PMI2_KVS_Get: code %d", call.result);
    if (status != PX_OK)
        return status;
    size_t characters = strlen(call.value);
    if (characters / 2 > PIECE_BYTES || !from_hex(bytes, call.value, characters / 2))
        return px_error_set(error, PX_ERR_PROTOCOL, "piece %zu is damaged: \"%.32s\"", piece,
                            call.value);
    *length = characters / 2;
    return PX_OK;
}

static px_status get_rest(struct px_boot *boot, uint32_t rank, const char *key, uint8_t *data,
                          size_t at, size_t total, struct px_error *error)
{
    for (size_t piece = 1; at < total; piece++) {
        uint8_t bytes[PIECE_BYTES];
        size_t length = 0;
        px_status status = get_piece(boot, rank, key, piece, bytes, &length, error);
        if (status != PX_OK)
            return status;
        if (length == 0 || length > total - at)
            return px_error_set(error, PX_ERR_PROTOCOL, "piece %zu has %zu bytes, %zu are missing",
                                piece, length, total - at);
        memcpy(data + at, bytes, length);
        at += length;
    }
    return PX_OK;
}

static px_status pmi2_get(struct px_boot *boot, uint32_t rank, const char *key, void *data,
                          size_t capacity, size_t *length, struct px_error *error)
{
    uint8_t first[PIECE_BYTES];
    size_t got = 0, total = 0;
    px_status status = get_piece(boot, rank, key, 0, first, &got, error);
    if (status != PX_OK)
        return status;
    if (got < LENGTH_BYTES)
        return px_error_set(error, PX_ERR_PROTOCOL, "the first piece has only %zu bytes", got);
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        total |= (size_t)first[i] << (8 * i);
    got -= LENGTH_BYTES;
    if (total > capacity || got > total)
        return px_error_set(error, PX_ERR_PROTOCOL, "%zu bytes, room for %zu", total, capacity);
    memcpy(data, first + LENGTH_BYTES, got);
    status = get_rest(boot, rank, key, data, got, total, error);
    if (status == PX_OK)
        *length = total;
    return status;
}

/* ---- meeting and leaving ---- */

static px_status pmi2_fence(struct px_boot *boot, struct px_error *error)
{
    struct call call = {.what = CALL_FENCE};
    return perform(&call, "PMI2_KVS_Fence", boot->timeout_s, error);
}

static int abort_status;

static void leave_with_status(void)
{
    _exit(abort_status);
}

struct abort_call {
    char message[PMI2_MAX_VALLEN];
};

static void call_abort(void *arg)
{
    struct abort_call *call = arg;
    (void)pmi2.abort(1, call->message);
}

/* Slurm's PMI2_Abort ends in exit() with a status of its own choice; the handler keeps ours. The message was printed
 * before, so the server gets a short one. */
static void pmi2_abort(int exit_status, const char *message)
{
    struct abort_call call;
    snprintf(call.message, sizeof(call.message), "pxshmem: PE %d ends the job", pmi2.rank);
    abort_status = exit_status;
    atexit(leave_with_status);
    (void)px_bounded_call(call_abort, &call, sizeof(call), GIVE_BACK_S);
}

static void pmi2_close(struct px_boot *boot)
{
}

const struct px_backend px_backend_pmi2 = {
    .name = "pmi2",
    .open = pmi2_open,
    .put = pmi2_put,
    .fence = pmi2_fence,
    .get = pmi2_get,
    .abort = pmi2_abort,
    .close = pmi2_close,
};
