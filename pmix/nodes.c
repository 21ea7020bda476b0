/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is on which node: arithmetic on plain arrays, whatever way the launcher told it. */
#include "config.h"
#include "pmix/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorted, without repetition; returns how many are left. */
static uint32_t distinct(uint32_t *values, uint32_t count)
{
    uint32_t kept = 0;
    qsort(values, count, sizeof(*values), by_value);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || values[i] != values[kept - 1])
            values[kept++] = values[i];
    return kept;
}

px_status px_boot_set_nodes(struct px_boot_facts *facts, const uint32_t *raw,
                            struct px_error *error)
{
    uint32_t size = facts->size;
    uint32_t *known = malloc(size * sizeof(*known));
    uint32_t *node_of = malloc(size * sizeof(*node_of));
    uint32_t *local_ranks = malloc(size * sizeof(*local_ranks));
    if (!known || !node_of || !local_ranks) {
        free(known);
        free(node_of);
        free(local_ranks);
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for the node table of %u PEs",
                            size);
    }
    memcpy(known, raw, size * sizeof(*known));
    facts->nodes = distinct(known, size);
    for (uint32_t pe = 0; pe < size; pe++) {
        uint32_t *found = bsearch(&raw[pe], known, facts->nodes, sizeof(*known), by_value);
        node_of[pe] = (uint32_t)(found - known);
    }
    facts->node = node_of[facts->rank];
    facts->local_size = 0;
    for (uint32_t pe = 0; pe < size; pe++) {
        if (node_of[pe] != facts->node)
            continue;
        if (pe == facts->rank)
            facts->local_rank = facts->local_size;
        local_ranks[facts->local_size++] = pe;
    }
    free(known);
    facts->node_of = node_of;
    facts->local_ranks = local_ranks;
    return PX_OK;
}

/* One "(first,nodes,tasks)"; moves *text behind it. */
static bool read_block(const char **text, unsigned long block[3])
{
    const char *p = *text;
    if (*p++ != '(')
        return false;
    for (int i = 0; i < 3; i++) {
        char *end;
        if (*p < '0' || *p > '9')
            return false;
        block[i] = strtoul(p, &end, 10);
        if (*end != (i < 2 ? ',' : ')') || block[i] > UINT32_MAX)
            return false;
        p = end + 1;
    }
    *text = p;
    return true;
}

/* The blocks are dealt out again and again until every PE has its node. */
px_status px_mapping_parse(const char *mapping, uint32_t size, uint32_t *raw,
                           struct px_error *error)
{
    static const char head[] = "(vector,";
    if (strncmp(mapping, head, strlen(head)) != 0)
        goto malformed;
    for (uint32_t pe = 0; pe < size;) {
        uint32_t before = pe;
        const char *p = mapping + strlen(head);
        for (bool more = true; more && pe < size; p += more) {
            unsigned long block[3];
            if (!read_block(&p, block))
                goto malformed;
            for (unsigned long n = 0; n < block[1] && pe < size; n++)
                for (unsigned long t = 0; t < block[2] && pe < size; t++)
                    raw[pe++] = (uint32_t)(block[0] + n);
            more = *p == ',';
            if (!more && *p != ')')
                goto malformed;
        }
        if (pe == before)
            goto malformed;
    }
    return PX_OK;

malformed:
    return px_error_set(error, PX_ERR_PROTOCOL,
                        "the launcher's process mapping \"%.200s\" is not understood for %u PEs",
                        mapping, size);
}

static px_status append(struct px_names *names, char *name)
{
    char **list = name ? realloc(names->list, (names->count + 1) * sizeof(*list)) : NULL;
    if (!list) {
        free(name);
        return PX_ERR_NO_MEMORY;
    }
    names->list = list;
    names->list[names->count++] = name;
    return PX_OK;
}

px_status px_names_add_list(struct px_names *names, const char *comma_list)
{
    for (const char *p = comma_list; *p; p += *p == ',') {
        size_t length = strcspn(p, ",");
        px_status status = length ? append(names, strndup(p, length)) : PX_OK;
        if (status != PX_OK)
            return status;
        p += length;
    }
    return PX_OK;
}

/* "03-05,7" with what stands before and after the brackets. */
static px_status add_numbers(struct px_names *names, const char *head, int head_length,
                             const char *numbers, const char *end, const char *tail,
                             int tail_length)
{
    if (numbers == end)
        return PX_ERR_PROTOCOL;
    for (const char *p = numbers; p < end;) {
        char *after, name[256];
        unsigned long first = strtoul(p, &after, 10), last = first;
        int width = (int)(after - p);
        if (*p < '0' || *p > '9')
            return PX_ERR_PROTOCOL;
        if (*after == '-')
            last = strtoul(after + 1, &after, 10);
        if (last < first || last - first > 1000000 || (*after != ',' && *after != ']'))
            return PX_ERR_PROTOCOL;
        for (unsigned long n = first; n <= last; n++) {
            snprintf(name, sizeof(name), "%.*s%0*lu%.*s", head_length, head, width, n, tail_length,
                     tail);
            px_status status = append(names, strdup(name));
            if (status != PX_OK)
                return status;
        }
        p = after + 1;
    }
    return PX_OK;
}

px_status px_names_add_slurm(struct px_names *names, const char *list)
{
    while (*list) {
        const char *open = list + strcspn(list, "[,"), *close = open;
        px_status status;
        if (*open == '[') {
            close = open + strcspn(open, "]");
            if (!*close)
                return PX_ERR_PROTOCOL;
            size_t tail = strcspn(close + 1, "[,");
            if (close[1 + tail] == '[') /* names with two number ranges are left alone */
                return PX_ERR_PROTOCOL;
            status =
                add_numbers(names, list, (int)(open - list), open + 1, close, close + 1, (int)tail);
            list = close + 1 + tail;
        } else {
            status = append(names, strndup(list, (size_t)(open - list)));
            list = open;
        }
        if (status != PX_OK)
            return status;
        list += *list == ',';
    }
    return PX_OK;
}

px_status px_names_index(struct px_names *names, const char *name, uint32_t *index)
{
    uint32_t i = 0;
    while (i < names->count && strcmp(names->list[i], name) != 0)
        i++;
    px_status status = i < names->count ? PX_OK : append(names, strdup(name));
    if (status == PX_OK)
        *index = i;
    return status;
}

void px_names_free(struct px_names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
    *names = (struct px_names){.list = NULL};
}
