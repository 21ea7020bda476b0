/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a PE's symmetric memory is, as a program that knows CUDA's driver sees it.
 *
 *   seats [before N | after N]
 *
 * makes device N current before or after nvshmem_init; N is `local` for the PE's number on its node.
 * Each PE prints "PE P: memory on A, current B": PCI addresses, "host" or "none". Runs over the
 * stand-in of test/standin, found by NVSHMEM_CUDA_PATH as the library does. */
#include <cuda.h>
#include <dlfcn.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdint.h>
#include <string.h>

#include "tap.h"

typedef CUresult find_fn(const char *name, void **function, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult *what);

static struct {
    CUresult (*init)(unsigned flags);
    CUresult (*get)(CUdevice *device, int number);
    CUresult (*address)(char *text, int size, CUdevice device);
    CUresult (*retain)(CUcontext *context, CUdevice device);
    CUresult (*set_current)(CUcontext context);
    CUresult (*get_device)(CUdevice *device);
    CUresult (*attribute)(void *out, CUpointer_attribute attribute, CUdeviceptr pointer);
} cu;

static bool open_driver(void)
{
    char path[4096];
    const char *folder = getenv("NVSHMEM_CUDA_PATH");
    snprintf(path, sizeof path, "%s%slibcuda.so.1", folder ? folder : "", folder ? "/" : "");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    find_fn *find;
    CUdriverProcAddressQueryResult what;
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {{"cuInit", &cu.init},
                  {"cuDeviceGet", &cu.get},
                  {"cuDeviceGetPCIBusId", &cu.address},
                  {"cuDevicePrimaryCtxRetain", &cu.retain},
                  {"cuCtxSetCurrent", &cu.set_current},
                  {"cuCtxGetDevice", &cu.get_device},
                  {"cuPointerGetAttribute", &cu.attribute}};
    memcpy(&find, &symbol, sizeof symbol);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!symbol || find(wanted[i].name, wanted[i].slot, 12000, 0, &what) != CUDA_SUCCESS)
            return false;
    return cu.init(0) == CUDA_SUCCESS;
}

static bool make_current(const char *number)
{
    const char *local = getenv("SLURM_LOCALID");
    int n = atoi(strcmp(number, "local") == 0 && local ? local : number);
    CUdevice device;
    CUcontext context;
    return cu.get(&device, n) == CUDA_SUCCESS && cu.retain(&context, device) == CUDA_SUCCESS &&
           cu.set_current(context) == CUDA_SUCCESS;
}

static const char *memory_of(const void *symmetric, char text[32])
{
    int device = -1;
    strcpy(text, "host");
    if (cu.attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                     (CUdeviceptr)(uintptr_t)symmetric) == CUDA_SUCCESS)
        cu.address(text, 32, device);
    return text;
}

static const char *current(char text[32])
{
    CUdevice device;
    strcpy(text, "none");
    if (cu.get_device(&device) == CUDA_SUCCESS)
        cu.address(text, 32, device);
    return text;
}

static void try_ring(int64_t *inbox, int me, int n_pes)
{
    int64_t mine = 100 + me, got = 0;
    nvshmem_int64_put(inbox, &mine, 1, (me + 1) % n_pes);
    nvshmem_barrier_all();
    nvshmem_int64_get(&got, inbox, 1, me);
    ok(got == 100 + (me + n_pes - 1) % n_pes, "data goes round the ring: %ld", (long)got);
}

int main(int argc, char **argv)
{
    char memory[32], now[32], later[32];
    const char *when = argc > 2 ? argv[1] : "";
    if (!open_driver() || (strcmp(when, "before") == 0 && !make_current(argv[2])))
        return 77;
    nvshmem_init();
    int me = nvshmem_my_pe(), n_pes = nvshmem_n_pes();
    int64_t *inbox = nvshmem_malloc(sizeof *inbox);
    tap_start(me);
    current(now);
    if (strcmp(when, "after") == 0 && !make_current(argv[2]))
        return 77;
    try_ring(inbox, me, n_pes);
    diag("PE %d: memory on %s, current %s", me, memory_of(inbox, memory), now);
    nvshmem_finalize();
    if (strcmp(when, "") == 0)
        ok(strcmp(current(later), "none") == 0, "after finalize nothing is current: %s", later);
    return tap_done();
}
