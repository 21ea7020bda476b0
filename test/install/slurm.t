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
for script in cpu uneven mpirun; do
  out=$scratch/$script.out err=$scratch/$script.err
  : >"$out"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$vcluster" exec timeout 120 sbatch --wait --export=ALL \
    --output="$out" "$top_srcdir/contrib/slurm/$script.sbatch" "$scratch/hello" >"$scratch/sbatch" 2>"$err"
  status=$?
  check "$script.sbatch ends well" test $status -eq 0
  check "$script.sbatch has four PEs" count 4 'hello from PE [0-3] of 4' "$out"
done
