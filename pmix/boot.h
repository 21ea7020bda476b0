/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap: who am I, publish, exchange, look up, meet, hear of failures, abort. One small
 * interface over three backends (pmix, pmi2, alone). No sockets and no files of ours; nothing here
 * knows the public interface or the heap.
 *
 * Every wait is bounded by the timeout given at open. Errors name the PEs that are missing, with
 * their nodes. */
#ifndef PX_PMIX_BOOT_H
#define PX_PMIX_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/diag/error.h"

struct px_boot;

struct px_boot_options {
    const char
        *backend; /* "", "auto" or "pmi" (what is there), "pmix", "pmi2" or "pmi-2", "alone" */
    unsigned timeout_s; /* limit of each wait, seconds; 0 waits for ever */
    bool allow_alone; /* a task of a multi-task step may run as a job of one (an explicit override)
                       */
};

/* Facts that never change between open and close, except by px_boot_select; arrays are owned by the boot object. */
struct px_boot_facts {
    const char *backend;        /* "pmix", "pmi2" or "alone" */
    const char *job;            /* the launcher's name of the job, unique on the node */
    const char *client_version; /* as "PMIx 4.2.2"; never NULL */
    const char *server_version; /* "" when the server does not say */
    uint32_t rank, size;
    uint32_t node, nodes;            /* my node, 0 .. nodes-1 in the launcher's order */
    uint32_t local_rank, local_size; /* my position among local_ranks */
    const uint32_t *local_ranks;     /* PEs of my node in ascending order, me included */
    const uint32_t *node_of;         /* [size] node number of every PE */
};

px_status px_boot_open(const struct px_boot_options *options, struct px_boot **boot,
                       struct px_error *error);
const struct px_boot_facts *px_boot_facts(const struct px_boot *boot);

/* The host name of a node as the launcher spells it; "node N" where it does not say. Never NULL. */
const char *px_boot_host(const struct px_boot *boot, uint32_t node);

/* From now on the job is these processes in this order, by their ranks in the launcher's job: facts, meetings, lookups,
 * failures and reports speak of the group's PEs. All members select the same with the same tag, a number of 31 bits that
 * no earlier group of theirs had; facts->job differs from that of other groups. Not collective. May be called again, with
 * launcher ranks as before. PMI-2 only takes the whole job, in any order. */
px_status px_boot_select(struct px_boot *boot, const uint32_t *ranks, uint32_t count, uint32_t tag,
                         struct px_error *error);

/* Collective over `count` processes that share nothing but a random token and know their place among each other: finds
 * their launcher ranks, and a tag for px_boot_select. The other processes of the job take no part. */
px_status px_boot_gather(struct px_boot *boot, uint64_t token, uint32_t index, uint32_t count,
                         uint32_t *ranks, uint32_t *tag, struct px_error *error);

/* A tag from a number that all members have, and which use of it this is. */
uint32_t px_group_tag(uint64_t value, uint32_t use);

/* Offer bytes under a short key (at most 24 characters, each used once between open and close);
 * visible to others after the next exchange. */
px_status px_boot_publish(struct px_boot *boot, const char *key, const void *data, size_t length,
                          struct px_error *error);

/* Collective: a collecting fence. After it lookups of published data do not wait. */
px_status px_boot_exchange(struct px_boot *boot, struct px_error *error);

/* Copy what `rank` published under `key`; PX_ERR_NOT_FOUND, PX_ERR_PROTOCOL when longer than
 * `capacity`. */
px_status px_boot_lookup(struct px_boot *boot, uint32_t rank, const char *key, void *data,
                         size_t capacity, size_t *length, struct px_error *error);

/* Collective: nobody returns before all have come. */
px_status px_boot_barrier(struct px_boot *boot, struct px_error *error);

/* A new limit of each wait, seconds. */
void px_boot_limit(struct px_boot *boot, unsigned timeout_s);

/* Called, from any thread, when the launcher or the node says that a PE died; rank is UINT32_MAX
 * when unknown. */
typedef void px_boot_failure_fn(void *arg, uint32_t rank, const char *what);
void px_boot_on_failure(struct px_boot *boot, px_boot_failure_fn *fn, void *arg);

/* Watch processes of this node (their pids as seen from here, 0 = not watchable): on_failure is
 * called when one ends. The callback decides whether that end was in order. The watching thread
 * sleeps in poll. */
px_status px_boot_watch(struct px_boot *boot, const uint32_t *ranks, const int *pids, size_t count,
                        struct px_error *error);

/* End the whole job. Does not return when the launcher obeys. `boot` may be NULL: after close, or an open that failed
 * after it had joined, the launcher is still told; a process that never joined cannot tell anybody. */
void px_boot_abort(struct px_boot *boot, int exit_status, const char *message);

/* Not collective: leave. Never finalises a PMIx that somebody else (MPI) still uses. NULL is
 * harmless. */
void px_boot_close(struct px_boot *boot);

#endif
