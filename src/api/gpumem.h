/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs' memory on the GPU: what start-up, allocation and finalise do about it. Without CUDA at
 * build time px_on_gpu is constant and nothing of this is called. */
#ifndef PX_API_GPUMEM_H
#define PX_API_GPUMEM_H

#include "src/api/world.h"

#define px_on_gpu (PX_HAVE_CUDA && px_world.on_gpu)

/* Decides by NVSHMEM_HEAP_KIND and what is there; sets px_world.on_gpu and takes this PE's seat
 * (place.h). Fails when a GPU was demanded, or for place.h's reasons. */
px_status px_gpumem_choose(struct px_error *error);
/* Opens the GPU that place.h gave; without success, if none was demanded, px_on_gpu is false. */
px_status px_gpumem_open(struct px_error *error);

/* The parts of this PE alone, in this order. */
size_t px_gpumem_host_bytes(void);  /* more of the control area: card and stages */
size_t px_gpumem_front_bytes(void); /* of GPU memory in front of programs' */
void px_gpumem_heap_options(struct px_heap_options *options);
px_status px_gpumem_create(size_t bytes, struct px_error *error);
/* `anywhere`: CUDA refused what was agreed in earlier rounds, so each PE takes what it gets. */
px_status px_gpumem_place(const struct px_heap_card *cards, uint32_t n_pes, bool anywhere,
                          struct px_error *error);
/* AUTO, but another PE has no GPU: back to host memory, before anything was placed. */
void px_gpumem_give_up(const char *why);

/* Collective, when teams are open. */
px_status px_gpumem_connect(struct px_error *error);
void px_gpumem_disconnect(void);
void px_gpumem_close(void); /* frees memory and device */

/* The heap has `bytes` from now on here; then all meet and the mover's add_memory maps the peers. */
px_status px_gpumem_grow(size_t bytes, struct px_error *error);
void px_gpumem_undo(size_t bytes);
px_status px_gpumem_reset(size_t bytes, struct px_error *error);
void px_gpumem_clear(void *address, size_t bytes);

/* For the transport: who takes notes, NULL when nobody does. */
typedef void px_gpumem_note_fn(uint32_t pe, const void *note);
px_gpumem_note_fn *px_gpumem_take_note(void);

void *px_gpumem_ptr(const void *dest, uint32_t pe);
/* "; GPU 0 (...): 3 of 140 GiB free", or "". Returns text. */
const char *px_gpumem_free_words(char *text, size_t size);
const char *px_gpumem_words(char *text, size_t size); /* how memory is made */

uintptr_t px_gpumem_stages(void);

#endif
