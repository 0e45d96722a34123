/* all.cu: all kernels of CUDA, and the table of what launches them. nvcc compiles it for
 * devices, an ordinary C++ compiler for the emulator of tests/cuda. */
#include "dispatch.cuh"
#include "index.cuh"
#include "loss.cuh"
#include "map.cuh"
#include "norm.cuh"
#include "optimizer.cuh"
#include "random.cuh"
#include "route.cuh"
#include "rows.cuh"
#include "kernels/cuda/stored/stored_bf16.cuh"
#include "sum.cuh"
#include "swiglu.cuh"
#include "token.cuh"
#include "tokens.cuh"

#include "kernels/cuda/attention/attention_bf16_backward.cuh"
#include "kernels/cuda/attention/grouped_attention.cuh"
#include "kernels/cuda/gemm/gemm_wgmma.cuh"

int mf_cuda_processors = 132;
int mf_cuda_capability = 80;

/* No other layout of weights is better. */
static bool mf_cuda_can_pack(int, int64_t, int64_t)
{
    return false;
}
#define mf_cuda_pack_weights NULL

const mf_kernels mf_kernels_cuda = {
    .name = "cuda",
    .can_pack = mf_cuda_can_pack,
    .can_swiglu = mf_cuda_can_swiglu,
    .most_logits = MF_GPU_LOGITS,
    .fuses = true,
#define MF_KERNEL(fn, ...) .fn = mf_cuda_##fn,
#include "kernels/kernels.def"
    .sumsq_tiles = NULL,
};
