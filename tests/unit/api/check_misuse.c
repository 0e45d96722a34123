/* misuse: moefw/run.h called with invalid arguments: no handle, no text, numbers out of range,
 * structs of a wrong size, unknown names. The message of each call names what is expected, and
 * the call changes nothing. Also tests the functions for texts, whose results are checked byte
 * for byte. */
#include "check_main.h"

#include <math.h>
#include <moefw/moefw.h>
#include <moefw/run.h>
#include <stdio.h>
#include <string.h>

#include "base/file/io.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"

static const char *const small[][2] = {{"data.path", "builtin:topics?bytes=20000"},
                                       {"model.dim", "16"},
                                       {"model.layers", "1"},
                                       {"model.heads", "2"},
                                       {"model.seq", "16"},
                                       {"moe.experts", "2"},
                                       {"moe.top_k", "1"},
                                       {"expert.hidden", "16"},
                                       {"train.eval_context", "0"},
                                       {"train.batch", "2"},
                                       {"train.steps", "4"},
                                       {"report.enabled", "no"},
                                       {"train.threads", "1"}};

static void ok(const moefw_run *run, int rc)
{
    ck_assert_msg(rc == MF_OK, "%d: %s", rc, moefw_run_message(run));
}

/* Checks that the call failed with `code` and a message that contains `part`. */
static void failed(const moefw_run *run, int rc, int code, const char *part)
{
    ck_assert_msg(rc == code && strstr(moefw_run_message(run), part), "%d: %s; expected %d, %s",
                  rc, moefw_run_message(run), code, part);
    ck_assert_int_eq(moefw_run_code(run), code);
}

static moefw_run *configured(void)
{
    moefw_run *run = moefw_run_new();
    ck_assert_ptr_nonnull(run);
    ok(run, moefw_run_configure(run, "default"));
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        ok(run, moefw_run_set(run, small[i][0], small[i][1]));
    return run;
}

/* A run opened for reading. Its data determine the vocabulary. */
static moefw_run *opened(void)
{
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    moefw_run *run = configured();
    o.data = 1;
    ok(run, moefw_run_open(run, NULL, &o));
    return run;
}

START_TEST(without_a_handle)
{
    size_t n = 7;
    double loss;
    ck_assert_int_eq(moefw_run_configure(NULL, "default"), MF_EINVAL);
    ck_assert_int_eq(moefw_run_set(NULL, "train.lr", "1"), MF_EINVAL);
    ck_assert_ptr_null(moefw_run_get(NULL, "train.lr"));
    ck_assert_int_eq(moefw_run_options(NULL, NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_use_plugin(NULL, "hash"), MF_EINVAL);
    ck_assert_int_eq(moefw_run_register_plugin(NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_start(NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_resume(NULL, "run"), MF_EINVAL);
    ck_assert_int_eq(moefw_run_step(NULL, NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_done(NULL), 0);
    ck_assert_int_eq(moefw_run_finish(NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_train(NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_save(NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_on_metrics(NULL, NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_evaluate(NULL, NULL, 0, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_evaluate_batch(NULL, NULL, &loss), MF_EINVAL);
    ck_assert_int_eq(moefw_run_open(NULL, "run", NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_info(NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_encode(NULL, "a", 1, NULL, 0, &n), MF_EINVAL);
    ck_assert_ptr_null(moefw_run_token_text(NULL, 1, &n));
    ck_assert_int_eq(moefw_run_generate(NULL, "a", 1, NULL, NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_generate_tokens(NULL, NULL, 0, NULL, NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_routing(NULL, NULL, 0, NULL, NULL), MF_EINVAL);
    moefw_run_ask_stop(NULL, 2);
    moefw_run_ask_save(NULL);
    moefw_run_on_log(NULL, 0, NULL, NULL);
    moefw_run_free(NULL);
}
END_TEST

START_TEST(options_that_are_missing)
{
    moefw_step step = {.size = sizeof step};
    moefw_run *run = configured();
    failed(run, moefw_run_set(run, NULL, "1"), MF_EINVAL, "found NULL");
    failed(run, moefw_run_set(run, "train.lr", NULL), MF_EINVAL, "found NULL");
    ck_assert_ptr_null(moefw_run_get(run, "train.nothing"));
    ck_assert_int_eq(moefw_run_code(run), MF_ENOTFOUND);
    ck_assert_ptr_null(moefw_run_get(run, "lr"));
    ck_assert_ptr_null(moefw_run_get(run, NULL));
    failed(run, moefw_run_use_plugin(run, NULL), MF_EINVAL, "found NULL");
    failed(run, moefw_run_resume(run, "/nonexistent"), MF_EINPUT, "no such run");
    ck_assert_str_eq(moefw_run_get(run, "model.dim"), "16");
    ok(run, moefw_run_start(run, NULL));
    failed(run, moefw_run_set(run, "train.lr", "fast"), MF_ECONFIG,
           "expected a number, found 'fast'");
    failed(run, moefw_run_set(run, "train.nothing", "1"), MF_ENOTFOUND, "train.nothing");
    ok(run, moefw_run_set(run, "train.lr", "no")); /* for a number, yes and no are accepted */
    ok(run, moefw_run_step(run, NULL, &step));
    ck_assert_double_eq(step.lr, 0);
    ok(run, moefw_run_set(run, "train.lr", "yes"));
    moefw_run_free(run);
    run = moefw_run_new();
    failed(run, moefw_run_resume(run, NULL), MF_EINVAL, "found NULL");
    ck_assert_ptr_null(moefw_run_get(run, "train.lr"));
    ck_assert_int_eq(moefw_run_code(run), MF_EUSAGE);
    moefw_run_free(run);
}
END_TEST

/* Each allocation fails once. A call that has failed can be repeated. */
START_TEST(options_without_memory)
{
    moefw_run *run = configured();
    const char *value = NULL;
    for (long nth = 1; !value; nth++) {
        fault_alloc(nth, FAULT_ONCE);
        value = moefw_run_get(run, "model.dim");
        const bool hit = fault_hit();
        fault_off();
        ck_assert(hit || value);
        if (!value) ck_assert_int_eq(moefw_run_code(run), MF_ENOMEM);
    }
    ck_assert_str_eq(value, "16");
    moefw_run_free(run);
}
END_TEST

START_TEST(structs_of_a_wrong_size)
{
    moefw_run *run = configured();
    moefw_open_options o = MOEFW_OPEN_OPTIONS_INIT;
    moefw_sampling s = MOEFW_SAMPLING_INIT;
    struct {
        moefw_info info;
        char later[64];
    } newer;
    o.size = 3;
    failed(run, moefw_run_open(run, NULL, &o), MF_EINVAL, "expected their size, found 3");
    moefw_run_free(run);
    run = opened();
    s.size = 5;
    failed(run, moefw_run_generate(run, "a", 1, &s, NULL, NULL), MF_EINVAL, "found 5");
    newer.info.size = 2;
    failed(run, moefw_run_info(run, &newer.info), MF_EINVAL, "found 2");
    /* a program of a later version: fields unknown to this version must be zero */
    memset(&newer, 0x55, sizeof newer);
    newer.info.size = sizeof newer;
    ok(run, moefw_run_info(run, &newer.info));
    ck_assert_int_eq(newer.info.layers, 1);
    for (size_t i = 0; i < sizeof newer.later; i++)
        ck_assert_int_eq(newer.later[i], 0);
    moefw_run_free(run);
}
END_TEST

/* ---- text ---- */

static const char *const text = "Moe, caf\xc3\xa9";

START_TEST(text_becomes_tokens_and_text_again)
{
    int32_t id[32] = {0};
    char again[64];
    size_t n = 0, used = 0, piece;
    moefw_run *run = opened();
    ok(run, moefw_run_encode(run, text, strlen(text), id, 32, &n));
    ck_assert_uint_eq(n, strlen(text)); /* with the default tokenizer, tokens are bytes */
    for (size_t i = 0; i < n; i++) {
        const char *bytes = moefw_run_token_text(run, id[i], &piece);
        ck_assert_ptr_nonnull(bytes);
        memcpy(again + used, bytes, piece);
        used += piece;
    }
    ck_assert(used == strlen(text) && memcmp(again, text, used) == 0);
    /* space for three ids: only these are written, but all are counted */
    memset(id, 0x7f, sizeof id);
    ok(run, moefw_run_encode(run, text, strlen(text), id, 3, &n));
    ck_assert(n == strlen(text) && id[2] != 0x7f7f7f7f && id[3] == 0x7f7f7f7f);
    ok(run, moefw_run_encode(run, text, 0, NULL, 0, &n));
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(moefw_run_encode(run, NULL, 1, id, 3, &n), MF_EINVAL);
    ck_assert_int_eq(moefw_run_encode(run, text, 1, NULL, 3, &n), MF_EINVAL);
    ck_assert_int_eq(moefw_run_encode(run, text, 1, id, 3, NULL), MF_EINVAL);
    ck_assert_ptr_null(moefw_run_token_text(run, -1, &piece));
    ck_assert_uint_eq(piece, 0);
    ck_assert_ptr_null(moefw_run_token_text(run, 1 << 20, NULL));
    moefw_run_free(run);
}
END_TEST

START_TEST(without_a_tokenizer)
{
    int32_t id;
    size_t n;
    moefw_run *run = configured();
    ok(run, moefw_run_set(run, "data.path", "none"));
    ok(run, moefw_run_set(run, "model.vocab", "32"));
    ok(run, moefw_run_start(run, NULL));
    failed(run, moefw_run_encode(run, "a", 1, &id, 1, &n), MF_EUSAGE, "no tokenizer");
    ck_assert_ptr_null(moefw_run_token_text(run, 1, &n));
    failed(run, moefw_run_generate(run, "a", 1, NULL, NULL, NULL), MF_EUSAGE, "no tokenizer");
    failed(run, moefw_run_evaluate(run, NULL, 0, NULL), MF_EUSAGE, "no data");
    moefw_run_free(run);
}
END_TEST

static int stop_at_three(void *arg, const char *piece, size_t n, int32_t token)
{
    (void)piece;
    (void)n;
    if (token < 0) return 0;
    return ++*(int *)arg == 3;
}

START_TEST(sampling_within_its_bounds)
{
    const moefw_sampling good = MOEFW_SAMPLING_INIT;
    moefw_sampling bad[7] = {good, good, good, good, good, good, good};
    int pieces = 0;
    moefw_run *run = opened();
    bad[0].tokens = -1;
    bad[1].temperature = -0.5;
    bad[2].temperature = NAN;
    bad[3].top_k = -1;
    bad[4].top_p = -0.1;
    bad[5].top_p = 1.1;
    bad[6].repeat_penalty = 0;
    for (int i = 0; i < 7; i++)
        failed(run, moefw_run_generate(run, "a", 1, &bad[i], stop_at_three, &pieces), MF_EINVAL,
               "sampling: expected tokens");
    ck_assert_int_eq(pieces, 0);
    ck_assert_int_eq(moefw_run_generate(run, NULL, 1, &good, NULL, NULL), MF_EINVAL);
    ck_assert_int_eq(moefw_run_generate_tokens(run, NULL, 1, &good, NULL, NULL), MF_EINVAL);
    failed(run, moefw_run_generate(run, "", 0, &good, NULL, NULL), MF_EUSAGE, "prompt");
    ok(run, moefw_run_generate(run, "a", 1, &good, stop_at_three, &pieces));
    ck_assert_int_eq(pieces, 3); /* the callback stopped the text */
    moefw_run_free(run);
}
END_TEST

/* ---- evaluation, saving ---- */

START_TEST(splits_and_batches_that_cannot_be)
{
    const int32_t tokens[4] = {1, 2, 3, 4};
    moefw_batch b = {sizeof b, 2, 2, tokens, tokens, NULL};
    double loss = 0, again = 0;
    moefw_metrics m = {.size = sizeof m};
    moefw_run *run = configured();
    failed(run, moefw_run_evaluate(run, NULL, 0, NULL), MF_EUSAGE, "evaluate");
    ok(run, moefw_run_start(run, NULL));
    failed(run, moefw_run_evaluate(run, "tset", 0, &m), MF_EINVAL, "found 'tset'");
    failed(run, moefw_run_evaluate(run, "val", -1, &m), MF_EINVAL, "found -1");
    failed(run, moefw_run_evaluate(run, "test", 1, &m), MF_EUSAGE, "while a run trains");
    ok(run, moefw_run_evaluate(run, "val", 1, &m));
    failed(run, moefw_run_evaluate_batch(run, NULL, &loss), MF_EINVAL, "no batch");
    failed(run, moefw_run_evaluate_batch(run, &b, NULL), MF_EINVAL, "no result");
    b.rows = 0;
    failed(run, moefw_run_evaluate_batch(run, &b, &loss), MF_EINVAL, "batch: expected");
    b.rows = 1;
    b.width = 17;
    int32_t many[17] = {0};
    b.tokens = b.targets = many;
    failed(run, moefw_run_evaluate_batch(run, &b, &loss), MF_EINVAL,
           "expected at most 16 tokens in a row, found 17");
    b = (moefw_batch){sizeof b, 2, 2, tokens, tokens, NULL};
    ok(run, moefw_run_evaluate_batch(run, &b, &loss));
    ok(run, moefw_run_evaluate_batch(run, &b, &again)); /* uses the graph of the first call */
    ck_assert(isfinite(loss) && loss == again);
    failed(run, moefw_run_routing(run, NULL, 1, NULL, NULL), MF_EINVAL, "");
    moefw_run_free(run);
    const int32_t rows[2 * 16] = {0};
    run = configured(); /* a classifier has classes instead of targets */
    ok(run, moefw_run_set(run, "data.path", "none"));
    ok(run, moefw_run_set(run, "model.vocab", "32"));
    ok(run, moefw_run_set(run, "model.task", "classify"));
    ok(run, moefw_run_set(run, "model.classes", "2"));
    ok(run, moefw_run_start(run, NULL));
    b = (moefw_batch){sizeof b, 2, 16, rows, rows, NULL};
    failed(run, moefw_run_step(run, &b, NULL), MF_EUSAGE,
           "batch: expected a model with model.task = lm");
    moefw_run_free(run);
}
END_TEST

START_TEST(a_checkpoint_on_demand)
{
    char dir[] = "/tmp/moefw-misuse-XXXXXX", path[80];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/run", dir);
    moefw_run *run = configured();
    ok(run, moefw_run_set(run, "train.save_every", "0"));
    ok(run, moefw_run_start(run, path));
    ok(run, moefw_run_step(run, NULL, NULL));
    snprintf(path, sizeof path, "%s/run/ckpt/step-1", dir);
    ck_assert_int_ne(access(path, F_OK), 0);
    moefw_run_ask_save(run);
    ok(run, moefw_run_step(run, NULL, NULL));
    snprintf(path, sizeof path, "%s/run/ckpt/step-2/model.safetensors", dir);
    ck_assert_int_eq(access(path, F_OK), 0);
    ok(run, moefw_run_step(run, NULL, NULL)); /* a save that is requested once happens once */
    snprintf(path, sizeof path, "%s/run/ckpt/step-3", dir);
    ck_assert_int_ne(access(path, F_OK), 0);
    moefw_run_free(run);
    /* a path with a slash at its end is a folder of runs */
    run = configured();
    snprintf(path, sizeof path, "%s/runs/", dir);
    ok(run, moefw_run_start(run, path));
    moefw_info info = {.size = sizeof info};
    ok(run, moefw_run_info(run, &info));
    snprintf(path, sizeof path, "%s/runs/default-1", dir);
    ck_assert_str_eq(info.directory, path);
    moefw_run_free(run);
    ck_assert_int_eq(mf_remove_tree(dir), MF_OK);
}
END_TEST

START_TEST(versions_agree)
{
    char numbers[32];
    const int v = moefw_version_number();
    snprintf(numbers, sizeof numbers, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    ck_assert_str_eq(moefw_version(), numbers);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("misuse");
    TCase *c = tcase_create("misuse");
    tcase_add_test(c, without_a_handle);
    tcase_add_test(c, options_that_are_missing);
    tcase_add_test(c, options_without_memory);
    tcase_add_test(c, structs_of_a_wrong_size);
    tcase_add_test(c, text_becomes_tokens_and_text_again);
    tcase_add_test(c, without_a_tokenizer);
    tcase_add_test(c, sampling_within_its_bounds);
    tcase_add_test(c, splits_and_batches_that_cannot_be);
    tcase_add_test(c, a_checkpoint_on_demand);
    tcase_add_test(c, versions_agree);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
