/* changes: which settings a resumed run may change, according to moefw/run.h. The settings of
 * its model must stay the same, but its files may have other paths. The run's manifest keeps
 * the earlier values. */
#include "check_main.h"

#include <moefw/moefw.h>
#include <moefw/run.h>
#include <stdio.h>
#include <string.h>

#include "base/file/io.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

static const char *const small[][2] = {{"data.path", "builtin:topics?bytes=5000"},
                                       {"model.dim", "8"},
                                       {"model.layers", "1"},
                                       {"model.heads", "2"},
                                       {"model.seq", "16"},
                                       {"moe.experts", "2"},
                                       {"moe.top_k", "1"},
                                       {"expert.hidden", "8"},
                                       {"train.eval_context", "0"},
                                       {"train.eval_every", "0"},
                                       {"train.eval_batches", "1"},
                                       {"train.batch", "2"},
                                       {"train.steps", "1"},
                                       {"report.enabled", "no"},
                                       {"train.threads", "1"}};

static void ok(const moefw_run *run, int rc)
{
    ck_assert_msg(rc == MF_OK, "%d: %s", rc, moefw_run_message(run));
}

typedef const char *assignment[2];

static void set(moefw_run *run, int n, const assignment *a)
{
    for (int i = 0; i < n; i++)
        ok(run, moefw_run_set(run, a[i][0], a[i][1]));
}
#define SET(run, ...)                                                                          \
    set(run, (int)(sizeof(assignment[]){__VA_ARGS__} / sizeof(assignment)),                    \
        (const assignment[]){__VA_ARGS__})

static moefw_run *configured(void)
{
    moefw_run *run = moefw_run_new();
    ck_assert_ptr_nonnull(run);
    ok(run, moefw_run_configure(run, "default"));
    set(run, sizeof small / sizeof *small, small);
    return run;
}

/* Trains a run for one step. */
static void train(moefw_run *run, const char *path)
{
    ok(run, moefw_run_start(run, path));
    ok(run, moefw_run_train(run));
    moefw_run_free(run);
}

/* A run with the configuration with which the run at `path` is to continue. */
static moefw_run *again(const char *path)
{
    moefw_run *run = moefw_run_new();
    ok(run, moefw_run_configure(run, path));
    return run;
}

static char *text_of(const char *path, const char *name, size_t *ret_n)
{
    char file[640];
    snprintf(file, sizeof file, "%s/%s", path, name);
    char *text = scratch_read(file, ret_n);
    ck_assert_ptr_nonnull(text);
    return text;
}

START_TEST(a_section_of_the_model_stays)
{
    const char *path = scratch_path("adapted");
    moefw_run *run = configured();
    SET(run, {"adapter.l.plugin", "film"});
    train(run, path);
    run = again(path);
    SET(run, {"adapter.l.plugin", "none"}, {"train.steps", "2"});
    ck_assert_int_eq(moefw_run_resume(run, path), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "[adapter.l] is removed: a run that "
                                                         "is resumed keeps the model"));
    moefw_run_free(run);
    run = again(path);
    SET(run, {"adapter.m.plugin", "film"}, {"train.steps", "2"});
    ck_assert_int_eq(moefw_run_resume(run, path), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(moefw_run_message(run), "[adapter.m] is new: "));
    moefw_run_free(run);
}
END_TEST

/* ---- a plugin with a file ---- */

typedef struct conf {
    const char *file;
} conf;

static int init(void *self, mf_ctx *ctx, const void *options, const mf_dims *dims)
{
    (void)self, (void)options;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}

static const mf_option options[] = {MF_OPTION_STR(conf, file, "", "a table"), MF_END_OPTIONS};
static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};
static const mf_plugin filed = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "filed", "1", "MIT",
                                              "reads a file", options, conf, char, &vtable);

START_TEST(a_file_may_lie_elsewhere)
{
    const char *path = scratch_path("filed");
    moefw_run *run = configured();
    ok(run, moefw_run_register_plugin(run, &filed));
    SET(run, {"router.plugin", "filed"}, {"router.file", "/one/table"});
    train(run, path);
    run = again(path);
    SET(run, {"router.file", "/two/table"}, {"train.steps", "2"});
    ok(run, moefw_run_resume(run, path));
    moefw_run_free(run);
    run = again(path);
    ck_assert_str_eq(moefw_run_get(run, "router.file"), "/two/table");
    moefw_run_free(run);
}
END_TEST

/* ---- the manifest ---- */

/* A run of an early version has no configuration in its manifest, and later versions or other
 * programs may have added members. The run is identified by its files as they were. */
START_TEST(a_manifest_keeps_what_it_has)
{
    static const char more[] = "\"odd\":{\"on\":true,\"off\":false,\"none\":null,\"list\":[1,"
                               "2.5,\"x\"]}";
    const char *path = scratch_path("kept");
    char *manifest, *config, hash[33], named[64], file[640];
    size_t n, m;
    train(configured(), path);
    manifest = text_of(path, "manifest.json", &n);
    char *at = strstr(manifest, "\"config\":\"");
    ck_assert_ptr_nonnull(at);
    char *end = at + strlen("\"config\":\"");
    while (*end != '"')
        end += 1 + (*end == '\\');
    ck_assert_uint_gt((size_t)(end - at), sizeof more);
    memcpy(at, more, sizeof more - 1);
    memmove(at + sizeof more - 1, end + 1, strlen(end + 1) + 1);
    n = strlen(manifest);
    snprintf(file, sizeof file, "%s/manifest.json", path);
    scratch_write(file, manifest, n);
    config = text_of(path, "config.ini", &m);
    manifest = realloc(manifest, n + m);
    ck_assert_ptr_nonnull(manifest);
    memcpy(manifest + n, config, m);
    mf_hash_bytes(manifest, n + m, hash); /* hash of both files, one after another */
    free(manifest);
    free(config);

    moefw_run *run = again(path);
    SET(run, {"train.steps", "2"});
    ok(run, moefw_run_resume(run, path));
    moefw_run_free(run);
    manifest = text_of(path, "manifest.json", NULL);
    snprintf(named, sizeof named, "\"first_files\":\"%s\"", hash);
    ck_assert_ptr_nonnull(strstr(manifest, more));
    ck_assert_ptr_nonnull(strstr(manifest, named));
    ck_assert_ptr_nonnull(strstr(manifest, "\"config\":\""));
    ck_assert_ptr_nonnull(strstr(
        manifest, "{\"step\":1,\"option\":\"train.steps\",\"from\":\"1\",\"to\":\"2\"}"));
    free(manifest);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("changes");
    TCase *c = tcase_create("changes");
    tcase_add_test(c, a_section_of_the_model_stays);
    tcase_add_test(c, a_file_may_lie_elsewhere);
    tcase_add_test(c, a_manifest_keeps_what_it_has);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
