/* SPDX-License-Identifier: BSD-3-Clause */
/* Status words, error chains and the shape of a log line. */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/diag/error.h"
#include "src/diag/log.h"

static char seen[8192];
static int lines;

static void remember(const char *line, size_t length)
{
    memcpy(seen, line, length);
    seen[length] = '\0';
    lines++;
}

static void every_status_has_a_word(void **state)
{
    for (int s = 0; s >= PX_ERR_INTERNAL; s--)
        assert_string_not_equal(px_status_string((px_status)s), "unknown status");
    assert_string_equal(px_status_string((px_status)1), "unknown status");
}

static void contexts_go_before_the_cause(void **state)
{
    struct px_error error = PX_ERROR_INIT;
    errno = EAGAIN;
    assert_int_equal(px_error_errno(&error, ENOENT, "open /x"), PX_ERR_SYSTEM);
    assert_int_equal(px_error_context(&error, "reading the %s", "card"), PX_ERR_SYSTEM);
    assert_string_equal(error.text, "reading the card: open /x: No such file or directory");
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(px_error_set(NULL, PX_ERR_PEER, "nobody listens"), PX_ERR_PEER);
}

static void a_long_error_is_cut_visibly(void **state)
{
    struct px_error error = PX_ERROR_INIT;
    char text[PX_ERROR_TEXT_MAX + 100];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    px_error_set(&error, PX_ERR_INVALID, "%s", text);
    assert_string_equal(error.text + strlen(error.text) - 3, "...");
    px_error_context(&error, "more");
    assert_true(strlen(error.text) < sizeof(error.text));
    assert_string_equal(error.text + strlen(error.text) - 3, "...");
}

static void a_line_has_one_prefix_and_one_newline(void **state)
{
    px_log_to(remember);
    lines = 0;
    px_log_identify(3, 8);
    px_warn("heap %d", 7);
    assert_int_equal(lines, 1);
    assert_int_equal(strncmp(seen, "pxshmem: PE 3 of 8 (", 20), 0);
    assert_non_null(strstr(seen, "): heap 7\n"));
    px_log_to(NULL);
}

static void levels_and_subsystems_filter(void **state)
{
    px_log_to(remember);
    lines = 0;
    assert_true(px_log_configure("info", "INIT,MEM", ""));
    px_info(PX_SUB_INIT, "shown");
    px_info(PX_SUB_COLL, "hidden");
    assert_int_equal(lines, 1);
    assert_true(px_log_configure("INFO", "^INIT", ""));
    px_info(PX_SUB_INIT, "hidden");
    px_info(PX_SUB_COLL, "shown");
    assert_int_equal(lines, 2);
    assert_false(px_log_configure("LOUD", "", ""));
    assert_false(px_log_configure("INFO", "INIT,NOSUCH", ""));
    assert_true(px_log_configure("", "", ""));
    px_log_to(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_word),
        cmocka_unit_test(contexts_go_before_the_cause),
        cmocka_unit_test(a_long_error_is_cut_visibly),
        cmocka_unit_test(a_line_has_one_prefix_and_one_newline),
        cmocka_unit_test(levels_and_subsystems_filter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
