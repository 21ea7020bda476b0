/* SPDX-License-Identifier: BSD-3-Clause */
/* Init and finalise: counted, repeated, flat. `lifecycle ROUNDS [PAGES]` brings the library up and down so many
 * times; resident memory may vary by so many pages between the halves (network libraries keep pools of their own). */
#include <dirent.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdlib.h>
#include <string.h>

#include "test/job/tap.h"
#include "test/sanitizer.h"

static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static int mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0, c;
    while (maps && (c = getc(maps)) != EOF)
        lines += c == '\n';
    if (maps)
        fclose(maps);
    return lines;
}

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm && fscanf(statm, "%ld %ld", &size, &resident) != 2)
        resident = 0;
    if (statm)
        fclose(statm);
    return resident;
}

static bool one_round(int round, void **base)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), right = (me + 1) % n;
    int *word = nvshmem_calloc(1, sizeof(*word));
    bool good = word != NULL;
    if (round == 0)
        *base = word;
    nvshmem_int_p(word, 1000 * round + me, right);
    nvshmem_barrier_all();
    good &= *word == 1000 * round + (me + n - 1) % n;
    nvshmem_barrier_all();
    nvshmem_free(word);
    nvshmem_finalize();
    return good && word == *base;
}

static void counted(void)
{
    int before, up, after;
    nvshmem_query_initialized(&before);
    nvshmem_init();
    int *word = nvshmem_calloc(1, sizeof(*word));
    *word = 42;
    nvshmem_init();
    int *other = nvshmem_malloc(sizeof(*other));
    nvshmem_query_initialized(&up);
    tap_start(nvshmem_my_pe());
    ok(!before && up && *word == 42 && other != word, "a second init changes nothing");
    nvshmem_finalize();
    ok(*word == 42 && nvshmem_int_g(word, nvshmem_my_pe()) == 42, "its finalise neither");
    nvshmem_free(other);
    nvshmem_free(word);
    nvshmem_finalize();
    nvshmem_query_initialized(&after);
    ok(!after, "the last finalise ends it");
    ok(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "and nvshmemx_init_status says so");
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 3, bad = 0, provided = -1;
    long slack = argc > 2 ? atol(argv[2]) : 2048;
    void *base = NULL;
    counted();
    for (int round = 0; round < 3; round++)
        bad += !one_round(round, &base);
    int descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task"), maps = mappings();
    long pages = resident_pages(), latest = pages;
    for (int round = 3; round < rounds; round++) {
        bad += !one_round(round, &base);
        latest = resident_pages();
        if (round < rounds / 2 && latest > pages)
            pages = latest; /* what libraries keep for reuse is there after some rounds */
    }
    ok(bad == 0, "%d rounds of init and finalise, %d bad, always the same address", rounds, bad);
    ok(entries("/proc/self/fd") <= descriptors, "descriptors stay flat: %d, %d", descriptors, entries("/proc/self/fd"));
    ok(entries("/proc/self/task") <= threads, "threads stay flat: %d, %d", threads, entries("/proc/self/task"));
    ok(PX_TEST_ASAN || mappings() <= maps + 8, "mappings stay flat: %d, %d", maps, mappings());
    ok(PX_TEST_ASAN || latest <= pages + slack, "resident pages stay flat: %ld, %ld", pages, latest);

    int code = nvshmem_init_thread(NVSHMEM_THREAD_FUNNELED, &provided);
    ok(code == 0 && provided >= NVSHMEM_THREAD_FUNNELED, "init_thread provides %d", provided);
    nvshmem_query_thread(&provided);
    ok(provided == NVSHMEM_THREAD_MULTIPLE, "query_thread says %d", provided);
    ok(nvshmemx_init_status() == NVSHMEM_STATUS_IS_INITIALIZED, "init_status says so");
    nvshmem_finalize();
    return tap_done();
}
