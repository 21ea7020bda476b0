/* SPDX-License-Identifier: BSD-3-Clause */
/* The log sink: builds a line with its prefix and hands it over in one write, so that lines of many PEs never tear.
 *
 * Equal messages of several PEs are folded without any file: the first PE of a node that binds an abstract socket named
 * after the text prints it, the others find the name taken and stay silent. The name vanishes with its holder. */
#include "config.h"
#include "src/diag/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

enum px_log_level px_log_level = PX_LOG_WARN;
unsigned px_log_subsystems = PX_SUB_ALL;

static struct {
    int pe, n_pes;
    int fd;
    px_log_sink_fn *sink;
    px_log_abort_fn *abort_job;
} log_state = {.pe = -1, .fd = STDERR_FILENO};

static const struct {
    const char *name;
    enum px_log_level level;
} level_names[] = {
    {"", PX_LOG_WARN},         {"NONE", PX_LOG_NONE},   {"VERSION", PX_LOG_VERSION},
    {"WARN", PX_LOG_WARN},     {"INFO", PX_LOG_INFO},   {"ABORT", PX_LOG_ABORT},
    {"TRACE", PX_LOG_TRACE},
};

static const struct {
    const char *name;
    unsigned bit;
} subsys_names[] = {
    {"INIT", PX_SUB_INIT},           {"COLL", PX_SUB_COLL},
    {"P2P", PX_SUB_P2P},             {"PROXY", PX_SUB_PROXY},
    {"TRANSPORT", PX_SUB_TRANSPORT}, {"MEM", PX_SUB_MEM},
    {"BOOTSTRAP", PX_SUB_BOOTSTRAP}, {"TOPO", PX_SUB_TOPO},
    {"UTIL", PX_SUB_UTIL},           {"ALL", PX_SUB_ALL},
};

static bool parse_level(const char *name, enum px_log_level *level)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcasecmp(name, level_names[i].name) == 0) {
            *level = level_names[i].level;
            return true;
        }
    }
    return false;
}

static unsigned find_subsys(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(subsys_names) / sizeof(subsys_names[0]); i++)
        if (strlen(subsys_names[i].name) == length &&
            strncasecmp(name, subsys_names[i].name, length) == 0)
            return subsys_names[i].bit;
    return 0;
}

static bool parse_subsystems(const char *list, unsigned *bits)
{
    if (!*list) {
        *bits = PX_SUB_ALL;
        return true;
    }
    bool drop = *list == '^';
    unsigned named = 0;
    for (const char *p = list + drop; *p; p += *p == ',') {
        size_t length = strcspn(p, ",");
        unsigned bit = find_subsys(p, length);
        if (!bit)
            return false;
        named |= bit;
        p += length;
    }
    *bits = drop ? PX_SUB_ALL & ~named : named;
    return true;
}

static const char *host_name(void)
{
    static char name[64];
    if (!name[0] && gethostname(name, sizeof(name) - 1) != 0)
        snprintf(name, sizeof(name), "unknown");
    return name;
}

static void expand_path(const char *pattern, char *path, size_t size)
{
    size_t used = 0;
    for (; *pattern && used + 1 < size; pattern++) {
        if (pattern[0] == '%' && (pattern[1] == 'h' || pattern[1] == 'p')) {
            int n = *++pattern == 'h' ? snprintf(path + used, size - used, "%s", host_name())
                                      : snprintf(path + used, size - used, "%d", (int)getpid());
            used += (size_t)n < size - used ? (size_t)n : size - used - 1;
        } else {
            path[used++] = *pattern;
        }
    }
    path[used] = '\0';
}

bool px_log_configure(const char *level, const char *subsystems, const char *file)
{
    enum px_log_level new_level;
    unsigned new_subsystems;
    if (!parse_level(level, &new_level) || !parse_subsystems(subsystems, &new_subsystems))
        return false;
    int fd = STDERR_FILENO;
    if (*file) {
        char path[1024];
        expand_path(file, path, sizeof(path));
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0)
            return false;
    }
    if (log_state.fd != STDERR_FILENO)
        close(log_state.fd);
    log_state.fd = fd;
    px_log_level = new_level;
    px_log_subsystems = new_subsystems;
    return true;
}

void px_log_identify(int pe, int n_pes)
{
    log_state.pe = pe;
    log_state.n_pes = n_pes;
}

void px_log_on_fatal(px_log_abort_fn *abort_job)
{
    log_state.abort_job = abort_job;
}

void px_log_to(px_log_sink_fn *sink)
{
    log_state.sink = sink;
}

static void emit(const char *text, bool to_stderr)
{
    char line[LINE_MAX_BYTES];
    int used;
    if (log_state.pe >= 0)
        used = snprintf(line, sizeof(line), "pxshmem: PE %d of %d (%s, pid %d): %s\n", log_state.pe,
                        log_state.n_pes, host_name(), (int)getpid(), text);
    else
        used = snprintf(line, sizeof(line), "pxshmem: (%s, pid %d): %s\n", host_name(),
                        (int)getpid(), text);
    if (used >= (int)sizeof(line)) {
        used = sizeof(line) - 1;
        memcpy(line + used - 4, "...\n", 4);
    }
    if (log_state.sink) {
        log_state.sink(line, (size_t)used);
        return;
    }
    int fd = to_stderr ? STDERR_FILENO : log_state.fd;
    ssize_t written = write(fd, line, (size_t)used);
    (void)written; /* there is nowhere left to report a failed report */
}

static void format_and_emit(bool to_stderr, const char *format, va_list args)
{
    int saved = errno;
    char text[LINE_MAX_BYTES - 128];
    vsnprintf(text, sizeof(text), format, args);
    emit(text, to_stderr);
    errno = saved;
}

void px_log_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    format_and_emit(false, format, args);
    va_end(args);
}

void px_warn(const char *format, ...)
{
    if (px_log_level == PX_LOG_NONE)
        return;
    va_list args;
    va_start(args, format);
    format_and_emit(false, format, args);
    va_end(args);
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes)
{
    for (; *bytes; bytes++)
        hash = (hash ^ (unsigned char)*bytes) * 0x100000001b3ULL;
    return hash;
}

/* The launcher's name for this step, so that two jobs on a node do not silence each other. */
static uint64_t job_hash(void)
{
    static const char *const keys[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_JOBID"};
    uint64_t hash = 0xcbf29ce484222325ULL;
    bool any = false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *value = getenv(keys[i]); /* launcher identity, not an option of ours */
        if (value) {
            hash = hash_bytes(hash, value);
            any = true;
        }
    }
    return any ? hash : hash ^ (uint64_t)getpid();
}

/* The claim is a name in the network namespace, which PEs of a node share unless each has a container of its own. */
bool px_log_first_on_node(const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "pxshmem-say-%016llx",
                          (unsigned long long)hash_bytes(job_hash(), text));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(fd, (struct sockaddr *)&address, size) == 0)
        return true; /* kept open on purpose: the name is the claim */
    bool taken = errno == EADDRINUSE;
    close(fd);
    return !taken;
}

void px_warn_once_per_node(const char *format, ...)
{
    if (px_log_level == PX_LOG_NONE)
        return;
    int saved = errno;
    char text[LINE_MAX_BYTES - 128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (px_log_first_on_node(text))
        emit(text, false);
    errno = saved;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static _Noreturn void end_job(int exit_status, bool quiet, const char *format, va_list args)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once); /* never released: the first fatal message of the process is the last */
    char text[LINE_MAX_BYTES - 128];
    vsnprintf(text, sizeof(text), format, args);
    if (!quiet && px_log_first_on_node(text)) {
        emit(text, true);
        pause_ms(200); /* PEs that fail with the same words now find the name taken */
    } else {
        pause_ms(1000); /* whoever says it also ends the job */
    }
    if (log_state.abort_job)
        log_state.abort_job(exit_status, text);
    _exit(exit_status);
}

void px_fatal(int exit_status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end_job(exit_status, false, format, args);
}

void px_fatal_said_elsewhere(int exit_status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end_job(exit_status, true, format, args);
}
