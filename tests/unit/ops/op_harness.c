/* op_harness.c: builds a case of op_case.h as a graph, fills its inputs, runs it and compares
 * results. The inputs are the same in every build of a case. */
#include "op_harness.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "tests/lib/device.h"

enum { SEED = 11, STEP = 5 };

ot_type ot_types = OT_ALL_F32;

/* Whether input i of the case may be bf16. */
static bool may_be_half(const mf_op_row *row, int i)
{
    const mf_opdef *op = mf_op_find(row->op);
    return op && op->bf16_in >> i & 1u && row->in[i].kind != OT_ABSENT &&
           ot_dtype(&row->in[i]) == MF_F32;
}

static void round_to_half(float *x, int64_t n)
{
    const mf_kctx one = {0};
    uint16_t half;
    for (int64_t i = 0; i < n; i++) {
        MF_RUN(&mf_kernels_ref, &one, cast, .n = 1, .from = MF_CAST_F32, .to = MF_CAST_BF16,
               .in = x + i, .out = &half);
        MF_RUN(&mf_kernels_ref, &one, cast, .n = 1, .from = MF_CAST_BF16, .to = MF_CAST_F32,
               .in = &half, .out = x + i);
    }
}

int ot_inputs(const mf_op_row *row)
{
    int n = 0;
    while (n < MF_OP_MAX_IN && row->in[n].kind != OT_END)
        n++;
    return n;
}

mf_shape ot_shape(const ot_in *in)
{
    mf_shape s = mf_shape0();
    while (s.rank < MF_MAX_RANK && in->dim[s.rank] != 0) {
        s.dim[s.rank] = in->dim[s.rank] < 0 ? 0 : in->dim[s.rank];
        s.rank++;
    }
    return s;
}

mf_dtype ot_dtype(const ot_in *in)
{
    return in->kind == OT_I32 || in->kind == OT_OFFSET || in->kind == OT_GIVEN_I32 ? MF_I32
                                                                                   : MF_F32;
}

static uint64_t draw(uint64_t input, int64_t i, uint64_t below)
{
    return mf_rng_below(SEED, 100 + input, 0, (uint64_t)i, below);
}

/* Fills x with different numbers of both signs, at distances of one step, and at least half a
 * step from 0. */
static void fill_apart(uint64_t input, bool whole, float *x, int64_t n)
{
    int32_t *order = malloc((size_t)(n + 1) * sizeof *order);
    ck_assert_ptr_nonnull(order);
    mf_rng_permutation(SEED, 200 + input, 0, order, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        double place = (double)(order[i] - n / 2) + 0.5;
        x[i] = (float)(whole ? floor(place) + (place >= 0) : 0.21 * place);
        ck_assert(x[i] != 0);
    }
    free(order);
}

static void fill_offset(uint64_t input, int32_t *x, int64_t n, int64_t first, int64_t rows)
{
    int64_t left = rows - rows / 8 - first;
    x[0] = (int32_t)first;
    for (int64_t e = 1; e < n; e++) {
        int64_t take = e == n - 1   ? left
                       : e % 3 == 2 ? 0
                                    : (int64_t)draw(input, e, (uint64_t)left + 1);
        x[e] = x[e - 1] + (int32_t)take;
        left -= take;
    }
}

static void fill_one(const ot_in *in, uint64_t input, bool whole, void *data, int64_t n)
{
    float *f = data;
    int32_t *k = data;
    for (int64_t i = 0; i < n; i++)
        switch (in->kind) {
        case OT_F32:
            f[i] = whole ? (float)draw(input, i, 9) - 4
                         : 4 * mf_rng_uniform(SEED, 100 + input, 0, (uint64_t)i) - 2;
            break;
        case OT_POSITIVE:
            f[i] = whole ? (float)draw(input, i, 4) + 1
                         : mf_rng_uniform(SEED, 100 + input, 0, (uint64_t)i) + 0.25f;
            break;
        case OT_I32:
            k[i] = (int32_t)(in->lo + (int64_t)draw(input, i, (uint64_t)(in->hi - in->lo + 1)));
            break;
        default:
            break;
        }
    if (in->kind == OT_APART) fill_apart(input, whole, f, n);
    if (in->kind == OT_OFFSET) fill_offset(input, k, n, in->lo, in->hi);
    if (in->kind == OT_GIVEN_F32 || in->kind == OT_GIVEN_I32)
        memcpy(data, in->data, (size_t)n * sizeof(float));
}

void ot_fill(const mf_op_row *row, bool whole, mf_tensor *const *in)
{
    for (int i = 0; i < ot_inputs(row); i++)
        if (in[i]) {
            const int64_t n = mf_shape_count(in[i]->shape);
            fill_one(&row->in[i], (uint64_t)i, whole, mf_tensor_input(in[i]), n);
            if (ot_types != OT_ALL_F32 && may_be_half(row, i))
                round_to_half(mf_tensor_input(in[i]), n);
        }
}

mf_graph *ot_build(const mf_op_row *row, uint32_t wants, mf_tensor **in, mf_tensor **ret_out)
{
    static const char *const names[] = {"in0", "in1", "in2", "in3", "in4", "in5", "in6", "in7"};
    const mf_opdef *op = mf_op_find(row->op); /* attention accepts bf16 only in some graphs */
    const bool attention = ot_types == OT_ROUNDED_CAST && op && op->flags & MF_OP_ATTENTION;
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true,
                                                   .bf16 = attention,
                                                   .bf16_attention = attention,
                                                   .device = mf_test_device()});
    ck_assert_ptr_nonnull(g);
    for (int i = 0; i < ot_inputs(row); i++) {
        in[i] = NULL;
        if (row->in[i].kind == OT_ABSENT) continue;
        in[i] = mf_graph_input(g, names[i], ot_dtype(&row->in[i]), ot_shape(&row->in[i]));
        if (wants >> i & 1u) mf_graph_want_grad(in[i]);
    }
    mf_tensor *given[MF_OP_MAX_IN] = {NULL};
    for (int i = 0; i < ot_inputs(row); i++)
        given[i] =
            ot_types == OT_ROUNDED_CAST && may_be_half(row, i)
                ? mf_graph_op_named(g, "cast", 1, &in[i], &(mf_attr){.i = {MF_BF16}}, 1, NULL)
                : in[i];
    ret_out[0] = NULL;
    mf_graph_op_named(g, row->op, ot_inputs(row), given, &row->attr,
                      row->n_out ? row->n_out : 1, ret_out);
    for (int o = 0; ret_out[0] && o < (row->n_out ? row->n_out : 1); o++)
        ret_out[o] = mf_graph_to_f32(g, ret_out[o]);
    return g;
}

uint32_t ot_wants(const mf_op_row *row)
{
    const mf_opdef *op = mf_op_find(row->op);
    uint32_t wants = 0;
    ck_assert_msg(op != NULL, "no op %s", row->op);
    if (op->flags & MF_OP_NO_GRAD || (!op->grad && !op->backward)) return 0;
    for (int i = 0; i < ot_inputs(row); i++)
        if (op->diff_in >> i & 1u && row->in[i].kind != OT_ABSENT &&
            ot_dtype(&row->in[i]) == MF_F32)
            wants |= 1u << i;
    return wants & ~row->still;
}

/* ---- runs ---- */

static void keep_result(ot_results *r, const mf_tensor *t, int input)
{
    int64_t n = mf_shape_count(t->shape);
    size_t bytes = (size_t)n * sizeof(float);
    int i = r->n++;
    r->data[i] = malloc(bytes + 1);
    ck_assert_ptr_nonnull(r->data[i]);
    ck_assert_msg(t->dtype == MF_F32 || t->dtype == MF_I32, "harness: f32 and i32 only");
    const void *host = mf_tensor_host(t);
    ck_assert_msg(host != NULL || n == 0, "%s: a result has no data",
                  input < 0 ? "output" : "gradient");
    if (bytes > 0) memcpy(r->data[i], host, bytes);
    r->shape[i] = t->shape;
    r->count[i] = n;
    r->is_int[i] = t->dtype == MF_I32;
    r->input_of[i] = input;
}

static void keep_inputs(ot_results *r, const mf_op_row *row, mf_tensor *const *in)
{
    for (int i = 0; i < ot_inputs(row); i++) {
        if (!in[i]) continue;
        size_t bytes = (size_t)mf_shape_count(in[i]->shape) * sizeof(float);
        r->input[i] = malloc(bytes + 1);
        ck_assert_ptr_nonnull(r->input[i]);
        if (bytes > 0) memcpy(r->input[i], mf_tensor_host(in[i]), bytes);
    }
}

int ot_differentiate(const mf_op_row *row, mf_graph *g, bool whole, uint32_t wants,
                     mf_tensor *const *in, mf_tensor *const *out)
{
    mf_tensor *from[MF_OP_MAX_OUT], *seed[MF_OP_MAX_OUT], *to[MF_OP_MAX_IN];
    uint32_t flow = row->flow ? row->flow : 1;
    int n_from = 0, n_to = 0;
    for (int o = 0; o < (row->n_out ? row->n_out : 1); o++) {
        if (!(flow >> o & 1u)) continue;
        ot_in spec = {.kind = OT_F32};
        int64_t n = mf_shape_count(out[o]->shape);
        float *data = malloc((size_t)n * sizeof *data + 1);
        ck_assert_ptr_nonnull(data);
        fill_one(&spec, 50 + (uint64_t)o, whole, data, n);
        from[n_from] = out[o];
        seed[n_from++] = mf_graph_const(g, MF_F32, out[o]->shape, data);
        free(data);
    }
    for (int i = 0; i < ot_inputs(row); i++)
        if (wants >> i & 1u) to[n_to++] = in[i];
    return mf_graph_backward_from(g, n_from, from, seed, n_to, to);
}

void ot_compute(const mf_op_row *row, const mf_kernels *k, bool whole, uint32_t wants,
                ot_results *ret)
{
    mf_tensor *in[MF_OP_MAX_IN] = {NULL}, *out[MF_OP_MAX_OUT] = {NULL};
    mf_graph *g = ot_build(row, wants, in, out);
    mf_run run = {.seed = SEED, .step = STEP, .kernels = k};
    memset(ret, 0, sizeof *ret);
    ck_assert_msg(mf_graph_status(g) == MF_OK, "%s: %s", row->op, mf_error_message());
    ret->n_out = row->n_out ? row->n_out : 1;
    for (int o = 0; o < ret->n_out; o++)
        mf_graph_keep(out[o]);
    if (wants)
        ck_assert_msg(ot_differentiate(row, g, whole, wants, in, out) == MF_OK, "%s: %s",
                      row->op, mf_error_message());
    ck_assert_msg(mf_graph_finish(g) == MF_OK, "%s: %s", row->op, mf_error_message());
    ot_fill(row, whole, in);
    keep_inputs(ret, row, in);
    ck_assert_msg(mf_graph_run(g, &run) == MF_OK, "%s: %s", row->op, mf_error_message());
    for (int o = 0; o < ret->n_out; o++)
        keep_result(ret, out[o], -1);
    for (int i = 0; i < ot_inputs(row); i++)
        if (wants >> i & 1u) keep_result(ret, in[i]->grad, i);
    mf_graph_free(g);
}

void ot_results_free(ot_results *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->data[i]);
    for (int i = 0; i < MF_OP_MAX_IN; i++)
        free(r->input[i]);
}

/* ---- comparison ---- */

bool ot_same_bits(const ot_results *a, const ot_results *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->count[i] == b->count[i] &&
               memcmp(a->data[i], b->data[i], (size_t)a->count[i] * sizeof(float)) == 0;
    return same;
}

double ot_difference_of(const float *a, const float *b, int64_t n)
{
    double largest = 1e-30, off = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(a[i]) != isnan(b[i]) || (isinf(a[i]) && a[i] != b[i])) return INFINITY;
        if (!isfinite(a[i])) continue;
        largest = fmax(largest, fabs((double)a[i]));
        off = fmax(off, fabs((double)a[i] - b[i]));
    }
    return off / largest;
}

double ot_difference(const ot_results *a, const ot_results *b)
{
    double worst = 0;
    for (int i = 0; i < a->n; i++)
        if (!a->is_int[i])
            worst = fmax(worst, ot_difference_of(a->data[i], b->data[i], a->count[i]));
        else if (memcmp(a->data[i], b->data[i], (size_t)a->count[i] * sizeof(int32_t)) != 0)
            return INFINITY;
    return worst;
}
