/* SPDX-License-Identifier: BSD-3-Clause */
/* Device code that announces itself, and modules that programs name: arguments, then src/device. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/world.h"
#include "src/device/device.h"
#include "src/diag/log.h"

static int told(const char *call, px_status status, const struct px_error *error)
{
    if (status == PX_OK)
        return NVSHMEMX_SUCCESS;
    px_warn("%s: %s", call, error->text);
    return status == PX_ERR_INVALID || status == PX_ERR_NOT_FOUND ? NVSHMEMX_ERROR_INVALID_VALUE
           : status == PX_ERR_UNSUPPORTED                         ? NVSHMEMX_ERROR_NOT_SUPPORTED
                                                                  : NVSHMEMX_ERROR_INTERNAL;
}

/* Comes before main, so a part that does not fit is kept, and said at init; later it is said at once. */
int px_api_device_register(nvshmemx_device_part_t *part)
{
    struct px_error error = PX_ERROR_INIT;
    px_status status = px_device_add(part, &error);
    if (px_world.life == PX_LIFE_UP)
        return told("nvshmemx_device_register", status, &error);
    return status == PX_OK ? NVSHMEMX_SUCCESS : NVSHMEMX_ERROR_INVALID_VALUE;
}

void px_api_device_unregister(nvshmemx_device_part_t *part)
{
    px_device_remove(part);
}

int px_api_cumodule_init(struct CUmod_st *module)
{
    struct px_error error = PX_ERROR_INIT;
    px_world_require_up("nvshmemx_cumodule_init");
    return told("nvshmemx_cumodule_init", px_device_module(module, &error), &error);
}

/* The state of a module goes with it. */
int px_api_cumodule_finalize(struct CUmod_st *module)
{
    (void)module;
    return NVSHMEMX_SUCCESS;
}

int px_api_culibrary_init(struct CUlib_st *library)
{
    struct px_error error = PX_ERROR_INIT;
    px_world_require_up("nvshmemx_culibrary_init");
    return told("nvshmemx_culibrary_init", px_device_library(library, &error), &error);
}

int px_api_culibrary_finalize(struct CUlib_st *library)
{
    (void)library;
    return NVSHMEMX_SUCCESS;
}
