/* Optimizers: 20 steps, compared with the values of PyTorch's AdamW, Adam, Muon and Adafactor,
 * and of Lion's formula, for the same gradients (tests/golden/optimizers). Also frozen parts,
 * the same bits with any number of threads, moments and work memory, and learning rates. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "data/safetensors/safetensors.h"
#include "kernels/bf16.h"
#include "train/optim/optim.h"
#include "train/schedule.h"

typedef struct {
    const char *name;
    mf_shape shape;
    uint32_t flags;
    int64_t stacked[3];
} declared;

static const declared params[] = {
    {"embed.weight", {.rank = 2, .dim = {11, 6}}, MF_PARAM_NO_DECAY, {0}},
    {"layers.0.norm1.weight", {.rank = 1, .dim = {6}}, MF_PARAM_NO_DECAY, {0}},
    {"layers.0.attention.qkv.weight", {.rank = 2, .dim = {16, 6}}, 0, {8, 4, 4}},
    {"layers.0.attention.out.weight", {.rank = 2, .dim = {6, 8}}, 0, {0}},
    {"layers.0.router.weight", {.rank = 2, .dim = {3, 6}}, 0, {0}},
    {"layers.0.expert.w13",
     {.rank = 3, .dim = {3, 8, 6}},
     MF_PARAM_BY_EXPERT | MF_PARAM_HALVES,
     {0}},
    {"layers.0.expert.w2", {.rank = 3, .dim = {3, 6, 4}}, MF_PARAM_BY_EXPERT, {0}},
    {"layers.0.expert.b2",
     {.rank = 2, .dim = {3, 6}},
     MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY,
     {0}},
    {"head.weight", {.rank = 2, .dim = {11, 6}}, 0, {0}},
};
enum { PARAMS = sizeof params / sizeof *params, STEPS = 20 };

typedef struct {
    const char *name; /* name in the golden file */
    mf_optimizer optimizer;
    mf_muon_scale scale;
    int64_t first, second; /* number of elements of the moments that it must store */
    /* One step of one element with its moments, by the formula of the paper. NULL: the values
     * are only in the golden file, which torch has computed. decay: 0 if the parameter
     * has none. */
    void (*formula)(double g, double lr, double decay, double *w, double m[2]);
    bool golden; /* the golden file contains it */
} method;

enum { ALL = 66 + 6 + 96 + 48 + 18 + 144 + 72 + 18 + 66, MATRICES = 96 + 48 + 144 + 72 };

/* Chen et al. 2023, algorithm 2. The betas are those of config_of. */
static void lion(double g, double lr, double decay, double *w, double m[2])
{
    const double u = 0.9 * m[0] + 0.1 * g;
    *w -= lr * ((u > 0) - (u < 0) + decay * *w);
    m[0] = 0.95 * m[0] + 0.05 * g;
}

static const method methods[] = {
    {"adamw", MF_OPTIMIZER_ADAMW, 0, ALL, ALL, NULL, true},
    {"adam", MF_OPTIMIZER_ADAM, 0, ALL, ALL, NULL, true},
    {"lion", MF_OPTIMIZER_LION, 0, ALL, 0, lion, true},
    {"muon", MF_OPTIMIZER_MUON, MF_MUON_MATCH_RMS, ALL, ALL - MATRICES, NULL, true},
    {"muon_original", MF_OPTIMIZER_MUON, MF_MUON_ORIGINAL, ALL, ALL - MATRICES, NULL, true},
    /* rows + columns for each matrix; elements for each vector */
    {"adafactor", MF_OPTIMIZER_ADAFACTOR, 0, 0,
     17 + 6 + (14 + 10 + 10) + 14 + 9 + 6 * 10 + 3 * 10 + 18 + 17, NULL, true},
};
enum { METHODS = sizeof methods / sizeof *methods };

/* Numbers in [-0.5, 0.5) with 24 bits, the same as in make.py. */
static void numbers(uint32_t seed, int64_t n, float factor, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        seed = 1664525u * seed + 1013904223u;
        out[i] = ((float)(seed >> 8) / 16777216.0f - 0.5f) * factor;
    }
}

static mf_train_config config_of(const method *m)
{
    return (mf_train_config){.optimizer = m->optimizer,
                             .muon_scale = m->scale,
                             .momentum = 0.95,
                             .lr = 0.01,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8};
}

static mf_store *make_store(const mf_train_config *c, bool bf16)
{
    mf_store *s = mf_store_new();
    mf_param *p;
    for (int i = 0; i < PARAMS; i++) {
        const mf_init init = {MF_INIT_ZERO, params[i].flags, 0};
        ck_assert_int_eq(mf_store_declare(s, params[i].name, params[i].shape, init, false, &p),
                         MF_OK);
        memcpy(p->stacked, params[i].stacked, sizeof p->stacked);
    }
    if (bf16) mf_store_want_bf16(s);
    mf_optim_want_moments(c, s);
    ck_assert_int_eq(mf_store_seal(s, 1, true), MF_OK);
    for (int i = 0; i < PARAMS; i++) {
        p = mf_store_at(s, i);
        numbers((uint32_t)i + 1, p->count, 1, p->value);
    }
    mf_store_refresh_bf16(s);
    return s;
}

static void step_at(mf_optim *o, mf_store *s, int64_t i, double lr)
{
    const mf_optim_step now = {.step = i, .lr = lr, .weight_decay = 0.1, .grad_scale = 1};
    for (int j = 0; j < PARAMS; j++) {
        const mf_param *p = mf_store_at(s, j);
        numbers((uint32_t)(1000 * (i + 1) + j), p->count, 0.25f, p->grad);
    }
    ck_assert_int_eq(mf_optim_measure(o), MF_OK);
    ck_assert_int_eq(mf_optim_update(o, &now), MF_OK);
}

static void step(mf_optim *o, mf_store *s, int64_t i)
{
    step_at(o, s, i, 0.01);
}

static mf_store *train(const method *m, bool bf16)
{
    const mf_train_config c = config_of(m);
    mf_store *s = make_store(&c, bf16);
    mf_optim *o;
    ck_assert_int_eq(mf_optim_new(s, &c, &o), MF_OK);
    for (int64_t i = 0; i < STEPS; i++)
        step(o, s, i);
    mf_optim_free(o);
    return s;
}

static mf_st_file *golden(void)
{
    const char *srcdir = getenv("srcdir");
    char path[512];
    mf_st_file *f;
    snprintf(path, sizeof path, "%s/tests/golden/optimizers/golden.safetensors",
             srcdir ? srcdir : ".");
    ck_assert_msg(mf_st_open(path, &f) == MF_OK, "%s", mf_error_message());
    return f;
}

START_TEST(steps_equal_the_formula)
{
    const method *m = &methods[_i];
    ck_assert_msg(m->formula || m->golden, "%s: no reference", m->name);
    if (!m->formula) return;
    mf_store *s = train(m, false);
    for (int i = 0; i < PARAMS; i++) {
        const mf_param *p = mf_store_at(s, i);
        float *values = mf_alloc_raw((size_t)p->count * sizeof *values),
              *grad = mf_alloc_raw((size_t)(STEPS * p->count) * sizeof *grad);
        double apart = 0, size = 0;
        numbers((uint32_t)i + 1, p->count, 1, values);
        for (int64_t t = 0; t < STEPS; t++)
            numbers((uint32_t)(1000 * (t + 1) + i), p->count, 0.25f, grad + t * p->count);
        for (int64_t j = 0; j < p->count; j++) {
            double w = (double)values[j], moments[2] = {0, 0};
            for (int64_t t = 0; t < STEPS; t++)
                m->formula((double)grad[t * p->count + j], 0.01,
                           p->init.flags & MF_PARAM_NO_DECAY ? 0 : 0.1, &w, moments);
            apart = fmax(apart, fabs((double)p->value[j] - w));
            size = fmax(size, fabs(w));
        }
        ck_assert_msg(apart <= 1e-5 * size, "%s/%s: apart by %g of %g", m->name, p->name, apart,
                      size);
        mf_free(values);
        mf_free(grad);
    }
    mf_store_free(s);
}
END_TEST

START_TEST(steps_equal_the_reference)
{
    const method *m = &methods[_i];
    if (!m->golden) return;
    mf_store *s = train(m, false);
    mf_st_file *f = golden();
    for (int i = 0; i < PARAMS; i++) {
        const mf_param *p = mf_store_at(s, i);
        char name[128];
        double apart = 0, size = 0;
        snprintf(name, sizeof name, "%s/%s", m->name, p->name);
        const mf_st_tensor *t = mf_st_find(f, name);
        ck_assert_msg(t && (int64_t)t->count == p->count, "%s", name);
        float *expected = mf_alloc_raw((size_t)p->count * sizeof *expected);
        ck_assert_int_eq(mf_st_read(f, t, expected, (size_t)t->bytes), MF_OK);
        for (int64_t j = 0; j < p->count; j++) {
            apart = fmax(apart, fabs((double)p->value[j] - (double)expected[j]));
            size = fmax(size, fabs((double)expected[j]));
        }
        ck_assert_msg(apart <= 1e-5 * size, "%s: apart by %g of %g", name, apart, size);
        mf_free(expected);
    }
    mf_st_close(f);
    mf_store_free(s);
}
END_TEST

START_TEST(moments_are_those_needed)
{
    const method *m = &methods[_i];
    const mf_train_config c = config_of(m);
    mf_store *s = make_store(&c, false);
    int64_t kept[2] = {0, 0};
    for (int i = 0; i < PARAMS; i++)
        for (int j = 0; j < 2; j++)
            kept[j] += mf_param_moment_count(mf_store_at(s, i), j);
    ck_assert_int_eq(kept[0], m->first);
    ck_assert_int_eq(kept[1], m->second);
    mf_store_free(s);
}
END_TEST

START_TEST(bits_do_not_depend_on_threads)
{
    const int before = mf_parallel_threads();
    mf_parallel_set_threads(1);
    mf_store *a = train(&methods[_i], true);
    mf_parallel_set_threads(3);
    mf_store *b = train(&methods[_i], true);
    mf_parallel_set_threads(before);
    int64_t n;
    const float *x = mf_store_values(a, &n), *y = mf_store_values(b, NULL);
    ck_assert_int_eq(memcmp(x, y, (size_t)n * sizeof *x), 0);
    /* The bf16 copies must equal the rounded values. */
    for (int i = 0; i < PARAMS; i++) {
        const mf_param *p = mf_store_at(a, i);
        for (int64_t j = 0; j < p->count; j++)
            ck_assert_uint_eq(p->bf16[j], mf_bf16_from_f32(p->value[j]));
    }
    mf_store_free(a);
    mf_store_free(b);
}
END_TEST

/* A frozen part keeps its values and moments, while the other parts change. */
START_TEST(frozen_parts_stay)
{
    const mf_train_config c = config_of(&methods[_i]);
    mf_store *s = make_store(&c, false);
    mf_param *p = mf_store_find(s, "layers.0.attention.out.weight"); /* [6, 2 x 4]: 2 heads */
    mf_param *q = mf_store_find(s, "layers.0.expert.w2");
    mf_optim *o;
    float before[48], frozen[72];
    ck_assert_int_eq(mf_store_divide(s, p, 2, 4), MF_OK);
    p->part[1] = 0;
    q->frozen = true;
    ck_assert_int_eq(mf_optim_new(s, &c, &o), MF_OK);
    memcpy(before, p->value, sizeof before);
    memcpy(frozen, q->value, sizeof frozen);
    for (int64_t i = 0; i < 3; i++)
        step(o, s, i);
    for (int i = 0; i < 48; i++)
        ck_assert_int_eq(before[i] == p->value[i], i % 8 >= 4);
    ck_assert_int_eq(memcmp(frozen, q->value, sizeof frozen), 0);
    mf_optim_free(o);
    mf_store_free(s);
}
END_TEST

START_TEST(infinite_gradients_change_nothing)
{
    const mf_train_config c = config_of(&methods[_i]);
    mf_store *s = make_store(&c, false);
    mf_optim *o;
    ck_assert_int_eq(mf_optim_new(s, &c, &o), MF_OK);
    step(o, s, 0);
    int64_t n;
    const float *v = mf_store_values(s, &n);
    float *before = mf_alloc_raw((size_t)n * sizeof *before);
    memcpy(before, v, (size_t)n * sizeof *before);
    const mf_optim_step now = {.step = 1, .lr = 0.01, .weight_decay = 0.1, .grad_scale = 1};
    mf_store_at(s, 2)->grad[3] = INFINITY;
    ck_assert_int_eq(mf_optim_measure(o), MF_OK);
    ck_assert_int_eq(mf_optim_update(o, &now), MF_OK);
    ck_assert_int_eq(memcmp(before, v, (size_t)n * sizeof *before), 0);
    mf_free(before);
    mf_optim_free(o);
    mf_store_free(s);
}
END_TEST

START_TEST(other_moments_are_refused)
{
    const mf_train_config lion = config_of(&methods[2]), adamw = config_of(&methods[0]);
    mf_store *s = make_store(&lion, false);
    mf_optim *o;
    ck_assert_int_eq(mf_optim_new(s, &adamw, &o), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "another train.optimizer"));
    mf_store_free(s);
}
END_TEST

/* Makes three steps. lr is the rate of all parameters, except that muon_lr is the rate of
 * Muon's matrices. */
static mf_store *train_muon(double lr, double muon_lr)
{
    mf_train_config c = config_of(&methods[3]);
    c.lr = lr;
    c.muon_lr = muon_lr;
    mf_store *s = make_store(&c, false);
    mf_optim *o;
    ck_assert_int_eq(mf_optim_new(s, &c, &o), MF_OK);
    for (int64_t i = 0; i < 3; i++)
        step_at(o, s, i, lr);
    mf_optim_free(o);
    return s;
}

/* muon_lr is the rate only of Muon's matrices, which have no second moment. */
START_TEST(matrices_have_their_own_rate)
{
    mf_store *both = train_muon(0.01, 0.02), *low = train_muon(0.01, 0),
             *high = train_muon(0.02, 0);
    int matrices = 0;
    for (int i = 0; i < PARAMS; i++) {
        const mf_param *p = mf_store_at(both, i);
        const bool muon = mf_param_moment_count(p, 1) == 0;
        const float *want = mf_store_at(muon ? high : low, i)->value,
                    *other = mf_store_at(muon ? low : high, i)->value;
        matrices += muon;
        for (int64_t j = 0; j < p->count; j++)
            ck_assert_float_eq_tol(p->value[j], want[j], 1e-6f);
        ck_assert_float_ne(want[0], other[0]);
    }
    ck_assert_int_eq(matrices, 4);
    mf_store_free(both);
    mf_store_free(low);
    mf_store_free(high);
}
END_TEST

/* Muon is for matrices of blocks that decay, not for those of adapters and routers. */
START_TEST(which_matrices_are_muons)
{
    static const struct {
        const char *name;
        uint32_t flags;
        bool adapter, muon;
    } given[] = {{"layers.0.attention.out.weight", 0, false, true},
                 {"layers.0.expert.b2", MF_PARAM_NO_DECAY, false, false},
                 {"layers.0.attention.q.lora.a", 0, true, false},
                 {"layers.0.router.weight", 0, false, false},
                 {"embed.weight", 0, false, false}};
    const mf_train_config c = config_of(&methods[3]);
    mf_store *s = mf_store_new();
    mf_param *p;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const mf_init init = {MF_INIT_ZERO, given[i].flags, 0};
        ck_assert_int_eq(mf_store_declare(s, given[i].name, mf_shape2(4, 6), init, false, &p),
                         MF_OK);
        p->adapter = given[i].adapter;
        ck_assert_msg(mf_optim_sees_whole(&c, p) == given[i].muon, "%s", given[i].name);
    }
    mf_store_free(s);
}
END_TEST

/* The formulas of schedule.h, at steps where they are easy to compute by hand. */
START_TEST(schedules)
{
    static const struct {
        mf_schedule schedule;
        double at_10, at_35, at_60, at_110;
    } of[] = {
        {MF_SCHEDULE_CONSTANT, 2, 2, 2, 2},
        {MF_SCHEDULE_LINEAR, 2, 1.625, 1.25, 0.5},
        {MF_SCHEDULE_COSINE, 2, 2 * (0.25 + 0.375 * (1 + 0.70710678118654752)), 1.25, 0.5},
        /* the last 80 steps decay; 5 and 30 of them are done at 35 and 60 */
        {MF_SCHEDULE_WSD, 2, 2 * (1 - 0.75 * 0.25), 2 * (1 - 0.75 * 0.61237243569579452), 0.5},
        {MF_SCHEDULE_STEP, 2, 1, 0.25, 0.0625}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const mf_train_config c = {.schedule = of[i].schedule,
                                   .warmup = 10,
                                   .lr_min = 0.25,
                                   .decay_share = 0.8,
                                   .step_size = 20,
                                   .step_gamma = 0.5};
        ck_assert_double_eq_tol(mf_schedule_lr(&c, 2, 0, 110), 0.2, 1e-12);
        ck_assert_double_eq_tol(mf_schedule_lr(&c, 2, 4, 110), 1, 1e-12);
        ck_assert_double_eq_tol(mf_schedule_lr(&c, 2, 10, 110), of[i].at_10, 1e-12);
        ck_assert_double_eq_tol(mf_schedule_lr(&c, 2, 35, 110), of[i].at_35, 1e-12);
        ck_assert_double_eq_tol(mf_schedule_lr(&c, 2, 60, 110), of[i].at_60, 1e-12);
        ck_assert_double_eq_tol(mf_schedule_lr(&c, 2, 110, 110), of[i].at_110, 1e-12);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("optim");
    TCase *c = tcase_create("optim");
    tcase_add_loop_test(c, steps_equal_the_formula, 0, METHODS);
    tcase_add_loop_test(c, steps_equal_the_reference, 0, METHODS);
    tcase_add_loop_test(c, moments_are_those_needed, 0, METHODS);
    tcase_add_loop_test(c, bits_do_not_depend_on_threads, 0, METHODS);
    tcase_add_loop_test(c, frozen_parts_stay, 0, METHODS);
    tcase_add_loop_test(c, infinite_gradients_change_nothing, 0, METHODS);
    tcase_add_test(c, other_moments_are_refused);
    tcase_add_test(c, matrices_have_their_own_rate);
    tcase_add_test(c, which_matrices_are_muons);
    tcase_add_test(c, schedules);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
