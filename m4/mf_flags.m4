# MF_BUILD_TYPE: reads --enable-build-type, --enable-coverage, --enable-fuzz and --enable-werror and sets the
# default CFLAGS before AC_PROG_CC puts its own there. CFLAGS given by the user win.
AC_DEFUN([MF_BUILD_TYPE], [
AC_ARG_ENABLE([build-type],
    [AS_HELP_STRING([--enable-build-type=TYPE], [debug, release, asan (with ubsan), ubsan or tsan @<:@release@:>@])],
    [], [enable_build_type=release])
AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage], [count executed lines (gcov)])], [], [enable_coverage=no])
AC_ARG_ENABLE([fuzz],
    [AS_HELP_STRING([--enable-fuzz], [build the fuzz targets under tests/fuzz (needs CC=clang)])],
    [], [enable_fuzz=no])
AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [warnings of the compiler are errors (for developers)])],
    [], [enable_werror=no])
# A fuzz target runs for hours, so it is optimized although it has sanitizers.
AS_CASE([$enable_build_type:$enable_fuzz],
    [*:yes], [mf_cflags='-O2 -g -fno-omit-frame-pointer'],
    [release:*], [mf_cflags='-O2 -g'],
    [debug:*], [mf_cflags='-Og -g3'],
    [asan:*|ubsan:*|tsan:*], [mf_cflags='-O1 -g -fno-omit-frame-pointer'],
    [AC_MSG_ERROR([--enable-build-type=$enable_build_type: expected debug, release, asan, ubsan or tsan])])
: ${CFLAGS="$mf_cflags"}
AS_CASE([" $CFLAGS "], [*" -Ofast "*|*-ffast-math*|*-funsafe-math*|*-ffinite-math*],
    [AC_MSG_ERROR([CFLAGS holds a fast-math flag ($CFLAGS): results would no longer be reproducible])])
AM_CONDITIONAL([FUZZ], [test "$enable_fuzz" = yes])
])

# MF_ADD_FLAG(VARIABLE, FLAG): appends FLAG to VARIABLE when the compiler and linker take it.
AC_DEFUN([MF_ADD_FLAG], [
AS_VAR_PUSHDEF([cache], [mf_cv_flag_$2])
AC_CACHE_CHECK([whether $CC takes $2], [cache], [
    mf_save=$CFLAGS
    CFLAGS="$CFLAGS -Werror $2"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AS_VAR_SET([cache], [yes])], [AS_VAR_SET([cache], [no])])
    CFLAGS=$mf_save])
AS_VAR_IF([cache], [yes], [$1="$$1 $2"])
AS_VAR_POPDEF([cache])
])

# MF_COMPILER_FLAGS: C17, warnings, hardening, sanitizers. Results:
#   MF_CFLAGS      for every C file, plugins included
#   MF_PIC_CFLAGS  for what goes into the library: only what its headers export is visible
#   MF_LDFLAGS     links a program; MF_SO_LDFLAGS links the library or a plugin
AC_DEFUN([MF_COMPILER_FLAGS], [
MF_CFLAGS= MF_PIC_CFLAGS= MF_LDFLAGS= MF_SO_LDFLAGS= mf_sanitize=
MF_ADD_FLAG([MF_CFLAGS], [-std=c17])
AS_VAR_IF([MF_CFLAGS], [], [AC_MSG_ERROR([$CC has no -std=c17: a C17 compiler is needed (gcc 8, clang 6 or later)])])
# Contraction (a*b+c in one rounding) differs between compilers and machines: off, so that
# results do not depend on them. Fast kernels ask for fused multiply-adds by name.
MF_ADD_FLAG([MF_CFLAGS], [-ffp-contract=off])
m4_foreach_w([flag], [-Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes
    -Wmissing-prototypes -Wvla], [MF_ADD_FLAG([MF_CFLAGS], flag)])
MF_ADD_FLAG([MF_CFLAGS], [-fstack-protector-strong])
MF_ADD_FLAG([MF_PIC_CFLAGS], [-fPIC])
MF_ADD_FLAG([MF_PIC_CFLAGS], [-fvisibility=hidden])
AS_CASE([$enable_build_type],
    [asan], [mf_sanitize='-fsanitize=address,undefined -fno-sanitize-recover=all'],
    [ubsan], [mf_sanitize='-fsanitize=undefined -fno-sanitize-recover=all'],
    [tsan], [mf_sanitize='-fsanitize=thread'])
AS_CASE([$enable_build_type:$enable_fuzz], [release:no], [
    MF_ADD_FLAG([MF_CFLAGS], [-fstack-clash-protection])
    MF_ADD_FLAG([MF_CFLAGS], [-fcf-protection])
    AS_CASE([" $CFLAGS "], [*" -O0 "*], [], [MF_CFLAGS="$MF_CFLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"])])
AS_VAR_IF([enable_coverage], [yes], [mf_sanitize="$mf_sanitize --coverage -DMF_COVERAGE"])
AS_VAR_IF([enable_fuzz], [yes], [
    AS_CASE([$mf_sanitize], [''],
        [mf_sanitize='-fsanitize=address,undefined -fno-sanitize-recover=all'])
    # Edges are counted. Comparisons are not traced, which would take a half of the time: words of
    # the formats, which tests/fuzz/driver/mutator.c inserts, do the same work.
    mf_sanitize="$mf_sanitize -fsanitize-coverage=inline-8bit-counters,pc-table"
    # The archive rather than -fsanitize=fuzzer: its main function then goes only where there is none.
    FUZZ_LIBS="`$CC -print-file-name=libclang_rt.fuzzer-$host_cpu.a` -lstdc++ -lpthread"
    AS_CASE([$FUZZ_LIBS], [/*], [], [AC_MSG_ERROR([--enable-fuzz: $CC has no libFuzzer (needs CC=clang; Debian package: libclang-rt-dev)])])])
AC_SUBST([FUZZ_LIBS])
AS_VAR_IF([mf_sanitize], [], [], [
    mf_save=$CFLAGS; CFLAGS="$CFLAGS $mf_sanitize"
    AC_MSG_CHECKING([whether $CC links with$mf_sanitize])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])
        AC_MSG_ERROR([$CC cannot link with$mf_sanitize (--enable-fuzz needs CC=clang)])])
    CFLAGS=$mf_save
    MF_CFLAGS="$MF_CFLAGS $mf_sanitize"])
AS_VAR_IF([enable_werror], [yes], [MF_CFLAGS="$MF_CFLAGS -Werror"])
MF_ADD_FLAG([MF_LDFLAGS], [-pie])
MF_ADD_FLAG([MF_LDFLAGS], [-Wl,-z,relro])
MF_ADD_FLAG([MF_LDFLAGS], [-Wl,-z,now])
MF_ADD_FLAG([MF_LDFLAGS], [-Wl,--as-needed])
MF_SO_LDFLAGS='-Wl,-z,relro -Wl,-z,now'
# A plugin may have no undefined symbol. clang leaves the sanitizer's runtime to the program,
# so that there the linker cannot tell.
AS_VAR_IF([mf_sanitize], [], [MF_SO_LDFLAGS="$MF_SO_LDFLAGS -Wl,-z,defs"])
AC_SUBST([MF_CFLAGS]) AC_SUBST([MF_PIC_CFLAGS]) AC_SUBST([MF_LDFLAGS]) AC_SUBST([MF_SO_LDFLAGS])
])

# MF_ISAS: which instruction sets the fast CPU kernels are compiled for besides the baseline.
# The choice among them is made at run time. Fuzz targets compute next to nothing.
AC_DEFUN([MF_ISAS], [
mf_isas=generic
AS_CASE([$host_cpu:$enable_fuzz], [x86_64:no|amd64:no], [
    MF_ISA([avx2], [-mavx2 -mfma -mf16c], [_mm256_fmadd_ps(_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_cvtph_ps(_mm_setzero_si128()))])
    MF_ISA([avx512], [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512], [_mm512_setzero_ps()])
    MF_ISA([avx512bf16], [$MF_ISA_AVX512_CFLAGS -mavx512bf16 -mavx512vnni], [_mm512_dpbf16_ps(_mm512_setzero_ps(), _mm512_cvtne2ps_pbh(_mm512_setzero_ps(), _mm512_setzero_ps()), _mm512_cvtne2ps_pbh(_mm512_setzero_ps(), _mm512_setzero_ps()))])
    AS_VAR_IF([mf_cv_isa_avx512bf16], [yes],
        [MF_ISA([amx], [$MF_ISA_AVX512BF16_CFLAGS -mamx-tile -mamx-bf16], [_tile_loadconfig((void *)0)])])])
AM_CONDITIONAL([ISA_AVX2], [test "x$mf_cv_isa_avx2" = xyes])
AM_CONDITIONAL([ISA_AVX512], [test "x$mf_cv_isa_avx512" = xyes])
AM_CONDITIONAL([ISA_AMX], [test "x$mf_cv_isa_amx" = xyes])
AM_CONDITIONAL([ISA_AVX512BF16], [test "x$mf_cv_isa_avx512bf16" = xyes])
])

# MF_ISA(NAME, FLAGS, EXPRESSION that uses it)
AC_DEFUN([MF_ISA], [
AC_CACHE_CHECK([whether $CC compiles for $1], [mf_cv_isa_$1], [
    mf_save=$CFLAGS; CFLAGS="$CFLAGS $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([#include <immintrin.h>], [(void)$3])], [mf_cv_isa_$1=yes], [mf_cv_isa_$1=no])
    CFLAGS=$mf_save])
AS_VAR_IF([mf_cv_isa_$1], [yes], [mf_isas="$mf_isas $1"
    AC_SUBST(m4_toupper([MF_ISA_$1_CFLAGS]), ["$2"])])
])
