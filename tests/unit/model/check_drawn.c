/* drawn: training steps of drawn configurations with the fast kernels and with the reference
 * kernels, which sum in double. The draws include all routers, experts and regularizers of
 * plugins/. Losses and gradients must be finite and agree. Each set of kernels has a process of
 * its own, because a process can use only one set.
 *
 * Each configuration makes two steps, each with a model of its own. One step uses a batch of
 * its data. The other step has no data, like a program with its own batches; some of its
 * examples are short, and at least one is empty.
 *
 * The quick form tests each router with each regularizer, with the experts in turn. With
 * MOEFW_SLOW all triples are tested, 2,160 configurations. Every triple must then have been
 * compared, and at most 3 % of the configurations may be refused. MOEFW_TEST_SEED=N draws
 * others, MOEFW_TEST_CASE=N runs only one. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/training.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const routers[] = {
    "attention",       "cosine",       "expert_choice", "hadamard",     "hash",
    "hybrid",          "linear",       "mlp",           "mlp_hadamard", "noisy_topk",
    "oracle",          "random",       "relu",          "tia_r",        "sigmoid_bias",
    "self_supervised", "sinkhorn",     "base",          "dselect_k",    "dynmoe",
    "gumbel",          "product_keys", "residual",      "seq_topk",     "soft",
    "sparsemixer",     "top_p",        "two_level",     "quantile",     "densemix",
    "threshold",       "kmeans",       "lapsum",        "hyper"};
static const char *const weightless[] = {"hadamard",  "hash", "oracle", "random",
                                         "dselect_k", "soft", NULL}; /* have no init_std */
static const char *const experts[] = {"attention", "mlp",          "swiglu",
                                      "grove",     "lora_experts", "mixed"};
static const char *const regularizers[] = {
    "cv_importance",      "cv_load",        "entropy",      "gate_penalty", "l2_balance",
    "importance2_load",   "load_balance",   "simbal",       "z_loss",       "erc",
    "mutual_information", "score_variance", "orthogonality"};
enum {
    ROUTERS = sizeof routers / sizeof *routers,
    EXPERTS = sizeof experts / sizeof *experts,
    REGULARIZERS = sizeof regularizers / sizeof *regularizers,
    TRIPLES = ROUTERS * EXPERTS * REGULARIZERS,
    SETTINGS = 56,
    GRADIENTS = 1 << 20, /* largest number of parameters of a model */
    SECONDS = 120
};

/* ---- a configuration ---- */

typedef struct drawn {
    int router, expert, regularizer, n;
    bool alone; /* a batch contains only one example */
    char set[SETTINGS][96];
} drawn;

static uint64_t seed = 1;

static int below(int index, uint64_t *at, int n)
{
    return (int)mf_rng_below(seed, mf_rng_stream("check.drawn"), (uint64_t)index, (*at)++,
                             (uint64_t)n);
}

MF_PRINTF(2, 3) static void add(drawn *d, const char *fmt, ...)
{
    va_list args;
    ck_assert_int_lt(d->n, SETTINGS);
    va_start(args, fmt);
    vsnprintf(d->set[d->n++], sizeof d->set[0], fmt, args);
    va_end(args);
}

static FILE *new_file(const char *ending, char path[4096])
{
    snprintf(path, 4096, "%s/drawn-XXXXXX%s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             ending);
    const int fd = mkstemps(path, (int)strlen(ending));
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    ck_assert_ptr_nonnull(f);
    return f;
}

static void put_words(FILE *f, int i)
{
    for (int w = 0; w <= (i * 7) % 13; w++)
        fprintf(f, "%s%c%c", w > 0 ? " " : "", 'a' + (i * 5 + w * 3) % 26,
                'a' + (i + w * w) % 26);
}

/* Files of sentences with 1 to 13 words, so that examples have padding. In this file each
 * sentence has a class, which is also used as a number. In the file of documents() each
 * sentence is a document. */
static const char *sentences(void)
{
    static char path[4096];
    if (path[0] != '\0') return path;
    FILE *f = new_file(".tsv", path);
    fprintf(f, "sentence\tlabel\n");
    for (int i = 0; i < 120; i++) {
        put_words(f, i);
        fprintf(f, "\t%d\n", (i * 11) % 3);
    }
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

static const char *documents(void)
{
    static char path[4096];
    if (path[0] != '\0') return path;
    FILE *f = new_file(".jsonl", path);
    for (int i = 0; i < 120; i++) {
        fprintf(f, "{\"text\": \"");
        put_words(f, i);
        fprintf(f, "\"}\n");
    }
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static void draw(int index, drawn *d)
{
    uint64_t at = 0;
#define ONE_OF(...)                                                                            \
    ((const char *const[]){__VA_ARGS__})[below(                                                \
        index, &at, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))]
    const bool slow = getenv("MOEFW_SLOW") != NULL;
    *d = (drawn){.regularizer = index % REGULARIZERS, .router = index / REGULARIZERS % ROUTERS};
    d->expert = slow ? index / (REGULARIZERS * ROUTERS) % EXPERTS
                     : (d->regularizer + d->router) % EXPERTS;
    const int n_experts = 1 + below(index, &at, 6), heads = 1 + below(index, &at, 2);
    const int top_k = 1 + below(index, &at, n_experts);
    const bool topics = strcmp(routers[d->router], "oracle") == 0;
    const char *task = topics ? "lm" : ONE_OF("lm", "lm", "mlm", "classify", "regress");
    const bool lm = strcmp(task, "lm") == 0, text = lm || strcmp(task, "mlm") == 0;
    const bool stream = text && (topics || below(index, &at, 2) == 0);
    /* hadamard needs a column for each expert, and one more */
    const int columns = strcmp(routers[d->router], "hadamard") == 0 ? 8 : 4;
    add(d, "data.path=%s",
        stream ? "builtin:topics?bytes=6000"
        : text ? documents()
               : sentences());
    add(d, "data.tokenizer=byte");
    add(d, "data.padding=%s", ONE_OF("max", "max", "batch"));
    add(d, "model.task=%s", task);
    add(d, "model.causal=%s", lm ? "yes" : "no");
    add(d, "model.layers=%d", 1 + below(index, &at, 2));
    /* with .02, equal tokens of a sentence, or experts, are so similar that rounding errors
     * decide the choice among them */
    add(d, "model.init_std=%s", ONE_OF("0.1", "0.3"));
    if (!is_one_of(routers[d->router], weightless)) add(d, "router.init_std=0.2");
    add(d, "model.share_layers=%s", ONE_OF("no", "no", "yes"));
    add(d, "model.norm=%s", ONE_OF("rmsnorm", "rmsnorm", "layernorm"));
    add(d, "model.norm_place=%s", ONE_OF("pre", "output", "post"));
    add(d, "model.heads=%d", heads);
    add(d, "model.dim=%d", heads * columns * (1 + below(index, &at, 3)));
    add(d, "model.seq=%d", 4 + below(index, &at, 30));
    const int batch = 1 + below(index, &at, 5);
    d->alone = batch == 1;
    add(d, "train.batch=%d", batch);
    add(d, "train.accumulate=%d", 1 + below(index, &at, 3) / 2);
    add(d, "train.dropout=%s", ONE_OF("0", "0", "0.2"));
    add(d, "train.recompute=%s", ONE_OF("none", "light", "block"));
    add(d, "expert.plugin=%s", experts[d->expert]);
    if (d->expert > 0) add(d, "expert.hidden=%d", 1 + below(index, &at, 19));
    add(d, "router.plugin=%s", routers[d->router]);
    add(d, "moe.experts=%d", n_experts);
    add(d, "moe.top_k=%d", top_k);
    add(d, "moe.capacity_factor=%s", ONE_OF("0", "0", "0.1", "0.5", "1", "1.25"));
    add(d, "moe.adaptive_capacity=%s", ONE_OF("0", "0.3"));
    add(d, "moe.adaptive_limit=%s", ONE_OF("0.5", "2"));
    add(d, "moe.overflow=%s", ONE_OF("drop", "reassign"));
    add(d, "moe.max_reassign=%s", ONE_OF("0", "2"));
    add(d, "moe.reassign_gate=%s", ONE_OF("new", "first"));
    add(d, "moe.priority=%s", ONE_OF("position", "gate", "importance", "drawn", "time"));
    add(d, "moe.dropped=%s", ONE_OF("residual", "input", "scaled_input"));
    /* The gradient 1 / gate is unbounded for gates of relu, which begin at 0. densemix has
     * gates that are 0. */
    static const char *const own_gates[] = {"relu", "densemix", NULL};
    const char *unit = ONE_OF("no", "no", "yes");
    add(d, "moe.unit_gates=%s", is_one_of(routers[d->router], own_gates) ? "no" : unit);
    const int shared = below(index, &at, 3);
    add(d, "moe.shared_experts=%d", shared);
    if (shared > 0) add(d, "moe.shared_gate=%s", ONE_OF("no", "yes"));
    if (shared > 0) add(d, "moe.shared_hidden=%s", ONE_OF("0", "5"));
    add(d, "moe.renormalize=%s", ONE_OF("yes", "no"));
    add(d, "moe.gate_scale=%s", ONE_OF("1", "2.5"));
    add(d, "moe.force_causal=yes");
    add(d, "regularizer.balance.plugin=none");
    add(d, "regularizer.z.plugin=none");
    add(d, "regularizer.drawn.plugin=%s", regularizers[d->regularizer]);
    add(d, "regularizer.drawn.weight=%s", ONE_OF("0.01", "1"));
    add(d, "train.eval_context=0");
    add(d, "train.eval_every=0");
    add(d, "train.nan_policy=stop");
    add(d, "report.samples=0");
    add(d, "train.seed=%d", index);
#undef ONE_OF
}

/* ---- results of one process ---- */

typedef struct measured {
    double loss, grad_norm;
    int n, empty; /* n: number of gradients; empty: number of examples without a token */
    float gradient[GRADIENTS];
} measured;

/* The steps of a configuration: with its data, and with examples of which some are empty. */
enum { DRAWN, UNEVEN, STEPS };

/* The results that a process writes to shared memory. */
typedef struct outcome {
    int rc;
    char message[512];
    measured step[STEPS];
} outcome;

/* The target of a real token: the next token, or for task mlm the token itself at every third
 * position; -1: none. */
static int32_t target_of(const mf_config *c, const mf_batch *b, int32_t i, bool last)
{
    if (c->model.task == MF_TASK_LM) return last ? -1 : b->tokens[i] + 3;
    return c->model.task == MF_TASK_MLM && i % 3 == 0 ? b->tokens[i] : -1;
}

/* Micro-batch j with examples of 1 to seq tokens, of which the j-th is empty. In half of the
 * configurations a second micro-batch contains only padding. */
static mf_batch *uneven(const mf_config *c, const mf_model_dims *dims, int32_t j)
{
    const int32_t rows = (int32_t)c->train.batch, seq = (int32_t)c->model.seq;
    const bool task = c->model.task == MF_TASK_CLASSIFY || c->model.task == MF_TASK_REGRESS;
    const bool nothing = j > 0 && c->train.seed % 2 == 0;
    mf_batch *b = NULL;
    if (mf_batch_new(rows, seq, &b) != MF_OK) return NULL;
    for (int32_t i = 0; i < rows * seq; i++) {
        const int32_t row = i / seq, at = i % seq;
        const int32_t length = nothing || row == j % rows ? 0 : 1 + (5 * row + 3 * j) % seq;
        const bool real = at < length;
        b->tokens[i] = real ? 'a' + (7 * row + 3 * at) % 20 : 0;
        b->targets[i] = real ? target_of(c, b, i, at == length - 1) : -1;
        b->labels[i] = real && dims->labels > 0 ? (row + at) % dims->labels : -1;
        b->positions[i] = at;
        b->sequence[i] = row;
        b->mask[i] = real;
        b->n_tokens += real;
        b->n_targets += b->targets[i] >= 0;
    }
    for (int32_t row = 0; row < rows; row++) {
        const bool none = nothing || row == j % rows;
        b->classes[row] = none || dims->classes == 0 ? -1 : row % dims->classes;
        b->values[row] = none ? NAN : (float)row / 2 - 1;
        b->n_targets += task && !none;
    }
    return b;
}

/* Changes the weights of norms, as training does. Otherwise all vectors after the norms have
 * nearly the same length, and rounding errors decide which are the longest. */
static int move_norms(mf_session *s)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_store_count(s->model->store); i++) {
        mf_param *p = mf_store_at(s->model->store, i);
        const char *norm = strstr(p->name, "norm");
        if (!norm || !strstr(norm, ".weight")) continue;
        for (int64_t k = 0; rc == MF_OK && k < p->count; k++) {
            const float v = 0.5f + 0.25f * (float)(k % 5);
            rc = mf_param_write(p, &v, (size_t)k * sizeof v, sizeof v);
        }
    }
    return rc;
}

static int empty_rows(const mf_batch *b)
{
    int n = 0;
    for (int32_t row = 0; row < b->rows; row++) {
        bool real = false;
        for (int32_t i = row * b->seq; i < (row + 1) * b->seq; i++)
            real |= b->mask[i] != 0;
        n += !real;
    }
    return n;
}

static void take(const mf_session *s, const mf_step_result *r, measured *out)
{
    out->loss = r->loss;
    out->grad_norm = r->grad_norm;
    out->empty = empty_rows(r->batch);
    for (int i = 0; i < mf_store_count(s->model->store); i++) {
        const mf_param *p = mf_store_at(s->model->store, i);
        if (p->buffer || !p->grad) continue;
        for (int64_t k = 0; k < p->count && out->n < GRADIENTS; k++)
            out->gradient[out->n++] = p->grad[k];
    }
}

/* Makes a step of a new model. dims NULL: with the configuration's data, and *ret_dims is
 * set to their dimensions. Otherwise the model has these dims and no data, and its batch
 * is uneven. */
static int step(const drawn *d, const mf_model_dims *dims, mf_model_dims *ret_dims,
                measured *out)
{
    const mf_session_options o = {.training = true, .no_data = dims != NULL, .dims = dims};
    const mf_step_result *r = NULL;
    const char *set[SETTINGS + 1];
    mf_batch *own[2] = {NULL};
    mf_config *config = NULL;
    mf_session *s = NULL;
    mf_trainer *t = NULL;
    for (int i = 0; i < d->n; i++)
        set[i] = d->set[i];
    int n = d->n;
    if (dims && d->alone) set[n++] = "train.batch=2";
    int rc = mf_config_load("default", n, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &o, &s);
    if (rc == MF_OK) rc = move_norms(s);
    if (rc == MF_OK) rc = mf_training_new(s, NULL, &t);
    for (int j = 0; rc == MF_OK && dims && j < config->train.accumulate; j++) {
        own[j] = uneven(config, dims, j);
        if (!own[j]) rc = MF_ENOMEM;
    }
    if (rc == MF_OK) rc = mf_trainer_step(t, dims ? (const mf_batch *const *)own : NULL, &r);
    if (rc == MF_OK) take(s, r, out);
    if (rc == MF_OK && ret_dims) *ret_dims = s->model->dims;
    mf_batch_free(own[0]);
    mf_batch_free(own[1]);
    mf_trainer_free(t);
    mf_session_close(s);
    return rc;
}

static int steps(const drawn *d, outcome *out)
{
    mf_model_dims dims;
    const int rc = step(d, NULL, &dims, &out->step[DRAWN]);
    return rc == MF_OK ? step(d, &dims, NULL, &out->step[UNEVEN]) : rc;
}

static void side(const drawn *d, const char *kernels, outcome *out)
{
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        setenv("MOEFW_KERNELS", kernels, 1);
        signal(SIGALRM, SIG_DFL);
        alarm(SECONDS);
        mf_log_set_level(MF_LOG_ERROR);
        mf_parallel_set_threads(1);
        out->rc = steps(d, out);
        snprintf(out->message, sizeof out->message, "%s", mf_error_message());
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (status != 0) {
        out->rc = -1;
        snprintf(out->message, sizeof out->message, "ended with status %x", (unsigned)status);
    }
}

/* ---- the comparison ---- */

static int covered[ROUTERS][EXPERTS][REGULARIZERS], refused, agreed;

static void tell(int index, const drawn *d)
{
    printf("# case %d:", index);
    for (int i = 0; i < d->n; i++)
        printf(" --set '%s'", d->set[i]);
    printf("\n");
}

/* Describes the first difference; NULL: the two agree. Bounds: losses 1e-5; gradients as one
 * vector 1e-3 of the reference. */
static const char *difference(const measured *a, const measured *ref)
{
    double off = 0, all = 0;
    if (a->n != ref->n || a->n == 0) return "other numbers of parameters";
    if (!isfinite(a->loss) || !isfinite(a->grad_norm)) return "not finite";
    for (int i = 0; i < a->n; i++) {
        if (!isfinite(a->gradient[i]) || !isfinite(ref->gradient[i])) return "not finite";
        const double x = (double)a->gradient[i], y = (double)ref->gradient[i];
        off += (x - y) * (x - y);
        all += y * y;
    }
    if (fabs(a->loss - ref->loss) > 1e-5 * (1 + fabs(ref->loss))) return "other losses";
    if (sqrt(off) > 1e-3 * sqrt(all) + 1e-6) return "other gradients";
    return NULL;
}

/* Whether the results agree; prints the first difference. */
static bool alike(int index, const drawn *d, const outcome *a, const outcome *ref)
{
    const char *why = a->rc != ref->rc ? "one of them fails" : a->rc != 0 ? "both fail" : NULL;
    int i = 0;
    if (!why) why = difference(&a->step[i], &ref->step[i]);
    if (!why) why = difference(&a->step[i = UNEVEN], &ref->step[UNEVEN]);
    if (!why && a->step[UNEVEN].empty == 0) why = "no example is empty";
    if (!why) return true;
    const measured *x = &a->step[i], *y = &ref->step[i];
    tell(index, d);
    printf("# %s batch, %s: loss %.9g and %.9g, gradient %.9g and %.9g; %s; %s\n",
           i == DRAWN ? "drawn" : "uneven", why, x->loss, y->loss, x->grad_norm, y->grad_norm,
           a->message, ref->message);
    return false;
}

static void reset(outcome *o)
{
    o->rc = 0;
    o->message[0] = '\0';
    for (int i = 0; i < STEPS; i++)
        memset(&o->step[i], 0, offsetof(measured, gradient));
}

static bool judge(int index, outcome *a, outcome *ref)
{
    drawn d;
    draw(index, &d);
    reset(a);
    reset(ref);
    side(&d, "cpu", a);
    side(&d, "ref", ref);
    if (a->rc == MF_ECONFIG && ref->rc == MF_ECONFIG && a->message[0] != '\0') {
        printf("# case %d refused: %s\n", index, a->message);
        refused++;
        return true;
    }
    if (!alike(index, &d, a, ref)) return false;
    covered[d.router][d.expert][d.regularizer]++;
    agreed++;
    return true;
}

static void print_covered(void)
{
    for (int r = 0; r < ROUTERS; r++) {
        printf("# %-15s", routers[r]);
        for (int e = 0; e < EXPERTS; e++) {
            printf(" %s:", experts[e]);
            for (int k = 0; k < REGULARIZERS; k++)
                printf("%d", covered[r][e][k] > 9 ? 9 : covered[r][e][k]);
        }
        printf("\n");
    }
}

/* The number of pairs that no configuration compared, or with `triples` of triples. */
static int not_covered(bool triples)
{
    int n = 0;
    for (int r = 0; r < ROUTERS; r++)
        for (int k = 0; k < REGULARIZERS; k++) {
            int pair = 0;
            for (int e = 0; e < EXPERTS; e++) {
                n += triples && covered[r][e][k] == 0;
                pair += covered[r][e][k];
            }
            n += !triples && pair == 0;
        }
    return n;
}

START_TEST(every_router_expert_and_regularizer)
{
    const char *own = getenv("MOEFW_TEST_SEED"), *one = getenv("MOEFW_TEST_CASE");
    const bool slow = getenv("MOEFW_SLOW") != NULL;
    const int n = slow ? TRIPLES : ROUTERS * REGULARIZERS;
    int failed = 0;
    if (own) seed = strtoull(own, NULL, 10);
    outcome *both =
        mmap(NULL, 2 * sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(both, MAP_FAILED);
    sentences();
    documents();
    for (int i = one ? atoi(one) : 0; i < (one ? atoi(one) + 1 : n); i++)
        failed += !judge(i, &both[0], &both[1]);
    unlink(sentences());
    unlink(documents());
    munmap(both, 2 * sizeof *both);
    print_covered();
    printf("# seed %llu: %d configurations agree, %d refused, %d failed; columns:",
           (unsigned long long)seed, agreed, refused, failed);
    for (int k = 0; k < REGULARIZERS; k++)
        printf(" %s", regularizers[k]);
    printf("\n");
    ck_assert_int_eq(failed, 0);
    if (one) return;
    ck_assert_int_eq(not_covered(slow), 0);
    ck_assert_int_le(100 * refused, 3 * n);
}
END_TEST

/* Checks that the list of names of a kind is equal to the sources in its folder. */
static void judge_names(const char *kind, const char *const *names, int n)
{
    const char *srcdir = getenv("srcdir");
    char folder[4096], **files;
    int n_files, found = 0;
    snprintf(folder, sizeof folder, "%s/plugins/%s", srcdir ? srcdir : ".", kind);
    ck_assert_int_eq(mf_list_dir(folder, &files, &n_files), MF_OK);
    for (int i = 0; i < n_files; i++) {
        char *end = strrchr(files[i], '.');
        int at = 0;
        if (!end || strcmp(end, ".c") != 0) continue;
        *end = '\0';
        while (at < n && strcmp(names[at], files[i]) != 0)
            at++;
        ck_assert_msg(at < n, "%s/%s.c is never drawn", folder, files[i]);
        found++;
    }
    mf_list_free(files, n_files);
    ck_assert_int_eq(found, n);
}

START_TEST(all_plugins_are_drawn)
{
    judge_names("routers", routers, ROUTERS);
    judge_names("experts", experts, EXPERTS);
    judge_names("regularizers", regularizers, REGULARIZERS);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("drawn");
    TCase *c = tcase_create("drawn");
    tcase_set_timeout(c, 3000);
    tcase_add_test(c, all_plugins_are_drawn);
    tcase_add_test(c, every_router_expert_and_regularizer);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
