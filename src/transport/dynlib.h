/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries that are opened when they are needed instead of being linked: a program pays for a
 * network library (its constructors can take 200 ms) only when it has a network to use. A table of
 * calls is written once, as an X-macro:
 *
 *   #define CALLS(X) X(int, fi_getinfo, (uint32_t version, ...)) ...
 *   struct calls { PX_DYNLIB_FIELDS(CALLS) };
 *   #define NAME(type, name, arguments) {#name, offsetof(struct calls, name)},
 *   static const struct px_dynlib_call names[] = {CALLS(NAME)};
 */
#ifndef PX_TRANSPORT_DYNLIB_H
#define PX_TRANSPORT_DYNLIB_H

#include <stddef.h>

#include "src/diag/error.h"

struct px_dynlib_call {
    const char *name;
    size_t offset; /* of the function pointer in the table */
};

#define PX_DYNLIB_FIELD(type, name, arguments) type(*name) arguments;
#define PX_DYNLIB_FIELDS(calls)                calls(PX_DYNLIB_FIELD)

/* Fills `table` only when every call was found. The library stays open until the process ends: what
 * it started cannot be stopped, and opening it again would run its constructors again. `remedy`
 * says how to install it. */
px_status px_dynlib_open(const char *library, const char *remedy,
                         const struct px_dynlib_call *calls, size_t count, void *table,
                         struct px_error *error);

#endif
