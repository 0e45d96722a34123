/* gemm_wgmma.cuh: the gemms of gemm_bf16.cuh by instructions of warpgroups (wgmma, compute
 * capability 9.0 alone, code for sm_90a): tiles of 128 rows and 128 or 256 columns for blocks
 * of two warpgroups, 64 rows each. Both operands are read from shared memory, so a tile of 256
 * columns needs it 640 clocks for 1024 clocks of arithmetic.
 *
 * Shared memory holds steps of 64 inner indices, of which cp.async brings all but two ahead:
 * one step is multiplied, and the one before it may still be read by another warpgroup. An
 * operand is copied as it is stored, in rows of 128 bytes, of which place p lies at place
 * p ^ row % 8, as the descriptors of wgmma say; what is wider has several such panels of 64
 * rows. The first steps of a tile are brought while the sums of the one before are written. */
#pragma once
#include "gemm_bf16.cuh"

constexpr int MF_THREADS_WGMMA = 256, MF_HIGH_WGMMA = 128, MF_SHARED_WGMMA = 192 << 10;
constexpr int MF_ROW_BYTES = 128, MF_EIGHT_ROWS = 8 * MF_ROW_BYTES;
constexpr int MF_PANEL_BYTES = 64 * MF_ROW_BYTES; /* 64 x 64 elements */

/* How a thread can write elements of c next to each other. */
enum { MF_STORE_ONE, MF_STORE_TWO, MF_STORE_FOUR };

#ifdef MF_HAS_WGMMA
/* What a thread copies of one operand of SIDE rows or columns. ALONG: the inner index runs
 * along stored rows, so that a step is SIDE rows of 64 elements; else it is 64 rows of SIDE. */
template <bool ALONG, int SIDE> struct mf_wgmma_feed;

template <int SIDE> struct mf_wgmma_feed<true, SIDE> {
    enum { ROWS = MF_THREADS_WGMMA / 8, COPIES = SIDE / ROWS };
    const mf_bf16 *from[COPIES];
    int64_t left;   /* inner indices from this thread's first one on */
    unsigned there; /* bit i: row i is one */
    int to;

    MF_METHOD void begin(const mf_gemm_operand &o, const mf_bf16 *data, int64_t first,
                         int64_t end, int64_t k0, int64_t k1)
    {
        const int place = (int)threadIdx.x % 8, row = (int)threadIdx.x / 8;
        to = row * MF_ROW_BYTES + (place ^ row % 8) * 16;
        left = k1 - k0 - place * 8;
        there = 0;
        MF_UNROLL
        for (int i = 0; i < COPIES; i++) {
            int64_t r = first + row + ROWS * i;
            r = r < end ? o.row ? o.row[r] : r : -1;
            from[i] = data + (r < 0 ? 0 : r) * o.ld + k0 + place * 8;
            there |= (unsigned)(r >= 0) << i;
        }
    }
    MF_METHOD void load(unsigned char *step)
    {
        const int bytes = left <= 0 ? 0 : left < 8 ? (int)left * 2 : 16;
        MF_UNROLL
        for (int i = 0; i < COPIES; i++) {
            mf_copy16(step + to + i * ROWS * MF_ROW_BYTES, from[i], there >> i & 1 ? bytes : 0);
            from[i] += MF_STEP;
        }
        left -= MF_STEP;
    }
};

template <int SIDE> struct mf_wgmma_feed<false, SIDE> {
    /* THREADS have one row; a warp has SHARE of ROWS rows at once. */
    enum { THREADS = SIDE / 8, ROWS = MF_THREADS_WGMMA / THREADS, COPIES = MF_STEP / ROWS };
    enum { SHARE = MF_WARP / THREADS };
    const mf_bf16 *from;
    const int32_t *list;
    int64_t ld, k, end;
    int bytes, to;
    int32_t row; /* of a list, for lane l: the row of copy l / SHARE of part l % SHARE */

    MF_METHOD void begin(const mf_gemm_operand &o, const mf_bf16 *data, int64_t first,
                         int64_t last, int64_t k0, int64_t k1)
    {
        const int place = (int)threadIdx.x % THREADS, r = (int)threadIdx.x / THREADS;
        const int64_t here = last - first - place * 8;
        to = place / 8 * MF_PANEL_BYTES + r * MF_ROW_BYTES + (place % 8 ^ r % 8) * 16;
        bytes = here <= 0 ? 0 : here < 8 ? (int)here * 2 : 16;
        from = bytes > 0 ? data + first + place * 8 : data;
        list = o.row, ld = o.ld, k = k0, end = k1;
        look();
    }
    /* Reads the list one step before its rows are copied. */
    MF_METHOD void look()
    {
        const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
        const int64_t at = k + warp * SHARE + lane % SHARE + lane / SHARE * ROWS;
        if (list) row = lane < SHARE * COPIES && at < end ? list[at] : -1;
    }
    MF_METHOD void load(unsigned char *step)
    {
        const int part = (int)threadIdx.x % MF_WARP / THREADS;
        MF_UNROLL
        for (int i = 0; i < COPIES; i++) {
            const int64_t at = k + (int)threadIdx.x / THREADS + ROWS * i;
            int64_t r = at < end ? at : -1;
            if (list) r = __shfl_sync(MF_ALL_LANES, row, part + SHARE * i);
            /* ROWS is 8 or 16, so all rows of this thread have the same place modulo 8 */
            mf_copy16(step + to + i * ROWS * MF_ROW_BYTES, from + (r < 0 ? 0 : r) * ld,
                      r < 0 ? 0 : bytes);
        }
        k += MF_STEP;
        look();
    }
};

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

/* Writes a thread's sums: of two rows, eight apart, and of two columns of each eight. bf16 are
 * written in fours: of two times eight columns, lanes with an even number write the first ones
 * of two lanes, others the second ones, so that four lanes write 32 bytes of a row. Then c must
 * not be read (beta), since a lane would write what another one may still read. */
template <int WIDE>
MF_INLINE void mf_wgmma_store(const mf_gemm &g, const mf_gemm_part &p, int how,
                              const float (&sum)[WIDE / 2])
{
    const int lane = (int)threadIdx.x % MF_WARP, warp = (int)threadIdx.x / MF_WARP;
    const bool odd = lane % 2;
    MF_UNROLL
    for (int h = 0; h < 2; h++) {
        const int64_t i = p.i0 + warp * 16 + h * 8 + lane / 4;
        const bool in = i < p.i1;
        if (how == MF_STORE_FOUR) {
            MF_UNROLL
            for (int q = 0; q < WIDE / 16; q++) {
                const int64_t j = p.j0 + q * 16 + lane % 4 * 2;
                uint32_t first = 0, second = 0;
                if (in) first = mf_gemm_pair(g, p, j, sum + q * 8 + h * 2);
                if (in) second = mf_gemm_pair(g, p, j + 8, sum + q * 8 + 4 + h * 2);
                const uint32_t other = __shfl_xor_sync(MF_ALL_LANES, odd ? first : second, 1);
                const int64_t to = p.j0 + q * 16 + odd * 8 + lane % 4 / 2 * 4;
                const uint64_t low = odd ? other : first, high = odd ? second : other;
                if (!in || to >= g.n) continue;
                mf_bf16 *c = (mf_bf16 *)g.c.data + i * g.c.ld + to;
                if (g.by != MF_BY_ROWS) c += p.group * g.c.step;
                *(uint64_t *)c = low | high << 32;
            }
        } else if (in) {
            MF_UNROLL
            for (int q = 0; q < WIDE / 8; q++) {
                const int64_t j = p.j0 + q * 8 + lane % 4 * 2;
                mf_gemm_store2(g, p, i, j, how == MF_STORE_TWO && j + 1 < g.n,
                               sum + q * 4 + h * 2);
            }
        }
    }
}
#endif

/* A_ALONG, B_ALONG: the inner index runs along stored rows. WIDE: columns of a tile. how: of c,
 * what can be moved at once. */
template <bool A_ALONG, bool B_ALONG, int WIDE>
__global__ void __launch_bounds__(MF_THREADS_WGMMA, 1)
    mf_cu_gemm_wgmma(const mf_fault *fault, mf_gemm g, int how)
{
#ifdef MF_HAS_WGMMA
    enum { PANEL_A = MF_HIGH_WGMMA * MF_ROW_BYTES, STAGE = PANEL_A + WIDE * MF_ROW_BYTES };
    enum { STAGES = MF_SHARED_WGMMA / STAGE, AHEAD = STAGES - 2 };
    MF_SHARED_DYNAMIC(shared);
    const int group = (int)threadIdx.x / (4 * MF_WARP);
    int64_t e = 0, before = 0;
    int steps = 0;
    mf_wgmma_feed<A_ALONG, MF_HIGH_WGMMA> a;
    mf_wgmma_feed<B_ALONG, WIDE> b;
    mf_gemm_part p;
    if (mf_failed(fault)) return;
    /* Finds tile number `tile`, and begins to copy its steps; false: there is none. */
    auto begin = [&](int64_t tile) {
        if (!mf_gemm_tile<WIDE>(g, tile, &e, &before, &p)) return false;
        steps = (int)((p.k1 - p.k0 + MF_STEP - 1) / MF_STEP);
        a.begin(g.a, (const mf_bf16 *)g.a.data + (g.by == MF_BY_BATCH ? p.group * g.a.step : 0),
                p.i0, p.i1, p.k0, p.k1);
        b.begin(g.b, (const mf_bf16 *)g.b.data + (g.by == MF_BY_INNER ? 0 : p.group * g.b.step),
                p.j0, g.n, p.k0, p.k1);
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
        int stage = 0, ahead = AHEAD;
        for (int s = 0; s < steps; s++) {
            mf_copy_wait<AHEAD - 1>();
            mf_proxy_fence();
            __syncthreads(); /* all have copied this step, and none reads the one before the last */
            const unsigned char *now = shared + stage * STAGE;
            const uint64_t of_a = mf_wgmma_panel<A_ALONG>(now + group * MF_PANEL_BYTES);
            const uint64_t of_b = mf_wgmma_panel<B_ALONG>(now + PANEL_A);
            mf_wgmma_fence();
            MF_UNROLL
            for (int q = 0; q < MF_STEP / 16; q++)
                mf_wgmma<!A_ALONG, !B_ALONG>(sum, mf_wgmma_at(of_a, q * mf_wgmma_next<A_ALONG>()),
                                             mf_wgmma_at(of_b, q * mf_wgmma_next<B_ALONG>()));
            mf_wgmma_commit();
            if (s + AHEAD < steps) {
                a.load(shared + ahead * STAGE);
                b.load(shared + ahead * STAGE + PANEL_A);
            }
            mf_copy_commit(); /* an empty one, too, so that the count above is right */
            mf_wgmma_wait<1>(sum); /* the step before is read */
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            ahead = ahead + 1 == STAGES ? 0 : ahead + 1;
        }
        mf_wgmma_wait<0>(sum);
        mf_copy_wait<0>();
        __syncthreads(); /* the next tile's copies go where slower warps still read */
        const mf_gemm_part done = p;
        tile += gridDim.x;
        more = begin(tile);
        mf_wgmma_store<WIDE>(g, done, how, sum);
    }
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

static inline int64_t mf_tiles_wgmma(const mf_gemm &g, int wide)
{
    const int64_t high = (g.m + MF_HIGH_WGMMA - 1) / MF_HIGH_WGMMA;
    return (g.by == MF_BY_ROWS ? high + g.groups : high * g.groups) * ((g.n + wide - 1) / wide);
}

template <int WIDE> static inline void mf_launch_wgmma_of(const mf_kctx *x, const mf_gemm &g)
{
    const int64_t tiles = mf_tiles_wgmma(g, WIDE), most = mf_cuda_processors;
    const dim3 grid((unsigned)(tiles < most ? tiles : most)), block(MF_THREADS_WGMMA);
    const int how = mf_store_of(g);
#define MF_LAUNCH_WGMMA(a, b)                                                                  \
    MF_LAUNCH((mf_cu_gemm_wgmma<a, b, WIDE>), grid, block, MF_SHARED_WGMMA, x, x->fault, g, how)
    if (!g.a.trans && g.b.trans)
        MF_LAUNCH_WGMMA(true, true);
    else if (!g.a.trans)
        MF_LAUNCH_WGMMA(true, false);
    else if (g.b.trans)
        MF_LAUNCH_WGMMA(false, true);
    else
        MF_LAUNCH_WGMMA(false, false);
#undef MF_LAUNCH_WGMMA
}

/* Tiles of 256 columns if there are so many columns, and tiles for all processors. */
static inline void mf_launch_gemm_wgmma(const mf_kctx *x, const mf_gemm &g)
{
    if (g.n > 128 && mf_tiles_wgmma(g, 256) >= mf_cuda_processors)
        mf_launch_wgmma_of<256>(x, g);
    else
        mf_launch_wgmma_of<128>(x, g);
}

/* ---- any gemm ---- */

extern "C" void mf_cuda_gemm(const mf_kctx *x, const mf_gemm *given)
{
    mf_gemm g = *given;
    if (g.groups < 1) g.groups = 1;
    if (g.m <= 0 || g.n <= 0) return;
    const bool by_rows = g.by == MF_BY_ROWS;
    if (mf_can_gemm_wgmma(g))
        mf_launch_gemm_wgmma(x, g);
    else if (mf_can_gemm_bf16(g))
        mf_launch_gemm_bf16(x, g);
    else
        mf_launch_gemm(x, g);
    if (by_rows)
        MF_LAUNCH(mf_cu_gemm_outside, dim3(2u * (unsigned)mf_cuda_processors), dim3(MF_THREADS),
                  0, x, x->fault, g);
}

void (*mf_cuda_multiply)(const mf_kctx *x, const mf_gemm *g) = mf_cuda_gemm;
