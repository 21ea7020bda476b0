/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks among four processes: a counter that only the holder touches, with plain gets and puts; first come, first
 * served; test_lock. Run with all PEs mapped, and with half of them behind the transport that delays and reorders. */
#include "config.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nvshmem.h"
#include "src/api/world.h"
#include "src/transport/move.h"
#include "src/transport/wait.h"
#include "test/unit/pes.h"

#define ROUNDS 300

unsigned px_gate;
struct px_world px_world = {.life = PX_LIFE_UP, .books = PTHREAD_RWLOCK_INITIALIZER};

static bool all_mapped;

/* PEs of the same parity see each other's memory; the others go through the transport. */
static void connect_peers(struct pes *pe)
{
    static intptr_t delta[PES_MAX];
    for (uint32_t i = 0; i < pe->n; i++)
        delta[i] =
            all_mapped || (i ^ pe->me) % 2 == 0 ? pes_window(pe, i) - pe->base : PX_NOT_MAPPED;
    delta[pe->me] = 0;
    px_peers = (struct px_peers){.delta = delta, .control_delta = delta,
                                 .my_pe = pe->me,
                                 .n_pes = pe->n,
                                 .remote = pe->ops,
                                 .remote_self = pe->self,
                                 .any_remote = !all_mapped};
    px_wait_policy.spin_turns = 0; /* more PEs than processors */
}

/* Locks 0 to n - 1, each at home on another PE; then the counter. */
static long *lock_at(struct pes *pe, size_t i)
{
    return (long *)(pe->base + PES_DATA) + i;
}

static void reset(struct pes *pe)
{
    connect_peers(pe);
    memset(pe->base + PES_DATA, 0, 4096);
    pes_barrier(pe);
}

static void only_one_holds(struct pes *pe)
{
    reset(pe);
    for (size_t which = 0; which < pe->n; which++) {
        long *counter = lock_at(pe, 64 + which);
        int owner = (int)((which + 1) % pe->n);
        for (int i = 0; i < ROUNDS; i++) {
            nvshmem_set_lock(lock_at(pe, which));
            nvshmem_long_p(counter, nvshmem_long_g(counter, owner) + 1, owner);
            nvshmem_clear_lock(lock_at(pe, which)); /* completes the put */
        }
        pes_barrier(pe);
        long seen = nvshmem_long_g(counter, owner);
        pes_check(seen == (long)pe->n * ROUNDS, "lock %zu: counted %ld", which, seen);
        pes_check(*lock_at(pe, which) == 0, "lock %zu is left as %lx", which,
                  (unsigned long)*lock_at(pe, which));
    }
}

/* PE 0 holds the lock while the others queue up in turn; each sees in the tail that the one before it is in. */
static void first_come_first_served(struct pes *pe)
{
    reset(pe);
    long *lock = lock_at(pe, 0);
    uint32_t home = (uint32_t)(((uintptr_t)lock >> 3) % pe->n);
    _Atomic uint32_t *tail = (_Atomic uint32_t *)(pes_window(pe, home) + ((char *)lock - pe->base));
    uint32_t order[] = {0, 3, 1, 2}, place = 0;
    while (order[place] != pe->me)
        place++;
    if (place > 0)
        while (atomic_load(tail) != order[place - 1] + 1)
            sched_yield();
    nvshmem_set_lock(lock);
    if (place == 0)
        while (atomic_load(tail) != order[pe->n - 1] + 1)
            sched_yield();
    uint64_t turn = atomic_fetch_add(pes_shared(pe, 0), 1);
    nvshmem_clear_lock(lock);
    pes_check(turn == place, "came as number %u, served as number %u", (unsigned)place,
              (unsigned)turn);
}

static void test_lock_takes_or_says_no(struct pes *pe)
{
    reset(pe);
    long *lock = lock_at(pe, 1);
    if (pe->me == 2)
        pes_check(nvshmem_test_lock(lock) == 0, "a free lock was refused");
    pes_barrier(pe);
    if (pe->me != 2)
        pes_check(nvshmem_test_lock(lock) == 1, "a lock that is held was taken");
    pes_barrier(pe);
    if (pe->me == 2)
        nvshmem_clear_lock(lock);
    pes_barrier(pe);
    if (pe->me == 1) {
        pes_check(nvshmem_test_lock(lock) == 0, "a lock that was cleared is not free");
        nvshmem_clear_lock(lock);
    }
    pes_barrier(pe);
    for (int i = 0; i < ROUNDS; i++) { /* mixed with those who queue */
        if (pe->me % 2)
            nvshmem_set_lock(lock);
        else
            while (nvshmem_test_lock(lock))
                sched_yield();
        nvshmem_clear_lock(lock);
    }
    pes_barrier(pe);
    pes_check(*lock == 0, "the lock is left as %lx", (unsigned long)*lock);
}

static void run(bool mapped, pes_case_fn *fn)
{
    char reason[256];
    all_mapped = mapped;
    struct pes_job *job = pes_start("shuffle", 4, false, reason, sizeof reason);
    if (!job)
        fail_msg("%s", reason);
    const char *failure = pes_run(job, fn, 120);
    if (failure)
        fail_msg("%s", failure);
    failure = pes_stop(job);
    if (failure)
        fail_msg("%s", failure);
}

static void mapped_only_one_holds(void **state)
{
    run(true, only_one_holds);
}

static void mapped_first_come_first_served(void **state)
{
    run(true, first_come_first_served);
}

static void mapped_test_lock(void **state)
{
    run(true, test_lock_takes_or_says_no);
}

static void remote_only_one_holds(void **state)
{
    run(false, only_one_holds);
}

static void remote_first_come_first_served(void **state)
{
    run(false, first_come_first_served);
}

static void remote_test_lock(void **state)
{
    run(false, test_lock_takes_or_says_no);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_only_one_holds),
        cmocka_unit_test(mapped_first_come_first_served),
        cmocka_unit_test(mapped_test_lock),
        cmocka_unit_test(remote_only_one_holds),
        cmocka_unit_test(remote_first_come_first_served),
        cmocka_unit_test(remote_test_lock),
    };
    return cmocka_run_group_tests_name("locks", tests, NULL, NULL);
}
