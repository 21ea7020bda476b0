/* SPDX-License-Identifier: BSD-3-Clause */
/* Stand-ins for NVML and libcuda, built twice: with -DPX_TEST_NVML and with -DPX_TEST_CUDA. Three
 * GPUs: 0 and 1 are joined by NVLink, 0 and 2 by PCIe, 1 and 2 not at all; a fourth is hidden. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

enum { NO_LINK, PCIE, NVLINK };

static const int joined[3][3] = {
    {NO_LINK, NVLINK, PCIE}, {NVLINK, NO_LINK, NO_LINK}, {PCIE, NO_LINK, NO_LINK}};

static int find(const char *address)
{
    static const char *const addresses[] = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
    for (int i = 0; i < 3; i++)
        if (strcmp(address, addresses[i]) == 0)
            return i;
    return -1;
}

#define EXPORT __attribute__((visibility("default")))

#ifdef PX_TEST_NVML
EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device);
EXPORT int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status);

static char devices[3];

int nvmlInit_v2(void)
{
    return getenv("PX_TEST_NO_DRIVER") ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **device)
{
    if (find(address) < 0)
        return 6;
    *device = &devices[find(address)];
    return 0;
}

int nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *status)
{
    int link = joined[(char *)a - devices][(char *)b - devices];
    *status = what == 2 ? link != NVLINK : link == NO_LINK;
    return 0;
}
#endif

#ifdef PX_TEST_CUDA
EXPORT int cuInit(unsigned flags);
EXPORT int cuDeviceGetByPCIBusId(int *device, const char *address);
EXPORT int cuDeviceCanAccessPeer(int *can, int a, int b);
EXPORT int cuDeviceGetP2PAttribute(int *value, int attribute, int a, int b);

int cuInit(unsigned flags)
{
    return getenv("PX_TEST_NO_DRIVER") ? 100 : 0;
}

int cuDeviceGetByPCIBusId(int *device, const char *address)
{
    if (find(address) < 0)
        return 101;
    *device = find(address);
    return 0;
}

int cuDeviceCanAccessPeer(int *can, int a, int b)
{
    *can = joined[a][b] != NO_LINK;
    return 0;
}

int cuDeviceGetP2PAttribute(int *value, int attribute, int a, int b)
{
    if (attribute != 3)
        return 1;
    *value = joined[a][b] == NVLINK;
    return 0;
}
#endif
