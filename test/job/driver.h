/* SPDX-License-Identifier: BSD-3-Clause */
/* What a test program needs of the CUDA driver, opened by name as the library does. */
#ifndef PX_TEST_JOB_DRIVER_H
#define PX_TEST_JOB_DRIVER_H

#include "config.h"

#include <stdbool.h>
#include <stdlib.h>

#if PX_HAVE_CUDA
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct {
    CUresult (*cuStreamCreate)(CUstream *, unsigned);
    CUresult (*cuStreamDestroy)(CUstream);
    CUresult (*cuStreamSynchronize)(CUstream);
    CUresult (*cuStreamQuery)(CUstream);
    CUresult (*cuStreamBeginCapture)(CUstream, CUstreamCaptureMode);
    CUresult (*cuStreamEndCapture)(CUstream, CUgraph *);
    CUresult (*cuGraphInstantiateWithFlags)(CUgraphExec *, CUgraph, unsigned long long);
    CUresult (*cuGraphLaunch)(CUgraphExec, CUstream);
    CUresult (*cuGraphExecDestroy)(CUgraphExec);
    CUresult (*cuGraphDestroy)(CUgraph);
    CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
    CUresult (*cuCtxSetCurrent)(CUcontext);
    CUresult (*cuDeviceGetCount)(int *);
    CUresult (*cuInit)(unsigned);
} cuda;

static bool find_call(void *library, const char *name, int version, void *where)
{
    CUresult (*find)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    void *symbol = dlsym(library, "cuGetProcAddress_v2"), *address = NULL;
    CUdriverProcAddressQueryResult what;
    memcpy(&find, &symbol, sizeof(symbol));
    if (!find || find(name, &address, version, 0, &what) != CUDA_SUCCESS || !address)
        return false;
    memcpy(where, &address, sizeof(address));
    return true;
}

/* The device that the library chooses without a current one: its number on the node. */
static bool open_driver(int number)
{
    char path[4096] = "libcuda.so.1";
    const char *folder = getenv("NVSHMEM_CUDA_PATH");
    int count = 0;
    CUcontext context;
    if (folder)
        snprintf(path, sizeof(path), "%s/libcuda.so.1", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    bool good = library != NULL;
#define FIND(name, version) good = good && find_call(library, #name, version, (void *)&cuda.name)
    FIND(cuInit, 2000);
    FIND(cuDeviceGetCount, 2000);
    FIND(cuDevicePrimaryCtxRetain, 7000);
    FIND(cuCtxSetCurrent, 4000);
    FIND(cuStreamCreate, 2000);
    FIND(cuStreamDestroy, 4000);
    FIND(cuStreamSynchronize, 2000);
    FIND(cuStreamQuery, 2000);
    FIND(cuStreamBeginCapture, 10010);
    FIND(cuStreamEndCapture, 10000);
    FIND(cuGraphInstantiateWithFlags, 11040);
    FIND(cuGraphLaunch, 10000);
    FIND(cuGraphExecDestroy, 10000);
    FIND(cuGraphDestroy, 10000);
#undef FIND
    return good && cuda.cuInit(0) == CUDA_SUCCESS &&
           cuda.cuDeviceGetCount(&count) == CUDA_SUCCESS &&
           cuda.cuDevicePrimaryCtxRetain(&context, number % count) == CUDA_SUCCESS &&
           cuda.cuCtxSetCurrent(context) == CUDA_SUCCESS;
}
#endif
#endif
