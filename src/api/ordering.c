/* SPDX-License-Identifier: BSD-3-Clause */
/* fence, quiet (9.12): the processor's fence for mapped peers, and the transport's when remote PEs
 * exist. */
#include "config.h"
#include "src/api/entry.h"

#include "src/api/check.h"

void px_api_fence(void)
{
    if (px_suspect_call())
        px_check_up("nvshmem_fence");
    px_fence();
}

void px_api_quiet(void)
{
    if (px_suspect_call())
        px_check_up("nvshmem_quiet");
    px_quiet();
}

void px_api_pe_quiet(const int *target_pes, size_t npes)
{
    if (px_suspect_call())
        px_check_up("nvshmem_pe_quiet");
    atomic_thread_fence(memory_order_seq_cst);
    for (size_t i = 0; i < npes; i++) {
        if (px_suspect(target_pes[i]))
            px_check_rma("nvshmem_pe_quiet", "target_pes", NULL, 0, 1, target_pes[i]);
        if (!px_is_mapped((uint32_t)target_pes[i]))
            px_peers.remote->quiet_pe(px_peers.remote_self, (uint32_t)target_pes[i]);
    }
}
