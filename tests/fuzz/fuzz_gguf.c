/* fuzz_gguf: any file is refused with its name, or its tensors can be decoded, and its
 * model and tokenizer are texts or a message. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "base/mem.h"
#include "pretrained/gguf/gguf_in.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_words[] = {"GGUF",
                                  "general.architecture",
                                  "general.alignment",
                                  "llama",
                                  "gpt2",
                                  "deepseek2",
                                  "gpt-oss",
                                  "token_embd.weight",
                                  "output.weight",
                                  "rope_freqs.weight",
                                  "tokenizer.ggml.model",
                                  "tokenizer.ggml.pre",
                                  "tokenizer.ggml.tokens",
                                  "tokenizer.ggml.token_type",
                                  "tokenizer.ggml.scores",
                                  "tokenizer.ggml.merges",
                                  "qwen2",
                                  NULL};

static void decode_all(const mf_gguf_in *f, size_t size)
{
    for (int64_t i = 0; i < mf_gguf_tensors(f); i++) {
        const mf_gguf_in_tensor *t = mf_gguf_tensor_at(f, i);
        int64_t elements, bytes;
        FUZZ_REQUIRE(mf_gguf_tensor_find(f, t->name) == t);
        FUZZ_REQUIRE(t->bytes <= size && mf_gguf_block(t->type, &elements, &bytes));
        FUZZ_REQUIRE((uint64_t)(t->count / elements * bytes) == t->bytes);
        float *room = malloc((size_t)t->count * sizeof *room);
        FUZZ_REQUIRE(room);
        mf_gguf_decode(t->type, t->data, t->count, room);
        free(room);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_gguf_in *f;
    const mf_family_rule *rules;
    char *text, *config;
    bool tied;
    int rc = mf_gguf_parse("in", data, size, &f);
    if (rc != MF_OK) {
        FUZZ_REQUIRE(rc == MF_EINPUT && strncmp(mf_error_message(), "in: ", 4) == 0);
        return 0;
    }
    decode_all(f, size);
    rc = mf_gguf_config(f, &text, &rules, &tied);
    FUZZ_REQUIRE(rc == MF_OK || rc == MF_EINPUT || rc == MF_EINVAL);
    if (rc == MF_OK) mf_free(text);
    rc = mf_gguf_tokenizer(f, &text, &config);
    FUZZ_REQUIRE(rc == MF_OK || rc == MF_EINPUT || rc == MF_EINVAL);
    mf_free(text);
    mf_free(config);
    mf_gguf_close(f);
    return 0;
}
