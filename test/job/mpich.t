# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A program of MPICH that starts from its communicators: the library is built with another MPI or none, and finds this one
# in the process. Its launcher speaks PMI-2.
command -v mpicc.mpich mpiexec.hydra >/dev/null || skip_all "there is no MPICH (Debian: mpich, libmpich-dev)"
grep -q "^#define PX_HAVE_PMI2 1" config.h || skip_all "built without PMI-2"
mkdir -p "$scratch"
mpicc.mpich -I"$top_srcdir" -I"$top_srcdir/src/include" -Isrc/include -o "$scratch/mpich_world" \
  "$top_srcdir/test/job/mpi_world.c" -L.libs -lpxshmem >"$scratch/compiler" 2>&1 || sed 's/^/# /' "$scratch/compiler"
limit=90
job hydra -n 3 -- "$scratch/mpich_world" whole
check "communicators of MPICH, in the order of their ranks" exited_with 0
check "each of them was tried" says '^1\.\.15$'
check "a part of the job is refused with the remedy" warns 'pmi2 has no meetings of a part of the job.*srun --mpi=pmix'
