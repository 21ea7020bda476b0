/* SPDX-License-Identifier: BSD-3-Clause */
/* See half.h. binary16: 5 exponent bits (bias 15), 10 of fraction. bfloat16: the upper half of a
 * float. */
#include "config.h"
#include "src/coll/half.h"

#include <stdint.h>
#include <string.h>

typedef uint16_t bits16 __attribute__((aligned(1), may_alias));

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float half_widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) /* infinity, NaN */
        return float_of(sign | 0x7f800000 | rest << 13);
    if (rest >= 0x0400)
        return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
    /* zero or subnormal: rest * 2^-24, exact in float */
    return float_of(sign | bits_of((float)rest * 0x1p-24f));
}

/* Drop `shift` low bits of `value`, rounding to nearest, ties to even. */
static uint32_t round_off(uint32_t value, unsigned shift)
{
    uint32_t half = 1u << (shift - 1), odd = value >> shift & 1;
    return (value + half - 1 + odd) >> shift;
}

static uint16_t half_round(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) /* NaN: quiet, upper payload kept */
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (rest >=
        0x38800000) /* normal; a carry out of the fraction moves the exponent on, as it should */
        return (uint16_t)(sign | round_off(rest - ((127 - 15) << 23), 13));
    unsigned shift = 126 - (rest >> 23); /* subnormal: units of 2^-24 */
    if (shift > 24)
        return (uint16_t)sign;
    return (uint16_t)(sign | round_off((rest & 0x7fffff) | 0x800000, shift));
}

static uint16_t bfloat16_round(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void px_half_to_float(float *out, const void *in, size_t n)
{
    const bits16 *bits = in;
    for (size_t i = 0; i < n; i++)
        out[i] = half_widen(bits[i]);
}

void px_half_from_float(void *out, const float *in, size_t n)
{
    bits16 *bits = out;
    for (size_t i = 0; i < n; i++)
        bits[i] = half_round(in[i]);
}

void px_bfloat16_to_float(float *out, const void *in, size_t n)
{
    const bits16 *bits = in;
    for (size_t i = 0; i < n; i++)
        out[i] = float_of((uint32_t)bits[i] << 16);
}

void px_bfloat16_from_float(void *out, const float *in, size_t n)
{
    bits16 *bits = out;
    for (size_t i = 0; i < n; i++)
        bits[i] = bfloat16_round(in[i]);
}
