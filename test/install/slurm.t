# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The batch scripts of contrib/slurm, sent to the cluster with an example program.
: "${PX_PREFIX:?names no installed library}"
need_cluster
need_network
export PKG_CONFIG_PATH=$PX_PREFIX/lib/pkgconfig LD_LIBRARY_PATH=$PX_PREFIX/lib PATH=$PX_PREFIX/bin:$PATH
mkdir -p "$scratch"
# shellcheck disable=SC2046
gcc "$top_srcdir/contrib/examples/hello.c" $(pkg-config --cflags --libs pxshmem) -o "$scratch/hello"
batch() { # SCRIPT: what it prints goes to $out
  out=$scratch/$1.out err=$scratch/$1.err
  : >"$out"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$vcluster" exec timeout 120 sbatch --wait --export=ALL \
    --output="$out" "$top_srcdir/contrib/slurm/$1.sbatch" "$scratch/hello" >"$scratch/sbatch" 2>"$err"
  status=$?
  check "$1.sbatch ends well" test $status -eq 0
}
for script in cpu uneven mpirun hetjob; do
  batch $script
  check "$script.sbatch has four PEs" count 4 'hello from PE [0-3] of 4' "$out"
done
check "the parts of hetjob.sbatch are on nodes of their own" count 1 'hello from PE 0 of 4 on node0' "$out"
check "and PEs are numbered on" count 3 'hello from PE [1-3] of 4 on node1' "$out"

# A cluster that says it has GPUs; PEs take host memory where there are none.
gpu_cluster() (
  export VC_NAME=$VC_NAME-gpu VC_GPUS=2
  "$vcluster" up 1 && trap '"$vcluster" down' EXIT && batch gpu &&
    check "gpu.sbatch has a PE for each GPU" count 2 'hello from PE [01] of 2' "$out" &&
    check "and shows which GPU it has" says '^PE  *PROCESSORS  *GPU'
)
gpu_cluster

listed() { # every script is run above
  local script
  for script in "$top_srcdir"/contrib/slurm/*.sbatch; do
    [ -e "$scratch/$(basename "$script" .sbatch).out" ] || { say "$script was not run"; return 1; }
  done
}
check "each script was run" listed
