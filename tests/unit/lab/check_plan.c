/* plan: compares the formula with published runs on GPUs (plan_points.c). Five constants of
 * [fit] are fitted only to the points marked `fitted`. This program fits them again, also
 * without each point, and compares its table with the table of moefw-parallel(7). */
#include "check_main.h"

#include "lab/plan/plan.h"
#include "plan_points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mf_plan_model model_of(const char *name, double seq)
{
    const size_of_model *x = plan_models;
    while (strcmp(x->name, name) != 0)
        x++;
    const double attention =
        x->attention_params > 0
            ? x->attention_params
            : 2 * x->dim * x->heads * x->head_dim + 2 * x->dim * x->kv_heads * x->head_dim;
    /* The layer that predicts one more token joins two vectors, and has a head. */
    const double more = x->predicts_two, layers = x->layers + more,
                 moe = layers - x->dense_layers;
    return (mf_plan_model){
        .layers = layers,
        .moe_layers = moe,
        .dim = x->dim,
        .attention = x->attention > 0 ? x->attention : x->heads * x->head_dim,
        .seq = seq,
        .experts = x->experts,
        .top_k = x->top_k,
        .nodes = x->nodes,
        .stored_scores = x->stored_scores ? x->heads : 0,
        .dense = layers * attention + x->dense_layers * 3 * x->dim * x->hidden +
                 moe * x->dim * (3 * x->shared_hidden + x->experts) +
                 more * 2 * x->dim * x->dim,
        .expert = moe * x->experts * 3 * x->dim * x->expert_hidden,
        .head = (1 + more) * x->dim * x->vocab};
}

/* A published point, ready for mf_plan_predict. */
typedef struct run {
    const point *p;
    mf_plan_model m;
    mf_plan_cluster c;
    mf_plan_layout l;
    mf_plan_step s;
    double published; /* tokens per second of a GPU */
} run;

/* The file of a cluster, as a user would write it. */
static mf_plan_cluster cluster_of(const point *p, double *ret_peak)
{
    const machine *x = plan_machines;
    mf_plan_cluster c;
    char path[] = "/tmp/check_plan_XXXXXX";
    const int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    while (strcmp(x->name, p->machine) != 0)
        x++;
    fprintf(f, "[cluster]\nranks = %d\nper_node = %d\n[rank]\ntflops = %g\n", p->ranks,
            x->per_node, p->fp8 ? x->fp8 : x->bf16);
    if (p->fp8) fprintf(f, "attention_tflops = %g\n", x->bf16);
    fprintf(f, "memory_gb_per_s = %g\n[node]\ngb_per_s = %g\n[network]\ngb_per_s = %g\n",
            x->memory, x->node, x->network);
    fprintf(f, "[software]\noverlap = %s\nonce_per_node = %s\nrecompute = %g\n",
            p->overlap ? "yes" : "no", p->once ? "yes" : "no", p->recompute);
    fclose(f);
    ck_assert_msg(mf_plan_cluster_read(path, &c) == MF_OK, "%s", mf_error_message());
    remove(path);
    *ret_peak = 1e12 * x->bf16;
    return c;
}

static run run_of(const point *p)
{
    double peak;
    run r = {.p = p, .m = model_of(p->model, p->seq), .c = cluster_of(p, &peak)};
    const mf_plan_model *m = &r.m;
    const double active =
        m->dense + m->head + (m->experts > 0 ? m->expert * m->top_k / m->experts : 0);
    r.l = (mf_plan_layout){.data = p->ranks / (p->l.tensor * p->l.pipeline * p->l.context),
                           .expert = p->l.expert,
                           .tensor = p->l.tensor,
                           .pipeline = p->l.pipeline,
                           .context = p->l.context,
                           .stages = p->l.stages,
                           .expert_tensor = p->l.expert_tensor,
                           .balanced = p->l.last<0, .last = p->l.last> 0 ? p->l.last : 0};
    r.s = (mf_plan_step){.batch = p->batch, .micro = p->micro, .sharded = true};
    r.published = p->tokens;
    if (p->mfu > 0)
        r.published = p->mfu / 100 * peak / (6 * (active + m->seq * m->attention * m->layers));
    return r;
}

static double error_of(const run *r)
{
    mf_plan_time t;
    mf_plan_predict(&r->m, &r->c, &r->l, &r->s, &t);
    return t.tokens_per_s / r->p->ranks / r->published - 1;
}

static run *all_runs(void)
{
    run *r = malloc((size_t)plan_n_points * sizeof *r);
    for (int i = 0; i < plan_n_points; i++)
        r[i] = run_of(&plan_points[i]);
    return r;
}

/* ---- the fit ---- */

enum { FREE = 5 };
typedef double constants[FREE];

static void get(const mf_plan_cluster *c, constants k)
{
    const constants now = {c->fit.efficiency_fp8, c->fit.attention, c->fit.host_us,
                           c->fit.host_expert_us, c->fit.half_expert_rows};
    memcpy(k, now, sizeof now);
}

static void set(mf_plan_cluster *c, const constants k)
{
    c->fit.efficiency_fp8 = k[0];
    c->fit.attention = k[1];
    c->fit.host_us = k[2];
    c->fit.host_expert_us = k[3];
    c->fit.half_expert_rows = k[4];
}

/* The loss is between the absolute error and its square, so that single points do
 * not dominate. */
static double loss(run *r, int without, const constants k)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < plan_n_points; i++) {
        if (!r[i].p->fitted || i == without) continue;
        set(&r[i].c, k);
        const double off = fabs(log(1 + error_of(&r[i])));
        sum += pow(off < 0.5 ? off : 0.5, 1.5);
        n++;
    }
    return sum / n;
}

static bool better(run *r, int without, constants k, double *best, int i, double by_i, int j,
                   double by_j)
{
    constants next;
    memcpy(next, k, sizeof next);
    next[i] *= 1 + by_i;
    next[j] *= 1 + by_j;
    const double now = loss(r, without, next);
    if (now >= *best * (1 - 1e-9)) return false;
    memcpy(k, next, sizeof next);
    *best = now;
    return true;
}

/* Searches by steps along each constant and each pair of constants. The steps
 * become smaller. */
static double fit(run *r, int without, constants k)
{
    double best = loss(r, without, k);
    for (double step = 0.2; step > 0.0005; step /= 2)
        for (bool found = true; found;) {
            found = false;
            for (int i = 0; i < FREE; i++)
                for (int j = i; j < FREE; j++)
                    for (int sign = 0; sign < 4; sign++)
                        found |= better(r, without, k, &best, i, sign & 1 ? step : -step, j,
                                        i == j     ? 0
                                        : sign & 2 ? step
                                                   : -step);
        }
    return best;
}

START_TEST(constants_are_those_of_the_fit)
{
    run *r = all_runs();
    constants defaults, k;
    get(&r[0].c, defaults);
    const double now = loss(r, -1, defaults);
    memcpy(k, (const constants){0.7, 0.5, 300, 50, 100}, sizeof k);
    const double best = fit(r, -1, k);
    printf("# loss %.5f with the defaults, %.5f with %.4f %.4f %.1f %.2f %.1f\n", now, best,
           k[0], k[1], k[2], k[3], k[4]);
    ck_assert_double_le(now, 1.01 * best);
    free(r);
}
END_TEST

/* ---- judgement ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct verdict {
    int n, within; /* number of points, and of those within 20 % */
    double median; /* median of the absolute errors */
} verdict;

static verdict judge(const char *name, double *e, int n)
{
    verdict v = {.n = n};
    for (int i = 0; i < n; i++) {
        e[i] = fabs(e[i]);
        v.within += e[i] <= 0.2;
    }
    qsort(e, (size_t)n, sizeof *e, by_value);
    v.median = (e[n / 2] + e[(n - 1) / 2]) / 2;
    printf("# %s: median error %.1f %%, %d of %d within 20 %%\n", name, 100 * v.median,
           v.within, n);
    return v;
}

/* which: 1 fitted, 0 held out, -1 all */
static verdict errors_of(const run *r, const char *name, int which)
{
    double e[256];
    int n = 0;
    for (int i = 0; i < plan_n_points; i++)
        if (which < 0 || which == r[i].p->fitted) e[n++] = error_of(&r[i]);
    return judge(name, e, n);
}

START_TEST(published_runs)
{
    run *r = all_runs();
    const verdict fitted = errors_of(r, "fitted", 1), held = errors_of(r, "held out", 0),
                  all = errors_of(r, "all", -1);
    ck_assert_double_le(fitted.median, 0.05);
    ck_assert_int_eq(fitted.within, fitted.n);
    ck_assert_double_le(held.median, 0.10);
    ck_assert_int_ge(10 * held.within, 8 * held.n);
    ck_assert_double_le(all.median, 0.10);
    ck_assert_int_ge(10 * all.within, 9 * all.n);
    free(r);
}
END_TEST

START_TEST(fits_without_the_point)
{
    run *r = all_runs();
    constants defaults;
    double e[256];
    int n = 0;
    get(&r[0].c, defaults);
    for (int i = 0; i < plan_n_points; i++) {
        constants k;
        if (!r[i].p->fitted) continue;
        memcpy(k, defaults, sizeof k);
        fit(r, i, k);
        set(&r[i].c, k);
        e[n] = error_of(&r[i]);
        printf("# without it: %s: %+.1f %%\n", r[i].p->series, 100 * e[n]);
        n++;
    }
    const verdict v = judge("without it", e, n);
    ck_assert_double_le(v.median, 0.10);
    ck_assert_int_ge(20 * v.within, 19 * v.n);
    free(r);
}
END_TEST

/* ---- the manual ---- */

static char *manual(void)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    snprintf(path, sizeof path, "%s/man/moefw-parallel.7", srcdir ? srcdir : ".");
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    char *text = calloc(1, 1 << 20);
    ck_assert_uint_gt(fread(text, 1, (1 << 20) - 1, f), 0);
    fclose(f);
    return text;
}

START_TEST(the_manual_has_these_errors)
{
    run *r = all_runs();
    char *text = manual(), row[1024];
    int missing = 0;
    for (int i = 0, j; i < plan_n_points; i = j) {
        const point *p = r[i].p;
        int n = snprintf(row, sizeof row, ".It %s Ta %s Ta", p->series,
                         p->fitted ? "fitted" : "held out");
        for (j = i; j < plan_n_points && strcmp(r[j].p->series, p->series) == 0; j++)
            n += snprintf(row + n, sizeof row - (size_t)n, "%s %+ld", j > i ? "," : "",
                          lround(100 * error_of(&r[j])));
        snprintf(row + n, sizeof row - (size_t)n, " %%\n");
        printf("# %s", row);
        if (strstr(text, row)) continue;
        missing++;
    }
    ck_assert_msg(missing == 0, "%d of the rows above are not in moefw-parallel(7)", missing);
    free(text);
    free(r);
}
END_TEST

START_TEST(more_of_what_takes_time_takes_more_time)
{
    run r = run_of(&plan_points[2]);
    mf_plan_time a, b;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &a);
    ck_assert_double_eq_tol(a.step_s, a.compute + a.host + a.exchange + a.bubble + a.update,
                            1e-9 * a.step_s);
    r.l.stages = 2;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &b);
    ck_assert(b.bubble < 0.6 * a.bubble && b.exchange > a.exchange);
    r.c.network.gb_per_s /= 4;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &a);
    ck_assert(a.update > b.update && a.exchange > b.exchange && a.compute == b.compute);
    r.c.software.recompute = 1; /* gemms run four passes instead of three */
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &b);
    ck_assert(b.compute > 1.25 * a.compute && b.compute < 1.34 * a.compute);
    r.c.software.imbalance = 1.5;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &a);
    ck_assert(a.compute > 1.2 * b.compute && a.exchange > b.exchange);
    r.c.software.overlap = 1;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &b);
    ck_assert_double_ne(b.exchange, a.exchange);
    r.l.balanced = true; /* then the last stage has no larger share because of the head */
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &a);
    ck_assert(a.compute < b.compute);
    r.m.stored_scores = 48;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &b);
    ck_assert(a.compute < b.compute);
}
END_TEST

START_TEST(rows_reach_each_node_once)
{
    run r = run_of(&plan_points[2]);
    mf_plan_time a, b;
    r.l.expert = 64;
    r.m.experts = 64;
    r.m.top_k = 8;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &a);
    r.c.software.once_per_node = 1;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &b);
    ck_assert(b.exchange < 0.9 * a.exchange);
    r.m.nodes = 2; /* instead of 8 */
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &a);
    ck_assert(a.exchange < 0.8 * b.exchange);
}
END_TEST

START_TEST(a_rate_that_was_measured_is_taken)
{
    run r = run_of(&plan_points[2]);
    mf_plan_time t;
    r.c.rank.measured_gflops = 1000;
    r.m.flops = 4e12;
    r.l = (mf_plan_layout){.data = 4,
                           .expert = 1,
                           .tensor = 1,
                           .pipeline = 1,
                           .context = 1,
                           .stages = 1,
                           .expert_tensor = 1};
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &t);
    ck_assert_double_eq_tol(t.compute, 64 * 4, 1e-9); /* 64 sequences, 4 s each */
    ck_assert(t.host == 0 && t.bubble == 0 && t.exchange == 0);
    /* Half of the assignments of the one MoE layer are sent to the other rank of a node at 1
     * GB/s, four times. */
    r.l.data = 2;
    r.l.expert = 2;
    r.c.cluster.per_node = 2;
    r.c.node.gb_per_s = 1;
    r.c.node.us = 0;
    r.m.moe_layers = 1;
    r.s.batch = 2;
    r.s.row_bytes = 4;
    mf_plan_predict(&r.m, &r.c, &r.l, &r.s, &t);
    ck_assert_double_eq_tol(t.exchange, 4 * r.m.seq * r.m.top_k * r.m.dim * 4 / 2 / 1e9, 1e-9);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, constants_are_those_of_the_fit);
    tcase_add_test(t, published_runs);
    tcase_add_test(t, fits_without_the_point);
    tcase_add_test(t, the_manual_has_these_errors);
    tcase_add_test(t, more_of_what_takes_time_takes_more_time);
    tcase_add_test(t, rows_reach_each_node_once);
    tcase_add_test(t, a_rate_that_was_measured_is_taken);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
