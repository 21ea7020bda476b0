/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain dma-buf, nvidia-peermem, staging. Which of them works depends on kernel, driver, module and adapter, and
 * can be known only by trying, on the memory itself; the reasons of those that were refused are kept for the report. */
#include "config.h"
#include "src/transport/verbs/gpu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static px_status by_dmabuf(const struct px_gpu_ways *ways, void *arg, uintptr_t address,
                           size_t length, struct px_gpu_choice *choice, struct px_error *error)
{
    int fd;
    uint64_t offset;
    px_status status = ways->export_dmabuf(arg, address, length, &fd, &offset, error);
    if (status != PX_OK)
        return status;
    status = ways->register_dmabuf(arg, fd, offset, length, address, &choice->registration, error);
    ways->close_dmabuf(arg, fd); /* the registration holds the pages itself */
    return status;
}

static px_status by_peermem(const struct px_gpu_ways *ways, void *arg, uintptr_t address,
                            size_t length, struct px_gpu_choice *choice, struct px_error *error)
{
    px_status status = ways->find_peermem(arg, choice->module, sizeof(choice->module), error);
    if (status == PX_OK)
        status = ways->register_direct(arg, address, length, &choice->registration, error);
    return status;
}

static px_status try_way(const struct px_gpu_ways *ways, void *arg, enum px_gpu_way way,
                         uintptr_t address, size_t length, struct px_gpu_choice *choice,
                         struct px_error *error)
{
    switch (way) {
    case PX_GPU_DMABUF:
        return by_dmabuf(ways, arg, address, length, choice, error);
    case PX_GPU_PEERMEM:
        return by_peermem(ways, arg, address, length, choice, error);
    default:
        return ways->make_staging(arg, length, &choice->registration, error);
    }
}

static px_status all_refused(const struct px_gpu_choice *choice, size_t length,
                             struct px_error *error)
{
    char text[PX_GPU_WAYS * 300];
    size_t used = 0;
    text[0] = '\0';
    for (int way = 0; way < PX_GPU_WAYS; way++)
        if (choice->refused[way][0])
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s: %s", used ? "; " : "",
                                     px_gpu_way_name((enum px_gpu_way)way), choice->refused[way]);
    return px_error_set(error, PX_ERR_UNSUPPORTED,
                        "%zu bytes of GPU memory cannot be registered with the network device: %s",
                        length, text);
}

px_status px_gpu_register(const struct px_gpu_ways *ways, void *arg, enum px_gpu_way forced,
                          bool without_dmabuf, uintptr_t address, size_t length,
                          struct px_gpu_choice *choice, struct px_error *error)
{
    struct px_gpu_choice mine = {.way = PX_GPU_ANY};
    for (enum px_gpu_way way = PX_GPU_DMABUF; way < PX_GPU_WAYS; way++) {
        struct px_error why = PX_ERROR_INIT;
        if (forced != PX_GPU_ANY && way != forced)
            continue;
        if (way == PX_GPU_DMABUF && without_dmabuf) {
            snprintf(mine.refused[way], sizeof(mine.refused[way]),
                     "NVSHMEM_IB_DISABLE_DMABUF is set");
            continue;
        }
        if (try_way(ways, arg, way, address, length, &mine, &why) == PX_OK) {
            mine.way = way;
            *choice = mine;
            return PX_OK;
        }
        snprintf(mine.refused[way], sizeof(mine.refused[way]), "%.250s", why.text);
    }
    return all_refused(&mine, length, error);
}

const char *px_gpu_way_name(enum px_gpu_way way)
{
    static const char *const names[] = {"dma-buf", "nvidia-peermem", "staging"};
    return way >= PX_GPU_DMABUF && way < PX_GPU_WAYS ? names[way] : "none";
}

/* The module had three names over time, and one that is compiled in shows only as a client of the RDMA core. */
px_status px_gpu_find_peermem(const char *root, char *name, size_t size, struct px_error *error)
{
    static const struct {
        const char *path, *name;
    } places[] = {
        {"/sys/module/nvidia_peermem", "nvidia_peermem"},
        {"/sys/module/nv_peer_mem", "nv_peer_mem"},
        {"/sys/module/nv_peermem", "nv_peermem"},
        {"/sys/kernel/mm/memory_peers/nv_mem/version", "nv_mem"},
        {"/sys/kernel/mm/memory_peers/nv_mem_nc/version", "nv_mem_nc"},
    };
    char path[512];
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", root, places[i].path);
        if (access(path, F_OK) == 0) {
            snprintf(name, size, "%s", places[i].name);
            return PX_OK;
        }
    }
    return px_error_set(error, PX_ERR_NOT_FOUND,
                        "no peer memory module is loaded (modprobe nvidia-peermem)");
}
