/* Axes and labels of plots: each axis has ticks, an axis with a value 0 is linear, and each
 * label is at its own point. */
#include "check_main.h"

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

/* Two points nearly coincide. Each label must be nearest to its own point, unless lines lead
 * from labels to their points. */
START_TEST(labels_stand_at_their_points)
{
    static const double x[] = {1, 1.02, 2, 3}, y[] = {1, 1.02, 2, 3};
    static const char *const names[] = {"first", "second", "third", "fourth"};
    const mf_series s = {.n = 4, .x = x, .y = y, .labels = names, .points = true};
    mf_doc *d = mf_doc_new();
    mf_svg_plot(d, &(mf_plot){.n_series = 1, .series = &s});
    const char *text = finished(d), *circle = text;
    double cx[4], cy[4];
    for (int i = 0; i < 4; i++) {
        circle = strstr(circle, "<circle cx=\"");
        ck_assert_ptr_nonnull(circle);
        ck_assert_int_eq(sscanf(circle, "<circle cx=\"%lf\" cy=\"%lf", &cx[i], &cy[i]), 2);
        circle += 12;
    }
    const bool led = strstr(text, "class=\"lead\"") != NULL;
    for (int i = 0; i < 4; i++) {
        char end[32];
        snprintf(end, sizeof end, ">%s</text>", names[i]);
        const char *label = strstr(text, end);
        ck_assert_ptr_nonnull(label);
        while (strncmp(label, "<text x=\"", 9) != 0)
            label--;
        double lx, ly;
        ck_assert_int_eq(sscanf(label, "<text x=\"%lf\" y=\"%lf", &lx, &ly), 2);
        const double w = mf_text_width(names[i]);
        int nearest = 0;
        double least = INFINITY;
        for (int k = 0; k < 4; k++) {
            const double dx = fmax(fmax(lx - cx[k], cx[k] - lx - w), 0),
                         dy = fabs(ly - 4 - cy[k]);
            if (hypot(dx, dy) >= least) continue;
            least = hypot(dx, dy);
            nearest = k;
        }
        ck_assert(nearest == i || led);
    }
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
