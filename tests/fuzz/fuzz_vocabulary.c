/* fuzz_vocabulary: any files as the vocabulary of a folder of a published tokenizer:
 * vocab.json with merges.txt, or vocab.txt, with tokenizer_config.json and
 * special_tokens_map.json. A resulting tokenizer encodes these files to ids of its vocabulary,
 * with offsets in the text. Its decoded text is valid UTF-8.
 *
 * The first byte chooses the form. The next four bytes are the lengths of the first
 * two files. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/tokenizer/tokenizer.h"

#include <string.h>

const char *const fuzz_words[] = {"{\"a\":0,\"b\":1,\"ab\":2}",
                                  "#version: 0.2\n",
                                  "a b\n",
                                  "\xC4\xA0 a\n",
                                  "\xC4\xA0",
                                  "##",
                                  "[UNK]\n",
                                  "[CLS]\n[SEP]\n[PAD]\n",
                                  "\"<|endoftext|>\"",
                                  "\"tokenizer_class\":\"",
                                  "BertTokenizer\"",
                                  "GPT2Tokenizer\"",
                                  "\"do_lower_case\":true",
                                  "\"added_tokens_decoder\":{\"3\":{\"content\":\"",
                                  "\"unk_token\":\"",
                                  "\"special\":true",
                                  "\"add_bos_token\":true",
                                  "\"chat_template\":\"",
                                  ",",
                                  ":",
                                  "\n",
                                  " ",
                                  "\xED\xA0\x80",
                                  NULL};

enum { FILES = 6 };
/* Files of two folders. The files in a folder determine how it is read. */
static const char *const names[FILES] = {"pairs/vocab.json",
                                         "pairs/merges.txt",
                                         "pairs/tokenizer_config.json",
                                         "list/vocab.txt",
                                         "list/special_tokens_map.json",
                                         "list/tokenizer_config.json"};

static void use(const mf_tokenizer *t, const char *text, size_t size)
{
    mf_ids ids = {.want_start = true};
    mf_decoder d;
    size_t n;
    const int rc = mf_tokenizer_encode(t, "text", text, size, &ids);
    FUZZ_REQUIRE(rc == MF_OK || mf_utf8_check(text, size) < size ||
                 strstr(mf_error_message(), "has no token in this vocabulary"));
    FUZZ_REQUIRE(mf_decoder_open(&d, t) == MF_OK);
    for (size_t i = 0; i < ids.n; i++) {
        FUZZ_REQUIRE(ids.id[i] >= 0 && ids.id[i] < t->vocab && ids.start[i] < size);
        FUZZ_REQUIRE(i == 0 || ids.start[i] >= ids.start[i - 1]);
        mf_tokenizer_piece(t, ids.id[i], &n);
        FUZZ_REQUIRE(n <= t->longest);
        const char *out = mf_decoder_next(&d, ids.id[i], &n);
        FUZZ_REQUIRE(out[n] == '\0' && mf_utf8_check(out, n) == n);
    }
    mf_decoder_end(&d, &n);
    mf_decoder_close(&d);
    mf_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[2][96];
    mf_tokenizer *t = NULL;
    if (size < 5) return 0;
    if (folder[0][0] == '\0') {
        const char *base = fuzz_make_folder(names, FILES);
        snprintf(folder[0], sizeof folder[0], "%s/pairs", base);
        snprintf(folder[1], sizeof folder[1], "%s/list", base);
    }
    const int list = data[0] & 1, first = list ? 3 : 0;
    size_t n[3] = {(size_t)data[1] | (size_t)data[2] << 8,
                   (size_t)data[3] | (size_t)data[4] << 8, 0};
    data += 5, size -= 5;
    if (n[0] > size) n[0] = size;
    if (n[1] > size - n[0]) n[1] = size - n[0];
    n[2] = size - n[0] - n[1];
    size_t at = 0;
    for (int i = 0; i < 3; at += n[i++])
        fuzz_set_file(first + i, NULL, data + at, n[i]);
    mf_error_clear();
    const int rc = mf_tokenizer_load(folder[list], &t);
    FUZZ_REQUIRE((rc == MF_OK) == (t != NULL));
    FUZZ_REQUIRE(rc == MF_OK || strstr(mf_error_message(), folder[list]));
    if (t) use(t, (const char *)data, size);
    mf_tokenizer_free(t);
    return 0;
}
