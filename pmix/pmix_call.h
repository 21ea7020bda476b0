/* SPDX-License-Identifier: BSD-3-Clause */
/* Single PMIx calls with limits, error texts and memory in order, for backend_pmix.c alone. */
#ifndef PX_PMIX_PMIX_CALL_H
#define PX_PMIX_PMIX_CALL_H

#include <pmix.h>

#include "pmix/private.h"

/* PMIx's code as ours, with the call and PMIx's words. */
px_status px_pmix_status(pmix_status_t code, const char *call, struct px_error *error);

/* Why PMIx_Init may have failed, from what this process can see (pmix_explain.c). */
px_status px_pmix_explain_init(pmix_status_t code, struct px_error *error);
/* The server's version as it told us at start-up; "" when it did not. */
void px_pmix_server_version(char *version, size_t size);

/* Facts of the job from this process's own store: no message is sent. The string is the caller's.
 */
bool px_pmix_get_u32(const pmix_proc_t *me, pmix_rank_t rank, const char *key, uint32_t *value);
char *px_pmix_get_string(const pmix_proc_t *me, pmix_rank_t rank, const char *key);

/* Did the client's own store lack a fact? Then this is not the first program of its job step. */
bool px_pmix_store_is_damaged(void);

/* A byte object that some PE has put. */
px_status px_pmix_get_bytes(const pmix_proc_t *me, pmix_rank_t rank, const char *key,
                            unsigned timeout_s, void *data, size_t capacity, size_t *length,
                            struct px_error *error);

/* All processes of the job; ends early when the launcher reports a failed PE. PX_ERR_TIMEOUT has no text.
 */
px_status px_pmix_fence(struct px_boot *boot, const pmix_proc_t *me, struct px_error *error);
/* Fences that were given up and that PMIx still has. */
unsigned px_pmix_fences_pending(void);

/* Which PEs have put `key`? Asks for all of them at once, waits a few seconds. */
void px_pmix_find_marks(const struct px_boot *boot, const pmix_proc_t *me, const char *key,
                        enum px_arrival *state);

/* As struct px_backend says of `search`, among the members of the group when one is selected; what was put here must be committed. */
px_status px_pmix_search(struct px_boot *boot, const pmix_proc_t *me, const char *key,
                         px_found_fn *found, void *arg, struct px_error *error);

#endif
