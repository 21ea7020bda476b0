# SPDX-License-Identifier: BSD-3-Clause
# One PE calls another collective than the rest, the same with other arguments, or none: who and what is said.
wide='-N2 -n4'
[ -z "$(network_reason)" ] || wide=
for where in '-N1 -n3' ${wide:+"$wide"}; do
  limit=40 job srun $where -- stray other
  check "another call ends the job, $where" failed
  check "and does not hang it" not hung
  check "both calls are named" warns 'nvshmem_long_sum_reduce\(.*nvshmem_long_fcollect\('
  check "at most once a node" at_most 2 'do not match' "$err"
  check "nobody comes through" not says 'came through'

  limit=40 job srun $where -- stray size
  check "another count ends the job, $where" failed
  check "and does not hang it" not hung
  check "both counts are shown" warns 'nvshmem_long_sum_reduce\([^)]*, 4\).*nvshmem_long_sum_reduce\([^)]*, 8\)'
done

NVSHMEM_HANG_TIMEOUT=1 limit=6 job srun -N1 -n3 -- stray away
check "a PE that does not come keeps the others waiting" hung
check "they say in which call" warns 'nvshmem_long_sum_reduce'
check "and that the last one is in none" warns 'PE 2.*in no collective'
