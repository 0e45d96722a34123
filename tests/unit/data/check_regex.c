/* regex: the regular expressions of pre-tokenizers. Expected words are those of the package
 * tokenizers 0.23 for Split with "Isolated"; [x] is a match, other text lies between two. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/tokenizer/regex/regex.h"
#include "io/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static mf_regex *regex(const char *text)
{
    mf_regex *r;
    ck_assert_msg(mf_regex_new("x", text, strlen(text), &r) == MF_OK, "%s", mf_error_message());
    return r;
}

/* Writes a text with its matches in brackets. */
static void mark(mf_regex_scan *s, const char *text, size_t n, char *out, size_t room)
{
    size_t at = 0, begin, end, k = 0;
    bool found = true;
    ck_assert_int_eq(mf_regex_scan_begin(s, text, n), MF_OK);
    while (found) {
        ck_assert_int_eq(mf_regex_scan_next(s, &begin, &end, &found), MF_OK);
        if (!found) begin = end = n;
        ck_assert(begin >= at && end >= begin && end <= n && k + n + 4 < room);
        memcpy(out + k, text + at, begin - at);
        k += begin - at;
        if (found) {
            out[k++] = '[';
            memcpy(out + k, text + begin, end - begin);
            k += end - begin;
            out[k++] = ']';
        }
        at = end;
    }
    out[k] = '\0';
}

static void matches(const char *pattern, const char *text, const char *expected)
{
    char out[1024];
    mf_regex *r = regex(pattern);
    mf_regex_scan *s;
    ck_assert_int_eq(mf_regex_scan_new(r, &s), MF_OK);
    mark(s, text, strlen(text), out, sizeof out);
    ck_assert_msg(strcmp(out, expected) == 0, "%s on \"%s\": \"%s\", expected \"%s\"", pattern,
                  text, out, expected);
    mf_regex_scan_free(s);
    mf_regex_free(r);
}

START_TEST(constructs)
{
    static const char *const table[][3] = {
        {"a|ab", "abaab", "[a]b[a][a]b"},
        {"ab|a", "abaab", "[ab][a][ab]"},
        {"a*?b", "aab", "[aab]"},
        {"a{2,3}?", "aaaaa", "[aa][aa]a"},
        {"a{,2}b", "aaab", "a[aab]"},
        {"a{2}?", "aaaaab", "[aa][aa]a[]b[]"},
        {"(?:a|bc)+", "abcxbca", "[abc]x[bca]"},
        {"x*", "axxb", "[]a[xx]b[]"},
        {"\\p{N}{1,3}+", "1234567a12", "[1234567]a[12]"},
        {"a++b|a", "aab aa", "[aab] [a][a]"},
        {"[ab]*+b|a", "abab", "[a]b[a]b"},
        {"a?+a|b", "aab", "[aa][b]"},
        {"(?>a+)b", "aab", "[aab]"},
        {"\\s+(?!\\S)|\\s+", "a   b ", "a[  ][ ]b[ ]"},
        {"a(?=b1)", "ab1 ab", "[a]b1 ab"},
        {"\\d{1,3}(?=(?:\\d{3})*(?!\\d))", "1234567", "[1][234][567]"},
        {"(?<=a)b", "abcb", "a[b]cb"},
        {"(?<!a)b", "abcb", "abc[b]"},
        {"\\bab\\b", "ab cab ab", "[ab] cab [ab]"},
        {"a\\B", "ab a", "[a]b a"},
        {"^a", "aa\na\n", "[a]a\n[a]\n"},
        {"\\s++$", "ab  \n cd \n\n", "ab  \n cd[ \n\n]"},
        {"a$", "a\nba", "[a]\nb[a]"},
        {"\\Aa", "aa", "[a]a"},
        {"a\\Z", "ba\n", "b[a]\n"},
        {"a\\z", "ba\na", "ba\n[a]"},
        {"(?i:'s|'ll)", "it's IT'S we'LL '\xC5\xBF", "it['s] IT['S] we['LL] ['\xC5\xBF]"},
        {"(?i)abc|d", "ABCD", "[ABC][D]"},
        {"(?i:a)(?-i:b)b", "Abb aBb", "[Abb] aBb"},
        {"(?m:a.)", "a\n", "[a\n]"},
        {"a.", "a\nab", "a\n[ab]"},
        {"[a-c&&b-d]+", "abcd", "a[bc]d"},
        {"[a&&[^b]c]", "abc", "[a]bc"},
        {"[^a&&b]", "ab", "[a][b]"},
        {"[[:space:]x]", "a x", "a[ ][x]"},
        {"[]a]+", "]ab", "[]a]b"},
        {"[a\\-z]+", "a-mz", "[a-]m[z]"},
        {"[^\\S\\n]+", " \n\t", "[ ]\n[\t]"},
        {"\\p{Han}+", "a\xE6\xBC\xA2\xE5\xAD\x97\xE3\x81\x8B",
         "a[\xE6\xBC\xA2\xE5\xAD\x97]\xE3\x81\x8B"},
        {"[\\p{L}&&\\p{Latin}]+", "a\xCE\xB2", "[a]\xCE\xB2"},
        {"\\p{^L}+|\\P{Lu}", "1a", "[1][a]"},
        {"\\x41\\u0042\\x{43}", "ABC", "[ABC]"},
        {"\\h+", "xfA9g", "x[fA9]g"},
        {"a{x", "a{x", "[a{x]"},
        {"(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"", "ab", "[]a[]b[]"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        matches(table[i][0], table[i][1], table[i][2]);
}
END_TEST

/* Expressions that are exponential, or quadratic over all matches, for programs that try one
 * alternative after another. The number of steps is proportional to the length of the text. */
START_TEST(steps_are_linear)
{
    static const char *const patterns[] = {"(a*)*b", "(?:a|a)*b",     "(?:a|aa)+$",
                                           "a*b|a",  "(a?){30}a{30}", "(?=(?:a|a)*b)a|a"};
    static char text[400001];
    memset(text, 'a', sizeof text - 1);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        uint64_t steps[2];
        for (int k = 0; k < 2; k++) {
            const size_t n = k ? 400000 : 40000;
            mf_regex *r = regex(patterns[i]);
            mf_regex_scan *s;
            size_t begin, end;
            bool found = true;
            ck_assert_int_eq(mf_regex_scan_new(r, &s), MF_OK);
            mf_regex_scan_begin(s, text, n);
            while (found)
                ck_assert_int_eq(mf_regex_scan_next(s, &begin, &end, &found), MF_OK);
            steps[k] = mf_regex_scan_steps(s);
            mf_regex_scan_free(s);
            mf_regex_free(r);
        }
        ck_assert_msg(steps[1] < 6 * 400000, "%s: %llu steps", patterns[i],
                      (unsigned long long)steps[1]);
        ck_assert_msg(steps[1] <= 10 * steps[0], "%s: %llu and %llu steps", patterns[i],
                      (unsigned long long)steps[0], (unsigned long long)steps[1]);
    }
}
END_TEST

/* A text of more than one block, and an expression with so many sets of nodes that blocks
 * become short: the matches are those of the parts between which no match can extend. */
START_TEST(long_texts)
{
    static const char *const patterns[] = {"[ab]{20}a[ab]*\n", "(?:[ab]*a[ab]{14}|[^\\n])\n",
                                           "(?<=a)b+|(?<!b)[^\\n]|\xC3\xA9"};
    enum { N = 3 << 20 };
    char *text = malloc(N), *whole = malloc(5 * (size_t)N), *parts = malloc(5 * (size_t)N);
    ck_assert(text && whole && parts);
    uint32_t state = 1;
    for (size_t i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        const uint32_t r = state >> 20;
        text[i] = r % 80 == 0 ? '\n' : r % 2 ? 'a' : 'b';
        if (r % 50 == 7 && i + 1 < N) {
            text[i++] = '\xC3';
            text[i] = '\xA9';
        }
    }
    text[N - 1] = '\n';
    for (size_t p = 0; p < 3; p++) {
        mf_regex *r = regex(patterns[p]);
        mf_regex_scan *s, *short_one;
        ck_assert_int_eq(mf_regex_scan_new(r, &s), MF_OK);
        ck_assert_int_eq(mf_regex_scan_new(r, &short_one), MF_OK);
        mark(s, text, N, whole, 5 * (size_t)N);
        size_t k = 0;
        for (size_t at = 0, end; at < N; at = end) {
            end = (size_t)((char *)memchr(text + at, '\n', N - at) - text) + 1;
            mark(short_one, text + at, end - at, parts + k, 5 * (size_t)N - k);
            k += strlen(parts + k);
        }
        ck_assert_str_eq(whole, parts);
        mf_regex_scan_free(s);
        mf_regex_scan_free(short_one);
        mf_regex_free(r);
    }
    free(text);
    free(whole);
    free(parts);
}
END_TEST

/* Each character has a set of its own: whether the expression can go on there depends on the
 * next 1,000 characters. There are more sets than the tables hold. */
START_TEST(more_sets_than_fit)
{
    enum { N = 12000, AHEAD = 1000 };
    static char text[N + 1];
    mf_regex *r = regex("(?=(?:a|b){1000}a)a");
    mf_regex_scan *s;
    size_t begin, end, at = 0;
    bool found = true;
    uint32_t state = 1;
    for (size_t i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        text[i] = state >> 20 & 1 ? 'a' : 'b';
    }
    ck_assert_int_eq(mf_regex_scan_new(r, &s), MF_OK);
    ck_assert_int_eq(mf_regex_scan_begin(s, text, N), MF_OK);
    for (;;) {
        ck_assert_int_eq(mf_regex_scan_next(s, &begin, &end, &found), MF_OK);
        while (at + AHEAD < N && (text[at] != 'a' || text[at + AHEAD] != 'a'))
            at++;
        ck_assert_int_eq(found, at + AHEAD < N);
        if (!found) break;
        ck_assert_uint_eq(begin, at);
        ck_assert_uint_eq(end, ++at);
    }
    mf_regex_scan_free(s);
    mf_regex_free(r);
}
END_TEST

/* Loops in loops, with a new set at each character: a set takes each node a few times only. */
START_TEST(loops_in_loops)
{
    enum { DEEP = 58, N = 2000 };
    static char expression[8192], text[N + 1];
    strcpy(expression, "(?=");
    for (int i = 0; i < DEEP; i++)
        strcat(expression, "(?:");
    strcat(expression, "a|b");
    for (int i = 0; i < DEEP; i++)
        strcat(expression, "*********)");
    strcat(expression, "(?:a|b){400}a)a");
    for (size_t i = 0; i < N; i++)
        text[i] = i % 7 < 3 || i % 11 == 0 ? 'a' : 'b';
    mf_regex *r = regex(expression);
    mf_regex_scan *s;
    size_t begin, end, n = 0, expected = 0;
    bool found = true;
    ck_assert_int_eq(mf_regex_scan_new(r, &s), MF_OK);
    ck_assert_int_eq(mf_regex_scan_begin(s, text, N), MF_OK);
    for (; found; n += found)
        ck_assert_int_eq(mf_regex_scan_next(s, &begin, &end, &found), MF_OK);
    for (size_t i = 0, last = N; i < N; i++) { /* an a 400 or more characters behind it */
        for (last = N; last > i + 400 && text[last - 1] != 'a';)
            last--;
        expected += text[i] == 'a' && last > i + 400;
    }
    ck_assert_uint_eq(n, expected);
    ck_assert_uint_lt(mf_regex_scan_steps(s), (uint64_t)N * 5000);
    mf_regex_scan_free(s);
    mf_regex_free(r);
}
END_TEST

/* Returns the processor time of reading a class of n characters of three bytes, two apart, the
 * shortest of three. */
static double seconds_of_class(size_t n, mf_regex **ret)
{
    static char text[MF_REGEX_TEXT];
    size_t size = 0;
    double least = 1e9;
    text[size++] = '[';
    for (size_t i = 0; i < n; i++)
        size += mf_unicode_write((uint32_t)(0x800 + 2 * i), text + size);
    text[size++] = ']';
    *ret = NULL;
    for (int i = 0; i < 3; i++) {
        const clock_t begin = clock();
        mf_regex_free(*ret);
        ck_assert_int_eq(mf_regex_new("x", text, size, ret), MF_OK);
        const double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
        least = took < least ? took : least;
    }
    return least;
}

/* Four times as many ranges take four times as long, not sixteen times. */
START_TEST(classes_of_many_ranges)
{
    mf_regex *few, *many;
    const double short_time = seconds_of_class(5000, &few),
                 long_time = seconds_of_class(20000, &many);
    ck_assert_double_lt(long_time, 8 * short_time);
    for (size_t i = 4997; i < 5003; i++) {
        char text[4];
        size_t begin, end;
        const size_t n = mf_unicode_write((uint32_t)(0x800 + i), text);
        for (int k = 0; k < 2; k++) {
            mf_regex_scan *s;
            bool found;
            ck_assert_int_eq(mf_regex_scan_new(k ? many : few, &s), MF_OK);
            ck_assert_int_eq(mf_regex_scan_begin(s, text, n), MF_OK);
            ck_assert_int_eq(mf_regex_scan_next(s, &begin, &end, &found), MF_OK);
            ck_assert_int_eq(found, i % 2 == 0);
            mf_regex_scan_free(s);
        }
    }
    mf_regex_free(few);
    mf_regex_free(many);
    matches("[b-dx\\dm-za-c]+", "abcdefmwxyz12", "[abcd]ef[mwxyz12]");
}
END_TEST

START_TEST(refusals)
{
    static const char *const table[][2] = {
        {"(a", "byte 0: a group without )"},
        {"a)", "byte 1: a ) without ("},
        {"[a", "byte 0: a class without ]"},
        {"*a", "byte 0: a quantifier with nothing before it"},
        {"(?=a)*", "a quantifier behind an anchor"},
        {"(ab)++", "byte 4: a possessive quantifier: expected it behind one character"},
        {"(?>a|ab)c", "an atomic group: expected one character"},
        {"(?<=ab)c", "look-behind: expected one character"},
        {"(a)\\1", "an escape that is not supported"},
        {"\\X", "an escape that is not supported"},
        {"(?x: a)", "a group: expected (X), (?:X)"},
        {"a(?i)b", "flags: expected them at the beginning of a group"},
        {"(?i:\xC3\xA9)", "(?i): expected letters of ASCII"},
        {"(?i:\\p{Lu})", "(?i) with a property of one case"},
        {"(?i:[a&&b])", "(?i) with an intersection"},
        {"\\pL", "expected a property, \\p{NAME}"},
        {"\\p{L", "a property without }"},
        {"\\p{Grek}", "property \"grek\": expected a category such as Lu, or a script; the "
                      "nearest is greek"},
        {"[z-a]", "expected the lower character first"},
        {"[a-\\d]", "a range: expected a character at its end"},
        {"[[:foo:]]", "expected [:space:], [:word:] or [:digit:]"},
        {"a{3,2}", "expected the smaller number of repetitions first"},
        {"a{1001}", "at most 1000 repetitions"},
        {"(a{1000}){1000}", "more than 4096 nodes"},
        {"((((((){1000}){1000}){1000}){1000}){1000}){1000}", "too many repetitions"},
        {"a{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}{1}", "too many quantifiers"},
        {"\\xg", "expected \\xHH"},
        {"\\x{110000}", "expected \\xHH"},
        {"a\\", "expected a further character"},
    };
    mf_regex *r;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ck_assert_int_eq(mf_regex_new("x", table[i][0], strlen(table[i][0]), &r), MF_EINPUT);
        ck_assert_msg(strstr(mf_error_message(), table[i][1]) != NULL && !r, "%s: %s",
                      table[i][0], mf_error_message());
    }
    /* limits: depth, number of sets, length */
    static char deep[200], many[4000], wide[MF_REGEX_TEXT + 2];
    memset(deep, '(', 100);
    ck_assert_int_eq(mf_regex_new("x", deep, 100, &r), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "groups are nested too deeply"));
    memset(deep, '[', 100);
    ck_assert_int_eq(mf_regex_new("x", deep, 100, &r), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "classes are nested too deeply"));
    size_t n = 0;
    for (int i = 0; i < 300; i++)
        n += (size_t)snprintf(many + n, sizeof many - n, "\\u%04x", 0x4e00 + i);
    ck_assert_int_eq(mf_regex_new("x", many, n, &r), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "at most 240 different characters"));
    n = 0;
    wide[n++] = '[';
    for (uint32_t i = 0; i < 9000; i++) {
        n += mf_unicode_write(0x800 + 2 * i, wide + n);
        n += (size_t)sprintf(wide + n, "\\S");
    }
    wide[n++] = ']';
    ck_assert_int_eq(mf_regex_new("x", wide, n, &r), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "classes with 18001 ends of ranges and"));
    memset(wide, 'a', sizeof wide);
    ck_assert_int_eq(mf_regex_new("x", wide, MF_REGEX_TEXT + 1, &r), MF_EINPUT);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "an expression of 65537 bytes"));
}
END_TEST

/* Expressions that end anywhere, in memory of their size alone: nothing behind the end is read,
 * which AddressSanitizer sees, and the answer is a message or a program. */
START_TEST(expressions_that_end_early)
{
    static const char *const table[] = {
        "[^\\r\\n\\p{L}A-\\x61&&[[:space:]-]]{1,3}+|(?i:s)|\\u00e9",
        "(?<!\\S)(?>a*)(?m:^.$)\\b\\Z", "[a-\xC3\xA9\\P{^Han}]++(?=\xE4\xB8\xAD)"};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t n = 0; n <= strlen(table[i]); n++) {
            mf_regex *r;
            char *text = mf_memdup(table[i], n > 0 ? n : 1);
            const int rc = mf_regex_new("input", text, n, &r);
            ck_assert_msg(rc == MF_OK || (rc == MF_EINPUT && !r &&
                                          strncmp(mf_error_message(), "input: ", 7) == 0),
                          "%.*s: %s", (int)n, text, mf_error_message());
            ck_assert_msg(rc == MF_OK || n < strlen(table[i]), "%s", mf_error_message());
            mf_regex_free(r);
            mf_free(text);
        }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("regex");
    TCase *c = tcase_create("regex");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, constructs);
    tcase_add_test(c, steps_are_linear);
    tcase_add_test(c, long_texts);
    tcase_add_test(c, more_sets_than_fit);
    tcase_add_test(c, loops_in_loops);
    tcase_add_test(c, classes_of_many_ranges);
    tcase_add_test(c, refusals);
    tcase_add_test(c, expressions_that_end_early);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN(suite)
