/* option: option tables are checked. Values are read exactly, or refused with the option's
 * name. A refused value does not change its field. */
#include "plugin/option.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check_main.h"
#include "tests/lib/expect.h"

typedef struct conf {
    int64_t count, causal, mode, size;
    double rate;
    const char *path;
} conf;

static const char *const modes[] = {"mean", "sum", NULL};
static const char *const words[] = {"auto", NULL};

static const mf_option table[] = {
    MF_OPTION_INT(conf, count, "4", 1, 64, 0, "how many"),
    MF_OPTION_REAL(conf, rate, "0.1", 0, 1, MF_OPT_LIVE, "how fast"),
    MF_OPTION_BOOL(conf, causal, "yes", MF_OPT_LIVE, "whether"),
    MF_OPTION_ENUM(conf, mode, "mean", modes, "which"),
    MF_OPTION_STR(conf, path, "", "where"),
    {"size", "how large", "auto", MF_OPT_INT, 0, offsetof(conf, size), 0, 100, words},
    MF_END_OPTIONS};

static mf_arena *arena;
static mf_schema schema;
static conf c;

static void setup(void)
{
    arena = mf_arena_new();
    memset(&c, 0, sizeof c);
    ck_assert_int_eq(mf_schema_init(&schema, arena, "plugin p", table, sizeof *table, sizeof c),
                     MF_OK);
    ck_assert_int_eq(mf_options_default(&schema, &c, arena), MF_OK);
}

static void teardown(void)
{
    mf_arena_free(arena);
}

static int load(const char *text, const mf_problem_sink *sink)
{
    static const char *const reserved[] = {"plugin", "weight", NULL};
    mf_ini *ini = mf_ini_new();
    ck_assert_int_eq(mf_ini_load_text(ini, "a.ini", text, strlen(text)), MF_OK);
    int rc = mf_options_load(&schema, &c, arena, ini, "router", reserved, sink);
    mf_ini_free(ini);
    return rc;
}

START_TEST(defaults)
{
    ck_assert_int_eq(c.count, 4);
    ck_assert_double_eq(c.rate, 0.1);
    ck_assert_int_eq(c.causal, 1);
    ck_assert_int_eq(c.mode, 0);
    ck_assert_str_eq(c.path, "");
    ck_assert_int_eq(c.size, 0);
    for (int i = 0; i < schema.count; i++)
        ck_assert(mf_option_is_default(&schema.options[i], &c));
}
END_TEST

START_TEST(section)
{
    ck_assert_int_eq(load("[other]\nx = 1\n[router]\nplugin = p\ncount = 7\nrate = 1e-3\n"
                          "causal = off\nmode = sum\npath = /a b\nsize = 2k\nsize2 = 1\n",
                          NULL),
                     MF_ECONFIG);
    ck_assert_int_eq(
        load("[router]\nplugin = p\ncount = 7\nrate = 1e-3\ncausal = off\nmode = sum\n"
             "path = /a b\nsize = 50\nweight = whatever\n",
             NULL),
        MF_OK);
    ck_assert_int_eq(c.count, 7);
    ck_assert_double_eq(c.rate, 1e-3);
    ck_assert_int_eq(c.causal, 0);
    ck_assert_int_eq(c.mode, 1);
    ck_assert_str_eq(c.path, "/a b");
    ck_assert_int_eq(c.size, 50);
}
END_TEST

static const struct {
    const char *text;
    const char *parts[4];
} faults[] = {
    {"[router]\nplugin = p\ncuont = 3\n",
     {"a.ini:3: unknown key 'cuont' in [router] (plugin p)", "did you mean 'count'?",
      "valid keys: plugin, weight, count, rate, causal"}},
    {"[router]\nwieght = 3\n", {"a.ini:2:", "did you mean 'weight'?"}},
    {"[router]\ncount = 65\n",
     {"a.ini:2: 'count' in [router] (plugin p): out of range", "whole number from 1 to 64",
      "found '65'"}},
    {"[router]\ncount = 2.5\n", {"a.ini:2:", "expected a whole number", "found '2.5'"}},
    {"[router]\ncount = 3x\n", {"found '3x'"}},
    {"[router]\nrate = -0.1\n", {"out of range", "from 0 to 1"}},
    {"[router]\nrate = nan\n", {"expected a number from 0 to 1", "found 'nan'"}},
    {"[router]\nrate = inf\n", {"expected a number from 0 to 1"}},
    {"[router]\ncausal = maybe\n", {"expected yes or no", "found 'maybe'"}},
    {"[router]\nmode = men\n", {"expected one of mean, sum", "did you mean 'mean'?"}},
    {"[router]\nsize = atuo\n", {"from 0 to 100 or auto", "did you mean 'auto'?"}},
};

START_TEST(refused)
{
    ck_assert_int_eq(load(faults[_i].text, NULL), MF_ECONFIG);
    for (int i = 0; faults[_i].parts[i] != NULL; i++)
        expect_message(faults[_i].parts[i]);
}
END_TEST

typedef struct seen {
    int n, lines[8];
    char nearest[8][16];
} seen;

static void note(void *arg, const mf_problem *p)
{
    seen *s = arg;
    ck_assert_int_lt(s->n, 8);
    ck_assert_str_eq(p->section, "router");
    ck_assert_str_eq(p->file, "a.ini");
    ck_assert_ptr_nonnull(p->key);
    ck_assert_ptr_nonnull(strstr(p->message, p->key));
    s->lines[s->n] = p->line;
    snprintf(s->nearest[s->n], sizeof s->nearest[0], "%s", p->nearest ? p->nearest : "");
    s->n++;
}

START_TEST(all_faults)
{
    seen s = {0};
    mf_problem_sink sink = {note, &s};
    ck_assert_int_eq(load("[router]\ncuont = 1\ncount = 5\nrate = 2\nmode = sun\n", &sink),
                     MF_ECONFIG);
    ck_assert_int_eq(s.n, 3);
    ck_assert_int_eq(s.lines[0], 2);
    ck_assert_str_eq(s.nearest[0], "count");
    ck_assert_int_eq(s.lines[1], 4);
    ck_assert_int_eq(s.lines[2], 5);
    ck_assert_str_eq(s.nearest[2], "sum");
    ck_assert_int_eq(c.count, 5); /* the value after the refused one was read */
}
END_TEST

START_TEST(required)
{
    const mf_option must[] = {
        {"count", "how many", NULL, MF_OPT_INT, 0, offsetof(conf, count), 1, 9, NULL},
        MF_END_OPTIONS};
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, must, sizeof *must, sizeof c), MF_OK);
    ck_assert_int_eq(load("[router]\nplugin = p\n", NULL), MF_ECONFIG);
    expect_message("[router]: key 'count' is missing");
    expect_message("whole number from 1 to 9");
    ck_assert_int_eq(load("[router]\ncount = 9\n", NULL), MF_OK);
}
END_TEST

START_TEST(texts_read_back)
{
    static const double reals[] = {0.1, 1e-30, 1.0 / 3, 5e-324, 0.0, 1};
    static const char *const strings[] = {"", " a ", "\"a\"", "a b", "\"", "x;y"};
    char text[128];
    conf d = {0};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        const mf_option *o = mf_schema_find(&schema, "rate");
        c.rate = reals[i];
        ck_assert_uint_eq(mf_option_text(o, &c, text, sizeof text), strlen(text));
        ck_assert_int_eq(mf_option_set(&schema, o, &d, arena, text, "s", NULL, NULL), MF_OK);
        ck_assert(d.rate == reals[i]);
    }
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        const mf_option *o = mf_schema_find(&schema, "path");
        c.path = strings[i];
        mf_option_text(o, &c, text, sizeof text);
        ck_assert_int_eq(mf_option_set(&schema, o, &d, arena, text, "s", NULL, NULL), MF_OK);
        ck_assert_str_eq(d.path, strings[i]);
    }
    c.size = 0;
    mf_option_text(mf_schema_find(&schema, "size"), &c, text, sizeof text);
    ck_assert_str_eq(text, "auto");
    mf_option_text(mf_schema_find(&schema, "mode"), &c, text, sizeof text);
    ck_assert_str_eq(text, "mean");
}
END_TEST

/* Choices that begin with no and yes take the other spellings of a boolean, too. */
START_TEST(no_and_yes_and_more)
{
    static const char *const more[] = {"no", "yes", "auto", NULL};
    static const char *const texts[] = {"no", "yes", "auto", "off", "on", "false", "true"};
    const mf_option three[] = {MF_OPTION_ENUM(conf, mode, "no", more, "whether"),
                               MF_END_OPTIONS};
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, three, sizeof *three, sizeof c),
                     MF_OK);
    for (int i = 0; i < 7; i++) {
        c.mode = 7;
        ck_assert_int_eq(mf_option_set(&schema, three, &c, arena, texts[i], "s", NULL, NULL),
                         MF_OK);
        ck_assert_int_eq(c.mode, i < 3 ? i : (i - 3) % 2);
    }
}
END_TEST

START_TEST(turning)
{
    const mf_option *rate = mf_schema_find(&schema, "rate");
    const mf_option *causal = mf_schema_find(&schema, "causal");
    ck_assert_int_eq(mf_option_change(rate, &c, 0.5), MF_OK);
    ck_assert_double_eq(c.rate, 0.5);
    ck_assert_int_eq(mf_option_change(causal, &c, 0), MF_OK);
    ck_assert_int_eq(c.causal, 0);
    ck_assert_int_eq(mf_option_change(rate, &c, 1.5), MF_ECONFIG);
    expect_message("from 0 to 1");
    ck_assert_int_eq(mf_option_change(rate, &c, NAN), MF_ECONFIG);
    ck_assert_int_eq(mf_option_change(causal, &c, 0.5), MF_ECONFIG);
    ck_assert_int_eq(mf_option_change(mf_schema_find(&schema, "count"), &c, 5), MF_ECONFIG);
    expect_message("not live");
    ck_assert_double_eq(c.rate, 0.5);
}
END_TEST

static const char *const none[] = {NULL};
static const char *const twice[] = {"a", "b", "a", NULL};
static const char *const two_words[] = {"a", "b c", NULL};
static const char *const empty_word[] = {"", NULL};

static const struct {
    mf_option options[2];
    const char *part;
} bad_tables[] = {
    {{{"Rate", "h", "1", MF_OPT_REAL, 0, 0, 0, 1, NULL}}, "[a-z0-9_]"},
    {{{"", "h", "1", MF_OPT_REAL, 0, 0, 0, 1, NULL}}, "[a-z0-9_]"},
    {{{"a", NULL, "1", MF_OPT_REAL, 0, 0, 0, 1, NULL}}, "one line of help"},
    {{{"a", "two\nlines", "1", MF_OPT_REAL, 0, 0, 0, 1, NULL}}, "one line of help"},
    {{{"a", "h", "1", 9, 0, 0, 0, 1, NULL}}, "type from 1 to 5, found 9"},
    {{{"a", "h", "1", MF_OPT_REAL, 0, 4, 0, 1, NULL}}, "divisible by 8, found 4"},
    {{{"a", "h", "1", MF_OPT_REAL, 0, sizeof(conf), 0, 1, NULL}}, "outside conf"},
    {{{"a", "h", "1", MF_OPT_REAL, 0, (size_t)-8, 0, 1, NULL}}, "outside conf"},
    {{{"a", "h", "1", MF_OPT_REAL, 0, 0, 2, 1, NULL}}, "lo <= hi"},
    {{{"a", "h", "1", MF_OPT_REAL, 0, 0, NAN, 1, NULL}}, "lo <= hi"},
    {{{"a", "h", "2", MF_OPT_REAL, 0, 0, 0, 1, NULL}}, "its default '2' breaks its own rule"},
    {{{"a", "h", "x", MF_OPT_INT, 0, 0, 0, 1, NULL}}, "its default 'x' breaks its own rule"},
    {{{"a", "h", "x", MF_OPT_ENUM, 0, 0, 0, 0, NULL}}, "list of choices"},
    {{{"a", "h", "x", MF_OPT_ENUM, 0, 0, 0, 0, none}}, "list of choices"},
    {{{"a", "h", "a", MF_OPT_ENUM, 0, 0, 0, 0, twice}}, "'a' stands there twice"},
    {{{"a", "h", "a", MF_OPT_ENUM, 0, 0, 0, 0, two_words}}, "choice 'b c' is not one word"},
    {{{"a", "h", "a", MF_OPT_ENUM, 0, 0, 0, 0, empty_word}}, "choice '' is not one word"},
    {{{"a", "h", "4", MF_OPT_REAL, 0, 0, -INFINITY, 3, NULL}},
     "its default '4' breaks its own rule: expected a number of at most 3"},
    {{{"a", "h", "4", MF_OPT_INT, 0, 0, 5, INFINITY, NULL}},
     "its default '4' breaks its own rule: expected a whole number of at least 5"},
    {{{"a", "h", "x", MF_OPT_STR, MF_OPT_LIVE, 0, 0, 0, NULL}}, "cannot be live"},
    {{{"a", "h", "1", MF_OPT_INT, 0, 0, 0, 1, NULL},
      {"a", "h", "1", MF_OPT_INT, 0, 8, 0, 1, NULL}},
     "duplicate option 'a'"},
    {{{"a", "h", "1", MF_OPT_INT, 0, 0, 0, 1, NULL},
      {"b", "h", "1", MF_OPT_INT, 0, 0, 0, 1, NULL}},
     "'a' and 'b' have the same field"},
};

START_TEST(bad_table)
{
    mf_option t[3] = {bad_tables[_i].options[0], bad_tables[_i].options[1], MF_END_OPTIONS};
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, t, sizeof *t, sizeof c), MF_EPLUGIN);
    expect_message(bad_tables[_i].part);
}
END_TEST

START_TEST(bad_table_shape)
{
    static mf_option endless[MF_OPTIONS_MAX + 2];
    for (int i = 0; i < MF_OPTIONS_MAX + 2; i++)
        endless[i] = table[0];
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, endless, sizeof *endless, sizeof c),
                     MF_EPLUGIN);
    expect_message("has no end");
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, NULL, sizeof *table, sizeof c),
                     MF_EPLUGIN);
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, table, 8, sizeof c), MF_EPLUGIN);
    expect_message("option_size: expected");
}
END_TEST

START_TEST(choices_without_an_end)
{
    static char words_of[MF_OPTIONS_MAX + 1][8];
    const char *list[MF_OPTIONS_MAX + 1];
    for (int i = 0; i <= MF_OPTIONS_MAX; i++) {
        snprintf(words_of[i], sizeof words_of[i], "w%d", i);
        list[i] = words_of[i];
    }
    const mf_option t[] = {{"a", "h", "w1", MF_OPT_ENUM, 0, 0, 0, 0, list}, MF_END_OPTIONS};
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, t, sizeof *t, sizeof c), MF_EPLUGIN);
    expect_message("option 'a': the list of choices has no end: expected NULL after the last");
    list[MF_OPTIONS_MAX] = NULL;
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, t, sizeof *t, sizeof c), MF_OK);
}
END_TEST

/* Entries of a newer plugin are longer: known fields are read, and the rest must be zero. */
START_TEST(longer_entries)
{
    struct longer {
        mf_option known;
        const char *newer[2];
    } t[] = {{table[0], {0}}, {table[1], {0}}, {MF_END_OPTIONS, {0}}};
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, &t[0].known, sizeof *t, sizeof c),
                     MF_OK);
    ck_assert_int_eq(schema.count, 2);
    ck_assert_str_eq(schema.options[1].name, "rate");
    ck_assert_str_eq(schema.names[1], "rate");
    ck_assert_ptr_null(schema.names[2]);
    t[1].newer[1] = "x";
    ck_assert_int_eq(mf_schema_init(&schema, arena, NULL, &t[0].known, sizeof *t, sizeof c),
                     MF_EPLUGIN);
    expect_message("option 'rate' uses a field at byte ");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("option");
    TCase *t = tcase_create("values");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, defaults);
    tcase_add_test(t, section);
    tcase_add_loop_test(t, refused, 0, sizeof faults / sizeof *faults);
    tcase_add_test(t, all_faults);
    tcase_add_test(t, required);
    tcase_add_test(t, texts_read_back);
    tcase_add_test(t, no_and_yes_and_more);
    tcase_add_test(t, turning);
    suite_add_tcase(s, t);
    t = tcase_create("tables");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, bad_table, 0, sizeof bad_tables / sizeof *bad_tables);
    tcase_add_test(t, bad_table_shape);
    tcase_add_test(t, choices_without_an_end);
    tcase_add_test(t, longer_entries);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN(suite)
