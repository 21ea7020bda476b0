/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the abstract Unix sockets that PEs of a node know each other by:
 * "@pxshmem-<job>-<rank>-<purpose>". They live in the network namespace and vanish with their
 * holder. The job's name is hashed, it may be longer than a socket's. */
#ifndef PX_PMIX_NAMES_H
#define PX_PMIX_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PX_PURPOSE_MAX 32

/* Purposes: "here" (pmix/: this PE has opened the bootstrap), "m1.2" (pmix/: it is at that meeting), and those of heap/,
 * which passes descriptors. */
static inline socklen_t px_socket_name(struct sockaddr_un *name, const char *job, uint32_t rank,
                                       const char *purpose)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (const char *c = job; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "pxshmem-%016llx-%u-%s",
                          (unsigned long long)hash, rank, purpose);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static inline void px_meeting_purpose(char purpose[PX_PURPOSE_MAX], uint32_t epoch,
                                      uint32_t meeting)
{
    snprintf(purpose, PX_PURPOSE_MAX, "m%u.%u", epoch, meeting);
}

#endif
