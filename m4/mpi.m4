dnl SPDX-License-Identifier: Apache-2.0
dnl CADRE_MPI: MPI_CPPFLAGS MPI_LDFLAGS MPI_LIBS, MPIRUN and HAVE_MPI. The compiler is our own,
dnl only its flags are MPI's: those that `mpicc -showme` (Open MPI) or `-compile_info` (MPICH
dnl and what comes of it) tells. Without a wrapper, pkg-config is asked.

dnl CADRE_MPI_ASK: flags of the wrapper in $MPICC, in cadre_mpi_compile and cadre_mpi_link.
AC_DEFUN([CADRE_MPI_ASK], [
  AC_MSG_CHECKING([for the flags of $MPICC])
  cadre_mpi_compile=`"$MPICC" -showme:compile 2>/dev/null` &&
    cadre_mpi_link=`"$MPICC" -showme:link 2>/dev/null` || {
    # both begin with the compiler's name, which may be several words
    cadre_mpi_compile=`"$MPICC" -compile_info 2>/dev/null | sed 1q`
    cadre_mpi_link=`"$MPICC" -link_info 2>/dev/null | sed 1q`
  }
  AS_IF([test -z "$cadre_mpi_link"],
    [AC_MSG_RESULT([none]); cadre_mpi_why="$MPICC does not tell its flags"],
    [AC_MSG_RESULT([$cadre_mpi_link])])
])

dnl Only what names headers and libraries: the wrapper's own optimisation is not wanted. -I
dnl becomes -isystem, as for all libraries.
AC_DEFUN([CADRE_MPI_SORT], [
  for cadre_mpi_word in $cadre_mpi_compile; do
    AS_CASE([$cadre_mpi_word],
      [-I*], [MPI_CPPFLAGS="$MPI_CPPFLAGS -isystem `echo "$cadre_mpi_word" | sed 's/^-I//'`"],
      [-D*], [MPI_CPPFLAGS="$MPI_CPPFLAGS $cadre_mpi_word"])
  done
  for cadre_mpi_word in $cadre_mpi_link; do
    AS_CASE([$cadre_mpi_word],
      [-L*|-Wl,-rpath*], [MPI_LDFLAGS="$MPI_LDFLAGS $cadre_mpi_word"],
      [-l*], [MPI_LIBS="$MPI_LIBS $cadre_mpi_word"])
  done
])

AC_DEFUN([CADRE_MPI], [
  AC_ARG_VAR([MPICC], [MPI's compiler wrapper, asked for its flags alone])
  AC_ARG_WITH([mpi],
    [AS_HELP_STRING([--with-mpi@<:@=MPICC@:>@],
      [build the mpi module, by the flags of that compiler wrapper (auto)])],
    [], [with_mpi=auto])
  cadre_mpi_why= cadre_mpi_compile= cadre_mpi_link=
  AS_IF([test "x$with_mpi" != xno], [
    AS_CASE([$with_mpi], [yes|auto],
      [AS_IF([test -z "$MPICC"], [AC_PATH_PROGS([MPICC], [mpicc.openmpi mpicc])])],
      [MPICC=$with_mpi])
    AS_IF([test -n "$MPICC"], [CADRE_MPI_ASK],
      [PKG_CHECK_EXISTS([ompi-c], [
        cadre_mpi_compile=`$PKG_CONFIG --cflags ompi-c`
        cadre_mpi_link=`$PKG_CONFIG --libs ompi-c`],
        [cadre_mpi_why="no mpicc found"])])
    AS_IF([test -z "$cadre_mpi_why"], [
      CADRE_MPI_SORT
      CADRE_LINKS([MPI, 3.1 or newer], [$MPI_CPPFLAGS], [$MPI_LDFLAGS], [$MPI_LIBS],
        [[#include <mpi.h>
#if MPI_VERSION * 10 + MPI_SUBVERSION < 31
#error too old
#endif]], [[int v; return MPI_Initialized(&v);]],
        [cadre_mpi_why="MPI 3.1 or newer does not link"])])])
  CADRE_FOUND([mpi], [HAVE_MPI])
  AC_SUBST([MPI_CPPFLAGS])
  AC_SUBST([MPI_LDFLAGS])
  AC_SUBST([MPI_LIBS])
])
