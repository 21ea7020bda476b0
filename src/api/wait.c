/* SPDX-License-Identifier: BSD-3-Clause */
/* wait_until and test (9.11) over one element or a set of them. One comparison serves all types: a
 * loaded word is widened to 64 bits and, when its type is signed, moved up by half the range, so
 * that unsigned order is its order.
 *
 * Words are loaded with acquire: what was put before the update that is seen is seen too. Each look
 * at a set starts at another element, so that one that stays true is not hidden for ever by another
 * one. */
#include "config.h"
#include "src/api/wait.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvshmem.h"
#include "src/api/check.h"
#include "src/transport/wait.h"

struct set {
    const char *ivars, *values;
    size_t nelems, size, step; /* bytes; step 0: one value for all */
    const int *status;
    uint64_t flip; /* sign bit of signed types */
    int cmp;
};

/* Sign extension by shifts: `size` bytes of the word count. */
static uint64_t widen(uint64_t word, size_t size, uint64_t flip)
{
    unsigned unused = 64 - 8 * (unsigned)size;
    word <<= unused;
    return flip ? (uint64_t)((int64_t)word >> unused) ^ flip : word >> unused;
}

static uint64_t value_of(const struct set *set, size_t i)
{
    uint64_t value = 0;
    memcpy(&value, set->values + i * set->step, set->size); /* little endian */
    return widen(value, set->size, set->flip);
}

static bool holds(const struct set *set, size_t i)
{
    uint64_t seen = widen(px_own_word(set->ivars + i * set->size, set->size), set->size, set->flip);
    uint64_t value = value_of(set, i);
    switch (set->cmp) {
    case NVSHMEM_CMP_EQ:
        return seen == value;
    case NVSHMEM_CMP_NE:
        return seen != value;
    case NVSHMEM_CMP_GT:
        return seen > value;
    case NVSHMEM_CMP_LE:
        return seen <= value;
    case NVSHMEM_CMP_LT:
        return seen < value;
    default:
        return seen >= value;
    }
}

static bool masked(const struct set *set, size_t i)
{
    return set->status && set->status[i];
}

static struct set set_of(const void *ivars, size_t nelems, const int *status, int cmp,
                         const void *values, size_t step, enum px_dtype type, const char *call)
{
    size_t size = px_dtype_info[type].size;
    if (px_suspect_call())
        px_check_own(call, nelems == 1 && !status ? "ivar" : "ivars", ivars, nelems, size);
    if (cmp < NVSHMEM_CMP_EQ || cmp > NVSHMEM_CMP_GE)
        px_check_bad_comparison(call, cmp);
    return (struct set){.ivars = ivars,
                        .values = values,
                        .nelems = nelems,
                        .size = size,
                        .step = step * size,
                        .status = status,
                        .flip = px_dtype_info[type].is_signed ? (uint64_t)1 << 63 : 0,
                        .cmp = cmp};
}

/* Where to start: steps of the golden ratio meet every index, also when calls on two sets take
 * turns. */
static size_t first_look(size_t nelems)
{
    static _Thread_local uint64_t turn;
    turn += 0x9e3779b97f4a7c15;
    return (size_t)((unsigned __int128)turn * nelems >> 64);
}

/* An index that holds, SIZE_MAX when none does. `left` is how many elements are not masked. */
static size_t find_any(const struct set *set, size_t *left)
{
    size_t start = first_look(set->nelems);
    *left = 0;
    for (size_t k = 0; k < set->nelems; k++) {
        size_t i = start + k < set->nelems ? start + k : start + k - set->nelems;
        if (masked(set, i))
            continue;
        if (holds(set, i))
            return i;
        ++*left;
    }
    return SIZE_MAX;
}

static size_t find_some(const struct set *set, size_t *indices, size_t *left)
{
    size_t count = 0;
    *left = 0;
    for (size_t i = 0; i < set->nelems; i++) {
        if (masked(set, i))
            continue;
        if (holds(set, i))
            indices[count++] = i;
        else
            ++*left;
    }
    return count;
}

/* The first element at or behind `i` that is not masked and does not hold; nelems when there is
 * none. */
static size_t find_missing(const struct set *set, size_t i)
{
    while (i < set->nelems && (masked(set, i) || holds(set, i)))
        i++;
    return i;
}

/* A test that failed: programs call it in a loop, which must let the network and other PEs of this
 * processor move. */
static void between_tests(void)
{
    if (px_peers.any_remote)
        px_peers.remote->progress(px_peers.remote_self);
    if (px_wait_policy.spin_turns == 0)
        sched_yield();
}

void px_api_wait_until(const void *ivar, int cmp, const void *value, enum px_dtype type,
                       const char *call)
{
    struct set set = set_of(ivar, 1, NULL, cmp, value, 0, type, call);
    struct px_wait wait = PX_WAIT_INIT(call);
    while (!holds(&set, 0))
        px_wait_turn(&wait);
}

/* One after the other: each has been seen to hold, which is what the specification asks for. */
void px_api_wait_until_all(const void *ivars, size_t nelems, const int *status, int cmp,
                           const void *values, size_t step, enum px_dtype type, const char *call)
{
    struct set set = set_of(ivars, nelems, status, cmp, values, step, type, call);
    struct px_wait wait = PX_WAIT_INIT(call);
    for (size_t i = 0; (i = find_missing(&set, i)) < nelems;)
        px_wait_turn(&wait);
}

size_t px_api_wait_until_any(const void *ivars, size_t nelems, const int *status, int cmp,
                             const void *values, size_t step, enum px_dtype type, const char *call)
{
    struct set set = set_of(ivars, nelems, status, cmp, values, step, type, call);
    struct px_wait wait = PX_WAIT_INIT(call);
    size_t left, found;
    while ((found = find_any(&set, &left)) == SIZE_MAX && left)
        px_wait_turn(&wait);
    return found;
}

size_t px_api_wait_until_some(const void *ivars, size_t nelems, size_t *indices, const int *status,
                              int cmp, const void *values, size_t step, enum px_dtype type,
                              const char *call)
{
    struct set set = set_of(ivars, nelems, status, cmp, values, step, type, call);
    struct px_wait wait = PX_WAIT_INIT(call);
    size_t left, count;
    while ((count = find_some(&set, indices, &left)) == 0 && left)
        px_wait_turn(&wait);
    return count;
}

int px_api_test(const void *ivar, int cmp, const void *value, enum px_dtype type, const char *call)
{
    struct set set = set_of(ivar, 1, NULL, cmp, value, 0, type, call);
    if (holds(&set, 0))
        return 1;
    between_tests();
    return 0;
}

int px_api_test_all(const void *ivars, size_t nelems, const int *status, int cmp,
                    const void *values, size_t step, enum px_dtype type, const char *call)
{
    struct set set = set_of(ivars, nelems, status, cmp, values, step, type, call);
    if (find_missing(&set, 0) == nelems)
        return 1;
    between_tests();
    return 0;
}

size_t px_api_test_any(const void *ivars, size_t nelems, const int *status, int cmp,
                       const void *values, size_t step, enum px_dtype type, const char *call)
{
    struct set set = set_of(ivars, nelems, status, cmp, values, step, type, call);
    size_t left, found = find_any(&set, &left);
    if (found == SIZE_MAX && left)
        between_tests();
    return found;
}

size_t px_api_test_some(const void *ivars, size_t nelems, size_t *indices, const int *status,
                        int cmp, const void *values, size_t step, enum px_dtype type,
                        const char *call)
{
    struct set set = set_of(ivars, nelems, status, cmp, values, step, type, call);
    size_t left, count = find_some(&set, indices, &left);
    if (count == 0 && left)
        between_tests();
    return count;
}
