/* svg, html: figures and pages are well-formed for any content. Scales contain their values and
 * have round ticks. The boxes of a structure are inside the picture. */
#include "check_main.h"

#include "report/page/html.h"
#include "report/svg/scale.h"
#include "report/svg/svg.h"
#include "report/svg/svg_flow.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- a small XML checker: elements nest, attributes are quoted and unique, and entities are
 * &amp; &lt; &gt; &quot; or &#39; ---- */

static const char *name_end(const char *s)
{
    while (isalnum((unsigned char)*s) || *s == '-' || *s == ':')
        s++;
    return s;
}

static const char *entity_end(const char *s)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(s, known[i], strlen(known[i])) == 0) return s + strlen(known[i]);
    ck_abort_msg("bare & at: %.40s", s);
}

static const char *attributes_end(const char *s)
{
    const char *seen[24];
    int n = 0;
    while (*s == ' ' || *s == '\n') {
        s += strspn(s, " \n");
        const char *end = name_end(s);
        if (end == s) break;
        for (int i = 0; i < n; i++)
            ck_assert_msg(strncmp(seen[i], s, (size_t)(end - s) + 1) != 0,
                          "attribute twice: %.40s", s);
        ck_assert_int_lt(n, 24);
        seen[n++] = s;
        ck_assert_msg(end[0] == '=' && end[1] == '"', "attribute without value: %.40s", s);
        for (s = end + 2; *s != '"';) {
            ck_assert_msg(*s != '\0' && *s != '<', "value without end: %.40s", end);
            s = *s == '&' ? entity_end(s) : s + 1;
        }
        s++;
    }
    return s;
}

static void well_formed(const char *text)
{
    char stack[64][24];
    int depth = 0, elements = 0;
    for (const char *s = text; *s != '\0';) {
        ck_assert_msg((unsigned char)*s >= 0x20 || *s == '\n' || *s == '\t',
                      "control character %d", *s);
        if (*s == '&') {
            s = entity_end(s);
        } else if (*s != '<') {
            ck_assert_msg(*s != '>' || depth == 0, "bare > at %.40s", s);
            s++;
        } else if (s[1] == '/') {
            const char *end = name_end(s + 2);
            ck_assert_int_gt(depth--, 0);
            ck_assert_msg(strlen(stack[depth]) == (size_t)(end - s - 2) &&
                              strncmp(stack[depth], s + 2, (size_t)(end - s - 2)) == 0,
                          "</%s> expected at %.40s", stack[depth], s);
            ck_assert_int_eq(*end, '>');
            s = end + 1;
        } else {
            const char *end = name_end(s + 1);
            ck_assert_int_gt((int)(end - s), 1);
            ck_assert_int_lt(depth, 64);
            snprintf(stack[depth], sizeof *stack, "%.*s", (int)(end - s - 1), s + 1);
            elements++;
            s = attributes_end(end);
            if (s[0] == '/') {
                ck_assert_int_eq(s[1], '>');
                s += 2;
            } else {
                ck_assert_int_eq(*s, '>');
                s++;
                depth++;
            }
        }
    }
    ck_assert_int_eq(depth, 0);
    ck_assert_int_gt(elements, 0);
}

/* Frees the document, checks its text and returns it. */
static const char *finished(mf_doc *d)
{
    static char text[1 << 20];
    const char *s = mf_doc_string(d, NULL);
    ck_assert_ptr_nonnull(s);
    ck_assert_uint_lt(strlen(s), sizeof text);
    strcpy(text, s);
    mf_doc_free(d);
    well_formed(text);
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "inf"));
    return text;
}

static const char *const bad_texts[] = {"<script>alert(1)</script>",
                                        "a & b \"c\" 'd'",
                                        "\x01\x1b[2J\x7f",
                                        "\xff\xfe broken",
                                        "\xef\xbf\xbf",
                                        "]]>",
                                        "",
                                        "\xc2\x85",
                                        "\xe2\x80\xae"};
enum { N_BAD = sizeof bad_texts / sizeof *bad_texts };

START_TEST(text_is_escaped)
{
    mf_doc *d = mf_doc_new();
    mf_doc_text(d, "<a href=\"x\">&'\x02\xff\xc3\xa9\t\n");
    mf_doc_text(d, "\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xe2\x80\x8d"); /* U+200D is kept */
    ck_assert_str_eq(
        mf_doc_string(d, NULL),
        "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9\t\n"
        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xe2\x80\x8d");
    mf_doc_free(d);
}
END_TEST

START_TEST(numbers_are_short)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0, "0"},     {1.5, "1.5"}, {-0.001, "0"},   {12.349, "12.35"},
                 {100, "100"}, {NAN, "0"},   {INFINITY, "0"}, {-3.10, "-3.1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mf_doc *d = mf_doc_new();
        mf_doc_number(d, cases[i].x);
        ck_assert_str_eq(mf_doc_string(d, NULL), cases[i].text);
        mf_doc_free(d);
    }
}
END_TEST

START_TEST(scales_hold_their_values)
{
    static const double ends[][2] = {
        {0, 1}, {-3.7, 12.2},  {1e-9, 2e-9}, {5, 5},
        {0, 0}, {-1e12, 3e15}, {2.30, 2.31}, {INFINITY, -INFINITY}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int kind = 0; kind < 8; kind++) {
            mf_scale s = mf_scale_make((mf_range){ends[i][0], ends[i][1]}, kind & 1, kind & 2,
                                       kind & 4, 5);
            char text[24];
            ck_assert(isfinite(s.lo) && isfinite(s.hi));
            ck_assert_double_lt(s.lo, s.hi);
            if (ends[i][0] <= ends[i][1]) {
                ck_assert_double_le(s.lo, ends[i][0] + fabs(ends[i][0]) * 1e-9);
                ck_assert_double_ge(s.hi, ends[i][1] - fabs(ends[i][1]) * 1e-9);
            }
            ck_assert_int_le(s.n_ticks, MF_TICKS_MAX);
            for (int k = 0; k < s.n_ticks; k++) {
                ck_assert_double_ge(s.tick[k], s.lo - 1e-6 * (s.hi - s.lo));
                ck_assert_double_le(s.tick[k], s.hi + 1e-6 * (s.hi - s.lo));
                if (k > 0) ck_assert_double_gt(s.tick[k], s.tick[k - 1]);
                ck_assert_uint_lt(strlen(mf_tick_text(&s, s.tick[k], text)), 12);
            }
            if (!(kind & 1)) ck_assert_int_ge(s.n_ticks, 1);
        }
}
END_TEST

START_TEST(ticks_are_round)
{
    mf_scale s = mf_scale_make((mf_range){0.13, 0.94}, false, false, false, 5);
    char text[24];
    ck_assert_double_eq(s.lo, 0);
    ck_assert_double_eq_tol(s.hi, 1, 1e-12);
    ck_assert_int_eq(s.n_ticks, 6);
    ck_assert_str_eq(mf_tick_text(&s, s.tick[1], text), "0.2");
    s = mf_scale_make((mf_range){0, 40000}, false, false, false, 4);
    ck_assert_str_eq(mf_tick_text(&s, 20000, text), "20k");
    ck_assert_str_eq(mf_tick_text(&s, 0, text), "0");
    s = mf_scale_make((mf_range){1e-3, 50}, true, false, false, 5);
    ck_assert_double_eq_tol(s.tick[0], 1e-3, 1e-15);
    s.from = 0;
    s.to = 1;
    ck_assert_double_eq_tol(mf_scale_position(&s, s.hi), 1, 1e-12);
    ck_assert_double_eq(mf_scale_position(&s, -5), 0);
}
END_TEST

static double xs[5000], ys[5000];

static void fill(int n)
{
    for (int i = 0; i < n; i++) {
        xs[i] = i;
        ys[i] = i % 7 == 3 ? NAN : i % 11 == 5 ? INFINITY : sin(i * 0.01) * (i % 2 ? 1 : -1);
    }
}

START_TEST(plots_are_well_formed)
{
    fill(5000);
    for (int b = 0; b < N_BAD; b++)
        for (int kind = 0; kind < 8; kind++) {
            const char *t = bad_texts[b];
            const char *labels[5] = {t, t, t, t, t};
            const mf_level level = {kind & 1 ? 0.5 : NAN, t};
            mf_series s[12];
            for (int i = 0; i < 12; i++)
                s[i] = (mf_series){.name = i % 2 ? t : NULL,
                                   .n = kind & 1 ? 5000 : i,
                                   .x = xs,
                                   .y = ys,
                                   .lo = i == 2 ? ys : NULL,
                                   .hi = i == 2 ? ys : NULL,
                                   .right = i == 3,
                                   .points = i == 4 && !(kind & 1),
                                   .labels = i == 4 ? labels : NULL};
            mf_doc *d = mf_doc_new();
            mf_svg_plot(d, &(mf_plot){.title = t,
                                      .x_label = t,
                                      .y_label = t,
                                      .right_label = t,
                                      .log_x = kind & 2,
                                      .log_y = kind & 4,
                                      .n_series = kind == 6 ? 0 : 12,
                                      .series = s,
                                      .n_levels = 1,
                                      .levels = &level});
            finished(d);
        }
}
END_TEST

START_TEST(long_lines_stay_small)
{
    fill(5000);
    const mf_series s = {.n = 5000, .x = xs, .y = ys};
    mf_doc *d = mf_doc_new();
    mf_svg_plot(d, &(mf_plot){.n_series = 1, .series = &s});
    ck_assert_uint_lt(strlen(finished(d)), 60000);
}
END_TEST

START_TEST(bars_and_histograms)
{
    static const double values[] = {1, -2, NAN, 3, 0, 1e9}, lo[] = {0, -3, 0, INFINITY, 0, 0};
    static const int sizes[][2] = {{3, 2}, {6, 1}, {0, 0}, {1, 1}};
    for (int b = 0; b < N_BAD; b++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const char *groups[6], *series[2] = {bad_texts[b], "b"};
            const mf_level level = {2, bad_texts[b]};
            for (int g = 0; g < 6; g++)
                groups[g] = bad_texts[(b + g) % N_BAD];
            mf_doc *d = mf_doc_new();
            mf_svg_bars(d, &(mf_bars){.title = bad_texts[b],
                                      .y_label = bad_texts[b],
                                      .n_groups = sizes[i][0],
                                      .n_series = sizes[i][1],
                                      .groups = groups,
                                      .series = series,
                                      .values = values,
                                      .lo = lo,
                                      .hi = values,
                                      .level = &level});
            finished(d);
            const double *lists[] = {values, lo};
            const int n[] = {6, i == 2 ? 0 : 6};
            d = mf_doc_new();
            mf_svg_histogram(d, &(mf_histogram){.title = bad_texts[b],
                                                .n_series = i == 3 ? 0 : 2,
                                                .names = series,
                                                .values = lists,
                                                .n = n});
            finished(d);
        }
}
END_TEST

START_TEST(heat_maps)
{
    static double values[200 * 3];
    static unsigned char marks[600];
    static int groups_of[200];
    static const char *labels[200];
    for (int i = 0; i < 600; i++) {
        values[i] = i % 13 == 4 ? NAN : sin(i);
        marks[i] = i % 5 == 0;
        labels[i % 200] = bad_texts[i % N_BAD];
        groups_of[i % 200] = i % 4 - 1;
    }
    static const int sizes[][2] = {{3, 200}, {200, 3}, {1, 1}, {0, 0}, {1, 200}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = 0; kind < 8; kind++) {
            mf_doc *d = mf_doc_new();
            mf_svg_heat(d, &(mf_heat){.title = "t",
                                      .x_label = kind & 1 ? "x" : NULL,
                                      .scale_label = "s",
                                      .rows = sizes[i][0],
                                      .columns = sizes[i][1],
                                      .values = values,
                                      .row_labels = kind & 2 ? labels : NULL,
                                      .column_labels = kind & 1 ? labels : NULL,
                                      .x = kind & 4 ? xs : NULL,
                                      .y = kind & 4 ? xs : NULL,
                                      .marks = marks,
                                      .numbers = kind & 2,
                                      .diverging = kind & 1,
                                      .y_up = kind & 4,
                                      .column_groups = kind & 1 ? groups_of : NULL,
                                      .n_groups = 3,
                                      .groups = labels});
            finished(d);
        }
}
END_TEST

/* Relative luminance of a colour "#rgb" or "#rrggbb", for contrasts (WCAG 2.1). */
static double luminance(const char *ink)
{
    unsigned c[3];
    double v[3];
    const bool brief = strlen(ink) < 7; /* the form #rgb */
    const int n = sscanf(ink, brief ? "#%1x%1x%1x" : "#%2x%2x%2x", &c[0], &c[1], &c[2]);
    ck_assert_int_eq(n, 3);
    for (int i = 0; i < 3; i++) {
        v[i] = c[i] / (brief ? 15.0 : 255.0);
        v[i] = v[i] <= 0.04045 ? v[i] / 12.92 : pow((v[i] + 0.055) / 1.055, 2.4);
    }
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
}

START_TEST(numbers_stand_out_from_their_cells)
{
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i <= 100; i++) {
            const double v = i / 100.0;
            char ink[8], text[8];
            mf_doc *d = mf_doc_new();
            mf_svg_heat(d, &(mf_heat){.rows = 1,
                                      .columns = 1,
                                      .values = &v,
                                      .lo = 0,
                                      .hi = 1,
                                      .numbers = true,
                                      .diverging = kind == 1});
            const char *page = finished(d), *cell = strstr(page, "<path stroke=\"#");
            const char *number = strstr(page, "<g font-size=");
            ck_assert_ptr_nonnull(cell);
            ck_assert_ptr_nonnull(number);
            snprintf(ink, sizeof ink, "%s", cell + 14);
            /* finds the group that contains the number */
            while (strncmp(number, "<text", 5) != 0) {
                const char *group = number;
                number = strchr(strchr(number, '>') + 1, '<');
                if (strncmp(number, "<text", 5) == 0) {
                    number = group;
                    break;
                }
                number = strstr(number, "<g font-size=");
                ck_assert_ptr_nonnull(number);
            }
            number = strstr(number, "fill=\"#");
            snprintf(text, sizeof text, "%.*s", (int)strcspn(number + 6, "\""), number + 6);
            double a = luminance(ink) + 0.05, b = luminance(text) + 0.05;
            ck_assert_msg((a > b ? a / b : b / a) >= 4.5, "%s on %s: %.2f", text, ink,
                          a > b ? a / b : b / a);
        }
}
END_TEST

/* The colour of a map of shares with a single cell. */
static void share_ink(double v, double even, char out[8])
{
    mf_doc *d = mf_doc_new();
    mf_svg_heat(d, &(mf_heat){.rows = 1, .columns = 1, .values = &v, .even = even});
    const char *cell = strstr(finished(d), "<path stroke=\"#");
    ck_assert_ptr_nonnull(cell);
    snprintf(out, 8, "%s", cell + 14);
}

START_TEST(shares_are_coloured_by_their_ratio_to_the_even_share)
{
    static const struct {
        double ratio, at; /* ratio: share divided by the even share; at: place on the scale
                           * of colours */
    } cases[] = {{0, 0}, {0.1, 0}, {0.25, 0}, {0.5, 0.25}, {1, 0.5}, {2, 0.75}, {4, 1}, {8, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int experts = 2; experts <= 64; experts *= 4) {
            char ink[8], expected[8];
            share_ink(cases[i].ratio / experts, 1.0 / experts, ink);
            mf_colour_diverging(cases[i].at, expected);
            ck_assert_str_eq(ink, expected);
        }
}
END_TEST

/* Whether a logarithmic axis from lo to hi has this label. */
static bool is_labelled(double lo, double hi, const char *label)
{
    const double x[] = {lo, hi}, y[] = {1, 2};
    const mf_series s = {.n = 2, .x = x, .y = y, .points = true};
    char text[32];
    mf_doc *d = mf_doc_new();
    mf_svg_plot(d, &(mf_plot){.log_x = true, .n_series = 1, .series = &s});
    snprintf(text, sizeof text, ">%s</text>", label);
    return strstr(finished(d), text) != NULL;
}

START_TEST(labels_of_a_logarithmic_axis_do_not_touch)
{
    ck_assert(is_labelled(300, 900, "700"));
    ck_assert(is_labelled(256, 5320, "500") && is_labelled(256, 5320, "2000"));
    ck_assert(!is_labelled(256, 5320, "700") && !is_labelled(256, 5320, "1500"));
}
END_TEST

START_TEST(marks_stand_out_from_the_page)
{
    static const char *const pages[] = {"#ffffff", "#15181c"}; /* light, dark: see html.c */
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 2; k++) {
            const double a = luminance(mf_colour(i)) + 0.05, b = luminance(pages[k]) + 0.05;
            ck_assert_msg((a > b ? a / b : b / a) >= 3, "%s on %s", mf_colour(i), pages[k]);
        }
}
END_TEST

/* Finds the colour of a variable in the style of a page. The search begins after the
 * text `after`. */
static void variable(const char *style, const char *after, const char *name, char out[8])
{
    const char *at = strstr(style, after);
    ck_assert_ptr_nonnull(at);
    at = strstr(at, name);
    ck_assert_ptr_nonnull(at);
    at += strlen(name);
    snprintf(out, 8, "%.*s", (int)strcspn(at, ";}"), at);
}

START_TEST(text_stands_out_from_the_page)
{
    static const char *const schemes[] = {":root{color-scheme", "(prefers-color-scheme:dark)"};
    static const char *const texts[] = {"--ink:", "--soft:", "--link:"}, *const grounds[] = {
                                                                             "--ground:",
                                                                             "--card:"};
    mf_doc *d = mf_doc_new();
    mf_html_begin(d, "t", NULL, 0);
    const char *style = mf_doc_string(d, NULL);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < 3; i++)
            /* each colour of text on the colour of the page and on that of cards */
            for (int k = 0; k < 2; k++) {
                char ink[8], ground[8];
                variable(style, schemes[s], texts[i], ink);
                variable(style, schemes[s], grounds[k], ground);
                const double a = luminance(ink) + 0.05, b = luminance(ground) + 0.05;
                ck_assert_msg((a > b ? a / b : b / a) >= 4.5, "%s on %s", ink, ground);
            }
    /* the style contains no other colour of text */
    for (const char *at = style; (at = strstr(at, "color:")) != NULL; at++)
        ck_assert_msg(at[-1] == '-' || strncmp(at + 6, "var(--", 6) == 0 ||
                          strncmp(at + 6, "#000}", 5) == 0,
                      "%.30s", at);
    mf_doc_free(d);
}
END_TEST

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

/* Checks that all rectangles are inside the picture. */
static void within(const char *text)
{
    double width, height;
    const char *view = strstr(text, "viewBox=\"0 0 ");
    ck_assert_int_eq(sscanf(view, "viewBox=\"0 0 %lf %lf", &width, &height), 2);
    for (const char *at = text; (at = strstr(at, "<rect x=")) != NULL; at++) {
        double x, y, w, h;
        ck_assert_int_eq(sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"",
                                &x, &y, &w, &h),
                         4);
        ck_assert_msg(x >= 0 && y >= 0 && w > 0 && h > 0 && x + w <= width + 0.1 &&
                          y + h <= height + 0.1,
                      "%g %g %g %g in %g %g", x, y, w, h, width, height);
    }
}

START_TEST(structures)
{
    for (int b = 0; b < N_BAD; b++)
        for (int kind = 0; kind < 8; kind++) {
            const char *t = bad_texts[b];
            const mf_flow_item items[] = {{.kind = MF_FLOW_TEXT, .text = t},
                                          {.kind = MF_FLOW_BOX, .text = t, .note = t},
                                          {.kind = MF_FLOW_OPEN, .text = t, .note = t},
                                          {.kind = MF_FLOW_OPEN, .text = t},
                                          {.kind = MF_FLOW_BRANCH},
                                          {.kind = MF_FLOW_BOX, .text = t, .dashed = true},
                                          {.kind = MF_FLOW_BOX, .text = t},
                                          {.kind = MF_FLOW_SUM},
                                          {.kind = MF_FLOW_CLOSE},
                                          {.kind = MF_FLOW_CLOSE},
                                          {.kind = MF_FLOW_TEXT, .text = t}};
            const mf_flow_detail detail = {.title = t,
                                           .router = t,
                                           .router_note = t,
                                           .experts = kind & 4 ? 64 : 1 + kind % 3,
                                           .chosen = 2,
                                           .expert = t,
                                           .expert_note = t,
                                           .adapter = kind & 1 ? t : NULL,
                                           .adapter_shared = kind & 2,
                                           .shared = kind & 2 ? t : NULL,
                                           .sum = t,
                                           .note = t};
            mf_doc *d = mf_doc_new();
            mf_svg_flow(d, t, sizeof items / sizeof *items, items);
            const char *text = finished(d);
            within(text);
            ck_assert_int_eq(count(text, "<circle"), 1);
            d = mf_doc_new();
            mf_svg_flow_detail(d, &detail);
            within(finished(d));
        }
    /* a frame that was not opened, and a figure without items */
    mf_doc *d = mf_doc_new();
    const mf_flow_item odd[] = {{.kind = MF_FLOW_CLOSE}, {.kind = MF_FLOW_SUM}};
    mf_svg_flow(d, "", 2, odd);
    finished(d);
    d = mf_doc_new();
    mf_svg_flow(d, "", 0, NULL);
    finished(d);
}
END_TEST

START_TEST(parts_of_a_whole)
{
    static const double x[] = {0, 10, 20}, v[] = {0.5, 0.25, 0, 0.5, 0.5, 0.5, 0, 0.25, 0.5};
    const char *names[] = {bad_texts[0], bad_texts[1], bad_texts[2]};
    mf_doc *d = mf_doc_new();
    mf_svg_stack(d, &(mf_stack){.title = "t",
                                .x_label = bad_texts[3],
                                .y_label = "y",
                                .width = 400,
                                .height = 300,
                                .top = 1,
                                .n = 3,
                                .n_series = 3,
                                .x = x,
                                .names = names,
                                .values = v});
    const char *text = finished(d);
    ck_assert_int_eq(count(text, "fill-opacity=\".8\""), 3);
    /* The areas sum to 1 at each x, so in the upper line of the last area all y are equal. */
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, "<path d=\"M")) != NULL; at++)
        if (strcspn(at, "Z") < strcspn(at, ">")) last = at; /* a closed path is an area */
    double px[3], py[3];
    ck_assert_ptr_nonnull(last);
    ck_assert_int_eq(sscanf(last, "<path d=\"M%lf %lfL%lf %lfL%lf %lf", &px[0], &py[0], &px[1],
                            &py[1], &px[2], &py[2]),
                     6);
    ck_assert(py[0] == py[1] && py[1] == py[2] && px[0] < px[1] && px[1] < px[2]);
    d = mf_doc_new();
    mf_svg_stack(d, &(mf_stack){.title = "none", .top = 1});
    finished(d);
}
END_TEST

START_TEST(colour_scales_grow_lighter)
{
    double last = -1;
    for (int i = 0; i <= 20; i++) {
        char ink[8];
        unsigned r, g, b;
        mf_colour_scale(i / 20.0, ink);
        ck_assert_int_eq(sscanf(ink, "#%2x%2x%2x", &r, &g, &b), 3);
        const double light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
        ck_assert_double_gt(light, last);
        last = light;
    }
    char ink[8];
    mf_colour_scale(NAN, ink);
    ck_assert_str_eq(ink, "#191731");
    ck_assert_str_ne(mf_colour(0), mf_colour(7));
    ck_assert_str_eq(mf_colour(0), mf_colour(8));
}
END_TEST

START_TEST(a_page_holds_nothing_but_itself)
{
    mf_doc *d = mf_doc_new();
    const char *cells[] = {bad_texts[0], bad_texts[1]};
    const mf_html_entry entries[] = {{"a", bad_texts[0]}};
    mf_html_begin(d, bad_texts[0], bad_texts[1], 0);
    mf_html_contents(d, 1, entries);
    mf_html_section(d, "a", bad_texts[0]);
    mf_html_cards(d);
    mf_html_card(d, bad_texts[0], bad_texts[1], bad_texts[2]);
    mf_html_cards_end(d);
    mf_html_table(d, "lr", cells);
    mf_html_row(d, "lr", cells);
    mf_html_table_end(d);
    mf_html_figures(d);
    mf_html_figure(d, bad_texts[0]);
    mf_html_figure_end(d, bad_texts[0]);
    mf_html_figures_end(d);
    mf_html_paragraph(d, bad_texts[0]);
    mf_html_code(d, bad_texts[0]);
    mf_html_details(d, bad_texts[0], bad_texts[0]);
    mf_html_section_end(d);
    mf_html_end(d, bad_texts[0]);
    const char *text = mf_doc_string(d, NULL);
    ck_assert_ptr_nonnull(
        strstr(text, "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
                     "'sha256-"));
    const char *code = strstr(text, "<script>"),
               *rest = code ? strstr(code, "</script>") : NULL;
    ck_assert_ptr_nonnull(rest);
    ck_assert_ptr_null(strstr(rest, "<script"));
    char *copy = strdup(text); /* a copy of the page without the script */
    strcpy(copy + (code - text), rest + strlen("</script>"));
    static const char *const never[] = {"<script", "http:", "https:", "javascript",
                                        "@import", "url(",  "<img",   "<link"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        ck_assert_msg(!strstr(copy, never[i]), "holds %s", never[i]);
    char *body = strstr(copy, "<body>");
    ck_assert_ptr_nonnull(body);
    *strstr(body, "</html>") = '\0';
    well_formed(body);
    free(copy);
    mf_doc_free(d);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("svg");
    TCase *c = tcase_create("svg");
    tcase_add_test(c, text_is_escaped);
    tcase_add_test(c, numbers_are_short);
    tcase_add_test(c, scales_hold_their_values);
    tcase_add_test(c, ticks_are_round);
    tcase_add_test(c, plots_are_well_formed);
    tcase_add_test(c, long_lines_stay_small);
    tcase_add_test(c, bars_and_histograms);
    tcase_add_test(c, heat_maps);
    tcase_add_test(c, numbers_stand_out_from_their_cells);
    tcase_add_test(c, shares_are_coloured_by_their_ratio_to_the_even_share);
    tcase_add_test(c, labels_of_a_logarithmic_axis_do_not_touch);
    tcase_add_test(c, marks_stand_out_from_the_page);
    tcase_add_test(c, text_stands_out_from_the_page);
    tcase_add_test(c, structures);
    tcase_add_test(c, parts_of_a_whole);
    tcase_add_test(c, colour_scales_grow_lighter);
    tcase_add_test(c, a_page_holds_nothing_but_itself);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
