/* SPDX-License-Identifier: BSD-3-Clause */
/* How GPU memory would be registered with a NIC of this node: the first way of the library's fixed
 * order that the system seems to offer. The library itself tries; this only looks. */
#include "config.h"
#include "src/tools/info.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { CUDA_DMA_BUF_SUPPORTED = 124 };

/* Drivers of NICs take dma-bufs since Linux 5.12. */
static bool kernel_has_dmabuf(void)
{
    struct utsname system;
    int major, minor;
    if (uname(&system) != 0 || sscanf(system.release, "%d.%d", &major, &minor) != 2)
        return false;
    return major > 5 || (major == 5 && minor >= 12);
}

static bool driver_has_dmabuf(px_topology_pci pci)
{
    int (*init)(unsigned), (*by_address)(int *, const char *), (*attribute)(int *, int, int);
    char address[PX_TOPOLOGY_PCI_TEXT_MAX];
    int device, value = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    void *symbols[] = {dlsym(library, "cuInit"), dlsym(library, "cuDeviceGetByPCIBusId"),
                       dlsym(library, "cuDeviceGetAttribute")};
    if (!symbols[0] || !symbols[1] || !symbols[2])
        return false;
    memcpy(&init, &symbols[0], sizeof(init));
    memcpy(&by_address, &symbols[1], sizeof(by_address));
    memcpy(&attribute, &symbols[2], sizeof(attribute));
    px_topology_pci_text(pci, address);
    return init(0) == 0 && by_address(&device, address) == 0 &&
           attribute(&value, CUDA_DMA_BUF_SUPPORTED, device) == 0 && value;
}

const char *px_info_registration(const struct px_topology_machine *machine, int gpu, bool no_dmabuf)
{
    if (gpu < 0)
        return "host memory";
    if (machine->described)
        return "not known";
    if (!no_dmabuf && kernel_has_dmabuf() && driver_has_dmabuf(machine->gpus[gpu].pci))
        return "dma-buf";
    if (access("/sys/module/nvidia_peermem", F_OK) == 0 ||
        access("/sys/module/nv_peer_mem", F_OK) == 0)
        return "peermem";
    return "staging";
}
