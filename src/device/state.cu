/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the library that is in every program and shared library with device code: the state that
 * kernels read, and its announcement to libpxshmem when it is loaded. CUDA's runtime is that of the
 * program, static or shared: only it knows the address of the state on a GPU. */
#define NVSHMEM_KERNELS 0 /* only the state is wanted */
#include <nvshmemx.h>

#include "src/device/part.h"

extern "C" {
__constant__ struct nvshmemi_state NVSHMEMI_STATE_SYMBOL = {0, 0, -1, -1};
extern const char nvshmemi_device_part_v1;
const char nvshmemi_device_part_v1 = 1;
}

namespace
{

int find(void **address, size_t *size)
{
    cudaError_t error = cudaGetSymbolAddress(address, NVSHMEMI_STATE_SYMBOL);
    if (error == cudaSuccess)
        error = cudaGetSymbolSize(size, NVSHMEMI_STATE_SYMBOL);
    return (int)error;
}

} // namespace

nvshmemx_device_part_t nvshmemi_part = {sizeof(nvshmemi_part),
                                        NVSHMEMI_STATE_VERSION,
                                        sizeof(struct nvshmemi_state),
                                        NVSHMEM_VENDOR_STRING,
                                        find,
                                        1,
                                        nullptr};

namespace
{

/* The library keeps what is wrong and says it at nvshmem_init. */
struct announcement {
    announcement()
    {
        (void)nvshmemx_device_register(&nvshmemi_part);
    }
    ~announcement()
    {
        nvshmemx_device_unregister(&nvshmemi_part);
    }
} announcement;

} // namespace
