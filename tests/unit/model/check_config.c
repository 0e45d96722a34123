/* config: precedence of the sources, checks of values, and the written text, which must load as
 * the same configuration. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/mem.h"
#include "run/config_write.h"
#include "run/run_config.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/sections/section_plugins.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- a disk that fails when a path is looked up ---- */

static bool disk_fails;

static char *look_up(const char *path, char *to)
{
    char link[64];
    const int fd = disk_fails ? -1 : open(path, O_PATH | O_CLOEXEC);
    if (disk_fails) errno = EIO;
    if (fd < 0) return NULL;
    if (!to) to = malloc(PATH_MAX);
    ck_assert_ptr_nonnull(to);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, to, PATH_MAX - 1);
    ck_assert_int_gt(n, 0);
    to[n] = '\0';
    close(fd);
    return to;
}

char *realpath(const char *restrict path, char *restrict to)
{
    return look_up(path, to);
}

/* The C library calls this function instead if it checks calls (_FORTIFY_SOURCE). */
char *__realpath_chk(const char *path, char *to, size_t room);
char *__realpath_chk(const char *path, char *to, size_t room)
{
    (void)room;
    return look_up(path, to);
}

/* ---- configurations ---- */

static const char *file(const char *name, const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch_dir(), name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

static mf_config *loaded(const char *config, int n, const char *const *set)
{
    mf_config *c;
    int rc = mf_config_load(config, n, set, &c);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return c;
}

/* Checks that loading fails with a message that contains all of the words. */
static void refused(const char *text, const char *const *words)
{
    mf_config *c = NULL;
    ck_assert_int_eq(mf_config_load(file("bad.ini", text), 0, NULL, &c), MF_ECONFIG);
    ck_assert_ptr_null(c);
    for (; *words != NULL; words++)
        ck_assert_msg(strstr(mf_error_message(), *words) != NULL, "'%s' lacks '%s'",
                      mf_error_message(), *words);
}
#define REFUSED(text, ...) refused(text, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(every_table_is_a_sound_schema)
{
    mf_arena *arena = mf_arena_new();
    int keys = 0;
    for (const mf_section_at *a = mf_config_sections; a->section != NULL; a++) {
        const mf_section *s = a->section;
        mf_schema schema;
        int rc = mf_schema_init(&schema, arena, NULL, s->options, sizeof *s->options, s->size);
        ck_assert_msg(rc == MF_OK, "[%s]: %s", s->name, mf_error_message());
        keys += schema.count;
    }
    ck_assert_int_gt(keys, 60);
    mf_arena_free(arena);
}
END_TEST

START_TEST(defaults_of_an_empty_file)
{
    mf_config *c = loaded(file("empty.ini", ""), 0, NULL);
    ck_assert_int_eq(c->model.dim, 128);
    ck_assert_int_eq(c->model.kv_heads, c->model.heads);
    ck_assert_int_eq(c->model.ffn_hidden, 4 * c->model.dim);
    ck_assert_int_eq(c->model.causal, 1);
    ck_assert_int_eq(c->moe.top_k, 2);
    ck_assert_double_eq(c->train.beta2, 0.95);
    ck_assert_str_eq(c->data.path, "builtin:topics");
    ck_assert_str_eq(c->data.val_path, "");
    ck_assert_int_eq(c->n_regularizers, 0);
    ck_assert_str_eq(c->name, "empty");
    /* the default preset sets both plugins, because core has no default for them */
    ck_assert_str_ne(c->router.plugin, "");
    ck_assert_str_ne(c->expert.plugin, "");
    mf_config_free(c);
}
END_TEST

START_TEST(the_default_preset_loads)
{
    mf_config *c = loaded(NULL, 0, NULL);
    ck_assert_str_eq(c->name, "default");
    ck_assert_int_ge(c->n_regularizers, 1);
    mf_config_free(c);
}
END_TEST

/* system < user < included preset < CONFIG < --set. */
START_TEST(later_sources_win)
{
    char path[256];
    snprintf(path, sizeof path, "%s/moefw", scratch_dir());
    mkdir(path, 0777);
    file("moefw/moefw.ini", "[train]\nlr = 0.5\nclip = 7\n[model]\ndim = 64\n");
    mf_config *preset = loaded("default", 0, NULL);
    ck_assert_double_eq(preset->train.clip, 7); /* the preset does not set it */
    double lr = preset->train.lr;
    ck_assert_double_ne(lr, 0.5); /* the preset sets it */
    const char *config =
        file("mine.ini", "[include]\npreset = default\n[train]\nseed = 5\nbatch = 3\n");
    const char *set[] = {"train.seed=6", "train.seed=9"};
    mf_config *c = loaded(config, 2, set);
    ck_assert_int_eq(c->train.seed, 9);
    ck_assert_int_eq(c->train.batch, 3);
    ck_assert_double_eq(c->train.lr, lr);
    mf_config_free(c);
    mf_config_free(preset);
    remove(file("moefw/moefw.ini", ""));
}
END_TEST

START_TEST(refusals_say_where_and_what)
{
    REFUSED("[model]\n\ndmi = 64\n", "bad.ini:3: ", "unknown key 'dmi' in [model]", "'dim'");
    REFUSED("[modle]\ndim = 64\n", "bad.ini:1: ", "unknown section [modle]", "[model]");
    REFUSED("[regulariser.x]\n", "bad.ini:1: ", "[regularizer.NAME]");
    REFUSED("[regularizer]\nweight=1\n", "bad.ini:1: ", "[regularizer.NAME]");
    /* the section's stem is longer than the nearest name */
    REFUSED("[tycontroller.lrs]\n", "bad.ini:1: ", "unknown section [tycontroller.lrs]");
    REFUSED("[controller.a b]\nplugin = p\n", "bad.ini:1: ", "letters, digits");
    REFUSED("[train]\nlr = -1\n", "bad.ini:2: ", "'lr' in [train]", "from 0 to", "found '-1'");
    REFUSED("[train]\nsteps = 1.5\n", "bad.ini:2: ", "whole number", "'1.5'");
    REFUSED("[train]\nseed = 1\nseed = 2\n", "bad.ini:3: ", "already given on line 2");
    REFUSED("[model]\nnorm = rmsnrm\n", "bad.ini:2: ", "rmsnorm, layernorm",
            "did you mean 'rmsnorm'");
    REFUSED("[data]\nformat = txt\n", "bad.ini:2: ", "jsonl", "did you mean 'text'");
    REFUSED("[regularizer.x]\nweight = much\n", "bad.ini:2: ", "'weight'", "'much'");
    REFUSED("[controller.x]\nevery = 0\n", "bad.ini:2: ", "'every'");
    REFUSED("[include]\npreset = defalt\n", "bad.ini:2: ", "defalt: there is no such preset",
            "'default'");
    REFUSED("[include]\nprest = default\n", "bad.ini:2: ", "unknown key 'prest'");
    REFUSED("[train]\nsteps = 5\nepochs = 2\n", "bad.ini:3: ", "line 2", "one of them");
    REFUSED("[train]\nsteps = 0\n", "bad.ini:2: ", "nothing to train");
    REFUSED("[train]\ndevice = gpu\n", "bad.ini:2: ", "cuda:N", "'gpu'");
    REFUSED("dim = 3\n", "bad.ini:1: ");
}
END_TEST

START_TEST(rules_between_keys)
{
    REFUSED("[model]\ndim = 100\nheads = 3\n", "bad.ini:3: ", "divisor of dim (100)");
    REFUSED("[model]\ndim = 12\nheads = 4\n", "bad.ini:3: ", "rope wants an even width");
    REFUSED("[model]\nheads = 4\nkv_heads = 3\n", "bad.ini:3: ", "divisor of heads");
    REFUSED("[moe]\nexperts = 4\ntop_k = 5\n", "bad.ini:3: ", "experts (4)", "found 5");
    REFUSED("[moe]\npriority = gate\nadmit = rank\n", "bad.ini:3: ", "position or drawn",
            "found rank and gate");
    REFUSED("[model]\nskip = sideways\n", "bad.ini:2: ", "expected one of none, unet");
    REFUSED("[data]\nsplit_windows = yes\n", "bad.ini:2: ", "stride above 0",
            "found stride = 0");
    REFUSED("[data]\nstride = 3\nsplit_windows = yes\nval_path = v.txt\n",
            "bad.ini:3: ", "no val_path", "found stride = 3, val_path = ", "v.txt");
    REFUSED("[train]\nbest_by = accuracy\n", "bad.ini:2: ", "'best_by'",
            "a task that learns classes (classify)");
    REFUSED("[train]\nbest_by = mse\n", "bad.ini:2: ", "a task that learns numbers (regress)");
    REFUSED("[train]\neval_context = 1000\n",
            "bad.ini:2: ", "expected less than model.seq (128, the default), found 1000 (from ",
            "bad.ini:2)");
    REFUSED("[log]\nmlflow = localhost:5000\n", "bad.ini:2: ", "address of an MLflow server",
            "found 'localhost:5000'");
    REFUSED("[log]\nmlflow = http://me:secret@host\n", "found 'an address with @'");
    REFUSED("[log]\nmlflow = http://host\nmlflow_experiment =\n",
            "bad.ini:3: ", "'mlflow_experiment'", "the name of an experiment");
}
END_TEST

START_TEST(bad_assignments)
{
    static const char *const bad[] = {"train.lr=abc", "train.lrr=1", "nosuch.key=1",
                                      "lr=1",         "train.lr",    "include.preset=default"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mf_config *c;
        int rc = mf_config_load(NULL, 1, &bad[i], &c);
        ck_assert_msg(rc == MF_ECONFIG, "%s gave %d", bad[i], rc);
        ck_assert_msg(strstr(mf_error_message(), "--set") != NULL, "%s", mf_error_message());
    }
}
END_TEST

static int n_told;
static void tell(void *arg, const mf_problem *p)
{
    ck_assert_ptr_eq(arg, &n_told);
    ck_assert_ptr_nonnull(p->message);
    n_told++;
}

START_TEST(a_sink_is_told_every_fault)
{
    mf_problem_sink sink = {tell, &n_told};
    mf_config *c;
    n_told = 0;
    int rc = mf_config_load_from(
        file("many.ini", "[model]\ndmi = 1\nlayers = x\n[what]\n[moe]\ntop_k = 9\n"), 0, NULL,
        &sink, &c);
    ck_assert_int_eq(rc, MF_ECONFIG);
    ck_assert_int_eq(n_told, 4);
    mf_config_free(c);
}
END_TEST

/* If a later source replaces the plugin of a preset, keys of the preset that the new plugin
 * does not have are ignored. */
START_TEST(keys_of_a_replaced_plugin_are_optional)
{
    const char *config = file("replaced.ini", "[router]\nplugin = one\ntemperature = 2\n");
    const char *set[] = {"router.plugin=other", "router.alpha=3"};
    mf_config *c = loaded(config, 2, set);
    ck_assert_str_eq(c->router.plugin, "other");
    ck_assert(mf_ini_get(c->ini, "router", "temperature")->optional);
    ck_assert(!mf_ini_get(c->ini, "router", "alpha")->optional);
    mf_config_free(c);
    c = loaded(config, 0, NULL);
    ck_assert(!mf_ini_get(c->ini, "router", "temperature")->optional);
    mf_config_free(c);
}
END_TEST

START_TEST(plugin_sections)
{
    mf_config *c =
        loaded(file("sections.ini", "[regularizer.a]\nplugin = p\nweight = 0.5\nx = 1\n"
                                    "[regularizer.q]\n[regularizer.b]\nplugin = none\n"
                                    "[controller.c]\nplugin = k\nevery = 50\n"),
               0, NULL);
    ck_assert_int_eq(c->n_regularizers, 2);
    ck_assert_str_eq(c->regularizers[0].plugin, "p");
    ck_assert_str_eq(c->regularizers[0].label, "a");
    ck_assert_double_eq(c->regularizers[0].weight, 0.5);
    /* without the key `plugin`, the section's name is the plugin */
    ck_assert_str_eq(c->regularizers[1].plugin, "q");
    ck_assert_int_eq(c->regularizers[1].line, 5);
    ck_assert_double_eq(c->regularizers[1].weight, 1);
    ck_assert_int_eq(c->n_controllers, 1);
    ck_assert_int_eq(c->controllers[0].every, 50);
    ck_assert_str_eq(c->controllers[0].reserved[1], "every");
    mf_config_free(c);
}
END_TEST

START_TEST(the_later_of_steps_and_epochs_counts)
{
    const char *set[] = {"train.epochs=2"};
    mf_config *c = loaded(file("steps.ini", "[train]\nsteps = 70\n"), 1, set);
    ck_assert_int_eq(c->train.steps, 0);
    ck_assert_double_eq(c->train.epochs, 2);
    mf_config_free(c);
    set[0] = "train.steps=7";
    c = loaded(file("epochs.ini", "[train]\nepochs = 3\n"), 1, set);
    ck_assert_int_eq(c->train.steps, 7);
    ck_assert_double_eq(c->train.epochs, 0);
    mf_config_free(c);
    c = loaded(file("epochs.ini", "[train]\nepochs = 3\n"), 0, NULL);
    ck_assert_int_eq(c->train.steps, 0);
    mf_config_free(c);
}
END_TEST

static char *written(const mf_config *c)
{
    static char text[2][65536];
    static int turn;
    char *out = text[turn ^= 1];
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(mf_config_write(c, f), MF_OK);
    rewind(f);
    out[fread(out, 1, sizeof *text - 1, f)] = '\0';
    fclose(f);
    return out;
}

/* A run's config.ini contains full paths, so its files are found from any folder. If the full
 * path cannot be found, writing must fail, because the text would be correct only in
 * this folder. */
START_TEST(paths_are_full_or_an_error)
{
    static const char *const set[] = {"data.path=."};
    char line[5000], here[4096];
    char *text = NULL;
    size_t n;
    mf_config *c = loaded(NULL, 1, set);
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    snprintf(line, sizeof line, "\npath = %s\n", here);
    ck_assert_int_eq(mf_config_text(c, "a text", &text, &n), MF_OK);
    ck_assert_ptr_nonnull(strstr(text, line));
    mf_free(text);
    disk_fails = true;
    ck_assert_int_eq(mf_config_text(c, "a text", &text, &n), MF_EIO);
    disk_fails = false;
    ck_assert_ptr_null(text);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "a path or the options of a plugin"));
    ck_assert_ptr_nonnull(strstr(mf_error_message(), strerror(EIO)));
    mf_config_free(c);
}
END_TEST

static void same_options(const mf_section *s, const void *a, const void *b)
{
    for (const mf_option *o = s->options; o->name != NULL; o++) {
        char left[256], right[256];
        mf_option_text(o, a, left, sizeof left);
        mf_option_text(o, b, right, sizeof right);
        ck_assert_msg(strcmp(left, right) == 0, "%s: '%s', '%s'", o->name, left, right);
    }
}

START_TEST(written_text_loads_back_to_the_same)
{
    const char *set[] = {
        "train.lr=0.30000000000000004", "model.vocab=auto",      "train.epochs=2.5",
        "data.path=some file.txt",      "moe.gate_scale=1e-7",   "model.dense_layers=0,2-3",
        "regularizer.mine.weight=-0.1", "controller.k.every=3k", "router.bias=yes"};
    mf_config *a = loaded(NULL, 9, set);
    char *first = written(a);
    mf_config *b = loaded(file("config.ini", first), 0, NULL);
    char *second = written(b);
    ck_assert_str_eq(strchr(first, '\n'), strchr(second, '\n')); /* equal except for the name */
    ck_assert_double_eq(b->train.lr, 0.30000000000000004);
    ck_assert_int_eq(b->controllers[0].every, 3000);
    ck_assert_str_eq(b->data.path, "some file.txt");
    same_options(&mf_model_section, &a->model, &b->model);
    same_options(&mf_moe_section, &a->moe, &b->moe);
    mf_config_free(a);
    mf_config_free(b);
}
END_TEST

START_TEST(names_of_runs)
{
    static const char *const cases[][2] = {
        {"x-3", "x"}, {"x", "x"}, {"a-b", "a-b"}, {"7-12", "7"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s/%s", scratch_dir(), cases[i][0]);
        mkdir(name, 0777);
        snprintf(name, sizeof name, "%s/config.ini", cases[i][0]);
        mf_config *c = loaded(file(name, ""), 0, NULL);
        ck_assert_str_eq(c->name, cases[i][1]);
        mf_config_free(c);
    }
    char folder[256];
    snprintf(folder, sizeof folder, "%s/x-3", scratch_dir());
    mf_config *c = loaded(folder, 0, NULL);
    ck_assert_str_eq(c->name, "x");
    mf_config_free(c);
}
END_TEST

/* Starts a configuration in a folder of its own, with only this preset and no plugins. */
static void begin_alone(const char *preset, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s\n", scratch_dir());
    file(".moefw-uninstalled", path);
    ck_assert_int_eq(mf_mkdirs(scratch_path("share/presets")), MF_OK);
    snprintf(path, sizeof path, "share/presets/%s.ini", preset);
    file(path, text);
    mf_paths_set_program(scratch_path("moefw"));
}

static void end_alone(void)
{
    mf_paths_set_program(getenv("MOEFW"));
    mf_paths_set_settings(scratch_path("etc"));
}

START_TEST(a_preset_that_includes_itself)
{
    mf_config *c;
    begin_alone("loop", "[include]\npreset = loop\n");
    ck_assert_int_eq(mf_config_load("loop", 0, NULL, &c), MF_ECONFIG);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "loop.ini:2: presets include one another "
                                                     "more than 8 deep"));
    end_alone();
}
END_TEST

static bool none_is_used(const void *conf, const mf_plugin_section *p)
{
    (void)conf, (void)p;
    return true;
}

/* A section that an old key switches off does not need its plugin. */
START_TEST(a_plugin_that_is_switched_off_may_be_missing)
{
    begin_alone("default", "[router]\nplugin = r\n[expert]\nplugin = e\n");
    mf_config *c = loaded(file("off.ini", "[model]\nskip = none\n"), 0, NULL);
    ck_assert_str_eq(mf_ini_get(c->ini, "adapter.skip", "plugin")->value, "none");
    ck_assert_msg(mf_sections_open_plugins(mf_config_sections, c, c->ini, c->arena,
                                           none_is_used, NULL) == MF_OK,
                  "%s", mf_error_message());
    ck_assert_str_eq(mf_error_message(), "");
    mf_config_free(c);
    end_alone();
}
END_TEST

/* The section of a plugin that is not installed is written unchanged. */
START_TEST(a_section_whose_plugin_is_missing_is_written)
{
    mf_config *c =
        loaded(file("missing.ini", "[adapter.a]\nplugin = nosuch\nstrength = 3\n"), 0, NULL);
    char *text = written(c);
    ck_assert_ptr_nonnull(strstr(text, "\n[adapter.a]\nplugin = nosuch\nat = "));
    ck_assert_ptr_nonnull(strstr(text, "\nstrength = 3\n"));
    ck_assert_str_eq(mf_error_message(), "");
    mf_config_free(c);
}
END_TEST

/* A name without a slash and without .ini is looked up as a preset first, and then as
 * a file. */
START_TEST(a_file_by_its_bare_name)
{
    char before[PATH_MAX];
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    file("mine", "[train]\nlr = 0.5\n");
    file("default", "[train]\nlr = 0.75\n");
    ck_assert_int_eq(chdir(scratch_dir()), 0);
    mf_config *c = loaded("mine", 0, NULL), *preset = loaded("default", 0, NULL);
    ck_assert_double_eq(c->train.lr, 0.5);
    ck_assert_double_ne(preset->train.lr, 0.75);
    mf_config_free(c);
    mf_config_free(preset);
    ck_assert_int_eq(chdir(before), 0);
}
END_TEST

START_TEST(missing_files)
{
    mf_config *c;
    ck_assert_int_eq(mf_config_load("no/such.ini", 0, NULL, &c), MF_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "no/such.ini"));
    ck_assert_int_eq(mf_config_load("shakspeare", 0, NULL, &c), MF_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "did you mean 'shakespeare'"));
}
END_TEST

/* The values in the template's comments must be the defaults of these keys. */
START_TEST(the_template_holds_the_defaults)
{
    static char text[65536], bare[65536];
    FILE *f = tmpfile();
    mf_sections_template(mf_config_sections, f);
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f), m = 0;
    fclose(f);
    text[n] = '\0';
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *equals = strstr(line, " = ");
        bool key = line[0] == ';' && line[1] != ' ' && equals;
        /* the optional sections [regularizer.NAME] begin */
        if (strncmp(line, ";[", 2) == 0) break;
        if (line[0] == '[' || (key && equals[3] != '\0'))
            m += (size_t)snprintf(bare + m, sizeof bare - m, "%s\n", line + (line[0] == ';'));
    }
    mf_config *a = loaded(file("bare.ini", bare), 0, NULL),
              *b = loaded(file("none.ini", ""), 0, NULL);
    same_options(&mf_model_section, &a->model, &b->model);
    same_options(&mf_moe_section, &a->moe, &b->moe);
    mf_config_free(a);
    mf_config_free(b);
}
END_TEST

/* The processor time for a configuration with n sections. */
static double time_of(int n)
{
    const char **set = calloc((size_t)n, sizeof *set);
    char *texts = malloc((size_t)n * 40);
    ck_assert(set && texts);
    for (int i = 0; i < n; i++) {
        char *text = texts + (size_t)i * 40;
        snprintf(text, 40, "adapter.a%d.plugin=none", i);
        set[i] = text;
    }
    const clock_t before = clock();
    mf_config_free(loaded(NULL, n, set));
    const double took = (double)(clock() - before);
    free(set);
    free(texts);
    return took;
}

/* Ten times as many sections need ten times the time, or about 25 times if they no longer fit
 * the caches. With a loop over all entries for each entry they would need 100 times. */
START_TEST(reading_takes_linear_time)
{
    time_of(100);
    const double few = time_of(3000), many = time_of(30000);
    ck_assert_double_lt(many, 50 * few);
}
END_TEST

/* program_ready sets settings folders of user and system that contain no moefw.ini. */
START_TEST(no_settings_of_the_machine_are_read)
{
    ck_assert_str_eq(mf_paths_settings(), scratch_path("etc"));
    ck_assert_str_eq(getenv("XDG_CONFIG_HOME"), scratch_dir());
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("config");
    TCase *c = tcase_create("config");
    tcase_add_test(c, no_settings_of_the_machine_are_read);
    tcase_add_test(c, a_plugin_that_is_switched_off_may_be_missing);
    tcase_add_test(c, a_preset_that_includes_itself);
    tcase_add_test(c, a_section_whose_plugin_is_missing_is_written);
    tcase_add_test(c, a_file_by_its_bare_name);
    tcase_add_test(c, every_table_is_a_sound_schema);
    tcase_add_test(c, defaults_of_an_empty_file);
    tcase_add_test(c, the_default_preset_loads);
    tcase_add_test(c, later_sources_win);
    tcase_add_test(c, refusals_say_where_and_what);
    tcase_add_test(c, rules_between_keys);
    tcase_add_test(c, bad_assignments);
    tcase_add_test(c, a_sink_is_told_every_fault);
    tcase_add_test(c, keys_of_a_replaced_plugin_are_optional);
    tcase_add_test(c, plugin_sections);
    tcase_add_test(c, the_later_of_steps_and_epochs_counts);
    tcase_add_test(c, written_text_loads_back_to_the_same);
    tcase_add_test(c, names_of_runs);
    tcase_add_test(c, missing_files);
    tcase_add_test(c, reading_takes_linear_time);
    tcase_add_test(c, the_template_holds_the_defaults);
    tcase_add_test(c, paths_are_full_or_an_error);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
