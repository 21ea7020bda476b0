/* SPDX-License-Identifier: BSD-3-Clause */
/* The one status type of the library: 0 or a negative reason. A foreign code (PMIx, errno, verbs, libfabric, CUDA)
 * becomes one of these at the call that returned it; the words that explain it travel in a px_error beside it. */
#ifndef PX_DIAG_STATUS_H
#define PX_DIAG_STATUS_H

typedef enum px_status {
    PX_OK = 0,
    PX_ERR_INVALID = -1,     /* an argument or a setting is not acceptable */
    PX_ERR_NO_MEMORY = -2,   /* host, device or address space is short */
    PX_ERR_UNSUPPORTED = -3, /* this build, system or device cannot do it */
    PX_ERR_TIMEOUT = -4,     /* a bounded wait ended */
    PX_ERR_UNREACHABLE = -5, /* no path to a peer, a server or a device */
    PX_ERR_PEER = -6,        /* another PE failed, or sent what cannot be right */
    PX_ERR_SYSTEM = -7,      /* a system call failed; the text has errno's words */
    PX_ERR_PROTOCOL = -8,    /* bytes from elsewhere do not decode */
    PX_ERR_NOT_FOUND = -9,   /* the thing asked for does not exist (a key, a name) */
    PX_ERR_INTERNAL = -10,   /* a broken invariant of ours */
} px_status;

/* A short name such as "out of memory"; never NULL, also for unknown values. */
const char *px_status_string(px_status status);

#endif
