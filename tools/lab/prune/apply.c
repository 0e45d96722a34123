/* Copies a model into one with fewer experts. An axis of experts is one that has E times a
 * number of entries in the model and E' times that number in the smaller one; the loss of the
 * smaller model is compared afterwards (prune.c), so a plugin that arranges its entries in
 * another way is found. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "graph/shape.h"
#include "lab/prune/prune_parts.h"

/* The MoE layer, counted from 0, to whose block a parameter belongs; -1: none. */
static int32_t layer_of(const mf_model *m, const char *name)
{
    int layer;
    if (sscanf(name, "layers.%d.", &layer) != 1) return -1;
    return layer >= 0 && layer < m->config->model.layers ? m->moe_of_layer[layer] : -1;
}

/* The only axis in which two shapes differ; -1: none, or several. */
static int other_axis(const mf_shape *a, const mf_shape *b)
{
    int axis = -1;
    if (a->rank != b->rank) return -1;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) {
            if (axis >= 0) return -1;
            axis = i;
        }
    return axis;
}

/* Copies the entries of kept experts along the axis. outer, inner: the sizes around it. */
static void gather(const float *from, float *to, int64_t outer, int64_t E, int64_t inner,
                   const bool *kept)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t e = 0; e < E; e++) {
            if (kept[e]) memcpy(to, from + (o * E + e) * inner, (size_t)inner * sizeof *to);
            if (kept[e]) to += inner;
        }
}

static int does_not_fit(const mf_param *p, const mf_param *q)
{
    char a[MF_SHAPE_TEXT], b[MF_SHAPE_TEXT];
    return mf_fail(
        MF_ECONFIG,
        "%s has shape %s in the model and %s with fewer experts; expected one axis of "
        "experts, so this plugin cannot be pruned",
        p->name, mf_shape_text(q->shape, a), mf_shape_text(p->shape, b));
}

/* Copies one parameter; *ret_new: it stays at its initial values. */
static int copy(const mf_model *from, const mf_model *to, mf_param *p, const mf_param *q,
                bool *const *kept, bool *ret_new)
{
    const int32_t at = layer_of(from, p->name);
    const size_t bytes = (size_t)p->count * sizeof(float);
    const int axis = other_axis(&p->shape, &q->shape);
    const float *values = mf_param_host(q);
    if (!values) return mf_error_code() ? mf_error_code() : MF_ENOMEM;
    if (p->count == q->count && axis < 0) return mf_param_write(p, values, 0, bytes);
    /* of a regularizer or controller, which training begins anew */
    *ret_new = at < 0;
    if (*ret_new) return MF_OK;
    const int64_t E = from->moe[at].config.experts, left = to->moe[at].config.experts;
    if (axis < 0 || q->shape.dim[axis] % E != 0 ||
        p->shape.dim[axis] != q->shape.dim[axis] / E * left)
        return does_not_fit(p, q);
    int64_t outer = 1, inner = q->shape.dim[axis] / E;
    for (int i = 0; i < p->shape.rank; i++) {
        if (i < axis) outer *= p->shape.dim[i];
        if (i > axis) inner *= p->shape.dim[i];
    }
    float *picked = mf_alloc((size_t)p->count + 1, sizeof *picked);
    if (!picked) return MF_ENOMEM;
    gather(values, picked, outer, E, inner, kept[at]);
    const int rc = mf_param_write(p, picked, 0, bytes);
    mf_free(picked);
    return rc;
}

int mf_prune_copy(const mf_model *from, mf_model *to, bool *const *kept)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_store_count(to->store); i++) {
        mf_param *p = mf_store_at(to->store, i), *q = mf_store_find(from->store, p->name);
        bool new = false;
        if (!q)
            return mf_fail(
                MF_ECONFIG,
                "%s is a parameter only with fewer experts, so this plugin cannot be "
                "pruned",
                p->name);
        rc = copy(from, to, p, q, kept, &new);
        mf_param_forget(q);
        if (rc == MF_OK && new)
            mf_log(MF_LOG_WARN, "%s begins with its initial values in the new run", p->name);
    }
    for (int i = 0; rc == MF_OK && i < mf_live_count(from->plugins); i++) {
        const char *name = mf_live_name(from->plugins, i);
        double was, now;
        if (mf_live_get(from->plugins, name, &was) != MF_OK ||
            mf_live_get(to->plugins, name, &now) != MF_OK)
            mf_error_clear();
        else if (was != now)
            rc = mf_live_set(to->plugins, name, was, "prune", "value of the run");
    }
    mf_store_refresh_bf16(to->store);
    return rc;
}
