/* SPDX-License-Identifier: BSD-3-Clause */
/* The host side of device code: who has some (parts), and the state its kernels read. Parts announce
 * themselves when they are loaded, long before start-up or in the middle of the job; both ways their
 * state is filled once the job is up. Without CUDA at build time parts are only refused. */
#ifndef PX_DEVICE_DEVICE_H
#define PX_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "src/coll/coll.h"
#include "src/diag/error.h"
#include "src/include/nvshmemx.h"

/* Where kernels' own words are in the device control area (px_gpu.control); what is in front is for
 * operations on streams. */
#define PX_DEVICE_FLAGS_OFFSET   ((size_t)2 << 20)
#define PX_DEVICE_SCRATCH_OFFSET ((size_t)3 << 20)
#define PX_DEVICE_SCRATCH_BYTES  ((size_t)1 << 20)

/* Is a part there that cannot work with this library? Then says which. */
px_status px_device_check(struct px_error *error);

/* Local, when the peers' GPU memory is mapped and the predefined teams are there. `sharers`: PEs on
 * this GPU. */
struct px_device_setup {
    uintptr_t heap;
    size_t heap_bytes; /* room, not size */
    uint32_t max_teams, sharers;
};
px_status px_device_open(const struct px_device_setup *setup, struct px_error *error);
void px_device_close(void);

/* A team was made (collective over it; none of its members has used it since), or its slot is free. */
void px_device_team(const struct px_team *team);
void px_device_no_team(int32_t handle);

/* nvshmemx_device_register and its kin, in words of this layer. */
px_status px_device_add(nvshmemx_device_part_t *part, struct px_error *error);
void px_device_remove(nvshmemx_device_part_t *part);
struct CUmod_st;
struct CUlib_st;
px_status px_device_module(struct CUmod_st *module, struct px_error *error);
px_status px_device_library(struct CUlib_st *library, struct px_error *error);

#endif
