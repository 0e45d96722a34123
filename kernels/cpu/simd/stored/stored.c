/* stored.c: gemms with weights in the form in which files store them. A tile is a block of
 * rows of one part of the weight, in every group that has rows of x (forward), or a block of
 * inputs (back), so each weight is read by one tile. With few rows of x, reading takes most
 * of the time, and functions of each type multiply directly from memory. So does GPTQ for
 * many rows of bf16. With more rows the f32 engine reads bf16 and f32 in place; other types
 * are unpacked in blocks. With AMX, amx.c computes most bf16 gemms. Tiling changes no bit. */
#include "kernels/cpu/simd/gemm/tile.h"
#include "kernels/cpu/simd/stored/stored.h"
#include "kernels/cpu/simd/vec.h"
#include "kernels/cpu/workspace.h"

#define UNIT   32
#define FEW    12   /* up to this number of rows of x in a group, weights are not packed */
#define BLOCK  64   /* minimum rows of a part per tile, with more than FEW rows of x */
#define MOST   256  /* maximum rows of a part per tile, with more than FEW rows of x */
#define WIDE   1024 /* the same maximum with few rows of x, if outputs are neighbours */
#define WIDEST 2048 /* the same maximum for one row of x and GPTQ8 (packed_units.h) */
#define INPUTS 512  /* number of inputs that are unpacked at a time */
#define ROWS   128  /* number of rows of a part that are unpacked at a time */
_Static_assert(ROWS *INPUTS <= MF_ROOM_STORED_SIZE, "room for unpacked weights");

typedef struct cut {
    const mf_stored_gemm_args *g;
    int64_t unit; /* number of rows of a part, or of inputs, per tile */
    bool amx;     /* amx.c computes groups for which stored_amx_pays is true */
} cut;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The functions of a type; few: for parts that do not take digits. across: neighbouring outputs
 * are neighbours in memory. */
typedef struct way {
    stored_unpack *unpack;
    stored_few *few;
    bool across;
} way;
#define DENSE                                                                                  \
    {                                                                                          \
        MF_SIMD(stored_unpack_dense), MF_SIMD(stored_few_dense), false                         \
    }
#define CODED                                                                                  \
    {                                                                                          \
        MF_SIMD(stored_unpack_coded), MF_SIMD(stored_few_coded), false                         \
    }
#define COLUMNS                                                                                \
    {                                                                                          \
        MF_SIMD(stored_unpack_columns), MF_SIMD(stored_few_columns), true                      \
    }
static const way ways[MF_STORED_TYPES] = {
    [MF_STORED_F32] = DENSE,
    [MF_STORED_BF16] = DENSE,
    [MF_STORED_F16] = DENSE,
    [MF_STORED_GPTQ4] = {MF_SIMD(stored_unpack_gptq4), MF_SIMD(stored_few_gptq4), true},
    [MF_STORED_MXFP4] = {MF_SIMD(stored_unpack_mxfp4), MF_SIMD(stored_few_mxfp4), false},
    [MF_STORED_F8_E4M3] = CODED,
    [MF_STORED_F8_E5M2] = CODED,
    [MF_STORED_INT4] = CODED,
    [MF_STORED_GPTQ8] = COLUMNS,
    [MF_STORED_AWQ4] = COLUMNS,
};

/* ---- parts as matrices that the engine reads ---- */

static bool is_dense(const mf_stored_part *p)
{
    return p->type == MF_STORED_F32 || p->type == MF_STORED_BF16;
}

static void unpack(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t i0,
                   int64_t i1, float *out, int64_t ld)
{
    ways[p->type].unpack(p, in, o0, o1, i0, i1, out, ld);
}

/* Rows o0 .. o1 - 1 and inputs i0 .. i1 - 1 of a part. Element [o,i] is at
 * (o - o0) ld + i - i0, or transposed at (i - i0) ld + o - o0. */
typedef struct block {
    const void *at;
    mf_cast_type type;
    bool transposed;
    int64_t ld, o0, o1, i0, i1;
} block;

/* Whether the engine can read the part in place. */
static bool lies(const mf_stored_part *p)
{
    return is_dense(p) && !(p->transposed && p->pairs);
}

/* Returns the block. room: [ROWS * INPUTS], for parts for which `lies` is false. */
static block block_of(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t i0,
                      int64_t i1, float *room)
{
    block b = {room, MF_CAST_F32, false, INPUTS, o0, o1, i0, i1};
    if (!lies(p)) {
        unpack(p, in, o0, o1, i0, i1, room, INPUTS);
        return b;
    }
    const int64_t at = p->transposed ? i0 * p->ld + o0 : o0 * p->ld + i0;
    b.type = p->type == MF_STORED_F32 ? MF_CAST_F32 : MF_CAST_BF16;
    b.at = (const char *)p->data + at * mf_cast_size((int)b.type);
    b.transposed = p->transposed;
    b.ld = p->ld;
    return b;
}

/* Returns the rows of a block whose outputs are neighbours: all rows, or with pairs the even or
 * the odd rows. *ret_output: the output of the first row in its group; *ret_count: the number
 * of rows. */
static gemm_side side_of(const mf_stored_part *p, const block *b, int half, bool along,
                         int64_t *ret_output, int64_t *ret_count)
{
    const int64_t step = p->pairs ? 2 : 1;
    *ret_output = mf_stored_output(p, b->o0 + half);
    *ret_count = (b->o1 - b->o0) / step;
    return (gemm_side){.at = (const char *)b->at + half * b->ld * mf_cast_size((int)b->type),
                       .type = b->type,
                       .ld = b->ld * step,
                       .along = along != b->transposed,
                       .end = along != b->transposed ? b->i1 - b->i0 : *ret_count};
}

/* ---- groups ---- */

/* Returns the first row of x of group e; *ret_end is the row behind the last. */
static int64_t rows_of(const mf_stored_gemm_args *g, int64_t e, int64_t *ret_end)
{
    *ret_end = g->offset ? g->offset[e + 1] : g->rows;
    return g->offset ? g->offset[e] : 0;
}

/* Whether tiles compute group e: it has rows, and no other code computes it. */
static bool has_tiles(const cut *c, int64_t e)
{
    int64_t end;
    const int64_t r = rows_of(c->g, e, &end);
    return r < end && !(c->amx && stored_amx_pays(c->g, e));
}

static void zero(const mf_stored_gemm_args *g, int64_t r0, int64_t r1, int64_t j0, int64_t j1)
{
    for (int64_t r = r0; r < r1 && j0 < j1; r++)
        memset(g->y + r * g->ldy + j0, 0, (size_t)(j1 - j0) * sizeof *g->y);
}

/* Writes zeros to the rows that belong to no group. */
static void zero_rest(const mf_stored_gemm_args *g, int64_t j0, int64_t j1)
{
    if (!g->offset) return;
    zero(g, 0, g->offset[0], j0, j1);
    zero(g, g->offset[g->w->groups], g->rows, j0, j1);
}

/* Returns the address of element i of each row of x. */
static const void *x_from(const mf_stored_gemm_args *g, int64_t i)
{
    return (const char *)g->x + i * (g->bf16 ? 2 : 4);
}

/* Multiplies pairs of bf16 without conversion. All other types of x and of the weight are
 * converted to f32, which is exact. */
static void run_tile(const gemm_tile *t)
{
    gemm_tile pairs = *t;
    pairs.rounded = true;
    if (t->a.type == MF_CAST_BF16 && t->b.type == MF_CAST_BF16)
        MF_SIMD(gemm_tile)(&pairs);
    else
        MF_SIMD(gemm_tile_f32)(t);
}

static gemm_tile tile_of(const mf_stored_gemm_args *g, int64_t r0, int64_t r1)
{
    return (gemm_tile){.a = {.type = g->bf16 ? MF_CAST_BF16 : MF_CAST_F32,
                             .ld = g->ldx,
                             .along = true,
                             .index = g->row},
                       .i0 = r0,
                       .i1 = r1,
                       .type_c = MF_CAST_F32,
                       .ldc = g->ldy,
                       .alpha = g->alpha,
                       .rows = r1 - r0};
}

/* ---- y = x W^T ---- */

/* Writes the sums of rows o0 .. o1 - 1 of a part to the outputs of row r. */
static void put(const mf_stored_gemm_args *g, const mf_stored_part *p, int64_t e, int64_t r,
                int64_t o0, int64_t o1, const float *sum)
{
    const float *bias = g->bias ? g->bias + e * g->w->out : NULL;
    float *y = g->y + r * g->ldy;
    for (int64_t o = o0; o < o1; o++) {
        const int64_t j = mf_stored_output(p, o);
        y[j] = g->alpha * sum[o - o0] + (bias ? bias[j] : 0);
    }
}

/* Memory on the stack for n rows of x in f32; needed only if x is bf16. */
#define ROOM_FOR(g, n)                                                                         \
    __builtin_alloca_with_align((size_t)((g)->bf16 ? (n) * (g)->w->in : 1) * sizeof(float), 512)

/* Returns n rows of x in f32, beginning with row r: in place, or in `room`. *ret_ld:
 * their distance. */
static const float *floats_of(const mf_stored_gemm_args *g, int64_t r, int64_t n, float *room,
                              int64_t *ret_ld)
{
    const int64_t in = g->w->in;
    *ret_ld = g->bf16 ? in : g->ldx;
    if (!g->bf16) return (const float *)g->x + r * g->ldx;
    for (int64_t q = 0; q < n; q++) {
        const uint16_t *x = x_from(g, (r + q) * g->ldx);
        float *to = room + q * in;
        int64_t i = 0;
        for (; i + VL <= in; i += VL)
            v_store(to + i, v_load_bf16(x + i));
        for (; i < in; i++)
            to[i] = mf_bf16_to_f32(x[i]);
    }
    return room;
}

/* Rows of x as digits, for few rows. */
typedef struct few_digits {
    char *rows; /* [rows, size], or NULL */
    int64_t size;
    int nd;
} few_digits;

/* all: digits of all rows of x. */
static void few(const mf_stored_gemm_args *g, const mf_stored_part *p, int64_t e, int64_t r0,
                int64_t r1, int64_t o0, int64_t o1, const few_digits *all)
{
    float sum[STORED_FEW * WIDEST], *room = ROOM_FOR(g, STORED_FEW);
    const bool takes = MF_SIMD(stored_takes_digits)(p, g->w->in);
    const int nd = stored_digits_of(p, g->bf16);
    for (int64_t r = r0; r < r1; r += STORED_FEW) {
        const int64_t n = min64(r1 - r, STORED_FEW);
        int64_t ldx = 0;
        const char *d = takes && all->rows && all->nd == nd ? all->rows + r * all->size : NULL;
        const float *x = d ? NULL : floats_of(g, r, n, room, &ldx);
        if (takes)
            MF_SIMD(stored_few_digits)(p, g->w->in, o0, o1, n, nd, x, ldx, d, sum, WIDEST);
        else
            ways[p->type].few(p, g->w->in, o0, o1, n, g->bf16, x, ldx, sum, WIDEST);
        for (int64_t i = 0; i < n; i++)
            put(g, p, e, r + i, o0, o1, sum + i * WIDEST);
    }
}

/* Adds the block's share of y. first: these outputs have no sums yet. */
static void multiply(const mf_stored_gemm_args *g, const mf_stored_part *p, int64_t e,
                     int64_t r0, int64_t r1, const block *b, bool first)
{
    for (int half = 0; half < (p->pairs ? 2 : 1); half++) {
        gemm_tile t = tile_of(g, r0, r1);
        int64_t at, n;
        t.b = side_of(p, b, half, true, &at, &n);
        t.a.at = x_from(g, b->i0);
        t.a.end = t.k1 = b->i1 - b->i0;
        t.j1 = t.cols = n;
        t.c = g->y + r0 * g->ldy + at;
        t.beta = first ? 0 : 1;
        t.bias = first && g->bias ? g->bias + e * g->w->out + at : NULL;
        run_tile(&t);
    }
}

static void many(const mf_stored_gemm_args *g, const mf_stored_part *p, int64_t e, int64_t r0,
                 int64_t r1, int64_t o0, int64_t o1)
{
    float *room = mf_cpu_room(MF_ROOM_STORED); /* [ROWS * INPUTS] */
    const int64_t in = g->w->in, step = lies(p) ? in : INPUTS, down = lies(p) ? MOST : ROWS;
    for (int64_t o = o0; o < o1; o += down)
        for (int64_t i = 0; i < in; i += step) {
            const block b =
                block_of(p, in, o, min64(o + down, o1), i, min64(i + step, in), room);
            multiply(g, p, e, r0, r1, &b, i == 0);
        }
}

/* Returns the part of each group to which tile t belongs; *ret_first: first row of the tile in
 * this part. */
static int64_t part_at(const cut *c, int64_t t, int64_t *ret_first)
{
    int64_t q = 0;
    for (;; q++) {
        const int64_t tiles = (c->g->w->part[q].rows + c->unit - 1) / c->unit;
        if (t < tiles) break;
        t -= tiles;
    }
    *ret_first = t * c->unit;
    return q;
}

static void forward(void *arg, int64_t t)
{
    const cut *c = arg;
    const mf_stored_gemm_args *g = c->g;
    int64_t o0, end;
    const int64_t q = part_at(c, t, &o0);
    for (int64_t e = 0; e < g->w->groups; e++) {
        const mf_stored_part *p = &g->w->part[e * g->w->parts + q];
        const int64_t o1 = min64(o0 + c->unit, p->rows), r = rows_of(g, e, &end);
        if (!has_tiles(c, e)) continue;
        if (end - r <= FEW && !g->row)
            few(g, p, e, r, end, o0, o1, &(few_digits){0});
        else
            many(g, p, e, r, end, o0, o1);
    }
    const mf_stored_part *p = &g->w->part[q];
    const int64_t n = min64(o0 + c->unit, p->rows) - o0, at = mf_stored_output(p, o0);
    zero_rest(g, at, at + (p->pairs ? n / 2 : n));
    if (p->pairs) zero_rest(g, at + p->rows / 2, at + p->rows / 2 + n / 2);
}

/* ---- y = x W^T, few rows in each group ---- */

#define ACTIVE      64          /* maximum number of groups with rows */
#define STRIPE      64          /* number of rows of a part per tile */
#define DIGITS_ROOM (256 << 10) /* bytes of memory for digits */

/* Tiles are cut group by group, in the order of parts in memory. A thread processes
 * neighbouring tiles, so it reads few long ranges of memory and prefetches what it reads next.
 * Where neighbouring outputs are neighbours in memory, as in GPTQ, tiles are as wide as
 * possible, as long as there are enough tiles for the threads. */
typedef struct few_cut {
    cut all;
    int64_t each; /* number of tiles of a group */
    int64_t active;
    few_digits digits;
    int32_t group[ACTIVE];
} few_cut;

static void few_tile(void *arg, int64_t t)
{
    const few_cut *c = arg;
    const mf_stored_gemm_args *g = c->all.g;
    const int64_t e = c->group[t / c->each];
    int64_t o0, end;
    const mf_stored_part *p = &g->w->part[e * g->w->parts + part_at(&c->all, t % c->each, &o0)];
    const int64_t r = rows_of(g, e, &end);
    few(g, p, e, r, end, o0, min64(o0 + c->all.unit, p->rows), &c->digits);
}

static void digits_tile(void *arg, int64_t r)
{
    const few_cut *c = arg;
    const mf_stored_gemm_args *g = c->all.g;
    int64_t ldx;
    MF_SIMD(stored_digits)
    (g->w->in, c->digits.nd, floats_of(g, r, 1, ROOM_FOR(g, 1), &ldx),
     c->digits.rows + r * c->digits.size);
}

static int64_t tiles_of(const mf_stored *w, int64_t unit)
{
    int64_t tiles = 0;
    for (int64_t q = 0; q < w->parts; q++)
        tiles += (w->part[q].rows + unit - 1) / unit;
    return tiles;
}

/* Whether each group has few rows, and few groups have rows; c then describes the tiles. amx:
 * considers only groups for which has_tiles is true. */
static bool cut_few(const mf_stored_gemm_args *g, int64_t threads, bool amx, few_cut *c)
{
    int64_t most = 0;
    int64_t wide = 0;
    *c = (few_cut){.all = {g, STRIPE, amx}};
    if (g->row) return false;
    for (int64_t e = 0; e < g->w->groups; e++) {
        int64_t end;
        const int64_t r = rows_of(g, e, &end);
        if (!has_tiles(&c->all, e)) continue;
        if (end - r > FEW || c->active == ACTIVE) return false;
        c->group[c->active++] = (int32_t)e;
        if (end - r > most) most = end - r;
        for (int64_t q = 0; q < g->w->parts; q++) {
            const mf_stored_part *p = &g->w->part[e * g->w->parts + q];
            const int nd = stored_digits_of(p, g->bf16);
            if (ways[p->type].across)
                wide = p->type == MF_STORED_GPTQ8 ? WIDEST : wide > 0 ? wide : WIDE;
            if (MF_SIMD(stored_takes_digits)(p, g->w->in) && nd > c->digits.nd)
                c->digits.nd = nd;
        }
    }
    if (wide > 0) c->all.unit = most > STORED_FEW ? MOST : most > 1 ? WIDE : wide;
    while (c->all.unit > MOST && c->active * tiles_of(g->w, c->all.unit) < 2 * threads)
        c->all.unit /= 2;
    c->each = tiles_of(g->w, c->all.unit);
    return true;
}

static void run_few(const mf_kctx *x, few_cut *c)
{
    const mf_stored_gemm_args *g = c->all.g;
    const int64_t size = MF_SIMD(stored_digits_size)(g->w->in), room = g->rows * size;
    zero_rest(g, 0, g->w->out);
    if (c->digits.nd > 0 && room <= DIGITS_ROOM) {
        c->digits.size = size;
        c->digits.rows = __builtin_alloca_with_align((size_t)room, 512);
        if (g->rows == 1)
            digits_tile(c, 0);
        else
            x->parallel(g->rows, digits_tile, c);
    }
    x->parallel(c->active * c->each, few_tile, c);
}

/* ---- y = x W^T, many rows of bf16, GPTQ ---- */

#if VL == 8 || (VL == 16 && defined(MF_HAVE_AVX512BF16))
#define PIECE 1024 /* number of outputs of a piece; their sums stay in the second cache */
_Static_assert(STORED_MANY *PIECE <= MF_ROOM_STORED_SIZE, "room for sums");

/* A piece is at most STORED_MANY rows of a group times a range of outputs of a part. Pieces are
 * assigned to tiles in turn, because groups differ in size. */
typedef struct many_cut {
    const mf_stored_gemm_args *g;
    int64_t widest, tiles;
} many_cut;

static bool all_have_spans(const mf_stored *w)
{
    for (int64_t i = 0; i < w->groups * w->parts; i++)
        if (w->part[i].type != MF_STORED_GPTQ4 || !stored_has_spans(&w->part[i])) return false;
    return true;
}

/* sum: in the layout that stored_many_gptq4 writes. */
static void put_many(const mf_stored_gemm_args *g, const mf_stored_part *p, int64_t e,
                     int64_t r0, int64_t rows, int64_t o0, int64_t o1, const float *sum)
{
    const float *bias = g->bias ? g->bias + e * g->w->out + p->first : NULL;
    for (int64_t o = o0; o < o1; o += STORED_COLUMNS)
        for (int64_t r = r0; r < r0 + rows; r++, sum += STORED_COLUMNS) {
            const int64_t end = min64(o + STORED_COLUMNS, o1);
            float *y = g->y + r * g->ldy + p->first;
            if (p->pairs) {
                put(g, p, e, r, o, end, sum);
                continue;
            }
            for (int64_t j = o; j < end; j += VL) {
                const int64_t n = min64(VL, end - j);
                vf v = g->alpha * v_load(sum + j - o);
                if (bias) v += v_load_to(bias + j, n);
                v_store_to(y + j, v, n);
            }
        }
}

static void many_piece(const mf_stored_gemm_args *g, const mf_stored_part *p, int64_t e,
                       int64_t r0, int64_t rows, int64_t o0, int64_t o1)
{
    float *sum = mf_cpu_room(MF_ROOM_STORED); /* [STORED_MANY * PIECE] */
    MF_SIMD(stored_many_gptq4)
    (p, g->w->in, o0, o1, rows, x_from(g, r0 * g->ldx), g->ldx, sum);
    put_many(g, p, e, r0, rows, o0, o1, sum);
}

/* Computes those pieces of `rows` rows of group e that are assigned to tile t; *piece counts
 * all pieces. Ranges of outputs are multiples of UNIT and nearly equal. */
static void many_outputs(const many_cut *c, int64_t t, int64_t e, int64_t r0, int64_t rows,
                         int64_t *piece)
{
    for (int64_t q = 0; q < c->g->w->parts; q++) {
        const mf_stored_part *p = &c->g->w->part[e * c->g->w->parts + q];
        const int64_t units = (p->rows + UNIT - 1) / UNIT,
                      ranges = (units * UNIT + c->widest - 1) / c->widest;
        for (int64_t k = 0; k < ranges; k++, ++*piece)
            if (*piece % c->tiles == t)
                many_piece(c->g, p, e, r0, rows, units * k / ranges * UNIT,
                           min64(units * (k + 1) / ranges * UNIT, p->rows));
    }
}

static void many_tile(void *arg, int64_t t)
{
    const many_cut *c = arg;
    int64_t piece = 0;
    for (int64_t e = 0; e < c->g->w->groups; e++) {
        int64_t end, r = rows_of(c->g, e, &end);
        for (int64_t left = (end - r + STORED_MANY - 1) / STORED_MANY; left > 0; left--) {
            const int64_t rows = (end - r + left - 1) / left;
            many_outputs(c, t, e, r, rows, &piece);
            r += rows;
        }
    }
}

/* Returns whether the gemm was computed. With more threads outputs are cut into
 * smaller ranges. */
static bool run_many(const mf_kctx *x, const mf_stored_gemm_args *g, int64_t threads)
{
    many_cut c = {.g = g, .widest = PIECE, .tiles = threads};
    const int64_t work = g->w->out * ((g->rows + STORED_MANY - 1) / STORED_MANY);
    if (g->back || !g->bf16 || g->row || !all_have_spans(g->w)) return false;
    if (VL == 16 && !__builtin_cpu_supports("avx512vnni")) return false;
    while (c.widest > BLOCK && work / c.widest < 6 * threads)
        c.widest /= 2;
    zero_rest(g, 0, g->w->out);
    x->parallel(c.tiles, many_tile, &c);
    return true;
}
#else
static bool run_many(const mf_kctx *x, const mf_stored_gemm_args *g, int64_t threads)
{
    (void)x, (void)g, (void)threads;
    return false;
}
#endif

/* ---- y = x W ---- */

static void add_back(const mf_stored_gemm_args *g, const mf_stored_part *p, int64_t r0,
                     int64_t r1, const block *b, bool first)
{
    for (int half = 0; half < (p->pairs ? 2 : 1); half++) {
        gemm_tile t = tile_of(g, r0, r1);
        int64_t at, n;
        t.b = side_of(p, b, half, false, &at, &n);
        t.a.at = x_from(g, at);
        t.a.end = t.k1 = n;
        t.j1 = t.cols = b->i1 - b->i0;
        t.c = g->y + r0 * g->ldy + b->i0;
        t.beta = first && half == 0 ? 0 : 1;
        run_tile(&t);
    }
}

static void back_group(const mf_stored_gemm_args *g, int64_t e, int64_t r0, int64_t r1,
                       int64_t i0, int64_t i1)
{
    float *room = mf_cpu_room(MF_ROOM_STORED); /* [ROWS * INPUTS] */
    bool first = true;                         /* stays true while parts have no rows */
    for (int64_t q = 0; q < g->w->parts; q++) {
        const mf_stored_part *p = &g->w->part[e * g->w->parts + q];
        const int64_t step = lies(p) ? p->rows : ROWS;
        for (int64_t o = 0; o < p->rows; o += step) {
            const block b = block_of(p, g->w->in, o, min64(o + step, p->rows), i0, i1, room);
            add_back(g, p, r0, r1, &b, first);
            first = false;
        }
    }
}

static void back(void *arg, int64_t t)
{
    const cut *c = arg;
    const mf_stored_gemm_args *g = c->g;
    const int64_t i0 = t * c->unit, i1 = min64(i0 + c->unit, g->w->in);
    int64_t end;
    for (int64_t e = 0; e < g->w->groups; e++) {
        const int64_t r = rows_of(g, e, &end);
        if (has_tiles(c, e)) back_group(g, e, r, end, i0, i1);
    }
    zero_rest(g, i0, i1);
}

/* ---- the kernels ---- */

stored_by_amx *MF_SIMD(stored_amx);

void MF_SIMD(stored_gemm)(const mf_kctx *x, const mf_stored_gemm_args *g)
{
    const mf_stored *w = g->w;
    const int64_t n = g->back ? w->in : w->out, threads = x->threads > 0 ? x->threads : 8;
    cut c = {.g = g, .amx = g->bf16 && MF_SIMD(stored_amx) != NULL};
    bool left = false;
    few_cut f;
    if (mf_kctx_failed(x) || g->rows <= 0) return;
    for (int64_t e = 0; e < w->groups; e++)
        left = left || has_tiles(&c, e);
    if (c.amx) MF_SIMD(stored_amx)(x, g);
    if (c.amx && !left) return;
    if (!g->back && cut_few(g, threads, c.amx, &f)) {
        run_few(x, &f);
        return;
    }
    if (!c.amx && run_many(x, g, threads)) return;
    c.unit = n / (6 * threads) / UNIT * UNIT;
    if (c.unit < BLOCK) c.unit = n / threads >= BLOCK ? BLOCK : UNIT;
    if (c.unit > MOST) c.unit = MOST;
    const int64_t tiles = g->back ? (n + c.unit - 1) / c.unit : tiles_of(w, c.unit);
    x->parallel(tiles, g->back ? back : forward, &c);
}

/* Writes n neighbouring rows of part p, from its row o on, to y. Types with columns unpack the
 * UNIT rows around them. */
static void unpack_rows(const mf_stored_part *p, int64_t in, int64_t o, int64_t n, float *y)
{
    float room[UNIT * UNIT] __attribute__((aligned(64)));
    const int64_t o0 = o / UNIT * UNIT, o1 = min64(o0 + UNIT, p->rows);
    if (!ways[p->type].across || o1 - o0 == n) {
        unpack(p, in, o, o + n, 0, in, y, in);
        return;
    }
    for (int64_t i = 0; i < in; i += UNIT) {
        const int64_t some = min64(UNIT, in - i);
        unpack(p, in, o0, o1, i, i + some, room, UNIT);
        for (int64_t r = 0; r < n; r++)
            memcpy(y + r * in + i, room + (o + r - o0) * UNIT, (size_t)some * sizeof *y);
    }
}

#define LOOKUPS UNIT

/* Rows that follow each other in a part are unpacked together, as far as UNIT allows. */
static void look_up(void *arg, int64_t t)
{
    const mf_stored_rows_args *l = arg;
    const mf_stored *w = l->w;
    const int64_t end = min64((t + 1) * LOOKUPS, l->count);
    for (int64_t r = t * LOOKUPS, n; r < end; r += n) {
        const int64_t id = l->ids ? l->ids[r] : r, j = id % w->out;
        const mf_stored_part *p = w->part + id / w->out * w->parts;
        while (j < p->first || j >= p->first + p->rows)
            p++;
        const int64_t at = j - p->first, half = p->rows / 2,
                      o = !p->pairs   ? at
                          : at < half ? 2 * at
                                      : 2 * (at - half) + 1,
                      most = p->pairs ? 1 : min64(UNIT - o % UNIT, p->rows - o);
        n = 1;
        while (n < most && r + n < end && (l->ids ? l->ids[r + n] : r + n) == id + n)
            n++;
        unpack_rows(p, w->in, o, n, l->y + r * w->in);
    }
}

void MF_SIMD(stored_rows)(const mf_kctx *x, const mf_stored_rows_args *args)
{
    mf_stored_rows_args l = *args;
    if (mf_kctx_failed(x)) return;
    x->parallel((l.count + LOOKUPS - 1) / LOOKUPS, look_up, &l);
}
