/* fuzz_metrics: any file as metrics.jsonl. Damaged lines are counted. A second reading has the
 * same result. Steps do not decrease from line to line, unless the decrease is counted. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "run/metrics/metrics.h"

#include <string.h>

const char *const fuzz_words[] = {"{\"step\":",
                                  "1,\"split\":\"train\",",
                                  "\"split\":\"val\",",
                                  "\"loss\":",
                                  "null",
                                  "\"moe\":[{\"layer\":",
                                  "\"load\":[",
                                  "\"tasks\":[",
                                  "\"heads\":[",
                                  "\"changes\":[{\"step\":",
                                  "\"controllers\":[",
                                  "\"regularizers\":{",
                                  "1e999",
                                  "-9223372036854775808",
                                  "9223372036854775807",
                                  "}\n",
                                  "]}\n",
                                  NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_memory_file(data, size);
    mf_metrics_history *h = NULL, *again = NULL;
    mf_error_clear();
    const int rc = mf_metrics_read(path, &h);
    FUZZ_REQUIRE((rc == MF_OK) == (h != NULL));
    FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    for (int i = 0; h && i < h->n; i++)
        FUZZ_REQUIRE(h->records[i].split && strlen(h->records[i].split) < size);
    /* A second reading doubles the time, so only every fourth size has it. */
    if (size % 4 == 0) {
        FUZZ_REQUIRE(mf_metrics_read(path, &again) == rc);
        FUZZ_REQUIRE(!h || h->n == again->n);
        for (int i = 0; h && i < h->n; i++)
            FUZZ_REQUIRE(h->records[i].step == again->records[i].step);
    }
    mf_metrics_history_free(h);
    mf_metrics_history_free(again);
    return 0;
}
