/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks in a real job: plain gets and puts under them lose nothing, with set_lock and with test_lock. */
#include "config.h"

#include <sched.h>

#include "nvshmem.h"
#include "test/job/tap.h"

#define LOCKS  4
#define ROUNDS 50

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    tap_start(me);
    long *lock = nvshmem_calloc(LOCKS, sizeof *lock),
         *counter = nvshmem_calloc(LOCKS, sizeof *counter);
    for (int i = 0; i < ROUNDS * LOCKS; i++) {
        int which = i % LOCKS, owner = (which + 1) % n;
        if (i % 8 < 6)
            nvshmem_set_lock(&lock[which]);
        else
            while (nvshmem_test_lock(&lock[which]))
                sched_yield();
        nvshmem_long_p(&counter[which], nvshmem_long_g(&counter[which], owner) + 1, owner);
        nvshmem_clear_lock(&lock[which]);
    }
    nvshmem_barrier_all();
    for (int which = 0; which < LOCKS; which++) {
        long seen = nvshmem_long_g(&counter[which], (which + 1) % n);
        ok(seen == (long)n * ROUNDS, "lock %d: %ld of %ld", which, seen, (long)n * ROUNDS);
        ok(lock[which] == 0, "lock %d is free: %lx", which, (unsigned long)lock[which]);
    }
    nvshmem_finalize();
    return tap_done();
}
