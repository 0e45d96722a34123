/* metrics: keys of a line, truncation to a step, reading of damaged files, routing
 * samples, correlations. */
#include "check_main.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "tests/lib/scratch.h"
#include "run/metrics/correlation.h"
#include "run/metrics/divergence.h"
#include "run/metrics/metrics.h"
#include "run/metrics/predictions.h"
#include "run/sample/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static char home[] = "/tmp/check_metrics.XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", home, name);
    return path;
}

static const float load[] = {0.5f, 0.25f, 0.25f}, importance[] = {0.4f, 0.3f, 0.3f},
                   prob_sum[] = {12.5f, 3.25f, 0.25f};
/* f32 cannot represent the first number */
static const double count[] = {33554433, 16777216, 16777216};
static const mf_layer_stats layers[] = {
    {.size = sizeof(mf_layer_stats),
     .layer = 0,
     .experts = 3,
     .top_k = 2,
     .load = load,
     .count = count,
     .demand = load,
     .importance = importance,
     .prob_sum = prob_sum,
     .max_prob = 0.625,
     .entropy = 1.0986122886681098,
     .load_entropy = 1.04,
     .top_prob = 0.5,
     .load_cv = 0.35,
     .drop_rate = 0.125,
     .reassigned = 2,
     .nmi = NAN},
    {.size = sizeof(mf_layer_stats),
     .layer = 3,
     .experts = 3,
     .top_k = 2,
     .load = load,
     .importance = importance,
     .max_prob = NAN,
     .entropy = 0.5,
     .nmi = 0.75,
     .empty = 1},
};
static const mf_named_value regularizers[] = {{"balance", 1.0078125}, {"z", NAN}};
static const mf_named_value live[] = {{"router.temperature", 0.1}};
static const mf_controller_record controllers[] = {{"warm", 1, live}};
static const mf_change turns[] = {{.step = 6,
                                   .option = "router.temperature",
                                   .by = "controller.warm",
                                   .reason = "it \"fell\"",
                                   .from = 1,
                                   .to = 0.1}};

static mf_metrics_record record(int64_t step, const char *split)
{
    mf_metrics_record r;
    mf_metrics_record_init(&r);
    r.step = step;
    r.split = split;
    r.loss = 5.5 + (double)step;
    r.task_loss = 0.1 + 0.2;
    r.tokens = 1 << 20;
    r.n_layers = 2;
    r.layers = layers;
    r.n_regularizers = 2;
    r.regularizers = regularizers;
    r.n_controllers = 1;
    r.controllers = controllers;
    r.n_turns = 1;
    r.turns = turns;
    return r;
}

static const char *json_of(const mf_metrics_record *r)
{
    static char text[8192];
    mf_jw *w = mf_jw_new();
    mf_metrics_json(w, r);
    snprintf(text, sizeof text, "%s", mf_jw_text(w, NULL));
    mf_jw_free(w);
    return text;
}

START_TEST(a_line_has_the_documented_keys)
{
    mf_metrics_record r = record(7, "train");
    const char *text = json_of(&r);
    ck_assert_msg(strncmp(text, "{\"step\":7,\"split\":\"train\",\"loss\":12.5,", 38) == 0,
                  "%s", text);
    static const char *const holds[] = {
        "\"task_loss\":0.30000000000000004,",
        "\"lr\":null,",
        "\"grad_norm\":null,",
        "\"tokens\":1048576,",
        "\"tokens_per_s\":null,",
        "\"wall_s\":null,",
        "\"regularizers\":{\"balance\":1.0078125,\"z\":null}",
        "\"controllers\":{\"warm\":{\"router.temperature\":0.1}}",
        "\"moe\":[{\"layer\":0,\"entropy\":1.0986122886681098,",
        "\"load\":[0.5,0.25,0.25],\"count\":[33554433,16777216,16777216]",
        "\"importance\":[0.4,0.3,0.3],\"prob_sum\":[12.5,3.25,0.25]",
        "\"top_prob\":0.5,\"max_prob\":0.625,",
        "\"load_cv\":0.35,\"drop_rate\":0.125,\"reassigned\":2",
        "\"empty\":0},{\"layer\":3,",
        "\"empty\":1,\"nmi\":0.75}",
        "\"turns\":[{\"step\":6,\"option\":\"router.temperature\",\"from\":1",
        "it \\\"fell\\\""};
    for (size_t i = 0; i < sizeof holds / sizeof *holds; i++)
        ck_assert_msg(strstr(text, holds[i]) != NULL, "lacks %s: %s", holds[i], text);
    static const char *const lacks[] = {"ppl", "accuracy", "heads", "floor", "\"nmi\":null"};
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        ck_assert_msg(!strstr(text, lacks[i]), "has %s: %s", lacks[i], text);
    /* the layer of a router without probabilities */
    const char *second = strstr(text, "\"layer\":3");
    ck_assert(!strstr(second, "max_prob") && !strstr(second, "prob_sum"));
    ck_assert_ptr_null(strstr(second, "count"));
    r.ppl = 2;
    r.ppl_batch_mean = 2.25;
    r.floor = 1.5;
    r.heads_total = 16;
    r.heads_active = 12;
    text = json_of(&r);
    ck_assert_ptr_nonnull(strstr(text, "\"ppl\":2,\"ppl_batch_mean\":2.25"));
    ck_assert_ptr_nonnull(strstr(text, "\"floor\":1.5"));
    ck_assert_ptr_nonnull(strstr(text, "\"heads\":{\"active\":12,\"total\":16}"));
    ck_assert_ptr_null(strstr(text, "efficiency"));
    r.params_active = 4000000;
    text = json_of(&r);
    ck_assert_msg(strstr(text,
                         ",\"efficiency\":{\"params_active\":4000000,\"ppl_per_mparam\":0.5,"
                         "\"parameter_efficiency\":0.125,\"ppl_per_head\":0.166666666666666"
                         "66,\"head_efficiency\":0.041666666666666664}}") != NULL,
                  "%s", text);
    r.heads_active = 0; /* all heads are pruned, so there is no efficiency per head */
    ck_assert_ptr_null(strstr(json_of(&r), "head_efficiency"));
    r.heads_active = 12;
    r.ppl = NAN; /* the model is not a language model */
    ck_assert_ptr_null(strstr(json_of(&r), "efficiency"));
}
END_TEST

static void write_steps(const char *path, int64_t keep, int64_t from, int64_t to)
{
    mf_step_file *log;
    ck_assert_msg(mf_step_file_open(path, keep, &log) == MF_OK, "%s", mf_error_message());
    for (int64_t s = from; s <= to; s++) {
        mf_metrics_record r = record(s, "train");
        ck_assert_int_eq(mf_metrics_put(log, &r), MF_OK);
    }
    ck_assert_int_eq(mf_step_file_sync(log), MF_OK);
    ck_assert_int_eq(mf_step_file_close(log), MF_OK);
}

static void append(const char *path, const char *text)
{
    FILE *f = fopen(path, "a");
    ck_assert_int_ge(fputs(text, f), 0);
    fclose(f);
}

static char *bytes(const char *path, size_t *n)
{
    char *text;
    ck_assert_int_eq(mf_read_file(path, 0, &text, n), MF_OK);
    return text;
}

START_TEST(a_cut_and_continued_file_is_the_unbroken_one)
{
    static const char *const tails[] = {"", "{\"step\":9,\"split\":\"tr", "garbage\n",
                                        "{\"step\":\n"};
    size_t n, m;
    write_steps(path_of("whole"), -1, 1, 12);
    char *whole = bytes(path_of("whole"), &n);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        write_steps(path_of("part"), -1, 1, 8);
        append(path_of("part"), tails[i]);
        write_steps(path_of("part"), 5, 6, 12);
        char *part = bytes(path_of("part"), &m);
        ck_assert_uint_eq(n, m);
        ck_assert_int_eq(memcmp(whole, part, n), 0);
        mf_free(part);
    }
    mf_free(whole);
    write_steps(path_of("whole"), -1, 1, 1); /* a new run starts a new file */
    whole = bytes(path_of("whole"), &m);
    ck_assert_uint_lt(m, n);
    mf_free(whole);
    write_steps(path_of("absent"), 5, 6, 6); /* a missing file is not an error */
}
END_TEST

/* Opens a file with the given steps (-1: a damaged line) to continue after step `keep`. Returns
 * the number of lines that are kept. */
static int64_t stay(const int *steps, int n, int64_t keep)
{
    mf_step_file *log;
    char text[1024];
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 steps[i] < 0 ? "{\"stXp\":%d,\"split\":\"train\"}\n"
                                              : "{\"step\":%d,\"split\":\"train\"}\n",
                                 steps[i]);
    scratch_write(path_of("steps"), text, used);
    ck_assert_int_eq(mf_step_file_open(path_of("steps"), keep, &log), MF_OK);
    const int64_t lines = mf_step_file_lines(log);
    ck_assert_int_eq(mf_step_file_close(log), MF_OK);
    mf_free(bytes(path_of("steps"), &used));
    size_t all = 0;
    for (int i = 0; i < lines; i++)
        all += (size_t)snprintf(text, sizeof text, "{\"step\":%d,\"split\":\"train\"}\n",
                                steps[i]);
    ck_assert_uint_eq(used, all);
    return lines;
}

#define STAY(keep, ...)                                                                        \
    stay((const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)), keep)

/* The lines up to the last line that belongs to the checkpoint are kept. */
START_TEST(a_damaged_step_costs_only_its_line)
{
    ck_assert_int_eq(STAY(6, 1, 2, 3, 4, 5, 6, 7, 8, 9), 6);
    ck_assert_int_eq(STAY(9, 1, 2, 3, 4, 5, 6, 7, 8, 9), 9);
    ck_assert_int_eq(STAY(9, 1, 91, 3, 3, 3, 4, 5, 6, 7, 8, 9), 11);
    ck_assert_int_eq(STAY(9, 91, 92, 3, 4, 5, 6, 7, 8, 9), 9);
    ck_assert_int_eq(STAY(9, 1, 2, 3, 4, 5, 6, 7, 99, 9), 9);
    ck_assert_int_eq(STAY(9, 1, 2, 3, 4, 5, 6, 7, 8, 99), 8); /* 99: after the checkpoint */
    ck_assert_int_eq(STAY(9, 9, 2, 3, 4, 5, 6, 7, 8, 9), 9);
    ck_assert_int_eq(STAY(9, 1, 2, 3, 4, 5, 6, 7, 8, 0), 8);
    ck_assert_int_eq(STAY(6, 1, 2, 3, 4, 5, 6, 7, 8, 1), 6); /* steps 7 and 8 are run again */
    ck_assert_int_eq(STAY(6, 1, 2, 3, 4, 5, 6, 7, 6, 9, 9), 8);
    ck_assert_int_eq(STAY(6, 1, -1, 3, 4, -1, 6, 7, -1), 6);
    ck_assert_int_eq(STAY(6, 1, 2, -1, -1), 2);
    ck_assert_int_eq(STAY(6, -1, 91), 0);
    ck_assert_int_eq(STAY(6, 4), 1);
}
END_TEST

START_TEST(what_was_written_is_read)
{
    mf_metrics_history *h;
    write_steps(path_of("read"), -1, 1, 300);
    ck_assert_int_eq(mf_metrics_read(path_of("read"), &h), MF_OK);
    ck_assert_int_eq(h->n, 300);
    ck_assert_int_eq(h->damage.lines, 0);
    ck_assert(!h->damage.truncated);
    for (int i = 0; i < h->n; i++) {
        char first[8192];
        mf_metrics_record r = record(i + 1, "train");
        snprintf(first, sizeof first, "%s", json_of(&r));
        /* a value that a layer does not have (demand of layer 1) is missing in both */
        ck_assert_str_eq(first, json_of(&h->records[i]));
    }
    mf_metrics_history_free(h);
}
END_TEST

START_TEST(damage_is_counted_and_passed_over)
{
    mf_metrics_history *h;
    const char *path = path_of("damaged");
    write_steps(path, -1, 1, 3);
    append(path,
           "not json\n\n[1,2]\n{\"step\":4}\n{\"split\":\"val\",\"step\":\"4\"}\n"
           "{\"step\":5,\"split\":\"val\",\"loss\":\"x\",\"moe\":7,\"regularizers\":[]}\n"
           "{\"step\":6,\"split\":\"val\",\"moe\":[{\"load\":[1,\"y\",null]},3],\"turns\":{}}\n"
           "{\"step\":7,\"split\":\"val\",\"lo");
    ck_assert_int_eq(mf_metrics_read(path, &h), MF_OK);
    ck_assert_int_eq(h->n, 5);
    ck_assert_int_eq(h->damage.lines, 4);
    ck_assert(h->damage.truncated);
    ck_assert(isnan(h->records[3].loss));
    ck_assert_int_eq(h->records[3].n_layers, 0);
    ck_assert_int_eq(h->records[4].n_layers, 2);
    ck_assert_int_eq(h->records[4].layers[0].experts, 3);
    ck_assert(isnan(h->records[4].layers[0].load[1]));
    ck_assert_ptr_null(h->records[4].layers[0].importance);
    mf_metrics_history_free(h);
    ck_assert_int_eq(mf_metrics_read(path_of("nosuch"), &h), MF_EINPUT);
    ck_assert_ptr_null(h);
}
END_TEST

START_TEST(a_full_disk_is_an_error)
{
    mf_step_file *log;
    mf_metrics_record r = record(1, "train");
    if (access("/dev/full", W_OK) != 0) return;
    ck_assert_int_eq(symlink("/dev/full", path_of("full")), 0);
    /* /dev/full may refuse to be truncated */
    if (mf_step_file_open(path_of("full"), -1, &log) != MF_OK) return;
    ck_assert_int_eq(mf_metrics_put(log, &r), MF_EIO);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "full"));
    mf_step_file_close(log);
}
END_TEST

START_TEST(samples)
{
    static const char *const tokens[] = {"a", "\n", "<", "\xc3\xa9"}, *const labels[] = {
                                                                          "sea", "ga\"rden"};
    static const float prob[] = {0.1f, 0.9f, 0.5f, 0.5f, 1, 0, 0.25f, 0.75f};
    static const int32_t chosen[] = {1, 0, 0, -1}, token_labels[] = {0, 1, -1, 1};
    static const double by_label[] = {10, 20, 30, 0.5};
    static const float gate[] = {1, 0.5f, 0.25f, 0}, look[] = {1, 0, NAN, NAN};
    const mf_sample_head heads[] = {{.layer = 1, .head = 2, .expert = -1, .prob = look},
                                    {.layer = 3, .head = 0, .expert = 1, .prob = look}};
    const mf_sample_layer sample_layers[] = {{.layer = 1,
                                              .experts = 2,
                                              .top_k = 1,
                                              .prob = prob,
                                              .chosen = chosen,
                                              .gate = gate,
                                              .by_label = by_label,
                                              .nmi = 0.5,
                                              .nmi_random = 0.01},
                                             {.layer = 3,
                                              .experts = 2,
                                              .top_k = 1,
                                              .chosen = chosen,
                                              .nmi = NAN,
                                              .nmi_random = NAN}};
    const mf_sample s = {.step = 9,
                         .evaluation = 2,
                         .evaluations = 5,
                         .n_heads = 2,
                         .n_seen = 2,
                         .heads = heads,
                         .n_tokens = 4,
                         .n_labels = 2,
                         .n_layers = 2,
                         .tokens = tokens,
                         .token_labels = token_labels,
                         .labels = labels,
                         .layers = sample_layers};
    mf_sample *r;
    ck_assert_int_eq(mf_sample_write(path_of("sample"), &s), MF_OK);
    ck_assert_msg(mf_sample_read(path_of("sample"), &r) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(r->step, 9);
    ck_assert_int_eq(r->n_tokens, 4);
    ck_assert_str_eq(r->tokens[3], tokens[3]);
    ck_assert_str_eq(r->labels[1], labels[1]);
    ck_assert_int_eq(memcmp(r->token_labels, token_labels, sizeof token_labels), 0);
    ck_assert_int_eq(r->n_layers, 2);
    ck_assert_int_eq(memcmp(r->layers[0].prob, prob, sizeof prob), 0);
    ck_assert_int_eq(memcmp(r->layers[0].chosen, chosen, sizeof chosen), 0);
    ck_assert_int_eq(memcmp(r->layers[0].by_label, by_label, sizeof by_label), 0);
    ck_assert_double_eq(r->layers[0].nmi_random, 0.01);
    ck_assert_int_eq(memcmp(r->layers[0].gate, gate, sizeof gate), 0);
    ck_assert_ptr_null(r->layers[1].gate);
    ck_assert(r->evaluation == 2 && r->evaluations == 5);
    ck_assert_int_eq(r->n_heads, 2);
    ck_assert(r->heads[0].expert == -1 && r->heads[0].head == 2 && r->heads[0].layer == 1);
    ck_assert(r->heads[1].expert == 1 && r->heads[1].layer == 3);
    ck_assert(r->heads[1].prob[0] == 1 && isnan(r->heads[1].prob[3]));
    ck_assert_ptr_null(r->layers[1].prob);
    ck_assert(isnan(r->layers[1].nmi));
    mf_sample_free(r);
}
END_TEST

START_TEST(bad_samples)
{
    static const char *const texts[] = {
        "{}", "[]", "{\"tokens\":3,\"layers\":[7]}",
        ("{\"tokens\":[\"a\"],\"layers\":[{\"experts\":4096,\"top_k\":-1,\"prob\":[[1]],"
         "\"chosen\":[]}]}"),
        "{\"tokens\":[1,2],\"token_labels\":[9,9],\"layers\":{\"x\":1}}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mf_sample *s;
        remove(path_of("bad"));
        append(path_of("bad"), texts[i]);
        ck_assert_int_eq(mf_sample_read(path_of("bad"), &s), MF_OK);
        for (int l = 0; l < s->n_layers; l++)
            ck_assert_ptr_null(s->layers[l].prob);
        mf_sample_free(s);
    }
    mf_sample *s;
    remove(path_of("bad"));
    append(path_of("bad"), "{\"tokens\":[\"a\",\"b\"],\"layers\":[{\"experts\":2,\"top_k\":1,"
                           "\"chosen\":[[1],[2]]}]}");
    ck_assert_int_eq(mf_sample_read(path_of("bad"), &s), MF_OK);
    ck_assert(s->layers[0].chosen[0] == 1 && s->layers[0].chosen[1] == -1);
    mf_sample_free(s);
    append(path_of("bad"), "]");
    ck_assert_int_eq(mf_sample_read(path_of("bad"), &s), MF_EINPUT);
}
END_TEST

START_TEST(tasks_are_written_and_read)
{
    const mf_task_score tasks[] = {{.name = "main",
                                    .weight = 1,
                                    .loss = 0.5,
                                    .rows = 8,
                                    .accuracy = 0.75,
                                    .macro_f1 = 0.7,
                                    .mse = NAN,
                                    .pearson = NAN,
                                    .spearman = NAN},
                                   {.name = "score",
                                    .number = true,
                                    .weight = 0.25,
                                    .loss = 4,
                                    .rows = 6,
                                    .accuracy = NAN,
                                    .macro_f1 = NAN,
                                    .mse = 4,
                                    .pearson = 0.5,
                                    .spearman = -0.5}};
    mf_step_file *log;
    mf_metrics_history *h;
    mf_metrics_record r = record(3, "val");
    char text[256];
    r.accuracy = 0.75;
    r.macro_f1 = 0.7;
    ck_assert_str_eq(mf_metrics_predictions(&r, text, sizeof text),
                     "accuracy 0.7500, macro F1 0.7000");
    r.tasks = tasks;
    r.n_tasks = 2;
    ck_assert_str_eq(
        mf_metrics_predictions(&r, text, sizeof text),
        "main: accuracy 0.7500, macro F1 0.7000; score: RMSE 2.0000, Pearson 0.5000, "
        "Spearman -0.5000");
    ck_assert_ptr_nonnull(strstr(
        json_of(&r), "\"tasks\":{\"main\":{\"task\":\"classify\",\"weight\":1,\"loss\":0.5,"
                     "\"rows\":8,\"accuracy\":0.75,\"macro_f1\":0.7},\"score\":{\"task\":"
                     "\"regress\",\"weight\":0.25,\"loss\":4,\"rows\":6,\"mse\":4,\"rmse\":2,"
                     "\"pearson\":0.5,\"spearman\":-0.5}}"));
    const char *path = path_of("tasks.jsonl");
    ck_assert_int_eq(mf_step_file_open(path, -1, &log), MF_OK);
    ck_assert_int_eq(mf_metrics_put(log, &r), MF_OK);
    ck_assert_int_eq(mf_step_file_close(log), MF_OK);
    ck_assert_int_eq(mf_metrics_read(path, &h), MF_OK);
    ck_assert_int_eq(h->records[0].n_tasks, 2);
    const mf_task_score *score = &h->records[0].tasks[1];
    ck_assert_str_eq(score->name, "score");
    ck_assert(score->number && !h->records[0].tasks[0].number);
    ck_assert_double_eq(score->mse, 4);
    ck_assert_double_eq(score->spearman, -0.5);
    ck_assert(isnan(score->accuracy) && isnan(h->records[0].mse));
    mf_metrics_history_free(h);
}
END_TEST

START_TEST(correlations)
{
    double a[5], b[5];
    mf_ranked order[5];
    const mf_rank_room room = {a, b, order};
    static const double x[] = {1, 2, 3, 4, 5}, y[] = {2, 1, 4, 3, 5},
                        cubes[] = {1, 8, 27, 64, 125}, flat[] = {0.1, 0.1, 0.1, 0.1, 0.1},
                        ties[] = {1, 1, 2, 2, 2}, hole[] = {1, NAN, 2, 3, 4};
    ck_assert_double_eq_tol(mf_pearson(5, x, y), 0.8, 1e-14);
    ck_assert_double_eq_tol(mf_spearman(5, x, y, &room), 0.8, 1e-14);
    ck_assert_double_eq_tol(mf_pearson(5, x, cubes), 0.9431175138077006, 1e-12);
    ck_assert_double_eq_tol(mf_spearman(5, x, cubes, &room), 1, 1e-14);
    /* the ranks are 1.5 1.5 4 4 4 and 1 2 3 4 5 */
    ck_assert_double_eq_tol(mf_spearman(5, x, ties, &room), 7.5 / sqrt(10 * 7.5), 1e-14);
    ck_assert(isnan(mf_pearson(5, x, flat)) && isnan(mf_spearman(5, flat, x, &room)));
    ck_assert(isnan(mf_pearson(5, x, hole)) && isnan(mf_spearman(5, hole, x, &room)));
    ck_assert(isnan(mf_pearson(1, x, y)) && isnan(mf_pearson(0, x, y)));
    ck_assert_double_eq_tol(mf_pearson(2, x, y), -1, 1e-14);
}
END_TEST

/* A sample that no model can have written is refused before its content is used. */
START_TEST(predictions_that_cannot_be)
{
    const mf_batch batch = {.rows = 1, .seq = 1};
    const mf_model_graph no_logits = {.by_row = true};
    const mf_model_settings classifier = {.model.task = MF_TASK_CLASSIFY};
    const mf_model m = {.config = &classifier};
    mf_predictions *a;
    double kl = 7;
    ck_assert_int_eq(mf_predictions_divergence(&batch, &no_logits, &no_logits, &kl), MF_EINVAL);
    ck_assert_ptr_nonnull(strstr(mf_error_message(), "keeps no logits"));
    ck_assert_double_eq(kl, 7);
    ck_assert_int_eq(mf_predictions_new(&m, (int64_t)INT32_MAX + 1, &a), MF_ECONFIG);
    ck_assert_str_eq(mf_error_message(),
                     "2147483648 examples: at most 2147483647 are measured");
    ck_assert_ptr_null(a);
    mf_error_clear();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("metrics");
    TCase *c = tcase_create("metrics");
    tcase_add_test(c, a_line_has_the_documented_keys);
    tcase_add_test(c, a_cut_and_continued_file_is_the_unbroken_one);
    tcase_add_test(c, a_damaged_step_costs_only_its_line);
    tcase_add_test(c, what_was_written_is_read);
    tcase_add_test(c, tasks_are_written_and_read);
    tcase_add_test(c, correlations);
    tcase_add_test(c, predictions_that_cannot_be);
    tcase_add_test(c, damage_is_counted_and_passed_over);
    tcase_add_test(c, a_full_disk_is_an_error);
    tcase_add_test(c, samples);
    tcase_add_test(c, bad_samples);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    char command[128];
    if (!mkdtemp(home)) return 99;
    int status = check_run(suite(), CK_NOFORK);
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command) != 0 ? 99 : status;
}
