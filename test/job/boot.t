# SPDX-License-Identifier: BSD-3-Clause
# How start-up fails: the message names the cause, there is one of it, and the job ends by itself. test/job/boot is the
# bootstrap alone; -m PE never opens it, -s PE skips its second meeting, -k PE is killed, -A PE aborts.
need_cluster
either_works_or_warns() { exited_with 0 || warns "$1"; }

job srun --mpi=none -N2 -n4 -- boot
check "tasks without a server do not become jobs of one" exited_with 3
check "the message names the option, once per node" count 2 'one of 4 tasks of Slurm step.*srun --mpi=pmix' "$err"
job srun --mpi=none -N2 -n4 -- boot -a
check "unless that is wanted" exited_with 0
job srun --mpi=none -N1 -n1 -- boot
check "a single task is a job of one" exited_with 0
check "quietly" not warns pxshmem

"$vcluster" exec salloc -Q -n4 "$(program_path boot)" >"$out" 2>"$err" </dev/null
status=$? timed_out=
check "a program in an allocation, without srun, is a job of one" exited_with 0
check "quietly, too" not warns pxshmem

limit=40 job srun -N2 -n4 -- boot -t 3 -m 3
check "a PE that never comes ends the job" failed
check "in time" not hung
check "PE, node, process and what it has not done are named" count 1 'missing: PE 3 on node[0-9] \(pid [0-9]+ boot, sleeping, has not called init\)' "$err"
check "by one message" count 1 'pxshmem:' "$err"
limit=40 job srun -N2 -n4 -- boot -t 3 -s 1
check "a PE that is elsewhere is told from one that never came" count 1 'missing: PE 1 on node[0-9] \(pid [0-9]+ boot, sleeping\)' "$err"
check "and ends the job" failed
limit=40 job mpirun -n 3 -- boot -t 3 -m 1
check "mpirun: a PE that never comes is named" count 1 'missing: PE 1 on .*has not called init' "$err"
check "mpirun: and ends the job" failed

limit=40 job srun -N2 -n4 -- boot -t 5 -k 3
check "a PE that is killed ends the job" failed
check "in time" not hung
check "and is named" warns 'pxshmem:.*PE 3 on node[0-9]'

limit=40 job srun -N1 -n3 -- unshare -pf --mount-proc "$(program_path boot)" -t 3 -s 1
check "in PID namespaces of their own a PE that is elsewhere is named" count 1 'missing: PE 1 on node[0-9] \(has called init\)' "$err"
job srun -N1 -n2 -- unshare -n "$(program_path boot)"
check "a network namespace of its own ends the job" failed
check "and is named, with the remedy" warns 'pxshmem:.*cannot be reached from here \(.*\): in a container, share the host.s network'

job srun -N2 -n4 -- boot -A 1
check "abort ends the job with the status given" exited_with 7
job mpirun -n 3 -- boot -A 1
# Open MPI 4.1's mpirun now and then crashes in its own PMIx_server_finalize after the job has been ended
exited_or_mpirun_crashed() { exited_with "$1" || { exited_with 139 && warns 'PMIx_server_finalize'; }; }
check "mpirun: abort ends the job with the status given" exited_or_mpirun_crashed 7
check "mpirun: with one message" count 1 'pxshmem:.*asked to abort' "$err"

boot=$(program_path boot)
PMIX_MCA_gds=hash job srun -N2 -n4 -- sh -c "$boot && $boot && $boot"
check "programs may follow each other in a step" exited_with 0
check "each with all its PEs" count 3 '^1\.\.' "$out"
# the shared-memory store of PMIx 4.2's server breaks now and then when its clients come back
job srun -N2 -n4 -- sh -c "$boot && $boot && $boot"
check "or the message says why they may not" either_works_or_warns 'another program ran before in this job step'

PMIX_MCA_psec=nosuch job srun -N1 -n2 -- boot
check "an unknown security component ends the job" failed
check "is named, with the remedy, once" count 1 'pxshmem:.*"nosuch" is asked for \(PMIX_MCA_psec\).*unset PMIX_MCA_psec' "$err"
check "with both versions" warns 'client OpenPMIx [0-9.]+.*server PMIx [0-9.]+'
job srun -N1 -n2 -- unshare -m sh -c "mount -t tmpfs none \$(dirname \$PMIX_SERVER_TMPDIR) && exec $boot"
check "a hidden server directory: it works, or the message names it" either_works_or_warns 'PMIX_SERVER_TMPDIR'
job srun -N1 -n2 -- env -u PMIX_SERVER_URI4 -u PMIX_SERVER_URI41 -u PMIX_SERVER_URI3 -u PMIX_SERVER_URI21 -u PMIX_SERVER_URI2 "$boot"
check "a server whose address is lost ends the job" failed
check "and is named so" count 1 'no PMIX_SERVER_URI\* names a server' "$err"
