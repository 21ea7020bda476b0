/* SPDX-License-Identifier: BSD-3-Clause */
/* Which PEs can be reached by plain loads and stores? nvshmem_ptr gives an address to use here, or
 * NULL; for the others there are put and get. Prints the addresses, writes, reads back. gcc ptr.c
 * $(pkg-config --cflags --libs pxshmem) -o ptr && srun --mpi=pmix -N2 -n4 ./ptr */
#include <nvshmem.h>
#include <stdio.h>

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), wrong = 0, mapped = 0;
    long *slots =
        nvshmem_calloc((size_t)n, sizeof(*slots)); /* slots[i] on a PE is written by PE i */
    wrong += nvshmem_ptr(slots, me) != (void *)slots;

    for (int pe = 0; pe < n; pe++) {
        long *there = nvshmem_ptr(slots, pe);
        if (there) {
            there[me] = 100L * me + pe; /* a plain store */
            mapped++;
        } else {
            nvshmem_long_p(&slots[me], 100L * me + pe, pe);
        }
    }
    nvshmem_barrier_all();
    for (int pe = 0; pe < n; pe++) {
        wrong += slots[pe] != 100L * pe + me;
        wrong += nvshmem_long_g(&slots[me], pe) != 100L * me + pe;
    }
    printf("PE %d: slots at %p, %d of %d PEs mapped, %d wrong\n", me, (void *)slots, mapped, n,
           wrong);

    nvshmem_free(slots);
    nvshmem_finalize();
    return wrong != 0;
}
