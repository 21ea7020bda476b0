/* SPDX-License-Identifier: BSD-3-Clause */
/* Finalise completes what is pending: each even PE starts a large put and goes straight to nvshmem_finalize; its target, the
 * next PE, waits for the last byte before it finalises, so a put that is dropped would keep it waiting. */
#include "config.h"

#include <nvshmem.h>
#include <nvshmemx.h>
#include <string.h>

#include "test/job/tap.h"

#define BYTES ((size_t)64 << 20)

static size_t wrong_bytes(const volatile unsigned char *block, unsigned char wanted)
{
    size_t wrong = 0;
    for (size_t i = 0; i < BYTES; i++)
        wrong += block[i] != wanted;
    return wrong;
}

int main(void)
{
    nvshmem_init();
    int me = nvshmem_my_pe(), n = nvshmem_n_pes();
    unsigned char *target = nvshmem_calloc(BYTES, 1), *source = nvshmem_malloc(BYTES);
    int *last = (int *)(void *)(target + BYTES - sizeof(int));
    tap_start(me);
    memset(source, me + 1, BYTES);
    nvshmem_barrier_all();
    if (me % 2 == 0 && me + 1 < n) {
        nvshmem_putmem_nbi(target, source, BYTES, me + 1);
    } else if (me % 2 == 1) {
        nvshmem_int_wait_until(last, NVSHMEM_CMP_NE, 0);
        /* Within a put, bytes come in any order. Only now may the others be looked at in time. */
        while (wrong_bytes(target, (unsigned char)me) > 0)
            ;
    }
    nvshmem_finalize();
    ok(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED,
       "64 MiB arrived although finalise followed at once");
    return tap_done();
}
