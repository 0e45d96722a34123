/* grouped_attention.cuh: attention of assignments over the keys of their expert: the tiles of
 * attention.cuh for each pair of an expert and a sequence, whose assignments follow each
 * other. */
#pragma once
#include "attention.cuh"
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/norm.cuh"

/* The parts of the work memory: reach of each assignment; where each pair begins. */
typedef struct mf_pairs {
    int64_t count; /* of pairs: experts sequences, or with `own` experts */
    int32_t *reach, *start;
} mf_pairs;

/* One block: records the first token that is out of range or out of order. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_check_order(mf_fault *fault, int node, mf_grouped_attention_args p)
{
    const int64_t begin = p.offset[0], end = p.offset[p.experts];
    int64_t first = end;
    for (int64_t r = begin + threadIdx.x; r < end && first == end; r += MF_THREADS) {
        const int32_t token = p.token[r];
        const int64_t from = p.offset[mf_group_of(p.offset, p.experts, r)];
        if (token < 0 || token >= p.batch * p.s || (r > from && token < p.token[r - 1]))
            first = r;
    }
    first = mf_row<MF_THREADS, mf_least>(first);
    if (threadIdx.x > 0 || first == end) return;
    const int64_t e = mf_group_of(p.offset, p.experts, first);
    mf_record(fault, node, MF_FAULT_ORDER, 0, first - p.offset[e], p.token[first], e,
              p.batch * p.s);
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_pairs(const mf_fault *fault, mf_grouped_attention_args p, mf_pairs pairs)
{
    if (mf_failed(fault)) return;
    for (int64_t i = mf_thread(); i <= pairs.count; i += mf_threads()) {
        if (p.own || i == pairs.count) {
            pairs.start[i] = p.offset[p.own ? i : p.experts];
            continue;
        }
        const int64_t e = i / p.batch, b = i % p.batch;
        int64_t low = p.offset[e], high = p.offset[e + 1]; /* the first with token / s >= b */
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (p.token[middle] / p.s < b)
                low = middle + 1;
            else
                high = middle;
        }
        pairs.start[i] = (int32_t)low;
    }
    for (int64_t r = p.offset[0] + mf_thread(); !p.own && r < p.offset[p.experts];
         r += mf_threads())
        pairs.reach[r] = (int32_t)(p.token[r] % p.s);
}

/* Plain attention for the assignments of one pair. */
MF_INLINE mf_attention_args mf_pair_of(const mf_grouped_attention_args &p,
                                       const mf_pairs &pairs, int64_t pair)
{
    const int64_t e = p.own ? pair : pair / p.batch, b = p.own ? 0 : pair % p.batch;
    const int64_t from = pairs.start[pair], count = pairs.start[pair + 1] - from;
    const int64_t width = p.heads * p.head_dim, ld = 2 * width * (p.own ? 1 : p.experts);
    const int64_t key = p.own ? from * ld : b * p.s * ld + e * 2 * width;
    mf_attention_args a = {};
    a.batch = 1, a.t = count, a.s = p.own ? count : p.s;
    a.heads = a.kv_heads = p.heads, a.head_dim = p.head_dim;
    a.ldq = width, a.ldk = a.ldv = ld, a.scale = p.scale;
    a.q = p.q + from * width, a.k = p.kv + key, a.v = a.k + width;
    a.mask = p.mask ? p.mask + b * p.s : NULL;
    a.reach = !p.own && p.causal ? pairs.reach + from : NULL;
    a.y = p.y + from * width, a.lse = p.lse + from * p.heads;
    a.dy = p.dy ? p.dy + from * width : NULL;
    a.dq = p.dq ? p.dq + from * width : NULL;
    a.dk = p.dkv ? p.dkv + key : NULL, a.dv = p.dkv ? p.dkv + key + width : NULL;
    return a;
}

/* Blocks of one pair have its tiles in turn. WHAT: 0 forward, 1 dq, 2 dk and dv. */
template <int HD, int B, int WHAT>
__global__ void __launch_bounds__(MF_THREADS, 1)
    mf_cu_grouped_attention(const mf_fault *fault, mf_grouped_attention_args p, mf_pairs pairs)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    for (int64_t pair = blockIdx.z; pair < pairs.count; pair += gridDim.z) {
        const mf_attention_args a = mf_pair_of(p, pairs, pair);
        for (int64_t at = (int64_t)blockIdx.x * B; at < (WHAT == 2 ? a.s : a.t);
             at += (int64_t)gridDim.x * B) {
            if (WHAT == 0)
                mf_attend<HD, B>(a, 0, blockIdx.y, at,
                                 *(mf_forward_tiles<HD, B> *)(void *)shared);
            else if (WHAT == 1)
                mf_attend_dq<HD, B>(a, 0, blockIdx.y, at,
                                    *(mf_backward_tiles<HD, B> *)(void *)shared);
            else
                mf_attend_dkv<HD, B>(a, 0, blockIdx.y, at,
                                     *(mf_backward_tiles<HD, B> *)(void *)shared);
        }
    }
}

/* Rows from the end of the last expert on become 0. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_clear_after(const mf_fault *fault, const int32_t *end, int64_t rows, int64_t n,
                      float *a)
{
    if (mf_failed(fault)) return;
    for (int64_t at = *end * n + mf_thread(); at < rows * n; at += mf_threads())
        a[at] = 0;
}

/* ---- launches ---- */

static void mf_clear_after(const mf_kctx *x, const mf_grouped_attention_args *p, int64_t n,
                           float *a)
{
    if (a && p->rows * n > 0)
        MF_LAUNCH(mf_cu_clear_after, dim3(2u * (unsigned)mf_cuda_processors), dim3(MF_THREADS),
                  0, x, x->fault, p->offset + p->experts, p->rows, n, a);
}

static mf_pairs mf_prepare_pairs(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    mf_pairs pairs = {p->experts * (p->own ? 1 : p->batch), (int32_t *)p->work, NULL};
    pairs.start = pairs.reach + p->rows;
    if (!p->own) MF_LAUNCH(mf_cu_check_order, MF_ONE_BLOCK, x, x->fault, x->node, *p);
    MF_LAUNCH(mf_cu_pairs, MF_EACH_OF(p->rows > pairs.count ? p->rows : pairs.count + 1), x,
              x->fault, *p, pairs);
    return pairs;
}

template <int WHAT>
static void mf_launch_pairs(const mf_kctx *x, const mf_grouped_attention_args *p,
                            const mf_pairs &pairs)
{
    const int64_t rows = WHAT == 2 && !p->own ? p->s : p->rows;
    if (rows <= 0 || p->heads <= 0 || pairs.count <= 0) return;
    mf_by_head(p->head_dim, [&](auto tiles) {
        constexpr int HD = decltype(tiles)::HD, B = decltype(tiles)::B;
        /* With many pairs few tiles are needed at once: a block has the others in turn. */
        const int64_t all = (rows + B - 1) / B,
                      most = 1 + 2 * (int64_t)mf_cuda_processors / pairs.count;
        const dim3 grid((unsigned)(all < most ? all : most), (unsigned)p->heads,
                        mf_most_z(pairs.count));
        MF_LAUNCH((mf_cu_grouped_attention<HD, B, WHAT>), grid, dim3(MF_THREADS),
                  WHAT == 0 ? sizeof(mf_forward_tiles<HD, B>)
                            : sizeof(mf_backward_tiles<HD, B>),
                  x, x->fault, *p, pairs);
    });
}

extern "C" void mf_cuda_grouped_attention(const mf_kctx *x, const mf_grouped_attention_args *p)
{
    const mf_pairs pairs = mf_prepare_pairs(x, p);
    mf_launch_pairs<0>(x, p, pairs);
    mf_clear_after(x, p, p->heads * p->head_dim, p->y);
    mf_clear_after(x, p, p->heads, p->lse);
}

extern "C" void mf_cuda_grouped_attention_backward(const mf_kctx *x,
                                                   const mf_grouped_attention_args *p)
{
    const mf_pairs pairs = mf_prepare_pairs(x, p);
    if (p->dq) mf_launch_pairs<1>(x, p, pairs);
    if (p->dkv) mf_launch_pairs<2>(x, p, pairs);
    mf_clear_after(x, p, p->heads * p->head_dim, p->dq);
    if (p->own) mf_clear_after(x, p, 2 * p->heads * p->head_dim, p->dkv);
}
