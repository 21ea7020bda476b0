/* SPDX-License-Identifier: BSD-3-Clause */
/* Words for messages: why the library is not up, and what an address is. Only ever called on the
 * way to a message. */
#include "config.h"
#include "src/api/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/diag/log.h"

void px_world_where(const void *address, struct px_heap_where *where)
{
    pthread_rwlock_rdlock(&px_world.books);
    px_heap_where(px_world.heap, address, where);
    pthread_rwlock_unlock(&px_world.books);
}

void px_world_refuse_down(const char *call)
{
    switch (px_world.life) {
    case PX_LIFE_FINALIZED:
        px_fatal(1, "%s: called after nvshmem_finalize; symmetric memory and teams are gone then",
                 call);
    case PX_LIFE_FAILED:
        px_fatal(1, "%s: called after an initialisation that failed: %s", call,
                 px_world.failure.text);
    default:
        px_fatal(1,
                 "%s: called before nvshmem_init; every PE calls nvshmem_init or "
                 "nvshmemx_init_attr first",
                 call);
    }
}

/* One line of /proc/self/maps: does it hold the address? Then *name is what is mapped there, "" for
 * anonymous memory. */
static bool line_holds(char *line, uintptr_t address, const char **name)
{
    uintptr_t start, end;
    int name_at = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &start, &end, &name_at) < 2 ||
        address < start || address >= end)
        return false;
    line[strcspn(line, "\n")] = 0;
    *name = name_at ? line + name_at : "";
    return true;
}

static void describe_outside(const void *address, char *text, size_t size)
{
    char line[512];
    const char *name, *kind = "no mapped memory";
    FILE *maps = fopen("/proc/self/maps", "r");
    *line = 0;
    name = line;
    while (maps && fgets(line, sizeof line, maps))
        if (line_holds(line, (uintptr_t)address, &name)) {
            kind = "ordinary memory of this process";
            break;
        } else
            name = "";
    snprintf(text, size, "it is %s%s%s, not symmetric memory (the heap is %p to %p)", kind,
             *name ? ": " : "", name, (void *)px_world.memory.data,
             (void *)(px_world.memory.data + px_world.memory.size));
    if (maps)
        fclose(maps);
}

static void describe_mine(size_t offset, char *text, size_t size)
{
    const struct px_alloc *alloc = px_heap_allocator(px_world.heap);
    const struct px_heap_facts *memory = &px_world.memory;
    struct px_block block;
    pthread_rwlock_rdlock(&px_world.books);
    bool live = px_alloc_find(alloc, offset, &block);
    bool known = live || px_alloc_find_freed(alloc, offset, &block);
    pthread_rwlock_unlock(&px_world.books);
    if (known)
        snprintf(text, size, "it lies %zu bytes into allocation %" PRIu64 ", %zu bytes at %p%s",
                 offset - block.offset, block.serial, block.asked,
                 px_heap_address(memory, block.offset), live ? "" : ", which was freed");
    else
        snprintf(text, size, "it is symmetric memory that is not allocated (the heap is %p to %p)",
                 (void *)memory->data, (void *)(memory->data + memory->size));
}

/* What the GPU's driver knows of it. */
static bool describe_gpu(const void *address, char *text, size_t size)
{
    char words[200];
    if (!px_world.describe_gpu || !px_world.describe_gpu(address, words, sizeof(words)))
        return false;
    snprintf(text, size, "%s (the heap is %p to %p)", words, (void *)px_world.memory.data,
             (void *)(px_world.memory.data + px_world.memory.size));
    return true;
}

void px_world_describe(const void *address, char *text, size_t size)
{
    struct px_heap_where where;
    px_world_where(address, &where);
    switch (where.kind) {
    case PX_HEAP_OF_PEER:
        snprintf(text, size,
                 "it is PE %" PRIu32
                 "'s memory as nvshmem_ptr shows it; pass the symmetric address "
                 "%p and the PE number",
                 where.rank, (void *)where.symmetric);
        break;
    case PX_HEAP_CONTROL:
        snprintf(text, size, "it is the library's own memory in front of the heap");
        break;
    case PX_HEAP_OUTSIDE:
        if (!describe_gpu(address, text, size))
            describe_outside(address, text, size);
        break;
    default:
        describe_mine((uintptr_t)address - px_world.memory.data, text, size);
    }
}
