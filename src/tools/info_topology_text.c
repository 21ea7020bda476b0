/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan as text for people: the table with its reasons, and the matrix of distances. */
#include "config.h"
#include "src/tools/info.h"

#include <stdlib.h>
#include <string.h>

#define CELL_MAX 48

enum { PE, PROCESSORS, GPU, NIC, DISTANCE, SPEED, HELPERS, PEERS, REGISTRATION, N_COLUMNS };

struct row {
    char cell[N_COLUMNS][CELL_MAX];
};

static const struct row heading = {{
    [PE] = "PE",
    [PROCESSORS] = "PROCESSORS",
    [GPU] = "GPU",
    [NIC] = "NIC",
    [DISTANCE] = "DISTANCE",
    [SPEED] = "SPEED",
    [HELPERS] = "HELPERS",
    [PEERS] = "TO PEERS",
    [REGISTRATION] = "REGISTRATION",
}};

static void write_cpus(char *cell, const struct px_topology_cpus *cpus)
{
    if (!cpus || px_topology_cpus_empty(cpus))
        snprintf(cell, CELL_MAX, "any");
    else
        px_topology_cpus_text(cpus, cell, CELL_MAX);
}

/* The peers that `pe` reaches as it reaches `like`, as a list; false when a peer before has it. */
static bool reached_alike(const struct px_info_node *node, size_t pe, size_t like, char *list,
                          size_t size)
{
    const char *const *to = node->transports + pe * node->plan->n_pes;
    struct px_topology_cpus peers = {{0}}; /* a set of numbers is a set of numbers */
    for (size_t peer = 0; peer < node->plan->n_pes; peer++) {
        if (peer == pe || strcmp(to[peer], to[like]) != 0)
            continue;
        if (peer < like)
            return false;
        px_topology_cpus_add(&peers, peer);
    }
    px_topology_cpus_text(&peers, list, size);
    return true;
}

/* One word if all peers are reached alike, else a list of peers behind each: "mapped 1-3, agent 4". */
static void write_transports(char *cell, const struct px_info_node *node, size_t pe)
{
    const char *const *to = node->transports + pe * node->plan->n_pes;
    const char *first = NULL;
    size_t used = 0, n_words = 0;
    cell[0] = '\0';
    for (size_t peer = 0; peer < node->plan->n_pes && used < CELL_MAX; peer++) {
        char list[CELL_MAX];
        if (peer == pe || !reached_alike(node, pe, peer, list, sizeof(list)))
            continue;
        used += (size_t)snprintf(cell + used, CELL_MAX - used, "%s%s %s", used ? ", " : "",
                                 to[peer], list);
        first = n_words++ == 0 ? to[peer] : first;
    }
    if (n_words <= 1)
        snprintf(cell, CELL_MAX, "%s", first ? first : "-");
}

static void write_pe(struct row *row, const struct px_info_node *node, size_t pe)
{
    const struct px_topology_choice *choice = &node->plan->pes[pe];
    snprintf(row->cell[PE], CELL_MAX, "%zu", pe);
    write_cpus(row->cell[PROCESSORS], node->pes[pe].cpus);
    write_cpus(row->cell[HELPERS], &choice->helpers);
    write_transports(row->cell[PEERS], node, pe);
    snprintf(row->cell[REGISTRATION], CELL_MAX, "%s", node->registrations[pe]);
    snprintf(row->cell[GPU], CELL_MAX, "none");
    if (choice->gpu >= 0) {
        char address[PX_TOPOLOGY_PCI_TEXT_MAX];
        px_topology_pci_text(node->machine->gpus[choice->gpu].pci, address);
        snprintf(row->cell[GPU], CELL_MAX, "%d %s", choice->gpu, address);
    }
    snprintf(row->cell[NIC], CELL_MAX, "none");
}

static void write_nic(struct row *row, const struct px_info_node *node,
                      const struct px_topology_nic *nic)
{
    const struct px_topology_port *port = &node->machine->ports[nic->port];
    snprintf(row->cell[NIC], CELL_MAX, "%.36s:%u", port->device, port->number);
    snprintf(row->cell[DISTANCE], CELL_MAX, "%s", px_topology_distance_words(nic->distance));
    if (port->speed)
        snprintf(row->cell[SPEED], CELL_MAX, "%g Gb/s", port->speed / 1e3);
    else
        snprintf(row->cell[SPEED], CELL_MAX, "unknown");
}

static void print_rows(FILE *out, const struct row *rows, size_t n_rows)
{
    size_t width[N_COLUMNS] = {0};
    for (size_t r = 0; r < n_rows; r++)
        for (int c = 0; c < N_COLUMNS; c++)
            if (strlen(rows[r].cell[c]) > width[c])
                width[c] = strlen(rows[r].cell[c]);
    for (size_t r = 0; r < n_rows; r++) {
        char line[N_COLUMNS * (CELL_MAX + 2) + 1];
        size_t used = 0;
        for (int c = 0; c < N_COLUMNS; c++)
            used += (size_t)sprintf(line + used, "%-*s  ", (int)width[c], rows[r].cell[c]);
        while (used && line[used - 1] == ' ')
            line[--used] = '\0';
        fprintf(out, "%s\n", line);
    }
}

static void print_plan(FILE *out, const struct px_info_node *node)
{
    const struct px_topology_plan *plan = node->plan;
    size_t n_rows = 1;
    for (size_t pe = 0; pe < plan->n_pes; pe++)
        n_rows += plan->pes[pe].n_nics ? plan->pes[pe].n_nics : 1;
    struct row *rows = calloc(n_rows, sizeof(*rows)), *row = rows;
    if (!rows)
        return;
    *row++ = heading;
    for (size_t pe = 0; pe < plan->n_pes; pe++) {
        write_pe(row, node, pe);
        for (size_t k = 0; k < plan->pes[pe].n_nics; k++)
            write_nic(row + k, node, &plan->pes[pe].nics[k]);
        row += plan->pes[pe].n_nics ? plan->pes[pe].n_nics : 1;
    }
    print_rows(out, rows, n_rows);
    free(rows);
}

bool px_info_port_is_given(const struct px_topology_plan *plan, size_t port)
{
    for (size_t pe = 0; pe < plan->n_pes; pe++)
        for (size_t k = 0; k < plan->pes[pe].n_nics; k++)
            if (plan->pes[pe].nics[k].port == port)
                return true;
    return false;
}

static void print_unused(FILE *out, const struct px_info_node *node)
{
    bool first = true;
    for (size_t i = 0; i < node->machine->n_ports; i++) {
        const struct px_topology_port *port = &node->machine->ports[i];
        const struct px_topology_verdict *verdict = &node->plan->ports[i];
        if (px_info_port_is_given(node->plan, i))
            continue;
        fprintf(out, "%s  %s:%u: %s\n", first ? "\nPorts not used\n" : "", port->device,
                port->number, verdict->reason);
        first = false;
    }
}

static bool links_known(const struct px_info_node *node)
{
    size_t n = node->machine->n_gpus;
    for (size_t i = 0; i < n * n; i++)
        if (node->links[i] != PX_TOPOLOGY_LINK_UNKNOWN)
            return true;
    return false;
}

static void print_links(FILE *out, const struct px_info_node *node)
{
    size_t n = node->machine->n_gpus;
    if (!links_known(node))
        return;
    fprintf(out, "\nLinks between GPUs\n%8s", "");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%8zu", i);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "\n%8zu", i);
        for (size_t j = 0; j < n; j++)
            fprintf(out, "%8s", i == j ? "-" : px_topology_link_words(node->links[i * n + j]));
    }
    fputc('\n', out);
}

static void print_lines(FILE *out, const char *heading_line, const char *lines)
{
    if (lines[0])
        fprintf(out, "\n%s\n", heading_line);
    while (*lines) {
        int length = (int)strcspn(lines, "\n");
        fprintf(out, "  %.*s\n", length, lines);
        lines += length + (lines[length] == '\n');
    }
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

void px_info_topology_table(FILE *out, const struct px_info_node *node)
{
    const struct px_topology_machine *machine = node->machine;
    fprintf(out,
            "%s: %zu package%s, %zu NUMA node%s, %zu processors, %zu GPU%s, %zu NIC port%s, %zu "
            "PE%s\n\n",
            node->title, machine->n_packages, plural(machine->n_packages), machine->n_numas,
            plural(machine->n_numas), px_topology_cpus_count(&machine->cpus), machine->n_gpus,
            plural(machine->n_gpus), machine->n_ports, plural(machine->n_ports), node->plan->n_pes,
            plural(node->plan->n_pes));
    print_plan(out, node);
    fputs("\nWhy\n", out);
    for (size_t pe = 0; pe < node->plan->n_pes; pe++)
        fprintf(out, "  PE %zu: %s\n", pe, node->plan->pes[pe].reason);
    print_unused(out, node);
    print_links(out, node);
    print_lines(out, "Warnings", node->plan->warnings);
}

/* ---- matrix ---- */

/* Devices in one count: GPUs first, then ports. */
static const struct px_topology_place *place_of(const struct px_info_node *node, size_t i)
{
    const struct px_topology_machine *machine = node->machine;
    return i < machine->n_gpus ? &machine->gpus[i].place
                               : &machine->ports[i - machine->n_gpus].place;
}

static void name_of(const struct px_info_node *node, size_t i, char name[CELL_MAX])
{
    const struct px_topology_machine *machine = node->machine;
    if (i < machine->n_gpus)
        snprintf(name, CELL_MAX, "GPU%zu", i);
    else
        snprintf(name, CELL_MAX, "%.36s:%u", machine->ports[i - machine->n_gpus].device,
                 machine->ports[i - machine->n_gpus].number);
}

static const char *letters(const struct px_info_node *node, size_t i, size_t j)
{
    size_t n_gpus = node->machine->n_gpus;
    if (i == j)
        return "X";
    if (i < n_gpus && j < n_gpus && node->links[i * n_gpus + j] == PX_TOPOLOGY_LINK_NVLINK)
        return "NVL";
    return px_topology_distance_letters(px_topology_distance(place_of(node, i), place_of(node, j)));
}

void px_info_topology_matrix(FILE *out, const struct px_info_node *node)
{
    const struct px_topology_machine *machine = node->machine;
    size_t n = machine->n_gpus + machine->n_ports;
    int width = 4;
    char name[CELL_MAX];
    for (size_t i = 0; i < n; i++) {
        name_of(node, i, name);
        width = (int)strlen(name) > width ? (int)strlen(name) : width;
    }
    fprintf(out, "%-*s", width, "");
    for (size_t j = 0; j < n; j++) {
        name_of(node, j, name);
        fprintf(out, "  %-*s", width, name);
    }
    fputs("  NUMA  PROCESSORS\n", out);
    for (size_t i = 0; i < n; i++) {
        int numa = place_of(node, i)->numa;
        name_of(node, i, name);
        fprintf(out, "%-*s", width, name);
        for (size_t j = 0; j < n; j++)
            fprintf(out, "  %-*s", width, letters(node, i, j));
        if (numa < 0) {
            fputs("  ?     ?\n", out);
            continue;
        }
        px_topology_cpus_text(&machine->numas[numa].cpus, name, sizeof(name));
        fprintf(out, "  %-4u  %s\n", machine->numas[numa].os_index, name);
    }
    fputs("\nX itself, PIX one PCI switch, PXB joined PCI switches, PHB one host bridge, NODE one "
          "NUMA node, SYS further\n",
          out);
    if (links_known(node))
        fputs("NVL NVLink\n", out);
}
