/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks (9.13): a queue, so first come, first served, and a waiting PE looks at its own memory
 * only.
 *
 * The 8 bytes of a lock are two words. `tail`, on the lock's home PE: 1 + the PE that came last, 0
 * when free. `node`, one on every PE: its place in the queue. Who comes swaps itself into the tail
 * and, when there was somebody, tells that PE's node who is next. Who leaves hands over to the next
 * one, or takes itself out of the tail. Every access is a 4-byte atomic operation, also to one's
 * own node, so that one kind of agent updates each word. */
#include "config.h"
#include "src/api/entry.h"

#include "src/api/amo.h"
#include "src/api/world.h"
#include "src/diag/log.h"
#include "src/transport/control.h"
#include "src/transport/wait.h"

#define WAITING 0x80000000u
#define HELD    0x40000000u /* holding or in the queue */
#define NEXT    0x3fffffffu /* 1 + PE */

struct lock {
    uint32_t tail, node;
};
_Static_assert(sizeof(struct lock) == sizeof(long), "a lock is a long");

static uint32_t amo(enum px_amo_op op, uint32_t *word, uint32_t value, uint32_t compare,
                    uint32_t pe)
{
    const struct px_amo amo = {
        .op = op, .width = sizeof *word, .fetching = true, .operand = value, .compare = compare};
    return (uint32_t)px_amo(pe, word, &amo);
}

/* Spread over the PEs by place in the heap: the same answer everywhere, also where addresses differ. */
static uint32_t home(const long *lock)
{
    return (uint32_t)((((uintptr_t)lock - px_world.memory.data) >> 3) % px_peers.n_pes);
}

static void check(const char *call, const long *lock)
{
    if (px_suspect_call())
        px_check_own(call, "lock", lock, 1, sizeof *lock);
}

static void wake(uint32_t pe)
{
    px_wake_pe(pe);
}

/* Into the queue of this PE's own node; a node that is in use already can never be served. */
static void enter(const char *call, struct lock *lock, uint32_t flags)
{
    if (amo(PX_AMO_COMPARE_SWAP, &lock->node, flags, 0, px_peers.my_pe) != 0)
        px_fatal(1, "%s: this PE holds the lock %p already, or another of its threads waits for it",
                 call, (void *)lock);
}

static uint32_t await_node(struct lock *lock, const char *call, uint32_t mask, uint32_t wanted)
{
    struct px_wait wait = PX_WAIT_INIT(call);
    uint32_t node;
    while (((node = (uint32_t)px_own_word(&lock->node, sizeof lock->node)) & mask ? 1u : 0u) !=
           wanted)
        px_wait_turn(&wait);
    return node;
}

void px_api_set_lock(long *lock)
{
    const char *call = "nvshmem_set_lock";
    check(call, lock);
    struct lock *mine = (struct lock *)lock;
    uint32_t me = px_peers.my_pe;
    enter(call, mine, HELD | WAITING);
    uint32_t before = amo(PX_AMO_SWAP, &mine->tail, me + 1, 0, home(lock));
    if (before == 0) {
        (void)amo(PX_AMO_AND, &mine->node, ~WAITING, 0, me); /* nobody else looks at it */
        return;
    }
    (void)amo(PX_AMO_OR, &mine->node, me + 1, 0, before - 1); /* the old value says nothing new */
    (void)await_node(mine, call, WAITING, 0);
}

int px_api_test_lock(long *lock)
{
    const char *call = "nvshmem_test_lock";
    check(call, lock);
    struct lock *mine = (struct lock *)lock;
    uint32_t me = px_peers.my_pe;
    enter(call, mine, HELD);
    if (amo(PX_AMO_COMPARE_SWAP, &mine->tail, me + 1, 0, home(lock)) == 0)
        return 0;
    (void)amo(PX_AMO_SET, &mine->node, 0, 0, me); /* not in the queue: nobody else writes it */
    return 1;
}

void px_api_clear_lock(long *lock)
{
    const char *call = "nvshmem_clear_lock";
    check(call, lock);
    struct lock *mine = (struct lock *)lock;
    uint32_t me = px_peers.my_pe;
    uint32_t node = amo(PX_AMO_FETCH, &mine->node, 0, 0, me);
    if (!(node & HELD) || node & WAITING)
        px_fatal(1, "%s: this PE does not hold the lock %p", call, (void *)lock);
    px_quiet();
    if (!(node & NEXT)) {
        if (amo(PX_AMO_COMPARE_SWAP, &mine->tail, 0, me + 1, home(lock)) == me + 1) {
            (void)amo(PX_AMO_SET, &mine->node, 0, 0, me);
            return;
        }
        node = await_node(mine, call, NEXT, 1); /* somebody came and is about to say so */
    }
    uint32_t next = (node & NEXT) - 1;
    (void)amo(PX_AMO_SET, &mine->node, 0, 0,
              me); /* before the hand-over: the next round may begin at once */
    (void)amo(PX_AMO_AND, &mine->node, ~WAITING, 0, next);
    wake(next);
}
