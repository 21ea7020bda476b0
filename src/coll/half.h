/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion between float and the two 16-bit formats, by bits: no compiler or processor support
 * needed, and the same rounding (to nearest, ties to even) everywhere. Infinities and signed zeros
 * are kept; a NaN stays a NaN. */
#ifndef PX_COLL_HALF_H
#define PX_COLL_HALF_H

#include <stddef.h>

/* `in` and `out` of 16-bit type need no alignment. */
void px_half_to_float(float *out, const void *in, size_t n);
void px_half_from_float(void *out, const float *in, size_t n);
void px_bfloat16_to_float(float *out, const void *in, size_t n);
void px_bfloat16_from_float(void *out, const float *in, size_t n);

#endif
