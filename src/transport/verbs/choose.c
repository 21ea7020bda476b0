/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of ports. Rules in order: a port must be active; prefix; include or exclude list; then what topology found
 * for this PE (it knows all PEs of the node, and has obeyed mapping and dealing); without that mapping by local rank,
 * dealing round robin, all ports of an include list, or the first. */
#include "config.h"
#include "src/transport/verbs/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
    char name[PX_VERBS_NAME_MAX];
    long port, count; /* -1: not given */
};

/* The next item of a comma list; false at its end. A malformed number is an error. */
static px_status next_item(const char **text, struct item *item, bool *more)
{
    char one[PX_VERBS_NAME_MAX + 24], *end;
    *more = false;
    *text += strspn(*text, ", ");
    if (!**text)
        return PX_OK;
    size_t length = strcspn(*text, ", ");
    if (length >= sizeof(one))
        return PX_ERR_INVALID;
    memcpy(one, *text, length);
    one[length] = '\0';
    *text += length;
    *item = (struct item){.port = -1, .count = -1};
    char *colon = strchr(one, ':');
    if (colon) {
        *colon = '\0';
        item->port = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || (*end && *end != ':') || item->port < 1 || item->port > 255)
            return PX_ERR_INVALID;
        if (*end == ':') {
            char *count = end + 1;
            item->count = strtol(count, &end, 10);
            if (end == count || *end || item->count < 1)
                return PX_ERR_INVALID;
        }
    }
    if (!one[0] || strlen(one) >= sizeof(item->name))
        return PX_ERR_INVALID;
    strcpy(item->name, one);
    *more = true;
    return PX_OK;
}

static bool matches(const struct px_verbs_port *port, const struct item *item)
{
    return strcmp(port->device, item->name) == 0 && (item->port < 0 || item->port == port->port);
}

static void say_ports(const struct px_verbs_port *ports, size_t count, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s:%u%s%s%s", i ? ", " : "",
                                 ports[i].device, ports[i].port, ports[i].why_not[0] ? " (" : "",
                                 ports[i].why_not, ports[i].why_not[0] ? ")" : "");
}

static px_status bad_list(const char *variable, const char *value, const char *forms,
                          struct px_error *error)
{
    return px_error_set(error, PX_ERR_INVALID, "%s=%s: expected %s", variable, value, forms);
}

static px_status unknown_port(const char *variable, const char *value, const struct item *item,
                              const struct px_verbs_port *ports, size_t count,
                              struct px_error *error)
{
    char there[768];
    say_ports(ports, count, there, sizeof(there));
    return px_error_set(error, PX_ERR_NOT_FOUND, "%s=%s: there is no %s%s; this node has %s",
                        variable, value, item->name, item->port < 0 ? "" : " with that port",
                        count ? there : "no RDMA device");
}

static void drop(struct px_verbs_port *port, const char *why)
{
    if (!port->why_not[0])
        snprintf(port->why_not, sizeof(port->why_not), "%s", why);
}

/* Include and exclude lists. In an include list every name must exist: a typing error must not end
 * on another port. */
static px_status apply_list(struct px_verbs_port *ports, size_t count, const char *list,
                            struct px_error *error)
{
    bool exclude = list[0] == '^', listed[PX_VERBS_PORTS_MAX] = {false}, more;
    const char *text = list + exclude;
    struct item item;
    for (;;) {
        if (next_item(&text, &item, &more) != PX_OK || (more && item.count >= 0))
            return bad_list("NVSHMEM_HCA_LIST", list, "NAME[:PORT],... or ^NAME[:PORT],...", error);
        if (!more)
            break;
        bool found = false;
        for (size_t i = 0; i < count; i++)
            if (matches(&ports[i], &item))
                found = listed[i] = true;
        if (!found && !exclude)
            return unknown_port("NVSHMEM_HCA_LIST", list, &item, ports, count, error);
    }
    for (size_t i = 0; i < count; i++)
        if (listed[i] == exclude)
            drop(&ports[i], exclude ? "excluded by NVSHMEM_HCA_LIST" : "not in NVSHMEM_HCA_LIST");
    return PX_OK;
}

/* The mapping deals its ports to local ranks: COUNT ranks each, and again from the start when there
 * are more ranks. */
static px_status apply_mapping(struct px_verbs_port *ports, size_t count,
                               const struct px_verbs_rules *rules, struct px_error *error)
{
    struct item item, mine = {.count = 0};
    uint64_t total = 0, position = 0;
    bool more;
    for (int pass = 0; pass < 2; pass++) {
        const char *text = rules->mapping;
        uint64_t seen = 0;
        for (;;) {
            if (next_item(&text, &item, &more) != PX_OK || (more && item.port < 0))
                return bad_list("NVSHMEM_HCA_PE_MAPPING", rules->mapping, "NAME:PORT:COUNT,...",
                                error);
            if (!more)
                break;
            uint64_t share = item.count < 0 ? 1 : (uint64_t)item.count;
            if (pass == 1 && position >= seen && position < seen + share)
                mine = item;
            seen += share;
        }
        total = seen;
        position = total ? rules->local_rank % total : 0;
    }
    if (!total)
        return bad_list("NVSHMEM_HCA_PE_MAPPING", rules->mapping, "NAME:PORT:COUNT,...", error);
    bool found = false;
    for (size_t i = 0; i < count; i++)
        if (matches(&ports[i], &mine))
            found = true;
        else
            drop(&ports[i], "another PE's by NVSHMEM_HCA_PE_MAPPING");
    return found
               ? PX_OK
               : unknown_port("NVSHMEM_HCA_PE_MAPPING", rules->mapping, &mine, ports, count, error);
}

static size_t usable(const struct px_verbs_port *ports, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += ports[i].why_not[0] == '\0';
    return n;
}

/* Keep the one whose turn it is. */
static void deal(struct px_verbs_port *ports, size_t count, uint32_t local_rank)
{
    size_t n = usable(ports, count), turn = n ? local_rank % n : 0, seen = 0;
    for (size_t i = 0; i < count; i++)
        if (!ports[i].why_not[0] && seen++ != turn)
            drop(&ports[i], "another PE's turn (NVSHMEM_ENABLE_NIC_PE_MAPPING)");
}

/* Position among the nearest, from 0; SIZE_MAX when it is not one of them. */
static size_t nearness(const char *nearest, const struct px_verbs_port *port)
{
    struct item item;
    bool more;
    for (size_t n = 0; next_item(&nearest, &item, &more) == PX_OK && more; n++)
        if (matches(port, &item))
            return n;
    return SIZE_MAX;
}

static bool any_near(const struct px_verbs_port *ports, size_t count, const char *nearest)
{
    for (size_t i = 0; i < count; i++)
        if (!ports[i].why_not[0] && nearness(nearest, &ports[i]) != SIZE_MAX)
            return true;
    return false;
}

static void keep_near(struct px_verbs_port *ports, size_t count, const char *nearest)
{
    for (size_t i = 0; i < count; i++)
        if (nearness(nearest, &ports[i]) == SIZE_MAX)
            drop(&ports[i], "farther away than the one used, or another PE's");
}

static void keep_first(struct px_verbs_port *ports, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        if (found)
            drop(&ports[i], "another one is used (NVSHMEM_HCA_LIST takes several)");
        found |= !ports[i].why_not[0];
    }
}

/* Of those that the user's lists leave: what topology found, which knows of all PEs of the node; else by local rank
 * where the user asks for it; else all of a list, or the first. */
static px_status share_out(struct px_verbs_port *ports, size_t count,
                           const struct px_verbs_rules *rules, struct px_error *error)
{
    bool several = rules->list[0] && rules->list[0] != '^';
    if (any_near(ports, count, rules->nearest))
        keep_near(ports, count, rules->nearest);
    else if (rules->mapping[0])
        return apply_mapping(ports, count, rules, error);
    else if (rules->deal)
        deal(ports, count, rules->local_rank);
    else if (!several)
        keep_first(ports, count);
    return PX_OK;
}

/* Those that are left, the nearest first, then as they came. */
static size_t in_order(const struct px_verbs_port *ports, size_t count, const char *nearest,
                       size_t order[PX_VERBS_PORTS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (ports[i].why_not[0])
            continue;
        size_t at = n++;
        for (; at && nearness(nearest, &ports[i]) < nearness(nearest, &ports[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return n;
}

static void apply_basics(struct px_verbs_port *ports, size_t count, const char *prefix)
{
    for (size_t i = 0; i < count; i++) {
        ports[i].why_not[0] = '\0';
        if (!ports[i].active)
            drop(&ports[i], "port is not active: cable, switch port or interface down");
        if (strncmp(ports[i].device, prefix, strlen(prefix)) != 0)
            drop(&ports[i], "name does not begin as NVSHMEM_HCA_PREFIX says");
    }
}

px_status px_verbs_choose_ports(struct px_verbs_port *ports, size_t count,
                                const struct px_verbs_rules *rules,
                                size_t chosen[PX_VERBS_NICS_MAX], size_t *n_chosen,
                                struct px_error *error)
{
    px_status status = PX_OK;
    size_t order[PX_VERBS_PORTS_MAX], n = 0;
    apply_basics(ports, count, rules->prefix);
    if (rules->list[0])
        status = apply_list(ports, count, rules->list, error);
    if (status == PX_OK)
        status = share_out(ports, count, rules, error);
    if (status != PX_OK)
        return status;

    size_t left = in_order(ports, count, rules->nearest, order);
    for (size_t i = 0; i < left; i++) {
        struct px_verbs_port *port = &ports[order[i]];
        if (port->ethernet != ports[order[0]].ethernet)
            drop(port, "another kind of network than the first port");
        else if (n == PX_VERBS_NICS_MAX)
            drop(port, "enough ports are used");
        else
            chosen[n++] = order[i];
    }
    if (!n) {
        char there[768];
        say_ports(ports, count, there, sizeof(there));
        return px_error_set(error, PX_ERR_UNREACHABLE, "no usable RDMA port: %s",
                            count ? there : "the node has no RDMA device");
    }
    *n_chosen = n;
    return PX_OK;
}
