/* SPDX-License-Identifier: BSD-3-Clause */
/* Links between GPUs, asked of stand-ins for NVML and libcuda (topology_drivers.c). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topology/topology.h"

#define U PX_TOPOLOGY_LINK_UNKNOWN
#define O PX_TOPOLOGY_LINK_NONE
#define P PX_TOPOLOGY_LINK_PCIE
#define V PX_TOPOLOGY_LINK_NVLINK

static struct px_topology_gpu gpus[4] = {
    {.pci = 0x0100}, {.pci = 0x0200}, {.pci = 0x0300}, {.pci = 0x0400}};
static const struct px_topology_machine machine = {.gpus = gpus, .n_gpus = 4};

/* The last GPU is one that the driver does not know. */
static const enum px_topology_link expected[16] = {U, V, P, U, V, U, O, U, P, O, U, U, U, U, U, U};

static void nvml_is_asked_first(void **state)
{
    enum px_topology_link links[16];
    const struct px_topology_drivers drivers = {.nvml = PX_TEST_NVML, .cuda = "absent.so"};
    assert_int_equal(px_topology_links(&machine, &drivers, links, NULL), PX_OK);
    assert_memory_equal(links, expected, sizeof(links));
}

static void libcuda_is_asked_where_nvml_is_missing(void **state)
{
    enum px_topology_link links[16];
    const struct px_topology_drivers drivers = {.nvml = "absent.so", .cuda = PX_TEST_CUDA};
    assert_int_equal(px_topology_links(&machine, &drivers, links, NULL), PX_OK);
    assert_memory_equal(links, expected, sizeof(links));
}

static void a_library_without_the_symbols_is_as_good_as_none(void **state)
{
    enum px_topology_link links[16];
    const struct px_topology_drivers drivers = {.nvml = PX_TEST_CUDA, .cuda = PX_TEST_NVML};
    assert_int_equal(px_topology_links(&machine, &drivers, links, NULL), PX_ERR_NOT_FOUND);
}

static void no_driver_means_unknown(void **state)
{
    enum px_topology_link links[16];
    struct px_error error = PX_ERROR_INIT;
    const struct px_topology_drivers drivers = {.nvml = PX_TEST_NVML, .cuda = PX_TEST_CUDA};
    setenv("PX_TEST_NO_DRIVER", "1", 1);
    assert_int_equal(px_topology_links(&machine, &drivers, links, &error), PX_ERR_NOT_FOUND);
    unsetenv("PX_TEST_NO_DRIVER");
    for (int i = 0; i < 16; i++)
        assert_int_equal(links[i], PX_TOPOLOGY_LINK_UNKNOWN);
    assert_non_null(strstr(error.text, "links between GPUs are not known"));
}

static void nvml_lists_the_gpus_of_the_node(void **state)
{
    px_topology_pci list[PX_TOPOLOGY_GPUS_MAX];
    size_t n = 9;
    const struct px_topology_drivers drivers = {.nvml = PX_TEST_NVML};
    assert_int_equal(px_topology_driver_gpus(&drivers, list, &n, NULL), PX_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(list[i], gpus[i].pci);
}

static void libcuda_lists_the_visible_ones(void **state)
{
    px_topology_pci list[PX_TOPOLOGY_GPUS_MAX];
    size_t n = 9;
    const struct px_topology_drivers drivers = {.cuda = PX_TEST_CUDA};
    assert_int_equal(px_topology_visible_gpus(&drivers, list, &n, NULL), PX_OK);
    assert_int_equal(n, 2);
    assert_int_equal(list[0], gpus[1].pci);
    assert_int_equal(list[1], gpus[0].pci);
}

static void no_device_is_no_failure_and_no_driver_is(void **state)
{
    px_topology_pci list[PX_TOPOLOGY_GPUS_MAX];
    size_t n = 9;
    struct px_error error = PX_ERROR_INIT;
    const struct px_topology_drivers drivers = {.nvml = PX_TEST_NVML, .cuda = PX_TEST_CUDA};
    const struct px_topology_drivers absent = {.nvml = "absent.so", .cuda = "absent.so"};
    assert_int_equal(px_topology_driver_gpus(&absent, list, &n, &error), PX_ERR_NOT_FOUND);
    assert_int_equal(px_topology_visible_gpus(&absent, list, &n, &error), PX_ERR_NOT_FOUND);
    assert_string_equal(error.text, "absent.so is not there");
    setenv("PX_TEST_NO_DRIVER", "1", 1);
    assert_int_equal(px_topology_driver_gpus(&drivers, list, &n, &error), PX_ERR_NOT_FOUND);
    assert_int_equal(n, 9);
    /* The stand-in's cuInit says CUDA_ERROR_NO_DEVICE. */
    assert_int_equal(px_topology_visible_gpus(&drivers, list, &n, &error), PX_OK);
    assert_int_equal(n, 0);
    unsetenv("PX_TEST_NO_DRIVER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvml_is_asked_first),
        cmocka_unit_test(libcuda_is_asked_where_nvml_is_missing),
        cmocka_unit_test(a_library_without_the_symbols_is_as_good_as_none),
        cmocka_unit_test(no_driver_means_unknown),
        cmocka_unit_test(nvml_lists_the_gpus_of_the_node),
        cmocka_unit_test(libcuda_lists_the_visible_ones),
        cmocka_unit_test(no_device_is_no_failure_and_no_driver_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
