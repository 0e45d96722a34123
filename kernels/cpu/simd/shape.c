/* shape.c: constants, copies, conversions of types.
 *
 * Each element of a result depends on at most one element, so tiling does not
 * change results. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* ---- set ---- */

typedef struct fill {
    int64_t n;
    float value;
    float *out;
} fill;

static void set_tile(void *arg, int64_t tile)
{
    const fill *p = arg;
    int64_t j = tile * ROWS_TILE, to = rows_end(p->n, j, ROWS_TILE);
    for (; j + VL <= to; j += VL)
        v_store(p->out + j, v_set(p->value));
    for (; j < to; j++)
        p->out[j] = p->value;
}

void MF_SIMD(set)(const mf_kctx *x, const mf_set_args *a)
{
    fill p = {a->n, a->value, a->out};
    x->parallel((a->n + ROWS_TILE - 1) / ROWS_TILE, set_tile, &p);
}

/* ---- copy4: planes of the last two dimensions, cut into blocks of rows ----
 *
 * A row has the elements of dimension 3. If rows are contiguous in the output and columns are
 * contiguous in the input, squares of SQUARE x SQUARE elements are copied, because a square
 * stays in the first-level cache. */

#define SQUARE 32

typedef struct copy {
    int64_t dim[4], in[4], out[4];
    int64_t planes, rows_a_tile, tiles_a_plane, planes_a_tile;
    const uint32_t *from;
    uint32_t *to;
} copy;

static void copy_line(int64_t n, const uint32_t *from, int64_t si, uint32_t *to, int64_t so)
{
    if (si == 1 && so == 1) {
        memcpy(to, from, (size_t)n * sizeof(*to));
    } else if (si == 0 && so == 1) {
        const uint32_t value = *from;
        for (int64_t j = 0; j < n; j++)
            to[j] = value;
    } else {
        for (int64_t j = 0; j < n; j++)
            to[j * so] = from[j * si];
    }
}

static void copy_block(const copy *p, int64_t r0, int64_t r1, const uint32_t *from,
                       uint32_t *to)
{
    const int64_t n = p->dim[3], si = p->in[3], so = p->out[3], ri = p->in[2], ro = p->out[2];
    if (si <= 1 || so != 1 || ri != 1) {
        for (int64_t r = r0; r < r1; r++)
            copy_line(n, from + r * ri, si, to + r * ro, so);
        return;
    }
    for (int64_t a = r0; a < r1; a += SQUARE)
        for (int64_t b = 0; b < n; b += SQUARE) {
            int64_t a1 = rows_end(r1, a, SQUARE), b1 = rows_end(n, b, SQUARE);
            for (int64_t r = a; r < a1; r++)
                for (int64_t c = b; c < b1; c++)
                    to[r * ro + c] = from[r + c * si];
        }
}

static void copy_tile(void *arg, int64_t tile)
{
    const copy *p = arg;
    int64_t plane = tile / p->tiles_a_plane * p->planes_a_tile;
    int64_t end = rows_end(p->planes, plane, p->planes_a_tile);
    int64_t r0 = tile % p->tiles_a_plane * p->rows_a_tile;
    int64_t r1 = rows_end(p->dim[2], r0, p->rows_a_tile);
    for (; plane < end; plane++) {
        int64_t i = plane / p->dim[1], j = plane % p->dim[1];
        copy_block(p, r0, r1, p->from + i * p->in[0] + j * p->in[1],
                   p->to + i * p->out[0] + j * p->out[1]);
    }
}

void MF_SIMD(copy4)(const mf_kctx *x, const mf_copy4_args *a)
{
    copy p = {.from = a->in, .to = a->out};
    memcpy(p.dim, a->dim, sizeof p.dim);
    memcpy(p.in, a->stride_in, sizeof p.in);
    memcpy(p.out, a->stride_out, sizeof p.out);
    /* A single long line is cut into rows, so that threads share it. */
    if (a->dim[0] * a->dim[1] * a->dim[2] == 1 && a->dim[3] > ROWS_TILE) {
        int64_t whole = a->dim[3] / ROWS_TILE, done = whole * ROWS_TILE;
        mf_copy4_args cut = {.dim = {1, 1, whole, ROWS_TILE},
                             .stride_in = {0, 0, ROWS_TILE * p.in[3], p.in[3]},
                             .stride_out = {0, 0, ROWS_TILE * p.out[3], p.out[3]},
                             .in = a->in,
                             .out = a->out};
        MF_SIMD(copy4)(x, &cut);
        cut.dim[2] = 1, cut.dim[3] = a->dim[3] - done;
        cut.in = p.from + done * p.in[3], cut.out = p.to + done * p.out[3];
        MF_SIMD(copy4)(x, &cut);
        return;
    }
    p.planes = a->dim[0] * a->dim[1];
    p.rows_a_tile = rows_per_tile(a->dim[3]);
    p.tiles_a_plane = rows_tiles(a->dim[2], a->dim[3]);
    p.planes_a_tile = p.tiles_a_plane == 1 ? rows_per_tile(a->dim[2] * a->dim[3]) : 1;
    if (p.tiles_a_plane > 0)
        x->parallel((p.planes + p.planes_a_tile - 1) / p.planes_a_tile * p.tiles_a_plane,
                    copy_tile, &p);
}

/* ---- cast ---- */

typedef struct cast {
    int64_t n;
    int from, to;
    const void *in;
    void *out;
} cast;

static int32_t int_of(float value) /* Converts a float to i32. The limit is 2^31, because 2^31
                                    * is a float, but the largest i32 is not. */
{
    if (value != value) return 0;
    return value <= -0x1p31f ? INT32_MIN : value >= 0x1p31f ? INT32_MAX : (int32_t)value;
}

static uint8_t byte_of(float value)
{
    return value != value || value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
}

#define FROM(type, read)                                                                       \
    {                                                                                          \
        const type *in = p->in;                                                                \
        switch ((mf_cast_type)p->to) {                                                         \
        case MF_CAST_F32:                                                                      \
            for (; j < to; j++)                                                                \
                ((float *)p->out)[j] = read;                                                   \
            break;                                                                             \
        case MF_CAST_BF16:                                                                     \
            for (; j < to; j++)                                                                \
                ((mf_bf16 *)p->out)[j] = mf_bf16_from_f32(read);                               \
            break;                                                                             \
        case MF_CAST_I32:                                                                      \
            for (; j < to; j++)                                                                \
                ((int32_t *)p->out)[j] = int_of(read);                                         \
            break;                                                                             \
        case MF_CAST_U8:                                                                       \
            for (; j < to; j++)                                                                \
                ((uint8_t *)p->out)[j] = byte_of(read);                                        \
            break;                                                                             \
        }                                                                                      \
        break;                                                                                 \
    }

static void cast_tile(void *arg, int64_t tile)
{
    const cast *p = arg;
    int64_t j = tile * ROWS_TILE, to = rows_end(p->n, j, ROWS_TILE);
    if (p->from == MF_CAST_F32 && p->to == MF_CAST_BF16)
        for (; j + VL <= to; j += VL)
            v_store_bf16((uint16_t *)p->out + j, v_load((const float *)p->in + j));
    if (p->from == MF_CAST_BF16 && p->to == MF_CAST_F32)
        for (; j + VL <= to; j += VL)
            v_store((float *)p->out + j, v_load_bf16((const uint16_t *)p->in + j));
    switch ((mf_cast_type)p->from) {
    case MF_CAST_F32:
        FROM(float, in[j])
    case MF_CAST_BF16:
        FROM(mf_bf16, mf_bf16_to_f32(in[j]))
    case MF_CAST_I32:
        FROM(int32_t, (float)in[j])
    case MF_CAST_U8:
        FROM(uint8_t, (float)in[j])
    }
}

void MF_SIMD(cast)(const mf_kctx *x, const mf_cast_args *a)
{
    cast p = {a->n, a->from, a->to, a->in, a->out};
    if (a->from == MF_CAST_I32 &&
        a->to == MF_CAST_I32) /* a float cannot represent every integer */
        memcpy(a->out, a->in, (size_t)a->n * sizeof(int32_t));
    else
        x->parallel((a->n + ROWS_TILE - 1) / ROWS_TILE, cast_tile, &p);
}
