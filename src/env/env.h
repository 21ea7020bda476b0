/* SPDX-License-Identifier: BSD-3-Clause */
/* Every environment variable, read once into one typed struct. env.tbl is the only list; no getenv
 * elsewhere, except what launchers set to say who we are. */
#ifndef PX_ENV_ENV_H
#define PX_ENV_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

struct px_env {
#include "src/env/env_fields.h"
    unsigned given; /* rows whose value came from the environment */
};

enum px_env_type {
    PX_ENV_BOOL,
    PX_ENV_INT,
    PX_ENV_SIZE,
    PX_ENV_SECONDS,
    PX_ENV_STRING,
    PX_ENV_CHOICE,
    PX_ENV_FOREIGN
};

struct px_env_row {
    const char *name; /* with prefix */
    enum px_env_type type;
    const char *fallback; /* default, as it would be typed; "unset" for none */
    const char *accepted, *group, *meaning;
    size_t offset;
    bool same; /* on all PEs */
};
extern const struct px_env_row px_env_rows[];
extern const size_t px_env_row_count;

/* Read all variables. The first value that is not acceptable is an error that names the variable,
 * the value and the accepted forms; `env` then holds defaults. Strings are copies, released by
 * px_env_free. */
px_status px_env_read(struct px_env *env, struct px_error *error);
void px_env_free(struct px_env *env);

/* Where a value came from: "default" or "environment". */
const char *px_env_origin(const struct px_env_row *row);

/* Did the user set it? `name` with prefix. */
bool px_env_is_set(const char *name);

/* The value as text, as pxshmem-info prints it. Returns text. */
const char *px_env_format(const struct px_env *env, const struct px_env_row *row, char *text,
                          size_t size);

/* What PEs compare of a row that must be the same everywhere: a number below 2^24 that stands for the value, and the value that a
 * number stands for, as text. */
uint32_t px_env_number(const struct px_env *env, const struct px_env_row *row);
const char *px_env_number_format(const struct px_env_row *row, uint32_t number, char *text,
                                 size_t size);

/* One line per unknown NVSHMEM_ name (with the nearest known one) and per foreign one that is set.
 * `say` prints. Returns how many unknown names there were. */
int px_env_review(void (*say)(const char *line));

/* One grammar for sizes, also for tools: digits, a fraction, one suffix K M G T. Rounded up to
 * whole bytes. */
px_status px_env_parse_size(const char *text, uint64_t *bytes);

#endif
