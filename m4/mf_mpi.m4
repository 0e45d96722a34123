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
