/* moefw/types.h: types that plugins and core share: shapes, handles, views of data.
 *
 * Tensors are dense and row-major. A graph is symbolic: an mf_tensor handle names a value that
 * exists only while the graph runs. The type and shape of the value are known when it is added.
 *
 * Structs that later versions may extend have a field `size`. The side that fills in the struct
 * writes the struct's sizeof there (for mf_option it is mf_plugin.option_size). A field exists
 * if it is within this size; MF_HAS tests this. New fields are appended, never inserted. */
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
typedef struct mf_tensor mf_tensor; /* a value in a graph; NULL: an earlier call failed */
/* one instance of a plugin: its options, parameters and layer */
typedef struct mf_ctx mf_ctx;
typedef struct mf_dims mf_dims;               /* defined in moefw/plugin.h */
typedef struct mf_score_count mf_score_count; /* defined in moefw/routing.h */

typedef enum mf_dtype { MF_F32 = 0, MF_BF16 = 1, MF_I32 = 2, MF_U8 = 3 } mf_dtype;

#define MF_MAX_RANK 4
typedef struct mf_shape {
    int32_t rank; /* 0 (a scalar, one element) .. MF_MAX_RANK */
    int32_t reserved;
    int64_t dim[MF_MAX_RANK]; /* outermost dimension first */
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

/* Static attributes of an op; each op documents the meaning of its elements. */
#define MF_ATTR_INTS  8
#define MF_ATTR_REALS 4
typedef struct mf_attr {
    int64_t i[MF_ATTR_INTS];
    double f[MF_ATTR_REALS];
} mf_attr;

/* Initial values of a parameter or buffer. Random values are drawn by Philox with the key
 * (seed, full name), so they do not depend on the rest of the model. */
typedef enum mf_init_kind {
    MF_INIT_ZERO = 0,
    MF_INIT_CONST = 1,   /* all elements a */
    MF_INIT_NORMAL = 2,  /* mean 0, standard deviation a */
    MF_INIT_UNIFORM = 3, /* [-a, a) */
    /* uniform, bound a * sqrt(6 / (fan_in + fan_out)) over the last two dimensions */
    MF_INIT_XAVIER = 4,
    /* uniform, bound a / sqrt(fan_in), as in PyTorch's Linear for a = 1 */
    MF_INIT_KAIMING = 5,
    /* normal as MF_INIT_NORMAL, but equal for every index of dimension 0 */
    MF_INIT_ROWS_SAME = 6,
    /* The matrix in the last two dimensions has a on the diagonal that ends at its last row
     * and column, and 0 elsewhere. A weight [n,2n] with a = 1 copies the second half of
     * its input. */
    MF_INIT_EYE = 7
} mf_init_kind;

typedef struct mf_init {
    uint32_t kind;  /* mf_init_kind */
    uint32_t flags; /* MF_PARAM_* */
    double a;
} mf_init;

#define MF_PARAM_NO_DECAY 1u /* no weight decay (norms, biases, embeddings) */
/* dimension 0 is the expert: a token uses only top_k of its parts, and numbers of active
 * parameters count only these parts */
#define MF_PARAM_BY_EXPERT 2u
#define MF_PARAM_FROZEN    4u /* frozen at the start */
/* Every index of dimension 0 begins with the values of the first index. */
#define MF_PARAM_ALIKE 8u

/* Since 0.2: dimension 0 is the attention head of the instance's layer. A head's part is
 * trained at the head's own learning rate, and not at all while the head is inactive. */
#define MF_PARAM_BY_HEAD 16u

/* Since 0.2: the last two dimensions hold two matrices of equal height, one above the other.
 * Optimizers that treat matrices as a whole (muon, adafactor) treat each of the
 * two separately. */
#define MF_PARAM_HALVES 32u

/* Data of a tensor while the graph runs. data is NULL if the value is not needed. */
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
