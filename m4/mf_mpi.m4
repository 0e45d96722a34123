# MF_MPI_ONE(PREFIX, TITLE, WRAPPERS, SHOW): looks for a compiler wrapper of one MPI, of which
# SHOW prints the flags, and compiles and links with them. Only folders and libraries are taken
# of the flags. Sets PREFIX_CFLAGS, PREFIX_LIBS, mf_mpi_PREFIX and the conditional HAVE_PREFIX.
AC_DEFUN([MF_MPI_ONE], [
mf_mpi_$1=no
AS_VAR_IF([with_mpi], [no], [], [
    AC_PATH_PROGS([$1_WRAPPER], [$3])
    AS_IF([test "x$$1_WRAPPER" != x && mf_show=`$$1_WRAPPER $4 2>/dev/null`], [
        $1_CFLAGS= $1_LIBS=
        for mf_word in $mf_show; do
            AS_CASE([$mf_word], [-I*|-D*], [$1_CFLAGS="$$1_CFLAGS $mf_word"],
                [-L*|-l*|-Wl,-rpath*], [$1_LIBS="$$1_LIBS $mf_word"])
        done
        MF_TRY_LIB([$1], [$2], [mpi.h], [MPI_Init_thread], [mf_mpi_$1=yes], [])])])
AC_SUBST([$1_CFLAGS]) AC_SUBST([$1_LIBS])
AM_CONDITIONAL([HAVE_$1], [test "$mf_mpi_$1" = yes])
])

# MF_MPI: the communicator modules, behind --with-mpi=auto|yes|no. One is built for each MPI whose
# wrapper is found; nothing else of the program needs them.
AC_DEFUN([MF_MPI], [
AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi=auto|yes|no],
    [communicators for Open MPI and MPICH, where their compiler wrappers are @<:@auto@:>@])], [],
    [with_mpi=auto])
AS_CASE([$with_mpi], [auto|yes|no], [],
    [AC_MSG_ERROR([--with-mpi=$with_mpi: expected auto, yes or no; the wrappers are looked for on PATH])])
MF_MPI_ONE([OPENMPI], [Open MPI], [mpicc.openmpi mpicc], [--showme])
MF_MPI_ONE([MPICH], [MPICH], [mpicc.mpich mpicc], [-compile_info -link_info])
mf_with_mpi=
AS_VAR_IF([mf_mpi_OPENMPI], [yes], [mf_with_mpi=" Open MPI"])
AS_VAR_IF([mf_mpi_MPICH], [yes], [mf_with_mpi="$mf_with_mpi${mf_with_mpi:+,} MPICH"])
AS_IF([test "$with_mpi:$mf_with_mpi" = yes:],
    [AC_MSG_ERROR([--with-mpi=yes: neither Open MPI nor MPICH was found (Debian packages: libopenmpi-dev, libmpich-dev)])])
AS_IF([test "x$mf_with_mpi" = x], [mf_with_mpi=" no"])
])

# MF_NCCL: the communicator module of NCCL, --with-nccl=auto|yes|no|DIR. DIR has include/nccl.h and
# the library; auto and yes look where nvcc is, in /usr/local/cuda and in the compiler's own folders.
# CUDA's headers and runtime library are needed, too. Sets NCCL_CFLAGS, NCCL_LIBS and the
# conditional HAVE_NCCL.
AC_DEFUN([MF_NCCL], [
AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl=auto|yes|no|DIR],
    [a communicator for NCCL, where its header and library are @<:@auto@:>@])], [], [with_nccl=auto])
mf_with_nccl=no NCCL_CFLAGS= NCCL_LIBS=
AS_CASE([$with_nccl], [auto|yes|no], [],
    [AS_IF([test ! -e "$with_nccl/include/nccl.h"], [AC_MSG_ERROR([--with-nccl=$with_nccl: no include/nccl.h there (expected auto, yes, no or a folder)])])])
AS_VAR_IF([with_nccl], [no], [], [
    mf_cuda_home=/usr/local/cuda
    AS_IF([test "x$NVCC" != x], [mf_nvcc=`AS_DIRNAME(["$NVCC"])`; mf_cuda_home=`cd "$mf_nvcc/.." && pwd`])
    AS_IF([test -d "$mf_cuda_home/include"], [
        NCCL_CFLAGS="-isystem $mf_cuda_home/include"
        for mf_dir in lib64 lib; do
            AS_IF([test -d "$mf_cuda_home/$mf_dir"], [NCCL_LIBS="$NCCL_LIBS -L$mf_cuda_home/$mf_dir"])
        done])
    AS_IF([test -d "$with_nccl"], [
        NCCL_CFLAGS="-isystem $with_nccl/include $NCCL_CFLAGS"
        NCCL_LIBS="-L$with_nccl/lib $NCCL_LIBS"])
    NCCL_LIBS="$NCCL_LIBS -lnccl -lcudart"
    AC_MSG_CHECKING([for NCCL 2.18 or later])
    mf_save_cppflags=$CPPFLAGS mf_save_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $NCCL_CFLAGS" LIBS="$NCCL_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([#include <nccl.h>
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error older
#endif], [ncclConfig_t c = NCCL_CONFIG_INITIALIZER; int n; (void)c;
        return ncclGroupStart() + ncclCommFinalize(0) + cudaGetDeviceCount(&n)])],
        [mf_with_nccl=yes])
    CPPFLAGS=$mf_save_cppflags LIBS=$mf_save_libs
    AC_MSG_RESULT([$mf_with_nccl])
    AS_IF([test "$mf_with_nccl:$with_nccl" != no:auto && test "$mf_with_nccl" = no],
        [AC_MSG_ERROR([--with-nccl=$with_nccl: nccl.h and libnccl of version 2.18 or later with CUDA's headers and runtime were not found (NVIDIA's packages libnccl-dev, cuda-cudart-dev)])])])
AC_SUBST([NCCL_CFLAGS]) AC_SUBST([NCCL_LIBS])
AM_CONDITIONAL([HAVE_NCCL], [test "$mf_with_nccl" = yes])
])
