/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of far.h: a thread that carries out what PEs ask of this PE's GPU memory while
 * the program computes. Requests come as notes, from the network (a list) or from PEs of this node (a
 * ring in the control area); those of one PE come by one of the two and are served in order.
 *
 * Nothing in a note is trusted: places and sizes are checked against the memory that exists. */
#include "config.h"
#include "src/gpu/far.h"

#if PX_HAVE_CUDA
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/diag/log.h"
#include "src/gpu/move.h"
#include "src/gpu/window.h"
#include "src/transport/wait.h"

#define SPIN_TURNS 2000 /* looks before sleeping, where PEs have processors of their own */

struct kept {
    struct kept *next;
    uint32_t pe;
    struct px_gpu_note note;
};

static struct {
    pthread_mutex_t lock; /* of the list */
    struct kept *first, **end;
    _Atomic uint64_t listed; /* notes ever put there */
    uint64_t taken;          /* and taken, by the thread */
    uint64_t head;           /* of the ring */
    pthread_t thread;
    bool runs, pinned;
    _Atomic bool stop;
    CUstream stream;
    uint64_t *word; /* pinned: old values, small puts */
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- notes --- */

void px_gpu_take_note(uint32_t pe, const void *note)
{
    struct kept *kept = malloc(sizeof(*kept));
    if (!kept || !px_gpu_far.area || !agent.runs)
        px_fatal(1, "a request of PE %u to GPU memory comes where nobody can serve it", pe);
    kept->next = NULL;
    kept->pe = pe;
    memcpy(&kept->note, note, sizeof(kept->note));
    pthread_mutex_lock(&agent.lock);
    *agent.end = kept;
    agent.end = &kept->next;
    pthread_mutex_unlock(&agent.lock);
    atomic_fetch_add(&agent.listed, 1);
    px_gpu_wake_agent(&px_gpu_far.area->ring);
}

static bool ring_has_one(void)
{
    return atomic_load_explicit(&px_gpu_far.area->ring.entry[agent.head % PX_GPU_RING].turn,
                                memory_order_acquire) == agent.head + 1;
}

static bool has_one(void)
{
    return atomic_load(&agent.listed) != agent.taken || ring_has_one();
}

static bool from_list(uint32_t *pe, struct px_gpu_note *note)
{
    if (atomic_load(&agent.listed) == agent.taken)
        return false;
    pthread_mutex_lock(&agent.lock);
    struct kept *kept = agent.first;
    agent.first = kept->next;
    if (!agent.first)
        agent.end = &agent.first;
    pthread_mutex_unlock(&agent.lock);
    agent.taken++;
    *pe = kept->pe;
    *note = kept->note;
    free(kept);
    return true;
}

static bool from_ring(uint32_t *pe, struct px_gpu_note *note)
{
    struct px_gpu_ring *ring = &px_gpu_far.area->ring;
    if (!ring_has_one())
        return false;
    *pe = ring->entry[agent.head % PX_GPU_RING].pe;
    *note = ring->entry[agent.head % PX_GPU_RING].note;
    atomic_store_explicit(&ring->entry[agent.head % PX_GPU_RING].turn, agent.head + PX_GPU_RING,
                          memory_order_release);
    agent.head++;
    return true;
}

/* Until there is something, perhaps. */
static void rest(void)
{
    _Atomic uint32_t *asleep = &px_gpu_far.area->ring.asleep;
    for (int i = 0; px_wait_policy.spin_turns && i < SPIN_TURNS; i++) {
        if (has_one())
            return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    atomic_store(asleep, 1);
    if (!has_one() && !atomic_load(&agent.stop))
        (void)syscall(SYS_futex, asleep, FUTEX_WAIT, 1, NULL); /* any outcome means: look again */
    atomic_store(asleep, 0);
}

/* --- carrying out --- */

static _Noreturn void bad_note(uint32_t pe, const struct px_gpu_note *note)
{
    px_fatal(1,
             "PE %u asks for something impossible of the GPU memory of this PE: kind %u, operation "
             "%u, %u bytes wide, slot %u, offset %#llx, operand %#llx; do all PEs use the same "
             "version of the library?",
             pe, note->kind, note->op, note->width, note->slot, (unsigned long long)note->offset,
             (unsigned long long)note->operand);
}

static void *place(uint32_t pe, const struct px_gpu_note *note, size_t bytes)
{
    size_t all = px_gpu_window_bytes();
    if (pe >= px_peers.n_pes || note->slot >= PX_GPU_SLOTS || bytes > all ||
        note->offset > all - bytes)
        bad_note(pe, note);
    return (void *)(px_gpu.control + note->offset);
}

static void *staged(uint32_t pe, const struct px_gpu_note *note)
{
    if (note->operand > PX_GPU_SLOT_BYTES)
        bad_note(pe, note);
    return place(pe, note, note->operand);
}

static void copy(void *dest, const void *source, size_t bytes)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_cu(&error, cuMemcpyAsync((CUdeviceptr)(uintptr_t)dest, (CUdeviceptr)(uintptr_t)source,
                                    bytes, agent.stream)) != PX_OK ||
        px_cu(&error, cuStreamSynchronize(agent.stream)) != PX_OK)
        px_fatal(1, "serving another PE on %s: %s", px_gpu.name, error.text);
}

static void mark(uint32_t pe, const struct px_gpu_note *note, void *control, const void *source,
                 size_t bytes)
{
    px_gpu_far_write(pe, control, source, bytes, &px_gpu_far.area->record[note->slot].done,
                     note->number);
}

static void take_put(uint32_t pe, const struct px_gpu_note *note)
{
    struct px_gpu_area *area = px_gpu_far.area;
    void *dest = staged(pe, note), *source = area->agent_stage;
    if (px_control_is_mapped(pe))
        source = px_control_mapped(pe, area->stage[note->slot]);
    else
        px_gpu_far_read(pe, source, area->stage[note->slot], note->operand);
    copy(dest, source, note->operand);
    mark(pe, note, NULL, NULL, 0);
}

static void give_get(uint32_t pe, const struct px_gpu_note *note)
{
    struct px_gpu_area *area = px_gpu_far.area;
    copy(area->agent_stage, staged(pe, note), note->operand);
    mark(pe, note, area->stage[note->slot], area->agent_stage, note->operand);
}

static void do_amo(uint32_t pe, const struct px_gpu_note *note)
{
    struct px_error error = PX_ERROR_INIT;
    const struct px_amo amo = {.op = (enum px_amo_op)note->op,
                               .width = note->width,
                               .operand = note->operand,
                               .compare = note->compare};
    if (note->op >= PX_AMO_COUNT || (note->width != 4 && note->width != 8) ||
        note->offset % note->width)
        bad_note(pe, note);
    if (px_gpu_amo_start(place(pe, note, note->width), &amo, agent.word, agent.stream, &error) !=
            PX_OK ||
        px_cu(&error, cuStreamSynchronize(agent.stream)) != PX_OK)
        px_fatal(1, "an atomic operation of PE %u on %s: %s", pe, px_gpu.name, error.text);
    uint64_t old = *(volatile uint64_t *)agent.word;
    mark(pe, note, &px_gpu_far.area->record[note->slot].old, &old, sizeof(old));
}

static void do_store(uint32_t pe, const struct px_gpu_note *note)
{
    if (note->width > sizeof(note->operand))
        bad_note(pe, note);
    *agent.word = note->operand;
    copy(place(pe, note, note->width), agent.word, note->width);
    mark(pe, note, NULL, NULL, 0);
}

static void carry_out(uint32_t pe, const struct px_gpu_note *note)
{
    switch (note->kind) {
    case PX_GPU_NOTE_PUT:
        take_put(pe, note);
        break;
    case PX_GPU_NOTE_GET:
        give_get(pe, note);
        return;
    case PX_GPU_NOTE_AMO:
        do_amo(pe, note);
        break;
    case PX_GPU_NOTE_STORE:
        do_store(pe, note);
        break;
    default:
        bad_note(pe, note);
    }
    if (px_wait_policy.sleeping)
        px_wait_wake(px_wait_policy.sleeping); /* this may be what the program waits for */
}

static void *serve(void *arg)
{
    struct px_error error = PX_ERROR_INIT;
    uint32_t pe;
    struct px_gpu_note note;
    (void)arg;
    if (px_cu(&error, cuCtxSetCurrent(px_gpu.context)) != PX_OK)
        px_fatal(1, "serving other PEs on %s: %s", px_gpu.name, error.text);
    while (!atomic_load(&agent.stop)) {
        if (from_list(&pe, &note) || from_ring(&pe, &note))
            carry_out(pe, &note);
        else
            rest();
    }
    return NULL;
}

/* --- start and stop --- */

/* Copies to and from pinned memory need no detour through the driver's own. */
static void pin(void)
{
    struct px_error why = PX_ERROR_INIT;
    struct px_gpu_area *area = px_gpu_far.area;
    size_t bytes = sizeof(*area) - offsetof(struct px_gpu_area, stage);
    agent.pinned =
        px_cu(&why, cuMemHostRegister(area->stage, bytes, CU_MEMHOSTREGISTER_PORTABLE)) == PX_OK;
    if (!agent.pinned)
        px_info(PX_SUB_MEM, "staging of GPU memory is not pinned: %s", why.text);
}

static px_status make_tools(struct px_error *error)
{
    struct px_gpu_visit visit;
    px_status status = px_gpu_enter(&visit, error);
    if (status != PX_OK)
        return status;
    status = px_cu(error, cuStreamCreate(&agent.stream, CU_STREAM_NON_BLOCKING));
    if (status == PX_OK)
        status = px_cu(error, cuMemHostAlloc((void **)&agent.word, sizeof(*agent.word),
                                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    if (status == PX_OK)
        pin();
    px_gpu_leave(&visit);
    return status;
}

static void drop_tools(void)
{
    struct px_gpu_visit visit;
    if (px_gpu_enter(&visit, NULL) != PX_OK)
        return;
    if (agent.pinned)
        (void)px_cuda.cuMemHostUnregister(px_gpu_far.area->stage); /* ours, as all here */
    if (agent.word)
        (void)px_cuda.cuMemFreeHost(agent.word);
    if (agent.stream)
        (void)px_cuda.cuStreamDestroy(agent.stream);
    agent.pinned = false;
    agent.word = NULL;
    agent.stream = NULL;
    px_gpu_leave(&visit);
}

/* Signals are the program's: its handlers must not run in a thread that it does not know. */
static int create_thread(void)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&agent.thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!failed)
        (void)pthread_setname_np(agent.thread, "pxshmem-gpu"); /* for debuggers only */
    return failed;
}

px_status px_gpu_agent_start(struct px_error *error)
{
    agent.first = NULL;
    agent.end = &agent.first;
    agent.taken = agent.head = 0;
    atomic_store(&agent.listed, 0);
    atomic_store(&agent.stop, false);
    px_status status = make_tools(error);
    int failed = status == PX_OK ? create_thread() : 0;
    if (failed)
        status = px_error_errno(error, failed, "the thread that serves GPU memory cannot start");
    agent.runs = status == PX_OK;
    if (status != PX_OK)
        drop_tools();
    return status;
}

void px_gpu_agent_stop(void)
{
    if (!agent.runs)
        return;
    atomic_store(&agent.stop, true);
    px_gpu_wake_agent(&px_gpu_far.area->ring);
    (void)pthread_join(agent.thread, NULL); /* created by us */
    agent.runs = false;
    drop_tools();
}
#endif
