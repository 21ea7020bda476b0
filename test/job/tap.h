/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a job program reports: PE 0 prints one TAP line for each ok(), and any PE prints a "not ok"
 * line of its own for a check that fails there. Each line is one write, so lines of several PEs do
 * not mix. The driver (test/job/run) numbers the lines and holds PE 0 to its plan, so a program
 * that stops early fails.
 *
 *     int main(void) {
 *         ...
 *         tap_start(pe);
 *         ok(x == 3, "x is %d, 3 expected", x);
 *         return tap_done();
 *     }
 *
 * Every PE calls the same ok() in the same order; only its own failures are its business. For one
 * process per PE, single-threaded. Include it from one file of a program.
 */
#ifndef TEST_JOB_TAP_H
#define TEST_JOB_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    int pe, run, failed;
} tap;

__attribute__((unused, format(printf, 2, 0))) static void
tap_vline(const char *prefix, const char *format, va_list args)
{
    char line[1024];
    size_t length;
    int used = snprintf(line, sizeof line, "%s", prefix);

    if (tap.pe != 0 && used > 0)
        used += snprintf(line + used, sizeof line - (size_t)used, "PE %d: ", tap.pe);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    for (length = 0; line[length] != '\0'; length++)
        if (line[length] == '\n')
            line[length] = ' ';
    line[length++] = '\n';
    if (write(STDOUT_FILENO, line, length) != (ssize_t)length)
        _exit(2); /* without stdout the result would be lost */
}

/* A remark: shown in the log, counted nowhere. */
__attribute__((unused, format(printf, 1, 2))) static void diag(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tap_vline("# ", format, args);
    va_end(args);
}

/* Returns the condition, so that what depends on it can be left out. The text says what is checked,
 * with the values. */
__attribute__((unused, format(printf, 2, 3))) static bool ok(bool condition, const char *format,
                                                             ...)
{
    va_list args;

    tap.run++;
    tap.failed += !condition;
    if (condition && tap.pe != 0)
        return true;
    va_start(args, format);
    tap_vline(condition ? "ok - " : "not ok - ", format, args);
    va_end(args);
    return condition;
}

/* Counts as a check that was not made; every PE skips the same ones. */
__attribute__((unused, format(printf, 1, 2))) static void skip(const char *format, ...)
{
    va_list args;

    tap.run++;
    if (tap.pe != 0)
        return;
    va_start(args, format);
    tap_vline("ok - # SKIP ", format, args);
    va_end(args);
}

static void tap_start(int pe)
{
    tap.pe = pe;
}

/* The exit status for main; PE 0 prints the plan. */
static int tap_done(void)
{
    char plan[32];
    int length = snprintf(plan, sizeof plan, "1..%d\n", tap.run);

    if (tap.pe == 0 && write(STDOUT_FILENO, plan, (size_t)length) != length)
        _exit(2);
    return tap.failed != 0;
}

#endif
