# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What users are told when a program is wrong: one message that names call, cause and remedy, and never a crash or a hang.

read -ra four_pes <<<"$(four_pes)"
limit=30
remote=NVSHMEM_DISABLE_P2P=1
[ -z "$(network_reason)" ] || remote=

job alone -- misuse early_put
check "a put before init is refused" exited_with 1
check "by name" warns 'nvshmem_int_put: called before nvshmem_init'
job alone -- misuse early_malloc
check "a malloc before init is refused by name" warns 'nvshmem_malloc: called before nvshmem_init'
job alone -- misuse early_barrier
check "a barrier before init is refused by name" warns 'nvshmem_barrier_all: called before nvshmem_init'
job alone -- misuse early_rank
check "asking for the PE number before init is reported" warns 'nvshmem_my_pe: called before nvshmem_init'
check "and answered with -1" says 'my_pe -1, n_pes -1'
job alone -- misuse late_put
check "a put after finalise is refused by name" warns 'nvshmem_int_p: called after nvshmem_finalize'
job "${four_pes[@]}" -- misuse extra_finalize
check "one finalise too many is ignored" exited_with 0
check "with a message" warns 'nvshmem_finalize: called without nvshmem_init'

job "${four_pes[@]}" -- misuse free_unknown
check "freeing what was not allocated is survived" exited_with 0
check "and told with the address" warns 'nvshmem_free: 0x1234 was not allocated by nvshmem_malloc: it is no mapped memory, not symmetric memory'
check "also inside a block" warns 'nvshmem_free: 0x[0-9a-f]+ was not allocated.*4 bytes into allocation 1, 1000 bytes'
check "also freed before" warns 'nvshmem_free: 0x[0-9a-f]+ was not allocated.*which was freed'
check "and kept for error_check" says 'error_check [1-9]'
check "at most one line of a cause on a node" at_most 2 'not symmetric memory' "$err"

for variant in "" ${remote:+"$remote"}; do
  for case in differing_size differing_free missing_free; do
    # shellcheck disable=SC2086 # the variant may be nothing
    (export $variant; job "${four_pes[@]}" -- misuse $case
    check "$case $variant ends the job" failed
    check "$case $variant names the PEs" warns 'PE 1'
    check "$case $variant names the call" warns 'nvshmem_(malloc|free)')
  done
done
NVSHMEM_HANG_TIMEOUT=2 limit=8 job "${four_pes[@]}" -- misuse lonely_malloc
check "a lonely malloc is reported" warns 'nvshmem_malloc has waited'
check "with who is in it" warns 'PE 3 .*in nvshmem_malloc'
check "and where the others are" warns 'PE 0-2: in no collective'

NVSHMEM_CHECK=1 job "${four_pes[@]}" -- misuse private_memory
check "private memory as a remote address is refused with checks on" failed
check "by name, with what it is" warns 'nvshmem_int_p: .*not symmetric memory'
job alone -- misuse late_free
check "a free after finalise is no crash" exited_with 0
check "and one line" at_most 1 'nvshmem_free: called after nvshmem_finalize' "$err"
