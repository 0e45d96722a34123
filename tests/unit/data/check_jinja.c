/* jinja: templates of conversations. tests/golden/chat/templates.json has small templates with
 * what transformers renders; what is not read is refused by line and construct. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/jinja/jinja.h"
#include "tests/lib/fault.h"
#include "tests/lib/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tm now = {.tm_year = 126,
                              .tm_mon = 0,
                              .tm_mday = 2,
                              .tm_hour = 3,
                              .tm_min = 4,
                              .tm_sec = 5,
                              .tm_wday = 5,
                              .tm_yday = 1};

static mf_json *golden(void)
{
    char path[2048];
    const char *srcdir = getenv("srcdir");
    size_t n;
    mf_json *v;
    snprintf(path, sizeof path, "%s/tests/golden/chat/templates.json", srcdir ? srcdir : ".");
    char *text = scratch_read(path, &n);
    ck_assert_msg(text != NULL, "%s", path);
    ck_assert_msg(mf_json_parse(path, text, n, &v) == MF_OK, "%s", mf_error_message());
    free(text);
    return v;
}

/* Offset in bytes of a character. */
static size_t byte_of(const char *text, size_t character)
{
    size_t at = 0;
    for (; character > 0; character--)
        do
            at++;
        while (((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

static void check_spans(const mf_jinja_result *r, const mf_json *spans)
{
    ck_assert_uint_eq(r->n_answers, mf_json_size(spans));
    for (size_t i = 0; i < r->n_answers; i++) {
        int64_t begin = 0, end = 0;
        mf_json_int(mf_json_at(mf_json_at(spans, i), 0), &begin);
        mf_json_int(mf_json_at(mf_json_at(spans, i), 1), &end);
        ck_assert_uint_eq(r->answer[i].begin, byte_of(r->text, (size_t)begin));
        ck_assert_uint_eq(r->answer[i].end, byte_of(r->text, (size_t)end));
    }
}

START_TEST(as_transformers)
{
    mf_json *doc = golden();
    const mf_json *cases = mf_json_get(doc, "cases"),
                  *variables = mf_json_get(doc, "variables"), *value;
    mf_jinja_variable v[32];
    int n = 0;
    const char *key;
    for (size_t i = 0; mf_json_member(variables, i, &key, &value); i++)
        v[n++] = (mf_jinja_variable){
            .name = key, .value = value, .is_messages = strcmp(key, "messages") == 0};
    ck_assert_uint_eq(mf_json_size(cases), 64);
    for (size_t i = 0; i < mf_json_size(cases); i++) {
        const mf_json *one = mf_json_at(cases, i);
        size_t size, n_text = 0;
        const char *template = mf_json_string(mf_json_get(one, "template"), &size),
                   *text = mf_json_string(mf_json_get(one, "text"), &n_text),
                   *says = mf_json_string(mf_json_get(one, "error"), NULL);
        mf_jinja *j;
        mf_jinja_result r;
        ck_assert_msg(mf_jinja_new("t", template, size, &j) == MF_OK, "%s: %s", template,
                      mf_error_message());
        const int rc = mf_jinja_render(j, v, n, &now, &r);
        if (text) {
            ck_assert_msg(rc == MF_OK, "%s: %s", template, mf_error_message());
            ck_assert_msg(r.n == n_text && memcmp(r.text, text, r.n) == 0,
                          "%s:\n%s\nexpected:\n%s", template, r.text, text);
            if (mf_jinja_marks_answers(j)) check_spans(&r, mf_json_get(one, "spans"));
        } else {
            ck_assert_msg(rc == MF_EINPUT && !r.text, "%s: %d", template, rc);
            if (says) ck_assert_ptr_nonnull(strstr(mf_error_message(), says));
        }
        mf_free(r.text);
        mf_free(r.answer);
        mf_jinja_free(j);
    }
    mf_json_free(doc);
}
END_TEST

START_TEST(refusals)
{
    static const char *const table[][2] = {
        {"a\n{% include 'x' %}", "t:2: {% include %} is not read: expected if, for, set"},
        {"{% raw %}", "t:1: {% raw %} is not read"},
        {"{% if a %}", "t:1: a block without {% endif %}"},
        {"{% for x in a %}", "a block without {% endfor %}"},
        {"{% endif %}", "{% endif %} is not read"},
        {"{{ a", "t:1: a value without }}"},
        {"{% if a", "a block without %}"},
        {"{# a", "a comment without #}"},
        {"{{ 'a }}", "a string without end"},
        {"{{ a b }}", "expected }}, found \"b\""},
        {"{{ a | sorted }}", "filter \"sorted\" is not read"},
        {"{{ a | defult }}", "filter \"defult\" is not read; the nearest is default"},
        {"{{ a is nothing }}", "test \"nothing\" is not read"},
        {"{{ a is strin }}", "; the nearest is string"},
        {"{{ f(*a) }}", "* and ** in a call are not read"},
        {"{{ }}", "expected a value"},
        {"{{ a[] }}", "expected an index"},
        {"{{ a[1:2:3:4] }}", "a slice with more than two colons"},
        {"{{ 1234567890123456789 }}", "a whole number of more than 18 digits"},
        {"{{ '\\u12' }}", "an escape in a string"},
        {"{{ '\\ud800' }}", "no character has this number"},
        {"{{ a ! b }}", "a character that begins nothing"},
        {"{% break %}", "break or continue outside of a loop"},
        {"{% for x in a recursive %}{% endfor %}", "a recursive loop is not read"},
        {"{% set a = 1, 2 %}", "several values: expected them in brackets"},
        {"{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
         "break or continue outside of a loop"},
    };
    mf_jinja *j;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ck_assert_int_eq(mf_jinja_new("t", table[i][0], strlen(table[i][0]), &j), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), table[i][1]) != NULL && !j, "%s: %s",
                      table[i][0], mf_error_message());
    }
    ck_assert_int_eq(mf_jinja_new("t", "a\n\xC3", 3, &j), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "t:2: expected a text in UTF-8"));
    ck_assert_int_eq(mf_jinja_new("t", "a\r\n\r\0b", 6, &j), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "t:3: expected a text in UTF-8"));
    char name[600] = "{{ ";
    memset(name + 3, 'a', 256);
    ck_assert_int_eq(mf_jinja_new("t", name, 259, &j), MF_EINPUT);
    memcpy(name + 259, " }}", 4);
    ck_assert_int_eq(mf_jinja_new("t", name, strlen(name), &j), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "t:1: a name of 256 bytes"));
    memset(name + 3, '1', 500);
    strcpy(name + 503, ".0 }}");
    ck_assert_int_eq(mf_jinja_new("t", name, strlen(name), &j), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "t:1: a number of more than 400"));
    /* nesting of brackets, signs and blocks */
    static const char *const deep[] = {"(", "-", "not ", "{% if a %}", "[", "a if "};
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        char text[4096] = "{{ ";
        if (deep[i][0] == '{') text[0] = '\0';
        for (int k = 0; k < 300; k++)
            strcat(text, deep[i]);
        ck_assert_int_eq(mf_jinja_new("t", text, strlen(text), &j), MF_EINPUT);
    }
}
END_TEST

/* Templates that never end, or that make too much. */
START_TEST(limits)
{
    static const char *const table[][2] = {
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
         "calls are nested more than 100 deep"},
        {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
         "more than"},
        {"{% set ns = namespace(x='ab') %}{% for a in range(40) %}{% set ns.x = ns.x + ns.x %}"
         "{% endfor %}",
         "more than"},
        {"{{ 'ab' * 100000000 }}", "more than"},
        {"{% set ns = namespace(x=[1]) %}{% for a in range(40) %}{% set ns.x = ns.x + ns.x %}"
         "{% endfor %}",
         "more than"},
        {"{{ 9 ** 99 }}", "a number beyond 64 bits"},
        {"{{ '%d' | trim | replace('', 'x' * 60000000) }}", "more than"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_jinja *j;
        mf_jinja_result r;
        ck_assert_int_eq(mf_jinja_new("t", table[i][0], strlen(table[i][0]), &j), MF_OK);
        ck_assert_int_eq(mf_jinja_render(j, NULL, 0, &now, &r), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), table[i][1]) != NULL, "%s: %s", table[i][0],
                      mf_error_message());
        mf_jinja_free(j);
    }
}
END_TEST

static const mf_jinja_limits usual = {MF_JINJA_STEPS, MF_JINJA_OUTPUT, MF_JINJA_MEMORY};

static int render_in(const char *template, const mf_jinja_limits *within, mf_jinja_result *r)
{
    mf_jinja *j;
    ck_assert_msg(mf_jinja_new("t", template, strlen(template), &j) == MF_OK, "%s",
                  mf_error_message());
    const int rc = mf_jinja_render_within(j, NULL, 0, &now, within, r);
    mf_jinja_free(j);
    return rc;
}

/* Expressions that read long texts and lists and make nothing: what they read is counted. Each
 * runs a thousand times, and alone stays far below the limit. */
START_TEST(work_is_counted)
{
    static const mf_jinja_limits million = {1000000, MF_JINJA_OUTPUT, MF_JINJA_MEMORY};
    static const char *const table[] = {
        "'b' in s",
        "s == t",
        "s < t",
        "s | length",
        "s.find('b')",
        "s.count('b')",
        "s.startswith(t)",
        "s.removesuffix(t[1:])",
        "n.isdigit()",
        "s | trim('a')",
        "s.split('b', 1)",
        "s.rstrip('ba')",
        "s[2000:2001]",
        "s[-1]",
        "d[s]",
        "l | select('none') | first",
        "l | unique | first",
        "l == m",
        "7 in l",
        "s.startswith(l)",
        "e | join",
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[1024];
        mf_jinja_result r;
        static const char form[] =
            "{%% set s = 'a' * 20000 %%}{%% set t = 'a' * 20000 %%}{%% set n = '1' * 20000 %%}"
            "{%% set d = {t ~ 'b': 1, t: 2} %%}{%% set l = [0] * 2000 %%}"
            "{%% set m = [0] * 2000 %%}{%% set e = [''] * 2000 %%}"
            "{%% for i in range(%d) %%}{%% if %s %%}{%% endif %%}{%% endfor %%}";
        snprintf(text, sizeof text, form, 1, table[i]);
        ck_assert_msg(render_in(text, &million, &r) == MF_OK, "%s: %s", table[i],
                      mf_error_message());
        mf_free(r.text);
        snprintf(text, sizeof text, form, 100000, table[i]);
        ck_assert_msg(render_in(text, &million, &r) == MF_EINPUT, "%s", table[i]);
        ck_assert_msg(
            strstr(mf_error_message(), "t:1: the template takes more than 1000000 steps"),
            "%s: %s", table[i], mf_error_message());
    }
}
END_TEST

/* Chains and values of any length: what computes them is recursive, and a stack has an end. */
START_TEST(nesting_is_limited)
{
    static const struct {
        const char *begin, *part, *end;
    } table[] = {
        {"{{ 1", "+1", " }}"},         {"{{ 1", "|abs", " }}"},
        {"{{ x", ".a", " }}"},         {"{{ x", "()", " }}"},
        {"{{ x", "[0]", " }}"},        {"{{ 1", " and 1", " }}"},
        {"{{ ", "1 if 1 if ", "1 }}"}, {"{% set x", "|trim", " %}x{% endset %}"},
    };
    enum { PARTS = 100000 };
    mf_jinja_result r;
    char *text = malloc(12 * PARTS + 100);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char *at = stpcpy(text, table[i].begin);
        for (int k = 0; k < PARTS; k++)
            at = stpcpy(at, table[i].part);
        strcpy(at, table[i].end);
        ck_assert_int_eq(render_in(text, &usual, &r), MF_EINPUT);
        ck_assert_msg(
            strstr(mf_error_message(), "t:1: expressions, calls or values are nested"),
            "%s: %s", table[i].part, mf_error_message());
    }
    free(text);
    static const char *const values[] = {"{{ ns.x }}", "{{ ns.x | tojson }}",
                                         "{{ ns.x == ns.y }}",
                                         "{{ [ns.x, ns.y] | unique | length }}"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char template[512];
        snprintf(template, sizeof template,
                 "{%% set ns = namespace(x=[], y=[]) %%}{%% for i in range(200000) %%}"
                 "{%% set ns.x = [ns.x] %%}{%% set ns.y = [ns.y] %%}{%% endfor %%}%s",
                 values[i]);
        ck_assert_int_eq(render_in(template, &usual, &r), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), "nested more than 1000 deep"), "%s: %s",
                      values[i], mf_error_message());
    }
}
END_TEST

/* Texts that macros are writing count as memory; items of a text and the order of a dictionary
 * take memory in proportion to what they read. */
START_TEST(memory_is_counted)
{
    static const mf_jinja_limits small = {MF_JINJA_STEPS, 1 << 20, 4 << 20};
    static const char set[] = "{% set s = 'abc\u00e9' * 50000 %}";
    static const char *const table[][2] = {
        {"{{ s[0] ~ s[-1] ~ s[3] ~ s[199999] ~ s[200000] }}", "a\xC3\xA9\xC3\xA9\xC3\xA9"},
        {"{{ s[2:5] }} {{ s[-2:] }} {{ s[:-199999] }} {{ s[199998::-99999] }}",
         "c\xC3\xA9"
         "a c\xC3\xA9 a c\xC3\xA9"
         "a"},
        {"{{ s.count('c\xC3\xA9') }} {{ s.count('x') }} {{ 'aaa'.count('aa') }}", "50000 0 1"},
        {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 > 1 == 1 }} {{ 1 in [1] in [[1]] }}",
         "True False True True"},
        {"{{ 9007199254740993 > 9007199254740992 }} {{ {9007199254740993: 1}[9007199254740992] "
         "is defined }} {{ {1: 2}[1.0] }}",
         "True False 2"},
        {"{{ 'xyx' | trim('x') }}{{ 'xx' | trim('x') }}{{ ' \\u2003a\\u00e9 '.rstrip() }}|",
         "y \xE2\x80\x83"
         "a\xC3\xA9|"},
        {"{% for k, v in {'b': 1, 'C': 2, 'a': 3, 'B': 4, 'd': 5} | dictsort %}{{ k }}{{ v }}"
         "{% endfor %}",
         "a3b1B4C2d5"},
        {"{{ {'b': 1, 'C': 2, 'a': {'z': 0, 'y': 1}} | tojson(sort_keys=true) }}",
         "{\"C\": 2, \"a\": {\"y\": 1, \"z\": 0}, \"b\": 1}"},
    };
    char text[1024];
    mf_jinja_result r;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        snprintf(text, sizeof text, "%s%s", set, table[i][0]);
        ck_assert_msg(render_in(text, &small, &r) == MF_OK, "%s: %s", table[i][0],
                      mf_error_message());
        ck_assert_str_eq(r.text, table[i][1]);
        mf_free(r.text);
    }
    snprintf(text, sizeof text, "%s{%% macro m() %%}{{ s }}{{ m() }}{%% endmacro %%}{{ m() }}",
             set);
    ck_assert_int_eq(render_in(text, &small, &r), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "more than 4 MiB of values"));
}
END_TEST

START_TEST(memory_fails)
{
    static const char template[] =
        "{% macro m(a) %}{{ a | upper }}{% endmacro %}{% set ns = namespace(x=[]) %}{% for x "
        "in "
        "'a b'.split() %}{% set ns.x = ns.x + [x] %}{% generation %}{{ m(x) ~ loop.index }}"
        "{% endgeneration %}{% endfor %}{{ ns.x | tojson }}{% set q %}x{% endset %}{{ q * 3 }}";
    for (long nth = 1;; nth++) {
        mf_jinja *j = NULL;
        mf_jinja_result r = {0};
        fault_alloc(nth, FAULT_ONCE);
        int rc = mf_jinja_new("t", template, sizeof template - 1, &j);
        if (rc == MF_OK) rc = mf_jinja_render(j, NULL, 0, &now, &r);
        const bool hit = fault_hit();
        ck_assert_msg(rc == (hit ? MF_ENOMEM : MF_OK), "call %ld: %d %s", nth, rc,
                      mf_error_message());
        if (rc == MF_OK) ck_assert_str_eq(r.text, "A1B2[\"a\", \"b\"]xxx");
        mf_free(r.text);
        mf_free(r.answer);
        mf_jinja_free(j);
        ck_assert_int_eq(fault_alloc_live(), 0);
        fault_off();
        if (!hit) break;
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("jinja");
    TCase *c = tcase_create("jinja");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, as_transformers);
    tcase_add_test(c, refusals);
    tcase_add_test(c, limits);
    tcase_add_test(c, work_is_counted);
    tcase_add_test(c, nesting_is_limited);
    tcase_add_test(c, memory_is_counted);
    tcase_add_test(c, memory_fails);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
