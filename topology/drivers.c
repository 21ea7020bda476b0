/* SPDX-License-Identifier: BSD-3-Clause */
/* Which GPUs the driver reports. hwloc finds GPUs in sysfs, which containers and some virtual machines
 * do not show; and only libcuda knows which of them a process may use. */
#include "config.h"
#include "topology/topology.h"
#include "topology/private.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { CUDA_NO_DEVICE = 100 };

/* As NVML lays it out. */
struct nvml_pci {
    char legacy_address[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *n);
    int (*by_index)(unsigned index, void **device);
    int (*pci)(void *device, struct nvml_pci *pci);
};

struct cuda {
    int (*init)(unsigned flags);
    int (*count)(int *n);
    int (*get)(int *device, int index);
    int (*address)(char *text, int size, int device);
};

const char *px_topology_nvml_name(const struct px_topology_drivers *drivers)
{
    return drivers && drivers->nvml ? drivers->nvml : "libnvidia-ml.so.1";
}

const char *px_topology_cuda_name(const struct px_topology_drivers *drivers)
{
    return drivers && drivers->cuda ? drivers->cuda : "libcuda.so.1";
}

void *px_topology_open_library(const char *name, const struct px_topology_symbol *symbols, size_t n)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < n; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            dlclose(library);
            return NULL;
        }
        memcpy(symbols[i].slot, &address, sizeof(address));
    }
    return library;
}

/* MIG makes several devices of one GPU: one address counts once. */
static void add(px_topology_pci *gpus, size_t *n, px_topology_pci pci)
{
    for (size_t i = 0; i < *n; i++)
        if (gpus[i] == pci)
            return;
    if (*n < PX_TOPOLOGY_GPUS_MAX)
        gpus[(*n)++] = pci;
}

static size_t list_nvml(const struct nvml *nvml, px_topology_pci *gpus)
{
    unsigned count = 0;
    size_t n = 0;
    if (nvml->count(&count) != 0)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        struct nvml_pci info = {.domain = 0};
        void *device;
        if (nvml->by_index(i, &device) == 0 && nvml->pci(device, &info) == 0)
            add(gpus, &n, (uint64_t)info.domain << 16 | info.bus << 8 | info.device << 3);
    }
    return n;
}

px_status px_topology_driver_gpus(const struct px_topology_drivers *drivers, px_topology_pci *gpus,
                                  size_t *n_gpus, struct px_error *error)
{
    struct nvml nvml;
    const struct px_topology_symbol symbols[] = {
        {"nvmlInit_v2", &nvml.init},
        {"nvmlShutdown", &nvml.shutdown},
        {"nvmlDeviceGetCount_v2", &nvml.count},
        {"nvmlDeviceGetHandleByIndex_v2", &nvml.by_index},
        {"nvmlDeviceGetPciInfo_v3", &nvml.pci},
    };
    const char *name = px_topology_nvml_name(drivers);
    void *library = px_topology_open_library(name, symbols, sizeof(symbols) / sizeof(symbols[0]));
    if (!library)
        return px_error_set(error, PX_ERR_NOT_FOUND, "%s is not there", name);
    int code = nvml.init();
    if (code == 0) {
        *n_gpus = list_nvml(&nvml, gpus);
        nvml.shutdown();
    }
    dlclose(library);
    return code == 0
               ? PX_OK
               : px_error_set(error, PX_ERR_NOT_FOUND, "%s: nvmlInit_v2 gives %d", name, code);
}

static size_t list_cuda(const struct cuda *cuda, px_topology_pci *gpus)
{
    int count = 0;
    size_t n = 0;
    if (cuda->count(&count) != 0)
        return 0;
    for (int i = 0; i < count; i++) {
        char text[32] = "";
        px_topology_pci pci;
        int device;
        if (cuda->get(&device, i) == 0 && cuda->address(text, sizeof(text), device) == 0 &&
            px_topology_pci_parse(text, &pci, NULL) == PX_OK)
            add(gpus, &n, pci);
    }
    return n;
}

px_status px_topology_visible_gpus(const struct px_topology_drivers *drivers, px_topology_pci *gpus,
                                   size_t *n_gpus, struct px_error *error)
{
    struct cuda cuda;
    const struct px_topology_symbol symbols[] = {
        {"cuInit", &cuda.init},
        {"cuDeviceGetCount", &cuda.count},
        {"cuDeviceGet", &cuda.get},
        {"cuDeviceGetPCIBusId", &cuda.address},
    };
    const char *name = px_topology_cuda_name(drivers);
    /* Never closed: a driver that was started cannot be unloaded. */
    if (!px_topology_open_library(name, symbols, sizeof(symbols) / sizeof(symbols[0])))
        return px_error_set(error, PX_ERR_NOT_FOUND, "%s is not there", name);
    int code = cuda.init(0);
    if (code != 0 && code != CUDA_NO_DEVICE)
        return px_error_set(error, PX_ERR_NOT_FOUND, "%s: cuInit gives %d", name, code);
    *n_gpus = code == 0 ? list_cuda(&cuda, gpus) : 0;
    return PX_OK;
}
