/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory: a memfd, so nothing has a name that could be left behind and no mount's size
 * matters. Everybody maps the full span at once; beyond the file's end there is nothing, so growing
 * is one ftruncate and needs no word to peers.
 *
 * Pages come at first touch, on the owner's NUMA node whoever touches first: the policy belongs to
 * the file's range, not to the mapping. Huge pages: "thp" asks for transparent ones, "hugetlb"
 * takes reserved ones and falls back to "thp"; what came of it is in px_memory_ops.describe. */
#include "config.h"
#include "heap/memory.h"
#include "heap/private.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define MPOL_PREFERRED_MODE 1 /* MPOL_PREFERRED of linux/mempolicy.h */
#define MAX_NUMA_NODES      1024

enum pages { PAGES_SMALL, PAGES_THP, PAGES_HUGETLB };

struct host {
    int fd;
    size_t bytes, control_bytes;
    enum pages pages;
    int numa_node; /* -1: none preferred */
    char why[64];  /* why not the pages that were asked for; "" */
};

/* --- the file --- */

/* ftruncate beyond RLIMIT_FSIZE would kill the process with SIGXFSZ, although a memfd uses no disk:
 * raise the soft limit for the moment of the call. */
static px_status set_size(int fd, size_t bytes, struct px_error *error)
{
    struct rlimit limit;
    bool raised = false;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
        if (limit.rlim_max < bytes)
            return px_error_set(
                error, PX_ERR_NO_MEMORY,
                "the file size limit of %llu bytes is below the heap's %zu: raise it "
                "(ulimit -f)",
                (unsigned long long)limit.rlim_max, bytes);
        struct rlimit enough = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        raised = setrlimit(RLIMIT_FSIZE, &enough) == 0;
    }
    int rc = ftruncate(fd, (off_t)bytes), cause = errno;
    if (raised)
        (void)setrlimit(RLIMIT_FSIZE, &limit); /* lowering back to what it was is always allowed */
    if (rc != 0)
        return px_error_errno(error, cause, "sizing the symmetric memory to %zu bytes", bytes);
    return PX_OK;
}

/* Reserved huge pages must be set aside now: a fault that finds none is SIGBUS. Mapping a part
 * without MAP_NORESERVE does that, for the file and for good, without touching a page. */
static bool reserve_huge(int fd, size_t from, size_t to)
{
    void *part = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)from);
    if (part == MAP_FAILED)
        return false;
    munmap(part, to - from);
    return true;
}

static bool try_hugetlb(struct host *host, const char *name, size_t bytes)
{
    size_t rounded = px_round_up(bytes, PX_HEAP_UNIT);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd < 0) {
        snprintf(host->why, sizeof(host->why), "no reserved huge pages: %s", strerror(errno));
        return false;
    }
    if (set_size(fd, rounded, NULL) != PX_OK || !reserve_huge(fd, 0, rounded)) {
        snprintf(host->why, sizeof(host->why), "too few reserved huge pages for %zu MiB",
                 rounded >> 20);
        close(fd);
        return false;
    }
    host->fd = fd;
    host->bytes = rounded;
    host->pages = PAGES_HUGETLB;
    return true;
}

/* Does the system give transparent huge pages to shared memory that asks for them? */
static bool thp_allowed(char *why, size_t capacity)
{
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    char line[128] = "";
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(why, capacity, "no transparent huge pages in this kernel");
        return false;
    }
    (void)!fgets(line, sizeof(line), file);
    fclose(file);
    if (!strstr(line, "[never]") && !strstr(line, "[deny]"))
        return true;
    snprintf(why, capacity, "transparent_hugepage/shmem_enabled is never");
    return false;
}

static px_status create_plain(struct host *host, const char *name, size_t bytes,
                              struct px_error *error)
{
    host->fd = memfd_create(name, MFD_CLOEXEC);
    if (host->fd < 0)
        return px_error_errno(error, errno, "memfd_create");
    px_status status = set_size(host->fd, bytes, error);
    if (status != PX_OK)
        close(host->fd);
    host->bytes = bytes;
    return status;
}

static px_status create_file(struct host *host, const struct px_memory_options *options,
                             size_t bytes, struct px_error *error)
{
    const char *huge = options->huge && *options->huge ? options->huge : "auto";
    bool hugetlb = strcmp(huge, "hugetlb") == 0, off = strcmp(huge, "off") == 0;
    if (!hugetlb && !off && strcmp(huge, "auto") != 0 && strcmp(huge, "thp") != 0)
        return px_error_set(error, PX_ERR_INVALID,
                            "huge pages \"%s\": auto, thp, hugetlb or off are possible", huge);
    char name[32], why[64] = "";
    snprintf(name, sizeof(name), "pxshmem-pe%u", options->rank);
    if (hugetlb && try_hugetlb(host, name, bytes))
        return PX_OK;
    if (!off && thp_allowed(why, sizeof(why)))
        host->pages = PAGES_THP;
    else if (!off && !host->why[0])
        memcpy(host->why, why, sizeof(why));
    return create_plain(host, name, bytes, error);
}

/* --- NUMA --- */

/* The node that holds all processors this process may use; -1 when there are several or only one
 * node exists. */
static int bound_node(void)
{
    static cpu_set_t allowed; /* up to 1024 processors; on larger machines the call fails and nobody
                                 is preferred */
    int found = -1;
    if (access("/sys/devices/system/node/node1", F_OK) != 0)
        return -1;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        int node = -1;
        for (int n = 0; n < 64 && node < 0; n++) {
            char path[96];
            snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/node%d", cpu, n);
            node = access(path, F_OK) == 0 ? n : -1;
        }
        if (node < 0 || (found >= 0 && node != found))
            return -1;
        found = node;
    }
    return found;
}

/* Refusals are tolerated: without the call (old kernel, container's filter) pages come from where
 * they are touched. */
static void prefer_node(struct host *host, uintptr_t address, size_t length)
{
    unsigned long mask[MAX_NUMA_NODES / (8 * sizeof(unsigned long))] = {0};
    const int bits = 8 * sizeof(mask[0]);
    if (host->numa_node < 0 || host->numa_node >= MAX_NUMA_NODES)
        return;
    mask[host->numa_node / bits] = 1UL << (host->numa_node % bits);
    if (syscall(SYS_mbind, address, length, MPOL_PREFERRED_MODE, mask, MAX_NUMA_NODES, 0) != 0) {
        snprintf(host->why, sizeof(host->why), "mbind to node %d: %s", host->numa_node,
                 strerror(errno));
        host->numa_node = -1;
    }
}

/* --- the table's functions --- */

static void host_destroy(void *self)
{
    struct host *host = self;
    close(host->fd);
    free(host);
}

static px_status host_create(const struct px_memory_options *options, size_t bytes, void **self,
                             struct px_error *error)
{
    struct host *host = calloc(1, sizeof(*host));
    if (!host)
        return px_error_errno(error, ENOMEM, "books of the symmetric memory");
    host->control_bytes = options->control_bytes;
    host->numa_node = options->numa_node;
    if (host->numa_node == PX_HEAP_NUMA_AUTO)
        host->numa_node = bound_node();
    px_status status = create_file(host, options, bytes, error);
    if (status != PX_OK) {
        free(host);
        return status;
    }
    *self = host;
    return PX_OK;
}

static px_status host_grow(void *self, size_t bytes, struct px_error *error)
{
    struct host *host = self;
    if (host->pages == PAGES_HUGETLB)
        bytes = px_round_up(bytes, PX_HEAP_UNIT);
    if (bytes <= host->bytes)
        return PX_OK;
    px_status status = set_size(host->fd, bytes, error);
    if (status != PX_OK)
        return status;
    if (host->pages == PAGES_HUGETLB && !reserve_huge(host->fd, host->bytes, bytes)) {
        (void)set_size(host->fd, host->bytes, NULL); /* back to a size that it had */
        return px_error_set(error, PX_ERR_NO_MEMORY, "too few reserved huge pages for %zu MiB more",
                            (bytes - host->bytes) >> 20);
    }
    host->bytes = bytes;
    return PX_OK;
}

/* What a reserved huge page holds behind `keep` cannot be given back: zero it. */
static px_status zero_rest(struct host *host, size_t keep, size_t end, struct px_error *error)
{
    if (keep == end)
        return PX_OK;
    uint8_t *pages = mmap(NULL, end, PROT_READ | PROT_WRITE, MAP_SHARED, host->fd, 0);
    if (pages == MAP_FAILED)
        return px_error_errno(error, errno, "mapping the control area once more");
    memset(pages + keep, 0, end - keep);
    munmap(pages, end);
    return PX_OK;
}

static px_status host_reset(void *self, size_t keep, size_t bytes, struct px_error *error)
{
    struct host *host = self;
    size_t kept = px_round_up(keep, host->pages == PAGES_HUGETLB ? PX_HEAP_UNIT : 4096);
    size_t before = host->bytes;
    px_status status = zero_rest(host, keep, kept, error);
    if (status != PX_OK)
        return status;
    if (before > kept) {
        status = set_size(host->fd, kept, error);
        if (status != PX_OK)
            return status;
        host->bytes = kept;
    }
    status = host_grow(host, bytes, error);
    if (status != PX_OK && host_grow(host, before, NULL) != PX_OK)
        return px_error_context(error, "the former size of %zu bytes is lost too", before);
    return status;
}

static void advise(const struct host *host, uintptr_t address, size_t span)
{
    uintptr_t heap = px_round_up(address + host->control_bytes, PX_HEAP_UNIT);
    if (host->pages == PAGES_THP && heap < address + span)
        (void)madvise((void *)heap, address + span - heap, MADV_HUGEPAGE); /* a wish */
}

/* Mappings of reserved huge pages come in whole ones. */
static size_t map_length(const struct host *host, size_t span)
{
    return host->pages == PAGES_HUGETLB ? px_round_up(span, PX_HEAP_UNIT) : span;
}

/* A writable mapping of a hugetlb file extends the file to the mapping's end, a readable one does
 * not. */
static void *map_window(const struct host *host, void *where, size_t span, int flags, int fd)
{
    bool two_steps = host->pages == PAGES_HUGETLB;
    void *window = mmap(where, span, two_steps ? PROT_READ : PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | flags, fd, 0);
    if (window == MAP_FAILED || !two_steps)
        return window;
    if (mprotect(window, span, PROT_READ | PROT_WRITE) == 0)
        return window;
    int cause = errno;
    munmap(window, span);
    errno = cause;
    return MAP_FAILED;
}

static px_status host_place(void *self, uintptr_t base, size_t span, struct px_error *error)
{
    struct host *host = self;
    void *window = map_window(host, (void *)base, span, MAP_FIXED_NOREPLACE, host->fd);
    if (window == MAP_FAILED && errno != EEXIST)
        return px_error_errno(error, errno, "mapping the symmetric window of %zu bytes at 0x%zx",
                              span, (size_t)base);
    if (window != MAP_FAILED && (uintptr_t)window == base) {
        prefer_node(host, base, span);
        advise(host, base, span);
        return PX_OK;
    }
    if (window != MAP_FAILED) /* kernels before 4.17 take the address as a hint */
        munmap(window, span);
    return px_error_set(error, PX_ERR_UNREACHABLE,
                        "the address range 0x%zx to 0x%zx was free and is taken by now",
                        (size_t)base, (size_t)base + span);
}

/* Aligned to a huge page, or the pages of the file could not be mapped as huge ones. */
static px_status host_attach(void *self, int fd, size_t span, uintptr_t *address,
                             struct px_error *error)
{
    struct host *host = self;
    span = map_length(host, span);
    size_t room = span + PX_HEAP_UNIT;
    void *reserved =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return px_error_errno(error, errno, "address space of %zu bytes for a peer's window", room);
    uintptr_t start = (uintptr_t)reserved, at = px_round_up(start, PX_HEAP_UNIT);
    if (map_window(host, (void *)at, span, MAP_FIXED, fd) == MAP_FAILED) {
        int cause = errno;
        munmap(reserved, room);
        return px_error_errno(error, cause, "mapping a peer's window of %zu bytes", span);
    }
    if (at > start)
        munmap(reserved, at - start);
    munmap((void *)(at + span), start + room - at - span);
    advise(host, at, span);
    (void)madvise((void *)at, span, MADV_DONTDUMP); /* its owner's core dump has it */
    *address = at;
    return PX_OK;
}

static void host_unmap(void *self, uintptr_t address, size_t span)
{
    munmap((void *)address, map_length(self, span));
}

static bool host_from_pool(const void *self)
{
    return ((const struct host *)self)->pages == PAGES_HUGETLB;
}

static int host_descriptor(const void *self)
{
    return ((const struct host *)self)->fd;
}

static size_t host_resident(const void *self)
{
    struct stat file;
    if (fstat(((const struct host *)self)->fd, &file) != 0)
        return 0;
    return (size_t)file.st_blocks * 512;
}

/* By stores: memory registered with a network device must keep its pages. */
static void host_clear(void *self, uintptr_t address, size_t length)
{
    memset((void *)address, 0, length);
}

static void host_describe(const void *self, char *text, size_t capacity)
{
    static const char *const names[] = {"small pages", "transparent huge pages",
                                        "reserved huge pages"};
    const struct host *host = self;
    char node[32] = "";
    if (host->numa_node >= 0)
        snprintf(node, sizeof(node), ", NUMA node %d", host->numa_node);
    snprintf(text, capacity, "memfd, %s%s%s%s%s", names[host->pages], node,
             host->why[0] ? " (" : "", host->why, host->why[0] ? ")" : "");
}

const struct px_memory_ops px_memory_host = {
    .name = "host",
    .create = host_create,
    .grow = host_grow,
    .reset = host_reset,
    .place = host_place,
    .attach = host_attach,
    .unmap = host_unmap,
    .descriptor = host_descriptor,
    .from_pool = host_from_pool,
    .resident = host_resident,
    .clear = host_clear,
    .describe = host_describe,
    .destroy = host_destroy,
};
