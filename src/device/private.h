/* SPDX-License-Identifier: BSD-3-Clause */
/* Within src/device: the proxy, a thread that carries out what kernels ask for towards PEs whose memory
 * their GPU does not reach. */
#ifndef PX_DEVICE_PRIVATE_H
#define PX_DEVICE_PRIVATE_H

#include "src/device/state.h"
#include "src/diag/error.h"

/* *ring: the address of a struct nvshmemi_ring for kernels. The GPU's context is current. */
px_status px_proxy_open(struct nvshmemi_ring **ring, struct px_error *error);
/* When everything that was asked has been done; harmless without a proxy. */
void px_proxy_close(void);

#endif
