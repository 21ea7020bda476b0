/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan as JSON: one object; members may be added, never change their meaning. */
#include "config.h"
#include "src/tools/info.h"

#include <string.h>

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

/* "name": "text", with the comma that goes before it */
static void put_member(FILE *out, const char *name, const char *text)
{
    fprintf(out, ", \"%s\": ", name);
    put_string(out, text);
}

static void put_cpus(FILE *out, const char *name, const struct px_topology_cpus *cpus)
{
    char text[1024];
    if (!cpus || px_topology_cpus_empty(cpus)) {
        fprintf(out, ", \"%s\": null", name);
        return;
    }
    px_topology_cpus_text(cpus, text, sizeof(text));
    put_member(out, name, text);
}

static void put_place(FILE *out, const struct px_topology_machine *machine, px_topology_pci pci,
                      const struct px_topology_place *place)
{
    char address[PX_TOPOLOGY_PCI_TEXT_MAX];
    px_topology_pci_text(pci, address);
    if (pci == PX_TOPOLOGY_PCI_NONE)
        fputs(", \"pci\": null", out);
    else
        put_member(out, "pci", address);
    if (place->numa < 0)
        fputs(", \"numa\": null", out);
    else
        fprintf(out, ", \"numa\": %u", machine->numas[place->numa].os_index);
    if (place->package < 0)
        fputs(", \"package\": null", out);
    else
        fprintf(out, ", \"package\": %d", place->package);
}

static void put_speed(FILE *out, unsigned speed)
{
    if (speed)
        fprintf(out, ", \"gbps\": %g", speed / 1e3);
    else
        fputs(", \"gbps\": null", out);
}

static void put_gpus(FILE *out, const struct px_topology_machine *machine)
{
    fputs(",\n \"gpus\": [", out);
    for (size_t i = 0; i < machine->n_gpus; i++) {
        fprintf(out, "%s\n  {\"gpu\": %zu", i ? "," : "", i);
        put_place(out, machine, machine->gpus[i].pci, &machine->gpus[i].place);
        if (machine->gpus[i].name[0])
            put_member(out, "name", machine->gpus[i].name);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_ports(FILE *out, const struct px_info_node *node)
{
    static const char *const states[] = {"unknown", "up", "down"};
    fputs(",\n \"ports\": [", out);
    for (size_t i = 0; i < node->machine->n_ports; i++) {
        const struct px_topology_port *port = &node->machine->ports[i];
        const struct px_topology_verdict *verdict = &node->plan->ports[i];
        fprintf(out, "%s\n  {\"device\": ", i ? "," : "");
        put_string(out, port->device);
        fprintf(out, ", \"port\": %u", port->number);
        put_place(out, node->machine, port->pci, &port->place);
        put_member(out, "fabric", px_topology_fabric_words(port->fabric));
        put_member(out, "state", states[port->state]);
        put_speed(out, port->speed);
        fprintf(out, ", \"virtual\": %s, \"usable\": %s", port->virtual_function ? "true" : "false",
                verdict->usable ? "true" : "false");
        if (!verdict->usable)
            put_member(out, "reason", verdict->reason);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_nics(FILE *out, const struct px_info_node *node,
                     const struct px_topology_choice *choice)
{
    fputs(", \"nics\": [", out);
    for (size_t k = 0; k < choice->n_nics; k++) {
        const struct px_topology_nic *nic = &choice->nics[k];
        const struct px_topology_port *port = &node->machine->ports[nic->port];
        fprintf(out, "%s{\"device\": ", k ? ", " : "");
        put_string(out, port->device);
        fprintf(out, ", \"port\": %u", port->number);
        put_member(out, "distance", px_topology_distance_words(nic->distance));
        put_member(out, "letters", px_topology_distance_letters(nic->distance));
        put_speed(out, port->speed);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_pe(FILE *out, const struct px_info_node *node, size_t pe)
{
    const struct px_topology_choice *choice = &node->plan->pes[pe];
    size_t n_pes = node->plan->n_pes;
    fprintf(out, "%s\n  {\"pe\": %zu", pe ? "," : "", pe);
    put_cpus(out, "processors", node->pes[pe].cpus);
    if (choice->gpu >= 0)
        fprintf(out, ", \"gpu\": %d", choice->gpu);
    else
        fputs(", \"gpu\": null", out);
    put_nics(out, node, choice);
    put_cpus(out, "helpers", &choice->helpers);
    fputs(", \"transports\": [", out);
    for (size_t peer = 0; peer < n_pes; peer++) {
        fputs(peer ? ", " : "", out);
        put_string(out, node->transports[pe * n_pes + peer]);
    }
    fputc(']', out);
    put_member(out, "registration", node->registrations[pe]);
    put_member(out, "reason", choice->reason);
    fputc('}', out);
}

static void put_links(FILE *out, const struct px_info_node *node)
{
    size_t n = node->machine->n_gpus;
    fputs(",\n \"links\": [", out);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", [" : "[", out);
        for (size_t j = 0; j < n; j++) {
            fputs(j ? ", " : "", out);
            put_string(out, i == j ? "self" : px_topology_link_words(node->links[i * n + j]));
        }
        fputc(']', out);
    }
    fputc(']', out);
}

static void put_distances(FILE *out, const struct px_topology_machine *machine)
{
    fputs(",\n \"distances\": [", out);
    for (size_t i = 0; i < machine->n_gpus; i++) {
        fputs(i ? ", [" : "[", out);
        for (size_t j = 0; j < machine->n_ports; j++) {
            fputs(j ? ", " : "", out);
            put_string(out, px_topology_distance_letters(px_topology_distance(
                                &machine->gpus[i].place, &machine->ports[j].place)));
        }
        fputc(']', out);
    }
    fputc(']', out);
}

static void put_warnings(FILE *out, const char *lines)
{
    fputs(",\n \"warnings\": [", out);
    for (bool first = true; *lines; first = false) {
        char line[1024];
        size_t length = strcspn(lines, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)length, lines);
        fputs(first ? "" : ", ", out);
        put_string(out, line);
        lines += length + (lines[length] == '\n');
    }
    fputc(']', out);
}

void px_info_topology_json(FILE *out, const struct px_info_node *node)
{
    const struct px_topology_machine *machine = node->machine;
    fprintf(out, "{\"node\": ");
    put_string(out, node->title);
    fprintf(out, ", \"described\": %s, \"packages\": %zu, \"numa_nodes\": %zu",
            machine->described ? "true" : "false", machine->n_packages, machine->n_numas);
    put_cpus(out, "processors", &machine->cpus);
    put_cpus(out, "allowed", &machine->allowed);
    put_gpus(out, machine);
    put_ports(out, node);
    fputs(",\n \"pes\": [", out);
    for (size_t pe = 0; pe < node->plan->n_pes; pe++)
        put_pe(out, node, pe);
    fputc(']', out);
    put_links(out, node);
    put_distances(out, machine);
    put_warnings(out, node->plan->warnings);
    fputs("}\n", out);
}
