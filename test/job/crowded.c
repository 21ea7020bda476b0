/* SPDX-License-Identifier: BSD-3-Clause */
/* Many PEs on few processors: barriers must not crawl. The limit of its row in jobs.tbl is the test. */
#include <nvshmem.h>

#include "test/job/tap.h"

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    tap_start(me);
    int *counter = nvshmem_calloc(1, sizeof(*counter));
    for (int i = 0; i < 100; i++) {
        nvshmem_int_atomic_add(counter, 1, i % n);
        nvshmem_barrier_all();
    }
    int expected = 0;
    for (int i = 0; i < 100; i++)
        expected += i % n == me ? n : 0;
    ok(*counter == expected, "100 barriers of %d PEs, counter %d, expected %d", n, *counter, expected);
    nvshmem_barrier_all();
    nvshmem_free(counter);
    nvshmem_finalize();
    return tap_done();
}
