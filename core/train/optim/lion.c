/* train/optim/lion.c: Lion (Chen et al. 2023, algorithm 2). Its update is the sign of an
 * interpolated moment, and it keeps one moment. */
#include "train/optim/method.h"

static void range(const mf_optim_launch *l, const mf_optim_range *r)
{
    const mf_update_args args = mf_optim_args(l, r);
    MF_RUN(l->k, &l->x, lion, .count = r->count, .update = args, .value = l->value + r->first,
           .copy = l->copy ? l->copy + r->first : NULL, .grad = l->grad + r->first,
           .m = mf_optim_moment(l, r, 0));
}

static bool has_kernels(const mf_kernels *k)
{
    return k->lion != NULL;
}

static void moments(const mf_param *p, mf_shape ret[2])
{
    ret[0] = p->shape;
    ret[1] = (mf_shape){.rank = -1};
}

const mf_optim_method mf_optim_lion = {
    .has_kernels = has_kernels, .moments = moments, .range = range};
