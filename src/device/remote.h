/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the proxy, for PEs that have to be reached by the network. Defined in the device library
 * (ring.cu): these calls take long anyway, so they are not copied into programs. One thread calls. */
#ifndef NVSHMEM_DEVICE_REMOTE_H
#define NVSHMEM_DEVICE_REMOTE_H

#include "nvshmem_device/word.h"

namespace nvshmemi
{

/* wait: return when the source may be reused, or the data is there. */
extern __device__ void remote_put(void *dest, const void *source, size_t bytes, int pe, bool wait);
extern __device__ void remote_get(void *dest, const void *source, size_t bytes, int pe, bool wait);
/* Values of up to 8 bytes. */
extern __device__ void remote_value(void *dest, uint64_t value, unsigned bytes, int pe);
extern __device__ uint64_t remote_read(const void *source, unsigned bytes, int pe);
/* wait: the value before is wanted. */
extern __device__ uint64_t remote_amo(void *dest, int operation, uint64_t value, uint64_t compare,
                                      unsigned bytes, int pe, bool wait);
extern __device__ void remote_fence();
extern __device__ void remote_quiet();
extern __device__ void remote_exit(int status);

} // namespace nvshmemi
#endif
