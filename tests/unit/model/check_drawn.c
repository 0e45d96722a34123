/* drawn: training steps of drawn configurations with the fast kernels and with the reference
 * kernels, which sum in double. Every pair of a router, an expert and a regularizer is in the
 * draws. Losses and gradients must be finite and agree. Each side has a process of its own,
 * because a process has one set of kernels.
 *
 * The quick form takes each router with each regularizer, with the experts in turn. With
 * MOEFW_SLOW all triples are taken, and drawn again up to 1,000 configurations.
 * MOEFW_TEST_SEED=N draws others, MOEFW_TEST_CASE=N runs one. */
#include "check_main.h"

#include "base/error.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "train/trainer.h"

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
    "attention", "cosine", "expert_choice", "hadamard",        "hash",    "hybrid",
    "linear",    "mlp",    "mlp_hadamard",  "noisy_topk",      "oracle",  "random",
    "relu",      "tia_r",  "sigmoid_bias",  "self_supervised", "sinkhorn"};
static const char *const experts[] = {"attention", "mlp", "swiglu"};
static const char *const regularizers[] = {"cv_importance", "cv_load",    "entropy",
                                           "gate_penalty",  "l2_balance", "importance2_load",
                                           "load_balance",  "simbal",     "z_loss"};
enum {
    ROUTERS = sizeof routers / sizeof *routers,
    EXPERTS = sizeof experts / sizeof *experts,
    REGULARIZERS = sizeof regularizers / sizeof *regularizers,
    TRIPLES = ROUTERS * EXPERTS * REGULARIZERS,
    SETTINGS = 40,
    GRADIENTS = 1 << 20, /* most parameters of a model */
    SECONDS = 120
};

/* ---- a configuration ---- */

typedef struct drawn {
    int router, expert, regularizer, n;
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

/* Sentences of 1 to 13 words with a class, so that examples have padding. */
static const char *sentences(void)
{
    static char path[4096];
    if (path[0] != '\0') return path;
    snprintf(path, sizeof path, "%s/drawn-XXXXXX.tsv",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    const int fd = mkstemps(path, 4);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "sentence\tlabel\n");
    for (int i = 0; i < 120; i++) {
        for (int w = 0; w <= (i * 7) % 13; w++)
            fprintf(f, "%s%c%c", w > 0 ? " " : "", 'a' + (i * 5 + w * 3) % 26,
                    'a' + (i + w * w) % 26);
        fprintf(f, "\t%d\n", (i * 11) % 3);
    }
    ck_assert_int_eq(fclose(f), 0);
    return path;
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
    const char *task = topics ? "lm" : ONE_OF("lm", "mlm", "classify");
    const bool rows = strcmp(task, "classify") == 0, causal = !rows && strcmp(task, "mlm") != 0;
    add(d, "data.path=%s", rows ? sentences() : "builtin:topics?bytes=6000");
    if (rows) add(d, "data.tokenizer=byte");
    add(d, "model.task=%s", task);
    add(d, "model.causal=%s", causal ? "yes" : "no");
    add(d, "model.layers=%d", 1 + below(index, &at, 2));
    add(d, "model.heads=%d", heads);
    add(d, "model.dim=%d", heads * 4 * (1 + below(index, &at, 3)));
    add(d, "model.seq=%d", 4 + below(index, &at, 30));
    add(d, "train.batch=%d", 1 + below(index, &at, 5));
    add(d, "train.accumulate=%d", 1 + below(index, &at, 3) / 2);
    add(d, "train.dropout=%s", ONE_OF("0", "0", "0.2"));
    add(d, "train.recompute=%s", ONE_OF("none", "light", "block"));
    add(d, "expert.plugin=%s", experts[d->expert]);
    if (d->expert > 0) add(d, "expert.hidden=%d", 1 + below(index, &at, 19));
    add(d, "router.plugin=%s", routers[d->router]);
    add(d, "moe.experts=%d", n_experts);
    add(d, "moe.top_k=%d", top_k);
    /* tia_r admits by the length of vectors behind a norm, which with weights near 1 are equal
     * but for rounding: which ones a capacity drops is not the same in two sums */
    const char *capacity = ONE_OF("0", "0", "0.1", "0.5", "1", "1.25");
    add(d, "moe.capacity_factor=%s", strcmp(routers[d->router], "tia_r") == 0 ? "0" : capacity);
    add(d, "moe.overflow=%s", ONE_OF("drop", "reassign"));
    add(d, "moe.priority=%s", ONE_OF("position", "gate", "drawn", "time"));
    add(d, "moe.dropped=%s", ONE_OF("residual", "residual", "input"));
    add(d, "moe.shared_experts=%d", below(index, &at, 3));
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

/* ---- one side ---- */

/* What a process leaves in shared memory. */
typedef struct outcome {
    int rc, n;
    char message[512];
    double loss, grad_norm, regularizer;
    float gradient[GRADIENTS];
} outcome;

/* A batch whose examples have 0 to seq tokens; the first one is empty. */
static mf_batch *uneven(const mf_config *c)
{
    const int32_t rows = (int32_t)c->train.batch, seq = (int32_t)c->model.seq;
    mf_batch *b = NULL;
    if (mf_batch_new(rows, seq, &b) != MF_OK) return NULL;
    for (int32_t i = 0; i < rows * seq; i++) {
        const int32_t row = i / seq, at = i % seq;
        const bool real = at < row * 5 % (seq + 1);
        b->tokens[i] = real ? 'a' + (7 * row + 3 * at) % 20 : 0;
        b->targets[i] = b->labels[i] = -1;
        b->positions[i] = at;
        b->sequence[i] = row;
        b->mask[i] = real;
        b->n_tokens += real;
    }
    for (int32_t row = 0; row < rows; row++)
        b->classes[row] = row % 3;
    b->n_targets = rows;
    return b;
}

static int step(const drawn *d, outcome *out)
{
    const mf_session_options o = {.training = true};
    const mf_step_result *r = NULL;
    const char *set[SETTINGS];
    mf_config *config = NULL;
    mf_session *s = NULL;
    mf_trainer *t = NULL;
    for (int i = 0; i < d->n; i++)
        set[i] = d->set[i];
    int rc = mf_config_load("default", d->n, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &o, &s);
    if (rc == MF_OK) rc = mf_trainer_new(s, NULL, &t);
    if (rc != MF_OK) return rc;
    mf_batch *own = config->model.task == MF_TASK_CLASSIFY && config->train.seed % 2 == 0 &&
                            config->train.batch > 1
                        ? uneven(config)
                        : NULL;
    const mf_batch *const list[] = {own, own};
    rc = mf_trainer_step(t, own ? list : NULL, &r);
    mf_batch_free(own);
    if (rc != MF_OK) return rc;
    out->loss = r->loss;
    out->grad_norm = r->grad_norm;
    out->regularizer = r->n_regularizers > 0 ? r->regularizers[r->n_regularizers - 1].value : 0;
    for (int i = 0; i < mf_store_count(s->model->store); i++) {
        const mf_param *p = mf_store_at(s->model->store, i);
        if (p->buffer || !p->grad) continue;
        for (int64_t k = 0; k < p->count && out->n < GRADIENTS; k++)
            out->gradient[out->n++] = p->grad[k];
    }
    return MF_OK;
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
        out->rc = step(d, out);
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

/* NULL: the two agree. Bounds: losses 1e-5, gradients as one vector 1e-3 of the reference. */
static const char *difference(const outcome *a, const outcome *ref)
{
    double off = 0, all = 0;
    if (a->rc != ref->rc) return "one of them fails";
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

static bool judge(int index, outcome *a, outcome *ref)
{
    drawn d;
    draw(index, &d);
    memset(a, 0, offsetof(outcome, gradient));
    memset(ref, 0, offsetof(outcome, gradient));
    side(&d, "cpu", a);
    side(&d, "ref", ref);
    if (a->rc == MF_ECONFIG && ref->rc == MF_ECONFIG && a->message[0] != '\0') {
        if (getenv("MOEFW_TEST_CASE") || getenv("MOEFW_TEST_SEED"))
            printf("# case %d refused: %s\n", index, a->message);
        refused++;
        return true;
    }
    const char *why = a->rc != MF_OK ? a->message : difference(a, ref);
    if (!why) {
        covered[d.router][d.expert][d.regularizer]++;
        agreed++;
        return true;
    }
    tell(index, &d);
    printf("# %s: loss %.9g and %.9g, gradient %.9g and %.9g; %s; %s\n", why, a->loss,
           ref->loss, a->grad_norm, ref->grad_norm, a->message, ref->message);
    return false;
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

START_TEST(every_router_expert_and_regularizer)
{
    const char *own = getenv("MOEFW_TEST_SEED"), *one = getenv("MOEFW_TEST_CASE");
    const int n = getenv("MOEFW_SLOW") ? 1000 : ROUTERS * REGULARIZERS;
    int failed = 0;
    if (own) seed = strtoull(own, NULL, 10);
    outcome *both =
        mmap(NULL, 2 * sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(both, MAP_FAILED);
    sentences();
    for (int i = one ? atoi(one) : 0; i < (one ? atoi(one) + 1 : n); i++)
        failed += !judge(i, &both[0], &both[1]);
    unlink(sentences());
    munmap(both, 2 * sizeof *both);
    print_covered();
    printf("# seed %llu: %d configurations agree, %d refused, %d failed; columns:",
           (unsigned long long)seed, agreed, refused, failed);
    for (int k = 0; k < REGULARIZERS; k++)
        printf(" %s", regularizers[k]);
    printf("\n");
    ck_assert_int_eq(failed, 0);
    if (!one) ck_assert_int_gt(agreed, 2 * n / 3);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("drawn");
    TCase *c = tcase_create("drawn");
    tcase_set_timeout(c, 3000);
    tcase_add_test(c, every_router_expert_and_regularizer);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
