/* library: uses moefw/run.h like a program: own batches, errors, two models in two threads,
 * routing, plugins linked into the program, resuming a run. */
#include "check_main.h"

#include <math.h>
#include <moefw/moefw.h>
#include <moefw/run.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/file/io.h"
#include "tests/lib/program.h"

enum { VOCAB = 32, ROWS = 4, WIDTH = 16, TOKENS = ROWS * WIDTH };

static const char *const small[][2] = {
    {"data.path", "none"},       {"model.vocab", "32"},    {"model.dim", "32"},
    {"model.layers", "2"},       {"model.heads", "2"},     {"model.seq", "16"},
    {"moe.experts", "4"},        {"expert.hidden", "32"},  {"train.eval_context", "0"},
    {"train.batch", "4"},        {"train.lr", "0.01"},     {"train.warmup", "2"},
    {"train.recompute", "none"}, {"report.enabled", "no"}, {"train.threads", "2"}};

static void ok(const moefw_run *run, int rc)
{
    ck_assert_msg(rc == MF_OK, "%d: %s", rc, moefw_run_message(run));
}

/* A small model that trains on the test's own batches. */
static moefw_run *configured(const char *router, const char *steps)
{
    moefw_run *run = moefw_run_new();
    ck_assert_ptr_nonnull(run);
    ok(run, moefw_run_configure(run, "default"));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        ok(run, moefw_run_set(run, small[i][0], small[i][1]));
    ok(run, moefw_run_set(run, "router.plugin", router));
    ok(run, moefw_run_set(run, "train.steps", steps));
    return run;
}

/* Sequences that count upwards in steps of 1 or 2. */
static moefw_batch fill(int step, int32_t *tokens, int32_t *targets)
{
    for (int i = 0; i < TOKENS; i++) {
        const int row = i / WIDTH, stride = 1 + (step + row) % 2;
        tokens[i] = (7 * step + 5 * row + i % WIDTH * stride) % VOCAB;
        targets[i] = (tokens[i] + stride) % VOCAB;
    }
    return (moefw_batch){sizeof(moefw_batch), ROWS, WIDTH, tokens, targets, NULL};
}

static double take_step(moefw_run *run, int i)
{
    int32_t tokens[TOKENS], targets[TOKENS];
    const moefw_batch b = fill(i, tokens, targets);
    moefw_step step = {.size = sizeof step};
    ok(run, moefw_run_step(run, &b, &step));
    ck_assert_int_eq(step.step, i + 1);
    return step.loss;
}

/* ---- training on own batches ---- */

START_TEST(own_batches_are_learned)
{
    moefw_run *run = configured("linear", "60");
    int32_t tokens[TOKENS], targets[TOKENS];
    double first = 0, last = 0, apart;
    ok(run, moefw_run_start(run, NULL));
    for (int i = 0; i < 60; i++) {
        ck_assert(!moefw_run_done(run));
        last = take_step(run, i);
        if (i == 0) first = last;
    }
    ck_assert(moefw_run_done(run));
    ck_assert_msg(last < 0.6 * first, "%g %g", first, last);
    moefw_batch b = fill(1000, tokens, targets);
    ok(run, moefw_run_evaluate_batch(run, &b, &apart));
    ck_assert_msg(apart < 0.6 * first, "%g", apart);
    ck_assert_int_eq(moefw_run_step(run, &b, NULL), MF_EUSAGE);
    /* loss with targets at half of the positions; positions without a target do not count */
    double half;
    for (int i = 0; i < TOKENS; i++)
        if (i % 2) targets[i] = -1;
    ok(run, moefw_run_evaluate_batch(run, &b, &half));
    ck_assert(half > 0 && half != apart);
    ok(run, moefw_run_finish(run));
    ok(run, moefw_run_finish(run));
    moefw_run_free(run);
}
END_TEST

START_TEST(batches_are_judged)
{
    moefw_run *run = configured("linear", "5");
    int32_t tokens[TOKENS], targets[TOKENS];
    ok(run, moefw_run_start(run, NULL));
    ck_assert_int_eq(moefw_run_step(run, NULL, NULL), MF_EUSAGE);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "no data"));
    moefw_batch b = fill(0, tokens, targets);
    tokens[3] = VOCAB;
    ck_assert_int_eq(moefw_run_step(run, &b, NULL), MF_EINVAL);
    ck_assert_str_eq(moefw_run_message(run), "token 3: expected an id from 0 to 31, found 32");
    tokens[3] = 0;
    targets[5] = -2;
    ck_assert_int_eq(moefw_run_step(run, &b, NULL), MF_EINVAL);
    targets[5] = -1;
    b.width = 8;
    ck_assert_int_eq(moefw_run_step(run, &b, NULL), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "4 rows of 16 tokens"));
    b.width = WIDTH;
    b.size = 3;
    ck_assert_int_eq(moefw_run_step(run, &b, NULL), MF_EINVAL);
    b.size = sizeof b;
    ok(run, moefw_run_step(run, &b, NULL)); /* succeeds: the refused step changed nothing */
    moefw_info info = {.size = sizeof info};
    ok(run, moefw_run_info(run, &info));
    ck_assert_int_eq(info.step, 1);
    ck_assert_int_eq(info.vocab, VOCAB);
    ck_assert_int_eq(info.moe_layers, 2);
    ck_assert_ptr_null(info.directory);
    moefw_run_free(run);
}
END_TEST

/* ---- errors ---- */

START_TEST(errors_come_through_the_handle)
{
    moefw_run *run = moefw_run_new();
    ck_assert_int_eq(moefw_run_code(run), MF_OK);
    ck_assert_str_eq(moefw_run_message(run), "");
    ck_assert_int_eq(moefw_run_step(run, NULL, NULL), MF_EUSAGE);
    ck_assert_str_eq(moefw_run_message(run),
                     "step: expected a handle that is training, found one that is new");
    ck_assert_int_eq(moefw_run_configure(run, "defualt"), MF_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "did you mean 'default'?"));
    ck_assert_int_eq(moefw_run_open(run, "/nonexistent", NULL), MF_EINPUT);
    ok(run, moefw_run_configure(run, "default"));
    ck_assert_int_eq(moefw_run_set(run, "train.lrr", "1"), MF_ECONFIG);
    ck_assert_int_eq(moefw_run_code(run), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "did you mean 'lr'?"));
    ck_assert_ptr_null(strstr(moefw_run_message(run), "set"));
    ck_assert_int_eq(moefw_run_set(run, "train.lr", "fast"), MF_ECONFIG);
    ck_assert_str_eq(moefw_run_get(run, "train.lr"), "0.002");
    ck_assert_int_eq(moefw_run_set(run, "nodot", "1"), MF_ECONFIG);
    ck_assert_ptr_null(moefw_run_get(run, "train.nothing"));
    ck_assert_int_eq(moefw_run_code(run), MF_ENOTFOUND);
    /* A setting that contradicts another is refused at once or by moefw_run_start, and the
     * handle stays usable. */
    ck_assert_int_eq(moefw_run_set(run, "model.heads", "3"), MF_ECONFIG);
    ok(run, moefw_run_set(run, "model.dim", "130"));
    ck_assert_int_eq(moefw_run_start(run, NULL), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "heads"));
    ok(run, moefw_run_set(run, "model.dim", "128"));
    ok(run, moefw_run_set(run, "data.path", "/nonexistent.txt"));
    ck_assert_int_eq(moefw_run_start(run, NULL), MF_EINPUT);
    ck_assert_ptr_null(strstr(moefw_run_message(run), "--"));
    ck_assert_int_eq(moefw_run_use_plugin(run, "linaer"), MF_ENOTFOUND);
    moefw_run_free(run);
    ck_assert_int_eq(moefw_run_code(NULL), MF_ENOMEM);
    moefw_run_free(NULL);
}
END_TEST

START_TEST(divergence_is_an_error)
{
    moefw_run *run = configured("linear", "50");
    int32_t tokens[TOKENS], targets[TOKENS];
    int rc = MF_OK;
    ok(run, moefw_run_set(run, "train.lr", "900"));
    ok(run, moefw_run_set(run, "train.clip", "0"));
    ok(run, moefw_run_set(run, "train.warmup", "0"));
    ok(run, moefw_run_start(run, NULL));
    for (int i = 0; i < 50 && rc == MF_OK; i++) {
        const moefw_batch b = fill(i, tokens, targets);
        rc = moefw_run_step(run, &b, NULL);
        if (i == 3 && rc == MF_OK) rc = moefw_run_set(run, "train.lr", "1000");
    }
    if (rc != MF_OK) {
        ck_assert_int_eq(rc, MF_ENONFINITE);
        ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "step "));
        ck_assert_int_eq(moefw_run_save(run), MF_EUSAGE);
    }
    moefw_run_free(run);
}
END_TEST

static int count_option(void *arg, const moefw_option *o)
{
    int *seen = arg;
    ck_assert(o->size >= sizeof *o && o->name && o->value && o->help && o->expected);
    seen[0]++;
    if (strcmp(o->name, "train.lr") == 0) {
        ck_assert_str_eq(o->value, "0.01");
        ck_assert_ptr_nonnull(strstr(o->expected, "number"));
        seen[1]++;
    }
    if (strcmp(o->name, "router.temperature") == 0) {
        ck_assert(o->live);
        seen[1]++;
    }
    return seen[0] == 10000;
}

/* Counts described options. The options of these sections belong to plugins. Two of these
 * plugins have the same name: `mlp` is an expert and also a router. */
static int count_described(void *arg, const moefw_option *o)
{
    static const char *const of[][2] = {{"expert.dropout", "share of hidden"},
                                        {"router.two.input_norm", "norm before the first"},
                                        {"regularizer.z.weight", ""},
                                        {"controller.b.rate", "size of one correction"},
                                        {"adapter.l.rank", "inner width"}};
    int *seen = arg;
    for (int i = 0; i < 5; i++)
        if (strncmp(o->name, of[i][0], strlen(of[i][0])) == 0) {
            ck_assert_msg(o->help[0] && o->expected[0] && strstr(o->help, of[i][1]), "%s: %s",
                          o->name, o->help);
            seen[i]++;
        }
    return 0;
}

START_TEST(options_of_plugins_are_described)
{
    static const char *const set[][2] = {{"expert.plugin", "mlp"},
                                         {"router.two.plugin", "mlp"},
                                         {"router.two.layers", "1"},
                                         {"regularizer.z.plugin", "z_loss"},
                                         {"controller.b.plugin", "expert_bias"},
                                         {"adapter.l.plugin", "lora"}};
    int seen[5] = {0};
    moefw_run *run = configured("linear", "5");
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        ok(run, moefw_run_set(run, set[i][0], set[i][1]));
    ok(run, moefw_run_options(run, count_described, seen));
    for (int i = 0; i < 5; i++)
        ck_assert_msg(seen[i] > 0, "%d", i);
    moefw_run_free(run);
}
END_TEST

START_TEST(options_are_listed)
{
    moefw_run *run = configured("linear", "5");
    int seen[2] = {0};
    ok(run, moefw_run_options(run, count_option, seen));
    ck_assert_int_gt(seen[0], 60);
    ck_assert_int_eq(seen[1], 2);
    moefw_run_free(run);
}
END_TEST

/* ---- models in threads ---- */

typedef struct job {
    const char *router;
    double loss[20];
    int32_t text[12];
    int n;
} job;

static int keep_token(void *arg, const char *text, size_t n, int32_t token)
{
    job *j = arg;
    (void)text, (void)n;
    j->text[j->n++] = token;
    return 0;
}

static void *train_and_write(void *arg)
{
    job *j = arg;
    const int32_t prompt[] = {1, 2, 3};
    moefw_run *run = configured(j->router, "20");
    moefw_sampling s = MOEFW_SAMPLING_INIT;
    s.tokens = 12;
    s.seed = 5;
    ok(run, moefw_run_start(run, NULL));
    for (int i = 0; i < 20; i++)
        j->loss[i] = take_step(run, i);
    ok(run, moefw_run_generate_tokens(run, prompt, 3, &s, keep_token, j));
    moefw_run_free(run);
    return NULL;
}

/* Trains two models one after another in one thread, then at the same time in two threads. The
 * bits must be equal. */
START_TEST(two_threads_train_two_models)
{
    job alone[2] = {{.router = "linear"}, {.router = "sigmoid_bias"}};
    job at_once[2] = {{.router = "linear"}, {.router = "sigmoid_bias"}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        train_and_write(&alone[i]);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, train_and_write, &at_once[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(memcmp(alone[i].loss, at_once[i].loss, sizeof alone[i].loss), 0);
        ck_assert_int_eq(alone[i].n, 12);
        ck_assert_int_eq(memcmp(alone[i].text, at_once[i].text, sizeof alone[i].text), 0);
    }
    ck_assert(memcmp(alone[0].loss, alone[1].loss, sizeof alone[0].loss) != 0);
}
END_TEST

typedef struct built {
    const char *hidden;
    float prob[4]; /* probabilities of the first token in the first layer */
    int differ;    /* number of graphs whose probabilities differ from those of the
                    * first graph */
} built;

static int keep_prob(void *arg, const moefw_routing *r)
{
    memcpy(arg, r->prob, sizeof((built *)NULL)->prob);
    return 1;
}

/* Opens runs and reads their routing. The router builds a matrix of hidden x hidden numbers for
 * each graph. */
static void *build_often(void *arg)
{
    static const int32_t tokens[] = {1, 2, 3};
    built *b = arg;
    for (int i = 0; i < 6; i++) {
        float prob[4];
        moefw_run *run = configured("mlp_hadamard", "1");
        ok(run, moefw_run_set(run, "router.hidden", b->hidden));
        ok(run, moefw_run_open(run, NULL, NULL));
        ok(run, moefw_run_routing(run, tokens, 3, keep_prob, i == 0 ? b->prob : prob));
        b->differ += i > 0 && memcmp(prob, b->prob, sizeof prob) != 0;
        moefw_run_free(run);
    }
    return NULL;
}

/* Two threads build graphs at the same time. They must not share memory that is written. */
START_TEST(two_threads_build_two_graphs)
{
    built alone[2] = {{.hidden = "1024"}, {.hidden = "512"}}, at_once[2];
    pthread_t thread[2];
    memcpy(at_once, alone, sizeof alone);
    for (int i = 0; i < 2; i++)
        build_often(&alone[i]);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, build_often, &at_once[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(alone[i].differ, 0);
        ck_assert_int_eq(at_once[i].differ, 0);
        ck_assert(memcmp(alone[i].prob, at_once[i].prob, sizeof alone[i].prob) == 0);
    }
}
END_TEST

/* ---- routing ---- */

static int judge_layer(void *arg, const moefw_routing *r)
{
    int *layers = arg;
    ck_assert_int_eq(r->tokens, 7);
    ck_assert_int_eq(r->experts, 4);
    for (int t = 0; t < r->tokens; t++) {
        double gates = 0, probs = 0;
        for (int k = 0; k < r->top_k; k++) {
            const int32_t e = r->chosen[t * r->top_k + k];
            ck_assert(e >= -1 && e < 4);
            ck_assert(r->admitted[t * r->top_k + k] == e);
            gates += (double)r->gate[t * r->top_k + k];
        }
        for (int e = 0; r->prob && e < 4; e++)
            probs += (double)r->prob[t * 4 + e];
        ck_assert(!r->prob || fabs(probs - 1) < 1e-5);
        ck_assert(fabs(gates - 1) < 1e-5 || r->layer < 0);
    }
    return ++*layers == 10;
}

/* Counts choices. If experts choose tokens, the number of experts of a token varies, and unused
 * entries of `chosen` are negative. */
static int count_choices(void *arg, const moefw_routing *r)
{
    int *n = arg;
    for (int i = 0; i < r->tokens * r->top_k; i++)
        *n += r->chosen[i] >= 0;
    return 0;
}

START_TEST(routing_of_tokens)
{
    const int32_t tokens[] = {0, 1, 2, 3, 30, 5, 6};
    int layers = 0, choices = 0;
    moefw_run *run = configured("linear", "5");
    ok(run, moefw_run_start(run, NULL));
    ok(run, moefw_run_routing(run, tokens, 7, judge_layer, &layers));
    ck_assert_int_eq(layers, 2);
    ck_assert_int_eq(moefw_run_routing(run, tokens, 0, judge_layer, &layers), MF_EINVAL);
    moefw_run_free(run);
    run = configured("expert_choice", "5");
    ok(run, moefw_run_set(run, "moe.force_causal", "yes"));
    ok(run, moefw_run_start(run, NULL));
    ok(run, moefw_run_routing(run, tokens, 7, count_choices, &choices));
    ck_assert_int_gt(choices, 7);
    moefw_run_free(run);
}
END_TEST

/* ---- plugins linked into the program ---- */

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self, (void)conf;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}

static const mf_option no_options[] = {MF_END_OPTIONS};
static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};
static const mf_plugin ours = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "ours", "1", "MIT",
                                             "as linear", no_options, char, char, &vtable);
static const mf_plugin again = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "ours", "1", "MIT",
                                              "the same name", no_options, char, char, &vtable);

START_TEST(a_plugin_of_the_program)
{
    moefw_run *run = configured("linear", "5"), *own = configured("linear", "5");
    ck_assert_int_eq(moefw_run_use_plugin(own, "ours"), MF_ENOTFOUND);
    ok(own, moefw_run_register_plugin(own, &ours));
    ok(own, moefw_run_register_plugin(own, &ours));
    ck_assert_int_eq(moefw_run_register_plugin(own, &again), MF_EPLUGIN);
    ck_assert_int_eq(moefw_run_register_plugin(own, NULL), MF_EINVAL);
    ok(own, moefw_run_use_plugin(own, "ours"));
    ck_assert_str_eq(moefw_run_get(own, "router.plugin"), "ours");
    ok(run, moefw_run_start(run, NULL));
    ok(own, moefw_run_start(own, NULL));
    /* the plugin `ours` computes the same as `linear` */
    for (int i = 0; i < 5; i++)
        ck_assert(take_step(run, i) == take_step(own, i));
    moefw_run_free(run);
    moefw_run_free(own);
}
END_TEST

/* ---- metrics ---- */

static void keep_floor(void *arg, const moefw_metrics *m)
{
    ((double *)arg)[strcmp(m->split, "train") == 0] = m->floor;
}

START_TEST(evaluations_have_their_floor)
{
    double floor[2] = {0, 0}; /* floor of evaluations, and floor of steps */
    moefw_metrics m = {.size = sizeof m};
    moefw_run *run = moefw_run_new();
    ok(run, moefw_run_configure(run, "default"));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (strncmp(small[i][0], "data.", 5) != 0 && strcmp(small[i][0], "model.vocab") != 0)
            ok(run, moefw_run_set(run, small[i][0], small[i][1]));
    ok(run, moefw_run_set(run, "data.path", "builtin:topics?bytes=20000"));
    ok(run, moefw_run_set(run, "train.log_every", "1"));
    ok(run, moefw_run_on_metrics(run, keep_floor, floor));
    ok(run, moefw_run_start(run, NULL));
    ok(run, moefw_run_step(run, NULL, NULL));
    ok(run, moefw_run_evaluate(run, NULL, 0, &m));
    ck_assert_msg(m.floor > 0.4 && m.floor < m.task_loss, "%g", m.floor);
    ck_assert_double_eq(floor[0], m.floor);
    ck_assert(isnan(floor[1]));
    moefw_run_free(run);
}
END_TEST

/* ---- runs on disk ---- */

/* A run that only generates has packed weights, which only generation may read. */
START_TEST(generators_only_generate)
{
    const int32_t prompt[] = {1, 2, 3};
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    moefw_sampling s = MOEFW_SAMPLING_INIT;
    moefw_run *run = configured("linear", "5");
    job j = {.n = 0};
    int layers = 0;
    s.tokens = 2;
    o.generate_only = 1;
    ok(run, moefw_run_open(run, NULL, &o));
    ok(run, moefw_run_generate_tokens(run, prompt, 3, &s, keep_token, &j));
    ck_assert_int_eq(moefw_run_routing(run, prompt, 3, judge_layer, &layers), MF_EUSAGE);
    ck_assert_int_eq(moefw_run_evaluate(run, NULL, 0, NULL), MF_EUSAGE);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "generate only"));
    ck_assert_int_eq(layers, 0);
    ok(run, moefw_run_generate_tokens(run, prompt, 3, &s, keep_token, &j));
    moefw_run_free(run);
}
END_TEST

START_TEST(a_run_goes_on)
{
    char dir[] = "/tmp/moefw-library-XXXXXX", path[64];
    double through[8];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/run", dir);
    moefw_run *run = configured("linear", "8");
    ok(run, moefw_run_start(run, NULL));
    for (int i = 0; i < 8; i++)
        through[i] = take_step(run, i);
    ck_assert_int_eq(moefw_run_save(run), MF_EUSAGE);
    moefw_run_free(run);
    run = configured("linear", "8");
    ok(run, moefw_run_start(run, path));
    for (int i = 0; i < 3; i++)
        ck_assert(take_step(run, i) == through[i]);
    moefw_run *other = moefw_run_new();
    ck_assert_int_eq(moefw_run_resume(other, path), MF_ERUN);
    ck_assert_int_eq(moefw_run_resume(run, path), MF_EUSAGE);
    moefw_run_ask_stop(run, 2);
    int32_t tokens[TOKENS], targets[TOKENS];
    const moefw_batch b = fill(3, tokens, targets);
    ck_assert_int_eq(moefw_run_step(run, &b, NULL), MF_ESIGNAL);
    moefw_run_free(run);
    ok(other, moefw_run_resume(other, path));
    for (int i = 4; i < 8; i++)
        ck_assert(take_step(other, i) == through[i]);
    ok(other, moefw_run_finish(other));
    moefw_run_free(other);
    moefw_info info = {.size = sizeof info};
    moefw_run *reader = moefw_run_new();
    ok(reader, moefw_run_open(reader, path, NULL));
    ok(reader, moefw_run_info(reader, &info));
    ck_assert_int_eq(info.step, 8);
    ck_assert_int_eq(moefw_run_evaluate(reader, NULL, 0, NULL), MF_EUSAGE);
    ck_assert_int_eq(moefw_run_set(reader, "train.lr", "1"), MF_EUSAGE);
    /* A call in the wrong state changes nothing. */
    ck_assert_int_eq(moefw_run_resume(reader, path), MF_EUSAGE);
    ok(reader, moefw_run_info(reader, &info));
    ck_assert_int_eq(info.step, 8);
    moefw_run_free(reader);
    ck_assert_int_eq(mf_remove_tree(dir), MF_OK);
}
END_TEST

/* Options that are set before a resume apply to the resumed run. Options of its model do
 * not change. */
START_TEST(a_run_goes_on_otherwise)
{
    char dir[] = "/tmp/moefw-library-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/run", dir);
    moefw_run *run = configured("linear", "2");
    ok(run, moefw_run_start(run, path));
    take_step(run, 0);
    take_step(run, 1);
    ok(run, moefw_run_finish(run));
    moefw_run_free(run);
    run = moefw_run_new();
    ok(run, moefw_run_configure(run, path));
    ok(run, moefw_run_set(run, "moe.top_k", "1"));
    ck_assert_int_eq(moefw_run_resume(run, path), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "moe.top_k"));
    ok(run, moefw_run_configure(run, path));
    ok(run, moefw_run_set(run, "train.steps", "3"));
    ok(run, moefw_run_resume(run, path));
    take_step(run, 2);
    ok(run, moefw_run_finish(run));
    moefw_run_free(run);
    run = moefw_run_new();
    ok(run, moefw_run_configure(run, path));
    ck_assert_str_eq(moefw_run_get(run, "train.steps"), "3");
    moefw_run_free(run);
    ck_assert_int_eq(mf_remove_tree(dir), MF_OK);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("library");
    TCase *c = tcase_create("library");

    tcase_add_test(c, own_batches_are_learned);
    tcase_add_test(c, batches_are_judged);
    tcase_add_test(c, errors_come_through_the_handle);
    tcase_add_test(c, divergence_is_an_error);
    tcase_add_test(c, options_are_listed);
    tcase_add_test(c, options_of_plugins_are_described);
    tcase_add_test(c, two_threads_train_two_models);
    tcase_add_test(c, two_threads_build_two_graphs);
    tcase_add_test(c, routing_of_tokens);
    tcase_add_test(c, a_plugin_of_the_program);
    tcase_add_test(c, evaluations_have_their_floor);
    tcase_add_test(c, generators_only_generate);
    tcase_add_test(c, a_run_goes_on);
    tcase_add_test(c, a_run_goes_on_otherwise);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
