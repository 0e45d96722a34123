/* json: which texts are read, which are refused, what is written, and that reading returns the
 * written values. */
#include "check_main.h"

#include "base/error.h"
#include "io/json.h"
#include "base/mem.h"
#include "tests/lib/fault.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static mf_json *parse(const char *text)
{
    mf_json *doc = NULL;
    int rc = mf_json_parse("j", text, strlen(text), &doc);
    ck_assert_msg(rc == MF_OK, "%s: %s", text, mf_error_message());
    return doc;
}

START_TEST(values)
{
    mf_json *doc = parse(" {\"n\":null,\"t\":true,\"i\":-12,\"r\":2.5,\"s\":\"a\\u00e4\\n\","
                         "\"a\":[1,[2],{}],\"o\":{\"x\":1}} ");
    const mf_json *v;
    const char *key;
    double r;
    int64_t i;
    bool b;
    size_t n;
    ck_assert_int_eq(mf_json_typeof(doc), MF_JSON_OBJECT);
    ck_assert_uint_eq(mf_json_size(doc), 7);
    ck_assert_int_eq(mf_json_typeof(mf_json_get(doc, "n")), MF_JSON_NULL);
    ck_assert(mf_json_bool(mf_json_get(doc, "t"), &b) && b);
    ck_assert(mf_json_int(mf_json_get(doc, "i"), &i) && i == -12);
    ck_assert(mf_json_real(mf_json_get(doc, "i"), &r) && r == -12);
    ck_assert(mf_json_real(mf_json_get(doc, "r"), &r) && r == 2.5);
    ck_assert(!mf_json_int(mf_json_get(doc, "r"), &i));
    ck_assert_str_eq(mf_json_string(mf_json_get(doc, "s"), &n), "a\xC3\xA4\n");
    ck_assert_uint_eq(n, 4);
    v = mf_json_get(doc, "a");
    ck_assert_uint_eq(mf_json_size(v), 3);
    ck_assert(mf_json_int(mf_json_at(v, 0), &i) && i == 1);
    ck_assert(mf_json_int(mf_json_at(mf_json_at(v, 1), 0), &i) && i == 2);
    ck_assert_uint_eq(mf_json_size(mf_json_at(v, 2)), 0);
    ck_assert_ptr_null(mf_json_at(v, 3));
    ck_assert(mf_json_member(doc, 6, &key, &v));
    ck_assert_str_eq(key, "o");
    ck_assert(mf_json_member(v, 0, &key, &v));
    ck_assert_str_eq(key, "x");
    ck_assert(!mf_json_member(doc, 7, &key, &v));
    mf_json_free(doc);
    mf_json_free(NULL);
}
END_TEST

/* U+0000 in a key is refused, or read as a text that stands for it; in a value it stays. */
START_TEST(nul_in_keys)
{
    const char *text = "{\"a\\u0000\\\\u0000\" : {\"\\u0000\":\"b\\u0000\"},\"n\":1e999}";
    mf_json *doc = NULL;
    ck_assert_int_eq(mf_json_parse("j", text, strlen(text), &doc), MF_EINPUT);
    ck_assert_msg(strstr(mf_error_message(), "j:1:"), "%s", mf_error_message());
    ck_assert_int_eq(mf_json_parse_nul("j", text, strlen(text), &doc), MF_OK);
    size_t n;
    const char *key;
    const mf_json *v;
    ck_assert(mf_json_member(doc, 0, &key, &v));
    ck_assert_str_eq(key, "a" MF_JSON_NUL "\\u0000");
    ck_assert(mf_json_member(v, 0, &key, &v));
    ck_assert_str_eq(key, MF_JSON_NUL);
    ck_assert(mf_json_string(v, &n) && n == 2);
    ck_assert_int_eq(mf_json_typeof(mf_json_get(doc, "n")), MF_JSON_REAL);
    mf_json_free(doc);
}
END_TEST

/* Every accessor can be called with every type of value, and with NULL. */
START_TEST(wrong_questions)
{
    mf_json *doc = parse("[null,true,1,2.5,\"s\",[1],{\"k\":1}]");
    for (size_t k = 0; k <= 7; k++) {
        const mf_json *v = mf_json_at(doc, k), *x;
        const char *key;
        double r;
        int64_t i;
        bool b;
        ck_assert_int_eq(mf_json_typeof(v), k == 7 ? MF_JSON_NULL : (mf_json_type)k);
        ck_assert_int_eq(mf_json_bool(v, &b), k == 1);
        ck_assert_int_eq(mf_json_int(v, &i), k == 2);
        ck_assert_int_eq(mf_json_real(v, &r), k == 2 || k == 3);
        ck_assert_int_eq(mf_json_string(v, NULL) != NULL, k == 4);
        ck_assert_int_eq(mf_json_at(v, 0) != NULL, k == 5);
        ck_assert_int_eq(mf_json_get(v, "k") != NULL, k == 6);
        ck_assert_int_eq(mf_json_member(v, 0, &key, &x), k == 6);
        ck_assert_uint_eq(mf_json_size(v), k == 5 || k == 6);
    }
    mf_json_free(doc);
}
END_TEST

START_TEST(bad_documents)
{
    static const char *const table[][2] = {
        {"", "j:1:0: bad JSON: "},
        {"{", "j:1:1: bad JSON: "},
        {"{\"a\":1,\"a\":2}", "bad JSON: duplicate object key"},
        {"[1,2,]", "j:1:6: bad JSON: "},
        {"[1]\n\nx", "j:3:1: bad JSON: end of file expected"},
        {"{\n\"a\" 1}", "j:2:5: bad JSON: "},
        {"[01]", "bad JSON: "},
        {"[1e999, 01]", "j:1:9: bad JSON: "},
        {"[9223372036854775808,]", "j:1:22: bad JSON: "},
        {"[NaN1]", "bad JSON: "},
        {"[1NaN]", "bad JSON: "},
        {"[1.1e400.1]", "bad JSON: "},
        {"[Inf]", "bad JSON: "},
        {"[+Infinity]", "bad JSON: "},
        {"{Infinity: 1}", "bad JSON: "},
        {"[\"\xFF\"]", "bad JSON: "},
        {"[\"\\ud800\"]", "bad JSON: "},
        {"[\"a\nb\"]", "bad JSON: "},
        {"1", "bad JSON: '[' or '{' expected"},
        {"[//c\n1]", "bad JSON: "},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_json *doc = NULL;
        ck_assert_int_eq(mf_json_parse("j", table[i][0], strlen(table[i][0]), &doc), MF_EINPUT);
        ck_assert_ptr_null(doc);
        ck_assert_msg(strstr(mf_error_message(), table[i][1]) != NULL, "'%s' has no '%s'",
                      mf_error_message(), table[i][1]);
    }
    mf_json *doc = NULL;
    ck_assert_int_eq(mf_json_parse("j", "[\x1b[31m]", 7, &doc), MF_EINPUT);
    /* the message must not contain escape sequences, which a terminal would obey */
    ck_assert_ptr_null(strchr(mf_error_message(), '\x1b'));
}
END_TEST

/* Files contain numbers out of range in members that are not needed: 1e30 means "no limit"
 * in transformers. */
START_TEST(numbers_beyond_their_types)
{
    static const struct {
        const char *text;
        double value; /* 0: the number cannot be read */
    } table[] = {{"9223372036854775807", 9223372036854775807.0},
                 {"9223372036854775808", 9223372036854775808.0},
                 {"-9223372036854775809", -9223372036854775808.0},
                 {"1000000000000000019884624838656", 1e30},
                 {"123456789012345678901234567890e-10", 12345678901234567890.123456789},
                 {"0.30000000000000000000000000000001", 0.3},
                 {"1e-400", 0},
                 {"1e400", 0},
                 {"-2E+999", 0},
                 {"NaN", 0},
                 {"Infinity", 0},
                 {"-Infinity", 0}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[256];
        double before, value = -1, after;
        int64_t whole;
        /* Numbers are on both sides of a string, in the order of the file. Digits in strings do
         * not count. */
        snprintf(
            text, sizeof text,
            "{\"z\": 1.5, \"1e400\": \"9 Infinity \\\" 1\", \"y\": [%s, 2, {\"x\":%s}], \"a\": "
            "2.5}",
            table[i].text, table[i].text);
        mf_json *doc = parse(text);
        const mf_json *list = mf_json_get(doc, "y");
        ck_assert(mf_json_real(mf_json_get(doc, "z"), &before) && before == 1.5);
        ck_assert(mf_json_real(mf_json_get(doc, "a"), &after) && after == 2.5);
        ck_assert(mf_json_int(mf_json_at(list, 1), &whole) && whole == 2);
        const mf_json *same[] = {mf_json_at(list, 0), mf_json_get(mf_json_at(list, 2), "x")};
        for (int k = 0; k < 2; k++) {
            ck_assert_int_eq(mf_json_typeof(same[k]), i == 0 ? MF_JSON_INT : MF_JSON_REAL);
            ck_assert(mf_json_int(same[k], &whole) == (i == 0));
            const bool given = mf_json_real(same[k], &value);
            ck_assert_msg(given == (i < 7) && (!given || value == table[i].value), "%s: %g",
                          table[i].text, value);
        }
        mf_json_free(doc);
    }
}
END_TEST

START_TEST(depth_is_capped)
{
    for (int depth = 31; depth <= 34; depth++) {
        char text[100] = "";
        mf_json *doc = NULL;
        for (int i = 0; i < depth; i++)
            strcat(text, "[");
        for (int i = 0; i < depth; i++)
            strcat(text, "]");
        int rc = mf_json_parse("j", text, strlen(text), &doc);
        ck_assert_int_eq(rc, depth <= 32 ? MF_OK : MF_EINPUT);
        if (rc == MF_OK)
            mf_json_free(doc);
        else
            ck_assert_ptr_nonnull(strstr(mf_error_message(), "deep: expected at most 32"));
    }
    /* Brackets in strings are text. */
    mf_json_free(parse("[\"[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[[[[[[\\\\\",\"]\"]"));
}
END_TEST

START_TEST(size_is_capped)
{
    size_t n = (size_t)MF_JSON_SIZE_MAX + 1;
    char *text = malloc(n);
    mf_json *doc = NULL;
    memset(text, ' ', n);
    ck_assert_int_eq(mf_json_parse("j", text, n, &doc), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "expected at most 67108864"));
    free(text);
}
END_TEST

START_TEST(nul_in_strings)
{
    mf_json *doc = parse("[\"a\\u0000b\"]");
    size_t n;
    ck_assert_int_eq(memcmp(mf_json_string(mf_json_at(doc, 0), &n), "a\0b", 4), 0);
    ck_assert_uint_eq(n, 3);
    ck_assert_ptr_null(mf_json_string(mf_json_at(doc, 0), NULL));
    mf_json_free(doc);
}
END_TEST

/* Large objects keep the order of the file, and every key is found. */
START_TEST(many_members)
{
    enum { N = 5000 };
    char *text = malloc(N * 32), *s = text;
    s += sprintf(s, "{");
    for (unsigned i = 0; i < N; i++)
        s += sprintf(s, "%s\"k%u\":%u", i ? "," : "", i * 7919 % N, i);
    sprintf(s, "}");
    mf_json *doc = parse(text);
    ck_assert_uint_eq(mf_json_size(doc), N);
    for (unsigned i = 0; i < N; i++) {
        char want[16];
        const char *key;
        const mf_json *v;
        int64_t x;
        sprintf(want, "k%u", i * 7919 % N);
        ck_assert(mf_json_member(doc, i, &key, &v));
        ck_assert_str_eq(key, want);
        ck_assert(mf_json_int(mf_json_get(doc, want), &x) && x == i);
    }
    ck_assert_ptr_null(mf_json_get(doc, "k"));
    ck_assert_ptr_null(mf_json_get(doc, "zzz"));
    ck_assert_ptr_null(mf_json_get(doc, ""));
    mf_json_free(doc);
    free(text);
}
END_TEST

START_TEST(integers_to_the_ends)
{
    mf_json *doc = parse("[9223372036854775807,-9223372036854775808,9007199254740993]");
    int64_t i;
    ck_assert(mf_json_int(mf_json_at(doc, 0), &i) && i == INT64_MAX);
    ck_assert(mf_json_int(mf_json_at(doc, 1), &i) && i == INT64_MIN);
    ck_assert(mf_json_int(mf_json_at(doc, 2), &i) && i == 9007199254740993); /* above 2^53 */
    mf_json_free(doc);
}
END_TEST

START_TEST(written_text)
{
    mf_jw *w = mf_jw_new();
    size_t n;
    mf_jw_object(w);
    mf_jw_kv_string(w, "s", "q\"b\\/\b\f\n\r\t\x01\x1f\x7f\xC2\x9B z\xC3\xA4");
    mf_jw_kv_int(w, "i", INT64_MIN);
    mf_jw_kv_real(w, "r", 0.1);
    mf_jw_kv_bool(w, "b", false);
    mf_jw_key(w, "a");
    mf_jw_array(w);
    mf_jw_null(w);
    mf_jw_float(w, 0.1f);
    mf_jw_real(w, NAN);
    mf_jw_real(w, -INFINITY);
    mf_jw_float(w, INFINITY);
    mf_jw_object(w);
    mf_jw_end(w);
    mf_jw_array(w);
    mf_jw_end(w);
    mf_jw_bool(w, true);
    mf_jw_end(w);
    mf_jw_key(w, "\"");
    mf_jw_string_n(w, "\0x", 2);
    mf_jw_end(w);
    const char *want = "{\"s\":\"q\\\"b\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u009b "
                       "z\xC3\xA4\",\"i\":-9223372036854775808,\"r\":0.1,\"b\":false,"
                       "\"a\":[null,0.1,null,null,null,{},[],true],\"\\\"\":\"\\u0000x\"}";
    ck_assert_str_eq(mf_jw_text(w, &n), want);
    ck_assert_uint_eq(n, strlen(want));
    mf_json *doc = parse(mf_jw_text(w, NULL));
    ck_assert_str_eq(mf_json_string(mf_json_get(doc, "s"), NULL),
                     "q\"b\\/\b\f\n\r\t\x01\x1f\x7f\xC2\x9B z\xC3\xA4");
    mf_json_free(doc);
    mf_jw_reset(w);
    mf_jw_int(w, 7);
    ck_assert_str_eq(mf_jw_text(w, NULL), "7");
    mf_jw_free(w);
    mf_jw_free(NULL);
}
END_TEST

/* Invalid UTF-8 in strings must not lead to a file that readers refuse. */
START_TEST(bad_bytes_become_marks)
{
    static const char *const table[][2] = {{"a\xFFz", "\"a\\ufffdz\""},
                                           {"\xC3", "\"\\ufffd\""},
                                           {"\xE2\x82", "\"\\ufffd\\ufffd\""},
                                           {"\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
                                           {"\xC0\x80", "\"\\ufffd\\ufffd\""}};
    mf_jw *w = mf_jw_new();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_jw_reset(w);
        mf_jw_string(w, table[i][0]);
        ck_assert_str_eq(mf_jw_text(w, NULL), table[i][1]);
    }
    mf_jw_free(w);
}
END_TEST

static void value_without_key(mf_jw *w)
{
    mf_jw_object(w);
    mf_jw_int(w, 1);
    mf_jw_end(w);
}

static void key_without_value(mf_jw *w)
{
    mf_jw_object(w);
    mf_jw_key(w, "k");
    mf_jw_end(w);
}

static void key_in_array(mf_jw *w)
{
    mf_jw_array(w);
    mf_jw_key(w, "k");
    mf_jw_int(w, 1);
    mf_jw_end(w);
}

static void key_twice(mf_jw *w)
{
    mf_jw_object(w);
    mf_jw_key(w, "k");
    mf_jw_key(w, "l");
}

static void not_closed(mf_jw *w)
{
    mf_jw_array(w);
}

static void closed_twice(mf_jw *w)
{
    mf_jw_array(w);
    mf_jw_end(w);
    mf_jw_end(w);
}

static void two_values(mf_jw *w)
{
    mf_jw_int(w, 1);
    mf_jw_int(w, 2);
}

static void nothing(mf_jw *w)
{
    (void)w;
}

static void too_deep(mf_jw *w)
{
    for (int i = 0; i <= MF_JSON_DEPTH_MAX; i++)
        mf_jw_array(w);
    for (int i = 0; i <= MF_JSON_DEPTH_MAX; i++)
        mf_jw_end(w);
}

START_TEST(writer_misuse)
{
    static void (*const table[])(mf_jw *) = {value_without_key, key_without_value, key_in_array,
                                             key_twice,         not_closed,        closed_twice,
                                             two_values,        nothing,           too_deep};
    mf_jw *w = mf_jw_new();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mf_jw_reset(w);
        mf_error_clear();
        table[i](w);
        ck_assert_msg(!mf_jw_text(w, NULL), "case %zu", i);
        ck_assert_int_eq(mf_error_code(), MF_EINVAL);
        mf_fail(MF_EIO, "another error"); /* another error, which must not hide the
                                           * writer's error */
        ck_assert_ptr_null(mf_jw_text(w, NULL));
        ck_assert_int_eq(mf_error_code(), MF_EINVAL);
        ck_assert_ptr_nonnull(strstr(mf_error_message(), "JSON writer: "));
        mf_jw_reset(w); /* after a reset the writer can be used again */
        mf_jw_bool(w, true);
        ck_assert_str_eq(mf_jw_text(w, NULL), "true");
    }
    mf_jw_free(w);
}
END_TEST

static int work(void)
{
    mf_jw *w = mf_jw_new();
    mf_json *doc = NULL;
    size_t n;
    const char *text;
    int rc = MF_ENOMEM;
    if (!w) return rc;
    mf_jw_array(w);
    for (int i = 0; i < 200; i++) {
        mf_jw_object(w);
        for (int k = 0; k < 12; k++) {
            char key[16];
            snprintf(key, sizeof key, "k%d", k);
            mf_jw_kv_real(w, key, i / 7.0 + k);
        }
        mf_jw_end(w);
    }
    mf_jw_end(w);
    text = mf_jw_text(w, &n);
    rc = text ? mf_json_parse("j", text, n, &doc) : mf_error_code();
    if (rc == MF_OK) {
        double r = 0;
        ck_assert(mf_json_real(mf_json_get(mf_json_at(doc, 199), "k11"), &r));
        ck_assert(r == 199 / 7.0 + 11);
    }
    mf_json_free(doc);
    mf_jw_free(w);
    return rc;
}

START_TEST(without_memory)
{
    for (int form = FAULT_ONCE; form <= FAULT_FROM; form++)
        for (long n = 1;; n++) {
            mf_error_clear();
            fault_alloc(n, (fault_form)form);
            int rc = work();
            bool hit = fault_hit();
            fault_off();
            ck_assert_int_eq(fault_alloc_live(), 0);
            ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
            ck_assert_int_eq(mf_error_code(), rc);
            if (!hit) {
                ck_assert_int_gt(n, 15);
                break;
            }
        }
}
END_TEST

/* Tokens that are too long for memory. jansson's scanner would lose characters of a long token,
 * or end the process. */
START_TEST(tokens_that_memory_does_not_hold)
{
    enum { LONG = 20000 };
    static char text[LONG + 64];
    mf_json *doc = NULL;
    double r = 0;
    bool hit = true;
    for (int number = 0; number <= 1; number++)
        for (long n = 1;; n++) {
            const int before = snprintf(text, sizeof text, number ? "[1." : "[\"");
            memset(text + before, '1', LONG);
            snprintf(text + before + LONG, 8, number ? "]" : "\"]");
            fault_alloc(n, FAULT_ONCE);
            const int rc = mf_json_parse("j", text, strlen(text), &doc);
            hit = fault_hit();
            fault_off();
            ck_assert_int_eq(rc, hit ? MF_ENOMEM : MF_OK);
            if (hit) continue;
            ck_assert(number ? mf_json_real(mf_json_at(doc, 0), &r) && r > 1.11 && r < 1.12
                             : strlen(mf_json_string(mf_json_at(doc, 0), NULL)) == LONG);
            mf_json_free(doc);
            ck_assert_int_gt(n, 8);
            break;
        }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("json");
    TCase *c = tcase_create("json");
    tcase_add_test(c, values);
    tcase_add_test(c, nul_in_keys);
    tcase_add_test(c, wrong_questions);
    tcase_add_test(c, bad_documents);
    tcase_add_test(c, numbers_beyond_their_types);
    tcase_add_test(c, depth_is_capped);
    tcase_add_test(c, size_is_capped);
    tcase_add_test(c, nul_in_strings);
    tcase_add_test(c, many_members);
    tcase_add_test(c, integers_to_the_ends);
    tcase_add_test(c, written_text);
    tcase_add_test(c, bad_bytes_become_marks);
    tcase_add_test(c, writer_misuse);
    tcase_add_test(c, without_memory);
    tcase_add_test(c, tokens_that_memory_does_not_hold);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
