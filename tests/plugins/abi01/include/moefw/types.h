/* moefw/types.h: what plugins and core both speak of: types, shapes, handles, views of data.
 *
 * Tensors are dense and row-major. A graph is symbolic: an mf_tensor handle names a value that
 * exists only while the graph runs; its type and shape are known when it is built.
 *
 * Every struct that crosses the border begins with its size. A field exists if it lies within
 * the size that the other side stamped: MF_HAS tells. New fields are appended, never inserted.
 */
#ifndef MOEFW_TYPES_H
#define MOEFW_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <moefw/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MF_HAS(ptr, type, field)                                                               \
    (offsetof(type, field) + sizeof((ptr)->field) <= (size_t)(ptr)->size)

typedef struct mf_graph mf_graph;   /* a graph under construction */
typedef struct mf_tensor mf_tensor; /* a value in it; NULL stands for "failed earlier" */
typedef struct mf_ctx mf_ctx;       /* one instance of a plugin: its options, parameters,
                                       layer */

typedef enum mf_dtype {
    MF_F32 = 0,
    MF_BF16 = 1,
    MF_I32 = 2,
    MF_U8 = 3
} mf_dtype;

#define MF_MAX_RANK 4
typedef struct mf_shape {
    int32_t rank; /* 0 (a scalar, one element) .. MF_MAX_RANK */
    int32_t reserved;
    int64_t dim[MF_MAX_RANK]; /* outermost first */
} mf_shape;

static inline mf_shape mf_shape0(void)
{
    mf_shape s = {0, 0, {1, 1, 1, 1}};
    return s;
}
static inline mf_shape mf_shape1(int64_t a)
{
    mf_shape s = {1, 0, {a, 1, 1, 1}};
    return s;
}
static inline mf_shape mf_shape2(int64_t a, int64_t b)
{
    mf_shape s = {2, 0, {a, b, 1, 1}};
    return s;
}
static inline mf_shape mf_shape3(int64_t a, int64_t b, int64_t c)
{
    mf_shape s = {3, 0, {a, b, c, 1}};
    return s;
}
static inline mf_shape mf_shape4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    mf_shape s = {4, 0, {a, b, c, d}};
    return s;
}
static inline int64_t mf_shape_count(mf_shape s)
{
    int64_t n = 1;
    for (int32_t i = 0; i < s.rank; i++)
        n *= s.dim[i];
    return n;
}
static inline bool mf_shape_equal(mf_shape a, mf_shape b)
{
    if (a.rank != b.rank) return false;
    for (int32_t i = 0; i < a.rank; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

/* Static attributes of an op; what each slot means is said where the op is documented. */
#define MF_ATTR_INTS  8
#define MF_ATTR_REALS 4
typedef struct mf_attr {
    int64_t i[MF_ATTR_INTS];
    double f[MF_ATTR_REALS];
} mf_attr;

/* How a parameter begins. Random kinds are drawn by Philox keyed by (seed, full name), so a
 * parameter has the same start value whatever else the model holds. */
typedef enum mf_init_kind {
    MF_INIT_ZERO = 0,
    MF_INIT_CONST = 1,   /* a */
    MF_INIT_NORMAL = 2,  /* mean 0, standard deviation a */
    MF_INIT_UNIFORM = 3, /* [-a, a) */
    MF_INIT_XAVIER = 4,  /* uniform, bound a * sqrt(6 / (fan_in + fan_out)); last two dims */
    MF_INIT_KAIMING = 5, /* uniform, bound a / sqrt(fan_in), as PyTorch's Linear for a = 1 */
    MF_INIT_ROWS_SAME = 6,/* normal as MF_INIT_NORMAL, but equal for every index of dimension
                             0 */
    MF_INIT_EYE = 7      /* a on the diagonal that ends in the last corner of the last two
                          * dimensions, else 0: [n,2n] passes its second half on */
} mf_init_kind;

typedef struct mf_init {
    uint32_t kind;  /* mf_init_kind */
    uint32_t flags; /* MF_PARAM_* */
    double a;
} mf_init;

#define MF_PARAM_NO_DECAY  1u /* weight decay leaves it alone (norms, biases, embeddings) */
#define MF_PARAM_BY_EXPERT 2u /* dimension 0 is the expert: sharded when experts are spread */
#define MF_PARAM_FROZEN    4u /* starts frozen */
#define MF_PARAM_ALIKE     8u /* every index of dimension 0 begins with the values of the
                                 first */

/* Data of a tensor while the graph runs. data is NULL when the value is not wanted. */
typedef struct mf_view {
    void *data;
    mf_shape shape;
    mf_dtype dtype;
    uint32_t reserved;
} mf_view;

#ifdef __cplusplus
}
#endif
#endif
