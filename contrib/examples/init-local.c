/* SPDX-License-Identifier: BSD-3-Clause */
/* First way to initialise symmetric data: each PE fills its own block, then all meet.
 *   gcc init-local.c $(pkg-config --cflags --libs pxshmem) -o init-local && srun --mpi=pmix -n4
 * ./init-local */
#include <nvshmem.h>
#include <stdio.h>

#define N 1000

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), wrong = 0;
    int *data = nvshmem_malloc(N * sizeof(*data));
    for (int i = 0; i < N; i++)
        data[i] = me * N + i;
    nvshmem_barrier_all(); /* nobody reads before everybody has written */

    int right = (me + 1) % n;
    for (int i = 0; i < N; i += 111)
        wrong += nvshmem_int_g(&data[i], right) != right * N + i;
    printf("PE %d: read %s from PE %d\n", me, wrong ? "wrong values" : "what it wrote", right);

    nvshmem_free(data);
    nvshmem_finalize();
    return wrong != 0;
}
