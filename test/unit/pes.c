/* SPDX-License-Identifier: BSD-3-Clause */
/* The forking harness of pes.h. */
#include "config.h"
#include "test/unit/pes.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/diag/log.h"
#include "src/env/env.h"

struct shared {
    _Atomic uint32_t arrived, round; /* the barrier */
    _Atomic uint32_t command, stop;
    pes_case_fn *fn; /* the same address in every PE: they are forks */
    _Atomic uint32_t done[PES_MAX];
    _Atomic uint32_t failed;
    char failure[512];
    char lines[PES_MAX][2048];
    _Atomic uint64_t words[64];
    size_t length[PES_MAX];
    unsigned char address[PES_MAX][PX_TRANSPORT_ADDRESS_MAX];
};

struct pes_job {
    struct shared *shared;
    uint32_t n;
    pid_t pid[PES_MAX];
    int status[PES_MAX];
    char *window[PES_MAX];
    char *base;
    bool threads;
    const struct px_transport_ops *ops;
    struct px_env env;
    uint64_t seed;
    char failure[600];
};

/* In a PE process. */
static struct pes_job *mine;
static uint32_t my_pe;

uint64_t pes_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void pes_fail(const char *file, int line, const char *condition, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&mine->shared->failed, &none, 1)) {
        snprintf(mine->shared->failure, sizeof(mine->shared->failure), "PE %u, %s:%d: %s: %s",
                 (unsigned)my_pe, file, line, condition, text);
        atomic_store(&mine->shared->failed, 2);
    }
    _exit(3);
}

static void remember_line(const char *line, size_t length)
{
    char *place = mine->shared->lines[my_pe];
    length =
        length < sizeof(mine->shared->lines[0]) - 1 ? length : sizeof(mine->shared->lines[0]) - 1;
    memcpy(place, line, length);
    place[length] = '\0';
    if (getenv("PES_VERBOSE")) /* a switch of the tests */
        (void)!write(STDERR_FILENO, line, length);
}

void pes_barrier(struct pes *pe)
{
    struct shared *shared = mine->shared;
    uint32_t round = atomic_load(&shared->round);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == pe->n) {
        atomic_store(&shared->arrived, 0);
        atomic_store(&shared->round, round + 1);
        return;
    }
    while (atomic_load(&shared->round) == round)
        sched_yield();
}

char *pes_window(struct pes *pe, uint32_t other)
{
    (void)pe;
    return mine->window[other];
}

_Atomic uint64_t *pes_shared(struct pes *pe, size_t index)
{
    (void)pe;
    return &mine->shared->words[index];
}

static px_status find(void *arg, uint32_t pe, struct px_transport_peer *peer,
                      struct px_error *error)
{
    (void)arg, (void)error;
    peer->address = mine->shared->address[pe];
    peer->length = mine->shared->length[pe];
    return PX_OK;
}

static bool map(void *arg, uint32_t pe, intptr_t *delta)
{
    (void)arg;
    *delta = mine->window[pe] - mine->base;
    return true;
}

static void must(px_status status, const struct px_error *error, const char *what)
{
    if (status)
        pes_fail(__FILE__, __LINE__, what, "%s", error->text);
}

static struct px_transport_setup setup_of(const struct pes_job *job, uint32_t rank)
{
    return (struct px_transport_setup){.rank = rank,
                                       .size = job->n,
                                       .threads = job->threads,
                                       .local_rank = rank,
                                       .progress_cpus = 1,
                                       .base = (uintptr_t)job->base,
                                       .span = PES_WINDOW,
                                       .control_bytes = PES_CONTROL,
                                       .map = map,
                                       .demanded = true,
                                       .env = &job->env};
}

void pes_open(struct pes *pe)
{
    struct px_transport_setup setup = setup_of(mine, pe->me);
    struct shared *shared = mine->shared;
    struct px_error error = PX_ERROR_INIT;
    shared->length[pe->me] = 0;
    must(pe->ops->open(&setup, &pe->self, shared->address[pe->me], &shared->length[pe->me], &error),
         &error, "open");
    pes_barrier(pe);
    must(pe->ops->connect(pe->self, find, NULL, &error), &error, "connect");
    must(pe->ops->add_memory(pe->self, PES_DATA, PES_SECOND_CHUNK - PES_DATA, &error), &error,
         "add_memory");
    must(pe->ops->add_memory(pe->self, PES_SECOND_CHUNK, PES_WINDOW - PES_SECOND_CHUNK, &error),
         &error, "add_memory");
    pes_barrier(pe);
}

void pes_close(struct pes *pe)
{
    pe->ops->quiet(pe->self);
    pes_barrier(pe);
    pe->ops->drop_memory(pe->self, PES_DATA);
    pe->ops->close(pe->self);
    pes_barrier(pe);
}

static void serve(struct pes_job *job, uint32_t rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mine = job;
    my_pe = rank;
    px_log_to(remember_line);
    px_log_identify((int)rank, (int)job->n);
    if (mmap(job->base, PES_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             (int)(intptr_t)job->status[rank], 0) == MAP_FAILED)
        pes_fail(__FILE__, __LINE__, "mmap", "%s", strerror(errno));
    struct pes pe = {
        .me = rank, .n = job->n, .ops = job->ops, .base = job->base, .seed = job->seed + rank};
    pes_open(&pe);
    for (uint32_t command = 0; !atomic_load(&job->shared->stop);) {
        if (atomic_load(&job->shared->command) == command) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        command++;
        job->shared->fn(&pe);
        atomic_store(&job->shared->done[rank], command);
    }
    pes_close(&pe);
    px_env_free(&job->env);
    free(job);
    exit(0); /* not _exit: the leak checker runs there */
}

static bool make_windows(struct pes_job *job)
{
    for (uint32_t i = 0; i < job->n; i++) {
        int fd = memfd_create("pes", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, PES_WINDOW) != 0)
            return false;
        job->status[i] = fd; /* until the PE that belongs to it exists */
        job->window[i] = mmap(NULL, PES_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (job->window[i] == MAP_FAILED)
            return false;
    }
    job->base =
        mmap(NULL, PES_WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    job->shared =
        mmap(NULL, sizeof(*job->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return job->base != MAP_FAILED && job->shared != MAP_FAILED;
}

/* Whether the transport can run is asked in a process of its own, since asking opens libraries. */
static bool can_run(struct pes_job *job, char *reason, size_t size)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct px_transport_setup setup = setup_of(job, 0);
        struct px_error error = PX_ERROR_INIT;
        px_status status = job->ops->probe(&setup, &error);
        snprintf(job->shared->failure, sizeof(job->shared->failure), "%.*s", 500, error.text);
        _exit(status ? 1 : 0);
    }
    int status = 1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    snprintf(reason, size, "%s", job->shared->failure);
    job->shared->failure[0] = '\0';
    return status == 0;
}

struct pes_job *pes_start(const char *transport, uint32_t n, bool threads, char *reason,
                          size_t size)
{
    struct pes_job *job = calloc(1, sizeof(*job));
    struct px_error error = PX_ERROR_INIT;
    snprintf(reason, size, "this build has no transport named %s", transport);
    if (!job || !(job->ops = px_transport_by_name(transport)))
        goto free_job;
    job->n = n;
    job->threads = threads;
    if (px_env_read(&job->env, &error)) {
        snprintf(reason, size, "%s", error.text);
        goto free_job;
    }
    const char *seed = getenv("PES_SEED"); /* a switch of the tests */
    job->seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)getpid();
    if (!make_windows(job) || !can_run(job, reason, size))
        goto free_env;
    fflush(NULL);
    for (uint32_t i = 0; i < n; i++) {
        job->pid[i] = fork();
        if (job->pid[i] == 0)
            serve(job, i);
    }
    for (uint32_t i = 0; i < n; i++) {
        close(job->status[i]);
        job->status[i] = -1;
    }
    printf("# %s, %u PEs, seed %llu (set PES_SEED to repeat)\n", job->ops->name, (unsigned)n,
           (unsigned long long)job->seed);
    return job;

free_env:
    px_env_free(&job->env);
free_job:
    free(job);
    return NULL;
}

bool pes_alive(struct pes_job *job, uint32_t pe)
{
    int status;
    if (job->pid[pe] > 0 && waitpid(job->pid[pe], &status, WNOHANG) == job->pid[pe]) {
        job->pid[pe] = 0;
        job->status[pe] = status;
    }
    return job->pid[pe] > 0;
}

const char *pes_last_line(struct pes_job *job, uint32_t pe)
{
    return job->shared->lines[pe];
}

static const char *why(struct pes_job *job, const char *otherwise)
{
    bool said = atomic_load(&job->shared->failed) == 2;
    int used =
        snprintf(job->failure, sizeof(job->failure), "%s", said ? job->shared->failure : otherwise);
    for (uint32_t i = 0; i < job->n && used < (int)sizeof(job->failure); i++)
        if (!said && job->shared->lines[i][0])
            used += snprintf(job->failure + used, sizeof(job->failure) - (size_t)used, "; %s",
                             job->shared->lines[i]);
    return job->failure;
}

static void end(struct pes_job *job)
{
    for (uint32_t i = 0; i < job->n; i++)
        if (pes_alive(job, i)) {
            kill(job->pid[i], SIGKILL);
            waitpid(job->pid[i], &job->status[i], 0);
            job->pid[i] = 0;
        }
}

/* Waits until `reached` holds for all PEs; a failure, a death or the limit ends the job. */
static const char *wait_for(struct pes_job *job, bool (*reached)(struct pes_job *job, uint32_t pe),
                            unsigned limit_s)
{
    time_t limit = time(NULL) + (time_t)limit_s;
    for (;; nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL)) {
        bool all = true, lost = atomic_load(&job->shared->failed) == 2;
        for (uint32_t i = 0; i < job->n; i++) {
            bool alive = pes_alive(job, i); /* before looking: what it reached it reached alive */
            if (!reached(job, i)) {
                all = false;
                lost |= !alive;
            }
        }
        if (all)
            return NULL;
        if (lost || time(NULL) > limit) {
            const char *text = why(job, lost ? "a PE ended unexpectedly" : "the PEs hang");
            end(job);
            return text;
        }
    }
}

static bool has_done(struct pes_job *job, uint32_t pe)
{
    return atomic_load(&job->shared->done[pe]) == atomic_load(&job->shared->command);
}

static bool has_ended(struct pes_job *job, uint32_t pe)
{
    return job->pid[pe] == 0;
}

void pes_begin(struct pes_job *job, pes_case_fn *fn)
{
    for (size_t i = 0; i < 64; i++)
        atomic_store(&job->shared->words[i], 0);
    job->shared->fn = fn;
    atomic_fetch_add(&job->shared->command, 1);
}

const char *pes_run(struct pes_job *job, pes_case_fn *fn, unsigned limit_s)
{
    pes_begin(job, fn);
    return wait_for(job, has_done, limit_s);
}

const char *pes_stop(struct pes_job *job)
{
    static char text[700];
    const char *failure = NULL;
    bool all_alive = true;
    for (uint32_t i = 0; i < job->n; i++)
        all_alive &= pes_alive(job, i);
    if (all_alive) {
        atomic_store(&job->shared->stop, 1);
        failure = wait_for(job, has_ended, 120);
        for (uint32_t i = 0; i < job->n && !failure; i++)
            if (job->status[i] != 0)
                failure = why(job, "a PE ended with a failure when it closed");
    }
    end(job);
    if (failure)
        failure = memcpy(text, failure, strlen(failure) + 1);
    for (uint32_t i = 0; i < job->n; i++)
        munmap(job->window[i], PES_WINDOW);
    munmap(job->base, PES_WINDOW);
    munmap(job->shared, sizeof(*job->shared));
    px_env_free(&job->env);
    free(job);
    return failure;
}
