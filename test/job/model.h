/* SPDX-License-Identifier: BSD-3-Clause */
/* What collectives should give, element by element: for programs that go through the table of
 * collectives.h. Values are small and exact in every type. */
#ifndef PX_TEST_JOB_MODEL_H
#define PX_TEST_JOB_MODEL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "test/job/collectives.h"

static int me, n; /* set by the program */

static bool is(const struct coll_type *t, const char *name)
{
    return strcmp(t->name, name) == 0;
}

static bool is_unsigned(const struct coll_type *t)
{
    return t->name[0] == 'u' || is(t, "size") || (is(t, "char") && CHAR_MIN == 0);
}

/* A small whole number as the type has it; the 16-bit floats cut out of the 32-bit one. */
static void encode(const struct coll_type *t, long value, char *place)
{
    float real = (float)value;
    double wide = (double)value;
    uint32_t bits;
    memcpy(&bits, &real, sizeof bits);
    uint16_t bfloat = (uint16_t)(bits >> 16);
    uint16_t half = value ? (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) |
                                       (bits >> 13 & 0x3ff))
                          : 0;
    if (is(t, "float"))
        memcpy(place, &real, sizeof real);
    else if (is(t, "double"))
        memcpy(place, &wide, sizeof wide);
    else if (is(t, "bfloat16"))
        memcpy(place, &bfloat, sizeof bfloat);
    else if (is(t, "half"))
        memcpy(place, &half, sizeof half);
    else
        memcpy(place, &value, t->size); /* little endian */
}

/* Element i of what a member gives: never 0, below 0 too, products are exact. */
static long given(int member, size_t i)
{
    static const long values[] = {1, -2, 2, -1, 1};
    return values[((size_t)member * 3 + i) % 5];
}

static bool smaller(const struct coll_type *t, long a, long b)
{
    uint64_t mask = t->size == 8 ? UINT64_MAX : ((uint64_t)1 << 8 * t->size) - 1;
    return is_unsigned(t) ? ((uint64_t)a & mask) < ((uint64_t)b & mask) : a < b;
}

static long combine(const struct coll_type *t, long a, long b)
{
    switch (t->op[0] == 'm' ? t->op[1] : t->op[0]) {
    case 'a': /* and, max */
        return t->op[0] == 'a' ? (a & b) : smaller(t, a, b) ? b : a;
    case 'i':
        return smaller(t, a, b) ? a : b;
    case 's':
        return a + b;
    case 'p':
        return a * b;
    case 'o':
        return a | b;
    default:
        return a ^ b;
    }
}

/* What element i of dest is on this member, for `count` elements a block; how many elements there are. */
static size_t result_length(const struct coll_type *t, size_t count)
{
    bool blocks = strstr(t->op, "collect") || strncmp(t->op, "alltoall", 8) == 0;
    return blocks ? count * (size_t)n : count;
}

static long result(const struct coll_type *t, size_t count, size_t i)
{
    size_t block = i / count, at = i % count;
    if (strcmp(t->op, "broadcast") == 0)
        return given(n - 1, i);
    if (strcmp(t->op, "fcollect") == 0 || strcmp(t->op, "collect") == 0)
        return given((int)block, at);
    if (strncmp(t->op, "alltoall", 8) == 0)
        return given((int)block, (size_t)me * count + at);
    size_t offset = strstr(t->op, "scatter") ? (size_t)me * count : 0;
    int last = strstr(t->op, "_inscan") ? me : strstr(t->op, "_exscan") ? me - 1 : n - 1;
    long value = last < 0 ? 0 : given(0, offset + i);
    for (int member = 1; member <= last; member++)
        value = combine(t, value, given(member, offset + i));
    return value;
}

/* What a program finds at `got`, with one element before and one behind that it had filled with 0x55. */
static bool as_modelled(const struct coll_type *t, size_t count, const char *got)
{
    char wanted[8];
    size_t length = result_length(t, count);
    bool good = true;
    for (size_t i = 0; i < length; i++) {
        encode(t, result(t, count, i), wanted);
        good &= memcmp(got + i * t->size, wanted, t->size) == 0;
    }
    for (size_t i = 1; i <= t->size; i++)
        good &= got[-(ptrdiff_t)i] == 0x55 && got[length * t->size + i - 1] == 0x55;
    return good;
}

#endif
