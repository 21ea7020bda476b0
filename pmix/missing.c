/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a meeting that did not happen: which PEs have not come, where they are, and for
 * those of this node what their process is doing. The list of PEs comes first, so that PEs of a
 * node that saw the same thing say the same. */
#include "config.h"
#include "pmix/private.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pmix/names.h"
#include "pmix/text.h"

#define NAMED_MAX 16 /* PEs listed by number; the rest is counted */

static bool answers(const struct px_boot *boot, uint32_t rank, const char *purpose)
{
    struct sockaddr_un name;
    socklen_t length = px_socket_name(&name, boot->job, px_launcher_rank(boot, rank), purpose);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && connect(fd, (struct sockaddr *)&name, length) == 0;
    if (fd >= 0)
        close(fd);
    return there;
}

/* Has that PE of this node opened the bootstrap? */
static bool is_here(const struct px_boot *boot, uint32_t rank)
{
    return answers(boot, rank, "here");
}

/* Has it come to the meeting that I am in? */
static bool is_at_meeting(const struct px_boot *boot, uint32_t rank)
{
    char purpose[PX_PURPOSE_MAX];
    px_meeting_purpose(purpose, boot->epoch, boot->meetings);
    return answers(boot, rank, purpose);
}

static bool read_file(const char *pid, const char *file, char *buffer, size_t size, size_t *length)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = 0;
    *length = 0;
    while (*length < size - 1 && (got = read(fd, buffer + *length, size - 1 - *length)) > 0)
        *length += (size_t)got;
    buffer[*length] = '\0';
    close(fd);
    return got >= 0;
}

static bool has_setting(const char *environment, size_t length, const char *setting)
{
    for (size_t at = 0; at < length; at += strlen(environment + at) + 1)
        if (strcmp(environment + at, setting) == 0)
            return true;
    return false;
}

/* A process of this job and rank, by the environment its launcher gave it; we may read it where it
 * is our own user's. */
static bool is_task(const char *pid, uint32_t rank, char *environment, size_t size)
{
    static const char *const rank_names[] = {"PMIX_RANK", "PMI_RANK"};
    static const char *const job_names[] = {"PMIX_NAMESPACE", "PMI_JOBID"};
    size_t length;
    if (!read_file(pid, "environ", environment, size, &length))
        return false;
    for (size_t i = 0; i < sizeof(rank_names) / sizeof(rank_names[0]); i++) {
        char setting[320];
        const char *job = getenv(job_names[i]); /* launcher identity */
        snprintf(setting, sizeof(setting), "%s=%u", rank_names[i], rank);
        if (!job || !has_setting(environment, length, setting))
            continue;
        snprintf(setting, sizeof(setting), "%s=%s", job_names[i], job);
        if (has_setting(environment, length, setting))
            return true;
    }
    return false;
}

static const char *state_word(char letter)
{
    switch (letter) {
    case 'R':
        return "running";
    case 'S':
    case 'I':
        return "sleeping";
    case 'D':
        return "in the kernel";
    case 'T':
    case 't':
        return "stopped";
    default:
        return "ended";
    }
}

/* The newest process of that rank: a wrapper script stays in front of the program it started. */
static int find_task(uint32_t rank)
{
    enum { ENVIRONMENT_MAX = 256 * 1024 };
    DIR *proc = opendir("/proc");
    char *environment = malloc(ENVIRONMENT_MAX);
    int found = 0;
    if (proc && environment)
        for (struct dirent *entry; (entry = readdir(proc));)
            if (isdigit((unsigned char)entry->d_name[0]) &&
                is_task(entry->d_name, rank, environment, ENVIRONMENT_MAX) &&
                atoi(entry->d_name) > found)
                found = atoi(entry->d_name);
    free(environment);
    if (proc)
        closedir(proc);
    return found;
}

/* In a container with a PID namespace of its own, whose first process has this PE's variables, other PEs' processes are
 * not seen though they live. */
static bool sees_other_tasks(const struct px_boot *boot)
{
    enum { ENVIRONMENT_MAX = 256 * 1024 };
    char *environment = malloc(ENVIRONMENT_MAX);
    bool alone = !environment || getpid() == 1 ||
                 is_task("1", boot->launcher.rank, environment, ENVIRONMENT_MAX);
    free(environment);
    return !alone;
}

static void describe_local(const struct px_boot *boot, uint32_t rank, struct px_text *text)
{
    char stat[512], pid[24];
    size_t length;
    int found = find_task(px_launcher_rank(boot, rank));
    snprintf(pid, sizeof(pid), "%d", found);
    if (!found) {
        if (is_here(boot, rank))
            px_text_add(text, " (has called init)");
        else if (sees_other_tasks(boot))
            px_text_add(text, " (no process of it is seen)");
        return;
    }
    /* "pid (name) S ...": the name may hold anything, its end is the last parenthesis */
    const char *state = "";
    char *open = NULL, *end = NULL;
    if (read_file(pid, "stat", stat, sizeof(stat), &length) && (open = strchr(stat, '(')) &&
        (end = strrchr(stat, ')')) && end[1] == ' ') {
        *end = '\0';
        state = state_word(end[2]);
    }
    px_text_add(text, " (pid %d%s%s, %s%s)", found, open ? " " : "", open ? open + 1 : "", state,
                is_here(boot, rank) ? "" : ", has not called init");
}

/* PEs the backend cannot tell about: for those of this node, their name does. */
static void ask_locally(const struct px_boot *boot, enum px_arrival *state)
{
    for (uint32_t i = 0; i < boot->facts.local_size; i++) {
        uint32_t pe = boot->facts.local_ranks[i];
        if (state[pe] == PX_ARRIVAL_UNKNOWN && pe != boot->facts.rank)
            state[pe] = is_at_meeting(boot, pe) ? PX_ARRIVED : PX_ABSENT;
    }
}

static uint32_t count_of(const struct px_boot *boot, const enum px_arrival *state,
                         enum px_arrival wanted)
{
    uint32_t count = 0;
    for (uint32_t pe = 0; pe < boot->facts.size; pe++)
        count += state[pe] == wanted;
    return count;
}

/* Returns whether one of them is on this node. */
static bool list_absent(const struct px_boot *boot, const enum px_arrival *state, uint32_t absent,
                        struct px_text *text)
{
    uint32_t named = 0;
    bool any_local = false;
    for (uint32_t pe = 0; pe < boot->facts.size && named < NAMED_MAX; pe++) {
        if (state[pe] != PX_ABSENT)
            continue;
        px_text_add(text, "%sPE %u on %s", named++ ? ", " : "", pe,
                    px_boot_host(boot, boot->facts.node_of[pe]));
        if (boot->facts.node_of[pe] != boot->facts.node)
            continue;
        any_local = true;
        describe_local(boot, pe, text);
    }
    if (absent > named)
        px_text_add(text, " and %u more", absent - named);
    return any_local;
}

void px_missing_report(const struct px_boot *boot, const char *mark, struct px_error *error)
{
    struct px_text text = {.used = 0};
    enum px_arrival *state = calloc(boot->facts.size, sizeof(*state));
    if (state) {
        if (boot->backend->arrivals)
            boot->backend->arrivals(boot, mark, state);
        state[boot->facts.rank] = PX_ARRIVED;
        ask_locally(boot, state);
        uint32_t absent = count_of(boot, state, PX_ABSENT);
        uint32_t unknown = count_of(boot, state, PX_ARRIVAL_UNKNOWN);
        bool local = absent && list_absent(boot, state, absent, &text);
        if (unknown && !absent)
            px_text_add(&text, "PEs of other nodes (%s cannot tell which)", boot->backend->name);
        else if (!absent)
            px_text_add(&text, "nobody, all PEs were seen to come, so the launcher's servers");
        if (!local) /* the missing PEs' own node knows more of them, so it may speak first */
            nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
        free(state);
    }
    px_error_set(error, PX_ERR_TIMEOUT,
                 "missing: %s did not come within %u s; all %u PEs must call it (the limit is "
                 "NVSHMEM_BOOTSTRAP_TIMEOUT)",
                 text.bytes, boot->timeout_s, boot->facts.size);
}

bool px_missing_is_dead(const struct px_boot *boot, uint32_t rank)
{
    return rank != boot->facts.rank && boot->facts.node_of[rank] == boot->facts.node &&
           !is_here(boot, rank) && sees_other_tasks(boot) &&
           !find_task(px_launcher_rank(boot, rank));
}

void px_missing_dead(const struct px_boot *boot, struct px_error *error)
{
    struct px_text text = {.used = 0};
    for (uint32_t i = 0; i < boot->facts.local_size; i++) {
        uint32_t pe = boot->facts.local_ranks[i];
        if (px_missing_is_dead(boot, pe))
            px_text_add(&text, "%sPE %u on %s", text.used ? ", " : "", pe,
                        px_boot_host(boot, boot->facts.node));
    }
    if (text.used)
        px_error_context(error, "the processes of these PEs have ended: %s", text.bytes);
}
