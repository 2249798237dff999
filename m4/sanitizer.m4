dnl SPDX-License-Identifier: Apache-2.0
dnl CADRE_SANITIZER: --enable-sanitizer=address,undefined | thread sets SAN_CFLAGS.
AC_DEFUN([CADRE_SANITIZER], [
  AC_ARG_ENABLE([sanitizer],
    [AS_HELP_STRING([--enable-sanitizer=LIST], [build with -fsanitize=LIST])],
    [], [enable_sanitizer=no])
  SAN_CFLAGS=
  AS_IF([test "x$enable_sanitizer" != xno],
    [SAN_CFLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"])
  AC_SUBST([SAN_CFLAGS])
  AM_CONDITIONAL([SANITIZER], [test "x$enable_sanitizer" != xno])
])
