/* gemm_wgmma.cuh: the gemms of gemm_bf16.cuh by instructions of warpgroups (wgmma, compute
 * capability 9.0 alone, code for sm_90a): tiles of 128 rows and 128 or 256 columns for blocks
 * of two warpgroups, 64 rows each. Both operands are read from shared memory, so a tile of 256
 * columns needs it 640 clocks for 1024 clocks of arithmetic.
 *
 * Shared memory holds steps of 64 inner indices (gemm_feed.cuh), of which cp.async brings all
 * but two ahead: one step is multiplied, and the one before it may still be read by another
 * warpgroup. What is wider than 64 elements has several panels. The first steps of a tile are
 * brought while the sums of the one before are written.
 *
 * With the epilogue SWIGLU a tile has 128 columns of y, and the two times 128 of c from which
 * they come, so that a thread has both factors of an element. */
#pragma once
#include "gemm_bf16.cuh"
#include "gemm_f32.cuh"
#include "kernels/cuda/swiglu.cuh"

constexpr int MF_THREADS_WGMMA = 256, MF_HIGH_WGMMA = 128, MF_SHARED_WGMMA = 192 << 10;
constexpr int MF_ROW_BYTES = 128, MF_EIGHT_ROWS = 8 * MF_ROW_BYTES;

/* How a thread can write elements of c next to each other. */
enum { MF_STORE_ONE, MF_STORE_TWO, MF_STORE_FOUR };

#ifdef MF_HAS_WGMMA
/* A descriptor of the 64 rows, or all columns, that begin at `at`; and bytes between 16 inner
 * indices and the next. */
template <bool ALONG> MF_INLINE uint64_t mf_wgmma_panel(const unsigned char *at)
{
    return mf_wgmma_operand(at, ALONG ? 16 : MF_PANEL_BYTES, MF_EIGHT_ROWS);
}
template <bool ALONG> MF_INLINE constexpr unsigned mf_wgmma_next()
{
    return ALONG ? 32 : 16 * MF_ROW_BYTES;
}

/* alpha sum + bias for columns j and j + 1, which c has both or not, as a pair of bf16. */
MF_INLINE uint32_t mf_gemm_pair(const mf_gemm &g, const mf_gemm_part &p, int64_t j,
                                const float sum[2])
{
    float v[2] = {g.alpha * sum[0], g.alpha * sum[1]};
    if (j >= g.n) return 0;
    if (g.bias) {
        const float *bias = g.bias + p.group * g.step_bias + j;
        v[0] += bias[0], v[1] += bias[1];
    }
    return mf_pair(v[0], v[1]);
}

/* Writes pairs of bf16, of two times eight columns of a row: those of lanes with an even number
 * in the first eight and those of others in the second, of two lanes each, so that four lanes
 * write 32 bytes. All lanes call it; `in`: this lane has a row. Then c must not be read (beta),
 * since a lane would write what another one may still read. */
MF_INLINE void mf_put_fours(mf_bf16 *row, int64_t j, int64_t n, bool in, uint32_t first,
                            uint32_t second)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const bool odd = lane % 2;
    const uint32_t other = __shfl_xor_sync(MF_ALL_LANES, odd ? first : second, 1);
    const uint64_t low = odd ? other : first, high = odd ? second : other;
    const int64_t to = j + odd * 8 + lane % 4 / 2 * 4;
    if (in && to < n) *(uint64_t *)(row + to) = low | high << 32;
}

/* The row of c, or of y, that a thread has for h = 0 and 1; false: it has none. */
MF_INLINE bool mf_wgmma_row(const mf_gemm_part &p, int h, int64_t *i)
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    *i = p.i0 + warp * 16 + h * 8 + lane / 4;
    return *i < p.i1;
}

/* Writes a thread's sums: of two rows, and of two columns of each eight. */
template <int WIDE>
MF_INLINE void mf_wgmma_store(const mf_gemm &g, const mf_gemm_part &p, int how,
                              const float (&sum)[WIDE / 2])
{
    const int64_t first = p.j0 + (int)threadIdx.x % 4 * 2;
    MF_UNROLL
    for (int h = 0; h < 2; h++) {
        int64_t i;
        const bool in = mf_wgmma_row(p, h, &i);
        if (how == MF_STORE_FOUR) {
            mf_bf16 *row = (mf_bf16 *)g.c.data + i * g.c.ld;
            if (g.by != MF_BY_ROWS) row += p.group * g.c.step;
            MF_UNROLL
            for (int q = 0; q < WIDE / 16; q++) {
                const int64_t j = first + q * 16;
                mf_put_fours(row, p.j0 + q * 16, g.n, in,
                             mf_gemm_pair(g, p, j, sum + q * 8 + h * 2),
                             mf_gemm_pair(g, p, j + 8, sum + q * 8 + 4 + h * 2));
            }
        } else if (in) {
            MF_UNROLL
            for (int q = 0; q < WIDE / 8; q++) {
                const int64_t j = first + q * 8;
                mf_gemm_store2(g, p, i, j, how == MF_STORE_TWO && j + 1 < g.n,
                               sum + q * 4 + h * 2);
            }
        }
    }
}

/* Of pairs u of the first half of c and v of the second, in bf16. */
MF_INLINE uint32_t mf_swiglu_pair(uint32_t u, uint32_t v, float share)
{
    return mf_pair(mf_swiglu_of(mf_bf16_to_f32((mf_bf16)u), mf_bf16_to_f32((mf_bf16)v), share),
                   mf_swiglu_of(mf_bf16_to_f32((mf_bf16)(u >> 16)),
                                mf_bf16_to_f32((mf_bf16)(v >> 16)), share));
}

/* Writes y, and c if it is kept, from the sums of a tile of HALVES. */
MF_INLINE void mf_wgmma_swiglu(const mf_gemm &g, const mf_gemm_part &p, const float (&sum)[128])
{
    const int64_t n = g.n / 2;
    MF_UNROLL
    for (int h = 0; h < 2; h++) {
        int64_t i;
        const bool in = mf_wgmma_row(p, h, &i);
        const float share = in && g.gate ? g.gate[i] : 1;
        mf_bf16 *c = (mf_bf16 *)g.c.data + i * g.c.ld, *y = (mf_bf16 *)g.y.data + i * g.y.ld;
        MF_UNROLL
        for (int q = 0; q < 8; q++) {
            uint32_t u[2], v[2];
            MF_UNROLL
            for (int r = 0; r < 2; r++) {
                const int64_t j = p.j0 + q * 16 + r * 8 + (int)threadIdx.x % 4 * 2;
                const int at = q * 8 + r * 4 + h * 2;
                u[r] = mf_gemm_pair(g, p, j, sum + at); /* from column n on it is not stored */
                v[r] = mf_gemm_pair(g, p, n + j, sum + 64 + at);
            }
            const int64_t j = p.j0 + q * 16;
            if (g.keep) mf_put_fours(c, j, n, in, u[0], u[1]);
            if (g.keep) mf_put_fours(c + n, j, n, in, v[0], v[1]);
            mf_put_fours(y, j, n, in, mf_swiglu_pair(u[0], v[0], share),
                         mf_swiglu_pair(u[1], v[1], share));
        }
    }
}
#endif

/* A_ALONG, B_ALONG: the inner index runs along stored rows. LISTED: an operand of which it does
 * not may have a list of rows. WIDE: columns of a tile. SWIGLU: the epilogue; then WIDE is 256.
 * how: of c, what can be moved at once. */
template <bool A_ALONG, bool B_ALONG, bool LISTED, int WIDE, bool SWIGLU = false>
__global__ void __launch_bounds__(MF_THREADS_WGMMA, 1)
    mf_cu_gemm_wgmma(const mf_fault *fault, mf_gemm g, int how)
{
#ifdef MF_HAS_WGMMA
    enum { PANEL_A = MF_HIGH_WGMMA * MF_ROW_BYTES, STAGE = PANEL_A + WIDE * MF_ROW_BYTES };
    enum { STAGES = MF_SHARED_WGMMA / STAGE, AHEAD = STAGES - 2 };
    constexpr int COLUMNS = SWIGLU ? WIDE / 2 : WIDE; /* of y or of c in a tile */
    MF_SHARED_DYNAMIC(shared);
    const int group = (int)threadIdx.x / (4 * MF_WARP);
    int64_t e = 0, before = 0;
    int steps = 0, whole = 0; /* of the tile; those that load_whole() can copy */
    mf_feed<A_ALONG, MF_THREADS_WGMMA, MF_HIGH_WGMMA, true, LISTED> a;
    mf_feed<B_ALONG, MF_THREADS_WGMMA, WIDE, true, LISTED, SWIGLU> b;
    const int64_t n = SWIGLU ? g.n / 2 : g.n;
    mf_gemm_part p;
    if (mf_failed(fault)) return;
    /* Finds tile number `tile`, and begins to copy its steps; false: there is none. */
    auto begin = [&](int64_t tile) {
        if (!mf_gemm_tile<COLUMNS>(g, n, tile, &e, &before, &p)) return false;
        steps = (int)((p.k1 - p.k0 + MF_STEP - 1) / MF_STEP);
        a.begin(g.a, (const mf_bf16 *)g.a.data + (g.by == MF_BY_BATCH ? p.group * g.a.step : 0),
                p.i0, p.i1, p.k0, p.k1);
        b.begin(g.b, (const mf_bf16 *)g.b.data + (g.by == MF_BY_INNER ? 0 : p.group * g.b.step),
                p.j0, n, p.k0, p.k1);
        whole = a.whole() < b.whole() ? a.whole() : b.whole();
        MF_UNROLL
        for (int s = 0; s < AHEAD; s++) {
            if (s < steps) a.load(shared + s * STAGE), b.load(shared + s * STAGE + PANEL_A);
            mf_copy_commit();
        }
        return true;
    };
    int64_t tile = blockIdx.x;
    bool more = begin(tile);
    while (more) {
        float sum[WIDE / 2] = {};
        int s = 0, stage = 0, ahead = AHEAD;
        auto multiply = [&]() {
            mf_copy_wait<AHEAD - 1>();
            mf_proxy_fence();
            /* all have copied this step, and none reads the one before the last */
            __syncthreads();
            const unsigned char *now = shared + stage * STAGE;
            const uint64_t of_a = mf_wgmma_panel<A_ALONG>(now + group * MF_PANEL_BYTES);
            const uint64_t of_b = mf_wgmma_panel<B_ALONG>(now + PANEL_A);
            mf_wgmma_fence();
            MF_UNROLL
            for (int q = 0; q < MF_STEP / 16; q++)
                mf_wgmma<!A_ALONG, !B_ALONG>(sum,
                                             mf_wgmma_at(of_a, q * mf_wgmma_next<A_ALONG>()),
                                             mf_wgmma_at(of_b, q * mf_wgmma_next<B_ALONG>()));
            mf_wgmma_commit();
        };
        auto next = [&]() {
            mf_copy_commit();      /* an empty group, too, so that their number is right */
            mf_wgmma_wait<1>(sum); /* the step before is read */
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            ahead = ahead + 1 == STAGES ? 0 : ahead + 1;
        };
        for (; s + AHEAD < whole; s++) {
            multiply();
            a.load_whole(shared + ahead * STAGE);
            b.load_whole(shared + ahead * STAGE + PANEL_A);
            next();
        }
        for (; s < steps; s++) {
            multiply();
            if (s + AHEAD < steps) {
                a.load(shared + ahead * STAGE);
                b.load(shared + ahead * STAGE + PANEL_A);
            }
            next();
        }
        mf_wgmma_wait<0>(sum);
        mf_copy_wait<0>();
        __syncthreads(); /* the next tile's copies go where slower warps still read */
        const mf_gemm_part done = p;
        tile += gridDim.x;
        more = begin(tile);
        if constexpr (SWIGLU)
            mf_wgmma_swiglu(g, done, sum);
        else
            mf_wgmma_store<WIDE>(g, done, how, sum);
    }
#else
    __trap(); /* the code is of another architecture than sm_90a: no result may look like one */
#endif
}

/* ---- launches ---- */

/* Whether the kernel above computes g. It runs on devices of capability 9.0 alone. */
static inline bool mf_can_gemm_wgmma(const mf_gemm &g)
{
    return mf_cuda_capability == 90 && mf_can_gemm_bf16(g);
}

/* What of c can be moved at once, wherever a row begins. */
static inline int mf_store_of(const mf_gemm &g)
{
    const mf_gemm_result &c = g.c;
    const uintptr_t size = (uintptr_t)mf_cast_size(c.type), at = (uintptr_t)c.data / size;
    const uintptr_t all = at | (uintptr_t)c.ld | (uintptr_t)c.step;
    if ((uintptr_t)c.data % size != 0 || all % 2 != 0) return MF_STORE_ONE;
    const bool four = c.type == MF_CAST_BF16 && (all | (uintptr_t)g.n) % 4 == 0 && g.beta == 0;
    return four ? MF_STORE_FOUR : MF_STORE_TWO;
}

template <int WIDE> static inline void mf_launch_wgmma_of(const mf_kctx *x, const mf_gemm &g)
{
    mf_by_layout(g, [&](auto layout) {
        typedef decltype(layout) L;
        MF_LAUNCH((mf_cu_gemm_wgmma<L::A_ALONG, L::B_ALONG, L::LISTED, WIDE>),
                  mf_gemm_grid(g, WIDE, 1), dim3(MF_THREADS_WGMMA), MF_SHARED_WGMMA, x,
                  x->fault, g, mf_store_of(g));
    });
}

/* Tiles of 256 columns if there are so many columns, and tiles for all processors. */
static inline void mf_launch_gemm_wgmma(const mf_kctx *x, const mf_gemm &g)
{
    if (g.n > 128 && mf_gemm_tiles(g, 256) >= mf_cuda_processors)
        mf_launch_wgmma_of<256>(x, g);
    else
        mf_launch_wgmma_of<128>(x, g);
}

/* ---- the epilogue SWIGLU ---- */

extern "C" bool mf_cuda_can_swiglu(const mf_gemm *g)
{
    const uintptr_t at = (uintptr_t)g->c.data | (uintptr_t)g->y.data;
    const int64_t all = g->n / 2 | g->c.ld | g->y.ld;
    return mf_can_gemm_wgmma(*g) && g->by == MF_BY_ROWS && g->b.trans && g->beta == 0 &&
           g->n % 2 == 0 && g->c.type == MF_CAST_BF16 && g->y.type == MF_CAST_BF16 &&
           at % 8 == 0 && all % 4 == 0;
}

static inline void mf_launch_swiglu_wgmma(const mf_kctx *x, const mf_gemm &g)
{
    MF_LAUNCH((mf_cu_gemm_wgmma<true, true, false, 256, true>), mf_gemm_grid(g, 256, 1),
              dim3(MF_THREADS_WGMMA), MF_SHARED_WGMMA, x, x->fault, g, MF_STORE_FOUR);
}

/* ---- any gemm ---- */

extern "C" void mf_cuda_gemm(const mf_kctx *x, const mf_gemm *given)
{
    mf_gemm g = *given;
    if (g.groups < 1) g.groups = 1;
    if (g.m <= 0 || g.n <= 0) return;
    const bool by_rows = g.by == MF_BY_ROWS;
    if (g.epilogue == MF_EPILOGUE_SWIGLU)
        mf_launch_swiglu_wgmma(x, g);
    else if (mf_can_gemm_wgmma(g))
        mf_launch_gemm_wgmma(x, g);
    else if (mf_can_gemm_bf16(g))
        mf_launch_gemm_bf16(x, g);
    else if (mf_can_gemm_f32(g))
        mf_launch_gemm_f32(x, g);
    else
        mf_launch_gemm(x, g);
    if (by_rows)
        MF_LAUNCH(mf_cu_gemm_outside, dim3(2u * (unsigned)mf_cuda_processors), dim3(MF_THREADS),
                  0, x, x->fault, g);
}

void (*mf_cuda_multiply)(const mf_kctx *x, const mf_gemm *g) = mf_cuda_gemm;
