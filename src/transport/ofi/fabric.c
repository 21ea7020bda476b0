/* SPDX-License-Identifier: BSD-3-Clause */
/* The library and what it offers: opening libfabric, choosing a provider and, where the provider
 * runs over network interfaces, the interface whose address other nodes can reach. */
#include "config.h"
#include "src/transport/ofi/private.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/diag/log.h"
#include "src/env/env.h"
#include "src/transport/dynlib.h"

#define LIBRARY "libfabric.so.1"
#define REMEDY                                                                                     \
    "install it on every node (Debian, Ubuntu: libfabric1; RHEL: libfabric) or choose another "    \
    "NVSHMEM_REMOTE_TRANSPORT"

/* In this order when the user names none: networks made for it, then plain Ethernet. */
static const char *const preferred[] = {"cxi", "efa", "tcp"};

px_status px_ofi_load(const struct px_ofi_calls **calls, struct px_error *error)
{
#define NAME(type, name, arguments) {#name, offsetof(struct px_ofi_calls, name)},
    static const struct px_dynlib_call names[] = {PX_OFI_CALLS(NAME)};
#undef NAME
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static struct px_ofi_calls table;
    static bool loaded;
    px_status status = PX_OK;
    pthread_mutex_lock(&once);
    if (!loaded)
        status =
            px_dynlib_open(LIBRARY, REMEDY, names, sizeof(names) / sizeof(names[0]), &table, error);
    loaded |= status == PX_OK;
    pthread_mutex_unlock(&once);
    if (!status)
        *calls = &table;
    return status;
}

const char *px_ofi_words(int code)
{
    const struct px_ofi_calls *fi;
    return px_ofi_load(&fi, NULL) ? "unknown error" : fi->fi_strerror(code < 0 ? -code : code);
}

px_status px_ofi_error(struct px_error *error, int code, const char *call)
{
    px_status status = code == -FI_ENOMEM    ? PX_ERR_NO_MEMORY
                       : code == -FI_ENODATA ? PX_ERR_NOT_FOUND
                                             : PX_ERR_SYSTEM;
    return px_error_set(error, status, "%s: %s (%d)", call, px_ofi_words(code), code);
}

static struct fi_info *make_hints(const struct px_ofi_calls *fi, const char *provider)
{
    struct fi_info *hints = fi->fi_dupinfo(NULL);
    if (!hints)
        return NULL;
    hints->caps =
        FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* our lock */
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (provider && !(hints->fabric_attr->prov_name = strdup(provider))) {
        fi->fi_freeinfo(hints);
        return NULL;
    }
    return hints;
}

static int get_info(const struct px_ofi_calls *fi, const char *provider, struct fi_info **list)
{
    struct fi_info *hints = make_hints(fi, provider);
    if (!hints)
        return -FI_ENOMEM;
    int code = fi->fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, list);
    fi->fi_freeinfo(hints);
    return code;
}

/* Addresses that mean the same or nothing on other nodes come last: link-local, loopback, bridges for containers. */
int px_ofi_score(bool bridge, int family, const void *address)
{
    int score = bridge ? 50 : 100;
    if (family == AF_INET) {
        uint32_t ip = ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
        return ip >> 24 == 127 ? 1 : ip >> 16 == 0xa9fe ? 10 : score + 1;
    }
    const struct in6_addr *ip = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(ip) ? 0 : IN6_IS_ADDR_LINKLOCAL(ip) ? 9 : score;
}

static bool is_bridge(const char *interface)
{
    char path[300];
    snprintf(path, sizeof(path), "/sys/class/net/%s/bridge", interface);
    return access(path, F_OK) == 0;
}

static int score_of(const struct fi_info *info)
{
    const char *name = info->domain_attr->name ? info->domain_attr->name : "";
    if (info->addr_format == FI_SOCKADDR_IN && info->src_addr)
        return px_ofi_score(is_bridge(name), AF_INET, info->src_addr);
    if (info->addr_format == FI_SOCKADDR_IN6 && info->src_addr)
        return px_ofi_score(is_bridge(name), AF_INET6, info->src_addr);
    return 100; /* not an IP network: the library's own order */
}

static bool is_interface(const struct fi_info *info, const char *interface)
{
    return !*interface ||
           (info->domain_attr->name && strcmp(info->domain_attr->name, interface) == 0);
}

/* The names of something in a list, each once, for messages. */
static void list_names(const struct fi_info *list,
                       const char *(*name_of)(const struct fi_info *info), char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct fi_info *info = list; info && used < size; info = info->next) {
        bool again = false;
        for (const struct fi_info *before = list; before != info && !again; before = before->next)
            again = strcmp(name_of(before), name_of(info)) == 0;
        if (!again)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name_of(info));
    }
}

static const char *provider_of(const struct fi_info *info)
{
    return info->fabric_attr->prov_name ? info->fabric_attr->prov_name : "?";
}

static const char *domain_of(const struct fi_info *info)
{
    return info->domain_attr->name ? info->domain_attr->name : "?";
}

static px_status no_provider(const struct px_ofi_calls *fi, const char *wanted,
                             struct px_error *error)
{
    char names[400] = "";
    struct fi_info *list = NULL;
    if (get_info(fi, NULL, &list) == 0) {
        list_names(list, provider_of, names, sizeof(names));
        fi->fi_freeinfo(list);
    }
    return px_error_set(error, PX_ERR_NOT_FOUND,
                        "libfabric %u.%u has no provider %s with reliable messages and remote "
                        "memory here; it has: %s. Set "
                        "NVSHMEM_LIBFABRIC_PROVIDER to one of them",
                        FI_MAJOR(fi->fi_version()), FI_MINOR(fi->fi_version()), wanted,
                        *names ? names : "none");
}

static px_status take_best(const struct px_ofi_calls *fi, struct fi_info *list,
                           const char *interface, struct fi_info **info, struct px_error *error)
{
    struct fi_info *best = NULL;
    for (struct fi_info *i = list; i; i = i->next)
        if (is_interface(i, interface) && (!best || score_of(i) > score_of(best)))
            best = i;
    if (!best) {
        char names[400];
        list_names(list, domain_of, names, sizeof(names));
        return px_error_set(error, PX_ERR_NOT_FOUND,
                            "NVSHMEM_OFI_INTERFACE: provider %s has no interface %s; it has: %s",
                            provider_of(list), interface, names);
    }
    struct fi_info *copy = fi->fi_dupinfo(best);
    if (!copy)
        return px_error_set(error, PX_ERR_NO_MEMORY, "fi_dupinfo: out of memory");
    *info = copy;
    return PX_OK;
}

px_status px_ofi_choose(const struct px_transport_setup *setup, struct fi_info **info,
                        struct px_error *error)
{
    const struct px_ofi_calls *fi;
    px_status status = px_ofi_load(&fi, error);
    if (status)
        return status;
    const char *wanted =
        setup->env && setup->env->libfabric_provider ? setup->env->libfabric_provider : "";
    const char *interface =
        setup->env && setup->env->ofi_interface ? setup->env->ofi_interface : "";
    struct fi_info *list = NULL;
    int code = -FI_ENODATA;
    if (*wanted)
        code = get_info(fi, wanted, &list);
    for (size_t i = 0; !*wanted && code && i < sizeof(preferred) / sizeof(preferred[0]); i++)
        code = get_info(fi, preferred[i], &list);
    if (code == -FI_ENODATA)
        return no_provider(fi, *wanted ? wanted : "cxi, efa or tcp", error);
    if (code)
        return px_ofi_error(error, code, "fi_getinfo");
    status = take_best(fi, list, interface, info, error);
    fi->fi_freeinfo(list);
    return status;
}
