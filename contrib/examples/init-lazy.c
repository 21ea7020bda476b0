/* SPDX-License-Identifier: BSD-3-Clause */
/* Fourth way: a block is filled by whoever needs it first. A compare-and-swap elects the one who
 * fills; the others wait. gcc init-lazy.c $(pkg-config --cflags --libs pxshmem) -o init-lazy &&
 * srun --mpi=pmix -n4 ./init-lazy */
#include <nvshmem.h>
#include <stdio.h>

#define N 256
enum { EMPTY, FILLING, READY };

/* Make sure that the block on `owner` is filled; returns 1 for the PE that did it. */
static int need(int *state, long *block, int owner)
{
    long values[N];
    if (nvshmem_int_atomic_compare_swap(state, EMPTY, FILLING, owner) != EMPTY) {
        while (nvshmem_int_atomic_fetch(state, owner) != READY)
            ;
        return 0;
    }
    for (int i = 0; i < N; i++)
        values[i] = 1000L * owner + i;
    nvshmem_long_put(block, values, N, owner);
    nvshmem_quiet(); /* the block is there before its state says so */
    nvshmem_int_atomic_set(state, READY, owner);
    return 1;
}

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), wrong = 0, filled = 0;
    int *state = nvshmem_calloc(1, sizeof(*state)); /* EMPTY on every PE */
    long *block = nvshmem_malloc(N * sizeof(*block));
    int *fills = nvshmem_calloc(1, sizeof(*fills));

    for (int step = 0; step < n; step++) {
        int owner = (me + step) % n;
        filled += need(state, block, owner);
        wrong += nvshmem_long_g(&block[N - 1], owner) != 1000L * owner + N - 1;
    }
    nvshmem_int_atomic_add(fills, filled, 0);
    nvshmem_barrier_all();
    if (me == 0) {
        printf("init-lazy: %d PEs, %d blocks filled (each exactly once)\n", n, *fills);
        wrong += *fills != n;
    }

    nvshmem_barrier_all();
    nvshmem_free(fills);
    nvshmem_free(block);
    nvshmem_free(state);
    nvshmem_finalize();
    return wrong != 0;
}
