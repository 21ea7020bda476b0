/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the helper threads of a PE (proxy, progress) should run: near its NIC, within what the job
 * may use, and off the core that the program runs on if it has only one and another is allowed. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <strings.h>

typedef struct px_topology_cpus cpu_set;

static cpu_set both(const cpu_set *a, const cpu_set *b)
{
    cpu_set result;
    for (size_t i = 0; i < PX_TOPOLOGY_CPUS_MAX / 64; i++)
        result.word[i] = a->word[i] & b->word[i];
    return result;
}

static cpu_set without(const cpu_set *a, const cpu_set *b)
{
    cpu_set result;
    for (size_t i = 0; i < PX_TOPOLOGY_CPUS_MAX / 64; i++)
        result.word[i] = a->word[i] & ~b->word[i];
    return result;
}

/* All hardware threads of the cores that `cpus` touches; how many cores those are. */
static size_t whole_cores(const struct px_topology_machine *machine, const cpu_set *cpus,
                          cpu_set *whole)
{
    size_t n = 0;
    *whole = *cpus;
    for (size_t i = 0; i < machine->n_cores; i++) {
        if (!px_topology_cpus_meet(&machine->cores[i], cpus))
            continue;
        for (size_t w = 0; w < PX_TOPOLOGY_CPUS_MAX / 64; w++)
            whole->word[w] |= machine->cores[i].word[w];
        n++;
    }
    return n;
}

/* The part of `cpus` nearest to the place: its NUMA node, else its package, else all. */
static cpu_set nearest(const struct px_topology_machine *machine, const cpu_set *cpus,
                       const struct px_topology_place *place)
{
    cpu_set part;
    if (place && place->numa >= 0) {
        part = both(cpus, &machine->numas[place->numa].cpus);
        if (!px_topology_cpus_empty(&part))
            return part;
    }
    if (place && place->package >= 0) {
        part = both(cpus, &machine->packages[place->package]);
        if (!px_topology_cpus_empty(&part))
            return part;
    }
    return *cpus;
}

static px_status follow_wish(const struct px_topology_machine *machine, const char *wish,
                             cpu_set *helpers, struct px_error *error)
{
    cpu_set wanted;
    if (strcasecmp(wish, "any") == 0) {
        *helpers = (cpu_set){{0}};
        return PX_OK;
    }
    px_status status = px_topology_cpus_parse(wish, &wanted, error);
    if (status != PX_OK)
        return px_error_context(error, "processors for helper threads");
    if (!px_topology_cpus_within(&wanted, &machine->allowed)) {
        char allowed[128];
        px_topology_cpus_text(&machine->allowed, allowed, sizeof(allowed));
        return px_error_set(error, PX_ERR_INVALID,
                            "processors for helper threads: %s is wanted, the job may use %s", wish,
                            allowed);
    }
    *helpers = wanted;
    return PX_OK;
}

px_status px_topology_helpers(const struct px_topology_machine *machine, const char *wish,
                              const cpu_set *own, const struct px_topology_place *near,
                              cpu_set *helpers, struct px_error *error)
{
    if (wish && wish[0])
        return follow_wish(machine, wish, helpers, error);
    cpu_set allowed = machine->allowed, whole;
    if (own && !px_topology_cpus_empty(own)) {
        cpu_set bound = both(own, &allowed);
        /* A binding to several cores is room that the program was given: stay in it. */
        if (whole_cores(machine, &bound, &whole) > 1) {
            *helpers = nearest(machine, &bound, near);
            return PX_OK;
        }
        cpu_set others = without(&allowed, &whole);
        if (px_topology_cpus_empty(&others))
            others = bound;
        *helpers = nearest(machine, &others, near);
        return PX_OK;
    }
    *helpers = nearest(machine, &allowed, near);
    return PX_OK;
}
