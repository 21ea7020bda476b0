/* SPDX-License-Identifier: BSD-3-Clause */
/* Where helper threads may run: started with NVSHMEM_HELPER_CPUS=1 and a network, they may use processor 1 only, while the
 * program's own thread keeps what it had. */
#include "config.h"

#include <dirent.h>
#include <nvshmem.h>
#include <sched.h>
#include <stdlib.h>

#include "test/job/tap.h"

static int threads_on_cpu_1_alone(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        cpu_set_t set;
        int thread = atoi(entry->d_name);
        if (thread > 0 && sched_getaffinity(thread, sizeof(set), &set) == 0)
            count += CPU_COUNT(&set) == 1 && CPU_ISSET(1, &set);
    }
    if (tasks)
        closedir(tasks);
    return count;
}

int main(void)
{
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof(before), &before);
    nvshmem_init();
    sched_getaffinity(0, sizeof(after), &after);
    tap_start(nvshmem_my_pe());
    if (CPU_COUNT(&before) < 2) {
        skip("one processor only");
    } else {
        ok(threads_on_cpu_1_alone() > 0, "%d helper threads are on processor 1",
           threads_on_cpu_1_alone());
        ok(CPU_EQUAL(&before, &after), "and the program's thread is where it was");
    }
    nvshmem_finalize();
    return tap_done();
}
