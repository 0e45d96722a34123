/* moefw data: writes the generated corpus to files, and prints statistics of a corpus. Floors
 * are printed only for corpora whose entropy is known. */
#include "cli/cli.h"

#include "base/file/io.h"
#include "io/json.h"
#include "base/text/shown.h"
#include "data/corpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const mf_cli_form forms[] = {
    {"synth", NULL, 0, 0, "write the generated corpus with known topics"},
    {"info", "FILE|builtin:topics[?KEY=VALUE&...]", 1, 1,
     "size, vocabulary, labels and entropy floor of a corpus"},
    MF_CLI_FORM_END};

#define SYNTH_OPTION(key, help_)                                                               \
    {                                                                                          \
        .name = key, .of = "synth", .kind = MF_CLI_TEXT, .arg = "X", .help = help_             \
    }

static const mf_cli_option options[] = {
    {.name = "out",
     .of = "synth",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "synth: the text, and beside it topics.u8, one label a byte; else stdout"},
    {.name = "labels",
     .of = "synth",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "synth: where the labels go instead"},
    SYNTH_OPTION("topics", "synth: number of topics, 1 to 64 (8)"),
    SYNTH_OPTION("overlap", "synth: share of words that topics have in common, 0 to 1 (0)"),
    SYNTH_OPTION("stay", "synth: probability that a sentence keeps the topic (0.95)"),
    SYNTH_OPTION("imbalance", "synth: 0 topics alike often, 1 by Zipf's law (0)"),
    SYNTH_OPTION("bytes", "synth: size of the text (1 MiB)"),
    SYNTH_OPTION("seed", "synth: of the text; the language stays the same (0)"),
    {.name = "format",
     .of = "info",
     .kind = MF_CLI_TEXT,
     .arg = "FORMAT",
     .help = "info: text, jsonl, tsv, bin (by name and content)"},
    {.name = "tokenizer",
     .of = "info",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help =
         "info: byte, char, bpe, bpe_bytes, wordpiece, a tokenizer file, or the folder of a "
         "published one (byte)"},
    {.name = "split",
     .of = "info",
     .kind = MF_CLI_REAL,
     .arg = "X",
     .lo = 0,
     .hi = 1,
     .help = "info: share of training data (0.9)"},
    {.name = "window",
     .of = "info",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1 << 20,
     .help = "info: context of the floor for windows (128)"},
    MF_CLI_FORCE_OF("synth"),
    MF_CLI_END};

static int print_json(mf_jw *w)
{
    const char *text = mf_jw_text(w, NULL);
    if (!text) return MF_ENOMEM;
    puts(text);
    return MF_OK;
}

/* ---- synth ---- */

static int spec_from(const mf_cli *cli, mf_topics_spec *ret)
{
    static const char *const saved_options[] = {"topics",    "overlap", "stay",
                                                "imbalance", "bytes",   "seed"};
    mf_topics_defaults(ret);
    for (size_t i = 0; i < sizeof saved_options / sizeof saved_options[0]; i++) {
        const char *value = mf_cli_text(cli, saved_options[i], NULL);
        int rc = value ? mf_topics_set(ret, saved_options[i], value) : MF_OK;
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

/* The path of topics.u8 in the folder of `text`. */
static char *labels_beside(const char *text)
{
    const char *slash = strrchr(text, '/');
    char *folder = mf_strndup(text, slash ? (size_t)(slash + 1 - text) : 0);
    char *path = folder ? mf_strf("%stopics.u8", folder) : NULL;
    mf_free(folder);
    return path;
}

static int write_corpus(const mf_cli *cli, const mf_topics *t, const char *out,
                        const char *labels)
{
    int rc = mf_cli_new_file(cli, out);
    if (rc == MF_OK) rc = mf_cli_new_file(cli, labels);
    if (rc == MF_OK) rc = mf_write_file_atomic(out, t->text, t->size);
    if (rc == MF_OK) rc = mf_write_file_atomic(labels, t->labels, t->size);
    if (rc != MF_OK) return rc;
    double floor;
    rc = mf_topics_floor(t, MF_FLOOR_PAST, 0, t->size, 0, 0, &floor);
    if (rc != MF_OK) return rc;
    if (!mf_cli_json(cli)) {
        printf("%s: %zu bytes, %d topics, entropy floor %.4f nats per byte\n%s: the topic of "
               "each byte\n",
               mf_shown(out), t->size, (int)t->spec.topics, floor, mf_shown(labels));
        return MF_OK;
    }
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "text", out);
    mf_jw_kv_string(w, "labels", labels);
    mf_jw_kv_int(w, "bytes", (int64_t)t->size);
    mf_jw_kv_int(w, "topics", t->spec.topics);
    mf_jw_kv_real(w, "floor", floor);
    mf_jw_end(w);
    rc = print_json(w);
    mf_jw_free(w);
    return rc;
}

static int synth(const mf_cli *cli)
{
    mf_topics_spec spec;
    mf_topics *t;
    const char *out = mf_cli_text(cli, "out", NULL), *labels = mf_cli_text(cli, "labels", NULL);
    int rc = spec_from(cli, &spec);
    if (rc == MF_OK && !out && (labels || mf_cli_json(cli)))
        rc = mf_fail(MF_EUSAGE,
                     "data synth: --%s needs --out: without it the text goes to "
                     "stdout",
                     labels ? "labels" : "json");
    if (rc == MF_OK) rc = mf_topics_make(&spec, &t);
    if (rc != MF_OK) return rc;
    if (!out) {
        if (fwrite(t->text, 1, t->size, stdout) != t->size)
            rc = mf_fail_errno(MF_EIO, "stdout: cannot write");
    } else {
        char *beside = labels_beside(out);
        rc = beside ? write_corpus(cli, t, out, labels ? labels : beside) : MF_ENOMEM;
        mf_free(beside);
    }
    mf_topics_free(t);
    return rc;
}

/* ---- info ---- */

static int64_t *count_labels(const mf_corpus *c)
{
    int32_t n = c->n_labels > 0 ? c->n_labels : c->n_classes;
    int64_t *counts = mf_alloc((size_t)n + 1, sizeof *counts);
    if (!counts) return NULL;
    for (int64_t i = 0; c->labels && i < c->tokens; i++)
        counts[c->labels[i]]++;
    for (int64_t i = 0; !c->labels && n > 0 && i < c->n_spans; i++)
        if (c->spans[i].label >= 0) counts[c->spans[i].label]++;
    return counts;
}

static const char *label_name(const mf_corpus *c, int32_t i, char buffer[MF_TOPICS_NAME])
{
    return c->n_labels > 0 ? mf_topics_name(i, buffer) : c->classes[i];
}

/* Lowest possible losses of the validation split, or of the training split if there is no
 * validation split. */
typedef struct floors {
    mf_split split;
    double past, topic, window;
} floors;

static int floors_of(const mf_corpus *c, int32_t window, floors *ret)
{
    const mf_split s = c->split[MF_SPLIT_VAL].tokens > 0 ? MF_SPLIT_VAL : MF_SPLIT_TRAIN;
    *ret = (floors){.split = s};
    int rc = mf_corpus_floor(c, s, MF_FLOOR_PAST, 0, 0, 0, &ret->past);
    if (rc == MF_OK) rc = mf_corpus_floor(c, s, MF_FLOOR_TOPIC, 0, 0, 0, &ret->topic);
    return rc == MF_OK ? mf_corpus_floor(c, s, MF_FLOOR_WINDOW, 0, window, 0, &ret->window)
                       : rc;
}

static int info_json(const mf_corpus *c, const char *path, const int64_t *counts,
                     const floors *f, int32_t window)
{
    char name[MF_TOPICS_NAME];
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "path", path);
    mf_jw_kv_int(w, "tokens", c->tokens);
    mf_jw_kv_int(w, "vocab", c->vocab);
    mf_jw_kv_string(w, "tokenizer", c->tokenizer ? c->tokenizer->ops->name : "none");
    mf_jw_kv_int(w, "documents", c->n_spans);
    mf_jw_kv_int(w, "longest", c->longest);
    mf_jw_kv_bool(w, "pairs", c->pairs);
    mf_jw_key(w, "splits");
    mf_jw_object(w);
    for (int s = 0; s < MF_SPLITS; s++) {
        if (c->split[s].tokens == 0) continue;
        mf_jw_key(w, mf_split_name((mf_split)s));
        mf_jw_object(w);
        mf_jw_kv_int(w, "tokens", c->split[s].tokens);
        mf_jw_kv_int(w, "bytes", (int64_t)c->split[s].bytes);
        if (c->spans) mf_jw_kv_int(w, "documents", c->split[s].end - c->split[s].begin);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_key(w, "labels");
    mf_jw_array(w);
    for (int32_t i = 0; i < c->n_labels + c->n_classes; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "name", label_name(c, i, name));
        mf_jw_kv_int(w, "count", counts[i]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_kv_real(w, "floor", f->past); /* null if the floor is unknown */
    mf_jw_kv_real(w, "floor_topic", f->topic);
    mf_jw_kv_real(w, "floor_window", f->window);
    mf_jw_kv_int(w, "window", window);
    mf_jw_end(w);
    int rc = print_json(w);
    mf_jw_free(w);
    return rc;
}

static void info_text(const mf_corpus *c, const char *path, const int64_t *counts,
                      const floors *f, int32_t window)
{
    char name[MF_TOPICS_NAME];
    printf("%s: %lld tokens, vocabulary of %d (%s)\n", mf_shown(path), (long long)c->tokens,
           (int)c->vocab, c->tokenizer ? c->tokenizer->ops->name : "no tokenizer");
    if (c->spans)
        printf("%lld %s, the longest of %d tokens\n", (long long)c->n_spans,
               c->pairs           ? "pairs of sentences"
               : c->n_classes > 0 ? "sentences"
                                  : "documents",
               (int)c->longest);
    for (int s = 0; s < MF_SPLITS; s++)
        if (c->split[s].tokens > 0)
            printf("%-5s %12lld tokens %12llu bytes\n", mf_split_name((mf_split)s),
                   (long long)c->split[s].tokens, (unsigned long long)c->split[s].bytes);
    for (int32_t i = 0; i < c->n_labels + c->n_classes; i++)
        printf("%s %-12s %12lld\n", c->n_labels > 0 ? "topic" : "class",
               mf_shown(label_name(c, i, name)), (long long)counts[i]);
    if (isnan(f->past)) return;
    printf("entropy floor of the %s split, nats per byte:\n"
           "  %.4f with all of the past\n  %.4f with the topics known as well\n"
           "  %.4f in windows of %d without context before them\n",
           mf_split_name(f->split), f->past, f->topic, f->window, (int)window);
}

static int info(const mf_cli *cli)
{
    mf_corpus_spec spec;
    mf_corpus *c;
    int32_t window = (int32_t)mf_cli_int(cli, "window", 128);
    mf_corpus_defaults(&spec);
    spec.path = mf_cli_operand(cli, 0);
    spec.format = mf_cli_text(cli, "format", NULL);
    spec.tokenizer = mf_cli_text(cli, "tokenizer", NULL);
    spec.split = mf_cli_real(cli, "split", spec.split);
    int rc = mf_corpus_load(&spec, &c);
    if (rc != MF_OK) return rc;
    int64_t *counts = count_labels(c);
    floors f;
    rc = counts ? floors_of(c, window, &f) : MF_ENOMEM;
    if (rc == MF_OK && mf_cli_json(cli))
        rc = info_json(c, spec.path, counts, &f, window);
    else if (rc == MF_OK)
        info_text(c, spec.path, counts, &f, window);
    mf_free(counts);
    mf_corpus_free(c);
    return rc;
}

static int run(const mf_cli *cli)
{
    return strcmp(mf_cli_action(cli), "synth") == 0 ? synth(cli) : info(cli);
}

const mf_verb mf_verb_data = {.name = "data",
                              .brief = "write the generated corpus, look into corpora",
                              .forms = forms,
                              .options = options,
                              .run = run,
                              .plain = true,
                              .inputs = true};
