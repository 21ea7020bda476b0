/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening libibverbs, once per process. */
#include "config.h"
#include "src/transport/verbs/library.h"

#include <pthread.h>
#include <stdbool.h>

#define LIBRARY "libibverbs.so.1"
#define REMEDY  "install rdma-core; Debian, Ubuntu: libibverbs1 ibverbs-providers, RHEL: libibverbs"

#define NAME_AND_PLACE(type, name, arguments) {#name, offsetof(struct px_ibv, name)},
static const struct px_dynlib_call required[] = {PX_IBV_CALLS(NAME_AND_PLACE)};

static const struct px_dynlib_call optional[] = {
    {"_ibv_query_gid_table", offsetof(struct px_ibv, query_gid_table)},
    {"ibv_reg_dmabuf_mr", offsetof(struct px_ibv, reg_dmabuf_mr)},
};

const struct px_ibv *px_ibv_open(struct px_error *error)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static struct px_ibv table;
    static bool opened;

    pthread_mutex_lock(&once);
    if (!opened && px_dynlib_open(LIBRARY, REMEDY, required, sizeof(required) / sizeof(required[0]),
                                  &table, error) == PX_OK) {
        for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
            (void)px_dynlib_open(LIBRARY, REMEDY, &optional[i], 1, &table,
                                 NULL); /* an old library: NULL is kept */
        opened = true;
    }
    const struct px_ibv *result = opened ? &table : NULL;
    pthread_mutex_unlock(&once);
    return result;
}
