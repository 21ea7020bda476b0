/* SPDX-License-Identifier: BSD-3-Clause */
/* How a PE waits: spin while every PE of the node has a processor of its own, otherwise yield at once; sleep on a futex
 * with a short limit when it takes long. Each turn moves the remote transport on. A wait longer than the hang limit
 * calls the report, once; a failed job ends every wait.
 *
 *   struct px_wait wait = PX_WAIT_INIT("nvshmem_int_wait_until");
 *   while (!condition())
 *       px_wait_turn(&wait);
 */
#ifndef PX_TRANSPORT_WAIT_H
#define PX_TRANSPORT_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct px_wait {
    const char *call; /* for the hang report */
    uint32_t turns;
    uint64_t started_ns; /* set when the spin phase ends */
    bool reported;
};

#define PX_WAIT_INIT(name)                                                                         \
    {                                                                                              \
        .call = (name)                                                                             \
    }

struct px_wait_policy {
    uint32_t spin_turns;         /* 0: yield at once, more runnable PEs than processors */
    uint64_t hang_ns;            /* 0: never report */
    /* This PE's control word, NULL before the window exists: the transport's thread runs already when it is set. */
    _Atomic(_Atomic uint32_t *) sleeping;
    void (*report)(const struct px_wait *wait); /* prints who is where */
};
extern struct px_wait_policy px_wait_policy;

/* The rest of a turn: yield, sleep, progress, checks. */
void px_wait_slow(struct px_wait *wait);

static inline void px_wait_turn(struct px_wait *wait)
{
    if (__builtin_expect(++wait->turns < px_wait_policy.spin_turns && (wait->turns & 63) != 0, 1)) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
        return;
    }
    px_wait_slow(wait);
}

/* Wake a PE that may sleep on its control word: one load of a mapped line when it does not. */
void px_wait_wake(_Atomic uint32_t *sleeping);

#endif
