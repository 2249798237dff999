dnl SPDX-License-Identifier: Apache-2.0
dnl CADRE_MANUAL: HAVE_MANUAL and CROSS_COMPILING. Manual pages and completion come from
dnl tables that the program prints; what was built for another kind of machine prints nothing
dnl here, and another one must be named.
AC_DEFUN([CADRE_MANUAL], [
  AC_ARG_VAR([CADRE_FOR_BUILD],
    [a cadre of this version that runs here, for the manual when cross-compiling])
  AM_CONDITIONAL([CROSS_COMPILING], [test "x$cross_compiling" = xyes])
  AS_IF([test "x$cross_compiling" != xyes], [cadre_manual_summary=yes],
    [test -z "$CADRE_FOR_BUILD"],
    [cadre_manual_summary="no (cross-compiling, and no CADRE_FOR_BUILD)"],
    [test "x`"$CADRE_FOR_BUILD" --version`" = "x$PACKAGE_STRING"],
    [cadre_manual_summary="yes (by $CADRE_FOR_BUILD)"],
    [AC_MSG_ERROR([CADRE_FOR_BUILD=$CADRE_FOR_BUILD is not $PACKAGE_STRING])])
  AM_CONDITIONAL([HAVE_MANUAL], [test "x$cross_compiling" != xyes || test -n "$CADRE_FOR_BUILD"])
])
