/* fuzz_convert: the input as the vocabulary file of sentencepiece, of tiktoken and of
 * mistral-common. What is read becomes the text of a tokenizer.json. That text is JSON, and a
 * tokenizer that is made of it encodes and decodes the input, if this is a text. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/pretrained/convert.h"

#include <string.h>

const char *const fuzz_words[] = {"\x0A\x05\x0A\x01"
                                  "a\x18\x02",
                                  "\x0A\x0A\x0A\x03\xE2\x96\x81\x15",
                                  "\x12\x02\x18\x02",
                                  "\x1A\x02\x20\x00",
                                  "YQ== 0\n",
                                  "IA== 1\n",
                                  "{\"config\":{\"pattern\":\"",
                                  "\"default_vocab_size\":2",
                                  "\"default_num_special_tokens\":1",
                                  "\"vocab\":[{\"rank\":0,\"token_bytes\":\"YQ==\"}]",
                                  "\"special_tokens\":[{\"rank\":0,\"token_str\":\"<s>\"}]",
                                  "}",
                                  NULL};

static void use(const mf_tokenizer *t, const char *text, size_t n)
{
    mf_ids ids = {.want_start = true};
    mf_decoder d;
    size_t m;
    const int rc = mf_tokenizer_encode(t, "text", text, n, &ids);
    FUZZ_REQUIRE(rc == MF_OK || rc == MF_EINPUT);
    FUZZ_REQUIRE(mf_decoder_open(&d, t) == MF_OK);
    for (size_t i = 0; i < ids.n; i++) {
        FUZZ_REQUIRE(ids.id[i] >= 0 && ids.id[i] < t->vocab && ids.start[i] < n);
        const char *out = mf_decoder_next(&d, ids.id[i], &m);
        FUZZ_REQUIRE(mf_utf8_check(out, m) == m);
    }
    mf_decoder_close(&d);
    mf_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const convert[])(const char *where, const char *text, size_t n,
                                  const mf_json *config, char **ret, size_t *ret_n) = {
        mf_pt_convert_spm, mf_pt_convert_tiktoken, mf_pt_convert_tekken};
    for (int i = 0; i < 3; i++) {
        char *text = NULL;
        size_t n = 0;
        mf_tokenizer *t = NULL;
        int rc = convert[i]("input", (const char *)data, size, NULL, &text, &n);
        FUZZ_REQUIRE(rc == MF_OK || (rc == MF_EINPUT && !text));
        if (rc != MF_OK) {
            FUZZ_REQUIRE(strncmp(mf_error_message(), "input:", 6) == 0);
            continue;
        }
        mf_json *doc;
        FUZZ_REQUIRE(mf_json_parse("made", text, n, &doc) == MF_OK);
        mf_json_free(doc);
        rc = mf_tokenizer_parse("made", text, n, &t);
        FUZZ_REQUIRE(rc == MF_OK || rc == MF_EINPUT);
        if (rc == MF_OK) use(t, (const char *)data, size);
        mf_tokenizer_free(t);
        mf_free(text);
    }
    return 0;
}
