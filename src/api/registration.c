/* SPDX-License-Identifier: BSD-3-Clause */
/* Private buffers that a program announces as sources and destinations of its transfers. None of it needs
 * announcement: every transport takes host memory as it is, and a GPU's is staged (src/gpu/far.c). The ranges are kept so that mistakes are noticed. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/world.h"

#include <stdlib.h>

#include "src/diag/log.h"

struct buffer {
    struct buffer *next;
    uintptr_t start;
    size_t length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;

static int refuse(const char *call, const char *what, const void *addr, size_t length)
{
    px_warn("%s: %s: %p, %zu bytes", call, what, addr, length);
    px_world_note_error(NVSHMEMX_ERROR_INVALID_VALUE, "%s: %s: %p, %zu bytes", call, what, addr, length);
    return NVSHMEMX_ERROR_INVALID_VALUE;
}

static bool overlaps_any(uintptr_t start, size_t length)
{
    for (const struct buffer *b = buffers; b; b = b->next)
        if (start < b->start + b->length && b->start < start + length)
            return true;
    return false;
}

int px_api_buffer_register(void *addr, size_t length)
{
    static const char call[] = "nvshmemx_buffer_register";
    struct px_heap_where where;
    uintptr_t start = (uintptr_t)addr;
    px_world_require_up(call);
    if (!addr || length == 0 || start + length < start)
        return refuse(call, "not a buffer", addr, length);
    px_world_where(addr, &where);
    if (where.kind != PX_HEAP_OUTSIDE)
        return refuse(call, "symmetric memory is registered already", addr, length);
    struct buffer *buffer = malloc(sizeof(*buffer));
    if (!buffer)
        return NVSHMEMX_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    bool taken = overlaps_any(start, length);
    if (!taken) {
        *buffer = (struct buffer){.next = buffers, .start = start, .length = length};
        buffers = buffer;
    }
    pthread_mutex_unlock(&lock);
    if (!taken)
        return NVSHMEMX_SUCCESS;
    free(buffer);
    return refuse(call, "a part is registered already", addr, length);
}

int px_api_buffer_unregister(void *addr)
{
    static const char call[] = "nvshmemx_buffer_unregister";
    struct buffer **at = &buffers, *found = NULL;
    px_world_require_up(call);
    pthread_mutex_lock(&lock);
    while (*at && (*at)->start != (uintptr_t)addr)
        at = &(*at)->next;
    if (*at) {
        found = *at;
        *at = found->next;
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return refuse(call, "not registered", addr, 0);
    free(found);
    return NVSHMEMX_SUCCESS;
}

void px_api_buffer_unregister_all(void)
{
    px_world_require_up("nvshmemx_buffer_unregister_all");
    pthread_mutex_lock(&lock);
    while (buffers) {
        struct buffer *gone = buffers;
        buffers = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&lock);
}
