/* SPDX-License-Identifier: BSD-3-Clause */
/* All PEs get the same address even when their address spaces differ. `addresses crowd` has odd PEs map blocks at random
 * places first, `addresses wall` has PE 1 take the place where heaps usually go. Prints a PE and its address. Where the
 * system randomises addresses, the PEs' stacks must show it, or the rest would prove little. */
#include <nvshmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "test/job/tap.h"

static int rank_by_launcher(void)
{
    static const char *const names[] = {"PMIX_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return 0;
}

static void crowd(int rank)
{
    srand((unsigned)(rank * 7919 + time(NULL)));
    for (int i = 0; rank % 2 && i < 200; i++) {
        uintptr_t at = ((uintptr_t)rand() << 16 ^ (uintptr_t)rand()) % ((uintptr_t)1 << 47) & ~(uintptr_t)0xfffff;
        mmap((void *)at, (size_t)1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
}

static void wall(int rank)
{
    if (rank == 1) /* 2 TiB right where an empty address space offers room */
        mmap((void *)0x1ff000000000, (size_t)2 << 40, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

static bool system_randomises(void)
{
    int level = 0;
    FILE *file = fopen("/proc/sys/kernel/randomize_va_space", "r");
    bool known = file && fscanf(file, "%d", &level) == 1;
    if (file)
        fclose(file);
    return known && level > 0;
}

static void stacks_differ(int me, int n, uint64_t *board)
{
    int same = 0;
    for (int pe = 0; pe < n; pe++)
        nvshmem_uint64_p(&board[me], (uint64_t)(uintptr_t)&same, pe);
    nvshmem_barrier_all();
    for (int pe = 0; pe < n; pe++)
        same += pe != me && board[pe] == (uint64_t)(uintptr_t)&same;
    ok(!system_randomises() || same == 0, "%d other PEs have this one's stack address", same);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "crowd") == 0)
        crowd(rank_by_launcher());
    if (argc > 1 && strcmp(argv[1], "wall") == 0)
        wall(rank_by_launcher());
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    tap_start(me);
    uint64_t *board = nvshmem_calloc((size_t)n, sizeof(*board));
    for (int pe = 0; pe < n; pe++)
        nvshmem_uint64_p(&board[me], (uint64_t)(uintptr_t)board, pe);
    nvshmem_barrier_all();
    int differ = 0;
    for (int pe = 0; pe < n; pe++)
        differ += board[pe] != (uint64_t)(uintptr_t)board;
    diag("PE %d of %d: %p", me, n, (void *)board);
    ok(differ == 0, "%d PEs have another address than %p", differ, (void *)board);
    nvshmem_barrier_all();
    stacks_differ(me, n, board);
    nvshmem_barrier_all();
    nvshmem_free(board);
    nvshmem_finalize();
    return tap_done();
}
