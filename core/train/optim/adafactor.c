/* train/optim/adafactor.c: Adafactor without momentum (Shazeer, Stern 2018, algorithms 4, 5).
 * It keeps means of squares by row and by column instead of one mean for each element. Its step
 * is relative to the size of a parameter, so each matrix is updated as a whole, and so is the
 * matrix of each expert. */
#include "train/optim/method.h"

static int64_t aligned(int64_t elements)
{
    return (elements + 15) / 16 * 16;
}

static int64_t size_of(const mf_matrices *all)
{
    return (all->rows > 0 ? all->rows : 1) * all->columns;
}

static bool whole(const mf_param *p)
{
    (void)p;
    return true;
}

/* Writes the shapes of the moments of p: no first moment, and as second moment a vector with
 * the state of all its matrices, one after another. */
static void moments(const mf_param *p, mf_shape ret[2])
{
    mf_matrices all;
    int64_t count = 0;
    for (int i = 0; mf_optim_matrices(p, i, &all); i++)
        count += all.groups * mf_adafactor_state(all.rows, all.columns);
    ret[0] = (mf_shape){.rank = -1};
    ret[1] = mf_shape1(count);
}

static size_t work(const mf_matrices *all)
{
    const int64_t groups = mf_optim_groups(all);
    return (size_t)aligned(groups * size_of(all)) * sizeof(float) +
           mf_adafactor_work(groups, all->columns);
}

/* One pass of adafactor's `param` over some matrices. */
typedef struct {
    int64_t from;   /* index of the first element in the block of values */
    const float *u; /* updates of the elements from `from` on */
} part;

static void take_step(const mf_optim_launch *l, const mf_optim_range *r, int64_t first,
                      int64_t count, void *arg)
{
    const part *a = arg;
    const mf_update_args args = mf_optim_args(l, r);
    MF_RUN(l->k, &l->x, descend, .count = count, .update = args, .scale = 1,
           .u = a->u + (first - a->from), .value = l->value + first,
           .copy = l->copy ? l->copy + first : NULL);
}

static void param(const mf_optim_launch *l, const mf_param *p, const mf_optim_range *r, int n)
{
    mf_matrices all;
    float *state = l->moment[1] + (p->moment_at[1] - l->base[1]);
    mf_update_args args = l->args;
    args.lr_scale = p->lr_scale;
    for (int i = 0; mf_optim_matrices(p, i, &all); i++) {
        const int64_t most = mf_optim_groups(&all), size = size_of(&all);
        float *u = (float *)l->work;
        char *sums = l->work + (size_t)aligned(most * size) * sizeof *u;
        for (int64_t at = 0; at < all.groups; at += most) {
            const int64_t groups = most < all.groups - at ? most : all.groups - at;
            part a = {.from = p->offset + all.first + at * size, .u = u};
            MF_RUN(l->k, &l->x, adafactor, .groups = groups, .rows = all.rows,
                   .columns = all.columns, .update = args, .value = l->value + a.from,
                   .grad = l->grad + a.from, .v = state, .u = u, .work = sums);
            mf_optim_parts(l, r, n, a.from, groups * size, take_step, &a);
            state += groups * mf_adafactor_state(all.rows, all.columns);
        }
    }
}

static bool has_kernels(const mf_kernels *k)
{
    return k->adafactor && k->descend;
}

const mf_optim_method mf_optim_adafactor = {.has_kernels = has_kernels,
                                            .moments = moments,
                                            .whole = whole,
                                            .work = work,
                                            .param = param};
