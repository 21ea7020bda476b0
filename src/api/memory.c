/* SPDX-License-Identifier: BSD-3-Clause */
/* Symmetric memory: every call here is collective over all PEs. The allocator answers the same everywhere because it sees
 * the same calls; the meeting that ends each call carries name and arguments, so PEs that differ are found there. A call
 * that could fail on some PEs only (growing) is agreed on: NULL everywhere or nowhere. */
#include "config.h"
#include "src/api/entry.h"
#include "src/api/gpumem.h"
#include "src/api/world.h"

#include <stdio.h>
#include <string.h>

#include "src/coll/coll.h"
#include "src/diag/log.h"
#include "src/stream/stream.h"
#include "src/transport/move.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one collective allocation at a time */

/* Each single change of the allocator's books, so that other threads' argument checks may read them at any time. Never
 * held while PEs meet: a thread that waits for it could be what another PE waits for. */
static px_status book(struct px_alloc *alloc, size_t bytes, size_t alignment, struct px_block *block)
{
    pthread_rwlock_wrlock(&px_world.books);
    px_status status = px_alloc_malloc(alloc, bytes, alignment, block);
    pthread_rwlock_unlock(&px_world.books);
    return status;
}

static void unbook(size_t offset)
{
    pthread_rwlock_wrlock(&px_world.books);
    (void)px_alloc_free(px_heap_allocator(px_world.heap), offset); /* it exists: the caller found it */
    pthread_rwlock_unlock(&px_world.books);
}

static px_status rebook(size_t offset, size_t bytes, struct px_block *block)
{
    pthread_rwlock_wrlock(&px_world.books);
    px_status status = px_alloc_resize(px_heap_allocator(px_world.heap), offset, bytes, block);
    pthread_rwlock_unlock(&px_world.books);
    return status;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* All five numbers that a user needs, and the setting that would do. */
static void report_full(const char *call, size_t bytes, size_t alignment, const char *cause)
{
    struct px_alloc_stats stats;
    const struct px_alloc *alloc = px_heap_allocator(px_world.heap);
    px_alloc_stats(alloc, &stats);
    size_t wanted = px_alloc_size_for(alloc, bytes, alignment);
    char remedy[160] = "that is more than an address space holds";
    if (wanted && cause[0])
        snprintf(remedy, sizeof(remedy), "%s", cause);
    else if (wanted)
        snprintf(remedy, sizeof(remedy), "NVSHMEM_MAX_MEMORY_PER_PE=%zuM would do",
                 round_up(wanted, PX_HEAP_UNIT) >> 20);
    char gpu[200] = "";
    if (px_on_gpu)
        (void)px_gpumem_free_words(gpu, sizeof(gpu));
    px_warn_once_per_node(
        "%s: %zu bytes do not fit: %zu in use of a heap of %zu that may grow to %zu, largest free "
        "piece %zu%s; %s",
        call, bytes, stats.in_use, stats.size, px_world.memory.max_size, stats.largest_free,
        gpu, remedy);
    px_world_note_error(NVSHMEMX_ERROR_OUT_OF_MEMORY,
                        "%s: %zu bytes do not fit (%zu of %zu in use, largest piece %zu)", call,
                        bytes, stats.in_use, stats.size, stats.largest_free);
}

/* Memory that exists on every PE: tell the allocator and the network. */
static void adopt_growth(size_t old_size, size_t new_size)
{
    struct px_error error = PX_ERROR_INIT;
    pthread_rwlock_wrlock(&px_world.books);
    px_status status = px_alloc_extend(px_heap_allocator(px_world.heap), new_size);
    pthread_rwlock_unlock(&px_world.books);
    if (status != PX_OK)
        px_fatal(1, "growing the heap: no host memory for its books");
    if (px_peers.any_remote &&
        px_peers.remote->add_memory(px_peers.remote_self, px_world.memory.control_bytes + old_size,
                                    new_size - old_size, &error) != PX_OK)
        px_fatal(1, "growing the heap: %s", error.text);
    px_heap_facts(px_world.heap, &px_world.memory);
}

/* Grow by what the request needs; the same answer on every PE. `cause` gets the reason of a refusal here. */
static bool grow(size_t bytes, size_t alignment, const struct px_call *call, char *cause,
                 size_t cause_size)
{
    struct px_error error = PX_ERROR_INIT;
    size_t old_size = px_world.memory.size;
    size_t new_size = px_heap_growth(px_world.heap, bytes, alignment);
    cause[0] = '\0';
    if (!new_size)
        return false;
    px_status status = px_heap_grow(px_world.heap, new_size, &error);
    if (px_on_gpu && status == PX_OK)
        status = px_gpumem_grow(new_size, &error);
    bool all = px_agree_min(px_team_world(), status == PX_OK, call) == 1;
    if (px_on_gpu && !all)
        px_gpumem_undo(old_size);
    if (!all)
        snprintf(cause, cause_size, "%s",
                 status == PX_OK ? "another PE cannot get the memory" : error.text);
    else
        adopt_growth(old_size, new_size);
    return all;
}

/* The block at the same offset on every PE, or false on every PE. */
static bool allocate(size_t bytes, size_t alignment, const struct px_call *call,
                     struct px_block *block)
{
    char cause[256];
    struct px_alloc *alloc = px_heap_allocator(px_world.heap);
    if (book(alloc, bytes, alignment, block) == PX_OK)
        return true;
    if (grow(bytes, alignment, call, cause, sizeof(cause)) &&
        book(alloc, bytes, alignment, block) == PX_OK)
        return true;
    report_full(call->name, bytes, alignment, cause);
    return false;
}

static void *address_of(size_t offset)
{
    return (void *)(px_world.memory.data + offset);
}

/* New GPU memory may hold anything. */
static void clear_block(const struct px_block *block, size_t bytes)
{
    if (px_on_gpu)
        px_gpumem_clear(address_of(block->offset), bytes);
    else
        px_heap_clear(px_world.heap, block->offset, block->dirty < bytes ? block->dirty : bytes);
}

/* The driver forbids what an allocation needs while a stream is being captured, with words that help
 * nobody. NULL on all PEs if one is at it. */
static bool refuse_capture(const struct px_call *call)
{
    bool mine = px_stream_capture_under_way();
    if (px_agree_min(px_team_world(), !mine, call) == 1)
        return false;
    px_warn_once_per_node("%s: NULL, as %s capturing a CUDA graph, which can hold no allocation: "
                          "allocate before the capture, and call each collective once before it",
                          call->name, mine ? "this PE is" : "another PE is");
    px_world_note_error(NVSHMEMX_ERROR_NOT_SUPPORTED, "%s: called during a graph capture",
                        call->name);
    return true;
}

/* malloc, calloc and align: they differ in what they clear and in the arguments that have to agree. */
static void *allocate_and_meet(size_t bytes, size_t alignment, bool clear,
                               const struct px_call *call)
{
    struct px_block block;
    px_world_require_up(call->name);
    if (bytes == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    bool found = !(px_on_gpu && refuse_capture(call)) && allocate(bytes, alignment, call, &block);
    if (found && clear)
        clear_block(&block, bytes);
    px_barrier(px_team_world(), call);
    pthread_mutex_unlock(&lock);
    return found ? address_of(block.offset) : NULL;
}

void *px_api_malloc(size_t size)
{
    return allocate_and_meet(size, 0, false,
                             &(struct px_call){.name = "nvshmem_malloc", .arguments = {size}});
}

void *px_api_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        px_world_note_error(NVSHMEMX_ERROR_INVALID_VALUE,
                            "nvshmem_calloc: %zu times %zu bytes overflows", count, size);
        return NULL;
    }
    return allocate_and_meet(
        bytes, 0, true, &(struct px_call){.name = "nvshmem_calloc", .arguments = {count, size}});
}

void *px_api_align(size_t alignment, size_t size)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1))) {
        px_warn_once_per_node(
            "nvshmem_align: alignment %zu is not a power of two of at least %zu: NULL", alignment,
            sizeof(void *));
        px_world_note_error(NVSHMEMX_ERROR_INVALID_VALUE, "nvshmem_align: alignment %zu",
                            alignment);
        return NULL;
    }
    return allocate_and_meet(
        size, alignment, false,
        &(struct px_call){.name = "nvshmem_align", .arguments = {alignment, size}});
}

/* The block that starts at `ptr`; false after a message that says what the pointer is instead. */
static bool find_block(const char *call, const void *ptr, struct px_block *block)
{
    const struct px_alloc *alloc = px_heap_allocator(px_world.heap);
    size_t offset = (uintptr_t)ptr - px_world.memory.data;
    if (offset < px_world.memory.size && px_alloc_find(alloc, offset, block) &&
        block->offset == offset)
        return true;
    char what[256];
    px_world_describe(ptr, what, sizeof(what));
    px_warn_once_per_node("%s: %p was not allocated by nvshmem_malloc: %s; it is left alone", call,
                          ptr, what);
    px_world_note_error(NVSHMEMX_ERROR_INVALID_VALUE, "%s: %p is not an allocated block: %s", call,
                        ptr, what);
    return false;
}

/* An address as all PEs would say it. */
static uint64_t symmetric_number(const void *address)
{
    return (uintptr_t)address - (px_world.memory.apart ? px_world.memory.data : 0);
}

static void free_and_meet(void *ptr, const struct px_call *call)
{
    struct px_block block;
    pthread_mutex_lock(&lock);
    px_barrier(px_team_world(), call);
    if (find_block(call->name, ptr, &block))
        unbook(block.offset);
    pthread_mutex_unlock(&lock);
}

void px_api_free(void *ptr)
{
    if (px_world.life == PX_LIFE_FINALIZED) { /* destructors at exit do that; the memory is gone already */
        px_warn_once_per_node("nvshmem_free: called after nvshmem_finalize: ignored");
        return;
    }
    px_world_require_up("nvshmem_free");
    if (ptr)
        free_and_meet(ptr,
                      &(struct px_call){.name = "nvshmem_free", .arguments = {symmetric_number(ptr)}});
}

/* Move a block whose neighbour is taken. The old one stays when there is no room. */
static void *move_block(const struct px_block *old, size_t size, const struct px_call *call)
{
    struct px_block block;
    if (!allocate(size, 0, call, &block))
        return NULL;
    size_t keep = old->asked < size ? old->asked : size;
    px_get(px_peers.my_pe, address_of(block.offset), address_of(old->offset), keep);
    unbook(old->offset);
    return address_of(block.offset);
}

void *px_api_realloc(void *ptr, size_t size)
{
    struct px_block old, resized;
    void *result = NULL;
    px_world_require_up("nvshmem_realloc");
    if (!ptr)
        return px_api_malloc(size);
    const struct px_call call = {.name = "nvshmem_realloc", .arguments = {symmetric_number(ptr), size}};
    if (size == 0) {
        free_and_meet(ptr, &call);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    px_barrier(px_team_world(), &call); /* what was under way to the old block has arrived */
    if (find_block(call.name, ptr, &old)) {
        if (rebook(old.offset, size, &resized) == PX_OK)
            result = ptr;
        else
            result = move_block(&old, size, &call);
        px_barrier(px_team_world(), &call);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static px_status reset_pool(size_t size, struct px_error *error)
{
    pthread_rwlock_wrlock(&px_world.books);
    px_status status = px_heap_reset(px_world.heap, size, error);
    pthread_rwlock_unlock(&px_world.books);
    return px_on_gpu && status == PX_OK ? px_gpumem_reset(size, error) : status;
}

static px_status resize_pool(size_t size, const struct px_call *call, struct px_error *error)
{
    struct px_team *world = px_team_world();
    px_barrier(world, call);
    if (px_peers.any_remote)
        px_peers.remote->drop_memory(px_peers.remote_self, px_world.memory.control_bytes);
    size_t former = px_world.memory.size;
    px_status status = reset_pool(size, error);
    bool all = px_agree_min(world, status == PX_OK, call) == 1;
    if (!all && status == PX_OK) { /* where it failed the former size remained: go back to it */
        if (reset_pool(former, error) != PX_OK)
            px_fatal(1, "%s: going back to %zu bytes: %s", call->name, former, error->text);
        status = px_error_set(error, PX_ERR_NO_MEMORY, "another PE cannot get %zu bytes", size);
    }
    px_heap_facts(px_world.heap, &px_world.memory);
    if (px_on_gpu)
        px_sync(world, call); /* all have said where their memory is */
    if (px_peers.any_remote) {
        struct px_error network = PX_ERROR_INIT;
        if (px_peers.remote->add_memory(px_peers.remote_self, px_world.memory.control_bytes,
                                        px_world.memory.size, &network) != PX_OK)
            px_fatal(1, "%s: %s", call->name, network.text);
    }
    px_barrier(world, call);
    return status;
}

int px_api_reinit(size_t size)
{
    struct px_error error = PX_ERROR_INIT;
    px_world_require_up("nvshmem_reinit");
    if (size == 0 || size > px_world.memory.max_size) {
        px_warn_once_per_node(
            "nvshmem_reinit: %zu bytes asked, it must be 1 to %zu (NVSHMEM_MAX_MEMORY_PER_PE)",
            size, px_world.memory.max_size);
        px_world_note_error(NVSHMEMX_ERROR_INVALID_VALUE, "nvshmem_reinit: %zu bytes asked", size);
        return NVSHMEMX_ERROR_INVALID_VALUE;
    }
    const struct px_call call = {.name = "nvshmem_reinit", .arguments = {size}};
    pthread_mutex_lock(&lock);
    px_status status = resize_pool(size, &call, &error);
    pthread_mutex_unlock(&lock);
    if (status == PX_OK)
        return NVSHMEMX_SUCCESS;
    px_warn_once_per_node("nvshmem_reinit: %s", error.text);
    px_world_note_error(NVSHMEMX_ERROR_OUT_OF_MEMORY, "nvshmem_reinit: %s", error.text);
    return NVSHMEMX_ERROR_OUT_OF_MEMORY;
}
