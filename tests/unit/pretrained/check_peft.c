/* peft: adapter folders of PEFT become adapters of a model, and are exported again. The
 * committed folder is tests/golden/pretrained/peft. MOEFW_PRETRAINED may name a set with
 * folders lora/CASE, which PEFT has trained for ten steps. */
#include "check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"
#include "data/safetensors/safetensors.h"
#include "pretrained/import.h"
#include "pretrained/adapters/lora.h"
#include "pretrained/adapters/peft.h"
#include "pretrained/adapters/targets.h"
#include "pretrained/tokens.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "train/optim/optim.h"
#include "run/load.h"

enum { PATH = 1024, STEPS = 10 };

static void must(int rc)
{
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
}

static const char *golden(const char *name)
{
    static char path[4][PATH];
    static int next;
    char *p = path[next++ % 4];
    const char *source = getenv("srcdir");
    snprintf(p, PATH, "%s/tests/golden/pretrained/%s", source ? source : ".", name);
    return p;
}

/* ---- runs ---- */

static void import(const char *folder, const char *onto, const char *run)
{
    mf_import_report r = {0};
    mf_remove_tree(run);
    must(onto ? mf_import_adapter(folder, onto, run, &r) : mf_import(folder, NULL, run, &r));
    mf_free(r.run);
}

static mf_session *open_as(const char *run, bool training, mf_bind bind)
{
    const mf_session_options o = {.training = training, .no_data = true, .bind = bind};
    const mf_load_change change = {.step = -1};
    mf_session *s = NULL;
    int64_t step;
    must(mf_load_run_as(run, &o, &change, &s, &step));
    return s;
}

static mf_session *open_run(const char *run, bool training)
{
    return open_as(run, training, MF_BIND_FITTING);
}

/* The values of a tensor as f32. The caller frees them. */
static float *values_of(const char *path, const char *name, uint64_t *ret_n)
{
    mf_st_file *f = NULL;
    must(mf_st_open(path, &f));
    const mf_st_tensor *t = mf_st_find(f, name);
    ck_assert_msg(t && t->dtype == MF_ST_F32, "%s: no tensor %s in F32", path, name);
    float *v = malloc(t->bytes + 1);
    must(mf_st_read(f, t, v, t->bytes));
    *ret_n = t->count;
    mf_st_close(f);
    return v;
}

static double largest(const char *a, const char *b, const char *name)
{
    uint64_t n, m;
    float *x = values_of(a, name, &n), *y = values_of(b, name, &m);
    double most = 0;
    ck_assert_msg(n == m, "%s: sizes", name);
    for (uint64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
    return most;
}

/* The largest difference between tensors of the same names in `expected` and `found`. */
static double largest_of_all(const char *expected, const char *found)
{
    mf_st_file *f = NULL;
    double most = 0;
    must(mf_st_open(expected, &f));
    for (size_t i = 0; i < mf_st_count(f); i++)
        most = fmax(most, largest(expected, found, mf_st_at(f, i)->name));
    mf_st_close(f);
    return most;
}

/* Writes the logits of a session for the tokens of a file. */
static void save_logits(mf_session *s, const char *tokens, const char *path)
{
    mf_tokens t;
    double loss;
    remove(path);
    must(mf_tokens_read(tokens, s, &t));
    must(mf_tokens_save(s, &t, path, &loss));
    mf_tokens_free(&t);
}

static void compare_files(const char *a, const char *b)
{
    size_t n, m;
    char *x = scratch_read(a, &n), *y = scratch_read(b, &m);
    ck_assert_msg(x && y && n == m && memcmp(x, y, n) == 0, "%s and %s differ", a, b);
    free(x);
    free(y);
}

/* ---- packings ---- */

static void compare_stores(const mf_session *a, const mf_session *b)
{
    const mf_store *x = a->model->store, *y = b->model->store;
    ck_assert_int_eq(mf_store_count(x), mf_store_count(y));
    for (int i = 0; i < mf_store_count(x); i++) {
        const mf_param *p = mf_store_at(x, i), *q = mf_store_at(y, i);
        ck_assert_str_eq(p->name, q->name);
        ck_assert_msg(memcmp(mf_param_host(p), mf_param_host(q), (size_t)p->count * 4) == 0,
                      "%s differs", p->name);
    }
}

/* Both packings of an adapter result in the same model. An export has the present form. */
START_TEST(packings)
{
    const char *base = scratch_path("base"), *one = scratch_path("one"),
               *two = scratch_path("two"), *out = scratch_path("out");
    char path[PATH];
    int64_t tensors;
    import(golden("mixtral/hf"), NULL, base);
    import(golden("peft/corrected"), base, one);
    import(golden("peft/exchanged"), base, two);
    mf_session *a = open_run(one, false), *b = open_run(two, false);
    compare_stores(a, b);
    mf_session_close(a);
    mf_session_close(b);
    mf_remove_tree(out);
    must(mf_export_peft(two, out, &tensors));
    ck_assert_int_eq(tensors, 16);
    snprintf(path, sizeof path, "%s/" MF_PEFT_WEIGHTS, out);
    compare_files(path, golden("peft/corrected/adapter_model.safetensors"));
    /* A run of the base without an adapter has no adapter to export. */
    mf_remove_tree(out);
    ck_assert_int_eq(mf_export_peft(base, out, &tensors), MF_EINPUT);
    ck_assert(!mf_exists(out));
}
END_TEST

static void check_value(const mf_session *s, const char *name, const char *expected,
                        int64_t row, double bound)
{
    uint64_t n;
    float *x = values_of(golden("peft/merged.safetensors"), expected, &n);
    const mf_param *p = mf_store_find(s->model->store, name);
    const float *v = mf_param_host(p) + row * p->shape.dim[p->shape.rank - 1];
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)v[i] - (double)x[i]) <= bound, "%s: %g, expected %g",
                      expected, (double)v[i], (double)x[i]);
    free(x);
}

/* The merged weights equal those of the formula, the merged model computes the same, and the
 * change can be removed again. */
START_TEST(merging)
{
    const char *base = scratch_path("base"), *run = scratch_path("run"),
               *hf = scratch_path("hf"), *again = scratch_path("again"),
               *with = scratch_path("with.safetensors"),
               *merged = scratch_path("merged.safetensors");
    const mf_export_options f32 = {.dtype = MF_ST_F32},
                            without = {.adapters = MF_EXPORT_WITHOUT};
    int64_t tensors;
    import(golden("mixtral/hf"), NULL, base);
    import(golden("peft/corrected"), base, run);
    mf_session *s = open_as(run, false, MF_BIND_NONE), *plain = open_run(base, false);
    save_logits(s, golden("mixtral/golden.safetensors"), with);
    must(mf_lora_merge(s->model, 1));
    check_value(s, "layers.0.attention.qkv.weight", "model.layers.0.self_attn.q_proj.weight", 0,
                1e-6);
    check_value(s, "layers.1.attention.qkv.weight", "model.layers.1.self_attn.v_proj.weight",
                96, 1e-6);
    check_value(s, "layers.1.router.weight", "model.layers.1.block_sparse_moe.gate.weight", 0,
                1e-6);
    check_value(s, "layers.1.expert.w13", "model.layers.1.block_sparse_moe.experts.5.w3.weight",
                5 * 192 + 96, 1e-6);
    check_value(s, "layers.1.expert.w2", "model.layers.1.block_sparse_moe.experts.5.w2.weight",
                5 * 64, 1e-6);
    must(mf_lora_merge(s->model, -1));
    for (int i = 0; i < mf_store_count(plain->model->store); i++) {
        const mf_param *p = mf_store_at(plain->model->store, i),
                       *q = mf_store_find(s->model->store, p->name);
        for (int64_t k = 0; k < p->count; k++)
            ck_assert(fabsf(mf_param_host(p)[k] - mf_param_host(q)[k]) <= 1e-6F);
    }
    mf_session_close(s);
    mf_session_close(plain);
    mf_remove_tree(hf);
    must(mf_export_hf(run, hf, &f32, &tensors));
    import(hf, NULL, again);
    s = open_run(again, false);
    save_logits(s, golden("mixtral/golden.safetensors"), merged);
    mf_session_close(s);
    const double apart = largest(with, merged, "logits");
    printf("# merged logits differ by %.2g\n", apart);
    ck_assert_msg(apart <= 1e-5, "merged logits differ by %g", apart);
    mf_remove_tree(hf);
    must(mf_export_hf(run, hf, &without, &tensors));
    char path[PATH];
    snprintf(path, sizeof path, "%s/model-00001-of-00005.safetensors", hf);
    compare_files(path, golden("mixtral/hf/model-00001-of-00005.safetensors"));
}
END_TEST

/* ---- squares ---- */

static void write_adapter(const char *folder, const char *version)
{
    static const float a[4 * 4] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, b[4 * 4] = {10, 20, 30, 40, 50};
    const int64_t shape[] = {4, 4};
    char path[PATH], text[256];
    mf_st_writer *w = mf_st_writer_new();
    mf_remove_tree(folder);
    must(mf_mkdirs(folder));
    snprintf(path, sizeof path, "%s/" MF_PEFT_CONFIG, folder);
    snprintf(text, sizeof text, "{\"peft_type\":\"LORA\",\"lora_alpha\":2%s%s%s}",
             version ? ",\"peft_version\":\"" : "", version ? version : "",
             version ? "\"" : "");
    scratch_write(path, text, strlen(text));
    snprintf(path, sizeof path, "%s/" MF_PEFT_WEIGHTS, folder);
    must(mf_st_writer_add(w, "base_model.model.m.experts.lora_A.weight", MF_ST_F32, 2, shape));
    must(mf_st_writer_add(w, "base_model.model.m.experts.lora_B.weight", MF_ST_F32, 2, shape));
    must(mf_st_writer_begin(w, path));
    must(mf_st_writer_put(w, a, sizeof a));
    must(mf_st_writer_put(w, b, sizeof b));
    must(mf_st_writer_end(w, false));
    mf_st_writer_free(w);
}

/* A square weight of experts: only peft_version determines which side is the input. */
START_TEST(squares)
{
    const mf_peft_module module = {.name = "m.experts",
                                   .parameter = "down_proj",
                                   .fused = true,
                                   .rows = {.n = 4},
                                   .experts = 2,
                                   .inputs = 4};
    const char *folder = scratch_path("square");
    mf_arena *arena = mf_arena_new();
    mf_peft p;
    write_adapter(folder, NULL);
    ck_assert_int_eq(mf_peft_read(folder, NULL, NULL, &module, 1, arena, &p), MF_EINPUT);
    ck_assert_msg(strstr(mf_error_message(), "expected a key peft_version"), "%s",
                  mf_error_message());
    write_adapter(folder, "0.19.1");
    must(mf_peft_read(folder, NULL, NULL, &module, 1, arena, &p));
    ck_assert_int_eq(p.changes[0].change.rank, 2);
    ck_assert(p.changes[0].change.a[1] == 2 && p.changes[0].change.a[4] == 5);
    /* B [4, 2 E]: row 0 is 10 20 | 30 40, with column i of each expert e = 0, 1 */
    ck_assert(p.changes[0].change.b[0] == 10 && p.changes[0].change.b[1] == 30);
    ck_assert(p.changes[0].change.b[8] == 20 && p.changes[0].change.b[9] == 40);
    write_adapter(folder, "0.18.0");
    must(mf_peft_read(folder, NULL, NULL, &module, 1, arena, &p));
    ck_assert(p.changes[0].change.a[0] == 10 && p.changes[0].change.a[4] == 30);
    ck_assert(p.changes[0].change.b[0] == 1 && p.changes[0].change.b[1] == 5);
    mf_arena_free(arena);
}
END_TEST

/* ---- targets ---- */

/* Which modules a configuration selects, according to PEFT 0.21. */
START_TEST(targets)
{
    static const struct {
        const char *config, *name, *parameter;
        bool meant;
    } table[] = {
        {"", "model.layers.0.self_attn.q_proj", NULL, true},
        {"\"target_modules\":[\"q_proj\"]", "model.layers.0.self_attn.q_proj", NULL, true},
        {"\"target_modules\":[\"q_proj\"]", "model.layers.0.self_attn.k_proj", NULL, false},
        {"\"target_modules\":[\"proj\"]", "model.layers.0.self_attn.q_proj", NULL, false},
        {"\"target_modules\":[\"model.layers.0.self_attn.q_proj\"]",
         "model.layers.0.self_attn.q_proj", NULL, true},
        {"\"target_modules\":\".*q_proj\"", "model.layers.0.self_attn.q_proj", NULL, true},
        {"\"target_modules\":\"q_proj\"", "model.layers.0.self_attn.q_proj", NULL, false},
        {"\"target_modules\":\".*q_proj\"", "model.layers.0.self_attn.k_proj", NULL, false},
        {"\"target_modules\":\"All-Linear\"", "model.layers.0.self_attn.k_proj", NULL, true},
        {"\"target_modules\":\"all-linear\"", "lm_head", NULL, false},
        {"\"exclude_modules\":[\"q_proj\"]", "model.layers.0.self_attn.q_proj", NULL, false},
        {"\"exclude_modules\":\".*0.*q_proj\"", "model.layers.0.self_attn.q_proj", NULL, false},
        {"\"exclude_modules\":\".*0.*q_proj\"", "model.layers.1.self_attn.q_proj", NULL, true},
        {"\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[0]",
         "model.layers.0.self_attn.q_proj", NULL, true},
        {"\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[0]",
         "model.layers.1.self_attn.q_proj", NULL, false},
        {"\"target_modules\":[\"q_proj\"],\"layers_to_transform\":1",
         "model.layers.1.self_attn.q_proj", NULL, true},
        {"\"target_modules\":[\"q_proj\"],\"layers_to_transform\":[1],\"layers_pattern\":\"h\"",
         "model.layers.1.self_attn.q_proj", NULL, false},
        {"\"target_modules\":[\"c_attn\"],\"layers_to_transform\":[1],\"layers_pattern\":["
         "\"h\"]",
         "transformer.h.1.attn.c_attn", NULL, true},
        {"\"target_modules\":[\"lm_head\"],\"layers_to_transform\":[1]", "lm_head", NULL,
         false},
        {"\"target_modules\":null,\"target_parameters\":[\"experts.down_proj\"]",
         "model.layers.1.self_attn.q_proj", NULL, false},
        {"\"target_parameters\":[\"experts.down_proj\"]", "model.layers.1.mlp.experts",
         "down_proj", true},
        {"\"target_parameters\":[\"experts.down_proj\"]", "model.layers.1.mlp.experts",
         "gate_up_proj", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[256];
        mf_json *config;
        bool meant = false;
        const mf_peft_module m = {.name = table[i].name,
                                  .parameter = table[i].parameter,
                                  .layer = strcmp(table[i].name, "lm_head") == 0 ? -1 : 0};
        snprintf(text, sizeof text, "{%s}", table[i].config);
        must(mf_json_parse("config", text, strlen(text), &config));
        must(mf_peft_targets("config", config, &m, &meant));
        ck_assert_msg(meant == table[i].meant, "%s, %s: %d", text, table[i].name, meant);
        mf_json_free(config);
    }
}
END_TEST

/* Imports the adapter of the golden folder with changed keys in its configuration. Returns the
 * number of linear layers that get a change; 0: the adapter is refused. */
static int64_t import_changed(const char *from, const char *to)
{
    const char *folder = scratch_path("changed"), *run = scratch_path("run");
    char path[PATH];
    size_t n;
    mf_import_report r = {0};
    mf_remove_tree(folder);
    must(mf_mkdirs(folder));
    char *text = scratch_read(golden("peft/corrected/adapter_config.json"), &n);
    char *at = strstr(text, from), *whole = malloc(n + 256);
    ck_assert_ptr_nonnull(at);
    const int size =
        snprintf(whole, n + 256, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    snprintf(path, sizeof path, "%s/" MF_PEFT_CONFIG, folder);
    scratch_write(path, whole, (size_t)size);
    free(whole);
    free(text);
    text = scratch_read(golden("peft/corrected/adapter_model.safetensors"), &n);
    snprintf(path, sizeof path, "%s/" MF_PEFT_WEIGHTS, folder);
    scratch_write(path, text, n);
    free(text);
    mf_remove_tree(run);
    const int rc = mf_import_adapter(folder, scratch_path("base"), run, &r);
    mf_free(r.run);
    return rc == MF_OK ? r.used / 2 : 0;
}

START_TEST(ignored)
{
    import(golden("mixtral/hf"), NULL, scratch_path("base"));
    ck_assert_int_eq(import_changed("\"r\":", "\"r\":"), 8);
    ck_assert_int_eq(
        import_changed("\"bias\":", "\"exclude_modules\": [\"q_proj\"], \"bias\":"), 6);
    ck_assert_int_eq(import_changed("\"mlp.gate.weight\",", ""), 6);
    ck_assert_int_eq(
        import_changed("\"target_parameters\": [",
                       "\"layers_to_transform\": 7, \"target_parameters\": [\"none\"], "
                       "\"older\": ["),
        0);
    ck_assert_msg(strstr(mf_error_message(), "mean none of the modules"), "%s",
                  mf_error_message());
}
END_TEST

/* ---- joining ---- */

/* Two layers of a file are one of the model. If their A differ, the ranks are added. */
START_TEST(joining)
{
    static const float a1[] = {1, 2}, a2[] = {3, 4}, b1[] = {5, 6}, b2[] = {7, 8, 9};
    const mf_low_rank c1 = {.rows = {0, 2, 0},
                            .experts = 1,
                            .inputs = 2,
                            .rank = 1,
                            .alpha = 2,
                            .a = a1,
                            .b = b1},
                      c2 = {.rows = {2, 3, 0},
                            .experts = 1,
                            .inputs = 2,
                            .rank = 1,
                            .alpha = 3,
                            .a = a2,
                            .b = b2};
    const mf_low_rank *const both[] = {&c1, &c2};
    const mf_rows all = {0, 5, 0}, turns = {0, 4, 2};
    float one[10] = {0}, two[10] = {0};
    mf_arena *arena = mf_arena_new();
    mf_low_rank joined;
    bool any;
    must(mf_low_rank_fit(both, 2, &all, arena, &joined, &any));
    ck_assert(any && joined.rank == 2);
    mf_low_rank_add(&c1, 1, 5, one);
    mf_low_rank_add(&c2, 1, 5, one);
    mf_low_rank_add(&joined, 1, 5, two);
    for (int i = 0; i < 10; i++)
        ck_assert(one[i] == two[i] && one[i] != 0);
    must(mf_low_rank_fit(both, 1, &all, arena, &joined, &any));
    ck_assert(joined.rank == 1 && joined.b[1] == 6 && joined.b[2] == 0);
    for (int64_t i = 0; i < 4; i++)
        ck_assert_int_eq(mf_rows_find(&turns, mf_rows_at(&turns, i)), i);
    ck_assert_int_eq(mf_rows_at(&turns, 1), 2);
    mf_arena_free(arena);
}
END_TEST

/* ---- training ---- */

/* Checks that the weights of the model have no gradient, that their moments are unchanged, and
 * that there is no second copy of them. */
static void check_frozen(const mf_session *s)
{
    const mf_store *store = s->model->store;
    const float *m1 = mf_store_moment1(store), *m2 = mf_store_moment2(store);
    for (int i = 0; i < mf_store_count(store); i++) {
        const mf_param *p = mf_store_at(store, i);
        double sum = 0;
        if (p->buffer) continue;
        ck_assert_msg(p->frozen == !p->adapter, "%s", p->name);
        ck_assert_msg((p->stored != NULL) == (p->shape.rank >= 2 && !p->adapter), "%s",
                      p->name);
        if (p->stored) { /* no copy is kept in addition to the file */
            ck_assert(!p->value && !p->grad && !p->bf16);
            continue;
        }
        for (int64_t k = p->offset; k < p->offset + p->count; k++)
            sum += fabs((double)m1[k]) + fabs((double)m2[k]);
        ck_assert_msg((sum == 0) == p->frozen, "%s: moments", p->name);
        ck_assert_ptr_null(p->bf16);
    }
}

/* Makes ten AdamW steps on the tokens of a file. loss: before each step, and at the end. */
static void train(mf_session *s, const char *tokens, double loss[STEPS + 1])
{
    mf_train_config *c = &s->config->train;
    mf_tokens t;
    mf_model_graph *mg = NULL;
    mf_optim *optim = NULL;
    const mf_run plain = {0};
    c->beta1 = 0.9;
    c->beta2 = 0.999;
    c->eps = 1e-8;
    s->model->options.dropout = 0;
    must(mf_tokens_read(tokens, s, &t));
    const mf_model_shape shape = {
        .mode = MF_MODE_TRAIN, .batch = t.rows, .seq = t.width, .masked = t.masked};
    must(mf_model_graph_new(s->model, &shape, &mg));
    must(mf_optim_new(s->model->store, c, &optim));
    mf_batch_feed(t.batch, mg);
    for (int i = 0; i <= STEPS; i++) {
        const mf_optim_step step = {
            .step = i, .lr = 5e-3, .weight_decay = 0.01, .grad_scale = 1};
        float value;
        must(mf_graph_run(mg->g, &plain));
        must(mf_tensor_read(mg->task_loss, &value, 0, sizeof value));
        loss[i] = (double)value;
        if (i == STEPS) break;
        must(mf_optim_measure(optim));
        must(mf_optim_update(optim, &step));
    }
    mf_optim_free(optim);
    mf_model_graph_free(mg);
    mf_tokens_free(&t);
}

/* Training changes only the adapter. */
START_TEST(frozen)
{
    const char *base = scratch_path("base"), *run = scratch_path("run");
    double loss[STEPS + 1];
    import(golden("mixtral/hf"), NULL, base);
    import(golden("peft/corrected"), base, run);
    mf_session *s = open_run(run, true), *was = open_run(run, false);
    train(s, golden("mixtral/golden.safetensors"), loss);
    ck_assert_msg(loss[STEPS] < loss[0] - 0.5, "loss %g, then %g", loss[0], loss[STEPS]);
    for (int i = 0; i < mf_store_count(s->model->store); i++) {
        const mf_param *p = mf_store_at(s->model->store, i),
                       *q = mf_store_at(was->model->store, i);
        const bool same =
            memcmp(mf_param_host(p), mf_param_host(q), (size_t)p->count * sizeof(float)) == 0;
        ck_assert_msg(same == !p->adapter, "%s", p->name);
    }
    check_frozen(s);
    mf_session_close(s);
    mf_session_close(was);
}
END_TEST

/* Writes the adapters of a session in PEFT's form. For this it saves the session as a run. */
static void export_trained(const mf_session *s, const char *run, const char *folder)
{
    char path[PATH];
    int64_t tensors;
    mf_state *state = mf_state_new();
    const mf_provenance here = {.version = "", .kernels = "", .cpu = "", .blas = ""};
    snprintf(path, sizeof path, "%s/ckpt", run);
    must(mf_ckpt_save(path, STEPS, s->model->store, NULL, state, &here, 0));
    mf_state_free(state);
    mf_remove_tree(folder);
    must(mf_export_peft(run, folder, &tensors));
}

/* The largest difference between the tensors merged.NAME of one file and NAME of the
 * other file. */
static double compare_merged(const char *expected, const char *found)
{
    mf_st_file *f = NULL, *e = NULL;
    double most = 0;
    int n = 0;
    must(mf_st_open(expected, &f));
    must(mf_st_open(found, &e));
    for (size_t i = 0; i < mf_st_count(f); i++) {
        const mf_st_tensor *t = mf_st_at(f, i);
        if (strncmp(t->name, "merged.", 7) != 0) continue;
        const mf_st_tensor *u = mf_st_find(e, t->name + 7);
        ck_assert_msg(u && u->bytes == t->bytes && t->dtype == MF_ST_F32, "%s", t->name);
        float *x = malloc(t->bytes), *y = malloc(t->bytes);
        must(mf_st_read(f, t, x, t->bytes));
        must(mf_st_read(e, u, y, t->bytes));
        for (uint64_t k = 0; k < t->count; k++)
            most = fmax(most, fabs((double)x[k] - (double)y[k]));
        free(x);
        free(y);
        n++;
    }
    ck_assert_int_gt(n, 0);
    mf_st_close(f);
    mf_st_close(e);
    return most;
}

static void check_case(const char *base, const char *lora, const char *name)
{
    const char *run = scratch_path("case"), *out = scratch_path("trained"),
               *logits = scratch_path("logits.safetensors"),
               *merged = scratch_path("merged.safetensors");
    char init[2 * PATH], final[2 * PATH], values[2 * PATH], path[2 * PATH], *text;
    double loss[STEPS + 1], worst = 0;
    const mf_export_options f32 = {.dtype = MF_ST_F32};
    int64_t tensors;
    mf_json *json = NULL;
    size_t n;
    snprintf(init, sizeof init, "%s/%s/init", lora, name);
    snprintf(final, sizeof final, "%s/%s/final/" MF_PEFT_WEIGHTS, lora, name);
    snprintf(values, sizeof values, "%s/%s/run.safetensors", lora, name);
    snprintf(path, sizeof path, "%s/%s/run.json", lora, name);
    must(mf_read_file(path, 0, &text, &n));
    must(mf_json_parse(path, text, n, &json));
    mf_free(text);
    import(init, base, run);
    mf_session *s = open_run(run, true);
    train(s, values, loss);
    check_frozen(s);
    const mf_json *losses = mf_json_get(json, "losses");
    for (int i = 0; i <= STEPS; i++) {
        double expected = mf_json_real_or_nan(json, "loss_after");
        if (i < STEPS) ck_assert(mf_json_real(mf_json_at(losses, (size_t)i), &expected));
        worst = fmax(worst, fabs(loss[i] - expected) / expected);
    }
    export_trained(s, run, out);
    snprintf(path, sizeof path, "%s/" MF_PEFT_WEIGHTS, out);
    const double adapters = largest_of_all(final, path);
    mf_session_close(s);
    /* Compares with PEFT's final adapter: its logits, and the logits of the merged weights. */
    snprintf(path, sizeof path, "%s/%s/final", lora, name);
    import(path, base, run);
    s = open_run(run, false);
    save_logits(s, values, logits);
    mf_session_close(s);
    mf_remove_tree(out);
    must(mf_export_hf(run, out, &f32, &tensors));
    import(out, NULL, run);
    s = open_run(run, false);
    save_logits(s, values, merged);
    mf_session_close(s);
    snprintf(path, sizeof path, "%s/model.safetensors", out);
    const double weights = compare_merged(values, path);
    const double apart = largest(logits, merged, "logits");
    printf("# %s: losses differ by %.2g, relative, adapters by %.2g; merged weights by %.2g, "
           "merged logits by %.2g\n",
           name, worst, adapters, weights, apart);
    ck_assert_msg(weights <= 1e-6, "%s: merged weights differ by %g", name, weights);
    ck_assert_msg(worst <= 1e-3, "%s: losses differ by %g", name, worst);
    ck_assert_msg(adapters <= 1e-3, "%s: adapters differ by %g", name, adapters);
    ck_assert_msg(apart <= 1e-5, "%s: merged logits differ by %g", name, apart);
    mf_json_free(json);
}

START_TEST(reference_set)
{
    static const char *const names[] = {"attention", "attention_router", "experts_router"};
    const char *folder = getenv("MOEFW_PRETRAINED"), *base = scratch_path("qwen");
    char hf[PATH], lora[PATH];
    if (!folder) {
        printf("# skipped: MOEFW_PRETRAINED names no reference set\n");
        return;
    }
    snprintf(hf, sizeof hf, "%s/tiny/qwen2_moe/hf", folder);
    snprintf(lora, sizeof lora, "%s/lora", folder);
    import(hf, NULL, base);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_case(base, lora, names[i]);
}
END_TEST

/* Adapters as present versions of PEFT save them: with patterns that PEFT writes itself, a copy
 * of the head's weight, and all parts of latent attention. */
START_TEST(saved_by_peft)
{
    static const char *const names[] = {"all_linear", "lm_head", "latent"},
                             *const bases[] = {"mixtral/hf", "mixtral/hf", "peft/latent/hf"};
    const char *base = scratch_path("saved_base"), *run = scratch_path("saved"),
               *out = scratch_path("saved.safetensors");
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    char adapter[64], values[96];
    for (int i = 0; i < 3; i++) {
        mf_session *s = NULL;
        mf_st_file *f[2];
        int64_t step;
        double most = 0;
        float *v[2];
        snprintf(adapter, sizeof adapter, "peft/%s", names[i]);
        snprintf(values, sizeof values, "%s/values.safetensors", adapter);
        mf_remove_tree(base);
        mf_remove_tree(run);
        import(golden(bases[i]), NULL, base);
        import(golden(adapter), base, run);
        must(mf_load_run_as(run, &o, &change, &s, &step));
        save_logits(s, golden(values), out);
        must(mf_st_open(golden(values), &f[0]));
        must(mf_st_open(out, &f[1]));
        const mf_st_tensor *t[] = {mf_st_find(f[0], "logits"), mf_st_find(f[1], "logits")};
        for (int k = 0; k < 2; k++) {
            v[k] = malloc((size_t)t[k]->bytes);
            must(mf_st_read(f[k], t[k], v[k], (size_t)t[k]->bytes));
        }
        /* PEFT's logits are for the last positions only */
        for (uint64_t k = 0; k < t[0]->count; k++)
            most =
                fmax(most, fabs((double)v[0][k] - (double)v[1][t[1]->count - t[0]->count + k]));
        printf("# %s: logits differ by %.2g\n", names[i], most);
        ck_assert_msg(most <= 5e-5, "%s: logits differ by %g", names[i], most);
        for (int k = 0; k < 2; k++) {
            free(v[k]);
            mf_st_close(f[k]);
        }
        mf_session_close(s);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("peft");
    TCase *t = tcase_create("adapters");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, saved_by_peft);
    tcase_add_test(t, packings);
    tcase_add_test(t, merging);
    tcase_add_test(t, squares);
    tcase_add_test(t, targets);
    tcase_add_test(t, ignored);
    tcase_add_test(t, joining);
    tcase_add_test(t, frozen);
    tcase_add_test(t, reference_set);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
