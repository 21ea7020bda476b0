# PX_CUDA: look for nvcc and cuda.h. Without nvcc everything but device code builds; the CUDA driver itself is opened
# at run time and needs only cuda.h's types. Sets NVCC, CUDA_CFLAGS, px_have_cuda (headers), px_have_nvcc.
AC_DEFUN([PX_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@], [CUDA toolkit, for device code and GPU memory (default: the nvcc on the PATH)])], [], [with_cuda=auto])
  AC_ARG_WITH([cuda-arch], [AS_HELP_STRING([--with-cuda-arch=LIST], [compute capabilities for device code, as 80,90 (default: all major ones)])], [], [with_cuda_arch=all-major])
  px_have_cuda=no
  px_have_nvcc=no
  px_cuda_summary=no
  AS_IF([test "x$with_cuda" != xno], [
    AS_CASE([$with_cuda], [auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
      [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
    AS_IF([test -n "$NVCC"], [
      px_cuda_root=`"$NVCC" --dryrun -x cu /dev/null 2>&1 | $SED -n 's/^#\$ TOP=//p'`
      AS_IF([test -n "$px_cuda_root" && test -f "$px_cuda_root/include/cuda.h"], [
        CUDA_CFLAGS="-isystem $px_cuda_root/include"
        px_have_cuda=yes
        px_have_nvcc=yes
        px_cuda_version=`"$NVCC" --version | $SED -n 's/.*release \([[0-9.]]*\).*/\1/p'`
        px_cuda_summary="$px_cuda_version ($NVCC, architectures $with_cuda_arch)"])])
    AS_IF([test $px_have_cuda = no && test "x$with_cuda" != xauto],
      [AC_MSG_ERROR([nvcc was not found. Install the CUDA toolkit (package cuda-toolkit), or name its folder: --with-cuda=DIR])])])
  AC_SUBST([NVCC])
  AC_SUBST([CUDA_CFLAGS])
  AS_CASE([$with_cuda_arch], [all|all-major|native], [px_nvcc_arch="-arch=$with_cuda_arch"], [
    px_nvcc_arch=
    for px_arch in `echo "$with_cuda_arch" | tr ',;' '  '`; do
      px_nvcc_arch="$px_nvcc_arch -gencode arch=compute_$px_arch,code=sm_$px_arch"
    done
    px_nvcc_arch="$px_nvcc_arch -gencode arch=compute_$px_arch,code=compute_$px_arch"])
  AC_SUBST([PX_NVCC_ARCH], [$px_nvcc_arch])
  AC_SUBST([PX_CUDA_ARCH], [$with_cuda_arch])
  AM_CONDITIONAL([HAVE_NVCC], [test $px_have_nvcc = yes])
  AS_IF([test $px_have_cuda = yes], [px_value=1], [px_value=0])
  AC_DEFINE_UNQUOTED([PX_HAVE_CUDA], [$px_value], [1 when built with the CUDA headers, else 0])
])
