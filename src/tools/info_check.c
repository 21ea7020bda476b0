/* SPDX-License-Identifier: BSD-3-Clause */
/* pxshmem-info --check: walks through what could go wrong on this node before a job finds out. Each line says what was
 * looked at, what was found and, where that is not good, what to do. It only looks; --root makes it look at recorded files. */
#include "config.h"
#include "src/tools/info.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <pmix.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "heap/private.h"
#include "src/env/env.h"
#include "src/transport/transport.h"

enum verdict { GOOD, NOTE, BAD };

static struct {
    const char *root; /* "" for this node */
    int bad, notes;
} look;

static void say(enum verdict verdict, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(enum verdict verdict, const char *subject, const char *format, ...)
{
    static const char *const words[] = {"ok", "note", "BAD"};
    va_list args;
    look.bad += verdict == BAD;
    look.notes += verdict == NOTE;
    printf("%-5s %-14s ", words[verdict], subject);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static bool read_word(const char *path, char *word, size_t size)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", look.root, path);
    FILE *file = fopen(full, "r");
    bool found = file && fgets(word, (int)size, file);
    if (file)
        fclose(file);
    if (found)
        word[strcspn(word, "\n")] = '\0';
    return found;
}

static bool exists(const char *path, int how)
{
    char full[512];
    snprintf(full, sizeof(full), "%s%s", look.root, path);
    return access(full, how) == 0;
}

/* Calls `see` with each path below the root that fits; returns how many there were. */
static size_t each(const char *pattern, void (*see)(const char *path))
{
    char full[512];
    glob_t found;
    snprintf(full, sizeof(full), "%s%s", look.root, pattern);
    if (glob(full, 0, NULL, &found) != 0)
        return 0;
    size_t count = found.gl_pathc;
    for (size_t i = 0; see && i < count; i++)
        see(found.gl_pathv[i] + strlen(look.root));
    globfree(&found);
    return count;
}

static void check_settings(void)
{
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    if (px_env_read(&env, &error) == PX_OK)
        say(GOOD, "environment", "%u NVSHMEM_ variables are set, all acceptable", env.given);
    else
        say(BAD, "environment", "%s", error.text);
    px_env_free(&env);
}

static void check_launcher(void)
{
    const char *version = PMIx_Get_version(),
               *server = getenv("PMIX_VERSION"); /* launcher identity */
    int length = (int)strcspn(version, "(,");
    while (length && version[length - 1] == ' ')
        length--;
    if (server)
        say(GOOD, "PMIx", "client %.*s, server %s", length, version, server);
    else
        say(GOOD, "PMIx", "client %.*s; run this by srun --mpi=pmix to see the server's version",
            length, version);
}

static void check_memory(void)
{
    struct px_limits limits;
    struct px_error error = PX_ERROR_INIT;
    if (px_limits_read(look.root, &limits, &error) != PX_OK)
        say(BAD, "memory", "%s", error.text);
    else if (limits.available < (size_t)256 << 20)
        say(BAD, "memory",
            "%zu MiB are available (%s), the default heap is 256 MiB for each PE: set "
            "NVSHMEM_SYMMETRIC_SIZE, or ask for more (srun --mem)",
            limits.available >> 20, limits.limited_by);
    else
        say(GOOD, "memory", "%zu MiB of %zu are available (%s)", limits.available >> 20,
            limits.physical >> 20, limits.limited_by);
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        say(NOTE, "address space", "limited to %llu MiB (ulimit -v): the heap can grow less",
            (unsigned long long)space.rlim_cur >> 20);
    else
        say(GOOD, "address space", "no limit");
}

static void check_locked_memory(void)
{
    struct rlimit limit;
    bool rdma = each("/sys/class/infiniband/*", NULL) > 0;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        say(GOOD, "locked memory", "no limit");
    else if (rdma)
        say(BAD, "locked memory",
            "limited to %llu KiB, and the network adapter locks the heap: LimitMEMLOCK=infinity "
            "for slurmd, "
            "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, ulimit -l",
            (unsigned long long)limit.rlim_cur >> 10);
    else
        say(GOOD, "locked memory", "limited to %llu KiB; nothing here locks memory",
            (unsigned long long)limit.rlim_cur >> 10);
}

static void check_handles(void)
{
    char scope[16] = "0";
    (void)read_word("/proc/sys/kernel/yama/ptrace_scope", scope,
                    sizeof(scope)); /* absent without Yama */
    int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, STDIN_FILENO, 0),
        cause = errno;
    if (copy >= 0)
        close(copy);
    if (process >= 0)
        close(process);
    if (copy < 0 && cause != EBADF)
        say(NOTE, "mapping peers",
            "pidfd_getfd: %s; PEs pass descriptors over a socket, which works too",
            strerror(cause));
    else if (strcmp(scope, "0") != 0)
        say(NOTE, "mapping peers",
            "ptrace_scope is %s; PEs pass descriptors over a socket, which works too", scope);
    else
        say(GOOD, "mapping peers", "PEs of one user can take descriptors from each other");
}

static void check_port(const char *port)
{
    char path[512], state[64] = "unknown", layer[64] = "", gid[64],
                    zeros[] = "0000:0000:0000:0000:0000:0000:0000:0000";
    size_t gids = 0;
    snprintf(path, sizeof(path), "%s/state", port);
    (void)read_word(path, state, sizeof(state));
    snprintf(path, sizeof(path), "%s/link_layer", port);
    (void)read_word(path, layer, sizeof(layer));
    for (int i = 0; i < 256; i++) {
        snprintf(path, sizeof(path), "%s/gids/%d", port, i);
        if (read_word(path, gid, sizeof(gid)) && strcmp(gid, zeros) != 0)
            gids++;
    }
    if (!strstr(state, "ACTIVE"))
        say(NOTE, "RDMA port", "%s: %s, not used", port, state);
    else if (gids == 0)
        say(BAD, "RDMA port", "%s: %s, no GID: the interface of this port has no address", port,
            layer);
    else
        say(GOOD, "RDMA port", "%s: %s, %zu GIDs", port, layer, gids);
}

static void check_network(void)
{
    if (each("/sys/class/infiniband/*/ports/*", check_port) == 0)
        say(GOOD, "RDMA", "no device on this node; other networks are reached by libfabric");
    else if (each("/dev/infiniband/uverbs*", NULL) == 0)
        say(BAD, "RDMA",
            "/dev/infiniband/uverbs* are missing: load ib_uverbs; in a container, pass "
            "/dev/infiniband");
    if (*look.root)
        return; /* recorded files cannot be asked */
    struct px_env env;
    struct px_error error = PX_ERROR_INIT;
    bool any = false, read = px_env_read(&env, &error) == PX_OK;
    for (size_t i = 0; read && px_transports[i]; i++) {
        struct px_transport_setup setup = {.size = 2, .threads = 1, .env = &env};
        struct px_error why = PX_ERROR_INIT;
        if (!px_transports[i]->only_by_name && px_transports[i] != &px_transport_none)
            any |= px_transports[i]->probe(&setup, &why) == PX_OK;
    }
    say(any ? GOOD : NOTE, "other nodes", "%s",
        any ? "can be reached; --transports says by what"
            : "no transport works here: jobs are limited to one node; --transports says why");
    px_env_free(&env);
}

static void check_gpu_device(const char *path)
{
    if (!exists(path, R_OK | W_OK))
        say(BAD, "GPU",
            "%s cannot be opened: missing right, or the job has not asked for it (--gpus)", path);
}

static void check_gpus(void)
{
    char version[256];
    size_t devices = each("/dev/nvidia[0-9]*", check_gpu_device);
    bool driver = read_word("/proc/driver/nvidia/version", version, sizeof(version));
    if (!driver && !devices) {
        say(GOOD, "GPU", "no NVIDIA driver: the heap is host memory");
        return;
    }
    if (!driver)
        say(BAD, "GPU", "devices without a driver: /proc/driver/nvidia/version is missing");
    else if (!devices)
        say(BAD, "GPU",
            "the driver is loaded but /dev/nvidia0 is missing: ask for GPUs (--gpus), in a "
            "container pass them");
    else if (!exists("/dev/nvidiactl", R_OK | W_OK) || !exists("/dev/nvidia-uvm", R_OK | W_OK))
        say(BAD, "GPU",
            "/dev/nvidiactl or /dev/nvidia-uvm is missing or cannot be opened: nvidia-modprobe -u "
            "-c0 makes them");
    else
        say(GOOD, "GPU", "%zu devices", devices);
    if (!exists("/sys/module/nvidia_peermem", F_OK) && !exists("/sys/module/nv_peer_mem", F_OK))
        say(NOTE, "GPU to NIC",
            "nvidia-peermem is not loaded; where dma-buf is not possible either (--topology shows "
            "it), "
            "data is staged through host memory");
    else
        say(GOOD, "GPU to NIC", "nvidia-peermem is loaded");
}

int px_info_check(int argc, char **argv)
{
    look.root = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--root") == 0 && i + 1 < argc)
            look.root = argv[++i];
        else if (strcmp(argv[i], "--help") == 0) {
            puts("usage: pxshmem-info --check [--root DIRECTORY]\n"
                 "  --check           what could go wrong on this node, and what to do\n"
                 "  --root DIRECTORY  look at the /proc, /sys and /dev recorded there");
            return PX_INFO_OK;
        } else if (strcmp(argv[i], "--check") != 0)
            return px_info_fail(PX_INFO_USAGE, "\"%s\" is not an option of --check", argv[i]);
    }
    check_settings();
    check_launcher();
    check_memory();
    check_locked_memory();
    check_handles();
    check_network();
    check_gpus();
    printf("%d bad, %d to note\n", look.bad, look.notes);
    return look.bad ? PX_INFO_FAILED : PX_INFO_OK;
}
