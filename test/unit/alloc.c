/* SPDX-License-Identifier: BSD-3-Clause */
/* The allocator against a model that is simple enough to be right: one entry per granule of 512
 * bytes. The seed of the random runs is printed; PX_TEST_SEED gives it back. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "heap/alloc.h"
#include "heap/tree.h"

#define GRANULE     512
#define MAX_GRANULE 2048
#define MAX_BLOCKS  512

/* The host's malloc, refused when the countdown reaches zero (linked with --wrap=malloc). */
static long malloc_countdown = -1;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    if (malloc_countdown >= 0 && malloc_countdown-- == 0)
        return NULL;
    return __real_malloc(size);
}

static uint64_t random_state;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t below(size_t n)
{
    return (size_t)(random_u64() % n);
}

struct model {
    struct px_alloc *alloc, *twin; /* the twin gets the same calls and must give the same answers */
    size_t granules;
    uint16_t owner[MAX_GRANULE]; /* 0 = free, else index of the block + 1 */
    bool ever[MAX_GRANULE];      /* handed out at some time */
    struct px_block blocks[MAX_BLOCKS];
    size_t n_blocks;
    size_t in_use;
};

static size_t granules_of(size_t bytes)
{
    return (bytes + GRANULE - 1) / GRANULE;
}

static void own(struct model *m, const struct px_block *block, uint16_t owner)
{
    for (size_t g = block->offset / GRANULE; g < (block->offset + block->size) / GRANULE; g++) {
        m->owner[g] = owner;
        m->ever[g] |= owner != 0;
    }
}

static void rename_owner(struct model *m, size_t index)
{
    own(m, &m->blocks[index], (uint16_t)(index + 1));
}

/* The smallest free run that holds `need` granules, in granules; 0 when there is none. */
static size_t model_best(const struct model *m, size_t need)
{
    size_t best = 0;
    for (size_t g = 0, run = 0; g <= m->granules; g++) {
        if (g < m->granules && m->owner[g] == 0) {
            run++;
            continue;
        }
        if (run >= need && (best == 0 || run < best))
            best = run;
        run = 0;
    }
    return best;
}

static size_t model_run_at(const struct model *m, size_t g)
{
    size_t first = g, last = g;
    while (first > 0 && m->owner[first - 1] == 0)
        first--;
    while (last < m->granules && m->owner[last] == 0)
        last++;
    return last - first;
}

static void check_new_block(struct model *m, const struct px_block *block, size_t bytes,
                            size_t alignment)
{
    assert_int_equal(block->asked, bytes);
    assert_true(block->size >= bytes && block->size % GRANULE == 0);
    assert_int_equal(block->offset % PX_ALLOC_ALIGN, 0);
    if (alignment)
        assert_int_equal(block->offset % alignment, 0);
    assert_true(block->offset + block->size <= m->granules * GRANULE);
    for (size_t g = block->offset / GRANULE; g < (block->offset + block->size) / GRANULE; g++) {
        assert_int_equal(m->owner[g], 0);
        if (m->ever[g])
            assert_true(g * GRANULE < block->offset + block->dirty);
    }
}

static void step_malloc(struct model *m)
{
    size_t bytes = 1 + (below(8) ? below(8 * GRANULE) : below(300 * GRANULE));
    size_t alignment = below(4) ? 0 : (size_t)1 << below(18);
    struct px_block block, same;
    if (m->n_blocks == MAX_BLOCKS)
        return;
    px_status status = px_alloc_malloc(m->alloc, bytes, alignment, &block);
    assert_int_equal(px_alloc_malloc(m->twin, bytes, alignment, &same), status);
    size_t best = model_best(m, granules_of(bytes));
    if (status != PX_OK) {
        assert_int_equal(status, PX_ERR_NO_MEMORY);
        /* Without a wish for alignment it must fit where the model finds room. */
        size_t sure = alignment > GRANULE ? granules_of(bytes) + alignment / GRANULE - 1 : 0;
        assert_true(sure ? model_best(m, sure) == 0 : best == 0);
        assert_true(px_alloc_size_for(m->alloc, bytes, alignment) > m->granules * GRANULE);
        return;
    }
    assert_memory_equal(&block, &same, sizeof(block));
    check_new_block(m, &block, bytes, alignment);
    if (alignment <= GRANULE && bytes < PX_ALLOC_LARGE)
        assert_int_equal(model_run_at(m, block.offset / GRANULE), best);
    m->blocks[m->n_blocks] = block;
    rename_owner(m, m->n_blocks++);
    m->in_use += block.size;
}

static void step_free(struct model *m)
{
    if (m->n_blocks == 0)
        return;
    size_t i = below(m->n_blocks);
    struct px_block block = m->blocks[i], found;
    assert_int_equal(px_alloc_free(m->alloc, block.offset), PX_OK);
    assert_int_equal(px_alloc_free(m->twin, block.offset), PX_OK);
    assert_int_equal(px_alloc_free(m->alloc, block.offset), PX_ERR_NOT_FOUND);
    assert_false(px_alloc_find(m->alloc, block.offset, &found));
    assert_true(px_alloc_find_freed(m->alloc, block.offset + block.size - 1, &found));
    assert_int_equal(found.serial, block.serial);
    own(m, &block, 0);
    m->in_use -= block.size;
    m->blocks[i] = m->blocks[--m->n_blocks];
    if (i < m->n_blocks)
        rename_owner(m, i);
}

static void step_resize(struct model *m)
{
    if (m->n_blocks == 0)
        return;
    size_t i = below(m->n_blocks), bytes = 1 + below(64 * GRANULE);
    struct px_block old = m->blocks[i], block, same;
    size_t behind = (old.offset + old.size) / GRANULE, room = old.size / GRANULE;
    while (behind < m->granules && m->owner[behind] == 0) {
        behind++;
        room++;
    }
    px_status status = px_alloc_resize(m->alloc, old.offset, bytes, &block);
    assert_int_equal(px_alloc_resize(m->twin, old.offset, bytes, &same), status);
    assert_int_equal(status, granules_of(bytes) <= room ? PX_OK : PX_ERR_NO_MEMORY);
    if (status != PX_OK)
        return;
    assert_memory_equal(&block, &same, sizeof(block));
    assert_int_equal(block.offset, old.offset);
    assert_int_equal(block.serial, old.serial);
    own(m, &old, 0);
    check_new_block(m, &block, bytes, 0);
    m->in_use = m->in_use - old.size + block.size;
    m->blocks[i] = block;
    rename_owner(m, i);
}

static void step_extend(struct model *m)
{
    size_t more = 1 + below(64);
    if (m->granules + more > MAX_GRANULE)
        return;
    m->granules += more;
    size_t size = m->granules * GRANULE + below(GRANULE);
    assert_int_equal(px_alloc_extend(m->alloc, size), PX_OK);
    assert_int_equal(px_alloc_extend(m->twin, size), PX_OK);
    assert_int_equal(px_alloc_extend(m->alloc, size - 1), PX_OK);
}

static void count_block(void *arg, const struct px_block *block)
{
    size_t *sums = arg;
    assert_true(block->offset >= sums[2]); /* ascending */
    sums[0]++;
    sums[1] += block->size;
    sums[2] = block->offset + block->size;
}

static void check_whole(const struct model *m)
{
    struct px_alloc_stats stats;
    px_alloc_stats(m->alloc, &stats);
    size_t pieces = 0, largest = 0, sums[3] = {0};
    for (size_t g = 0, run = 0; g <= m->granules; g++) {
        if (g < m->granules && m->owner[g] == 0) {
            pieces += run++ == 0;
            largest = run > largest ? run : largest;
        } else {
            run = 0;
        }
    }
    assert_int_equal(stats.free_pieces, pieces);
    assert_int_equal(stats.largest_free, largest * GRANULE);
    assert_int_equal(stats.in_use, m->in_use);
    assert_int_equal(stats.blocks, m->n_blocks);
    assert_int_equal(stats.size / GRANULE, m->granules);
    assert_true(stats.peak >= stats.in_use);
    px_alloc_each(m->alloc, count_block, sums);
    assert_int_equal(sums[0], m->n_blocks);
    assert_int_equal(sums[1], m->in_use);
}

static void check_lookup(const struct model *m)
{
    size_t g = below(m->granules);
    struct px_block block;
    bool used = px_alloc_find(m->alloc, g * GRANULE + below(GRANULE), &block);
    assert_int_equal(used, m->owner[g] != 0);
    if (used)
        assert_memory_equal(&block.offset, &m->blocks[m->owner[g] - 1].offset, sizeof(size_t));
}

static void start(struct model *m, size_t granules)
{
    memset(m, 0, sizeof(*m));
    m->granules = granules;
    assert_int_equal(px_alloc_create(granules * GRANULE, &m->alloc), PX_OK);
    assert_int_equal(px_alloc_create(granules * GRANULE, &m->twin), PX_OK);
}

static void start_again(struct model *m)
{
    size_t granules = 1 + below(1024);
    struct px_alloc *alloc = m->alloc, *twin = m->twin;
    memset(m, 0, sizeof(*m));
    m->alloc = alloc;
    m->twin = twin;
    m->granules = granules;
    px_alloc_reset(alloc, granules * GRANULE);
    px_alloc_reset(twin, granules * GRANULE);
}

static void finish(struct model *m)
{
    px_alloc_destroy(m->alloc);
    px_alloc_destroy(m->twin);
}

static void agrees_with_the_model(void **state)
{
    static struct model m;
    const char *given = getenv("PX_TEST_SEED"), *rounds = getenv("PX_TEST_ROUNDS");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    long n = rounds ? atol(rounds) : 1000000;
    random_state = seed * 2654435761u + 1;
    print_message("PX_TEST_SEED=%llu PX_TEST_ROUNDS=%ld\n", (unsigned long long)seed, n);
    start(&m, 256);
    for (long i = 0; i < n; i++) {
        size_t what = below(1000);
        /* Pressure changes from time to time, so that the heap is sometimes full and sometimes
         * nearly empty. */
        size_t mallocs = (i / 5000) % 2 ? 550 : 380;
        if (what < mallocs)
            step_malloc(&m);
        else if (what < 900)
            step_free(&m);
        else if (what < 990)
            step_resize(&m);
        else if (what < 999)
            step_extend(&m);
        else if (below(20) == 0)
            start_again(&m);
        check_lookup(&m);
        if (i % 64 == 0)
            check_whole(&m);
    }
    finish(&m);
}

static void joins_neighbours_in_any_order(void **state)
{
    static const size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t o = 0; o < 6; o++) {
        struct px_alloc *alloc;
        struct px_alloc_stats stats;
        struct px_block blocks[3];
        assert_int_equal(px_alloc_create(3 * 4096, &alloc), PX_OK);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(px_alloc_malloc(alloc, 4096, 0, &blocks[i]), PX_OK);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(px_alloc_free(alloc, blocks[orders[o][i]].offset), PX_OK);
        px_alloc_stats(alloc, &stats);
        assert_int_equal(stats.free_pieces, 1);
        assert_int_equal(stats.largest_free, 3 * 4096);
        px_alloc_destroy(alloc);
    }
}

static void refuses_what_cannot_be(void **state)
{
    struct px_alloc *alloc;
    struct px_block block;
    assert_int_equal(px_alloc_create(1 << 20, &alloc), PX_OK);
    const size_t sizes[] = {0, (1 << 20) + 1, SIZE_MAX, SIZE_MAX - 511, SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_int_equal(px_alloc_malloc(alloc, sizes[i], 0, &block), PX_ERR_NO_MEMORY);
    assert_int_equal(px_alloc_malloc(alloc, 1, 3, &block), PX_ERR_NO_MEMORY);
    assert_int_equal(px_alloc_malloc(alloc, 1, (size_t)1 << 63, &block), PX_OK); /* offset 0 */
    assert_int_equal(px_alloc_malloc(alloc, 1, (size_t)1 << 63, &block), PX_ERR_NO_MEMORY);
    assert_int_equal(px_alloc_free(alloc, 512), PX_ERR_NOT_FOUND);
    assert_int_equal(px_alloc_free(alloc, SIZE_MAX), PX_ERR_NOT_FOUND);
    assert_int_equal(px_alloc_resize(alloc, 0, SIZE_MAX, &block), PX_ERR_NO_MEMORY);
    assert_int_equal(px_alloc_size_for(alloc, SIZE_MAX, 0), 0);
    px_alloc_destroy(alloc);
    px_alloc_destroy(NULL);
    assert_int_equal(px_alloc_create(100, &alloc), PX_OK); /* less than a granule: nothing fits */
    assert_int_equal(px_alloc_malloc(alloc, 1, 0, &block), PX_ERR_NO_MEMORY);
    px_alloc_destroy(alloc);
}

static void the_size_it_names_is_enough(void **state)
{
    for (size_t alignment = 1; alignment <= (size_t)1 << 22; alignment *= 2) {
        struct px_alloc *alloc;
        struct px_block block;
        assert_int_equal(px_alloc_create(10 * 512 + 17, &alloc), PX_OK);
        assert_int_equal(px_alloc_malloc(alloc, 3 * 512, 0, &block), PX_OK);
        size_t size = px_alloc_size_for(alloc, 100000, alignment);
        assert_int_equal(px_alloc_malloc(alloc, 100000, alignment, &block), PX_ERR_NO_MEMORY);
        assert_int_equal(px_alloc_extend(alloc, size), PX_OK);
        assert_int_equal(px_alloc_malloc(alloc, 100000, alignment, &block), PX_OK);
        assert_int_equal(block.offset % alignment, 0);
        px_alloc_destroy(alloc);
    }
}

static void large_blocks_start_on_pages(void **state)
{
    struct px_alloc *alloc;
    struct px_block small, large;
    assert_int_equal(px_alloc_create((size_t)8 << 20, &alloc), PX_OK);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(px_alloc_malloc(alloc, 1, 0, &small), PX_OK);
        assert_int_equal(px_alloc_malloc(alloc, PX_ALLOC_LARGE + 1, 0, &large), PX_OK);
        assert_int_equal(large.offset % PX_ALLOC_LARGE_ALIGN, 0);
    }
    px_alloc_destroy(alloc);
}

static void only_used_memory_is_dirty(void **state)
{
    struct px_alloc *alloc;
    struct px_block a, b;
    assert_int_equal(px_alloc_create(1 << 20, &alloc), PX_OK);
    assert_int_equal(px_alloc_malloc(alloc, 4096, 0, &a), PX_OK);
    assert_int_equal(a.dirty, 0);
    assert_int_equal(px_alloc_free(alloc, a.offset), PX_OK);
    assert_int_equal(px_alloc_malloc(alloc, 16384, 0, &b), PX_OK);
    assert_int_equal(b.offset, a.offset);
    assert_int_equal(b.dirty, 4096);
    assert_int_equal(px_alloc_resize(alloc, b.offset, 32768, &b), PX_OK);
    assert_int_equal(b.dirty, 16384);
    px_alloc_reset(alloc, 1 << 20);
    assert_int_equal(px_alloc_malloc(alloc, 4096, 0, &a), PX_OK);
    assert_int_equal(a.dirty, 0);
    px_alloc_destroy(alloc);
}

/* When the host refuses memory for the books, the call fails and nothing has changed. */
static void a_refused_malloc_changes_nothing(void **state)
{
    struct px_alloc *alloc = NULL;
    for (long refused = 0; refused < 2; refused++) {
        malloc_countdown = refused;
        px_status status = px_alloc_create(1 << 20, &alloc);
        malloc_countdown = -1;
        if (status == PX_OK)
            break;
        assert_int_equal(status, PX_ERR_NO_MEMORY);
    }
    if (!alloc)
        assert_int_equal(px_alloc_create(1 << 20, &alloc), PX_OK);
    size_t failures = 0;
    for (int i = 0; i < 1000; i++) {
        struct px_alloc_stats before, after;
        struct px_block block;
        px_alloc_stats(alloc, &before);
        malloc_countdown = 0;
        px_status status = px_alloc_malloc(alloc, 512, 0, &block);
        malloc_countdown = -1;
        if (status == PX_OK)
            continue;
        px_alloc_stats(alloc, &after);
        assert_memory_equal(&before, &after, sizeof(before));
        assert_int_equal(px_alloc_malloc(alloc, 512, 0, &block), PX_OK);
        failures++;
    }
    assert_true(failures > 0);
    px_alloc_destroy(alloc);
}

static void many_pieces_stay_in_order(void **state)
{
    enum { N = 100000 };
    struct px_alloc *alloc;
    struct px_block block;
    struct px_alloc_stats stats;
    assert_int_equal(px_alloc_create((size_t)N * 1024, &alloc), PX_OK);
    for (size_t i = 0; i < 2 * (size_t)N; i++) {
        assert_int_equal(px_alloc_malloc(alloc, 512, 0, &block), PX_OK);
        assert_int_equal(block.offset, i * 512);
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(px_alloc_free(alloc, i * 1024), PX_OK);
    px_alloc_stats(alloc, &stats);
    assert_int_equal(stats.free_pieces, N);
    assert_int_equal(px_alloc_malloc(alloc, 1024, 0, &block), PX_ERR_NO_MEMORY);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(px_alloc_free(alloc, i * 1024 + 512), PX_OK);
    px_alloc_stats(alloc, &stats);
    assert_int_equal(stats.free_pieces, 1);
    assert_int_equal(stats.largest_free, (size_t)N * 1024);
    px_alloc_destroy(alloc);
}

/* --- the tree below --- */

struct number {
    struct px_node node;
    size_t value;
};

static int by_value(const struct px_node *a, const struct px_node *b)
{
    size_t x = ((const struct number *)a)->value, y = ((const struct number *)b)->value;
    return x < y ? -1 : x > y;
}

/* Returns the height; heights of siblings differ by one at most, values ascend. */
static int check_tree(const struct px_node *node, size_t low, size_t high)
{
    if (!node)
        return 0;
    size_t value = ((const struct number *)node)->value;
    assert_true(value >= low && value <= high);
    int a = value > low ? check_tree(node->child[0], low, value - 1) : 0;
    int b = check_tree(node->child[1], value + 1, high);
    assert_true(a - b <= 1 && b - a <= 1);
    assert_int_equal(node->height, 1 + (a > b ? a : b));
    return node->height;
}

static void trees_stay_balanced(void **state)
{
    enum { N = 512 };
    static struct number numbers[N];
    struct px_node *root = NULL;
    bool in[N] = {false};
    random_state = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        /* First in order, the worst case of a plain tree, then at random. */
        size_t n = i < N ? (size_t)i : below(N);
        numbers[n].value = n;
        if (in[n])
            px_tree_remove(&root, &numbers[n].node, by_value);
        else
            px_tree_insert(&root, &numbers[n].node, by_value);
        in[n] = !in[n];
        check_tree(root, 0, N);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_model),
        cmocka_unit_test(joins_neighbours_in_any_order),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(the_size_it_names_is_enough),
        cmocka_unit_test(large_blocks_start_on_pages),
        cmocka_unit_test(only_used_memory_is_dirty),
        cmocka_unit_test(a_refused_malloc_changes_nothing),
        cmocka_unit_test(many_pieces_stay_in_order),
        cmocka_unit_test(trees_stay_balanced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
