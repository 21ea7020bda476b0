/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of a few PEs for unit tests, without a launcher: processes made by fork, with a symmetric
 * window at one address, addresses exchanged through shared memory, and a transport opened in each.
 * Every PE can also see every other's window directly, so that a test can look at what really
 * arrived.
 *
 * The parent is the test program: it tells the PEs which case to run and reads the first failure. A
 * PE that dies ends the case for all. */
#ifndef PX_TEST_UNIT_PES_H
#define PX_TEST_UNIT_PES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/transport/transport.h"

#define PES_MAX          4
#ifndef PES_WINDOW_MIB
#define PES_WINDOW_MIB 32
#endif
#define PES_WINDOW       ((size_t)PES_WINDOW_MIB << 20)
#define PES_CONTROL      ((size_t)64 << 10) /* what the transport registers at open */
#define PES_DATA         PES_CONTROL        /* offset of memory that cases may use */
#define PES_DATA_BYTES   (PES_WINDOW - PES_CONTROL)
#define PES_SECOND_CHUNK ((size_t)20 << 20) /* memory is added in two chunks that meet here */

/* What a case sees: one PE. */
struct pes {
    uint32_t me, n;
    const struct px_transport_ops *ops;
    void *self; /* the open transport */
    char *base; /* of the window, the same in every PE */
    uint64_t seed;
};
typedef void pes_case_fn(struct pes *pe);

/* Start `n` PEs over the named transport. NULL and a reason when it cannot run here. */
struct pes_job;
struct pes_job *pes_start(const char *transport, uint32_t n, bool threads, char *reason,
                          size_t size);

/* Run one case on all PEs; the first failure as text, or NULL. `limit_s` guards against a hang. */
const char *pes_run(struct pes_job *job, pes_case_fn *fn, unsigned limit_s);

/* The same without waiting for the end; for cases in which PEs are meant to die. */
void pes_begin(struct pes_job *job, pes_case_fn *fn);

/* End the PEs (they close the transport); NULL or the first failure. */
const char *pes_stop(struct pes_job *job);

/* What PE `pe` wrote to the log last, and whether it is still alive */
const char *pes_last_line(struct pes_job *job, uint32_t pe);
bool pes_alive(struct pes_job *job, uint32_t pe);

/* Within a case. */
void pes_barrier(struct pes *pe);                 /* through shared memory, not the transport */
char *pes_window(struct pes *pe, uint32_t other); /* its window, as mapped here */
_Atomic uint64_t *pes_shared(struct pes *pe,
                             size_t index); /* [64] words all PEs share, zero at case start */
uint64_t pes_random(uint64_t *state);
void pes_open(struct pes *pe); /* what start does in each PE */
void pes_close(struct pes *pe);
_Noreturn void pes_fail(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define pes_check(condition, ...)                                                                  \
    ((condition) ? (void)0 : pes_fail(__FILE__, __LINE__, #condition, __VA_ARGS__))

#endif
