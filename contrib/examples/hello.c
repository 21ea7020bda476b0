/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is there, and where does the symmetric heap lie? Every PE prints the same address.
 *   gcc hello.c $(pkg-config --cflags --libs pxshmem) -o hello && srun --mpi=pmix -n4 ./hello */
#include <nvshmem.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    char host[64];
    nvshmem_init();
    gethostname(host, sizeof(host));
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    uint64_t *addresses = nvshmem_calloc((size_t)n, sizeof(*addresses));
    if (!addresses) {
        fprintf(stderr, "hello: no symmetric memory\n");
        nvshmem_global_exit(1);
    }

    /* Everybody tells PE 0 where the block lies here. */
    nvshmem_uint64_p(&addresses[me], (uint64_t)(uintptr_t)addresses, 0);
    nvshmem_barrier_all();

    printf("hello from PE %d of %d on %s: block at %p\n", me, n, host, (void *)addresses);
    int wrong = 0;
    for (int pe = 0; me == 0 && pe < n; pe++)
        wrong += addresses[pe] != (uint64_t)(uintptr_t)addresses;
    if (me == 0)
        printf("%s\n", wrong ? "addresses differ" : "the same address on every PE");

    nvshmem_free(addresses);
    nvshmem_finalize();
    return wrong != 0;
}
