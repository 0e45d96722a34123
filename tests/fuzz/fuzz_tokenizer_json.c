/* fuzz_tokenizer_json: the input up to its first NUL is a tokenizer.json, or a tokenizer file
 * that contains files of a published tokenizer; the rest is a text. Every resulting tokenizer
 * encodes the text, and also the file itself. Ids are in the vocabulary, and offsets are in the
 * text. A lossless tokenizer restores the text. Decoded text is valid UTF-8. The template of
 * messages, if there is one, is read, too. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/chat.h"
#include "data/tokenizer/tokenizer.h"

#include <string.h>

const char *const fuzz_words[] = {"\"model\":{\"type\":\"BPE\",\"vocab\":{",
                                  "\"type\":\"WordPiece\"",
                                  "\"merges\":[",
                                  "\"a b\"",
                                  "[\"a\",\"b\"]",
                                  "\"unk_token\":\"",
                                  "\"byte_fallback\":true",
                                  "\"fuse_unk\":true",
                                  "\"ignore_merges\":true",
                                  "\"<0x41>\":",
                                  "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
                                  "{\"type\":\"NFC\"}",
                                  "{\"type\":\"NFKD\"}",
                                  "{\"type\":\"BertNormalizer\"}",
                                  "{\"type\":\"Lowercase\"}",
                                  "{\"type\":\"StripAccents\"}",
                                  "{\"type\":\"Strip\"}",
                                  "{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"}",
                                  "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                                  "\"content\":\"\xE2\x96\x81\"}",
                                  "\"pre_tokenizer\":{",
                                  "\"type\":\"ByteLevel\",\"add_prefix_space\":false",
                                  "\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\"",
                                  "\"prepend_scheme\":\"first\"",
                                  "\"type\":\"Digits\"",
                                  "\"type\":\"WhitespaceSplit\"",
                                  "\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},"
                                  "\"behavior\":\"Isolated\"",
                                  "\"decoder\":{\"type\":\"ByteFallback\"}",
                                  "\"decoder\":{\"type\":\"WordPiece\"}",
                                  "\"added_tokens\":[{\"id\":1,\"content\":\"",
                                  "\"lstrip\":true",
                                  "\"rstrip\":true",
                                  "\"single_word\":true",
                                  "\"normalized\":true",
                                  "\"post_processor\":{\"type\":\"TemplateProcessing\"",
                                  "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}",
                                  "\"chat_template\":\"{% for message in messages %}",
                                  "\xE2\x96\x81",
                                  "\xCC\x81",
                                  "\xE1\x84\x92\xE1\x85\xA1",
                                  "\xEF\xB7\xBA",
                                  "\xC4\xB0",
                                  "\xED\xA0\x80",
                                  NULL};

/* Checks that the ids are in bounds, and that their offsets are in the text and ascending. */
static void check_ids(const mf_tokenizer *t, const mf_ids *ids, size_t size)
{
    size_t n;
    for (size_t i = 0; i < ids->n; i++) {
        FUZZ_REQUIRE(ids->id[i] >= 0 && ids->id[i] < t->vocab && ids->start[i] < size);
        FUZZ_REQUIRE(i == 0 || ids->start[i] >= ids->start[i - 1]);
        mf_tokenizer_piece(t, ids->id[i], &n);
        FUZZ_REQUIRE(n <= t->longest);
    }
}

/* Decodes the ids. If `text` is not NULL, the result must equal it. */
static void decode(const mf_tokenizer *t, const mf_ids *ids, const char *text, size_t size)
{
    mf_decoder d;
    size_t n, at = 0;
    FUZZ_REQUIRE(mf_decoder_open(&d, t) == MF_OK);
    for (size_t i = 0; i <= ids->n; i++) {
        const char *out =
            i < ids->n ? mf_decoder_next(&d, ids->id[i], &n) : mf_decoder_end(&d, &n);
        FUZZ_REQUIRE(out[n] == '\0' && mf_utf8_check(out, n) == n);
        if (!text) continue;
        FUZZ_REQUIRE(at + n <= size && memcmp(out, text + at, n) == 0);
        at += n;
    }
    FUZZ_REQUIRE(!text || at == size);
    mf_decoder_close(&d);
}

static void encode(const mf_tokenizer *t, const char *text, size_t size)
{
    mf_ids ids = {.want_start = true}, all = {0}, types = {0}, plain = {0};
    int rc = mf_tokenizer_encode(t, "text", text, size, &ids);
    /* A vocabulary without a token for some byte must refuse a text that contains the byte,
     * whatever precedes it. */
    FUZZ_REQUIRE(rc != MF_OK || mf_utf8_check(text, size) == size);
    FUZZ_REQUIRE(rc == MF_OK || mf_utf8_check(text, size) < size ||
                 strstr(mf_error_message(), "has no token in this vocabulary"));
    check_ids(t, &ids, size);
    decode(t, &ids, rc == MF_OK && t->lossless ? text : NULL, size);
    /* The ids must be the same without offsets. This doubles the time, so only some texts are
     * encoded twice. */
    if (size % 4 == 0) {
        FUZZ_REQUIRE(mf_tokenizer_encode(t, "text", text, size, &plain) == rc);
        FUZZ_REQUIRE(plain.n == ids.n &&
                     (ids.n == 0 || memcmp(plain.id, ids.id, ids.n * sizeof *ids.id) == 0));
    }
    FUZZ_REQUIRE(mf_tokenizer_wrap(t, &ids, &ids, &all, &types) == MF_OK && types.n == all.n);
    mf_ids_free(&ids);
    mf_ids_free(&all);
    mf_ids_free(&types);
    mf_ids_free(&plain);
}

static void converse(const mf_tokenizer *t)
{
    mf_chat c;
    char *text;
    size_t n;
    mf_chat_of(t, &c);
    for (int first = 0; first < 2; first++) {
        const int rc = mf_chat_message(&c, t, first, "text", 4, &text, &n);
        FUZZ_REQUIRE((rc == MF_OK && strlen(text) == n) || rc == MF_EUSAGE);
        mf_free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *file = (const char *)data;
    const char *end = size > 0 ? memchr(file, 0, size) : NULL;
    const size_t n = end ? (size_t)(end - file) : size;
    mf_tokenizer *t = NULL;
    const int rc = mf_tokenizer_parse("input", file, n, &t);
    FUZZ_REQUIRE(rc == MF_OK || (rc == MF_EINPUT && !t));
    if (rc == MF_OK) {
        FUZZ_REQUIRE(t->pieces > 0 && t->vocab >= t->pieces);
        encode(t, file, n);
        if (end) encode(t, end + 1, size - n - 1);
        converse(t);
    } else {
        FUZZ_REQUIRE(strncmp(mf_error_message(), "input", 5) == 0);
    }
    mf_tokenizer_free(t);
    return 0;
}
