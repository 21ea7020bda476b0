/* SPDX-License-Identifier: BSD-3-Clause */
/* Where this PE sits: the NIC ports it should use and the processors for its helper threads, as topology/ decides them
 * for all PEs of the node. Asked only when there is a network to choose for: reading the machine takes longer than the
 * rest of start-up. */
#include "config.h"
#include "src/api/place.h"

#include <dirent.h>
#include <stdlib.h>

#include "src/api/world.h"
#include "src/diag/log.h"

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

static px_status decide(const struct px_topology_machine *machine, struct px_topology_plan **plan,
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
    struct px_topology_cpus mine;
    struct px_topology_pe *pes = calloc(facts->local_size, sizeof(*pes));
    if (!pes)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %u PEs", facts->local_size);
    for (uint32_t i = 0; i < facts->local_size; i++)
        pes[i].gpu = PX_TOPOLOGY_CHOOSE; /* the rest is not known of the others, so of nobody */
    if (px_topology_own_cpus(&mine, NULL) == PX_OK)
        pes[facts->local_rank].cpus = &mine;
    px_status status = px_topology_decide(machine, &options, pes, facts->local_size, plan, error);
    free(pes);
    return status;
}

px_status px_place_find(struct px_place *place, struct px_error *error)
{
    const struct px_topology_source here = {.xml_file = NULL};
    struct px_topology_machine *machine;
    struct px_topology_plan *plan = NULL;
    *place = (struct px_place){.nics = ""};
    if (!has_rdma_devices() && !px_world.env.helper_cpus[0])
        return PX_OK;
    px_status status = px_topology_read(&here, &machine, error);
    if (status != PX_OK)
        return status;
    status = decide(machine, &plan, error);
    if (status == PX_OK) {
        const struct px_topology_choice *choice = &plan->pes[px_world.facts->local_rank];
        px_topology_nics_text(machine, choice, place->nics, sizeof(place->nics));
        place->helpers = choice->helpers;
        if (plan->warnings[0])
            px_warn_once_per_node("%s", plan->warnings);
        px_info(PX_SUB_TOPO, "NICs \"%s\": %s", place->nics, choice->reason);
    }
    px_topology_plan_free(plan);
    px_topology_free(machine);
    return status;
}
