# PX_SANITIZE: --enable-sanitize[=address,undefined|thread] adds the flags everywhere.
AC_DEFUN([PX_SANITIZE], [
  AC_ARG_ENABLE([sanitize], [AS_HELP_STRING([--enable-sanitize@<:@=LIST@:>@], [build with sanitizers (default LIST: address,undefined)])], [], [enable_sanitize=no])
  AS_CASE([$enable_sanitize], [no], [px_sanitize_summary=no], [
    AS_IF([test "x$enable_sanitize" = xyes], [enable_sanitize=address,undefined])
    px_sanitize_summary=$enable_sanitize
    CFLAGS="$CFLAGS -fsanitize=$enable_sanitize -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
    CXXFLAGS="$CXXFLAGS -fsanitize=$enable_sanitize -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
    LDFLAGS="$LDFLAGS -fsanitize=$enable_sanitize"])
  AM_CONDITIONAL([SANITIZE], [test "x$enable_sanitize" != xno])
])
