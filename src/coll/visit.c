/* SPDX-License-Identifier: BSD-3-Clause */
/* Entering and leaving a collective: tell the others where this PE is, and reduce the call with its
 * arguments to the digest that its flags carry. Both are on the path of a barrier, so names are
 * hashed once and found again by address: a call's name must be a string that lives and stays as it
 * is, in practice a literal.
 *
 * Readers of px_where look at `sequence` before and after: it is odd while the rest holds still. */
#include "config.h"
#include "src/coll/private.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/diag/log.h"

#define NAMES  512 /* a power of two */
#define PROBES 8

/* Insert-only: an entry is complete before its name is set, and then never changes. */
struct name {
    _Atomic(const char *) name;
    uint32_t hash;
    char text[sizeof(((struct px_where *)0)->call)];
};
static struct name names[NAMES];
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static void describe_name(struct name *entry, const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *p = name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    entry->hash = hash;
    snprintf(entry->text, sizeof(entry->text), "%s", name);
}

static size_t first_probe(const char *name)
{
    return ((uintptr_t)name ^ (uintptr_t)name >> 9) & (NAMES - 1);
}

static const struct name *add_name(const char *name, struct name *spare)
{
    struct name *entry = spare;
    pthread_mutex_lock(&names_lock);
    for (size_t i = 0; i < PROBES; i++) {
        struct name *place = &names[(first_probe(name) + i) & (NAMES - 1)];
        if (!atomic_load_explicit(&place->name, memory_order_relaxed)) {
            entry = place;
            break;
        }
    }
    describe_name(entry, name);
    atomic_store_explicit(&entry->name, name, memory_order_release);
    pthread_mutex_unlock(&names_lock);
    return entry;
}

/* `spare` serves when the table is full around this name. */
static inline const struct name *find_name(const char *name, struct name *spare)
{
    for (size_t i = 0; i < PROBES; i++) {
        const struct name *entry = &names[(first_probe(name) + i) & (NAMES - 1)];
        const char *known = atomic_load_explicit(&entry->name, memory_order_acquire);
        if (known == name)
            return entry;
        if (!known)
            break;
    }
    return add_name(name, spare);
}

/* A sum of products: independent multiplications, so that the digest does not delay the first flag.
 */
static inline uint32_t digest_of(const struct px_call *call, uint32_t hash)
{
    static const uint64_t odd[4] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                    0xd6e8feb86659fd93u};
    uint64_t sum = (uint64_t)hash << 32;
    for (unsigned i = 0; i < 4; i++)
        if (!(call->own & 1u << i))
            sum += (call->arguments[i] ^ call->arguments[i] >> 32) * odd[i];
    return (uint32_t)(sum >> 32);
}

/* Of threads that are in collectives of several teams at once one speaks for the PE. A locked instruction would cost a
 * sixth of a barrier, so two that enter in the same nanoseconds may both speak, and a report show a mixture. */
static atomic_bool speaking;

static inline bool announce(int32_t handle, const struct px_call *call, const struct name *name)
{
    struct px_where *where = &px_coll.control->where;
    if (atomic_load_explicit(&speaking, memory_order_relaxed))
        return false;
    atomic_store_explicit(&speaking, true, memory_order_relaxed);
    memcpy(where->call, name->text, sizeof(where->call));
    memcpy(where->arguments, call->arguments, sizeof(where->arguments));
    where->team = handle;
    atomic_store_explicit(&where->since_ns, 0, memory_order_relaxed);
    uint64_t sequence = atomic_load_explicit(&where->sequence, memory_order_relaxed);
    atomic_store_explicit(&where->sequence, sequence | 1, memory_order_release);
    return true;
}

struct px_visit px_announce(const struct px_call *call)
{
    struct name spare;
    return (struct px_visit){.call = call,
                             .announced = announce(-1, call, find_name(call->name, &spare))};
}

struct px_visit px_enter(struct px_team *team, const struct px_call *call)
{
    struct name spare;
    const struct name *name = find_name(call->name, &spare);
    return (struct px_visit){.team = team,
                             .call = call,
                             .digest = digest_of(call, name->hash),
                             .announced = announce(team->handle, call, name)};
}

void px_leave(const struct px_visit *visit)
{
    if (!visit->announced)
        return;
    _Atomic uint64_t *sequence = &px_coll.control->where.sequence;
    uint64_t now = atomic_load_explicit(sequence, memory_order_relaxed);
    atomic_store_explicit(sequence, (now | 1) + 1, memory_order_release);
    atomic_store_explicit(&speaking, false, memory_order_relaxed);
}

void px_visit_since(const struct px_visit *visit)
{
    struct timespec now;
    if (!visit->announced)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    atomic_store_explicit(&px_coll.control->where.since_ns,
                          (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                          memory_order_relaxed);
}

static int print_argument(char *text, size_t size, uint64_t value)
{
    return value >> 32 ? snprintf(text, size, "0x%" PRIx64, value)
                       : snprintf(text, size, "%" PRId32, (int32_t)value);
}

/* "nvshmem_broadcastmem(0x7f.., 0x7f.., 64, 2)": trailing zeros are arguments that the call does
 * not have, or zeros. */
static void print_call(char *text, size_t size, const char *name, const uint64_t arguments[4])
{
    size_t used = (size_t)snprintf(text, size, "%.43s(", name);
    unsigned count = 4;
    while (count && !arguments[count - 1])
        count--;
    for (unsigned i = 0; i < count && used < size; i++) {
        used += (size_t)print_argument(text + used, size - used, arguments[i]);
        if (i + 1 < count && used < size)
            used += (size_t)snprintf(text + used, size - used, ", ");
    }
    if (used < size)
        snprintf(text + used, size - used, ")");
}

/* What another PE says of itself; false when it has moved on meanwhile, or speaks of another team. */
static bool read_where(uint32_t pe, int32_t team, struct px_where *where)
{
    struct px_where again;
    px_get(pe, where, &px_coll.control->where, sizeof(*where));
    px_get(pe, &again, &px_coll.control->where, sizeof(again));
    where->call[sizeof(where->call) - 1] = '\0';
    return (where->sequence & 1) && where->sequence == again.sequence &&
           (where->team == team || where->team == -1);
}

/* Both sides of the disagreement build the same text, the lower PE first, so that the log prints it
 * once a node. */
void px_coll_mismatch(const struct px_visit *visit, uint32_t pe)
{
    char mine[256], theirs[256] = "another collective";
    struct px_where where;
    print_call(mine, sizeof(mine), visit->call->name, visit->call->arguments);
    if (read_where(pe, visit->team->handle, &where))
        print_call(theirs, sizeof(theirs), where.call, where.arguments);
    uint32_t me = px_coll.setup.my_pe;
    if (!px_log_first_on_node("collective mismatch"))
        nanosleep(&(struct timespec){.tv_sec = 2},
                  NULL); /* another pair says it and ends the job */
    px_fatal(1,
             "collective calls do not match on team %d of %u PEs: PE %u is in %s, PE %u in %s; "
             "every member of a team "
             "makes the same calls with the same arguments in the same order",
             (int)visit->team->handle, visit->team->size, me < pe ? me : pe,
             me < pe ? mine : theirs, me < pe ? pe : me, me < pe ? theirs : mine);
}
