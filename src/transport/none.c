/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport of a job whose PEs all share memory: it opens, carries nothing, and every call that
 * would need a network ends the job with the PE that cannot be reached. So no caller tests for a
 * missing transport. */
#include "config.h"
#include "src/transport/transport.h"

#include "src/diag/log.h"

static _Noreturn void refuse(const char *call, uint32_t pe)
{
    px_fatal(
        1,
        "%s: PE %u is not mapped and there is no network transport to reach it: set "
        "NVSHMEM_REMOTE_TRANSPORT to "
        "one that pxshmem-info shows as usable (it is \"none\", or every transport was refused)",
        call, (unsigned)pe);
}

static px_status none_probe(const struct px_transport_setup *setup, struct px_error *error)
{
    (void)setup, (void)error;
    return PX_OK;
}

static px_status none_open(const struct px_transport_setup *setup, void **self, void *address,
                           size_t *length, struct px_error *error)
{
    (void)setup, (void)address, (void)error;
    *self = NULL;
    *length = 0;
    return PX_OK;
}

static px_status none_connect(void *self, px_transport_find_fn *find, void *arg,
                              struct px_error *error)
{
    (void)self, (void)find, (void)arg, (void)error;
    return PX_OK;
}

static px_status none_add_memory(void *self, size_t offset, size_t length, struct px_error *error)
{
    (void)self, (void)offset, (void)length, (void)error;
    return PX_OK;
}

static px_status none_add_gpu_memory(void *self, size_t offset, size_t length,
                                     px_transport_dmabuf_fn *dmabuf, struct px_error *error)
{
    (void)self, (void)offset, (void)length, (void)dmabuf;
    return px_error_set(error, PX_ERR_UNSUPPORTED, "there is no network transport");
}

static void none_drop_memory(void *self, size_t offset)
{
    (void)self, (void)offset;
}

static void none_put(void *self, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    (void)self, (void)remote, (void)source, (void)bytes;
    refuse("put", pe);
}

static void none_get(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    (void)self, (void)dest, (void)remote, (void)bytes;
    refuse("get", pe);
}

static uint64_t none_amo(void *self, uint32_t pe, void *remote, const struct px_amo *amo)
{
    (void)self, (void)remote, (void)amo;
    refuse("atomic operation", pe);
}

static void none_amo_nbi(void *self, uint32_t pe, void *remote, const struct px_amo *amo,
                         void *result)
{
    (void)self, (void)remote, (void)amo, (void)result;
    refuse("atomic operation", pe);
}

static void none_put_signal(void *self, uint32_t pe, void *remote, const void *source, size_t bytes,
                            uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi)
{
    (void)self, (void)remote, (void)source, (void)bytes, (void)signal, (void)value, (void)op,
        (void)nbi;
    refuse("put with signal", pe);
}

static void none_send_note(void *self, uint32_t pe, const void *note)
{
    (void)self, (void)note;
    refuse("a request", pe);
}

static void none_nothing(void *self)
{
    (void)self; /* nothing can be pending */
}

static void none_quiet_pe(void *self, uint32_t pe)
{
    (void)self, (void)pe; /* nothing can be pending */
}

static uint64_t none_connections(void *self)
{
    (void)self;
    return 0;
}

const struct px_transport_ops px_transport_none = {
    .name = "none",
    .only_by_name = true,
    .probe = none_probe,
    .open = none_open,
    .connect = none_connect,
    .add_memory = none_add_memory,
    .add_gpu_memory = none_add_gpu_memory,
    .drop_memory = none_drop_memory,
    .put = none_put,
    .put_nbi = none_put,
    .get = none_get,
    .get_nbi = none_get,
    .amo = none_amo,
    .amo_nbi = none_amo_nbi,
    .put_signal = none_put_signal,
    .send_note = none_send_note,
    .fence = none_nothing,
    .quiet = none_nothing,
    .quiet_pe = none_quiet_pe,
    .progress = none_nothing,
    .connections = none_connections,
    .close = none_nothing,
};
