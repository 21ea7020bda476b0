/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan for a node: selection, assignment and helper threads put together, and what a plan tells
 * of hidden GPUs. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void px_topology_plan_free(struct px_topology_plan *plan)
{
    if (!plan)
        return;
    for (size_t pe = 0; pe < plan->n_pes && plan->pes; pe++)
        free(plan->pes[pe].nics);
    free(plan->pes);
    free(plan->ports);
    free(plan->warnings);
    free(plan);
}

static struct px_topology_plan *new_plan(const struct px_topology_machine *machine, size_t n_pes)
{
    struct px_topology_plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return NULL;
    plan->n_pes = n_pes;
    plan->pes = calloc(n_pes + 1, sizeof(*plan->pes));
    plan->ports = calloc(machine->n_ports + 1, sizeof(*plan->ports));
    if (plan->pes && plan->ports)
        return plan;
    px_topology_plan_free(plan);
    return NULL;
}

static px_status place_helpers(const struct px_topology_machine *machine,
                               const struct px_topology_options *options,
                               const struct px_topology_pe *pes, struct px_topology_plan *plan,
                               struct px_error *error)
{
    for (size_t pe = 0; pe < plan->n_pes; pe++) {
        struct px_topology_choice *choice = &plan->pes[pe];
        const struct px_topology_place *near = NULL;
        if (choice->n_nics)
            near = &machine->ports[choice->nics[0].port].place;
        else if (choice->gpu >= 0)
            near = &machine->gpus[choice->gpu].place;
        px_status status = px_topology_helpers(machine, options->helper_cpus, pes[pe].cpus, near,
                                               &choice->helpers, error);
        if (status != PX_OK)
            return status;
    }
    return PX_OK;
}

static px_status fill(const struct px_topology_machine *machine,
                      const struct px_topology_options *options, const struct px_topology_pe *pes,
                      struct px_topology_plan *plan, FILE *warnings, struct px_error *error)
{
    int *chosen = calloc(plan->n_pes + 1, sizeof(*chosen));
    if (!chosen)
        return px_error_errno(error, ENOMEM, "planning the node");
    px_status status = px_topology_assign_gpus(machine, pes, plan, error);
    if (status == PX_OK)
        status =
            px_topology_select(machine, options, plan->n_pes, plan->ports, chosen, warnings, error);
    if (status == PX_OK)
        status = px_topology_assign_nics(machine, pes, chosen, plan, error);
    if (status == PX_OK)
        status = place_helpers(machine, options, pes, plan, error);
    free(chosen);
    return status;
}

px_status px_topology_decide(const struct px_topology_machine *machine,
                             const struct px_topology_options *options,
                             const struct px_topology_pe *pes, size_t n_pes,
                             struct px_topology_plan **plan, struct px_error *error)
{
    static const struct px_topology_options no_wishes;
    struct px_topology_plan *result = new_plan(machine, n_pes);
    size_t length;
    FILE *warnings = result ? open_memstream(&result->warnings, &length) : NULL;
    if (!warnings) {
        px_topology_plan_free(result);
        return px_error_errno(error, ENOMEM, "planning the node");
    }
    px_status status = fill(machine, options ? options : &no_wishes, pes, result, warnings, error);
    if (fclose(warnings) != 0 && status == PX_OK)
        status = px_error_errno(error, ENOMEM, "planning the node");
    if (status == PX_OK)
        *plan = result;
    else
        px_topology_plan_free(result);
    return status;
}

int px_topology_find_gpu(const struct px_topology_machine *machine, px_topology_pci pci)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (machine->gpus[i].pci == pci)
            return (int)i;
    return -1;
}

size_t px_topology_nics_text(const struct px_topology_machine *machine,
                             const struct px_topology_choice *choice, char *text, size_t size)
{
    size_t needed = 0;
    if (size)
        text[0] = '\0';
    for (size_t k = 0; k < choice->n_nics; k++) {
        const struct px_topology_port *port = &machine->ports[choice->nics[k].port];
        char one[PX_TOPOLOGY_NAME_MAX + 16];
        int length =
            snprintf(one, sizeof(one), "%s%s:%u", k ? "," : "", port->device, port->number);
        if (needed + (size_t)length < size)
            memcpy(text + needed, one, (size_t)length + 1);
        needed += (size_t)length;
    }
    return needed;
}

static bool named_before(const px_topology_pci *hidden, size_t pe)
{
    for (size_t i = 0; i < pe; i++)
        if (hidden[i] == hidden[pe])
            return true;
    return false;
}

size_t px_topology_hidden_gpus(const px_topology_pci *hidden, size_t n_pes, char *advice,
                               size_t size)
{
    size_t n = 0;
    advice[0] = '\0';
    for (size_t pe = 0; pe < n_pes; pe++) {
        char address[PX_TOPOLOGY_PCI_TEXT_MAX];
        if (hidden[pe] == PX_TOPOLOGY_PCI_NONE || named_before(hidden, pe))
            continue;
        px_topology_pci_text(hidden[pe], address);
        px_topology_say(advice, size, "%s%s (local PE %zu)",
                        n ? ", " : "GPUs of other PEs of this node are hidden here: ", address, pe);
        n++;
    }
    if (n)
        px_topology_say(advice, size,
                        "; their memory cannot be mapped, so access to it is slow. Slurm binds "
                        "GPUs to tasks with "
                        "--gpus-per-task, --gpu-bind or --ntasks-per-gpu: ask for GPUs per node "
                        "(--gpus-per-node) and give srun --gpu-bind=none");
    return n;
}

px_status px_topology_visible_mask(const struct px_topology_machine *machine,
                                   const char *cuda_visible_devices, uint64_t *mask,
                                   struct px_error *error)
{
    uint64_t result = 0;
    const char *at = cuda_visible_devices;
    while (*at) {
        char *end;
        errno = 0;
        long index = strtol(at, &end, 10);
        if (end == at || errno || (*end && *end != ','))
            return px_error_set(
                error, PX_ERR_INVALID,
                "CUDA_VISIBLE_DEVICES \"%s\": only numbers can be resolved without the driver",
                cuda_visible_devices);
        /* CUDA reads the list up to the first number that is no device. */
        if (index < 0 || index >= (long)machine->n_gpus)
            break;
        result |= (uint64_t)1 << index;
        at = *end ? end + 1 : end;
    }
    *mask = result;
    return PX_OK;
}
