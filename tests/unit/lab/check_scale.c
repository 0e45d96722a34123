/* Curves over compute of known a, b, c and speed-up: the fit finds them, the intervals cover
 * them as often as they say, and what seeds do not determine is not claimed. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lab/scale/scale.h"
#include "report/compare/scale_page.h"

enum { SIZES = 5, ROUTERS = 2, SEEDS = 8 };

typedef struct truth {
    double a, b, c, k; /* L_0 = a + b C^-c; L_1(C) = L_0(k C) */
    double noise;      /* deviation of a run */
    bool two;          /* a second power law is added */
} truth;

static const truth plain = {1.6, 2.2, .18, 1.3, .01, false};

static double curve(const truth *t, double c)
{
    return t->a + t->b * pow(c, -t->c) + (t->two ? 400 * pow(c, -1.5) : 0);
}

/* A normal number, by the sum of 12 uniform ones less 6. */
static double normal(int set, int number)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)mf_rng_u32((uint64_t)set, mf_rng_stream("test.scale"), (uint64_t)number,
                                  (uint64_t)i) /
               4294967296.0;
    return sum;
}

static mf_scaling *scale_of(const truth *t, int sizes, int seeds, double span, int set)
{
    double compute[SIZES * ROUTERS], loss[SIZES * ROUTERS * SEEDS];
    mf_scaling *s;
    for (int i = 0; i < sizes; i++)
        for (int r = 0; r < ROUTERS; r++) {
            const double c = 50 * pow(span, (double)i / (sizes - 1));
            const int at = i * ROUTERS + r;
            compute[at] = c;
            for (int n = 0; n < seeds; n++)
                loss[at * seeds + n] =
                    curve(t, r == 0 ? c : t->k * c) + t->noise * normal(set, at * SEEDS + n);
        }
    const mf_scale_data d = {.sizes = sizes,
                             .routers = ROUTERS,
                             .seeds = seeds,
                             .baseline = 0,
                             .compute = compute,
                             .loss = loss};
    ck_assert_msg(mf_scale_new(&d, &s) == MF_OK, "%s", mf_error_message());
    s->data.compute = s->data.loss = NULL; /* these arrays end here */
    return s;
}

static void near(double found, double wanted, double within)
{
    ck_assert_msg(fabs(found - wanted) <= within, "%.6g is not %.6g", found, wanted);
}

START_TEST(without_noise)
{
    truth t = plain;
    t.noise = 0;
    mf_scaling *s = scale_of(&t, 4, 2, 64, 1);
    near(s->c.value, t.c, 1e-4);
    near(s->a.value, t.a, 1e-3);
    near(s->router[1].b, t.b * pow(t.k * s->middle, -t.c), 1e-3);
    /* the chord from 200 to 800, which the loss of the other router at 200 meets */
    near(s->router[1].speed[1].value,
         exp((curve(&t, 200) - curve(&t, 260)) / (curve(&t, 200) - curve(&t, 800)) * log(4)),
         1e-9);
    ck_assert(!s->router[1].beyond[0] && s->router[1].beyond[3]);
    near(s->router[1].diff[0].value, curve(&t, 65) - curve(&t, 50), 1e-12);
    near(s->router[0].speed[2].value, 1, 1e-12);
    mf_scale_free(s);
}
END_TEST

START_TEST(identified)
{
    mf_scaling *s = scale_of(&plain, SIZES, SEEDS, 256, 1);
    ck_assert_msg(s->identified, "%s", s->why);
    ck_assert(s->p_line < 1e-6);
    near(s->c.value, .18, .03);
    near(s->a.value, 1.6, .15);
    near(s->router[1].joint.value, 1.3, .12);
    ck_assert(s->router[1].joint.lo < 1.3 && s->router[1].joint.hi > 1.3);
    /* the loss at 4 times the largest compute */
    near(s->router[0].ahead.value, curve(&plain, 4 * 50 * 256), .03);
    mf_scale_free(s);
}
END_TEST

/* Coverage of 90 % intervals in 120 sets: the floor, the exponent, the speed-up, and the
 * difference at a size. The standard error of a share is .027. */
START_TEST(coverage)
{
    enum { SETS = 120 };
    int a = 0, c = 0, k = 0, diff = 0;
    for (int set = 0; set < SETS; set++) {
        mf_scaling *s = scale_of(&plain, 4, SEEDS, 256, 100 + set);
        const double d = curve(&plain, 65) - curve(&plain, 50);
        const mf_scale_range *joint = &s->router[1].joint, *first = &s->router[1].diff[0];
        a += s->a.lo <= 1.6 && 1.6 <= s->a.hi;
        c += s->c.lo <= .18 && .18 <= s->c.hi;
        k += !s->identified || (joint->lo <= 1.3 && 1.3 <= joint->hi);
        diff += first->lo <= d && d <= first->hi;
        mf_scale_free(s);
    }
    const int counts[] = {a, c, k, diff};
    for (int i = 0; i < 4; i++)
        ck_assert_msg(counts[i] >= .81 * SETS && counts[i] <= .96 * SETS, "number %d: %d of %d",
                      i, counts[i], SETS);
}
END_TEST

START_TEST(not_identified)
{
    truth noisy = plain, two = plain;
    noisy.noise = .05;
    two.two = true;
    two.noise = .002;
    mf_scaling *s = scale_of(&noisy, 3, 3, 16, 7);
    ck_assert(!s->identified && s->why);
    ck_assert(isnan(s->router[1].joint.value) && isnan(s->router[1].ahead.value));
    ck_assert(!isnan(s->router[1].diff[0].lo)); /* what is measured stays */
    mf_scale_free(s);
    /* a wrong form */
    s = scale_of(&two, SIZES, SEEDS, 256, 7);
    ck_assert(!s->identified && s->p_form < .05);
    mf_scale_free(s);
    /* one seed: points only */
    s = scale_of(&plain, SIZES, 1, 256, 7);
    ck_assert(!s->identified && isnan(s->c.lo) && isnan(s->router[1].diff[0].lo));
    mf_scale_free(s);
}
END_TEST

/* The order of the routers changes names, not numbers. */
START_TEST(permuted)
{
    double compute[4 * 2], loss[4 * 2 * 3], back[4 * 2 * 3];
    mf_scaling *x, *y;
    for (int i = 0; i < 8; i++)
        compute[i] = 50 * pow(4, (double)(i / 2));
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < 2; r++)
            for (int n = 0; n < 3; n++) {
                const double v = curve(&plain, compute[2 * i] * (r ? 1.3 : 1)) +
                                 .01 * normal(3, i * 6 + r * 3 + n);
                loss[(i * 2 + r) * 3 + n] = v;
                back[(i * 2 + 1 - r) * 3 + n] = v;
            }
    mf_scale_data d = {4, 2, 3, 0, compute, loss};
    ck_assert_int_eq(mf_scale_new(&d, &x), MF_OK);
    d.baseline = 1;
    d.loss = back;
    ck_assert_int_eq(mf_scale_new(&d, &y), MF_OK);
    near(x->c.value, y->c.value, 1e-9);
    near(x->a.lo, y->a.lo, 1e-6);
    for (int i = 0; i < 4; i++)
        near(x->router[1].speed[i].hi, y->router[0].speed[i].hi, 1e-9);
    mf_scale_free(x);
    mf_scale_free(y);
}
END_TEST

/* The page of an identified fit: what is extrapolated is called so, and the numbers are those
 * of the fit. */
START_TEST(page)
{
    static const char *const names[] = {"base", "other"};
    char path[] = "/tmp/moefw-scale-XXXXXX", wanted[64], *text = NULL;
    size_t n;
    const mf_scale_view v = {.names = names, .width = {8, 16, 32, 64, 128}, .ratio = 20};
    const int fd = mkstemp(path);
    ck_assert(fd >= 0);
    close(fd);
    mf_scaling *s = scale_of(&plain, SIZES, SEEDS, 256, 1);
    double compute[SIZES * ROUTERS];
    for (int i = 0; i < SIZES * ROUTERS; i++)
        compute[i] = 50 * pow(256, (double)(i / ROUTERS) / (SIZES - 1));
    s->data.compute = compute;
    ck_assert_int_eq(mf_report_scale(s, &v, path), MF_OK);
    ck_assert_int_eq(mf_read_file(path, 0, &text, &n), MF_OK);
    ck_assert(strstr(text, "extrapolated to 4 times") && strstr(text, "stroke-dasharray"));
    snprintf(wanted, sizeof wanted, ">%.4f [%.4f, %.4f]<", s->router[1].ahead.value,
             s->router[1].ahead.lo, s->router[1].ahead.hi);
    ck_assert_msg(strstr(text, wanted) != NULL, "%s", wanted);
    snprintf(wanted, sizeof wanted, ">%.2f [%.2f, %.2f]<", s->router[1].joint.value,
             s->router[1].joint.lo, s->router[1].joint.hi);
    ck_assert_msg(strstr(text, wanted) != NULL, "%s", wanted);
    if (!getenv("MOEFW_KEEP")) unlink(path);
    mf_free(text);
    mf_scale_free(s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("scale");
    TCase *c = tcase_create("scale");
    tcase_set_timeout(c, 0);
    tcase_add_test(c, without_noise);
    tcase_add_test(c, identified);
    tcase_add_test(c, coverage);
    tcase_add_test(c, not_identified);
    tcase_add_test(c, permuted);
    tcase_add_test(c, page);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
