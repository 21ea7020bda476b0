/* SPDX-License-Identifier: BSD-3-Clause */
/* A token goes round all PEs twice: each PE adds itself and hands it on with a signal.
 *   gcc ring.c $(pkg-config --cflags --libs pxshmem) -o ring && srun --mpi=pmix -N2 -n4 ./ring */
#include <nvshmem.h>
#include <stdint.h>
#include <stdio.h>

#define LAPS 2

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), next = (me + 1) % n;
    long *token = nvshmem_calloc(1, sizeof(*token));
    uint64_t *turn = nvshmem_calloc(1, sizeof(*turn));
    if (!token || !turn) {
        fprintf(stderr, "ring: no symmetric memory\n");
        nvshmem_global_exit(1);
    }

    for (uint64_t lap = 1; lap <= LAPS; lap++) {
        if (!(me == 0 && lap == 1)) /* PE 0 starts without waiting */
            nvshmem_signal_wait_until(turn, NVSHMEM_CMP_EQ, me == 0 ? lap - 1 : lap);
        long mine = *token + me;
        nvshmem_long_put_signal(token, &mine, 1, turn, lap, NVSHMEM_SIGNAL_SET, next);
    }
    int wrong = 0;
    if (me == 0) {
        nvshmem_signal_wait_until(turn, NVSHMEM_CMP_EQ, LAPS);
        long expected = (long)LAPS * n * (n - 1) / 2;
        wrong = *token != expected;
        printf("ring of %d PEs, %d laps: token %ld, expected %ld\n", n, LAPS, *token, expected);
    }

    nvshmem_barrier_all();
    nvshmem_free(turn);
    nvshmem_free(token);
    nvshmem_finalize();
    return wrong;
}
