/* SPDX-License-Identifier: BSD-3-Clause */
/* A text that grows until it is full: for reports made of several findings. */
#ifndef PX_PMIX_TEXT_H
#define PX_PMIX_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

struct px_text {
    char bytes[1024];
    size_t used;
};

static inline void px_text_add(struct px_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void px_text_add(struct px_text *text, const char *format, ...)
{
    size_t room = sizeof(text->bytes) - text->used;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->bytes + text->used, room, format, args);
    va_end(args);
    if (n > 0)
        text->used += (size_t)n < room ? (size_t)n : room - 1;
}

#endif
