# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# pxshmem-info inside of a job: what it says of the launcher and of the environment in force there.
need_cluster
info=$PWD/pxshmem-info
job srun -N2 -n2 -- "$info" --check
check "on each node it names both versions of PMIx" count 2 'PMIx  *client OpenPMIx [0-9.a-z]+, server [0-9.a-z]+' "$out"
job srun -N1 -n1 -- "$info" --build
check "so it does with the build" says '^PMIx  *OpenPMIx [0-9.a-z]+, server of this job [0-9.a-z]+'
NVSHMEM_SYMMETRIC_SIZE=32M job srun -N1 -n1 -- "$info" --environment
check "what srun passes on is in force" says '^NVSHMEM_SYMMETRIC_SIZE=33554432 \(environment\)$'
job srun -N1 -n1 -- "$info" --topology --pes 2
check "processors are those of the job" says '^PE  *PROCESSORS'
