/* Cases of ops/store.c: ops that write to the memory of a gradient. assign replaces the earlier
 * content; the other ops add to it. */
#include "op_case.h"

#include <stddef.h>

static void right_assign(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = r->in[1].f != NULL ? r->in[1].f[i] : 0;
}

static void right_accumulate(ot_run *r)
{
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = (double)r->in[0].f[i] + r->in[1].f[i];
}

static void right_rows(ot_run *r)
{
    const int64_t n = r->in[0].shape.dim[1];
    for (int64_t i = 0; i < r->out[0].count; i++)
        r->out[0].want[i] = (double)r->in[0].f[i];
    for (int64_t i = 0; i < r->in[1].count * n; i++)
        r->out[0].want[r->in[1].i[i / n] * n + i % n] += r->in[2].f[i];
}

const mf_op_row mf_op_cases_store[] = {
    {.op = "assign", .in = {OT_F(3, 5), OT_F(3, 5)}, .right = right_assign, .exact = true},
    {.op = "assign", .in = {OT_F(3, 5), OT_NO}, .right = right_assign, .exact = true},
    {.op = "assign", .in = {OT_SCALAR, OT_SCALAR}, .right = right_assign, .exact = true},
    {.op = "assign", .in = {OT_F(3, 5), OT_F(5, 3)}, .refuse = "expected value of shape [3,5]"},

    {.op = "accumulate",
     .in = {OT_F(7, 30), OT_F(7, 30)},
     .right = right_accumulate,
     .exact = true},
    {.op = "accumulate", .in = {OT_F(4), OT_NO}, .refuse = "expected input value"},
    {.op = "accumulate", .in = {OT_F(4), OT_F(2, 2)}, .refuse = "expected value of shape [4]"},

    {.op = "embedding_accumulate",
     .in = {OT_F(9, 5), OT_I(0, 8, 3, 7), OT_F(3, 7, 5)},
     .right = right_rows},
    {.op = "embedding_accumulate",
     .in = {OT_F(9, 5), OT_I(0, 8, 4), OT_F(4, 6)},
     .refuse = "expected dy of shape [4,5]"},
    {.op = "embedding_accumulate",
     .in = {OT_F(45), OT_I(0, 8, 4), OT_F(4, 5)},
     .refuse = "expected grad"},
    {.op = "embedding_accumulate",
     .in = {OT_F(9, 5), OT_F(4), OT_F(4, 5)},
     .refuse = "expected ids"},
    {0},
};
