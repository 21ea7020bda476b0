/* SPDX-License-Identifier: BSD-3-Clause */
/* A block that grows with its contents kept (nvshmem_realloc), and a pool of another size
 * (nvshmem_reinit), which keeps nothing allocated but lies at the same address. gcc resize.c
 * $(pkg-config --cflags --libs pxshmem) -o resize && srun --mpi=pmix -n2 ./resize */
#include <nvshmem.h>
#include <stdio.h>

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes(), wrong = 0;
    size_t count = 1000;
    int *list = nvshmem_malloc(count * sizeof(*list));
    void *first = list;
    for (size_t i = 0; i < count; i++)
        list[i] = (int)i + me;
    for (; count < 1000000; count *= 10) {
        int *larger = nvshmem_realloc(list, 10 * count * sizeof(*list));
        if (!larger) {
            fprintf(stderr, "resize: no room for %zu values; the old block is untouched\n",
                    10 * count);
            nvshmem_global_exit(1);
        }
        list = larger;
        for (size_t i = count; i < 10 * count; i++)
            list[i] = (int)i + me;
    }
    nvshmem_barrier_all();
    int right = (me + 1) % n;
    for (size_t i = 0; i < count; i += 99991)
        wrong += nvshmem_int_g(&list[i], right) != (int)i + right;
    nvshmem_barrier_all();
    nvshmem_free(list);

    wrong += nvshmem_reinit((size_t)64 << 20) != 0;
    int *again = nvshmem_malloc(1000 * sizeof(*again));
    wrong += (void *)again != first;
    if (me == 0)
        printf(
            "resize: grew to %zu values; after reinit the first block lies at %p, before at %p\n",
            count, (void *)again, first);
    nvshmem_free(again);
    nvshmem_finalize();
    return wrong != 0;
}
