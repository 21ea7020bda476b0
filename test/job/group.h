/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that start groups of PEs: who am I for the launcher, a way to pass bytes among processes that share nothing
 * yet (files), and a look at a world that has come up. */
#ifndef TEST_JOB_GROUP_H
#define TEST_JOB_GROUP_H

#include <fcntl.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline const char *group_setting(const char *first, const char *second,
                                        const char *otherwise)
{
    const char *value = getenv(first) ? getenv(first) : getenv(second);
    return value ? value : otherwise;
}

static inline int group_rank(void)
{
    return atoi(group_setting("PMIX_RANK", "PMI_RANK", "0"));
}

static inline void group_path(char path[256], const char *what)
{
    snprintf(path, 256, "test/job/scratch/%s-%s",
             group_setting("PMIX_NAMESPACE", "PMI_JOBID", "alone"), what);
}

/* Whole or not at all, in the folder that test/job/run empties. */
static inline void group_write(const char *what, const void *bytes, size_t size)
{
    char path[256], temporary[280];
    group_path(path, what);
    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    FILE *file = fopen(temporary, "w");
    if (!file || fwrite(bytes, size, 1, file) != 1 || fclose(file) != 0 ||
        rename(temporary, path) != 0)
        exit(2);
}

static inline void group_read(const char *what, void *bytes, size_t size)
{
    char path[256];
    group_path(path, what);
    for (int tries = 0; tries < 6000; tries++) {
        FILE *file = fopen(path, "r");
        bool whole = file && fread(bytes, size, 1, file) == 1;
        if (file)
            fclose(file);
        if (whole)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    exit(3);
}

/* A ring of puts, a sum by atomics and a team: do all PEs find the right ones? `salt` differs between worlds. */
static inline bool group_works(int me, int n, int salt)
{
    if (nvshmem_my_pe() != me || nvshmem_n_pes() != n)
        return false;
    int *word = nvshmem_calloc(2, sizeof(*word));
    int left = (me + n - 1) % n, right = (me + 1) % n;
    nvshmem_int_p(&word[0], salt + me, right);
    nvshmem_int_atomic_add(&word[1], me + 1, 0);
    nvshmem_barrier_all();
    bool good = word[0] == salt + left && nvshmem_int_g(&word[1], 0) == n * (n + 1) / 2;
    good &= nvshmem_int_g(&word[0], left) == salt + (left + n - 1) % n;
    good &= nvshmem_team_n_pes(NVSHMEMX_TEAM_NODE) <= n;
    nvshmem_barrier_all();
    nvshmem_free(word);
    return good;
}

#endif
