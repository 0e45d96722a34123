/* check_ops: tests every op of core in six ways (see op_case.h). */
#include "check_main.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread/parallel.h"
#include "lab/check/gradcheck.h"
#include "op_harness.h"

/* One array per family of ops. */
static const mf_op_row *const families[] = {
    mf_op_cases_attention,   mf_op_cases_gemm,  mf_op_cases_layers, mf_op_cases_store,
    mf_op_cases_elementwise, mf_op_cases_shape, mf_op_cases_index,  mf_op_cases_routing,
};

enum { MAX_ROWS = 1000 };
static const mf_op_row *rows[MAX_ROWS];
static int n_rows;

static void collect_rows(void)
{
    n_rows = 0;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const mf_op_row *row = families[f]; row->op != NULL && n_rows < MAX_ROWS; row++)
            rows[n_rows++] = row;
}

static bool works(const mf_op_row *row)
{
    return row->refuse == NULL;
}

static double tolerance(const mf_op_row *row)
{
    return row->tol > 0 ? row->tol : 1e-6;
}

START_TEST(has_a_row)
{
    const char *name = mf_op_at(_i)->name;
    bool found = false;
    for (int r = 0; r < n_rows; r++)
        found |= strcmp(rows[r]->op, name) == 0 && works(rows[r]);
    ck_assert_msg(found, "op %s has no case in tests/unit/ops/op_cases_*.c (see op_case.h)",
                  name);
}
END_TEST

/* ---- values ---- */

static void show(ot_run *r, const mf_op_row *row, const ot_results *res)
{
    memset(r, 0, sizeof *r);
    r->attr = &row->attr;
    r->seed = 11;
    r->step = 5;
    r->n_in = ot_inputs(row);
    r->n_out = res->n_out;
    for (int i = 0; i < r->n_in; i++) {
        r->in[i].f = res->input[i];
        r->in[i].i = res->input[i];
        r->in[i].shape = ot_shape(&row->in[i]);
        if (row->in[i].kind == OT_ABSENT) r->in[i].shape.rank = -1;
        r->in[i].count = row->in[i].kind == OT_ABSENT ? 0 : mf_shape_count(r->in[i].shape);
    }
    for (int o = 0; o < r->n_out; o++) {
        r->out[o].f = res->data[o];
        r->out[o].i = (const int32_t *)res->data[o];
        r->out[o].shape = res->shape[o];
        r->out[o].count = res->count[o];
        r->out[o].want = malloc((size_t)res->count[o] * sizeof(double) + 1);
        ck_assert_ptr_nonnull(r->out[o].want);
        for (int64_t i = 0; i < res->count[o]; i++)
            r->out[o].want[i] = NAN;
    }
}

static void judge(const mf_op_row *row, ot_run *r, const ot_results *res, const char *set,
                  bool whole)
{
    int64_t judged = 0;
    for (int o = 0; o < r->n_out; o++) {
        double largest = 1e-30,
               tol = res->is_int[o] || (whole && row->exact) ? 0 : tolerance(row);
        for (int64_t i = 0; i < r->out[o].count; i++)
            if (isfinite(r->out[o].want[i])) largest = fmax(largest, fabs(r->out[o].want[i]));
        for (int64_t i = 0; i < r->out[o].count; i++) {
            double want = r->out[o].want[i];
            double got = res->is_int[o] ? (double)r->out[o].i[i] : (double)r->out[o].f[i];
            if (isnan(want)) continue;
            judged++;
            ck_assert_msg(
                got == want || fabs(got - want) <= tol * largest,
                "%s, %s, %s numbers: output %d element %lld: expected %.9g, found %.9g",
                row->op, set, whole ? "whole" : "broken", o, (long long)i, want, got);
        }
        free(r->out[o].want);
    }
    ck_assert_msg(judged > 0 || r->judged, "%s: the row's function judged nothing", row->op);
}

START_TEST(right)
{
    const mf_op_row *row = rows[_i];
    const mf_kernels *sets[] = {&mf_kernels_ref, mf_kernels_cpu()};
    if (!works(row)) return;
    ck_assert_msg(row->right != NULL, "%s: the row does not say what is right", row->op);
    for (int s = 0; s < 2; s++)
        for (int whole = 0; whole < 2; whole++) {
            ot_results res;
            ot_run r;
            ot_compute(row, sets[s], whole, 0, &res);
            show(&r, row, &res);
            row->right(&r);
            judge(row, &r, &res, sets[s]->name, whole);
            ot_results_free(&res);
        }
}
END_TEST

/* ---- gradient ---- */

START_TEST(gradient)
{
    const mf_op_row *row = rows[_i];
    mf_tensor *in[MF_OP_MAX_IN], *out[MF_OP_MAX_OUT], *from[MF_OP_MAX_OUT], *to[MF_OP_MAX_IN];
    uint32_t wants = works(row) ? ot_wants(row) : 0, flow = row->flow ? row->flow : 1;
    int n_from = 0, n_to = 0;
    if (!wants) return;
    mf_graph *g = ot_build(row, wants, in, out);
    ck_assert_msg(mf_graph_status(g) == MF_OK, "%s: %s", row->op, mf_error_message());
    for (int o = 0; o < (row->n_out ? row->n_out : 1); o++)
        if (flow >> o & 1u) from[n_from++] = out[o];
    for (int i = 0; i < ot_inputs(row); i++)
        if (wants >> i & 1u) to[n_to++] = in[i];
    ot_fill(row, false, in);
    mf_gradcheck_report report;
    ck_assert_msg(mf_gradcheck(g, n_from, from, n_to, to, NULL, &report) == MF_OK, "%s: %s",
                  row->op, mf_error_message());
    ck_assert_msg(report.points > 0, "%s: no point was judged", row->op);
    mf_graph_free(g);
}
END_TEST

/* ---- fast kernels ---- */

/* Checks that each gradient computed alone has the same bits as together with all others. */
static void check_alone(const mf_op_row *row, const ot_results *all, uint32_t wants)
{
    for (int i = all->n_out; i < all->n; i++) {
        ot_results one;
        if (wants == 1u << all->input_of[i]) return;
        ot_compute(row, mf_kernels_cpu(), false, 1u << all->input_of[i], &one);
        ck_assert_msg(one.n == all->n_out + 1 &&
                          memcmp(one.data[all->n_out], all->data[i],
                                 (size_t)all->count[i] * sizeof(float)) == 0,
                      "%s: the gradient of input %d alone has other bits than with the others",
                      row->op, all->input_of[i]);
        ot_results_free(&one);
    }
}

START_TEST(fast)
{
    static const int threads[] = {1, 2, 4};
    const mf_op_row *row = rows[_i];
    uint32_t wants = works(row) ? ot_wants(row) : 0;
    if (!works(row)) return;
    for (int whole = 0; whole < 2; whole++) {
        ot_results ref, first, other;
        ot_compute(row, &mf_kernels_ref, whole, wants, &ref);
        mf_parallel_set_threads(threads[0]);
        ot_compute(row, mf_kernels_cpu(), whole, wants, &first);
        double off = ot_difference(&ref, &first);
        double tol = whole && row->exact ? 0 : 3 * tolerance(row);
        ck_assert_msg(off <= tol, "%s, %s numbers: cpu is off by %g from ref, expected <= %g",
                      row->op, whole ? "whole" : "broken", off, tol);
        for (int t = 1; t < 3; t++) {
            mf_parallel_set_threads(threads[t]);
            ot_compute(row, mf_kernels_cpu(), whole, wants, &other);
            ck_assert_msg(ot_same_bits(&first, &other), "%s: %d threads give other bits than 1",
                          row->op, threads[t]);
            ot_results_free(&other);
        }
        if (!whole) check_alone(row, &first, wants);
        ot_results_free(&ref);
        ot_results_free(&first);
    }
}
END_TEST

/* ---- bf16 ---- */

#define BF16_TOLERANCE                                                                         \
    0x1p-5 /* inputs are exact; results and gradients are rounded, some repeatedly */

/* For ops that accept bf16: compares the results for bf16 inputs with those in f32. */
START_TEST(bf16)
{
    static const int threads[] = {1, 2, 4};
    const mf_op_row *row = rows[_i];
    const mf_kernels *sets[] = {&mf_kernels_ref, mf_kernels_cpu()};
    if (!works(row) || !mf_op_find(row->op)->bf16_in || row->any_type) return;
    uint32_t wants = ot_wants(row);
    ot_results plain, first, other;
    ot_types = OT_ROUNDED;
    ot_compute(row, &mf_kernels_ref, false, wants, &plain);
    ot_types = OT_ROUNDED_CAST;
    for (int s = 0; s < 2; s++) {
        mf_parallel_set_threads(1);
        ot_compute(row, sets[s], false, wants, &first);
        double off = ot_difference(&plain, &first);
        ck_assert_msg(off <= BF16_TOLERANCE,
                      "%s in bf16, %s: off by %g from f32, expected <= %g", row->op,
                      sets[s]->name, off, BF16_TOLERANCE);
        for (int t = 1; t < 3; t++) {
            mf_parallel_set_threads(threads[t]);
            ot_compute(row, sets[s], false, wants, &other);
            ck_assert_msg(ot_same_bits(&first, &other),
                          "%s in bf16: %d threads give other bits than 1", row->op, threads[t]);
            ot_results_free(&other);
        }
        ot_results_free(&first);
    }
    ot_results_free(&plain);
    ot_types = OT_ALL_F32;
}
END_TEST

/* ---- refusals ---- */

/* Builds the op on the inputs of the case, except that input `wrong` has type u8, and with
 * `more` additional inputs. Returns the graph's status. */
static int build_wrong(const mf_op_row *row, int wrong, int more)
{
    mf_tensor *in[MF_OP_MAX_IN] = {NULL};
    mf_graph *g = mf_graph_new(&(mf_graph_options){.training = true});
    int n = ot_inputs(row) + more;
    ck_assert_ptr_nonnull(g);
    for (int i = 0; i < n; i++) {
        const ot_in *spec = &row->in[i < ot_inputs(row) ? i : 0];
        if (spec->kind != OT_ABSENT)
            in[i] =
                mf_graph_input(g, "in", i == wrong ? MF_U8 : ot_dtype(spec), ot_shape(spec));
    }
    mf_error_clear();
    mf_graph_op_named(g, row->op, n, in, &row->attr, 1, NULL);
    int status = mf_graph_status(g);
    mf_graph_free(g);
    return status;
}

static void ends_in_failure(const mf_op_row *row)
{
    mf_tensor *in[MF_OP_MAX_IN], *out[MF_OP_MAX_OUT] = {NULL};
    const uint32_t wants = row->flow ? ot_wants(row) : 0;
    mf_graph *g = ot_build(row, wants, in, out);
    int code = mf_graph_status(g), want = row->fails ? row->fails : MF_ESHAPE;
    if (row->fails) ck_assert_msg(code == MF_OK, "%s: %s", row->op, mf_error_message());
    if (wants) code = ot_differentiate(row, g, false, wants, in, out);
    if (row->fails && code == MF_OK) {
        mf_graph_keep(out[0]);
        ck_assert_int_eq(mf_graph_finish(g), MF_OK);
        ot_fill(row, false, in);
        code = mf_graph_run(g, &(mf_run){.kernels = mf_kernels_cpu()});
    }
    ck_assert_msg(code == want, "%s (\"%s\"): expected %s, found %s", row->op, row->refuse,
                  mf_status_name(want), mf_status_name(code));
    ck_assert_msg(strstr(mf_error_message(), row->refuse) != NULL,
                  "%s: expected a message with \"%s\", found \"%s\"", row->op, row->refuse,
                  mf_error_message());
    /* a refused composed gradient is reported in the scope of gradients */
    const char *message = mf_error_message(), *named = strstr(message, row->op);
    ck_assert_msg(named == message || (named && wants && strncmp(message, "grad: ", 6) == 0),
                  "the message does not begin with %s: \"%s\"", row->op, message);
    mf_graph_free(g);
}

START_TEST(supported)
{
    const mf_op_row *row = rows[_i];
    if (!works(row)) {
        ends_in_failure(row);
        return;
    }
    if (!row->ragged && ot_inputs(row) < MF_OP_MAX_IN && ot_inputs(row) > 0)
        ck_assert_msg(build_wrong(row, -1, 1) == MF_ESHAPE, "%s: one input too many is taken",
                      row->op);
    for (int i = 0; i < ot_inputs(row) && !row->any_type; i++)
        if (row->in[i].kind != OT_ABSENT)
            ck_assert_msg(build_wrong(row, i, 0) == MF_ESHAPE,
                          "%s: input %d is taken although its type is u8", row->op, i);
}
END_TEST

/* ---- sizes ---- */

static char refusal[256];

static int refuse(const mf_infer *in, const char *fmt, ...)
{
    va_list args;
    (void)in;
    va_start(args, fmt);
    vsnprintf(refusal, sizeof refusal, fmt, args);
    va_end(args);
    return MF_ESHAPE;
}

/* More rows than i32 can count, and too many for the memory of this test. */
START_TEST(rows_that_have_no_index)
{
    static const struct {
        const char *op;
        mf_view in[3];
        mf_attr attr;
        int n_in;
    } table[] = {
        {"cross_entropy",
         {{.dtype = MF_F32, .shape = {.rank = 2, .dim = {(int64_t)1 << 31, 2}}},
          {.dtype = MF_I32, .shape = {.rank = 1, .dim = {(int64_t)1 << 31}}},
          {.shape = {.rank = -1}}},
         {.i = {0}},
         3},
        {"group_rows",
         {{.dtype = MF_I32, .shape = {.rank = 1, .dim = {(int64_t)1 << 31}}},
          {.shape = {.rank = -1}}},
         {.i = {1, 4}},
         2},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_view out[MF_OP_MAX_OUT] = {{0}};
        mf_infer in = {.size = sizeof in,
                       .n_in = table[i].n_in,
                       .in = table[i].in,
                       .out = out,
                       .attr = &table[i].attr,
                       .fail = refuse};
        refusal[0] = '\0';
        ck_assert_int_eq(mf_op_find(table[i].op)->infer(&in), MF_ESHAPE);
        ck_assert_str_eq(refusal, "expected a result of possible size, found [2147483648]");
    }
}
END_TEST

/* ---- changed cases ---- */

/* A change of a working case, which the op may accept or refuse. */
typedef struct change {
    char text[80];
    mf_op_row row;
} change;

enum { MAX_CHANGES = 200, MAX_NUMBERS = 1 << 16 };
static change changes[MAX_CHANGES];
static int n_changes;

static mf_op_row *changed(const mf_op_row *row, const char *what, int i, int j)
{
    ck_assert_int_lt(n_changes, MAX_CHANGES);
    change *c = &changes[n_changes++];
    c->row = *row;
    snprintf(c->text, sizeof c->text, "%s %d, %d", what, i, j);
    return &c->row;
}

static void change_inputs(const mf_op_row *row)
{
    for (int i = 0; i < ot_inputs(row); i++) {
        const ot_in *in = &row->in[i];
        int rank = 0;
        if (in->kind == OT_ABSENT) continue;
        changed(row, "absent: input", i, 0)->in[i].kind = OT_ABSENT;
        if (in->kind == OT_GIVEN_F32 || in->kind == OT_GIVEN_I32) continue;
        for (; rank < MF_MAX_RANK && in->dim[rank] != 0; rank++)
            if (in->dim[rank] > 0) changed(row, "longer: input", i, rank)->in[i].dim[rank]++;
        for (int d = 0; d < rank; d++)
            changed(row, "empty: input", i, d)->in[i].dim[d] = -1;
        if (rank > 0) changed(row, "lower rank: input", i, rank)->in[i].dim[rank - 1] = 0;
        if (rank < MF_MAX_RANK)
            changed(row, "higher rank: input", i, rank)->in[i].dim[rank] = 2;
    }
}

static void change_attributes(const mf_op_row *row)
{
    const mf_attr *a = &row->attr;
    for (int j = 0; j < (int)(sizeof a->i / sizeof *a->i); j++) {
        changed(row, "-1: attribute", 0, j)->attr.i[j] = -1;
        changed(row, "largest: attribute", 0, j)->attr.i[j] = INT64_MAX;
        changed(row, "one more: attribute", 0, j)->attr.i[j]++;
    }
    for (int j = 0; j < (int)(sizeof a->f / sizeof *a->f); j++) {
        changed(row, "NaN: attribute", 1, j)->attr.f[j] = NAN;
        changed(row, "-1: attribute", 1, j)->attr.f[j] = -1;
        changed(row, "Inf: attribute", 1, j)->attr.f[j] = INFINITY;
    }
}

static bool names_op(const mf_op_row *row)
{
    return strncmp(mf_error_message(), row->op, strlen(row->op)) == 0;
}

/* The op accepts the change and its run ends, with values or with a message, or it is refused
 * with a message. No other result is allowed, above all no access outside a tensor. */
static void takes_or_refuses(const change *c)
{
    const mf_op_row *row = &c->row;
    mf_tensor *in[MF_OP_MAX_IN], *out[MF_OP_MAX_OUT] = {NULL};
    mf_error_clear();
    mf_graph *g = ot_build(row, 0, in, out);
    int rc = mf_graph_status(g);
    int64_t numbers = 0;
    ck_assert_msg(rc == MF_OK || ((rc == MF_ESHAPE || rc == MF_EINVAL) && names_op(row)),
                  "%s, %s: %s, \"%s\"", row->op, c->text, mf_status_name(rc),
                  mf_error_message());
    for (int o = 0; rc == MF_OK && o < (row->n_out ? row->n_out : 1); o++) {
        numbers += mf_shape_count(out[o]->shape);
        mf_graph_keep(out[o]);
    }
    if (rc == MF_OK && numbers < MAX_NUMBERS) {
        rc = mf_graph_finish(g);
        ck_assert_msg(rc == MF_OK, "%s, %s: %s", row->op, c->text, mf_error_message());
        ot_fill(row, false, in);
        rc = mf_graph_run(g, &(mf_run){.kernels = mf_kernels_cpu()});
        ck_assert_msg(rc == MF_OK || names_op(row), "%s, %s: %s, \"%s\"", row->op, c->text,
                      mf_status_name(rc), mf_error_message());
    }
    mf_graph_free(g);
}

START_TEST(changed_cases)
{
    const mf_op_row *row = rows[_i];
    if (!works(row)) return;
    n_changes = 0;
    change_inputs(row);
    change_attributes(row);
    for (int i = 0; i < n_changes; i++)
        takes_or_refuses(&changes[i]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("ops");
    int n_ops = 0;
    collect_rows();
    while (mf_op_at(n_ops) != NULL)
        n_ops++;
    TCase *c = tcase_create("complete");
    tcase_add_loop_test(c, has_a_row, 0, n_ops);
    tcase_add_test(c, rows_that_have_no_index);
    suite_add_tcase(s, c);
    const struct {
        const char *name;
        const TTest *test;
    } modes[] = {{"right", right}, {"gradient", gradient},   {"fast", fast},
                 {"bf16", bf16},   {"supported", supported}, {"changed", changed_cases}};
    for (int m = 0; m < 6; m++) {
        c = tcase_create(modes[m].name);
        tcase_add_loop_test(c, modes[m].test, 0, n_rows);
        suite_add_tcase(s, c);
    }
    return s;
}

MF_CHECK_MAIN(suite)
