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

#include "src/coll/coll.h"
#include "src/diag/log.h"
#include "src/transport/move.h"

#if PX_HAVE_CUDA
#include "src/gpu/far.h"
#include "src/gpu/move.h"
#include "src/gpu/window.h"

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

static uint32_t local_index(void)
{
    for (uint32_t i = 0; i < px_world.facts->local_size; i++)
        if (px_world.facts->local_ranks[i] == px_world.facts->rank)
            return i;
    return 0;
}

static px_status try_gpu(struct px_error *error)
{
    return px_gpu_open(px_world.env.cuda_path, local_index(), error);
}

px_status px_gpumem_choose(struct px_error *error)
{
    struct px_error why = PX_ERROR_INIT;
    const char *kind = px_world.env.heap_kind;
    px_world.on_gpu = false;
    if (strcmp(kind, "SYSMEM") == 0)
        return PX_OK;
    px_status status = try_gpu(&why);
    px_world.on_gpu = status == PX_OK;
    px_world.describe_gpu = status == PX_OK ? px_gpu_describe : NULL;
    if (status == PX_OK)
        return PX_OK;
    if (strcmp(kind, "DEVICE") == 0)
        return px_error_set(
            error, status, "NVSHMEM_HEAP_KIND is DEVICE, but there is no GPU memory: %s", why.text);
    snprintf(px_gpu.why_not, sizeof(px_gpu.why_not), "%.*s", (int)sizeof(px_gpu.why_not) - 1,
             why.text);
    if (status == PX_ERR_NOT_FOUND || status == PX_ERR_UNSUPPORTED)
        px_info(PX_SUB_INIT, "symmetric memory is host memory: %s", why.text);
    else
        px_warn_once_per_node("symmetric memory is host memory: %s", why.text);
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
    px_gpu_move_on_growth(attach_peers);
    px_status status = px_gpu_move_open(error);
    return status == PX_OK ? start_agents(error) : status;
}

void px_gpumem_disconnect(void)
{
    px_gpu_agent_stop();
    px_gpu_move_close();
    free(px_gpu.delta);
    px_gpu.delta = NULL;
    px_gpu.heap = false;
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
    px_world.on_gpu = false;
    if (strcmp(px_world.env.heap_kind, "DEVICE") == 0)
        return px_error_set(error, PX_ERR_UNSUPPORTED,
                            "NVSHMEM_HEAP_KIND is DEVICE, but this library was built without CUDA: "
                            "use SYSMEM or AUTO, or build it with the CUDA toolkit");
    return PX_OK;
}

px_gpumem_note_fn *px_gpumem_take_note(void)
{
    return NULL;
}
#endif
