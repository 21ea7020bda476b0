/* SPDX-License-Identifier: BSD-3-Clause */
/* PMIx calls, each with a limit. An answer object belongs to the waiting caller and to PMIx;
 * whoever lets go last frees it, so a fence that was given up may still be answered, or never. */
#include "config.h"
#include "pmix/pmix_call.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_MS     200 /* how soon a waiting PE notices a failure that the launcher reported */
#define SEARCH_MS    200 /* the longest pause of a search */
#define FIND_MARKS_S 2   /* how long the missing are asked for */

struct answer {
    struct answer *next, **to_me; /* among the abandoned */
    pthread_mutex_t lock;
    pthread_cond_t came;
    bool done, abandoned, is_fence;
    pmix_status_t status;
    pmix_data_type_t type;
    uint8_t *bytes;
    size_t length;
    pmix_proc_t who; /* what the call was given: PMIx reads these later, from its own thread */
    pmix_info_t flag;
    char key[PX_BOOT_KEY_MAX];
};

static _Atomic unsigned pending_fences;

/* Answers that nobody waits for and that PMIx still owes: some of them never come. */
static struct {
    pthread_mutex_t lock;
    struct answer *first;
} abandoned = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void abandon(struct answer *answer)
{
    pthread_mutex_lock(&abandoned.lock);
    answer->to_me = &abandoned.first;
    answer->next = abandoned.first;
    if (answer->next)
        answer->next->to_me = &answer->next;
    abandoned.first = answer;
    pthread_mutex_unlock(&abandoned.lock);
}

static void take_back(struct answer *answer)
{
    pthread_mutex_lock(&abandoned.lock);
    *answer->to_me = answer->next;
    if (answer->next)
        answer->next->to_me = answer->to_me;
    pthread_mutex_unlock(&abandoned.lock);
}

static struct answer *answer_new(void)
{
    struct answer *answer = calloc(1, sizeof(*answer));
    if (!answer)
        return NULL;
    pthread_mutex_init(&answer->lock, NULL);
    px_cond_init(&answer->came);
    return answer;
}

static void answer_free(struct answer *answer)
{
    if (!answer)
        return;
    pthread_cond_destroy(&answer->came);
    pthread_mutex_destroy(&answer->lock);
    free(answer->bytes);
    free(answer);
}

/* Called by PMIx's thread. */
static void answer_give(struct answer *answer, pmix_status_t status)
{
    pthread_mutex_lock(&answer->lock);
    answer->status = status;
    answer->done = true;
    bool unwanted = answer->abandoned;
    pthread_cond_signal(&answer->came);
    pthread_mutex_unlock(&answer->lock);
    if (unwanted) {
        take_back(answer);
        if (answer->is_fence)
            atomic_fetch_sub(&pending_fences, 1);
        answer_free(answer);
    }
}

static struct timespec milliseconds_from_now(unsigned ms)
{
    struct timespec t = px_deadline(ms / 1000);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Waits until `deadline` (NULL: for ever), and not beyond a failure of `boot` when given. */
static bool answer_wait(struct answer *answer, const struct timespec *deadline,
                        struct px_boot *boot)
{
    pthread_mutex_lock(&answer->lock);
    while (!answer->done) {
        struct timespec now = px_deadline(0), until = milliseconds_from_now(SLICE_MS);
        if (deadline && !is_before(&now, deadline))
            break;
        if (boot && px_boot_has_failed(boot))
            break;
        if (deadline && is_before(deadline, &until))
            until = *deadline;
        pthread_cond_timedwait(&answer->came, &answer->lock, &until);
    }
    bool done = answer->done;
    pthread_mutex_unlock(&answer->lock);
    return done;
}

/* The caller's share; PMIx may still hold its own. */
static void answer_drop(struct answer *answer)
{
    pthread_mutex_lock(&answer->lock);
    bool done = answer->done;
    answer->abandoned = true;
    if (!done)
        abandon(answer);
    if (!done && answer->is_fence)
        atomic_fetch_add(&pending_fences, 1);
    pthread_mutex_unlock(&answer->lock);
    if (done)
        answer_free(answer);
}

px_status px_pmix_status(pmix_status_t code, const char *call, struct px_error *error)
{
    px_status status;
    switch (code) {
    case PMIX_SUCCESS:
        return PX_OK;
    case PMIX_ERR_NOT_FOUND:
        status = PX_ERR_NOT_FOUND;
        break;
    case PMIX_ERR_TIMEOUT:
        status = PX_ERR_TIMEOUT;
        break;
    case PMIX_ERR_NOMEM:
        status = PX_ERR_NO_MEMORY;
        break;
    case PMIX_ERR_NOT_SUPPORTED:
        status = PX_ERR_UNSUPPORTED;
        break;
    default:
        status = PX_ERR_UNREACHABLE;
    }
    return px_error_set(error, status, "%s: %s (%d)", call, PMIx_Error_string(code), (int)code);
}

/* A flag attribute, filled by hand: the macros that do it differ between releases. */
static void set_flag(pmix_info_t *info, const char *key)
{
    memset(info, 0, sizeof(*info));
    snprintf(info->key, sizeof(info->key), "%s", key);
    info->value.type = PMIX_BOOL;
    info->value.data.flag = true;
}

static void value_free(pmix_value_t *value)
{
#if PMIX_NUMERIC_VERSION >= 0x00050000
    PMIx_Value_free(value, 1);
#else
    PMIX_VALUE_RELEASE(value);
#endif
}

static pmix_proc_t peer(const pmix_proc_t *me, pmix_rank_t rank)
{
    pmix_proc_t proc = *me;
    proc.rank = rank;
    return proc;
}

static _Atomic bool store_damaged;

bool px_pmix_store_is_damaged(void)
{
    return atomic_load(&store_damaged);
}

/* In a second program of one job step the client's own store is damaged in some releases, so what it does not find there
 * is asked of the node's server once more. */
static pmix_value_t *get_fact(const pmix_proc_t *me, pmix_rank_t rank, const char *key)
{
    static const char *const places[] = {PMIX_OPTIONAL, PMIX_IMMEDIATE};
    pmix_proc_t proc = peer(me, rank);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        pmix_value_t *value = NULL;
        pmix_info_t info;
        set_flag(&info, places[i]);
        if (PMIx_Get(&proc, key, &info, 1, &value) == PMIX_SUCCESS) {
            if (i > 0)
                atomic_store(&store_damaged, true);
            return value;
        }
    }
    return NULL;
}

bool px_pmix_get_u32(const pmix_proc_t *me, pmix_rank_t rank, const char *key, uint32_t *out)
{
    pmix_value_t *value = get_fact(me, rank, key);
    bool good = true;
    if (!value)
        return false;
    switch (value->type) {
    case PMIX_UINT32:
        *out = value->data.uint32;
        break;
    case PMIX_PROC_RANK:
        *out = value->data.rank;
        break;
    case PMIX_UINT16:
        *out = value->data.uint16;
        break;
    case PMIX_INT:
        good = value->data.integer >= 0;
        if (good)
            *out = (uint32_t)value->data.integer;
        break;
    default:
        good = false;
    }
    value_free(value);
    return good;
}

char *px_pmix_get_string(const pmix_proc_t *me, pmix_rank_t rank, const char *key)
{
    pmix_value_t *value = get_fact(me, rank, key);
    char *copy = NULL;
    if (value && value->type == PMIX_STRING && value->data.string)
        copy = strdup(value->data.string);
    if (value)
        value_free(value);
    return copy;
}

/* ---- what PEs have put ---- */

static void on_value(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct answer *answer = arg;
    if (status == PMIX_SUCCESS && value) {
        answer->type = value->type;
        if (value->type == PMIX_BYTE_OBJECT && value->data.bo.bytes) {
            answer->bytes = malloc(value->data.bo.size + 1);
            if (!answer->bytes)
                status = PMIX_ERR_NOMEM;
            else
                memcpy(answer->bytes, value->data.bo.bytes, value->data.bo.size);
            answer->length = value->data.bo.size;
        }
    }
    answer_give(answer, status);
}

static struct answer *ask(const pmix_proc_t *me, pmix_rank_t rank, const char *key,
                          const char *flag)
{
    struct answer *answer = answer_new();
    if (!answer)
        return NULL;
    answer->who = peer(me, rank);
    snprintf(answer->key, sizeof(answer->key), "%s", key);
    if (flag)
        set_flag(&answer->flag, flag);
    pmix_status_t status = PMIx_Get_nb(&answer->who, answer->key, flag ? &answer->flag : NULL,
                                       flag ? 1 : 0, on_value, answer);
    if (status != PMIX_SUCCESS) { /* then there is no call-back */
        answer->status = status;
        answer->done = true;
    }
    return answer;
}

static px_status copy_bytes(const struct answer *answer, void *data, size_t capacity,
                            size_t *length, struct px_error *error)
{
    if (answer->type != PMIX_BYTE_OBJECT || !answer->bytes)
        return px_error_set(error, PX_ERR_PROTOCOL,
                            "the server returned PMIx type %u instead of bytes",
                            (unsigned)answer->type);
    if (answer->length > capacity)
        return px_error_set(error, PX_ERR_PROTOCOL, "%zu bytes, room for %zu", answer->length,
                            capacity);
    memcpy(data, answer->bytes, answer->length);
    *length = answer->length;
    return PX_OK;
}

static px_status get_once(const pmix_proc_t *me, pmix_rank_t rank, const char *key,
                          const char *flag, unsigned timeout_s, void *data, size_t capacity,
                          size_t *length, struct px_error *error)
{
    struct answer *answer = ask(me, rank, key, flag);
    if (!answer)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a request");
    struct timespec deadline = px_deadline(timeout_s);
    px_status status;
    if (!answer_wait(answer, timeout_s ? &deadline : NULL, NULL))
        status = px_error_set(error, PX_ERR_TIMEOUT, "PMIx_Get: no answer within %u s", timeout_s);
    else if (answer->status != PMIX_SUCCESS)
        status = px_pmix_status(answer->status, "PMIx_Get", error);
    else
        status = copy_bytes(answer, data, capacity, length, error);
    answer_drop(answer);
    return status;
}

/* After a collecting fence the bytes are in this process's store or at the node's server; a key
 * that neither has was not put, and asking its owner would only wait for it. */
px_status px_pmix_get_bytes(const pmix_proc_t *me, pmix_rank_t rank, const char *key,
                            unsigned timeout_s, void *data, size_t capacity, size_t *length,
                            struct px_error *error)
{
    px_status status =
        get_once(me, rank, key, PMIX_OPTIONAL, timeout_s, data, capacity, length, error);
    if (status == PX_ERR_NOT_FOUND)
        status = get_once(me, rank, key, PMIX_IMMEDIATE, timeout_s, data, capacity, length, error);
    return status;
}

void px_pmix_find_marks(const struct px_boot *boot, const pmix_proc_t *me, const char *key,
                        enum px_arrival *state)
{
    uint32_t size = boot->facts.size;
    struct answer **answers = calloc(size, sizeof(struct answer *));
    if (!answers)
        return;
    for (uint32_t pe = 0; pe < size; pe++)
        answers[pe] = pe == boot->facts.rank ? NULL : ask(me, px_launcher_rank(boot, pe), key, NULL);
    struct timespec deadline = px_deadline(FIND_MARKS_S);
    for (uint32_t pe = 0; pe < size; pe++) {
        if (!answers[pe])
            continue;
        bool done = answer_wait(answers[pe], &deadline, NULL);
        state[pe] = done && answers[pe]->status == PMIX_SUCCESS ? PX_ARRIVED : PX_ABSENT;
        answer_drop(answers[pe]);
    }
    free(answers);
}

static bool answer_is_done(struct answer *answer)
{
    pthread_mutex_lock(&answer->lock);
    bool done = answer->done;
    pthread_mutex_unlock(&answer->lock);
    return done;
}

struct search {
    const pmix_proc_t *me;
    const char *key;
    px_found_fn *found;
    void *arg;
    uint32_t size;
    struct answer **answers; /* [size] requests under way */
    bool *told;              /* [size] found, or not asked */
};

/* Every process that has not said anything is asked; the question stays until it puts something, and is put again when
 * that was something else. */
static px_status search_ask(struct search *s, struct px_error *error)
{
    for (uint32_t rank = 0; rank < s->size; rank++) {
        if (s->told[rank] || s->answers[rank])
            continue;
        s->answers[rank] = ask(s->me, rank, s->key, NULL);
        if (!s->answers[rank])
            return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a request");
    }
    return PX_OK;
}

/* Returns whether the search may end. */
static bool search_collect(struct search *s)
{
    bool enough = false;
    for (uint32_t rank = 0; rank < s->size && !enough; rank++) {
        struct answer *answer = s->answers[rank];
        if (!answer || !answer_is_done(answer))
            continue;
        if (answer->status == PMIX_SUCCESS && answer->bytes) {
            s->told[rank] = true;
            enough = s->found(s->arg, rank, answer->bytes, answer->length);
        }
        s->answers[rank] = NULL;
        answer_drop(answer);
    }
    return enough;
}

static px_status search(struct px_boot *boot, struct search *s, struct px_error *error)
{
    struct timespec deadline = px_deadline(boot->timeout_s);
    for (long ms = 1;; ms = ms * 2 < SEARCH_MS ? ms * 2 : SEARCH_MS) {
        px_status status = search_ask(s, error);
        if (status != PX_OK)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
        if (search_collect(s))
            return PX_OK;
        if (px_boot_has_failed(boot))
            return px_boot_failure(boot, error);
        struct timespec now = px_deadline(0);
        if (boot->timeout_s && !is_before(&now, &deadline))
            return PX_ERR_TIMEOUT;
    }
}

px_status px_pmix_search(struct px_boot *boot, const pmix_proc_t *me, const char *key,
                         px_found_fn *found, void *arg, struct px_error *error)
{
    uint32_t size = boot->launcher.size;
    struct search s = {.me = me, .key = key, .found = found, .arg = arg, .size = size};
    s.answers = calloc(size, sizeof(struct answer *));
    s.told = calloc(size, sizeof(*s.told));
    px_status status;
    if (s.answers && s.told) {
        for (uint32_t rank = 0; boot->members && rank < size; rank++)
            s.told[rank] = true;
        for (uint32_t pe = 0; boot->members && pe < boot->facts.size; pe++)
            s.told[boot->members[pe]] = false;
        s.told[me->rank] = true;
        status = search(boot, &s, error);
    } else {
        status = px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u requests", size);
    }
    for (uint32_t rank = 0; s.answers && rank < size; rank++)
        if (s.answers[rank])
            answer_drop(s.answers[rank]);
    free(s.told);
    free(s.answers);
    return status;
}

/* ---- meeting ---- */

static void on_fence(pmix_status_t status, void *arg)
{
    answer_give(arg, status);
}

unsigned px_pmix_fences_pending(void)
{
    return atomic_load(&pending_fences);
}

/* Always collecting, even where nobody has put anything: unless PMIxFenceBarrier is set in its
 * mpi.conf, Slurm answers any other fence as soon as the processes of one node have met. */
px_status px_pmix_fence(struct px_boot *boot, const pmix_proc_t *me, struct px_error *error)
{
    struct answer *answer = answer_new();
    if (!answer)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a fence");
    answer->is_fence = true;
    answer->who = peer(me, PMIX_RANK_WILDCARD);
    set_flag(&answer->flag, PMIX_COLLECT_DATA);
    pmix_status_t code = PMIx_Fence_nb(&answer->who, 1, &answer->flag, 1, on_fence, answer);
    if (code != PMIX_SUCCESS) {
        answer_free(answer);
        if (code == PMIX_OPERATION_SUCCEEDED) /* done at once, no call-back */
            return PX_OK;
        return px_pmix_status(code, "PMIx_Fence", error);
    }
    struct timespec deadline = px_deadline(boot->timeout_s);
    px_status status;
    if (answer_wait(answer, boot->timeout_s ? &deadline : NULL, boot))
        status = px_pmix_status(answer->status, "PMIx_Fence", error);
    else if (px_boot_has_failed(boot))
        status = px_boot_failure(boot, error);
    else
        status = PX_ERR_TIMEOUT;
    answer_drop(answer);
    return status;
}
