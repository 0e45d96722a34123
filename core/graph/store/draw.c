/* graph/store/draw.c: draws the initial values of parameters. Each parameter uses the random
 * stream of its name. */
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/store/param.h"

#include <math.h>
#include <string.h>

static void fill(float *out, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = value;
}

/* Number of values that a tile draws. Each value depends on its index alone, so tiles may run
 * in any order. Tiles run on several threads, because a model of 1.6 G parameters took over a
 * minute in one thread. */
enum { EACH = 1 << 16 };

typedef struct job {
    uint64_t seed, stream;
    float *out, scale, low;
    int64_t n;
    bool normal;
} job;

static void draw_tile(void *arg, int64_t tile)
{
    const job *j = arg;
    const int64_t from = tile * EACH, n = j->n - from < EACH ? j->n - from : EACH;
    float *out = j->out + from;
    (j->normal ? mf_rng_normals : mf_rng_uniforms)(j->seed, j->stream, 0, (uint64_t)from, out,
                                                   (size_t)n);
    for (int64_t i = 0; i < n; i++)
        out[i] = out[i] * j->scale - j->low;
}

static void draw_normal(const mf_param *p, uint64_t seed, float *out, int64_t n)
{
    job j = {.seed = seed,
             .stream = mf_rng_stream(p->name),
             .out = out,
             .scale = (float)p->init.a,
             .n = n,
             .normal = true};
    mf_parallel((n + EACH - 1) / EACH, draw_tile, &j);
}

static void draw_uniform(const mf_param *p, uint64_t seed, float *out, double bound)
{
    job j = {.seed = seed,
             .stream = mf_rng_stream(p->name),
             .out = out,
             .scale = (float)(2 * bound),
             .low = (float)bound,
             .n = p->count};
    mf_parallel((p->count + EACH - 1) / EACH, draw_tile, &j);
}

/* Returns fan_in. The last two dimensions are [fan_out, fan_in]. For a vector both are its
 * length, for a scalar both are 1. */
static double fan_in(const mf_param *p)
{
    return p->shape.rank > 0 ? (double)p->shape.dim[p->shape.rank - 1] : 1;
}

static double fan_out(const mf_param *p)
{
    return p->shape.rank > 1 ? (double)p->shape.dim[p->shape.rank - 2] : fan_in(p);
}

static void draw_rows_same(const mf_param *p, uint64_t seed, float *out)
{
    int64_t rows = p->shape.rank > 0 ? p->shape.dim[0] : 1, n = p->count / rows;
    draw_normal(p, seed, out, n);
    for (int64_t i = 1; i < rows; i++)
        memcpy(out + i * n, out, (size_t)n * sizeof *out);
}

static void draw_eye(const mf_param *p, float *out)
{
    const int64_t columns = (int64_t)fan_in(p), rows = (int64_t)fan_out(p);
    for (int64_t i = 0; i < p->count; i++)
        out[i] = i % columns - i / columns % rows == columns - rows ? (float)p->init.a : 0;
}

static void draw(const mf_param *p, uint64_t seed, float *out)
{
    switch ((mf_init_kind)p->init.kind) {
    case MF_INIT_ZERO:
        fill(out, p->count, 0);
        break;
    case MF_INIT_CONST:
        fill(out, p->count, (float)p->init.a);
        break;
    case MF_INIT_NORMAL:
        draw_normal(p, seed, out, p->count);
        break;
    case MF_INIT_UNIFORM:
        draw_uniform(p, seed, out, p->init.a);
        break;
    case MF_INIT_XAVIER: /* Glorot, Bengio 2010, eq. 16 */
        draw_uniform(p, seed, out, p->init.a * sqrt(6 / (fan_in(p) + fan_out(p))));
        break;
    case MF_INIT_KAIMING:
        draw_uniform(p, seed, out, p->init.a / sqrt(fan_in(p)));
        break;
    case MF_INIT_ROWS_SAME:
        draw_rows_same(p, seed, out);
        break;
    case MF_INIT_EYE:
        draw_eye(p, out);
        break;
    }
}

void mf_param_draw(const mf_param *p, uint64_t seed, float *out)
{
    if (!(p->init.flags & MF_PARAM_ALIKE) || p->shape.rank < 1 || p->count == 0) {
        draw(p, seed, out);
        return;
    }
    mf_param row = *p;
    const int64_t rows = p->shape.dim[0];
    row.count = p->count / rows;
    row.shape.rank--;
    for (int32_t i = 0; i < row.shape.rank; i++)
        row.shape.dim[i] = p->shape.dim[i + 1];
    draw(&row, seed, out);
    for (int64_t i = 1; i < rows; i++)
        memcpy(out + i * row.count, out, (size_t)row.count * sizeof *out);
}
