/* Axes and labels of plots: each axis has ticks, an axis with a value 0 is linear, and each
 * label is at its own point. */
#include "check_main.h"

#include "base/rng.h"
#include "report/svg/scale.h"
#include "report/svg/svg.h"
#include "report/svg/svg_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Frees the document and returns its text. */
static const char *finished(mf_doc *d)
{
    static char text[1 << 16];
    const char *s = mf_doc_string(d, NULL);
    ck_assert_ptr_nonnull(s);
    ck_assert_uint_lt(strlen(s), sizeof text);
    strcpy(text, s);
    mf_doc_free(d);
    return text;
}

/* The logarithm of 0 does not exist, so the axis is linear, and 50,000 is in the middle between
 * 0 and 100,000. */
START_TEST(an_axis_with_zero_is_linear)
{
    static const double size[] = {0, 50000, 100000}, loss[] = {2, 1, 1.5};
    const mf_series s = {.n = 3, .x = size, .y = loss, .points = true};
    double cx[3];
    mf_doc *d = mf_doc_new();
    mf_svg_plot(d, &(mf_plot){.log_x = true, .n_series = 1, .series = &s});
    const char *text = finished(d);
    for (int i = 0; i < 3; i++) {
        text = strstr(text, "<circle cx=\"");
        ck_assert_ptr_nonnull(text);
        cx[i] = atof(text += 12);
    }
    ck_assert(fabs(cx[0] + cx[2] - 2 * cx[1]) < 1);
}
END_TEST

/* The number of ticks of an axis. */
static int ticks_between(double lo, double hi, bool log)
{
    return mf_scale_make((mf_range){lo, hi}, log, false, false, 5).n_ticks;
}

START_TEST(each_axis_has_ticks)
{
    for (double lo = 1e-6; lo < 1e6; lo *= 1.37)
        for (double ratio = 1.0001; ratio < 1e5; ratio *= 1.7) {
            ck_assert_int_ge(ticks_between(lo, lo * ratio, true), 2);
            ck_assert_int_ge(ticks_between(lo, lo * ratio, false), 2);
        }
    ck_assert_int_ge(ticks_between(2.2, 2.8, true), 3); /* the range contains none of 1, 1.5, 2,
                                                         * 3, 5, 7 */
}
END_TEST

START_TEST(one_step_stands_on_an_axis_from_zero)
{
    static const double step[] = {200}, loss[] = {2};
    const mf_series s = {.n = 1, .x = step, .y = loss, .points = true};
    mf_doc *d = mf_doc_new();
    mf_svg_plot(d, &(mf_plot){.x_label = "step", .n_series = 1, .series = &s});
    const char *text = finished(d), *axis = strstr(text, "<g class=\"x\"");
    ck_assert_ptr_nonnull(axis);
    ck_assert_ptr_nonnull(strstr(axis, ">0</text>"));
    ck_assert_ptr_null(strstr(axis, ">180</text>"));
}
END_TEST

typedef struct scatter {
    double cx[8], cy[8];   /* where the points are */
    double x[8], y[8];     /* where each label begins or ends */
    bool right[8], led[8]; /* the label stands at the right of x; a line leads to it */
} scatter;

static const char *const names[] = {"first",     "second_one",    "mlp", "mmmm",
                                    "no_labels", "expert_choice", "i.l", "hash"};

/* Draws n points and reads the places of points, labels and lines. */
static scatter drawn(int n, const double *x, const double *y)
{
    const mf_series s = {.n = n, .x = x, .y = y, .labels = names, .points = true};
    scatter a = {0};
    mf_doc *d = mf_doc_new();
    mf_svg_plot(d, &(mf_plot){.n_series = 1, .series = &s});
    const char *text = finished(d), *circle = text;
    for (int i = 0; i < n; i++) {
        char end[32];
        circle = strstr(circle, "<circle cx=\"");
        ck_assert_ptr_nonnull(circle);
        ck_assert_int_eq(sscanf(circle, "<circle cx=\"%lf\" cy=\"%lf", &a.cx[i], &a.cy[i]), 2);
        circle += 12;
        snprintf(end, sizeof end, ">%s</text>", names[i]);
        const char *label = strstr(text, end);
        ck_assert_ptr_nonnull(label);
        while (strncmp(label, "<text x=\"", 9) != 0)
            label--;
        ck_assert_int_eq(sscanf(label, "<text x=\"%lf\" y=\"%lf", &a.x[i], &a.y[i]), 2);
        a.right[i] = strncmp(strchr(label, '>') - 5, "\"end\"", 5) != 0;
        for (const char *path = text; (path = strstr(path, "<path d=\"M")) != NULL; path++) {
            const char *lead = strstr(path, "class=\"lead\"");
            if (lead && lead < strchr(path, '>') && fabs(atof(path + 10) - a.cx[i]) < 0.2)
                a.led[i] = true;
        }
    }
    return a;
}

/* The point that is nearest to label i in a font in which the text has this width. */
static int nearest(const scatter *a, int n, int i, double w)
{
    const double left = a->right[i] ? a->x[i] : a->x[i] - w, right = left + w;
    double least = INFINITY;
    int best = 0;
    for (int k = 0; k < n; k++) {
        const double dx = fmax(fmax(left - a->cx[k], a->cx[k] - right), 0),
                     dy = fmax(fmax(a->y[i] - 11 - a->cy[k], a->cy[k] - a->y[i] - 2), 0);
        if (hypot(dx, dy) >= least) continue;
        least = hypot(dx, dy);
        best = k;
    }
    return best;
}

/* Each label must be nearest to its own point, in slim fonts and in wide ones, unless a line
 * leads from the label to the point. */
START_TEST(labels_stand_at_their_points)
{
    static const double near_x[] = {1, 1.02, 2, 3}, near_y[] = {1, 1.02, 2, 3};
    int led = 0, labels = 0;
    for (int draw = 0; draw < 2000; draw++) {
        const int n = draw == 0 ? 4 : 2 + draw % 7;
        double x[8], y[8];
        for (int i = 0; i < n; i++) {
            const double at = mf_rng_uniform(1, 0, (uint64_t)draw, 2 * (uint64_t)i);
            x[i] = draw == 0 ? near_x[i] : draw % 2 ? at : at * at * at; /* some are crowded */
            y[i] = draw == 0 ? near_y[i]
                             : mf_rng_uniform(1, 0, (uint64_t)draw, 2 * (uint64_t)i + 1);
        }
        const scatter a = drawn(n, x, y);
        for (int i = 0; i < n; i++) {
            labels++;
            led += a.led[i];
            for (double wide = .7; wide < 1.11; wide += .05)
                ck_assert_msg(a.led[i] ||
                                  nearest(&a, n, i, wide * mf_text_width(names[i])) == i,
                              "draw %d: %s stands at %s", draw, names[i],
                              names[nearest(&a, n, i, wide * mf_text_width(names[i]))]);
        }
    }
    ck_assert_int_lt(led, labels / 4); /* lines are rare */
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("axes");
    TCase *c = tcase_create("axes");
    tcase_add_test(c, an_axis_with_zero_is_linear);
    tcase_add_test(c, each_axis_has_ticks);
    tcase_add_test(c, one_step_stands_on_an_axis_from_zero);
    tcase_add_test(c, labels_stand_at_their_points);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
