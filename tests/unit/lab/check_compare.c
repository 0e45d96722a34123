/* comparisons: refusals before a run begins, plans, the settings of a search, and how runs end.
 * tests/cli/compare.bats runs whole comparisons. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "lab/compare/compare_child.h"
#include "lab/compare/compare_parts.h"
#include "lab/compare/compare_search.h"
#include "lab/compare/compare_space.h"
#include "ops/ops.h"
#include "plugin/host.h"
#include "plugin/load/open.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SETTINGS = 5, MORE = 3 };

/* A comparison of tiny models, with room for additional settings. */
typedef struct {
    mf_assignment set[SETTINGS + MORE];
    mf_compare_spec spec;
} small;

static mf_compare_spec *spec_of(small *s, const char *routers, const char *out)
{
    static const char *const texts[SETTINGS] = {"data.path=builtin:topics?bytes=40000",
                                                "model.layers=1", "model.dim=32",
                                                "train.batch=2", "train.steps=1000000"};
    for (int i = 0; i < SETTINGS; i++)
        s->set[i] = (mf_assignment){texts[i], "a test"};
    s->spec = (mf_compare_spec){.config = "default",
                                .set = s->set,
                                .n_set = SETTINGS,
                                .routers = routers,
                                .out = scratch_path(out),
                                .seeds = 1,
                                .delta = (double)NAN,
                                .jobs = 1,
                                .threads = 1};
    return &s->spec;
}

static void add_set(small *s, const char *text)
{
    s->set[s->spec.n_set++] = (mf_assignment){text, "a test"};
}

static void said(const char *words)
{
    ck_assert_msg(strstr(mf_error_message(), words) != NULL, "'%s' lacks '%s'",
                  mf_error_message(), words);
}

static void refused(const small *s, int code, const char *words)
{
    mf_compare *c = NULL;
    mf_error_clear();
    ck_assert_int_eq(mf_compare_new(&s->spec, &c), code);
    ck_assert_ptr_null(c);
    said(words);
}

static mf_compare *made(const small *s)
{
    mf_compare *c = NULL;
    ck_assert_msg(mf_compare_new(&s->spec, &c) == MF_OK, "%s", mf_error_message());
    return c;
}

/* ---- what is refused ---- */

START_TEST(models_that_cannot_be_compared)
{
    small s;
    spec_of(&s, "linear", "dense");
    add_set(&s, "model.moe_every=0");
    refused(&s, MF_EUSAGE, "a dense model has no router to compare");
    spec_of(&s, "linear", "dense");
    add_set(&s, "data.split=1");
    refused(&s, MF_EUSAGE, "data.split = 1 leaves nothing to validate with");
    spec_of(&s, "linear", "dense")->equal = MF_EQUAL_TIME;
    add_set(&s, "train.steps=0");
    add_set(&s, "train.epochs=1");
    refused(&s, MF_EUSAGE, "equal time is made by train.steps: expected 1 or more, found 0");
    ck_assert(!mf_exists(s.spec.out));
    scratch_write(scratch_path("file"), "x", 1);
    spec_of(&s, "linear", "file");
    refused(&s, MF_EUSAGE, "file: expected a directory, found a file");
}
END_TEST

/* The router expert_choice is refused in a causal decoder. */
START_TEST(a_baseline_that_does_not_fit)
{
    small s;
    spec_of(&s, "expert_choice,hash,linear", "moved");
    add_set(&s, "router.plugin=expert_choice");
    mf_compare *c = made(&s);
    ck_assert_str_eq(c->routers[c->baseline].entry.label, "hash");
    ck_assert_ptr_nonnull(c->routers[0].refused);
    mf_compare_free(c);
    spec_of(&s, "expert_choice,hash", "named")->baseline = "expert_choice";
    refused(&s, MF_EUSAGE, "the baseline expert_choice cannot stand in this model: ");
    spec_of(&s, "expert_choice", "alone");
    refused(&s, MF_EUSAGE, "the baseline expert_choice cannot stand in this model: ");
    ck_assert(!mf_exists(s.spec.out));
}
END_TEST

/* An expert with the option `hidden` whose size does not depend on it: all experts share
 * one matrix. */
typedef struct {
    int64_t hidden;
} conf;

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    (void)c;
    return mf_plugin_host()->param(
        ctx, "weight", mf_shape3(dims->experts, dims->dim, dims->dim), MF_NORMAL(0.1));
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)self;
    *ret_y =
        mf_grouped_linear(g, in->x, mf_plugin_host()->use(ctx, g, "weight"), in->offset, NULL);
    return mf_plugin_host()->status(g);
}

START_TEST(experts_that_do_not_grow)
{
    static const mf_option options[] = {
        MF_OPTION_INT(conf, hidden, "64", 1, 1e6, 0, "not used"), MF_END_OPTIONS};
    static const mf_expert table = {.size = sizeof table, .init = init, .forward = forward};
    static const mf_host *slot;
    static const mf_plugin rigid = {.magic = MF_MAGIC,
                                    .abi = MF_ABI,
                                    .size = sizeof(mf_plugin),
                                    .host_size = sizeof(mf_host),
                                    .option_size = sizeof(mf_option),
                                    .vtable_size = sizeof table,
                                    .kind = MF_EXPERT,
                                    .name = "rigid",
                                    .version = "1",
                                    .license = "MIT",
                                    .brief = "one matrix",
                                    .options = options,
                                    .conf_size = sizeof(conf),
                                    .vtable = &table,
                                    .host = &slot};
    small s;
    ck_assert_msg(mf_plugin_register(&rigid) == MF_OK, "%s", mf_error_message());
    spec_of(&s, "linear,mlp", "rigid")->equal = MF_EQUAL_PARAMS;
    add_set(&s, "expert.plugin=rigid");
    refused(&s, MF_EUSAGE, "the experts of this model do not grow with it");
}
END_TEST

START_TEST(another_configuration_there)
{
    small s;
    char path[512];
    spec_of(&s, "linear", "there");
    mf_compare_free(made(&s));
    snprintf(path, sizeof path, "%s/linear/config.ini", s.spec.out);
    size_t n;
    char *text = scratch_read(path, &n);
    ck_assert_ptr_nonnull(text);
    char *last = strrchr(text, '['); /* removes the last section */
    ck_assert(last && last > text);
    scratch_write(path, text, (size_t)(last - text));
    free(text);
    refused(&s, MF_EUSAGE, "config.ini is of another comparison (one has more keys)");
}
END_TEST

/* ---- plans ---- */

static mf_compare_spec read_plan(const char *text, int code)
{
    mf_arena *arena = mf_arena_new();
    mf_json *doc = NULL;
    mf_compare_spec s = {0};
    ck_assert_int_eq(mf_json_parse("plan.json", text, strlen(text), &doc), MF_OK);
    ck_assert_msg(mf_compare_plan_take(arena, doc, &s) == code, "%s", text);
    mf_json_free(doc);
    mf_arena_free(arena);
    return s;
}

#define PLAN(more)                                                                             \
    "{\"set\":[],\"routers\":\"linear\",\"baseline\":\"linear\",\"equal\":\"steps\","          \
    "\"seeds\":3" more "}"

START_TEST(plans_as_text)
{
    ck_assert_int_eq(read_plan(PLAN(""), MF_OK).skip_seeds, 0);
    ck_assert_int_eq(read_plan(PLAN(",\"skip_seeds\":10000"), MF_OK).skip_seeds, 10000);
    read_plan(PLAN(",\"skip_seeds\":-1"), MF_EINPUT);
    read_plan(PLAN(",\"skip_seeds\":10001"), MF_EINPUT);
    read_plan(PLAN(",\"skip_seeds\":\"1\""), MF_EINPUT);
    /* the default preset has no name to store */
    small s;
    mf_jw *w = mf_jw_new();
    spec_of(&s, "linear", "unused")->config = NULL;
    mf_jw_object(w);
    mf_compare_plan_put(w, &s.spec, "linear");
    mf_jw_end(w);
    const char *text = mf_jw_text(w, NULL);
    ck_assert_msg(strstr(text, "\"config\":null") != NULL, "%s", text);
    mf_jw_free(w);
}
END_TEST

/* A plan contains at most 64 looks. The level of a further look is added to the level of the
 * last one. */
START_TEST(more_looks_than_a_plan_holds)
{
    small s;
    mf_compare c = {.spec = &s.spec, .n_looks = MF_LOOKS_MAX};
    mf_compare_router r = {.entry = {.label = "linear"}};
    double total;
    c.routers = &r;
    spec_of(&s, "linear", "looked")->seeds = 2 * MF_LOOKS_MAX;
    ck_assert_int_eq(mf_mkdirs(s.spec.out), MF_OK);
    for (int i = 0; i < MF_LOOKS_MAX; i++)
        c.looks[i] = (mf_look){i + 2, 1e-4};
    const double level = mf_compare_level(&c, &total);
    ck_assert(level > 0);
    ck_assert_int_eq(mf_compare_looked(&c), MF_OK);
    ck_assert_int_eq(c.n_looks, MF_LOOKS_MAX);
    ck_assert_int_eq(c.looks[MF_LOOKS_MAX - 1].pairs, MF_LOOKS_MAX + 1);
    ck_assert_double_eq_tol(c.looks[MF_LOOKS_MAX - 1].level, 1e-4 + level, 1e-12);
    ck_assert(mf_compare_is(s.spec.out));
}
END_TEST

/* ---- what a search tries ---- */

static int trials(const mf_space *space, uint64_t seed, char text[512])
{
    mf_arena *arena = mf_arena_new();
    const char **list;
    int n;
    ck_assert_msg(mf_space_trials(arena, space, seed, &list, &n) == MF_OK, "%s",
                  mf_error_message());
    text[0] = '\0';
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), 512 - strlen(text), "%s;", list[i]);
    mf_arena_free(arena);
    return n;
}

/* With a budget smaller than the number of combinations, some combinations are chosen at
 * random, each at most once. */
START_TEST(some_of_the_combinations)
{
    static const char *const grid[] = {"train.lr=1,2,3", "train.batch=4,5"};
    const mf_space space = {.grid = grid, .n_grid = 2, .budget = 4};
    char first[512], text[512];
    bool other = false;
    ck_assert_int_eq(trials(&space, 1, first), 4);
    int found = 0;
    for (int i = 0; i < 6; i++) {
        char one[64];
        snprintf(one, sizeof one, "train.lr=%d+train.batch=%d;", 1 + i % 3, 4 + i / 3);
        const char *at = strstr(first, one);
        if (!at) continue;
        found++;
        ck_assert_ptr_null(strstr(at + 1, one));
    }
    ck_assert_int_eq(found, 4);
    trials(&space, 1, text);
    ck_assert_str_eq(text, first);
    for (uint64_t seed = 2; seed < 12; seed++) {
        trials(&space, seed, text);
        other = other || strcmp(text, first) != 0;
    }
    ck_assert(other);
}
END_TEST

/* Options of routers are not checked before the trials, because only the plugin
 * defines them. */
START_TEST(options_of_routers_are_left_to_the_trials)
{
    static const char *const grid[] = {"router.no_such_option=1,2"}, *const own[] = {
                                                                         "model.no_such=1,2"};
    const mf_search_spec of_router = {.space = {.grid = grid, .n_grid = 1}, .trial_seeds = 1},
                         of_model = {.space = {.grid = own, .n_grid = 1}, .trial_seeds = 1};
    small s;
    mf_search *search = NULL;
    spec_of(&s, "linear", "search");
    ck_assert_msg(mf_search_new(&s.spec, &of_router, &search) == MF_OK, "%s",
                  mf_error_message());
    ck_assert_str_eq(search->settings[1], "router.no_such_option=2");
    mf_search_free(search);
    ck_assert_int_ne(mf_search_new(&s.spec, &of_model, &search), MF_OK);
    said("no_such");
}
END_TEST

/* ---- runs ---- */

START_TEST(how_a_run_ended)
{
    const mf_compare_run run = {.log = scratch_path("run.log"), .dir = scratch_path("run")};
    static const char log[] = "moefw: first\nmoefw: train: the loss diverged\nno message\n";
    char expected[512];
    char *words = mf_compare_last_words(&run, 5 << 8); /* there is no log file */
    snprintf(expected, sizeof expected, "ended with status 5; see %s", run.log);
    ck_assert_str_eq(words, expected);
    mf_free(words);
    scratch_write(run.log, log, sizeof log - 1);
    words = mf_compare_last_words(&run, 5 << 8);
    ck_assert_str_eq(words, "train: the loss diverged");
    mf_free(words);
    words = mf_compare_last_words(&run, SIGKILL);
    snprintf(expected, sizeof expected, "killed by signal 9; see %s", run.log);
    ck_assert_str_eq(words, expected);
    mf_free(words);
}
END_TEST

START_TEST(a_manifest_that_is_wrong)
{
    const mf_compare_run run = {.dir = scratch_path("odd")};
    static const char *const texts[] = {"{\"params\":1,\"params_active\":1}",
                                        "{\"steps\":1.5,\"params\":1,\"params_active\":1}",
                                        "{\"steps\":1,\"params\":\"1\",\"params_active\":1}",
                                        "{\"steps\":1,\"params\":1}"};
    char path[512];
    snprintf(path, sizeof path, "%s/manifest.json", run.dir);
    ck_assert_int_eq(mf_mkdirs(run.dir), MF_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool done;
        mf_run_result r;
        scratch_write(path, texts[i], strlen(texts[i]));
        ck_assert_int_eq(mf_compare_result(&run, &done, &r), MF_EINPUT);
        said("manifest.json: expected whole numbers steps, params and params_active");
    }
}
END_TEST

START_TEST(arguments_of_a_child)
{
    char program[] = "moefw", verb[] = MF_COMPARE_CHILD, word[] = "x", train[] = "train";
    char *few[] = {program, verb, word, NULL}, *wrong[] = {program, verb, word, train, NULL};
    int skip;
    ck_assert_int_eq(mf_compare_child_begin(3, few, &skip), MF_EUSAGE);
    said("usage: moefw " MF_COMPARE_CHILD " PROCESS [/FILE...] VERB...");
    ck_assert_int_eq(mf_compare_child_begin(4, wrong, &skip), MF_EUSAGE);
}
END_TEST

/* Whether a run has begun. stop_at_once stops the comparison before its first run begins,
 * stop_then as soon as a run has begun. */
static bool began;
static void note_began(void *arg, const mf_compare_run *run, bool again)
{
    (void)arg;
    (void)run;
    began = !again;
}

static int stop_at_once(void *arg)
{
    (void)arg;
    return SIGTERM;
}

static int stop_then(void *arg)
{
    (void)arg;
    return began ? SIGTERM : 0;
}

START_TEST(a_signal_ends_the_comparison)
{
    small s;
    int signal = 0;
    mf_compare_watch watch = {.began = note_began, .should_stop = stop_at_once};
    spec_of(&s, "linear", "stopped");
    mf_compare *c = made(&s);
    began = false;
    ck_assert_int_eq(mf_compare_run_all(c, &watch, &signal), MF_ESIGNAL);
    said("stopped by signal 15; the same command continues");
    ck_assert_int_eq(signal, SIGTERM);
    ck_assert(!began);
    watch.should_stop = stop_then; /* the run has a million steps, so it must be stopped */
    ck_assert_int_eq(mf_compare_run_all(c, &watch, &signal), MF_ESIGNAL);
    ck_assert(began);
    ck_assert_int_eq(c->routers[0].runs[0].state, MF_RUN_WAITING);
    ck_assert_ptr_null(c->routers[0].runs[0].reason);
    mf_compare_free(c);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("compare");
    TCase *t = tcase_create("compare");
    tcase_add_test(t, models_that_cannot_be_compared);
    tcase_add_test(t, a_baseline_that_does_not_fit);
    tcase_add_test(t, experts_that_do_not_grow);
    tcase_add_test(t, another_configuration_there);
    tcase_add_test(t, plans_as_text);
    tcase_add_test(t, more_looks_than_a_plan_holds);
    tcase_add_test(t, some_of_the_combinations);
    tcase_add_test(t, options_of_routers_are_left_to_the_trials);
    tcase_add_test(t, how_a_run_ended);
    tcase_add_test(t, a_manifest_that_is_wrong);
    tcase_add_test(t, arguments_of_a_child);
    tcase_add_test(t, a_signal_ends_the_comparison);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
