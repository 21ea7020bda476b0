/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of three PEs inside one process, for tests of src/api: PE 0 is the caller, PE 1 is mapped,
 * PE 2 is reached by a transport. The transport keeps everything that need not be done yet until
 * quiet, so a call that forgets to wait is seen. Each PE's window is a piece of one buffer;
 * symmetric addresses are those of PE 0. */
#ifndef PX_TEST_UNIT_TRIO_H
#define PX_TEST_UNIT_TRIO_H

#include <stddef.h>
#include <stdint.h>

#define TRIO_PES    3
#define TRIO_WINDOW ((size_t)1 << 20)

extern char *trio_base; /* the symmetric window */

void trio_start(void); /* windows are filled with random bytes */
void trio_stop(void);

/* Blocks of the symmetric heap, known to the argument checks. */
void *trio_malloc(size_t bytes);
void trio_free(void *block);

/* What `pe` has at a symmetric address. */
void *trio_of(int pe, const void *symmetric);

/* Operations that the transport holds back now. */
size_t trio_pending(void);

uint64_t trio_random(void);
void trio_fill(void *place, size_t bytes); /* with random bytes */

/* Run fn and return the text of the message with which it ended the job, or "" when it came back.
 */
typedef void trio_fn(void *arg);
const char *trio_fatal(trio_fn *fn, void *arg);

#endif
