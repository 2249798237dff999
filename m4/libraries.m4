dnl SPDX-License-Identifier: Apache-2.0
dnl CADRE_LIBRARIES: what Cadre needs, each refused with the Debian package that holds it.
AC_DEFUN([CADRE_NEED_PKG], [
  PKG_CHECK_MODULES([$1], [$2], [],
    [AC_MSG_ERROR([$2 is missing: apt-get install $3])])
])
AC_DEFUN([CADRE_LIBRARIES], [
  PKG_PROG_PKG_CONFIG
  AC_CHECK_HEADER([iniparser/iniparser.h], [],
    [AC_MSG_ERROR([iniparser is missing: apt-get install libiniparser-dev])])
  AC_SUBST([INIPARSER_LIBS], [-liniparser])
  AC_CHECK_HEADER([oneapi/dnnl/dnnl.h], [],
    [AC_MSG_ERROR([oneDNN is missing: apt-get install libdnnl-dev])])
  AC_SUBST([DNNL_LIBS], [-ldnnl])
  CADRE_NEED_PKG([OPENBLAS], [openblas], [libopenblas-dev])
  CADRE_NEED_PKG([JANSSON], [jansson], [libjansson-dev])
  CADRE_NEED_PKG([PCRE2], [libpcre2-8], [libpcre2-dev])
  CADRE_NEED_PKG([ZLIB], [zlib], [zlib1g-dev])
  CADRE_NEED_PKG([PNG], [libpng], [libpng-dev])
  CADRE_NEED_PKG([JPEG], [libjpeg], [libjpeg62-turbo-dev])
  PKG_CHECK_MODULES([CHECK], [check], [cadre_have_check=yes],
    [cadre_have_check="no (apt-get install check)"])
  AM_CONDITIONAL([HAVE_CHECK], [test "x$cadre_have_check" = xyes])
  AC_SEARCH_LIBS([dlopen], [dl], [], [AC_MSG_ERROR([dlopen is required])])
  AC_SEARCH_LIBS([omp_set_num_threads], [gomp], [],
    [AC_MSG_ERROR([libgomp is missing: apt-get install gcc])])
  dnl LIBS stands on every link line, the plugins' too, and those need libc alone.
  AC_SUBST([SYSTEM_LIBS], [$LIBS])
  LIBS=
])
