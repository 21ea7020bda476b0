# SPDX-License-Identifier: BSD-3-Clause
# The examples, as a user has them: compiled against the installed library with what pkg-config
# says, then started on two nodes. $PX_PREFIX is where `make install` has put the library.
: "${PX_PREFIX:?names no installed library}"
need_cluster
need_network
export PKG_CONFIG_PATH=$PX_PREFIX/lib/pkgconfig LD_LIBRARY_PATH=$PX_PREFIX/lib

compile() { # SOURCE PROGRAM
  local compiler=gcc
  ! grep -q '<mpi.h>' "$1" || compiler=mpicc
  # shellcheck disable=SC2046
  $compiler "$1" $(pkg-config --cflags --libs pxshmem) -Wall -Wextra -Werror -o "$2" 2>"$err"
}

mkdir -p "$scratch"
out=$scratch/out err=$scratch/err
: >"$out"
for source in "$top_srcdir"/contrib/examples/*.c; do
  example=$(basename "$source" .c)
  check "$example compiles" compile "$source" "$scratch/$example"
  job srun -N2 -n4 -- "$scratch/$example"
  check "$example ends well on two nodes" exited_with 0
  check "$example says what it shows" says .
done
