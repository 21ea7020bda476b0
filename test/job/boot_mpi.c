/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap beside MPI, which initialises and finalises the same PMIx: every order of the two, MPI calls and exchanges
 * between. The argument spells the order:
 *   I MPI_Init, F MPI_Finalize, m an MPI_Allreduce; o open, x exchange and compare, c close */
#include "config.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmix/boot.h"
#include "src/diag/log.h"
#include "test/job/tap.h"

static struct px_boot *boot;
static struct px_error error;
static unsigned keys;

static void demand(bool condition, const char *what)
{
    if (!condition)
        px_fatal(3, "%s: %s", what, error.text);
}

static void open_boot(void)
{
    struct px_boot_options options = {.backend = "", .timeout_s = 30};
    demand(px_boot_open(&options, &boot, &error) == PX_OK, "open");
}

static void exchange(void)
{
    const struct px_boot_facts *facts = px_boot_facts(boot);
    uint32_t mine = facts->rank * 1000 + keys, seen = 0, equal = 0;
    char key[8];
    size_t length;
    snprintf(key, sizeof(key), "k%u", keys++);
    demand(px_boot_publish(boot, key, &mine, sizeof(mine), &error) == PX_OK, "publish");
    demand(px_boot_exchange(boot, &error) == PX_OK, "exchange");
    for (uint32_t pe = 0; pe < facts->size; pe++) {
        demand(px_boot_lookup(boot, pe, key, &seen, sizeof(seen), &length, &error) == PX_OK,
               "look up");
        equal += seen == pe * 1000 + keys - 1;
    }
    ok(equal == facts->size, "%u of %u records are as they were published", equal, facts->size);
}

static void close_boot(void)
{
    demand(px_boot_barrier(boot, &error) == PX_OK, "barrier");
    px_boot_close(boot);
    boot = NULL;
}

static void reduce(void)
{
    int one = 1, sum = 0, size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ok(sum == size, "MPI adds %d ones to %d", size, sum);
}

static void step(char letter)
{
    int level;
    switch (letter) {
    case 'I':
        MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
        break;
    case 'F':
        MPI_Finalize();
        break;
    case 'm':
        reduce();
        break;
    case 'o':
        open_boot();
        break;
    case 'x':
        exchange();
        break;
    case 'c':
        close_boot();
        break;
    default:
        px_fatal(2, "'%c' is no step", letter);
    }
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    tap_start(rank ? atoi(rank) : 0);
    for (const char *order = argc > 1 ? argv[1] : ""; *order; order++)
        step(*order);
    return tap_done();
}
