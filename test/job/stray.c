/* SPDX-License-Identifier: BSD-3-Clause */
/* A PE that strays, for stray.t: the last one makes another collective call than the rest (argument "other"), the same
 * call with another argument ("size"), or none ("away"). The job must not get past it. */
#include <nvshmem.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "other";
    nvshmem_init();
    long *source = nvshmem_calloc(16, sizeof(*source)), *dest = nvshmem_calloc(16, sizeof(*dest));
    int stray = nvshmem_my_pe() == nvshmem_n_pes() - 1;
    if (stray && strcmp(how, "away") == 0)
        sleep(30);
    else if (stray && strcmp(how, "other") == 0)
        nvshmem_long_fcollect(NVSHMEM_TEAM_WORLD, dest, source, 2);
    else
        nvshmem_long_sum_reduce(NVSHMEM_TEAM_WORLD, dest, source, stray ? 8 : 4);
    puts("came through");
    nvshmem_finalize();
    return 0;
}
