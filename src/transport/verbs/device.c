/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening devices: list the ports, let choose.c decide, pick the GID, make what belongs to a port.
 */
#include "config.h"
#include "src/transport/verbs/private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "src/diag/log.h"
#include "src/env/env.h"

#define ENTRIES_MAX     1024 /* of all ports of a device */
#define GIDS_MAX        256  /* an address header has one byte for the index */
#define SEND_CQ_ENTRIES 16384
#define OWN_BYTES       (4u << 20) /* buffers and queues beside the heap */
#define VENDOR_RXE      0xffffff   /* Soft-RoCE reports no vendor */
#define VENDOR_SIW      0x626d74

/* An opened device beside each of its ports in `ports`. */
struct listing {
    struct px_verbs_port ports[PX_VERBS_PORTS_MAX];
    struct ibv_context *contexts[PX_VERBS_PORTS_MAX]; /* the same for all ports of a device */
    size_t count;
};

static struct ibv_device **list_devices(const struct px_ibv *ibv, int *count,
                                        struct px_error *error)
{
    struct ibv_device **list = ibv->ibv_get_device_list(count);
    if (list && *count > 0)
        return list;
    int errnum = errno;
    if (list)
        ibv->ibv_free_device_list(list);
    if (!list && errnum && errnum != ENOSYS)
        px_error_errno(error, errnum, "listing RDMA devices");
    else
        px_error_set(error, PX_ERR_UNREACHABLE,
                     "no RDMA device on this node (ibv_devices lists none: no adapter, its driver "
                     "is not loaded, or "
                     "/dev/infiniband is missing in this container)");
    return NULL;
}

static void add_ports(const struct px_ibv *ibv, struct listing *all, struct ibv_device *device)
{
    struct ibv_device_attr attributes;
    struct ibv_port_attr port;
    struct ibv_context *context = ibv->ibv_open_device(device);
    if (!context) {
        px_info(PX_SUB_TRANSPORT, "verbs: %s cannot be opened: %s",
                ibv->ibv_get_device_name(device), strerror(errno));
        return;
    }
    size_t before = all->count;
    if (ibv->ibv_query_device(context, &attributes) != 0)
        attributes.phys_port_cnt = 0;
    for (uint8_t n = 1; n <= attributes.phys_port_cnt && all->count < PX_VERBS_PORTS_MAX; n++) {
        if (ibv->ibv_query_port(context, n, &port) != 0)
            continue;
        struct px_verbs_port *entry = &all->ports[all->count];
        *entry = (struct px_verbs_port){
            .port = n,
            .active = port.state == IBV_PORT_ACTIVE,
            .ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET,
        };
        strncpy(entry->device, ibv->ibv_get_device_name(device), sizeof(entry->device) - 1);
        all->contexts[all->count++] = context;
    }
    if (all->count == before)
        ibv->ibv_close_device(context);
}

static px_status list_ports(const struct px_ibv *ibv, struct listing *all, struct px_error *error)
{
    int count;
    struct ibv_device **list = list_devices(ibv, &count, error);
    if (!list)
        return PX_ERR_UNREACHABLE;
    all->count = 0;
    for (int i = 0; i < count; i++)
        add_ports(ibv, all, list[i]);
    ibv->ibv_free_device_list(list);
    return PX_OK;
}

/* A context may serve two chosen ports: each nic keeps the pointer, close_devices closes it once.
 */
static void close_unused(struct px_verbs *self, struct listing *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (i && all->contexts[i] == all->contexts[i - 1])
            continue;
        bool used = false;
        for (uint32_t n = 0; n < self->n_nics; n++)
            used |= self->nics[n].context == all->contexts[i];
        if (!used)
            self->ibv->ibv_close_device(all->contexts[i]);
    }
}

static enum px_gid_type gid_type(uint32_t type)
{
    return type == IBV_GID_TYPE_ROCE_V2   ? PX_GID_ROCE_V2
           : type == IBV_GID_TYPE_ROCE_V1 ? PX_GID_ROCE_V1
                                          : PX_GID_IB;
}

/* The whole table in one call where the library can; otherwise address by address, and the types
 * stay unknown. */
static size_t read_gids(const struct px_ibv *ibv, const struct px_verbs_nic *nic,
                        struct px_gid *table)
{
    size_t n = 0;
    struct ibv_gid_entry *entries =
        ibv->query_gid_table ? calloc(ENTRIES_MAX, sizeof(*entries)) : NULL;
    ssize_t found =
        entries ? ibv->query_gid_table(nic->context, entries, ENTRIES_MAX, 0, sizeof(*entries))
                : -1;
    for (ssize_t i = 0; i < found; i++) {
        if (entries[i].port_num != nic->port || entries[i].gid_index >= GIDS_MAX)
            continue;
        table[n] = (struct px_gid){.index = (uint16_t)entries[i].gid_index,
                                   .type = gid_type(entries[i].gid_type)};
        memcpy(table[n++].raw, entries[i].gid.raw, 16);
    }
    free(entries);
    if (found >= 0)
        return n;
    static const uint8_t empty[16];
    int most = nic->attributes.gid_tbl_len < GIDS_MAX ? nic->attributes.gid_tbl_len : GIDS_MAX;
    for (int i = 0; i < most; i++) {
        union ibv_gid gid;
        if (ibv->ibv_query_gid(nic->context, nic->port, i, &gid) != 0 ||
            memcmp(gid.raw, empty, 16) == 0)
            continue;
        table[n] = (struct px_gid){.index = (uint16_t)i,
                                   .type = nic->address.ethernet ? PX_GID_UNKNOWN : PX_GID_IB};
        memcpy(table[n++].raw, gid.raw, 16);
    }
    return n;
}

static px_status pick_gid(struct px_verbs *self, struct px_verbs_nic *nic, struct px_error *error)
{
    const struct px_env *env = self->setup.env;
    char text[PX_GID_TEXT_MAX];
    size_t chosen;
    struct px_gid_wish wish = {
        .index = (int)env->ib_gid_index,
        .roce_version = (int)env->ib_roce_version_num,
        .family = strcasecmp(env->ib_addr_family, "AF_INET") == 0    ? AF_INET
                  : strcasecmp(env->ib_addr_family, "AF_INET6") == 0 ? AF_INET6
                                                                     : AF_UNSPEC,
    };
    px_status status = px_gid_parse_range(env->ib_addr_range, &wish, error);
    if (status != PX_OK)
        return status;
    struct px_gid *table = calloc(GIDS_MAX, sizeof(*table));
    if (!table)
        return px_error_set(error, PX_ERR_NO_MEMORY, "GID table");
    size_t count = read_gids(self->ibv, nic, table);
    status = px_gid_choose(table, count, &wish, &chosen, error);
    if (status == PX_OK) {
        nic->address.gid_index = table[chosen].index;
        nic->address.gid_type = (uint8_t)table[chosen].type;
        memcpy(nic->address.gid, table[chosen].raw, 16);
        px_info(PX_SUB_TRANSPORT, "verbs: %s port %u uses GID index %u, %s, of %zu", nic->name,
                nic->port, nic->address.gid_index, px_gid_format(&table[chosen], text), count);
    }
    free(table);
    return status == PX_OK ? PX_OK : px_error_context(error, "%s port %u", nic->name, nic->port);
}

/* An InfiniBand port with a local identifier needs no GID; RoCE always does. */
static px_status describe(struct px_verbs *self, struct px_verbs_nic *nic, struct px_error *error)
{
    int code = self->ibv->ibv_query_device(nic->context, &nic->device);
    if (code == 0)
        code = self->ibv->ibv_query_port(nic->context, nic->port, &nic->attributes);
    if (code != 0)
        return px_error_errno(error, code, "asking %s port %u", nic->name, nic->port);
    nic->software = nic->device.vendor_id == VENDOR_RXE || nic->device.vendor_id == VENDOR_SIW;
    nic->address.lid = nic->attributes.lid;
    nic->address.mtu = (uint8_t)nic->attributes.active_mtu;
    nic->address.port = nic->port;
    nic->address.ethernet = nic->attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    return pick_gid(self, nic, error);
}

static px_status equip(struct px_verbs *self, struct px_verbs_nic *nic, struct px_error *error)
{
    int entries = nic->device.max_cqe < SEND_CQ_ENTRIES ? nic->device.max_cqe : SEND_CQ_ENTRIES;
    nic->pd = self->ibv->ibv_alloc_pd(nic->context);
    if (!nic->pd)
        return px_error_errno(error, errno, "%s: protection domain", nic->name);
    nic->send_cq = self->ibv->ibv_create_cq(nic->context, entries, NULL, NULL, 0);
    if (!nic->send_cq)
        return px_error_errno(error, errno, "%s: completion queue of %d entries", nic->name,
                              entries);
    nic->send_cq_size = (uint32_t)entries;
    return PX_OK;
}

static void report_ports(const struct listing *all)
{
    for (size_t i = 0; i < all->count; i++)
        px_info(PX_SUB_TRANSPORT, "verbs: %s port %u (%s): %s", all->ports[i].device,
                all->ports[i].port, all->ports[i].ethernet ? "Ethernet" : "InfiniBand",
                all->ports[i].why_not[0] ? all->ports[i].why_not : "used");
}

static px_status choose_devices(struct px_verbs *self, struct px_error *error)
{
    const struct px_env *env = self->setup.env;
    struct listing all;
    size_t chosen[PX_VERBS_NICS_MAX], n = 0;
    const struct px_verbs_rules rules = {
        .list = env->hca_list,
        .mapping = env->hca_pe_mapping,
        .prefix = env->hca_prefix,
        .nearest = self->setup.nics ? self->setup.nics : "",
        .deal = env->enable_nic_pe_mapping,
        .local_rank = self->setup.local_rank,
    };
    px_status status = list_ports(self->ibv, &all, error);
    if (status != PX_OK)
        return status;
    status = px_verbs_choose_ports(all.ports, all.count, &rules, chosen, &n, error);
    for (size_t i = 0; i < n && status == PX_OK; i++) {
        struct px_verbs_nic *nic = &self->nics[i];
        memcpy(nic->name, all.ports[chosen[i]].device, sizeof(nic->name));
        nic->port = all.ports[chosen[i]].port;
        nic->context = all.contexts[chosen[i]];
        self->n_nics++;
    }
    report_ports(&all);
    close_unused(self, &all);
    for (uint32_t i = 0; i < self->n_nics && status == PX_OK; i++)
        status = describe(self, &self->nics[i], error);
    return status;
}

px_status px_verbs_open_devices(struct px_verbs *self, struct px_error *error)
{
    px_status status = choose_devices(self, error);
    for (uint32_t i = 0; i < self->n_nics && status == PX_OK; i++)
        status = equip(self, &self->nics[i], error);
    return status;
}

/* All that can be known without making anything: so that a node where it will not work is found before the PEs agree
 * on a transport. */
px_status px_verbs_probe_devices(const struct px_transport_setup *setup, struct px_error *error)
{
    struct px_verbs *self = calloc(1, sizeof(*self));
    if (!self)
        return px_error_set(error, PX_ERR_NO_MEMORY, "verbs");
    self->setup = *setup;
    self->ibv = px_ibv_open(error);
    px_status status = self->ibv ? choose_devices(self, error) : PX_ERR_NOT_FOUND;
    px_verbs_close_devices(self);
    free(self);
    if (status == PX_OK && !setup->env->ib_on_demand_paging)
        status = px_verbs_check_memlock(setup->env->symmetric_size + OWN_BYTES, error);
    return status;
}

void px_verbs_close_devices(struct px_verbs *self)
{
    for (uint32_t i = 0; i < self->n_nics; i++) {
        struct px_verbs_nic *nic = &self->nics[i];
        bool shared = false;
        if (nic->send_cq)
            self->ibv->ibv_destroy_cq(nic->send_cq);
        if (nic->pd)
            self->ibv->ibv_dealloc_pd(nic->pd);
        free(nic->lanes);
        for (uint32_t later = i + 1; later < self->n_nics; later++)
            shared |= self->nics[later].context == nic->context;
        if (!shared)
            self->ibv->ibv_close_device(nic->context);
    }
    self->n_nics = 0;
}
