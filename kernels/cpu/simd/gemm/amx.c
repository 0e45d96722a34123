/* amx.c: tiles of bf16 gemms for processors with matrix registers (Intel AMX), which hold 16
 * rows of 16 words and multiply 16 x 16 x 32 elements at a time.
 *
 * amx_pack.h defines words, row panels and lane panels. Panels of one side stay in the second
 * cache; panels of the other side are read once for each set of panels that stay (amx_cost.h).
 *
 * If the gemm is crossed, b is on the rows side, and the result is transposed. This is faster
 * if b has few rows, because rows take less time to pack than lanes. */
#define ENGINE_BF16 1
#define WORD_UNIT   16
#include "kernels/cpu/simd/gemm/amx_cost.h"
#include "kernels/cpu/simd/gemm/amx_tiles.h"
#include "kernels/cpu/workspace.h"

/* number of words of the panels that do not stay */
#define PASS (4 * AMX_DEEP * ROW_PANEL)
/* up to this number of lanes, rows are read in place */
#define FEW_LANES 96
/* elements of the f32 sums of c, if c is bf16 and the inner index long */
#define SUMS MF_ROOM_SUMS_SIZE

_Static_assert(AMX_STAY + PASS <= MF_ROOM_TILE_SIZE, "room for panels");

#if defined(MF_AMX_EMULATED)
bool NAME(gemm_tile_amx)(const gemm_tile *b);
bool NAME(gemm_amx_works)(void);
double NAME(multiply_tiles)(int64_t rounds);
#endif

/* ---- a tile of c ---- */

typedef struct work {
    const gemm_tile *b;
    const gemm_side *row, *lane;
    amx_way way;
    int64_t r0, r1, l0, l1; /* limits of the tile, on the side of rows and of lanes */
    int64_t k0, k1;         /* the present inner indices */
    fetcher soon;
} work;

static work work_of(const gemm_tile *b)
{
    amx_way way = {0};
    if (!b->b.packed)
        amx_cycles(b->a.along, b->b.along, (double)(b->i1 - b->i0), (double)(b->j1 - b->j0),
                   (double)(b->k1 - b->k0), &way);
    return (work){.b = b,
                  .row = way.crossed ? &b->b : &b->a,
                  .lane = way.crossed ? &b->a : &b->b,
                  .way = way,
                  .r0 = way.crossed ? b->j0 : b->i0,
                  .r1 = way.crossed ? b->j1 : b->i1,
                  .l0 = way.crossed ? b->i0 : b->j0,
                  .l1 = way.crossed ? b->i1 : b->j1};
}

/* Writes the sums of rows i .. i + mr - 1 and lanes j .. j + width - 1 to c. */
static void put_sums(const work *w, int64_t i, int64_t mr, int64_t j, int64_t width)
{
    const gemm_tile *b = w->b;
    const bool first = w->k0 == b->k0;
    if (mr == ROW_PANEL && width == LANES && !w->way.crossed && b->type_c == MF_CAST_F32 &&
        first && b->alpha == 1 && b->beta == 0 && b->bias == NULL) {
        store_sums(place(b, i, j), b->ldc);
        return;
    }
    float sums[ROW_PANEL * LANES] __attribute__((aligned(64)));
    store_sums(sums, LANES);
    if (!w->way.crossed) {
        put_tile(b, false, i, (int)mr, j, width, sums, first);
        return;
    }
    for (int64_t r = 0; r < mr; r += VL)
        put_tile(b, true, i + r, (int)(mr - r < VL ? mr - r : VL), j, width, sums + r * LANES,
                 first);
}

/* Whether row panels are read in place, as whole registers of 16 rows and words. They are
 * multiplied with few lanes, so copying them would take longer. */
static bool rows_in_place(const work *w)
{
    return w->l1 - w->l0 <= FEW_LANES && rows_lie(w->row, false, w->k1 - w->k0) &&
           (w->r1 - w->r0) % TILE_ROWS == 0 && (w->k1 - w->k0) % DEEP == 0;
}

/* Multiplies rows i .. iend - 1 with lanes j .. jend - 1, at most 32 of each. rows: the packed
 * rows; NULL if rows are read in place. */
static void run_panels(work *w, int64_t i, int64_t iend, int64_t j, int64_t jend,
                       const float *rows, const float *lanes)
{
    const int64_t mr = iend - i < ROW_PANEL ? iend - i : ROW_PANEL,
                  width = jend - j < LANES ? jend - j : LANES;
    const panels p = {
        .rows = rows != NULL ? (const char *)rows : at_element(w->row, i, w->k0),
        .lanes = (const char *)lanes,
        .ld = rows != NULL ? 0 : 2 * w->row->ld,
        .ldv = LANES,
        .words = words_of(w->k0, w->k1),
        .more_rows = mr > TILE_ROWS,
        .more_lanes = width > 16,
        .rows_far = w->way.rows_stay,
        .soon = &w->soon,
    };
    clear_sums();
    if (rows == NULL)
        add_in_place(&p);
    else
        add_packed(&p);
    put_sums(w, i, mr, j, width);
}

/* Multiplies rows i0 .. i1 - 1 with lanes j0 .. j1 - 1, which are packed. rows: the packed
 * rows; NULL if rows are read in place. */
static void run_block(work *w, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                      const float *rows, const float *lanes)
{
    const int64_t words = words_of(w->k0, w->k1);
#define ROWS_AT(i) (rows != NULL ? rows + ((i)-i0) * words : NULL)
    if (w->way.rows_stay)
        for (int64_t j = j0; j < j1; j += LANES)
            for (int64_t i = i0; i < i1; i += ROW_PANEL)
                run_panels(w, i, i1, j, j1, ROWS_AT(i), lanes + (j - j0) * words);
    else
        for (int64_t i = i0; i < i1; i += ROW_PANEL)
            for (int64_t j = j0; j < j1; j += LANES)
                run_panels(w, i, i1, j, j1, ROWS_AT(i), lanes + (j - j0) * words);
#undef ROWS_AT
}

/* Packs rows or lanes from .. to - 1. */
static void pack_side(const work *w, bool rows, int64_t from, int64_t to, float *out)
{
    if (rows)
        pack_rows(w->row, from, to, w->k0, w->k1, out);
    else
        pack_lanes(w->lane, from, to, w->k0, w->k1, out);
}

/* Plans to prefetch rows or lanes from .. to - 1 while `calls` pairs of panels
 * are multiplied. */
static void plan_ahead(work *w, bool rows, int64_t from, int64_t to, int64_t calls)
{
    const gemm_side *s = rows ? w->row : w->lane;
    const int64_t size = s->type == MF_CAST_F32 ? 4 : 2, length = (w->k1 - w->k0) * size,
                  lines = (to - from) * div_up(length, 64);
    w->soon = (fetcher){0};
    if (from >= to || !s->along || s->index != NULL) return;
    w->soon.at = at_element(s, from, w->k0);
    w->soon.end = w->soon.at + length;
    w->soon.length = length;
    w->soon.gap = s->ld * size - length;
    w->soon.left = lines;
    w->soon.lines = div_up(lines, calls * (words_of(w->k0, w->k1) / TILE_WORDS));
}

/* Multiplies all rows and lanes over the inner indices k0 .. k1 - 1. An operand that is stored
 * across the inner index is packed several panels at a time, because each stored row may be on
 * a page of its own. stay [AMX_STAY] and pass [PASS] are work memory. */
static void run_unpacked(work *w, int64_t k0, int64_t k1, float *stay, float *pass)
{
    const bool rows_stay = w->way.rows_stay;
    const int64_t words = words_of(k0, k1), fit = PASS / words / LANES,
                  first = rows_stay ? w->r0 : w->l0, end = rows_stay ? w->r1 : w->l1,
                  begin = rows_stay ? w->l0 : w->r0, last = rows_stay ? w->l1 : w->r1,
                  sets = div_up(end - first, amx_stay(words)),
                  set = div_up(div_up(end - first, sets), LANES) * LANES,
                  step = (rows_stay ? w->lane : w->row)->along ? LANES
                                                               : LANES * (fit < 8 ? fit : 8);
    w->k0 = k0;
    w->k1 = k1;
    if (rows_in_place(w)) {
        pack_side(w, false, w->l0, w->l1, stay);
        run_block(w, w->r0, w->r1, w->l0, w->l1, NULL, stay);
        return;
    }
    for (int64_t s = first; s < end; s += set) {
        const int64_t send = s + set < end ? s + set : end;
        pack_side(w, rows_stay, s, send, stay);
        for (int64_t t = begin; t < last; t += step) {
            const int64_t tend = t + step < last ? t + step : last;
            pack_side(w, !rows_stay, t, tend, pass);
            plan_ahead(w, !rows_stay, tend, tend + step < last ? tend + step : last,
                       div_up(send - s, LANES));
            if (rows_stay)
                run_block(w, s, send, t, tend, stay, pass);
            else
                run_block(w, t, tend, s, send, pass, stay);
        }
    }
}

/* ---- packed weights ---- */

/* The panels of packed.h are lane panels, up to the last whole 16 words. A panel is read from
 * memory for the first rows, and from the cache for all other rows, because all rows are
 * packed before. */

/* Copies the words of a panel behind its last whole 16 words, followed by zeros. */
static void pack_tail(const float *panel, int64_t width, int64_t words, float *to)
{
    memset(to, 0, TILE_WORDS * LANES * sizeof *to);
    for (int64_t q = 0; q < words; q++)
        memcpy(to + q * LANES, panel + q * width, (size_t)width * sizeof *to);
}

static void run_panel(work *w, int64_t i0, int64_t i1, int64_t j, int64_t width,
                      const float *panel, const float *rows)
{
    const int64_t words = (w->k1 - w->k0) / 2, whole = words / TILE_WORDS * TILE_WORDS,
                  size = words_of(w->k0, w->k1) * ROW_PANEL, calls = div_up(i1 - i0, ROW_PANEL);
    float tail[TILE_WORDS * LANES] __attribute__((aligned(64)));
    panels p = {.ldv = width, .words = whole, .more_lanes = width > 16, .soon = &w->soon};
    /* the next panel is prefetched while all rows are multiplied with this panel */
    const char *next = (const char *)(panel + words * width);
    const int64_t bytes = 4 * words * width;
    w->soon = (fetcher){next, next + bytes, bytes, 0, div_up(width, calls), bytes / 64};
    if (whole < words) pack_tail(panel + whole * width, width, words - whole, tail);
    for (int64_t i = i0; i < i1; i += ROW_PANEL, rows += size) {
        const int64_t mr = i1 - i < ROW_PANEL ? i1 - i : ROW_PANEL;
        p.rows = (const char *)rows;
        p.lanes = (const char *)panel;
        p.more_rows = mr > TILE_ROWS;
        clear_sums();
        add_packed(&p);
        if (whole < words) {
            const panels rest = {.rows = (const char *)(rows + whole * ROW_PANEL),
                                 .lanes = (const char *)tail,
                                 .ldv = LANES,
                                 .soon = &w->soon,
                                 .words = TILE_WORDS,
                                 .more_rows = p.more_rows,
                                 .more_lanes = p.more_lanes};
            add_packed(&rest);
        }
        put_sums(w, i, mr, j, width);
    }
}

static void run_packed(work *w, int64_t k0, int64_t k1, float *rows)
{
    const int64_t size = words_of(k0, k1) * ROW_PANEL, step = AMX_STAY / size * ROW_PANEL;
    w->k0 = k0;
    w->k1 = k1;
    for (int64_t i = w->r0; i < w->r1; i += step) {
        const int64_t end = i + step < w->r1 ? i + step : w->r1;
        pack_rows(w->row, i, end, k0, k1, rows);
        for (int64_t j = w->l0; j < w->l1; j += LANES) {
            const int64_t width = w->l1 - j < LANES ? w->l1 - j : LANES;
            const float *panel = at_element(w->lane, j, 0);
            run_panel(w, i, end, j, width, panel + k0 / 2 * width, rows);
        }
    }
}

/* ---- the whole inner index ---- */

static void run_all(const gemm_tile *b)
{
    float *stay = mf_cpu_room(MF_ROOM_TILE), *pass = stay + AMX_STAY;
    work w = work_of(b);
    tiles_begin();
    for (int64_t k = b->k0; k < b->k1; k += 2 * AMX_DEEP) {
        const int64_t end = k + 2 * AMX_DEEP < b->k1 ? k + 2 * AMX_DEEP : b->k1;
        if (b->b.packed)
            run_packed(&w, k, end, stay);
        else
            run_unpacked(&w, k, end, stay, pass);
    }
    tiles_end();
}

/* Computes sums over more than AMX_DEEP words, which must not be rounded to bf16 in between. */
static void __attribute__((noinline)) run_rounding(const gemm_tile *b)
{
    float *sums = mf_cpu_room(MF_ROOM_SUMS);
    const int64_t across = b->j1 - b->j0 < 512 ? b->j1 - b->j0 : 512, down = SUMS / across;
    gemm_tile part = *b;
    part.c = sums;
    part.type_c = MF_CAST_F32;
    part.ldc = across;
    part.alpha = 1;
    part.beta = 0;
    part.bias = NULL;
    for (int64_t j = b->j0; j < b->j1; j += across)
        for (int64_t i = b->i0; i < b->i1; i += down) {
            part.i0 = i;
            part.i1 = i + down < b->i1 ? i + down : b->i1;
            part.j0 = j;
            part.j1 = j + across < b->j1 ? j + across : b->j1;
            run_all(&part);
            for (int64_t r = i; r < part.i1; r++)
                for (int64_t l = j; l < part.j1; l += VL)
                    put(b, r, l, part.j1 - l,
                        numbers(MF_CAST_F32, sums + (r - i) * across + l - j, part.j1 - l),
                        true);
        }
}

bool NAME(gemm_tile_amx)(const gemm_tile *b)
{
    const int64_t words = words_of(b->k0, b->k1);
    if (words == 0) return false;
    if (b->type_c == MF_CAST_F32 || words <= AMX_DEEP)
        run_all(b);
    else
        run_rounding(b);
    return true;
}

/* ---- the rate of the instruction ---- */

/* Six sums hide the latency of 52 cycles, where an instruction starts every 16. */
double NAME(multiply_tiles)(int64_t rounds)
{
    tiles_begin();
    clear_sums(); /* registers 0 to 3 */
    TILE_ZERO(4);
    TILE_ZERO(5);
    TILE_ZERO(6);
    TILE_ZERO(7);
    for (int64_t r = 0; r < rounds; r++) {
        TILE_DOT(0, 6, 7);
        TILE_DOT(1, 6, 7);
        TILE_DOT(2, 6, 7);
        TILE_DOT(3, 6, 7);
        TILE_DOT(4, 6, 7);
        TILE_DOT(5, 6, 7);
    }
    tiles_end();
    return 6 * 2.0 * 16 * 16 * 32 * (double)rounds;
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
