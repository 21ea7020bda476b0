/* SPDX-License-Identifier: BSD-3-Clause */
/* Symmetric memory: the same address on every PE, NULL everywhere or nowhere, contents kept, growth, reinit. */
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/job/tap.h"

static int me, n;

/* Every PE's value of `mine`, through a block of its own so that the heap under test is only read. */
static uint64_t *board;

static bool same_everywhere(uint64_t mine)
{
    bool same = true;
    for (int pe = 0; pe < n; pe++)
        nvshmem_uint64_p(&board[me], mine, pe);
    nvshmem_barrier_all();
    for (int pe = 0; pe < n; pe++)
        same &= board[pe] == mine;
    nvshmem_barrier_all();
    return same;
}

static void addresses(void)
{
    static const size_t sizes[] = {1, 8, 511, 512, 513, 4096, 65536, 1 << 20, (3 << 20) + 7};
    void *blocks[sizeof(sizes) / sizeof(sizes[0])];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        blocks[i] = nvshmem_malloc(sizes[i]);
        ok(blocks[i] && same_everywhere((uintptr_t)blocks[i]), "malloc(%zu) is %p on every PE", sizes[i], blocks[i]);
        ok((uintptr_t)blocks[i] % 512 == 0, "and aligned to 512 bytes");
        ok(nvshmem_ptr(blocks[i], me) == blocks[i], "nvshmem_ptr to oneself is the address itself");
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i += 2)
        nvshmem_free(blocks[i]);
    for (size_t i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i += 2)
        nvshmem_free(blocks[i]);
}

static void zeroes(void)
{
    size_t bytes = 100000;
    unsigned char *dirty = nvshmem_malloc(bytes);
    memset(dirty, 0xff, bytes);
    nvshmem_free(dirty);
    unsigned char *clean = nvshmem_calloc(bytes / 10, 10);
    size_t set = 0;
    for (size_t i = 0; i < bytes; i++)
        set += clean[i] != 0;
    ok(clean == dirty && set == 0, "calloc clears memory that was used before: %zu bytes set", set);
    nvshmem_free(clean);
    ok(!nvshmem_calloc(SIZE_MAX / 2, 3), "calloc whose product overflows is NULL");
    ok(!nvshmem_calloc(0, 8) && !nvshmem_calloc(8, 0), "calloc of nothing is NULL");
}

static void nothing_does_not_meet(void)
{
    for (int i = 0; i < me; i++) { /* PE 3 calls them three times more than PE 0 */
        void *nothing = nvshmem_malloc(0);
        if (nothing)
            ok(false, "malloc(0) is NULL");
        nvshmem_free(NULL);
    }
    ok(true, "malloc(0) and free(NULL) do not meet the other PEs");
}

static void alignments(void)
{
    for (size_t alignment = sizeof(void *); alignment <= ((size_t)1 << 27); alignment *= 8) {
        void *block = nvshmem_align(alignment, 100);
        ok(block && (uintptr_t)block % alignment == 0 && same_everywhere((uintptr_t)block), "align(%zu) is %p",
           alignment, block);
        nvshmem_free(block);
    }
    ok(!nvshmem_align(24, 100) && !nvshmem_align(4, 100) && !nvshmem_align(0, 100),
       "an alignment that is no power of two, or below a pointer's, gives NULL");
}

static bool holds(const unsigned char *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != (unsigned char)(i * 7 + (size_t)me))
            return false;
    return true;
}

static void reallocation(void)
{
    size_t bytes = 1000;
    unsigned char *block = nvshmem_realloc(NULL, bytes);
    for (size_t i = 0; i < bytes; i++)
        block[i] = (unsigned char)(i * 7 + (size_t)me);
    unsigned char *grown = nvshmem_realloc(block, 5000);
    ok(grown == block && holds(grown, bytes), "realloc grows in place while the neighbour is free");
    void *wall = nvshmem_malloc(100);
    unsigned char *moved = nvshmem_realloc(grown, 50000);
    ok(moved && moved != grown && holds(moved, bytes) && same_everywhere((uintptr_t)moved),
       "and moves with its contents when it is not");
    unsigned char *shrunk = nvshmem_realloc(moved, 10);
    ok(shrunk == moved && holds(shrunk, 10), "shrinking stays in place");
    ok(!nvshmem_realloc(shrunk, SIZE_MAX / 4) && holds(shrunk, 10), "a request that cannot fit leaves the block alone");
    ok(!nvshmem_realloc(shrunk, 0), "size 0 frees");
    nvshmem_free(wall);
}

static void growth(void)
{
    size_t bytes = (size_t)300 << 20; /* the heap starts with 64 MiB */
    char *block = nvshmem_malloc(bytes);
    ok(block && same_everywhere((uintptr_t)block), "the heap grows for 300 MiB");
    if (!block)
        return;
    int right = (me + 1) % n;
    nvshmem_char_p(&block[bytes - 1], (char)(me + 1), right);
    nvshmem_barrier_all();
    ok(block[bytes - 1] == (char)((me + n - 1) % n + 1), "and its last byte can be reached by the left neighbour");
    ok(nvshmem_char_g(&block[bytes - 1], right) == (char)(me + 1), "and be read back");
    nvshmem_barrier_all();
    nvshmem_free(block);
    ok(!nvshmem_malloc(SIZE_MAX / 2) && nvshmem_error_check() != 0, "an absurd size is NULL on every PE and an error: %s",
       nvshmemx_error_string(nvshmem_error_check()));
}

static void pool(void)
{
    void *first = nvshmem_malloc(100);
    nvshmem_free(first);
    ok(nvshmem_reinit((size_t)32 << 20) == 0, "reinit to 32 MiB");
    board = nvshmem_calloc((size_t)n, sizeof(*board));
    ok(same_everywhere((uintptr_t)board), "the base address is the same again");
    char *block = nvshmem_malloc((size_t)40 << 20);
    ok(block && same_everywhere((uintptr_t)block), "and the pool grows as before");
    nvshmem_free(block);
    ok(nvshmem_reinit(0) != 0, "reinit to nothing is refused");
    ok(same_everywhere(1), "which changes nothing");
}

int main(void)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n = nvshmem_n_pes();
    tap_start(me);
    board = nvshmem_calloc((size_t)n, sizeof(*board));
    addresses();
    zeroes();
    nothing_does_not_meet();
    alignments();
    reallocation();
    growth();
    nvshmem_free(board);
    pool();
    nvshmem_free(board);
    nvshmem_finalize();
    return tap_done();
}
