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
#include "gemm_few.cuh"
#include "gemm_f32.cuh"
#include "kernels/cuda/swiglu.cuh"

constexpr int MF_THREADS_WGMMA = 256, MF_HIGH_WGMMA = 128, MF_SHARED_WGMMA = 192 << 10;
constexpr int MF_ROW_BYTES = 128, MF_EIGHT_ROWS = 8 * MF_ROW_BYTES;

/* How sums are written: one by one or by twos, whatever c is; two of f32, or four of bf16,
 * where no row needs a look of its own; with the epilogue SWIGLU. */
enum { MF_STORE_ANY, MF_STORE_FLOATS, MF_STORE_FOUR, MF_STORE_SWIGLU };

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

/* Where a thread writes sums: the rows are those of h = 0 and 1, and of both `left` columns
 * from its first one on are in c; none of a row that there is not. */
template <class T> struct mf_wgmma_rows {
    T *at[2];
    int left[2];

    /* first: this thread's first column of the tile; n: columns of the result. */
    MF_METHOD mf_wgmma_rows(const mf_gemm_result &c, const mf_gemm_part &p, int64_t n,
                            bool by_rows, int first)
    {
        const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
        const int64_t i = p.i0 + warp * 16 + lane / 4;
        const int here = (int)(n - p.j0) - first;
        at[0] = (T *)c.data + (by_rows ? 0 : p.group * c.step) + i * c.ld + p.j0 + first;
        at[1] = at[0] + 8 * c.ld;
        left[0] = i < p.i1 ? here : 0;
        left[1] = i + 8 < p.i1 ? here : 0;
    }
};
MF_INLINE int mf_wgmma_column()
{
    return (int)threadIdx.x % 4 * 2;
}
/* The first of the four columns of each 16 that a lane writes. */
MF_INLINE int mf_wgmma_four()
{
    const int lane = (int)threadIdx.x % MF_WARP;
    return lane % 2 * 8 + lane % 4 / 2 * 4;
}

/* sum = alpha sum + bias. HALVES: the second half of the sums is of columns n .. */
template <int WIDE, bool HALVES>
MF_INLINE void mf_wgmma_scale(const mf_gemm &g, const mf_gemm_part &p, int64_t n,
                              float (&sum)[WIDE / 2])
{
    const float alpha = g.alpha;
    if (g.bias) {
        const int first = mf_wgmma_column(), left = (int)(n - p.j0) - first;
        const float *bias = g.bias + p.group * g.step_bias + p.j0 + first;
        MF_UNROLL
        for (int q = 0; q < WIDE / 8; q++) {
            const bool second = HALVES && q >= WIDE / 16;
            const int at = (second ? q - WIDE / 16 : q) * 8;
            float b[2] = {0, 0};
            if (at < left) mf_get2((second ? bias + n : bias) + at, b);
            MF_UNROLL
            for (int r = 0; r < 4; r++)
                sum[q * 4 + r] = alpha * sum[q * 4 + r] + b[r % 2];
        }
    } else if (alpha != 1) {
        MF_UNROLL
        for (int q = 0; q < WIDE / 2; q++)
            sum[q] *= alpha;
    }
}

/* Writes pairs of bf16, of two times eight columns of a row: those of lanes with an even number
 * in the first eight and those of others in the second, of two lanes each, so that four lanes
 * write 32 bytes. All lanes call it; `in`: this lane has a row and these columns. Then c must
 * not be read (beta), since a lane would write what another one may still read. */
MF_INLINE void mf_put_fours(mf_bf16 *to, bool in, uint32_t first, uint32_t second)
{
    const bool odd = threadIdx.x % 2;
    const uint32_t other = __shfl_xor_sync(MF_ALL_LANES, odd ? first : second, 1);
    const uint64_t low = odd ? other : first, high = odd ? second : other;
    if (in) *(uint64_t *)to = low | high << 32;
}

/* Writes a thread's sums: of two rows, and of two columns of each eight. */
template <int WIDE>
MF_INLINE void mf_wgmma_fours(const mf_gemm &g, const mf_gemm_part &p, float (&sum)[WIDE / 2])
{
    const mf_wgmma_rows<mf_bf16> c(g.c, p, g.n, g.by == MF_BY_ROWS, mf_wgmma_four());
    mf_wgmma_scale<WIDE, false>(g, p, g.n, sum);
    MF_UNROLL
    for (int q = 0; q < WIDE / 16; q++) {
        MF_UNROLL
        for (int h = 0; h < 2; h++) {
            const float *s = sum + q * 8 + h * 2;
            mf_put_fours(c.at[h] + q * 16, q * 16 < c.left[h], mf_round2(s[0], s[1]),
                         mf_round2(s[4], s[5]));
        }
    }
}
template <int WIDE>
MF_INLINE void mf_wgmma_floats(const mf_gemm &g, const mf_gemm_part &p, float (&sum)[WIDE / 2])
{
    const mf_wgmma_rows<float> c(g.c, p, g.n, g.by == MF_BY_ROWS, mf_wgmma_column());
    mf_wgmma_scale<WIDE, false>(g, p, g.n, sum);
    if (g.beta == 0) {
        MF_UNROLL
        for (int q = 0; q < WIDE / 4; q++) {
            float *to = c.at[q % 2] + q / 2 * 8;
            if (q / 2 * 8 >= c.left[q % 2]) continue;
            MF_ALIGNED(to, 8);
            /* not by mf_put2: with sums as parts of numbers of 64 bits, ptxas has too few
             * registers for wgmma */
            *(float2 *)(void *)to = make_float2(sum[q * 2], sum[q * 2 + 1]);
        }
        return;
    }
    MF_UNROLL
    for (int first = 0; first < WIDE / 4; first += 8) { /* loads together, before stores */
        float v[8][2] = {};
        MF_UNROLL
        for (int r = 0; r < 8; r++) {
            const int q = first + r;
            if (q / 2 * 8 < c.left[q % 2]) mf_get2(c.at[q % 2] + q / 2 * 8, v[r]);
        }
        MF_UNROLL
        for (int r = 0; r < 8; r++) {
            const int q = first + r;
            v[r][0] += sum[q * 2], v[r][1] += sum[q * 2 + 1];
            if (q / 2 * 8 < c.left[q % 2]) mf_put2(c.at[q % 2] + q / 2 * 8, v[r]);
        }
    }
}

/* The same for any c. `room` is shared memory that nobody uses: a loop that is not unrolled
 * cannot choose registers, and unrolled the code would not fit where instructions are kept. */
template <int WIDE>
MF_INLINE void mf_wgmma_any(const mf_gemm &g, const mf_gemm_part &p, bool pairs,
                            unsigned char *room, const float (&sum)[WIDE / 2])
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    float *mine = (float *)(void *)room + threadIdx.x;
    MF_UNROLL_BY(1)
    for (int h = 0; h < 2; h++) {
        const int64_t i = p.i0 + warp * 16 + h * 8 + lane / 4;
        MF_UNROLL
        for (int q = 0; q < WIDE / 4; q++) {
            const int at = q / 2 * 4 + q % 2;
            mine[q * MF_THREADS_WGMMA] = h == 0 ? sum[at] : sum[at + 2];
        }
        MF_UNROLL_BY(1)
        for (int q = 0; q < WIDE / 8 && i < p.i1; q++) {
            const int64_t j = p.j0 + mf_wgmma_column() + q * 8;
            const float two[2] = {mine[2 * q * MF_THREADS_WGMMA],
                                  mine[(2 * q + 1) * MF_THREADS_WGMMA]};
            mf_gemm_store2(g, p, i, j, pairs && j + 1 < g.n, two);
        }
    }
}

/* Of pairs u of the first half of c and v of the second, in bf16. */
MF_INLINE uint32_t mf_swiglu_pair(uint32_t u, uint32_t v, float share)
{
    return mf_round2(
        mf_swiglu_near(mf_bf16_to_f32((mf_bf16)u), mf_bf16_to_f32((mf_bf16)v), share),
        mf_swiglu_near(mf_bf16_to_f32((mf_bf16)(u >> 16)), mf_bf16_to_f32((mf_bf16)(v >> 16)),
                       share));
}

/* Writes y, and c if it is kept, from the sums of a tile of HALVES. */
MF_INLINE void mf_wgmma_swiglu(const mf_gemm &g, const mf_gemm_part &p, float (&sum)[128])
{
    const int64_t n = g.n / 2;
    const mf_wgmma_rows<mf_bf16> c(g.c, p, n, true, mf_wgmma_four());
    const mf_wgmma_rows<mf_bf16> y(g.y, p, n, true, mf_wgmma_four());
    const int row = (int)threadIdx.x / MF_WARP * 16 + (int)threadIdx.x % MF_WARP / 4;
    float share[2] = {1, 1};
    MF_UNROLL
    for (int h = 0; h < 2; h++)
        if (g.gate && p.i0 + row + h * 8 < p.i1) share[h] = g.gate[p.i0 + row + h * 8];
    mf_wgmma_scale<256, true>(g, p, n, sum);
    /* Two columns of c; those of its second half are 64 sums further on. */
    auto pair = [&](int at) { return mf_round2(sum[at], sum[at + 1]); };
    if (g.keep) {
        MF_UNROLL
        for (int q = 0; q < 16; q++) {
            const int h = q % 2, at = q / 2 * 8 + h * 2;
            const bool in = q / 2 * 16 < c.left[h];
            mf_bf16 *to = c.at[h] + q / 2 * 16;
            mf_put_fours(to, in, pair(at), pair(at + 4));
            mf_put_fours(to + n, in, pair(at + 64), pair(at + 68));
        }
    }
    MF_UNROLL
    for (int q = 0; q < 16; q++) {
        const int h = q % 2, at = q / 2 * 8 + h * 2;
        mf_put_fours(y.at[h] + q / 2 * 16, q / 2 * 16 < y.left[h],
                     mf_swiglu_pair(pair(at), pair(at + 64), share[h]),
                     mf_swiglu_pair(pair(at + 4), pair(at + 68), share[h]));
    }
}
#endif

/* A_ALONG, B_ALONG: the inner index runs along stored rows. LISTED: an operand of which it does
 * not may have a list of rows. WIDE: columns of a tile. STORE: how sums are written; with
 * MF_STORE_SWIGLU WIDE is 256. pairs: MF_STORE_ANY can move two elements at once. */
template <bool A_ALONG, bool B_ALONG, bool LISTED, int WIDE, int STORE>
__global__ void __launch_bounds__(MF_THREADS_WGMMA, 1)
    mf_cu_gemm_wgmma(const mf_fault *fault, mf_gemm g, bool pairs)
{
#ifdef MF_HAS_WGMMA
    enum { PANEL_A = MF_HIGH_WGMMA * MF_ROW_BYTES, STAGE = PANEL_A + WIDE * MF_ROW_BYTES };
    enum { STAGES = MF_SHARED_WGMMA / STAGE, AHEAD = STAGES - 2, ROOM = AHEAD * STAGE };
    constexpr bool SWIGLU = STORE == MF_STORE_SWIGLU;
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
        steps = (int)((unsigned)(p.k1 - p.k0 + MF_STEP - 1) / MF_STEP);
        a.begin(g.a, (const mf_bf16 *)g.a.data + (g.by == MF_BY_BATCH ? p.group * g.a.step : 0),
                p.i0, p.i1, p.k0, p.k1);
        b.begin(g.b, (const mf_bf16 *)g.b.data + (g.by == MF_BY_INNER ? 0 : p.group * g.b.step),
                p.j0, n, p.k0, p.k1);
        whole = a.whole() < b.whole() ? a.whole() : b.whole();
        MF_UNROLL_BY(1)
        for (int s = 0; s < AHEAD; s++) {
            unsigned char *to = shared + s * STAGE;
            if (s < whole)
                a.load_whole(to), b.load_whole(to + PANEL_A);
            else if (s < steps)
                a.load(to), b.load(to + PANEL_A);
            mf_copy_commit();
        }
        return true;
    };
    float sum[WIDE / 2];
    mf_gemm_part done = {};
    bool first = true;
    /* The code of each part of a tile is here once: all of it has to fit where instructions
     * are kept. */
    for (int64_t tile = blockIdx.x;; tile += gridDim.x) {
        const bool more = begin(tile);
        if (!first) {
            if constexpr (STORE == MF_STORE_SWIGLU)
                mf_wgmma_swiglu(g, done, sum);
            else if constexpr (STORE == MF_STORE_FOUR)
                mf_wgmma_fours<WIDE>(g, done, sum);
            else if constexpr (STORE == MF_STORE_FLOATS)
                mf_wgmma_floats<WIDE>(g, done, sum);
            else
                mf_wgmma_any<WIDE>(g, done, pairs, shared + ROOM, sum);
        }
        if (!more) return;
        first = false;
        MF_UNROLL
        for (int i = 0; i < WIDE / 2; i++)
            sum[i] = 0;
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
        done = p;
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

/* How sums are written; of a bias, too, two have to be moved at once, wherever a row begins. */
static inline int mf_store_of(const mf_gemm &g)
{
    const mf_gemm_result &c = g.c;
    const bool bias = (uintptr_t)g.bias % 8 == 0 && (!g.bias || g.step_bias % 2 == 0);
    const uintptr_t at = (uintptr_t)c.data / 2 | (uintptr_t)c.ld | (uintptr_t)c.step;
    if (!mf_stores_pairs(g) || !bias || g.n % 2 != 0) return MF_STORE_ANY;
    if (c.type == MF_CAST_F32) return MF_STORE_FLOATS;
    return (at | (uintptr_t)g.n) % 4 == 0 && g.beta == 0 ? MF_STORE_FOUR : MF_STORE_ANY;
}

template <int WIDE, int STORE>
static inline void mf_launch_wgmma_of(const mf_kctx *x, const mf_gemm &g)
{
    mf_by_layout(g, [&](auto layout) {
        typedef decltype(layout) L;
        MF_LAUNCH((mf_cu_gemm_wgmma<L::A_ALONG, L::B_ALONG, L::LISTED, WIDE, STORE>),
                  mf_gemm_grid(g, WIDE, 1), dim3(MF_THREADS_WGMMA), MF_SHARED_WGMMA, x,
                  x->fault, g, mf_stores_pairs(g));
    });
}

/* Clocks of a step and of what is done once a tile, as measured on an H100, for tiles of 256
 * columns and of 128. Inner groups have a share of k each. */
static inline int64_t mf_wgmma_clocks(const mf_gemm &g, int wide)
{
    const int64_t rounds =
        (mf_gemm_tiles(g, wide) + mf_cuda_processors - 1) / mf_cuda_processors;
    const int64_t k = g.by == MF_BY_INNER ? g.k / g.groups : g.k;
    const int64_t steps = (k + MF_STEP - 1) / MF_STEP;
    return rounds * (wide == 256 ? 1220 * steps + 4000 : 950 * steps + 2400);
}

static inline void mf_launch_gemm_wgmma(const mf_kctx *x, const mf_gemm &g)
{
    const int store = mf_store_of(g);
    const bool wide = g.n > 128 && mf_wgmma_clocks(g, 256) <= mf_wgmma_clocks(g, 128);
    if (store == MF_STORE_ANY)
        mf_launch_wgmma_of<128, MF_STORE_ANY>(x, g); /* seldom */
    else if (store == MF_STORE_FLOATS)
        wide ? mf_launch_wgmma_of<256, MF_STORE_FLOATS>(x, g)
             : mf_launch_wgmma_of<128, MF_STORE_FLOATS>(x, g);
    else
        wide ? mf_launch_wgmma_of<256, MF_STORE_FOUR>(x, g)
             : mf_launch_wgmma_of<128, MF_STORE_FOUR>(x, g);
}

/* ---- the epilogue SWIGLU ---- */

extern "C" bool mf_cuda_can_swiglu(const mf_gemm *g)
{
    const uintptr_t at = (uintptr_t)g->c.data | (uintptr_t)g->y.data;
    if (mf_can_gemm_few(*g)) return g->by == MF_BY_ROWS && g->n % 2 == 0 && g->beta == 0;
    const int64_t all = g->n / 2 | g->c.ld | g->y.ld;
    return mf_can_gemm_wgmma(*g) && g->by == MF_BY_ROWS && g->b.trans && g->beta == 0 &&
           g->n % 2 == 0 && (uintptr_t)g->bias % 8 == 0 && g->step_bias % 2 == 0 &&
           g->c.type == MF_CAST_BF16 && g->y.type == MF_CAST_BF16 && at % 8 == 0 &&
           all % 4 == 0;
}

static inline void mf_launch_swiglu_wgmma(const mf_kctx *x, const mf_gemm &g)
{
    MF_LAUNCH((mf_cu_gemm_wgmma<true, true, false, 256, MF_STORE_SWIGLU>),
              mf_gemm_grid(g, 256, 1), dim3(MF_THREADS_WGMMA), MF_SHARED_WGMMA, x, x->fault, g,
              true);
}

/* ---- any gemm ---- */

extern "C" void mf_cuda_gemm(const mf_kctx *x, const mf_gemm *given)
{
    mf_gemm g = *given;
    if (g.groups < 1) g.groups = 1;
    if (g.m <= 0 || g.n <= 0) return;
    const bool by_rows = g.by == MF_BY_ROWS;
    const bool few = mf_can_gemm_few(g);
    if (g.from && g.beta != 0 && !few) { /* the other kernels add c */
        MF_LAUNCH(mf_cu_gemm_from, mf_grid(g.m * g.n, MF_THREADS), dim3(MF_THREADS), 0, x,
                  x->fault, g);
        g.from = NULL;
    }
    if (few)
        mf_launch_gemm_few(x, g);
    else if (g.epilogue == MF_EPILOGUE_SWIGLU)
        mf_launch_swiglu_wgmma(x, g);
    else if (mf_can_gemm_wgmma(g))
        mf_launch_gemm_wgmma(x, g);
    else if (mf_can_gemm_bf16(g))
        mf_launch_gemm_bf16(x, g);
    else if (mf_can_gemm_f32(g))
        mf_launch_gemm_f32(x, g);
    else
        mf_launch_gemm(x, g);
    if (by_rows && !few)
        MF_LAUNCH(mf_cu_gemm_outside, dim3(2u * (unsigned)mf_cuda_processors), dim3(MF_THREADS),
                  0, x, x->fault, g);
}

void (*mf_cuda_multiply)(const mf_kctx *x, const mf_gemm *g) = mf_cuda_gemm;
