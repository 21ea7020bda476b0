# PX_LIBRARY(NAME, PKG-CONFIG MODULE [VERSION], REQUIRED: yes|no, DEBIAN PACKAGE, RHEL PACKAGE)
#
# One rule for every library: --with-NAME[=DIR] given and missing is an error that names the package; not given is
# looked for and the outcome said; --without-NAME is not looked for. Sets NAME_CFLAGS, NAME_LIBS, px_have_NAME,
# px_version_NAME, and defines PX_HAVE_NAME to 0 or 1.
AC_DEFUN([PX_LIBRARY], [
  AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [use $1, from DIR if given (Debian: $4, RHEL: $5)])],
    [], [with_$1=auto])
  px_have_$1=no
  px_version_$1=
  AS_IF([test "x$with_$1" != xno], [
    px_save_pkg_config_path=$PKG_CONFIG_PATH
    AS_CASE([$with_$1], [auto|yes], [], [
      PKG_CONFIG_PATH="$with_$1/lib/pkgconfig:$with_$1/lib64/pkgconfig:$PKG_CONFIG_PATH"
      export PKG_CONFIG_PATH])
    PKG_CHECK_MODULES(m4_toupper([$1]), [$2], [
      px_have_$1=yes
      px_version_$1=`$PKG_CONFIG --modversion m4_car(m4_unquote(m4_split([$2])))`], [
      AS_IF([test "x$with_$1" != xauto || test "$3" = yes], [
        AC_MSG_ERROR([$2 was not found. Install it (Debian, Ubuntu: apt-get install $4; RHEL: dnf install $5), or name its folder: --with-$1=DIR])])])
    PKG_CONFIG_PATH=$px_save_pkg_config_path
  ], [AS_IF([test "$3" = yes], [AC_MSG_ERROR([$1 is required (Debian, Ubuntu: $4; RHEL: $5): --without-$1 is not possible])])])
  AM_CONDITIONAL([HAVE_]m4_toupper([$1]), [test $px_have_$1 = yes])
  AS_IF([test $px_have_$1 = yes], [px_value=1], [px_value=0])
  AC_DEFINE_UNQUOTED([PX_HAVE_]m4_toupper([$1]), [$px_value], [1 when built with $1, else 0])
])
