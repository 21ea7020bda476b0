/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing a GID. Users' tables differ per device: version 1 and 2 entries of the same address,
 * link-local ones first, IPv4 and IPv6 mixed. A fixed index is therefore wrong on some nodes, and
 * the wrong entry shows only as time-outs. */
#include "config.h"
#include "src/transport/verbs/gid.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t mapped_ipv4[12] = {[10] = 0xff, [11] = 0xff};

static bool is_ipv4(const uint8_t raw[16])
{
    return memcmp(raw, mapped_ipv4, sizeof(mapped_ipv4)) == 0;
}

static bool is_link_local(const uint8_t raw[16])
{
    if (is_ipv4(raw))
        return raw[12] == 169 && raw[13] == 254;
    return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
}

static px_status parse_address(const char *text, uint8_t raw[16], bool *ipv4)
{
    struct in_addr four;
    *ipv4 = inet_pton(AF_INET, text, &four) == 1;
    if (*ipv4) {
        memcpy(raw, mapped_ipv4, sizeof(mapped_ipv4));
        memcpy(raw + 12, &four, 4);
        return PX_OK;
    }
    return inet_pton(AF_INET6, text, raw) == 1 ? PX_OK : PX_ERR_INVALID;
}

px_status px_gid_parse_range(const char *text, struct px_gid_wish *wish, struct px_error *error)
{
    char address[INET6_ADDRSTRLEN] = "", *end;
    uint8_t raw[16];
    bool ipv4;
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    if (length < sizeof(address))
        memcpy(address, text, length);
    if (parse_address(address, raw, &ipv4) != PX_OK)
        return px_error_set(
            error, PX_ERR_INVALID,
            "NVSHMEM_IB_ADDR_RANGE=%s: not an address prefix such as 10.0.0.0/8 or fd00::/16",
            text);
    long most = ipv4 ? 32 : 128, bits = most;
    if (slash) {
        bits = strtol(slash + 1, &end, 10);
        if (end == slash + 1 || *end || bits < 0 || bits > most)
            return px_error_set(error, PX_ERR_INVALID,
                                "NVSHMEM_IB_ADDR_RANGE=%s: the prefix length must be 0 to %ld",
                                text, most);
    }
    memcpy(wish->range, raw, sizeof(raw));
    wish->range_bits = (uint8_t)(ipv4 ? bits + 96 : bits);
    return PX_OK;
}

static bool in_range(const uint8_t raw[16], const struct px_gid_wish *wish)
{
    size_t whole = wish->range_bits / 8, rest = wish->range_bits % 8;
    if (memcmp(raw, wish->range, whole) != 0)
        return false;
    return rest == 0 || ((raw[whole] ^ wish->range[whole]) >> (8 - rest)) == 0;
}

/* 0 when it must not be used; more is better. */
static int score(const struct px_gid *gid, const struct px_gid_wish *wish)
{
    bool ipv4 = is_ipv4(gid->raw);
    if ((gid->type == PX_GID_ROCE_V1 && wish->roce_version != 1) ||
        (gid->type == PX_GID_ROCE_V2 && wish->roce_version != 2))
        return 0;
    if (gid->type != PX_GID_IB && wish->family != AF_UNSPEC && ipv4 != (wish->family == AF_INET))
        return 0;
    if (!in_range(gid->raw, wish))
        return 0;
    return 1 + (is_link_local(gid->raw) ? 0 : 2) + (ipv4 ? 1 : 0);
}

static void list(const struct px_gid *table, size_t count, char *text, size_t size)
{
    char one[PX_GID_TEXT_MAX];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%u: %s", i ? ", " : "",
                                 table[i].index, px_gid_format(&table[i], one));
}

static px_status no_such(const struct px_gid *table, size_t count, const struct px_gid_wish *wish,
                         struct px_error *error)
{
    char there[1024];
    list(table, count, there, sizeof(there));
    if (wish->index >= 0)
        return px_error_set(error, PX_ERR_NOT_FOUND,
                            "NVSHMEM_IB_GID_INDEX=%d: the port has no such entry. It has %s",
                            wish->index, count ? there : "none");
    return px_error_set(
        error, PX_ERR_NOT_FOUND,
        "no GID fits: wanted RoCE v%d, %s (NVSHMEM_IB_ROCE_VERSION_NUM, NVSHMEM_IB_ADDR_FAMILY, "
        "NVSHMEM_IB_ADDR_RANGE). The port has %s",
        wish->roce_version,
        wish->family == AF_INET    ? "IPv4"
        : wish->family == AF_INET6 ? "IPv6"
                                   : "any family",
        count ? there : "none: give its network interface an address");
}

px_status px_gid_choose(const struct px_gid *table, size_t count, const struct px_gid_wish *wish,
                        size_t *chosen, struct px_error *error)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        if (wish->index >= 0) {
            if (table[i].index == wish->index)
                best = i;
            continue;
        }
        int mine = score(&table[i], wish), theirs = best < count ? score(&table[best], wish) : 0;
        bool repeated = best < count && table[i].type == PX_GID_UNKNOWN &&
                        wish->roce_version == 2 && memcmp(table[i].raw, table[best].raw, 16) == 0;
        if (mine > theirs || (mine && repeated))
            best = i;
    }
    if (best == count)
        return no_such(table, count, wish, error);
    *chosen = best;
    return PX_OK;
}

bool px_gid_match(const struct px_gid *a, const struct px_gid *b)
{
    if (a->type == PX_GID_UNKNOWN || b->type == PX_GID_UNKNOWN)
        return is_ipv4(a->raw) == is_ipv4(b->raw);
    return a->type == b->type && (a->type == PX_GID_IB || is_ipv4(a->raw) == is_ipv4(b->raw));
}

char *px_gid_format(const struct px_gid *gid, char text[PX_GID_TEXT_MAX])
{
    static const char *const types[] = {"type unknown", "InfiniBand", "RoCE v1", "RoCE v2"};
    char address[INET6_ADDRSTRLEN];
    if (is_ipv4(gid->raw))
        (void)inet_ntop(AF_INET, gid->raw + 12, address, sizeof(address));
    else
        (void)inet_ntop(AF_INET6, gid->raw, address, sizeof(address));
    snprintf(text, PX_GID_TEXT_MAX, "%s (%s)", address, types[gid->type]);
    return text;
}

static px_status parse_line(const char *line, struct px_gid *gid)
{
    static const char *const types[] = {"-", "IB", "v1", "v2"};
    char type[8], address[INET6_ADDRSTRLEN];
    unsigned index;
    bool ipv4;
    if (sscanf(line, "%u %7s %45s", &index, type, address) != 3 || index > UINT16_MAX)
        return PX_ERR_PROTOCOL;
    gid->index = (uint16_t)index;
    for (int t = 0; t < 4; t++)
        if (strcmp(type, types[t]) == 0) {
            gid->type = (enum px_gid_type)t;
            return parse_address(address, gid->raw, &ipv4);
        }
    return PX_ERR_PROTOCOL;
}

px_status px_gid_parse_table(const char *text, struct px_gid *table, size_t capacity, size_t *count,
                             struct px_error *error)
{
    size_t n = 0;
    for (unsigned number = 1; *text; number++) {
        char line[128] = "";
        size_t length = strcspn(text, "\n");
        memcpy(line, text, length < sizeof(line) ? length : sizeof(line) - 1);
        line[strcspn(line, "#")] = '\0';
        text += length + (text[length] == '\n');
        if (line[strspn(line, " \t")] == '\0')
            continue;
        if (n == capacity || parse_line(line, &table[n]) != PX_OK)
            return px_error_set(error, PX_ERR_PROTOCOL, "GID table, line %u: %s", number,
                                n == capacity ? "too many" : line);
        n++;
    }
    *count = n;
    return PX_OK;
}
