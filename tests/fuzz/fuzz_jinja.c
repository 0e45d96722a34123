/* fuzz_jinja: the input up to its first NUL is a template; the rest is the content of a
 * message. What is read is rendered twice, with the same result. The output is valid UTF-8,
 * and what {% generation %} encloses lies in it, in order. Limits are far below those of the
 * program, since a loop in a loop would take the time of a thousand other inputs. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/jinja/jinja.h"

#include <string.h>

const char *const fuzz_words[] = {"{% for m in messages %}",
                                  "{% endfor %}",
                                  "{% if ",
                                  "{% endif %}",
                                  "{% set x = ",
                                  "{% set ns = namespace(a=1) %}",
                                  "{% macro m(a) %}",
                                  "{% endmacro %}",
                                  "{% generation %}",
                                  "{% endgeneration %}",
                                  "{{ ",
                                  " }}",
                                  "{%- ",
                                  " -%}",
                                  "m.role",
                                  "m['content']",
                                  "loop.index",
                                  " | trim",
                                  " | tojson",
                                  " is defined",
                                  " | map(attribute='role')",
                                  ".split('a')",
                                  "[1:]",
                                  "[::-1]",
                                  " ~ ",
                                  " in ",
                                  "'\\u00e9'",
                                  "range(9)",
                                  NULL};

static int render(const mf_jinja *j, const mf_json *messages, mf_jinja_result *r)
{
    static const struct tm now = {.tm_year = 126, .tm_mday = 2};
    static const mf_jinja_limits limits = {.steps = 5000, .output = 65536, .memory = 262144};
    const mf_jinja_variable v[] = {
        {.name = "messages", .value = messages, .is_messages = true},
        {.name = "add_generation_prompt", .is_bool = true, .boolean = true},
        {.name = "bos_token", .text = "<s>"}};
    return mf_jinja_render_within(j, v, 3, &now, &limits, r);
}

static void use(const mf_jinja *j, const char *content, size_t n)
{
    mf_jinja_result a, b;
    size_t size, last = 0;
    mf_json *messages;
    mf_jw *w = mf_jw_new();
    FUZZ_REQUIRE(w);
    mf_jw_array(w);
    for (int i = 0; i < 2; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "role", i ? "assistant" : "user");
        mf_jw_key(w, "content");
        mf_jw_string_n(w, content, n);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &size);
    FUZZ_REQUIRE(text && mf_json_parse("messages", text, size, &messages) == MF_OK);
    mf_jw_free(w);
    const int rc = render(j, messages, &a), again = render(j, messages, &b);
    FUZZ_REQUIRE(rc == again && (rc == MF_OK || rc == MF_EINPUT));
    if (rc == MF_OK) {
        FUZZ_REQUIRE(a.n == b.n && memcmp(a.text, b.text, a.n) == 0 && a.text[a.n] == '\0');
        FUZZ_REQUIRE(mf_utf8_check(a.text, a.n) == a.n);
        for (size_t i = 0; i < a.n_answers; i++) {
            FUZZ_REQUIRE(a.answer[i].begin <= a.answer[i].end && a.answer[i].end <= a.n);
            FUZZ_REQUIRE(a.answer[i].end >= last);
            last = a.answer[i].end;
        }
    }
    mf_free(a.text);
    mf_free(a.answer);
    mf_free(b.text);
    mf_free(b.answer);
    mf_json_free(messages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *all = (const char *)data, *nul = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t n = nul ? (size_t)(nul - all) : size;
    mf_jinja *j = NULL;
    const int rc = mf_jinja_new("input", all, n, &j);
    FUZZ_REQUIRE((rc == MF_OK && j) || (rc == MF_EINPUT && !j));
    if (rc == MF_OK)
        use(j, nul ? nul + 1 : all, nul ? size - n - 1 : 0);
    else
        FUZZ_REQUIRE(strncmp(mf_error_message(), "input:", 6) == 0);
    mf_jinja_free(j);
    return 0;
}
