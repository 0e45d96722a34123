/* Cases of check_ops: functions of one and of two values, and conversions of types. Expected
 * values are computed in double. */
#include <check.h>
#include <math.h>

#include "op_case.h"

/* ---- one value ---- */

#define RIGHT(name, formula)                                                                   \
    static void right_##name(ot_run *r)                                                        \
    {                                                                                          \
        const double a = r->attr->f[0], b = r->attr->f[1];                                     \
        (void)a, (void)b;                                                                      \
        for (int64_t i = 0; i < r->out[0].count; i++) {                                        \
            const double x = r->in[0].f[i];                                                    \
            r->out[0].want[i] = formula;                                                       \
        }                                                                                      \
    }
RIGHT(exp, exp(x))
RIGHT(log, log(x))
RIGHT(sqrt, sqrt(x))
RIGHT(square, x *x)
RIGHT(reciprocal, 1 / x)
RIGHT(abs, fabs(x))
RIGHT(relu, fmax(x, 0))
RIGHT(gelu, x * 0.5 * (1 + erf(x / sqrt(2))))
RIGHT(gelu_tanh, x * 0.5 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * pow(x, 3)))))
RIGHT(silu, x / (1 + exp(-x)))
RIGHT(sigmoid, 1 / (1 + exp(-x)))
RIGHT(tanh, tanh(x))
RIGHT(softplus, log(1 + exp(x)))
RIGHT(normal_cdf, 0.5 * (1 + erf(x / sqrt(2))))
RIGHT(xlogx, x > 0 ? x * log(x) : 0)
RIGHT(sign, x > 0 ? 1 : x < 0 ? -1 : 0)
RIGHT(affine, a *x + b)
RIGHT(clamp, fmin(fmax(x, a), b))
RIGHT(same, x)

/* ---- two values ---- */

/* The element of operand `in` that belongs to element i of the result. */
static double operand(const ot_run *r, int in, int64_t i)
{
    mf_shape to = r->out[0].shape, from = r->in[in].shape;
    int64_t at = 0, step = 1;
    for (int32_t d = 1; d <= to.rank; d++) {
        int64_t size = to.dim[to.rank - d], place = i % size;
        i /= size;
        if (d > from.rank) continue;
        if (from.dim[from.rank - d] != 1) at += place * step;
        step *= from.dim[from.rank - d];
    }
    return r->in[in].f[at];
}

#define RIGHT2(name, formula)                                                                  \
    static void right_##name(ot_run *r)                                                        \
    {                                                                                          \
        for (int64_t i = 0; i < r->out[0].count; i++) {                                        \
            const double a = operand(r, 0, i), b = operand(r, 1, i);                           \
            r->out[0].want[i] = formula;                                                       \
        }                                                                                      \
    }
RIGHT2(add, a + b)
RIGHT2(sub, a - b)
RIGHT2(mul, a *b)
RIGHT2(div, a / b)
RIGHT2(maximum, fmax(a, b))
RIGHT2(minimum, fmin(a, b))
RIGHT2(greater, a > b)

/* Whole numbers: the operands as i32, the result modulo 2^32. */
#define WHOLE2(name, formula)                                                                  \
    static void right_whole_##name(ot_run *r)                                                  \
    {                                                                                          \
        const int64_t n = r->in[1].count;                                                      \
        for (int64_t i = 0; i < r->out[0].count; i++) {                                        \
            const int64_t a = r->in[0].i[i], b = r->in[1].i[i % n];                            \
            r->out[0].want[i] = (double)(int32_t)(uint32_t)(uint64_t)(formula);                \
        }                                                                                      \
    }
WHOLE2(add, a + b)
WHOLE2(sub, a - b)
WHOLE2(mul, a *b)
WHOLE2(div, b == 0 ? 0 : a / b)
WHOLE2(maximum, a > b ? a : b)
WHOLE2(minimum, a < b ? a : b)
WHOLE2(greater, a > b)

static const int32_t ends_a[] = {INT32_MIN, INT32_MIN, INT32_MAX, INT32_MAX, -7, 7, -7, 0},
                     ends_b[] = {-1, 1, INT32_MAX, -1, 2, -2, 0, 0};

static void right_empty(ot_run *r)
{
    ck_assert_int_eq(r->out[0].count, 0);
    r->judged = true;
}

static const float around_zero[] = {0, -0.0f, 1e-30f, 0.5f, 1, 2};
static const float far_out[] = {-200, -95, -20, -6, -0.01f, 0, 0.01f, 6, 20, 80};

static void right_xlogx_given(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = around_zero[i] > 0 ? around_zero[i] * log(around_zero[i]) : 0;
}

#define ONE_WITHIN(name, input, tolerance)                                                     \
    {.op = #name, .in = {input(3, 4, 7)}, .right = right_##name},                              \
        {.op = #name, .in = {input(20000)}, .right = right_##name},                            \
        {.op = #name,                                                                          \
         .in = {{.kind = OT_POSITIVE}},                                                        \
         .right = right_##name,                                                                \
         .tol = (tolerance)},                                                                  \
    {                                                                                          \
        .op = #name, .in = {OT_NO}, .refuse = "expected input x, found none"                   \
    }
#define ONE(name, input) ONE_WITHIN(name, input, 0)
#define FAR(name)                                                                              \
    {                                                                                          \
        .op = #name, .in = {OT_NUMBERS(far_out, 10)}, .right = right_##name                    \
    }
#define EXACT(name)                                                                            \
    {                                                                                          \
        .op = #name, .in = {OT_DISTINCT(30, 41)}, .right = right_##name, .exact = true         \
    }
#define PAIR(name, input)                                                                      \
    {.op = #name, .in = {input(4, 9), input(4, 9)}, .right = right_##name},                    \
        {.op = #name, .in = {input(2, 3, 4), input(4)}, .right = right_##name},                \
        {.op = #name, .in = {input(4, 1, 5), input(2, 1, 3, 1)}, .right = right_##name},       \
        {.op = #name, .in = {{.kind = OT_POSITIVE}, input(3, 2)}, .right = right_##name},      \
        {.op = #name, .in = {input(130, 70), input(130, 1)}, .right = right_##name},           \
        {.op = #name,                                                                          \
         .in = {input(3, 4), input(4, 3)},                                                     \
         .refuse =                                                                             \
             "expected shapes that broadcast (equal or 1 from the end), found [3,4] and "      \
             "[4,3]"},                                                                         \
    {                                                                                          \
        .op = #name, .in = {input(3), OT_NO}, .refuse = "expected input b, found none"         \
    }
#define WHOLE(name)                                                                            \
    {.op = #name,                                                                              \
     .in = {OT_I(-9, 9, 30, 41), OT_I(-3, 3, 41)},                                             \
     .right = right_whole_##name,                                                              \
     .still = 3},                                                                              \
        {.op = #name,                                                                          \
         .in = {OT_I(-9, 9, 20000), OT_I(-3, 3, 20000)},                                       \
         .right = right_whole_##name,                                                          \
         .still = 3},                                                                          \
        {.op = #name,                                                                          \
         .in = {OT_INDICES(ends_a, 8), OT_INDICES(ends_b, 8)},                                 \
         .right = right_whole_##name,                                                          \
         .still = 3},                                                                          \
    {                                                                                          \
        .op = #name, .in = {OT_I(0, 3, 4), OT_F(4)},                                           \
        .refuse = "expected b of type i32, found f32"                                          \
    }
#define EXACT2(name)                                                                           \
    {                                                                                          \
        .op = #name, .in = {OT_F(5, 30), OT_F(3, 1, 30)}, .right = right_##name, .exact = true \
    }

const mf_op_row mf_op_cases_elementwise[] = {
    ONE(exp, OT_F),
    ONE(log, OT_POS),
    ONE(sqrt, OT_POS),
    ONE(square, OT_F),
    EXACT(square),
    ONE(reciprocal, OT_POS),
    ONE(abs, OT_DISTINCT),
    EXACT(abs),
    ONE(relu, OT_DISTINCT),
    EXACT(relu),
    ONE(gelu, OT_F),
    FAR(gelu),
    ONE(gelu_tanh, OT_F),
    FAR(gelu_tanh),
    ONE(silu, OT_F),
    FAR(silu),
    ONE(sigmoid, OT_F),
    FAR(sigmoid),
    ONE_WITHIN(tanh, OT_F, 1e-5), /* the gradient 1 - y^2 uses the rounded y */
    FAR(tanh),
    ONE(softplus, OT_F),
    FAR(softplus),
    ONE(normal_cdf, OT_F),
    FAR(normal_cdf),
    ONE(xlogx, OT_POS),
    {.op = "xlogx", .in = {OT_NUMBERS(around_zero, 6)}, .right = right_xlogx_given, .still = 1},
    ONE(sign, OT_DISTINCT),
    EXACT(sign),
    {.op = "affine",
     .in = {OT_F(3, 5)},
     .attr = {.f = {2, -1}},
     .right = right_affine,
     .exact = true},
    {.op = "affine", .in = {OT_F(3, 5)}, .attr = {.f = {1, 0.5}}, .right = right_affine},
    {.op = "affine", .in = {OT_F(20000)}, .attr = {.f = {-0.3, 0}}, .right = right_affine},
    {.op = "clamp",
     .in = {OT_DISTINCT(3, 51)},
     .attr = {.f = {-3, 5}},
     .right = right_clamp,
     .exact = true},
    {.op = "clamp", .in = {OT_DISTINCT(20000)}, .attr = {.f = {0, 0}}, .right = right_clamp},
    {.op = "clamp",
     .in = {OT_F(3)},
     .attr = {.f = {2, 1}},
     .refuse = "expected lo <= hi, found 2 and 1"},
    {.op = "clamp", .in = {OT_F(3)}, .attr = {.f = {0, NAN}}, .refuse = "expected lo <= hi"},
    PAIR(add, OT_F),
    EXACT2(add),
    PAIR(sub, OT_F),
    EXACT2(sub),
    PAIR(mul, OT_F),
    EXACT2(mul),
    PAIR(div, OT_POS),
    PAIR(maximum, OT_F),
    {.op = "maximum", .in = {OT_F(50), OT_F(50)}, .right = right_maximum, .exact = true},
    PAIR(minimum, OT_F),
    {.op = "minimum", .in = {OT_F(50), OT_F(50)}, .right = right_minimum, .exact = true},
    PAIR(greater, OT_DISTINCT),
    EXACT2(greater),
    WHOLE(add),
    WHOLE(sub),
    WHOLE(mul),
    WHOLE(div),
    WHOLE(maximum),
    WHOLE(minimum),
    WHOLE(greater),
    {.op = "add", .in = {OT_F(2, -1), OT_F(2, 1)}, .right = right_empty, .still = 3},
    {.op = "cast",
     .in = {OT_F(20, 30)},
     .attr = {.i = {MF_F32}},
     .right = right_same,
     .any_type = true},
    {.op = "cast",
     .in = {OT_F(3)},
     .attr = {.i = {7}},
     .refuse = "expected type in 0 .. 3, found 7"},
    {0}};
