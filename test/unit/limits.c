/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory and address space there is: reading recorded files of several systems, judging
 * plain values, and the free ranges and the window that follow from them. */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "heap/private.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)

/* --- a root folder with files in it --- */

static char root[64];

static int make_root(void **state)
{
    strcpy(root, "/tmp/px-limits-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    return system(command);
}

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char meminfo[] = "MemTotal:       16777216 kB\n"
                              "MemFree:         1000000 kB\n"
                              "MemAvailable:    8388608 kB\n";

static void the_node_alone(void **state)
{
    struct px_limits limits;
    put("/proc/meminfo", meminfo);
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.physical, 16 * GIB);
    assert_int_equal(limits.available, 8 * GIB);
    assert_string_equal(limits.limited_by, "MemAvailable");
}

static void no_proc_is_an_error(void **state)
{
    struct px_error error = PX_ERROR_INIT;
    struct px_limits limits;
    assert_int_equal(px_limits_read(root, &limits, &error), PX_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "/proc"));
}

static void strict_accounting_counts(void **state)
{
    struct px_limits limits;
    put("/proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"
                         "CommitLimit: 4194304 kB\nCommitted_AS: 3145728 kB\n");
    put("/proc/sys/vm/overcommit_memory", "0\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.available, 8 * GIB);
    put("/proc/sys/vm/overcommit_memory", "2\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.available, GIB);
    assert_non_null(strstr(limits.limited_by, "overcommit"));
}

static void version_2_any_level_counts(void **state)
{
    struct px_limits limits;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0\n");
    put("/proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", "max\n");
    put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.current", "1073741824\n");
    put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.stat",
        "anon 1\ninactive_anon 5\ninactive_file 536870912\n");
    put("/sys/fs/cgroup/system.slice/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/system.slice/memory.current", "3221225472\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.physical, 2 * GIB);
    assert_int_equal(limits.available, GIB); /* system.slice: 4 - 3; job_7: 2 - (1 - 0.5) */
    assert_string_equal(limits.limited_by, "/sys/fs/cgroup/system.slice/memory.max");
    put("/sys/fs/cgroup/system.slice/memory.current", "1000\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.available, 1536 * MIB);
    assert_non_null(strstr(limits.limited_by, "job_7/memory.max"));
}

static void version_1_beside_version_2(void **state)
{
    struct px_limits limits;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/slurm/uid_0/job_7\n0::/\n");
    put("/proc/self/mountinfo",
        "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 30 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
        "41 30 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.usage_in_bytes", "268435456\n");
    put("/sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.stat",
        "inactive_file 1\ntotal_inactive_file 134217728\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.physical, GIB);
    assert_int_equal(limits.available, 896 * MIB);
}

/* In a container the mount shows only its own part, while the group's path is told from the host's
 * root, or is "/". */
static void a_container_sees_a_part(void **state)
{
    struct px_limits limits;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "0::/docker/abc/inner\n");
    put("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n");
    put("/sys/fs/cgroup/memory.max", "536870912\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.available, 512 * MIB);
    put("/sys/fs/cgroup/inner/memory.max", "268435456\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.available, 256 * MIB);
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.available, 512 * MIB);
}

static void odd_files_are_survived(void **state)
{
    struct px_limits limits;
    put("/proc/meminfo", "MemTotal: 1024 kB\n");
    put("/proc/self/cgroup", "nonsense\n:::\n0:\n0::\n");
    put("/proc/self/mountinfo",
        "a b\n1 2 3 / /x - \n - cgroup2 a b\n9 9 9 / /m rw - cgroup2 c rw\n");
    put("/m/memory.max", "");
    assert_int_equal(px_limits_read(root, &limits, NULL), PX_OK);
    assert_int_equal(limits.available, MIB);
}

static void this_machine_can_be_read(void **state)
{
    struct px_limits limits;
    assert_int_equal(px_limits_read("", &limits, NULL), PX_OK);
    assert_true(limits.physical > 0 && limits.available <= limits.physical);
}

/* --- judging --- */

static void too_large_is_refused_with_a_size_that_fits(void **state)
{
    struct px_limits limits = {.physical = 16 * GIB, .available = 1000 * MIB, .limited_by = "here"};
    struct px_error error = PX_ERROR_INIT;
    char warning[PX_LIMITS_WARNING];
    const size_t control = MIB;
    assert_int_equal(px_limits_check(&limits, control + 256 * MIB, 0, control, 4, warning, &error),
                     PX_ERR_NO_MEMORY);
    assert_non_null(strstr(error.text, "asked 256 MiB for each of 4 PEs"));
    assert_non_null(strstr(error.text, "available 1000 MiB"));
    assert_non_null(strstr(error.text, "(here)"));
    assert_non_null(strstr(error.text, "NVSHMEM_SYMMETRIC_SIZE=249M"));
    assert_int_equal(px_limits_check(&limits, control + 249 * MIB, 0, control, 4, warning, &error),
                     PX_OK);
    assert_non_null(strstr(warning, "80 %"));
    assert_int_equal(px_limits_check(&limits, control + 150 * MIB, 0, control, 4, warning, &error),
                     PX_OK);
    assert_string_equal(warning, "");
    /* What is there already is not asked for again. */
    assert_int_equal(px_limits_check(&limits, 400 * MIB, 250 * MIB, control, 4, warning, &error),
                     PX_OK);
    limits.available = 0;
    assert_int_equal(px_limits_check(&limits, control + 1, 0, control, 4, warning, &error),
                     PX_ERR_NO_MEMORY);
    assert_non_null(strstr(error.text, "would fit is 0M"));
}

static void address_room_leaves_a_reserve(void **state)
{
    assert_int_equal(px_limits_address_room(4 * GIB, 100 * MIB, 256 * MIB),
                     4 * GIB - 100 * MIB - 512 * MIB);
    assert_int_equal(px_limits_address_room(GIB, 100 * MIB, 256 * MIB), GIB - 228 * MIB);
    /* With the full reserve 300 MiB would not fit, with the small one they do. */
    assert_int_equal(px_limits_address_room(500 * MIB, 100 * MIB, 300 * MIB), 300 * MIB);
    assert_int_equal(px_limits_address_room(500 * MIB, 100 * MIB, 500 * MIB), 368 * MIB);
    assert_int_equal(px_limits_address_room(100 * MIB, 200 * MIB, MIB), 0);
}

static void sizes_read_well(void **state)
{
    char text[PX_SIZE_TEXT];
    assert_string_equal(px_size_text(0, text), "0 bytes");
    assert_string_equal(px_size_text(1023, text), "1023 bytes");
    assert_string_equal(px_size_text(1024, text), "1 KiB");
    assert_string_equal(px_size_text(1536, text), "1.50 KiB");
    assert_string_equal(px_size_text(256 * MIB, text), "256 MiB");
    assert_string_equal(px_size_text(SIZE_MAX, text), "16.00 EiB");
}

/* --- what follows for the offer --- */

static void the_window_follows_memory_and_room(void **state)
{
    const size_t control = MIB, none = SIZE_MAX;
    /* By default as large as memory, so that one PE may use all of it. */
    assert_int_equal(px_offer_span(256 * MIB, 0, control, 16 * GIB, none, 2), 16 * GIB + 2 * MIB);
    /* What the user names wins, also over the default's ceiling. */
    assert_int_equal(px_offer_span(256 * MIB, GIB, control, 16 * GIB, none, 2), GIB + 2 * MIB);
    assert_int_equal(px_offer_span(256 * MIB, 40 * TIB, control, 16 * GIB, none, 2),
                     40 * TIB + 2 * MIB);
    /* Many PEs on a large machine share a ceiling. */
    assert_int_equal(px_offer_span(256 * MIB, 0, control, 4 * TIB, none, 128), 128 * GIB + 2 * MIB);
    /* Never below what is asked at start, unless there is no room: then 0. */
    assert_int_equal(px_offer_span(32 * GIB, 0, control, 16 * GIB, none, 1), 32 * GIB + 2 * MIB);
    assert_int_equal(px_offer_span(256 * MIB, 0, control, 16 * GIB, 3 * GIB, 4), 768 * MIB);
    assert_int_equal(px_offer_span(256 * MIB, 0, control, 16 * GIB, 1032 * MIB, 4), 258 * MIB);
    assert_int_equal(px_offer_span(256 * MIB, 0, control, 16 * GIB, 1031 * MIB, 4), 0);
}

static size_t ranges_of(const char *text, uintptr_t mine, size_t length,
                        struct px_heap_range ranges[PX_HEAP_RANGES])
{
    FILE *maps = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(maps);
    size_t n = px_offer_ranges(maps, mine, length, ranges);
    fclose(maps);
    return n;
}

#define PROGRAM "555555554000-555555560000 r-xp 00000000 fe:00 1 /bin/program\n"
#define LIBRARIES                                                                                  \
    "7ffff7d00000-7ffff7fff000 r-xp 00000000 fe:00 2 /lib/libc.so.6\n"                             \
    "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n"                                    \
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"

static void an_ordinary_process_offers_two_ranges(void **state)
{
    struct px_heap_range ranges[PX_HEAP_RANGES];
    assert_int_equal(ranges_of(PROGRAM LIBRARIES, 0, 0, ranges), 2);
    assert_int_equal(ranges[0].start, 4 * GIB);
    assert_true(ranges[0].start + ranges[0].length < 0x555555554000);
    assert_true(ranges[0].start + ranges[0].length > 0x540000000000);
    assert_true(ranges[1].start >= 0x555555560000 + TIB);
    assert_true(ranges[1].start + ranges[1].length <= 0x7ffff7d00000 - TIB);
    assert_int_equal(ranges[2].length, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal((ranges[i].start | ranges[i].length) % PX_HEAP_UNIT, 0);
}

static void mappings_take_the_slots_they_touch(void **state)
{
    static const char text[] = PROGRAM "200000000000-200000001000 rw-p 00000000 00:00 0\n"
                                       "200ffffff000-201000001000 rw-p 00000000 00:00 0\n"
                                       "3ffffffff000-400000001000 rw-p 00000000 00:00 0\n" LIBRARIES;
    uint64_t slots[PX_HEAP_SLOTS / 64];
    FILE *maps = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(maps);
    px_offer_slots(maps, 0x200000000000, 0x1000, slots); /* the first one is mine */
    fclose(maps);
    assert_int_equal(slots[0], ~(uint64_t)3); /* one mapping across the border of two slots */
    for (size_t i = 1; i < PX_HEAP_SLOTS / 64 - 1; i++)
        assert_int_equal(slots[i], UINT64_MAX);
    assert_int_equal(slots[PX_HEAP_SLOTS / 64 - 1], UINT64_MAX >> 1);
}

static void own_window_counts_as_free(void **state)
{
    struct px_heap_range ranges[PX_HEAP_RANGES], again[PX_HEAP_RANGES];
    const char window[] =
        "200000000000-200000019000 rw-s 00000000 00:01 9 /memfd:pxshmem-pe0\n"
        "200000019000-200040000000 rw-s 00019000 00:01 9 /memfd:pxshmem-pe0\n" PROGRAM LIBRARIES;
    ranges_of(PROGRAM LIBRARIES, 0, 0, ranges);
    ranges_of(window, 0x200000000000, GIB, again);
    assert_memory_equal(ranges, again, sizeof(ranges));
    assert_int_equal(ranges_of(window, 0, 0, again), 3);
}

static void the_largest_ranges_are_kept_in_order(void **state)
{
    struct px_heap_range ranges[PX_HEAP_RANGES];
    char text[4096] = "";
    /* Gaps of growing and shrinking size: 1, 5, 2, 6, 3, 7 TiB between small mappings. */
    static const int gaps[] = {1, 5, 2, 6, 3, 7};
    uint64_t at = 4 * GIB;
    for (size_t i = 0; i < 6; i++) {
        at += gaps[i] * TIB;
        snprintf(text + strlen(text), 200, "%llx-%llx rw-p 0 0:0 0\n", (unsigned long long)at,
                 (unsigned long long)at + 4096);
        at += 4096;
    }
    assert_int_equal(ranges_of(text, 0, 0, ranges), PX_HEAP_RANGES);
    for (int i = 1; i < PX_HEAP_RANGES; i++)
        assert_true(ranges[i].start >= ranges[i - 1].start + ranges[i - 1].length);
    static const size_t kept[] = {5, 6, 3, 7};
    for (int i = 0; i < PX_HEAP_RANGES; i++)
        assert_true(ranges[i].length < kept[i] * TIB && ranges[i].length >= kept[i] * TIB / 2);
}

static void nonsense_gives_no_range(void **state)
{
    struct px_heap_range ranges[PX_HEAP_RANGES];
    assert_int_equal(ranges_of("\n", 0, 0, ranges), 0);
    assert_int_equal(ranges_of("hello\n1000-2000 r--p\n", 0, 0, ranges), 0);
    assert_int_equal(ranges_of("100000000-ffffffff000 rw-p 0 0:0 0\n1000-2000 x\n", 0, 0, ranges),
                     0);
}

int main(void)
{
#define with_root(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        with_root(the_node_alone),
        with_root(no_proc_is_an_error),
        with_root(strict_accounting_counts),
        with_root(version_2_any_level_counts),
        with_root(version_1_beside_version_2),
        with_root(a_container_sees_a_part),
        with_root(odd_files_are_survived),
        cmocka_unit_test(this_machine_can_be_read),
        cmocka_unit_test(too_large_is_refused_with_a_size_that_fits),
        cmocka_unit_test(address_room_leaves_a_reserve),
        cmocka_unit_test(sizes_read_well),
        cmocka_unit_test(the_window_follows_memory_and_room),
        cmocka_unit_test(an_ordinary_process_offers_two_ranges),
        cmocka_unit_test(mappings_take_the_slots_they_touch),
        cmocka_unit_test(own_window_counts_as_free),
        cmocka_unit_test(the_largest_ranges_are_kept_in_order),
        cmocka_unit_test(nonsense_gives_no_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
