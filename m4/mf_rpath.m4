# MF_RPATH: where the installed program looks for libmoefw.so.0. Result: MF_INSTALLED_RPATH, a
# linker flag for a makefile: nothing where the dynamic linker looks anyway, else the library's folder,
# relative to the program's where both are below one prefix, so that a staged tree runs too.
AC_DEFUN([MF_RPATH], [
mf_save_prefix=$prefix mf_save_exec_prefix=$exec_prefix
AS_IF([test "x$prefix" = xNONE], [prefix=$ac_default_prefix])
AS_IF([test "x$exec_prefix" = xNONE], [exec_prefix=$prefix])
eval "mf_rpath_bin=$bindir"; eval "mf_rpath_bin=$mf_rpath_bin"
eval "mf_rpath_lib=$libdir"; eval "mf_rpath_lib=$mf_rpath_lib"
mf_rpath_multiarch=`$CC -print-multiarch 2>/dev/null`
mf_rpath_below=
AS_IF([test "x$mf_rpath_bin" = "x$exec_prefix/bin"],
    [mf_rpath_below=`expr "x$mf_rpath_lib" : "x$exec_prefix/\(.*\)"`])
AS_CASE([$mf_rpath_lib],
    [/lib|/usr/lib|/lib64|/usr/lib64|"/usr/lib/$mf_rpath_multiarch"|"/lib/$mf_rpath_multiarch"],
        [MF_INSTALLED_RPATH=],
    [AS_IF([test -n "$mf_rpath_below"], [MF_INSTALLED_RPATH="-Wl,-rpath,'\$\$ORIGIN/../$mf_rpath_below'"],
        [MF_INSTALLED_RPATH="-Wl,-rpath,'$mf_rpath_lib'"])])
prefix=$mf_save_prefix exec_prefix=$mf_save_exec_prefix
AC_SUBST([MF_INSTALLED_RPATH])
])
