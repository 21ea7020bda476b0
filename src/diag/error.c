/* SPDX-License-Identifier: BSD-3-Clause */
/* Building an error text: cause first, contexts in front of it. Texts that do not fit end in "...". */
#include "config.h"
#include "src/diag/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void mark_cut(struct px_error *error, int length)
{
    if (length >= (int)sizeof(error->text))
        memcpy(error->text + sizeof(error->text) - 4, "...", 4);
}

px_status px_error_set(struct px_error *error, px_status status, const char *format, ...)
{
    if (!error)
        return status;
    int saved = errno;
    va_list args;
    va_start(args, format);
    error->status = status;
    mark_cut(error, vsnprintf(error->text, sizeof(error->text), format, args));
    va_end(args);
    errno = saved;
    return status;
}

px_status px_error_errno(struct px_error *error, int errnum, const char *format, ...)
{
    px_status status = errnum == ENOMEM ? PX_ERR_NO_MEMORY : PX_ERR_SYSTEM;
    if (!error)
        return status;
    int saved = errno;
    char doing[PX_ERROR_TEXT_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(doing, sizeof(doing), format, args);
    va_end(args);
    px_error_set(error, status, "%s: %s", doing, strerror(errnum));
    errno = saved;
    return status;
}

px_status px_error_context(struct px_error *error, const char *format, ...)
{
    if (!error)
        return PX_ERR_INTERNAL;
    int saved = errno;
    char cause[sizeof(error->text)];
    memcpy(cause, error->text, sizeof(cause));
    va_list args;
    va_start(args, format);
    int length = vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    size_t used = strlen(error->text);
    mark_cut(error, length + snprintf(error->text + used, sizeof(error->text) - used, ": %s", cause));
    errno = saved;
    return error->status;
}
