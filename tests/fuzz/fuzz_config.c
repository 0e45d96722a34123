/* fuzz_config: any bytes are a configuration, or are refused with a message. All sections,
 * included presets, and rules between keys are read; plugins are not loaded. With a sink, which
 * receives all errors, the result is the same. */
#include "tests/fuzz/memory_file.h"

#include "base/error.h"
#include "base/file/paths.h"
#include "run/run_config.h"

#include <string.h>

const char *const fuzz_words[] = {"[model]\n",
                                  "[moe]\n",
                                  "[router]\n",
                                  "[expert]\n",
                                  "[adapter.a]\n",
                                  "[train]\n",
                                  "[data]\n",
                                  "[task.t]\n",
                                  "[regularizer.r]\n",
                                  "[controller.c]\n",
                                  "[include]\n",
                                  "preset = ",
                                  "plugin = ",
                                  "default\n",
                                  "none\n",
                                  "[tycontroller",
                                  "[regulariser.",
                                  "dim = ",
                                  "heads = ",
                                  "experts = ",
                                  "top_k = ",
                                  "layers = ",
                                  "at = ",
                                  "weight = ",
                                  "every = ",
                                  "task = ",
                                  "classify\n",
                                  "causal = ",
                                  "dense_layers = ",
                                  "0,3-5\n",
                                  "steps = ",
                                  "batch = ",
                                  "accumulate=",
                                  "path = ",
                                  "auto\n",
                                  "yes\n",
                                  "no\n",
                                  "0\n",
                                  "-1\n",
                                  "1e308\n",
                                  "nan\n",
                                  "4096\n",
                                  ".",
                                  "=",
                                  "[",
                                  "]",
                                  "\n",
                                  NULL};

typedef struct told {
    int n;
    char first[256];
} told;

static void hear(void *arg, const mf_problem *p)
{
    told *t = arg;
    FUZZ_REQUIRE(p->message && p->message[0] != '\0');
    if (t->n++ == 0) snprintf(t->first, sizeof t->first, "%s", p->message);
}

/* Presets come from the source folder, so nothing must be built or installed. There are no
 * files of settings. */
static void find_presets(void)
{
    char folder[] = "/tmp/fuzz_config.XXXXXX", marker[64], program[64], source[4096];
    const char *srcdir = getenv("srcdir");
    FUZZ_REQUIRE(realpath(srcdir ? srcdir : ".", source) && mkdtemp(folder));
    snprintf(marker, sizeof marker, "%s/.moefw-uninstalled", folder);
    snprintf(program, sizeof program, "%s/moefw", folder);
    FILE *f = fopen(marker, "w");
    FUZZ_REQUIRE(f && fprintf(f, "%s\n", source) > 0 && fclose(f) == 0);
    mf_paths_set_program(program);
    mf_paths_set_settings("/none");
    setenv("XDG_CONFIG_HOME", "/none", 1);
    snprintf(program, sizeof program, "%s/default.ini", mf_paths_presets());
    FUZZ_REQUIRE(unlink(marker) == 0 && rmdir(folder) == 0);
    if (!mf_exists(program)) {
        fprintf(stderr, "%s: no such file: expected the folder of sources in srcdir\n",
                program);
        exit(1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool found;
    mf_config *config = NULL, *again = NULL;
    told t = {0};
    const mf_problem_sink sink = {hear, &t};
    const char *path = fuzz_memory_file(data, size);
    if (!found) find_presets();
    found = true;
    mf_error_clear();
    const int rc = mf_config_load(path, 0, NULL, &config);
    FUZZ_REQUIRE((rc == MF_OK) == (config != NULL));
    FUZZ_REQUIRE(rc == MF_OK || strlen(mf_error_message()) > 0);
    FUZZ_REQUIRE(rc == MF_OK || rc == MF_ECONFIG || rc == MF_ENOTFOUND);
    /* A second reading doubles the time, so only every fourth size has it. */
    if (size % 4 == 0) {
        mf_error_clear();
        FUZZ_REQUIRE(mf_config_load_from(path, 0, NULL, &sink, &again) == rc);
        FUZZ_REQUIRE(rc == MF_OK ? t.n == 0 && again : true);
    }
    if (config)
        FUZZ_REQUIRE(config->moe.top_k >= 1 && config->moe.top_k <= config->moe.experts);
    if (config && again) {
        FUZZ_REQUIRE(config->model.dim == again->model.dim);
        FUZZ_REQUIRE(config->n_regularizers == again->n_regularizers);
        FUZZ_REQUIRE(strcmp(config->router.plugin, again->router.plugin) == 0);
    }
    mf_config_free(config);
    mf_config_free(again);
    return 0;
}
