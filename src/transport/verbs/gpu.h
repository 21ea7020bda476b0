/* SPDX-License-Identifier: BSD-3-Clause */
/* How GPU memory becomes reachable for a device: one of three ways, tried in a fixed order. The decision runs over a
 * table of operations, so that tests provoke each refusal. */
#ifndef PX_TRANSPORT_VERBS_GPU_H
#define PX_TRANSPORT_VERBS_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

enum px_gpu_way {
    PX_GPU_ANY = -1,
    PX_GPU_DMABUF,  /* ibv_reg_dmabuf_mr on a descriptor that the GPU's driver exports */
    PX_GPU_PEERMEM, /* ibv_reg_mr on the GPU's address, with the nvidia-peermem module */
    PX_GPU_STAGING, /* through pinned host memory */
    PX_GPU_WAYS
};

/* Each returns PX_OK or says why not. `registration` is what the device gave (an ibv_mr). */
struct px_gpu_ways {
    /* The descriptor of the pages that hold [address, address+length), and where the address lies in it. */
    px_status (*export_dmabuf)(void *arg, uintptr_t address, size_t length, int *fd,
                               uint64_t *offset, struct px_error *error);
    px_status (*register_dmabuf)(void *arg, int fd, uint64_t offset, size_t length,
                                 uintptr_t address, void **registration, struct px_error *error);
    void (*close_dmabuf)(void *arg, int fd);
    /* Is a peer memory module loaded? Its name; the error says what was looked for. */
    px_status (*find_peermem)(void *arg, char *name, size_t size, struct px_error *error);
    px_status (*register_direct)(void *arg, uintptr_t address, size_t length, void **registration,
                                 struct px_error *error);
    /* Pinned host memory of `length` bytes that the device may touch. */
    px_status (*make_staging)(void *arg, size_t length, void **registration,
                              struct px_error *error);
};

struct px_gpu_choice {
    enum px_gpu_way way;
    void *registration;
    char module[32]; /* of PX_GPU_PEERMEM */
    char refused[PX_GPU_WAYS]
                [256]; /* why each earlier way was not taken; "" where it was not tried */
};

/* Tries the ways in order; `forced` tries only that one. `without_dmabuf` leaves the first out. A way once chosen for
 * one piece of memory should be forced for the next, so that all buffers go the same way. */
px_status px_gpu_register(const struct px_gpu_ways *ways, void *arg, enum px_gpu_way forced,
                          bool without_dmabuf, uintptr_t address, size_t length,
                          struct px_gpu_choice *choice, struct px_error *error);

const char *px_gpu_way_name(enum px_gpu_way way);

/* The peer memory module under any of its names, loaded now. `root` is "" or a recorded tree in place of "/". */
px_status px_gpu_find_peermem(const char *root, char *name, size_t size, struct px_error *error);

#endif
