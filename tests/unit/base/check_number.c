/* number, utf8: strict parsing, shortest texts, and the same results in a locale with a
 * decimal comma. */
#include "check_main.h"

#include "io/json.h"
#include "base/text/number.h"
#include "base/rng.h"
#include "base/text/utf8.h"
#include "tests/lib/scratch.h"

#include <float.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

START_TEST(integers)
{
    static const struct {
        const char *text;
        long long value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"+7", 7},
                {"007", 7},
                {"123456789012", 123456789012},
                {"9223372036854775807", LLONG_MAX},
                {"-9223372036854775808", LLONG_MIN},
                {"3k", 3000},
                {"-2M", -2000000},
                {"4G", 4000000000},
                {"9223372036G", 9223372036000000000}};
    static const char *const bad[] = {"",
                                      "+",
                                      "-",
                                      "k",
                                      "1 ",
                                      " 1",
                                      "1.0",
                                      "1e3",
                                      "0x10",
                                      "1kk",
                                      "1K",
                                      "1m",
                                      "1 k",
                                      "--1",
                                      "1_000",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "9223372037G",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        long long x = 99;
        ck_assert_msg(mf_parse_i64(good[i].text, &x), "%s", good[i].text);
        ck_assert(x == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        long long x = 99;
        ck_assert_msg(!mf_parse_i64(bad[i], &x), "%s", bad[i]);
        ck_assert(x == 99);
    }
}
END_TEST

static void check_reals(void)
{
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},
                {"1", 1},
                {"-1.5", -1.5},
                {"+.5", .5},
                {"5.", 5},
                {"1e3", 1000},
                {"1E-3", 0.001},
                {"1e+2", 100},
                {"0.1", 0.1},
                {"1e-999", 0},
                {"1e308", 1e308},
                {"4.9e-324", 4.9e-324},
                {"3.141592653589793", 3.141592653589793}};
    static const char *const bad[] = {"",   ".",     "e3",   "1e",  "1e+",     "1,5", " 1",
                                      "1 ", "1e999", "nan",  "inf", "-inf",    "0x1", "1.5.2",
                                      "1f", "-",     "1e3k", "NaN", "1.5e2.5", "3k"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double x = 99;
        ck_assert_msg(mf_parse_f64(good[i].text, &x), "%s", good[i].text);
        ck_assert_msg(x == good[i].value, "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double x = 99;
        ck_assert_msg(!mf_parse_f64(bad[i], &x), "%s", bad[i]);
        ck_assert(x == 99);
    }
    char text[600];
    double x = 99;
    memset(text, '1', sizeof text);
    text[sizeof text - 1] = '\0';
    ck_assert(!mf_parse_f64(text, &x) && x == 99);
}

START_TEST(reals)
{
    check_reals();
}
END_TEST

START_TEST(booleans)
{
    static const char *const yes[] = {"yes", "true", "on", "1", "Yes", "TRUE", "oN"};
    static const char *const no[] = {"no", "false", "off", "0", "No", "FALSE", "OFF"};
    static const char *const bad[] = {"", "y", "n", "2", "yes ", " no", "tru", "01", "nope"};
    bool b;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        ck_assert(mf_parse_bool(yes[i], &b) && b);
        ck_assert(mf_parse_bool(no[i], &b) && !b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!mf_parse_bool(bad[i], &b), "%s", bad[i]);
}
END_TEST

static void check_formats(void)
{
    static const struct {
        double value;
        const char *text;
    } f64[] = {{0, "0"},
               {-0.0, "-0.0"},
               {1, "1"},
               {-2.5, "-2.5"},
               {0.1, "0.1"},
               {0.1 + 0.2, "0.30000000000000004"},
               {1.0 / 3, "0.3333333333333333"},
               {1e21, "1e+21"},
               {5e-324, "4.94065645841247e-324"},
               {DBL_MAX, "1.7976931348623157e+308"},
               {9007199254740993.0, "9007199254740992"},
               {NAN, "nan"},
               {INFINITY, "inf"},
               {-INFINITY, "-inf"}};
    static const struct {
        float value;
        const char *text;
    } f32[] = {{0, "0"},
               {-0.0f, "-0.0"},
               {0.1f, "0.1"},
               {0.3f, "0.3"},
               {16777216.0f, "16777216"},
               {1.0f / 3, "0.33333334"},
               {FLT_MAX, "3.4028235e+38"},
               {1e-45f, "1.4013e-45"},
               {-INFINITY, "-inf"}};
    char out[MF_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof f64 / sizeof *f64; i++)
        ck_assert_str_eq(mf_format_f64(f64[i].value, out), f64[i].text);
    for (size_t i = 0; i < sizeof f32 / sizeof *f32; i++)
        ck_assert_str_eq(mf_format_f32(f32[i].value, out), f32[i].text);
}

START_TEST(formats)
{
    check_formats();
}
END_TEST

/* Converts random bit patterns of finite numbers to text; reading the text must restore
 * the bits. */
static void check_round_trips(uint64_t n)
{
    char out[MF_NUMBER_TEXT];
    for (uint64_t i = 0; i < n; i++) {
        uint32_t w[4];
        uint64_t bits;
        double d, back = 0;
        float f;
        mf_rng_block(11, 12, 13, i, w);
        bits = (uint64_t)w[0] << 32 | w[1];
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &w[2], sizeof f);
        if (isfinite(d)) {
            ck_assert(mf_parse_f64(mf_format_f64(d, out), &back));
            ck_assert_msg(memcmp(&d, &back, sizeof d) == 0, "%s", out);
        }
        if (isfinite(f)) {
            ck_assert(mf_parse_f64(mf_format_f32(f, out), &back));
            ck_assert_msg((float)back == f, "%s", out);
        }
    }
}

START_TEST(round_trips)
{
    check_round_trips(20000);
}
END_TEST

static bool has_comma(const char *name)
{
    return setlocale(LC_ALL, name) && strcmp(localeconv()->decimal_point, ",") == 0;
}

/* Sets a locale with a decimal comma, and creates it if the system has none. Returns false if
 * that fails. musl always uses a point, whatever the name of the locale. */
static bool enter_comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    for (size_t i = 0; i < 4; i++)
        if (has_comma(names[i])) return true;
    char command[1200];
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", scratch_dir());
    if (system(command) != 0) return false;
    setenv("LOCPATH", scratch_dir(), 1);
    return has_comma("de_DE.UTF-8");
}

START_TEST(decimal_comma)
{
    if (enter_comma_locale()) {
        char shows[16];
        snprintf(shows, sizeof shows, "%.1f", 0.5);
        ck_assert_str_eq(shows, "0,5");
    }
    check_reals();
    check_formats();
    check_round_trips(2000);
    mf_jw *w = mf_jw_new();
    mf_jw_array(w);
    mf_jw_real(w, 0.5);
    mf_jw_float(w, 2.25f);
    mf_jw_end(w);
    ck_assert_str_eq(mf_jw_text(w, NULL), "[0.5,2.25]");
    mf_json *doc = NULL;
    double x;
    ck_assert_int_eq(mf_json_parse("j", "[1.25]", 6, &doc), 0);
    ck_assert(mf_json_real(mf_json_at(doc, 0), &x) && x == 1.25);
    mf_json_free(doc);
    mf_jw_free(w);
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(utf8_lengths)
{
    static const struct {
        const char *text;
        size_t n, length;
    } table[] = {{"a", 1, 1},
                 {"", 0, 0},
                 {"\0", 1, 1},
                 {"\x7F", 1, 1},
                 {"\x80", 1, 0},
                 {"\xC1\xBF", 2, 0},
                 {"\xC2\x80", 2, 2},
                 {"\xC2\x80", 1, 0},
                 {"\xDF\xBF", 2, 2},
                 {"\xE0\x9F\xBF", 3, 0},
                 {"\xE0\xA0\x80", 3, 3},
                 {"\xED\x9F\xBF", 3, 3},
                 {"\xED\xA0\x80", 3, 0},
                 {"\xEF\xBF\xBF", 3, 3},
                 {"\xEF\xBF", 2, 0},
                 {"\xE1\x80\x41", 3, 0},
                 {"\xF0\x8F\xBF\xBF", 4, 0},
                 {"\xF0\x90\x80\x80", 4, 4},
                 {"\xF4\x8F\xBF\xBF", 4, 4},
                 {"\xF4\x90\x80\x80", 4, 0},
                 {"\xF1\x80\x80\xC0", 4, 0},
                 {"\xF5\x80\x80\x80", 4, 0},
                 {"\xC2\x41", 2, 0}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        ck_assert_uint_eq(mf_utf8_length(table[i].text, table[i].n), table[i].length);
    ck_assert_uint_eq(mf_utf8_check("ab\xC3\xA4z", 5), 5);
    ck_assert_uint_eq(mf_utf8_check("ab\xC3z", 4), 2);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("number");
    TCase *c = tcase_create("number");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, integers);
    tcase_add_test(c, reals);
    tcase_add_test(c, booleans);
    tcase_add_test(c, formats);
    tcase_add_test(c, round_trips);
    tcase_add_test(c, decimal_comma);
    tcase_add_test(c, utf8_lengths);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
