/* SPDX-License-Identifier: BSD-3-Clause */
/* Choices and refusals of the ofi transport that need no second PE. */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "src/env/env.h"
#include "src/transport/ofi/private.h"

static int score(const char *text, bool bridge)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return px_ofi_score(bridge, AF_INET, &v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return px_ofi_score(bridge, AF_INET6, &v6);
}

static void addresses_that_others_reach_come_first(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool bridge;
    } best_first[] = {
        {"10.77.0.10", false},  {"2001:db8::1", false}, {"172.17.0.1", true}, {"fd00::1", true},
        {"169.254.1.1", false}, {"fe80::1", false},     {"127.0.0.1", false}, {"::1", false},
    };
    for (size_t i = 1; i < sizeof(best_first) / sizeof(best_first[0]); i++)
        assert_true(score(best_first[i - 1].address, best_first[i - 1].bridge) >
                    score(best_first[i].address, best_first[i].bridge));
}

static px_status choose(const char *provider, const char *interface, struct fi_info **info,
                        struct px_error *error)
{
    struct px_env env = {.libfabric_provider = provider, .ofi_interface = interface};
    struct px_transport_setup setup = {.size = 2, .env = &env};
    return px_ofi_choose(&setup, info, error);
}

static void a_missing_provider_is_named_beside_what_exists(void **state)
{
    (void)state;
    struct px_error error = PX_ERROR_INIT;
    struct fi_info *info = NULL;
    assert_int_equal(choose("pigeon", "", &info, &error), PX_ERR_NOT_FOUND);
    assert_null(info);
    assert_non_null(strstr(error.text, "pigeon"));
    assert_non_null(strstr(error.text, "tcp"));
    assert_non_null(strstr(error.text, "NVSHMEM_LIBFABRIC_PROVIDER"));
}

static void a_missing_interface_is_named_beside_what_exists(void **state)
{
    (void)state;
    struct px_error error = PX_ERROR_INIT;
    struct fi_info *info = NULL;
    assert_int_equal(choose("tcp", "eth77", &info, &error), PX_ERR_NOT_FOUND);
    assert_null(info);
    assert_non_null(strstr(error.text, "eth77"));
    assert_non_null(strstr(error.text, "lo"));
}

static void an_interface_can_be_chosen(void **state)
{
    (void)state;
    const struct px_ofi_calls *fi;
    struct px_error error = PX_ERROR_INIT;
    struct fi_info *info = NULL;
    assert_int_equal(choose("tcp", "lo", &info, &error), PX_OK);
    assert_string_equal(info->domain_attr->name, "lo");
    assert_int_equal(px_ofi_load(&fi, &error), PX_OK);
    fi->fi_freeinfo(info);
}

static void opening_with_a_bad_setting_leaves_nothing(void **state)
{
    (void)state;
    struct px_env env = {.libfabric_provider = "pigeon", .ofi_interface = ""};
    struct px_transport_setup setup = {.size = 2, .env = &env, .demanded = true};
    struct px_error error = PX_ERROR_INIT;
    char address[PX_TRANSPORT_ADDRESS_MAX];
    void *self = NULL;
    size_t length = 7;
    assert_int_equal(px_transport_by_name("ofi")->open(&setup, &self, address, &length, &error),
                     PX_ERR_NOT_FOUND);
    assert_null(self);
    assert_int_equal(length, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_that_others_reach_come_first),
        cmocka_unit_test(a_missing_provider_is_named_beside_what_exists),
        cmocka_unit_test(a_missing_interface_is_named_beside_what_exists),
        cmocka_unit_test(an_interface_can_be_chosen),
        cmocka_unit_test(opening_with_a_bad_setting_leaves_nothing),
    };
    const struct px_ofi_calls *fi;
    struct px_error error = PX_ERROR_INIT;
    if (px_ofi_load(&fi, &error)) {
        printf("1..0 # SKIP %s\n", error.text);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
