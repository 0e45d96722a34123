/* fuzz_tokenizer: uses the input as a tokenizer file, as training text, as text to encode, and
 * as ids to decode. Encoded ids are in the vocabulary, and their offsets are in the text and
 * ascending. Decoded text is valid UTF-8, and a lossless tokenizer restores valid text. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/tokenizer/tokenizer.h"

#include <string.h>

const char *const fuzz_words[] = {"{\"format\":\"moefw-tokenizer\",\"version\":1,",
                                  "\"kind\":\"char\"",
                                  "\"kind\":\"byte\"",
                                  "\"kind\":\"bpe\"",
                                  "\"kind\":\"bpe_bytes\"",
                                  "\"kind\":\"wordpiece\"",
                                  "\"lower\":true",
                                  "\"vocabulary\":[",
                                  "\"merges\":[",
                                  "\n[UNK]\n",
                                  "##",
                                  "\"specials\":[",
                                  "\"<pad>\"",
                                  "\"<unk>\"",
                                  "\"<mask>\"",
                                  "\"vocabulary\":\"",
                                  "]",
                                  "}",
                                  ",",
                                  "\\u0000",
                                  "\\ud83d\\ude00",
                                  "\xC3\xA9",
                                  "\xE2\x82\xAC",
                                  "\xF0\x9F\x98\x80",
                                  "\xED\xA0\x80",
                                  "\xC0\x80",
                                  "\xF4\x90\x80\x80",
                                  "abc",
                                  NULL};

/* Encodes the text, checks that its ids are in bounds, and decodes them. */
static void there_and_back(const mf_tokenizer *t, const char *text, size_t size)
{
    mf_ids ids = {.want_start = true};
    mf_decoder d;
    size_t n, at = 0, last = 0;
    int rc = mf_tokenizer_encode(t, "text", text, size, &ids);
    FUZZ_REQUIRE(rc == MF_OK || rc == MF_EINPUT);
    for (size_t i = 0; i < ids.n; i++) {
        FUZZ_REQUIRE(ids.id[i] >= 0 && ids.id[i] < t->vocab && ids.start[i] < size);
        FUZZ_REQUIRE(i == 0 || ids.start[i] > last || (!t->lossless && ids.start[i] == last));
        last = ids.start[i];
        const char *piece = mf_tokenizer_piece(t, ids.id[i], &n);
        FUZZ_REQUIRE(n <= t->longest);
        FUZZ_REQUIRE(!t->lossless || ids.id[i] == t->special[MF_SPECIAL_UNK] ||
                     memcmp(piece, text + ids.start[i], n) == 0);
    }
    if (rc == MF_OK && t->lossless && t->special[MF_SPECIAL_UNK] < 0)
        FUZZ_REQUIRE(mf_tokenizer_bytes(t, ids.id, ids.n) == size);
    FUZZ_REQUIRE(mf_decoder_open(&d, t) == MF_OK);
    bool valid = mf_utf8_check(text, size) == size;
    for (size_t i = 0; i <= ids.n; i++) {
        const char *out =
            i < ids.n ? mf_decoder_next(&d, ids.id[i], &n) : mf_decoder_end(&d, &n);
        FUZZ_REQUIRE(out[n] == '\0' && mf_utf8_check(out, n) == n);
        if (rc == MF_OK && valid && t->lossless && t->special[MF_SPECIAL_UNK] < 0) {
            FUZZ_REQUIRE(at + n <= size && memcmp(out, text + at, n) == 0);
            at += n;
        }
    }
    mf_decoder_close(&d);
    mf_ids_free(&ids);
}

/* Decodes arbitrary numbers as ids. */
static void decode_anything(const mf_tokenizer *t, const uint8_t *data, size_t size)
{
    mf_decoder d;
    size_t n;
    FUZZ_REQUIRE(mf_decoder_open(&d, t) == MF_OK);
    for (size_t i = 0; i + 4 <= size; i += 4) {
        int32_t id;
        memcpy(&id, data + i, 4);
        const char *out = mf_decoder_next(&d, id, &n);
        FUZZ_REQUIRE(mf_utf8_check(out, n) == n);
        out = mf_decoder_next(&d, data[i], &n);
        FUZZ_REQUIRE(mf_utf8_check(out, n) == n);
    }
    mf_decoder_close(&d);
}

static void use(const mf_tokenizer *t, const uint8_t *data, size_t size)
{
    FUZZ_REQUIRE(t->pieces > 0 && t->vocab >= t->pieces && t->vocab <= t->pieces + MF_SPECIALS);
    there_and_back(t, (const char *)data, size);
    decode_anything(t, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    mf_tokenizer *t = NULL;
    int rc = mf_tokenizer_parse("input", text, size, &t);
    FUZZ_REQUIRE(rc == MF_OK || (rc == MF_EINPUT && !t));
    if (rc == MF_OK)
        use(t, data, size);
    else
        FUZZ_REQUIRE(strncmp(mf_error_message(), "input:", 6) == 0);
    mf_tokenizer_free(t);

    /* Only one of these is learned, because learning takes most of the time. */
    static const char *const names[] = {"byte", "bpe_bytes", "char", "bpe", "wordpiece"};
    const size_t i = size % (sizeof names / sizeof *names);
    rc = mf_tokenizer_train(names[i], "input", text, size, NULL, &t);
    FUZZ_REQUIRE(rc == MF_OK || (i > 1 && rc == MF_EINPUT && !t));
    if (rc == MF_OK) use(t, data, size);
    mf_tokenizer_free(t);
    return 0;
}
