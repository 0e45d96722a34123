/* attention_bf16.cuh: attention of bf16 in the form of FlashAttention-2 (Dao 2023) by matrix
 * instructions (mma.sync, compute capability 8.0 and above). Scores, their statistics and all
 * sums are f32; weights and gradients of scores are rounded to bf16 before they are multiplied.
 *
 * A block of 4 warps has a tile of rows (queries, or keys for dk and dv), 16 or 32 a warp, and
 * goes through tiles of the others, which cp.async brings one tile ahead where shared memory
 * has room for two. Matrices lie in shared memory as they are stored, rows of HD >= head_dim
 * numbers; of a row, the 16 bytes of place p lie at place p ^ row % 8 of their 128 bytes, so
 * that neither copies nor ldmatrix need a bank twice. The accumulators of scores are, rounded,
 * the left operand of the next gemm. A warp's results go through its own rows of shared memory,
 * so that global memory gets 16 bytes a lane.
 *
 * The keys that a query sees, but for a mask, are a span; neither end falls from one query to
 * the next. So the spans of a tile's first and last query tell which tiles of keys nobody sees,
 * and which all queries see as a whole: a loop of their own goes through these, and only in
 * others scores are hidden one by one.
 *
 * The backward pass is in attention_bf16_backward.cuh. */
#pragma once
#include "attention.cuh"

constexpr int MF_FLASH_THREADS = 128;
constexpr float MF_LOG2_E = 1.4426950408889634f;

/* Widths of heads in shared memory, with the tiles that fit. */
template <int HD_> struct mf_flash {
    enum {
        HD = HD_,
        PARTS = HD > 128 ? 1 : 2, /* forward: times 16 rows of a warp */
        ROWS = 64 * PARTS,        /* forward: queries of a block */
        KEYS = HD > 64 ? 32 : 64, /* of a tile; forward */
        SIDE = 64,                /* rows of a block; dq, dk and dv */
        DQ_KEYS = HD > 128 ? 32 : 64,
        QUERIES = 32,              /* of a tile; dk and dv */
        STAGES = HD > 128 ? 1 : 2, /* tiles in shared memory; dq, dk and dv */
        ROW = HD * 2,              /* bytes */
        FORWARD = (ROWS + 4 * KEYS) * ROW,
        DQ = (2 * SIDE + 2 * STAGES * DQ_KEYS) * ROW,
        DKV = 2 * SIDE * ROW + STAGES * QUERIES * (2 * ROW + 16)
    };
};

/* A constant that a lambda takes. */
template <bool B> struct mf_bool {
    enum { value = B };
};

/* Keys first .. first + count - 1. */
struct mf_span {
    int first, count;
};

/* Sequence b, and how many keys it has. */
struct mf_sequence {
    int b, length;
};
MF_INLINE mf_sequence mf_sequence_of(const mf_attention_args &p, int b)
{
    mf_sequence o;
    o.b = b, o.length = p.kv_len ? p.kv_len[b] : (int)p.s;
    return o;
}
/* The keys that query t sees, but for a mask. */
MF_INLINE mf_span mf_span_of(const mf_attention_args &p, const mf_sequence &o, int t)
{
    const int next = o.length - (int)p.t + t + 1; /* key behind the query's own position */
    int first = 0, end = o.length;
    if (p.causal && next < end) end = next;
    if (p.window > 0 && next > p.window) first = next - (int)p.window;
    if (p.since && p.since[o.b * (int)p.t + t] > first) first = p.since[o.b * (int)p.t + t];
    if (p.reach && p.reach[o.b * (int)p.t + t] + 1 < end) end = p.reach[o.b * (int)p.t + t] + 1;
    if (end < 0) end = 0;
    if (first > end) first = end; /* no key; neither end falls nevertheless */
    mf_span s;
    s.first = first, s.count = end - first;
    return s;
}
MF_INLINE bool mf_masks(const mf_attention_args &p, const mf_sequence &o, int key)
{
    return key < o.length && p.mask[o.b * (int)p.s + key] == 0;
}
MF_INLINE bool mf_in_span(const mf_span &s, int key)
{
    return (unsigned)(key - s.first) < (unsigned)s.count;
}

/* What the queries between a first and a last one see: keys begin .. end - 1 at most, and all
 * of them whole_begin .. whole_end - 1. */
struct mf_reach {
    int begin, end, whole_begin, whole_end;
};
MF_INLINE mf_reach mf_reach_of(const mf_span &first, const mf_span &last)
{
    mf_reach r;
    r.begin = first.first, r.end = last.first + last.count;
    r.whole_begin = last.first, r.whole_end = first.first + first.count;
    return r;
}
/* Of queries t0 .. t1 - 1; nothing if there are none. */
MF_INLINE mf_reach mf_reach_of(const mf_attention_args &p, const mf_sequence &o, int t0, int t1)
{
    mf_span none = {0, 0};
    if (t0 >= t1) return mf_reach_of(none, none);
    return mf_reach_of(mf_span_of(p, o, t0), mf_span_of(p, o, t1 - 1));
}
MF_INLINE bool mf_reaches(const mf_reach &r, int s0, int s1)
{
    return s0 < r.end && s1 > r.begin;
}
MF_INLINE bool mf_reaches_all(const mf_reach &r, int s0, int s1)
{
    return s0 >= r.whole_begin && s1 <= r.whole_end;
}

/* ---- moving rows ---- */

/* Where 16 bytes of a row are. */
template <int HD> MF_INLINE int mf_flash_at(int row, int place)
{
    return row * (HD * 2) + ((place & ~7) | ((place ^ row) & 7)) * 16;
}
/* `rows` and `places` further on than a lane's row and place 0 or 1; rows are a multiple of 8,
 * places of 2. */
template <int HD> MF_INLINE int mf_flash_step(int at, int rows, int places)
{
    return (at ^ (places & 7) * 16) + (places & ~7) * 16 + rows * (HD * 2);
}

/* The rows of a sequence from row `at` of a matrix on, and d columns of it. Numbers that are
 * found again for each tile need fewer registers than pointers. */
struct mf_flash_rows {
    int at, column, d;
};
MF_INLINE mf_flash_rows mf_flash_rows_of(const mf_attention_args &p, int64_t at, int head)
{
    mf_flash_rows r;
    r.at = (int)at, r.d = (int)p.head_dim, r.column = head * r.d;
    return r;
}

/* Starts to copy rows first .. first + ROWS - 1, zeros from `end` on and beyond head_dim.
 * WHOLE: no row is at `end` or behind it. */
template <int HD, int ROWS, bool WHOLE = false>
MF_INLINE void mf_flash_load(const float *matrix, int64_t ld, const mf_flash_rows &r, int first,
                             int end, unsigned char *to)
{
    constexpr int PLACES = HD / 8, STEP = MF_FLASH_THREADS / PLACES;
    static_assert(STEP % 8 == 0 || PLACES > 16, "a thread's rows have the same place");
    const int row = (int)threadIdx.x / PLACES, place = (int)threadIdx.x % PLACES;
    const int left = place * 8 < r.d ? end - first - row : 0;
    const mf_bf16 *from = mf_halves(matrix);
    if constexpr (WHOLE) {
        const bool in = place * 8 < r.d;
        const unsigned stride = (unsigned)ld * 2, at = (unsigned)(r.at + first + row);
        const unsigned char *here = (const unsigned char *)(from + r.column + place * 8 * in);
        MF_UNROLL
        for (int i = 0; i < ROWS / STEP; i++) /* without sign: one instruction each */
            mf_copy16(to + mf_flash_at<HD>(row + i * STEP, place),
                      here + mf_wide(at + i * STEP, stride), in ? 16 : 0);
        return;
    }
    const mf_bf16 *at = from + (r.at + first + row) * ld + r.column + place * 8;
    MF_UNROLL
    for (int i = 0; i < ROWS / STEP; i++, at += STEP * ld) {
        const bool there = i * STEP < left;
        mf_copy16(to + mf_flash_at<HD>(row + i * STEP, place), there ? at : from,
                  there ? 16 : 0);
    }
}

/* Rounds the warp's 16 rows of sums from r0 on, times a factor for the upper and the lower
 * eight, into its rows of `own`, which all lanes have read, and stores those below `end`. */
template <int HD>
MF_INLINE void mf_flash_store(const float (*sum)[4], float upper, float lower, float *matrix,
                              int64_t ld, const mf_flash_rows &r, int r0, int first, int end,
                              unsigned char *own)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    constexpr int PLACES = HD / 8;
    __syncwarp();
    MF_UNROLL
    for (int j = 0; j < PLACES; j++) {
        unsigned char *at = own + mf_flash_at<HD>(r0 + lane / 4, j) + lane % 4 * 4;
        *(uint32_t *)(void *)at = mf_round2(upper * sum[j][0], upper * sum[j][1]);
        at = own + mf_flash_at<HD>(r0 + 8 + lane / 4, j) + lane % 4 * 4;
        *(uint32_t *)(void *)at = mf_round2(lower * sum[j][2], lower * sum[j][3]);
    }
    __syncwarp();
    MF_UNROLL_BY(4)
    for (int at = lane; at < 16 * PLACES; at += MF_WARP) {
        const int row = r0 + at / PLACES, place = at % PLACES;
        if (first + row >= end || place * 8 >= r.d) continue;
        uint4 *there = (uint4 *)(void *)(mf_halves(matrix) + (r.at + first + row) * ld +
                                         r.column + place * 8);
        MF_ALIGNED(there, 16);
        *there = *(const uint4 *)(const void *)(own + mf_flash_at<HD>(row, place));
    }
}

/* ---- gemms of a warp ---- */

/* sum [PARTS][COLUMNS / 8] += a b^T: 16 PARTS rows of a from r0 on, COLUMNS rows of b; inner
 * index HD. */
template <int HD, int PARTS, int COLUMNS>
MF_INLINE void mf_flash_scores(const unsigned char *a, int r0, const unsigned char *b,
                               float (*sum)[COLUMNS / 8][4])
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const int low = lane % 8, second = lane / 8 % 2, third = lane / 16;
    const int of_a = mf_flash_at<HD>(r0 + second * 8 + low, third);
    const int of_b = mf_flash_at<HD>(third * 8 + low, second);
    MF_UNROLL
    for (int q = 0; q < HD / 16; q++) {
        uint32_t u[PARTS][4];
        MF_UNROLL
        for (int m = 0; m < PARTS; m++)
            mf_ldmatrix(u[m], a + mf_flash_step<HD>(of_a, 16 * m, 2 * q));
        MF_UNROLL
        for (int j = 0; j < COLUMNS / 16; j++) {
            uint32_t v[4];
            mf_ldmatrix(v, b + mf_flash_step<HD>(of_b, 16 * j, 2 * q));
            MF_UNROLL
            for (int m = 0; m < PARTS; m++) {
                mf_mma(sum[m][2 * j], u[m], v);
                mf_mma(sum[m][2 * j + 1], u[m], v + 2);
            }
        }
    }
}

/* sum [PARTS][HD / 8] += w b: w the 16 PARTS x INNER numbers of accumulators, rounded; b INNER
 * rows. */
template <int HD, int PARTS, int INNER>
MF_INLINE void mf_flash_add(const float (*w)[INNER / 8][4], const unsigned char *b,
                            float (*sum)[HD / 8][4])
{
    const int lane = (int)threadIdx.x % MF_WARP;
    const int low = lane % 8, second = lane / 8 % 2, third = lane / 16;
    const int of_b = mf_flash_at<HD>(second * 8 + low, third);
    MF_UNROLL
    for (int q = 0; q < INNER / 16; q++) {
        uint32_t u[PARTS][4];
        MF_UNROLL
        for (int m = 0; m < PARTS; m++) {
            const float *left = w[m][2 * q], *right = w[m][2 * q + 1];
            u[m][0] = mf_round2(left[0], left[1]), u[m][1] = mf_round2(left[2], left[3]);
            u[m][2] = mf_round2(right[0], right[1]), u[m][3] = mf_round2(right[2], right[3]);
        }
        MF_UNROLL
        for (int j = 0; j < HD / 16; j++) {
            uint32_t v[4];
            mf_ldmatrix_trans(v, b + mf_flash_step<HD>(of_b, 16 * q, 2 * j));
            MF_UNROLL
            for (int m = 0; m < PARTS; m++) {
                mf_mma(sum[m][2 * j], u[m], v);
                mf_mma(sum[m][2 * j + 1], u[m], v + 2);
            }
        }
    }
}

/* The larger one that is a number: a NaN reaches sums by its own weight. */
struct mf_larger {
    static MF_ON_DEVICE inline float of(float a, float b) { return fmaxf(a, b); }
};
/* Largest of, and sum over, the four lanes that share a row of accumulators. */
template <class OP> MF_INLINE float mf_quad(float v)
{
    v = OP::of(v, __shfl_xor_sync(MF_ALL_LANES, v, 1));
    return OP::of(v, __shfl_xor_sync(MF_ALL_LANES, v, 2));
}

/* Scores of keys from s0 on that a query does not see become -inf, and their gradients 0, even
 * if a value is NaN; ds may be NULL. t: the query of this lane's first row. Spans are found
 * again here, so that the loop over tiles holds none in registers. */
template <int PARTS, int KEYS>
MF_INLINE void mf_flash_hide(const mf_attention_args &p, const mf_sequence &o, int t, int t1,
                             int s0, float (*w)[KEYS / 8][4], float (*ds)[KEYS / 8][4])
{
    const int first = s0 + (int)threadIdx.x % 4 * 2;
    MF_UNROLL
    for (int i = 0; i < 2 * PARTS; i++) {
        mf_span s = {0, 0};
        if (t + i * 8 < t1) s = mf_span_of(p, o, t + i * 8);
        MF_UNROLL
        for (int j = 0; j < KEYS / 4; j++) {
            if (mf_in_span(s, first + j / 2 * 8 + j % 2)) continue;
            w[i / 2][j / 2][i % 2 * 2 + j % 2] = -INFINITY;
            if (ds) ds[i / 2][j / 2][i % 2 * 2 + j % 2] = 0;
        }
    }
    if (!p.mask) return;
    MF_UNROLL
    for (int j = 0; j < KEYS / 4; j++) {
        if (!mf_masks(p, o, first + j / 2 * 8 + j % 2)) continue;
        MF_UNROLL
        for (int i = 0; i < 2 * PARTS; i++) {
            w[i / 2][j / 2][i % 2 * 2 + j % 2] = -INFINITY;
            if (ds) ds[i / 2][j / 2][i % 2 * 2 + j % 2] = 0;
        }
    }
}

/* ---- forward ---- */

/* Scores of a tile become weights 2^(scale (score - most)); `out`, `most` and `sum` of the two
 * rows of this lane are brought up to date. */
template <int HD, int KEYS>
MF_INLINE void mf_flash_weights(float scale, float (*w)[4], float (*out)[4], float most[2],
                                float sum[2])
{
    MF_UNROLL
    for (int half = 0; half < 2; half++) {
        float high = most[half], fresh = 0;
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++)
            high = fmaxf(fmaxf(w[j][2 * half], w[j][2 * half + 1]), high);
        high = mf_quad<mf_larger>(high);
        const float base = high == -INFINITY ? 0 : scale * high;
        const float keep = mf_exp2(fmaf(scale, most[half], -base));
        MF_UNROLL
        for (int j = 0; j < KEYS / 8; j++) {
            MF_UNROLL
            for (int c = 0; c < 2; c++) {
                w[j][2 * half + c] = mf_exp2(fmaf(scale, w[j][2 * half + c], -base));
                fresh += w[j][2 * half + c];
            }
        }
        sum[half] = fmaf(sum[half], keep, fresh); /* of this lane's columns */
        most[half] = high;
        MF_UNROLL
        for (int j = 0; j < HD / 8; j++)
            out[j][2 * half] *= keep, out[j][2 * half + 1] *= keep;
    }
}

template <int HD>
MF_INLINE void mf_flash_forward(const mf_attention_args &p, int b, int h, int t0,
                                unsigned char *shared)
{
    typedef mf_flash<HD> F;
    constexpr int KEYS = F::KEYS, PARTS = F::PARTS, TILE = KEYS * F::ROW;
    const int lane = (int)threadIdx.x % MF_WARP;
    const int r0 = (int)threadIdx.x / MF_WARP * 16 * PARTS;
    const mf_sequence o = mf_sequence_of(p, b);
    const mf_flash_rows rows = mf_flash_rows_of(p, b * p.t, h);
    const mf_flash_rows keys = mf_flash_rows_of(p, b * p.s, h / (int)(p.heads / p.kv_heads));
    const int t1 = (int)(t0 + F::ROWS < p.t ? t0 + F::ROWS : p.t);
    const int last = t0 + r0 + 16 * PARTS < t1 ? t0 + r0 + 16 * PARTS : t1;
    const mf_reach all = mf_reach_of(p, o, t0, t1), mine = mf_reach_of(p, o, t0 + r0, last);
    const float scale = p.scale * MF_LOG2_E;
    unsigned char *tiles = shared + F::ROWS * F::ROW;
    float out[PARTS][HD / 8][4] = {}, most[PARTS][2], sum[PARTS][2] = {};
    MF_UNROLL
    for (int m = 0; m < PARTS; m++)
        most[m][0] = most[m][1] = -INFINITY;
    mf_flash_load<HD, F::ROWS>(p.q, p.ldq, rows, t0, t1, shared);
    if (all.begin < all.end) {
        mf_flash_load<HD, KEYS>(p.k, p.ldk, keys, all.begin, all.end, tiles);
        mf_flash_load<HD, KEYS>(p.v, p.ldv, keys, all.begin, all.end, tiles + TILE);
    }
    mf_copy_commit();
    int stage = 0, s0 = all.begin;
    /* Multiplies the tile of keys from s0 on, and starts to copy the next one. WHOLE: all
     * queries see all keys of both. */
    auto tile = [&](auto kind) {
        constexpr bool WHOLE = decltype(kind)::value;
        const int first = s0, next = s0 + KEYS;
        const unsigned char *now = tiles + stage * 2 * TILE;
        unsigned char *ahead = tiles + (stage ^ 1) * 2 * TILE;
        stage ^= 1, s0 = next;
        mf_copy_wait<0>();
        __syncthreads(); /* all have copied this tile, and multiplied the one before */
        if (WHOLE || next < all.end) {
            mf_flash_load<HD, KEYS, WHOLE>(p.k, p.ldk, keys, next, all.end, ahead);
            mf_flash_load<HD, KEYS, WHOLE>(p.v, p.ldv, keys, next, all.end, ahead + TILE);
            mf_copy_commit();
        }
        if (!WHOLE && !mf_reaches(mine, first, next)) return;
        float w[PARTS][KEYS / 8][4] = {};
        mf_flash_scores<HD, PARTS, KEYS>(shared, r0, now, w);
        if (!WHOLE && (p.mask || !mf_reaches_all(mine, first, next)))
            mf_flash_hide<PARTS, KEYS>(p, o, t0 + r0 + lane / 4, t1, first, w, NULL);
        MF_UNROLL
        for (int m = 0; m < PARTS; m++)
            mf_flash_weights<HD, KEYS>(scale, w[m], out[m], most[m], sum[m]);
        mf_flash_add<HD, PARTS, KEYS>(w, now + TILE, out);
    };
    while (s0 < all.end) {
        if constexpr (HD != 128) /* there, registers do not suffice for both */
            while (!p.mask && s0 >= all.whole_begin && s0 + 2 * KEYS <= all.whole_end)
                tile(mf_bool<true>());
        tile(mf_bool<false>());
    }
    mf_copy_wait<0>(); /* also if there was no key */
    __syncthreads();
    MF_UNROLL
    for (int m = 0; m < PARTS; m++) {
        float factor[2];
        MF_UNROLL
        for (int half = 0; half < 2; half++) {
            const int t = t0 + r0 + m * 16 + half * 8 + lane / 4;
            const float of_row = mf_quad<mf_add>(sum[m][half]);
            factor[half] = of_row == 0 ? 0 : 1 / of_row;
            if (p.lse && lane % 4 == 0 && t < t1)
                p.lse[(b * p.t + t) * p.heads + h] = p.scale * most[m][half] + logf(of_row);
        }
        mf_flash_store<HD>(out[m], factor[0], factor[1], p.y, p.heads * p.head_dim, rows,
                           r0 + m * 16, t0, t1, shared);
    }
}

/* ---- kernels ----
 * A block has one tile of one head of a sequence: x counts tiles of all sequences. */

/* Block x of a grid: *b the sequence, returns which of its `tiles` tiles. */
MF_INLINE int mf_flash_tile(int tiles, int *b)
{
    *b = (int)blockIdx.x / tiles;
    return (int)blockIdx.x % tiles;
}
static MF_ON_DEVICE inline int mf_flash_tiles(int64_t rows, int side)
{
    return (int)((rows + side - 1) / side);
}

template <int HD>
__global__ void __launch_bounds__(MF_FLASH_THREADS, HD > 128 ? 1 : 2)
    mf_cu_attention_bf16(const mf_fault *fault, mf_attention_args p)
{
    MF_SHARED_DYNAMIC(shared);
    if (mf_failed(fault)) return;
    const int tiles = mf_flash_tiles(p.t, mf_flash<HD>::ROWS);
    int b;
    /* with a causal mask the last queries have the most keys: they begin first */
    const int tile = tiles - 1 - mf_flash_tile(tiles, &b);
    mf_flash_forward<HD>(p, b, (int)blockIdx.y, tile * mf_flash<HD>::ROWS, shared);
}

/* ---- launches ---- */

template <class F> static inline void mf_by_flash(int64_t head_dim, F fn)
{
    if (head_dim <= 64)
        fn(mf_flash<64>());
    else if (head_dim <= 128)
        fn(mf_flash<128>());
    else
        fn(mf_flash<256>());
}

/* Whether rows of all heads can be moved by 16 bytes, and fit; and whether the largest score
 * has the largest weight. */
static inline bool mf_can_flash(const mf_attention_args &p)
{
    const void *const all[] = {p.q, p.k, p.v, p.y, p.dy, p.dq, p.dk, p.dv};
    uintptr_t bits = 0;
    for (const void *one : all)
        bits |= (uintptr_t)one;
    return p.bf16 && bits % 16 == 0 && (p.ldq | p.ldk | p.ldv | p.head_dim) % 8 == 0 &&
           p.head_dim <= 256 && p.scale > 0 && p.batch * p.t < INT32_MAX / 2 &&
           p.batch * p.s < INT32_MAX / 2 && p.batch * p.heads < INT32_MAX;
}

static inline dim3 mf_flash_grid(int64_t batch, int64_t rows, int side, int64_t heads)
{
    return dim3((unsigned)(mf_flash_tiles(rows, side) * batch), (unsigned)heads);
}

extern "C" void mf_cuda_attention(const mf_kctx *x, const mf_attention_args *p)
{
    if (p->batch * p->t * p->heads <= 0) return;
    if (!mf_can_flash(*p)) {
        mf_launch_attention(x, p);
        return;
    }
    mf_by_flash(p->head_dim, [&](auto flash) {
        typedef decltype(flash) F;
        MF_LAUNCH((mf_cu_attention_bf16<F::HD>),
                  mf_flash_grid(p->batch, p->t, F::ROWS, p->heads), dim3(MF_FLASH_THREADS),
                  F::FORWARD, x, x->fault, *p);
    });
}
