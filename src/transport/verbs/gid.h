/* SPDX-License-Identifier: BSD-3-Clause */
/* Which entry of a port's GID table to use: a decision over plain values, so that recorded tables
 * test it. */
#ifndef PX_TRANSPORT_VERBS_GID_H
#define PX_TRANSPORT_VERBS_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

enum px_gid_type { PX_GID_UNKNOWN, PX_GID_IB, PX_GID_ROCE_V1, PX_GID_ROCE_V2 };

struct px_gid {
    uint16_t index;
    enum px_gid_type
        type;        /* PX_GID_UNKNOWN where the system does not say (no sysfs, an old library) */
    uint8_t raw[16]; /* an IPv6 address in network order; IPv4 as ::ffff:a.b.c.d */
};

struct px_gid_wish {
    int index;          /* -1: choose */
    int roce_version;   /* 1 or 2 */
    int family;         /* AF_UNSPEC, AF_INET or AF_INET6 */
    uint8_t range[16];  /* as raw */
    uint8_t range_bits; /* 0: any address */
};

/* "10.0.0.0/8", "fd00::/16" or "::/0" (any). */
px_status px_gid_parse_range(const char *text, struct px_gid_wish *wish, struct px_error *error);

/* The best entry of a table that is in order of index and holds no empty entries: the position in
 * it. Of those that match the wish, a routable address is better than a link-local one, IPv4 better
 * than IPv6 of the same scope, then the lower index. When types are unknown and an address is
 * listed twice the later one counts: drivers list version 1 before version 2. The error lists what
 * there is. */
px_status px_gid_choose(const struct px_gid *table, size_t count, const struct px_gid_wish *wish,
                        size_t *chosen, struct px_error *error);

/* Can two ports with these reach each other, as far as their kinds go: version and address family are the same. */
bool px_gid_match(const struct px_gid *a, const struct px_gid *b);

/* As "10.78.0.1 (RoCE v2)"; returns text. */
#define PX_GID_TEXT_MAX 72
char *px_gid_format(const struct px_gid *gid, char text[PX_GID_TEXT_MAX]);

/* Lines "INDEX TYPE ADDRESS" with TYPE one of IB, v1, v2, -; '#' starts a comment. For recorded
 * tables. */
px_status px_gid_parse_table(const char *text, struct px_gid *table, size_t capacity, size_t *count,
                             struct px_error *error);

#endif
