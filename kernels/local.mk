# Kernels: the numeric loops. They see libc and their own folder only, which is why their
# include path holds nothing else.
#   KERNEL  shared by all sets: the table, its header
#   REF     the portable truth
#   CPU     fast: dispatch, BLAS
#   SIMD    fast: each file is compiled once per instruction set with -DMF_ISA=generic, avx2 or
#           avx512; every external name in it must carry MF_ISA as a suffix
KERNEL =
KERNEL += kernels/kernel.h
KERNEL += kernels/kernels.def
KERNEL += kernels/table.c

REF =
REF += kernels/ref/attention.c
REF += kernels/ref/cross_entropy.c
REF += kernels/ref/dispatch.c
REF += kernels/ref/embedding.c
REF += kernels/ref/grouped.c
REF += kernels/ref/index.c
REF += kernels/ref/map.c
REF += kernels/ref/matmul.c
REF += kernels/ref/norm.c
REF += kernels/ref/optimizer.c
REF += kernels/ref/random.c
REF += kernels/ref/ref.h
REF += kernels/ref/rope.c
REF += kernels/ref/route.c
REF += kernels/ref/rows.c
REF += kernels/ref/shape.c
REF += kernels/ref/swiglu.c
REF += kernels/ref/table.c

CPU =
CPU += kernels/cpu/blas.c
CPU += kernels/cpu/blas.h
CPU += kernels/cpu/cpu.def
CPU += kernels/cpu/cpu.h
CPU += kernels/cpu/table.c

SIMD =
SIMD += kernels/cpu/simd/attention.c
SIMD += kernels/cpu/simd/cross_entropy.c
SIMD += kernels/cpu/simd/embedding.c
SIMD += kernels/cpu/simd/gemm.c
SIMD += kernels/cpu/simd/grouped.c
SIMD += kernels/cpu/simd/matmul.c
SIMD += kernels/cpu/simd/norm.c
SIMD += kernels/cpu/simd/optimizer.c
SIMD += kernels/cpu/simd/rope.c
SIMD += kernels/cpu/simd/swiglu.c
SIMD += kernels/cpu/simd/table.c

SIMD_INC =
SIMD_INC += kernels/cpu/simd/grid.h
SIMD_INC += kernels/cpu/simd/rows.h
SIMD_INC += kernels/cpu/simd/simd.def
SIMD_INC += kernels/cpu/simd/simd.h
SIMD_INC += kernels/cpu/simd/vec.h

KERNEL_CPPFLAGS = -D_GNU_SOURCE= -I$(top_srcdir)
KERNEL_CFLAGS = $(MF_CFLAGS) $(MF_PIE_CFLAGS)

noinst_LIBRARIES += kernels/libkernel.a kernels/libref.a kernels/libcpu.a kernels/libsimd-generic.a
KERNEL_LIBS = kernels/libkernel.a kernels/libref.a kernels/libcpu.a kernels/libsimd-generic.a
KERNEL_ISAS =

kernels_libkernel_a_SOURCES = $(KERNEL)
kernels_libkernel_a_CPPFLAGS = $(KERNEL_CPPFLAGS)
kernels_libkernel_a_CFLAGS = $(KERNEL_CFLAGS)

# -ffp-contract=off is in MF_CFLAGS already; it stands here because the reference needs it.
kernels_libref_a_SOURCES = $(REF)
kernels_libref_a_CPPFLAGS = $(KERNEL_CPPFLAGS)
kernels_libref_a_CFLAGS = $(KERNEL_CFLAGS) -ffp-contract=off

kernels_libcpu_a_SOURCES = $(CPU)
kernels_libcpu_a_CPPFLAGS = $(KERNEL_CPPFLAGS) $(KERNEL_ISAS) $(BLAS_CFLAGS)
kernels_libcpu_a_CFLAGS = $(KERNEL_CFLAGS)

# None of these flags changes a result: errno and floating-point traps are not looked at.
SIMD_CFLAGS = $(KERNEL_CFLAGS) -ftree-vectorize -fno-math-errno -fno-trapping-math

kernels_libsimd_generic_a_SOURCES = $(SIMD) $(SIMD_INC)
kernels_libsimd_generic_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=generic
kernels_libsimd_generic_a_CFLAGS = $(SIMD_CFLAGS)

if ISA_AVX2
noinst_LIBRARIES += kernels/libsimd-avx2.a
KERNEL_LIBS += kernels/libsimd-avx2.a
KERNEL_ISAS += -DMF_HAVE_AVX2=1
kernels_libsimd_avx2_a_SOURCES = $(SIMD)
kernels_libsimd_avx2_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=avx2
kernels_libsimd_avx2_a_CFLAGS = $(SIMD_CFLAGS) $(MF_ISA_AVX2_CFLAGS)
endif

if ISA_AVX512
noinst_LIBRARIES += kernels/libsimd-avx512.a
KERNEL_LIBS += kernels/libsimd-avx512.a
KERNEL_ISAS += -DMF_HAVE_AVX512=1
kernels_libsimd_avx512_a_SOURCES = $(SIMD)
kernels_libsimd_avx512_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=avx512
kernels_libsimd_avx512_a_CFLAGS = $(SIMD_CFLAGS) $(MF_ISA_AVX512_CFLAGS)
endif
