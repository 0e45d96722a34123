# Kernels: the numeric loops, one file a line; rules.mk says how they are compiled.
#   KERNEL  shared by all sets: the table, its header
#   REF     the portable truth
#   CPU     fast: dispatch, libraries of gemms
#   SIMD    fast: each file is compiled once per instruction set with -DMF_ISA=generic, avx2 or
#           avx512; every external name in it must carry MF_ISA as a suffix
#   PAIRS   fast: what needs avx512_bf16, compiled with -DMF_ISA=avx512 besides
#   AMX     fast: what needs amx_bf16, likewise
KERNEL =
KERNEL += kernels/bf16.h
KERNEL += kernels/f16.h
KERNEL += kernels/kernel.h
KERNEL += kernels/kernels.def
KERNEL += kernels/stored.h
KERNEL += kernels/table.c

REF =
REF += kernels/ref/attention.c
REF += kernels/ref/cross_entropy.c
REF += kernels/ref/dispatch.c
REF += kernels/ref/embedding.c
REF += kernels/ref/gemm.c
REF += kernels/ref/group_sum.c
REF += kernels/ref/grouped_attention.c
REF += kernels/ref/index.c
REF += kernels/ref/linear_cross_entropy.c
REF += kernels/ref/map.c
REF += kernels/ref/norm.c
REF += kernels/ref/optimizer.c
REF += kernels/ref/random.c
REF += kernels/ref/ref.h
REF += kernels/ref/rope.c
REF += kernels/ref/route.c
REF += kernels/ref/rows.c
REF += kernels/ref/shape.c
REF += kernels/ref/stored.c
REF += kernels/ref/stored_packed.c
REF += kernels/ref/swiglu.c
REF += kernels/ref/table.c

CPU =
CPU += kernels/cpu/amx.c
CPU += kernels/cpu/amx.h
CPU += kernels/cpu/blas.c
CPU += kernels/cpu/cache.c
CPU += kernels/cpu/cache.h
CPU += kernels/cpu/capacity.c
CPU += kernels/cpu/cpu.def
CPU += kernels/cpu/cpu.h
CPU += kernels/cpu/gates.c
CPU += kernels/cpu/library.c
CPU += kernels/cpu/library.h
CPU += kernels/cpu/onednn.c
CPU += kernels/cpu/onednn_api.h
CPU += kernels/cpu/table.c

SIMD =
SIMD += kernels/cpu/simd/adafactor.c
SIMD += kernels/cpu/simd/attention.c
SIMD += kernels/cpu/simd/attention_backward.c
SIMD += kernels/cpu/simd/cross_entropy.c
SIMD += kernels/cpu/simd/dispatch.c
SIMD += kernels/cpu/simd/embedding.c
SIMD += kernels/cpu/simd/gemm/tile.c
SIMD += kernels/cpu/simd/group_sum.c
SIMD += kernels/cpu/simd/grouped_attention.c
SIMD += kernels/cpu/simd/linear_cross_entropy.c
SIMD += kernels/cpu/simd/map.c
SIMD += kernels/cpu/simd/map2.c
SIMD += kernels/cpu/simd/gemm/multiply.c
SIMD += kernels/cpu/simd/norm.c
SIMD += kernels/cpu/simd/optimizer.c
SIMD += kernels/cpu/simd/gemm/pack_weights.c
SIMD += kernels/cpu/simd/gemm/gemm.c
SIMD += kernels/cpu/simd/gemm/engine_f32.c
SIMD += kernels/cpu/simd/random.c
SIMD += kernels/cpu/simd/rope.c
SIMD += kernels/cpu/simd/route.c
SIMD += kernels/cpu/simd/shape.c
SIMD += kernels/cpu/simd/gemm/skinny.c
SIMD += kernels/cpu/simd/softmax.c
SIMD += kernels/cpu/simd/stored/dense.c
SIMD += kernels/cpu/simd/stored/packed.c
SIMD += kernels/cpu/simd/stored/stored.c
SIMD += kernels/cpu/simd/sum.c
SIMD += kernels/cpu/simd/swiglu.c
SIMD += kernels/cpu/simd/table.c

SIMD_INC =
SIMD_INC += kernels/cpu/simd/attention.h
SIMD_INC += kernels/cpu/simd/gemm/small.h
SIMD_INC += kernels/cpu/simd/lanes.h
SIMD_INC += kernels/cpu/simd/gemm/amx_cost.h
SIMD_INC += kernels/cpu/simd/gemm/tile.h
SIMD_INC += kernels/cpu/simd/gemm/prefetch.h
SIMD_INC += kernels/cpu/simd/gemm/engine.h
SIMD_INC += kernels/cpu/simd/gemm/packed.h
SIMD_INC += kernels/cpu/simd/gemm/store.h
SIMD_INC += kernels/cpu/simd/gemm/pack.h
SIMD_INC += kernels/cpu/simd/rows.h
SIMD_INC += kernels/cpu/simd/select.h
SIMD_INC += kernels/cpu/simd/simd.def
SIMD_INC += kernels/cpu/simd/simd.h
SIMD_INC += kernels/cpu/simd/gemm/skinny.h
SIMD_INC += kernels/cpu/simd/stored/digits.h
SIMD_INC += kernels/cpu/simd/stored/four_bits.h
SIMD_INC += kernels/cpu/simd/stored/lines.h
SIMD_INC += kernels/cpu/simd/stored/many.h
SIMD_INC += kernels/cpu/simd/stored/many_bytes.h
SIMD_INC += kernels/cpu/simd/stored/many_pairs.h
SIMD_INC += kernels/cpu/simd/stored/mx_dots.h
SIMD_INC += kernels/cpu/simd/stored/packed_dots.h
SIMD_INC += kernels/cpu/simd/stored/packed_few.h
SIMD_INC += kernels/cpu/simd/stored/stored.h
SIMD_INC += kernels/cpu/simd/vec.h
SIMD_INC += kernels/cpu/simd/vecmath.h

PAIRS =
PAIRS += kernels/cpu/simd/gemm/engine_bf16.c
PAIRS += kernels/cpu/simd/stored/gptq_many.c
PAIRS += kernels/cpu/simd/stored/packed_vnni.c

AMX =
AMX += kernels/cpu/simd/gemm/amx.c
AMX += kernels/cpu/simd/gemm/amx_pack.h
AMX += kernels/cpu/simd/gemm/amx_tiles.h
AMX += kernels/cpu/simd/stored/amx.c
AMX += kernels/cpu/simd/stored/planes.h
AMX += kernels/cpu/simd/stored/planes_four.h

# Kernels of CUDA: one family a file; all.cu includes all of them.
CUDA_KERNELS =
CUDA_KERNELS += kernels/cuda/all.cu
CUDA_KERNELS += kernels/cuda/attention/attention.cuh
CUDA_KERNELS += kernels/cuda/attention/attention_bf16.cuh
CUDA_KERNELS += kernels/cuda/attention/attention_bf16_backward.cuh
CUDA_KERNELS += kernels/cuda/base.cuh
CUDA_KERNELS += kernels/cuda/device.cuh
CUDA_KERNELS += kernels/cuda/dispatch.cuh
CUDA_KERNELS += kernels/cuda/gemm.cuh
CUDA_KERNELS += kernels/cuda/gemm_bf16.cuh
CUDA_KERNELS += kernels/cuda/gemm_wgmma.cuh
CUDA_KERNELS += kernels/cuda/attention/grouped_attention.cuh
CUDA_KERNELS += kernels/cuda/index.cuh
CUDA_KERNELS += kernels/cuda/launch.h
CUDA_KERNELS += kernels/cuda/loss.cuh
CUDA_KERNELS += kernels/cuda/map.cuh
CUDA_KERNELS += kernels/cuda/norm.cuh
CUDA_KERNELS += kernels/cuda/optimizer.cuh
CUDA_KERNELS += kernels/cuda/random.cuh
CUDA_KERNELS += kernels/cuda/route.cuh
CUDA_KERNELS += kernels/cuda/rows.cuh
CUDA_KERNELS += kernels/cuda/stored/stored.cuh
CUDA_KERNELS += kernels/cuda/stored/stored_bf16.cuh
CUDA_KERNELS += kernels/cuda/sum.cuh
CUDA_KERNELS += kernels/cuda/swiglu.cuh
CUDA_KERNELS += kernels/cuda/tokens.cuh
EXTRA_DIST += $(CUDA_KERNELS)

# The backend of CUDA on the host (kernels/cuda/rules.mk).
CUDA_HOST =
CUDA_HOST += kernels/cuda/backend.c
CUDA_HOST += kernels/cuda/backend.h
CUDA_HOST += kernels/cuda/code.c
CUDA_HOST += kernels/cuda/lt.c
CUDA_HOST += kernels/cuda/memory.c
CUDA_HOST += kernels/cuda/peak.c
CUDA_HOST += kernels/cuda/queue.c
