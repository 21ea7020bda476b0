# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Start-up that goes wrong: missing PEs, wrong launchers, wrong settings, too little memory.

limit=30
read -ra four_pes <<<"$(four_pes)"

NVSHMEM_BOOTSTRAP_TIMEOUT=3 job "${four_pes[@]}" -- misuse sleeper
check "a PE that never calls init ends the job" failed
check "it is named with its node" warns 'PE 1.*node[0-9]'
check "in at most one line a node" at_most 2 'pxshmem: .*missing' "$err"
NVSHMEM_BOOTSTRAP_TIMEOUT=3 job "${four_pes[@]}" -- misuse quitter
check "a PE that leaves before init ends the job" failed

job srun --mpi=none -N2 -n4 -- misuse exit_with_7
check "srun without PMIx does not start four jobs of one" failed
check "the option is named" warns '\-\-mpi=pmix'
NVSHMEM_ALLOW_SINGLETON=1 job srun --mpi=none -N1 -n2 -- misuse extra_finalize
check "unless it is asked for" exited_with 0

for value in nonsense 1GiB -1 0 1e3 20kk 9223372036854775808; do
  NVSHMEM_SYMMETRIC_SIZE=$value job "${four_pes[@]}" -- misuse extra_finalize
  check "NVSHMEM_SYMMETRIC_SIZE=$value ends the job" failed
  check "by name with the accepted forms" warns "NVSHMEM_SYMMETRIC_SIZE is \"$value\"; it must be bytes, with an optional suffix"
  check "once a node" at_most 2 'NVSHMEM_SYMMETRIC_SIZE is' "$err"
done
NVSHMEM_SYMMETRIC_SIZE=64M NVSHMEM_SYMMETRIC_SIZE_MB=32 job "${four_pes[@]}" -- misuse extra_finalize
check "two sizes: the bytes one wins, with one notice a node" at_most 2 'both set' "$err"
check "and the job runs" exited_with 0
NVSHMEM_SYMETRIC_SIZE=1G job "${four_pes[@]}" -- misuse extra_finalize
check "a misspelt variable gets the right name" warns 'did you mean NVSHMEM_SYMMETRIC_SIZE'
check "once a node" at_most 2 'did you mean' "$err"

job "${four_pes[@]}" -- misuse differing_setting
check "algorithms that differ between PEs end the job" failed
check "by variable, values and PEs" warns 'NVSHMEM_REDUCE_ALGO must be the same on all PEs: it is two-level on PE 0 .* and one-level on PE 2'
check "once a node" at_most 2 'must be the same' "$err"

NVSHMEM_SYMMETRIC_SIZE=8T job "${four_pes[@]}" -- misuse extra_finalize
check "a pool larger than the memory ends the job" failed
check "with both numbers and the variable" warns 'NVSHMEM_SYMMETRIC_SIZE'
NVSHMEM_SYMMETRIC_SIZE=8T job "${four_pes[@]}" -- misuse init_attr
check "init_attr returns a code instead" says 'init_attr [1-9][0-9]*: .*NVSHMEM_SYMMETRIC_SIZE'
check "and may be called again" says 'again 0'

job "${four_pes[@]}" -- misuse too_much
check "an allocation that cannot fit is NULL on every PE" count 4 'PE [0-3]: \(nil\), error 2' "$out"
check "and says what there is" warns 'nvshmem_malloc: 70368744177664 bytes do not fit: .* in use .* largest free piece'

for case in killed_in_barrier killed_in_put killed_in_wait killed_in_team killed_in_join \
  fault failed_assertion exit_with_3; do
  job "${four_pes[@]}" -- misuse $case
  check "$case: the job ends" failed
  check "$case: the dead PE is named" warns 'PE 1 \(node[0-9]\).*died'
done
NVSHMEM_HANG_TIMEOUT=2 job "${four_pes[@]}" -- misuse leaves_alone
check "a PE that leaves alone does not keep the others for ever" failed
check "and is named" warns 'cannot end: PE 1 \(node[0-9]\).* has left without nvshmem_finalize'
job "${four_pes[@]}" -- misuse forked
check "a child of a PE may exit" exited_with 0
check "and nobody takes it for the PE" silent
job "${four_pes[@]}" -- misuse exit_with_7
check "global_exit ends every PE with its status" exited_with 7
job srun -N1 -n4 -- misuse no_finalize
check "leaving without finalise is no failure on one node" exited_with 0
check "and gets one line a node" at_most 2 'pxshmem' "$err"
need_network # on one node without one, nothing needs a helper thread
NVSHMEM_HELPER_CPUS=4000 job "${four_pes[@]}" -- misuse extra_finalize
check "processors that the job does not have are refused" warns 'processors for helper threads: 4000 is wanted'
for launcher in "srun -N2 -n4" "pmi2 -N2 -n4" "salloc -N2 -n4"; do
  [ -z "$(launcher_reason "${launcher%% *}")" ] || continue
  # shellcheck disable=SC2086 # several words
  job $launcher -- misuse no_finalize
  check "leaving without finalise is no failure on two nodes, $launcher" exited_with 0
  check "and gets one line a node" at_most 2 'pxshmem' "$err"
done
