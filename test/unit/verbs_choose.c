/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of ports: lists, mapping, dealing, nearness, and a reason for each port left out. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/transport/verbs/choose.h"

/* A node with four adapters of two ports, one port down, and an Ethernet adapter. */
static size_t node(struct px_verbs_port ports[PX_VERBS_PORTS_MAX])
{
    static const struct px_verbs_port all[] = {
        {.device = "mlx5_0", .port = 1, .active = true},
        {.device = "mlx5_0", .port = 2, .active = true},
        {.device = "mlx5_1", .port = 1, .active = true},
        {.device = "mlx5_1", .port = 2, .active = false},
        {.device = "mlx5_2", .port = 1, .active = true},
        {.device = "mlx5_3", .port = 1, .active = true},
        {.device = "bnxt_re0", .port = 1, .active = true, .ethernet = true},
    };
    memcpy(ports, all, sizeof(all));
    return sizeof(all) / sizeof(all[0]);
}

/* The ports used, as "mlx5_0:1 mlx5_1:1"; the error's text when there is none. */
static const char *choose(struct px_verbs_rules rules)
{
    static char text[PX_ERROR_TEXT_MAX];
    static struct px_verbs_port ports[PX_VERBS_PORTS_MAX];
    struct px_error error = PX_ERROR_INIT;
    size_t chosen[PX_VERBS_NICS_MAX], n = 0, count = node(ports);
    rules.list = rules.list ? rules.list : "";
    rules.mapping = rules.mapping ? rules.mapping : "";
    rules.prefix = rules.prefix ? rules.prefix : "";
    rules.nearest = rules.nearest ? rules.nearest : "";
    text[0] = '\0';
    if (px_verbs_choose_ports(ports, count, &rules, chosen, &n, &error) != PX_OK)
        return strcpy(text, error.text);
    for (size_t i = 0, used = 0; i < count; i++)
        if (!ports[i].why_not[0])
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s:%u", used ? " " : "",
                                     ports[i].device, ports[i].port);
    return text;
}

static void without_rules_one_port_is_used(void **state)
{
    assert_string_equal(choose((struct px_verbs_rules){.list = NULL}), "mlx5_0:1");
}

static void the_nearest_are_used(void **state)
{
    assert_string_equal(choose((struct px_verbs_rules){.nearest = "mlx5_2"}), "mlx5_2:1");
    assert_string_equal(choose((struct px_verbs_rules){.nearest = "mlx5_2,mlx5_3:1"}),
                        "mlx5_2:1 mlx5_3:1");
    assert_string_equal(choose((struct px_verbs_rules){.nearest = "gone0"}), "mlx5_0:1");
}

/* What topology found for this PE has obeyed the mapping; lists still restrict it. The nearest carries small messages. */
static void what_topology_found_counts(void **state)
{
    struct px_verbs_port ports[PX_VERBS_PORTS_MAX];
    size_t chosen[PX_VERBS_NICS_MAX], n = 0, count = node(ports);
    const struct px_verbs_rules rules = {
        .list = "", .mapping = "", .prefix = "", .nearest = "mlx5_3:1,mlx5_0:2,mlx5_1:1"};
    assert_int_equal(px_verbs_choose_ports(ports, count, &rules, chosen, &n, NULL), PX_OK);
    assert_int_equal(n, 3);
    assert_string_equal(ports[chosen[0]].device, "mlx5_3");
    assert_string_equal(ports[chosen[1]].device, "mlx5_0");
    assert_int_equal(ports[chosen[1]].port, 2);
    assert_string_equal(ports[chosen[2]].device, "mlx5_1");
    assert_string_equal(choose((struct px_verbs_rules){.nearest = "mlx5_2,mlx5_3", .deal = true}),
                        "mlx5_2:1 mlx5_3:1");
    assert_string_equal(
        choose((struct px_verbs_rules){.nearest = "mlx5_2,mlx5_3", .list = "mlx5_3,mlx5_0"}),
        "mlx5_3:1");
}

static void lists_include_and_exclude(void **state)
{
    assert_string_equal(choose((struct px_verbs_rules){.list = "mlx5_1"}), "mlx5_1:1");
    assert_string_equal(choose((struct px_verbs_rules){.list = "mlx5_0:2,mlx5_3"}),
                        "mlx5_0:2 mlx5_3:1");
    assert_string_equal(choose((struct px_verbs_rules){.list = "^mlx5_0"}), "mlx5_1:1");
    assert_string_equal(choose((struct px_verbs_rules){.list = "^mlx5_0:1"}), "mlx5_0:2");
    assert_string_equal(choose((struct px_verbs_rules){.list = "^mlx5_9"}), "mlx5_0:1");
    assert_string_equal(choose((struct px_verbs_rules){.list = "mlx5_0,mlx5_1,mlx5_2,mlx5_3"}),
                        "mlx5_0:1 mlx5_0:2 mlx5_1:1 mlx5_2:1");
}

static void a_name_that_does_not_exist_is_an_error(void **state)
{
    const char *text = choose((struct px_verbs_rules){.list = "mlx5_0,mlx4_0"});
    assert_non_null(strstr(text, "NVSHMEM_HCA_LIST=mlx5_0,mlx4_0: there is no mlx4_0"));
    assert_non_null(strstr(text, "bnxt_re0:1"));
    text = choose((struct px_verbs_rules){.mapping = "mlx5_7:1:1"});
    assert_non_null(strstr(text, "there is no mlx5_7"));
}

static void ports_that_are_down_are_never_used(void **state)
{
    const char *text = choose((struct px_verbs_rules){.list = "mlx5_1:2"});
    assert_non_null(strstr(text, "no usable RDMA port"));
    assert_non_null(strstr(text, "mlx5_1:2 (port is not active"));
}

static void mapping_deals_by_local_rank(void **state)
{
    static const char *const expected[] = {"mlx5_0:1", "mlx5_0:1", "mlx5_2:1", "mlx5_3:1",
                                           "mlx5_0:1"};
    for (uint32_t rank = 0; rank < 5; rank++)
        assert_string_equal(choose((struct px_verbs_rules){
                                .mapping = "mlx5_0:1:2,mlx5_2:1:1,mlx5_3:1", .local_rank = rank}),
                            expected[rank]);
}

static void dealing_goes_round(void **state)
{
    static const char *const expected[] = {"mlx5_1:1", "mlx5_2:1", "mlx5_1:1"};
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_string_equal(choose((struct px_verbs_rules){
                                .list = "mlx5_1,mlx5_2", .deal = true, .local_rank = rank}),
                            expected[rank]);
}

static void prefix_restricts(void **state)
{
    assert_string_equal(choose((struct px_verbs_rules){.prefix = "bnxt"}), "bnxt_re0:1");
    assert_non_null(
        strstr(choose((struct px_verbs_rules){.prefix = "qedr"}), "NVSHMEM_HCA_PREFIX"));
}

static void kinds_are_not_mixed(void **state)
{
    assert_string_equal(choose((struct px_verbs_rules){.list = "mlx5_2,bnxt_re0"}), "mlx5_2:1");
}

static void malformed_lists_are_refused(void **state)
{
    static const char *const lists[] = {"mlx5_0:",   "mlx5_0:0", "mlx5_0:300",
                                        "mlx5_0:1x", ":1",       "mlx5_0:1:2"};
    static const char *const mappings[] = {"mlx5_0", "mlx5_0:1:0", "mlx5_0:1:x", "mlx5_0:1:2:3",
                                           ","};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        assert_non_null(
            strstr(choose((struct px_verbs_rules){.list = lists[i]}), "expected NAME[:PORT]"));
    for (size_t i = 0; i < sizeof(mappings) / sizeof(mappings[0]); i++)
        assert_non_null(strstr(choose((struct px_verbs_rules){.mapping = mappings[i]}),
                               "expected NAME:PORT:COUNT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rules_one_port_is_used),
        cmocka_unit_test(the_nearest_are_used),
        cmocka_unit_test(what_topology_found_counts),
        cmocka_unit_test(lists_include_and_exclude),
        cmocka_unit_test(a_name_that_does_not_exist_is_an_error),
        cmocka_unit_test(ports_that_are_down_are_never_used),
        cmocka_unit_test(mapping_deals_by_local_rank),
        cmocka_unit_test(dealing_goes_round),
        cmocka_unit_test(prefix_restricts),
        cmocka_unit_test(kinds_are_not_mixed),
        cmocka_unit_test(malformed_lists_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
