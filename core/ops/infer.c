/* ops/infer.c: checks of input types and shapes, and their messages. They run while a graph is
 * built. Each message names the input, and what was expected and found. */
#include "ops/infer.h"

int mf_infer_inputs(const mf_infer *in, int n)
{
    if (in->n_in != n) return in->fail(in, "expected %d inputs, found %d", n, in->n_in);
    return MF_OK;
}

static int want_type(const mf_infer *in, int i, const char *what, mf_dtype type)
{
    if (mf_infer_absent(in, i)) return in->fail(in, "expected input %s, found none", what);
    if (in->in[i].dtype != type)
        return in->fail(in, "expected %s of type %s, found %s", what, mf_dtype_text(type),
                        mf_dtype_text(in->in[i].dtype));
    return MF_OK;
}

int mf_infer_tensor(const mf_infer *in, int i, const char *what, mf_dtype type, int lo, int hi)
{
    char text[MF_SHAPE_TEXT];
    int err = want_type(in, i, what, type);
    if (err) return err;
    mf_shape s = in->in[i].shape;
    if (s.rank >= lo && s.rank <= hi) return MF_OK;
    if (lo == hi)
        return in->fail(in, "expected %s of rank %d, found %s", what, lo,
                        mf_shape_text(s, text));
    return in->fail(in, "expected %s of rank %d to %d, found %s", what, lo, hi,
                    mf_shape_text(s, text));
}

int mf_infer_shape(const mf_infer *in, int i, const char *what, mf_dtype type, mf_shape shape)
{
    char want[MF_SHAPE_TEXT], found[MF_SHAPE_TEXT];
    int err = want_type(in, i, what, type);
    if (err) return err;
    if (mf_shape_equal(in->in[i].shape, shape)) return MF_OK;
    return in->fail(in, "expected %s of shape %s, found %s", what, mf_shape_text(shape, want),
                    mf_shape_text(in->in[i].shape, found));
}

int mf_infer_maybe(const mf_infer *in, int i, const char *what, mf_dtype type, mf_shape shape)
{
    return mf_infer_absent(in, i) ? MF_OK : mf_infer_shape(in, i, what, type, shape);
}

int mf_infer_attr(const mf_infer *in, int slot, const char *what, int64_t lo, int64_t hi)
{
    int64_t value = in->attr->i[slot];
    if (value >= lo && value <= hi) return MF_OK;
    return in->fail(in, "expected %s in %lld .. %lld, found %lld", what, (long long)lo,
                    (long long)hi, (long long)value);
}

int mf_infer_set(mf_infer *in, int i, mf_dtype type, mf_shape shape)
{
    char text[MF_SHAPE_TEXT];
    /* maximum number of elements; the number of bytes then cannot overflow */
    int64_t most = (int64_t)1 << 48;
    for (int32_t d = 0; d < shape.rank; d++) {
        int64_t size = shape.dim[d];
        if (size < 0 || size > INT32_MAX || (size && most / size == 0))
            return in->fail(in, "expected a result of possible size, found %s",
                            mf_shape_text(shape, text));
        if (size) most /= size;
    }
    in->out[i].dtype = type;
    in->out[i].shape = shape;
    in->n_out = i + 1;
    return MF_OK;
}
