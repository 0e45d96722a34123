/* graph/finite.c: tracing NaN and Inf to the first op that made them. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Index of the first value that is not finite, -1 if all are. */
static int64_t first_bad(const mf_view *v)
{
    if (!v->data || v->dtype != MF_F32 || v->shape.rank < 0) return -1;
    const float *x = v->data;
    int64_t n = mf_shape_count(v->shape);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return i;
    return -1;
}

/* An input that was written over cannot be asked any more. */
static bool overwritten(const mf_call *call, int i)
{
    for (int o = 0; o < call->n_out; o++)
        if (call->out[o].data && call->out[o].data == call->in[i].data) return true;
    return false;
}

static void describe_inputs(const mf_step *step, char *text, size_t size)
{
    const mf_call *call = &step->call;
    for (int i = 0; i < call->n_in; i++) {
        int64_t at = overwritten(call, i) ? -1 : first_bad(&call->in[i]);
        if (at < 0) continue;
        const char *name = step->node->in[i]->name;
        snprintf(text, size, "its input %d%s%s%s is not finite either, first at index %" PRId64,
                 i, name ? " (" : "", name ? name : "", name ? ")" : "", at);
        return;
    }
    snprintf(text, size, "its inputs are finite");
}

int mf_step_check_finite(const mf_step *step)
{
    const mf_call *call = &step->call;
    char inputs[256], shape[MF_SHAPE_TEXT];
    for (int o = 0; o < call->n_out; o++) {
        int64_t at = first_bad(&call->out[o]);
        if (at < 0) continue;
        float value = ((const float *)call->out[o].data)[at];
        describe_inputs(step, inputs, sizeof inputs);
        return call->fail(call, MF_ENONFINITE, "%s %d %s is %s at index %" PRId64 "; %s",
                          step->node->backward ? "the gradient of input" : "output", o,
                          mf_shape_text(call->out[o].shape, shape),
                          isnan(value) ? "NaN"
                          : value > 0  ? "Inf"
                                       : "-Inf",
                          at, inputs);
    }
    return MF_OK;
}
