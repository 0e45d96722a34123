# MF_TRY_LIB(PREFIX, LABEL, HEADER, FUNCTION, IF-FOUND, IF-NOT): compiles and links a use of
# FUNCTION with PREFIX_CFLAGS and PREFIX_LIBS.
AC_DEFUN([MF_TRY_LIB], [
mf_save_cflags=$CFLAGS mf_save_libs=$LIBS
CFLAGS="$CFLAGS $$1_CFLAGS" LIBS="$$1_LIBS $LIBS"
AC_MSG_CHECKING([for $2 ($3, $4)])
AC_LINK_IFELSE([AC_LANG_PROGRAM([#include <stddef.h>
#include <$3>], [return (void (*)(void))$4 == NULL])],
    [AC_MSG_RESULT([yes])
     CFLAGS=$mf_save_cflags LIBS=$mf_save_libs
     $5],
    [AC_MSG_RESULT([no])
     CFLAGS=$mf_save_cflags LIBS=$mf_save_libs
     $6])
])

# MF_LIB(PREFIX, PKG-CONFIG MODULE, HEADER, LIBRARY, FUNCTION, DEBIAN PACKAGE): a library that
# must be there. pkg-config is asked first, then the compiler's own search paths. Preset
# PREFIX_CFLAGS and PREFIX_LIBS win.
AC_DEFUN([MF_LIB], [
AC_ARG_VAR([$1_CFLAGS], [compiler flags for $2])
AC_ARG_VAR([$1_LIBS], [linker flags for $2])
AS_IF([test "x$$1_LIBS" = x], [
    AS_IF([test "x$PKG_CONFIG" != x && $PKG_CONFIG --exists $2],
        [$1_CFLAGS=`$PKG_CONFIG --cflags $2` $1_LIBS=`$PKG_CONFIG --libs $2`],
        [$1_LIBS=-l$4])])
MF_TRY_LIB([$1], [$2], [$3], [$5], [],
    [AC_MSG_ERROR([$2 is missing (Debian and Ubuntu package: $6). ./quickstart installs what is missing.])])
])

# MF_WITH(NAME, TITLE, HEADER, LIBRARY, FUNCTION, DEBIAN PACKAGE): an optional part behind
# --with-NAME=auto|yes|no|DIR. Sets mf_with_NAME to a line for the summary, NAME_CFLAGS and
# NAME_LIBS, the conditional HAVE_NAME and the same name in config.h.
AC_DEFUN([MF_WITH], [
m4_pushdef([P], m4_toupper([$1]))dnl
AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1=auto|yes|no|DIR], [$2, found by itself or under DIR @<:@auto@:>@])],
    [], [with_$1=auto])
mf_with_$1=no mf_dir=
AS_CASE([$with_$1], [no], [], [auto|yes], [P[]_CFLAGS= P[]_LIBS=-l$4], [
    mf_dir=$with_$1
    AS_IF([test ! -d "$mf_dir"], [AC_MSG_ERROR([--with-$1=$mf_dir: no such folder (expected auto, yes, no or a folder)])])])
AS_IF([test "x$mf_dir" != x], [
    mf_libdir=$mf_dir/lib
    AS_IF([test -d "$mf_dir/lib64"], [mf_libdir=$mf_dir/lib64])
    P[]_CFLAGS="-I$mf_dir/include" P[]_LIBS="-L$mf_libdir -l$4"])
AS_IF([test "$with_$1" != no], [
    MF_TRY_LIB(P, [$2], [$3], [$5], [mf_with_$1="yes${mf_dir:+, $mf_dir}"], [
        AS_IF([test "$with_$1" != auto],
            [AC_MSG_ERROR([--with-$1=$with_$1: $2 was not found (Debian package: $6)])])])])
AC_SUBST(P[_CFLAGS]) AC_SUBST(P[_LIBS])
AM_CONDITIONAL([HAVE_]P, [test "x$mf_with_$1" != xno])
AS_IF([test "x$mf_with_$1" != xno], [AC_DEFINE([HAVE_]P, [1], [$2 was found])])
m4_popdef([P])dnl
])

# MF_CUDA: --with-cuda=auto|yes|no|DIR, the CUDA backend (kernels/cuda/rules.mk). yes takes nvcc
# from PATH, DIR is a toolkit; auto builds no backend, since nvcc takes minutes for it. Sets NVCC,
# CUDA_CFLAGS, CUDA_LIBS and the conditional HAVE_CUDA.
AC_DEFUN([MF_CUDA], [
AC_ARG_VAR([NVCC], [the compiler of the CUDA Toolkit])
AC_ARG_VAR([CUDA_ARCHITECTURES], [options of nvcc that name architectures])
AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR], [the CUDA backend, built with nvcc from PATH or DIR/bin; auto: not built @<:@auto@:>@])],
    [], [with_cuda=auto])
mf_with_cuda=no
AS_CASE([$with_cuda], [no], [],
    [auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [])],
    [AS_IF([test ! -d "$with_cuda"], [AC_MSG_ERROR([--with-cuda=$with_cuda: no such folder (expected auto, yes, no or a folder)])])
     AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
AS_CASE([$with_cuda], [no], [],
    [auto], [AS_IF([test "x$NVCC" != x], [mf_with_cuda="no ($NVCC is there: --with-cuda=yes builds the backend)"])], [
    AS_IF([test "x$NVCC" = x],
        [AC_MSG_ERROR([--with-cuda=$with_cuda: nvcc was not found (CUDA Toolkit 13 or later, NVIDIA's package cuda-toolkit)])])
    mf_cuda_dir=`AS_DIRNAME(["$NVCC"])`; mf_cuda_dir=`cd "$mf_cuda_dir/.." && pwd`
    CUDA_CFLAGS="-isystem $mf_cuda_dir/include"
    CUDA_LIBS="-L$mf_cuda_dir/lib64 -lcublasLt"
    mf_save_cppflags=$CPPFLAGS; CPPFLAGS="$CPPFLAGS $CUDA_CFLAGS"
    AC_MSG_CHECKING([which version of CUDA it is])
    AC_COMPUTE_INT([mf_cuda], [CUDART_VERSION], [#include <cuda_runtime_api.h>
#include <cublasLt.h>], [mf_cuda=0])
    CPPFLAGS=$mf_save_cppflags
    AC_MSG_RESULT([$mf_cuda])
    AS_IF([test "$mf_cuda" -lt 13000],
        [AC_MSG_ERROR([--with-cuda=$with_cuda: expected version 13 or later with the headers of cuBLAS (found $mf_cuda)])])
    AS_IF([test "x$CUDA_ARCHITECTURES" = x], [CUDA_ARCHITECTURES="-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_100,code=sm_100 -gencode arch=compute_120,code=[[sm_120,compute_120]]"])
    mf_with_cuda="yes, $NVCC"])
AC_SUBST([CUDA_CFLAGS]) AC_SUBST([CUDA_LIBS])
AM_CONDITIONAL([HAVE_CUDA], [test "x${mf_with_cuda%%,*}" = xyes])
])

])

# MF_BLAS_FLAVOUR: how OpenBLAS would run threads of its own. Any works: it is told to use none.
# It is opened at run time (kernels/cpu/blas.c): BLAS_FILE is the name
# under which a program that is linked with it would look for it.
AC_DEFUN([MF_BLAS_FLAVOUR], [
AC_CACHE_CHECK([the file name of OpenBLAS], [mf_cv_blas_file], [
    mf_cv_blas_file=libopenblas.so.0
    mf_save_libs=$LIBS LIBS="$BLAS_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([int openblas_get_parallel(void);], [return openblas_get_parallel()])], [
        mf_file=`LC_ALL=C readelf -d conftest$EXEEXT 2>/dev/null | grep NEEDED | grep -o 'lib@<:@^@:>@@<:@ @:>@*blas@<:@^@:>@@:>@*' | sed 1q`
        AS_IF([test "x$mf_file" != x], [mf_cv_blas_file=$mf_file])])
    LIBS=$mf_save_libs])
AC_SUBST([BLAS_FILE], [$mf_cv_blas_file])
AC_CACHE_CHECK([how OpenBLAS is threaded], [mf_cv_blas], [
    mf_save_cflags=$CFLAGS mf_save_libs=$LIBS
    CFLAGS="$CFLAGS $BLAS_CFLAGS" LIBS="$BLAS_LIBS $LIBS"
    AC_RUN_IFELSE([AC_LANG_PROGRAM([int openblas_get_parallel(void);], [return 10 + openblas_get_parallel()])], [],
        [AS_CASE([$?], [10], [mf_cv_blas=serial], [11], [mf_cv_blas=pthread], [12], [mf_cv_blas=openmp], [mf_cv_blas=unknown])],
        [mf_cv_blas=unknown])
    CFLAGS=$mf_save_cflags LIBS=$mf_save_libs])
])

# MF_SUMMARY: what was decided, at the end of configure.
AC_DEFUN([MF_SUMMARY], [
mf_expand() { mf_x=[$]1; for mf_i in 1 2 3 4; do eval "mf_x=\"$mf_x\""; done; AS_ECHO(["$mf_x"]); }
AS_IF([test "x$prefix" = xNONE], [prefix=$ac_default_prefix])
AS_IF([test "x$exec_prefix" = xNONE], [exec_prefix=$prefix])
mf_tests="check $have_check, bats $BATS"
AS_IF([test "$have_check" = no], [mf_tests="$mf_tests (without check, make check skips the unit tests; package: check)"])
mf_plugins=`sed -n 's/^PLUGINS += plugins.//p' "$srcdir/plugins/local.mk" | wc -l | tr -d ' '`
cat <<EOT

$PACKAGE_STRING
    compiler      $CC ($host_cpu)
    build type    $enable_build_type, $CFLAGS
    coverage      $enable_coverage         fuzz targets  $enable_fuzz
    BLAS          $BLAS_FILE ($mf_cv_blas), opened when gemms need it
    CPU kernels   $mf_isas
    CUDA          $mf_with_cuda
    libedit       $mf_with_edit (lines of generate -i)
    libcurl       $mf_with_curl (log.mlflow)
    MPI          $mf_with_mpi
    NCCL          $mf_with_nccl
    tests         $mf_tests
    plugins       $mf_plugins, installed in `mf_expand "$plugindir"`
    program       `mf_expand "$bindir"`
    headers       `mf_expand "$includedir/moefw"`
    presets       `mf_expand "$datadir/moefw"`
    settings      `mf_expand "$pkgsysconfdir"`

Next: make -j`nproc 2>/dev/null || echo 2`, make check, make install

EOT
])
