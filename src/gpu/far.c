/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester's side of far.h: slots, notes, and waiting for records.
 *
 * A slot is taken for each piece of an operation and is free again when its record shows the number
 * of the request and what came back lies where it belongs. One lock guards the slots; it is never
 * held while waiting or sending. */
#include "config.h"
#include "src/gpu/far.h"

#if PX_HAVE_CUDA
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/diag/log.h"
#include "src/gpu/move.h"
#include "src/transport/wait.h"

_Static_assert(sizeof(struct px_gpu_note) == PX_TRANSPORT_NOTE, "it travels as one note");
_Static_assert(PX_GPU_SLOTS <= UINT8_MAX, "a note numbers slots by a byte");

struct px_gpu_far px_gpu_far;

struct slot {
    bool busy;
    uint32_t number, pe;
    uint64_t issued;
    void *dest; /* where what comes back goes, NULL: nowhere */
    size_t bytes;
    bool from_stage;   /* else the old value of an atomic */
    unsigned *waiting; /* somebody waits until this has become 0 */
};

static struct {
    pthread_mutex_t lock;
    struct slot slot[PX_GPU_SLOTS];
    uint64_t issued;
} far = {.lock = PTHREAD_MUTEX_INITIALIZER};

size_t px_gpu_far_bytes(void)
{
    return sizeof(struct px_gpu_area);
}

void px_gpu_far_init(void *area)
{
    px_gpu_far.area = area;
    memset(far.slot, 0, sizeof(far.slot));
    for (uint64_t i = 0; i < PX_GPU_RING; i++)
        atomic_store(&px_gpu_far.area->ring.entry[i].turn, i);
}

/* --- control areas --- */

void px_gpu_far_read(uint32_t pe, void *dest, const void *control, size_t bytes)
{
    if (px_control_is_mapped(pe))
        px_copy(dest, px_control_mapped(pe, control), bytes);
    else
        px_gpu_far.network->get(px_gpu_far.network_self, pe, dest, control, bytes);
}

void px_gpu_far_write(uint32_t pe, void *control, const void *source, size_t bytes,
                      _Atomic uint64_t *mark, uint64_t value)
{
    if (!px_control_is_mapped(pe)) {
        px_gpu_far.network->put_signal(px_gpu_far.network_self, pe, control, source, bytes,
                                       (uint64_t *)mark, value, PX_AMO_SET, false);
        return;
    }
    if (bytes)
        px_copy(px_control_mapped(pe, control), source, bytes);
    atomic_store_explicit((_Atomic uint64_t *)px_control_mapped(pe, mark), value,
                          memory_order_release);
    px_wake_pe(pe);
}

void px_gpu_wake_agent(struct px_gpu_ring *ring)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&ring->asleep, memory_order_relaxed) == 0)
        return;
    atomic_store(&ring->asleep, 0);
    (void)syscall(SYS_futex, &ring->asleep, FUTEX_WAKE, 1, NULL); /* nobody there is fine */
}

/* --- notes --- */

static void push(uint32_t pe, const struct px_gpu_note *note)
{
    struct px_gpu_ring *ring = px_control_mapped(pe, &px_gpu_far.area->ring);
    uint64_t place = atomic_fetch_add(&ring->tail, 1);
    struct px_wait wait = PX_WAIT_INIT("room for a request to a PE of this node");
    while (atomic_load_explicit(&ring->entry[place % PX_GPU_RING].turn, memory_order_acquire) !=
           place)
        px_wait_turn(&wait);
    ring->entry[place % PX_GPU_RING].pe = px_peers.my_pe;
    ring->entry[place % PX_GPU_RING].note = *note;
    atomic_store_explicit(&ring->entry[place % PX_GPU_RING].turn, place + 1, memory_order_release);
    px_gpu_wake_agent(ring);
}

static void send(uint32_t pe, const struct px_gpu_note *note)
{
    if (px_control_is_mapped(pe))
        push(pe, note);
    else
        px_gpu_far.network->send_note(px_gpu_far.network_self, pe, note);
}

/* --- slots --- */

bool px_gpu_far_is_host(const void *address)
{
    unsigned type = 0;
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)address;
    return !px_gpu_holds(address) &&
           (px_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) !=
                CUDA_SUCCESS ||
            type == CU_MEMORYTYPE_HOST);
}

static void copy_local(void *dest, const void *source, size_t bytes)
{
    if (px_gpu_far_is_host(dest) && px_gpu_far_is_host(source))
        px_copy(dest, source, bytes);
    else
        px_gpu_copy(dest, source, bytes);
}

static void finish(uint32_t i)
{
    struct slot *slot = &far.slot[i];
    struct px_gpu_area *area = px_gpu_far.area;
    const void *source = slot->from_stage ? (void *)area->stage[i] : (void *)&area->record[i].old;
    if (slot->dest)
        copy_local(slot->dest, source, slot->bytes);
    if (slot->waiting)
        --*slot->waiting;
    slot->busy = false;
}

/* What has been carried out; the lock is held. */
static void reap(void)
{
    for (uint32_t i = 0; i < PX_GPU_SLOTS; i++)
        if (far.slot[i].busy && atomic_load_explicit(&px_gpu_far.area->record[i].done,
                                                     memory_order_acquire) == far.slot[i].number)
            finish(i);
}

/* Let go of the lock for a turn. */
static void turn(struct px_wait *wait)
{
    pthread_mutex_unlock(&far.lock);
    px_wait_turn(wait);
    pthread_mutex_lock(&far.lock);
    reap();
}

static uint32_t take(uint32_t pe)
{
    struct px_wait wait = PX_WAIT_INIT("room for a request to the GPU memory of a PE");
    pthread_mutex_lock(&far.lock);
    for (;;) {
        for (uint32_t i = 0; i < PX_GPU_SLOTS; i++) {
            struct slot *slot = &far.slot[i];
            if (slot->busy)
                continue;
            *slot = (struct slot){.busy = true,
                                  .number = slot->number + 1 ? slot->number + 1 : 1,
                                  .pe = pe,
                                  .issued = far.issued++};
            pthread_mutex_unlock(&far.lock);
            return i;
        }
        turn(&wait);
    }
}

static void issue(uint32_t pe, uint32_t i, struct px_gpu_note *note, const void *remote)
{
    note->slot = (uint8_t)i;
    note->number = far.slot[i].number;
    note->offset = (uintptr_t)remote - px_gpu.control;
    send(pe, note);
}

static void await(const unsigned *waiting, const char *call)
{
    struct px_wait wait = PX_WAIT_INIT(call);
    pthread_mutex_lock(&far.lock);
    reap();
    while (*waiting)
        turn(&wait);
    pthread_mutex_unlock(&far.lock);
}

/* --- operations --- */

static size_t piece_of(size_t bytes)
{
    return bytes < PX_GPU_SLOT_BYTES ? bytes : PX_GPU_SLOT_BYTES;
}

void px_gpu_far_put(uint32_t pe, void *remote, const void *source, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        struct px_gpu_note note = {.kind = PX_GPU_NOTE_PUT};
        uint32_t i = take(pe);
        n = piece_of(bytes - at);
        void *to = px_gpu_far.area->stage[i];
        if (n <= sizeof(note.operand)) {
            note.kind = PX_GPU_NOTE_STORE;
            note.width = (uint8_t)n;
            to = &note.operand;
        } else {
            note.operand = n;
        }
        copy_local(to, (const char *)source + at, n);
        issue(pe, i, &note, (char *)remote + at);
    }
}

static void issue_gets(uint32_t pe, char *dest, const char *remote, size_t bytes, unsigned *waiting)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        uint32_t i = take(pe);
        n = piece_of(bytes - at);
        struct px_gpu_note note = {.kind = PX_GPU_NOTE_GET, .operand = n};
        pthread_mutex_lock(&far.lock);
        far.slot[i].dest = dest + at;
        far.slot[i].bytes = n;
        far.slot[i].from_stage = true;
        far.slot[i].waiting = waiting;
        if (waiting)
            ++*waiting;
        pthread_mutex_unlock(&far.lock);
        issue(pe, i, &note, remote + at);
    }
}

void px_gpu_far_get(uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    unsigned waiting = 0;
    issue_gets(pe, dest, remote, bytes, &waiting);
    await(&waiting, "get from GPU memory");
}

void px_gpu_far_get_nbi(uint32_t pe, void *dest, const void *remote, size_t bytes)
{
    issue_gets(pe, dest, remote, bytes, NULL);
}

static void issue_amo(uint32_t pe, void *remote, const struct px_amo *amo, void *result,
                      unsigned *waiting)
{
    uint32_t i = take(pe);
    struct px_gpu_note note = {.kind = PX_GPU_NOTE_AMO,
                               .op = (uint8_t)amo->op,
                               .width = amo->width,
                               .operand = amo->operand,
                               .compare = amo->compare};
    pthread_mutex_lock(&far.lock);
    far.slot[i].dest = result;
    far.slot[i].bytes = amo->width;
    far.slot[i].waiting = waiting;
    if (waiting)
        ++*waiting;
    pthread_mutex_unlock(&far.lock);
    issue(pe, i, &note, remote);
}

uint64_t px_gpu_far_amo(uint32_t pe, void *remote, const struct px_amo *amo)
{
    unsigned waiting = 0;
    uint64_t old_8 = 0;
    uint32_t old_4 = 0;
    void *result = amo->width == 4 ? (void *)&old_4 : (void *)&old_8;
    if (!amo->fetching) {
        issue_amo(pe, remote, amo, NULL, NULL);
        return 0;
    }
    issue_amo(pe, remote, amo, result, &waiting);
    await(&waiting, "an atomic operation on GPU memory");
    return amo->width == 4 ? old_4 : old_8;
}

void px_gpu_far_amo_nbi(uint32_t pe, void *remote, const struct px_amo *amo, void *result)
{
    issue_amo(pe, remote, amo, result, NULL);
}

static bool any_older(uint64_t issued, uint32_t pe)
{
    for (uint32_t i = 0; i < PX_GPU_SLOTS; i++)
        if (far.slot[i].busy && far.slot[i].issued < issued &&
            (pe == UINT32_MAX || far.slot[i].pe == pe))
            return true;
    return false;
}

/* What was issued before, to one PE or to all. */
void px_gpu_far_quiet_pe(uint32_t pe)
{
    struct px_wait wait = PX_WAIT_INIT("quiet");
    pthread_mutex_lock(&far.lock);
    reap();
    for (uint64_t now = far.issued; any_older(now, pe);)
        turn(&wait);
    pthread_mutex_unlock(&far.lock);
}

void px_gpu_far_quiet(void)
{
    px_gpu_far_quiet_pe(UINT32_MAX);
}
#endif
