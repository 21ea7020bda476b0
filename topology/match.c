/* SPDX-License-Identifier: BSD-3-Clause */
/* Least-cost assignment of clients to servers that may be shared at a price. It is a minimum-cost
 * flow: clients are added one by one along a shortest path of moves (this client goes here, the one
 * there moves on, ...), which keeps the total least after each. Sharing gets dearer with each
 * client, so the costs are convex and the result is exact.
 *
 * The shortest path is Bellman and Ford's over servers: moves can gain, so costs can be negative,
 * but never round a circle. 16 clients and 64 servers take some ten thousand steps. */
#include "config.h"
#include "topology/private.h"

#include <errno.h>
#include <stdlib.h>

struct search {
    size_t n_clients, n_servers;
    const px_match_cost *cost;
    int *server_of;
    px_match_cost *reach; /* least cost of freeing a place at a server */
    size_t *mover;        /* the client that moves there */
};

/* Clients before `client` may move to make room for it. Returns whether a shorter way was found. */
static bool relax(struct search *s, size_t client)
{
    bool shorter = false;
    for (size_t c = 0; c < client; c++) {
        const px_match_cost *cost = s->cost + c * s->n_servers;
        int from = s->server_of[c];
        if (from < 0 || s->reach[from] >= PX_MATCH_NEVER)
            continue;
        for (size_t to = 0; to < s->n_servers; to++) {
            px_match_cost reach = s->reach[from] - cost[from] + cost[to];
            if (cost[to] >= PX_MATCH_NEVER || reach >= s->reach[to])
                continue;
            s->reach[to] = reach;
            s->mover[to] = c;
            shorter = true;
        }
    }
    return shorter;
}

static void add_client(struct search *s, size_t client, px_match_cost share, size_t *load)
{
    for (size_t to = 0; to < s->n_servers; to++) {
        s->reach[to] = s->cost[client * s->n_servers + to];
        s->mover[to] = client;
    }
    while (relax(s, client))
        ;
    int last = -1;
    for (size_t to = 0; to < s->n_servers; to++)
        if (s->reach[to] < PX_MATCH_NEVER &&
            (last < 0 || s->reach[to] + share * (px_match_cost)load[to] <
                             s->reach[last] + share * (px_match_cost)load[last]))
            last = (int)to;
    s->server_of[client] = -1;
    if (last < 0)
        return;
    load[last]++;
    for (int to = last; to >= 0;) {
        size_t mover = s->mover[to];
        int from = s->server_of[mover];
        s->server_of[mover] = to;
        to = from;
    }
}

px_status px_match(size_t n_clients, size_t n_servers, const px_match_cost *cost,
                   px_match_cost share, size_t *load, int *server_of)
{
    struct search s = {
        .n_clients = n_clients,
        .n_servers = n_servers,
        .cost = cost,
        .server_of = server_of,
        .reach = calloc(n_servers + 1, sizeof(*s.reach)),
        .mover = calloc(n_servers + 1, sizeof(*s.mover)),
    };
    px_status status = s.reach && s.mover ? PX_OK : PX_ERR_NO_MEMORY;
    for (size_t client = 0; status == PX_OK && client < n_clients; client++)
        add_client(&s, client, share, load);
    free(s.mover);
    free(s.reach);
    return status;
}
