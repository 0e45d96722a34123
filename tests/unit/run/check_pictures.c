/* pictures: which evaluations are kept for the report, and parameters by module with histograms
 * of their values, from a store and from its checkpoint. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "run/sample/sample_steps.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/checkpoint/checkpoint.h"
#include "run/sample/sample.h"
#include "run/checkpoint/weights.h"
#include "run/run_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- evaluations ---- */

/* The numbers of the evaluations that are chosen among `count`, such as "1 7 14 20". */
static const char *chosen(int64_t samples, const char *at, int64_t count)
{
    static char text[256];
    const mf_report_config c = {.samples = samples, .sample_at = at};
    size_t n = 0;
    text[0] = '\0';
    for (int64_t i = 1; i <= count; i++)
        if (mf_sample_steps(&c, i, count))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n > 0 ? " " : "", (int)i);
    return text;
}

START_TEST(evaluations_are_spread_evenly)
{
    ck_assert_str_eq(chosen(4, "", 20), "1 7 14 20");
    ck_assert_str_eq(chosen(4, "", 3), "1 2 3");
    ck_assert_str_eq(chosen(2, "", 100), "1 100");
    ck_assert_str_eq(chosen(1, "", 9), "9");
    ck_assert_str_eq(chosen(0, "", 9), "");
    ck_assert_str_eq(chosen(16, "", 1), "1");
    ck_assert_str_eq(chosen(4, "1,5,15,20", 20), "1 5 15 20");
    ck_assert_str_eq(chosen(4, " 2 , 30", 20), "2");
}
END_TEST

START_TEST(evaluations_are_counted)
{
    ck_assert_int_eq(mf_evaluations(100, 25), 4);
    ck_assert_int_eq(mf_evaluations(101, 25), 5);
    ck_assert_int_eq(mf_evaluations(7, 0), 1);
    ck_assert_int_eq(mf_evaluation_at(101, 25, 100), 4);
    ck_assert_int_eq(mf_evaluation_at(101, 25, 101), 5);
    ck_assert_int_eq(mf_evaluation_at(7, 0, 7), 1);
}
END_TEST

START_TEST(lists_that_are_none)
{
    static const char *const bad[] = {",",
                                      "1,",
                                      "1,,2",
                                      "0",
                                      "-1",
                                      "x",
                                      "1 2",
                                      "5,5",
                                      "5, 4",
                                      "1.5",
                                      " ",
                                      "1;2",
                                      "1,99999999999999999999999",
                                      "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"};
    int64_t list[MF_PICTURED_MAX];
    int n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!mf_sample_steps_list(bad[i], list, &n), "'%s' passes", bad[i]);
    ck_assert(mf_sample_steps_list("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", list, &n));
    ck_assert_int_eq(n, 16);
    ck_assert_int_eq(list[15], 16);
    const char *const set[] = {"report.sample_at=5,1"};
    mf_config *c = NULL;
    ck_assert_int_eq(mf_config_load(NULL, 1, set, &c), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "sample_at"));
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "5,1"));
}
END_TEST

START_TEST(a_folder_of_samples_is_listed_by_step)
{
    static const char *const names[] = {"step-100.json", "step-9.json", "step-x.json",
                                        "step-7.jso",    "other",       "step-20.json"};
    const char *folder = scratch_path("samples");
    int64_t *steps;
    int n;
    ck_assert_int_eq(mf_sample_list(folder, &steps, &n), MF_OK);
    ck_assert_int_eq(n, 0);
    mf_free(steps);
    mkdir(folder, 0777);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        scratch_write(path, "{}", 2);
    }
    ck_assert_int_eq(mf_sample_list(folder, &steps, &n), MF_OK);
    ck_assert_int_eq(n, 3);
    ck_assert(steps[0] == 9 && steps[1] == 20 && steps[2] == 100);
    mf_free(steps);
    char *path = mf_sample_path("a/b", 20);
    ck_assert_str_eq(path, "a/b/step-20.json");
    mf_free(path);
}
END_TEST

/* ---- parameters ---- */

START_TEST(parts_are_told_by_names)
{
    static const struct {
        const char *name;
        mf_module module;
    } cases[] = {{"embed.weight", MF_MODULE_EMBEDDING},
                 {"position.weight", MF_MODULE_EMBEDDING},
                 {"layers.0.attention.qkv.weight", MF_MODULE_ATTENTION},
                 {"layers.0.delta.qkv.weight", MF_MODULE_ATTENTION},
                 {"layers.0.conv.in.weight", MF_MODULE_ATTENTION},
                 {"layers.1.norm1_out.weight", MF_MODULE_NORMS},
                 {"layers.11.router.weight", MF_MODULE_ROUTER},
                 {"layers.3.expert.norm1_w", MF_MODULE_EXPERTS},
                 {"layers.3.shared.w1", MF_MODULE_EXPERTS},
                 {"layers.1.ffn.w1", MF_MODULE_DENSE},
                 {"layers.1.film.bias", MF_MODULE_ADAPTERS},
                 {"layers.1.skip.weight", MF_MODULE_ADAPTERS},
                 {"layers.1.norm2.weight", MF_MODULE_NORMS},
                 {"norm.bias", MF_MODULE_NORMS},
                 {"head.weight", MF_MODULE_HEAD},
                 {"regularizer.x.w", MF_MODULE_OTHER},
                 {"layers.4", MF_MODULE_OTHER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(mf_module_of(cases[i].name) == cases[i].module, "%s is %s", cases[i].name,
                      mf_module_name(mf_module_of(cases[i].name)));
}
END_TEST

/* A store with an embedding with more values than are read, a norm whose weights are 1, and a
 * router with known values. */
static mf_store *make_store(void)
{
    const mf_init normal = {.kind = MF_INIT_NORMAL, .a = 0.02};
    const mf_init ones = {.kind = MF_INIT_CONST, .a = 1}, zeros = {.kind = MF_INIT_ZERO};
    mf_store *s = mf_store_new();
    mf_param *p;
    mf_store_declare(s, "embed.weight", mf_shape2(3000, 1000), normal, false, &p);
    mf_store_declare(s, "layers.2.norm1.weight", mf_shape1(64), ones, false, &p);
    mf_store_declare(s, "layers.2.router.weight", mf_shape2(2, 2), zeros, false, &p);
    mf_store_declare(s, "layers.2.router.load", mf_shape1(2), ones, true, &p);
    ck_assert_int_eq(mf_store_seal(s, 5, true), MF_OK);
    float *v = mf_store_find(s, "layers.2.router.weight")->value;
    v[0] = -1;
    v[1] = v[2] = 0;
    v[3] = 1;
    return s;
}

static void is_right(const mf_weights *w)
{
    const mf_weights_group *e = &w->group[MF_MODULE_EMBEDDING], *n = &w->group[MF_MODULE_NORMS],
                           *r = &w->group[MF_MODULE_ROUTER];
    double sum = 0;
    ck_assert_int_eq(e->elements, 3000000);
    ck_assert_double_eq_tol(e->mean, 0, 1e-4);
    ck_assert_double_eq_tol(e->sd, 0.02, 1e-4);
    ck_assert_double_eq_tol(e->lo, -0.08, 1e-3);
    for (int b = 0; b < MF_WEIGHTS_BINS; b++)
        sum += e->share[b];
    ck_assert(sum > 0.9999 - 1e-4 && sum <= 1 + 1e-6); /* for N(0, 1), the share .99994 is in -4
                                                        * .. 4 */
    ck_assert_double_gt(e->share[MF_WEIGHTS_BINS / 2], 20 * e->share[2]);
    ck_assert_int_eq(n->elements, 64);
    ck_assert_double_eq(n->sd, 0);
    ck_assert(n->lo < 1 && n->hi > 1);
    ck_assert_double_eq_tol(n->share[MF_WEIGHTS_BINS / 2], 1, 1e-6);
    ck_assert_int_eq(r->elements, 4); /* the buffer is not counted */
    ck_assert_double_eq_tol(r->sd, sqrt(0.5), 1e-12);
    ck_assert(r->least == -1 && r->most == 1 && r->lo == -1 && r->hi == 1);
    ck_assert_double_eq_tol(r->share[0], 0.25, 1e-6);
    ck_assert_double_eq_tol(r->share[MF_WEIGHTS_BINS - 1], 0.25, 1e-6);
    ck_assert_double_eq_tol(r->share[MF_WEIGHTS_BINS / 2], 0.5, 1e-6);
    ck_assert_int_eq(w->group[MF_MODULE_HEAD].elements, 0);
}

START_TEST(weights_of_a_store_and_of_its_checkpoint)
{
    static mf_weights w, again;
    const mf_provenance id = {.version = "1", .kernels = "", .cpu = "", .blas = ""};
    mf_store *s = make_store();
    mf_state *state = mf_state_new();
    mf_inventory *v;
    ck_assert_int_eq(mf_inventory_of_store(s, &v), MF_OK);
    ck_assert_int_eq(mf_inventory_count(v), 3);
    ck_assert_int_eq(mf_inventory_at(v, 1)->layer, 2);
    ck_assert_int_eq(mf_inventory_at(v, 0)->layer, -1);
    ck_assert_int_eq(mf_weights_of(v, &w), MF_OK);
    mf_inventory_free(v);
    is_right(&w);

    ck_assert_int_eq(mf_inventory_of_checkpoint(scratch_path("ckpt"), &v), MF_ENOTFOUND);
    ck_assert_int_eq(mf_ckpt_save(scratch_path("ckpt"), 7, s, NULL, state, &id, 1), MF_OK);
    ck_assert_msg(mf_inventory_of_checkpoint(scratch_path("ckpt"), &v) == MF_OK, "%s",
                  mf_error_message());
    ck_assert_int_eq(mf_inventory_count(v), 3);
    ck_assert_int_eq(mf_inventory_step(v), 7);
    ck_assert_int_eq(mf_weights_of(v, &again), MF_OK);
    mf_inventory_free(v);
    is_right(&again);
    ck_assert_int_eq(again.step, 7);
    mf_state_free(state);
    mf_store_free(s);

    ck_assert_int_eq(mf_weights_write(scratch_path("weights.json"), &w), MF_OK);
    ck_assert_int_eq(mf_weights_read(scratch_path("weights.json"), &again), MF_OK);
    is_right(&again);
}
END_TEST

START_TEST(weights_that_are_not_finite)
{
    static mf_weights w;
    mf_store *s = make_store();
    mf_inventory *v;
    float *x = mf_store_find(s, "layers.2.router.weight")->value;
    x[0] = NAN;
    x[3] = INFINITY;
    float *n = mf_store_find(s, "layers.2.norm1.weight")->value;
    for (int i = 0; i < 64; i++)
        n[i] = NAN;
    ck_assert_int_eq(mf_inventory_of_store(s, &v), MF_OK);
    ck_assert_int_eq(mf_weights_of(v, &w), MF_OK);
    ck_assert_double_eq(w.group[MF_MODULE_ROUTER].mean, 0);
    ck_assert_int_eq(w.group[MF_MODULE_NORMS].elements, 0);
    mf_inventory_free(v);
    mf_store_free(s);
}
END_TEST

START_TEST(damaged_weights)
{
    static const char *const texts[] = {
        "{}", "[]", "{\"step\":\"x\",\"groups\":[7,{}]}",
        ("{\"groups\":[{\"group\":\"head\",\"elements\":4,\"mean\":0,\"sd\":1,\"least\":0,"
         "\"most\":1,\"lo\":1,\"hi\":1,\"share\":[]}]}")};
    static mf_weights w;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        scratch_write(scratch_path("bad.json"), texts[i], strlen(texts[i]));
        ck_assert_int_eq(mf_weights_read(scratch_path("bad.json"), &w), MF_OK);
        for (int p = 0; p < MF_MODEL_MODULES; p++)
            ck_assert_int_eq(w.group[p].elements, 0);
    }
    scratch_write(scratch_path("bad.json"), "{", 1);
    ck_assert_int_eq(mf_weights_read(scratch_path("bad.json"), &w), MF_EINPUT);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pictures");
    TCase *c = tcase_create("pictures");
    tcase_add_test(c, evaluations_are_spread_evenly);
    tcase_add_test(c, evaluations_are_counted);
    tcase_add_test(c, lists_that_are_none);
    tcase_add_test(c, a_folder_of_samples_is_listed_by_step);
    tcase_add_test(c, parts_are_told_by_names);
    tcase_add_test(c, weights_of_a_store_and_of_its_checkpoint);
    tcase_add_test(c, weights_that_are_not_finite);
    tcase_add_test(c, damaged_weights);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
