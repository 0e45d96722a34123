/* device: the interface between core and a device, tested on the strict device (tests/device).
 * The device must detect mistakes of the host, and all values must equal those on the host. */
#include "check_main.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "graph/device/device.h"
#include "graph/internal.h"
#include "graph_ops.h"
#include "ops/ops.h"
#include "run/backend.h"
#include "strict.h"
#include "tests/lib/device.h"
#include "train/optim/optim.h"

enum { N = 300 };

static mf_device *open_strict(const char *seed)
{
    mf_device *d = NULL;
    setenv("MOEFW_STRICT_SEED", seed, 1);
    ck_assert_msg(mf_backend_open("strict", &d) == MF_OK, "%s", mf_error_message());
    return d;
}

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

#define ASSERT_SAYS(part)                                                                      \
    ck_assert_msg(strstr(mf_error_message(), part) != NULL, "message: %s", mf_error_message())

static void *block_of(mf_device *d, size_t bytes)
{
    void *p = NULL;
    must(mf_device_alloc(d, bytes, &p));
    return p;
}

/* ---- the device itself ---- */

START_TEST(cpu_needs_no_backend)
{
    mf_device *d = open_strict("0");
    mf_device_close(d);
    ck_assert_int_eq(mf_backend_open("cpu", &d), MF_OK);
    ck_assert_ptr_null(d);
    ck_assert(mf_device_is_host(d));
    ck_assert_str_eq(mf_device_name(d), "cpu");
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    mf_device *d;
    ck_assert_int_eq(mf_backend_open("nothing", &d), MF_EDEP);
    ASSERT_SAYS("backend_nothing.so");
    ck_assert_int_eq(mf_backend_open("strict:7", &d), MF_EDEP);
    ASSERT_SAYS("expected number 0");
    ck_assert_int_eq(mf_backend_open("../strict", &d), MF_ECONFIG);
    ck_assert_int_eq(mf_backend_open("strict:x", &d), MF_ECONFIG);
}
END_TEST

static int open_never(const mf_backend_host *host, int index, mf_device *d, char *text,
                      size_t size)
{
    (void)host, (void)index, (void)d;
    snprintf(text, size, "install the driver");
    return MF_EDEP;
}

START_TEST(a_backend_of_another_version_is_refused)
{
    mf_device *d;
    mf_backend b = {.magic = MF_BACKEND_MAGIC,
                    .size = sizeof b,
                    .device_size = sizeof(mf_device_ops),
                    .kernels_size = sizeof(mf_kernels) - 8,
                    .version = "0.0.0",
                    .name = "never",
                    .open = open_never};
    ck_assert_int_eq(mf_device_open(&b, 0, &d), MF_EDEP);
    ASSERT_SAYS("another version");
    b.kernels_size = sizeof(mf_kernels);
    ck_assert_int_eq(mf_device_open(&b, 0, &d), MF_EDEP);
    ASSERT_SAYS("another version");
}
END_TEST

START_TEST(copies_within_and_fills_and_the_size_of_memory)
{
    mf_device *d = open_strict("0");
    float from[4] = {5, 6, 7, 8}, to[4];
    char *p = block_of(d, 64);
    size_t left, all, before;
    must(d->ops->memory(d, &before, &all));
    must(mf_device_write(d, p, from, sizeof from));
    must(d->ops->copy(d, d->stream, p + 16, p, 12));
    must(d->ops->fill(d, d->stream, p + 20, 0, 4));
    must(mf_device_read_now(d, to, p + 16, sizeof to));
    ck_assert(to[0] == 5 && to[1] == 0 && to[2] == 7 && to[3] == 0);
    char *more = block_of(d, 1 << 20);
    must(d->ops->memory(d, &left, &all));
    ck_assert(left < before && before < all);
    void *none;
    ck_assert_int_eq(mf_device_alloc(d, all, &none), MF_ENOMEM);
    ASSERT_SAYS("device strict: no memory for");
    mf_device_free(d, more);
    mf_device_free(d, p);
    mf_device_close(d);
}
END_TEST

START_TEST(copies_are_late_and_fresh_memory_is_poisoned)
{
    mf_device *d = open_strict("0");
    void *fresh;
    float to[4] = {1, 2, 3, 4}, from[4] = {5, 6, 7, 8};
    must(d->ops->alloc(d, sizeof to, &fresh));
    must(mf_device_read_now(d, to, fresh, sizeof to));
    ck_assert(isnan(to[0]) && isnan(to[3]));
    must(mf_device_write(d, fresh, from, sizeof from));
    must(mf_device_read(d, to, fresh, sizeof to));
    ck_assert(isnan(to[0])); /* the copies have not run yet */
    must(mf_device_wait(d));
    ck_assert_mem_eq(to, from, sizeof to);
    d->ops->free(d, fresh);
    ck_assert_int_ne(mf_device_read_now(d, to, fresh, sizeof to), MF_OK);
    ASSERT_SAYS("freed");
    mf_device_close(d);
}
END_TEST

START_TEST(a_host_side_that_changes_is_noticed)
{
    mf_device *d = open_strict("0");
    float from[4] = {5, 6, 7, 8};
    void *p = block_of(d, sizeof from);
    must(mf_device_write(d, p, from, sizeof from));
    from[2] = 0;
    ck_assert_int_eq(mf_device_wait(d), MF_ERUN);
    ASSERT_SAYS("has changed while it waited");
    d->ops->free(d, p);
    mf_device_close(d);
}
END_TEST

START_TEST(kernels_get_memory_of_the_device_only)
{
    mf_device *d = open_strict("0");
    float host[4] = {1, 2, 3, 4};
    const mf_kctx x = mf_device_context(d);
    MF_RUN(mf_device_kernels(d, NULL), &x, scale_inplace, .count = 4, .factor = 2, .a = host);
    ck_assert_int_eq(mf_device_wait(d), MF_ERUN);
    ASSERT_SAYS("scale_inplace: a ");
    ASSERT_SAYS("is not memory of the device");
    ck_assert_float_eq(host[0], 1);
    mf_device_close(d);
}
END_TEST

/* Whether a copy in a second stream reads what the first stream has written. by_event: the
 * second stream waits for an event of the first. */
static bool ordered(const char *seed, bool by_event)
{
    mf_device *d = open_strict(seed);
    float from = 3, to = 0;
    void *p = block_of(d, 64), *other, *event;
    must(mf_device_wait(d));
    must(d->ops->stream_new(d, &other));
    must(d->ops->event_new(d, &event));
    must(mf_device_write(d, p, &from, sizeof from));
    must(d->ops->event_record(d, event, d->stream));
    if (by_event) must(d->ops->stream_wait(d, other, event));
    must(d->ops->read(d, other, &to, p, sizeof to));
    must(d->ops->synchronize(d, other));
    must(mf_device_wait(d));
    d->ops->event_free(d, event);
    d->ops->stream_free(d, other);
    d->ops->free(d, p);
    mf_device_close(d);
    return to == from;
}

START_TEST(events_order_streams_and_nothing_else_does)
{
    int seen = 0;
    for (int seed = 1; seed <= 20; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        ck_assert(ordered(text, true));
        seen += ordered(text, false);
    }
    ck_assert_msg(seen > 0 && seen < 20, "%d of 20 orders", seen);
}
END_TEST

/* ---- parameters ---- */

static mf_store *store_on(mf_device *d, mf_param **w, mf_param **b)
{
    mf_store *s = mf_store_new();
    mf_store_want_bf16(s);
    mf_store_put_on(s, d);
    must(mf_store_declare(s, "w", mf_shape2(N, N), (mf_init){.kind = MF_INIT_NORMAL, .a = 1},
                          false, w));
    must(mf_store_declare(s, "b", mf_shape1(3), (mf_init){.kind = MF_INIT_CONST, .a = 2}, true,
                          b));
    must(mf_store_seal(s, 7, true));
    return s;
}

START_TEST(parameters_are_read_and_written_as_on_the_host)
{
    mf_device *d = open_strict("2");
    mf_param *w, *b, *hw, *hb;
    mf_store *s = store_on(d, &w, &b), *h = store_on(NULL, &hw, &hb);
    const float number = 9;
    ck_assert_mem_eq(mf_param_host(w), mf_param_host(hw), N * N * sizeof(float));
    ck_assert_mem_eq(mf_store_host(s, MF_BLOCK_BF16), mf_store_host(h, MF_BLOCK_BF16),
                     N * N * sizeof(uint16_t));
    must(mf_param_write(w, &number, 40, sizeof number));
    ck_assert_float_eq(mf_param_host(w)[10], 9);
    float *edit = mf_param_edit(b);
    edit[1] = 5;
    ck_assert_float_eq(mf_param_host(b)[1], 5);
    edit[2] = 6; /* the pointer is still valid, because no work has run */
    float back[3];
    must(mf_param_read(b, back, 0, sizeof back));
    ck_assert(back[0] == 2 && back[1] == 5 && back[2] == 6);
    edit[0] = 7; /* plugins also write after a read, within the same call */
    must(mf_param_read(b, back, 0, sizeof back));
    ck_assert(back[0] == 7 && back[1] == 5 && back[2] == 6);
    must(mf_store_zero(s, MF_BLOCK_VALUES));
    ck_assert_float_eq(mf_param_host(w)[10], 0);
    ck_assert_int_eq(mf_param_read(b, back, 8, 8), MF_EINVAL);
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d}); /* the same through a graph */
    mf_tensor *t = mf_graph_param(g, w);
    must(mf_tensor_write(t, &number, 44, sizeof number));
    must(mf_tensor_read(t, back, 40, sizeof back));
    ck_assert(back[0] == 0 && back[1] == 9 && back[2] == 0);
    ck_assert_float_eq(mf_param_host(w)[11], 9);
    mf_graph_free(g);
    mf_store_free(s);
    mf_store_free(h);
    mf_device_close(d);
}
END_TEST

START_TEST(graph_and_store_must_be_on_one_device)
{
    mf_device *d = open_strict("0");
    mf_param *w, *b;
    mf_store *s = store_on(d, &w, &b);
    mf_graph *g = mf_graph_new(NULL);
    ck_assert_ptr_null(mf_graph_param(g, w));
    ASSERT_SAYS("lives on device strict, but the graph on cpu");
    mf_graph_free(g);
    mf_store_free(s);
    mf_device_close(d);
}
END_TEST

/* ---- ops of plugins ---- */

static int twice_forward(const mf_call *c)
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = 2 * t_in(c, 0)[i];
    return MF_OK;
}

typedef struct twice_args {
    const float *in;
    float *out;
    int64_t n;
} twice_args;

static void twice_late(void *arg)
{
    const twice_args *a = arg;
    for (int64_t i = 0; i < a->n; i++)
        a->out[i] = 2 * a->in[i];
}

static int twice_launch(const mf_call *c, const mf_on_device *on)
{
    strict_stream *s = on->stream;
    const twice_args a = {t_in(c, 0), t_out(c, 0), t_n(c)};
    s->enqueue(s, "twice", twice_late, &a, sizeof a, 2);
    return MF_OK;
}

/* A planted defect: the function runs on the host and reads memory of the device. */
static int twice_peek(const mf_call *c, const mf_on_device *on)
{
    return t_in(c, 0)[0] == 0 ? MF_ERUN : twice_launch(c, on);
}

/* The list of a plugin for a later version of the headers. Its entries are longer. */
static const struct {
    mf_device_op op;
    void *later[3];
} by_launch[] = {{{sizeof *by_launch, "other", twice_peek, NULL, NULL}, {NULL}},
                 {{sizeof *by_launch, "strict", twice_launch, NULL, NULL}, {NULL}},
                 {{0}, {NULL}}};
static const mf_device_op by_peek[] = {{sizeof *by_peek, "strict", twice_peek, NULL, NULL},
                                       {0}};

#define TWICE(bytes, list)                                                                     \
    {                                                                                          \
        .size = bytes, .name = "twice", .flags = MF_OP_NO_GRAD, .infer = t_same,               \
        .forward = twice_forward, .launch = list                                               \
    }
static const mf_opdef twice_host = TWICE(sizeof(mf_opdef), NULL);
/* The table of an older plugin. It ends with `user`, and fields after it are ignored. */
static const mf_opdef twice_short = TWICE(offsetof(mf_opdef, bf16_in), by_peek);
static const mf_opdef twice_launched = TWICE(sizeof(mf_opdef), &by_launch[0].op);
static const mf_opdef twice_peeking = TWICE(sizeof(mf_opdef), by_peek);

typedef struct small {
    mf_graph *g;
    mf_tensor *x, *y;
} small;

/* Builds y = op(x + x) + x for an input x. */
static small build(mf_device *d, const mf_opdef *op)
{
    small s = {.g = mf_graph_new(&(mf_graph_options){.device = d})};
    s.x = mf_graph_input(s.g, "x", MF_F32, mf_shape1(N));
    s.y = plus(s.g, op1(s.g, op, plus(s.g, s.x, s.x)), s.x);
    mf_graph_keep(s.y);
    must(mf_graph_finish(s.g));
    return s;
}

static void fill(const small *s, float first)
{
    float *x = mf_tensor_input(s->x);
    for (int i = 0; i < N; i++)
        x[i] = first + (float)i;
}

static void judge(const small *s, float first)
{
    const float *y = mf_tensor_host(s->y);
    ck_assert_ptr_nonnull(y);
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(y[i], 5 * (first + (float)i));
}

static int told;
static void listen(void *arg, mf_log_level level, const char *text)
{
    (void)arg, (void)level;
    told += strstr(text, "twice") != NULL && strstr(text, "no launch function") != NULL;
}

START_TEST(ops_without_launch_functions_run_on_the_host)
{
    const mf_opdef *ops[] = {&twice_host, &twice_short};
    mf_device *d = open_strict("5");
    told = 0;
    const mf_log_sink sink = {.highest = MF_LOG_INFO, .line = listen};
    const mf_log_sink *before = mf_log_redirect(&sink);
    for (int i = 0; i < 4; i++) {
        small s = build(d, ops[i % 2]);
        fill(&s, (float)i);
        must(mf_graph_run(s.g, NULL));
        judge(&s, (float)i);
        mf_graph_free(s.g);
    }
    mf_log_redirect(before);
    ck_assert_int_eq(told, 2); /* each op is reported once */
    ck_assert_int_eq(d->fallbacks, 4);
    mf_device_close(d);
}
END_TEST

START_TEST(ops_with_launch_functions_do_not)
{
    mf_device *d = open_strict("5");
    small s = build(d, &twice_launched);
    fill(&s, 1);
    must(mf_graph_run(s.g, NULL));
    judge(&s, 1);
    ck_assert_int_eq(d->fallbacks, 0);
    mf_graph_free(s.g);
    mf_device_close(d);
}
END_TEST

static int twice_backward(const mf_call *c) /* inputs: x, y, dy; output: dx */
{
    for (int64_t i = 0; i < t_n(c); i++)
        t_out(c, 0)[i] = 2 * t_in(c, 2)[i];
    return MF_OK;
}

static int twice_launch_backward(const mf_call *c, const mf_on_device *on)
{
    strict_stream *s = on->stream;
    const twice_args a = {t_in(c, 2), t_out(c, 0), t_n(c)};
    s->enqueue(s, "twice backward", twice_late, &a, sizeof a, 2);
    return MF_OK;
}

START_TEST(gradients_are_launched_too)
{
    static const mf_device_op both[] = {
        {sizeof *both, "strict", twice_launch, twice_launch_backward, NULL}, {0}};
    static const mf_opdef learned = {.size = sizeof learned,
                                     .name = "twice",
                                     .infer = t_same,
                                     .forward = twice_forward,
                                     .backward = twice_backward,
                                     .diff_in = 1,
                                     .launch = both};
    mf_device *d = open_strict("5");
    small s = {.g = mf_graph_new(&(mf_graph_options){.device = d, .training = true})};
    s.x = mf_graph_input(s.g, "x", MF_F32, mf_shape1(N));
    mf_graph_want_grad(s.x);
    mf_tensor *y = op1(s.g, &learned, s.x), *seed = mf_graph_input(s.g, "dy", MF_F32, y->shape);
    must(mf_graph_backward_from(s.g, 1, &y, &seed, 1, &s.x));
    must(mf_graph_finish(s.g));
    fill(&s, 1);
    float *dy = mf_tensor_input(seed);
    for (int i = 0; i < N; i++)
        dy[i] = (float)(i % 7);
    must(mf_graph_run(s.g, NULL));
    const float *dx = mf_tensor_host(s.x->grad);
    ck_assert_ptr_nonnull(dx);
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(dx[i], 2 * (float)(i % 7));
    ck_assert_int_eq(d->fallbacks, 0);
    mf_graph_free(s.g);
    mf_device_close(d);
}
END_TEST

/* Runs this op on the device in a process of its own. Returns the signal that ended it,
 * or 0. */
static int signal_of(const mf_opdef *op)
{
    fflush(NULL);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        mf_device *d = open_strict("0");
        small s = build(d, op);
        _exit(mf_graph_run(s.g, NULL) == MF_OK ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(a_planted_host_read_crashes)
{
    ck_assert_int_eq(signal_of(&twice_peeking), SIGSEGV);
}
END_TEST

/* ---- runs ---- */

START_TEST(inputs_may_be_filled_while_runs_are_queued)
{
    for (int seed = 0; seed < 6; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        mf_device *d = open_strict(text);
        mf_graph_options o = {.device = d, .payload = {8, 8, 5}};
        mf_graph *g = mf_graph_new(&o);
        double live = 0;
        mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(4));
        mf_tensor *y = plus(g, x, mf_graph_live(g, &live, "live"));
        mf_graph_keep(y);
        must(mf_graph_finish(g));
        for (int i = 0; i < 5; i++) {
            ((float *)mf_tensor_input(x))[3] = (float)(10 * i);
            live = i;
            must(mf_graph_run(g, &(mf_run){.queued = true}));
            must(mf_graph_fetch(g, i));
        }
        for (int i = 0; i < 5; i++) {
            must(mf_graph_collect(g, i));
            const float *v = mf_tensor_collected(y, i);
            ck_assert_float_eq(v[3], (float)(11 * i));
        }
        ck_assert_float_eq(((const float *)mf_tensor_host(y))[3], 44);
        ck_assert_int_eq(mf_graph_fetch(g, 5), MF_EINVAL);
        mf_graph_free(g);
        mf_device_close(d);
    }
}
END_TEST

/* An input marked as still is sent only once. Values that are written to the old pointer
 * without a call of mf_tensor_input are not sent. */
START_TEST(an_input_that_is_still_is_sent_once)
{
    mf_device *d = open_strict("1");
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d});
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(4));
    mf_tensor *y = plus(g, x, x);
    mf_graph_keep(x);
    mf_graph_keep(y);
    mf_graph_still(x);
    must(mf_graph_finish(g));
    float *in = mf_tensor_input(x);
    in[3] = 1;
    must(mf_graph_run(g, NULL));
    ck_assert_float_eq(((const float *)mf_tensor_host(y))[3], 2);
    in[3] = 5;
    must(mf_graph_run(g, NULL));
    ck_assert_float_eq(((const float *)mf_tensor_host(y))[3], 2);
    ck_assert_float_eq(((const float *)mf_tensor_host(x))[3], 1);
    in = mf_tensor_input(x);
    ck_assert_float_eq(in[3], 1);
    in[3] = 7;
    must(mf_graph_run(g, NULL));
    ck_assert_float_eq(((const float *)mf_tensor_host(y))[3], 14);
    mf_graph_free(g);
    mf_device_close(d);
}
END_TEST

START_TEST(a_fault_is_reported_when_the_run_is_waited_for)
{
    mf_device *d = open_strict("4");
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d});
    mf_tensor *ids = mf_graph_input(g, "ids", MF_I32, mf_shape1(2));
    mf_tensor *table = mf_graph_input(g, "table", MF_F32, mf_shape2(4, 8));
    mf_tensor *y = mf_embedding(g, table, ids);
    mf_graph_keep(y);
    must(mf_graph_finish(g));
    int32_t *id = mf_tensor_input(ids);
    id[1] = 4;
    must(mf_graph_run(g, &(mf_run){.queued = true}));
    ck_assert_ptr_null(mf_tensor_host(y));
    ck_assert_int_eq(mf_graph_wait(g), MF_EINPUT);
    ASSERT_SAYS("embedding: token 1: expected an id in 0 .. 3, found 4");
    ck_assert_int_eq(mf_graph_run(g, NULL), MF_EINPUT);
    id[1] = 3; /* a valid id; the fault of the earlier run must not remain */
    must(mf_graph_run(g, NULL));
    ck_assert_ptr_nonnull(mf_tensor_host(y));
    mf_graph_free(g);
    mf_device_close(d);
}
END_TEST

/* The fault belongs to the device. Another graph, which does not have the faulty node, must not
 * name one of its own nodes. */
START_TEST(a_fault_of_another_graph)
{
    mf_device *d = open_strict("4");
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d});
    const mf_fault fault = {.kind = MF_FAULT_RANGE, .what = MF_WHAT_ID, .node = 3, .hi = 4};
    must(mf_graph_finish(g));
    ck_assert_int_eq(mf_graph_judge_fault(g, &fault), MF_ERUN);
    ASSERT_SAYS("a kernel of another graph has recorded a fault");
    mf_graph_free(g);
    mf_device_close(d);
}
END_TEST

START_TEST(values_that_are_not_finite_are_traced)
{
    mf_device *d = open_strict("1");
    mf_graph *g = mf_graph_new(&(mf_graph_options){.device = d});
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape1(5000));
    mf_tensor *y = mf_graph_op_named(g, "log", 1, &x, NULL, 1, NULL);
    mf_graph_keep(y);
    must(mf_graph_finish(g));
    float *in = mf_tensor_input(x);
    for (int i = 0; i < 5000; i++)
        in[i] = i == 4500 ? -1.0f : 1.0f;
    ck_assert_int_eq(mf_graph_run(g, &(mf_run){.check_finite = true}), MF_ENONFINITE);
    ASSERT_SAYS("is NaN at index 4500; its inputs are finite");
    mf_graph_free(g);
    mf_device_close(d);
}
END_TEST

/* Trains a linear layer for two steps. The loss is the mean of (x w^T)^2. values: w, then its
 * second moment. */
static void train(mf_device *d, float *values, double *ret_norm)
{
    const mf_train_config config = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
    mf_param *w, *b;
    mf_optim *o;
    mf_store *s = store_on(d, &w, &b);
    mf_graph_options options = {
        .training = true, .device = d, .payload = {.out = sizeof(double)}};
    mf_graph *g = mf_graph_new(&options);
    mf_tensor *x = mf_graph_input(g, "x", MF_F32, mf_shape2(5, N));
    mf_tensor *y = mf_linear(g, x, mf_graph_param(g, w), NULL);
    mf_tensor *y2 = mf_graph_op_named(g, "square", 1, &y, NULL, 1, NULL);
    mf_tensor *loss = mf_mean(g, y2, 3, false);
    mf_graph_keep(loss);
    must(mf_graph_backward(g, loss, 0, NULL));
    must(mf_graph_finish(g));
    must(mf_optim_new(s, &config, &o));
    mf_optim_exchange(o, NULL, mf_graph_returned_at(g));
    for (int step = 0; step < 2; step++) {
        const mf_optim_step now = {
            .step = step, .lr = 0.5, .grad_scale = 1, .loss = mf_tensor_data(loss)};
        for (int i = 0; i < 5 * N; i++)
            ((float *)mf_tensor_input(x))[i] = (float)(i % 7) - 3;
        must(mf_graph_run(g, &(mf_run){.queued = true}));
        must(mf_optim_measure(o));
        must(mf_optim_update(o, &now));
        must(mf_graph_fetch(g, 0));
        must(mf_graph_collect(g, 0));
        *ret_norm = mf_optim_norm(*(const double *)mf_graph_returned(g, 0), &now);
    }
    memcpy(values, mf_param_host(w), N * N * sizeof *values);
    memcpy(values + N * N, mf_store_host(s, MF_BLOCK_MOMENT2), N * N * sizeof *values);
    mf_optim_free(o);
    mf_graph_free(g);
    mf_store_free(s);
}

START_TEST(training_gives_the_bits_of_the_host)
{
    enum { SIZE = 2 * N * N };
    float *host = mf_alloc(SIZE, sizeof *host), *there = mf_alloc(SIZE, sizeof *there);
    double norm, other;
    train(NULL, host, &norm);
    for (int seed = 0; seed < 4; seed++) {
        char text[8];
        snprintf(text, sizeof text, "%d", seed);
        mf_device *d = open_strict(text);
        train(d, there, &other);
        ck_assert_mem_eq(host, there, SIZE * sizeof *host);
        ck_assert_double_eq(norm, other);
        mf_device_close(d);
    }
    mf_free(host);
    mf_free(there);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("device");
    TCase *c = tcase_create("device");
    const TTest *tests[] = {a_planted_host_read_crashes, /* this test is first because
                                                          * it forks */
                            cpu_needs_no_backend,
                            what_is_missing_is_named,
                            a_backend_of_another_version_is_refused,
                            copies_within_and_fills_and_the_size_of_memory,
                            copies_are_late_and_fresh_memory_is_poisoned,
                            a_host_side_that_changes_is_noticed,
                            kernels_get_memory_of_the_device_only,
                            events_order_streams_and_nothing_else_does,
                            parameters_are_read_and_written_as_on_the_host,
                            graph_and_store_must_be_on_one_device,
                            ops_without_launch_functions_run_on_the_host,
                            ops_with_launch_functions_do_not,
                            inputs_may_be_filled_while_runs_are_queued,
                            an_input_that_is_still_is_sent_once,
                            gradients_are_launched_too,
                            a_fault_is_reported_when_the_run_is_waited_for,
                            a_fault_of_another_graph,
                            values_that_are_not_finite_are_traced,
                            training_gives_the_bits_of_the_host};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(c, tests[i]);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    mf_test_find_strict(true);
    return check_run(suite(), CK_NOFORK);
}
