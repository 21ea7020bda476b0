/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA driver, opened by name when a GPU is wanted: nothing links to libcuda, so one build serves
 * nodes with and without GPUs. Every function is asked for with the version of its signature, so the
 * table fits drivers from CUDA 11.8 on, whatever headers it was compiled with.
 *
 *   px_status status = px_cu(error, cuMemCreate(&handle, bytes, &properties, 0));
 *
 * A CUresult becomes a px_status in that one place, with the expression and CUDA's words. */
#ifndef PX_GPU_DRIVER_H
#define PX_GPU_DRIVER_H

#include "config.h"

#include <stdbool.h>
#include <stddef.h>

#include "src/diag/error.h"

#if PX_HAVE_CUDA
#include <cuda.h>
#include <cudaTypedefs.h>

#if CUDA_VERSION < 12000 /* older headers do not know the type */
typedef CUresult (*PFN_cuLibraryGetGlobal_v12000)(CUdeviceptr *, size_t *, struct CUlib_st *,
                                                  const char *);
#endif

#define PX_CUDA_OLDEST 11080 /* the driver must be at least CUDA 11.8's */

/* name, version of the signature. Missing ones make the driver unusable. */
#define PX_CUDA_CALLS(X)                                                                           \
    X(cuInit, 2000)                                                                                \
    X(cuDriverGetVersion, 2020)                                                                    \
    X(cuGetErrorName, 6000)                                                                        \
    X(cuGetErrorString, 6000)                                                                      \
    X(cuDeviceGetCount, 2000)                                                                      \
    X(cuDeviceGet, 2000)                                                                           \
    X(cuDeviceGetName, 2000)                                                                       \
    X(cuDeviceGetUuid, 11040)                                                                      \
    X(cuDeviceGetPCIBusId, 4010)                                                                   \
    X(cuDeviceTotalMem, 3020)                                                                      \
    X(cuDeviceGetAttribute, 2000)                                                                  \
    X(cuDeviceCanAccessPeer, 4000)                                                                 \
    X(cuDevicePrimaryCtxRetain, 7000)                                                              \
    X(cuDevicePrimaryCtxRelease, 11000)                                                            \
    X(cuCtxGetCurrent, 4000)                                                                       \
    X(cuCtxSetCurrent, 4000)                                                                       \
    X(cuCtxPushCurrent, 4000)                                                                      \
    X(cuCtxPopCurrent, 4000)                                                                       \
    X(cuCtxGetDevice, 2000)                                                                        \
    X(cuCtxEnablePeerAccess, 4000)                                                                 \
    X(cuCtxSynchronize, 2000)                                                                      \
    X(cuMemGetInfo, 3020)                                                                          \
    X(cuMemAlloc, 3020)                                                                            \
    X(cuMemFree, 3020)                                                                             \
    X(cuMemHostAlloc, 2020)                                                                        \
    X(cuMemFreeHost, 2000)                                                                         \
    X(cuMemHostRegister, 6050)                                                                     \
    X(cuMemHostUnregister, 4000)                                                                   \
    X(cuMemHostGetDevicePointer, 3020)                                                             \
    X(cuMemcpyAsync, 4000)                                                                         \
    X(cuMemcpy2DAsync, 3020)                                                                       \
    X(cuMemsetD8Async, 3020)                                                                       \
    X(cuPointerGetAttribute, 4000)                                                                 \
    X(cuIpcGetMemHandle, 4010)                                                                     \
    X(cuIpcOpenMemHandle, 11000)                                                                   \
    X(cuIpcCloseMemHandle, 4010)                                                                   \
    X(cuStreamCreate, 2000)                                                                        \
    X(cuStreamDestroy, 4000)                                                                       \
    X(cuStreamSynchronize, 2000)                                                                   \
    X(cuStreamQuery, 2000)                                                                         \
    X(cuStreamWaitEvent, 3020)                                                                     \
    X(cuStreamIsCapturing, 10000)                                                                  \
    X(cuThreadExchangeStreamCaptureMode, 10010)                                                    \
    X(cuStreamGetCtx, 9020)                                                                        \
    X(cuLaunchHostFunc, 10000)                                                                     \
    X(cuLaunchKernel, 4000)                                                                        \
    X(cuModuleLoadData, 2000)                                                                      \
    X(cuModuleUnload, 2000)                                                                        \
    X(cuModuleGetFunction, 2000)                                                                   \
    X(cuModuleGetGlobal, 3020)                                                                     \
    X(cuEventCreate, 2000)                                                                         \
    X(cuEventRecord, 2000)                                                                         \
    X(cuEventDestroy, 4000)                                                                        \
    X(cuEventSynchronize, 2000)                                                                    \
    X(cuEventQuery, 2000)

/* Those that may be missing: test for NULL, or for the attribute that promises them. */
#define PX_CUDA_OPTIONAL(X)                                                                        \
    X(cuLibraryGetGlobal, 12000)                                                                   \
    X(cuMemAddressReserve, 10020)                                                                  \
    X(cuMemAddressFree, 10020)                                                                     \
    X(cuMemCreate, 10020)                                                                          \
    X(cuMemRelease, 10020)                                                                         \
    X(cuMemMap, 10020)                                                                             \
    X(cuMemUnmap, 10020)                                                                           \
    X(cuMemSetAccess, 10020)                                                                       \
    X(cuMemGetAllocationGranularity, 10020)                                                        \
    X(cuMemExportToShareableHandle, 10020)                                                         \
    X(cuMemImportFromShareableHandle, 10020)                                                       \
    X(cuMemGetHandleForAddressRange, 11070)                                                        \
    X(cuStreamWriteValue32, 11070)                                                                 \
    X(cuStreamWriteValue64, 11070)                                                                 \
    X(cuStreamWaitValue32, 11070)                                                                  \
    X(cuStreamWaitValue64, 11070)                                                                  \
    X(cuStreamBatchMemOp, 11070)                                                                   \
    X(cuLaunchCooperativeKernel, 9000)                                                             \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050)

#define PX_CUDA_FIELD(name, version) PFN_##name##_v##version name;
struct px_cuda {
    PX_CUDA_CALLS(PX_CUDA_FIELD)
    PX_CUDA_OPTIONAL(PX_CUDA_FIELD)
    int version; /* of the driver: 13000 is CUDA 13.0 */
};
extern struct px_cuda px_cuda; /* filled by px_cuda_open */

/* Open libcuda.so.1, from NVSHMEM_CUDA_PATH when `folder` is not "", and initialise it. Once: later
 * calls give the first one's answer. PX_ERR_NOT_FOUND: no driver or no GPU; PX_ERR_UNSUPPORTED: too
 * old. */
px_status px_cuda_open(const char *folder, struct px_error *error);

/* The one place where a CUresult becomes a status. `error` may be NULL. */
px_status px_cuda_status(CUresult result, const char *expression, struct px_error *error);

#define px_cu(error, call) px_cuda_status(px_cuda.call, #call, error)

#endif /* PX_HAVE_CUDA */
#endif
