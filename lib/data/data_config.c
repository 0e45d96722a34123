/* data/data_config.c: the keys of [data], their defaults, their bounds, and the rules between
 * the keys. All other code reads only the checked values. */
#include "data/data_config.h"
#include <string.h>
#include "base/error.h"

static const char *const picks[] = {"first", "drawn", NULL};
static const char *const id_widths[] = {"auto", "16", "32", NULL};
static const char *const losses[] = {"answer", "all", NULL};
static const char *const chats[] = {"auto", "no", NULL};
static const char *const shuffles[] = {"drawn", "epochs", NULL};
static const char *const paddings[] = {"max", "batch", NULL};

static const mf_option data_options[] = {
    MF_OPTION_STR(mf_data_config, path, "builtin:topics",
                  "file, folder of files, pattern as data/*.txt, or builtin:topics (a "
                  "generated corpus with known topics)"),
    MF_OPTION_STR(mf_data_config, format, "auto",
                  "text, jsonl, tsv or bin; auto: by the file's name and its content"),
    MF_OPTION_STR(mf_data_config, tokenizer, "byte",
                  "byte, char, bpe, bpe_bytes, wordpiece, a tokenizer file, or the folder of a "
                  "published one"),
    MF_SECTION_REAL(mf_data_config, split, "0.9", 0.001, 1,
                    "share that is trained on; the rest validates"),
    MF_OPTION_STR(mf_data_config, val_path, "", "validation file; empty: the rest of path"),
    MF_SECTION_INT(mf_data_config, limit, "0", 0, MF_NO_BOUND,
                   "documents or examples of path to use; 0: all"),
    MF_OPTION_ENUM(mf_data_config, pick, "first", picks,
                   "which these are; drawn ones are the same for every seed"),
    MF_OPTION_STR(
        mf_data_config, first_column, "",
        "tsv with a header: column of the sentence, or the first of two; empty: by its usual "
        "name"),
    MF_OPTION_STR(
        mf_data_config, second_column, "",
        "column of the second sentence, none: there is none; empty: by its usual name"),
    MF_OPTION_STR(mf_data_config, label_column, "",
                  "column of the label, jsonl: member; empty: by its usual name"),
    MF_OPTION_STR(mf_data_config, text_field, "", "jsonl: member of the text; empty: text"),
    MF_OPTION_STR(mf_data_config, prompt_field, "",
                  "jsonl: member of a prompt; empty: prompt, question or instruction"),
    MF_OPTION_STR(mf_data_config, answer_field, "",
                  "jsonl: member of its answer; empty: answer, completion, response or output"),
    MF_OPTION_STR(mf_data_config, messages_field, "",
                  "jsonl: member of a list of messages with role and content; empty: messages"),
    MF_OPTION_STR(mf_data_config, labels, "",
                  "domain of each text: member of jsonl, or folder: the folder of each text "
                  "file; read by statistics and router oracle, never learned"),
    MF_OPTION_STR(mf_data_config, labels_path, "",
                  "token files: file of ids with the label of each token of path, then of "
                  "val_path"),
    MF_OPTION_ENUM(mf_data_config, loss, "answer", losses,
                   "tokens that count in the loss where there are prompts: of answers, or all"),
    MF_OPTION_ENUM(mf_data_config, chat, "auto", chats,
                   "form of messages: of the tokenizer's template, if it has one; no: one text "
                   "behind the other"),
    MF_OPTION_ENUM(
        mf_data_config, padding, "max", paddings,
        "examples and documents are padded to model.seq, or to the longest of the batch"),
    MF_SECTION_BOOL(
        mf_data_config, pad_mask, "yes",
        "padding is hidden from attention, routers and measurements; no: it counts as tokens"),
    MF_SECTION_BOOL(
        mf_data_config, clean, "no",
        "text, and prompts: write contractions out, leave only letters, digits, . and %"),
    MF_SECTION_INT(mf_data_config, stride, "0", 0, INT32_MAX,
                   "windows begin at every n-th token, each once an epoch; 0: anywhere, drawn"),
    MF_SECTION_BOOL(
        mf_data_config, split_windows, "no",
        "deal windows to training and validation, not text: they overlap; wants stride"),
    MF_OPTION_ENUM(mf_data_config, shuffle, "drawn", shuffles,
                   "order of a stream in training: windows that begin anywhere, drawn; or "
                   "epochs: each of its windows once an epoch, in an order drawn for it"),
    MF_SECTION_BOOL(mf_data_config, packing, "no",
                    "in training, a sequence holds several documents, which do not see one "
                    "another"),
    MF_SECTION_INT(mf_data_config, document_end, "-1", -1, INT32_MAX,
                   "packing, of a stream: id of the token that ends a document; -1: <eos>"),
    MF_OPTION_STR(mf_data_config, cache, "auto",
                  "folder where texts become token files, which are mapped; auto: texts of "
                  "256 MiB and more, in $XDG_CACHE_HOME/moefw; no: texts stay in memory"),
    MF_OPTION_ENUM(mf_data_config, bin_bits, "auto", id_widths,
                   "bits of an id in token files without a header (auto: 16)"),
    MF_END_OPTIONS};

static const char *const files[] = {"path", "val_path", "tokenizer", "labels_path", NULL};
static const char *const local[] = {"cache", NULL};
const mf_section mf_data_section = {.name = "data",
                                    .help = "what is read",
                                    .options = data_options,
                                    .size = sizeof(mf_data_config),
                                    .paths = files,
                                    .local = local};

void mf_data_config_judge(mf_config_faults *j, const mf_data_config *d)
{
    static const char *const formats[] = {"auto", "text", "jsonl", "tsv", "bin", NULL};
    char hint[128];
    bool known = false;
    for (int i = 0; formats[i] != NULL; i++)
        if (strcmp(formats[i], d->format) == 0) known = true;
    if (!known)
        mf_config_fault(j, "data", "format", NULL, mf_nearest(d->format, formats),
                        "expected one of auto, text, jsonl, tsv, bin, found '%s'%s", d->format,
                        mf_did_you_mean(d->format, formats, hint, sizeof hint));
    if (d->split_windows && (d->stride == 0 || d->val_path[0] != '\0'))
        mf_config_fault(
            j, "data", "split_windows", NULL, NULL,
            "expected stride above 0 and no val_path with it, found stride = %lld%s%s",
            (long long)d->stride, d->val_path[0] != '\0' ? ", val_path = " : "", d->val_path);
    if (d->labels[0] != '\0' && d->labels_path[0] != '\0')
        mf_config_fault(j, "data", "labels", NULL, NULL,
                        "expected labels or labels_path, found both: '%s' and '%s'", d->labels,
                        d->labels_path);
    if (d->path[0] == '\0')
        mf_config_fault(j, "data", "path", NULL, NULL, "expected a file or builtin:topics");
}
