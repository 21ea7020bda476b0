/* SPDX-License-Identifier: BSD-3-Clause */
/* How far two places of a machine are apart, and the words for it. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

static const struct {
    const char *words, *letters, *phrase;
} distance_names[] = {
    [PX_TOPOLOGY_SWITCH] = {"same PCI switch", "PIX", "on the same PCI switch as"},
    [PX_TOPOLOGY_SWITCHES] = {"joined PCI switches", "PXB", "on a PCI switch joined to that of"},
    [PX_TOPOLOGY_HOST_BRIDGE] = {"same host bridge", "PHB", "below the same host bridge as"},
    [PX_TOPOLOGY_NUMA] = {"same NUMA node", "NODE", "on the same NUMA node as"},
    [PX_TOPOLOGY_PACKAGE] = {"same package", "SYS", "in the same package as"},
    [PX_TOPOLOGY_MACHINE] = {"other package", "SYS", "in another package than"},
};

const char *px_topology_distance_words(enum px_topology_distance distance)
{
    return distance_names[distance].words;
}

const char *px_topology_distance_letters(enum px_topology_distance distance)
{
    return distance_names[distance].letters;
}

const char *px_topology_distance_phrase(enum px_topology_distance distance)
{
    return distance_names[distance].phrase;
}

const char *px_topology_fabric_words(enum px_topology_fabric fabric)
{
    static const char *const words[] = {
        [PX_TOPOLOGY_FABRIC_UNKNOWN] = "unknown",
        [PX_TOPOLOGY_INFINIBAND] = "InfiniBand",
        [PX_TOPOLOGY_ROCE] = "RoCE",
        [PX_TOPOLOGY_EFA] = "EFA",
        [PX_TOPOLOGY_SLINGSHOT] = "Slingshot",
    };
    return words[fabric];
}

const char *px_topology_link_words(enum px_topology_link link)
{
    static const char *const words[] = {
        [PX_TOPOLOGY_LINK_UNKNOWN] = "unknown",
        [PX_TOPOLOGY_LINK_NONE] = "none",
        [PX_TOPOLOGY_LINK_PCIE] = "PCIe",
        [PX_TOPOLOGY_LINK_NVLINK] = "NVLink",
    };
    return words[link];
}

/* A switch is a bridge at its top and one above each device, so up to one bridge between the one
 * that both devices are below and each device means one switch; more means that another switch
 * hangs below the first. */
static enum px_topology_distance below_bridge(const struct px_topology_place *a,
                                              const struct px_topology_place *b, size_t common)
{
    return a->n_bridges - common <= 1 && b->n_bridges - common <= 1 ? PX_TOPOLOGY_SWITCH
                                                                    : PX_TOPOLOGY_SWITCHES;
}

enum px_topology_distance px_topology_distance(const struct px_topology_place *a,
                                               const struct px_topology_place *b)
{
    if (a->host_bridge >= 0 && a->host_bridge == b->host_bridge) {
        size_t common = 0;
        while (common < a->n_bridges && common < b->n_bridges &&
               a->bridges[common] == b->bridges[common])
            common++;
        return common ? below_bridge(a, b, common) : PX_TOPOLOGY_HOST_BRIDGE;
    }
    if (a->numa >= 0 && a->numa == b->numa)
        return PX_TOPOLOGY_NUMA;
    if (a->package >= 0 && a->package == b->package)
        return PX_TOPOLOGY_PACKAGE;
    return PX_TOPOLOGY_MACHINE;
}

uint64_t px_topology_numa_mask(const struct px_topology_machine *machine,
                               const struct px_topology_cpus *cpus)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < machine->n_numas; i++)
        if (px_topology_cpus_meet(&machine->numas[i].cpus, cpus))
            mask |= (uint64_t)1 << i;
    return mask;
}

bool px_topology_unbound(const struct px_topology_machine *machine, uint64_t numa_mask)
{
    uint64_t all = machine->n_numas < 64 ? ((uint64_t)1 << machine->n_numas) - 1 : UINT64_MAX;
    return numa_mask == 0 || (numa_mask & all) == all;
}

enum px_topology_distance px_topology_cpu_distance(const struct px_topology_machine *machine,
                                                   uint64_t numa_mask,
                                                   const struct px_topology_place *place)
{
    if (px_topology_unbound(machine, numa_mask))
        return PX_TOPOLOGY_NUMA;
    if (place->numa >= 0 && (numa_mask >> place->numa & 1))
        return PX_TOPOLOGY_NUMA;
    for (size_t i = 0; i < machine->n_numas && place->package >= 0; i++)
        if ((numa_mask >> i & 1) && machine->numas[i].package == place->package)
            return PX_TOPOLOGY_PACKAGE;
    return PX_TOPOLOGY_MACHINE;
}
