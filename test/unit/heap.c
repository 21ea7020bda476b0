/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole pool with pretend PEs: start-up in rounds, the same addresses, peers' memory, growth,
 * reset; with descriptors taken the direct way, and passed where a filter or pid namespaces forbid
 * that. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "test/unit/pretend.h"

#include <cmocka.h>

#include "heap/heap.h"
#include "heap/private.h"
#include "src/diag/log.h"
#include "test/sanitizer.h"

#define MIB ((size_t)1 << 20)
#define CONTROL ((size_t)100000) /* not a whole number of pages, on purpose */

struct control {
    uint32_t rank;
    uint64_t nonce;
};

static struct px_heap_options default_options(struct pretend *job, uint32_t rank)
{
    return (struct px_heap_options){.size = 8 * MIB,
                                    .control_bytes = CONTROL,
                                    .rank = rank,
                                    .local_size = job->n,
                                    .job = "unit",
                                    .numa_node = PX_HEAP_NUMA_AUTO,
                                    .timeout_s = 20};
}

static px_status confirm(void *arg, uint32_t rank, const void *address, uint64_t nonce,
                         struct px_error *error)
{
    const struct control *control = address;
    if (control->rank != rank || control->nonce != nonce)
        return px_error_set(error, PX_ERR_PEER, "not the memory of PE %u", rank);
    return PX_OK;
}

static struct px_heap *make(const struct px_heap_options *options)
{
    struct px_error error = PX_ERROR_INIT;
    struct px_heap *heap = NULL;
    if (px_heap_create(options, &heap, &error) != PX_OK)
        fprintf(stderr, "%s\n", error.text);
    pe_check(heap);
    struct control *control = px_heap_control(heap);
    pe_check(control->nonce == 0);
    *control = (struct control){.rank = options->rank, .nonce = px_heap_nonce(heap)};
    return heap;
}

/* One round; what came of it on this PE. `between` runs after the cards were exchanged. */
static px_status round_trip(struct pretend *job, struct px_heap *heap, uint32_t rank, size_t needed,
                            void (*between)(uintptr_t base, size_t span), struct px_error *error)
{
    struct px_heap_card cards[PRETEND_MAX];
    struct px_heap_peer peers[PRETEND_MAX];
    uintptr_t base;
    size_t span;
    char note[PX_HEAP_NOTE_MAX];
    px_status status = px_heap_card(heap, job->cards[rank], error);
    pe_check(status == PX_OK);
    pretend_barrier(job);
    for (uint32_t i = 0; i < job->n; i++) {
        pe_check(px_heap_card_decode(job->cards[i], sizeof(job->cards[i]), &cards[i], error) == PX_OK);
        peers[i] = (struct px_heap_peer){.rank = i, .card = &cards[i]};
    }
    pe_check(px_heap_agree(cards, job->n, needed, &base, &span, note, error) == PX_OK);
    if (between)
        between(base, span);
    status = px_heap_place(heap, base, span, error);
    if (status == PX_OK)
        status = px_heap_attach(heap, peers, job->n, confirm, NULL, error);
    return status;
}

/* All PEs learn whether all succeeded. */
static px_status vote(struct pretend *job, uint32_t rank, px_status status)
{
    px_status worst = PX_OK;
    atomic_store(&job->status[rank], (int)status);
    pretend_barrier(job);
    for (uint32_t i = 0; i < job->n; i++)
        if (atomic_load(&job->status[i]) != PX_OK)
            worst = (px_status)atomic_load(&job->status[i]);
    pretend_barrier(job);
    return worst;
}

static int start_up(struct pretend *job, struct px_heap *heap, uint32_t rank, size_t size,
                    void (*between)(uintptr_t base, size_t span))
{
    for (int round = 1; round <= 3; round++) {
        struct px_error error = PX_ERROR_INIT;
        px_status mine = round_trip(job, heap, rank, CONTROL + size, between, &error);
        if (mine != PX_OK && mine != PX_ERR_UNREACHABLE)
            fprintf(stderr, "PE %u, round %d: %s\n", rank, round, error.text);
        if (vote(job, rank, mine) == PX_OK)
            return round;
        between = NULL;
    }
    return 0;
}

static void same_address_everywhere(struct pretend *job, struct px_heap *heap, uint32_t rank)
{
    struct px_heap_facts facts;
    px_heap_facts(heap, &facts);
    atomic_store(&job->values[rank], facts.base);
    pretend_barrier(job);
    for (uint32_t i = 0; i < job->n; i++)
        pe_check(atomic_load(&job->values[i]) == facts.base);
    pe_check(px_heap_control(heap) == (void *)facts.base);
    pe_check(facts.data == facts.base + facts.control_bytes);
    pe_check(facts.control_bytes >= CONTROL && facts.control_bytes % 4096 == 0);
    pretend_barrier(job);
}

/* Everybody writes to everybody at `offset`, then looks at what came. */
static void all_to_all(struct pretend *job, struct px_heap *heap, uint32_t rank, size_t offset)
{
    struct px_heap_facts facts;
    px_heap_facts(heap, &facts);
    for (uint32_t i = 0; i < job->n; i++) {
        intptr_t delta = px_heap_delta(heap, i);
        pe_check(delta != PX_HEAP_NOT_MAPPED && (delta == 0) == (i == rank));
        uint64_t *word = (uint64_t *)(facts.data + offset + (uintptr_t)delta);
        word[rank] = 1000 * rank + i + offset;
    }
    pretend_barrier(job);
    const uint64_t *mine = px_heap_address(&facts, offset);
    for (uint32_t i = 0; i < job->n; i++)
        pe_check(mine[i] == 1000 * i + rank + offset);
    pretend_barrier(job);
}

static void plain_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    struct px_error error = PX_ERROR_INIT;
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    same_address_everywhere(job, heap, rank);
    all_to_all(job, heap, rank, 0);

    /* A block that does not fit: grow, then it is there on all sides without another word to the
     * peers. */
    struct px_alloc *alloc = px_heap_allocator(heap);
    struct px_block block;
    pe_check(px_alloc_malloc(alloc, 20 * MIB, 0, &block) == PX_ERR_NO_MEMORY);
    size_t grown = px_heap_growth(heap, 20 * MIB, 0);
    pe_check(grown >= 20 * MIB);
    pe_check(px_heap_grow(heap, grown, &error) == PX_OK);
    pe_check(px_alloc_extend(alloc, grown) == PX_OK);
    pe_check(px_alloc_malloc(alloc, 20 * MIB, 0, &block) == PX_OK);
    pretend_barrier(job);
    all_to_all(job, heap, rank, block.offset + 20 * MIB - 4096);

    /* Reinit: zero again, the base stays, the control area too. */
    struct px_heap_facts facts;
    pe_check(px_heap_reset(heap, 16 * MIB, &error) == PX_OK);
    px_heap_facts(heap, &facts);
    pe_check(facts.size == 16 * MIB);
    pretend_barrier(job);
    same_address_everywhere(job, heap, rank);
    pe_check(confirm(NULL, rank, px_heap_control(heap), px_heap_nonce(heap), &error) == PX_OK);
    const uint64_t *first = px_heap_address(&facts, 0);
    for (uint32_t i = 0; i < job->n; i++)
        pe_check(first[i] == 0);
    pretend_barrier(job);
    all_to_all(job, heap, rank, 15 * MIB);
    px_heap_destroy(heap);
}

static void whole_story(void **state)
{
    assert_int_equal(pretend_run(1, plain_job), 0);
    assert_int_equal(pretend_run(4, plain_job), 0);
}

/* What succeeded here but not elsewhere must leave no trace in what PEs have to agree about. */
static void quarrel_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    struct px_error error = PX_ERROR_INIT;
    struct px_heap_facts facts;
    struct rlimit limit = {.rlim_cur = 10 * MIB, .rlim_max = 10 * MIB};
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    if (rank == 1) /* PE 1 cannot grow */
        pe_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);

    px_status status = px_heap_grow(heap, px_heap_growth(heap, 20 * MIB, 0), &error);
    pe_check(status == (rank == 1 ? PX_ERR_NO_MEMORY : PX_OK));
    px_heap_facts(heap, &facts);
    pe_check(facts.size == 8 * MIB);
    pretend_barrier(job);

    status = px_heap_reset(heap, 16 * MIB, &error);
    pe_check(status == (rank == 1 ? PX_ERR_NO_MEMORY : PX_OK));
    if (status == PX_OK)
        pe_check(px_heap_reset(heap, 8 * MIB, &error) == PX_OK);
    px_heap_facts(heap, &facts);
    pe_check(facts.size == 8 * MIB);
    pretend_barrier(job);
    all_to_all(job, heap, rank, 7 * MIB);
    px_heap_destroy(heap);
}

static void a_failure_elsewhere_leaves_no_difference(void **state)
{
    assert_int_equal(pretend_run(3, quarrel_job), 0);
}

static void passing_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    options.no_direct = rank == 1; /* one is enough: all of the node pass then */
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    all_to_all(job, heap, rank, 4096);
    px_heap_destroy(heap);
}

static void one_without_direct_way_makes_all_pass(void **state)
{
    assert_int_equal(pretend_run(8, passing_job), 0);
}

/* What a strict container forbids. */
static void forbid_looking_into_others(void)
{
#define REFUSE(call)                                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),                                               \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(438 /* pidfd_getfd */),
        REFUSE(SYS_ptrace),
        REFUSE(SYS_process_vm_readv),
        REFUSE(SYS_process_vm_writev),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    pe_check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    pe_check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void filtered_job(struct pretend *job, uint32_t rank)
{
    forbid_looking_into_others();
    pe_check(syscall(438, 0, 0, 0) == -1 && errno == EPERM);
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    all_to_all(job, heap, rank, 0);
    px_heap_destroy(heap);
}

static void works_under_a_strict_filter(void **state)
{
    assert_int_equal(pretend_run(4, filtered_job), 0);
}

/* The filter comes after the cards: nobody foresaw it, the second round repairs it. */
static void filter_now(uintptr_t base, size_t span)
{
    forbid_looking_into_others();
}

static void surprised_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, rank == 0 ? filter_now : NULL) <= 2);
    all_to_all(job, heap, rank, 0);
    px_heap_destroy(heap);
}

static void an_unforeseen_refusal_costs_one_round(void **state)
{
    assert_int_equal(pretend_run(3, surprised_job), 0);
}

/* Nobody says that the direct way fails: that pids mean nothing here has to be seen from the cards. */
static void secluded_pe(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    all_to_all(job, heap, rank, 4096);
    px_heap_destroy(heap);
}

/* Each PE is process 1 of a pid namespace of its own. */
static void secluded_job(struct pretend *job, uint32_t rank)
{
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
        _exit(77);
    pid_t child = fork();
    if (child == 0) {
        pe_check(getpid() == 1);
        secluded_pe(job, rank);
        _exit(0);
    }
    int status;
    pe_check(waitpid(child, &status, 0) == child);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static bool can_unshare(int flags)
{
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(flags) != 0 && unshare(CLONE_NEWUSER | flags) != 0);
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void works_in_separate_pid_namespaces(void **state)
{
    if (!can_unshare(CLONE_NEWPID)) {
        print_message("skipped: pid namespaces are not allowed here\n");
        skip();
    }
    assert_int_equal(pretend_run(4, secluded_job), 0);
}

/* Somebody maps the agreed range between the exchange and its use. */
static void steal(uintptr_t base, size_t span)
{
    void *there =
        mmap((void *)(base + MIB), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    pe_check(there == (void *)(base + MIB));
}

static void stolen_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, rank == 1 ? steal : NULL) == 2);
    same_address_everywhere(job, heap, rank);
    all_to_all(job, heap, rank, 0);
    px_heap_destroy(heap);
}

static void a_lost_range_costs_one_round(void **state)
{
    assert_int_equal(pretend_run(3, stolen_job), 0);
}

static void littered_job(struct pretend *job, uint32_t rank)
{
    /* Each PE has large mappings in other places, some of them where the window usually lies. */
    for (uintptr_t i = 0; i < 20; i++)
        mmap((void *)(0x200000000000 + (i * 7 + rank) * 0x30000000000), 100 * MIB, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    same_address_everywhere(job, heap, rank);
    all_to_all(job, heap, rank, 0);
    px_heap_destroy(heap);
}

static void large_mappings_do_not_matter(void **state)
{
    assert_int_equal(pretend_run(4, littered_job), 0);
}

static void tight_job(struct pretend *job, uint32_t rank)
{
    struct rlimit limit = {.rlim_cur = 4096 * MIB, .rlim_max = 4096 * MIB};
    pe_check(setrlimit(RLIMIT_AS, &limit) == 0);
    struct px_heap_options options = default_options(job, rank);
    options.size = 256 * MIB;
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) >= 1);
    all_to_all(job, heap, rank, 255 * MIB);
    px_heap_destroy(heap);
}

/* The limit falls after the offer was made: the window is refused, and the next round takes a smaller one. */
static void squeeze(uintptr_t base, size_t span)
{
    struct rlimit limit = {.rlim_cur = 2048 * MIB, .rlim_max = 2048 * MIB};
    pe_check(span > 2048 * MIB);
    pe_check(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void squeezed_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap_facts facts;
    options.max_size = 4096 * MIB;
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, rank == 0 ? squeeze : NULL) == 2);
    px_heap_facts(heap, &facts);
    pe_check(facts.span < 2048 * MIB);
    same_address_everywhere(job, heap, rank);
    all_to_all(job, heap, rank, 0);
    px_heap_destroy(heap);
}

static void a_refused_window_becomes_smaller(void **state)
{
#if PX_TEST_ASAN
    print_message("skipped: the address sanitizer needs terabytes of address space itself\n");
    skip();
#endif
    assert_int_equal(pretend_run(2, squeezed_job), 0);
}

static void works_with_little_address_space(void **state)
{
#if PX_TEST_ASAN
    print_message("skipped: the address sanitizer needs terabytes of address space itself\n");
    skip();
#endif
    assert_int_equal(pretend_run(1, tight_job), 0);
    assert_int_equal(pretend_run(4, tight_job), 0);
}

/* Random mappings in random places, other ones on each PE: one address all the same. */
static void random_litter_job(struct pretend *job, uint32_t rank)
{
    uint64_t x = (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 200; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uintptr_t where = (x >> 20) % 0x7fff00000000 / 4096 * 4096;
        mmap((void *)where, (1 + x % 1000) * MIB, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    }
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    same_address_everywhere(job, heap, rank);
    all_to_all(job, heap, rank, 0);
    px_heap_destroy(heap);
}

static void random_mappings_do_not_matter(void **state)
{
    for (int i = 0; i < 50; i++)
        assert_int_equal(pretend_run(4, random_litter_job), 0);
}

/* In a network namespace of its own a PE has no sockets in common with the others: with no direct
 * way either, its peers stay unmapped, which is said and not fatal. */
static void isolated_job(struct pretend *job, uint32_t rank)
{
    if (rank == 1)
        pe_check(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
    struct px_heap_options options = default_options(job, rank);
    struct px_error error = PX_ERROR_INIT;
    options.no_direct = true;
    struct px_heap *heap = make(&options);
    px_status status = round_trip(job, heap, rank, CONTROL + options.size, NULL, &error);
    pe_check(status == PX_ERR_UNREACHABLE);
    pe_check(strstr(error.text, "network namespace"));
    for (uint32_t i = 0; i < job->n; i++)
        pe_check((px_heap_delta(heap, i) == PX_HEAP_NOT_MAPPED) ==
                 (i != rank && (i == 1 || rank == 1)));
    pretend_barrier(job);
    px_heap_destroy(heap);
}

static void an_isolated_pe_stays_unmapped(void **state)
{
    if (!can_unshare(CLONE_NEWNET)) {
        print_message("skipped: network namespaces are not allowed here\n");
        skip();
    }
    assert_int_equal(pretend_run(3, isolated_job), 0);
}

/* --- what is left after SIGKILL --- */

static size_t count_lines(const char *path, const char *word)
{
    char line[4096];
    size_t n = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        n += strstr(line, word) != NULL;
    if (file)
        fclose(file);
    return n;
}

static size_t ours_in_dev_shm(void)
{
    size_t n = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        n += strstr(entry->d_name, "pxshmem") != NULL;
    if (folder)
        closedir(folder);
    return n;
}

static void killed_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    options.job = "unit-killed";
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    all_to_all(job, heap, rank, 0);
    pe_check(count_lines("/proc/net/unix", "@pxshmem-unit-killed-") == job->n);
    pretend_barrier(job);
    kill(getpid(), SIGKILL);
}

static void nothing_is_left_after_a_kill(void **state)
{
    print_message("the PEs are killed on purpose:\n");
    assert_int_equal(pretend_run(3, killed_job), 3);
    assert_int_equal(count_lines("/proc/net/unix", "@pxshmem-unit-killed-"), 0);
    assert_int_equal(ours_in_dev_shm(), 0);
}

/* --- placement --- */

static void numa_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap_facts facts;
    char policy[PX_HEAP_CARD_BYTES];
    options.numa_node = 0;
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    all_to_all(job, heap, rank, 0);
    px_heap_facts(heap, &facts);
    snprintf(policy, sizeof(policy), "%zx prefer", (size_t)facts.base);
    if (access("/proc/self/numa_maps", R_OK) == 0) {
        pe_check(count_lines("/proc/self/numa_maps", policy) == 1);
        pe_check(strstr(facts.pages, "NUMA node 0"));
    }
    px_heap_destroy(heap);
    /* A node that does not exist is no reason to fail. */
    options.numa_node = 1000;
    heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    all_to_all(job, heap, rank, 0);
    px_heap_facts(heap, &facts);
    pe_check(!strstr(facts.pages, "NUMA") && strstr(facts.pages, "mbind"));
    px_heap_destroy(heap);
}

static void pages_prefer_the_owners_node(void **state)
{
    assert_int_equal(pretend_run(2, numa_job), 0);
}

static void file_limit_job(struct pretend *job, uint32_t rank)
{
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY}, after;
    pe_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    plain_job(job, rank);
    pe_check(getrlimit(RLIMIT_FSIZE, &after) == 0 && after.rlim_cur == 4096);

    limit.rlim_max = 4096;
    pe_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap;
    struct px_error error = PX_ERROR_INIT;
    pe_check(px_heap_create(&options, &heap, &error) == PX_ERR_NO_MEMORY);
    pe_check(strstr(error.text, "ulimit -f"));
}

static void a_file_size_limit_does_not_kill(void **state)
{
    assert_int_equal(pretend_run(2, file_limit_job), 0);
}

/* --- a small memory control group --- */

static char group[512];

static bool write_to(const char *file, const char *text)
{
    char path[640];
    snprintf(path, sizeof(path), "%s/%s", group, file);
    FILE *out = fopen(path, "w");
    bool done = out && fputs(text, out) >= 0;
    return out && fclose(out) == 0 && done;
}

/* Make one of 64 MiB; false where the system does not let us. */
static bool make_group(void)
{
    const char *const folders[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    const char *const limits[] = {"memory.limit_in_bytes", "memory.max"};
    for (int i = 0; i < 2; i++) {
        snprintf(group, sizeof(group), "%s/pxshmem-unit-%d", folders[i], (int)getpid());
        if (mkdir(group, 0700) != 0)
            continue;
        if (write_to(limits[i], "67108864"))
            return true;
        rmdir(group);
    }
    return false;
}

static void grouped_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_error error = PX_ERROR_INIT;
    struct px_heap *heap;
    pe_check(write_to("cgroup.procs", "0"));
    options.size = 256 * MIB;
    pe_check(px_heap_create(&options, &heap, &error) == PX_ERR_NO_MEMORY);
    pe_check(strstr(error.text, "pxshmem-unit") && strstr(error.text, "asked 256 MiB"));
    const char *fits = strstr(error.text, "NVSHMEM_SYMMETRIC_SIZE=");
    size_t mib = fits ? strtoul(strchr(fits, '=') + 1, NULL, 10) : 0;
    pe_check(mib >= 16 && mib < 32);

    options.size = 16 * MIB;
    heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    struct px_heap_facts facts;
    px_heap_facts(heap, &facts);
    memset((void *)facts.data, 1, facts.size); /* no SIGBUS, no kill */
    pretend_barrier(job);
    pe_check(px_heap_grow(heap, 256 * MIB, &error) == PX_ERR_NO_MEMORY);
    pe_check(px_heap_grow(heap, 20 * MIB, &error) == PX_OK);
    pretend_barrier(job);
    px_heap_destroy(heap);
}

static void a_small_control_group_is_respected(void **state)
{
    if (!make_group()) {
        print_message("skipped: no right to make a memory control group here\n");
        skip();
    }
    uint32_t failed = pretend_run(2, grouped_job);
    assert_int_equal(rmdir(group), 0);
    assert_int_equal(failed, 0);
}

static void refuses_what_cannot_be(void **state)
{
    struct px_heap_options options = {
        .size = (size_t)1 << 50, .control_bytes = 4096, .local_size = 2, .job = "unit"};
    struct px_error error = PX_ERROR_INIT;
    struct px_heap *heap;
    assert_int_equal(px_heap_create(&options, &heap, &error), PX_ERR_NO_MEMORY);
    assert_non_null(strstr(error.text, "asked 1 PiB for each of 2 PEs"));
    assert_non_null(strstr(error.text, "NVSHMEM_SYMMETRIC_SIZE="));
    options.size = 8 * MIB;
    options.huge = "big";
    assert_int_equal(px_heap_create(&options, &heap, &error), PX_ERR_INVALID);
    options.huge = "off";
    options.max_size = MIB;
    assert_int_equal(px_heap_create(&options, &heap, &error), PX_ERR_INVALID);
    options.max_size = 0;
    options.local_size = 0;
    assert_int_equal(px_heap_create(&options, &heap, &error), PX_ERR_INVALID);
    px_heap_destroy(NULL);
}

static void impostor_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    struct px_error error = PX_ERROR_INIT;
    if (rank == 0)
        ((struct control *)px_heap_control(heap))->nonce++;
    px_status status = round_trip(job, heap, rank, CONTROL + options.size, NULL, &error);
    pe_check(status == (rank == 0 ? PX_OK : PX_ERR_PEER));
    pe_check((px_heap_delta(heap, 0) == PX_HEAP_NOT_MAPPED) == (rank != 0));
    pe_check(rank == 0 || strstr(error.text, "PE 0"));
    pretend_barrier(job);
    px_heap_destroy(heap);
}

static void unconfirmed_memory_is_not_mapped(void **state)
{
    assert_int_equal(pretend_run(3, impostor_job), 0);
}

static void where_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct px_heap *heap = make(&options);
    struct px_heap_facts facts;
    struct px_heap_where where;
    int local;
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    px_heap_facts(heap, &facts);
    px_heap_where(heap, &local, &where);
    pe_check(where.kind == PX_HEAP_OUTSIDE);
    px_heap_where(heap, (void *)facts.base, &where);
    pe_check(where.kind == PX_HEAP_CONTROL);
    px_heap_where(heap, (void *)facts.data, &where);
    pe_check(where.kind == PX_HEAP_MINE && where.rank == rank);
    px_heap_where(heap, (void *)(facts.data + facts.size - 1), &where);
    pe_check(where.kind == PX_HEAP_MINE);
    px_heap_where(heap, (void *)(facts.data + facts.size), &where);
    pe_check(where.kind == PX_HEAP_MINE_UNUSED);
    uint32_t other = 1 - rank;
    px_heap_where(heap, (char *)facts.data + 77 + px_heap_delta(heap, other), &where);
    pe_check(where.kind == PX_HEAP_OF_PEER && where.rank == other);
    pe_check(where.symmetric == facts.data + 77);
    pretend_barrier(job);
    px_heap_detach(heap, other);
    pe_check(px_heap_delta(heap, other) == PX_HEAP_NOT_MAPPED);
    px_heap_destroy(heap);
}

static void addresses_are_recognised(void **state)
{
    assert_int_equal(pretend_run(2, where_job), 0);
}

static size_t count_open(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct stat file;
        n += fstat(fd, &file) == 0;
    }
    return n;
}

static size_t count_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    size_t n = 0;
    while (fgets(line, sizeof(line), maps))
        n += strstr(line, "/memfd:pxshmem") != NULL;
    fclose(maps);
    return n;
}

static void repeated_job(struct pretend *job, uint32_t rank)
{
    size_t open_before = count_open();
    for (int i = 0; i < 200; i++) {
        struct px_heap_options options = default_options(job, rank);
        options.no_direct = i % 2;
        struct px_heap *heap = make(&options);
        pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
        all_to_all(job, heap, rank, 0);
        px_heap_destroy(heap);
    }
    pe_check(count_open() == open_before);
    pe_check(count_maps() == 0);
}

static void many_rounds_leave_nothing(void **state)
{
    assert_int_equal(pretend_run(2, repeated_job), 0);
}

/* Heaps as large as half of what is available cost no pages. */
static void untouched_job(struct pretend *job, uint32_t rank)
{
    struct px_heap_options options = default_options(job, rank);
    struct stat file;
    struct px_heap_facts facts;
    struct px_limits limits;
    pe_check(px_limits_read("", &limits, NULL) == PX_OK);
    options.size = limits.available / 4;
    options.huge = "off";
    struct px_heap *heap = make(&options);
    pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
    px_heap_facts(heap, &facts);
    pe_check(facts.size >= options.size);
    pe_check(fstat(facts.fd, &file) == 0 && file.st_blocks * 512 < 65536);
    pretend_barrier(job);
    px_heap_destroy(heap);
}

static void start_up_touches_no_page(void **state)
{
    assert_int_equal(pretend_run(2, untouched_job), 0);
}

static void huge_job(struct pretend *job, uint32_t rank)
{
    static const char *const kinds[] = {"auto", "thp", "hugetlb", "off"};
    for (size_t i = 0; i < 4; i++) {
        struct px_heap_options options = default_options(job, rank);
        options.huge = kinds[i];
        struct px_heap *heap = make(&options);
        struct px_heap_facts facts;
        struct px_error error = PX_ERROR_INIT;
        pe_check(start_up(job, heap, rank, options.size, NULL) == 1);
        px_heap_facts(heap, &facts);
        if (rank == 0)
            fprintf(stderr, "# huge=%s: %s\n", kinds[i], facts.pages);
        all_to_all(job, heap, rank, 0);
        all_to_all(job, heap, rank, 7 * MIB);
        pe_check(px_heap_reset(heap, 4 * MIB, &error) == PX_OK);
        pretend_barrier(job);
        pe_check(*(uint64_t *)facts.data == 0);
        pretend_barrier(job);
        all_to_all(job, heap, rank, 3 * MIB);
        px_heap_destroy(heap);
    }
}

static void every_kind_of_page_works(void **state)
{
    assert_int_equal(pretend_run(2, huge_job), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_story),
        cmocka_unit_test(a_failure_elsewhere_leaves_no_difference),
        cmocka_unit_test(one_without_direct_way_makes_all_pass),
        cmocka_unit_test(works_under_a_strict_filter),
        cmocka_unit_test(an_unforeseen_refusal_costs_one_round),
        cmocka_unit_test(works_in_separate_pid_namespaces),
        cmocka_unit_test(a_lost_range_costs_one_round),
        cmocka_unit_test(large_mappings_do_not_matter),
        cmocka_unit_test(random_mappings_do_not_matter),
        cmocka_unit_test(an_isolated_pe_stays_unmapped),
        cmocka_unit_test(nothing_is_left_after_a_kill),
        cmocka_unit_test(pages_prefer_the_owners_node),
        cmocka_unit_test(works_with_little_address_space),
        cmocka_unit_test(a_refused_window_becomes_smaller),
        cmocka_unit_test(a_file_size_limit_does_not_kill),
        cmocka_unit_test(a_small_control_group_is_respected),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(unconfirmed_memory_is_not_mapped),
        cmocka_unit_test(addresses_are_recognised),
        cmocka_unit_test(many_rounds_leave_nothing),
        cmocka_unit_test(start_up_touches_no_page),
        cmocka_unit_test(every_kind_of_page_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
