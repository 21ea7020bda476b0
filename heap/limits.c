/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory this process can have: the node's, and what control groups (version 1 or 2, every
 * level from ours up to the root) leave of it. Page cache that the kernel would drop counts as
 * available. Reading is kept apart from judging, so that judging can be tested with plain values
 * and reading with files. */
#include "config.h"
#include "heap/private.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LINE_BYTES 4096

const char *px_size_text(size_t bytes, char text[PX_SIZE_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0, whole = bytes;
    double value = (double)bytes;
    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    if (unit == 0 || whole % ((size_t)1 << (10 * unit)) == 0)
        snprintf(text, PX_SIZE_TEXT, "%zu %s", whole >> (10 * unit), units[unit]);
    else
        snprintf(text, PX_SIZE_TEXT, "%.2f %s", value, units[unit]);
    return text;
}

static FILE *open_under(const char *root, const char *path)
{
    char full[PATH_MAX];
    if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
        return NULL;
    return fopen(full, "re");
}

/* The number behind `name` in a file of lines "name number" or "name: number kB"; in bytes. */
static bool read_field(const char *root, const char *path, const char *name, size_t *value)
{
    FILE *file = open_under(root, path);
    if (!file)
        return false;
    char line[LINE_BYTES];
    size_t length = strlen(name);
    bool found = false;
    while (!found && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, length) != 0 || !strchr(": ", line[length]))
            continue;
        char *end;
        unsigned long long number = strtoull(line + length + 1, &end, 10);
        *value = strstr(end, "kB") ? (size_t)number * 1024 : (size_t)number;
        found = true;
    }
    fclose(file);
    return found;
}

/* A file that holds one number; "max" is no number. */
static bool read_number(const char *root, const char *path, size_t *value)
{
    FILE *file = open_under(root, path);
    if (!file)
        return false;
    unsigned long long number;
    bool found = fscanf(file, "%llu", &number) == 1;
    fclose(file);
    if (found)
        *value = (size_t)number;
    return found;
}

/* Where version 1 and version 2 differ. */
struct dialect {
    const char *limit, *usage, *reclaimable;
};
static const struct dialect version1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "total_inactive_file"};
static const struct dialect version2 = {"memory.max", "memory.current", "inactive_file"};

static void apply_level(const char *root, const char *folder, const struct dialect *dialect,
                        struct px_limits *limits)
{
    char path[PATH_MAX];
    size_t limit, usage = 0, cache = 0;
    snprintf(path, sizeof(path), "%.3900s/%s", folder, dialect->limit);
    if (!read_number(root, path, &limit) || limit >= (size_t)1 << 60)
        return; /* version 1 writes "no limit" as a huge number */
    snprintf(path, sizeof(path), "%.3900s/%s", folder, dialect->usage);
    (void)read_number(root, path, &usage); /* unreadable: judged as unused */
    snprintf(path, sizeof(path), "%.3900s/memory.stat", folder);
    (void)read_field(root, path, dialect->reclaimable, &cache); /* absent: nothing to drop */
    usage -= cache < usage ? cache : usage;
    size_t left = usage < limit ? limit - usage : 0;
    if (limit < limits->physical)
        limits->physical = limit;
    if (left < limits->available) {
        limits->available = left;
        snprintf(limits->limited_by, sizeof(limits->limited_by), "%.120s/%s", folder,
                 dialect->limit);
    }
}

/* From the group's folder up to the mount point. */
static void apply_hierarchy(const char *root, const char *mount, const char *group,
                            const struct dialect *dialect, struct px_limits *limits)
{
    char folder[PATH_MAX];
    if (snprintf(folder, sizeof(folder), "%s%s", mount, group) >= (int)sizeof(folder))
        return;
    size_t top = strlen(mount);
    for (;;) {
        size_t length = strlen(folder);
        while (length > top && folder[length - 1] == '/')
            folder[--length] = '\0';
        apply_level(root, folder, dialect, limits);
        char *slash = strrchr(folder, '/');
        if (length <= top || !slash || (size_t)(slash - folder) < top)
            return;
        *slash = '\0';
    }
}

/* Our group in the hierarchy of version 1's memory controller or of version 2, as /proc/self/cgroup
 * spells it. */
static bool find_group(const char *root, bool second, char *group, size_t capacity)
{
    FILE *file = open_under(root, "/proc/self/cgroup");
    if (!file)
        return false;
    char line[LINE_BYTES];
    bool found = false;
    while (!found && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        char list[256];
        snprintf(list, sizeof(list), ",%s,", controllers + 1);
        found = second ? strcmp(list, ",,") == 0 : strstr(list, ",memory,") != NULL;
        if (found)
            snprintf(group, capacity, "%s", path);
    }
    fclose(file);
    return found;
}

struct mount {
    char point[1024],
        inner[1024]; /* where it is, and which folder of the hierarchy is seen there */
};

/* A line of mountinfo: ID PARENT DEV INNER POINT OPTIONS ... - TYPE SOURCE SUPEROPTIONS */
static bool parse_mount(const char *line, bool second, struct mount *mount)
{
    char type[64], super[512];
    const char *tail = strstr(line, " - ");
    if (!tail || sscanf(tail, " - %63s %*s %511s", type, super) != 2)
        return false;
    if (sscanf(line, "%*s %*s %*s %1023s %1023s", mount->inner, mount->point) != 2)
        return false;
    if (second)
        return strcmp(type, "cgroup2") == 0;
    char list[520];
    snprintf(list, sizeof(list), ",%s,", super);
    return strcmp(type, "cgroup") == 0 && strstr(list, ",memory,");
}

static bool find_mount(const char *root, bool second, struct mount *mount)
{
    FILE *file = open_under(root, "/proc/self/mountinfo");
    if (!file)
        return false;
    char line[LINE_BYTES];
    bool found = false;
    while (!found && fgets(line, sizeof(line), file))
        found = parse_mount(line, second, mount);
    fclose(file);
    return found;
}

static void apply_groups(const char *root, bool second, struct px_limits *limits)
{
    struct mount mount;
    char group[2048];
    if (!find_mount(root, second, &mount) || !find_group(root, second, group, sizeof(group)))
        return;
    /* In a container the mount may show only a part of the hierarchy: its root is `inner`. */
    size_t inner = strcmp(mount.inner, "/") == 0 ? 0 : strlen(mount.inner);
    const char *path = group;
    if (inner)
        path = strncmp(group, mount.inner, inner) == 0 ? group + inner : "";
    apply_hierarchy(root, mount.point, path, second ? &version2 : &version1, limits);
}

/* With strict accounting (vm.overcommit_memory 2) pages are refused at first touch beyond this
 * limit. */
static void apply_commit_limit(const char *root, struct px_limits *limits)
{
    size_t mode, limit, committed;
    if (!read_number(root, "/proc/sys/vm/overcommit_memory", &mode) || mode != 2 ||
        !read_field(root, "/proc/meminfo", "CommitLimit", &limit) ||
        !read_field(root, "/proc/meminfo", "Committed_AS", &committed))
        return;
    size_t left = committed < limit ? limit - committed : 0;
    if (left < limits->available) {
        limits->available = left;
        snprintf(limits->limited_by, sizeof(limits->limited_by),
                 "CommitLimit, vm.overcommit_memory is 2");
    }
}

px_status px_limits_read(const char *root, struct px_limits *limits, struct px_error *error)
{
    struct px_limits found = {.limited_by = "MemAvailable"};
    if (!read_field(root, "/proc/meminfo", "MemTotal", &found.physical))
        return px_error_set(error, PX_ERR_SYSTEM,
                            "no MemTotal in /proc/meminfo: is /proc mounted?");
    if (!read_field(root, "/proc/meminfo", "MemAvailable", &found.available))
        found.available = found.physical;
    apply_commit_limit(root, &found);
    apply_groups(root, false, &found);
    apply_groups(root, true, &found);
    *limits = found;
    return PX_OK;
}

px_status px_limits_check(const struct px_limits *limits, size_t bytes, size_t resident,
                          size_t control_bytes, uint32_t n_pes, char warning[PX_LIMITS_WARNING],
                          struct px_error *error)
{
    char asked[PX_SIZE_TEXT], all[PX_SIZE_TEXT], there[PX_SIZE_TEXT];
    size_t share = limits->available / n_pes;
    size_t more = bytes > resident ? bytes - resident : 0;
    warning[0] = '\0';
    if (more > share) {
        size_t fits = px_round_down(share + resident, (size_t)1 << 20);
        fits = fits > control_bytes ? px_round_down(fits - control_bytes, (size_t)1 << 20) : 0;
        return px_error_set(error, PX_ERR_NO_MEMORY,
                            "the symmetric heap does not fit into memory: asked %s for each of %u "
                            "PEs on this node, "
                            "available %s for all (%s), the largest that would fit is %zuM per PE; "
                            "set NVSHMEM_SYMMETRIC_SIZE=%zuM or less",
                            px_size_text(bytes - control_bytes, asked), n_pes,
                            px_size_text(limits->available, there), limits->limited_by, fits >> 20,
                            fits >> 20);
    }
    if (more > share / 5 * 4)
        snprintf(
            warning, PX_LIMITS_WARNING,
            "the symmetric heaps of the %u PEs on this node may take %s of %s that are available "
            "(%.100s): more than 80 %%; NVSHMEM_SYMMETRIC_SIZE sets the size per PE",
            n_pes, px_size_text(more * n_pes, all), px_size_text(limits->available, there),
            limits->limited_by);
    return PX_OK;
}

/* An eighth of the limit, at least 128 MiB, stays for the program: stacks, libraries, its own
 * malloc. Where that would refuse what is needed, 32 MiB must do. */
size_t px_limits_address_room(size_t limit, size_t used, size_t needed)
{
    const size_t mib = (size_t)1 << 20;
    size_t reserve = limit / 8 > 128 * mib ? limit / 8 : 128 * mib;
    size_t left = limit > used ? limit - used : 0;
    size_t room = left > reserve ? left - reserve : 0;
    if (room >= needed)
        return room;
    room = left > 32 * mib ? left - 32 * mib : 0;
    return room < needed ? room : needed;
}

size_t px_limits_address_space(size_t needed)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    size_t pages = 0;
    (void)read_number("", "/proc/self/statm", &pages); /* unreadable: mapping will tell */
    size_t used = pages * (size_t)sysconf(_SC_PAGESIZE);
    return px_limits_address_room((size_t)limit.rlim_cur, used, needed);
}
