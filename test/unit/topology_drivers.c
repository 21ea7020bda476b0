/* SPDX-License-Identifier: BSD-3-Clause */
/* Stand-ins for NVML and libcuda, built twice: with -DPX_TEST_NVML and with -DPX_TEST_CUDA. Three
 * GPUs: 0 and 1 are joined by NVLink, 0 and 2 by PCIe, 1 and 2 not at all; a fourth is hidden. */
#include "config.h"

#include <stdio.h>
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
EXPORT int nvmlDeviceGetCount_v2(unsigned *n);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, void *info);
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

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = 4;
    return 0;
}

/* The fourth is lost, as NVML says of a GPU that fell off the bus. */
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (index > 2)
        return 15;
    *device = &devices[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, void *info)
{
    const unsigned numbers[5] = {0, (unsigned)((char *)device - devices) + 1, 0, 0x233010de, 0};
    memset(info, 0, 68);
    memcpy((char *)info + 16, numbers, sizeof(numbers));
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
EXPORT int cuDeviceGetCount(int *n);
EXPORT int cuDeviceGet(int *device, int index);
EXPORT int cuDeviceGetPCIBusId(char *text, int size, int device);
EXPORT int cuDeviceGetByPCIBusId(int *device, const char *address);
EXPORT int cuDeviceCanAccessPeer(int *can, int a, int b);
EXPORT int cuDeviceGetP2PAttribute(int *value, int attribute, int a, int b);

int cuInit(unsigned flags)
{
    return getenv("PX_TEST_NO_DRIVER") ? 100 : 0;
}

/* What CUDA_VISIBLE_DEVICES=1,0 would leave, with a second device of GPU 1 as MIG makes them. */
int cuDeviceGetCount(int *n)
{
    *n = 3;
    return 0;
}

int cuDeviceGet(int *device, int index)
{
    *device = index == 2 ? 0 : 1;
    return 0;
}

int cuDeviceGetPCIBusId(char *text, int size, int device)
{
    return snprintf(text, (size_t)size, "00000000:%02X:00.0", device + 1) < size ? 0 : 1;
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
