/* adapters: folders of PEFT that cannot be read, and runs whose adapters cannot be expressed in
 * PEFT's form or need a special form: other ranks, dropout, the output head, experts that are
 * stored transposed. check_peft checks the values. */
#include "check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"
#include "pretrained/import.h"
#include "pretrained/adapters/modules.h"
#include "pretrained/adapters/pattern.h"
#include "pretrained/adapters/peft.h"
#include "tests/lib/models.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/load.h"

enum { PATH = 1024 };

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

/* ---- reading ---- */

/* A linear layer, one with a single input and output, and two with the same name and sizes. */
static const mf_peft_module modules[] = {
    {.name = "m.q", .rows = {.n = 4}, .experts = 1, .inputs = 4},
    {.name = "m.wide", .rows = {.n = 1}, .experts = 1, .inputs = 1},
    {.name = "m.twice", .rows = {.n = 4}, .experts = 1, .inputs = 4},
    {.name = "m.twice", .rows = {.n = 4}, .experts = 1, .inputs = 4}};

#define PAIR(name, ...)                                                                        \
    {"base_model.model." name ".lora_A.weight", MF_ST_F32, 2, {2, 4}},                         \
    {                                                                                          \
        "base_model.model." name ".lora_B.weight", MF_ST_F32, 2,                               \
        {                                                                                      \
            4, 2                                                                               \
        }                                                                                      \
    }

static int read_adapter(const char *folder, const char *config, const models_tensor *list)
{
    char path[PATH];
    mf_arena *arena = mf_arena_new();
    mf_peft p;
    mf_remove_tree(folder);
    must(mf_mkdirs(folder));
    if (config) {
        snprintf(path, sizeof path, "%s/" MF_PEFT_CONFIG, folder);
        scratch_write(path, config, strlen(config));
    }
    snprintf(path, sizeof path, "%s/" MF_PEFT_WEIGHTS, folder);
    if (list) models_file(path, list);
    const int rc = mf_peft_read(folder, NULL, NULL, modules,
                                (int)(sizeof modules / sizeof *modules), arena, &p);
    mf_arena_free(arena);
    return rc;
}

#define LORA "{\"peft_type\":\"LORA\",\"lora_alpha\":2,\"peft_version\":\"0.19.1\""

/* Folders that lack the configuration or the weight file, and configurations and weight files
 * that are refused. The last configuration is accepted. */
START_TEST(adapters_that_are_refused)
{
    static const models_tensor
        good[] = {PAIR("m.q"), {NULL}},
        twice[] = {PAIR("m.twice"), {NULL}},
        nested[] = {PAIR("m.q"), PAIR("m.q.base_layer"), {NULL}},
        deep[] = {{"base_model.model.m.q.lora_A.weight", MF_ST_F32, 3, {1, 2, 4}},
                  {"base_model.model.m.q.lora_B.weight", MF_ST_F32, 2, {4, 2}},
                  {NULL}},
        wide[] = {{"base_model.model.m.wide.lora_A.weight", MF_ST_F32, 2, {65537, 1}},
                  {"base_model.model.m.wide.lora_B.weight", MF_ST_F32, 2, {1, 65537}},
                  {NULL}},
        nothing[] = {{NULL}};
    static const struct {
        const char *config;
        const models_tensor *list;
        const char *file, *why;
    } cases[] = {
        {NULL, good, MF_PEFT_CONFIG, "there is no such file"},
        {LORA "}", NULL, MF_PEFT_WEIGHTS, "there is no such file"},
        {LORA "}", nothing, MF_PEFT_WEIGHTS, "there is no tensor in it"},
        {LORA ",\"bias\":\"all\"}", good, MF_PEFT_CONFIG, "bias: expected none, found all"},
        {LORA ",\"modules_to_save\":[\"lm_head\"]}", good, MF_PEFT_CONFIG,
         "modules_to_save cannot be imported; expected none or false"},
        {LORA ",\"layer_replication\":2}", good, MF_PEFT_CONFIG,
         "layer_replication cannot be imported; expected none or false"},
        {LORA ",\"init_lora_weights\":\"pissa_niter_4\"}", good, MF_PEFT_CONFIG,
         "init_lora_weights = pissa_niter_4 changes the weights of the model, too; expected an "
         "adapter that was converted to plain LoRA"},
        {LORA ",\"alpha_pattern\":{\"(?!q)\":4}}", good, MF_PEFT_CONFIG,
         "alpha_pattern: '(?!q)': expected no group with (? other than (?:"},
        {LORA ",\"alpha_pattern\":{\"(q\":4}}", good, MF_PEFT_CONFIG,
         "alpha_pattern: '(q': expected ) behind ("},
        {LORA ",\"alpha_pattern\":{\"q\":-1}}", good, MF_PEFT_CONFIG,
         "lora_alpha of m.q: expected a number from 0 to 1000000"},
        {LORA "}", twice, MF_PEFT_WEIGHTS,
         "tensor 'base_model.model.m.twice.lora_A.weight' may belong to several parameters"},
        {LORA "}", nested, MF_PEFT_WEIGHTS,
         "tensor 'base_model.model.m.q.lora_A.weight': another pair has the same place"},
        {LORA "}", deep, MF_PEFT_WEIGHTS,
         "tensor 'base_model.model.m.q.lora_A.weight': expected two dimensions"},
        {LORA "}", wide, MF_PEFT_WEIGHTS,
         "tensor 'base_model.model.m.wide.lora_A.weight': expected a rank of at most 65536"},
    };
    const char *folder = scratch_path("adapter");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[2 * PATH];
        const int rc = read_adapter(folder, cases[i].config, cases[i].list);
        snprintf(expected, sizeof expected, "%s/%s: %s", folder, cases[i].file, cases[i].why);
        ck_assert_msg(rc == MF_EINPUT, "%d, expected: %s", rc, expected);
        ck_assert_str_eq(mf_error_message(), expected);
    }
    must(read_adapter(folder,
                      LORA ",\"bias\":\"none\",\"modules_to_save\":[],\"use_dora\":null,"
                           "\"init_lora_weights\":\"gaussian\"}",
                      good));
}
END_TEST

/* ---- joining ---- */

/* Several changes can share one matrix A only if it is the same for all of them, with the same
 * factor, and no row is changed twice. Otherwise their ranks are added. The weight's change is
 * the sum in all cases. */
START_TEST(changes_that_share_no_matrix)
{
    static const float a[] = {1, 2}, b1[] = {5, 6}, b2[] = {7, 8};
    static const struct {
        mf_rows rows;
        bool rslora;
        double alpha;
        int64_t rank;
    } cases[] = {{{2, 2, 0}, false, 2, 1},
                 {{2, 2, 0}, true, 2, 2}, /* the same factor, written differently */
                 {{2, 2, 0}, false, 3, 2},
                 {{1, 2, 0}, false, 2, 2}}; /* row 1 occurs twice */
    const mf_low_rank c1 = {
        .rows = {0, 2, 0}, .experts = 1, .inputs = 2, .rank = 1, .alpha = 2, .a = a, .b = b1};
    const mf_rows all = {0, 4, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mf_low_rank c2 = c1, joined;
        const mf_low_rank *const both[] = {&c1, &c2};
        float sum[8] = {0}, one[8] = {0};
        mf_arena *arena = mf_arena_new();
        bool any;
        c2.rows = cases[i].rows;
        c2.rslora = cases[i].rslora;
        c2.alpha = cases[i].alpha;
        c2.b = b2;
        must(mf_low_rank_fit(both, 2, &all, arena, &joined, &any));
        ck_assert(any);
        ck_assert_int_eq(joined.rank, cases[i].rank);
        mf_low_rank_add(&c1, 1, 4, sum);
        mf_low_rank_add(&c2, 1, 4, sum);
        mf_low_rank_add(&joined, 1, 4, one);
        ck_assert_mem_eq(one, sum, sizeof sum);
        mf_arena_free(arena);
    }
}
END_TEST

/* ---- writing ---- */

static void import(const char *folder, const char *onto, const char *run)
{
    mf_import_report r = {0};
    mf_remove_tree(run);
    must(onto ? mf_import_adapter(folder, onto, run, &r) : mf_import(folder, NULL, run, &r));
    mf_free(r.run);
}

static mf_session *open_run(const char *run)
{
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    mf_session *s = NULL;
    int64_t step;
    must(mf_load_run_as(run, &o, &change, &s, &step));
    return s;
}

/* Makes a run with adapters from a model and exports the adapters. */
static int export_with(const char *base, int n, const char *const *set, const char *out)
{
    const char *run = scratch_path("adapted");
    int64_t tensors;
    models_run_from(base, n, set, run);
    mf_remove_tree(out);
    return mf_export_peft(run, out, &tensors);
}

static mf_json *config_of(const char *folder)
{
    char path[PATH], *text;
    mf_json *json = NULL;
    size_t n;
    snprintf(path, sizeof path, "%s/" MF_PEFT_CONFIG, folder);
    must(mf_read_file(path, 0, &text, &n));
    must(mf_json_parse(path, text, n, &json));
    mf_free(text);
    return json;
}

static void has_number(const mf_json *v, const char *key, double expected)
{
    const double found = mf_json_real_or_nan(v, key);
    ck_assert_msg(found == expected, "%s: %g, expected %g", key, found, expected);
}

static void has_shape(const char *folder, const char *name, int64_t rows, int64_t columns)
{
    char path[PATH];
    mf_st_file *f = NULL;
    snprintf(path, sizeof path, "%s/" MF_PEFT_WEIGHTS, folder);
    must(mf_st_open(path, &f));
    const mf_st_tensor *t = mf_st_find(f, name);
    ck_assert_msg(t && t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns, "%s",
                  name);
    mf_st_close(f);
}

/* In PEFT's configuration, sections with other ranks and alphas are patterns of module names,
 * and the output head has its own name. After a new import the adapters result in the
 * same model. */
START_TEST(ranks_alphas_and_the_output_head)
{
    static const char *const set[] = {
        "adapter.a.plugin=lora",    "adapter.a.at=attention.q", "adapter.a.rank=2",
        "adapter.a.alpha=4",        "adapter.a.dropout=0.25",   "adapter.b.plugin=lora",
        "adapter.b.at=ffn.w2",      "adapter.b.rank=3",         "adapter.b.alpha=9",
        "adapter.head.plugin=lora", "adapter.head.at=head",     "adapter.head.rank=2",
        "adapter.head.alpha=4"};
    const char *folder = scratch_path("model"), *base = scratch_path("base"),
               *out = scratch_path("peft"), *again = scratch_path("again"),
               *second = scratch_path("second");
    int64_t n;
    models_llama(folder, 16, "", NULL);
    import(folder, NULL, base);
    must(export_with(base, (int)(sizeof set / sizeof *set), set, out));
    mf_json *config = config_of(out);
    /* The order is that of the family's rules, in which the head is first. */
    has_number(config, "r", 2);
    has_number(config, "lora_alpha", 4);
    const mf_json *ranks = mf_json_get(config, "rank_pattern"),
                  *alphas = mf_json_get(config, "alpha_pattern");
    ck_assert(mf_json_size(ranks) == 1 && mf_json_size(alphas) == 1);
    has_number(ranks, "model.layers.0.mlp.down_proj", 3);
    has_number(alphas, "model.layers.0.mlp.down_proj", 9);
    mf_json_free(config);
    has_shape(out, "base_model.model.lm_head.lora_A.weight", 2, 16);
    has_shape(out, "base_model.model.model.layers.0.mlp.down_proj.lora_B.weight", 16, 3);
    import(out, base, again);
    mf_remove_tree(second);
    must(mf_export_peft(again, second, &n));
    ck_assert_int_eq(n, 6);
    char a[PATH], b[PATH];
    snprintf(a, sizeof a, "%s/" MF_PEFT_WEIGHTS, out);
    snprintf(b, sizeof b, "%s/" MF_PEFT_WEIGHTS, second);
    size_t m, k;
    char *x = scratch_read(a, &m), *y = scratch_read(b, &k);
    ck_assert(m == k && memcmp(x, y, m) == 0);
    free(x);
    free(y);
    ck_assert_int_eq(mf_export_peft(again, second, &n), MF_EUSAGE);
    ck_assert_msg(strstr(mf_error_message(), "exists already; expected a new folder"), "%s",
                  mf_error_message());
}
END_TEST

/* Parameters of routers and experts, for which PEFT has no dropout. gpt-oss stores experts as
 * [in,out], with the rows of gate and up alternately. */
START_TEST(parameters_without_dropout)
{
    static const char *const set[] = {"adapter.a.plugin=lora",
                                      "adapter.a.at=router.weight, expert.w13, expert.w2",
                                      "adapter.a.rank=2", "adapter.a.dropout=0.25"};
    const char *folder = scratch_path("model"), *base = scratch_path("base"),
               *out = scratch_path("peft"), *again = scratch_path("again");
    models_gpt_oss(folder);
    import(folder, NULL, base);
    must(export_with(base, (int)(sizeof set / sizeof *set), set, out));
    mf_json *config = config_of(out);
    has_number(config, "lora_dropout", 0);
    mf_json_free(config);
    /* shapes: A [E r,in], B [out,E r] */
    has_shape(out, "base_model.model.model.layers.0.mlp.router.lora_A.weight", 2, 32);
    has_shape(out, "base_model.model.model.layers.0.mlp.experts.base_layer.lora_B.weight", 64,
              8);
    has_shape(out, "base_model.model.model.layers.0.mlp.experts.lora_A.weight", 8, 32);
    import(out, base, again);
    mf_session *s = open_run(scratch_path("adapted")), *t = open_run(again);
    for (int i = 0; i < mf_store_count(s->model->store); i++) {
        const mf_param *p = mf_store_at(s->model->store, i), *q = NULL;
        const char *end = strrchr(p->name, '.');
        if (!p->adapter) continue;
        for (int k = 0; k < mf_store_count(t->model->store) && !q; k++) {
            const mf_param *of = mf_store_at(t->model->store, k);
            const char *own = strstr(p->name, "a.") + 2, *other = strstr(of->name, "lora.");
            if (of->adapter && other && strcmp(other + 5, own) == 0) q = of;
        }
        ck_assert_msg(q && q->count == p->count, "%s has no partner (%s)", p->name, end);
        ck_assert_mem_eq(mf_param_host(p), mf_param_host(q), (size_t)p->count * sizeof(float));
    }
    mf_session_close(s);
    mf_session_close(t);
}
END_TEST

/* In DeepSeek, the heads of queries and keys are rows of two weights. So only the attention's
 * output is a linear layer for adapters. */
START_TEST(attention_by_a_latent)
{
    static const char *const set[] = {"adapter.a.plugin=lora", "adapter.a.at=attention.o",
                                      "adapter.a.rank=2"};
    const char *folder = scratch_path("model"), *base = scratch_path("base"),
               *out = scratch_path("peft");
    models_deepseek(folder);
    import(folder, NULL, base);
    must(export_with(base, (int)(sizeof set / sizeof *set), set, out));
    has_shape(out, "base_model.model.model.layers.0.self_attn.o_proj.lora_A.weight", 2, 16);
}
END_TEST

/* A model that PEFT, or a model folder, cannot express is refused. The message names the
 * section or weight. */
START_TEST(adapters_without_a_form)
{
    static const char *const mlp[] = {"router.plugin=mlp", "adapter.a.plugin=lora",
                                      "adapter.a.at=router.w1"},
                             *const gates[] = {"adapter.g.plugin=head_gates"},
                             *const shared[] = {"model.layers=2", "model.share_layers=yes",
                                                "adapter.a.plugin=lora", "adapter.a.at=ffn.w2"};
    const mf_export_options merged = {.adapters = MF_EXPORT_MERGED};
    const char *folder = scratch_path("model"), *base = scratch_path("base"),
               *out = scratch_path("none"), *run = scratch_path("gated");
    int64_t n;
    models_deepseek(folder);
    import(folder, NULL, base);
    ck_assert_int_eq(export_with(base, 3, mlp, out), MF_EINPUT);
    ck_assert_msg(strstr(mf_error_message(), ": the adapter on layers.0.router.w1 has no form "
                                             "in PEFT for deepseek_v2"),
                  "%s", mf_error_message());
    models_llama(folder, 16, "", NULL);
    import(folder, NULL, base);
    ck_assert_int_eq(export_with(base, 4, shared, out), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(),
                     "[adapter.a]: 'ffn.w2' of block 1 has no weight of its own, so that its "
                     "adapter has no form in model folders");
    models_run_from(base, 1, gates, run);
    ck_assert_int_eq(mf_export_hf(run, out, &merged, &n), MF_EINPUT);
    ck_assert_str_eq(mf_error_message(), "[adapter.g]: adapters of plugin head_gates have no "
                                         "form in model folders; expected lora or none");
    ck_assert(!mf_exists(out));
}
END_TEST

/* Keys of patterns match like Python's re.match("(.*\\.)?(KEY)$", NAME). */
/* In a folder with more than a text model, modules of the text model have other names. */
START_TEST(names_of_modules)
{
    static const struct {
        const char *folder, *name;
    } table[] = {{"llama4_text", "model.layers.0.self_attn.q_proj"},
                 {"llama4", "language_model.model.layers.0.self_attn.q_proj"},
                 {"qwen3_5_moe_text", "model.layers.1.self_attn.k_proj"},
                 {"qwen3_5_moe", "model.language_model.layers.1.self_attn.k_proj"}};
    const char *source = getenv("srcdir"), *run = scratch_path("run");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char hf[1024];
        mf_import_report report = {0};
        const mf_session_options o = {.no_data = true};
        const mf_load_change change = {.step = -1};
        mf_session *s = NULL;
        mf_record *record = NULL;
        mf_peft_module *all;
        mf_arena *arena = mf_arena_new();
        int64_t step;
        int n = 0, found = 0;
        snprintf(hf, sizeof hf, "%.800s/tests/golden/pretrained/families/%s/hf",
                 source ? source : ".", table[i].folder);
        mf_remove_tree(run);
        ck_assert_msg(mf_import(hf, NULL, run, &report) == MF_OK, "%s", mf_error_message());
        ck_assert_int_eq(mf_load_run_as(run, &o, &change, &s, &step), MF_OK);
        ck_assert_int_eq(mf_record_need(run, &record), MF_OK);
        ck_assert_int_eq(mf_modules_list(record, s->model->store, arena, &all, &n), MF_OK);
        for (int j = 0; j < n; j++)
            found += strcmp(all[j].name, table[i].name) == 0;
        ck_assert_msg(found == 1, "%s: %d modules %s", table[i].folder, found, table[i].name);
        mf_record_free(record);
        mf_session_close(s);
        mf_arena_free(arena);
        mf_free(report.run);
    }
}
END_TEST

START_TEST(patterns)
{
    static const struct {
        const char *key, *name;
        int means; /* -1: refused */
    } table[] = {
        {"q_proj", "model.layers.0.self_attn.q_proj", 1},
        {"_proj", "model.layers.0.self_attn.q_proj", 0},
        {"self_attn.q_proj", "model.layers.0.self_attn.q_proj", 1},
        {"q.proj", "model.layers.0.self_attn.q_proj", 1},
        {"q.proj", "model.layers.0.self_attn.qproj", 0},
        {"q\\.proj", "model.layers.0.self_attn.q_proj", 0},
        {".*\\.gate_up_proj", "model.layers.0.mlp.experts.gate_up_proj", 1},
        {".*\\.gate_up_proj", "gate_up_proj", 0},
        {"^model.layers.[0-9]+.mlp", "model.layers.12.mlp", 1},
        {"^layers.0.mlp", "model.layers.0.mlp", 0},
        {"layers\\.(0|1[0-9])\\.mlp$", "model.layers.13.mlp", 1},
        {"layers\\.(0|1[0-9])\\.mlp", "model.layers.3.mlp", 0},
        {"k_proj|q_proj", "a.q_proj", 1},
        {"k_proj|q_proj", "a.v_proj", 0},
        {"(?:k|q)_proj", "a.q_proj", 1},
        {"\\d{2,3}", "a.12", 1},
        {"\\d{2,3}", "a.1234", 0},
        {"a{2}b{,1}c{1,}", "aabccc", 1},
        {"a{2}b{,1}c{1,}", "aabb", 0},
        {"[^a-c]\\w*?", "d_1", 1},
        {"[^a-c]\\w*", "b1", 0},
        {"[]x]+", "x]x", 1},
        {"((a*)*b)*", "aabab", 1},
        {"((a*)*)*", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", 0},
        {"a?a?a?aaa", "aaaa", 1},
        {"x{y", "x{y", 1},
        {"", "a.", 1},
        {"(?!q)a", "a", -1},
        {"(a", "a", -1},
        {"a)", "a", -1},
        {"*a", "a", -1},
        {"a**", "a", -1},
        {"a\\b", "a", -1},
        {"(a)\\1", "aa", -1},
        {"[a", "a", -1},
        {"[z-a]", "a", -1},
        {"a{3,2}", "a", -1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        bool means = false;
        const int rc = mf_pattern_means("f: k", table[i].key, table[i].name, &means);
        ck_assert_msg(rc == (table[i].means < 0 ? MF_EINPUT : MF_OK) &&
                          means == (table[i].means > 0),
                      "'%s' and %s: %d, %s", table[i].key, table[i].name, rc,
                      means ? "means it" : "does not mean it");
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("adapters");
    TCase *t = tcase_create("adapters");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, adapters_that_are_refused);
    tcase_add_test(t, names_of_modules);
    tcase_add_test(t, patterns);
    tcase_add_test(t, changes_that_share_no_matrix);
    tcase_add_test(t, ranks_alphas_and_the_output_head);
    tcase_add_test(t, parameters_without_dropout);
    tcase_add_test(t, attention_by_a_latent);
    tcase_add_test(t, adapters_without_a_form);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
