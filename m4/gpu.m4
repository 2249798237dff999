dnl SPDX-License-Identifier: Apache-2.0
dnl CADRE_GPU_SWITCHES: the switches of modules that are opened at run time. The modules
dnl themselves do not exist yet: "yes" is refused, "auto" says so in the summary.
AC_DEFUN([CADRE_MODULE_SWITCH], [
  AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [build the $1 module (auto)])],
    [], [with_$1=auto])
  AS_CASE([$with_$1],
    [no], [cadre_$1_summary="no"],
    [auto], [cadre_$1_summary="no (the $1 module is not built yet)"],
    [AC_MSG_ERROR([--with-$1: the $1 module is not built yet; use --without-$1])])
])
AC_DEFUN([CADRE_GPU_SWITCHES], [
  CADRE_MODULE_SWITCH([cuda])
  CADRE_MODULE_SWITCH([nccl])
  CADRE_MODULE_SWITCH([mpi])
])
