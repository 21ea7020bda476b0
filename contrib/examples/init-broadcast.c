/* SPDX-License-Identifier: BSD-3-Clause */
/* Second way: PE 0 has the data (read from a file, say), all get them by a broadcast.
 *   gcc init-broadcast.c $(pkg-config --cflags --libs pxshmem) -o init-broadcast && srun --mpi=pmix
 * -n4 ./init-broadcast */
#include <nvshmem.h>
#include <stdio.h>

#define N 5000

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), wrong = 0;
    double *table = nvshmem_calloc(N, sizeof(*table));
    if (me == 0)
        for (int i = 0; i < N; i++)
            table[i] = 0.5 * i;
    nvshmem_barrier_all();
    nvshmem_double_broadcast(NVSHMEM_TEAM_WORLD, table, table, N, 0);

    for (int i = 0; i < N; i++)
        wrong += table[i] != 0.5 * i;
    printf("PE %d: %d of %d values wrong after the broadcast\n", me, wrong, N);

    nvshmem_free(table);
    nvshmem_finalize();
    return wrong != 0;
}
