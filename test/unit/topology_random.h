/* SPDX-License-Identifier: BSD-3-Clause */
/* Random machines for the tests of topology/: packages, NUMA nodes, host bridges and switches with
 * GPUs and NIC ports strewn over them. PX_TEST_SEED gives a seed back. */
#ifndef PX_TEST_TOPOLOGY_RANDOM_H
#define PX_TEST_TOPOLOGY_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "topology/topology.h"

static uint64_t random_state;

static inline unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

static inline void seed_random(void)
{
    const char *given = getenv("PX_TEST_SEED");
    random_state = given ? strtoull(given, NULL, 10) : 20240229;
    printf("# PX_TEST_SEED=%llu\n", (unsigned long long)random_state);
}

/* A machine on the stack: nothing in it needs to be freed. */
struct random_machine {
    struct px_topology_machine machine;
    struct px_topology_cpus packages[2], cores[16];
    struct px_topology_numa numas[4];
    struct px_topology_gpu gpus[16];
    struct px_topology_port ports[64];
};

static inline struct px_topology_place draw_place(const struct px_topology_machine *machine)
{
    struct px_topology_place place = {.package = -1, .numa = -1, .host_bridge = -1};
    if (draw(20) == 0)
        return place;
    place.numa = (int)draw((unsigned)machine->n_numas);
    place.package = machine->numas[place.numa].package;
    place.host_bridge = place.numa * 10 + (int)draw(2);
    place.n_bridges = draw(4);
    for (size_t depth = 0; depth < place.n_bridges; depth++)
        place.bridges[depth] =
            (depth ? place.bridges[depth - 1] * 4 : 1000 + place.host_bridge * 10) + (int)draw(2);
    return place;
}

static inline void draw_machine(struct random_machine *r, size_t n_gpus, size_t n_ports)
{
    static const unsigned speeds[] = {0, 100000, 200000, 400000};
    *r = (struct random_machine){.machine = {.packages = r->packages,
                                             .cores = r->cores,
                                             .numas = r->numas,
                                             .gpus = r->gpus,
                                             .ports = r->ports,
                                             .n_packages = 1 + draw(2),
                                             .n_cores = 16,
                                             .n_gpus = n_gpus,
                                             .n_ports = n_ports}};
    struct px_topology_machine *machine = &r->machine;
    machine->n_numas = machine->n_packages * (1 + draw(2));
    for (size_t cpu = 0; cpu < 16; cpu++) {
        size_t numa = cpu * machine->n_numas / 16,
               package = numa * machine->n_packages / machine->n_numas;
        px_topology_cpus_add(&r->cores[cpu], cpu);
        px_topology_cpus_add(&r->numas[numa].cpus, cpu);
        px_topology_cpus_add(&r->packages[package], cpu);
        px_topology_cpus_add(&machine->cpus, cpu);
        r->numas[numa].package = (int)package;
    }
    machine->allowed = machine->cpus;
    for (size_t i = 0; i < n_gpus; i++)
        r->gpus[i] =
            (struct px_topology_gpu){.pci = 0x1000 + i * 0x100, .place = draw_place(machine)};
    for (size_t i = 0; i < n_ports; i++) {
        /* Now and then the second function of the card before. */
        bool same_card = i > 0 && draw(4) == 0 && (r->ports[i - 1].pci & 7) < 2;
        r->ports[i] = (struct px_topology_port){
            .number = 1,
            .pci = same_card ? r->ports[i - 1].pci + 1 : 0x8000 + i * 0x100,
            .place = same_card ? r->ports[i - 1].place : draw_place(machine),
            .state = PX_TOPOLOGY_UP,
            .speed = speeds[draw(4)]};
        snprintf(r->ports[i].device, sizeof(r->ports[i].device), "mlx5_%zu", i);
    }
}

#endif
