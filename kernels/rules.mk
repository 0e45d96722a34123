# How kernels are compiled; local.mk lists them. They see libc and their own folder only, which is
# why their include path holds nothing else.
KERNEL_CPPFLAGS = -D_GNU_SOURCE= -I$(top_srcdir)
KERNEL_CFLAGS = $(MF_CFLAGS) $(MF_PIC_CFLAGS)

noinst_LIBRARIES += kernels/libkernel.a kernels/libref.a kernels/libcpu.a kernels/libsimd-generic.a
# Each archive needs those behind it; the reference is all sets' last resort.
KERNEL_LIBS = kernels/libkernel.a kernels/libcpu.a kernels/libsimd-generic.a
KERNEL_ISAS =

kernels_libkernel_a_SOURCES = $(KERNEL)
kernels_libkernel_a_CPPFLAGS = $(KERNEL_CPPFLAGS)
kernels_libkernel_a_CFLAGS = $(KERNEL_CFLAGS)

# -ffp-contract=off is in MF_CFLAGS already; it stands here because the reference needs it.
kernels_libref_a_SOURCES = $(REF)
kernels_libref_a_CPPFLAGS = $(KERNEL_CPPFLAGS)
kernels_libref_a_CFLAGS = $(KERNEL_CFLAGS) -ffp-contract=off

kernels_libcpu_a_SOURCES = $(CPU)
kernels_libcpu_a_CPPFLAGS = $(KERNEL_CPPFLAGS) $(KERNEL_ISAS) $(KERNEL_BF16) $(BLAS_CFLAGS) \
	-DMF_OPENBLAS_FILE='"$(BLAS_FILE)"'
kernels_libcpu_a_CFLAGS = $(KERNEL_CFLAGS)

# None of these flags changes a result: errno and floating-point traps are not looked at.
SIMD_CFLAGS = $(KERNEL_CFLAGS) -ftree-vectorize -fno-math-errno -fno-trapping-math
# No fuzz target runs these loops, which take clang many minutes with all checks.
if FUZZ
SIMD_CFLAGS += -fno-sanitize=all
endif

kernels_libsimd_generic_a_SOURCES = $(SIMD) $(SIMD_INC)
kernels_libsimd_generic_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=generic
kernels_libsimd_generic_a_CFLAGS = $(SIMD_CFLAGS)

if ISA_AVX2
noinst_LIBRARIES += kernels/libsimd-avx2.a
KERNEL_LIBS += kernels/libsimd-avx2.a
KERNEL_ISAS += -DMF_HAVE_AVX2=1
kernels_libsimd_avx2_a_SOURCES = $(SIMD) kernels/cpu/simd/stored/gptq_many.c
kernels_libsimd_avx2_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=avx2
kernels_libsimd_avx2_a_CFLAGS = $(SIMD_CFLAGS) $(MF_ISA_AVX2_CFLAGS)
endif

if ISA_AVX512
noinst_LIBRARIES += kernels/libsimd-avx512.a
KERNEL_LIBS += kernels/libsimd-avx512.a
KERNEL_ISAS += -DMF_HAVE_AVX512=1
kernels_libsimd_avx512_a_SOURCES = $(SIMD)
kernels_libsimd_avx512_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=avx512 $(KERNEL_BF16)
kernels_libsimd_avx512_a_CFLAGS = $(SIMD_CFLAGS) $(MF_ISA_AVX512_CFLAGS)
endif

# What only some processors with AVX-512 have; asked for at run time.
KERNEL_BF16 =
if ISA_AVX512BF16
noinst_LIBRARIES += kernels/libsimd-avx512bf16.a
KERNEL_LIBS += kernels/libsimd-avx512bf16.a
KERNEL_BF16 += -DMF_HAVE_AVX512BF16=1
kernels_libsimd_avx512bf16_a_SOURCES = $(PAIRS)
kernels_libsimd_avx512bf16_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=avx512
kernels_libsimd_avx512bf16_a_CFLAGS = $(SIMD_CFLAGS) $(MF_ISA_AVX512BF16_CFLAGS)
else
EXTRA_DIST += $(PAIRS)
endif
if ISA_AMX
noinst_LIBRARIES += kernels/libsimd-avx512amx.a
KERNEL_LIBS += kernels/libsimd-avx512amx.a
KERNEL_BF16 += -DMF_HAVE_AMX=1
kernels_libsimd_avx512amx_a_SOURCES = $(AMX)
kernels_libsimd_avx512amx_a_CPPFLAGS = $(KERNEL_CPPFLAGS) -DMF_ISA=avx512
kernels_libsimd_avx512amx_a_CFLAGS = $(SIMD_CFLAGS) $(MF_ISA_AMX_CFLAGS)
else
EXTRA_DIST += $(AMX)
endif

KERNEL_LIBS += kernels/libref.a
