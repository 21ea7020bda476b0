/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for and testing the caller's own symmetric elements, untyped. `values` is the array of
 * comparison values, or one value when step is 0; a null status masks nothing. */
#ifndef PX_API_WAIT_H
#define PX_API_WAIT_H

#include <stddef.h>

#include "src/coll/dtype.h"

void px_api_wait_until(const void *ivar, int cmp, const void *value, enum px_dtype type,
                       const char *call);
void px_api_wait_until_all(const void *ivars, size_t nelems, const int *status, int cmp,
                           const void *values, size_t step, enum px_dtype type, const char *call);
size_t px_api_wait_until_any(const void *ivars, size_t nelems, const int *status, int cmp,
                             const void *values, size_t step, enum px_dtype type, const char *call);
size_t px_api_wait_until_some(const void *ivars, size_t nelems, size_t *indices, const int *status,
                              int cmp, const void *values, size_t step, enum px_dtype type,
                              const char *call);

int px_api_test(const void *ivar, int cmp, const void *value, enum px_dtype type, const char *call);
int px_api_test_all(const void *ivars, size_t nelems, const int *status, int cmp,
                    const void *values, size_t step, enum px_dtype type, const char *call);
size_t px_api_test_any(const void *ivars, size_t nelems, const int *status, int cmp,
                       const void *values, size_t step, enum px_dtype type, const char *call);
size_t px_api_test_some(const void *ivars, size_t nelems, size_t *indices, const int *status,
                        int cmp, const void *values, size_t step, enum px_dtype type,
                        const char *call);

#endif
