/* shares: a step has the same loss, gradient and numbers however it is divided into
 * micro-batches (train.batch x train.accumulate), for drawn runs of all kinds of data. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "tests/lib/small.h"
#include "run/training.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES = 6, MOST_SET = 32, TEXT = 96 };

typedef struct settings {
    int n;
    char text[MOST_SET][TEXT];
} settings;

static void set(settings *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ck_assert_int_lt(s->n, MOST_SET);
    vsnprintf(s->text[s->n++], TEXT, format, args);
    va_end(args);
}

/* ---- data ---- */

static uint64_t draw(uint64_t seed, uint64_t *at, uint64_t below)
{
    return mf_rng_below(seed, mf_rng_stream("tests.shares"), 0, (*at)++, below);
}

static void words(FILE *f, uint64_t seed, uint64_t *at, uint64_t most)
{
    for (uint64_t n = 1 + draw(seed, at, most); n > 0; n--)
        fputc((int)('a' + draw(seed, at, 26)), f);
}

static const char *data_of(uint64_t seed, uint64_t *at, bool table)
{
    const char *path = scratch_path(table ? "drawn.tsv" : "drawn.jsonl");
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    if (table) fprintf(f, "sentence\tlabel\tother\tnumber\n");
    for (int i = 0; i < 12; i++) {
        if (!table) fprintf(f, "{\"prompt\": \"");
        words(f, seed, at, table ? 14 : 8);
        if (!table) fprintf(f, "\", \"answer\": \"");
        if (table) fprintf(f, "\t%d\t", i % 2);
        if (table && (i < 2 || draw(seed, at, 3) == 0))
            fprintf(f, "%d\t", i % 2);
        else if (table)
            fprintf(f, "-\t");
        if (table && draw(seed, at, 2) == 0)
            fprintf(f, "%d.5", (int)draw(seed, at, 5));
        else if (table)
            fprintf(f, "-");
        if (!table) words(f, seed, at, 20);
        fprintf(f, table ? "\n" : "\"}\n");
    }
    fclose(f);
    return path;
}

/* Draws a run of kind seed % 5. Its other settings are drawn, too. */
static void draw_run(uint64_t seed, settings *s)
{
    uint64_t at = 0;
    const int kind = (int)(seed % 5);
    static const char *const routers[] = {"linear", "sigmoid_bias", "cosine", "mlp"};
    set(s, "model.dim=16");
    set(s, "model.heads=2");
    set(s, "model.layers=2");
    set(s, "model.init_std=0.3");
    set(s, "moe.experts=4");
    set(s, "expert.hidden=16");
    set(s, "train.lr=0");
    set(s, "train.steps=2");
    set(s, "train.eval_every=0");
    set(s, "train.eval_context=0");
    set(s, "report.samples=0");
    set(s, "model.seq=%d", kind == 3 ? 36 : 24 + 8 * (int)draw(seed, &at, 2));
    set(s, "router.plugin=%s", routers[draw(seed, &at, 4)]);
    set(s, "regularizer.balance.plugin=none"); /* the regularizer is not a mean over tokens */
    if (draw(seed, &at, 2)) set(s, "regularizer.z.plugin=none");
    if (kind == 4) { /* windows of a stream of tokens */
        set(s, "data.path=builtin:topics?bytes=20000");
        return;
    }
    const bool table = kind == 1 || kind == 2;
    const char *path = data_of(seed, &at, table);
    set(s, "data.path=%s", path);
    set(s, "data.val_path=%s", path);
    if (draw(seed, &at, 2) && kind != 3) set(s, "data.padding=batch");
    if (table) set(s, "model.task=classify");
    if (kind == 2) {
        set(s, "task.two.task=classify");
        set(s, "task.two.column=other");
        set(s, "task.two.weight=0.7");
        set(s, "task.three.task=regress");
        set(s, "task.three.column=number");
    }
    if (kind == 3) set(s, "data.packing=yes");
}

/* ---- a step ---- */

enum { MOST_PARAMS = 16 };
typedef struct outcome {
    struct {
        char name[96];
        int64_t offset, count;
    } param[MOST_PARAMS]; /* the first parameters */
    int params;
    double loss, task_loss, norm;
    double losses[3]; /* losses of the tasks */
    int n_tasks;
    float *gradient; /* gradient of the mean loss */
    int64_t n;
} outcome;

static int keep_record(void *self, mf_trainer *t, mf_step_result *r)
{
    outcome *o = self;
    (void)t;
    ck_assert_ptr_nonnull(r->record);
    o->n_tasks = r->record->n_tasks;
    for (int i = 0; i < o->n_tasks; i++)
        o->losses[i] = isnan(r->record->tasks[i].loss)
                           ? 0
                           : r->record->tasks[i].weight * r->record->tasks[i].loss;
    return MF_OK;
}

static outcome one_step(const settings *s, int batch)
{
    static const mf_observer ops = {.name = "record", .after_step = keep_record};
    settings all = *s;
    const char *list[MOST_SET];
    outcome o = {0};
    const mf_step_result *r = NULL;
    const int micro = EXAMPLES / batch;
    set(&all, "train.batch=%d", batch);
    set(&all, "train.accumulate=%d", micro);
    for (int i = 0; i < all.n; i++)
        list[i] = all.text[i];
    mf_session *session = small_session(small_config(all.n, list, 0, NULL), NULL);
    mf_trainer *t = small_trainer(session, NULL);
    ck_assert_int_eq(mf_trainer_observe(t, &ops, &o), MF_OK);
    ck_assert_msg(mf_trainer_step(t, NULL, &r) == MF_OK, "%s", mf_error_message());
    const mf_store *store = session->model->store;
    mf_store_values(store, &o.n);
    o.gradient = mf_alloc((size_t)o.n, sizeof *o.gradient);
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        if (p->buffer || !p->grad) continue;
        if (o.params < MOST_PARAMS) {
            snprintf(o.param[o.params].name, sizeof o.param->name, "%s", p->name);
            o.param[o.params].offset = p->offset;
            o.param[o.params++].count = p->count;
        }
        for (int64_t k = 0; k < p->count; k++)
            o.gradient[p->offset + k] = p->grad[k] / (float)micro;
    }
    o.loss = r->loss;
    o.task_loss = r->task_loss;
    o.norm = r->grad_norm;
    mf_trainer_free(t);
    mf_session_close(session);
    return o;
}

static double distance(const outcome *a, const outcome *b)
{
    double off = 0, size = 0;
    ck_assert_int_eq(a->n, b->n);
    for (int64_t i = 0; i < a->n; i++) {
        const double d = (double)a->gradient[i] - (double)b->gradient[i];
        off += d * d;
        size += (double)a->gradient[i] * (double)a->gradient[i];
    }
    ck_assert(size > 0);
    return sqrt(off / size);
}

START_TEST(a_step_does_not_depend_on_its_cut)
{
    settings s = {0};
    draw_run((uint64_t)_i, &s);
    outcome whole = one_step(&s, EXAMPLES);
    ck_assert(whole.task_loss > 0);
    for (int batch = EXAMPLES / 2; batch >= 1; batch--) {
        if (EXAMPLES % batch != 0) continue;
        outcome cut = one_step(&s, batch);
        double sum = 0;
        for (int i = 0; i < cut.n_tasks; i++) {
            ck_assert_double_eq_tol(cut.losses[i], whole.losses[i], 1e-6 * whole.task_loss);
            sum += cut.losses[i];
        }
        if (cut.n_tasks > 0) ck_assert_double_eq_tol(sum, cut.task_loss, 1e-6 * sum);
        ck_assert_double_eq_tol(cut.loss, whole.loss, 1e-6 * whole.loss);
        ck_assert_double_eq_tol(cut.task_loss, whole.task_loss, 1e-6 * whole.task_loss);
        ck_assert_double_eq_tol(cut.norm, whole.norm, 1e-6 * whole.norm);
        ck_assert_double_lt(distance(&whole, &cut), 1e-6);
        mf_free(cut.gradient);
    }
    mf_free(whole.gradient);
}
END_TEST

/* ---- PyTorch ---- */

static const char *golden(const char *name)
{
    static char path[2][4096];
    static int turn;
    const char *srcdir = getenv("srcdir");
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/tests/golden/accumulate/%s",
             srcdir ? srcdir : ".", name);
    return path[turn];
}

static double size_of(const float *v, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

/* Compares batches of 1, 2, 3 and 6 documents with tests/golden/accumulate/make.py. The
 * validation at the end of a run would overwrite the gradients, so the run has one
 * more step. */
START_TEST(a_sum_over_all_tokens)
{
    static const char *const fixed[] = {"model.dim=8",          "model.heads=2",
                                        "model.layers=2",       "model.seq=32",
                                        "model.init_std=0.3",   "model.moe_every=0",
                                        "model.attention=no",   "train.lr=0",
                                        "train.steps=2",        "train.eval_context=0",
                                        "train.recompute=none", "expert.hidden=0",
                                        "train.eval_every=0",   "train.optimizer=adamw",
                                        "report.samples=0"};
    settings s = {0};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        set(&s, "%s", fixed[i]);
    snprintf(s.text[s.n++], TEXT, "data.path=%s", scratch_path("answers.jsonl"));
    snprintf(s.text[s.n++], TEXT, "data.val_path=%s", scratch_path("answers.jsonl"));
    size_t n;
    char *text = scratch_read(golden("answers.jsonl"), &n), name[96], *line, *rest;
    ck_assert_ptr_nonnull(text);
    scratch_write(scratch_path("answers.jsonl"), text, n);
    free(text);
    for (int batch = 1; batch <= EXAMPLES; batch++) {
        double norm, first;
        if (EXAMPLES % batch != 0) continue;
        const outcome o = one_step(&s, batch);
        text = scratch_read(golden("golden.tsv"), &n);
        ck_assert_ptr_nonnull(text);
        rest = text;
        while ((line = strsep(&rest, "\n")) && *line) {
            ck_assert_int_eq(sscanf(line, "%95s %lf %lf", name, &norm, &first), 3);
            if (strcmp(name, "loss") == 0) {
                ck_assert_double_eq_tol(o.loss, norm, 1e-6 * norm);
                continue;
            }
            int i = 0;
            while (i < o.params && strcmp(o.param[i].name, name) != 0)
                i++;
            ck_assert_int_lt(i, o.params);
            const float *g = o.gradient + o.param[i].offset;

            ck_assert_double_eq_tol(size_of(g, o.param[i].count), norm, 2e-6 * norm);
            ck_assert_double_eq_tol((double)g[0], first, 2e-6 * norm);
        }
        free(text);
        mf_free(o.gradient);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("shares");
    TCase *c = tcase_create("shares");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, a_step_does_not_depend_on_its_cut, 0, 20);
    tcase_add_test(c, a_sum_over_all_tokens);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
