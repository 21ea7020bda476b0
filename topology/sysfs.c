/* SPDX-License-Identifier: BSD-3-Clause */
/* What hwloc does not tell of a NIC and sysfs does: speed and fabric of a port, virtual functions,
 * names of Slingshot devices; and which processors share a core, where loading hwloc for it would take
 * too long. Every value is optional; what cannot be read stays as it was. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of a file below sysfs, without its newline. */
static bool read_line(char *line, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool read_line(char *line, size_t size, const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    FILE *file = length > 0 && (size_t)length < sizeof(path) ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

unsigned px_topology_sysfs_n_ports(const char *sysfs, const char *device)
{
    char path[PATH_MAX];
    unsigned highest = 0, number;
    snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports", sysfs, device);
    DIR *ports = opendir(path);
    if (!ports)
        return 0;
    for (struct dirent *entry; (entry = readdir(ports));)
        if (sscanf(entry->d_name, "%5u", &number) == 1 && number > highest && number <= 255)
            highest = number;
    closedir(ports);
    return highest;
}

/* "4: ACTIVE" */
static void read_state(const char *sysfs, struct px_topology_port *port)
{
    char line[128];
    unsigned state;
    if (read_line(line, sizeof(line), "%s/class/infiniband/%s/ports/%u/state", sysfs, port->device,
                  port->number) &&
        sscanf(line, "%u", &state) == 1)
        port->state = state == 4 ? PX_TOPOLOGY_UP : PX_TOPOLOGY_DOWN;
}

/* "400 Gb/sec (4X NDR)"; "2.5 Gb/sec (1X SDR)" */
static void read_rate(const char *sysfs, struct px_topology_port *port)
{
    char line[128];
    unsigned whole, tenth = 0;
    if (read_line(line, sizeof(line), "%s/class/infiniband/%s/ports/%u/rate", sysfs, port->device,
                  port->number) &&
        sscanf(line, "%7u.%1u", &whole, &tenth) >= 1)
        port->speed = whole * 1000 + tenth * 100;
}

static void read_link_layer(const char *sysfs, struct px_topology_port *port)
{
    char line[128];
    if (!read_line(line, sizeof(line), "%s/class/infiniband/%s/ports/%u/link_layer", sysfs,
                   port->device, port->number))
        return;
    if (strcmp(line, "InfiniBand") == 0)
        port->fabric = PX_TOPOLOGY_INFINIBAND;
    else if (strcmp(line, "Ethernet") == 0)
        port->fabric = PX_TOPOLOGY_ROCE;
}

/* A Slingshot port tells "up" or "down", and its speed as "BS_200G" or alike. */
static void read_cxi(const char *sysfs, struct px_topology_port *port)
{
    char line[128];
    unsigned speed;
    if (read_line(line, sizeof(line), "%s/class/cxi/%s/device/port/link", sysfs, port->device))
        port->state = strcmp(line, "up") == 0 ? PX_TOPOLOGY_UP : PX_TOPOLOGY_DOWN;
    if (read_line(line, sizeof(line), "%s/class/cxi/%s/device/port/speed", sysfs, port->device) &&
        sscanf(line, "%*[^0-9]%7u", &speed) == 1)
        port->speed = speed * 1000;
}

void px_topology_sysfs_port(const char *sysfs, struct px_topology_port *port)
{
    read_state(sysfs, port);
    read_rate(sysfs, port);
    if (port->fabric != PX_TOPOLOGY_EFA)
        read_link_layer(sysfs, port);
    if (port->fabric == PX_TOPOLOGY_SLINGSHOT)
        read_cxi(sysfs, port);
}

bool px_topology_sysfs_virtual(const char *sysfs, px_topology_pci pci)
{
    char path[PATH_MAX], address[PX_TOPOLOGY_PCI_TEXT_MAX];
    px_topology_pci_text(pci, address);
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/physfn", sysfs, address);
    return access(path, F_OK) == 0;
}

bool px_topology_sysfs_cxi(const char *sysfs, px_topology_pci pci, char name[PX_TOPOLOGY_NAME_MAX])
{
    char path[PATH_MAX], address[PX_TOPOLOGY_PCI_TEXT_MAX];
    bool found = false;
    px_topology_pci_text(pci, address);
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/cxi", sysfs, address);
    DIR *devices = opendir(path);
    if (!devices)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(devices));) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= PX_TOPOLOGY_NAME_MAX)
            continue;
        memcpy(name, entry->d_name, strlen(entry->d_name) + 1);
        found = true;
    }
    closedir(devices);
    return found;
}

bool px_topology_sysfs_cpus(struct px_topology_cpus *cpus, size_t cpu, const char *what)
{
    char line[1024];
    return read_line(line, sizeof(line), "/sys/devices/system/cpu/cpu%zu/topology/%s", cpu, what) &&
           px_topology_cpus_parse(line, cpus, NULL) == PX_OK;
}
