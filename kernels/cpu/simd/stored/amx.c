/* amx.c: many rows of bf16 times stored weights, with matrix registers (gemm/amx_tiles.h).
 *
 * A panel of 32 lanes of the weight is unpacked to planes of bf16 (planes.h), in the order in
 * which registers read it, and multiplied with all rows of x, which are packed before. Each sum
 * is one chain over the inner index, in blocks that depend on its length and on the weight
 * alone. So bits depend neither on the tiling nor on other rows.
 *
 * Planes have all bits of a weight, and x is not rounded, so only sums are rounded. With GPTQ4
 * the integers have one plane, and sums over a group of inputs are scaled. If groups are long,
 * this is faster than multiplying the two planes of weights. */
#define ENGINE_BF16 1
#define WORD_UNIT   16
#include "kernels/cpu/simd/gemm/amx_tiles.h"
#include "kernels/cpu/simd/stored/planes_four.h"
#include "kernels/cpu/simd/stored/stored.h"
#include "kernels/cpu/workspace.h"

/* number of words of packed rows: half of the second cache */
#define ROWS_ROOM 262144
#define DEEPEST   2048                  /* maximum number of inner indices at a time */
#define PANEL     (DEEPEST / 2 * LANES) /* number of words of a panel */
/* number of panels of GPTQ4 that are unpacked at a time */
#define SET 4
_Static_assert(ROWS_ROOM + SET * PANEL + DEEPEST / LONG_GROUP * SET * LANES <=
                   MF_ROOM_TILE_SIZE,
               "room for rows, lanes and scales");
/* lines that are prefetched for 16 words; more lines would have to wait */
#define LINES_MOST 8
#define UNPACK     24 /* number of rows whose sums take as long as unpacking a panel */

#if defined(MF_AMX_EMULATED)
stored_by_amx NAME(stored_gemm_amx);
#endif

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- a block: rows of x, panels of one part or of inputs ---- */

typedef struct block {
    const mf_stored_gemm_args *g;
    int64_t e, r0, r1;
    const mf_stored_part *p; /* forward: the part of the weight */
    int64_t n0, n1;          /* rows of the part; with `back`, inputs */
    float *rows;             /* packed rows of x, [ROWS_ROOM] */
    float *lanes;            /* [SET, PANEL] planes, or the panels of a set */
    float *scale;            /* GPTQ4: [groups, SET, LANES]; MXFP4: in the layout of fill_mx */
} block;

/* Adds sums [rows of a panel, LANES] to y. first: these outputs have no sums yet. */
static void add_sums(const block *b, const slice *s, int64_t r, int64_t mr, const float *sum,
                     bool first)
{
    const mf_stored_gemm_args *g = b->g;
    const bool apart = !s->back && s->p->pairs;
    for (int h = 0; h < 2; h++) {
        const int64_t n = apart ? s->width / 2 : min64(s->width - h * VL, VL),
                      at = s->back ? s->n + h * VL
                                   : mf_stored_output(s->p, s->n + (apart ? h : h * VL));
        vf bias = {0};
        if (n <= 0) continue;
        if (first && g->bias) bias = v_load_to(g->bias + b->e * g->w->out + at, n);
        for (int64_t i = 0; i < mr; i++) {
            float *y = g->y + (r + i) * g->ldy + at;
            vf v = v_fma(v_set(g->alpha), v_load(sum + i * LANES + h * VL), bias);
            if (!first) v += v_load_to(y, n);
            v_store_to(y, v, n);
        }
    }
}

/* ---- a slice ---- */

/* Whether the integers of GPTQ4 are multiplied, and their sums are scaled and added. */
V_INLINE bool in_groups(const slice *s)
{
    return !s->back && has_long_groups(s->p);
}

/* Unpacks a slice of one panel, or of a set of panels if in_groups is true. Outputs are
 * neighbours in the file, so a group of inputs is unpacked for all panels of a set before the
 * next group. */
static void unpack(const block *b, const slice *s)
{
    if (!in_groups(s)) {
        if (s->back || s->p->type != MF_STORED_MXFP4 ||
            !fill_mx(s, (uint32_t *)b->scale, b->lanes))
            fill_planes(s, b->lanes, PANEL);
        return;
    }
    for (int64_t k = s->k0, end, g = 0; k < s->k1; k = end, g++) {
        end = group_end(s->p, k, s->k1);
        /* the next inputs, or the next set of panels */
        const uint32_t *ahead =
            (const uint32_t *)s->p->data + s->n +
            (end < s->k1 ? end / 8 * s->p->rows : s->k0 / 8 * s->p->rows + s->width);
        for (int64_t q = 0; q * LANES < s->width; q++) {
            slice one = *s;
            one.n += q * LANES;
            one.width = min64(s->width - q * LANES, LANES);
            one.k0 = k;
            one.k1 = end;
            fill_integers(&one, ahead + q * LANES,
                          b->lanes + q * PANEL + (k - s->k0) / 2 * LANES,
                          b->scale + (g * SET + q) * LANES);
        }
    }
}

/* Adds the sums of a row panel times all planes of a panel. */
static void add_planes(const slice *s, panels p, float *sum)
{
    clear_sums();
    for (int q = 0; q < planes_of(s->p->type); q++, p.lanes += 4 * PANEL)
        add_packed(&p);
    store_sums(sum, LANES);
}

/* Adds the sums of integers of each group, after scaling. */
static void add_groups(const slice *s, panels p, const float *scale, float *sum)
{
    float some[ROW_PANEL * LANES] __attribute__((aligned(64)));
    const char *rows = p.rows, *lanes = p.lanes;
    for (int64_t k = s->k0, end; k < s->k1; k = end, scale += SET * LANES) {
        const int64_t at = (k - s->k0) / 2;
        end = group_end(s->p, k, s->k1);
        p.words = words_of(k, end);
        p.rows = rows + 4 * at * ROW_PANEL;
        p.lanes = lanes + 4 * at * LANES;
        clear_sums();
        add_packed(&p);
        store_sums(some, LANES);
        const vf u = v_load(scale), v = v_load(scale + VL);
        for (int64_t i = 0; i < (p.more_rows ? ROW_PANEL : TILE_ROWS); i++) {
            float *to = sum + i * LANES;
            const vf x = v_load(some + i * LANES), y = v_load(some + i * LANES + VL);
            v_store(to, k > s->k0 ? v_fma(x, u, v_load(to)) : x * u);
            v_store(to + VL, k > s->k0 ? v_fma(y, v, v_load(to + VL)) : y * v);
        }
    }
}

/* Returns the panel behind a slice for prefetch, if its bytes follow the slice's bytes in the
 * file. So memory is read while registers are multiplied. *ret_bytes: its size; 0: there is no
 * such panel. */
static const char *next_panel(const block *b, const slice *s, int64_t *ret_bytes)
{
    const mf_stored_part *p = s->p;
    const int64_t at = s->n + s->width;
    *ret_bytes = 0;
    if (s->back || at >= b->n1 || !lanes_are_rows(s)) return (const char *)b->lanes;
    const int64_t row = p->type == MF_STORED_MXFP4 ? s->in / 2
                        : p->type == MF_STORED_F32 ? 4 * p->ld
                                                   : 2 * p->ld;
    *ret_bytes = row * min64(b->n1 - at, LANES);
    return (const char *)p->data + at * row;
}

/* Multiplies all rows of the block with panel q of a slice. */
static void multiply(const block *b, const slice *s, int64_t q, bool first)
{
    float sum[ROW_PANEL * LANES] __attribute__((aligned(64)));
    const int64_t words = words_of(s->k0, s->k1);
    slice one = *s;
    one.n += q * LANES;
    one.width = min64(s->width - q * LANES, LANES);
    int64_t bytes = 0;
    const char *ahead = next_panel(b, s, &bytes);
    const int64_t calls = div_up(b->r1 - b->r0, ROW_PANEL) * planes_of(s->p->type),
                  lines =
                      min64(div_up(div_up(bytes, 64), calls * words / TILE_WORDS), LINES_MOST);
    fetcher soon = {ahead, ahead + bytes, bytes, 0, lines, div_up(bytes, 64)};
    for (int64_t r = b->r0; r < b->r1; r += ROW_PANEL) {
        const int64_t mr = min64(b->r1 - r, ROW_PANEL);
        const panels p = {.rows = (const char *)(b->rows + (r - b->r0) * words),
                          .lanes = (const char *)(b->lanes + q * PANEL),
                          .soon = &soon,
                          .ldv = LANES,
                          .words = words,
                          .more_rows = mr > TILE_ROWS,
                          .more_lanes = one.width > VL || (!s->back && s->p->pairs)};
        if (in_groups(s))
            add_groups(s, p, b->scale + q * LANES, sum);
        else
            add_planes(s, p, sum);
        add_sums(b, &one, r, mr, sum, first);
    }
}

/* Multiplies columns c .. c + k1 - k0 - 1 of x with inner indices k0 .. k1 - 1 of a part. */
static void run_depth(const block *b, const mf_stored_part *p, int half, int64_t c, int64_t k0,
                      int64_t k1, bool first)
{
    const mf_stored_gemm_args *g = b->g;
    const gemm_side x = {.at = (const uint16_t *)g->x + c,
                         .type = MF_CAST_BF16,
                         .ld = g->ldx,
                         .along = true,
                         .index = g->row,
                         .end = k1 - k0};
    pack_rows(&x, b->r0, b->r1, 0, k1 - k0, b->rows);
    const int64_t step = !g->back && has_long_groups(p) ? SET * LANES : LANES;
    for (int64_t n = b->n0; n < b->n1; n += step) {
        const slice s = {p, g->w->in, g->back, half, n, min64(b->n1 - n, step), k0, k1};
        unpack(b, &s);
        for (int64_t q = 0; q * LANES < s.width; q++)
            multiply(b, &s, q, first);
    }
}

/* Processes all inner indices; with `back` these are the rows of all parts of the group. */
static void run_block(const block *b)
{
    const mf_stored *w = b->g->w;
    bool first = true;
    for (int64_t k = 0; !b->g->back && k < w->in; k += DEEPEST) {
        run_depth(b, b->p, 0, k, k, min64(k + DEEPEST, w->in), first);
        first = false;
    }
    for (int64_t q = 0; b->g->back && q < w->parts; q++) {
        const mf_stored_part *p = &w->part[b->e * w->parts + q];
        const int64_t halves = p->pairs ? 2 : 1, n = p->rows / halves;
        for (int h = 0; h < halves; h++)
            for (int64_t k = 0; k < n; k += DEEPEST) {
                run_depth(b, p, h, mf_stored_output(p, h) + k, k, min64(k + DEEPEST, n), first);
                first = false;
            }
    }
}

/* ---- tiles ---- */

/* The panels of all groups are in a fixed order, each with all its rows, or with as many rows
 * as fit into the work memory. A tile has a range of this order. The ends of the ranges are
 * chosen so that tiles take the same time. */
typedef struct cut {
    const mf_stored_gemm_args *g;
    int64_t most; /* maximum number of rows of a block, a multiple of ROW_PANEL */
    int64_t tiles;
    double all; /* sum of the costs of all panels */
} cut;

static double panel_cost(int64_t rows)
{
    return (double)(div_up(rows, TILE_ROWS) * TILE_ROWS + UNPACK);
}

/* Calls run_block for the panels between costs `from` and `to` of one part, or of inputs. *at
 * is the cost of all panels before these, to which the function adds their own cost. */
static void run_part(block *b, int64_t lanes, double from, double to, double *at)
{
    const int64_t count = div_up(lanes, LANES);
    const double each = panel_cost(b->r1 - b->r0), before = *at;
    /* a panel belongs to the tile in whose range it begins */
    int64_t p0 = (int64_t)ceil((from - before) / each),
            p1 = (int64_t)ceil((to - before) / each);
    *at += each * (double)count;
    p0 = p0 < 0 ? 0 : p0;
    p1 = min64(p1, count);
    if (p0 >= p1) return;
    b->n0 = p0 * LANES;
    b->n1 = min64(p1 * LANES, lanes);
    run_block(b);
}

/* Runs the panels between costs `from` and `to`. Returns the cost of all panels. */
static double run_range(const cut *c, block *b, double from, double to)
{
    const mf_stored *w = c->g->w;
    double at = 0;
    for (int64_t e = 0; e < w->groups; e++) {
        if (!stored_amx_pays(c->g, e)) continue;
        const int64_t r0 = c->g->offset ? c->g->offset[e] : 0,
                      r1 = c->g->offset ? c->g->offset[e + 1] : c->g->rows;
        const int64_t blocks = div_up(r1 - r0, c->most),
                      each =
                          blocks ? div_up(div_up(r1 - r0, blocks), TILE_ROWS) * TILE_ROWS : 1;
        for (b->r0 = r0; b->r0 < r1; b->r0 = b->r1) {
            b->r1 = min64(b->r0 + each, r1);
            b->e = e;
            for (int64_t q = 0; q < (c->g->back ? 1 : w->parts); q++) {
                b->p = &w->part[e * w->parts + q];
                run_part(b, c->g->back ? w->in : b->p->rows, from, to, &at);
            }
        }
    }
    return at;
}

static void tile(void *arg, int64_t t)
{
    float *rows = mf_cpu_room(MF_ROOM_TILE), *lanes = rows + ROWS_ROOM,
          *scale = lanes + SET * PANEL; /* [DEEPEST / LONG_GROUP * SET * LANES] */
    const cut *c = arg;
    block b = {.g = c->g, .rows = rows, .lanes = lanes, .scale = scale};
    const double share = c->all / (double)c->tiles;
    tiles_begin();
    run_range(c, &b, (double)t * share, (double)(t + 1) * share);
    tiles_end();
}

static void zero_rows(const mf_stored_gemm_args *g, int64_t r0, int64_t r1)
{
    for (int64_t r = r0; r < r1; r++)
        memset(g->y + r * g->ldy, 0, (size_t)(g->back ? g->w->in : g->w->out) * sizeof *g->y);
}

void NAME(stored_gemm_amx)(const mf_kctx *x, const mf_stored_gemm_args *g)
{
    const mf_stored *w = g->w;
    int64_t k = g->back ? 0 : w->in;
    for (int64_t q = 0; g->back && q < w->parts; q++)
        if (w->part[q].rows > k) k = w->part[q].rows;
    const int64_t words = words_of(0, min64(k, DEEPEST));
    cut c = {.g = g,
             .most = ROWS_ROOM / (words > 0 ? words : 1) / ROW_PANEL * ROW_PANEL,
             .tiles = x->threads > 0 ? x->threads : 8};
    block none = {.g = g};
    c.all = run_range(&c, &none, 0, 0);
    if (g->offset) {
        zero_rows(g, 0, g->offset[0]);
        zero_rows(g, g->offset[w->groups], g->rows);
    }
    x->parallel(c.tiles, tile, &c);
}
