/* SPDX-License-Identifier: BSD-3-Clause */
/* Third way: one PE has the whole array and deals it out, a block to each PE; the last block may be
 * shorter. gcc init-block.c $(pkg-config --cflags --libs pxshmem) -o init-block && srun --mpi=pmix
 * -n4 ./init-block */
#include <nvshmem.h>
#include <stdio.h>
#include <stdlib.h>

#define TOTAL 10007

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), wrong = 0;
    int block = (TOTAL + n - 1) / n;
    float *mine = nvshmem_calloc((size_t)block, sizeof(*mine));

    if (me == 0) {
        float *all = malloc(TOTAL * sizeof(*all)); /* private memory is a fine source */
        for (int i = 0; i < TOTAL; i++)
            all[i] = (float)i;
        for (int pe = 0; pe < n; pe++) {
            int first = pe * block, count = first + block <= TOTAL ? block : TOTAL - first;
            if (count > 0)
                nvshmem_float_put_nbi(mine, all + first, (size_t)count, pe);
        }
        nvshmem_quiet(); /* before the source goes away */
        free(all);
    }
    nvshmem_barrier_all();

    for (int i = 0; i < block && me * block + i < TOTAL; i++)
        wrong += mine[i] != (float)(me * block + i);
    printf("PE %d: block of %d starting at %d, %d wrong\n", me, block, me * block, wrong);

    nvshmem_free(mine);
    nvshmem_finalize();
    return wrong != 0;
}
