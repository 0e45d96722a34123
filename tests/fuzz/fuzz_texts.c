/* fuzz_texts: any bytes as training data. The first byte chooses the format (text, jsonl, tsv,
 * token ids) and the columns, also those of the SICK data, a tsv with names of columns.
 * Documents are within the text, labels within their list. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "data/source.h"

#include <string.h>

const char *const fuzz_words[] = {"{\"text\":\"",
                                  "\"}\n",
                                  "\"label\":",
                                  "\"sentence\":\"",
                                  "sentence\tlabel\n",
                                  "pair_ID\tsentence_A\tsentence_B\t",
                                  "relatedness_score\tentailment_judgment\n",
                                  "\t",
                                  "\n",
                                  "\r\n",
                                  "\\ud800",
                                  "\\u0000",
                                  "NEUTRAL",
                                  "nan",
                                  "1e400",
                                  "-1",
                                  NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const mf_question more[] = {{"relatedness_score", true}, {"label", false}};
    if (size == 0) return 0;
    const uint8_t kind = *data++;
    const mf_columns columns = {.second = kind & 16 ? "none" : NULL,
                                .label = kind & 8 ? "entailment_judgment" : NULL,
                                .number = (kind & 32) != 0,
                                .n_more = kind >> 6 & 1 ? 2 : 0,
                                .more = more};
    mf_source s = {0};
    mf_error_clear();
    const char *path = fuzz_mapped_file(data, size - 1);
    const mf_source_options how = {
        .bin_bits = kind & 4 ? 32 : 0, .cache = "", .columns = &columns};
    const int rc = mf_source_load(&s, path, (mf_format)(kind & 3), &how);
    FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    FUZZ_REQUIRE(rc == MF_OK || (s.n_documents == 0 && !s.text));
    FUZZ_REQUIRE(s.size <= 4 * size + 16);
    for (int64_t i = 0; i < s.n_documents; i++) {
        const mf_document *d = &s.documents[i];
        FUZZ_REQUIRE(d->begin <= s.size && d->n <= s.size - d->begin && d->n_first <= d->n);
        for (int k = 0; k < columns.n_more; k++)
            FUZZ_REQUIRE(d->more + k < s.n_answers);
        FUZZ_REQUIRE(d->n_turns == 0 || d->turns + d->n_turns <= s.n_turns);
        for (int32_t k = 0; k < d->n_turns; k++) {
            const mf_turn *turn = &s.turns[d->turns + k];
            FUZZ_REQUIRE(turn->begin <= s.size && turn->n <= s.size - turn->begin);
        }
    }
    for (int32_t i = 0; i < s.labels.n; i++)
        FUZZ_REQUIRE(s.labels.at[i].name[0] != '\0');
    mf_source_free(&s);
    return 0;
}
