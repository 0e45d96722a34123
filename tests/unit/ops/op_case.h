/* op_case.h: how an op gets its rows in check_ops.
 *
 * Adding an op = adding a row to one of the op_rows_*.c (an array a family, ended by {0} and
 * listed in check_ops.c). A row says how to call the op and what is right; from that the
 * harness makes five tests of it:
 *
 *   right      `ref` and `cpu` give what the row's own function computes, in double, from the
 *              text of the contract; on broken numbers and on small whole ones
 *   gradient   central differences on `ref`, for every input that a gradient may flow into;
 *              an op whose table entry allows no gradient is passed over
 *   fast       `cpu` against `ref`, outputs and gradients (equal bits on whole numbers if the
 *              row is exact), and against itself with 1, 2 and 4 threads (equal bits);
 *              the gradient
 *              of each input alone equals the one computed together with the others
 *   bf16       an op that takes bf16 gives nearly what it gives in f32, gradients too, on `ref`
 *              and on `cpu`, there with the same bits at 1, 2 and 4 threads
 *   supported  one input too many and inputs of a wrong type are refused with MF_ESHAPE; rows
 *              with `refuse` are refused, with a message that holds that text; rows with
 *              `fails` build, and end the run with that code and text
 *
 * An op of the table without a working row fails the suite.
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
 *      .refuse = "expected one inner dimension"},
 */
#ifndef MF_OP_CASE_H
#define MF_OP_CASE_H

#include "graph/graph.h"

typedef enum ot_kind {
    OT_END,       /* no further inputs */
    OT_ABSENT,    /* an optional input that is absent */
    OT_F32,       /* [-2, 2); whole: -4 .. 4 */
    OT_POSITIVE,  /* [0.25, 1.25); whole: 1 .. 4 */
    OT_APART,     /* all different, none near 0 or another: for ops with kinks and ties */
    OT_I32,       /* whole numbers lo .. hi */
    OT_OFFSET,    /* rising offsets 0 .. at most hi, some groups empty */
    OT_GIVEN_F32, /* the numbers of data */
    OT_GIVEN_I32
} ot_kind;

typedef struct ot_in {
    ot_kind kind;
    int64_t dim[MF_MAX_RANK + 1]; /* up to the first 0; -1 stands for a dimension of size 0 */
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

/* What the row's own function sees: inputs as they were before the run, outputs after it. */
typedef struct ot_run {
    const mf_attr *attr;
    int n_in, n_out;
    struct {
        const float *f; /* the data, as the type that the input has; NULL when absent */
        const int32_t *i;
        mf_shape shape; /* rank -1 when absent */
        int64_t count;
    } in[MF_OP_MAX_IN];
    struct {
        const float *f;
        const int32_t *i;
        mf_shape shape;
        int64_t count;
        double *want; /* to be filled; NaN: not judged */
    } out[MF_OP_MAX_OUT];
    uint64_t seed, step;
    bool judged; /* set it after judging the outputs by ck_assert instead of filling want */
} ot_run;

typedef struct mf_op_row {
    const char *op;
    ot_in in[MF_OP_MAX_IN];
    mf_attr attr;
    int n_out; /* 0: 1 */
    void (*right)(ot_run *r);
    bool exact;         /* all sums of whole numbers are exact, in the gradient too */
    double tol;         /* on broken numbers, as a part of the largest; 0: 1e-6 */
    uint32_t flow;      /* outputs that a gradient is sent through; 0: the first */
    uint32_t still;     /* inputs not to be asked for a gradient, although the op has one */
    bool any_type;      /* the op takes inputs of any type */
    bool ragged;        /* ... of any number */
    const char *refuse; /* building must fail, with this in the message */
    int fails;          /* or the run must fail with this code, and `refuse` in the message */
} mf_op_row;

extern const mf_op_row mf_op_cases_gemm[];
extern const mf_op_row mf_op_cases_layers[];
extern const mf_op_row mf_op_cases_store[];
extern const mf_op_row mf_op_cases_elementwise[];
extern const mf_op_row mf_op_cases_shape[];
extern const mf_op_row mf_op_cases_index[];
extern const mf_op_row mf_op_cases_routing[];

#endif
