/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything the library prints goes through here, one write per line, with the same prefix:
 *   pxshmem: PE 3 of 8 (node1, pid 411): nvshmem_malloc: what is wrong, what was given, what to do
 * Level and subsystem are tested before arguments are evaluated. log.c is the one file that writes to stderr, and
 * px_fatal the one function that ends the job. */
#ifndef PX_DIAG_LOG_H
#define PX_DIAG_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum px_log_level { PX_LOG_NONE, PX_LOG_VERSION, PX_LOG_WARN, PX_LOG_INFO, PX_LOG_ABORT, PX_LOG_TRACE };

enum px_log_subsys {
    PX_SUB_INIT = 1 << 0,
    PX_SUB_COLL = 1 << 1,
    PX_SUB_P2P = 1 << 2,
    PX_SUB_PROXY = 1 << 3,
    PX_SUB_TRANSPORT = 1 << 4,
    PX_SUB_MEM = 1 << 5,
    PX_SUB_BOOTSTRAP = 1 << 6,
    PX_SUB_TOPO = 1 << 7,
    PX_SUB_UTIL = 1 << 8,
    PX_SUB_ALL = (1 << 9) - 1,
};

/* What passes now; read by the macros below, written by px_log_configure only. */
extern enum px_log_level px_log_level;
extern unsigned px_log_subsystems;

/* level: the name of NVSHMEM_DEBUG ("" keeps warnings only); subsystems: the comma list of NVSHMEM_DEBUG_SUBSYS;
 * file: NVSHMEM_DEBUG_FILE with %h and %p, "" for stderr. Returns false and changes nothing on a bad value. */
bool px_log_configure(const char *level, const char *subsystems, const char *file);

/* The identity in the prefix; before the first call it is "pxshmem: (host, pid N)". */
void px_log_identify(int pe, int n_pes);

/* How the job is ended: called once by px_fatal after the message; returns if it could not end the job. */
typedef void px_log_abort_fn(int exit_status, const char *message);
void px_log_on_fatal(px_log_abort_fn *abort_job);

/* Replace the sink (tests); NULL restores stderr. The line ends with a newline. */
typedef void px_log_sink_fn(const char *line, size_t length);
void px_log_to(px_log_sink_fn *sink);

#define px_log_enabled(level, subsys)                                                              \
    (__builtin_expect(px_log_level >= (level), 0) && (px_log_subsystems & (subsys)))

#define px_info(subsys, ...)                                                                       \
    (px_log_enabled(PX_LOG_INFO, subsys) ? px_log_line(__VA_ARGS__) : (void)0)
#define px_trace(subsys, ...)                                                                      \
    (px_log_enabled(PX_LOG_TRACE, subsys) ? px_log_line(__VA_ARGS__) : (void)0)

/* Always printed: something the user should know (notice) or change (warning). errno is kept. */
void px_log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
void px_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, but equal texts from several PEs of a node become one line. */
void px_warn_once_per_node(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* True for the first process of this node and job that asks with this text; held until the process ends. */
bool px_log_first_on_node(const char *text);

/* One message per cause and node, then the job ends with exit_status (non-zero). Never returns. */
_Noreturn void px_fatal(int exit_status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a failure that another PE has said: silent, and it gives that PE the time to say it. */
_Noreturn void px_fatal_said_elsewhere(int exit_status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
