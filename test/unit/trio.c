/* SPDX-License-Identifier: BSD-3-Clause */
/* See trio.h. Also the state that src/api/world.c has in the library. */
#include "config.h"
#include "test/unit/trio.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/api/world.h"
#include "src/diag/log.h"
#include "src/transport/move.h"

#define HELD_MAX 4096

unsigned px_gate;
struct px_world px_world = {.life = PX_LIFE_UP, .books = PTHREAD_RWLOCK_INITIALIZER};

char *trio_base;
static intptr_t delta[TRIO_PES];
static uint64_t seed;

/* The heap: the whole window of PE 0, with a real allocator; what check.c asks of it. */
static struct px_alloc *blocks;

struct px_alloc *px_heap_allocator(struct px_heap *heap)
{
    return blocks;
}

void px_heap_where(const struct px_heap *heap, const void *address, struct px_heap_where *where)
{
    size_t offset = (size_t)((uintptr_t)address - (uintptr_t)trio_base);
    uint32_t pe = (uint32_t)(offset / TRIO_WINDOW);
    *where = (struct px_heap_where){.kind = PX_HEAP_OUTSIDE};
    if (offset >= 2 * TRIO_WINDOW) /* PE 2 is not mapped */
        return;
    where->kind = pe == 0 ? PX_HEAP_MINE : PX_HEAP_OF_PEER;
    where->rank = pe;
    where->symmetric = (uintptr_t)trio_base + offset % TRIO_WINDOW;
}

void *trio_malloc(size_t bytes)
{
    struct px_block block;
    return px_alloc_malloc(blocks, bytes, 0, &block) == PX_OK ? trio_base + block.offset : NULL;
}

void trio_free(void *block)
{
    if (px_alloc_free(blocks, (size_t)((char *)block - trio_base)) != PX_OK)
        abort();
}

/* The transport to PE 2. */
static struct held {
    void *dest;
    const void *source;
    size_t bytes;
    struct px_amo amo;
    void *word, *result;
} held[HELD_MAX];
static size_t held_count;

static void carry_out(const struct held *h)
{
    uint64_t old;
    if (!h->word) {
        memcpy(h->dest, h->source, h->bytes);
        return;
    }
    old = px_amo_apply(h->word, &h->amo);
    memcpy(h->result, &old, h->amo.width);
}

static void quiet(void *self)
{
    for (size_t i = 0; i < held_count; i++)
        carry_out(&held[i]);
    held_count = 0;
}

static void quiet_pe(void *self, uint32_t pe)
{
    quiet(self);
}

static void hold(struct held h)
{
    if (held_count == HELD_MAX)
        quiet(NULL);
    held[held_count++] = h;
}

static void put(void *self, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    memcpy(trio_of((int)pe, remote), source, bytes);
}

static void put_nbi(void *self, uint32_t pe, void *remote, const void *source, size_t bytes)
{
    hold((struct held){.dest = trio_of((int)pe, remote), .source = source, .bytes = bytes});
}

static void get(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    memcpy(dest, trio_of((int)pe, remote), bytes);
}

static void get_nbi(void *self, uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    hold((struct held){.dest = dest, .source = trio_of((int)pe, remote), .bytes = bytes});
}

static uint64_t amo(void *self, uint32_t pe, void *remote, const struct px_amo *request)
{
    return px_amo_apply(trio_of((int)pe, remote), request);
}

static void amo_nbi(void *self, uint32_t pe, void *remote, const struct px_amo *request,
                    void *result)
{
    hold((struct held){.word = trio_of((int)pe, remote), .amo = *request, .result = result});
}

static void put_signal(void *self, uint32_t pe, void *remote, const void *source, size_t bytes,
                       uint64_t *signal, uint64_t value, enum px_amo_op op, bool nbi)
{
    const struct px_amo request = {.op = op, .width = 8, .operand = value};
    if (bytes)
        memcpy(trio_of((int)pe, remote), source, bytes);
    (void)px_amo_apply(trio_of((int)pe, signal), &request);
}

static void nothing(void *self)
{
}

static const struct px_transport_ops ops = {.name = "trio",
                                            .put = put,
                                            .put_nbi = put_nbi,
                                            .get = get,
                                            .get_nbi = get_nbi,
                                            .amo = amo,
                                            .amo_nbi = amo_nbi,
                                            .put_signal = put_signal,
                                            .fence = nothing,
                                            .quiet = quiet,
                                            .quiet_pe = quiet_pe,
                                            .progress = nothing};

void trio_start(void)
{
    const char *given = getenv("PX_TEST_SEED");
    seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("# PX_TEST_SEED=%llu\n", (unsigned long long)seed);
    trio_base = aligned_alloc(4096, TRIO_PES * TRIO_WINDOW);
    trio_fill(trio_base, TRIO_PES * TRIO_WINDOW);
    if (px_alloc_create(TRIO_WINDOW, &blocks) != PX_OK)
        abort();
    px_world.memory = (struct px_heap_facts){
        .base = (uintptr_t)trio_base, .data = (uintptr_t)trio_base, .size = TRIO_WINDOW};
    delta[1] = (intptr_t)TRIO_WINDOW;
    delta[2] = PX_NOT_MAPPED;
    px_peers = (struct px_peers){
        .delta = delta, .control_delta = delta, .my_pe = 0, .n_pes = TRIO_PES, .remote = &ops, .any_remote = true};
}

void trio_stop(void)
{
    px_alloc_destroy(blocks);
    free(trio_base);
}

void *trio_of(int pe, const void *symmetric)
{
    return (char *)(uintptr_t)symmetric + (size_t)pe * TRIO_WINDOW;
}

size_t trio_pending(void)
{
    return held_count;
}

uint64_t trio_random(void)
{
    uint64_t z = (seed += 0x9e3779b97f4a7c15ull); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void trio_fill(void *place, size_t bytes)
{
    unsigned char *byte = place;
    for (size_t i = 0; i < bytes; i++)
        byte[i] = (unsigned char)(trio_random() >> 32);
}

/* Linked with --wrap=px_fatal: instead of ending the job it jumps back here. */
static jmp_buf back;
static char fatal_text[4096];

_Noreturn void __wrap_px_fatal(int exit_status, const char *format, ...);
void __wrap_px_fatal(int exit_status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fatal_text, sizeof fatal_text, format, args);
    va_end(args);
    longjmp(back, 1);
}

const char *trio_fatal(trio_fn *fn, void *arg)
{
    fatal_text[0] = 0;
    if (setjmp(back) == 0)
        fn(arg);
    return fatal_text;
}
