dnl SPDX-License-Identifier: Apache-2.0
dnl CADRE_HARDENING: HARDEN_CFLAGS and HARDEN_LDFLAGS, what the compiler and the linker offer
dnl against damaged memory; after CADRE_SANITIZER, whose builds check it themselves.
dnl --disable-hardening leaves them empty.

dnl CADRE_HARDEN(FLAG, VARIABLE): append FLAG to VARIABLE if a program can be built with it.
AC_DEFUN([CADRE_HARDEN], [
  cadre_h_CFLAGS=$CFLAGS; cadre_h_LDFLAGS=$LDFLAGS
  AC_MSG_CHECKING([whether $CC accepts $1])
  CFLAGS="$CFLAGS -Werror"; $2="$$2 $1"
  CFLAGS="$CFLAGS $HARDEN_CFLAGS"; LDFLAGS="$LDFLAGS $HARDEN_LDFLAGS"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]], [[char a[8]; memset(a, 0, sizeof a); return a[0];]])],
    [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no]); $2=${$2% $1}])
  CFLAGS=$cadre_h_CFLAGS; LDFLAGS=$cadre_h_LDFLAGS
])

AC_DEFUN([CADRE_HARDENING], [
  AC_ARG_ENABLE([hardening],
    [AS_HELP_STRING([--disable-hardening],
      [build without stack protector, _FORTIFY_SOURCE, RELRO and BIND_NOW])],
    [], [enable_hardening=yes])
  HARDEN_CFLAGS= HARDEN_LDFLAGS=
  AS_IF([test "x$enable_hardening" = xyes && test "x$enable_sanitizer" = xno], [
    CADRE_HARDEN([-fstack-protector-strong], [HARDEN_CFLAGS])
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#ifdef _FORTIFY_SOURCE
      #error somebody has set it
      #endif]])],
      [CADRE_HARDEN([-D_FORTIFY_SOURCE=2], [HARDEN_CFLAGS])])
    CADRE_HARDEN([-Wl,-z,relro,-z,now], [HARDEN_LDFLAGS])
    CADRE_HARDEN([-Wl,-z,noexecstack], [HARDEN_LDFLAGS])
  ])
  AC_SUBST([HARDEN_CFLAGS])
  AC_SUBST([HARDEN_LDFLAGS])
])
