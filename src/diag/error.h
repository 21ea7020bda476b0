/* SPDX-License-Identifier: BSD-3-Clause */
/* An error object that the caller owns. Whoever first knows the cause writes it with px_error_set; each caller above
 * adds what it was doing with px_error_context and passes the status on. Nothing is printed here: the rim decides
 * whether the text is returned to the program, logged once, or ends the job. */
#ifndef PX_DIAG_ERROR_H
#define PX_DIAG_ERROR_H

#include "src/diag/status.h"

#define PX_ERROR_TEXT_MAX 1536

struct px_error {
    px_status status;
    char text[PX_ERROR_TEXT_MAX];
};

#define PX_ERROR_INIT                                                                              \
    {                                                                                              \
        .status = PX_OK, .text = ""                                                                \
    }

/* Record the cause and return `status`. `error` may be NULL. errno is kept. */
px_status px_error_set(struct px_error *error, px_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: appends ": " and strerror(errnum). */
px_status px_error_errno(struct px_error *error, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "what the caller was doing: " in front of the text; returns the recorded status. */
px_status px_error_context(struct px_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
