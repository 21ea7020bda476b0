/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a described machine together with a sysfs made for the test; and this machine. The
 * machines themselves are checked by test/data/topologies/run. */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "topology/topology.h"

static char root[] = "/tmp/px-sysfs-XXXXXX";

static const char *data(const char *name)
{
    static char path[4096];
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof(path), "%s/test/data/topologies/%s.xml", srcdir ? srcdir : PX_TEST_SRCDIR,
             name);
    return path;
}

/* Write a file below the made-up sysfs, with its folders. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(full, 0700) != 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_sysfs(void **state)
{
    if (!mkdtemp(root))
        return -1;
    put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    put("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    put("class/infiniband/mlx5_1/ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
    put("class/infiniband/mlx5_1/ports/2/state", "4: ACTIVE\n");
    put("class/infiniband/mlx5_1/ports/2/rate", "100 Gb/sec (4X EDR)\n");
    put("class/infiniband/mlx5_1/ports/2/link_layer", "Ethernet\n");
    put("class/infiniband/mlx5_2/ports/1/state", "nonsense\n");
    put("class/infiniband/mlx5_2/ports/1/rate", "");
    put("bus/pci/devices/0000:0e:00.0/physfn", "");
    put("bus/pci/devices/0000:02:00.0/cxi/cxi7/dev", "");
    put("class/cxi/cxi7/device/port/link", "up\n");
    put("class/cxi/cxi7/device/port/speed", "BS_200G\n");
    put("class/cxi/cxi1/device/port/link", "down\n");
    return 0;
}

static int remove_sysfs(void **state)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command);
}

static struct px_topology_machine *read_machine(const struct px_topology_source *source)
{
    struct px_topology_machine *machine = NULL;
    struct px_error error = PX_ERROR_INIT;
    if (px_topology_read(source, &machine, &error) != PX_OK)
        fail_msg("%s", error.text);
    return machine;
}

static const struct px_topology_port *find(const struct px_topology_machine *machine,
                                           const char *device, unsigned number)
{
    for (size_t i = 0; i < machine->n_ports; i++)
        if (strcmp(machine->ports[i].device, device) == 0 && machine->ports[i].number == number)
            return &machine->ports[i];
    fail_msg("no port %s:%u", device, number);
    return NULL;
}

static void sysfs_tells_state_speed_and_fabric(void **state)
{
    struct px_topology_machine *machine =
        read_machine(&(struct px_topology_source){.xml_file = data("port-down"), .sysfs = root});
    const struct px_topology_port *port = find(machine, "mlx5_0", 1);
    assert_int_equal(port->state, PX_TOPOLOGY_UP);
    assert_int_equal(port->speed, 400000);
    assert_int_equal(port->fabric, PX_TOPOLOGY_INFINIBAND);
    port = find(machine, "mlx5_1", 1);
    assert_int_equal(port->state, PX_TOPOLOGY_DOWN);
    assert_int_equal(port->speed, 2500);
    /* hwloc's file knew of one port, sysfs of two. */
    port = find(machine, "mlx5_1", 2);
    assert_int_equal(port->state, PX_TOPOLOGY_UP);
    assert_int_equal(port->speed, 100000);
    assert_int_equal(port->fabric, PX_TOPOLOGY_ROCE);
    px_topology_free(machine);
}

static void what_sysfs_cannot_tell_stays_as_it_was(void **state)
{
    struct px_topology_machine *machine =
        read_machine(&(struct px_topology_source){.xml_file = data("port-down"), .sysfs = root});
    const struct px_topology_port *port = find(machine, "mlx5_2", 1);
    assert_int_equal(port->state, PX_TOPOLOGY_UP);
    assert_int_equal(port->speed, 400000);
    assert_int_equal(port->fabric, PX_TOPOLOGY_INFINIBAND);
    assert_true(port->virtual_function);
    assert_false(find(machine, "mlx5_3", 1)->virtual_function);
    px_topology_free(machine);
}

static void slingshot_devices_are_named_by_sysfs(void **state)
{
    struct px_topology_machine *machine =
        read_machine(&(struct px_topology_source){.xml_file = data("blade-hsn"), .sysfs = root});
    const struct px_topology_port *port = find(machine, "cxi7", 1);
    assert_int_equal(port->fabric, PX_TOPOLOGY_SLINGSHOT);
    assert_int_equal(port->state, PX_TOPOLOGY_UP);
    assert_int_equal(port->speed, 200000);
    assert_int_equal(find(machine, "cxi1", 1)->state, PX_TOPOLOGY_DOWN);
    assert_int_equal(find(machine, "cxi2", 1)->state, PX_TOPOLOGY_STATE_UNKNOWN);
    px_topology_free(machine);
}

static void gpus_of_the_driver_join_those_of_the_tree(void **state)
{
    px_topology_pci known, unknown;
    assert_int_equal(px_topology_pci_parse("0000:03:00.0", &known, NULL), PX_OK);
    assert_int_equal(px_topology_pci_parse("0005:01:00.0", &unknown, NULL), PX_OK);
    const px_topology_pci gpus[] = {unknown, known, unknown};
    struct px_topology_machine *machine = read_machine(
        &(struct px_topology_source){.xml_file = data("port-down"), .gpus = gpus, .n_gpus = 3});
    assert_int_equal(machine->n_gpus, 5);
    assert_int_equal(px_topology_find_gpu(machine, known), 0);
    assert_int_equal(px_topology_find_gpu(machine, unknown), 4);
    assert_int_equal(machine->gpus[4].place.numa, -1);
    assert_int_equal(px_topology_find_gpu(machine, 12345), -1);
    px_topology_free(machine);
}

static void gpus_heard_of_later_join_in_bus_order(void **state)
{
    struct px_error error = PX_ERROR_INIT;
    px_topology_pci known, first, many[PX_TOPOLOGY_GPUS_MAX];
    assert_int_equal(px_topology_pci_parse("0000:03:00.0", &known, NULL), PX_OK);
    assert_int_equal(px_topology_pci_parse("0000:00:01.0", &first, NULL), PX_OK);
    struct px_topology_machine *machine =
        read_machine(&(struct px_topology_source){.xml_file = data("port-down")});
    assert_int_equal(machine->n_gpus, 4);
    assert_int_equal(px_topology_add_gpus(machine, &known, 1, &error), PX_OK);
    assert_int_equal(machine->n_gpus, 4);
    assert_int_equal(px_topology_add_gpus(machine, &first, 1, &error), PX_OK);
    assert_int_equal(machine->n_gpus, 5);
    assert_int_equal(px_topology_find_gpu(machine, first), 0);
    assert_int_equal(px_topology_find_gpu(machine, known), 1);
    for (size_t i = 0; i < PX_TOPOLOGY_GPUS_MAX; i++)
        many[i] = 0x100000 + i;
    assert_int_equal(px_topology_add_gpus(machine, many, PX_TOPOLOGY_GPUS_MAX, &error),
                     PX_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.text, "at most 64"));
    px_topology_free(machine);
}

static void devices_come_in_bus_order(void **state)
{
    struct px_topology_machine *machine =
        read_machine(&(struct px_topology_source){.xml_file = data("efa-four-each")});
    assert_int_equal(machine->n_gpus, 8);
    assert_int_equal(machine->n_ports, 32);
    for (size_t i = 1; i < machine->n_gpus; i++)
        assert_true(machine->gpus[i - 1].pci < machine->gpus[i].pci);
    for (size_t i = 1; i < machine->n_ports; i++)
        assert_true(machine->ports[i - 1].pci < machine->ports[i].pci);
    px_topology_free(machine);
}

static void what_is_no_topology_is_refused(void **state)
{
    struct px_topology_machine *machine = NULL;
    struct px_error error = PX_ERROR_INIT;
    put("broken.xml", "<topology version=\"2.0\"><object type=\"Machine\"");
    put("other.xml", "<html/>\n");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"absent.xml", "broken.xml", "other.xml"};
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", root, names[i]);
        assert_int_equal(
            px_topology_read(&(struct px_topology_source){.xml_file = path}, &machine, &error),
            PX_ERR_INVALID);
        assert_non_null(strstr(error.text, names[i]));
        assert_null(machine);
    }
}

static void this_machine_can_be_read(void **state)
{
    struct px_topology_cpus own;
    unsetenv("HWLOC_XMLFILE");
    struct px_topology_machine *machine = read_machine(NULL);
    assert_false(machine->described);
    assert_int_equal(px_topology_own_cpus(&own, NULL), PX_OK);
    assert_true(px_topology_cpus_within(&own, &machine->cpus));
    assert_true(machine->n_packages >= 1);
    px_topology_free(machine);
    px_topology_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sysfs_tells_state_speed_and_fabric),
        cmocka_unit_test(what_sysfs_cannot_tell_stays_as_it_was),
        cmocka_unit_test(slingshot_devices_are_named_by_sysfs),
        cmocka_unit_test(gpus_of_the_driver_join_those_of_the_tree),
        cmocka_unit_test(gpus_heard_of_later_join_in_bus_order),
        cmocka_unit_test(devices_come_in_bus_order),
        cmocka_unit_test(what_is_no_topology_is_refused),
        cmocka_unit_test(this_machine_can_be_read),
    };
    return cmocka_run_group_tests(tests, make_sysfs, remove_sysfs);
}
