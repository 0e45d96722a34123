/* graph/finite.c: tracing NaN and Inf to the first op that made them.
 *
 * NaN and +Inf are never meant. -Inf may be: it is how logits are masked, and how a row that
 * sees nothing is marked for the backward pass. So -Inf counts only where an op's first output
 * has it and no input had.
 */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static float value_at(const mf_view *v, int64_t i)
{
    if (v->dtype == MF_F32) return ((const float *)v->data)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)v->data)[i] << 16; /* bf16: the upper half */
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Index of the first value that is not finite, -1 if all are. lenient: -Inf passes. */
static int64_t first_bad(const mf_view *v, bool lenient)
{
    if (!v->data || !mf_dtype_is_float(v->dtype) || v->shape.rank < 0) return -1;
    int64_t n = mf_shape_count(v->shape);
    for (int64_t i = 0; i < n; i++) {
        float x = value_at(v, i);
        if (!isfinite(x) && !(lenient && x == -INFINITY)) return i;
    }
    return -1;
}

mf_suspect mf_replay_suspect(const mf_replay *step)
{
    const mf_call *call = &step->call;
    for (int i = 0; i < call->n_in; i++) {
        int64_t at = first_bad(&call->in[i], false);
        if (at >= 0) return (mf_suspect){.input = i, .index = at};
    }
    return (mf_suspect){.input = -1};
}

static int64_t blamed(const mf_call *call, int o, bool clean)
{
    int64_t at = first_bad(&call->out[o], true);
    return at >= 0 || o > 0 || !clean ? at : first_bad(&call->out[0], false);
}

static const char *describe(const mf_replay *step, mf_suspect s, char *text, size_t size)
{
    if (s.input < 0) return "its inputs are finite";
    const char *name = step->node->in[s.input]->name;
    snprintf(text, size, "its input %d%s%s%s is not finite either, first at index %" PRId64,
             s.input, name ? " (" : "", name ? name : "", name ? ")" : "", s.index);
    return text;
}

int mf_replay_check_finite(const mf_replay *step, mf_suspect before)
{
    const mf_call *call = &step->call;
    char inputs[256], shape[MF_SHAPE_TEXT];
    for (int o = 0; o < call->n_out; o++) {
        int64_t at = blamed(call, o, before.input < 0);
        if (at < 0) continue;
        float value = value_at(&call->out[o], at);
        return call->fail(call, MF_ENONFINITE, "%s %d %s is %s at index %" PRId64 "; %s",
                          step->node->backward ? "the gradient of input" : "output", o,
                          mf_shape_text(call->out[o].shape, shape),
                          isnan(value) ? "NaN"
                          : value > 0  ? "Inf"
                                       : "-Inf",
                          at, describe(step, before, inputs, sizeof inputs));
    }
    return MF_OK;
}
