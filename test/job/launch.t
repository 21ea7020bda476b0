# SPDX-License-Identifier: BSD-3-Clause
# The harness itself: does it see failures? A harness that passes everything would hide every other
# fault.
need_cluster

job srun -N2 -n2 -- hostname
check "tasks run on two nodes" says '^node1$'
check "which have different names" says '^node0$'

job srun -N1 -n3 -- sh -c 'exit 3'
check "an exit status comes through" exited_with 3
check "and is a failure" failed

job srun -N2 -n2 -- sh -c 'exec cat /proc/net/dev | grep -c eth0; ls -A /dev/shm | wc -l >&2'
check "each node has a network of its own" count 2 '^1$' "$out"
check "and an empty /dev/shm" count 2 '^0$' "$err"

limit=2 job srun -N2 -n2 -- sleep 30
check "a job that hangs is ended" exited_with 124
check "and known to have hung" hung
check "which is no success of a test that wants a failure" not failed

job srun -N2 -n4 -- pmix_hello 5
check "a failing check fails the program" exited_with 1
check "and is reported by each PE that sees it" count 4 '^not ok - .*the job has 4 ranks, 5 wanted' "$out"

job_start srun -N2 -n2 -- sh -c 'echo started; sleep 30'
for ((i = 0; i < 100; i++)); do says started && break; sleep 0.1; done
"$vcluster" exec pkill -KILL -x sleep
job_wait
check "a killed task ends the job" failed

again() { # after the death of a daemon of a cluster of its own
  VC_NAME=$VC_NAME-broken
  "$vcluster" up 1 && "$vcluster" exec pkill -KILL -x "$1" && "$vcluster" up 1 &&
    [ "$("$vcluster" run -N1 -n1 hostname)" = node0 ]
  local result=$?
  "$vcluster" down
  return $result
}
check "a cluster that lost its controller is brought up again" eval '(again slurmctld)'
check "and one that lost a node" eval '(again slurmd)'
