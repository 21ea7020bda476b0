/* SPDX-License-Identifier: BSD-3-Clause */
/* A pretend job for unit tests: forked processes as PEs, a shared page for what they exchange. A PE
 * that finds something wrong says where and exits with 1; the job's result is the number of PEs
 * that did not exit with 0. */
#ifndef PX_TEST_UNIT_PRETEND_H
#define PX_TEST_UNIT_PRETEND_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRETEND_CARD_BYTES 128

#define PRETEND_MAX 8

struct pretend {
    uint32_t n;
    _Atomic uint32_t arrived, generation, failed, anything;
    uint8_t cards[PRETEND_MAX][PRETEND_CARD_BYTES]; /* what the test exchanges, at most */
    _Atomic int32_t status[PRETEND_MAX];
    _Atomic uint64_t values[PRETEND_MAX];
};

#define pe_check(what)                                                                             \
    ((what)                                                                                        \
         ? (void)0                                                                                 \
         : (fprintf(stderr, "%s:%d: PE check failed: %s\n", __FILE__, __LINE__, #what), _exit(1)))

typedef void pretend_fn(struct pretend *job, uint32_t rank);

static inline void pretend_barrier(struct pretend *job)
{
    uint32_t generation = atomic_load(&job->generation);
    if (atomic_fetch_add(&job->arrived, 1) + 1 == job->n) {
        atomic_store(&job->arrived, 0);
        atomic_fetch_add(&job->generation, 1);
        return;
    }
    while (atomic_load(&job->generation) == generation && !atomic_load(&job->failed))
        sched_yield();
    pe_check(!atomic_load(&job->failed) || atomic_load(&job->generation) != generation);
}

/* Run fn on n PEs and return how many failed. */
static inline uint32_t pretend_run(uint32_t n, pretend_fn *fn)
{
    struct pretend *job =
        mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    job->n = n;
    fflush(NULL);
    for (uint32_t rank = 0; rank < n; rank++) {
        if (fork() == 0) {
            fn(job, rank);
            fflush(NULL);
            _exit(0);
        }
    }
    uint32_t failed = 0;
    for (uint32_t i = 0; i < n; i++) {
        int status;
        wait(&status);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "a PE ended with wait status 0x%x\n", status);
            failed++;
            atomic_store(&job->failed, 1); /* lets the others out of their barrier */
        }
    }
    munmap(job, sizeof(*job));
    return failed;
}

#endif
