/* SPDX-License-Identifier: BSD-3-Clause */
/* The assignment of the node's PEs to GPUs, and of PEs to NIC ports, at least total cost.
 *
 * GPUs: one each while there are enough, then nearest to the PE's binding, then in order.
 * NICs: what counts, in this order, is
 *   1. being below the same host bridge, else on the same NUMA node, else in the same package:
 * crossing one of these costs more than sharing a port does;
 *   2. not sharing: so that two GPUs and two NICs below one host bridge split, and idle NICs at one
 * distance are used;
 *   3. how near below the host bridge: same switch, joined switches;
 *   4. a card of one's own rather than the second port of another's;
 *   5. speed;
 *   6. bus order, first to first.
 * Ports left over then go to the PEs that are no further from them than from their first port,
 * evenly. Only places, speeds and PCI addresses are compared, never names, so renaming changes
 * nothing. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One unit of each rank, above the sum that PES_MAX can reach in all lower ranks. */
#define COST_ORDER ((px_match_cost)1)
#define COST_SPEED (COST_ORDER << 22)
#define COST_CARD  (COST_SPEED << 16)
#define COST_FINE  (COST_CARD << 12)
#define COST_SHARE (COST_FINE << 12)
#define COST_TIER  (COST_SHARE << 20)

#define PES_MAX 1024

struct problem {
    const struct px_topology_machine *machine;
    const struct px_topology_pe *pes;
    struct px_topology_plan *plan;
    size_t n_pes, n_ports;
    size_t *ports; /* usable ones, as indices of the machine */
    px_match_cost *port_cost;
    size_t *rank;        /* of each PE in the order of GPUs, then PEs */
    int *first;          /* the usable port that each PE got first, -1 for none */
    size_t *load;        /* PEs of each usable port */
    size_t *idle;        /* usable ports that no PE got first */
    int *pe_of;          /* the PE that each of those goes to, -1 for none */
    px_match_cost *cost; /* scratch, PEs times ports */
};

/* Square of the distance from where first-to-first would put it: least for the assignment that
 * keeps the order. */
static px_match_cost order_cost(size_t client, size_t server, size_t n_servers)
{
    size_t home = client % n_servers;
    size_t off = server > home ? server - home : home - server;
    return COST_ORDER * (px_match_cost)(off * off);
}

static enum px_topology_distance pe_distance(const struct problem *p, size_t pe, size_t usable)
{
    const struct px_topology_place *place = &p->machine->ports[p->ports[usable]].place;
    int gpu = p->plan->pes[pe].gpu;
    if (gpu >= 0)
        return px_topology_distance(&p->machine->gpus[gpu].place, place);
    return px_topology_cpu_distance(p->machine, p->pes[pe].numa_mask, place);
}

static int tier(enum px_topology_distance distance)
{
    return distance <= PX_TOPOLOGY_HOST_BRIDGE ? 0 : (int)(distance - PX_TOPOLOGY_HOST_BRIDGE);
}

/* How many usable ports of the same card come before this one. */
static int card_rank(const struct problem *p, size_t usable)
{
    const struct px_topology_port *port = &p->machine->ports[p->ports[usable]];
    int rank = 0;
    for (size_t i = 0; i < usable && port->pci != PX_TOPOLOGY_PCI_NONE; i++)
        rank +=
            p->machine->ports[p->ports[i]].pci >> 3 == port->pci >> 3 && !port->virtual_function;
    return rank < 3 ? rank : 3;
}

/* How many of the other speeds are higher. */
static int speed_rank(const struct problem *p, size_t usable)
{
    unsigned speed = p->machine->ports[p->ports[usable]].speed;
    int rank = 0;
    for (size_t i = 0; i < p->n_ports; i++)
        rank += p->machine->ports[p->ports[i]].speed > speed;
    return rank < 63 ? rank : 63;
}

/* What a port costs whoever uses it. */
static px_match_cost port_cost(const struct problem *p, size_t usable)
{
    return COST_CARD * card_rank(p, usable) + COST_SPEED * speed_rank(p, usable);
}

static px_match_cost nic_cost(const struct problem *p, size_t pe, size_t usable)
{
    enum px_topology_distance distance = pe_distance(p, pe, usable);
    int fine = distance <= PX_TOPOLOGY_HOST_BRIDGE ? (int)distance : 0;
    return COST_TIER * tier(distance) + COST_FINE * fine + p->port_cost[usable];
}

/* ---- GPUs ---- */

static bool may_use(const struct px_topology_pe *pe, size_t gpu)
{
    return pe->gpu == PX_TOPOLOGY_CHOOSE && (pe->gpu_mask == 0 || (pe->gpu_mask >> gpu & 1));
}

/* How many GPUs before this one the PE may use. */
static size_t count_usable(const struct px_topology_pe *pe, size_t gpu)
{
    size_t n = 0;
    for (size_t i = 0; i < gpu; i++)
        n += may_use(pe, i);
    return n;
}

static px_match_cost gpu_cost(const struct px_topology_machine *machine,
                              const struct px_topology_pe *pe, size_t rank, size_t gpu)
{
    if (!may_use(pe, gpu))
        return PX_MATCH_NEVER;
    int far = (int)px_topology_cpu_distance(machine, pe->numa_mask, &machine->gpus[gpu].place) -
              PX_TOPOLOGY_NUMA;
    size_t number = pe->ordered ? pe->gpu_number[gpu] : count_usable(pe, gpu);
    return COST_FINE * far + order_cost(rank, number, count_usable(pe, machine->n_gpus));
}

static void explain_gpu(const struct px_topology_machine *machine, const struct px_topology_pe *pe,
                        size_t sharers, struct px_topology_choice *choice)
{
    char *text = choice->reason;
    size_t size = sizeof(choice->reason);
    if (choice->gpu < 0) {
        px_topology_say(text, size, "no GPU: %s; ",
                        machine->n_gpus == 0            ? "the node has none"
                        : pe->gpu == PX_TOPOLOGY_NO_GPU ? "the PE uses none"
                                                        : "none is visible");
        return;
    }
    enum px_topology_distance distance =
        px_topology_cpu_distance(machine, pe->numa_mask, &machine->gpus[choice->gpu].place);
    px_topology_say(text, size, "GPU %d: ", choice->gpu);
    if (__builtin_popcountll(pe->gpu_mask) == 1)
        px_topology_say(text, size, "the only one visible");
    else if (pe->gpu >= 0)
        px_topology_say(text, size, "in use by the program already");
    else if (px_topology_unbound(machine, pe->numa_mask))
        px_topology_say(text, size, "in order, as its processors favour none");
    else
        px_topology_say(text, size, "%s its processors", px_topology_distance_phrase(distance));
    if (sharers > 1)
        px_topology_say(text, size, ", shared by %zu PEs", sharers);
    px_topology_say(text, size, "; ");
}

static px_status check_pes(const struct px_topology_machine *machine,
                           const struct px_topology_pe *pes, size_t n_pes, struct px_error *error)
{
    if (n_pes == 0 || n_pes > PES_MAX)
        return px_error_set(error, PX_ERR_INVALID, "%zu PEs on one node: 1 to %d can be placed",
                            n_pes, PES_MAX);
    for (size_t pe = 0; pe < n_pes; pe++)
        if (pes[pe].gpu < PX_TOPOLOGY_NO_GPU || pes[pe].gpu >= (int)machine->n_gpus)
            return px_error_set(error, PX_ERR_INVALID,
                                "local PE %zu uses GPU %d, but the node has %zu", pe, pes[pe].gpu,
                                machine->n_gpus);
    return PX_OK;
}

px_status px_topology_assign_gpus(const struct px_topology_machine *machine,
                                  const struct px_topology_pe *pes, struct px_topology_plan *plan,
                                  struct px_error *error)
{
    size_t n_gpus = machine->n_gpus, n_pes = plan->n_pes;
    px_status status = check_pes(machine, pes, n_pes, error);
    if (status != PX_OK)
        return status;
    px_match_cost *cost = calloc(n_pes * n_gpus + 1, sizeof(*cost));
    size_t *load = calloc(n_gpus + 1, sizeof(*load));
    int *gpu_of = calloc(n_pes, sizeof(*gpu_of));
    status = PX_ERR_NO_MEMORY;
    if (!cost || !load || !gpu_of)
        goto free_scratch;
    for (size_t pe = 0; pe < n_pes; pe++) {
        for (size_t gpu = 0; gpu < n_gpus; gpu++)
            cost[pe * n_gpus + gpu] = gpu_cost(machine, &pes[pe], pe, gpu);
        if (pes[pe].gpu >= 0)
            load[pes[pe].gpu]++;
    }
    status = px_match(n_pes, n_gpus, cost, COST_SHARE, load, gpu_of);
    for (size_t pe = 0; pe < n_pes && status == PX_OK; pe++) {
        struct px_topology_choice *choice = &plan->pes[pe];
        choice->gpu = pes[pe].gpu >= 0 ? pes[pe].gpu : gpu_of[pe];
        explain_gpu(machine, &pes[pe], choice->gpu >= 0 ? load[choice->gpu] : 0, choice);
    }
free_scratch:
    free(gpu_of);
    free(load);
    free(cost);
    return status == PX_OK ? PX_OK : px_error_errno(error, ENOMEM, "choosing GPUs");
}

/* ---- NICs ---- */

static bool comes_before(const struct problem *p, size_t a, size_t b)
{
    /* As unsigned, no GPU sorts last. */
    unsigned gpu_a = (unsigned)p->plan->pes[a].gpu, gpu_b = (unsigned)p->plan->pes[b].gpu;
    return gpu_a != gpu_b ? gpu_a < gpu_b : a < b;
}

static void rank_pes(struct problem *p)
{
    for (size_t a = 0; a < p->n_pes; a++)
        for (size_t b = 0; b < p->n_pes; b++)
            p->rank[a] += comes_before(p, b, a);
}

static px_status assign_first(struct problem *p)
{
    for (size_t pe = 0; pe < p->n_pes; pe++)
        for (size_t i = 0; i < p->n_ports; i++)
            p->cost[pe * p->n_ports + i] =
                nic_cost(p, pe, i) + order_cost(p->rank[pe], i, p->n_ports);
    return px_match(p->n_pes, p->n_ports, p->cost, COST_SHARE, p->load, p->first);
}

/* The other way round: each idle port is a client that looks for a PE. */
static px_status assign_spare(struct problem *p, size_t n_idle)
{
    size_t *load = calloc(p->n_pes, sizeof(*load));
    if (!load)
        return PX_ERR_NO_MEMORY;
    for (size_t k = 0; k < n_idle; k++)
        for (size_t pe = 0; pe < p->n_pes; pe++) {
            bool near = pe_distance(p, pe, p->idle[k]) <= pe_distance(p, pe, (size_t)p->first[pe]);
            p->cost[k * p->n_pes + pe] =
                near ? nic_cost(p, pe, p->idle[k]) + order_cost(k, p->rank[pe], p->n_pes)
                     : PX_MATCH_NEVER;
        }
    px_status status = px_match(n_idle, p->n_pes, p->cost, COST_SHARE, load, p->pe_of);
    free(load);
    return status;
}

static int compare_spares(const struct px_topology_machine *machine,
                          const struct px_topology_nic *a, const struct px_topology_nic *b)
{
    unsigned speed_a = machine->ports[a->port].speed, speed_b = machine->ports[b->port].speed;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    if (speed_a != speed_b)
        return speed_a > speed_b ? -1 : 1;
    return a->port < b->port ? -1 : 1;
}

/* Insert behind the first, in order. The array has room for all usable ports. */
static void add_nic(const struct problem *p, size_t pe, size_t usable)
{
    struct px_topology_choice *choice = &p->plan->pes[pe];
    struct px_topology_nic nic = {.port = p->ports[usable], .distance = pe_distance(p, pe, usable)};
    size_t at = choice->n_nics++;
    while (at > 1 && compare_spares(p->machine, &nic, &choice->nics[at - 1]) < 0) {
        choice->nics[at] = choice->nics[at - 1];
        at--;
    }
    choice->nics[at] = nic;
}

static void explain_nics(const struct problem *p, size_t pe, size_t sharers, bool by_mapping)
{
    struct px_topology_choice *choice = &p->plan->pes[pe];
    char *text = choice->reason;
    size_t size = sizeof(choice->reason);
    if (choice->n_nics == 0) {
        px_topology_say(text, size, "no NIC: %s",
                        p->machine->n_ports ? "no port of the node is usable"
                                            : "the node has no RDMA device");
        return;
    }
    const struct px_topology_port *port = &p->machine->ports[choice->nics[0].port];
    px_topology_say(text, size, "%s:%u: %s", port->device, port->number,
                    by_mapping ? "given by the user's mapping, " : "");
    if (choice->gpu < 0 && px_topology_unbound(p->machine, p->pes[pe].numa_mask))
        px_topology_say(text, size, "in order, as its processors favour none");
    else
        px_topology_say(text, size, "%s %s", px_topology_distance_phrase(choice->nics[0].distance),
                        choice->gpu >= 0 ? "the GPU" : "its processors");
    if (sharers > 1)
        px_topology_say(text, size, ", shared by %zu PEs", sharers);
    if (choice->n_nics > 1)
        px_topology_say(text, size, "; %zu more as near, which no other PE needs",
                        choice->n_nics - 1);
}

/* A mapping gives each PE its port and no other. */
static void follow_mapping(struct problem *p, const int *chosen)
{
    for (size_t pe = 0; pe < p->n_pes; pe++)
        for (size_t i = 0; i < p->n_ports; i++)
            if ((int)p->ports[i] == chosen[pe]) {
                p->first[pe] = (int)i;
                p->load[i]++;
            }
}

static px_status give_nics(struct problem *p, const int *chosen)
{
    bool by_mapping = chosen[0] >= 0;
    size_t n_idle = 0;
    rank_pes(p);
    px_status status = PX_OK;
    if (by_mapping)
        follow_mapping(p, chosen);
    else
        status = assign_first(p);
    for (size_t i = 0; i < p->n_ports; i++) {
        p->pe_of[n_idle] = -1;
        if (p->load[i] == 0)
            p->idle[n_idle++] = i;
    }
    if (status == PX_OK && n_idle && !by_mapping)
        status = assign_spare(p, n_idle);
    if (status != PX_OK)
        return status;
    for (size_t pe = 0; pe < p->n_pes; pe++) {
        p->plan->pes[pe].nics = calloc(n_idle + 1, sizeof(*p->plan->pes[pe].nics));
        if (!p->plan->pes[pe].nics)
            return PX_ERR_NO_MEMORY;
        add_nic(p, pe, (size_t)p->first[pe]);
    }
    for (size_t k = 0; k < n_idle; k++) {
        if (p->pe_of[k] >= 0)
            add_nic(p, (size_t)p->pe_of[k], p->idle[k]);
        else
            px_topology_say(p->plan->ports[p->ports[p->idle[k]]].reason, PX_TOPOLOGY_VERDICT_MAX,
                            by_mapping ? "dealt to no PE"
                                       : "further from each PE than the port it has");
    }
    return PX_OK;
}

px_status px_topology_assign_nics(const struct px_topology_machine *machine,
                                  const struct px_topology_pe *pes, const int *chosen,
                                  struct px_topology_plan *plan, struct px_error *error)
{
    struct problem p = {
        .machine = machine,
        .pes = pes,
        .plan = plan,
        .n_pes = plan->n_pes,
        .ports = calloc(machine->n_ports + 1, sizeof(*p.ports)),
        .port_cost = calloc(machine->n_ports + 1, sizeof(*p.port_cost)),
        .rank = calloc(plan->n_pes, sizeof(*p.rank)),
        .first = calloc(plan->n_pes, sizeof(*p.first)),
        .load = calloc(machine->n_ports + 1, sizeof(*p.load)),
        .idle = calloc(machine->n_ports + 1, sizeof(*p.idle)),
        .pe_of = calloc(machine->n_ports + 1, sizeof(*p.pe_of)),
        .cost = calloc(plan->n_pes * machine->n_ports + 1, sizeof(*p.cost)),
    };
    px_status status = PX_ERR_NO_MEMORY;
    if (!p.ports || !p.port_cost || !p.rank || !p.first || !p.load || !p.idle || !p.pe_of ||
        !p.cost)
        goto free_scratch;
    for (size_t i = 0; i < machine->n_ports; i++)
        if (plan->ports[i].usable)
            p.ports[p.n_ports++] = i;
    for (size_t i = 0; i < p.n_ports; i++)
        p.port_cost[i] = port_cost(&p, i);
    status = p.n_ports ? give_nics(&p, chosen) : PX_OK;
    for (size_t pe = 0; pe < p.n_pes && status == PX_OK; pe++)
        explain_nics(&p, pe, p.n_ports ? p.load[p.first[pe]] : 0, chosen[pe] >= 0);
free_scratch:
    free(p.cost);
    free(p.pe_of);
    free(p.idle);
    free(p.load);
    free(p.first);
    free(p.rank);
    free(p.port_cost);
    free(p.ports);
    return status == PX_OK ? PX_OK : px_error_errno(error, ENOMEM, "choosing NICs");
}
