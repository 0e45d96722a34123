/* fuzz_result: any object as a result, with the hash that it needs. What is read is checked
 * like the result of somebody else: its table is computed again, and runs are chosen. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "base/mem.h"
#include "lab/result/verify.h"

#include <stdio.h>
#include <string.h>

const char *const fuzz_words[] = {"\"format\":\"moefw-result\"",
                                  "\"version\":1",
                                  "\"runs\":[{\"router\":\"a\",\"seed\":1}]",
                                  "\"table\":{\"seeds\":1,\"baseline\":\"a\",\"rows\":[",
                                  "{\"router\":\"a\",\"verdict\":\"equal\"}",
                                  "\"final\":{\"task_loss\":1.5,\"bits_per_byte\":1}",
                                  "\"looks\":[[3,0.05]]",
                                  "\"equivalent\":\"0.02nats\"",
                                  "\"failed\":5",
                                  "\"checkpoints\":[{\"step\":1}]",
                                  "1e308",
                                  "-1",
                                  "null",
                                  NULL};

static void on_input(void *arg, const char *what, const char *name, const char *state)
{
    (void)arg;
    FUZZ_REQUIRE(what && name && state);
}

static void use(const mf_result *r)
{
    const mf_verify_spec s = {.data = "/nowhere", .seed = -1, .runs = 2, .input = on_input};
    mf_arena *arena = mf_arena_new();
    mf_verified_run *runs = NULL;
    char *config = NULL;
    int tests, n = 0;
    mf_error_clear();
    if (mf_result_check_table(r, &tests) != MF_OK) FUZZ_REQUIRE(mf_error_message()[0] != '\0');
    if (arena && mf_verify_choose(arena, r, &s, &runs, &n) == MF_OK) {
        FUZZ_REQUIRE(n > 0 && runs[0].router);
        (void)mf_result_inputs(runs[0].run, s.data, NULL, on_input, NULL, &config);
        mf_free(config);
    }
    mf_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char sha[MF_SHA256_HEX];
    mf_result *r = NULL;
    if (size < 2 || size > 1 << 16 || data[size - 1] != '}') return 0;
    char *text = mf_strf("%.*s,\"self\":\"\"}", (int)size - 1, (const char *)data);
    if (!text) return 0;
    mf_sha256_hex(text, strlen(text), sha);
    char *whole = mf_strf("%.*s%s\"}", (int)strlen(text) - 2, text, sha);
    mf_error_clear();
    if (whole) {
        const int rc =
            mf_result_read(fuzz_memory_file((const uint8_t *)whole, strlen(whole)), &r);
        FUZZ_REQUIRE((rc == MF_OK) == (r != NULL));
        FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    }
    if (r) use(r);
    mf_result_free(r);
    mf_free(whole);
    mf_free(text);
    return 0;
}
