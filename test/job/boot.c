/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap on its own, under a real launcher: facts, rounds of exchanges whose every record is
 * compared, and the ways in which it may fail. Each PE prints one line of facts.
 *
 *   boot [-r rounds] [-t timeout] [-b backend] [-a] [-m PE: never opens]
 * exchange]
 *        [-k PE: kills itself before the exchange] [-A PE: aborts with status 7] [-N nodes: of each
 * PE, as "0 0 1"] */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pmix/boot.h"
#include "src/diag/log.h"
#include "test/job/tap.h"

static struct {
    unsigned rounds;
    long missing, skips, killed, aborts;
    const char *nodes;
    struct px_boot_options boot;
} option = {.rounds = 1,
            .missing = -1,
            .skips = -1,
            .killed = -1,
            .aborts = -1,
            .boot = {.backend = "", .timeout_s = 30}};

static struct px_boot *boot;

/* As the library does it: one message for equal texts of a node, then the end of the job. */
static void abort_job(int exit_status, const char *message)
{
    if (boot)
        px_boot_abort(boot, exit_status, message);
}

static void die(const struct px_error *error)
{
    px_fatal(3, "%s", error->text);
}

static void parse(int argc, char **argv)
{
    for (int letter; (letter = getopt(argc, argv, "r:t:b:am:s:k:A:N:")) != -1;) {
        switch (letter) {
        case 'r':
            option.rounds = (unsigned)atoi(optarg);
            break;
        case 't':
            option.boot.timeout_s = (unsigned)atoi(optarg);
            break;
        case 'b':
            option.boot.backend = optarg;
            break;
        case 'a':
            option.boot.allow_alone = true;
            break;
        case 'm':
            option.missing = atol(optarg);
            break;
        case 's':
            option.skips = atol(optarg);
            break;
        case 'k':
            option.killed = atol(optarg);
            break;
        case 'A':
            option.aborts = atol(optarg);
            break;
        case 'N':
            option.nodes = optarg;
            break;
        default:
            exit(2);
        }
    }
}

/* What PE `pe` publishes in `round`: every byte can be told from every other PE's and round's. */
static size_t payload(uint32_t pe, unsigned round, uint8_t *bytes, size_t capacity)
{
    size_t length = 1 + (pe * 37 + round * 11) % capacity;
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(pe * 7 + round * 13 + i);
    return length;
}

static void compare_all(const char *key, unsigned round)
{
    struct px_error error = PX_ERROR_INIT;
    for (uint32_t pe = 0; pe < px_boot_facts(boot)->size; pe++) {
        uint8_t wanted[700], found[700];
        size_t n = 0, length = payload(pe, round, wanted, sizeof(wanted));
        if (px_boot_lookup(boot, pe, key, found, sizeof(found), &n, &error) != PX_OK)
            die(&error);
        if (n != length || memcmp(found, wanted, n) != 0) {
            px_error_set(&error, PX_ERR_PROTOCOL, "record of PE %u in round %u differs", pe, round);
            die(&error);
        }
    }
}

static void exchange(const char *key, unsigned round)
{
    struct px_error error = PX_ERROR_INIT;
    uint8_t bytes[700];
    size_t length = payload(px_boot_facts(boot)->rank, round, bytes, sizeof(bytes));
    if (px_boot_publish(boot, key, bytes, length, &error) != PX_OK ||
        px_boot_exchange(boot, &error) != PX_OK)
        die(&error);
    compare_all(key, round);
}

static void refuse_what_is_not_there(void)
{
    struct px_error error = PX_ERROR_INIT;
    char byte;
    size_t n;
    uint32_t last = px_boot_facts(boot)->size - 1;
    ok(px_boot_lookup(boot, last, "nosuch", &byte, 1, &n, &error) == PX_ERR_NOT_FOUND,
       "a key that nobody published: %s", error.text);
    ok(px_boot_lookup(boot, last, "first", &byte, 0, &n, &error) == PX_ERR_PROTOCOL,
       "more bytes than there is room for: %s", error.text);
    ok(px_boot_lookup(boot, last + 1, "first", &byte, 1, &n, &error) == PX_ERR_INVALID,
       "a PE that is not there: %s", error.text);
    ok(px_boot_publish(boot, "first", &byte, 1, &error) == PX_ERR_INVALID,
       "a key that was published before: %s", error.text);
}

static void print_facts(void)
{
    const struct px_boot_facts *f = px_boot_facts(boot);
    char nodes[256] = "", locals[256] = "";
    for (uint32_t pe = 0; pe < f->size && strlen(nodes) < 240; pe++)
        sprintf(nodes + strlen(nodes), " %u", f->node_of[pe]);
    for (uint32_t i = 0; i < f->local_size && strlen(locals) < 240; i++)
        sprintf(locals + strlen(locals), " %u", f->local_ranks[i]);
    printf(
        "# facts: %s PE %u of %u, node %u of %u (%s), local %u of %u [%s ], nodes [%s ], job %s, "
        "client %s, server %s\n",
        f->backend, f->rank, f->size, f->node, f->nodes, px_boot_host(boot, f->node), f->local_rank,
        f->local_size, locals, nodes, f->job, f->client_version, f->server_version);
    fflush(stdout);
    tap_start((int)f->rank);
    ok(f->local_ranks[f->local_rank] == f->rank, "I am among my node's PEs");
    ok(f->node_of[f->rank] == f->node, "and my node is where the table says");
    if (option.nodes)
        ok(strcmp(nodes, option.nodes) == 0, "the PEs are on nodes%s, expected%s", nodes,
           option.nodes);
}

static void misbehave(void)
{
    long pe = px_boot_facts(boot)->rank;
    if (pe == option.killed)
        raise(SIGKILL);
    if (pe == option.aborts)
        px_fatal(7, "asked to abort");
}

/* PEs are on one node when, and only when, their hosts have one name. */
static void compare_nodes(void)
{
    struct px_error error = PX_ERROR_INIT;
    const struct px_boot_facts *facts = px_boot_facts(boot);
    char mine[128] = "", theirs[128];
    unsigned wrong = 0;
    gethostname(mine, sizeof(mine) - 1);
    if (px_boot_publish(boot, "host", mine, sizeof(mine), &error) != PX_OK ||
        px_boot_exchange(boot, &error) != PX_OK)
        die(&error);
    for (uint32_t pe = 0; pe < facts->size; pe++) {
        size_t n;
        if (px_boot_lookup(boot, pe, "host", theirs, sizeof(theirs), &n, &error) != PX_OK)
            die(&error);
        wrong += (strncmp(mine, theirs, sizeof(mine)) == 0) != (facts->node_of[pe] == facts->node);
    }
    ok(wrong == 0, "the node table fits the host names, %u do not", wrong);
}

/* The last PE comes late, and leaves a file just before, which all others find when they have met it. */
static void meet_plainly(unsigned round)
{
    struct px_error error = PX_ERROR_INIT;
    const struct px_boot_facts *facts = px_boot_facts(boot);
    char path[200];
    snprintf(path, sizeof(path), "boot.%.100s.late", facts->job);
    if (round == 0 && facts->rank == facts->size - 1) {
        usleep(200000);
        FILE *file = fopen(path, "w");
        if (!file || fclose(file) != 0)
            px_fatal(3, "%s cannot be written", path);
    }
    if (px_boot_barrier(boot, &error) != PX_OK)
        die(&error);
    if (round == 0) {
        ok(access(path, F_OK) == 0, "nobody leaves a meeting before the last has come");
        exchange("third", round); /* all have looked */
        (void)unlink(path);
    }
}

static void one_round(unsigned round)
{
    struct px_error error = PX_ERROR_INIT;
    if (px_boot_open(&option.boot, &boot, &error) != PX_OK)
        die(&error);
    px_log_identify((int)px_boot_facts(boot)->rank, (int)px_boot_facts(boot)->size);
    if (round == 0)
        print_facts();
    misbehave();
    exchange("first", round);
    if (option.skips == (long)px_boot_facts(boot)->rank)
        pause();
    exchange("second", round + 1000);
    if (round == 0) {
        refuse_what_is_not_there();
        compare_nodes();
    }
    meet_plainly(round);
    px_boot_close(boot);
    boot = NULL;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    px_log_on_fatal(abort_job);
    const char *rank = getenv("PMIX_RANK") ? getenv("PMIX_RANK") : getenv("PMI_RANK");
    if (rank && atol(rank) == option.missing)
        pause();
    for (unsigned round = 0; round < option.rounds; round++)
        one_round(round);
    ok(true, "%u rounds, every record as it was published", option.rounds);
    return tap_done();
}
