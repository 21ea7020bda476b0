/* SPDX-License-Identifier: BSD-3-Clause */
/* Where helper threads may run, in a job with a network. Without an argument NVSHMEM_HELPER_CPUS=1 is
 * set: on processor 1 only. With `core` the PE is bound to one core before it initialises: off that
 * core, where there is another. With `any` it is bound, too, and NVSHMEM_HELPER_CPUS=any: as they
 * come, which is there. The program's own thread keeps what it had. */
#include "config.h"

#include <dirent.h>
#include <nvshmem.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "test/job/tap.h"

/* Threads of this process for which the rule holds. */
static int count_threads(bool (*rule)(const cpu_set_t *cpus))
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        cpu_set_t set;
        int thread = atoi(entry->d_name);
        if (thread > 0 && sched_getaffinity(thread, sizeof(set), &set) == 0)
            count += rule(&set);
    }
    if (tasks)
        closedir(tasks);
    return count;
}

static bool on_cpu_1_alone(const cpu_set_t *cpus)
{
    return CPU_COUNT(cpus) == 1 && CPU_ISSET(1, cpus);
}

static cpu_set_t mine;

static bool off_my_core(const cpu_set_t *cpus)
{
    cpu_set_t both;
    CPU_AND(&both, cpus, &mine);
    return CPU_COUNT(&both) == 0;
}

/* One hardware thread, another one for each PE of a node while there are enough. */
static void bind_to_one(const cpu_set_t *allowed)
{
    const char *local = getenv("SLURM_LOCALID");
    int skip = local ? atoi(local) % CPU_COUNT(allowed) : 0, cpu = 0;
    while (!CPU_ISSET(cpu, allowed) || skip-- > 0)
        cpu++;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    sched_setaffinity(0, sizeof(mine), &mine);
}

/* Where the only other processors are threads of the same core there is nowhere to go. */
static bool one_thread_a_core(void)
{
    char line[32] = "";
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "r");
    bool one = file && fgets(line, sizeof(line), file) && strcspn(line, ",-") == strlen(line);
    if (file)
        fclose(file);
    return one;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    cpu_set_t allowed, before, after;
    sched_getaffinity(0, sizeof(allowed), &allowed);
    if (mode[0])
        bind_to_one(&allowed);
    sched_getaffinity(0, sizeof(before), &before);
    nvshmem_init();
    sched_getaffinity(0, sizeof(after), &after);
    tap_start(nvshmem_my_pe());
    if (CPU_COUNT(&allowed) < 2 || (mode[0] && !one_thread_a_core())) {
        skip("one core only");
    } else {
        int on_1 = count_threads(on_cpu_1_alone), off = count_threads(off_my_core);
        if (strcmp(mode, "core") == 0)
            ok(off > 0, "%d helper threads have left the program's only core", off);
        else if (strcmp(mode, "any") == 0)
            ok(off == 0, "%d threads have left the program's only core", off);
        else
            ok(on_1 > 0, "%d helper threads are on processor 1", on_1);
        ok(CPU_EQUAL(&before, &after), "and the program's thread is where it was");
    }
    nvshmem_finalize();
    return tap_done();
}
