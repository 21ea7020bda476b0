/* SPDX-License-Identifier: BSD-3-Clause */
/* Joins src/gpu to the life of the library: see gpumem.h. The host control area of a PE with GPU
 * memory has two parts more, behind the team slots: the card that tells the peers of the node where
 * its GPU memory is, and a stage for each team (coll/far.c).
 *
 * NVSHMEM_HEAP_KIND=AUTO without a GPU says nothing by default, as most such nodes never had one; the
 * reason is in the messages of NVSHMEM_DEBUG=INFO. Where a GPU is there but cannot serve, it is said. */
#include "config.h"
#include "src/api/gpumem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/api/place.h"
#include "src/coll/coll.h"
#include "src/device/device.h"
#include "src/diag/log.h"
#include "src/transport/move.h"

#if PX_HAVE_CUDA
#include "src/gpu/far.h"
#include "src/gpu/move.h"
#include "src/gpu/window.h"
#include "src/stream/stream.h"

#define PAGE ((size_t)4096)

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t card_offset(void)
{
    return PX_CONTROL_BYTES +
           pages(px_coll_control_bytes((uint32_t)px_world.env.max_teams, px_world.facts->size));
}

size_t px_gpumem_host_bytes(void)
{
    size_t stages = (size_t)px_world.env.max_teams * PX_COLL_STAGE_BYTES;
    return PAGE + pages(sizeof(struct px_gpu_card)) + pages(px_gpu_far_bytes()) + stages;
}

static size_t far_offset(void)
{
    return card_offset() + pages(sizeof(struct px_gpu_card));
}

uintptr_t px_gpumem_stages(void)
{
    return px_world.memory.base + far_offset() + pages(px_gpu_far_bytes());
}

/* --- choose --- */

static struct px_gpu_view view; /* of this process */

static bool is_listed(const struct px_card_seat *seat, uint64_t pci)
{
    for (size_t i = 0; i < seat->n_visible; i++)
        if (seat->visible[i] == pci)
            return true;
    return false;
}

/* What the driver says of this PE, for the others. */
static px_status take_seat(struct px_error *error)
{
    struct px_card_seat seat = {.has_gpu = false};
    bool undecided = px_on_gpu && !view.has_current && view.n_visible > 1;
    if (px_on_gpu && view.has_current) {
        seat.has_gpu = true;
        seat.gpu = view.current.pci;
        memcpy(seat.gpu_uuid, view.current.uuid, sizeof(seat.gpu_uuid));
    }
    for (size_t i = 0; px_on_gpu && !view.has_current && i < view.n_visible; i++)
        if (!is_listed(&seat, view.visible[i].pci) && seat.n_visible < PX_CARD_GPUS_MAX)
            seat.visible[seat.n_visible++] = view.visible[i].pci;
    return px_place_look(&seat, undecided, error);
}

static bool demanded(void)
{
    return strcmp(px_world.env.heap_kind, "DEVICE") == 0;
}

/* There is no GPU memory: an error where it was demanded, else the reason is kept. */
static px_status do_without(px_status status, const char *why, struct px_error *error)
{
    px_world.on_gpu = false;
    px_world.describe_gpu = NULL;
    if (demanded())
        return px_error_set(error, status,
                            "NVSHMEM_HEAP_KIND is DEVICE, but there is no GPU memory: %s", why);
    snprintf(px_gpu.why_not, sizeof(px_gpu.why_not), "%.*s", (int)sizeof(px_gpu.why_not) - 1, why);
    if (status == PX_ERR_NOT_FOUND || status == PX_ERR_UNSUPPORTED)
        px_info(PX_SUB_INIT, "symmetric memory is host memory: %s", why);
    else
        px_warn_once_per_node("symmetric memory is host memory: %s", why);
    return PX_OK;
}

px_status px_gpumem_choose(struct px_error *error)
{
    struct px_error why = PX_ERROR_INIT;
    px_status status = PX_OK, found = PX_OK;
    px_world.on_gpu = strcmp(px_world.env.heap_kind, "SYSMEM") != 0;
    if (px_on_gpu && (found = px_gpu_look(px_world.env.cuda_path, &view, &why)) != PX_OK)
        status = do_without(found, why.text, error);
    return status == PX_OK ? take_seat(error) : status;
}

px_status px_gpumem_open(struct px_error *error)
{
    struct px_error why = PX_ERROR_INIT;
    px_status status = px_gpu_open(px_world.place.gpu, px_world.place.gpu_share, &why);
    if (status != PX_OK) {
        px_place_no_gpu();
        return do_without(status, why.text, error);
    }
    px_world.describe_gpu = px_gpu_describe;
    px_place_took_gpu(px_gpu.id.pci, px_gpu.id.uuid);
    return PX_OK;
}

size_t px_gpumem_front_bytes(void)
{
    return PX_GPU_ALIGN + PX_GPU_CONTROL_BYTES;
}

void px_gpumem_heap_options(struct px_heap_options *options)
{
    size_t total = 0, unused;
    options->data_elsewhere = true;
    options->front_bytes = px_gpumem_front_bytes();
    options->granularity = px_gpu_window_granularity();
    if (!options->max_size && px_gpu_memory(&unused, &total, NULL) == PX_OK)
        options->max_size = total > options->size ? total : options->size;
    if (!options->max_size)
        options->max_size = options->size;
}

px_gpumem_note_fn *px_gpumem_take_note(void)
{
    return px_on_gpu ? px_gpu_take_note : NULL;
}

px_status px_gpumem_create(size_t bytes, struct px_error *error)
{
    px_status status = px_gpu_window_create(bytes, px_world.env.disable_cuda_vmm, error);
    if (status == PX_OK && !px_gpu.vmm)
        px_warn_once_per_node("GPU memory without CUDA VMM: symmetric addresses may differ between "
                              "PEs and the heap cannot grow");
    return status;
}

px_status px_gpumem_place(const struct px_heap_card *cards, uint32_t n_pes, bool anywhere,
                          struct px_error *error)
{
    struct px_heap_facts facts;
    uintptr_t data;
    size_t room;
    px_heap_facts(px_world.heap, &facts);
    size_t granularity = px_heap_granularity(cards, n_pes);
    uintptr_t start = facts.base + px_heap_data_start(px_world.heap, granularity);
    start = (start + PX_GPU_ALIGN - 1) / PX_GPU_ALIGN * PX_GPU_ALIGN;
    const struct px_gpu_place place = {
        .start = anywhere ? 0 : start, .span = facts.base + facts.span - start, .granularity = granularity};
    px_status status = px_gpu_window_place(&place, &data, &room, error);
    if (status == PX_ERR_UNREACHABLE)
        px_heap_avoid(px_world.heap);
    if (status == PX_OK)
        px_heap_data_at(px_world.heap, data, room);
    if (status == PX_OK && (anywhere || !px_gpu.vmm))
        px_heap_data_apart(px_world.heap);
    if (status == PX_OK && anywhere && px_gpu.vmm)
        px_warn_once_per_node("CUDA refuses the addresses that are free on all PEs: symmetric "
                              "addresses of GPU memory differ between PEs");
    return status;
}

void px_gpumem_give_up(const char *why)
{
    px_gpu_window_destroy();
    px_gpu_close();
    px_place_no_gpu();
    px_world.on_gpu = false;
    px_world.describe_gpu = NULL;
    px_warn_once_per_node("symmetric memory is host memory: %s", why);
}

/* --- connect --- */

static struct px_gpu_card *card_of(uintptr_t delta)
{
    return (struct px_gpu_card *)(px_world.memory.base + card_offset() + delta);
}

static const struct px_gpu_card *peer_card(void *arg, uint32_t rank)
{
    intptr_t delta = px_heap_delta(px_world.heap, rank);
    (void)arg;
    return delta == PX_HEAP_NOT_MAPPED ? NULL : card_of((uintptr_t)delta);
}

static void meet(void *arg)
{
    static const struct px_call call = {.name = "mapping GPU memory"};
    (void)arg;
    px_sync(px_team_world(), &call);
}

static void attach_peers(void)
{
    uint32_t n = px_world.facts->local_size;
    if (px_world.env.disable_p2p) /* the same on all PEs */
        return;
    struct px_heap_peer *peers = calloc(n, sizeof(*peers));
    if (!peers)
        px_fatal(1, "mapping GPU memory: no memory for %u peers", n);
    px_startup_peers(peers);
    px_gpu_window_attach(&(struct px_gpu_attach){.heap = px_world.heap,
                                                 .peers = peers,
                                                 .n_peers = n,
                                                 .my_pe = px_world.facts->rank,
                                                 .card_of = peer_card,
                                                 .meet = meet});
    free(peers);
}

static bool sees(const uint8_t uuid[16])
{
    for (size_t i = 0; i < view.n_visible; i++)
        if (memcmp(view.visible[i].uuid, uuid, sizeof(view.visible[i].uuid)) == 0)
            return true;
    return false;
}

/* Peers of the node whose memory cannot be mapped because this process does not see their GPU: a
 * matter of the job's options, not of the machine. */
static void tell_hidden(void)
{
    const struct px_boot_facts *facts = px_world.facts;
    char advice[1024];
    if (px_world.env.disable_p2p)
        return;
    px_topology_pci *hidden = calloc(facts->local_size, sizeof(*hidden));
    for (uint32_t i = 0; hidden && i < facts->local_size; i++) {
        uint32_t pe = facts->local_ranks[i];
        const struct px_card_seat *seat = px_startup_seat(pe);
        bool lost = px_gpu.delta[pe] == PX_NOT_MAPPED && seat->has_gpu && !sees(seat->gpu_uuid);
        hidden[i] = lost ? seat->gpu : PX_TOPOLOGY_PCI_NONE;
    }
    if (hidden && px_topology_hidden_gpus(hidden, facts->local_size, advice, sizeof(advice)) &&
        px_log_first_on_node("hidden GPUs")) /* each PE would name others */
        px_warn("%s", advice);
    free(hidden);
}

static bool maps_all(void)
{
    for (uint32_t pe = 0; pe < px_peers.n_pes; pe++)
        if (px_gpu.delta[pe] == PX_NOT_MAPPED)
            return false;
    return true;
}

/* Everybody serves when anybody has to be served. */
static px_status start_agents(struct px_error *error)
{
    static const struct px_call call = {.name = "starting to serve GPU memory"};
    px_status status = PX_OK;
    px_gpu.far = px_agree_min(px_team_world(), maps_all(), &call) == 0;
    if (!px_gpu.far)
        return PX_OK;
    status = px_gpu_agent_start(error);
    if (px_agree_min(px_team_world(), status == PX_OK, &call) == 0 && status == PX_OK)
        status = px_error_set(error, PX_ERR_SYSTEM, "another PE cannot serve its GPU memory");
    return status;
}

/* PEs of the node whose cards name this GPU. */
static uint32_t sharers(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < px_world.facts->local_size; i++) {
        const struct px_gpu_card *card = peer_card(NULL, px_world.facts->local_ranks[i]);
        count += card && memcmp(card->uuid, card_of(0)->uuid, sizeof(card->uuid)) == 0;
    }
    return count;
}

static px_status open_device(struct px_error *error)
{
    const struct px_device_setup setup = {
        .heap = px_world.memory.data,
        .heap_bytes = px_world.memory.base + px_world.memory.span - px_world.memory.data,
        .max_teams = (uint32_t)px_world.env.max_teams,
        .sharers = sharers(),
    };
    return px_device_open(&setup, error);
}

static uint32_t n_registered; /* pieces of GPU memory that the network knows */

static px_status register_new(struct px_error *error)
{
    const struct px_transport_ops *network = px_gpu_far.network;
    uintptr_t start;
    size_t bytes;
    px_status status = PX_OK;
    while (status == PX_OK && px_gpu_window_piece(n_registered, &start, &bytes)) {
        status = network->add_gpu_memory(px_gpu_far.network_self, start - px_world.memory.base,
                                         bytes, px_gpu_dmabuf, error);
        n_registered += status == PX_OK;
    }
    return status;
}

/* From piece `first` on; those in front stay. */
static void unregister_from(uint32_t first)
{
    uintptr_t start = px_gpu.control;
    size_t bytes;
    (void)px_gpu_window_piece(first, &start, &bytes); /* there is one, or the first will do */
    px_gpu_far.network->drop_memory(px_gpu_far.network_self, start - px_world.memory.base);
    n_registered = first;
}

/* All by the network itself, or all staged. */
static void try_direct(void)
{
    static const struct px_call call = {.name = "registering GPU memory"};
    struct px_error why = PX_ERROR_INIT;
    n_registered = 0;
    if (!px_gpu.far || px_gpu_far.network == &px_transport_none)
        return;
    px_status status = PX_ERR_UNSUPPORTED;
    if (px_gpu.vmm && !px_world.memory.apart)
        status = register_new(&why);
    else
        px_error_set(&why, status, "its address differs between PEs");
    px_gpu.direct = px_agree_min(px_team_world(), status == PX_OK, &call) == 1;
    if (!px_gpu.direct) {
        unregister_from(0);
        px_info(PX_SUB_TRANSPORT, "GPU memory of other nodes is staged through host memory: %s",
                status == PX_OK ? "another PE's network cannot reach it" : why.text);
    }
}

static px_status grown(struct px_error *error)
{
    attach_peers();
    return px_gpu.direct ? register_new(error) : PX_OK;
}

static void dropped(void)
{
    if (px_gpu.direct)
        unregister_from(1);
}

static const struct px_gpu_hooks hooks = {.grown = grown, .dropped = dropped};

px_status px_gpumem_connect(struct px_error *error)
{
    px_gpu.delta = malloc(px_peers.n_pes * sizeof(*px_gpu.delta));
    if (!px_gpu.delta)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for tables of %u PEs",
                            px_peers.n_pes);
    for (uint32_t pe = 0; pe < px_peers.n_pes; pe++)
        px_gpu.delta[pe] = pe == px_peers.my_pe ? 0 : PX_NOT_MAPPED;
    px_gpu.heap = true;
    px_gpu_window_publish(card_of(0));
    px_gpu_far_init((void *)(px_world.memory.base + far_offset()));
    meet(NULL);
    attach_peers();
    tell_hidden();
    px_gpu_move_on_growth(&hooks);
    bool moved = px_place_enter(); /* agents and proxies start where helpers belong */
    px_status status = px_gpu_move_open(error);
    if (status == PX_OK)
        status = start_agents(error);
    if (status == PX_OK) {
        try_direct();
        status = open_device(error);
    }
    if (moved)
        px_place_leave();
    return status;
}

void px_gpumem_disconnect(void)
{
    px_stream_close();
    px_device_close();
    px_gpu_agent_stop();
    px_gpu_move_close();
    free(px_gpu.delta);
    px_gpu.delta = NULL;
    px_gpu.heap = px_gpu.far = px_gpu.direct = false;
}

void px_gpumem_close(void)
{
    px_gpu_window_destroy();
    px_gpu_close();
    px_world.on_gpu = false;
    px_world.describe_gpu = NULL;
}

/* --- memory --- */

px_status px_gpumem_grow(size_t bytes, struct px_error *error)
{
    px_status status = px_gpu_window_grow(bytes, error);
    px_gpu_window_publish(card_of(0));
    return status;
}

void px_gpumem_undo(size_t bytes)
{
    px_gpu_window_undo(bytes);
    px_gpu_window_publish(card_of(0));
}

px_status px_gpumem_reset(size_t bytes, struct px_error *error)
{
    px_status status = px_gpu_window_reset(bytes, error);
    px_gpu_window_publish(card_of(0));
    return status;
}

void px_gpumem_clear(void *address, size_t bytes)
{
    px_gpu_clear(address, bytes);
}

void *px_gpumem_ptr(const void *dest, uint32_t pe)
{
    intptr_t delta = px_gpu.delta[pe];
    return delta == PX_NOT_MAPPED ? NULL : (void *)((uintptr_t)dest + (uintptr_t)delta);
}

const char *px_gpumem_free_words(char *text, size_t size)
{
    size_t free_bytes, total;
    text[0] = '\0';
    if (px_gpu_memory(&free_bytes, &total, NULL) == PX_OK)
        snprintf(text, size, "; %s has %zu of %zu MiB free", px_gpu.name, free_bytes >> 20,
                 total >> 20);
    return text;
}

const char *px_gpumem_words(char *text, size_t size)
{
    snprintf(text, size, "%s, %s", px_gpu.name, px_gpu_window_words());
    return text;
}

#else /* !PX_HAVE_CUDA */

px_status px_gpumem_choose(struct px_error *error)
{
    static const struct px_card_seat no_gpu;
    px_world.on_gpu = false;
    if (strcmp(px_world.env.heap_kind, "DEVICE") == 0)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "NVSHMEM_HEAP_KIND is DEVICE, but this library was built without CUDA: "
                            "use SYSMEM or AUTO, or build it with the CUDA toolkit");
    return px_place_look(&no_gpu, false, error);
}

px_gpumem_note_fn *px_gpumem_take_note(void)
{
    return NULL;
}
#endif
