/* report and configuration: if memory or IO fails, the result must be an error, or a complete
 * report without an input that could not be read, and never a crash. The tests also write
 * reports of runs with unusual contents. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "tests/lib/fault.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/run_config.h"
#include "report/report.h"
#include "report/runs/runs.h"
#include "report/svg/svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char metrics[] =
    "{\"step\":1,\"split\":\"train\",\"loss\":3,\"task_loss\":2.5,\"lr\":0.1,\"grad_norm\":1,"
    "\"tokens\":10,\"tokens_per_s\":5,"
    "\"wall_s\":1,\"regularizers\":{\"b\":1},\"controllers\":{\"c\":{\"x\":1}},\"moe\":[{"
    "\"layer\":0,\"entropy\":1,\"load\":[0.5,0.5],"
    "\"importance\":[0.5,0.5],\"load_cv\":0,\"drop_rate\":0.5,\"reassigned\":1,\"empty\":0}],"
    "\"turns\":[{\"step\":1,\"option\":\"a.b\","
    "\"from\":1,\"to\":2,\"by\":\"controller.c\",\"reason\":\"r\"}]}\n"
    "{\"step\":2,\"split\":\"val\",\"loss\":2,\"task_loss\":2,\"accuracy\":0.5,\"macro_f1\":0."
    "4,\"heads\":{\"active\":3,\"total\":4},\"moe\":[]}\n";
static const char memory[] = "{\"step\":2,\"peak_rss_mib\":12.5}\n{\"step\":3,\"peak";
static const char sample[] =
    "{\"step\":2,\"labels\":[\"a\",\"b\"],\"tokens\":[\"x\",\" "
    "y\"],\"token_labels\":[0,1],\"layers\":[{\"layer\":0,\"experts\":2,\"top_k\":1,"
    "\"prob\":[[0.5,0.5],[0,1]],\"chosen\":[[0],[1]],\"gate\":[[1],[1]],"
    "\"by_label\":[[1,2],[3,0]],\"nmi\":0.3}],"
    "\"attention_weights\":{\"tokens\":2,\"heads\":[{\"layer\":0,\"expert\":1,\"head\":0,"
    "\"prob\":[[1,0],[null,null]]}]}}";
static const char taken[] =
    "{\"step\":1,\"evaluation\":1,\"evaluations\":2,\"tokens\":[\"x\",\" y\"],\"layers\":[{"
    "\"layer\":0,\"experts\":2,\"top_k\":2,\"prob\":null,\"chosen\":[[0,1],[1,-1]],"
    "\"gate\":[[0.5,0.5],[1,0]]}]}";
static const char weights[] =
    "{\"step\":0,\"groups\":[{\"group\":\"head\",\"elements\":4,\"mean\":0,\"sd\":1,"
    "\"least\":-1,\"most\":1,\"lo\":-1,\"hi\":1,\"share\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
    "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]}]}";
static const char config[] =
    "[model]\nlayers = 5\nmoe_every = 2\nskip = unet\nattention = yes\n[moe]\nexperts = 2\n"
    "top_k = 1\n[router]\nplugin = some/r.so\n[film]\nmode = shared\n";

static void put(const char *folder, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    scratch_write(path, text, strlen(text));
}

static const char *write_run(const char *name, const char *text)
{
    char path[640];
    const char *folder = scratch_path(name);
    mkdir(folder, 0777);
    put(folder, "metrics.jsonl", text);
    put(folder, "memory.jsonl", memory);
    put(folder, "routing_sample.json", sample);
    put(folder, "config.ini", config);
    put(folder, "weights.json", weights);
    snprintf(path, sizeof path, "%s/samples", folder);
    mkdir(path, 0777);
    put(path, "step-1.json", taken);
    put(folder, "manifest.json", "{\"params\":5}");
    return folder;
}

/* The page of these runs; the caller frees it. */
static char *page_of(int n, const char *const *runs)
{
    const char *out = scratch_path("page.html");
    const int rc = mf_report_write(n, runs, out);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    return scratch_read(out, NULL);
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

START_TEST(a_report_without_memory)
{
    const char *const runs[] = {write_run("run", metrics)};
    const char *out = scratch_path("memory.html");
    /* The page loads plugins to find the points of adapters, and they stay loaded. This first
     * report loads them. */
    ck_assert_int_eq(mf_report_write(1, runs, out), MF_OK);
    remove(out);
    for (long n = 1;; n += n < 200 ? 1 : 7) {
        fault_alloc(n, n % 2 ? FAULT_ONCE : FAULT_FROM);
        int rc = mf_report_write(1, runs, out);
        bool hit = fault_hit();
        long live = fault_alloc_live();
        fault_off();
        ck_assert_msg(live == 0, "allocation %ld: %ld blocks left", n, live);
        if (!hit) {
            ck_assert_int_eq(rc, MF_OK);
            break;
        }
        ck_assert_msg(rc == MF_ENOMEM, "allocation %ld: %d, %s", n, rc, mf_error_message());
        ck_assert_msg(!exists(out), "allocation %ld: %s", n, mf_error_message());
    }
    ck_assert(exists(out));
}
END_TEST

/* Writes a file of safetensors with the tensors `header` and 16 bytes of values. */
static void put_tensors(const char *folder, const char *name, const char *header)
{
    char file[512] = {0}, path[640];
    const size_t n = strlen(header);
    file[0] = (char)n;
    memcpy(file + 8, header, n);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_uint_lt(n, 128);
    scratch_write(path, file, 8 + n + 16);
}

START_TEST(a_report_on_a_failing_disk)
{
    const char *const runs[] = {write_run("disk", metrics)};
    const char *out = scratch_path("disk.html"), *ckpt = scratch_path("disk/ckpt/step-2");
    bool told = false;
    mkdir(scratch_path("disk/ckpt"), 0777);
    mkdir(ckpt, 0777);
    put_tensors(ckpt, "model.safetensors",
                "{\"head.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}");
    put_tensors(ckpt, "state.safetensors",
                "{\"moment1/head.weight\":{\"dtype\":\"F32\",\"shape\":[4],"
                "\"data_offsets\":[0,16]}}");
    /* What stays open after a first report is opened before calls fail. */
    ck_assert_int_eq(mf_report_write(1, runs, out), MF_OK);
    for (long n = 1;; n += n < 200 ? 1 : 7) {
        remove(out);
        fault_io(n, FAULT_ONCE, EIO);
        int rc = mf_report_write(1, runs, out);
        bool hit = fault_hit();
        long open = fault_io_open();
        fault_off();
        ck_assert_int_eq(open, 0);
        if (!hit) {
            ck_assert_int_eq(rc, MF_OK);
            break;
        }
        if (rc != MF_OK) ck_assert_str_ne(mf_error_message(), "");
        told = told || (rc != MF_OK && strstr(mf_error_message(), "model.safetensors: cannot"));
        if (rc == MF_OK) { /* then only reading an input failed, and the page is complete */
            size_t size;
            char *text = scratch_read(out, &size);
            ck_assert_ptr_nonnull(text);
            ck_assert_ptr_nonnull(strstr(text, "</html>"));
            free(text);
        }
    }
    ck_assert(told); /* a failure to read the weights was reported, too */
}
END_TEST

START_TEST(a_configuration_without_memory)
{
    const char *set[] = {"train.lr=0.5", "regularizer.mine.plugin=p"};
    for (long n = 1;; n += n < 100 ? 1 : 5) {
        mf_config *c;
        fault_alloc(n, n % 2 ? FAULT_ONCE : FAULT_FROM);
        int rc = mf_config_load(NULL, 2, set, &c);
        bool hit = fault_hit();
        if (rc == MF_OK) mf_config_free(c);
        long live = fault_alloc_live();
        fault_off();
        ck_assert_msg(live == 0, "allocation %ld: %ld blocks left", n, live);
        if (!hit) {
            ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
            break;
        }
        if (rc != MF_OK) ck_assert_ptr_null(c);
    }
}
END_TEST

/* If metrics.jsonl contains at least one record, a page is written, whatever else the
 * file contains. */
START_TEST(odd_records)
{
    static const char *const texts[] = {
        "{\"step\":0,\"split\":\"train\"}\n",
        "{\"step\":-5,\"split\":\"val\",\"loss\":null}\n{\"step\":9007199254740993,\"split\":"
        "\"val\",\"task_loss\":1e308}\n",
        "{\"step\":1,\"split\":\"<b>\",\"moe\":[{},{},{}]}\n",
        "{\"step\":1,\"split\":\"train\",\"loss\":1,\"moe\":[{\"layer\":-7,\"load\":[]}]}\n",
        "{\"step\":1,\"split\":\"train\",\"loss\":1,\"moe\":[{\"layer\":0,\"load\":[1]}]}\n"
        "{\"step\":1,\"split\":\"train\",\"loss\":1,\"moe\":[{\"layer\":0,\"load\":[0.5,0.5]},{"
        "\"layer\":1,\"load\":[1,0,0]}]}\n",
        "{\"step\":3,\"split\":\"train\",\"loss\":-1,\"lr\":0,\"grad_norm\":0,\"tokens_per_s\":"
        "0,\"wall_s\":0}\n",
        "{\"step\":3,\"split\":\"train\",\"turns\":[{},{\"option\":\"<i>\"}]}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t size;
        const char *const runs[] = {write_run("odd", texts[i])};
        int rc = mf_report_write(1, runs, scratch_path("odd.html"));
        ck_assert_msg(rc == MF_OK, "%zu: %s", i, mf_error_message());
        char *text = scratch_read(scratch_path("odd.html"), &size);
        ck_assert_ptr_nonnull(strstr(text, "</html>"));
        ck_assert_ptr_null(strstr(text, "<i>"));
        ck_assert_ptr_null(strstr(text, ">nan<"));
        free(text);
    }
}
END_TEST

static size_t largest;

static void *watched_alloc(size_t bytes)
{
    if (bytes > largest) largest = bytes;
    return bytes > 256 << 20 ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

/* A damaged sample declares the largest number of experts for each of many tokens, but contains
 * none of them. The declared lists would need TOKENS x 4096 words of 8 bytes. */
START_TEST(a_sample_without_its_experts)
{
    enum { TOKENS = 8192 };
    static char damaged[TOKENS * 16 + 256];
    const mf_mem_table watched = {watched_alloc, free};
    const char *const runs[] = {write_run("damaged", metrics)};
    size_t n = (size_t)sprintf(damaged, "{\"step\":2,\"labels\":[\"a\"],\"tokens\":[\"x\"");
    for (int i = 1; i < TOKENS; i++)
        n += (size_t)sprintf(damaged + n, ",\"x\"");
    n += (size_t)sprintf(damaged + n, "],\"token_labels\":[0");
    for (int i = 1; i < TOKENS; i++)
        n += (size_t)sprintf(damaged + n, ",0");
    n += (size_t)sprintf(
        damaged + n,
        "],\"layers\":[{\"layer\":0,\"experts\":4096,\"top_k\":4096,\"chosen\":[]}]}");
    char path[640];
    snprintf(path, sizeof path, "%s/routing_sample.json", runs[0]);
    scratch_write(path, damaged, n);
    largest = 0;
    mf_mem_set_table(&watched);
    const int rc = mf_report_write(1, runs, scratch_path("damaged.html"));
    mf_mem_set_table(NULL);
    ck_assert_msg(rc == MF_OK, "%s", mf_error_message());
    ck_assert_msg(largest > 0 && largest < 64 << 20, "one block has %zu bytes", largest);
}
END_TEST

/* A line of metrics with two layers of two heads. gate: four values; active: four characters,
 * '0' for a pruned head. */
static size_t put_heads(char *out, size_t room, int step, const char *turns, const char *active,
                        const double *gate)
{
    char bits[4];
    memcpy(bits, active, 4);
    return (size_t)snprintf(
        out, room,
        "{\"step\":%d,\"split\":\"train\",\"loss\":1,\"turns\":[%s],\"heads\":{\"active\":4,"
        "\"total\":4,\"layers\":[{\"layer\":0,\"gate\":[%g,%g],\"active\":[%c,%c]},"
        "{\"layer\":1,\"gate\":[%g,%g],\"active\":[%c,%c]}]}}\n",
        step, turns, gate[0], gate[1], bits[0], bits[1], gate[2], gate[3], bits[2], bits[3]);
}

/* Relative height of area `area` in the figure of head states at step k of n. */
static double share_at(const char *page, int area, int k, int n)
{
    double y[5][32], top = 1e9, bottom = -1e9;
    const char *at = strstr(page, "<title>states of the heads</title>");
    ck_assert_ptr_nonnull(at);
    for (int i = 0; i < 5; i++) {
        at = strstr(at, "<path d=\"M") + 10;
        for (int j = 0; j < 2 * n; j++) {
            double x;
            int used;
            ck_assert_int_eq(sscanf(at, "%lf %lf%n", &x, &y[i][j], &used), 2);
            at += used + 1;
            top = y[i][j] < top ? y[i][j] : top;
            bottom = y[i][j] > bottom ? y[i][j] : bottom;
        }
        ck_assert_int_eq(strncmp(at - 1, "Z\" fill", 7), 0);
    }
    return (y[area][2 * n - 1 - k] - y[area][k]) / (bottom - top);
}

#define TURN(what, head, from, to)                                                             \
    "{\"step\":%d,\"option\":\"layers.0.attention." what "." #head "\",\"from\":" #from        \
    ",\"to\":" #to "}"

START_TEST(what_became_of_heads)
{
    enum { ACTIVE, REGROWN, SHRINKING, FROZEN, PRUNED };
    static const double even[] = {0.9, 0.9, 0.9, 0.9}, fell[] = {0.9, 0.9, 0.9, 0.85},
                        low[] = {0.9, 0.9, 0, 0.85};
    char text[8192], turn[256];
    size_t n = put_heads(text, sizeof text, 10, "", "1111", even);
    /* The gate of the second layer's second head falls without a change by a controller. */
    n += put_heads(text + n, sizeof text - n, 20, "", "1111", fell);
    /* The first head of the second layer is pruned. In the first layer, a controller lowers the
     * gate of the first head a little and freezes the second head. */
    snprintf(turn, sizeof turn, TURN("gate", 0, 2, 1.999) "," TURN("lr_scale", 1, 1, 0), 30,
             30);
    n += put_heads(text + n, sizeof text - n, 30, turn, "1101", low);
    n += put_heads(text + n, sizeof text - n, 390, "", "1101", low);
    n += put_heads(text + n, sizeof text - n, 400, "", "1111", fell); /* the head has regrown */
    const char *const runs[] = {write_run("heads", text)};
    const char *out = scratch_path("heads.html");
    ck_assert_msg(mf_report_write(1, runs, out) == MF_OK, "%s", mf_error_message());
    char *page = scratch_read(out, &n);
    static const double want[5][5] = {/* expected shares at the steps 10, 20, 30, 390, 400 */
                                      [ACTIVE] = {4, 3, 0, 2, 2},
                                      [REGROWN] = {0, 0, 0, 0, 1},
                                      [SHRINKING] = {0, 1, 2, 0, 0},
                                      [FROZEN] = {0, 0, 1, 1, 1},
                                      [PRUNED] = {0, 0, 1, 1, 0}};
    for (int state = 0; state < 5; state++)
        for (int k = 0; k < 5; k++) {
            const double share = share_at(page, state, k, 5);
            ck_assert_msg(fabs(share - want[state][k] / 4) < 1e-3, "state %d at %d: %g", state,
                          k, share);
        }
    free(page);
}
END_TEST

/* 100 tokens at 50 tokens/s take 2 s, and 300 tokens at 100 tokens/s take 3 s: together 400
 * tokens in 5 seconds. An evaluation of 95 seconds is in between, and does not count as
 * training time. */
START_TEST(the_speed_is_that_of_training)
{
    static const char text[] = "{\"step\":1,\"split\":\"train\",\"loss\":3,\"tokens\":100,"
                               "\"tokens_per_s\":50,\"wall_s\":2}\n"
                               "{\"step\":1,\"split\":\"val\",\"loss\":2,\"tokens\":900,"
                               "\"tokens_per_s\":9,\"wall_s\":97}\n"
                               "{\"step\":4,\"split\":\"train\",\"loss\":2,\"tokens\":400,"
                               "\"tokens_per_s\":100,\"wall_s\":100}\n";
    size_t n;
    const char *const runs[] = {write_run("speed", text)};
    const char *out = scratch_path("speed.html");
    ck_assert_msg(mf_report_write(1, runs, out) == MF_OK, "%s", mf_error_message());
    char *page = scratch_read(out, &n);
    ck_assert_ptr_nonnull(strstr(page, "<small>tokens/s</small><b>80"));
    free(page);
}
END_TEST

/* Nine layers, more than the list of colours has. Their colours change gradually. */
START_TEST(layers_of_a_deep_model)
{
    enum { LAYERS = 9 };
    char text[4096];
    size_t n = 0;
    for (int step = 1; step <= 2; step++) {
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"step\":%d,\"split\":\"train\",\"loss\":1,\"moe\":[", step);
        for (int l = 0; l < LAYERS; l++)
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%s{\"layer\":%d,\"entropy\":%d,\"load_cv\":%d}",
                                  l > 0 ? "," : "", l, l + step, l + step);
        n += (size_t)snprintf(text + n, sizeof text - n, "]}\n");
    }
    const char *const runs[] = {write_run("deep", text)};
    char *page = page_of(1, runs), ink[8], legend[64];
    for (int l = 0; l < LAYERS; l++) {
        mf_colour_scale(0.2 + 0.65 * l / (LAYERS - 1), ink);
        snprintf(legend, sizeof legend, "stroke=\"%s\"", ink);
        ck_assert_msg(strstr(page, legend) != NULL, "layer %d: %s", l, legend);
    }
    free(page);
}
END_TEST

/* Figures of several runs: both curves of a run have the same colour, and the second curve
 * is dashed. */
START_TEST(predictions_of_two_runs)
{
    static const char text[] =
        "{\"step\":1,\"split\":\"val\",\"loss\":3,\"accuracy\":0.5,\"macro_f1\":0.4,"
        "\"pearson\":0.1,\"spearman\":0.2,\"mse\":4}\n"
        "{\"step\":2,\"split\":\"val\",\"loss\":2,\"accuracy\":0.6,\"macro_f1\":0.5,"
        "\"pearson\":0.2,\"spearman\":0.3,\"mse\":3}\n";
    static const char *const captions[] = {"Full lines: accuracy; broken lines: macro F1.",
                                           "Full lines: Pearson; broken lines: Spearman."};
    const char *const runs[] = {write_run("first", text), write_run("second", text)};
    char *page = page_of(2, runs), line[128];
    for (int i = 0; i < 2; i++) {
        char *caption = strstr(page, captions[i]);
        const char *figure = page;
        ck_assert_msg(caption != NULL, "%s", captions[i]);
        *caption = '\0'; /* the figure ends with its caption */
        for (const char *at = page; (at = strstr(at, "<figure")) != NULL; at++)
            figure = at;
        for (int run = 0; run < 2; run++)
            for (int broken = 0; broken < 2; broken++) {
                snprintf(line, sizeof line, "stroke=\"%s\" stroke-width=\"180\"",
                         mf_colour(run));
                int found = 0;
                for (const char *at = figure; (at = strstr(at, line)) != NULL; at++) {
                    const char *dashes = strstr(at, "dasharray"), *end = strchr(at, '>');
                    found += (dashes && dashes < end) == broken;
                }
                ck_assert_int_eq(found, 1);
            }
        *caption = captions[i][0];
    }
    free(page);
}
END_TEST

START_TEST(two_adapters_of_the_experts)
{
    const char *const runs[] = {write_run("adapted", metrics)};
    put(runs[0], "config.ini",
        "[model]\nlayers = 2\nmoe_every = 1\n[moe]\nexperts = 2\ntop_k = 1\n"
        "[router]\nplugin = linear\n[adapter.a]\nplugin = film\nat = expert_out\n"
        "[adapter.b]\nplugin = lora\nat = expert_in\n");
    char *page = page_of(1, runs);
    ck_assert_ptr_nonnull(strstr(page, "film, lora"));
    free(page);
}
END_TEST

/* 41 options were changed, one of them twice. This is more than the table has lines. */
START_TEST(many_changed_options)
{
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"step\":3,\"split\":\"train\",\"loss\":1,\"turns\":["
                                "{\"step\":1,\"option\":\"often\",\"from\":1,\"to\":2},"
                                "{\"step\":2,\"option\":\"often\",\"from\":2,\"to\":3}");
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              ",{\"step\":2,\"option\":\"option.%d\",\"from\":1,\"to\":2}", i);
    snprintf(text + n, sizeof text - n, "]}\n");
    const char *const runs[] = {write_run("changes", text)};
    char *page = page_of(1, runs);
    ck_assert_ptr_nonnull(strstr(page, "42 changes, those of an option in one line; of the "
                                       "options the 40 that changed least often. "));
    ck_assert_ptr_nonnull(strstr(page, ">option.39</td>"));
    ck_assert_ptr_null(strstr(page, ">often</td>"));
    free(page);
}
END_TEST

/* ---- comparisons ---- */

/* Writes a line of validation for each pair of step and loss. */
static void put_seed(const char *name, int n, const int *steps, const double *losses)
{
    char text[1024];
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"step\":%d,\"split\":\"val\",\"task_loss\":%g}\n", steps[i],
                                 losses[i]);
    write_run(name, text);
}

/* Two routers with long names, runs with different steps, a search with more trials than the
 * page shows, and a plan that cannot be read. */
START_TEST(a_comparison_with_all_that_is_unusual)
{
    static const int steps[] = {10, 20, 50, 60}, fewer[] = {10, 50, 60};
    static const double losses[] = {9, 8, 2, 1}, others[] = {9, 3, 2};
    static char text[8192];
    mkdir(scratch_path("cmp"), 0777);
    mkdir(scratch_path("cmp/one"), 0777);
    mkdir(scratch_path("cmp/plan.json"), 0777); /* a folder cannot be read as a file */
    put_seed("cmp/one/seed-1", 3, fewer, others);
    put_seed("cmp/one/seed-2", 4, steps, losses);
    size_t n = (size_t)snprintf(
        text, sizeof text,
        "{\"metric\":\"task_loss\",\"baseline\":\"mlp:hidden=64+activation=silu\","
        "\"seeds\":2,\"steps\":100,\"complete\":false,\"rows\":["
        "{\"router\":\"mlp:hidden=64+activation=silu\",\"baseline\":true,\"rank\":1,\"n\":2,"
        "\"mean\":1.5,\"params\":9,\"params_router\":5,\"tokens_per_s\":10,\"runs\":["
        "{\"seed\":1,\"dir\":\"one/seed-1\",\"task_loss\":2},"
        "{\"seed\":2,\"dir\":\"one/seed-2\",\"task_loss\":1}]},"
        "{\"router\":\"mlp:hidden=64+activation=relu\",\"rank\":2,\"n\":0,\"mean\":2,\"runs\":["
        "]}],"
        "\"search\":{\"tried\":203,\"runs\":203,\"rungs\":[{\"trials\":[{}");
    for (int i = 1; i < 203; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ",{}");
    snprintf(text + n, sizeof text - n, "]}]}}");
    put(scratch_path("cmp"), "comparison.json", text);
    const char *const folder[] = {scratch_path("cmp")};
    char *page = page_of(1, folder);
    static const char *const holds[] = {
        "In figures mlp:\xe2\x80\xa6"
        "1 stands for mlp:hidden=64+activation=silu.",
        "In figures mlp:\xe2\x80\xa6"
        "2 stands for mlp:hidden=64+activation=relu.",
        "Not all runs have ended; this page shows those that have.",
        "3 more are in search.json.",
        /* the mean of both seeds where both have a value, and the same from a quarter of the
         * steps on */
        "1.5 at step 60; from 1.5 to 9", "1.5 at step 60; from 1.5 to 2.5"};
    for (size_t i = 0; i < sizeof holds / sizeof *holds; i++)
        ck_assert_msg(strstr(page, holds[i]) != NULL, "%s", holds[i]);
    free(page);
}
END_TEST

/* Finds the last record, and the last record of a validation, whatever else
 * metrics.jsonl contains. */
START_TEST(records_of_a_listed_run)
{
    static const char text[] = "{\"step\":1,\"split\":\"val\",\"task_loss\":3}\n"
                               "{\"step\":2,\"split\":\"train\",\"x\":{\"split\":\"val\"}}\n"
                               "{\"step\":3,\"split\":\"train\",\"loss\":1}\n"
                               "{\"split\":\"train\"}\n"
                               "{\"step\":5,\"split\":\"tr";
    mf_listed_runs list = {0};
    ck_assert_int_eq(mf_listed_runs_add(&list, write_run("listed", text)), MF_OK);
    ck_assert_int_eq(list.n, 1);
    ck_assert_int_eq(list.run[0].step, 3);
    ck_assert_double_eq(mf_listed_run_number(&list.run[0], "val_loss"), 3);
    mf_listed_runs_free(&list);
}
END_TEST

START_TEST(too_many_runs)
{
    const char *runs[100];
    for (int i = 0; i < 100; i++)
        runs[i] = "x";
    ck_assert_int_eq(mf_report_write(100, runs, scratch_path("no.html")), MF_EUSAGE);
    ck_assert_int_eq(mf_report_write(0, runs, scratch_path("no.html")), MF_EUSAGE);
    ck_assert(!exists(scratch_path("no.html")));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("report");
    TCase *c = tcase_create("report");
    tcase_add_test(c, a_report_without_memory);
    tcase_add_test(c, a_report_on_a_failing_disk);
    tcase_add_test(c, a_configuration_without_memory);
    tcase_add_test(c, odd_records);
    tcase_add_test(c, a_sample_without_its_experts);
    tcase_add_test(c, what_became_of_heads);
    tcase_add_test(c, the_speed_is_that_of_training);
    tcase_add_test(c, layers_of_a_deep_model);
    tcase_add_test(c, predictions_of_two_runs);
    tcase_add_test(c, two_adapters_of_the_experts);
    tcase_add_test(c, many_changed_options);
    tcase_add_test(c, a_comparison_with_all_that_is_unusual);
    tcase_add_test(c, records_of_a_listed_run);
    tcase_add_test(c, too_many_runs);
    suite_add_tcase(s, c);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)
