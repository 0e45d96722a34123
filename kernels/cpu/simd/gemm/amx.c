/* amx.c: tiles of bf16 gemms for processors with matrix registers (Intel AMX), which hold 16
 * rows of 16 words and multiply 16 x 16 x 32 elements at a time.
 *
 * With MF_AMX_EMULATED plain loops replace the instructions, for tests on processors
 * without AMX. */

/* These instructions read panels and rows as in engine.h: words are pairs along the inner
 * index. 32 rows are multiplied with 32 lanes; four registers hold the sums. Rows are read in
 * place, or copied so that a register contains only existing elements and zeros. */
#define ENGINE_BF16 1
#define WORD_UNIT   16
#include "kernels/cpu/simd/gemm/store.h"

#define TILE_ROWS  16
#define ROW_PANEL  (2 * TILE_ROWS)
#define MOST_WORDS 1536 /* words of the inner index, at most */
#define MOST_LANES 128

#if defined(MF_AMX_EMULATED)
#define NAME(fn) MF_SIMD(fn##_emulated)
bool NAME(gemm_tile_amx)(const gemm_tile *b);
bool NAME(gemm_amx_works)(void);
#else
#define NAME(fn) MF_SIMD(fn)
#endif

/* ---- tiles ---- */

#if defined(MF_AMX_EMULATED)
static _Thread_local uint32_t tile_words[8][TILE_ROWS][16];

static void tile_load(int t, const void *from, int64_t stride)
{
    for (int r = 0; r < TILE_ROWS; r++)
        memcpy(tile_words[t][r], (const char *)from + r * stride, 64);
}
static void tile_store(int t, void *to, int64_t stride)
{
    for (int r = 0; r < TILE_ROWS; r++)
        memcpy((char *)to + r * stride, tile_words[t][r], 64);
}
static void tile_zero(int t)
{
    memset(tile_words[t], 0, sizeof tile_words[t]);
}
static float half_of(uint32_t word, int high)
{
    return mf_bf16_to_f32((mf_bf16)(high ? word >> 16 : word));
}
static void tile_dot(int c, int a, int b)
{
    for (int i = 0; i < TILE_ROWS; i++)
        for (int q = 0; q < 16; q++)
            for (int j = 0; j < 16; j++) {
                float sum;
                memcpy(&sum, &tile_words[c][i][j], sizeof sum);
                for (int h = 0; h < 2; h++)
                    sum += half_of(tile_words[a][i][q], h) * half_of(tile_words[b][q][j], h);
                memcpy(&tile_words[c][i][j], &sum, sizeof sum);
            }
}
#define TILE_LOAD(t, from, stride) tile_load(t, from, stride)
#define TILE_STORE(t, to, stride)  tile_store(t, to, stride)
#define TILE_ZERO(t)               tile_zero(t)
#define TILE_DOT(c, a, b)          tile_dot(c, a, b)
static void tiles_begin(void) {}
static void tiles_end(void) {}
#else
#define TILE_LOAD(t, from, stride) _tile_loadd(t, from, stride)
#define TILE_STORE(t, to, stride)  _tile_stored(t, to, stride)
#define TILE_ZERO(t)               _tile_zero(t)
#define TILE_DOT(c, a, b)          _tile_dpbf16ps(c, a, b)
/* Configures eight tiles of 16 rows of 64 bytes. */
static void tiles_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = TILE_ROWS;
    }
    _tile_loadconfig(&config);
}
static void tiles_end(void)
{
    _tile_release();
}
#endif

/* Computes the sums of 16 or 32 rows and lanes into sums [32][LANES]; sums of rows and lanes
 * that it does not compute become 0. */
static void multiply(const row_panel *s, bool more_rows, bool more_lanes, int64_t words,
                     const float *v, float *sums)
{
    const int64_t lanes = LANES * (int64_t)sizeof *v;
    const char *row = s->at, *below = s->at + TILE_ROWS * s->rs;
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    if (more_rows && more_lanes)
        for (int64_t q = 0; q < words; q += 16) {
            TILE_LOAD(4, row + 4 * q, s->rs);
            TILE_LOAD(6, v + q * LANES, lanes);
            TILE_LOAD(5, below + 4 * q, s->rs);
            TILE_LOAD(7, v + q * LANES + 16, lanes);
            TILE_DOT(0, 4, 6);
            TILE_DOT(1, 4, 7);
            TILE_DOT(2, 5, 6);
            TILE_DOT(3, 5, 7);
        }
    else
        for (int64_t q = 0; q < words; q += 16) {
            TILE_LOAD(4, row + 4 * q, s->rs);
            TILE_LOAD(6, v + q * LANES, lanes);
            TILE_DOT(0, 4, 6);
            if (more_rows) {
                TILE_LOAD(5, below + 4 * q, s->rs);
                TILE_DOT(2, 5, 6);
            }
            if (more_lanes) {
                TILE_LOAD(7, v + q * LANES + 16, lanes);
                TILE_DOT(1, 4, 7);
            }
        }
    TILE_STORE(0, sums, lanes);
    TILE_STORE(1, sums + 16, lanes);
    TILE_STORE(2, sums + TILE_ROWS * LANES, lanes);
    TILE_STORE(3, sums + TILE_ROWS * LANES + 16, lanes);
}

/* ---- rows ---- */

/* Transposes mr rows that are stored across the inner index, 16 x 16 words at a time; zeros
 * follow them, up to a multiple of 16 rows. */
static row_panel turn_rows(const gemm_side *s, int64_t i, int64_t mr, int64_t k0, int64_t k1,
                           float *out)
{
    const int64_t rs = words_of(k0, k1) + VL;
    for (int64_t r = 0; r < mr; r += VL)
        for (int64_t p = k0, q = 0; p < k1; p += 2 * VL, q += VL) {
            vf v[VL];
            for (int x = 0; x < VL; x++) {
                const int64_t at = p + 2 * x;
                v[x] = words_across(s, false, at < k1 ? stored_row(s, at) : -1,
                                    inner_row(s, at + 1, k1), i + r, mr - r);
            }
            transpose(v);
            for (int x = 0; x < VL; x++)
                v_store(out + (r + x) * rs + q, v[x]);
        }
    return (row_panel){(const char *)out, 4 * rs, false};
}

static row_panel rows_of(const gemm_side *s, int64_t i, int64_t mr, int64_t k0, int64_t k1,
                         float *out)
{
    if (!s->along) return turn_rows(s, i, mr, k0, k1, out);
    if (mr % TILE_ROWS == 0 && rows_lie(s, false, k1 - k0) && (k1 - k0) % (2 * WORD_UNIT) == 0)
        return (row_panel){at_element(s, i, k0), 2 * s->ld, false};
    row_panel at = copy_rows(s, false, i, (int)mr, k0, k1, out);
    for (int64_t r = mr; r % TILE_ROWS != 0; r++)
        memset(out + r * at.rs / 4, 0, (size_t)at.rs);
    return at;
}

/* ---- a tile of c ---- */

static void run_lanes(const gemm_tile *b, int64_t j, int64_t jend, int64_t k0, int64_t k1,
                      float *panels, float *copied)
{
    const int64_t words = words_of(k0, k1);
    float sums[ROW_PANEL * LANES] __attribute__((aligned(64)));
    if (b->b.along)
        pack_along(&b->b, false, j, jend, k0, k1, panels);
    else
        pack_across(&b->b, false, j, jend, k0, k1, panels);
    for (int64_t i = b->i0; i < b->i1; i += ROW_PANEL) {
        const int64_t mr = b->i1 - i < ROW_PANEL ? b->i1 - i : ROW_PANEL;
        const row_panel s = rows_of(&b->a, i, mr, k0, k1, copied);
        for (int64_t l = j; l < jend; l += LANES) {
            const int64_t width = jend - l < LANES ? jend - l : LANES;
            multiply(&s, mr > TILE_ROWS, width > 16, words, panels + (l - j) * words, sums);
            put_tile(b, false, i, (int)mr, l, width, sums, k0 == b->k0);
        }
    }
}

bool NAME(gemm_tile_amx)(const gemm_tile *b)
{
    float panels[MOST_WORDS * MOST_LANES] __attribute__((aligned(64)));
    float copied[(MOST_WORDS + VL + VL) * ROW_PANEL] __attribute__((aligned(64)));
    const int64_t k = b->k1 - b->k0;
    if (k <= 0 || (b->type_c != MF_CAST_F32 && k > 2 * MOST_WORDS)) return false;
    tiles_begin();
    for (int64_t j = b->j0; j < b->j1; j += MOST_LANES)
        for (int64_t p = b->k0; p < b->k1; p += 2 * MOST_WORDS)
            run_lanes(b, j, j + MOST_LANES < b->j1 ? j + MOST_LANES : b->j1, p,
                      p + 2 * MOST_WORDS < b->k1 ? p + 2 * MOST_WORDS : b->k1, panels, copied);
    tiles_end();
    return true;
}

/* ---- self-test ---- */

#define M 45
#define N 40
#define K 70

bool NAME(gemm_amx_works)(void)
{
    uint16_t a[M * K], b[N * K];
    float tiles[M * N], vectors[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = (uint16_t)(0x3f80 + i * 37 % 128 + (i % 3 == 0 ? 0x8000 : 0));
    for (int i = 0; i < N * K; i++)
        b[i] = (uint16_t)(0x3f00 + i * 53 % 128 + (i % 5 == 0 ? 0x8000 : 0));
    gemm_tile p = {.a = {a, MF_CAST_BF16, K, true, NULL, K, false},
                   .b = {b, MF_CAST_BF16, K, true, NULL, K, false},
                   .i1 = M,
                   .j1 = N,
                   .k1 = K,
                   .c = tiles,
                   .type_c = MF_CAST_F32,
                   .ldc = N,
                   .alpha = 1,
                   .rows = M,
                   .cols = N,
                   .rounded = true};
    if (!NAME(gemm_tile_amx)(&p)) return false;
    p.c = vectors;
    MF_SIMD(gemm_tile_f32)(&p);
    for (int i = 0; i < M * N; i++)
        if (!(fabsf(tiles[i] - vectors[i]) < 1e-3f)) return false;
    return true;
}
