/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of libpxshmem_device share on the host's side. */
#ifndef PX_DEVICE_PART_H
#define PX_DEVICE_PART_H

#include <nvshmemx.h>

#include "nvshmem_device/threads.h"

/* Of this program or shared library: nvshmem_init stores what it found. */
extern nvshmemx_device_part_t nvshmemi_part;

#endif
