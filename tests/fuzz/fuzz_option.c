/* fuzz_option: an INI section is accepted by a schema, with every value inside its bounds, or
 * refused with messages that name section and key. Accepted values can be written and read
 * again unchanged. */
#include "tests/fuzz/fuzz.h"

#include "base/error.h"
#include "plugin/option.h"

#include <math.h>
#include <string.h>

typedef struct conf {
    int64_t count, yes, mode, size;
    double rate;
    const char *path;
} conf;

static const char *const modes[] = {"mean", "sum", NULL};
static const char *const words[] = {"auto", "none", NULL};
static const mf_option table[] = {
    MF_OPTION_INT(conf, count, "4", -3, 64, 0, "how many"),
    MF_OPTION_REAL(conf, rate, "0.1", 0, 1, MF_OPT_LIVE, "how fast"),
    MF_OPTION_BOOL(conf, yes, "yes", 0, "whether"),
    MF_OPTION_ENUM(conf, mode, "mean", modes, "which"),
    MF_OPTION_STR(conf, path, "", "where"),
    {"size", "how large", "auto", MF_OPT_INT, 0, offsetof(conf, size), 0, 1e6, words},
    MF_END_OPTIONS};

const char *const fuzz_words[] = {"[s]\n",
                                  "count = ",
                                  "rate = ",
                                  "yes = ",
                                  "mode = ",
                                  "path = ",
                                  "size = ",
                                  "auto",
                                  "none",
                                  "mean",
                                  "yes",
                                  "off",
                                  "1e308",
                                  "-0",
                                  "0x10",
                                  "3k",
                                  "nan",
                                  "inf",
                                  "\"",
                                  "\n",
                                  "cuont",
                                  "plugin",
                                  "99999999999999999999",
                                  NULL};

static void require_bounds(const conf *c)
{
    FUZZ_REQUIRE(c->count >= -3 && c->count <= 64);
    FUZZ_REQUIRE(c->rate >= 0 && c->rate <= 1);
    FUZZ_REQUIRE(c->yes == 0 || c->yes == 1);
    FUZZ_REQUIRE(c->mode == 0 || c->mode == 1);
    FUZZ_REQUIRE(c->size >= 0 && c->size <= 1000000);
    FUZZ_REQUIRE(c->path != NULL);
}

static void require_round_trip(const mf_schema *s, const conf *c, mf_arena *arena)
{
    conf d = {0};
    char text[2048];
    for (int i = 0; i < s->count; i++) {
        const mf_option *o = &s->options[i];
        FUZZ_REQUIRE(mf_option_text(o, c, text, sizeof text) < sizeof text);
        FUZZ_REQUIRE(mf_option_set(s, o, &d, arena, text, "s", NULL, NULL) == MF_OK);
    }
    FUZZ_REQUIRE(d.count == c->count && d.rate == c->rate && d.yes == c->yes);
    FUZZ_REQUIRE(d.mode == c->mode && d.size == c->size && strcmp(d.path, c->path) == 0);
}

static void count_problem(void *arg, const mf_problem *p)
{
    FUZZ_REQUIRE(p->code == MF_ECONFIG && p->message && p->message[0] != '\0');
    FUZZ_REQUIRE(p->section && p->key);
    ++*(int *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const reserved[] = {"plugin", NULL};
    mf_arena *arena = mf_arena_new();
    mf_ini *ini = mf_ini_new();
    mf_schema schema;
    conf c = {0};
    int problems = 0;
    const mf_problem_sink sink = {count_problem, &problems};
    FUZZ_REQUIRE(arena && ini);
    FUZZ_REQUIRE(mf_schema_init(&schema, arena, "plugin p", table, sizeof *table, sizeof c) ==
                 MF_OK);
    FUZZ_REQUIRE(mf_options_default(&schema, &c, arena) == MF_OK);
    if (mf_ini_load_text(ini, "f.ini", (const char *)data, size) == MF_OK) {
        int rc = mf_options_load(&schema, &c, arena, ini, "s", reserved, &sink);
        FUZZ_REQUIRE((rc == MF_OK) == (problems == 0));
        require_bounds(&c); /* a refused value does not replace the old one */
        require_round_trip(&schema, &c, arena);
    }
    mf_ini_free(ini);
    mf_arena_free(arena);
    return 0;
}
