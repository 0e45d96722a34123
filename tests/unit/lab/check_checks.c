/* The single checks of plugin check. Each runs on a plugin of this program that breaks the rule
 * of the check. tests/cli/plugins runs all checks on plugins in files. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "lab/check/check.h"
#include "lab/check/checks.h"
#include "ops/ops.h"
#include "plugin/host.h"
#include "tests/lib/scratch.h"

#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The mistakes of the plugins below. */
typedef enum fault {
    NONE,
    OPENS,
    CLOSES,
    HANDLES,
    FORKS,
    SPEAKS,
    MASKS,
    DEEP,
    ALLOCATES,
    OVERWRITES,
    COUNTS_BATCH,
    COUNTS_SEQ,
    DECLINES,
    ONLY_EVALUATES,
    NO_SUCH_RULE,
    NEGATIVE,
    MANY_OPS
} fault;
static fault planted;
static int opened; /* the descriptor that the fault OPENS leaves open, or that CLOSES closes */

/* ---- ops ---- */

static int infer_same(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

/* Computes y = x, and then writes x[0] = 7. */
static int overwrite(const mf_call *c)
{
    float *x = (float *)(uintptr_t)c->in[0].data, *y = c->out[0].data;
    memcpy(y, x, (size_t)mf_shape_count(c->in[0].shape) * sizeof *y);
    x[0] = 7;
    return MF_OK;
}

static int copy(const mf_call *c)
{
    memcpy(c->out[0].data, c->in[0].data,
           (size_t)mf_shape_count(c->in[0].shape) * sizeof(float));
    return MF_OK;
}

/* [T] -> [T k]: token t is assigned to the experts that follow expert i[1] + t. */
static int infer_choice(mf_infer *in)
{
    in->n_out = 1;
    in->out[0].dtype = MF_I32;
    in->out[0].shape = mf_shape1(in->in[0].shape.dim[0] * in->attr->i[0]);
    return MF_OK;
}

static int choose(const mf_call *c)
{
    const int64_t k = c->attr->i[0], experts = c->attr->i[2];
    int32_t *out = c->out[0].data;
    for (int64_t r = 0; r < mf_shape_count(c->out[0].shape); r++)
        out[r] = (int32_t)((c->attr->i[1] + r % k) % experts);
    return MF_OK;
}

static const mf_opdef overwriting = {.size = sizeof(mf_opdef),
                                     .flags = MF_OP_NO_GRAD,
                                     .name = "overwriting",
                                     .formula = "y = x",
                                     .infer = infer_same,
                                     .forward = overwrite};
static const mf_opdef copying = {.size = sizeof(mf_opdef),
                                 .flags = MF_OP_NO_GRAD,
                                 .name = "copying",
                                 .formula = "y = x",
                                 .infer = infer_same,
                                 .forward = copy};
static const mf_opdef choosing = {.size = sizeof(mf_opdef),
                                  .flags = MF_OP_NO_GRAD,
                                  .name = "choosing",
                                  .formula = "y = i",
                                  .infer = infer_choice,
                                  .forward = choose};

/* ---- a router: logits W x ---- */

typedef struct {
    int64_t required_yes, required_one;
    const char *required_text;
} conf;

typedef struct {
    conf options;
} router;

static conf received; /* the options of the last instance */

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    if (c) received = *(const conf *)c;
    if (planted == DECLINES) return mf_plugin_host()->fail(ctx, MF_ECONFIG, "not today");
    return mf_plugin_host()->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                                   MF_NORMAL(0.3));
}

static void nothing(int signal)
{
    (void)signal;
}

static int fill_stack(void)
{
    volatile char deep[4 << 20];
    for (int i = 0; i < (int)sizeof deep; i += 1024)
        deep[i] = 1;
    return deep[1024];
}

static void touch_process(void)
{
    switch (planted) {
    case OPENS:
        opened = open("/dev/null", O_RDONLY);
        break;
    case CLOSES:
        close(opened);
        break;
    case HANDLES:
        signal(SIGUSR1, nothing);
        break;
    case FORKS:
        if (fork() == 0) _exit(0);
        break;
    case SPEAKS:
        setlocale(LC_ALL, "C.UTF-8");
        break;
    case MASKS:
        umask(077);
        break;
    case DEEP:
        fill_stack();
        break;
    default:
        break;
    }
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const mf_host *host = mf_plugin_host();
    mf_tensor *x = in->x;
    mf_attr attr = mf_attr0();
    (void)self;
    touch_process();
    if (planted == ONLY_EVALUATES && host->training(g))
        return host->fail(ctx, MF_ECONFIG, "not in training");
    if (planted == OVERWRITES) x = host->custom(g, &overwriting, 1, &x, &attr, 1, NULL);
    for (int i = 0; planted == MANY_OPS && i < 520; i++) {
        mf_tensor *y = x;
        host->custom(g, &copying, 1, &y, &attr, 1, NULL);
    }
    if (planted == COUNTS_BATCH || planted == COUNTS_SEQ) {
        mf_tensor *ids = in->token_ids;
        attr.i[0] = out->own_top_k = in->top_k;
        attr.i[1] = planted == COUNTS_BATCH ? in->batch : in->seq;
        attr.i[2] = in->experts;
        out->expert = host->custom(g, &choosing, 1, &ids, &attr, 1, NULL);
        return host->status(g);
    }
    out->logits = mf_linear(g, x, host->use(ctx, g, "weight"), NULL);
    if (planted == NO_SUCH_RULE) out->renormalize = 7;
    if (planted == NEGATIVE) out->prob = mf_affine(g, mf_softmax(g, out->logits), 2, -0.2);
    return host->status(g);
}

/* Allocates and frees memory in a step, with the allocator of the program. */
static int after_step(void *self, mf_ctx *ctx, const struct mf_step *step)
{
    (void)self;
    (void)ctx;
    (void)step;
    if (planted == ALLOCATES) mf_free(mf_alloc(1, 8));
    return MF_OK;
}

static const char *const colors[] = {"red", "green", NULL};
static const mf_option no_options[] = {MF_END_OPTIONS};
static const mf_option required_options[] = {
    MF_OPTION_BOOL(conf, required_yes, NULL, 0, "a choice"),
    MF_OPTION_ENUM(conf, required_one, NULL, colors, "a color"),
    MF_OPTION_STR(conf, required_text, NULL, "a live option"), MF_END_OPTIONS};
static const mf_router router_table = {sizeof(mf_router), 0, init, NULL, route, after_step};
static const mf_host *slot;

static mf_plugin descriptor(mf_kind kind, const void *table, uint32_t size,
                            const mf_option *options)
{
    return (mf_plugin){.magic = MF_MAGIC,
                       .abi = MF_ABI,
                       .size = sizeof(mf_plugin),
                       .host_size = sizeof(mf_host),
                       .option_size = sizeof(mf_option),
                       .vtable_size = size,
                       .kind = kind,
                       .name = "planted",
                       .version = "1",
                       .license = "MIT",
                       .brief = "breaks a rule",
                       .options = options,
                       .conf_size = sizeof(conf),
                       .self_size = sizeof(router),
                       .vtable = table,
                       .host = &slot};
}

static mf_arena *arena;

static const mf_loaded *judged(const mf_plugin *d)
{
    mf_loaded *loaded = mf_arena_alloc(arena, sizeof *loaded);
    mf_plugin *kept = mf_arena_alloc(arena, sizeof *kept);
    *kept = *d;
    ck_assert_msg(mf_judge(kept, 0, 0, NULL, NULL, arena, loaded) == MF_OK, "%s",
                  mf_error_message());
    loaded->path = "part of this test";
    return loaded;
}

static const mf_loaded *make_router(const mf_option *options)
{
    const mf_plugin d = descriptor(MF_ROUTER, &router_table, sizeof router_table, options);
    return judged(&d);
}

static void setup(void)
{
    planted = NONE;
    arena = mf_arena_new();
    mf_error_clear();
}

static void teardown(void)
{
    planted = NONE;
    mf_arena_free(arena);
}

/* Runs a check. It must find the fault with these words. */
static void finds(fault what, mf_check_fn check, const mf_loaded *plugin, mf_verdict verdict,
                  const char *words)
{
    char detail[MF_CHECK_DETAIL] = "";
    planted = what;
    const mf_verdict v = check(plugin, detail);
    planted = NONE;
    ck_assert_msg(v == verdict && strstr(detail, words) != NULL,
                  "fault %d: verdict %d: '%s' lacks '%s'", (int)what, (int)v, detail, words);
}

/* ---- the process ---- */

START_TEST(a_process_that_is_changed)
{
    const mf_loaded *p = make_router(no_options);
    char words[64];
    finds(NONE, mf_check_process, p, MF_CHECK_PASS, "as before");
    finds(OPENS, mf_check_process, p, MF_CHECK_FAIL, "was left open: expected the process as");
    close(opened);
    opened = open("/dev/null", O_RDONLY);
    snprintf(words, sizeof words, "descriptor %d was closed", opened);
    finds(CLOSES, mf_check_process, p, MF_CHECK_FAIL, words);
    finds(HANDLES, mf_check_process, p, MF_CHECK_FAIL, "the handling of SIGUSR1 was changed");
    signal(SIGUSR1, SIG_DFL);
    finds(FORKS, mf_check_process, p, MF_CHECK_FAIL, "a child process was left behind");
    while (wait(NULL) > 0)
        continue;
    const mode_t mask = umask(022);
    finds(MASKS, mf_check_process, p, MF_CHECK_FAIL, "the umask was changed to 077");
    umask(mask);
    finds(DEEP, mf_check_process, p, MF_CHECK_FAIL, "KiB of stack: expected at most");
    const bool known = setlocale(LC_ALL, "C.UTF-8") != NULL;
    setlocale(LC_ALL, "C");
    if (known)
        finds(SPEAKS, mf_check_process, p, MF_CHECK_FAIL, "the locale was changed to C.UTF-8");
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(steps_that_allocate)
{
    finds(ALLOCATES, mf_check_leaks, make_router(no_options), MF_CHECK_FAIL,
          "300 steps allocate 300 times: expected never");
}
END_TEST

/* ---- routing ---- */

START_TEST(choices_that_depend_on_other_tokens)
{
    const mf_loaded *p = make_router(no_options);
    finds(OVERWRITES, mf_check_determinism, p, MF_CHECK_FAIL,
          "x changed while the graph ran: an op wrote into its input");
    /* with 4 experts, batches of 4 begin at expert 0, batches of 2 at expert 2 */
    finds(COUNTS_BATCH, mf_check_batch_split, p, MF_CHECK_FAIL,
          "choice 0: expert 2 and expert 0");
    finds(COUNTS_SEQ, mf_check_decoding, p, MF_CHECK_FAIL, "choice 0: expert ");
}
END_TEST

START_TEST(records_that_are_wrong)
{
    const mf_loaded *p = make_router(no_options);
    finds(NO_SUCH_RULE, mf_check_shapes, p, MF_CHECK_FAIL,
          "renormalize: expected -1, 0 or 1, found 7");
    finds(NEGATIVE, mf_check_shapes, p, MF_CHECK_FAIL, "expected a probability of at least 0");
    finds(DECLINES, mf_check_options, p, MF_CHECK_FAIL, "with its defaults: ");
    finds(ONLY_EVALUATES, mf_check_options, p, MF_CHECK_FAIL, "with its defaults: ");
    finds(MANY_OPS, mf_check_gradients, p, MF_CHECK_FAIL,
          "more than 512 ops without a gradient: too many to hold");
}
END_TEST

/* Required options get a value: "no", the first choice, or the name of a live option. */
START_TEST(required_options_are_set)
{
    mf_harness_spec spec = mf_check_spec(make_router(required_options));
    mf_harness *harness = NULL;
    spec.only_init = true;
    received = (conf){.required_yes = 7, .required_one = 7};
    ck_assert_msg(mf_harness_new(&spec, &harness) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(received.required_yes, 0);
    ck_assert_int_eq(received.required_one, 0);
    ck_assert_str_eq(received.required_text, "train.lr");
    mf_harness_free(harness);
}
END_TEST

/* If top_k is larger than the number of experts, the number of experts is increased. */
START_TEST(sizes_fit)
{
    mf_harness_spec spec = mf_check_spec(make_router(no_options));
    mf_check_sizes(&spec, 2, 5);
    ck_assert_int_eq(spec.top_k, 5);
    ck_assert_int_eq(spec.experts, 5);
}
END_TEST

/* ---- a penalty without a gradient, and an adapter that sees other tokens ---- */

static int init_nothing(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    (void)ctx;
    (void)c;
    (void)dims;
    return MF_OK;
}

static int constant(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                    int32_t n, mf_tensor **ret)
{
    (void)self;
    (void)ctx;
    (void)n;
    *ret = mf_sum(g, mf_stop_gradient(g, routing[0]->prob), MF_ALL, false);
    return mf_plugin_host()->status(g);
}

static int sees_all(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    (void)c;
    (void)dims;
    return mf_plugin_host()->want(ctx, MF_ADAPTER_SEQUENCE);
}

static int adapt(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    (void)self;
    (void)ctx;
    *ret_y = mf_affine(g, in->y, 2, 0);
    return mf_plugin_host()->status(g);
}

START_TEST(what_is_not_asked)
{
    static const mf_regularizer penalty = {
        .size = sizeof penalty, .init = init_nothing, .loss = constant};
    static const mf_adapter adapter = {.size = sizeof adapter,
                                       .init = sees_all,
                                       .apply = adapt,
                                       .points = MF_POINT_BIT(MF_AT_BLOCK_OUT),
                                       .at = "block_out"};
    mf_plugin d = descriptor(MF_REGULARIZER, &penalty, sizeof penalty, no_options);
    finds(NONE, mf_check_gradients, judged(&d), MF_CHECK_FAIL,
          "no parameter has a gradient of it: it changes nothing");
    d = descriptor(MF_ADAPTER, &adapter, sizeof adapter, no_options);
    const mf_loaded *p = judged(&d);
    finds(NONE, mf_check_batch_split, p, MF_CHECK_SKIP,
          "it says that it looks at other tokens");
    finds(NONE, mf_check_causality, p, MF_CHECK_SKIP, "MF_ADAPTER_SEQUENCE");
}
END_TEST

/* ---- ops alone ---- */

typedef enum op_fault { OTHER_BITS, FAILS_LATER, BEHIND_WORK, BEHIND_OUTPUT, RIGHT } op_fault;
static op_fault op_planted;
static int calls;

static int infer_work(mf_infer *in)
{
    in->work_bytes = 20;
    return infer_same(in);
}

static int op_forward(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape);
    float *y = c->out[0].data;
    calls++;
    copy(c);
    memset(c->work, 0, op_planted == BEHIND_WORK ? 24 : 20);
    if (op_planted == OTHER_BITS) y[0] += (float)calls;
    /* stays within the allocated memory, because the size of a tensor is rounded up */
    if (op_planted == BEHIND_OUTPUT) y[n] = 1;
    if (op_planted == FAILS_LATER && calls == 5)
        return c->fail(c, MF_EPLUGIN, "call %d is one too many", calls);
    return MF_OK;
}

static int not_finite(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_ln(g, mf_affine(g, at->dout[0], 0, -1));
    return MF_OK;
}

static mf_opdef op(uint32_t flags, uint32_t diff_in)
{
    return (mf_opdef){.size = sizeof(mf_opdef),
                      .flags = flags,
                      .name = "planted_op",
                      .formula = "y = x",
                      .infer = infer_work,
                      .forward = op_forward,
                      .grad = flags & MF_OP_STRAIGHT_THROUGH ? not_finite : NULL,
                      .diff_in = diff_in};
}

static void op_finds(op_fault what, const mf_opdef *def, mf_verdict verdict, const char *words)
{
    const mf_op_example e = {.size = sizeof e,
                             .n_in = 1,
                             .op = def,
                             .shape = {mf_shape1(5)},
                             .dtype = {MF_F32}},
                        *const list[] = {&e};
    mf_loaded p = *make_router(no_options);
    p.examples = list;
    p.n_examples = 1;
    op_planted = what;
    calls = 0;
    finds(NONE, mf_check_ops, &p, verdict, words);
}

START_TEST(ops_alone)
{
    const mf_opdef plain = op(MF_OP_NO_GRAD, 0), none = op(MF_OP_STRAIGHT_THROUGH, 0),
                   wild = op(MF_OP_STRAIGHT_THROUGH, 1);
    op_finds(RIGHT, &plain, MF_CHECK_PASS, "");
    op_finds(OTHER_BITS, &plain, MF_CHECK_FAIL,
             "planted_op: run 2, of 1 threads, has other bits than the first");
    /* four calls compare the bits; the fifth uses the memory of the check */
    op_finds(FAILS_LATER, &plain, MF_CHECK_FAIL, "call 5 is one too many");
    op_finds(BEHIND_WORK, &plain, MF_CHECK_FAIL,
             "planted_op: forward writes beyond its 20 bytes of work");
    op_finds(BEHIND_OUTPUT, &plain, MF_CHECK_FAIL,
             "planted_op: forward writes beyond output 0");
    op_finds(RIGHT, &none, MF_CHECK_FAIL,
             "planted_op: expected a gradient of a straight-through op, found none");
    op_finds(RIGHT, &wild, MF_CHECK_FAIL, "planted_op: element 0 of gradient 0 is not finite");
}
END_TEST

/* A program that has not set its path (mf_child_program) checks only the descriptor. */
START_TEST(a_program_without_a_child)
{
    static mf_plugin own;
    static mf_check_report report;
    const mf_check_request request = {.what = "planted", .seconds = 60};
    own = descriptor(MF_ROUTER, &router_table, sizeof router_table, no_options);
    ck_assert_msg(mf_plugin_register(&own) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_check_plugin(&request, NULL, &report), MF_ERUN);
    ck_assert_str_eq(mf_error_message(), "checks need a child process, and this program has no "
                                         "way to start itself");
    ck_assert(report.n == 1 && report.rows[0].pass && !report.pass);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("checks");
    TCase *t = tcase_create("checks");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_process_that_is_changed);
    tcase_add_test(t, steps_that_allocate);
    tcase_add_test(t, choices_that_depend_on_other_tokens);
    tcase_add_test(t, records_that_are_wrong);
    tcase_add_test(t, required_options_are_set);
    tcase_add_test(t, sizes_fit);
    tcase_add_test(t, what_is_not_asked);
    tcase_add_test(t, ops_alone);
    tcase_add_test(t, a_program_without_a_child);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
