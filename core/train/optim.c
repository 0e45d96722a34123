#include "train/optim.h"
#include <math.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "kernels/kernel.h"

enum { ADAMW, ADAM };

typedef struct {
    int64_t first, count;
    double lr_scale;
    bool decay, frozen;
} range;

struct mf_optim {
    mf_store *store;
    const mf_train_config *config;
    range *ranges;
    int n;
};

static mf_kctx context(void)
{
    return (mf_kctx){.parallel = mf_parallel};
}

int mf_optim_refresh(mf_optim *o)
{
    o->n = 0;
    for (int i = 0; i < mf_store_count(o->store); i++) {
        const mf_param *p = mf_store_at(o->store, i);
        if (p->buffer) continue;
        const bool decay = !(p->init.flags & MF_PARAM_NO_DECAY);
        range *last = o->n ? &o->ranges[o->n - 1] : NULL;
        if (last && last->lr_scale == p->lr_scale && last->decay == decay &&
            last->frozen == p->frozen) {
            /* The gap between neighbours holds zeros, which the update leaves zero. */
            last->count = p->offset + p->count - last->first;
            continue;
        }
        o->ranges[o->n++] = (range){p->offset, p->count, p->lr_scale, decay, p->frozen};
    }
    return MF_OK;
}

int mf_optim_new(mf_store *store, const mf_train_config *config, mf_optim **ret)
{
    mf_optim *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    o->store = store;
    o->config = config;
    o->ranges = mf_alloc((size_t)mf_store_count(store) + 1, sizeof *o->ranges);
    if (!o->ranges) {
        mf_free(o);
        return MF_ENOMEM;
    }
    *ret = o;
    return mf_optim_refresh(o);
}

void mf_optim_free(mf_optim *o)
{
    if (!o) return;
    mf_free(o->ranges);
    mf_free(o);
}

void mf_optim_measure(mf_optim *o, mf_optim_step *s)
{
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = context();
    const float *grad = mf_store_grads(o->store);
    double sum = 0;
    for (int i = 0; i < o->n; i++)
        if (!o->ranges[i].frozen)
            sum += k->sumsq(&x, o->ranges[i].count, grad + o->ranges[i].first);
    s->grad_norm = sqrt(sum) * s->grad_scale;
}

void mf_optim_update(mf_optim *o, const mf_optim_step *s)
{
    const mf_kernels *k = mf_backend_kernels();
    const mf_kctx x = context();
    const mf_train_config *c = o->config;
    const bool beside = c->optimizer == ADAMW;
    float *value = mf_store_values(o->store, NULL), *grad = mf_store_grads(o->store);
    float *m = mf_store_moment1(o->store), *v = mf_store_moment2(o->store);
    double scale = s->grad_scale;
    if (s->clip > 0 && s->grad_norm > s->clip) scale *= s->clip / s->grad_norm;
    for (int i = 0; i < o->n; i++) {
        const range *r = &o->ranges[i];
        if (r->frozen) continue;
        const double decay = r->decay ? s->weight_decay : 0;
        const mf_adamw_args args = {.lr = s->lr * r->lr_scale,
                                    .beta1 = c->beta1,
                                    .beta2 = c->beta2,
                                    .eps = c->eps,
                                    .weight_decay = beside ? decay : 0,
                                    .l2 = beside ? 0 : decay,
                                    .grad_scale = scale,
                                    .correction1 = 1 - pow(c->beta1, (double)(s->step + 1)),
                                    .correction2 = 1 - pow(c->beta2, (double)(s->step + 1))};
        k->adamw(&x, r->count, &args, value + r->first, grad + r->first, m + r->first,
                 v + r->first);
    }
}
