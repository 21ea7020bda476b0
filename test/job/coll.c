/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams and collectives of a real job against what they should give, over the world, the node, teams split from the
 * world and a team by id. The unit tests go through all types and sizes; here it is mapped and remote peers, a real
 * network, and the public names. */
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define WORDS  ((size_t)1 << 18)
#define ROUNDS 200

static int me, n_pes;
static int64_t *source, *dest;
static double *fractions, *sums;

/* Word `i` of what member `member` gives in test `salt`. */
static int64_t word(int member, size_t i, int salt)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)(member + 1) * 0xc2b2ae3d27d4eb4fu;
    return (int64_t)((x + (uint64_t)salt * 0x165667b19e3779f9u) >> 20);
}

static void fill(int member, size_t count, int salt)
{
    for (size_t i = 0; i < count; i++)
        source[i] = word(member, i, salt);
}

static size_t wrong_words(const int64_t *got, int member, size_t first, size_t count, int salt)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += got[i] != word(member, first + i, salt);
    return wrong;
}

static const size_t counts[] = {0, 1, 5, 6, 23, 24, 100, 385, 1025, 4099, 20000};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static size_t try_broadcast(nvshmem_team_t team, size_t count, int salt)
{
    int rank = nvshmem_team_my_pe(team), size = nvshmem_team_n_pes(team);
    size_t wrong = 0;
    for (int root = 0; root < size; root += 1 + size / 3) {
        fill(rank, count, salt + root);
        wrong += (size_t)nvshmem_int64_broadcast(team, dest, source, count, root);
        wrong += wrong_words(dest, root, 0, count, salt + root);
    }
    return wrong;
}

static size_t try_fcollect(nvshmem_team_t team, size_t count, int salt)
{
    int size = nvshmem_team_n_pes(team);
    fill(nvshmem_team_my_pe(team), count, salt);
    size_t wrong = (size_t)nvshmem_int64_fcollect(team, dest, source, count);
    memset(source, 0, count * sizeof(*source));
    for (int m = 0; m < size; m++)
        wrong += wrong_words(dest + (size_t)m * count, m, 0, count, salt);
    return wrong;
}

static size_t try_collect(nvshmem_team_t team, size_t count, int salt)
{
    int rank = nvshmem_team_my_pe(team), size = nvshmem_team_n_pes(team);
    size_t at = 0, mine = count * (size_t)(rank % 3);
    fill(rank, mine, salt);
    size_t wrong = (size_t)nvshmem_int64_collect(team, dest, source, mine);
    for (int m = 0; m < size; at += count * (size_t)(m++ % 3))
        wrong += wrong_words(dest + at, m, 0, count * (size_t)(m % 3), salt);
    return wrong;
}

static size_t try_alltoall(nvshmem_team_t team, size_t count, int salt)
{
    int rank = nvshmem_team_my_pe(team), size = nvshmem_team_n_pes(team);
    fill(rank, count * (size_t)size, salt);
    size_t wrong = (size_t)nvshmem_int64_alltoall(team, dest, source, count);
    for (int m = 0; m < size; m++)
        wrong += wrong_words(dest + (size_t)m * count, m, (size_t)rank * count, count, salt);
    return wrong;
}

static size_t try_alltoalls(nvshmem_team_t team, size_t count, int salt)
{
    int rank = nvshmem_team_my_pe(team), size = nvshmem_team_n_pes(team);
    size_t few = count % 50, wrong;
    fill(rank, few * (size_t)size * 3, salt);
    wrong = (size_t)nvshmem_int64_alltoalls(team, dest, source, 2, 3, few);
    for (int m = 0; m < size; m++)
        for (size_t i = 0; i < few; i++)
            wrong += dest[((size_t)m * few + i) * 2] != word(m, ((size_t)rank * few + i) * 3, salt);
    return wrong;
}

/* Members 0 to last, element `i`. */
static int64_t sum_of(int last, size_t i, int salt)
{
    int64_t sum = 0;
    for (int m = 0; m <= last; m++)
        sum += word(m, i, salt);
    return sum;
}

static size_t try_reduce(nvshmem_team_t team, size_t count, int salt)
{
    int rank = nvshmem_team_my_pe(team), size = nvshmem_team_n_pes(team);
    size_t wrong = 0;
    fill(rank, count, salt);
    wrong += (size_t)nvshmem_int64_sum_reduce(team, dest, source, count);
    for (size_t i = 0; i < count; i++)
        wrong += dest[i] != sum_of(size - 1, i, salt);
    wrong += (size_t)nvshmem_int64_max_reduce(team, source, source, count); /* in place */
    for (size_t i = 0; i < count; i++) {
        int64_t most = word(0, i, salt);
        for (int m = 1; m < size; m++)
            most = word(m, i, salt) > most ? word(m, i, salt) : most;
        wrong += source[i] != most;
    }
    return wrong;
}

static size_t try_reducescatter(nvshmem_team_t team, size_t count, int salt)
{
    int rank = nvshmem_team_my_pe(team), size = nvshmem_team_n_pes(team);
    fill(rank, count * (size_t)size, salt);
    size_t wrong = (size_t)nvshmem_int64_sum_reducescatter(team, dest, source, count);
    for (size_t i = 0; i < count; i++)
        wrong += dest[i] != sum_of(size - 1, (size_t)rank * count + i, salt);
    return wrong;
}

static size_t try_scan(nvshmem_team_t team, size_t count, int salt)
{
    int rank = nvshmem_team_my_pe(team);
    fill(rank, count, salt);
    size_t wrong = (size_t)nvshmem_int64_sum_inscan(team, dest, source, count);
    for (size_t i = 0; i < count; i++)
        wrong += dest[i] != sum_of(rank, i, salt);
    wrong += (size_t)nvshmem_int64_sum_exscan(team, dest, source, count);
    for (size_t i = 0; i < count; i++)
        wrong += dest[i] != sum_of(rank - 1, i, salt);
    return wrong;
}

static void over(nvshmem_team_t team, const char *name)
{
    static const struct {
        const char *name;
        size_t (*run)(nvshmem_team_t team, size_t count, int salt);
    } tests[] = {
        {"broadcast", try_broadcast}, {"fcollect", try_fcollect},
        {"collect", try_collect},     {"alltoall", try_alltoall},
        {"alltoalls", try_alltoalls}, {"reduce", try_reduce},
        {"scan", try_scan},           {"reducescatter", try_reducescatter},
    };
    for (size_t t = 0; t < sizeof(tests) / sizeof(tests[0]); t++) {
        size_t wrong = 0;
        for (size_t c = 0; team != NVSHMEM_TEAM_INVALID && c < COUNTS; c++)
            wrong += tests[t].run(team, counts[c], (int)(100 * t + c));
        ok(wrong == 0, "%s over %s: %zu words wrong", tests[t].name, name, wrong);
        nvshmem_barrier_all();
    }
}

/* Who is ahead by more than the barrier allows? Puts before a barrier have arrived after it. */
static void barriers(void)
{
    int wrong = 0, next = (me + 1) % n_pes, previous = (me + n_pes - 1) % n_pes;
    for (int round = 1; round <= ROUNDS; round++) {
        nvshmem_int64_p(&dest[round], round * 1000 + me, next);
        nvshmem_barrier_all();
        wrong += dest[round] != round * 1000 + previous;
        if (round % 2)
            nvshmem_sync_all();
        else
            nvshmem_team_sync(NVSHMEM_TEAM_WORLD);
    }
    ok(wrong == 0, "%d barriers with puts in front: %d late", ROUNDS, wrong);
    nvshmem_barrier_all();
}

static void same_bits(void)
{
    int wrong = 0;
    for (size_t count = 1; count <= 20000; count *= 10) {
        for (size_t i = 0; i < count; i++)
            fractions[i] = 1.0 / (double)(3 + i + 7 * (size_t)me);
        nvshmem_double_sum_reduce(NVSHMEM_TEAM_WORLD, sums, fractions, count);
        nvshmem_barrier_all();
        double *theirs = malloc(count * sizeof(*theirs));
        nvshmem_double_get(theirs, sums, count, (me + 1) % n_pes);
        wrong += memcmp(theirs, sums, count * sizeof(*theirs)) != 0;
        free(theirs);
        nvshmem_barrier_all();
    }
    ok(wrong == 0, "rounded sums have the same bits on all PEs");
}

static void odd_calls(void)
{
    nvshmem_team_t team = 77;
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    ok(nvshmem_team_split_strided(NVSHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0 &&
           team == NVSHMEM_TEAM_INVALID,
       "a split of the invalid team is refused");
    ok(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 1, n_pes + 1, NULL, 0, &team) != 0 &&
           team == NVSHMEM_TEAM_INVALID,
       "a split beyond the parent is refused");
    ok(nvshmem_team_my_pe(NVSHMEM_TEAM_INVALID) == -1 &&
           nvshmem_team_n_pes(NVSHMEM_TEAM_INVALID) == -1,
       "the invalid team has no members");
    ok(nvshmem_barrier(NVSHMEM_TEAM_INVALID) != 0 &&
           nvshmem_int64_broadcast(NVSHMEM_TEAM_INVALID, dest, source, 1, 0) != 0,
       "collectives on the invalid team are refused");
    config.num_contexts = 3;
    ok(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, n_pes - 1, -1, n_pes, &config,
                                  NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS, &team) == 0,
       "the world backwards");
    config.num_contexts = 0;
    nvshmem_team_get_config(team, &config);
    ok(config.num_contexts == 3, "its configuration is kept");
    ok(nvshmem_team_my_pe(team) == n_pes - 1 - me &&
           nvshmem_team_translate_pe(team, 0, NVSHMEM_TEAM_WORLD) == n_pes - 1 &&
           nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, n_pes, team) == -1,
       "numbers are translated");
    nvshmem_team_destroy(team);
    nvshmem_team_destroy(NVSHMEM_TEAM_INVALID);
    ok(nvshmem_team_n_pes(team) == -1, "a destroyed team is gone");
}

/* All PEs but the second, in an order of their own. */
static nvshmem_team_t team_by_id(void)
{
    nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    uint64_t *id = nvshmem_calloc(1, sizeof(*id)), *mine = nvshmem_calloc(1, sizeof(*mine));
    if (me == n_pes / 2)
        nvshmemx_team_get_uniqueid(mine);
    nvshmem_uint64_broadcast(NVSHMEM_TEAM_WORLD, id, mine, 1, n_pes / 2);
    config.uniqueid = *id;
    int status = 0;
    if (me != 1)
        status = nvshmemx_team_init(&team, &config, NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID,
                                    n_pes - (n_pes > 1), me == 0 ? 0 : n_pes - me);
    ok(status == 0 && (me == 1) == (team == NVSHMEM_TEAM_INVALID),
       "a team by id, in an order of its own");
    nvshmem_free(id);
    nvshmem_free(mine);
    return team;
}

static void many_teams(void)
{
    nvshmem_team_t teams[100];
    int refused = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            refused += nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, i % n_pes, 1,
                                                  1 + i % (n_pes - i % n_pes), NULL, 0, &teams[i]);
        for (int i = 0; i < 100; i++)
            if (teams[i] != NVSHMEM_TEAM_INVALID)
                nvshmem_barrier(teams[i]);
        for (int i = 0; i < 100; i++)
            nvshmem_team_destroy(teams[i]);
    }
    ok(refused == 0, "three times a hundred teams");
}

int main(void)
{
    nvshmem_init();
    me = nvshmem_my_pe();
    n_pes = nvshmem_n_pes();
    tap_start(me);
    source = nvshmem_calloc(WORDS, sizeof(*source));
    dest = nvshmem_calloc(WORDS, sizeof(*dest));
    fractions = nvshmem_malloc(20000 * sizeof(*fractions));
    sums = nvshmem_malloc(20000 * sizeof(*sums));
    if (!ok(source && dest && fractions && sums, "memory"))
        return 1;

    barriers();
    over(NVSHMEM_TEAM_WORLD, "the world");
    over(NVSHMEMX_TEAM_NODE, "the node");
    nvshmem_team_t x, y;
    ok(nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 3, NULL, 0, &x, NULL, 0, &y) == 0,
       "rows of three");
    over(x, "a row");
    over(y, "a column");
    nvshmem_team_t by_id = team_by_id();
    over(by_id, "a team by id");
    nvshmem_team_destroy(by_id);
    nvshmem_team_destroy(x);
    nvshmem_team_destroy(y);
    same_bits();
    odd_calls();
    many_teams();

    nvshmem_free(sums);
    nvshmem_free(fractions);
    nvshmem_free(dest);
    nvshmem_free(source);
    nvshmem_finalize();
    return tap_done();
}
