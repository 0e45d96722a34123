/* fuzz_table: any file as comparison.json, the table of a comparison, from which its report is
 * made. It is refused, or its rows have names. The listed runs do not exist, so the report has
 * rows without runs. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "report/compare/compare_data.h"

const char *const fuzz_words[] = {"{\"metric\":\"task_loss\",",
                                  "\"higher_is_better\":true",
                                  "\"baseline\":\"linear\"",
                                  "\"rows\":[{\"router\":\"",
                                  "\"runs\":[{\"seed\":1,\"dir\":\"",
                                  "\"ci95\":[",
                                  "\"diff_ci95\":[0,",
                                  "\"verdict\":\"",
                                  "\"seeds\":",
                                  "\"rank\":",
                                  "\"n\":",
                                  "\"level\":",
                                  "../",
                                  "null",
                                  "-1",
                                  "1e308",
                                  "9223372036854775807",
                                  "},{",
                                  "]",
                                  NULL};

static const char *const names[] = {"comparison.json"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *folder;
    mf_comparison *c = NULL;
    if (!folder) folder = fuzz_make_folder(names, 1);
    fuzz_set_file(0, NULL, data, size);
    mf_error_clear();
    const int rc = mf_comparison_open(folder, &c);
    FUZZ_REQUIRE((rc == MF_OK) == (c != NULL));
    FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    for (int i = 0; c && i < c->n; i++)
        FUZZ_REQUIRE(c->rows[i].router && c->rows[i].name && c->rows[i].n_runs >= 0);
    mf_comparison_close(c);
    return 0;
}
