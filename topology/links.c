/* SPDX-License-Identifier: BSD-3-Clause */
/* What joins each pair of GPUs. NVML answers without starting the driver for this process and sees
 * GPUs that are hidden from it; libcuda is asked where NVML is missing. Both are opened by name, so
 * a node without GPUs needs neither. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <dlfcn.h>
#include <string.h>

enum { NVML_P2P_READ = 0, NVML_P2P_NVLINK = 2 };
enum { CUDA_P2P_NATIVE_ATOMICS = 3 };

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_address)(const char *pci, void **device);
    int (*p2p_status)(void *a, void *b, int what, int *status);
};

struct cuda {
    int (*init)(unsigned flags);
    int (*by_address)(int *device, const char *pci);
    int (*can_access)(int *can, int device, int peer);
    int (*p2p_attribute)(int *value, int attribute, int device, int peer);
};

static enum px_topology_link ask_nvml(const struct nvml *nvml, void *a, void *b)
{
    int status;
    if (!a || !b)
        return PX_TOPOLOGY_LINK_UNKNOWN;
    if (nvml->p2p_status(a, b, NVML_P2P_NVLINK, &status) == 0 && status == 0)
        return PX_TOPOLOGY_LINK_NVLINK;
    if (nvml->p2p_status(a, b, NVML_P2P_READ, &status) != 0)
        return PX_TOPOLOGY_LINK_UNKNOWN;
    return status == 0 ? PX_TOPOLOGY_LINK_PCIE : PX_TOPOLOGY_LINK_NONE;
}

static bool links_from_nvml(const struct px_topology_machine *machine, const char *name,
                            enum px_topology_link *links)
{
    struct nvml nvml;
    const struct px_topology_symbol symbols[] = {
        {"nvmlInit_v2", &nvml.init},
        {"nvmlShutdown", &nvml.shutdown},
        {"nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_address},
        {"nvmlDeviceGetP2PStatus", &nvml.p2p_status},
    };
    void *devices[PX_TOPOLOGY_GPUS_MAX] = {NULL};
    size_t n = machine->n_gpus;
    void *library = px_topology_open_library(name, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (!library)
        return false;
    if (nvml.init() != 0) {
        dlclose(library);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char address[PX_TOPOLOGY_PCI_TEXT_MAX];
        px_topology_pci_text(machine->gpus[i].pci, address);
        if (nvml.by_address(address, &devices[i]) != 0)
            devices[i] = NULL;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (i != j)
                links[i * n + j] = ask_nvml(&nvml, devices[i], devices[j]);
    nvml.shutdown();
    dlclose(library);
    return true;
}

/* Over NVLink GPUs can do each other's atomics; over PCIe they cannot. */
static enum px_topology_link ask_cuda(const struct cuda *cuda, int a, int b)
{
    int can, atomics;
    if (a < 0 || b < 0 || cuda->can_access(&can, a, b) != 0)
        return PX_TOPOLOGY_LINK_UNKNOWN;
    if (!can)
        return PX_TOPOLOGY_LINK_NONE;
    if (cuda->p2p_attribute(&atomics, CUDA_P2P_NATIVE_ATOMICS, a, b) == 0 && atomics)
        return PX_TOPOLOGY_LINK_NVLINK;
    return PX_TOPOLOGY_LINK_PCIE;
}

static bool links_from_cuda(const struct px_topology_machine *machine, const char *name,
                            enum px_topology_link *links)
{
    struct cuda cuda;
    const struct px_topology_symbol symbols[] = {
        {"cuInit", &cuda.init},
        {"cuDeviceGetByPCIBusId", &cuda.by_address},
        {"cuDeviceCanAccessPeer", &cuda.can_access},
        {"cuDeviceGetP2PAttribute", &cuda.p2p_attribute},
    };
    int devices[PX_TOPOLOGY_GPUS_MAX];
    size_t n = machine->n_gpus;
    /* Never closed: a driver that was started cannot be unloaded. */
    if (!px_topology_open_library(name, symbols, sizeof(symbols) / sizeof(symbols[0])) ||
        cuda.init(0) != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        char address[PX_TOPOLOGY_PCI_TEXT_MAX];
        px_topology_pci_text(machine->gpus[i].pci, address);
        if (cuda.by_address(&devices[i], address) != 0)
            devices[i] = -1;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (i != j)
                links[i * n + j] = ask_cuda(&cuda, devices[i], devices[j]);
    return true;
}

px_status px_topology_links(const struct px_topology_machine *machine,
                            const struct px_topology_drivers *drivers, enum px_topology_link *links,
                            struct px_error *error)
{
    const char *nvml = px_topology_nvml_name(drivers), *cuda = px_topology_cuda_name(drivers);
    for (size_t i = 0; i < machine->n_gpus * machine->n_gpus; i++)
        links[i] = PX_TOPOLOGY_LINK_UNKNOWN;
    if (links_from_nvml(machine, nvml, links) || links_from_cuda(machine, cuda, links))
        return PX_OK;
    return px_error_set(error, PX_ERR_NOT_FOUND,
                        "neither %s nor %s answers: links between GPUs are not known", nvml, cuda);
}
