/* graph/finite.c: finds the first op whose result contains NaN or Inf.
 *
 * NaN and +Inf are always errors. -Inf may be intended: it masks logits, and it marks rows that
 * attend to nothing for the backward pass. So -Inf is an error only in the first output of an
 * op whose inputs are all finite. */
#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static float value_at(const void *data, mf_dtype type, int64_t i)
{
    if (type == MF_F32) return ((const float *)data)[i];
    return mf_bf16_to_f32(((const mf_bf16 *)data)[i]);
}

static int64_t first_bad_of(const void *data, mf_dtype type, int64_t n, bool lenient,
                            float *ret_value)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = value_at(data, type, i);
        if (ret_value) *ret_value = x;
        if (!isfinite(x) && !(lenient && x == -INFINITY)) return i;
    }
    return -1;
}

/* Returns the index of the first value of a tensor that is not finite; -1: all values are
 * finite, or the tensor has no float values that can be read. lenient: -Inf is allowed. On a
 * device the tensor is read in pieces. */
static int64_t first_bad(const mf_graph *g, const mf_view *v, const mf_tensor *t, bool lenient,
                         float *ret_value)
{
    enum { PIECE = 4096 };
    float piece[PIECE];
    if (v->reserved & MF_VIEW_STORED) return -1;
    if (!v->data || !t || !mf_dtype_is_float(v->dtype) || v->shape.rank < 0) return -1;
    const int64_t n = mf_shape_count(v->shape), size = v->dtype == MF_F32 ? 4 : 2;
    if (mf_device_is_host(g->options.device))
        return first_bad_of(v->data, v->dtype, n, lenient, ret_value);
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;
        const char *from = (const char *)t->data + at * size;
        if (mf_device_read_now(g->options.device, piece, from, (size_t)(m * size)) != MF_OK)
            return -1;
        const int64_t bad = first_bad_of(piece, v->dtype, m, lenient, ret_value);
        if (bad >= 0) return at + bad;
    }
    return -1;
}

mf_suspect mf_replay_suspect(const mf_graph *g, const mf_replay *step)
{
    const mf_call *call = &step->call;
    for (int i = 0; i < call->n_in; i++) {
        int64_t at = first_bad(g, &call->in[i], step->node->in[i], false, NULL);
        if (at >= 0) return (mf_suspect){.input = i, .index = at};
    }
    return (mf_suspect){.input = -1};
}

static int64_t blamed(const mf_graph *g, const mf_replay *step, int o, bool clean, float *value)
{
    const mf_view *out = &step->call.out[o];
    const mf_tensor *t = step->node->out[o];
    const int64_t at = first_bad(g, out, t, true, value);
    return at >= 0 || o > 0 || !clean ? at : first_bad(g, out, t, false, value);
}

static const char *describe(const mf_replay *step, mf_suspect s, char *text, size_t size)
{
    if (s.input < 0) return "its inputs are finite";
    const char *name = step->node->in[s.input]->name;
    snprintf(text, size, "its input %d%s%s%s is not finite either, first at index %" PRId64,
             s.input, name ? " (" : "", name ? name : "", name ? ")" : "", s.index);
    return text;
}

int mf_replay_check_finite(const mf_graph *g, const mf_replay *step, mf_suspect before)
{
    const mf_call *call = &step->call;
    char inputs[256], shape[MF_SHAPE_TEXT];
    for (int o = 0; o < call->n_out; o++) {
        float value = 0;
        const int64_t at = blamed(g, step, o, before.input < 0, &value);
        if (at < 0) continue;
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
