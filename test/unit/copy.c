/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy routine: every size to 700 at every alignment, the boundaries of its stages, and what
 * lies beside the block. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/transport/copy.h"

#define GUARD 64

static void check(unsigned char *to, unsigned char *from, size_t bytes, size_t to_shift,
                  size_t from_shift)
{
    unsigned char *dest = to + GUARD + to_shift, *source = from + GUARD + from_shift;
    memset(to, 0xee, bytes + to_shift + 2 * GUARD);
    px_copy(dest, source, bytes);
    if (memcmp(dest, source, bytes) != 0)
        fail_msg("%zu bytes, shifts %zu %zu: wrong contents", bytes, to_shift, from_shift);
    for (size_t i = 1; i <= GUARD; i++)
        if (dest[-(ptrdiff_t)i] != 0xee || (i <= GUARD - to_shift && dest[bytes + i - 1] != 0xee))
            fail_msg("%zu bytes, shifts %zu %zu: wrote outside", bytes, to_shift, from_shift);
}

static unsigned char *filled(size_t bytes)
{
    unsigned char *block = malloc(bytes);
    assert_non_null(block);
    for (size_t i = 0; i < bytes; i++)
        block[i] = (unsigned char)(i * 131 + (i >> 8) * 7 + 3);
    return block;
}

static void small_sizes_at_every_alignment(void **state)
{
    unsigned char *to = filled(2048), *from = filled(2048);
    for (size_t bytes = 0; bytes <= 700; bytes++)
        for (size_t shift = 0; shift < 33; shift++)
            check(to, from, bytes, shift, (shift * 5) % 33);
    free(to);
    free(from);
}

static void boundaries_of_the_stages(void **state)
{
    static const size_t sizes[] = {
        4095, 4096, 4097, 65536, 1 << 20, (32u << 20) - 1, 32u << 20, (32u << 20) + 77};
    size_t largest = (32u << 20) + 4096;
    unsigned char *to = filled(largest), *from = filled(largest);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t shift = 0; shift < 33; shift += 8)
            check(to, from, sizes[i], shift, 32 - shift);
    free(to);
    free(from);
}

static void equal_regions_stay(void **state)
{
    unsigned char *block = filled(40u << 20), *model = filled(40u << 20);
    static const size_t sizes[] = {1, 31, 127, 129, 161, 4097, 33u << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        px_copy(block + 3, block + 3, sizes[i]);
        assert_memory_equal(block, model, 40u << 20);
    }
    free(block);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_sizes_at_every_alignment),
        cmocka_unit_test(boundaries_of_the_stages),
        cmocka_unit_test(equal_regions_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
