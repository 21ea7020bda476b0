/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory that the device reaches by itself: the steps of the chain in gpu.h, on real devices. What
 * comes last there, staging, needs nothing here: it is told as a refusal, and the layer above stages
 * through host memory. The way found for the first piece is kept for all others, and on all ports. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/diag/log.h"
#include "src/env/env.h"

struct attempt {
    const struct px_verbs *self;
    const struct px_verbs_nic *nic;
    px_transport_dmabuf_fn *dmabuf;
};

static px_status export_dmabuf(void *arg, uintptr_t address, size_t length, int *fd,
                               uint64_t *offset, struct px_error *error)
{
    const struct attempt *attempt = arg;
    return attempt->dmabuf(address, length, fd, offset, error);
}

static px_status register_dmabuf(void *arg, int fd, uint64_t offset, size_t length,
                                 uintptr_t address, void **registration, struct px_error *error)
{
    const struct attempt *attempt = arg;
    if (!attempt->self->ibv->reg_dmabuf_mr)
        return px_error_set(error, PX_ERR_UNSUPPORTED, "this libibverbs has no ibv_reg_dmabuf_mr");
    struct ibv_mr *mr = attempt->self->ibv->reg_dmabuf_mr(attempt->nic->pd, offset, length, address,
                                                          fd, PX_VERBS_REMOTE_ACCESS);
    if (!mr)
        return px_error_errno(error, errno, "%s: ibv_reg_dmabuf_mr", attempt->nic->name);
    *registration = mr;
    return PX_OK;
}

static void close_dmabuf(void *arg, int fd)
{
    (void)arg;
    close(fd);
}

static px_status find_peermem(void *arg, char *name, size_t size, struct px_error *error)
{
    (void)arg;
    return px_gpu_find_peermem("", name, size, error);
}

static px_status register_direct(void *arg, uintptr_t address, size_t length, void **registration,
                                 struct px_error *error)
{
    const struct attempt *attempt = arg;
    struct ibv_mr *mr = attempt->self->ibv->ibv_reg_mr(attempt->nic->pd, (void *)address, length,
                                                       PX_VERBS_REMOTE_ACCESS);
    if (!mr)
        return px_error_errno(error, errno, "%s: ibv_reg_mr of GPU memory", attempt->nic->name);
    *registration = mr;
    return PX_OK;
}

static px_status make_staging(void *arg, size_t length, void **registration, struct px_error *error)
{
    (void)arg, (void)length, (void)error;
    *registration = NULL;
    return PX_OK;
}

static const struct px_gpu_ways ways = {
    .export_dmabuf = export_dmabuf,
    .register_dmabuf = register_dmabuf,
    .close_dmabuf = close_dmabuf,
    .find_peermem = find_peermem,
    .register_direct = register_direct,
    .make_staging = make_staging,
};

static enum px_gpu_way wanted(const struct px_verbs *self)
{
    const char *word = self->setup.env->ib_gpu_registration;
    if (self->gpu_way != PX_GPU_ANY)
        return self->gpu_way;
    return strcmp(word, "dmabuf") == 0    ? PX_GPU_DMABUF
           : strcmp(word, "peermem") == 0 ? PX_GPU_PEERMEM
           : strcmp(word, "staging") == 0 ? PX_GPU_STAGING
                                          : PX_GPU_ANY;
}

static void say(const struct px_gpu_choice *choice)
{
    char why[2 * sizeof(choice->refused[0]) + 64] = "";
    size_t used = 0;
    for (int way = 0; way < PX_GPU_WAYS; way++)
        if (choice->refused[way][0] && used < sizeof(why))
            used += (size_t)snprintf(why + used, sizeof(why) - used, "; %s: %s",
                                     px_gpu_way_name((enum px_gpu_way)way), choice->refused[way]);
    px_info(PX_SUB_TRANSPORT, "verbs: GPU memory goes by %s%s%s%s", px_gpu_way_name(choice->way),
            choice->module[0] ? ", module " : "", choice->module, why);
}

static px_status register_at(struct px_verbs *self, uint32_t port, px_transport_dmabuf_fn *dmabuf,
                             struct px_verbs_chunk *chunk, struct px_error *error)
{
    struct attempt attempt = {.self = self, .nic = &self->nics[port], .dmabuf = dmabuf};
    struct px_gpu_choice choice;
    bool first = self->gpu_way == PX_GPU_ANY;
    px_status status =
        px_gpu_register(&ways, &attempt, wanted(self), self->setup.env->ib_disable_dmabuf,
                        self->setup.base + chunk->offset, chunk->length, &choice, error);
    if (status != PX_OK)
        return status;
    self->gpu_way = choice.way;
    if (first)
        say(&choice);
    if (choice.way == PX_GPU_STAGING)
        return px_error_set(error, PX_ERR_UNSUPPORTED, "no way to register GPU memory is left");
    chunk->mr[port] = choice.registration;
    return PX_OK;
}

px_status px_verbs_add_gpu_chunk(struct px_verbs *self, size_t offset, size_t length,
                                 px_transport_dmabuf_fn *dmabuf, struct px_error *error)
{
    struct px_verbs_chunk chunk = {.offset = offset, .length = length, .gpu = true};
    px_status status = PX_OK;
    for (uint32_t i = 0; i < self->n_nics && status == PX_OK; i++)
        status = register_at(self, i, dmabuf, &chunk, error);
    if (status == PX_OK)
        return px_verbs_append_chunk(self, &chunk, error);
    for (uint32_t i = 0; i < self->n_nics; i++)
        if (chunk.mr[i])
            self->ibv->ibv_dereg_mr(chunk.mr[i]);
    return status;
}
