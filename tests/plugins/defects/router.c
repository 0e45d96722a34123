/* router.c: a correct router with an op of its own. -DDEFECT=N adds one defect, which list.tsv
 * describes. DEFECT 0 is the correct router, which passes every check. */
#define _GNU_SOURCE
#include <moefw/moefw.h>

#include <alloca.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef DEFECT
#define DEFECT 0
#endif
#define IS(n) (DEFECT == (n))

typedef struct {
    double scale;
} conf;

typedef struct {
    int64_t experts, top_k;
    float factor;
    double *heap;
} router;

/* ---- the op: y = x + x^3 / 16 ---- */

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    in->out[0].dtype = MF_F32;
    return MF_OK;
}

static float slope(float x)
{
    return 1 + 3 * x * x / 16;
}

static int forward(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape);
    float *x = (float *)(uintptr_t)c->in[0].data, *y = c->out[0].data;
    for (int64_t i = IS(12) ? 1 : 0; i < n; i++) {
        const float v = IS(8) && fabsf(x[i]) > 6 ? copysignf(6, x[i]) : x[i];
        y[i] = v + v * v * v / 16;
    }
    if (IS(10)) y[n] = 0;
    if (IS(11)) y[0] += 0 * x[n];
    if (IS(17) && n % 16 != 0) y[0] += 0 * x[n];
    if (IS(13)) x[0] = y[0];
    if (IS(14)) y[0] += 0 * x[n + (1 << 22)];
    if (IS(16)) {
        static float before;
        y[0] += 1e-3f * before;
        before = x[0];
    }
    return MF_OK;
}

static int backward(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape);
    const int64_t columns = c->in[0].shape.dim[c->in[0].shape.rank - 1];
    const float *x = c->in[0].data, *dy = c->in[2].data;
    float *dx = c->out[0].data;
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * slope(x[i]);
    if (IS(5) && columns > 7)
        for (int64_t i = 0; i < n; i++)
            dx[i] *= 1.1f;
    if (IS(6))
        for (int64_t i = n / 8 * 8; i < n; i++)
            dx[i] = 0;
    if (IS(7))
        for (int64_t i = n - columns; i < n; i++)
            dx[i] = 0.5f * dx[i];
    if (IS(9) && c->attr->i[0] == 2)
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i];
    if (IS(15)) dx[n] = 0;
    return MF_OK;
}

static const mf_opdef cubic = {.size = sizeof(mf_opdef),
                               .name = "cubic",
                               .formula = "y = x + x^3 / 16",
                               .infer = infer,
                               .forward = forward,
                               .backward = backward,
                               .backward_in = 1,
                               .diff_in = 1};

/* ---- changes of the process ---- */

static void nothing(int signal)
{
    (void)signal;
}

static void *sleeper(void *arg)
{
    (void)arg;
    sleep(60);
    return NULL;
}

static void touch_process(void)
{
    if (IS(20)) (void)!open("/dev/null", O_RDONLY);
    if (IS(21)) {
        pthread_t t;
        pthread_create(&t, NULL, sleeper, NULL);
        pthread_detach(t);
    }
    if (IS(22) && fork() == 0) {
        sleep(3);
        _exit(0);
    }
    if (IS(23)) signal(SIGUSR1, nothing);
    if (IS(24)) setenv("MOEFW_DEFECT", "1", 1);
    if (IS(25)) setlocale(LC_ALL, "C.UTF-8");
    if (IS(26)) umask(077);
    if (IS(27)) (void)!chdir("/");
    if (IS(28)) {
        volatile char *deep = alloca(4 << 20);
        for (int i = 0; i < 4 << 20; i += 4096)
            deep[i] = 1;
    }
    if (IS(29)) close(0);
}

/* ---- the router ---- */

static float shared = 1;
static int instances;

static int init(void *self_, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    router *self = self_;
    int here;
    (void)c;
    self->experts = dims->experts;
    self->top_k = dims->top_k;
    self->factor = 1;
    self->heap = NULL;
    if (IS(2)) self->factor = 1 + 0.1f * (float)instances++;
    if (IS(30)) self->factor = 1 + 1e-3f * (float)(time(NULL) % 1000);
    if (IS(31)) self->factor = 1 + 1e-3f * (float)(getpid() % 1000);
    if (IS(32)) self->factor = 1 + 1e-3f * (float)((uintptr_t)&here / 16 % 1000);
    if (IS(33)) self->factor = 1 + 1e-3f * (float)((uintptr_t)&shared / 4096 % 1000);
    if (IS(34)) self->factor = 1 + 1e-3f * (float)(getenv("MOEFW_CHECK_FILLER") != NULL);
    if (IS(50)) self->heap = malloc(4096);
    if (IS(51)) return MF_ECONFIG;
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.2));
    if (rc == MF_OK && (IS(3) || IS(4)))
        rc = mf->param(ctx, "other", mf_shape1(dims->experts), MF_NORMAL(0.2));
    if (rc == MF_OK && IS(60)) rc = mf->param(ctx, "zero", mf_shape1(dims->experts), MF_ZEROS);
    if (rc == MF_OK) rc = mf->buffer(ctx, "load", mf_shape1(dims->experts), MF_ZEROS);
    return rc;
}

static mf_tensor *sequence_mean(mf_graph *g, const mf_router_in *in)
{
    const mf_shape by = mf_shape3(in->batch, in->seq, mf->shape(in->x).dim[1]);
    return mf_mean(g, mf_reshape(g, in->x, by), 2u, true);
}

static mf_tensor *spoil_input(mf_graph *g, const mf_router_in *in)
{
    const mf_shape flat = mf->shape(in->x), by = mf_shape3(in->batch, in->seq, flat.dim[1]);
    mf_tensor *x = in->x;
    const bool training = mf->training(g);
    if ((IS(40) && training) || IS(41))
        x = mf_reshape(g, mf_sub(g, mf_reshape(g, x, by), sequence_mean(g, in)), flat);
    if (IS(42) && training) x = mf_sub(g, x, mf_mean(g, x, 1u, true));
    if (IS(43)) x = mf_affine(g, x, 1.0 + 0.1 * in->batch, 0);
    if (IS(44)) x = mf_add(g, x, mf_affine(g, mf_mean(g, x, 1u, true), 0, 0));
    if (IS(45)) x = mf_affine(g, x, 1.0 + (rand() % 5), 0);
    return x;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    router *self = self_;
    mf_attr attr = mf_attr0();
    attr.i[0] = self->top_k;
    mf_tensor *x = spoil_input(g, in);
    mf_tensor *l = mf_linear(g, x, mf->use(ctx, g, "weight"), NULL);
    touch_process();
    if (IS(4)) l = mf_add(g, l, mf_stop_gradient(g, mf->use(ctx, g, "other")));
    if (IS(60)) l = mf_add(g, l, mf_sqrt(g, mf_square(g, mf->use(ctx, g, "zero"))));
    l = mf_affine(g, l, (double)self->factor, 0);
    l = mf->custom(g, &cubic, 1, &l, &attr, 1, NULL);
    l = mf_sub(g, l, mf->use(ctx, g, "load"));
    out->logits = l;
    if (IS(46)) out->prob = mf_affine(g, mf_softmax(g, l), 2, -0.2);
    if (IS(47)) out->prob = mf_reshape(g, mf_softmax(g, l), mf_shape1(in->experts));
    if (IS(48)) out->logits = NULL;
    if (IS(49)) out->renormalize = 7;
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const struct mf_step *step)
{
    router *self = self_;
    int64_t n;
    float *load = mf->data(ctx, "load", &n);
    (void)step;
    if (IS(1)) {
        shared += 0.01f;
        for (int64_t i = 0; i < n; i++)
            load[i] += shared * (float)i;
    }
    if (IS(52)) {
        self->factor += 0.5f;
        load[0] += self->factor;
    }
    if (IS(53)) load[n] = 1;
    if (IS(54)) self->heap = malloc(100);
    if (IS(55)) load[0] = NAN;
    if (IS(56)) _exit(0);
    if (IS(57)) *(volatile int *)8 = 1;
    if (IS(58))
        for (volatile int i = 0;; i++)
            continue;
    return MF_OK;
}

static void fini(void *self_)
{
    router *self = self_;
    if (!IS(50)) free(self->heap);
    if (IS(59)) free(self->heap), free((char *)self + 8);
}

static const mf_option options[] = {MF_OPTION_REAL(conf, scale, "1", 0, 10, 0, "not used"),
                                    MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router),
                                 .init = init,
                                 .fini = fini,
                                 .route = route,
                                 .after_step = after_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "planted", "1", "MIT", "one linear layer and a cubic",
                   options, conf, router, &vtable);
