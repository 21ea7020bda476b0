/* SPDX-License-Identifier: BSD-3-Clause */
/* The assignment at least cost, against trying everything. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topology/private.h"
#include "test/unit/topology_random.h"

#define MAX 6

struct instance {
    size_t n_clients, n_servers, load[MAX];
    px_match_cost cost[MAX * MAX], share;
};

static px_match_cost total(const struct instance *in, const int *server_of)
{
    size_t load[MAX];
    px_match_cost sum = 0;
    memcpy(load, in->load, sizeof(load));
    for (size_t c = 0; c < in->n_clients; c++)
        if (server_of[c] >= 0)
            sum += in->cost[c * in->n_servers + (size_t)server_of[c]] +
                   in->share * (px_match_cost)load[server_of[c]]++;
    return sum;
}

static bool may_go_somewhere(const struct instance *in, size_t client)
{
    for (size_t s = 0; s < in->n_servers; s++)
        if (in->cost[client * in->n_servers + s] < PX_MATCH_NEVER)
            return true;
    return false;
}

/* The least total over all assignments that serve every client that can be served. */
static px_match_cost least(const struct instance *in, int *server_of, size_t client)
{
    if (client == in->n_clients)
        return total(in, server_of);
    px_match_cost best = PX_MATCH_NEVER;
    server_of[client] = -1;
    if (!may_go_somewhere(in, client))
        return least(in, server_of, client + 1);
    for (size_t s = 0; s < in->n_servers; s++) {
        if (in->cost[client * in->n_servers + s] >= PX_MATCH_NEVER)
            continue;
        server_of[client] = (int)s;
        px_match_cost with = least(in, server_of, client + 1);
        best = with < best ? with : best;
    }
    return best;
}

static struct instance draw_instance(void)
{
    struct instance in = {.n_clients = 1 + draw(5), .n_servers = 1 + draw(5), .share = draw(12)};
    for (size_t i = 0; i < in.n_clients * in.n_servers; i++)
        in.cost[i] = draw(8) == 0 ? PX_MATCH_NEVER : (px_match_cost)draw(20) << (draw(2) * 70);
    for (size_t s = 0; s < in.n_servers; s++)
        in.load[s] = draw(3);
    return in;
}

static void never_worse_than_trying_everything(void **state)
{
    for (int round = 0; round < 3000; round++) {
        struct instance in = draw_instance();
        size_t load[MAX];
        int server_of[MAX], scratch[MAX];
        memcpy(load, in.load, sizeof(load));
        assert_int_equal(px_match(in.n_clients, in.n_servers, in.cost, in.share, load, server_of),
                         PX_OK);
        assert_true(total(&in, server_of) == least(&in, scratch, 0));
        for (size_t c = 0; c < in.n_clients; c++)
            assert_int_equal(server_of[c] >= 0, may_go_somewhere(&in, c));
    }
}

static void load_counts_who_came(void **state)
{
    for (int round = 0; round < 300; round++) {
        struct instance in = draw_instance();
        size_t load[MAX];
        int server_of[MAX];
        memcpy(load, in.load, sizeof(load));
        assert_int_equal(px_match(in.n_clients, in.n_servers, in.cost, in.share, load, server_of),
                         PX_OK);
        for (size_t c = 0; c < in.n_clients; c++)
            if (server_of[c] >= 0)
                in.load[server_of[c]]++;
        assert_memory_equal(load, in.load, in.n_servers * sizeof(*load));
    }
}

static void nobody_to_serve_or_to_be_served(void **state)
{
    int server_of[2] = {7, 7};
    size_t load[1] = {0};
    px_match_cost cost[2] = {PX_MATCH_NEVER, PX_MATCH_NEVER};
    assert_int_equal(px_match(0, 1, cost, 1, load, server_of), PX_OK);
    assert_int_equal(server_of[0], 7);
    assert_int_equal(px_match(2, 0, cost, 1, load, server_of), PX_OK);
    assert_int_equal(server_of[1], -1);
    assert_int_equal(px_match(2, 1, cost, 1, load, server_of), PX_OK);
    assert_int_equal(server_of[0], -1);
    assert_int_equal(load[0], 0);
}

int main(void)
{
    seed_random();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_worse_than_trying_everything),
        cmocka_unit_test(load_counts_who_came),
        cmocka_unit_test(nobody_to_serve_or_to_be_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
