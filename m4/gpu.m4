dnl SPDX-License-Identifier: Apache-2.0
dnl The modules that are opened at run time. Nothing here runs a program: the machine that
dnl builds may have no GPU. What "auto" does not find is told in the summary; what was asked
dnl for and is not found is an error.

dnl CADRE_WITH(NAME, WHAT): the switch alone.
AC_DEFUN([CADRE_WITH], [
  AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [build the $1 module (auto)])],
    [], [with_$1=auto])
])

dnl CADRE_FOUND(NAME, CONDITIONAL): after the search, cadre_NAME_why is empty or says what
dnl is missing.
AC_DEFUN([CADRE_FOUND], [
  AS_CASE([$with_$1],
    [no], [cadre_$1_summary=no],
    [AS_IF([test -z "$cadre_$1_why"], [cadre_$1_summary=yes],
      [test "x$with_$1" = xauto], [cadre_$1_summary="no ($cadre_$1_why)"],
      [AC_MSG_ERROR([--with-$1: $cadre_$1_why (see config.log)])])])
  AM_CONDITIONAL([$2], [test "x$cadre_$1_summary" = xyes])
])

dnl CADRE_NVCC_FIND: NVCC and CUDA_HOME. nvcc may be a link or a wrapper, so it is asked
dnl itself for the root of its toolkit.
AC_DEFUN([CADRE_NVCC_FIND], [
  AS_CASE([$with_cuda],
    [yes|auto], [AS_IF([test -z "$NVCC"],
      [AC_PATH_PROG([NVCC], [nvcc], [],
        [$CUDA_HOME/bin:$CUDA_PATH/bin:$PATH:/usr/local/cuda/bin:/opt/cuda/bin])])],
    [AS_IF([test -x "$with_cuda/bin/nvcc"], [NVCC=$with_cuda/bin/nvcc], [NVCC=])])
  AS_IF([test -z "$NVCC"], [cadre_cuda_why="no nvcc found"], [
    AC_MSG_CHECKING([for the toolkit of $NVCC])
    echo >conftest.cu
    CUDA_HOME=`"$NVCC" --dryrun -c conftest.cu -o conftest.o 2>&1 |
      sed -n 's/^#\\$ _*TOP_*=//p' | sed 1q`
    rm -f conftest.cu
    CUDA_HOME=`cd "$CUDA_HOME" 2>/dev/null && pwd -P`
    AC_MSG_RESULT([${CUDA_HOME:-unknown}])
    for d in "$CUDA_HOME/lib64" "$CUDA_HOME/targets/$host_cpu-linux/lib" \
      "$CUDA_HOME/lib" "$CUDA_HOME/lib/$host_cpu-linux-gnu"; do
      AS_IF([test -e "$d/libcudart.so"], [cadre_cuda_libdir=$d; break])
    done
    AS_IF([test -z "$cadre_cuda_libdir"],
      [cadre_cuda_why="no libcudart.so below '$CUDA_HOME'"])
  ])
])

dnl CADRE_LINKS(WHAT, CPPFLAGS, LDFLAGS, LIBS, INCLUDES, BODY, IF-NOT)
AC_DEFUN([CADRE_LINKS], [
  cadre_s_CPPFLAGS=$CPPFLAGS; cadre_s_LDFLAGS=$LDFLAGS; cadre_s_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $2"; LDFLAGS="$LDFLAGS $3"; LIBS="$4 $LIBS"
  AC_MSG_CHECKING([for $1])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([$5], [$6])],
    [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no]); $7])
  CPPFLAGS=$cadre_s_CPPFLAGS; LDFLAGS=$cadre_s_LDFLAGS; LIBS=$cadre_s_LIBS
])

dnl CADRE_CUDA: NVCC NVCCFLAGS NVCC_GENCODE CUDA_HOME CUDA_CPPFLAGS CUDA_LDFLAGS CUDA_LIBS
dnl and HAVE_CUDA.
AC_DEFUN([CADRE_CUDA], [
  AC_ARG_VAR([NVCC], [the CUDA compiler])
  AC_ARG_VAR([NVCCFLAGS], [flags for NVCC, default "-O3 -lineinfo -Xfatbin -compress-all"])
  AC_ARG_VAR([NVCC_GENCODE], [-gencode options for NVCC])
  AC_ARG_ENABLE([cuda-rpath],
    [AS_HELP_STRING([--disable-cuda-rpath],
      [do not record the toolkit's library folder in the modules])],
    [], [enable_cuda_rpath=yes])
  CADRE_WITH([cuda])
  cadre_cuda_why= cadre_cuda_libdir=
  AS_IF([test "x$with_cuda" = xauto && test "x$enable_sanitizer" != xno],
    [cadre_cuda_why="a sanitizer's build; the stand-in is tested"],
    [test "x$with_cuda" != xno], [CADRE_CUDA_SEARCH])
  CADRE_FOUND([cuda], [HAVE_CUDA])
  AC_SUBST([CUDA_HOME])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LDFLAGS])
  AC_SUBST([CUDA_LIBS])
])

AC_DEFUN([CADRE_CUDA_SEARCH], [
  CADRE_NVCC_FIND
  : "${NVCCFLAGS=-O3 -lineinfo -Xfatbin -compress-all}"
  AS_IF([test -z "$NVCC_GENCODE"], [
    NVCC_GENCODE="-gencode arch=compute_80,code=sm_80"
    NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_90,code=sm_90"
    NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_90,code=compute_90"])
  CUDA_CPPFLAGS="-isystem $CUDA_HOME/include"
  CUDA_LDFLAGS="-L$cadre_cuda_libdir"
  CUDA_LIBS="-lcublasLt -lcudart"
  AS_IF([test "x$enable_cuda_rpath" = xyes],
    [CUDA_LDFLAGS="$CUDA_LDFLAGS -Wl,-rpath,$cadre_cuda_libdir"])
  AS_IF([test -z "$cadre_cuda_why"], [
    AC_MSG_CHECKING([whether $NVCC compiles])
    echo '__global__ void k(int *p) { *p = 1; }' >conftest.cu
    AS_IF([$NVCC $NVCC_GENCODE --compiler-options=-fPIC -c conftest.cu \
        -o conftest.$ac_objext >&AS_MESSAGE_LOG_FD 2>&1],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no]); cadre_cuda_why="$NVCC cannot compile"])
    rm -f conftest.cu conftest.$ac_objext])
  AS_IF([test -z "$cadre_cuda_why"], [
    CADRE_LINKS([cudart and cublasLt, 12 or newer], [$CUDA_CPPFLAGS], [$CUDA_LDFLAGS],
      [$CUDA_LIBS], [[#include <cuda_runtime_api.h>
#include <cublasLt.h>
#if CUDART_VERSION < 12000
#error too old
#endif]], [[cublasLtHandle_t h; int n; return cudaGetDeviceCount(&n) + cublasLtCreate(&h);]],
      [cadre_cuda_why="cudart or cublasLt 12 or newer does not link"])])
])

dnl CADRE_NCCL: NCCL_CPPFLAGS NCCL_LDFLAGS NCCL_LIBS and HAVE_NCCL. A module of its own: a
dnl host without libnccl still has the device.
AC_DEFUN([CADRE_NCCL], [
  CADRE_WITH([nccl])
  cadre_nccl_why=
  AS_IF([test "x$with_nccl" != xno], [
    AS_CASE([$with_nccl], [yes|auto], [], [
      NCCL_CPPFLAGS="-isystem $with_nccl/include"
      NCCL_LDFLAGS="-L$with_nccl/lib"
      AS_IF([test "x$enable_cuda_rpath" = xyes],
        [NCCL_LDFLAGS="$NCCL_LDFLAGS -Wl,-rpath,$with_nccl/lib"])])
    NCCL_LIBS="-lnccl -lcudart"
    AS_IF([test "x$cadre_cuda_summary" != xyes],
      [cadre_nccl_why="it needs the cuda module"], [
      CADRE_LINKS([NCCL, 2.18 or newer], [$NCCL_CPPFLAGS $CUDA_CPPFLAGS],
        [$NCCL_LDFLAGS $CUDA_LDFLAGS], [$NCCL_LIBS], [[#include <nccl.h>
#if NCCL_VERSION_CODE < NCCL_VERSION(2,18,0)
#error too old
#endif]], [[int v; return ncclGetVersion(&v);]],
        [cadre_nccl_why="NCCL 2.18 or newer does not link"])])])
  CADRE_FOUND([nccl], [HAVE_NCCL])
  AC_SUBST([NCCL_CPPFLAGS])
  AC_SUBST([NCCL_LDFLAGS])
  AC_SUBST([NCCL_LIBS])
])

dnl CADRE_HOST_CXX: HAVE_HOST_CXX where CXX compiles C++17. Only the kernels' tests on the
dnl host need it, so nothing fails without.
AC_DEFUN([CADRE_HOST_CXX], [
  AC_REQUIRE([AC_PROG_CXX])
  AC_LANG_PUSH([C++])
  cadre_s_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=c++17 $SAN_CFLAGS"
  AC_MSG_CHECKING([whether $CXX compiles C++17])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <functional>
#include <vector>
#include <ucontext.h>
#if !defined(__x86_64__) && !defined(__aarch64__)
#error not tried there
#endif]], [[std::vector<std::function<void()>> v; return (int)v.size();]])],
    [cadre_have_host_cxx=yes], [cadre_have_host_cxx=no])
  CXXFLAGS=$cadre_s_CXXFLAGS
  AC_MSG_RESULT([$cadre_have_host_cxx])
  AC_LANG_POP([C++])
  AM_CONDITIONAL([HAVE_HOST_CXX], [test "x$cadre_have_host_cxx" = xyes])
])

dnl CADRE_GPU_SWITCHES: all of them.
AC_DEFUN([CADRE_GPU_SWITCHES], [
  CADRE_CUDA
  CADRE_NCCL
  CADRE_HOST_CXX
])
