/* SPDX-License-Identifier: BSD-3-Clause */
/* Launching kernels that wait for other PEs. All blocks have to be on the GPU at once, so the launch is
 * cooperative; PEs that share a GPU do not see each other's blocks, so each is given its share. */
#define NVSHMEM_KERNELS 0 /* only the state is wanted */
#include <nvshmemx.h>

#include "src/device/part.h"

namespace
{

/* PEs on this GPU, as the job's start-up found them. */
int sharers()
{
    return nvshmemi_part.sharers > 1 ? nvshmemi_part.sharers : 1;
}

int say(cudaError_t error)
{
    if (error == cudaSuccess)
        return NVSHMEMX_SUCCESS;
    (void)cudaGetLastError(); /* it is returned here */
    if (error == cudaErrorInvalidValue || error == cudaErrorInvalidDeviceFunction)
        return NVSHMEMX_ERROR_INVALID_VALUE;
    return NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED;
}

cudaError_t blocks_that_fit(const void *func, dim3 block, size_t shared_mem, int *blocks)
{
    int device, processors, each;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &each, func, (int)(block.x * block.y * block.z), shared_mem);
    if (error == cudaSuccess)
        *blocks = processors * each / sharers();
    return error;
}

} // namespace

extern "C" int nvshmemx_collective_launch_query_gridsize(const void *func, dim3 block, void **,
                                                         size_t shared_mem, int *gridsize)
{
    return gridsize ? say(blocks_that_fit(func, block, shared_mem, gridsize))
                    : NVSHMEMX_ERROR_INVALID_VALUE;
}

extern "C" int nvshmemx_collective_launch(const void *func, dim3 grid, dim3 block, void **args,
                                          size_t shared_mem, cudaStream_t stream)
{
    int fit = 0;
    cudaError_t error = blocks_that_fit(func, block, shared_mem, &fit);
    if (error != cudaSuccess)
        return say(error);
    size_t blocks = (size_t)grid.x * grid.y * grid.z;
    if (blocks == 0)
        grid = dim3((unsigned)fit);
    else if (blocks > (size_t)fit)
        return NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED;
    return say(cudaLaunchCooperativeKernel(func, grid, block, args, shared_mem, stream));
}
