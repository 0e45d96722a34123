/* op_case.h: how to add cases for an op to check_ops.
 *
 * Cases are entries of the arrays in op_cases_*.c, one array per family, ended by {0} and
 * listed in check_ops.c. A case defines how to call the op and which values are right. The
 * harness makes six tests of each case:
 *
 *   right      `ref` and `cpu` compute the same values as the case's function, which follows
 *              the contract of the op in double; on random inputs and on small integers
 *   gradient   central differences on `ref`, for every input that may have a gradient; skipped
 *              for ops without gradient
 *   fast       `cpu` agrees with `ref` in outputs and gradients (equal bits on integers if the
 *              case is exact), and has equal bits at 1, 2 and 4 threads; the gradient of each
 *              input alone equals the one computed together with the others
 *   bf16       an op that accepts bf16 computes nearly the values and gradients of f32, on
 *              `ref` and on `cpu`, with equal bits at 1, 2 and 4 threads
 *   supported  an additional input, and inputs of a wrong type, are refused with MF_ESHAPE;
 *              cases with `refuse` are refused with a message that contains this text; cases
 *              with `fails` build, and their run, or with `flow` their gradient, ends with that
 *              code and text
 *   changed    with another size, rank or attribute the op is refused with a message that names
 *              it, or its run ends, with values or such a message
 *
 * If an op in the table has no working case, the suite fails.
 *
 *     static void right_affine(ot_run *r)
 *     {
 *         for (int64_t i = 0; i < r->out[0].count; i++)
 *             r->out[0].want[i] = r->attr->f[0] * r->in[0].f[i] + r->attr->f[1];
 *     }
 *     ...
 *     {.op = "affine", .in = {OT_F(3, 5)}, .attr = {.f = {2, -1}}, .right = right_affine,
 *      .exact = true},
 *     {.op = "matmul", .in = {OT_F(3, 5), OT_F(4, 2)},
 *      .refuse = "expected one inner dimension"}, */
#ifndef MF_OP_CASE_H
#define MF_OP_CASE_H

#include "graph/graph.h"

typedef enum ot_kind {
    OT_END,       /* no further inputs */
    OT_ABSENT,    /* an optional input that is missing */
    OT_F32,       /* values in [-2, 2); as integers: -4 .. 4 */
    OT_POSITIVE,  /* values in [0.25, 1.25); as integers: 1 .. 4 */
    OT_APART,     /* values that are all different and not near one another; if their number is
                   * even, also not near 0; for ops with kinks and ties */
    OT_I32,       /* integers from lo to hi */
    OT_OFFSET,    /* ascending offsets from lo to at most hi; some groups are empty */
    OT_GIVEN_F32, /* the values in data */
    OT_GIVEN_I32
} ot_kind;

typedef struct ot_in {
    ot_kind kind;
    int64_t dim[MF_MAX_RANK + 1]; /* ends with the first 0; -1 is a dimension of size 0 */
    int64_t lo, hi;
    const void *data;
} ot_in;

#define OT_F(...)                                                                              \
    {                                                                                          \
        .kind = OT_F32, .dim = { __VA_ARGS__ }                                                 \
    }
#define OT_SCALAR                                                                              \
    {                                                                                          \
        .kind = OT_F32                                                                         \
    }
#define OT_POS(...)                                                                            \
    {                                                                                          \
        .kind = OT_POSITIVE, .dim = { __VA_ARGS__ }                                            \
    }
#define OT_DISTINCT(...)                                                                       \
    {                                                                                          \
        .kind = OT_APART, .dim = { __VA_ARGS__ }                                               \
    }
#define OT_I(from, to, ...)                                                                    \
    {                                                                                          \
        .kind = OT_I32, .lo = from, .hi = to, .dim = { __VA_ARGS__ }                           \
    }
#define OT_GROUPS(n, rows)                                                                     \
    {                                                                                          \
        .kind = OT_OFFSET, .hi = rows, .dim = {(n) + 1 }                                       \
    }
/* Like OT_GROUPS, but the first group begins at row `first`. */
#define OT_PART(n, first, rows)                                                                \
    {                                                                                          \
        .kind = OT_OFFSET, .lo = first, .hi = rows, .dim = {(n) + 1 }                          \
    }
#define OT_NUMBERS(array, ...)                                                                 \
    {                                                                                          \
        .kind = OT_GIVEN_F32, .data = array, .dim = { __VA_ARGS__ }                            \
    }
#define OT_INDICES(array, ...)                                                                 \
    {                                                                                          \
        .kind = OT_GIVEN_I32, .data = array, .dim = { __VA_ARGS__ }                            \
    }
#define OT_NO                                                                                  \
    {                                                                                          \
        .kind = OT_ABSENT                                                                      \
    }

/* The data that the case's function receives: inputs before the run, outputs after it. */
typedef struct ot_run {
    const mf_attr *attr;
    int n_in, n_out;
    struct {
        const float *f; /* read f or i, depending on the input's type; NULL if the input
                         * is missing */
        const int32_t *i;
        mf_shape shape; /* rank -1 if the input is missing */
        int64_t count;
    } in[MF_OP_MAX_IN];
    struct {
        const float *f;
        const int32_t *i;
        mf_shape shape;
        int64_t count;
        double *want; /* expected values, which the function sets; NaN: not checked */
    } out[MF_OP_MAX_OUT];
    uint64_t seed, step;
    bool judged; /* set by a function that checks the outputs itself instead of filling
                  * in want */
} ot_run;

typedef struct mf_op_row {
    const char *op;
    ot_in in[MF_OP_MAX_IN];
    mf_attr attr;
    int n_out; /* number of outputs; 0 means 1 */
    void (*right)(ot_run *r);
    bool exact;         /* with integer inputs, results and gradients must be exact */
    double tol;         /* tolerance for inputs that are not integers, relative to the largest
                         * value; 0: 1e-6 */
    uint32_t flow;      /* bit o: output o receives a gradient; 0: the first output */
    uint32_t still;     /* bit i: the gradient of input i exists but is not tested */
    bool any_type;      /* the op accepts inputs of any type */
    bool ragged;        /* the op accepts any number of inputs */
    const char *refuse; /* building must fail with a message that contains this text */
    int fails;          /* the run must fail with this code, and with `refuse` in the message */
} mf_op_row;

extern const mf_op_row mf_op_cases_gemm[];
extern const mf_op_row mf_op_cases_attention[];
extern const mf_op_row mf_op_cases_layers[];
extern const mf_op_row mf_op_cases_store[];
extern const mf_op_row mf_op_cases_elementwise[];
extern const mf_op_row mf_op_cases_shape[];
extern const mf_op_row mf_op_cases_index[];
extern const mf_op_row mf_op_cases_routing[];

#endif
