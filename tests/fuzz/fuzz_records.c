/* fuzz_records: any file as one of the small files of a run, a comparison, a search or an
 * import: manifest.json, config.ini, samples of routing, distributions of weights, plans,
 * checksums, generation_config.json. Each is read, or refused with a message. The read arrays
 * have the sizes in their fields. The first byte chooses the file; the other bytes are
 * its content. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "base/mem.h"
#include "generate/generation.h"
#include "lab/compare/compare_search.h"
#include "pretrained/checksums.h"
#include "run/checkpoint/weights.h"
#include "run/folder/describe.h"
#include "run/folder/provenance.h"
#include "run/sample/sample.h"

#include <string.h>

const char *const fuzz_words[] = {"{\"step\":1,\"groups\":[{\"group\":\"embedding\",",
                                  "\"share\":[",
                                  "\"tokens\":[\"a\",\"b\"]",
                                  "\"token_labels\":[",
                                  "\"labels\":[",
                                  "\"layers\":[{\"layer\":0,\"experts\":2,\"top_k\":1,",
                                  "\"prob\":[[",
                                  "\"chosen\":[[",
                                  "\"gate\":[[",
                                  "\"by_label\":[[",
                                  "\"attention_weights\":{\"tokens\":2,\"heads\":[",
                                  "\"vocab\":",
                                  "\"classes\":[",
                                  "\"tasks\":[{\"name\":\"",
                                  "\"plugins\":[",
                                  "\"routers\":[\"linear\",\"hash\"]",
                                  "\"baseline\":\"linear\"",
                                  "\"equal\":\"steps\"",
                                  "\"seeds\":",
                                  "\"set\":[",
                                  "\"plan\":{",
                                  "\"grid\":[",
                                  "\"halving\":true",
                                  "\"eos_token_id\":[",
                                  "\"do_sample\":true",
                                  "\"temperature\":",
                                  "  weights\n",
                                  "[model]\n",
                                  "null",
                                  "-1",
                                  "1e308",
                                  "9223372036854775807",
                                  "]]",
                                  "},{",
                                  NULL};

enum { MANIFEST, CONFIG, SAMPLE, WEIGHTS, GENERATION, PLAN, SEARCH, SUMS, FILES };
static const char *const names[FILES] = {
    "manifest.json",          "config.ini", "sample.json", "weights.json",
    "generation_config.json", "plan.json",  "search.json", "xxh3"};

static int no_name(void *arg, const char *name, const char *text)
{
    FUZZ_REQUIRE(name && text);
    ++*(int *)arg;
    return MF_OK;
}

static int read_manifest(const char *path)
{
    mf_model_dims dims = {0};
    mf_names more[MF_TASKS_MAX] = {0};
    const char **classes = NULL;
    int32_t n = 0;
    int visits = 0;
    int rc = mf_provenance_read_dims(path, &dims);
    FUZZ_REQUIRE(rc != MF_OK || dims.vocab >= 1);
    if (mf_provenance_read_classes(path, &classes, &n) == MF_OK)
        for (int32_t i = 0; classes && i < n; i++)
            FUZZ_REQUIRE(classes[i]);
    mf_free(classes);
    mf_provenance_read_more_classes(path, more);
    for (int i = 0; i < MF_TASKS_MAX; i++)
        mf_free((void *)more[i].name);
    mf_describe_manifest_file(path, "run", no_name, &visits);
    return rc;
}

static int read_sample(const char *path)
{
    mf_sample *s = NULL;
    volatile double sum = 0;
    const int rc = mf_sample_read(path, &s);
    FUZZ_REQUIRE((rc == MF_OK) == (s != NULL));
    for (int i = 0; s && i < s->n_tokens; i++) {
        FUZZ_REQUIRE(s->tokens[i]);
        if (s->token_labels) sum = sum + s->token_labels[i];
    }
    for (int i = 0; s && i < s->n_layers; i++) {
        const mf_sample_layer *l = &s->layers[i];
        for (int k = 0; l->prob && k < s->n_tokens * l->experts; k++)
            sum = sum + (double)l->prob[k];
        for (int k = 0; l->chosen && k < s->n_tokens * l->top_k; k++)
            FUZZ_REQUIRE(l->chosen[k] >= -1 && l->chosen[k] < l->experts);
        for (int k = 0; l->gate && k < s->n_tokens * l->top_k; k++)
            sum = sum + (double)l->gate[k];
        for (int k = 0; l->by_label && k < l->experts * s->n_labels; k++)
            sum = sum + l->by_label[k];
    }
    for (int i = 0; s && i < s->n_heads; i++)
        for (int k = 0; k < s->n_seen * s->n_seen; k++)
            sum = sum + (double)s->heads[i].prob[k];
    mf_sample_free(s);
    return rc;
}

static int read_plan(const char *folder, bool search)
{
    mf_arena *arena = mf_arena_new();
    mf_compare_spec spec = {0};
    mf_search_spec of = {0};
    FUZZ_REQUIRE(arena);
    const int rc = search ? mf_search_plan_read(arena, folder, &spec, &of)
                          : mf_compare_plan_read(arena, folder, &spec);
    FUZZ_REQUIRE(rc != MF_OK || (spec.routers && spec.baseline && spec.seeds >= 1));
    for (int i = 0; rc == MF_OK && i < of.space.n_grid; i++)
        FUZZ_REQUIRE(of.space.grid[i]);
    mf_arena_free(arena);
    return rc;
}

static int read_one(int what, const char *folder, const char *path)
{
    mf_weights w;
    mf_generation g;
    int visits = 0, rc;
    switch (what) {
    case MANIFEST:
        return read_manifest(path);
    case CONFIG:
        return mf_describe_config_file(path, no_name, &visits);
    case SAMPLE:
        return read_sample(path);
    case WEIGHTS:
        return mf_weights_read(path, &w);
    case GENERATION:
        rc = mf_generation_read(folder, &g);
        FUZZ_REQUIRE(rc != MF_OK || (g.n_ends >= 0 && g.n_ends <= MF_GENERATION_ENDS));
        return rc;
    case PLAN:
    case SEARCH:
        return read_plan(folder, what == SEARCH);
    default:
        return mf_checksums_verify(path, folder);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *folder;
    if (size == 0) return 0;
    if (!folder) folder = fuzz_make_folder(names, FILES);
    const int what = data[0] % FILES;
    const char *path = fuzz_set_file(what, NULL, data + 1, size - 1);
    mf_error_clear();
    const int rc = read_one(what, folder, path);
    FUZZ_REQUIRE(rc == MF_OK || mf_error_message()[0] != '\0');
    fuzz_set_file(what, NULL, NULL, 0);
    return 0;
}
