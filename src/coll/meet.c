/* SPDX-License-Identifier: BSD-3-Clause */
/* Meeting: the steps that shape.c has laid out, one after the other, and handing small blocks
 * along. A flag of a mapped partner is one store; a remote one goes as a signal, which is never
 * torn and never overtakes the data before it. */
#include "config.h"
#include "src/coll/private.h"

/* Reads before the first pause and before the clock is asked: a partner that is close raises its
 * flag within that. */
#define EAGER_LOOKS 64

void px_await_slow(const struct px_visit *visit, const _Atomic uint64_t *flag, uint32_t pe)
{
    struct px_wait wait = PX_WAIT_INIT(visit->call->name);
    uint64_t seen;
    uint32_t looks = 0;
    while ((seen = atomic_load_explicit(flag, memory_order_acquire)) != visit->value) {
        if (seen >> 32 == visit->value >> 32)
            px_coll_mismatch(visit, pe);
        if (++looks < EAGER_LOOKS && px_wait_policy.spin_turns)
            continue;
        if (wait.turns == px_wait_policy.spin_turns)
            px_visit_since(visit);
        px_wait_turn(&wait);
    }
}

static void raise_remote(const struct px_visit *visit, uint32_t pe, unsigned line)
{
    uint64_t *flag = (uint64_t *)&visit->team->slot->lines[visit->parity][line].flag;
    px_peers.remote->put_signal(px_peers.remote_self, pe, NULL, NULL, 0, flag, visit->value,
                                PX_AMO_SET, true);
}

void px_meet(struct px_visit *visit)
{
    px_next_meeting(visit);
    unsigned parity = visit->parity;
    const struct px_step *step = visit->team->steps, *end = step + visit->team->n_steps;
    for (; step < end; step++) {
        if (!step->send) {
            px_await(visit, step->flag[parity], step->pe);
        } else if (step->sleeping) {
            atomic_store_explicit(step->flag[parity], visit->value, memory_order_release);
            px_wait_wake(step->sleeping);
        } else {
            raise_remote(visit, step->pe, step->line);
        }
    }
}

void px_hand(const struct px_visit *visit, uint32_t pe, unsigned line, size_t cell,
             const void *data, size_t bytes)
{
    struct px_slot *slot = visit->team->slot;
    struct px_line *at = &slot->lines[visit->parity][line];
    void *room = bytes <= PX_LINE_BYTES ? at->data : slot->cells[visit->parity] + cell;
    if (!px_control_is_mapped(pe)) {
        px_peers.remote->put_signal(px_peers.remote_self, pe, room, data, bytes,
                                    (uint64_t *)&at->flag, visit->value, PX_AMO_SET, false);
        return;
    }
    px_copy(px_control_mapped(pe, room), data, bytes);
    struct px_line *theirs = px_control_mapped(pe, at);
    atomic_store_explicit(&theirs->flag, visit->value, memory_order_release);
    px_wait_wake(&((struct px_control *)px_control_mapped(pe, px_coll.control))->sleeping);
}

const void *px_take(const struct px_visit *visit, uint32_t pe, unsigned line, size_t cell,
                    size_t bytes)
{
    struct px_slot *slot = visit->team->slot;
    const struct px_line *at = &slot->lines[visit->parity][line];
    px_await(visit, &at->flag, pe);
    return bytes <= PX_LINE_BYTES ? at->data : slot->cells[visit->parity] + cell;
}

void px_sync(struct px_team *team, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    px_meet(&visit);
    px_leave(&visit);
}

void px_barrier(struct px_team *team, const struct px_call *call)
{
    struct px_visit visit = px_enter(team, call);
    if (px_peers.any_remote)
        px_peers.remote->quiet(px_peers.remote_self);
    px_meet(&visit);
    px_leave(&visit);
}
