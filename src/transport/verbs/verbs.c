/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs transport for InfiniBand and RoCE: opening, closing and its table. See private.h for
 * the parts. */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <sched.h>
#include <stdlib.h>

#include "src/diag/log.h"
#include "src/env/env.h"

static void verbs_close(void *arg)
{
    struct px_verbs *self = arg;
    if (!self)
        return;
    px_verbs_stop_thread(self);
    for (uint32_t pe = 0; self->peers && pe < self->setup.size; pe++)
        px_verbs_free_peer(self, self->peers[pe]);
    px_verbs_close_memory(self);
    px_verbs_close_receives(self);
    px_verbs_close_devices(self);
    free(self->active);
    free(self->peers);
    free(self);
}

static void read_settings(struct px_verbs *self)
{
    const struct px_env *env = self->setup.env;
    self->lanes_per_nic = (uint32_t)env->ib_num_rc_per_device;
    self->queue_depth = (uint32_t)env->qp_depth;
    self->timeout = (uint32_t)env->ib_timeout;
    self->retries = (uint32_t)env->ib_retry_count;
    self->sl = (uint32_t)env->ib_sl;
    self->traffic_class = (uint32_t)env->ib_traffic_class;
}

/* What the devices decide: all ports of a job are taken to be of one kind. */
static void decide(struct px_verbs *self)
{
    self->native_atomics = !self->setup.env->disable_ib_native_atomics;
    self->signal_by_write = true;
    for (uint32_t i = 0; i < self->n_nics; i++) {
        self->native_atomics &= self->nics[i].device.atomic_cap == IBV_ATOMIC_GLOB;
        self->signal_by_write &= !self->nics[i].software;
    }
    px_info(PX_SUB_TRANSPORT, "verbs: atomics are carried out by %s, signals are %s",
            self->native_atomics
                ? "the device (64-bit add, compare-and-swap, fetch) and the target's processor"
                : "the target's processor",
            self->signal_by_write ? "written" : "messages");
}

static px_status verbs_open(const struct px_transport_setup *setup, void **opened, void *address,
                            size_t *length, struct px_error *error)
{
    struct px_verbs *self = calloc(1, sizeof(*self));
    if (!self)
        return px_error_set(error, PX_ERR_NO_MEMORY, "verbs");
    self->setup = *setup;
    self->wake_fd = -1;
    self->gpu_way = PX_GPU_ANY;
    self->peers = calloc(setup->size, sizeof(*self->peers));
    self->ibv = px_ibv_open(error);
    px_status status = !self->peers
                           ? px_error_set(error, PX_ERR_NO_MEMORY, "table of %u peers", setup->size)
                       : self->ibv ? PX_OK
                                   : PX_ERR_NOT_FOUND;
    read_settings(self);
    if (status == PX_OK)
        status = px_verbs_open_devices(self, error);
    if (status == PX_OK)
        status = px_verbs_open_receives(self, error);
    if (status == PX_OK)
        status = px_verbs_open_bounces(self, error);
    if (status == PX_OK && setup->control_bytes)
        status = px_verbs_add_chunk(self, 0, setup->control_bytes, error);
    if (status == PX_OK)
        status = px_verbs_start_thread(self, error);
    if (status != PX_OK) {
        verbs_close(self);
        return status;
    }
    decide(self);
    *(struct px_verbs_card *)address = self->card;
    *length = sizeof(self->card);
    *opened = self;
    return PX_OK;
}

static px_status verbs_connect(void *arg, px_transport_find_fn *find, void *find_arg,
                               struct px_error *error)
{
    struct px_verbs *self = arg;
    (void)error;
    px_verbs_lock(self);
    self->find_arg = find_arg;
    self->find = find;
    px_verbs_unlock(self);
    return PX_OK;
}

static px_status verbs_add_memory(void *arg, size_t offset, size_t length, struct px_error *error)
{
    struct px_verbs *self = arg;
    px_verbs_lock(self);
    px_status status = px_verbs_add_chunk(self, offset, length, error);
    px_verbs_unlock(self);
    return status;
}

static px_status verbs_add_gpu_memory(void *arg, size_t offset, size_t length,
                                      px_transport_dmabuf_fn *dmabuf, struct px_error *error)
{
    struct px_verbs *self = arg;
    px_verbs_lock(self);
    px_status status = px_verbs_add_gpu_chunk(self, offset, length, dmabuf, error);
    px_verbs_unlock(self);
    return status;
}

static void verbs_drop_memory(void *arg, size_t offset)
{
    struct px_verbs *self = arg;
    px_verbs_lock(self);
    px_verbs_drop_chunks(self, offset);
    px_verbs_unlock(self);
}

static void verbs_progress(void *arg)
{
    struct px_verbs *self = arg;
    if (!px_verbs_try_lock(self)) {
        sched_yield(); /* somebody else is at it, and may need this processor to get on */
        return;
    }
    px_verbs_poll(self);
    px_verbs_unlock(self);
}

static uint64_t verbs_connections(void *arg)
{
    struct px_verbs *self = arg;
    px_verbs_lock(self);
    uint64_t connections = self->connections;
    px_verbs_unlock(self);
    return connections;
}

const struct px_transport_ops px_transport_verbs = {
    .name = "verbs",
    .probe = px_verbs_probe_devices,
    .open = verbs_open,
    .connect = verbs_connect,
    .add_memory = verbs_add_memory,
    .add_gpu_memory = verbs_add_gpu_memory,
    .drop_memory = verbs_drop_memory,
    .put = px_verbs_put,
    .put_nbi = px_verbs_put_nbi,
    .get = px_verbs_get,
    .get_nbi = px_verbs_get_nbi,
    .amo = px_verbs_amo,
    .amo_nbi = px_verbs_amo_nbi,
    .put_signal = px_verbs_put_signal,
    .send_note = px_verbs_send_note,
    .fence = px_verbs_fence,
    .quiet = px_verbs_quiet,
    .quiet_pe = px_verbs_quiet_pe,
    .progress = verbs_progress,
    .connections = verbs_connections,
    .close = verbs_close,
};
