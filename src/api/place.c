/* SPDX-License-Identifier: BSD-3-Clause */
/* Between start-up and topology/: see place.h. The machine is read only where something depends on
 * it, for that takes longer than the rest of start-up. */
#include "config.h"
#include "src/api/place.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "src/api/gpumem.h"
#include "src/api/world.h"
#include "src/diag/log.h"

static struct {
    struct px_topology_machine *machine; /* NULL: nothing depends on it */
    struct px_topology_cpus cpus;        /* those of the program */
    struct px_card_seat seat;
    bool undecided, decided;
} here;

static bool has_rdma_devices(void)
{
    DIR *devices = opendir("/sys/class/infiniband");
    bool any = false;
    for (struct dirent *entry; devices && !any && (entry = readdir(devices));)
        any = entry->d_name[0] != '.';
    if (devices)
        closedir(devices);
    return any;
}

static bool wants_network(void)
{
    return px_world.facts->size > 1 && (px_world.facts->nodes > 1 || px_world.env.disable_p2p);
}

static bool needs_machine(bool several_gpus)
{
    /* hwloc itself obeys HWLOC_XMLFILE: a machine that is described may have what this one lacks. */
    bool nics = wants_network() && (has_rdma_devices() || px_env_is_set("HWLOC_XMLFILE"));
    return several_gpus || nics || px_world.env.helper_cpus[0];
}

/* --- decide --- */

static const struct px_card_seat *seat_of(const struct px_card *cards, uint32_t local)
{
    return cards ? &cards[px_world.facts->local_ranks[local]].seat : &here.seat;
}

/* All PEs must see one machine, also where containers show each only its own GPUs. */
static px_status add_gpus(const struct px_card *cards, struct px_error *error)
{
    px_status status = PX_OK;
    for (uint32_t i = 0; i < px_world.facts->local_size && status == PX_OK; i++) {
        const struct px_card_seat *seat = seat_of(cards, i);
        status = px_topology_add_gpus(here.machine, seat->visible, seat->n_visible, error);
        if (status == PX_OK && seat->has_gpu)
            status = px_topology_add_gpus(here.machine, &seat->gpu, 1, error);
    }
    return status;
}

static struct px_topology_pe describe(const struct px_card_seat *seat)
{
    struct px_topology_pe pe = {
        .gpu = PX_TOPOLOGY_NO_GPU, .numa_mask = seat->numa_mask, .ordered = true};
    for (size_t i = 0; i < seat->n_visible; i++) {
        int gpu = px_topology_find_gpu(here.machine, seat->visible[i]);
        pe.gpu_mask |= (uint64_t)1 << gpu;
        pe.gpu_number[gpu] = (uint8_t)i;
    }
    if (seat->has_gpu)
        pe.gpu = px_topology_find_gpu(here.machine, seat->gpu);
    else if (seat->n_visible)
        pe.gpu = PX_TOPOLOGY_CHOOSE;
    return pe;
}

static px_status plan_node(const struct px_card *cards, struct px_topology_plan **plan,
                           struct px_error *error)
{
    const struct px_env *env = &px_world.env;
    const struct px_boot_facts *facts = px_world.facts;
    const struct px_topology_options options = {
        .nic_pe_mapping = env->enable_nic_pe_mapping,
        .hca_list = env->hca_list,
        .hca_pe_mapping = env->hca_pe_mapping,
        .hca_prefix = env->hca_prefix,
        .helper_cpus = env->helper_cpus,
    };
    px_status status = add_gpus(cards, error);
    if (status != PX_OK)
        return status;
    struct px_topology_pe *pes = calloc(facts->local_size, sizeof(*pes));
    if (!pes)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", facts->local_size);
    for (uint32_t i = 0; i < facts->local_size; i++)
        pes[i] = describe(seat_of(cards, i));
    pes[facts->local_rank].cpus = &here.cpus;
    status = px_topology_decide(here.machine, &options, pes, facts->local_size, plan, error);
    free(pes);
    return status;
}

static uint32_t count_before(const struct px_topology_plan *plan, uint32_t local)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < local; i++)
        n += plan->pes[i].gpu == plan->pes[local].gpu;
    return n;
}

static void follow(const struct px_topology_plan *plan)
{
    uint32_t local = px_world.facts->local_rank;
    const struct px_topology_choice *choice = &plan->pes[local];
    struct px_place *place = &px_world.place;
    px_topology_nics_text(here.machine, choice, place->nics, sizeof(place->nics));
    place->helpers = choice->helpers;
    if (choice->gpu < 0)
        return;
    place->gpu = here.machine->gpus[choice->gpu].pci;
    place->gpu_share = count_before(plan, local);
}

/* What can be said without the machine. */
static void follow_seat(void)
{
    px_world.place = (struct px_place){.nics = "", .gpu = PX_TOPOLOGY_PCI_NONE};
    if (here.seat.has_gpu)
        px_world.place.gpu = here.seat.gpu;
    else if (here.seat.n_visible)
        px_world.place.gpu = here.seat.visible[0];
}

static const char *seat_reason(void)
{
    return here.seat.n_visible == 1 ? "the only GPU visible"
           : here.seat.has_gpu      ? "the GPU is in use by the program already"
                                    : "nothing to choose";
}

/* NULL where the machine was not read. */
static void say_plan(const struct px_topology_plan *plan)
{
    const struct px_place *place = &px_world.place;
    char gpu[PX_TOPOLOGY_PCI_TEXT_MAX], helpers[128];
    px_topology_pci_text(place->gpu, gpu);
    px_topology_cpus_text(&place->helpers, helpers, sizeof(helpers));
    if (plan && plan->warnings[0])
        px_warn_once_per_node("%s", plan->warnings);
    px_info(PX_SUB_TOPO, "local PE %u: GPU %s, NICs \"%s\", helper threads on %s: %s",
            px_world.facts->local_rank, gpu, place->nics, helpers[0] ? helpers : "any processor",
            plan ? plan->pes[px_world.facts->local_rank].reason : seat_reason());
}

/* NULL for `cards`: all PEs are like this one. */
static px_status decide(const struct px_card *cards, struct px_error *error)
{
    struct px_topology_plan *plan = NULL;
    follow_seat();
    if (here.machine) {
        px_status status = plan_node(cards, &plan, error);
        if (status != PX_OK)
            return status;
        follow(plan);
    } else {
        px_topology_beside(&here.cpus, &px_world.place.helpers);
    }
    if (cards)
        say_plan(plan);
    px_topology_plan_free(plan);
    return PX_OK;
}

/* --- what start-up calls --- */

px_status px_place_look(const struct px_card_seat *gpus, bool undecided, struct px_error *error)
{
    px_place_forget();
    here.seat = *gpus;
    here.undecided = undecided && px_world.facts->local_size > 1;
    follow_seat();
    px_status status = px_topology_own_cpus(&here.cpus, error);
    if (status == PX_OK && needs_machine(undecided))
        status = px_topology_read(NULL, &here.machine, error);
    if (status != PX_OK)
        return status;
    if (here.machine)
        here.seat.numa_mask = px_topology_numa_mask(here.machine, &here.cpus);
    return decide(NULL, error);
}

bool px_place_undecided(void)
{
    return here.undecided && !here.decided;
}

const struct px_card_seat *px_place_seat(void)
{
    return &here.seat;
}

void px_place_took_gpu(px_topology_pci gpu, const uint8_t uuid[16])
{
    here.seat.has_gpu = true;
    here.seat.gpu = gpu;
    memcpy(here.seat.gpu_uuid, uuid, sizeof(here.seat.gpu_uuid));
    if (here.seat.n_visible > 1)
        here.seat.n_visible = 0; /* no longer of interest to the others */
    here.undecided = false;
}

void px_place_no_gpu(void)
{
    here.seat.has_gpu = false;
    here.seat.n_visible = 0;
    here.undecided = here.decided = false;
}

px_status px_place_decide(const struct px_card *cards, struct px_error *error)
{
    if (here.decided)
        return PX_OK;
    px_status status = decide(cards, error);
    here.decided = status == PX_OK;
    return status;
}

void px_place_forget(void)
{
    px_topology_free(here.machine);
    memset(&here, 0, sizeof(here));
}

bool px_place_enter(void)
{
    return !px_topology_cpus_empty(&px_world.place.helpers) &&
           px_topology_bind_thread(&px_world.place.helpers, NULL) == PX_OK;
}

void px_place_leave(void)
{
    (void)px_topology_bind_thread(&here.cpus, NULL); /* these were allowed a moment ago */
}
