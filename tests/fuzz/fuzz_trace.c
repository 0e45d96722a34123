/* fuzz_trace: any file as a trace of routing. A trace that opens has arrays of the sizes in its
 * fields, with experts and tokens in range. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "lab/trace/trace.h"

#include <string.h>

const char *const fuzz_words[] = {"\"__metadata__\":{",
                                  "\"dtype\":\"I32\"",
                                  "\"dtype\":\"F32\"",
                                  "\"shape\":[",
                                  "\"data_offsets\":[",
                                  "\"step\":\"",
                                  "\"rows\":\"1\"",
                                  "\"seq\":\"2\"",
                                  "\"batches\":\"1\"",
                                  "layer.0.expert",
                                  "layer.0.offset",
                                  "token",
                                  "\"9223372036854775807\"",
                                  "-1",
                                  "]},\"",
                                  NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_trace *t = NULL;
    volatile int64_t sum = 0;
    mf_error_clear();
    const int rc = mf_trace_open(fuzz_memory_file(data, size), &t);
    FUZZ_REQUIRE((rc == MF_OK) == (t != NULL));
    FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    if (!t) return 0;
    for (int64_t i = 0; i < t->tokens; i++)
        sum = sum + (int64_t)t->token[i] + t->position[i] + t->sequence[i];
    FUZZ_REQUIRE(mf_trace_text(t, "run") != NULL);
    mf_trace_close(t);
    return 0;
}
