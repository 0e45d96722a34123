/* traces: reading, and comparison of traces with known differences. The model has two layers
 * with four experts each. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "check_main.h"
#include "data/safetensors/safetensors.h"
#include "lab/trace/trace.h"
#include "lab/trace/trace_replay.h"
#include "model/model.h"
#include "tests/lib/scratch.h"
#include "run/sample/trace.h"

enum {
    BATCHES = 2,
    ROWS = 2,
    SEQ = 3,
    TOKENS = BATCHES * ROWS * SEQ,
    LAYERS = 2,
    EXPERTS = 4,
    K = 2
};

/* The content of a trace file. Tests change it before they write it. */
typedef struct {
    int32_t token[TOKENS];
    float prob[LAYERS][TOKENS][EXPERTS];
    int32_t chosen[LAYERS][TOKENS][K];
    float gate[LAYERS][TOKENS][K], margin[LAYERS][TOKENS];
    const char *reach, *forced, *layers, *experts, *rows, *top_k;
    int32_t batches;
    int second;                     /* block index of the second layer */
    const char *leave_out, *as_f64; /* leave_out: name of a tensor that is not written; as_f64:
                                     * name of a tensor that is written as f64 */
    bool listed;                    /* experts choose tokens, so assignments are a list */
    int64_t list;                   /* length of the list */
    const float *x;                 /* [TOKENS,2] activations of the first layer, or NULL */
    int32_t row_token[LAYERS][TOKENS * K];
} made;

/* Expert t mod 4 has the highest score, .4, the next expert .3, and the others .15. */
static void make(made *m)
{
    *m = (made){.reach = "sequence",
                .forced = "",
                .layers = "0,2",
                .experts = "4",
                .rows = "2",
                .top_k = "2",
                .batches = BATCHES,
                .second = 2,
                .list = TOKENS * K};
    for (int t = 0; t < TOKENS; t++) {
        m->token[t] = 10 + t;
        for (int l = 0; l < LAYERS; l++) {
            const int first = t % EXPERTS, second = (t + 1) % EXPERTS;
            for (int e = 0; e < EXPERTS; e++)
                m->prob[l][t][e] = e == first ? 0.4f : e == second ? 0.3f : 0.15f;
            m->chosen[l][t][0] = first;
            m->chosen[l][t][1] = second;
            m->gate[l][t][0] = m->gate[l][t][1] = 0.5f;
            m->margin[l][t] = 0.15f;
            for (int k = 0; k < K; k++)
                m->row_token[l][t * K + k] = t;
        }
    }
}

/* Token t of a layer chooses `expert` instead of its second expert. Their scores differ
 * by gap. */
static void swap_second(made *m, int l, int t, int expert, float gap)
{
    const int was = m->chosen[l][t][1];
    m->prob[l][t][expert] = m->prob[l][t][was] + gap;
    m->chosen[l][t][1] = expert;
    m->margin[l][t] = gap;
}

static void add(mf_st_writer *w, const made *m, const void **data, const char *name, bool real,
                int64_t columns, int64_t rows, const void *from)
{
    static int n;
    if (!w) {
        n = 0;
        return;
    }
    const int64_t shape[2] = {rows, columns};
    if (m->leave_out && strcmp(name, m->leave_out) == 0) return;
    const bool wide = m->as_f64 && strcmp(name, m->as_f64) == 0;
    ck_assert_int_eq(mf_st_writer_add(w, name,
                                      wide   ? MF_ST_I64
                                      : real ? MF_ST_F32
                                             : MF_ST_I32,
                                      columns > 0 ? 2 : 1, shape),
                     MF_OK);
    data[n++] = from;
}

static const char *write_trace(const char *name, const made *m)
{
    static const int32_t zeros[2 * TOKENS]; /* large enough for values of I64 */
    const char *path = scratch_path(name);
    const void *data[64];
    char number[16];
    mf_io()->unlink(path);
    mf_st_writer *w = mf_st_writer_new();
    add(NULL, m, data, "", false, 0, 0, NULL);
    add(w, m, data, "token", false, 0, TOKENS, m->token);
    add(w, m, data, "target", false, 0, TOKENS, zeros);
    add(w, m, data, "position", false, 0, TOKENS, zeros);
    add(w, m, data, "sequence", false, 0, TOKENS, zeros);
    for (int l = 0; l < LAYERS; l++) {
        char text[6][32];
        static const char *const names[] = {"prob", "chosen", "gate", "margin", "token"};
        for (int i = 0; i < 5; i++)
            snprintf(text[i], sizeof text[i], "layers.%d.%s", l * m->second, names[i]);
        add(w, m, data, text[0], true, EXPERTS, TOKENS, m->prob[l]);
        add(w, m, data, text[1], false, m->listed ? 0 : K, m->listed ? m->list : TOKENS,
            m->chosen[l]);
        add(w, m, data, text[2], true, m->listed ? 0 : K, m->listed ? m->list : TOKENS,
            m->gate[l]);
        if (!m->listed) add(w, m, data, text[3], true, 0, TOKENS, m->margin[l]);
        if (m->listed) add(w, m, data, text[4], false, 0, m->list, m->row_token[l]);
        if (m->x && l == 0) add(w, m, data, "layers.0.x", true, 2, TOKENS, m->x);
    }
    snprintf(number, sizeof number, "%d", (int)m->batches);
    const char *const meta[][2] = {{"format", MF_TRACE_FORMAT},
                                   {"version", MF_TRACE_VERSION},
                                   {"step", "3"},
                                   {"seed", "1"},
                                   {"batches", number},
                                   {"rows", m->rows},
                                   {"seq", "3"},
                                   {"layers", m->layers},
                                   {"experts", m->experts},
                                   {"reach", m->reach},
                                   {"forced", m->forced},
                                   {"top_k", m->top_k},
                                   {"labels", "0"}};
    for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
        ck_assert_int_eq(mf_st_writer_meta(w, meta[i][0], meta[i][1]), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_OK);
    const mf_st_tensor *due;
    size_t which;
    while ((due = mf_st_writer_due(w, &which)))
        ck_assert_int_eq(mf_st_writer_put(w, data[which], (size_t)due->bytes), MF_OK);
    ck_assert_int_eq(mf_st_writer_end(w, false), MF_OK);
    mf_st_writer_free(w);
    return path;
}

/* Compares two traces. The caller frees the result. */
static mf_trace_diff *compare(const made *a, const made *b)
{
    mf_trace *x = NULL, *y = NULL;
    mf_trace_diff *d = NULL;
    ck_assert_int_eq(mf_trace_open(write_trace("a", a), &x), MF_OK);
    ck_assert_int_eq(mf_trace_open(write_trace("b", b), &y), MF_OK);
    ck_assert_msg(mf_trace_compare(x, y, 1e-5, &d) == MF_OK, "%s", mf_error_message());
    mf_trace_close(x);
    mf_trace_close(y);
    return d;
}

static void expect(const made *a, const made *b, int ties, int after, int real)
{
    mf_trace_diff *d = compare(a, b);
    ck_assert_int_eq(d->ties, ties);
    ck_assert_int_eq(d->after, after);
    ck_assert_int_eq(d->real, real);
    ck_assert_int_eq(d->differ, ties + after + real);
    ck_assert_int_eq(d->n_partings, ties + real);
    mf_trace_diff_free(d);
}

START_TEST(margins)
{
    const float s[] = {0.1f, 0.5f, 0.25f, 0.5f, -INFINITY};
    ck_assert_float_eq(mf_trace_margin(s, 5, 1), 0.0f);
    ck_assert_float_eq(mf_trace_margin(s, 5, 2), 0.25f);
    ck_assert_float_eq(mf_trace_margin(s, 5, 3), 0.25f - 0.1f);
    ck_assert(isinf(mf_trace_margin(s, 5, 4))); /* a masked expert cannot be an alternative */
    ck_assert(isinf(mf_trace_margin(s, 5, 5)));
    ck_assert(isinf(mf_trace_margin(s, 1, 1)));
}
END_TEST

START_TEST(equal_and_reordered)
{
    made a, b;
    make(&a);
    b = a;
    expect(&a, &b, 0, 0, 0);
    for (int t = 0; t < TOKENS; t++) { /* the order within a set has no meaning */
        b.chosen[1][t][0] = a.chosen[1][t][1];
        b.chosen[1][t][1] = a.chosen[1][t][0];
    }
    expect(&a, &b, 0, 0, 0);
    b = a;
    b.prob[0][4][0] += 0.25f; /* this changes no choice, but the difference is reported */
    mf_trace_diff *d = compare(&a, &b);
    ck_assert_double_eq_tol(d->layers[0].prob, 0.25, 1e-6);
    ck_assert_double_eq(d->layers[1].prob, 0);
    ck_assert_double_eq(d->layers[0].overlap, 1);
    mf_trace_diff_free(d);
}
END_TEST

START_TEST(real_difference)
{
    made a, b;
    make(&a);
    b = a;
    swap_second(&b, 1, 7, 2, 0.05f); /* token 7 chose 3 and 0 */
    mf_trace_diff *d = compare(&a, &b);
    ck_assert_int_eq(d->real, 1);
    ck_assert_int_eq(d->n_partings, 1);
    const mf_trace_parting *p = &d->partings[0];
    ck_assert_int_eq(p->why, MF_TRACE_REAL);
    ck_assert_int_eq(p->layer, 2);
    ck_assert_int_eq(p->token, 7);
    ck_assert_int_eq(p->n_a, 2);
    ck_assert(p->a[0] == 0 && p->a[1] == 3 && p->b[0] == 2 && p->b[1] == 3);
    ck_assert_double_eq_tol(p->gap, 0.15, 1e-6); /* the larger gap of both traces */
    ck_assert_double_eq_tol(p->margin_b, 0.05, 1e-6);
    ck_assert_double_eq_tol(d->layers[1].overlap, (TOKENS - 1 + 1.0 / 3) / TOKENS, 1e-9);
    mf_trace_diff_free(d);
}
END_TEST

/* A tie needs close scores in both traces. */
START_TEST(ties)
{
    made a, b;
    make(&a);
    a.prob[0][2][0] = a.prob[0][2][3] - 1e-6f; /* token 2 chose experts 2 and 3; expert 0 is
                                                * equally good */
    a.margin[0][2] = 1e-6f;
    b = a;
    swap_second(&b, 0, 2, 0, 2e-6f);
    expect(&a, &b, 1, 0, 0);
    swap_second(&b, 0, 2, 0, 0.1f);
    expect(&a, &b, 0, 0, 1);
    /* In b the choice is far from a tie. In a it is near a tie, but with another expert. */
    make(&b);
    b.token[0] = a.token[0];
    b.chosen[0][2][1] = 1;
    b.margin[0][2] = 1e-6f;
    expect(&a, &b, 0, 0, 1);
}
END_TEST

START_TEST(consequences)
{
    made a, b;
    make(&a);
    a.prob[0][1][3] = a.prob[0][1][2]; /* token 1, position 1 of sequence 0: an exact tie */
    a.margin[0][1] = 0;
    b = a;
    swap_second(&b, 0, 1, 3, 0);
    expect(&a, &b, 1, 0, 0);
    /* later differences of the same token, and of the next token, are consequences */
    swap_second(&b, 1, 1, 0, 0.05f);
    swap_second(&b, 1, 2, 1, 0.05f);
    expect(&a, &b, 1, 2, 0);
    swap_second(&b, 0, 2, 1, 0.05f); /* a layer does not affect itself */
    expect(&a, &b, 1, 2, 1);
    b.reach = "batch";
    swap_second(&b, 1, 0, 2, 0.05f); /* an earlier token: a consequence only with
                                      * reach "batch" */
    swap_second(&b, 1, 3, 2, 0.05f); /* another sequence: a consequence only with
                                      * reach "batch" */
    expect(&a, &b, 1, 4, 1);
    b.reach = "sequence";
    expect(&a, &b, 1, 2, 3);
    b.reach = "batch";
    swap_second(&b, 1, 6, 0, 0.05f); /* another batch: never a consequence */
    expect(&a, &b, 1, 4, 2);
    b.forced = "a"; /* earlier layers were forced to be equal */
    expect(&a, &b, 1, 0, 6);
}
END_TEST

START_TEST(order_of_partings)
{
    made a, b;
    make(&a);
    b = a;
    swap_second(&b, 0, 8, 2, 0.05f); /* batch 1 */
    swap_second(&b, 1, 5, 3, 0.05f); /* batch 0, later layer */
    swap_second(&b, 0, 4, 3, 0.05f); /* batch 0 */
    swap_second(&b, 1, 0, 3, 0.05f);
    mf_trace_diff *d = compare(&a, &b);
    static const int64_t tokens[] = {4, 0, 8};
    ck_assert_int_eq(d->after, 1);
    ck_assert_int_eq(d->n_partings, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(d->partings[i].token, tokens[i]);
    mf_trace_diff_free(d);
}
END_TEST

START_TEST(padding_and_fewer)
{
    made a, b;
    make(&a);
    a.token[11] = -1;
    b = a;
    swap_second(&b, 0, 11, 1, 0.05f); /* choices of padding tokens do not count */
    expect(&a, &b, 0, 0, 0);
    mf_trace_diff *d = compare(&a, &b);
    ck_assert_int_eq(d->layers[0].tokens, TOKENS - 1);
    mf_trace_diff_free(d);
    /* With one expert fewer, the difference is a tie if the scores agree and are near a bound,
     * otherwise not. */
    b = a;
    b.chosen[1][3][1] = -1;
    expect(&a, &b, 0, 0, 1);
    a.margin[1][3] = 1e-7f;
    expect(&a, &b, 1, 0, 0);
    b.prob[1][3][0] += 0.01f;
    expect(&a, &b, 0, 0, 1);
    a.leave_out = b.leave_out = "layers.2.prob"; /* without scores, ties cannot be detected */
    d = compare(&a, &b);
    ck_assert_int_eq(d->partings[0].why, MF_TRACE_REAL);
    ck_assert(isnan(d->partings[0].gap));
    mf_trace_diff_free(d);
}
END_TEST

START_TEST(experts_choose)
{
    made a, b;
    make(&a);
    a.listed = true;
    a.reach = "batch";
    /* Experts 0 and 1 choose token 0; experts 1 and 2 choose token 1. In trace a, expert 0
     * takes token 3, for which its score is .3, the second score of this token. In trace b it
     * takes token 2, for which its score is .15. */
    b = a;
    expect(&a, &b, 0, 0, 0);
    b.row_token[0][3 * K + 1] = 2; /* expert 0 takes token 2 instead of token 3 */
    expect(&a, &b, 0, 0, 2);
    a.prob[0][3][0] = b.prob[0][3][0] = 0.15f;
    expect(&a, &b, 2, 0, 0);
    b.row_token[1][5 * K] = 4;
    mf_trace_diff *d = compare(&a, &b);
    ck_assert_int_eq(d->after, 2);
    mf_trace_diff_free(d);
    b.row_token[1][5 * K] = -1; /* an unused assignment */
    expect(&a, &b, 2, 1, 0);
}
END_TEST

/* If a probability is NaN in one trace only, the difference is infinite. If it is NaN in both,
 * there is no difference. */
START_TEST(probabilities_that_are_nan)
{
    made a, b;
    make(&a);
    b = a;
    b.prob[0][3][2] = NAN;
    mf_trace_diff *d = compare(&a, &b);
    ck_assert(isinf(d->layers[0].prob) && isinf(d->layers[0].prob_all));
    ck_assert_double_eq(d->layers[1].prob, 0);
    mf_trace_diff_free(d);
    a.prob[0][3][2] = NAN;
    d = compare(&a, &b);
    ck_assert_double_eq(d->layers[0].prob, 0);
    ck_assert_int_eq(d->differ, 0);
    mf_trace_diff_free(d);
}
END_TEST

static void cannot(const made *a, const made *b, const char *word)
{
    mf_trace *x = NULL, *y = NULL;
    mf_trace_diff *d = NULL;
    ck_assert_int_eq(mf_trace_open(write_trace("a", a), &x), MF_OK);
    int rc = mf_trace_open(write_trace("b", b), &y);
    if (rc == MF_OK) rc = mf_trace_compare(x, y, 1e-5, &d);
    ck_assert_int_eq(rc, MF_EINPUT);
    ck_assert_msg(strstr(mf_error_message(), word) != NULL, "'%s' lacks '%s'",
                  mf_error_message(), word);
    ck_assert_ptr_null(d);
    mf_trace_close(x);
    mf_trace_close(y);
}

START_TEST(not_comparable)
{
    made a, b;
    make(&a);
    b = a;
    b.token[5] = 99;
    cannot(&a, &b, "other tokens: the id of token 5 (batch 0, row 1, position 2) is 15 and 99");
    b = a;
    b.layers = "0";
    cannot(&a, &b, "numbers of MoE layers: 2 and 1");
    b.layers = "0,3";
    b.second = 3;
    cannot(&a, &b, "MoE layers: 2 and 3");
    b = a;
    b.chosen[1][6][0] = EXPERTS;
    cannot(&a, &b, "layer 2, row 12: expert 4");
    b.chosen[1][6][0] = -2;
    cannot(&a, &b, "expert -2");
}
END_TEST

START_TEST(damaged)
{
    made a, b;
    make(&a);
    b = a;
    b.batches = 3;
    cannot(&a, &b, "'token'");
    b = a;
    b.leave_out = "target";
    cannot(&a, &b, "no tensor 'target'");
    b.leave_out = "layers.2.gate";
    cannot(&a, &b, "no tensor 'layers.2.gate'");
    b = a;
    b.as_f64 = "position";
    cannot(&a, &b, "'position' is I64; expected I32");
    b = a;
    b.experts = "3";
    cannot(&a, &b, "'layers.0.prob'");
    b.experts = "0";
    cannot(&a, &b, "\"experts\" is 0");
    b.experts = "1";
    cannot(&a, &b, "layer 0: 2 of 1 experts chosen");
    b = a;
    b.rows = "1000000000"; /* each of these sequences has 3 tokens */
    cannot(&a, &b, "more tokens than a trace can hold");
    b = a;
    b.listed = true;
    b.list = TOKENS * K - 1;
    cannot(&a, &b, "layer 0: 23 rows in 2 batches");
    b = a;
    b.layers = "2,0";
    cannot(&a, &b, "\"layers\"");
    b.layers = "0,1";
    cannot(&a, &b, "'layers.1.chosen'");
}
END_TEST

/* A file that another program truncates while it is open. */
START_TEST(cut_while_open)
{
    made a;
    mf_trace *t = NULL;
    void *data = &a;
    make(&a);
    const char *path = write_trace("a", &a);
    ck_assert_int_eq(mf_trace_open(path, &t), MF_OK);
    ck_assert_int_eq(truncate(path, 1000), 0);
    ck_assert_int_ne(mf_trace_read(t, t->layers[1].gate, &data), MF_OK);
    ck_assert_ptr_null(data);
    ck_assert_msg(strstr(mf_error_message(), "tensor 'layers.2.gate'") != NULL, "%s",
                  mf_error_message());
    mf_trace_close(t);
}
END_TEST

/* ---- replay: what does not fit the model ---- */

static const mf_task_section more = {.name = "more", .task = MF_FURTHER_CLASSIFY};

/* A model with only the numbers that a trace is compared with. */
typedef struct {
    mf_moe_layer moe[LAYERS];
    mf_model model;
    mf_session session;
} fake;

static void fake_model(fake *f)
{
    memset(f, 0, sizeof *f);
    f->moe[0].config.experts = f->moe[1].config.experts = EXPERTS;
    f->moe[1].layer = 2;
    f->model.moe = f->moe;
    f->model.n_moe = LAYERS;
    f->model.dims =
        (mf_model_dims){.vocab = 30, .labels = 3, .classes = 2, .more_classes = {3}};
    f->model.settings.model.seq = SEQ;
    f->model.settings.model.task = MF_TASK_LM;
    f->model.config = &f->model.settings;
    f->session.model = &f->model;
}

static void does_not_fit(const mf_trace *t, fake *f, bool forced, const char *words)
{
    mf_error_clear();
    ck_assert_int_eq(mf_trace_replay(t, &f->session, forced, NULL), MF_EINPUT);
    ck_assert_msg(strstr(mf_error_message(), words) != NULL, "'%s' lacks '%s'",
                  mf_error_message(), words);
    fake_model(f);
}

/* Replays with one changed number in the trace, and restores the number. */
static void wrong_number(const mf_trace *t, fake *f, int32_t *at, int32_t value,
                         const char *words)
{
    const int32_t was = *at;
    *at = value;
    does_not_fit(t, f, false, words);
    *at = was;
}

START_TEST(another_model)
{
    made a;
    fake f;
    mf_trace *t = NULL;
    make(&a);
    fake_model(&f);
    ck_assert_int_eq(mf_trace_open(write_trace("a", &a), &t), MF_OK);
    f.model.n_moe = 1;
    does_not_fit(t, &f, false, "has 2 MoE layers, the model 1");
    f.moe[1].layer = 1;
    does_not_fit(t, &f, false, "MoE layer 2; the model has layer 1 in its place");
    f.moe[1].config.experts = 8;
    does_not_fit(t, &f, false, "MoE layer 2 has 4 experts, the model 8");
    f.model.settings.model.seq = 2;
    does_not_fit(t, &f, false, "has sequences of 3 tokens; the model takes at most 2");
    f.model.settings.model.task = MF_TASK_CLASSIFY;
    does_not_fit(t, &f, false, "was recorded in modelling tokens");
    f.model.dims.vocab = 20;
    does_not_fit(t, &f, false, "token 10: id 20; the model has 20 ids");
    wrong_number(t, &f, &t->target[4], 30, "target 4 is 30 of 30");
    wrong_number(t, &f, &t->target[4], -2, "target 4 is -2 of 30");
    wrong_number(t, &f, &t->token[5], -2, "token 5: id -2;");
    wrong_number(t, &f, &t->position[6], 3, "token 6: position 3 of 3");
    wrong_number(t, &f, &t->position[6], -2, "token 6: position -2 of 3");
    wrong_number(t, &f, &t->sequence[7], -1, "token 7: sequence -1");
    int32_t labels[TOKENS] = {0};
    t->label = labels;
    wrong_number(t, &f, &labels[8], 3, "token 8: label 3 of 3");
    t->label = NULL;
    /* targets and classes of sequences */
    int32_t classes[BATCHES * ROWS] = {0, 1, 2, -1};
    t->by_row = true;
    t->tasks[1].classes = classes;
    f.model.settings.model.task = MF_TASK_CLASSIFY;
    f.model.settings.tasks = &more;
    f.model.settings.n_tasks = 1;
    wrong_number(t, &f, &classes[3], 3, "task 1, sequence 3: class 3 of 3");
    t->tasks[1].classes = NULL;
    mf_trace_close(t);
}
END_TEST

START_TEST(choices_out_of_range)
{
    made a;
    fake f;
    static const struct {
        int32_t token, expert;
        const char *words;
    } cases[] = {{0, EXPERTS, "layer 2, row 12: expert 4"},
                 {0, -2, "layer 2, row 12: expert -2"},
                 {ROWS * SEQ - 1, 0, "layer 2, row 12: token 5"}, /* of the previous batch */
                 {TOKENS, 0, "layer 2, row 12: token 12"},
                 {-2, 0, "layer 2, row 12: token -2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mf_trace *t = NULL;
        make(&a);
        fake_model(&f);
        a.listed = true;
        a.chosen[1][6][0] = cases[i].expert;
        if (cases[i].token) a.row_token[1][6 * K] = cases[i].token;
        ck_assert_int_eq(mf_trace_open(write_trace("a", &a), &t), MF_OK);
        does_not_fit(t, &f, true, cases[i].words);
        mf_trace_close(t);
    }
}
END_TEST

/* ---- activations ---- */

static void no_activations(const char *text, int code, const char *words)
{
    mf_activations x = {0};
    mf_error_clear();
    ck_assert_int_eq(mf_activations_read(text, false, &x), code);
    ck_assert_msg(strstr(mf_error_message(), words) != NULL, "'%s' lacks '%s'",
                  mf_error_message(), words);
    ck_assert_ptr_null(x.x);
}

START_TEST(activations)
{
    made a;
    mf_activations x = {0};
    float values[2 * TOKENS] = {0};
    make(&a);
    char text[512];
    snprintf(text, sizeof text, "%s:2", write_trace("a", &a));
    no_activations(text, MF_EINPUT, "without activations");
    snprintf(text, sizeof text, "%s:two", scratch_path("a"));
    no_activations(text, MF_EUSAGE, "found 'two'");
    snprintf(text, sizeof text, "%s:two", scratch_path("none"));
    no_activations(text, MF_EUSAGE,
                   "no such file; after a colon, expected the number of a "
                   "layer, or a tensor of that file, found 'two'");
    a.x = values;
    values[2 * 4 + 1] = 0.5f;
    a.token[0] = -1; /* a padding token, which has no activations */
    const char *path = write_trace("a", &a);
    ck_assert_msg(mf_activations_read(path, false, &x) == MF_OK, "%s", mf_error_message());
    ck_assert(x.rows == TOKENS - 1 && x.dim == 2 && x.experts == EXPERTS && x.top_k == K);
    ck_assert_float_eq(x.x[2 * 3 + 1], 0.5f);
    ck_assert_int_eq(x.ids[3], a.token[4]);
    mf_activations_free(&x);
    values[2 * 4 + 1] = NAN;
    no_activations(write_trace("a", &a), MF_EINPUT, "layer 0, activation 7 is nan");
    values[2 * 4 + 1] = 0;
    a.top_k = "0";
    no_activations(write_trace("a", &a), MF_EINPUT,
                   "metadata \"top_k\" is 0; expected a number from 1 to 65536");
}
END_TEST

/* Writes hidden states, [2,3,2], with the ids of their tokens. */
static const char *write_hidden(const float *hidden, const void *ids, mf_st_dtype dtype)
{
    static const int64_t shape[] = {2, 3, 2};
    const char *path = scratch_path("hidden");
    const mf_st_tensor *due;
    size_t which;
    mf_st_writer *w = mf_st_writer_new();
    mf_io()->unlink(path);
    ck_assert_int_eq(mf_st_writer_add(w, "hidden", MF_ST_F32, 3, shape), MF_OK);
    ck_assert_int_eq(mf_st_writer_add(w, "input_ids", dtype, 2, shape), MF_OK);
    ck_assert_int_eq(mf_st_writer_begin(w, path), MF_OK);
    while ((due = mf_st_writer_due(w, &which)))
        ck_assert_int_eq(mf_st_writer_put(w, which ? ids : hidden, (size_t)due->bytes), MF_OK);
    ck_assert_int_eq(mf_st_writer_end(w, false), MF_OK);
    mf_st_writer_free(w);
    return path;
}

START_TEST(hidden_states)
{
    float hidden[12] = {0};
    int64_t ids[6] = {5, 6, 7, 8, 9, INT32_MAX};
    int32_t small[6] = {0};
    mf_activations x = {0};
    char text[512];
    hidden[11] = 2;
    snprintf(text, sizeof text, "%s:hidden", write_hidden(hidden, ids, MF_ST_I64));
    ck_assert_msg(mf_activations_read(text, false, &x) == MF_OK, "%s", mf_error_message());
    ck_assert(x.rows == 6 && x.dim == 2 && x.x[11] == 2 && x.ids[5] == INT32_MAX);
    mf_activations_free(&x);
    write_hidden(hidden, small, MF_ST_I32);
    no_activations(text, MF_EINPUT, "tensor 'input_ids': expected I64 with 6 elements");
    ids[5] = (int64_t)INT32_MAX + 1;
    write_hidden(hidden, ids, MF_ST_I64);
    no_activations(text, MF_EINPUT, "input_ids: expected ids, found 2147483648");
    ids[5] = -1;
    write_hidden(hidden, ids, MF_ST_I64);
    no_activations(text, MF_EINPUT, "input_ids: expected ids, found -1");
    ids[5] = 1;
    hidden[3] = INFINITY;
    write_hidden(hidden, ids, MF_ST_I64);
    no_activations(text, MF_EINPUT, "activation 3 is inf");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trace");
    TCase *t = tcase_create("trace");
    tcase_add_test(t, margins);
    tcase_add_test(t, equal_and_reordered);
    tcase_add_test(t, real_difference);
    tcase_add_test(t, ties);
    tcase_add_test(t, consequences);
    tcase_add_test(t, order_of_partings);
    tcase_add_test(t, padding_and_fewer);
    tcase_add_test(t, experts_choose);
    tcase_add_test(t, probabilities_that_are_nan);
    tcase_add_test(t, not_comparable);
    tcase_add_test(t, damaged);
    tcase_add_test(t, cut_while_open);
    tcase_add_test(t, another_model);
    tcase_add_test(t, choices_out_of_range);
    tcase_add_test(t, activations);
    tcase_add_test(t, hidden_states);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
