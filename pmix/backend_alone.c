/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of one: what is published is kept here, meetings are over before they begin. */
#include "config.h"
#include "pmix/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct item {
    struct item *next;
    char key[PX_BOOT_KEY_MAX];
    size_t length;
    unsigned char data[];
};

static px_status alone_open(struct px_boot *boot, struct px_error *error)
{
    char host[64] = "localhost", job[64];
    uint32_t salt = 0, node = 0;
    gethostname(host, sizeof(host) - 1);
    if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != sizeof(salt))
        salt = (uint32_t)(uintptr_t)boot;
    snprintf(job, sizeof(job), "alone-%d-%08x", (int)getpid(), salt);
    boot->facts.rank = 0;
    boot->facts.size = 1;
    boot->facts.client_version = "no launcher";
    boot->job = strdup(job);
    boot->hosts = calloc(1, sizeof(*boot->hosts));
    if (!boot->job || !boot->hosts || !(boot->hosts[0] = strdup(host)))
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for a job of one");
    return px_boot_set_nodes(&boot->facts, &node, error);
}

static px_status alone_put(struct px_boot *boot, const char *key, const void *data, size_t length,
                           struct px_error *error)
{
    struct item *item = malloc(sizeof(*item) + length);
    if (!item)
        return px_error_set(error, PX_ERR_NO_MEMORY, "no memory for %zu bytes", length);
    snprintf(item->key, sizeof(item->key), "%s", key);
    item->length = length;
    memcpy(item->data, data, length);
    item->next = boot->self;
    boot->self = item;
    return PX_OK;
}

static px_status alone_fence(struct px_boot *boot, struct px_error *error)
{
    return PX_OK;
}

static px_status alone_get(struct px_boot *boot, uint32_t rank, const char *key, void *data,
                           size_t capacity, size_t *length, struct px_error *error)
{
    const struct item *item = boot->self;
    while (item && strcmp(item->key, key) != 0)
        item = item->next;
    if (!item)
        return px_error_set(error, PX_ERR_NOT_FOUND, "it was never published");
    if (item->length > capacity)
        return px_error_set(error, PX_ERR_PROTOCOL, "%zu bytes, room for %zu", item->length,
                            capacity);
    memcpy(data, item->data, item->length);
    *length = item->length;
    return PX_OK;
}

/* The caller leaves the process with its status. */
static void alone_abort(int exit_status, const char *message)
{
}

static void alone_close(struct px_boot *boot)
{
    for (struct item *item = boot->self, *next; item; item = next) {
        next = item->next;
        free(item);
    }
    boot->self = NULL;
}

const struct px_backend px_backend_alone = {
    .name = "alone",
    .open = alone_open,
    .put = alone_put,
    .fence = alone_fence,
    .get = alone_get,
    .abort = alone_abort,
    .close = alone_close,
};
