/* SPDX-License-Identifier: BSD-3-Clause */
/* The strict parser behind env.h. Nothing is guessed: a value outside its row's grammar is refused
 * by name. */
#include "config.h"
#include "src/env/env.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct px_env_row px_env_rows[] = {
#include "src/env/env_rows.h"
};
const size_t px_env_row_count = sizeof(px_env_rows) / sizeof(px_env_rows[0]);

extern char **environ;

static void *field_of(struct px_env *env, const struct px_env_row *row)
{
    return (char *)env + row->offset;
}

static px_status parse_bool(const char *text, bool *value)
{
    static const char *const yes[] = {"1", "yes", "y", "true", "t", "on"};
    static const char *const no[] = {"0", "no", "n", "false", "f", "off"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *value = strcasecmp(text, yes[i]) == 0;
            return PX_OK;
        }
    }
    return PX_ERR_INVALID;
}

static px_status parse_long(const char *text, long *value)
{
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '-')
        return PX_ERR_INVALID;
    errno = 0;
    long parsed = strtol(text, &end, 0);
    if (errno || end == text || *end)
        return PX_ERR_INVALID;
    *value = parsed;
    return PX_OK;
}

/* Powers of 1024 for the suffix letter, 0 for no suffix, -1 for none of ours. */
static int suffix_power(char letter)
{
    static const char letters[] = "KMGT";
    if (!letter)
        return 0;
    const char *at = strchr(letters, toupper((unsigned char)letter));
    return at ? (int)(at - letters) + 1 : -1;
}

px_status px_env_parse_size(const char *text, uint64_t *bytes)
{
    const char *p = text;
    uint64_t whole = 0;
    double fraction = 0, place = 1;
    if (!isdigit((unsigned char)*p))
        return PX_ERR_INVALID;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
            return PX_ERR_INVALID;
    if (*p == '.') {
        if (!isdigit((unsigned char)*++p))
            return PX_ERR_INVALID;
        for (; isdigit((unsigned char)*p); p++)
            fraction += (*p - '0') * (place /= 10);
    }
    int power = suffix_power(*p);
    if (power < 0 || (power > 0 && p[1]))
        return PX_ERR_INVALID;
    uint64_t unit = (uint64_t)1 << (10 * power);
    if (__builtin_mul_overflow(whole, unit, &whole) ||
        __builtin_add_overflow(whole, (uint64_t)ceil(fraction * (double)unit), &whole) ||
        whole > INT64_MAX)
        return PX_ERR_INVALID;
    *bytes = whole;
    return PX_OK;
}

/* "MIN..MAX" split at the dots; sizes and integers share the notation. */
static void split_range(const char *accepted, char *low, char *high, size_t size)
{
    const char *dots = strstr(accepted, "..");
    snprintf(low, size, "%.*s", dots ? (int)(dots - accepted) : 0, accepted);
    snprintf(high, size, "%s", dots ? dots + 2 : "");
}

static px_status parse_ranged_long(const struct px_env_row *row, const char *text, long *value)
{
    char low[32], high[32];
    long minimum = LONG_MIN, maximum = LONG_MAX, parsed;
    split_range(row->accepted, low, high, sizeof(low));
    if (parse_long(text, &parsed) != PX_OK)
        return PX_ERR_INVALID;
    (void)parse_long(low, &minimum); /* a row without a range keeps the widest one */
    (void)parse_long(high, &maximum);
    if (parsed < minimum || parsed > maximum)
        return PX_ERR_INVALID;
    *value = parsed;
    return PX_OK;
}

static px_status parse_ranged_size(const struct px_env_row *row, const char *text, uint64_t *value)
{
    char low[32], high[32];
    uint64_t minimum = 0, maximum = INT64_MAX, parsed;
    split_range(row->accepted, low, high, sizeof(low));
    if (px_env_parse_size(text, &parsed) != PX_OK)
        return PX_ERR_INVALID;
    (void)px_env_parse_size(low, &minimum);
    (void)px_env_parse_size(high, &maximum);
    if (parsed < minimum || parsed > maximum)
        return PX_ERR_INVALID;
    *value = parsed;
    return PX_OK;
}

/* The word of the row that equals `text` in any letter case, in the row's spelling. Length 0: none.
 */
static size_t find_choice(const char *choices, const char *text, const char **word)
{
    for (const char *p = choices; *p; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        if (strlen(text) == length && strncasecmp(p, text, length) == 0) {
            *word = p;
            return length;
        }
        p += length;
    }
    return 0;
}

static px_status store_string(struct px_env *env, const struct px_env_row *row, const char *text,
                              size_t length)
{
    char *copy = strndup(text, length);
    if (!copy)
        return PX_ERR_NO_MEMORY;
    *(const char **)field_of(env, row) = copy;
    return PX_OK;
}

static px_status store(struct px_env *env, const struct px_env_row *row, const char *text)
{
    const char *word;
    size_t length;
    long number;
    px_status status;
    switch (row->type) {
    case PX_ENV_BOOL:
        return parse_bool(text, field_of(env, row));
    case PX_ENV_INT:
        return parse_ranged_long(row, text, field_of(env, row));
    case PX_ENV_SIZE:
        return parse_ranged_size(row, text, field_of(env, row));
    case PX_ENV_SECONDS:
        status = parse_ranged_long(row, text, &number);
        if (status == PX_OK)
            *(unsigned *)field_of(env, row) = (unsigned)number;
        return status;
    case PX_ENV_CHOICE:
        length = find_choice(row->accepted, text, &word);
        return length ? store_string(env, row, word, length) : PX_ERR_INVALID;
    case PX_ENV_STRING:
        return store_string(env, row, text, strlen(text));
    case PX_ENV_FOREIGN:
        return PX_OK;
    }
    return PX_ERR_INTERNAL;
}

static px_status store_default(struct px_env *env, const struct px_env_row *row)
{
    if (strcmp(row->fallback, "unset") != 0)
        return store(env, row, row->fallback);
    if (row->type == PX_ENV_INT)
        *(long *)field_of(env, row) = -1;
    return PX_OK; /* a size: 0, as the struct was cleared */
}

static const char *type_words(const struct px_env_row *row)
{
    switch (row->type) {
    case PX_ENV_BOOL:
        return "yes or no (also 1, 0, true, false, on, off)";
    case PX_ENV_INT:
        return "a whole number in ";
    case PX_ENV_SECONDS:
        return "whole seconds in ";
    case PX_ENV_SIZE:
        return "bytes, with an optional suffix K, M, G or T (as 256M or 1.5G), in ";
    case PX_ENV_CHOICE:
        return "one of ";
    default:
        return "text: ";
    }
}

static px_status refuse(const struct px_env_row *row, const char *text, struct px_error *error)
{
    return px_error_set(error, PX_ERR_INVALID, "%s is \"%s\"; it must be %s%s", row->name, text,
                        type_words(row), row->accepted);
}

px_status px_env_read(struct px_env *env, struct px_error *error)
{
    memset(env, 0, sizeof(*env));
    for (size_t i = 0; i < px_env_row_count; i++) {
        px_status status = store_default(env, &px_env_rows[i]);
        if (status != PX_OK)
            return px_error_set(error, status, "default of %s", px_env_rows[i].name);
    }
    for (size_t i = 0; i < px_env_row_count; i++) {
        const struct px_env_row *row = &px_env_rows[i];
        const char *text = getenv(row->name);
        if (!text)
            continue;
        const char *old = row->type == PX_ENV_STRING || row->type == PX_ENV_CHOICE
                              ? *(const char **)field_of(env, row)
                              : NULL;
        px_status status = store(env, row, text);
        if (status != PX_OK)
            return refuse(row, text, error);
        free((void *)(uintptr_t)old);
        env->given++;
    }
    return PX_OK;
}

void px_env_free(struct px_env *env)
{
    for (size_t i = 0; i < px_env_row_count; i++) {
        const struct px_env_row *row = &px_env_rows[i];
        if (row->type == PX_ENV_STRING || row->type == PX_ENV_CHOICE)
            free(*(void **)field_of(env, row));
    }
    memset(env, 0, sizeof(*env));
}

bool px_env_is_set(const char *name)
{
    return getenv(name) != NULL;
}

const char *px_env_origin(const struct px_env_row *row)
{
    return px_env_is_set(row->name) ? "environment" : "default";
}

const char *px_env_format(const struct px_env *env, const struct px_env_row *row, char *text,
                          size_t size)
{
    const void *field = (const char *)env + row->offset;
    switch (row->type) {
    case PX_ENV_BOOL:
        snprintf(text, size, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case PX_ENV_INT:
        snprintf(text, size, "%ld", *(const long *)field);
        break;
    case PX_ENV_SECONDS:
        snprintf(text, size, "%u", *(const unsigned *)field);
        break;
    case PX_ENV_SIZE:
        if (*(const uint64_t *)field)
            snprintf(text, size, "%llu", *(const unsigned long long *)field);
        else
            snprintf(text, size, "unset");
        break;
    case PX_ENV_STRING:
    case PX_ENV_CHOICE:
        snprintf(text, size, "%s", *(const char *const *)field);
        break;
    case PX_ENV_FOREIGN:
        snprintf(text, size, "no effect");
        break;
    }
    return text;
}

uint32_t px_env_number(const struct px_env *env, const struct px_env_row *row)
{
    const void *field = (const char *)env + row->offset;
    const char *word;
    switch (row->type) {
    case PX_ENV_BOOL:
        return *(const bool *)field;
    case PX_ENV_INT:
        return (uint32_t)*(const long *)field;
    case PX_ENV_SECONDS:
        return *(const unsigned *)field;
    case PX_ENV_SIZE:
        return (uint32_t)*(const uint64_t *)field;
    case PX_ENV_CHOICE: /* where its word begins */
        return find_choice(row->accepted, *(const char *const *)field, &word)
                   ? (uint32_t)(word - row->accepted)
                   : UINT32_MAX;
    default:
        return 0;
    }
}

const char *px_env_number_format(const struct px_env_row *row, uint32_t number, char *text,
                                 size_t size)
{
    if (row->type == PX_ENV_BOOL)
        snprintf(text, size, "%s", number ? "yes" : "no");
    else if (row->type != PX_ENV_CHOICE)
        snprintf(text, size, "%u", number);
    else if (number < strlen(row->accepted))
        snprintf(text, size, "%.*s", (int)strcspn(row->accepted + number, " "),
                 row->accepted + number);
    else
        snprintf(text, size, "unknown");
    return text;
}

/* Levenshtein distance, for names below 64 letters. */
static int edit_distance(const char *a, const char *b)
{
    int row[65];
    int columns = (int)strnlen(b, 64);
    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; a[i - 1] && i <= 64; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int substituted = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int shifted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = shifted < substituted ? shifted : substituted;
        }
    }
    return row[columns];
}

static const struct px_env_row *nearest_row(const char *name)
{
    const struct px_env_row *best = NULL;
    int best_distance = 5; /* farther ones are no help */
    for (size_t i = 0; i < px_env_row_count; i++) {
        if (px_env_rows[i].type == PX_ENV_FOREIGN)
            continue;
        int distance = edit_distance(name, px_env_rows[i].name);
        if (distance < best_distance) {
            best = &px_env_rows[i];
            best_distance = distance;
        }
    }
    return best;
}

static const struct px_env_row *find_row(const char *name)
{
    for (size_t i = 0; i < px_env_row_count; i++)
        if (strcmp(name, px_env_rows[i].name) == 0)
            return &px_env_rows[i];
    return NULL;
}

static bool review_one(const char *name, void (*say)(const char *line))
{
    char line[512];
    const struct px_env_row *row = find_row(name);
    if (row && row->type != PX_ENV_FOREIGN)
        return false;
    if (row) {
        snprintf(line, sizeof(line), "%s has no effect here: %s", name, row->meaning);
        say(line);
        return false;
    }
    const struct px_env_row *near = nearest_row(name);
    snprintf(line, sizeof(line), "%s is unknown and has no effect%s%s%s", name,
             near ? "; did you mean " : "", near ? near->name : "",
             near ? "?" : "; pxshmem-info --environment lists all variables");
    say(line);
    return true;
}

int px_env_review(void (*say)(const char *line))
{
    static const char prefix[] = "NVSHMEM_";
    int unknown = 0;
    for (char **entry = environ; entry && *entry; entry++) {
        char name[128];
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, prefix, sizeof(prefix) - 1) != 0 || length >= sizeof(name))
            continue;
        memcpy(name, *entry, length);
        name[length] = '\0';
        unknown += review_one(name, say);
    }
    return unknown;
}
