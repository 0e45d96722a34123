/* fuzz_json: any bytes are read, or refused with a message that names the input. The values can
 * be written and read again without change. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "io/json.h"

#include <string.h>

const char *const fuzz_words[] = {"{",
                                  "}",
                                  "[",
                                  "]",
                                  ":",
                                  ",",
                                  "\"",
                                  "\\u0000",
                                  "\\ud83d\\ude00",
                                  "null",
                                  "true",
                                  "false",
                                  "1e308",
                                  "-0",
                                  "0.1",
                                  "1e-400",
                                  "\\n",
                                  "{\"a\":1}",
                                  "[[[[[",
                                  "\\",
                                  "\n",
                                  "\xC3\xA4",
                                  "\xFF",
                                  "\\u20ac",
                                  "12345678901234567890",
                                  NULL};

/* Writes every value to the writer, using the accessor of its type. */
static void copy(mf_jw *w, const mf_json *v)
{
    const mf_json *child;
    const char *text;
    size_t n = mf_json_size(v), length;
    int64_t integer;
    double real;
    bool boolean;
    switch (mf_json_typeof(v)) {
    case MF_JSON_NULL:
        mf_jw_null(w);
        break;
    case MF_JSON_BOOL:
        FUZZ_REQUIRE(mf_json_bool(v, &boolean));
        mf_jw_bool(w, boolean);
        break;
    case MF_JSON_INT:
        FUZZ_REQUIRE(mf_json_int(v, &integer));
        mf_jw_int(w, integer);
        break;
    case MF_JSON_REAL:
        /* A number beyond the range of a double is valid JSON, but cannot be read as
         * a double. */
        if (mf_json_real(v, &real))
            mf_jw_real(w, real);
        else
            mf_jw_null(w);
        break;
    case MF_JSON_STRING:
        text = mf_json_string(v, &length);
        FUZZ_REQUIRE(text && text[length] == '\0');
        mf_jw_string_n(w, text, length);
        break;
    case MF_JSON_ARRAY:
        mf_jw_array(w);
        for (size_t i = 0; i < n; i++)
            copy(w, mf_json_at(v, i));
        FUZZ_REQUIRE(!mf_json_at(v, n));
        mf_jw_end(w);
        break;
    case MF_JSON_OBJECT:
        mf_jw_object(w);
        for (size_t i = 0; i < n; i++) {
            FUZZ_REQUIRE(mf_json_member(v, i, &text, &child));
            FUZZ_REQUIRE(mf_json_get(v, text) == child);
            mf_jw_key(w, text);
            copy(w, child);
        }
        FUZZ_REQUIRE(!mf_json_member(v, n, &text, &child));
        mf_jw_end(w);
        break;
    }
}

static char *rewritten(const mf_json *doc, size_t *ret_size)
{
    mf_jw *w = mf_jw_new();
    const char *text;
    char *kept;
    FUZZ_REQUIRE(w);
    copy(w, doc);
    text = mf_jw_text(w, ret_size);
    FUZZ_REQUIRE(text && text[*ret_size] == '\0');
    kept = malloc(*ret_size + 1);
    FUZZ_REQUIRE(kept);
    memcpy(kept, text, *ret_size + 1);
    mf_jw_free(w);
    return kept;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_json *doc, *doc2;
    char *text, *text2;
    size_t n, n2;
    int rc = mf_json_parse("input", (const char *)data, size, &doc);
    if (rc != MF_OK) {
        FUZZ_REQUIRE(rc == MF_EINPUT && mf_error_code() == MF_EINPUT);
        FUZZ_REQUIRE(strncmp(mf_error_message(), "input:", 6) == 0);
        return 0;
    }
    text = rewritten(doc, &n);
    rc = mf_json_parse("again", text, n, &doc2);
    FUZZ_REQUIRE(rc == MF_OK);
    text2 = rewritten(doc2, &n2);
    FUZZ_REQUIRE(n == n2 && memcmp(text, text2, n) == 0);
    free(text);
    free(text2);
    mf_json_free(doc);
    mf_json_free(doc2);
    return 0;
}
