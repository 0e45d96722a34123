/* plugin/print.c: an op that writes to the log. It reads values, changes no value and draws no
 * random number, so a model with this op computes the same bits. */
#include "plugin/print.h"

#include <math.h>
#include <stdio.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "graph/shape.h"

enum { FIRST = 8, TEXT = 512 };

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0].dtype = MF_F32;
    in->out[0].shape = mf_shape1(1);
    return MF_OK;
}

static double element(const mf_view *v, int64_t i)
{
    return v->dtype == MF_F32   ? (double)((const float *)v->data)[i]
           : v->dtype == MF_I32 ? (double)((const int32_t *)v->data)[i]
                                : (double)((const uint8_t *)v->data)[i];
}

static void first_elements(const mf_view *v, int64_t n, char out[TEXT])
{
    int used = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < n && i < FIRST && used < TEXT - 32; i++)
        used += snprintf(out + used, (size_t)(TEXT - used), " %.6g", element(v, i));
    if (n > FIRST) snprintf(out + used, (size_t)(TEXT - used), " ...");
}

static int forward(const mf_call *call)
{
    const mf_view *v = &call->in[0];
    const int64_t n = mf_shape_count(v->shape);
    char shape[MF_SHAPE_TEXT], first[TEXT];
    double lo = INFINITY, hi = -INFINITY, sum = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = element(v, i);
        if (!isfinite(x)) continue;
        lo = fmin(lo, x);
        hi = fmax(hi, x);
        sum += x;
        finite++;
    }
    first_elements(v, n, first);
    *(float *)call->out[0].data = 0;
    mf_log(MF_LOG_INFO,
           "%s: %s %s in %s step %llu: from %g to %g, mean %g, %lld of %lld not "
           "finite:%s",
           (const char *)(intptr_t)call->attr->i[0], mf_dtype_text(v->dtype),
           mf_shape_text(v->shape, shape), call->exec->training ? "training" : "evaluation",
           (unsigned long long)call->exec->step, lo, hi,
           finite > 0 ? sum / (double)finite : 0.0, (long long)(n - finite), (long long)n,
           first);
    return MF_OK;
}

static const mf_opdef print = {.size = sizeof print,
                               .flags = MF_OP_NO_GRAD,
                               .name = "print",
                               .formula = "values to the log",
                               .infer = infer,
                               .forward = forward};

void mf_print_add(mf_graph *g, mf_tensor *t, const char *name)
{
    const mf_attr attr = {.i = {(int64_t)(intptr_t)name}};
    mf_graph_keep(mf_graph_op(g, &print, 1, &t, &attr, 1, NULL));
}
