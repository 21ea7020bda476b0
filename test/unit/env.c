/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment's grammar: what is accepted with which value, and what is refused by name. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/env/env.h"

static char said[4096];

static void remember(const char *line)
{
    strncat(said, line, sizeof(said) - strlen(said) - 1);
    strncat(said, "\n", sizeof(said) - strlen(said) - 1);
}

static void defaults_are_those_of_the_table(void **state)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    assert_int_equal(px_env_read(&env, &error), PX_OK);
    assert_int_equal(env.symmetric_size, 256u << 20);
    assert_int_equal(env.bootstrap_timeout, 120);
    assert_int_equal(env.ib_gid_index, -1);
    assert_false(env.check);
    assert_string_equal(env.heap_kind, "AUTO");
    assert_int_equal(env.given, 0);
    px_env_free(&env);
}

/* What the card carries: 24 bits each, a dozen of them. */
static void shared_settings_are_compared_as_numbers(void **state)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    char wanted[64], seen[64];
    unsigned shared = 0;
    setenv("NVSHMEM_BCAST_ALGO", "ONE-LEVEL", 1);
    assert_int_equal(px_env_read(&env, &error), PX_OK);
    for (size_t i = 0; i < px_env_row_count; i++) {
        const struct px_env_row *row = &px_env_rows[i];
        if (!row->same)
            continue;
        shared++;
        assert_true(px_env_number(&env, row) < 1u << 24);
        px_env_number_format(row, px_env_number(&env, row), seen, sizeof(seen));
        assert_string_equal(seen, px_env_format(&env, row, wanted, sizeof(wanted)));
    }
    assert_in_range(shared, 6, 12);
    assert_string_equal(env.bcast_algo, "one-level");
    px_env_free(&env);
    unsetenv("NVSHMEM_BCAST_ALGO");
}

static void sizes_have_one_grammar(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } cases[] = {
        {"1G", 1ull << 30},
        {"1g", 1ull << 30},
        {"1.5M", 3u << 19},
        {"4096", 4096},
        {"0.5K", 512},
        {"1T", 1ull << 40},
        {"0.0001K", 1},
        {"1GiB", 0},
        {"20kk", 0},
        {"-1", 0},
        {"1e3", 0},
        {"", 0},
        {"9223372036854775808", 0},
        {"0x10", 0},
        {"1 G", 0},
        {"G", 0},
        {"1.", 0},
        {".5G", 0},
        {"99999999999999T", 0},
        {"1,5G", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 0;
        px_status status = px_env_parse_size(cases[i].text, &bytes);
        if ((status == PX_OK) != (cases[i].bytes != 0) || bytes != cases[i].bytes)
            fail_msg("\"%s\" gave %d, %llu", cases[i].text, status, (unsigned long long)bytes);
    }
}

/* One value that cannot be right for each type; every row must refuse its own by name. */
static const char *nonsense_for(enum px_env_type type)
{
    return type == PX_ENV_STRING || type == PX_ENV_FOREIGN ? NULL : "3 sheep";
}

static void nonsense_is_refused_by_name_in_every_variable(void **state)
{
    for (size_t i = 0; i < px_env_row_count; i++) {
        const struct px_env_row *row = &px_env_rows[i];
        const char *nonsense = nonsense_for(row->type);
        struct px_env env;
        struct px_error error = PX_ERROR_INIT;
        if (!nonsense)
            continue;
        setenv(row->name, nonsense, 1);
        assert_int_equal(px_env_read(&env, &error), PX_ERR_INVALID);
        assert_non_null(strstr(error.text, row->name));
        assert_non_null(strstr(error.text, "\"3 sheep\""));
        assert_non_null(strstr(error.text, row->type == PX_ENV_BOOL ? "yes or no" : row->accepted));
        px_env_free(&env);
        unsetenv(row->name);
    }
}

static void booleans_are_strict(void **state)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    setenv("NVSHMEM_DISABLE_P2P", "off", 1);
    assert_int_equal(px_env_read(&env, &error), PX_OK);
    assert_false(env.disable_p2p);
    px_env_free(&env);
    setenv("NVSHMEM_DISABLE_P2P", "TRUE", 1);
    assert_int_equal(px_env_read(&env, &error), PX_OK);
    assert_true(env.disable_p2p);
    px_env_free(&env);
    setenv("NVSHMEM_DISABLE_P2P", "", 1);
    assert_int_equal(px_env_read(&env, &error), PX_ERR_INVALID);
    px_env_free(&env);
    unsetenv("NVSHMEM_DISABLE_P2P");
}

static void ranges_and_choices_hold(void **state)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    setenv("NVSHMEM_IB_SL", "16", 1);
    assert_int_equal(px_env_read(&env, &error), PX_ERR_INVALID);
    px_env_free(&env);
    setenv("NVSHMEM_IB_SL", "0xf", 1);
    setenv("NVSHMEM_HEAP_KIND", "sysmem", 1);
    assert_int_equal(px_env_read(&env, &error), PX_OK);
    assert_int_equal(env.ib_sl, 15);
    assert_string_equal(env.heap_kind, "SYSMEM");
    assert_int_equal(env.given, 2);
    px_env_free(&env);
    unsetenv("NVSHMEM_IB_SL");
    unsetenv("NVSHMEM_HEAP_KIND");
}

static void a_misspelt_name_gets_the_right_one(void **state)
{
    said[0] = '\0';
    setenv("NVSHMEM_SYMETRIC_SIZE", "1G", 1);
    setenv("NVSHMEM_IBGDA_NUM_DCT", "2", 1);
    setenv("NVSHMEM_COMPLETELY_DIFFERENT_THING", "2", 1);
    assert_int_equal(px_env_review(remember), 2);
    assert_non_null(strstr(said, "NVSHMEM_SYMETRIC_SIZE is unknown and has no effect; did you mean "
                                 "NVSHMEM_SYMMETRIC_SIZE?"));
    assert_non_null(strstr(said, "NVSHMEM_IBGDA_NUM_DCT has no effect here"));
    assert_non_null(strstr(said, "NVSHMEM_COMPLETELY_DIFFERENT_THING is unknown"));
    unsetenv("NVSHMEM_SYMETRIC_SIZE");
    unsetenv("NVSHMEM_IBGDA_NUM_DCT");
    unsetenv("NVSHMEM_COMPLETELY_DIFFERENT_THING");
}

static void every_value_prints(void **state)
{
    struct px_env env;
    char text[128];
    assert_int_equal(px_env_read(&env, NULL), PX_OK);
    for (size_t i = 0; i < px_env_row_count; i++)
        assert_ptr_equal(px_env_format(&env, &px_env_rows[i], text, sizeof(text)), text);
    assert_string_equal(px_env_format(&env, &px_env_rows[2], text, sizeof(text)), "268435456");
    px_env_free(&env);
}

int main(void)
{
    for (size_t i = 0; i < px_env_row_count; i++)
        unsetenv(px_env_rows[i].name);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(shared_settings_are_compared_as_numbers),
        cmocka_unit_test(sizes_have_one_grammar),
        cmocka_unit_test(nonsense_is_refused_by_name_in_every_variable),
        cmocka_unit_test(booleans_are_strict),
        cmocka_unit_test(ranges_and_choices_hold),
        cmocka_unit_test(a_misspelt_name_gets_the_right_one),
        cmocka_unit_test(every_value_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
