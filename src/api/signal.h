/* SPDX-License-Identifier: BSD-3-Clause */
/* Put with signal, untyped. A signal operation that is none is refused always: the constants of
 * comparisons and signal operations share no value, so one taken for the other is seen here. */
#ifndef PX_API_SIGNAL_H
#define PX_API_SIGNAL_H

#include "src/api/check.h"

void px_api_put_signal(void *dest, const void *source, size_t nelems, size_t size,
                       uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, const char *call);
void px_api_put_signal_nbi(void *dest, const void *source, size_t nelems, size_t size,
                           uint64_t *sig_addr, uint64_t signal, int sig_op, int pe,
                           const char *call);

#endif
