# SPDX-License-Identifier: BSD-3-Clause
# How start-up fails under srun --mpi=pmi2; see boot.t for what test/job/boot is asked to do.
need pmi2
boot=$(program_path boot)

limit=40 job pmi2 -N2 -n4 -- boot -t 3 -m 2
check "a PE that never comes is named" count 1 'missing: PE 2 on node[0-9] \(pid [0-9]+ boot, sleeping, has not called init\)' "$err"
check "and ends the job" failed
limit=40 job pmi2 -N2 -n4 -- boot -t 3 -s 1
check "so is one that is elsewhere" count 1 'missing: PE 1 on node[0-9] \(pid [0-9]+ boot, sleeping\)' "$err"
job pmi2 -N2 -n4 -- boot -A 1
check "abort ends the job" failed
check "and the PE keeps its status" warns 'task 1: Exited with exit code 7'
job pmi2 -N2 -n4 -- sh -c "$boot && $boot"
check "a second program" failed
check "says why it cannot start" count 2 'PMI-2 serves one program per job step' "$err"
