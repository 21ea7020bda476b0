/* SPDX-License-Identifier: BSD-3-Clause */
/* Processor lists and PCI addresses, written and read. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topology/topology.h"

static void lists_are_read_and_written_alike(void **state)
{
    static const char *const lists[] = {"0", "0-3", "0-3,8", "1,3,5", "63-64", "4095", "0-4095"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct px_topology_cpus cpus;
        char text[64];
        assert_int_equal(px_topology_cpus_parse(lists[i], &cpus, NULL), PX_OK);
        px_topology_cpus_text(&cpus, text, sizeof(text));
        assert_string_equal(text, lists[i]);
    }
}

static void other_lists_are_refused(void **state)
{
    static const char *const lists[] = {"",
                                        "a",
                                        "-1",
                                        "1-",
                                        "3-1",
                                        "1,",
                                        ",1",
                                        "1,,2",
                                        "1 2",
                                        "4096",
                                        "0x1",
                                        "1-2-3",
                                        "99999999999999999999"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct px_topology_cpus cpus = {{7}};
        struct px_error error = PX_ERROR_INIT;
        assert_int_equal(px_topology_cpus_parse(lists[i], &cpus, &error), PX_ERR_INVALID);
        assert_non_null(strstr(error.text, "is not a list of processors"));
        assert_int_equal(cpus.word[0], 7);
    }
}

static void a_long_list_is_cut_visibly(void **state)
{
    struct px_topology_cpus cpus = {{0}};
    char text[24];
    for (size_t cpu = 0; cpu < 200; cpu += 2)
        px_topology_cpus_add(&cpus, cpu);
    px_topology_cpus_text(&cpus, text, sizeof(text));
    assert_int_equal(strlen(text), sizeof(text) - 1);
    assert_string_equal(text + sizeof(text) - 4, "...");
}

static void sets_compare(void **state)
{
    struct px_topology_cpus a = {{0}}, b = {{0}};
    assert_true(px_topology_cpus_empty(&a));
    assert_true(px_topology_cpus_within(&a, &b));
    assert_false(px_topology_cpus_meet(&a, &b));
    px_topology_cpus_add(&a, 100);
    px_topology_cpus_add(&b, 100);
    px_topology_cpus_add(&b, 4095);
    px_topology_cpus_add(&b, 4096);
    assert_true(px_topology_cpus_within(&a, &b));
    assert_false(px_topology_cpus_within(&b, &a));
    assert_true(px_topology_cpus_meet(&a, &b));
    assert_int_equal(px_topology_cpus_count(&b), 2);
    assert_false(px_topology_cpus_has(&b, 4096));
}

static void own_processors_are_some(void **state)
{
    struct px_topology_cpus cpus;
    assert_int_equal(px_topology_own_cpus(&cpus, NULL), PX_OK);
    assert_false(px_topology_cpus_empty(&cpus));
}

static void a_thread_runs_where_it_is_bound(void **state)
{
    struct px_topology_cpus before, one = {{0}}, now, absent = {{0}};
    struct px_error error = PX_ERROR_INIT;
    size_t cpu = 0;
    assert_int_equal(px_topology_own_cpus(&before, NULL), PX_OK);
    while (!px_topology_cpus_has(&before, cpu))
        cpu++;
    px_topology_cpus_add(&one, cpu);
    assert_int_equal(px_topology_bind_thread(&one, NULL), PX_OK);
    assert_int_equal(px_topology_own_cpus(&now, NULL), PX_OK);
    assert_memory_equal(&now, &one, sizeof(now));
    assert_int_equal(px_topology_bind_thread(&absent, NULL), PX_OK);
    assert_int_equal(px_topology_own_cpus(&now, NULL), PX_OK);
    assert_memory_equal(&now, &one, sizeof(now));
    px_topology_cpus_add(&absent, PX_TOPOLOGY_CPUS_MAX - 1);
    assert_int_equal(px_topology_bind_thread(&absent, &error), PX_ERR_SYSTEM);
    assert_non_null(strstr(error.text, "to processors 4095: "));
    assert_int_equal(px_topology_bind_thread(&before, NULL), PX_OK);
}

static void pci_addresses(void **state)
{
    px_topology_pci pci, next;
    char text[PX_TOPOLOGY_PCI_TEXT_MAX];
    assert_int_equal(px_topology_pci_parse("0001:3b:1f.7", &pci, NULL), PX_OK);
    px_topology_pci_text(pci, text);
    assert_string_equal(text, "0001:3b:1f.7");
    assert_int_equal(px_topology_pci_parse("3b:00.0", &pci, NULL), PX_OK);
    assert_int_equal(px_topology_pci_parse("0000:3b:00.1", &next, NULL), PX_OK);
    assert_int_equal(next, pci + 1);
    /* As libcuda writes it, and as NVML does. */
    assert_int_equal(px_topology_pci_parse("00000000:3B:00.0", &next, NULL), PX_OK);
    assert_int_equal(next, pci);
    px_topology_pci_text(PX_TOPOLOGY_PCI_NONE, text);
    assert_string_equal(text, "none");
}

static void other_pci_addresses_are_refused(void **state)
{
    static const char *const texts[] = {
        "", "3b", "0000:3b:00", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00.0x", "gpu0"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        px_topology_pci pci = 42;
        assert_int_equal(px_topology_pci_parse(texts[i], &pci, NULL), PX_ERR_INVALID);
        assert_int_equal(pci, 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read_and_written_alike),
        cmocka_unit_test(other_lists_are_refused),
        cmocka_unit_test(a_long_list_is_cut_visibly),
        cmocka_unit_test(sets_compare),
        cmocka_unit_test(own_processors_are_some),
        cmocka_unit_test(a_thread_runs_where_it_is_bound),
        cmocka_unit_test(pci_addresses),
        cmocka_unit_test(other_pci_addresses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
