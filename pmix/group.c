/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: a job of our own out of some of the launcher's processes, in an order of our own; and how
 * processes that share nothing but a number find each other. Above this file PEs have the group's
 * numbers; the launcher's stay in use for what the launcher names: keys, fences, environments, and
 * the sockets of pmix/.
 *
 * A round of a group cannot be counted, as its members may have been in different numbers of other
 * groups; its name is a number that they all have and that no other group of theirs has had. */
#include "config.h"
#include "pmix/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/record.h"
#include "pmix/text.h"
#include "pmix/wire.h"
#include "src/diag/log.h"

#define GROUP_ROUND  0x80000000u /* rounds of the whole job are counted below it */
#define NAMED_MAX    16
#define NOBODY       UINT32_MAX
#define MEMBER_BYTES 8 /* index, count */

void px_group_release(struct px_boot *boot)
{
    if (!boot->members)
        return;
    free((void *)boot->facts.node_of);
    free((void *)boot->facts.local_ranks);
    free(boot->group_hosts);
    free(boot->group_job);
    free(boot->members);
    boot->group_hosts = NULL;
    boot->group_job = NULL;
    boot->members = NULL;
    boot->facts = boot->launcher;
}

static uint32_t pe_of(const struct px_boot *boot, uint32_t launcher_rank)
{
    if (!boot->members)
        return launcher_rank < boot->facts.size ? launcher_rank : NOBODY;
    for (uint32_t pe = 0; pe < boot->facts.size; pe++)
        if (boot->members[pe] == launcher_rank)
            return pe;
    return NOBODY;
}

void px_boot_event(struct px_boot *boot, uint32_t launcher_rank, const char *what, bool sure)
{
    bool named = launcher_rank < boot->launcher.size;
    pthread_mutex_lock(&boot->lock);
    uint32_t pe = pe_of(boot, launcher_rank);
    pthread_mutex_unlock(&boot->lock);
    if (pe != NOBODY || !named) /* other processes of the job are not our business */
        px_boot_failed(boot, pe, what, sure);
}

/* ---- selecting ---- */

static px_status check_members(const struct px_boot *boot, const uint32_t *ranks, uint32_t count,
                               struct px_error *error)
{
    uint32_t size = boot->launcher.size;
    bool *taken = calloc(size, sizeof(*taken));
    px_status status = PX_OK;
    if (!taken)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a group of %u PEs", count);
    for (uint32_t pe = 0; status == PX_OK && pe < count; pe++) {
        if (ranks[pe] >= size)
            status = px_error_set(error, PX_ERR_INVALID, "process %u is not in this job of %u",
                                  ranks[pe], size);
        else if (taken[ranks[pe]])
            status = px_error_set(error, PX_ERR_INVALID,
                                  "process %u of the job is in the group twice", ranks[pe]);
        else
            taken[ranks[pe]] = true;
    }
    if (status == PX_OK && !taken[boot->launcher.rank])
        status =
            px_error_set(error, PX_ERR_INVALID, "this process (%u of the job) is not in the group",
                         boot->launcher.rank);
    if (status == PX_OK && count < size && !boot->backend->search)
        status =
            px_error_set(error, PX_ERR_UNSUPPORTED,
                         "%s has no meetings of a part of the job (%u of %u processes): start the "
                         "program with srun --mpi=pmix",
                         boot->backend->name, count, size);
    free(taken);
    return status;
}

static px_status set_nodes(const struct px_boot *boot, const uint32_t *ranks,
                           struct px_boot_facts *facts, struct px_error *error)
{
    uint32_t *raw = malloc(facts->size * sizeof(*raw));
    if (!raw)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a group of %u PEs",
                            facts->size);
    for (uint32_t pe = 0; pe < facts->size; pe++) {
        raw[pe] = boot->launcher.node_of[ranks[pe]];
        if (ranks[pe] == boot->launcher.rank)
            facts->rank = pe;
    }
    px_status status = px_boot_set_nodes(facts, raw, error);
    free(raw);
    return status;
}

/* The names of the group's nodes; the strings stay those of the whole job. */
static char **group_hosts(const struct px_boot *boot, const uint32_t *ranks,
                          const struct px_boot_facts *facts)
{
    char **hosts = calloc(facts->nodes, sizeof(*hosts));
    for (uint32_t pe = 0; hosts && boot->hosts && pe < facts->size; pe++)
        hosts[facts->node_of[pe]] = boot->hosts[boot->launcher.node_of[ranks[pe]]];
    return hosts;
}

/* Nothing of the meetings before counts for the new group. */
static void begin_round(struct px_boot *boot, uint32_t epoch)
{
    boot->epoch = epoch;
    boot->exchanges = boot->meetings = 0;
    boot->view = 0;
    boot->mark[0] = boot->seen_key[0] = '\0';
    memset(boot->seen, 0, boot->launcher.size * sizeof(*boot->seen));
}

px_status px_boot_select(struct px_boot *boot, const uint32_t *ranks, uint32_t count, uint32_t tag,
                         struct px_error *error)
{
    px_status status = check_members(boot, ranks, count, error);
    if (status != PX_OK)
        return status;
    struct px_boot_facts facts = boot->launcher;
    uint32_t epoch = GROUP_ROUND | tag;
    size_t job_size = strlen(boot->job) + 16;
    facts.size = count;
    status = set_nodes(boot, ranks, &facts, error);
    if (status != PX_OK)
        return status;
    uint32_t *members = malloc(count * sizeof(*members));
    char **hosts = group_hosts(boot, ranks, &facts), *job = malloc(job_size);
    if (!members || !hosts || !job)
        goto undo;
    memcpy(members, ranks, count * sizeof(*members));
    snprintf(job, job_size, "%s/%08x", boot->job, epoch);
    facts.job = job;

    pthread_mutex_lock(&boot->lock);
    uint32_t failed = boot->failed_rank;
    if (boot->members && failed < boot->facts.size)
        failed = boot->members[failed];
    px_group_release(boot);
    boot->members = members;
    boot->group_hosts = hosts;
    boot->group_job = job;
    boot->facts = facts;
    if (failed < boot->launcher.size) { /* a process that is no member any more is forgotten */
        boot->failed_rank = pe_of(boot, failed);
        boot->failed = boot->failed && boot->failed_rank != NOBODY;
    }
    begin_round(boot, epoch);
    pthread_mutex_unlock(&boot->lock);
    px_info(PX_SUB_BOOTSTRAP, "PE %u of %u in group %s (process %u of %u)", facts.rank, facts.size,
            facts.job, boot->launcher.rank, boot->launcher.size);
    return PX_OK;

undo:
    free(job);
    free(hosts);
    free(members);
    free((void *)facts.node_of);
    free((void *)facts.local_ranks);
    return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a group of %u PEs", count);
}

/* ---- finding each other ---- */

/* What this process has said about a token. It cannot be said twice, and is true for good. */
struct token {
    uint64_t value;
    uint32_t index, count;
    uint32_t uses; /* groups that came about */
};
static struct token *tokens;
static size_t n_tokens;

static struct token *find_token(uint64_t value)
{
    for (size_t i = 0; i < n_tokens; i++)
        if (tokens[i].value == value)
            return &tokens[i];
    return NULL;
}

static struct token *add_token(uint64_t value, uint32_t index, uint32_t count)
{
    struct token *more = realloc(tokens, (n_tokens + 1) * sizeof(*more));
    if (!more)
        return NULL;
    tokens = more;
    tokens[n_tokens] = (struct token){.value = value, .index = index, .count = count};
    return &tokens[n_tokens++];
}

struct gathering {
    const struct px_boot *boot;
    struct px_record_label label; /* of the record that is expected; its rank is the writer's */
    uint32_t count, found;
    uint32_t *ranks; /* [count] NOBODY where nobody has come yet */
    struct px_error *error;
    px_status status;
};

static void encode_member(uint8_t bytes[MEMBER_BYTES], uint32_t index, uint32_t count)
{
    struct px_writer w = {.bytes = bytes, .capacity = MEMBER_BYTES};
    px_write_uint(&w, index, 4);
    px_write_uint(&w, count, 4);
}

static px_status enter(struct gathering *all, uint32_t rank, const uint8_t *bytes, size_t length)
{
    struct px_reader r = {.bytes = bytes, .length = length};
    uint64_t index = px_read_uint(&r, 4), count = px_read_uint(&r, 4);
    if (length != MEMBER_BYTES)
        return px_error_set(all->error, PX_ERR_PROTOCOL,
                            "process %u of the job published %zu bytes instead of %d", rank, length,
                            MEMBER_BYTES);
    if (count != all->count || index >= count)
        return px_error_set(
            all->error, PX_ERR_INVALID,
            "process %u of the job comes as PE %llu of %llu, this one expects %u PEs", rank,
            (unsigned long long)index, (unsigned long long)count, all->count);
    if (all->ranks[index] != NOBODY && all->ranks[index] != rank)
        return px_error_set(all->error, PX_ERR_INVALID,
                            "processes %u and %u of the job both come as PE %llu",
                            all->ranks[index], rank, (unsigned long long)index);
    all->found += all->ranks[index] == NOBODY;
    all->ranks[index] = rank;
    return PX_OK;
}

/* Returns whether the search may end. */
static bool on_found(void *arg, uint32_t rank, const void *bytes, size_t length)
{
    struct gathering *all = arg;
    struct px_record record;
    all->label.rank = rank;
    all->status = px_record_open(&all->label, bytes, length, &record, all->error);
    if (all->status == PX_OK)
        all->status = enter(all, rank, record.data, record.length);
    return all->status != PX_OK || all->found == all->count;
}

static px_status say_who_is_missing(const struct gathering *all)
{
    struct px_text text = {.used = 0};
    uint32_t named = 0;
    for (uint32_t pe = 0; pe < all->count && named < NAMED_MAX; pe++)
        if (all->ranks[pe] == NOBODY)
            px_text_add(&text, "%s%u", named++ ? ", " : "", pe);
    uint32_t missing = all->count - all->found;
    return px_error_set(all->error, PX_ERR_TIMEOUT,
                        "only %u of %u PEs came within %u s, missing: PE %s%s (the limit is "
                        "NVSHMEM_BOOTSTRAP_TIMEOUT)",
                        all->found, all->count, all->boot->timeout_s, text.bytes,
                        missing > named ? ", ..." : "");
}

static px_status put_member(struct px_boot *boot, const struct px_record_label *label,
                            const uint8_t member[MEMBER_BYTES], struct px_error *error)
{
    uint8_t record[PX_RECORD_HEADER + MEMBER_BYTES];
    size_t size = px_record_seal(label, member, MEMBER_BYTES, record);
    return boot->backend->put(boot, label->key, record, size, error);
}

/* A part of the job: who has published under the token's name? The other processes may never call. */
static px_status search_job(struct px_boot *boot, const struct token *token, bool is_new,
                            struct gathering *all)
{
    char key[PX_BOOT_KEY_MAX];
    uint8_t member[MEMBER_BYTES];
    px_status status = PX_OK;
    snprintf(key, sizeof(key), "pxid.%016llx", (unsigned long long)token->value);
    all->label = (struct px_record_label){.rank = boot->launcher.rank,
                                          .epoch = (uint32_t)token->value & 0xffff,
                                          .sequence = 1,
                                          .key = key,
                                          .salt = boot->salt};
    encode_member(member, token->index, token->count);
    if (is_new)
        status = put_member(boot, &all->label, member, all->error);
    if (is_new && status != PX_OK)
        n_tokens--; /* the newest: not said after all */
    if (status == PX_OK)
        status = enter(all, boot->launcher.rank, member, sizeof(member));
    if (status == PX_OK && all->found < all->count)
        status = boot->backend->search(boot, key, on_found, all, all->error);
    if (status == PX_ERR_TIMEOUT)
        return say_who_is_missing(all);
    return status == PX_OK ? all->status : status;
}

/* All processes of the job: one exchange. */
static px_status exchange_all(struct px_boot *boot, const struct token *token,
                              struct gathering *all)
{
    uint8_t member[MEMBER_BYTES];
    size_t length;
    encode_member(member, token->index, token->count);
    for (uint32_t rank = 0; rank < all->count; rank++)
        all->ranks[rank] = rank;
    px_status status = px_boot_select(boot, all->ranks, all->count,
                                      px_group_tag(token->value, 2 * token->uses), all->error);
    for (uint32_t rank = 0; rank < all->count; rank++)
        all->ranks[rank] = NOBODY;
    if (status == PX_OK)
        status = px_boot_publish(boot, "member", member, sizeof(member), all->error);
    if (status == PX_OK)
        status = px_boot_exchange(boot, all->error);
    for (uint32_t rank = 0; status == PX_OK && rank < all->count; rank++) {
        status = px_boot_lookup(boot, rank, "member", member, sizeof(member), &length, all->error);
        if (status == PX_OK)
            status = enter(all, rank, member, length);
    }
    return status;
}

uint32_t px_group_tag(uint64_t value, uint32_t use)
{
    uint64_t mixed = (value ^ (value >> 29) ^ use) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(mixed >> 32);
}

static px_status check_place(const struct px_boot *boot, const struct token *token, uint32_t index,
                             uint32_t count, struct px_error *error)
{
    if (count < 1 || index >= count)
        return px_error_set(error, PX_ERR_INVALID, "there is no PE %u among %u", index, count);
    if (count > boot->launcher.size)
        return px_error_set(error, PX_ERR_INVALID,
                            "%u PEs are asked for, this job has %u processes", count,
                            boot->launcher.size);
    if (count < boot->launcher.size && !boot->backend->search)
        return px_error_set(
            error, PX_ERR_UNSUPPORTED,
            "%s cannot find a part of the job (%u of %u processes): start the program "
            "with srun --mpi=pmix",
            boot->backend->name, count, boot->launcher.size);
    if (token && (token->index != index || token->count != count))
        return px_error_set(
            error, PX_ERR_INVALID,
            "this process came as PE %u of %u with the same unique id before, and comes as "
            "PE %u of %u now",
            token->index, token->count, index, count);
    return PX_OK;
}

px_status px_boot_gather(struct px_boot *boot, uint64_t value, uint32_t index, uint32_t count,
                         uint32_t *ranks, uint32_t *tag, struct px_error *error)
{
    struct token *token = find_token(value);
    bool is_new = !token;
    px_status status = check_place(boot, token, index, count, error);
    if (status != PX_OK)
        return status;
    if (is_new && !(token = add_token(value, index, count)))
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for one more unique id");
    struct gathering all = {.boot = boot, .count = count, .ranks = ranks, .error = error};
    for (uint32_t pe = 0; pe < count; pe++)
        ranks[pe] = NOBODY;
    status = count == boot->launcher.size ? exchange_all(boot, token, &all)
                                          : search_job(boot, token, is_new, &all);
    if (status != PX_OK)
        return px_error_context(error, "finding the PEs of a unique id");
    *tag = px_group_tag(value, 2 * token->uses++ + 1);
    return PX_OK;
}
