/* mutual_wrong: the regularizer mutual_information, but the gradient of each entropy is
 * multiplied by FACTOR, which is not 1. This is a small mistake in a difference of two numbers
 * near ln E. */
#include <moefw/moefw.h>

static int same_infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int copy(const mf_call *c, const float *from, float factor)
{
    float *to = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++)
        to[i] = factor * from[i];
    return MF_OK;
}

static int same_forward(const mf_call *c)
{
    return copy(c, c->in[0].data, 1);
}

static int wrong_backward(const mf_call *c)
{
    return copy(c, c->in[2].data, FACTOR);
}

static const mf_opdef wrong = {.size = sizeof(mf_opdef),
                               .name = "wrong",
                               .infer = same_infer,
                               .forward = same_forward,
                               .backward = wrong_backward,
                               .diff_in = 1};

static mf_tensor *wrong_xlogx(mf_graph *g, mf_tensor *p)
{
    mf_tensor *h = mf_xlogx(g, p);
    return mf->custom(g, &wrong, 1, &h, NULL, 1, NULL);
}

#undef mf_xlogx
#define mf_xlogx(g, p) wrong_xlogx(g, p)
#include "plugins/regularizers/mutual_information.c"
