/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of a GID, over recorded tables: each file of test/data/gid holds a table and questions
 * with the expected answers. */
#include "config.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "src/transport/verbs/gid.h"

#define TABLE_MAX 64

static void read_file(const char *name, char *text, size_t size)
{
    char path[1024];
    const char *source = getenv("srcdir"); /* automake's */
    snprintf(path, sizeof(path), "%s/test/data/gid/%s", source ? source : ".", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
}

/* "v2 AF_INET 10.0.0.0/8" or "index 3". */
static struct px_gid_wish parse_wish(const char *text)
{
    struct px_gid_wish wish = {.index = -1, .roce_version = 2};
    char family[16], range[64];
    if (sscanf(text, "index %d", &wish.index) == 1)
        return wish;
    assert_int_equal(sscanf(text, "v%d %15s %63s", &wish.roce_version, family, range), 3);
    wish.family = strcmp(family, "any") == 0       ? AF_UNSPEC
                  : strcmp(family, "AF_INET") == 0 ? AF_INET
                                                   : AF_INET6;
    assert_int_equal(px_gid_parse_range(range, &wish, NULL), PX_OK);
    return wish;
}

static void ask(const char *file, const char *question, const struct px_gid *table, size_t count)
{
    const char *arrow = strstr(question, "-> ");
    assert_non_null(arrow);
    struct px_gid_wish wish = parse_wish(question + 2);
    struct px_error error = PX_ERROR_INIT;
    char answer[16] = "none", expected[16];
    size_t chosen;
    if (px_gid_choose(table, count, &wish, &chosen, &error) == PX_OK)
        snprintf(answer, sizeof(answer), "%u", table[chosen].index);
    else
        assert_int_equal(error.status, PX_ERR_NOT_FOUND);
    assert_int_equal(sscanf(arrow, "-> %15s", expected), 1);
    if (strcmp(answer, expected) != 0)
        fail_msg("%s: %s: got %s", file, question, answer);
}

/* Questions leave the text, the rest is the table. */
static unsigned run_file(const char *name)
{
    char text[4096], questions[32][80];
    struct px_gid table[TABLE_MAX];
    size_t count;
    unsigned n = 0;
    read_file(name, text, sizeof(text));
    for (char *at = text; (at = strstr(at, "\n? ")) != NULL;) {
        assert_true(n < 32);
        snprintf(questions[n], sizeof(questions[n]), "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
        n++;
        at[1] = '#';
        at++;
    }
    assert_int_equal(px_gid_parse_table(text, table, TABLE_MAX, &count, NULL), PX_OK);
    for (unsigned i = 0; i < n; i++)
        ask(name, questions[i], table, count);
    return n;
}

static void recorded_tables_give_the_expected_index(void **state)
{
    static const char *const files[] = {
        "mlx5-roce.txt", "mlx5-two-networks.txt", "no-types.txt",  "link-local-only.txt",
        "gaps.txt",      "infiniband.txt",        "soft-roce.txt", "empty.txt",
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        assert_true(run_file(files[i]) > 0);
}

static void a_wrong_index_says_which_exist(void **state)
{
    static const char text[] = "0 v1 fe80::1\n3 v2 ::ffff:10.1.2.3\n";
    struct px_gid table[4];
    struct px_gid_wish wish = {.index = 7, .roce_version = 2};
    struct px_error error = PX_ERROR_INIT;
    size_t count, chosen;
    assert_int_equal(px_gid_parse_table(text, table, 4, &count, NULL), PX_OK);
    assert_int_equal(px_gid_choose(table, count, &wish, &chosen, &error), PX_ERR_NOT_FOUND);
    assert_string_equal(error.text,
                        "NVSHMEM_IB_GID_INDEX=7: the port has no such entry. It has 0: fe80::1 "
                        "(RoCE v1), 3: 10.1.2.3 (RoCE v2)");
}

static void bad_ranges_are_refused(void **state)
{
    static const char *const bad[] = {"",           "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x",
                                      "fd00::/129", "here",        "/8",        "10.0.0/8",
                                      "fd00::/-1"};
    struct px_gid_wish wish = {.range_bits = 77};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(px_gid_parse_range(bad[i], &wish, NULL), PX_ERR_INVALID);
        assert_int_equal(wish.range_bits, 77);
    }
}

static void broken_tables_are_refused(void **state)
{
    static const char *const bad[] = {"0 v3 fe80::1", "x v2 fe80::1", "0 v2", "0 v2 fe80:::1",
                                      "70000 v2 fe80::1"};
    struct px_gid table[2];
    size_t count = 9;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(px_gid_parse_table(bad[i], table, 2, &count, NULL), PX_ERR_PROTOCOL);
    assert_int_equal(
        px_gid_parse_table("0 v2 fe80::1\n1 v2 fe80::2\n2 v2 fe80::3\n", table, 2, &count, NULL),
        PX_ERR_PROTOCOL);
    assert_int_equal(count, 9);
}

static void ports_of_different_kinds_do_not_match(void **state)
{
    static const char text[] = "0 v1 ::ffff:10.1.2.3\n1 v2 ::ffff:10.1.2.3\n2 v2 fd00::1\n"
                               "3 - ::ffff:10.1.2.3\n4 IB fe80::1\n";
    static const char expected[5][6] = {"10010", "01010", "00100", "11010", "00001"};
    struct px_gid table[5];
    size_t count;
    assert_int_equal(px_gid_parse_table(text, table, 5, &count, NULL), PX_OK);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 5; k++)
            assert_int_equal(px_gid_match(&table[i], &table[k]), expected[i][k] == '1');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_tables_give_the_expected_index),
        cmocka_unit_test(a_wrong_index_says_which_exist),
        cmocka_unit_test(bad_ranges_are_refused),
        cmocka_unit_test(broken_tables_are_refused),
        cmocka_unit_test(ports_of_different_kinds_do_not_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
