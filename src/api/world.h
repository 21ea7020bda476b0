/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the library in this process, from init to finalise. One instance; everything that is not the interface
 * itself lives in the layers below. */
#ifndef PX_API_WORLD_H
#define PX_API_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "heap/heap.h"
#include "pmix/boot.h"
#include "src/api/place.h"
#include "src/diag/error.h"
#include "src/env/env.h"
#include "src/transport/control.h"

/* The one branch of the hot path: 0 while the library is up and no checks are asked for. */
#define PX_GATE_DOWN  1u /* not initialised, or finalised, or initialisation failed */
#define PX_GATE_CHECK 2u /* NVSHMEM_CHECK */
extern unsigned px_gate __attribute__((visibility("hidden")));

enum px_life { PX_LIFE_NEW, PX_LIFE_UP, PX_LIFE_FINALIZED, PX_LIFE_FAILED };

struct px_world {
    enum px_life life;
    unsigned inits;   /* init calls without their finalise */
    struct px_env env;
    struct px_boot *boot;
    const struct px_boot_facts *facts;
    struct px_heap *heap;
    bool on_gpu; /* programs' memory is GPU memory: gpumem.h */
    /* What an address is that only the GPU's driver knows; NULL without one. */
    bool (*describe_gpu)(const void *address, char *text, size_t size);
    struct px_place place; /* from the first meeting on */
    struct px_heap_facts memory;
    struct px_control *control; /* mine, in the window */
    uint32_t *pids;             /* [size] as their owners see them; 0 = not known */
    uint64_t token;             /* of the unique id that this world started with; 0 = none */
    struct px_error failure;    /* of the last init that failed */
    bool said_elsewhere;        /* another PE failed and says so */
    int first_error;            /* for nvshmem_error_check; 0 = none */
    char first_error_text[512];
    pthread_mutex_t setup_lock; /* init, finalise */
    pthread_rwlock_t books;     /* of the allocator: memory.c writes, argument checks of all threads read */
};
extern struct px_world px_world;

/* The PEs, as ranks in the launcher's job. */
struct px_members {
    uint32_t *ranks; /* [count] allocated */
    uint32_t count;
    uint32_t tag;   /* for px_boot_select */
    uint64_t token; /* of a unique id, or 0 */
};

/* Who takes part, and how. */
struct px_start {
    /* Finds the PEs once the launcher is joined; NULL: they are the launcher's. Also called, with NULL for `boot` and the
     * reason in `error`, where it could not be joined, so that the other PEs can be told. */
    px_status (*members)(void *arg, struct px_boot *boot, struct px_members *members, struct px_error *error);
    /* Called instead when the library is up: are these the PEs it is up with? NULL: any are. */
    px_status (*nested)(void *arg, struct px_error *error);
    void *arg;
};

/* Collective over the PEs that start. On failure everything is undone and px_world.failure says why. */
px_status px_world_start(const struct px_start *start, struct px_error *error);

/* Collective: all have met before. Undoes px_world_start in reverse. */
void px_world_stop(void);

/* setup.c: init with its count, for the other ways to initialise; returns an nvshmemx_status. */
int px_start_with(const struct px_start *how, const char *call);

/* setup.c: says why `call` failed and keeps it for nvshmem_error_check; returns the nvshmemx_status. */
int px_start_failed(const char *call, const struct px_error *error);

/* Keep the first error of the program's life for nvshmem_error_check; `code` is an nvshmemx_status. */
void px_world_note_error(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* describe.c: ends the job with a message that names `call` unless the library is up; after a failed init it repeats the cause. */
void px_world_refuse_down(const char *call);
static inline void px_world_require_up(const char *call)
{
    if (__builtin_expect(px_gate & PX_GATE_DOWN, 0))
        px_world_refuse_down(call);
}

/* describe.c: what an address is, also while another thread allocates. */
void px_world_where(const void *address, struct px_heap_where *where);

/* The same in words: private memory, a peer's window, a freed block ... with the heap's bounds. */
void px_world_describe(const void *address, char *text, size_t size);

/* A PE in words: "PE 3 (node1)". Returns text. */
const char *px_world_pe_name(uint32_t pe, char *text, size_t size);

/* startup.c: the rounds in which PEs exchange cards, agree on an address and map each other. `mine` is what has failed
 * on this PE so far, or clear; the others learn of it. On success px_world.memory and px_peers are filled and a transport
 * is open where one is needed. */
px_status px_world_create_heap(struct px_error *error); /* memory of this PE, of the kind px_world.on_gpu says */
void px_startup_peers(struct px_heap_peer *peers); /* the PEs of this node, facts->local_size of them */
const struct px_card_seat *px_startup_seat(uint32_t pe);
px_status px_startup_meet(size_t heap_bytes, struct px_error *mine, struct px_error *error);
void px_startup_gpus(uint32_t *gpu_of); /* [size] the first PE that uses the same GPU */
void px_startup_close_transport(void);
void px_startup_forget(void); /* also closes the transport */

/* hang.c: print where every PE is. */
struct px_wait;
void px_hang_report(const struct px_wait *wait);

#endif
