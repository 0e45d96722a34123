/* code: the graph of a model as data (pretrained/code). Functions of the batch are compared
 * with numbers by hand; every router of moefw must leave with ops that
 * share/code/ops_moefw.py knows. That the code computes the same logits in PyTorch is shown
 * by tests/golden/code/check.py. */
#include "check_main.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "plugin/load/find.h"
#include "pretrained/code/fit.h"
#include "pretrained/code/trace.h"
#include "run/session.h"
#include "tests/lib/program.h"

/* ---- functions of the batch ---- */

static double value(const mf_fit *f, double B, double n)
{
    return f->at[0] + f->at[1] * B + f->at[2] * n + f->at[3] * B * n;
}

START_TEST(cases_are_within_the_model)
{
    for (int64_t seq = 3; seq < 20; seq++) {
        mf_fit_case at[MF_FIT_CASES];
        mf_fit_cases(seq, 8, at);
        for (int i = 0; i < MF_FIT_CASES; i++) {
            ck_assert_int_ge(at[i].batch, 1);
            ck_assert(at[i].seq >= 1 && at[i].seq <= seq);
        }
        ck_assert_int_ne(at[0].seq, at[1].seq);
    }
}
END_TEST

START_TEST(whole_numbers)
{
    mf_fit_case at[MF_FIT_CASES];
    int64_t v[MF_FIT_CASES];
    mf_fit f;
    mf_fit_cases(24, 8, at);
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] = 7;
    ck_assert(mf_fit_whole(at, v, 8, &f) && f.constant && f.at[0] == 7);
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] = 3 * at[i].batch * at[i].seq + 2 * at[i].seq + 5;
    ck_assert(mf_fit_whole(at, v, 8, &f) && !f.constant);
    ck_assert_double_eq_tol(value(&f, 4, 9), 3 * 36 + 18 + 5, 1e-9);
    /* the share of an expert: floor(1.25 T 2 / 8), at least 1; and a list of all shares */
    for (int i = 0; i < MF_FIT_CASES; i++) {
        v[i] = (int64_t)(1.25 * at[i].batch * at[i].seq * 2 / 8);
        if (v[i] < 1) v[i] = 1;
    }
    ck_assert(mf_fit_whole(at, v, 8, &f) && f.step == 1);
    ck_assert_double_eq_tol(value(&f, 5, 7), 1.25 * 35 * 2 / 8, 1e-9);
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] *= 8;
    ck_assert(mf_fit_whole(at, v, 8, &f) && f.step == 8);
    /* no such function */
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] = at[i].seq * at[i].seq;
    ck_assert(!mf_fit_whole(at, v, 8, &f));
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] = at[i].seq - 1; /* 0 for one token: not at least 1 */
    ck_assert(!mf_fit_whole(at, v, 8, &f));
}
END_TEST

START_TEST(real_numbers)
{
    mf_fit_case at[MF_FIT_CASES];
    double v[MF_FIT_CASES];
    mf_fit f;
    bool over;
    mf_fit_cases(24, 8, at);
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] = -0.25 * at[i].batch * at[i].seq;
    ck_assert(mf_fit_real(at, v, &f, &over) && !over && !f.constant);
    ck_assert_double_eq_tol(value(&f, 3, 5), -0.25 * 15, 1e-9);
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] = 1.0 / (at[i].batch * at[i].seq);
    ck_assert(mf_fit_real(at, v, &f, &over) && over);
    ck_assert_double_eq_tol(value(&f, 3, 5), 15, 1e-6);
    for (int i = 0; i < MF_FIT_CASES; i++)
        v[i] = 1.0 / at[i].seq + at[i].batch;
    ck_assert(!mf_fit_real(at, v, &f, &over));
}
END_TEST

/* ---- models ---- */

static char *ops; /* the text of ops_moefw.py */

static bool knows(void *arg, const char *op)
{
    char line[64];
    (void)arg;
    snprintf(line, sizeof line, "\ndef op_%s(", op);
    return strstr(ops, line) != NULL;
}

static int trace(int n, const char *const *set, char **ret_text)
{
    static const char *const common[] = {"data.path=builtin:topics?bytes=4000",
                                         "model.layers=2",
                                         "model.dim=16",
                                         "model.heads=2",
                                         "model.seq=24",
                                         "train.eval_context=0",
                                         "expert.hidden=8",
                                         "moe.experts=4",
                                         "moe.force_causal=yes"};
    enum { COMMON = sizeof common / sizeof *common };
    const char *all[COMMON + 8];
    const mf_session_options options = {.training = false};
    mf_config *config = NULL;
    mf_session *s = NULL;
    mf_code_trace *t = NULL;
    memcpy(all, common, sizeof common);
    for (int i = 0; i < n; i++)
        all[COMMON + i] = set[i];
    *ret_text = NULL;
    int rc = mf_config_load("default", COMMON + n, all, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &options, &s);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    rc = mf_code_trace_new(s->model, knows, NULL, &t);
    if (rc == MF_OK) {
        mf_jw *w = mf_jw_new();
        mf_code_trace_put(t, w);
        *ret_text = mf_strdup(mf_jw_text(w, NULL));
        mf_jw_free(w);
    }
    mf_code_trace_free(t);
    mf_session_close(s);
    return rc;
}

static void refused(const char *option, const char *why)
{
    char *text;
    const int rc = trace(1, &option, &text);
    ck_assert_msg(rc == MF_EINPUT && strstr(mf_error_message(), why), "%s: %s", option,
                  mf_error_message());
}

/* Each router of moefw leaves, but those that have no function of the text. */
START_TEST(every_router)
{
    mf_arena *arena = mf_arena_new();
    mf_found *found;
    int n, left = 0;
    ck_assert_int_eq(mf_find_all(arena, MF_ROUTER, &found, &n), MF_OK);
    for (int i = 0; i < n; i++) {
        char option[128], *text;
        const char *set[] = {option};
        if (!found[i].own || strcmp(found[i].name, "oracle") == 0) continue;
        snprintf(option, sizeof option, "router.plugin=%s", found[i].name);
        if (strcmp(found[i].name, "random") == 0) {
            refused(option, "draws random numbers");
            continue;
        }
        const int rc = trace(1, set, &text);
        ck_assert_msg(rc == MF_OK, "%s: %s", found[i].name, mf_error_message());
        ck_assert_msg(strstr(text, found[i].name), "%s: no node is of the router",
                      found[i].name);
        mf_free(text);
        left++;
    }
    ck_assert_int_ge(left, 32);
    refused("router.plugin=oracle", "reads labels");
    mf_arena_free(arena);
}
END_TEST

/* Numbers that depend on the batch: the two sizes of a list of assignments. */
START_TEST(graph_as_text)
{
    char *text;
    const char *set[] = {"router.plugin=linear", "moe.top_k=2"};
    ck_assert_msg(trace(2, set, &text) == MF_OK, "%s", mf_error_message());
    ck_assert_ptr_nonnull(
        strstr(text, "{\"tensor\":\"layers.1.router.weight\",\"shape\":[4,16]}"));
    ck_assert_ptr_nonnull(strstr(text, "{\"input\":\"tokens\"}"));
    ck_assert_ptr_nonnull(strstr(text, "\"i\":[2,[0,0,0,2],1,1,1]"));
    ck_assert_ptr_nonnull(strstr(text, "\"at\":\"layers.0.router linear\""));
    mf_free(text);
}
END_TEST

/* A short convolution has the same ops for every length. */
START_TEST(short_convolutions)
{
    char *text;
    const char *set[] = {"model.conv_layers=0", "model.conv_bias=yes"};
    ck_assert_msg(trace(2, set, &text) == MF_OK, "%s", mf_error_message());
    ck_assert_ptr_nonnull(strstr(text, "{\"tensor\":\"layers.0.conv.conv.bias\""));
    mf_free(text);
}
END_TEST

START_TEST(what_is_refused)
{
    refused("model.delta_layers=0", "other ops for other batches");
    ops[0] = '\0';
    refused("router.plugin=linear", "ops_moefw.py has no such function");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("code");
    TCase *t = tcase_create("code");
    char path[512];
    size_t n;
    const char *src = getenv("srcdir");
    snprintf(path, sizeof path, "%s/share/code/ops_moefw.py", src ? src : ".");
    if (mf_read_file(path, 0, &ops, &n) != MF_OK) exit(1);
    tcase_add_test(t, cases_are_within_the_model);
    tcase_add_test(t, whole_numbers);
    tcase_add_test(t, real_numbers);
    tcase_add_test(t, every_router);
    tcase_add_test(t, graph_as_text);
    tcase_add_test(t, short_convolutions);
    tcase_add_test(t, what_is_refused); /* the last one: it empties the list of ops */
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
