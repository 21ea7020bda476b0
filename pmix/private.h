/* SPDX-License-Identifier: BSD-3-Clause */
/* Between boot.c and its backends. A backend is one const table of functions; boot.c owns
 * everything that is the same for all of them: envelopes, key names, sequence numbers, failure
 * reports, watching. */
#ifndef PX_PMIX_PRIVATE_H
#define PX_PMIX_PRIVATE_H

#include <pthread.h>

#include "pmix/boot.h"

#define PX_BOOT_KEY_MAX 48 /* longest key on the wire with its end: "px<run>.<round>.<key>" */

enum px_arrival { PX_ARRIVAL_UNKNOWN, PX_ARRIVED, PX_ABSENT };

typedef bool px_found_fn(void *arg, uint32_t launcher_rank, const void *bytes, size_t length);

struct px_backend {
    const char *name;
    /* Connect and fill boot->facts, ->job, ->hosts, ->server_version; boot.c frees those, also
     * after a failure. */
    px_status (*open)(struct px_boot *boot, struct px_error *error);
    px_status (*put)(struct px_boot *boot, const char *key, const void *data, size_t length,
                     struct px_error *error);
    /* A meeting of all PEs; what was put so far reaches everybody. PX_ERR_TIMEOUT without text when the limit passes. */
    px_status (*fence)(struct px_boot *boot, struct px_error *error);
    px_status (*get)(struct px_boot *boot, uint32_t launcher_rank, const char *key, void *data,
                     size_t capacity, size_t *length, struct px_error *error);
    /* After a fence timed out: who has put `mark`, which every PE puts just before it? Leaves PX_ARRIVAL_UNKNOWN what
     * it cannot find out; NULL when it never can, then no marks are put. */
    void (*arrivals)(const struct px_boot *boot, const char *mark, enum px_arrival *state);
    /* What processes of the job have put under `key`, this one left out: calls `found` for each, until that returns true;
     * the others need not take part, nor have opened anything. PX_ERR_TIMEOUT without text when the limit passes. NULL for
     * backends whose meetings and lookups are those of the whole job. */
    px_status (*search)(struct px_boot *boot, const char *key, px_found_fn *found, void *arg,
                        struct px_error *error);
    void (*abort)(int exit_status, const char *message);
    void (*close)(struct px_boot *boot);
};

extern const struct px_backend px_backend_pmix, px_backend_pmi2, px_backend_alone;

struct px_boot {
    const struct px_backend *backend;
    struct px_boot_facts facts;    /* those of the group, once one is selected */
    struct px_boot_facts launcher; /* those of the whole job */
    uint32_t *members;             /* launcher rank of each PE of the group; NULL for the whole job */
    char *group_job, **group_hosts;
    char *job;
    char **hosts; /* [nodes], entries may be NULL */
    char server_version[64];
    unsigned timeout_s;
    uint32_t epoch; /* which round: of the whole job, counted, 0 before it begins; or a group's name */
    uint32_t
        run; /* which program of the job step this is, from 1, as far as the backend can tell */
    bool later_program; /* signs say that it is not the first */
    uint32_t exchanges; /* finished ones */
    uint32_t meetings;  /* fences entered, exchanges and barriers */
    uint32_t salt;      /* random, in each of my records */
    uint32_t view;      /* digest of what I saw in the exchange before the last; 0 unknown */
    uint32_t *seen;     /* [size] checksums of the records under seen_key, 0 not looked up yet */
    char seen_key[PX_BOOT_KEY_MAX]; /* the last key of the last exchange */
    char mark[PX_BOOT_KEY_MAX];     /* last key put since the last meeting, "" when none was */
    char (*published)[PX_BOOT_KEY_MAX];
    size_t n_published;
    int presence, at_meeting; /* sockets whose names say how far this PE has come, -1 */
    struct px_watch *watch;
    void *self; /* the backend's own */

    pthread_mutex_t lock; /* guards the rest */
    px_boot_failure_fn *on_failure;
    void *on_failure_arg;
    bool failed;
    uint32_t failed_rank;
    char failed_what[128];
};

/* nodes.c: turn one raw node number per PE, in any numbering, into the facts' node fields. */
px_status px_boot_set_nodes(struct px_boot_facts *facts, const uint32_t *raw,
                            struct px_error *error);
/* Node of each PE from "(vector,(first,nodes,tasks),...)". */
px_status px_mapping_parse(const char *mapping, uint32_t size, uint32_t *raw,
                           struct px_error *error);

/* A list of node names and the place of each in it. */
struct px_names {
    char **list;
    uint32_t count;
};
px_status px_names_add_list(struct px_names *names, const char *comma_list);
/* A list as Slurm writes it: "login,node[00-03,7]". */
px_status px_names_add_slurm(struct px_names *names, const char *list);
/* The name's place; a new name is added at the end. */
px_status px_names_index(struct px_names *names, const char *name, uint32_t *index);
void px_names_free(struct px_names *names);

/* boot.c: a PE ended, from any thread. `sure`: it failed, so meetings cannot happen any more;
 * otherwise the callback decides whether its end was in order. */
void px_boot_failed(struct px_boot *boot, uint32_t rank, const char *what, bool sure);
bool px_boot_has_failed(struct px_boot *boot);
px_status px_boot_failure(struct px_boot *boot,
                          struct px_error *error); /* what it was: PX_ERR_PEER */

static inline uint32_t px_launcher_rank(const struct px_boot *boot, uint32_t pe)
{
    return boot->members ? boot->members[pe] : pe;
}

/* group.c: what a launcher says of one of its processes, UINT32_MAX for an unnamed one; like px_boot_failed, for members. */
void px_boot_event(struct px_boot *boot, uint32_t launcher_rank, const char *what, bool sure);
void px_group_release(struct px_boot *boot);

/* missing.c: the text of a meeting that did not happen in time; and for one that broke, the PEs of this node whose
 * processes are gone, put in front of the text that is there. */
void px_missing_report(const struct px_boot *boot, const char *mark, struct px_error *error);
void px_missing_dead(const struct px_boot *boot, struct px_error *error);
bool px_missing_is_dead(const struct px_boot *boot,
                        uint32_t rank); /* a PE of this node, known to be gone */

/* bounded.c: run fn on a copy of arg in a thread of its own; false when it has not come back after
 * timeout_s seconds (0: wait for ever). The result is in *arg only after true. */
bool px_bounded_call(void (*fn)(void *arg), void *arg, size_t size, unsigned timeout_s);

/* Monotonic deadline in `seconds` from now, for pthread_cond_timedwait on a px_cond_init condition.
 */
struct timespec px_deadline(unsigned seconds);
void px_cond_init(pthread_cond_t *cond);

/* watch.c */
struct px_watch;
px_status px_watch_add(struct px_boot *boot, const uint32_t *ranks, const int *pids, size_t count,
                       struct px_error *error);
void px_watch_close(struct px_watch *watch);

#endif
