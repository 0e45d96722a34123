/* ops/infer.h: checks of inputs for the infer functions of core's ops.
 *
 * Each check returns MF_OK or MF_ESHAPE. A failed check calls in->fail, which records a message
 * that names the input as `what`. Checks can be chained:
 *
 *     if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "x", MF_F32, 2, 2) || ...)
 *         return MF_ESHAPE;
 *     return mf_infer_set(in, 0, MF_F32, mf_shape2(n, k)); */
#ifndef MF_OPS_INFER_H
#define MF_OPS_INFER_H

#include <moefw/op.h>
#include "graph/shape.h"

int mf_infer_inputs(const mf_infer *in, int n); /* checks that there are exactly n inputs,
                                                 * counting absent optional ones */
/* Whether an optional input is absent: its rank is -1. */
static inline bool mf_infer_absent(const mf_infer *in, int i)
{
    return in->in[i].shape.rank < 0;
}
/* Checks that the input is present and of this type, and that its rank is in lo .. hi. */
int mf_infer_tensor(const mf_infer *in, int i, const char *what, mf_dtype type, int lo, int hi);
/* Returns the type to require of an input that may be f32 or bf16: bf16 if the input is bf16,
 * else f32. */
static inline mf_dtype mf_infer_float(const mf_infer *in, int i)
{
    return !mf_infer_absent(in, i) && in->in[i].dtype == MF_BF16 ? MF_BF16 : MF_F32;
}
/* Checks that the input is present and has this type and exactly this shape. */
int mf_infer_shape(const mf_infer *in, int i, const char *what, mf_dtype type, mf_shape shape);
/* Like mf_infer_shape, but the input may be absent. */
int mf_infer_maybe(const mf_infer *in, int i, const char *what, mf_dtype type, mf_shape shape);
/* Checks that an attribute is in lo .. hi. */
int mf_infer_attr(const mf_infer *in, int slot, const char *what, int64_t lo, int64_t hi);
/* Sets output i, and n_out = i + 1. A dimension must be at most 2^31 - 1, so that i32 can index
 * it, and the number of elements at most 2^48. */
int mf_infer_set(mf_infer *in, int i, mf_dtype type, mf_shape shape);

/* Value of the attribute that chooses the type of an output: 1 + type. The value 0 means the
 * op's default, usually the type of its first input. */
#define MF_AS(type) (1 + (int64_t)(type))
static inline mf_dtype mf_attr_type(int64_t code, mf_dtype otherwise)
{
    return code ? (mf_dtype)(code - 1) : otherwise;
}

/* Returns the shape in the attributes: attr.i[0] is the rank, attr.i[1 ..] are
 * the dimensions. */
static inline mf_shape mf_attr_shape(const mf_attr *attr)
{
    mf_shape s = mf_shape0();
    s.rank = (int32_t)attr->i[0];
    for (int32_t i = 0; i < s.rank && i < MF_MAX_RANK; i++)
        s.dim[i] = attr->i[1 + i];
    return s;
}
/* Returns the last dimension of a shape that is viewed as rows; a scalar is one row of
 * one element. */
static inline int64_t mf_shape_last(mf_shape s)
{
    return s.rank > 0 ? s.dim[s.rank - 1] : 1;
}
static inline int64_t mf_shape_rows(mf_shape s)
{
    int64_t n = 1;
    for (int32_t i = 0; i + 1 < s.rank; i++)
        n *= s.dim[i];
    return n;
}

#endif
