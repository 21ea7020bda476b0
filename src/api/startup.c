/* SPDX-License-Identifier: BSD-3-Clause */
/* How the PEs meet at start-up, in rounds of two collecting exchanges; one round is the rule. Where PEs choose among
 * several GPUs (place.h) an exchange of cards comes first: they take their GPUs by it, and begin.
 *
 *   card     what this PE has: memory, free addresses, transports that work here, or that it failed already
 *            -> all agree on one address, map the peers of their node, open the transport that all have
 *   verdict  how that went here, and the transport's address
 *            -> all succeed, all fail with the same words (those of the lowest PE that failed), or all try once more,
 *               because an address was taken meanwhile or a descriptor has to be passed in another way
 *
 * So a failure on one PE is known to all, in its own words, and nobody waits for it. */
#include "config.h"
#include "src/api/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/card.h"
#include "src/api/gpumem.h"
#include "src/api/place.h"
#include "src/diag/log.h"
#include "src/transport/move.h"

#define ROUNDS 5

struct px_startup {
    const struct px_boot_facts *facts;
    struct px_card *cards;       /* [size] of this round */
    struct px_heap_card *memory; /* [size] of this round */
    struct px_verdict *verdicts; /* [size]; the transport looks addresses up here until it closes */
    struct px_transport_setup setup; /* the transport keeps a pointer to it */
    size_t heap_bytes;               /* asked for */
    bool want_remote, near_nic;      /* near_nic: this thread runs where helpers belong */
    char refused[512]; /* which transports were refused here, and why */
};

/* Lives as long as the transport that was opened with it. */
static struct px_startup *current;

static px_status find_peer(void *arg, uint32_t pe, struct px_transport_peer *peer,
                           struct px_error *error)
{
    const struct px_startup *startup = arg;
    peer->address = startup->verdicts[pe].address;
    peer->length = startup->verdicts[pe].address_length;
    return PX_OK;
}

static bool map_peer(void *arg, uint32_t pe, intptr_t *delta)
{
    intptr_t found = px_heap_delta(px_world.heap, pe);
    (void)arg;
    if (found == PX_HEAP_NOT_MAPPED)
        return false;
    *delta = found;
    return true;
}

static void transport_setup(const struct px_startup *startup, struct px_transport_setup *setup)
{
    const struct px_env *env = &px_world.env;
    *setup = (struct px_transport_setup){
        .rank = px_world.facts->rank,
        .local_rank = px_world.facts->local_rank,
        .size = px_world.facts->size,
        .threads = 1,
        .progress_cpus = 0,
        .base = px_world.memory.base,
        .span = px_world.memory.span,
        .control_bytes = px_world.memory.control_bytes,
        .demanded = strcmp(env->remote_transport, "auto") != 0,
        .env = env,
        .map = map_peer,
        .take_note = px_gpumem_take_note(),
        .nics = px_world.place.nics,
    };
}

static bool is_candidate(const struct px_transport_ops *ops)
{
    const char *asked = px_world.env.remote_transport;
    if (strcmp(asked, "auto") == 0)
        return !ops->only_by_name && ops != &px_transport_none;
    return px_transport_by_name(asked) == ops && ops != &px_transport_none;
}

/* Which transports would work here, a bit each in the order of the list; the reasons against the others are kept. */
static uint32_t usable_transports(struct px_startup *startup)
{
    struct px_transport_setup setup;
    uint32_t mask = 0;
    size_t used = 0;
    transport_setup(startup, &setup);
    for (uint32_t i = 0; px_transports[i]; i++) {
        struct px_error why = PX_ERROR_INIT;
        if (!is_candidate(px_transports[i]))
            continue;
        if (px_transports[i]->probe(&setup, &why) == PX_OK)
            mask |= 1u << i;
        else if (used < sizeof(startup->refused))
            used +=
                (size_t)snprintf(startup->refused + used, sizeof(startup->refused) - used,
                                 "%s%s: %s", used ? "; " : "", px_transports[i]->name, why.text);
    }
    if (!mask && !used)
        snprintf(startup->refused, sizeof(startup->refused), "%s",
                 strcmp(px_world.env.remote_transport, "auto") == 0
                     ? "this build has none (it needs libfabric or libibverbs)"
                     : "NVSHMEM_REMOTE_TRANSPORT names none that this build has");
    return mask;
}

/* Publish, meet, and read what everybody published; `decode` unpacks one PE's bytes. */
typedef px_status decode_fn(struct px_startup *startup, uint32_t pe, const uint8_t *bytes,
                            size_t length, struct px_error *error);
static px_status exchange(struct px_startup *startup, const char *key, const uint8_t *bytes,
                          size_t length, decode_fn *decode, struct px_error *error)
{
    px_status status = px_boot_publish(px_world.boot, key, bytes, length, error);
    if (status == PX_OK)
        status = px_boot_exchange(px_world.boot, error);
    for (uint32_t pe = 0; status == PX_OK && pe < startup->facts->size; pe++) {
        uint8_t theirs[PX_VERDICT_MAX];
        size_t theirs_length;
        status =
            px_boot_lookup(px_world.boot, pe, key, theirs, sizeof(theirs), &theirs_length, error);
        if (status == PX_OK)
            status = decode(startup, pe, theirs, theirs_length, error);
        if (status != PX_OK) {
            char name[128];
            px_error_context(error, "the %s of %s", key, px_world_pe_name(pe, name, sizeof(name)));
        }
    }
    return status;
}

static px_status decode_card(struct px_startup *startup, uint32_t pe, const uint8_t *bytes,
                             size_t length, struct px_error *error)
{
    struct px_card *card = &startup->cards[pe];
    px_status status = px_card_decode(bytes, length, card, error);
    if (status != PX_OK || card->failed)
        return status;
    if (card->pe != pe)
        return px_error_set(error, PX_ERR_PROTOCOL, "it says it is PE %u's", card->pe);
    if (card->choosing)
        return PX_OK;
    status = px_heap_card_decode(card->memory, sizeof(card->memory), &startup->memory[pe], error);
    if (status == PX_OK &&
        startup->memory[pe].pid_namespace == startup->memory[startup->facts->rank].pid_namespace)
        px_world.pids[pe] = (uint32_t)startup->memory[pe].pid;
    return status;
}

static px_status decode_verdict(struct px_startup *startup, uint32_t pe, const uint8_t *bytes,
                                size_t length, struct px_error *error)
{
    return px_verdict_decode(bytes, length, &startup->verdicts[pe], error);
}

/* The rows of the environment that must be the same everywhere, in the order of the table, with their place on the card. */
static const struct px_env_row *shared_setting(uint32_t place)
{
    for (size_t i = 0; i < px_env_row_count; i++)
        if (px_env_rows[i].same && place-- == 0)
            return &px_env_rows[i];
    return NULL;
}

static void fill_settings(struct px_card *card)
{
    const struct px_env_row *row;
    for (uint32_t i = 0; i < PX_CARD_SETTINGS_MAX && (row = shared_setting(i)); i++)
        card->settings[i] = px_env_number(&px_world.env, row);
}

static px_status exchange_cards(struct px_startup *startup, int round, const struct px_error *mine,
                                struct px_error *error)
{
    struct px_card card = {.pe = startup->facts->rank, .failed = mine->status != PX_OK};
    uint8_t bytes[PX_CARD_MAX];
    char key[16];
    size_t length;
    px_status status = PX_OK;
    if (!card.failed) {
        card.heap_bytes = startup->heap_bytes;
        card.heap_kind = px_on_gpu;
        fill_settings(&card);
        card.choosing = px_place_undecided();
        card.seat = *px_place_seat();
        card.transports = startup->want_remote ? (uint16_t)usable_transports(startup) : 0;
    }
    if (!card.failed && !card.choosing)
        status = px_heap_card(px_world.heap, card.memory, error);
    if (status == PX_OK)
        status = px_card_encode(&card, bytes, &length, error);
    snprintf(key, sizeof(key), "card%d", round);
    return status == PX_OK ? exchange(startup, key, bytes, length, decode_card, error) : status;
}

static px_status check_sizes(const struct px_startup *startup, struct px_error *error)
{
    const struct px_card *cards = startup->cards;
    for (uint32_t pe = 1; pe < startup->facts->size; pe++) {
        char first[128], other[128];
        if (cards[pe].heap_bytes != cards[0].heap_bytes)
            return px_error_set(error, PX_ERR_INVALID,
                                "NVSHMEM_SYMMETRIC_SIZE must be the same on all PEs: it is %llu "
                                "bytes on %s and %llu "
                                "on %s",
                                (unsigned long long)cards[0].heap_bytes,
                                px_world_pe_name(0, first, sizeof(first)),
                                (unsigned long long)cards[pe].heap_bytes,
                                px_world_pe_name(pe, other, sizeof(other)));
    }
    return PX_OK;
}

static px_status check_settings(const struct px_startup *startup, struct px_error *error)
{
    const struct px_card *cards = startup->cards;
    for (uint32_t pe = 1; pe < startup->facts->size; pe++) {
        char first[128], other[128], a[32], b[32];
        uint32_t i = 0;
        while (i < PX_CARD_SETTINGS_MAX && cards[pe].settings[i] == cards[0].settings[i])
            i++;
        const struct px_env_row *row = i < PX_CARD_SETTINGS_MAX ? shared_setting(i) : NULL;
        if (row)
            return px_error_set(
                error, PX_ERR_INVALID, "%s must be the same on all PEs: it is %s on %s and %s on %s",
                row->name, px_env_number_format(row, cards[0].settings[i], a, sizeof(a)),
                px_world_pe_name(0, first, sizeof(first)),
                px_env_number_format(row, cards[pe].settings[i], b, sizeof(b)),
                px_world_pe_name(pe, other, sizeof(other)));
    }
    return PX_OK;
}

/* Memory of one kind everywhere. Where the user left it open, PEs with a GPU go back to host memory and
 * all meet once more. */
static px_status check_kinds(const struct px_startup *startup, struct px_error *error)
{
    const struct px_card *cards = startup->cards;
    uint32_t with = UINT32_MAX, without = UINT32_MAX;
    char first[128], other[128], why[400];
    for (uint32_t pe = startup->facts->size; pe-- > 0;)
        *(cards[pe].heap_kind ? &with : &without) = pe;
    if (with == UINT32_MAX || without == UINT32_MAX)
        return PX_OK;
    snprintf(why, sizeof(why), "%s has GPU memory, %s has none",
             px_world_pe_name(with, first, sizeof(first)),
             px_world_pe_name(without, other, sizeof(other)));
    if (strcmp(px_world.env.heap_kind, "DEVICE") == 0)
        return px_error_set(error, PX_ERR_INVALID,
                            "NVSHMEM_HEAP_KIND is DEVICE, but of this job %s: is it set to the same "
                            "everywhere, and has every PE a GPU?",
                            why);
    px_status status = PX_OK;
    if (px_on_gpu) {
        px_heap_destroy(px_world.heap);
        px_world.heap = NULL;
        px_gpumem_give_up(why);
        status = px_world_create_heap(error);
    }
    return status == PX_OK ? px_error_set(error, PX_ERR_UNREACHABLE, "%s", why) : status;
}

/* What a peer's control area must say before its mapping is kept. */
static px_status confirm(void *arg, uint32_t rank, const void *control, uint64_t nonce,
                         struct px_error *error)
{
    const struct px_control *theirs = control;
    (void)arg;
    if (theirs->magic != PX_CONTROL_MAGIC || theirs->version != PX_CONTROL_VERSION ||
        theirs->size != sizeof(*theirs))
        return px_error_set(error, PX_ERR_PROTOCOL,
                            "its control area has magic %x, version %u, size %u; expected %x, %u, "
                            "%zu: another version "
                            "of the library?",
                            theirs->magic, theirs->version, theirs->size,
                            (unsigned)PX_CONTROL_MAGIC, PX_CONTROL_VERSION, sizeof(*theirs));
    if (theirs->pe != rank || theirs->nonce != nonce)
        return px_error_set(error, PX_ERR_PROTOCOL, "the memory received is that of PE %u",
                            theirs->pe);
    return PX_OK;
}

/* What the window holds in front of programs' memory. */
static size_t data_start(const struct px_startup *startup)
{
    size_t granularity = px_heap_granularity(startup->memory, startup->facts->size);
    size_t start = px_heap_data_start(px_world.heap, granularity);
    return px_on_gpu ? start + px_gpumem_front_bytes() : start;
}

static px_status place(struct px_startup *startup, int round, struct px_error *error)
{
    uintptr_t base;
    size_t span;
    char note[PX_HEAP_NOTE_MAX];
    px_status status =
        px_heap_agree(startup->memory, startup->facts->size,
                      data_start(startup) + startup->heap_bytes, &base, &span, note, error);
    if (status != PX_OK)
        return status;
    if (note[0])
        px_info(PX_SUB_MEM, "%s", note);
    status = px_heap_place(px_world.heap, base, span, error);
    if (status == PX_OK && px_on_gpu)
        status = px_gpumem_place(startup->memory, startup->facts->size, round == ROUNDS - 1, error);
    return status;
}

void px_startup_peers(struct px_heap_peer *peers)
{
    const struct px_boot_facts *facts = current->facts;
    for (uint32_t i = 0; i < facts->local_size; i++)
        peers[i] = (struct px_heap_peer){.rank = facts->local_ranks[i],
                                         .card = &current->memory[facts->local_ranks[i]]};
}

static bool same_gpu(const struct px_startup *startup, uint32_t a, uint32_t b)
{
    const struct px_card_seat *x = &startup->cards[a].seat, *y = &startup->cards[b].seat;
    return x->has_gpu && y->has_gpu && startup->facts->node_of[a] == startup->facts->node_of[b] &&
           memcmp(x->gpu_uuid, y->gpu_uuid, sizeof(x->gpu_uuid)) == 0;
}

void px_startup_gpus(uint32_t *gpu_of)
{
    for (uint32_t pe = 0; pe < current->facts->size; pe++) {
        gpu_of[pe] = current->cards[pe].seat.has_gpu ? 0 : pe;
        while (gpu_of[pe] < pe && !same_gpu(current, gpu_of[pe], pe))
            gpu_of[pe]++;
    }
}

/* Map the PEs of this node. Those that cannot be mapped stay remote, which only works where there is a transport. */
static px_status attach(struct px_startup *startup, int round, struct px_error *error)
{
    const struct px_boot_facts *facts = startup->facts;
    struct px_heap_peer *peers = calloc(facts->local_size, sizeof(*peers));
    if (!peers)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u peers", facts->local_size);
    px_startup_peers(peers);
    px_status status =
        px_heap_attach(px_world.heap, peers, facts->local_size, confirm, NULL, error);
    free(peers);
    if (status == PX_ERR_UNREACHABLE && round == ROUNDS - 1 && startup->want_remote) {
        px_warn("%s: traffic goes through the network instead", error->text);
        status = error->status = PX_OK;
    }
    return status;
}

static void fill_deltas(const struct px_startup *startup)
{
    px_peers.any_remote = false;
    for (uint32_t pe = 0; pe < startup->facts->size; pe++) {
        bool hidden = px_world.env.disable_p2p && pe != startup->facts->rank;
        px_peers.delta[pe] = hidden ? PX_NOT_MAPPED : px_heap_delta(px_world.heap, pe);
        px_peers.any_remote |= px_peers.delta[pe] == PX_NOT_MAPPED;
    }
}

static px_status no_common_transport(const struct px_startup *startup, struct px_error *error)
{
    if (!startup->cards[startup->facts->rank].transports)
        return px_error_set(error, PX_ERR_UNREACHABLE, "no transport to other nodes works here: %s",
                            startup->refused);
    for (uint32_t pe = 0; pe < startup->facts->size; pe++) {
        if (startup->cards[pe].transports)
            continue;
        char name[128];
        return px_error_set(error, PX_ERR_UNREACHABLE, "no transport to other nodes works on %s",
                            px_world_pe_name(pe, name, sizeof(name)));
    }
    return px_error_set(
        error, PX_ERR_UNREACHABLE,
        "no transport works on all nodes: set NVSHMEM_REMOTE_TRANSPORT to see why one does not%s%s",
        startup->refused[0] ? "; refused here: " : "", startup->refused);
}

/* The first transport of the list that works everywhere: the same on all PEs, as all see the same cards. */
static px_status open_transport(struct px_startup *startup, struct px_verdict *verdict,
                                struct px_error *error)
{
    uint32_t common = UINT32_MAX;
    for (uint32_t pe = 0; pe < startup->facts->size; pe++)
        common &= startup->cards[pe].transports;
    if (!common)
        return no_common_transport(startup, error);
    const struct px_transport_ops *ops = px_transports[__builtin_ctz(common)];
    px_heap_facts(px_world.heap, &px_world.memory);
    transport_setup(startup, &startup->setup);
    px_status status = ops->open(&startup->setup, &px_peers.remote_self, verdict->address,
                                 &verdict->address_length, error);
    if (status != PX_OK)
        return px_error_context(error, "opening transport %s", ops->name);
    px_peers.remote = ops;
    verdict->transport = (uint8_t)__builtin_ctz(common);
    return PX_OK;
}

static bool any_failed(const struct px_startup *startup)
{
    for (uint32_t pe = 0; pe < startup->facts->size; pe++)
        if (startup->cards[pe].failed)
            return true;
    return false;
}

static bool any_chooses(const struct px_startup *startup)
{
    for (uint32_t pe = 0; pe < startup->facts->size; pe++)
        if (startup->cards[pe].choosing)
            return true;
    return false;
}

/* Until start-up ends this thread is where the threads that it starts belong. */
static px_status take_place(struct px_startup *startup, struct px_error *error)
{
    px_status status = px_place_decide(startup->cards, error);
    if (status == PX_OK && startup->want_remote && px_place_enter())
        startup->near_nic = true;
    return status;
}

/* What the round of choosing is for: everybody knows his GPU, and has memory for the round to come. */
static px_status take_gpu(struct px_startup *startup, struct px_error *error)
{
    px_status status = check_sizes(startup, error);
    if (status == PX_OK)
        status = check_kinds(startup, error);
    if (status == PX_OK)
        status = take_place(startup, error);
    return status == PX_OK && !px_world.heap ? px_world_create_heap(error) : status;
}

/* Between the two exchanges: everything that can go wrong on this PE alone. */
static px_status do_my_part(struct px_startup *startup, int round, struct px_verdict *verdict,
                            struct px_error *error)
{
    px_status status = check_sizes(startup, error);
    if (status == PX_OK)
        status = check_settings(startup, error);
    if (status == PX_OK)
        status = check_kinds(startup, error);
    if (status == PX_OK)
        status = take_place(startup, error);
    if (status == PX_OK)
        status = place(startup, round, error);
    if (status == PX_OK)
        status = attach(startup, round, error);
    if (status != PX_OK)
        return status;
    fill_deltas(startup);
    return startup->want_remote ? open_transport(startup, verdict, error) : PX_OK;
}

static px_status exchange_verdicts(struct px_startup *startup, int round,
                                   struct px_verdict *verdict, const struct px_error *mine,
                                   struct px_error *error)
{
    uint8_t bytes[PX_VERDICT_MAX];
    char key[16];
    size_t length;
    verdict->status = mine->status;
    snprintf(verdict->text, sizeof(verdict->text), "%.*s", (int)sizeof(verdict->text) - 1,
             mine->text);
    px_status status = px_verdict_encode(verdict, bytes, &length, error);
    snprintf(key, sizeof(key), "verdict%d", round);
    return status == PX_OK ? exchange(startup, key, bytes, length, decode_verdict, error) : status;
}

/* The same answer everywhere: PX_OK, PX_ERR_UNREACHABLE for one more round, or the first PE's failure in its words. */
static px_status judge(const struct px_startup *startup, bool last, struct px_error *error)
{
    bool again = false;
    for (uint32_t pe = 0; pe < startup->facts->size; pe++) {
        const struct px_verdict *verdict = &startup->verdicts[pe];
        char name[128];
        if (verdict->status == PX_OK)
            continue;
        if (verdict->status != PX_ERR_UNREACHABLE || last) {
            px_world.said_elsewhere = pe != startup->facts->rank;
            return px_error_set(error, verdict->status, "%s: %s",
                                px_world_pe_name(pe, name, sizeof(name)), verdict->text);
        }
        again = true;
    }
    return again ? PX_ERR_UNREACHABLE : PX_OK;
}

static px_status run_round(struct px_startup *startup, int round, struct px_error *mine,
                           struct px_error *error)
{
    struct px_verdict verdict = {.status = PX_OK};
    px_startup_close_transport(); /* of an earlier round: its window may have moved */
    px_status status = exchange_cards(startup, round, mine, error);
    if (status != PX_OK)
        return status;
    if (!any_failed(startup) && any_chooses(startup)) {
        (void)take_gpu(startup, mine); /* the next card tells */
        return PX_ERR_UNREACHABLE;
    }
    if (mine->status == PX_OK && !any_failed(startup))
        (void)do_my_part(startup, round, &verdict, mine); /* in `mine` */
    status = exchange_verdicts(startup, round, &verdict, mine, error);
    if (status == PX_OK)
        status = judge(startup, round == ROUNDS - 1, error);
    return status;
}

static px_status connect_transport(struct px_startup *startup, struct px_error *error)
{
    if (!px_peers.remote_self)
        return PX_OK;
    px_status status = px_peers.remote->connect(px_peers.remote_self, find_peer, startup, error);
    if (status == PX_OK && !px_on_gpu) /* the network has nothing to do with GPU memory */
        status = px_peers.remote->add_memory(px_peers.remote_self, startup->setup.control_bytes,
                                             px_world.memory.size, error);
    return status;
}

void px_startup_close_transport(void)
{
    if (px_peers.remote_self)
        px_peers.remote->close(px_peers.remote_self);
    px_peers.remote_self = NULL;
    px_peers.remote = &px_transport_none;
}

void px_startup_forget(void)
{
    if (!current)
        return;
    px_startup_close_transport();
    free(current->verdicts);
    free(current->memory);
    free(current->cards);
    free(current);
    current = NULL;
}

static struct px_startup *begin(size_t heap_bytes, struct px_error *error)
{
    const struct px_boot_facts *facts = px_world.facts;
    current = calloc(1, sizeof(*current));
    if (!current)
        goto fail;
    *current = (struct px_startup){
        .facts = facts,
        .cards = calloc(facts->size, sizeof(*current->cards)),
        .memory = calloc(facts->size, sizeof(*current->memory)),
        .verdicts = calloc(facts->size, sizeof(*current->verdicts)),
        .heap_bytes = heap_bytes,
        .want_remote = facts->size > 1 && (facts->nodes > 1 || px_world.env.disable_p2p),
    };
    if (current->cards && current->memory && current->verdicts)
        return current;
fail:
    px_startup_forget();
    px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the cards of %u PEs", facts->size);
    return NULL;
}

const struct px_card_seat *px_startup_seat(uint32_t pe)
{
    return &current->cards[pe].seat;
}

px_status px_startup_meet(size_t heap_bytes, struct px_error *mine, struct px_error *error)
{
    struct px_startup *startup = begin(heap_bytes, error);
    if (!startup)
        return error->status;
    px_peers.remote = &px_transport_none;
    px_status status = PX_ERR_UNREACHABLE;
    for (int round = 0; status == PX_ERR_UNREACHABLE && round < ROUNDS; round++) {
        if (mine->status == PX_ERR_UNREACHABLE)
            *mine = (struct px_error)PX_ERROR_INIT; /* what this round is for */
        status = run_round(startup, round, mine, error);
    }
    if (status == PX_OK) {
        px_heap_facts(px_world.heap, &px_world.memory);
        px_alloc_origin(px_heap_allocator(px_world.heap),
                        px_world.memory.apart ? 0 : px_world.memory.data);
        status = connect_transport(startup, error);
    }
    if (startup->near_nic)
        px_place_leave();
    if (status != PX_OK)
        px_startup_forget();
    return status;
}
