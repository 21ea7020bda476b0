/* SPDX-License-Identifier: BSD-3-Clause */
/* Where helper threads go when the program has one core and nothing else asks for the machine to be
 * read: without hwloc, which takes longer to load than all of start-up. Nothing is known of NICs here.
 *
 * What the job may use is asked of the kernel: a binding to more than that ends as the part that is
 * allowed, whatever the version of its control groups. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <string.h>

static void take_out(struct px_topology_cpus *cpus, const struct px_topology_cpus *out)
{
    for (size_t i = 0; i < PX_TOPOLOGY_CPUS_MAX / 64; i++)
        cpus->word[i] &= ~out->word[i];
}

/* The part of `cpus` that this job may use; the binding of this thread is back when it returns. */
static void ask_kernel(const struct px_topology_cpus *own, struct px_topology_cpus *cpus)
{
    struct px_topology_cpus allowed = {{0}};
    if (!px_topology_cpus_empty(cpus) && px_topology_bind_thread(cpus, NULL) == PX_OK) {
        (void)px_topology_own_cpus(&allowed, NULL); /* then none are known to be */
        (void)px_topology_bind_thread(own, NULL);   /* it had these before */
    }
    *cpus = allowed;
}

void px_topology_beside(const struct px_topology_cpus *own, struct px_topology_cpus *others)
{
    struct px_topology_cpus core, near;
    size_t first = 0;
    *others = (struct px_topology_cpus){{0}};
    while (first < PX_TOPOLOGY_CPUS_MAX && !px_topology_cpus_has(own, first))
        first++;
    if (!px_topology_sysfs_cpus(&core, first, "thread_siblings_list") ||
        !px_topology_cpus_within(own, &core))
        return;
    if (px_topology_sysfs_cpus(&near, first, "core_siblings_list")) {
        take_out(&near, &core);
        ask_kernel(own, &near);
        *others = near;
    }
    if (!px_topology_cpus_empty(others))
        return;
    memset(others, 0xff, sizeof(*others));
    take_out(others, &core);
    ask_kernel(own, others);
}
