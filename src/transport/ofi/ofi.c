/* SPDX-License-Identifier: BSD-3-Clause */
/* The ofi transport: every network that libfabric knows. Opening and closing the endpoint, the
 * memory that peers may reach, the peers themselves, and the table. */
#include "config.h"
#include "src/transport/ofi/private.h"

#include <stdlib.h>
#include <string.h>

#include "src/diag/log.h"

bool px_ofi_distrust;

struct px_ofi_peer *px_ofi_peer(struct px_ofi *self, uint32_t pe)
{
    if (__builtin_expect(self->peers[pe] != NULL, 1))
        return self->peers[pe];
    struct px_transport_peer found = {0};
    struct px_error error = PX_ERROR_INIT;
    if (self->find(self->find_arg, pe, &found, &error))
        px_fatal(1, "ofi: the address of PE %u: %s", (unsigned)pe, error.text);
    if (found.length != self->address_length)
        px_fatal(1,
                 "ofi: the address of PE %u has %zu bytes where this PE's has %zu: do both use the "
                 "same provider (%s)?",
                 (unsigned)pe, found.length, self->address_length,
                 self->info->fabric_attr->prov_name);
    struct px_ofi_peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        px_fatal(1, "ofi: out of memory for PE %u", (unsigned)pe);
    peer->pe = pe;
    peer->name = found.address;
    int count = fi_av_insert(self->av, found.address, 1, &peer->address, 0, NULL);
    if (count != 1)
        px_fatal(1, "ofi: fi_av_insert for PE %u: %s", (unsigned)pe, px_ofi_words(count));
    self->connections++;
    return self->peers[pe] = peer;
}

struct px_ofi_chunk *px_ofi_chunk(struct px_ofi *self, uintptr_t address)
{
    size_t offset = address - self->setup.base;
    for (size_t i = 0; i < self->n_chunks; i++)
        if (offset - self->chunks[i].offset < self->chunks[i].length)
            return &self->chunks[i];
    return NULL;
}

static px_status register_chunk(struct px_ofi *self, struct px_ofi_chunk *chunk,
                                struct px_error *error)
{
    void *start = (void *)(self->setup.base + chunk->offset);
    uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    int code = fi_mr_reg(self->domain, start, chunk->length, access, 0, self->next_key++, 0,
                         &chunk->mr, NULL);
    if (code)
        return px_ofi_error(error, code, "fi_mr_reg");
    if (self->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
        code = fi_mr_bind(chunk->mr, &self->ep->fid, 0);
        if (!code)
            code = fi_mr_enable(chunk->mr);
    }
    if (code) {
        (void)fi_close(&chunk->mr->fid); /* the first failure is the one to report */
        return px_ofi_error(error, code, "fi_mr_bind");
    }
    chunk->descriptor = fi_mr_desc(chunk->mr);
    chunk->key = fi_mr_key(chunk->mr);
    chunk->base = self->virtual_addresses ? (uintptr_t)start : 0;
    return PX_OK;
}

static px_status add_chunk(struct px_ofi *self, size_t offset, size_t length,
                           struct px_error *error)
{
    struct px_ofi_chunk *chunks = realloc(self->chunks, (self->n_chunks + 1) * sizeof(*chunks));
    if (!chunks)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for another chunk");
    self->chunks = chunks;
    chunks[self->n_chunks] = (struct px_ofi_chunk){.offset = offset, .length = length};
    px_status status = register_chunk(self, &chunks[self->n_chunks], error);
    if (status)
        return px_error_context(error, "ofi: registering %zu bytes of memory", length);
    self->n_chunks++;
    return PX_OK;
}

static px_status ofi_add_memory(void *arg, size_t offset, size_t length, struct px_error *error)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    px_status status = add_chunk(self, offset, length, error);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static px_status ofi_add_gpu_memory(void *arg, size_t offset, size_t length,
                                    px_transport_dmabuf_fn *dmabuf, struct px_error *error)
{
    const struct px_ofi *self = arg;
    (void)offset, (void)length, (void)dmabuf;
    return px_error_set(error, PX_ERR_UNSUPPORTED, "provider %s is used for host memory only",
                        self->info->fabric_attr->prov_name);
}

static void drop_chunks(struct px_ofi *self, size_t offset)
{
    while (self->n_chunks && self->chunks[self->n_chunks - 1].offset >= offset)
        (void)fi_close(&self->chunks[--self->n_chunks].mr->fid); /* the memory goes in any case */
    for (uint32_t pe = 0; pe < self->setup.size; pe++) {
        struct px_ofi_peer *peer = self->peers[pe];
        for (size_t i = self->n_chunks; peer && i < peer->n_keys; i++)
            peer->keys[i].known = false;
    }
}

static void ofi_drop_memory(void *arg, size_t offset)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    drop_chunks(self, offset);
    pthread_mutex_unlock(&self->lock);
}

static px_status open_queue(struct px_ofi *self, struct px_error *error)
{
    struct fi_cq_attr attr = {
        .size = 2 * PX_OFI_IN_FLIGHT, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    self->cq_fd = -1;
    int code = fi_cq_open(self->domain, &attr, &self->cq, NULL);
    if (code == 0)
        return fi_control(&self->cq->fid, FI_GETWAIT, &self->cq_fd) == 0
                   ? PX_OK
                   : px_error_set(error, PX_ERR_UNSUPPORTED,
                                  "the completion queue has no file descriptor");
    attr.wait_obj = FI_WAIT_NONE;
    code = fi_cq_open(self->domain, &attr, &self->cq, NULL);
    return code ? px_ofi_error(error, code, "fi_cq_open") : PX_OK;
}

static px_status open_endpoint(struct px_ofi *self, struct px_error *error)
{
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};
    px_status status;
    int code = fi_av_open(self->domain, &av_attr, &self->av, NULL);
    if (code)
        return px_ofi_error(error, code, "fi_av_open");
    if ((status = open_queue(self, error)))
        return status;
    if ((code = fi_endpoint(self->domain, self->info, &self->ep, NULL)))
        return px_ofi_error(error, code, "fi_endpoint");
    if ((code = fi_ep_bind(self->ep, &self->av->fid, 0)) ||
        (code = fi_ep_bind(self->ep, &self->cq->fid, FI_TRANSMIT | FI_RECV)))
        return px_ofi_error(error, code, "fi_ep_bind");
    code = fi_enable(self->ep);
    return code ? px_ofi_error(error, code, "fi_enable") : PX_OK;
}

static px_status open_fabric(struct px_ofi *self, const struct px_ofi_calls *fi,
                             struct px_error *error)
{
    int code = fi->fi_fabric(self->info->fabric_attr, &self->fabric, NULL);
    if (code)
        return px_ofi_error(error, code, "fi_fabric");
    code = fi_domain(self->fabric, self->info, &self->domain, NULL);
    return code ? px_ofi_error(error, code, "fi_domain") : open_endpoint(self, error);
}

static void know_provider(struct px_ofi *self)
{
    const struct fi_info *info = self->info;
    const uint64_t in_order = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW;
    self->virtual_addresses = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    self->ask_keys = px_ofi_distrust || info->domain_attr->mr_mode & FI_MR_PROV_KEY;
    self->register_local = px_ofi_distrust || info->domain_attr->mr_mode & FI_MR_LOCAL;
    /* The flags speak of headers; that data takes effect in the same order we know of one byte
     * stream only. */
    self->ordered = !px_ofi_distrust && strncmp(info->fabric_attr->prov_name, "tcp", 3) == 0 &&
                    (info->tx_attr->msg_order & in_order) == in_order;
}

static px_status post_receives(struct px_ofi *self, struct px_error *error)
{
    size_t each = sizeof(struct px_ofi_message) + PX_OFI_PAYLOAD_MAX;
    self->receive_memory = aligned_alloc(64, PX_OFI_RECEIVES * ((each + 63) & ~(size_t)63));
    if (!self->receive_memory)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for receive buffers");
    each = (each + 63) & ~(size_t)63;
    void *descriptor = NULL;
    if (self->register_local) {
        int code = fi_mr_reg(self->domain, self->receive_memory, PX_OFI_RECEIVES * each, FI_RECV, 0,
                             self->next_key++, 0, &self->receive_mr, NULL);
        if (code)
            return px_ofi_error(error, code, "fi_mr_reg");
        descriptor = fi_mr_desc(self->receive_mr);
    }
    for (size_t i = 0; i < PX_OFI_RECEIVES; i++) {
        struct px_ofi_op *op = px_ofi_new(self, PX_OFI_OP_RECEIVE, NULL);
        op->local = self->receive_memory + i * each;
        op->bytes = each;
        op->descriptor = descriptor;
        px_ofi_defer(self, op);
    }
    self->in_flight -= PX_OFI_RECEIVES; /* always there, so they do not count */
    (void)px_ofi_poll(self);            /* posts them */
    return PX_OK;
}

static void close_fid(struct fid *fid)
{
    if (fid)
        (void)fi_close(fid); /* the job is ending and nothing depends on the outcome */
}

static void destroy(struct px_ofi *self)
{
    px_ofi_stop(self);
    if (self->peers)
        drop_chunks(self, 0);
    close_fid(self->ep ? &self->ep->fid : NULL);
    close_fid(self->receive_mr ? &self->receive_mr->fid : NULL);
    px_ofi_free_ops(self);
    close_fid(self->cq ? &self->cq->fid : NULL);
    close_fid(self->av ? &self->av->fid : NULL);
    close_fid(self->domain ? &self->domain->fid : NULL);
    close_fid(self->fabric ? &self->fabric->fid : NULL);
    const struct px_ofi_calls *fi;
    if (self->info && px_ofi_load(&fi, NULL) == PX_OK)
        fi->fi_freeinfo(self->info);
    for (uint32_t pe = 0; self->peers && pe < self->setup.size; pe++) {
        if (self->peers[pe])
            free(self->peers[pe]->keys);
        free(self->peers[pe]);
    }
    free(self->peers);
    free(self->chunks);
    free(self->receive_memory);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static px_status open_all(struct px_ofi *self, void *address, size_t *length,
                          struct px_error *error)
{
    const struct px_ofi_calls *fi;
    px_status status = px_ofi_load(&fi, error);
    if (!status)
        status = px_ofi_choose(&self->setup, &self->info, error);
    if (status)
        return status;
    know_provider(self);
    if ((status = open_fabric(self, fi, error)) ||
        (status = add_chunk(self, 0, self->setup.control_bytes, error)) ||
        (status = post_receives(self, error)))
        return px_error_context(error, "ofi, provider %s on %s", self->info->fabric_attr->prov_name,
                                self->info->domain_attr->name);
    self->address_length = PX_TRANSPORT_ADDRESS_MAX;
    int code = fi_getname(&self->ep->fid, address, &self->address_length);
    if (code)
        return px_ofi_error(error, code, "fi_getname");
    *length = self->address_length;
    px_info(PX_SUB_TRANSPORT, "ofi: libfabric %u.%u, provider %s on %s, %s%s%s",
            FI_MAJOR(fi->fi_version()), FI_MINOR(fi->fi_version()),
            self->info->fabric_attr->prov_name, self->info->domain_attr->name,
            self->ordered ? "ordered" : "unordered", self->ask_keys ? ", keys on request" : "",
            self->cq_fd < 0 ? ", polling" : "");
    return PX_OK;
}

static px_status ofi_open(const struct px_transport_setup *setup, void **self, void *address,
                          size_t *length, struct px_error *error)
{
    struct px_ofi *new = calloc(1, sizeof(*new));
    if (!new)
        return px_error_set(error, PX_ERR_NO_MEMORY, "ofi: out of memory");
    new->setup = *setup;
    new->cq_fd = new->stop_fd = -1;
    new->deferred_end = &new->deferred;
    new->next_key = 1;
    pthread_mutex_init(&new->lock, NULL);
    new->peers = calloc(setup->size, sizeof(*new->peers));
    px_status status = new->peers
                           ? open_all(new, address, length, error)
                           : px_error_set(error, PX_ERR_NO_MEMORY, "ofi: no memory for %u PEs",
                                          (unsigned)setup->size);
    if (status) {
        destroy(new);
        return status;
    }
    *self = new;
    return PX_OK;
}

static px_status ofi_probe(const struct px_transport_setup *setup, struct px_error *error)
{
    const struct px_ofi_calls *fi;
    struct fi_info *info;
    px_status status = px_ofi_load(&fi, error);
    if (!status)
        status = px_ofi_choose(setup, &info, error);
    if (!status)
        fi->fi_freeinfo(info);
    return status;
}

static px_status ofi_connect(void *arg, px_transport_find_fn *find, void *find_arg,
                             struct px_error *error)
{
    struct px_ofi *self = arg;
    self->find = find;
    self->find_arg = find_arg;
    return px_ofi_start(self, error); /* nobody is answered before this */
}

static uint64_t ofi_connections(void *arg)
{
    struct px_ofi *self = arg;
    pthread_mutex_lock(&self->lock);
    uint64_t count = self->connections;
    pthread_mutex_unlock(&self->lock);
    return count;
}

static void ofi_close(void *self)
{
    destroy(self);
}

extern const struct px_transport_ops px_transport_ofi;
const struct px_transport_ops px_transport_ofi = {
    .name = "ofi",
    .probe = ofi_probe,
    .open = ofi_open,
    .connect = ofi_connect,
    .add_memory = ofi_add_memory,
    .add_gpu_memory = ofi_add_gpu_memory,
    .drop_memory = ofi_drop_memory,
    .put = px_ofi_put,
    .put_nbi = px_ofi_put_nbi,
    .get = px_ofi_get,
    .get_nbi = px_ofi_get_nbi,
    .amo = px_ofi_amo,
    .amo_nbi = px_ofi_amo_nbi,
    .put_signal = px_ofi_put_signal,
    .send_note = px_ofi_send_note,
    .fence = px_ofi_fence,
    .quiet = px_ofi_quiet,
    .quiet_pe = px_ofi_quiet_pe,
    .progress = px_ofi_progress,
    .connections = ofi_connections,
    .close = ofi_close,
};
