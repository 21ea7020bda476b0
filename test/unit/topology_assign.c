/* SPDX-License-Identifier: BSD-3-Clause */
/* Which GPU and NIC each PE gets on random machines: best, balanced, and blind to names. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "topology/topology.h"
#include "test/unit/topology_random.h"

#define PES_MAX    16
#define N_RANKS    5
#define N_MACHINES 400

static struct px_topology_plan *decide(const struct random_machine *r,
                                       const struct px_topology_pe *pes, size_t n_pes)
{
    struct px_topology_plan *plan = NULL;
    struct px_error error = PX_ERROR_INIT;
    if (px_topology_decide(&r->machine, NULL, pes, n_pes, &plan, &error) != PX_OK)
        fail_msg("%s", error.text);
    return plan;
}

static void draw_pes(const struct random_machine *r, struct px_topology_pe *pes, size_t n_pes)
{
    for (size_t pe = 0; pe < n_pes; pe++)
        pes[pe] = (struct px_topology_pe){
            .gpu = draw(6) == 0 ? PX_TOPOLOGY_NO_GPU : PX_TOPOLOGY_CHOOSE,
            .numa_mask = draw(2) ? (uint64_t)1 << draw((unsigned)r->machine.n_numas) : 0};
}

/* The rule of topology/assign.c said again, as plain sums: [0] counts most. */
struct score {
    size_t rank[N_RANKS];
};

static enum px_topology_distance distance(const struct random_machine *r,
                                          const struct px_topology_plan *plan,
                                          const struct px_topology_pe *pes, size_t pe, size_t port)
{
    const struct px_topology_place *place = &r->ports[port].place;
    uint64_t mask = pes[pe].numa_mask;
    if (plan->pes[pe].gpu >= 0)
        return px_topology_distance(&r->gpus[plan->pes[pe].gpu].place, place);
    if (mask == 0 || r->machine.n_numas == 1 || (place->numa >= 0 && (mask >> place->numa & 1)))
        return PX_TOPOLOGY_NUMA;
    /* The test binds a PE to one NUMA node at most. */
    int package = r->numas[__builtin_ctzll(mask)].package;
    return place->package == package ? PX_TOPOLOGY_PACKAGE : PX_TOPOLOGY_MACHINE;
}

static struct score score_of(const struct random_machine *r, const struct px_topology_plan *plan,
                             const struct px_topology_pe *pes, const size_t *port_of)
{
    struct score score = {{0}};
    size_t n_ports = r->machine.n_ports;
    for (size_t pe = 0; pe < plan->n_pes; pe++) {
        size_t port = port_of[pe];
        enum px_topology_distance d = distance(r, plan, pes, pe, port);
        score.rank[0] += d <= PX_TOPOLOGY_HOST_BRIDGE ? 0 : (size_t)(d - PX_TOPOLOGY_HOST_BRIDGE);
        for (size_t other = 0; other < pe; other++)
            score.rank[1] += port_of[other] == port;
        score.rank[2] += d <= PX_TOPOLOGY_HOST_BRIDGE ? (size_t)d : 0;
        for (size_t before = 0; before < port; before++)
            score.rank[3] += r->ports[before].pci >> 3 == r->ports[port].pci >> 3;
        for (size_t other = 0; other < n_ports; other++)
            score.rank[4] += r->ports[other].speed > r->ports[port].speed;
    }
    return score;
}

static int compare(const struct score *a, const struct score *b)
{
    for (int i = 0; i < N_RANKS; i++)
        if (a->rank[i] != b->rank[i])
            return a->rank[i] < b->rank[i] ? -1 : 1;
    return 0;
}

/* Count through all assignments of PEs to ports; false when done. */
static bool next(size_t *port_of, size_t n_pes, size_t n_ports)
{
    for (size_t pe = 0; pe < n_pes; pe++) {
        if (++port_of[pe] < n_ports)
            return true;
        port_of[pe] = 0;
    }
    return false;
}

static void first_nics_are_never_worse_than_any_others(void **state)
{
    for (int round = 0; round < N_MACHINES; round++) {
        struct random_machine r;
        struct px_topology_pe pes[5];
        size_t n_pes = 1 + draw(5), port_of[5], tried[5] = {0};
        draw_machine(&r, draw(5), 1 + draw(4));
        draw_pes(&r, pes, n_pes);
        struct px_topology_plan *plan = decide(&r, pes, n_pes);
        for (size_t pe = 0; pe < n_pes; pe++)
            port_of[pe] = plan->pes[pe].nics[0].port;
        struct score ours = score_of(&r, plan, pes, port_of);
        do {
            struct score theirs = score_of(&r, plan, pes, tried);
            assert_true(compare(&ours, &theirs) <= 0);
        } while (next(tried, n_pes, r.machine.n_ports));
        px_topology_plan_free(plan);
    }
}

static void no_nic_is_shared_while_one_as_near_is_idle(void **state)
{
    for (int round = 0; round < N_MACHINES; round++) {
        struct random_machine r;
        struct px_topology_pe pes[PES_MAX];
        size_t n_pes = 1 + draw(PES_MAX), users[64] = {0};
        draw_machine(&r, draw(17), 1 + draw(64));
        draw_pes(&r, pes, n_pes);
        struct px_topology_plan *plan = decide(&r, pes, n_pes);
        for (size_t pe = 0; pe < n_pes; pe++)
            users[plan->pes[pe].nics[0].port]++;
        for (size_t pe = 0; pe < n_pes; pe++) {
            const struct px_topology_nic *nic = &plan->pes[pe].nics[0];
            for (size_t port = 0; port < r.machine.n_ports; port++)
                if (distance(&r, plan, pes, pe, port) <= nic->distance)
                    assert_true(users[nic->port] <= users[port] + 1);
        }
        px_topology_plan_free(plan);
    }
}

/* A port left over goes to one PE, none that is further from it than from its first, and is not
 * left out if there is such a PE. */
static void spare_nics_are_dealt_once_and_near(void **state)
{
    for (int round = 0; round < N_MACHINES; round++) {
        struct random_machine r;
        struct px_topology_pe pes[PES_MAX];
        size_t n_pes = 1 + draw(6), first[64] = {0}, spare[64] = {0};
        draw_machine(&r, draw(9), 1 + draw(64));
        draw_pes(&r, pes, n_pes);
        struct px_topology_plan *plan = decide(&r, pes, n_pes);
        for (size_t pe = 0; pe < n_pes; pe++) {
            const struct px_topology_choice *choice = &plan->pes[pe];
            first[choice->nics[0].port]++;
            for (size_t k = 1; k < choice->n_nics; k++) {
                spare[choice->nics[k].port]++;
                assert_int_equal(choice->nics[k].distance,
                                 distance(&r, plan, pes, pe, choice->nics[k].port));
                assert_true(choice->nics[k].distance <= choice->nics[0].distance);
                assert_true(k == 1 || choice->nics[k - 1].distance <= choice->nics[k].distance);
            }
        }
        for (size_t port = 0; port < r.machine.n_ports; port++) {
            bool wanted = false;
            for (size_t pe = 0; pe < n_pes; pe++)
                wanted |= distance(&r, plan, pes, pe, port) <= plan->pes[pe].nics[0].distance;
            assert_int_equal(spare[port], first[port] == 0 && wanted);
        }
        px_topology_plan_free(plan);
    }
}

static void assert_same_plan(const struct px_topology_plan *a, const struct px_topology_plan *b)
{
    assert_int_equal(a->n_pes, b->n_pes);
    for (size_t pe = 0; pe < a->n_pes; pe++) {
        assert_int_equal(a->pes[pe].gpu, b->pes[pe].gpu);
        assert_int_equal(a->pes[pe].n_nics, b->pes[pe].n_nics);
        for (size_t k = 0; k < a->pes[pe].n_nics; k++)
            assert_int_equal(a->pes[pe].nics[k].port, b->pes[pe].nics[k].port);
        assert_memory_equal(&a->pes[pe].helpers, &b->pes[pe].helpers, sizeof(a->pes[pe].helpers));
    }
}

static void rename_place(struct px_topology_place *place)
{
    if (place->host_bridge >= 0)
        place->host_bridge = place->host_bridge * 7 % 101;
    for (size_t i = 0; i < place->n_bridges; i++)
        place->bridges[i] ^= 0x5a5a5a;
}

static void names_make_no_difference(void **state)
{
    for (int round = 0; round < N_MACHINES; round++) {
        struct random_machine r;
        struct px_topology_pe pes[PES_MAX];
        size_t n_pes = 1 + draw(PES_MAX);
        draw_machine(&r, draw(17), draw(65));
        draw_pes(&r, pes, n_pes);
        struct px_topology_plan *before = decide(&r, pes, n_pes);
        for (size_t i = 0; i < r.machine.n_gpus; i++)
            rename_place(&r.gpus[i].place);
        for (size_t i = 0; i < r.machine.n_ports; i++) {
            rename_place(&r.ports[i].place);
            snprintf(r.ports[i].device, sizeof(r.ports[i].device), "ib%u_%zu", draw(1000), i);
        }
        struct px_topology_plan *after = decide(&r, pes, n_pes);
        assert_same_plan(before, after);
        px_topology_plan_free(after);
        px_topology_plan_free(before);
    }
}

static void gpus_are_dealt_evenly_and_only_where_visible(void **state)
{
    for (int round = 0; round < N_MACHINES; round++) {
        struct random_machine r;
        struct px_topology_pe pes[PES_MAX];
        size_t n_pes = 1 + draw(PES_MAX), users[16] = {0}, n_gpus = 1 + draw(16), least = SIZE_MAX,
               most = 0;
        draw_machine(&r, n_gpus, 0);
        draw_pes(&r, pes, n_pes);
        bool masked = draw(2);
        for (size_t pe = 0; pe < n_pes; pe++) {
            pes[pe].gpu = PX_TOPOLOGY_CHOOSE;
            pes[pe].gpu_mask = masked ? 1 + draw((1u << n_gpus) - 1) : 0;
        }
        struct px_topology_plan *plan = decide(&r, pes, n_pes);
        for (size_t pe = 0; pe < n_pes; pe++) {
            int gpu = plan->pes[pe].gpu;
            assert_true(gpu >= 0);
            assert_true(!masked || (pes[pe].gpu_mask >> gpu & 1));
            users[gpu]++;
        }
        for (size_t gpu = 0; gpu < n_gpus; gpu++) {
            least = users[gpu] < least ? users[gpu] : least;
            most = users[gpu] > most ? users[gpu] : most;
        }
        assert_true(masked || most - least <= 1);
        px_topology_plan_free(plan);
    }
}

/* ---- single cases ---- */

static void two_sockets(struct random_machine *r, size_t n_gpus, size_t n_ports)
{
    do
        draw_machine(r, n_gpus, n_ports);
    while (r->machine.n_numas != 2 || r->machine.n_packages != 2);
    for (size_t i = 0; i < n_gpus; i++)
        r->gpus[i].place = (struct px_topology_place){
            .package = i >= n_gpus / 2, .numa = i >= n_gpus / 2, .host_bridge = (int)i};
    for (size_t i = 0; i < n_ports; i++) {
        r->ports[i].place = (struct px_topology_place){
            .package = i >= n_ports / 2, .numa = i >= n_ports / 2, .host_bridge = 50 + (int)i};
        r->ports[i].pci = 0x8000 + i * 0x100;
        r->ports[i].speed = 400000;
    }
}

static void a_pe_gets_the_gpu_near_its_processors(void **state)
{
    struct random_machine r;
    two_sockets(&r, 4, 0);
    struct px_topology_pe pes[4];
    for (int pe = 0; pe < 4; pe++)
        pes[pe] = (struct px_topology_pe){.gpu = PX_TOPOLOGY_CHOOSE, .numa_mask = pe < 2 ? 2 : 1};
    struct px_topology_plan *plan = decide(&r, pes, 4);
    const int expected[] = {2, 3, 0, 1};
    for (int pe = 0; pe < 4; pe++)
        assert_int_equal(plan->pes[pe].gpu, expected[pe]);
    px_topology_plan_free(plan);
}

/* All on one socket: still one GPU each, the near ones for the first. */
static void one_gpu_each_comes_before_near(void **state)
{
    struct random_machine r;
    two_sockets(&r, 4, 0);
    struct px_topology_pe pes[4];
    for (int pe = 0; pe < 4; pe++)
        pes[pe] = (struct px_topology_pe){.gpu = PX_TOPOLOGY_CHOOSE, .numa_mask = 2};
    struct px_topology_plan *plan = decide(&r, pes, 4);
    size_t users[4] = {0};
    for (int pe = 0; pe < 4; pe++)
        users[plan->pes[pe].gpu]++;
    for (int gpu = 0; gpu < 4; gpu++)
        assert_int_equal(users[gpu], 1);
    px_topology_plan_free(plan);
}

static void pes_beyond_the_gpus_go_round(void **state)
{
    struct random_machine r;
    two_sockets(&r, 4, 0);
    struct px_topology_pe pes[10];
    for (int pe = 0; pe < 10; pe++)
        pes[pe] = (struct px_topology_pe){.gpu = PX_TOPOLOGY_CHOOSE};
    struct px_topology_plan *plan = decide(&r, pes, 10);
    for (int pe = 0; pe < 10; pe++)
        assert_int_equal(plan->pes[pe].gpu, pe % 4);
    px_topology_plan_free(plan);
}

/* As CUDA_VISIBLE_DEVICES=3,1,0,2 makes them count. */
static void gpus_count_as_the_pes_count_them(void **state)
{
    struct random_machine r;
    const int order[] = {3, 1, 0, 2};
    two_sockets(&r, 4, 0);
    struct px_topology_pe pes[6];
    for (int pe = 0; pe < 6; pe++) {
        pes[pe] =
            (struct px_topology_pe){.gpu = PX_TOPOLOGY_CHOOSE, .gpu_mask = 0xf, .ordered = true};
        for (uint8_t i = 0; i < 4; i++)
            pes[pe].gpu_number[order[i]] = i;
    }
    struct px_topology_plan *plan = decide(&r, pes, 6);
    for (int pe = 0; pe < 6; pe++)
        assert_int_equal(plan->pes[pe].gpu, order[pe % 4]);
    px_topology_plan_free(plan);
}

/* Sixteen GPUs and 64 ports: how long it takes is told, not tested. */
static void the_largest_node_is_planned(void **state)
{
    struct random_machine r;
    struct px_topology_pe pes[16];
    struct timespec before, after;
    double sum = 0;
    for (int round = 0; round < 50; round++) {
        draw_machine(&r, 16, 64);
        draw_pes(&r, pes, 16);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        struct px_topology_plan *plan = decide(&r, pes, 16);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        sum += (double)(after.tv_sec - before.tv_sec) * 1e6 +
               (double)(after.tv_nsec - before.tv_nsec) / 1e3;
        for (int pe = 0; pe < 16; pe++)
            assert_true(plan->pes[pe].n_nics > 0);
        px_topology_plan_free(plan);
    }
    printf("# 16 GPUs, 64 ports: a plan takes %.0f us of processor time on average\n", sum / 50);
}

static void a_gpu_in_use_is_kept_and_others_avoid_it(void **state)
{
    struct random_machine r;
    two_sockets(&r, 2, 0);
    const struct px_topology_pe pes[] = {{.gpu = PX_TOPOLOGY_CHOOSE}, {.gpu = 0}};
    struct px_topology_plan *plan = decide(&r, pes, 2);
    assert_int_equal(plan->pes[0].gpu, 1);
    assert_int_equal(plan->pes[1].gpu, 0);
    assert_non_null(strstr(plan->pes[1].reason, "in use by the program already"));
    px_topology_plan_free(plan);
}

/* Crossing to the other package costs more than sharing. */
static void nics_on_one_socket_only_are_shared_evenly(void **state)
{
    struct random_machine r;
    two_sockets(&r, 8, 4);
    for (int i = 0; i < 4; i++)
        r.ports[i].place.package = r.ports[i].place.numa = 0;
    struct px_topology_pe pes[8];
    size_t users[4] = {0};
    for (int pe = 0; pe < 8; pe++)
        pes[pe] = (struct px_topology_pe){.gpu = PX_TOPOLOGY_CHOOSE};
    struct px_topology_plan *plan = decide(&r, pes, 8);
    for (int pe = 0; pe < 8; pe++)
        users[plan->pes[pe].nics[0].port]++;
    for (int port = 0; port < 4; port++)
        assert_int_equal(users[port], 2);
    px_topology_plan_free(plan);
}

static void a_pe_count_out_of_range_is_refused(void **state)
{
    struct random_machine r;
    struct px_topology_pe pes[1] = {{.gpu = 5}};
    struct px_topology_plan *plan = NULL;
    struct px_error error = PX_ERROR_INIT;
    draw_machine(&r, 2, 1);
    assert_int_equal(px_topology_decide(&r.machine, NULL, pes, 0, &plan, &error), PX_ERR_INVALID);
    assert_int_equal(px_topology_decide(&r.machine, NULL, pes, 1, &plan, &error), PX_ERR_INVALID);
    assert_non_null(strstr(error.text, "local PE 0 uses GPU 5, but the node has 2"));
    assert_null(plan);
}

static void hidden_gpus_are_named_with_the_remedy(void **state)
{
    char advice[1024] = "?";
    px_topology_pci hidden[4];
    for (size_t pe = 0; pe < 4; pe++)
        hidden[pe] = PX_TOPOLOGY_PCI_NONE;
    assert_int_equal(px_topology_hidden_gpus(hidden, 4, advice, sizeof(advice)), 0);
    assert_string_equal(advice, "");
    hidden[1] = hidden[2] = 0x1100;
    hidden[3] = 0x1300;
    assert_int_equal(px_topology_hidden_gpus(hidden, 4, advice, sizeof(advice)), 2);
    assert_non_null(strstr(advice, "0000:11:00.0 (local PE 1), 0000:13:00.0 (local PE 3);"));
    assert_non_null(strstr(advice, "--gpu-bind=none"));
    assert_int_equal(px_topology_hidden_gpus(hidden, 4, advice, 40), 2);
    assert_int_equal(strlen(advice), 39);
}

static void ports_are_written_as_transports_take_them(void **state)
{
    struct random_machine r;
    char text[32];
    two_sockets(&r, 0, 4);
    const struct px_topology_pe pes[] = {{.gpu = PX_TOPOLOGY_CHOOSE, .numa_mask = 2}};
    struct px_topology_plan *plan = decide(&r, pes, 1);
    assert_int_equal(px_topology_nics_text(&r.machine, &plan->pes[0], text, sizeof(text)), 17);
    assert_string_equal(text, "mlx5_2:1,mlx5_3:1");
    assert_int_equal(px_topology_nics_text(&r.machine, &plan->pes[0], text, 17), 17);
    assert_string_equal(text, "mlx5_2:1");
    assert_int_equal(px_topology_nics_text(&r.machine, &plan->pes[0], text, 3), 17);
    assert_string_equal(text, "");
    px_topology_plan_free(plan);
}

int main(void)
{
    seed_random();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_nics_are_never_worse_than_any_others),
        cmocka_unit_test(no_nic_is_shared_while_one_as_near_is_idle),
        cmocka_unit_test(spare_nics_are_dealt_once_and_near),
        cmocka_unit_test(names_make_no_difference),
        cmocka_unit_test(gpus_are_dealt_evenly_and_only_where_visible),
        cmocka_unit_test(a_pe_gets_the_gpu_near_its_processors),
        cmocka_unit_test(one_gpu_each_comes_before_near),
        cmocka_unit_test(pes_beyond_the_gpus_go_round),
        cmocka_unit_test(gpus_count_as_the_pes_count_them),
        cmocka_unit_test(the_largest_node_is_planned),
        cmocka_unit_test(a_gpu_in_use_is_kept_and_others_avoid_it),
        cmocka_unit_test(nics_on_one_socket_only_are_shared_evenly),
        cmocka_unit_test(a_pe_count_out_of_range_is_refused),
        cmocka_unit_test(ports_are_written_as_transports_take_them),
        cmocka_unit_test(hidden_gpus_are_named_with_the_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
