/* all.cu: all kernels of CUDA, and the table of what launches them. nvcc compiles it for
 * devices, an ordinary C++ compiler for the emulator of tests/cuda. */
#include "map.cuh"
#include "optimizer.cuh"
#include "sum.cuh"

int mf_cuda_processors = 132, mf_cuda_arch = 80;

/* Weights as files have them stay on the host. */
/* Not written yet: their ops run on the host. */
#define mf_cuda_gemm                       NULL
#define mf_cuda_row_map                    NULL
#define mf_cuda_row_map_grad               NULL
#define mf_cuda_check_index                NULL
#define mf_cuda_check_offset               NULL
#define mf_cuda_gather_rows                NULL
#define mf_cuda_index_lists                NULL
#define mf_cuda_sum_rows                   NULL
#define mf_cuda_take                       NULL
#define mf_cuda_put                        NULL
#define mf_cuda_topk                       NULL
#define mf_cuda_one_hot                    NULL
#define mf_cuda_bincount                   NULL
#define mf_cuda_random                     NULL
#define mf_cuda_dropout                    NULL
#define mf_cuda_mask_rows                  NULL
#define mf_cuda_route_gates                NULL
#define mf_cuda_route_gates_grad           NULL
#define mf_cuda_routing_stats              NULL
#define mf_cuda_joint_count                NULL
#define mf_cuda_capacity_of                NULL
#define mf_cuda_capacity                   NULL
#define mf_cuda_reassign                   NULL
#define mf_cuda_group_rows                 NULL
#define mf_cuda_combine_grad               NULL
#define mf_cuda_norm                       NULL
#define mf_cuda_norm_backward              NULL
#define mf_cuda_rope                       NULL
#define mf_cuda_attention                  NULL
#define mf_cuda_attention_backward         NULL
#define mf_cuda_grouped_attention          NULL
#define mf_cuda_grouped_attention_backward NULL
#define mf_cuda_cache_append               NULL
#define mf_cuda_embedding                  NULL
#define mf_cuda_embedding_grad             NULL
#define mf_cuda_cross_entropy              NULL
#define mf_cuda_cross_entropy_backward     NULL
#define mf_cuda_linear_cross_entropy       NULL
#define mf_cuda_swiglu                     NULL
#define mf_cuda_swiglu_backward            NULL
/* No layout of weights is better than theirs. */
#define mf_cuda_pack_weights NULL
#define mf_cuda_stored_gemm  NULL
#define mf_cuda_stored_rows  NULL

void (*mf_cuda_multiply)(const mf_kctx *x, const mf_gemm *g) = mf_cuda_gemm;

const mf_kernels mf_kernels_cuda = {
    .name = "cuda",
    .can_pack = NULL,
#define MF_KERNEL(fn, args) .fn = mf_cuda_##fn,
#include "kernels/kernels.def"
#undef MF_KERNEL
};
