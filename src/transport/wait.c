/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting beyond the first spins: see wait.h for the stages.
 *
 * Sleeping is announced in one turn and done in the next, so that the caller looks at its condition
 * in between. Whoever stores the awaited word loads the announcement without a fence and can miss
 * it; the sleep is therefore short, and a missed wake costs a bounded delay instead of a fence on
 * every store. */
#include "config.h"
#include "src/transport/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "src/transport/move.h"

#define YIELD_NS     2000000ull /* then sleep */
#define SLEEP_MIN_NS 100000ull  /* the first sleeps */
#define SLEEP_MAX_NS                                                                               \
    4000000ull /* and those of a long wait: 250 looks a second are no measurable load */

struct px_wait_policy px_wait_policy = {.spin_turns = 4000};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *limit)
{
    return syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

static void sleep_a_little(uint64_t waited_ns)
{
    uint64_t ns = waited_ns / 16;
    ns = ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : ns;
    struct timespec limit = {.tv_nsec = (long)ns};
    _Atomic uint32_t *sleeping = px_wait_policy.sleeping;
    if (!sleeping)
        nanosleep(&limit, NULL);
    else if (atomic_load_explicit(sleeping, memory_order_relaxed) == 0)
        atomic_store(sleeping, 1); /* announced: the caller looks once more */
    else
        (void)futex(sleeping, FUTEX_WAIT, 1,
                    &limit); /* woken, changed or timed out: all mean look again */
}

void px_wait_slow(struct px_wait *wait)
{
    if (px_peers.any_remote)
        px_peers.remote->progress(px_peers.remote_self);
    if (wait->turns < px_wait_policy.spin_turns)
        return;
    uint64_t now = now_ns();
    if (!wait->started_ns)
        wait->started_ns = now;
    uint64_t waited = now - wait->started_ns;
    if (waited < YIELD_NS)
        sched_yield();
    else
        sleep_a_little(waited);
    if (px_wait_policy.hang_ns && !wait->reported && waited > px_wait_policy.hang_ns) {
        wait->reported = true;
        if (px_wait_policy.report)
            px_wait_policy.report(wait);
    }
}

void px_wait_wake(_Atomic uint32_t *sleeping)
{
    if (__builtin_expect(atomic_load_explicit(sleeping, memory_order_relaxed) == 0, 1))
        return;
    atomic_store(sleeping, 0);
    (void)futex(sleeping, FUTEX_WAKE, INT32_MAX, NULL); /* nobody there is fine */
}
