/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of reductions: every type and operator against a model in 128 bits or long double,
 * odd lengths and odd addresses; all 65,536 values of the 16-bit formats through their conversions.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/coll/dtype.h"
#include "src/coll/half.h"
#include "test/unit/trio.h"

enum { N = 300 };

static bool is(enum px_dtype type, const char *name)
{
    return strcmp(px_dtype_info[type].name, name) == 0;
}

static bool floating(enum px_dtype type)
{
    return is(type, "float") || is(type, "double") || is(type, "half") || is(type, "bfloat16");
}

static __int128 integer(enum px_dtype type, const void *place)
{
    uint64_t bits = 0;
    memcpy(&bits, place, px_dtype_info[type].size);
    __int128 value = bits, half = (__int128)1 << (8 * px_dtype_info[type].size - 1);
    return px_dtype_info[type].is_signed && value >= half ? value - 2 * half : value;
}

static __int128 apply(enum px_op op, __int128 a, __int128 b)
{
    switch (op) {
    case PX_OP_AND:
        return a & b;
    case PX_OP_OR:
        return a | b;
    case PX_OP_XOR:
        return a ^ b;
    case PX_OP_MAX:
        return a > b ? a : b;
    case PX_OP_MIN:
        return a < b ? a : b;
    case PX_OP_SUM:
        return a + b;
    default: /* the low bits of a product do not depend on signs; unsigned, so that it may wrap */
        return (__int128)((unsigned __int128)a * (unsigned __int128)b);
    }
}

static void check_integers(enum px_dtype type, enum px_op op)
{
    size_t size = px_dtype_info[type].size;
    char acc[N * 8 + 1], in[N * 8 + 1], old[N * 8];
    trio_fill(acc, sizeof acc);
    trio_fill(in, sizeof in);
    memcpy(old, acc + 1, sizeof old);
    size_t n = trio_random() % N;
    px_reduce_kernel(type, op, acc + 1, in + 1, n);
    for (size_t i = 0; i < n; i++) {
        __int128 wanted =
            apply(op, integer(type, old + i * size), integer(type, in + 1 + i * size));
        assert_memory_equal(acc + 1 + i * size, &wanted, size); /* little endian: the low bytes */
    }
    assert_memory_equal(acc + 1 + n * size, old + n * size, (N - n) * size);
}

static float get_float(enum px_dtype type, const char *place)
{
    float value;
    if (is(type, "half"))
        px_half_to_float(&value, place, 1);
    else
        px_bfloat16_to_float(&value, place, 1);
    return value;
}

static double real(enum px_dtype type, const char *place)
{
    float single;
    double value;
    if (px_dtype_info[type].size == 2)
        return get_float(type, place);
    if (is(type, "double")) {
        memcpy(&value, place, sizeof value);
        return value;
    }
    memcpy(&single, place, sizeof single);
    return single;
}

static void set_real(enum px_dtype type, char *place, double value)
{
    float single = (float)value;
    if (is(type, "half"))
        px_half_from_float(place, &single, 1);
    else if (is(type, "bfloat16"))
        px_bfloat16_from_float(place, &single, 1);
    else if (is(type, "double"))
        memcpy(place, &value, sizeof value);
    else
        memcpy(place, &single, sizeof single);
}

/* Small quotients: sums and products in range, rounding everywhere. The model computes in double,
 * from which the narrower types round once: float sums and products of such values are exact enough
 * there to round the same. */
static void check_reals(enum px_dtype type, enum px_op op)
{
    size_t size = px_dtype_info[type].size, n = trio_random() % N;
    char acc[N * 8 + 1], in[N * 8 + 1], wanted[N * 8];
    for (size_t i = 0; i < n; i++) {
        set_real(type, acc + 1 + i * size, (double)((int)(trio_random() % 2000) - 1000) / 64);
        set_real(type, in + 1 + i * size, (double)((int)(trio_random() % 2000) - 1000) / 48);
        double a = real(type, acc + 1 + i * size), b = real(type, in + 1 + i * size);
        set_real(type, wanted + i * size,
                 op == PX_OP_SUM    ? a + b
                 : op == PX_OP_PROD ? a * b
                 : op == PX_OP_MAX  ? fmax(a, b)
                                    : fmin(a, b));
    }
    px_reduce_kernel(type, op, acc + 1, in + 1, n);
    for (size_t i = 0; i < n; i++)
        assert_true(real(type, acc + 1 + i * size) == real(type, wanted + i * size));
}

static void every_type_and_operator_follows_the_model(void **state)
{
    unsigned kinds = 0;
    for (int type = 0; type < PX_TYPE_COUNT; type++)
        for (int op = 0; op < PX_OP_COUNT; op++)
            for (int round = 0; px_reduce_has(type, op) && round < 10; round++) {
                kinds += round == 0;
                (floating(type) ? check_reals : check_integers)(type, op);
            }
    assert_int_equal(kinds, 24 * 4 + 14 * 3); /* the table of the interface */
}

static void halves_survive_the_way_through_float(void **state)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        uint16_t in = (uint16_t)bits, out = 0;
        float value;
        px_half_to_float(&value, &in, 1);
        px_half_from_float(&out, &value, 1);
        assert_true(isnan(value) ? (out & 0x7c00) == 0x7c00 && out & 0x3ff : out == in);
        px_bfloat16_to_float(&value, &in, 1);
        px_bfloat16_from_float(&out, &value, 1);
        assert_true(isnan(value) ? (out & 0x7f80) == 0x7f80 && out & 0x7f : out == in);
    }
}

/* Between each two neighbours: below the middle goes down, above it up, the middle to the even one.
 */
static void halves_round_to_nearest_even(void **state)
{
    for (unsigned bits = 0; bits < 0x7c00; bits++) {
        uint16_t low = (uint16_t)bits, high = (uint16_t)(bits + 1), out;
        float a, b;
        px_half_to_float(&a, &low, 1);
        px_half_to_float(&b, &high, 1);
        if (isinf(b))
            b = 65536; /* the step that would follow the largest half */
        float middle = a + (b - a) / 2, below = nextafterf(middle, 0),
              above = nextafterf(middle, INFINITY);
        px_half_from_float(&out, &middle, 1);
        assert_int_equal(out, bits & 1 ? high : low);
        px_half_from_float(&out, &below, 1);
        assert_int_equal(out, low);
        px_half_from_float(&out, &above, 1);
        assert_int_equal(out, high);
    }
}

/* Known values, from the definition of the formats. */
static void known_values_convert(void **state)
{
    static const struct {
        float value;
        uint16_t half, bfloat16;
    } known[] = {
        {1.0f, 0x3c00, 0x3f80},          {-2.0f, 0xc000, 0xc000},
        {65504.0f, 0x7bff, 0x4780},      {0x1p-24f, 0x0001, 0x3380},
        {0x1p-14f, 0x0400, 0x3880},      {INFINITY, 0x7c00, 0x7f80},
        {-0.0f, 0x8000, 0x8000},         {1e30f, 0x7c00, 0x714a},
        {0.333333333f, 0x3555, 0x3eab},  {65519.99f, 0x7bff, 0x4780},
        {3.3895314e38f, 0x7c00, 0x7f7f}, {0x1p-25f, 0x0000, 0x3300},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint16_t out;
        px_half_from_float(&out, &known[i].value, 1);
        assert_int_equal(out, known[i].half);
        px_bfloat16_from_float(&out, &known[i].value, 1);
        assert_int_equal(out, known[i].bfloat16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operator_follows_the_model),
        cmocka_unit_test(halves_survive_the_way_through_float),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(known_values_convert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
