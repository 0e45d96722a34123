/* train/optim/muon.c: Muon (Jordan et al. 2024): Nesterov's momentum, made nearly orthogonal
 * by five Newton-Schulz iterations, for the matrices of blocks. Embeddings, heads, norms,
 * biases, routers and adapters are updated by AdamW.
 *
 * X <- a X + (b A + c A A) X with A = X X^T, from X = u / |u|. For a matrix with more rows
 * than columns, A = X^T X multiplies from the other side, which has the same result.
 * Everything is f32 and computed by the gemms of the set, so the bits do not depend on the
 * number of threads. */
#include <math.h>
#include <string.h>
#include "train/optim/method.h"

enum { ITERATIONS = 5 };
static const float coefficient[3] = {3.4445f, -4.775f, 2.0315f};

/* The matrices of a pass, and its work memory. */
typedef struct {
    int64_t groups, rows, columns, n, side; /* n = rows columns; side: the smaller of rows
                                             * and columns */
    float *x, *y;                           /* [groups,rows,columns] */
    float *a, *b;                           /* [groups,side,side] */
} pass;

static bool whole(const mf_param *p)
{
    const char *dot = strncmp(p->name, "layers.", 7) == 0 ? strchr(p->name + 7, '.') : NULL;
    mf_matrices m;
    if (!dot || p->adapter || p->init.flags & MF_PARAM_NO_DECAY) return false;
    if (strncmp(dot, ".router", 7) == 0 || !mf_optim_matrices(p, 0, &m)) return false;
    return m.rows > 1 && m.columns > 1;
}

static int64_t aligned(int64_t elements)
{
    return (elements + 15) / 16 * 16;
}

/* Returns the number of elements of x or y; the next function does so for a or b. */
static int64_t size_of_x(const mf_matrices *all)
{
    return aligned(mf_optim_groups(all) * all->rows * all->columns);
}

static int64_t size_of_a(const mf_matrices *all)
{
    const int64_t side = all->rows < all->columns ? all->rows : all->columns;
    return aligned(mf_optim_groups(all) * side * side);
}

static size_t work(const mf_matrices *all)
{
    return (size_t)(2 * (size_of_x(all) + size_of_a(all))) * sizeof(float);
}

static pass pass_of(const mf_matrices *all, void *memory)
{
    float *x = memory;
    return (pass){.groups = mf_optim_groups(all),
                  .rows = all->rows,
                  .columns = all->columns,
                  .n = all->rows * all->columns,
                  .side = all->rows < all->columns ? all->rows : all->columns,
                  .x = x,
                  .y = x + size_of_x(all),
                  .a = x + 2 * size_of_x(all),
                  .b = x + 2 * size_of_x(all) + size_of_a(all)};
}

static mf_gemm_operand operand(const float *data, int64_t rows, int64_t columns, bool trans)
{
    return (mf_gemm_operand){
        .data = data, .ld = columns, .step = rows * columns, .trans = trans};
}

static void multiply(const mf_optim_launch *l, int64_t groups, int64_t inner, float alpha,
                     float beta, mf_gemm_operand a, mf_gemm_operand b, float *c, int64_t m,
                     int64_t n)
{
    const mf_gemm g = {.m = m,
                       .n = n,
                       .k = inner,
                       .a = a,
                       .b = b,
                       .c = {.data = c, .ld = n, .step = m * n},
                       .alpha = alpha,
                       .beta = beta,
                       .by = MF_BY_BATCH,
                       .groups = groups};
    l->k->gemm(&l->x, &g);
}

/* Makes the matrices at p->x nearly orthogonal; the result is at p->x. */
static void orthogonalize(const mf_optim_launch *l, pass *p)
{
    const bool wide = p->rows <= p->columns;
    const int64_t s = p->side, g = p->groups;
    const mf_norm_args unit = {
        .kind = MF_NORM_FN_L2, .rows = g, .n = p->n, .eps = 1e-7f, .a = p->x, .y = p->y};
    l->k->norm(&l->x, &unit);
    for (int i = 0; i < ITERATIONS; i++) {
        float *x = p->y, *next = p->x;
        multiply(l, g, wide ? p->columns : p->rows, 1, 0,
                 operand(x, p->rows, p->columns, !wide), operand(x, p->rows, p->columns, wide),
                 p->a, s, s);
        MF_RUN(l->k, &l->x, map1, .fn = MF_MAP_AFFINE, .type = MF_CAST_F32, .n = g * s * s,
               .a = coefficient[1], .b = 0, .in = p->a, .out = p->b);
        multiply(l, g, s, coefficient[2], 1, operand(p->a, s, s, false),
                 operand(p->a, s, s, false), p->b, s, s);
        MF_RUN(l->k, &l->x, map1, .fn = MF_MAP_AFFINE, .type = MF_CAST_F32, .n = g * p->n,
               .a = coefficient[0], .b = 0, .in = x, .out = next);
        if (wide)
            multiply(l, g, s, 1, 1, operand(p->b, s, s, false),
                     operand(x, p->rows, p->columns, false), next, p->rows, p->columns);
        else
            multiply(l, g, s, 1, 1, operand(x, p->rows, p->columns, false),
                     operand(p->b, s, s, false), next, p->rows, p->columns);
        p->x = x;
        p->y = next;
    }
    p->x = p->y;
}

/* The part of a pass that is not frozen. The offset of the moment differs from the offset of
 * the value. */
typedef struct {
    int64_t from; /* first element of the pass */
    float *u;
    double scale;
} part;

static void take_momentum(const mf_optim_launch *l, const mf_optim_range *r, int64_t first,
                          int64_t count, void *arg)
{
    const part *a = arg;
    mf_update_args args = mf_optim_args(l, r);
    args.beta1 = l->config->momentum;
    MF_RUN(l->k, &l->x, momentum, .count = count, .update = args, .grad = l->grad + first,
           .m = mf_optim_moment(l, r, 0) + (first - r->first), .u = a->u + (first - a->from));
}

static void take_step(const mf_optim_launch *l, const mf_optim_range *r, int64_t first,
                      int64_t count, void *arg)
{
    const part *a = arg;
    mf_update_args args = mf_optim_args(l, r);
    if (l->config->muon_lr > 0 && l->config->lr > 0)
        args.lr_scale *= l->config->muon_lr / l->config->lr;
    MF_RUN(l->k, &l->x, descend, .count = count, .update = args, .scale = a->scale,
           .u = a->u + (first - a->from), .value = l->value + first,
           .copy = l->copy ? l->copy + first : NULL);
}

/* Returns the factor of the orthogonal step. It is 0.2 sqrt(max(rows, columns)), with which the
 * step has the mean square of an AdamW step (Liu et al. 2025, section 2.2). With
 * train.muon_scale = original it is sqrt(max(1, rows / columns)). */
static double step_scale(const mf_train_config *c, int64_t rows, int64_t columns)
{
    const double a = (double)rows, b = (double)columns;
    if (c->muon_scale == MF_MUON_ORIGINAL) return sqrt(fmax(1, a / b));
    return 0.2 * sqrt(fmax(a, b));
}

static void param(const mf_optim_launch *l, const mf_param *p, const mf_optim_range *r, int n)
{
    mf_matrices all;
    for (int i = 0; mf_optim_matrices(p, i, &all); i++) {
        const int64_t most = mf_optim_groups(&all);
        for (int64_t at = 0; at < all.groups; at += most) {
            pass q = pass_of(&all, l->work);
            if (q.groups > all.groups - at) q.groups = all.groups - at;
            const int64_t count = q.groups * q.n;
            part a = {.from = p->offset + all.first + at * q.n,
                      .u = q.x,
                      .scale = step_scale(l->config, q.rows, q.columns)};
            if (!mf_optim_parts(l, r, n, a.from, count, NULL, NULL))
                MF_RUN(l->k, &l->x, set, .n = count, .value = 0, .out = q.x);
            mf_optim_parts(l, r, n, a.from, count, take_momentum, &a);
            orthogonalize(l, &q);
            a.u = q.x;
            mf_optim_parts(l, r, n, a.from, count, take_step, &a);
        }
    }
}

static bool has_kernels(const mf_kernels *k)
{
    return k->momentum && k->descend && k->adamw && k->gemm && k->norm && k->map1 && k->set;
}

static void moments(const mf_param *p, mf_shape ret[2])
{
    ret[0] = ret[1] = p->shape;
    if (whole(p)) ret[1] = (mf_shape){.rank = -1};
}

const mf_optim_method mf_optim_muon = {.has_kernels = has_kernels,
                                       .moments = moments,
                                       .whole = whole,
                                       .work = work,
                                       .range = mf_optim_range_adamw,
                                       .param = param};
