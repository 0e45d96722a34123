/* moefw tokenize: trains vocabularies, encodes texts to ids and decodes ids. An output file is
 * written completely or not at all. */
#include "cli/cli.h"

#include "base/file/io.h"
#include "io/json.h"
#include "base/text/shown.h"
#include "data/clean.h"
#include "data/tokenizer/tokenizer.h"
#include "report/terminal/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mf_cli_form forms[] = {
    {"train", "KIND FILE", 2, 2,
     "make a tokenizer (byte, char, bpe, bpe_bytes, wordpiece) from a text"},
    {"export", "TOKENIZER", 1, 1, "write a tokenizer in another layout: vocab_dict"},
    {"encode", "TOKENIZER FILE", 2, 2, "the ids of a text"},
    {"decode", "TOKENIZER FILE", 2, 2, "the text of ids, separated by blanks"},
    MF_CLI_FORM_END};

static const char *const widths[] = {"16", "32", NULL};
static const char *const trainers[] = {"own", "vocab_dict", NULL};
static const char *const formats[] = {"moefw", "vocab_dict", NULL};
enum { OWN, VOCAB_DICT };

static const mf_cli_option options[] = {
    {.name = "out",
     .of = "train export",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "train, export: where the tokenizer is written; needed"},
    {.name = "vocab-size",
     .of = "train",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1 << 24,
     .help = "train: most ids (bpe 30000, bpe_bytes 4096, wordpiece 8000)"},
    {.name = "merges",
     .of = "train",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1 << 24,
     .help = "train: most merges of bpe (100, without --vocab-size) and bpe_bytes"},
    {.name = "min-count",
     .of = "train",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 1,
     .hi = 1 << 24,
     .help = "train: bpe and bpe_bytes merge pairs that occur at least so often (2)"},
    {.name = "trainer",
     .of = "train",
     .kind = MF_CLI_ENUM,
     .arg = "NAME",
     .choices = trainers,
     .help = "train bpe: own (the default), or vocab_dict, to the vocabulary and ids of the "
             "trainer "
             "of that layout: its order among equal pairs, and its counts, by which symbols "
             "leave the vocabulary"},
    {.name = "format",
     .of = "train export",
     .kind = MF_CLI_ENUM,
     .arg = "NAME",
     .choices = formats,
     .help = "train, export: layout of the file: moefw (the default of train) or vocab_dict, "
             "JSON of a vocabulary and merges by name (the default of export)"},
    {.name = "clean",
     .of = "train encode",
     .kind = MF_CLI_FLAG,
     .help = "train, encode: write contractions out and leave only letters, digits, . and %"},
    {.name = "eos",
     .of = "train encode",
     .kind = MF_CLI_FLAG,
     .help = "train: have a token <eos>; encode: it ends each line that is not empty"},
    {.name = "template",
     .of = "encode",
     .kind = MF_CLI_FLAG,
     .help = "encode: with the special tokens that a published tokenizer puts around a text"},
    {.name = "bin",
     .of = "encode",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "encode: write a token file (data.format = bin)"},
    {.name = "bits",
     .of = "encode",
     .kind = MF_CLI_ENUM,
     .arg = "N",
     .choices = widths,
     .help =
         "encode --bin: bits of an id, 16 (the default) or 32 (read with data.bin_bits = 32)"},
    MF_CLI_FORCE_OF("train export encode"),
    MF_CLI_END};

/* Opens a tokenizer. name: "byte", which needs no file, or the path of a tokenizer file. Other
 * kinds are refused with MF_EUSAGE. */
static int open_tokenizer(const char *name, mf_tokenizer **ret)
{
    if (strcmp(name, "byte") == 0) return mf_tokenizer_train(name, name, "", 0, NULL, ret);
    if (mf_tokenizer_is_kind(name))
        return mf_fail(MF_EUSAGE,
                       "tokenizer %s has a vocabulary of its own: expected a tokenizer "
                       "file, as 'moefw tokenize train %s FILE' makes",
                       name, name);
    return mf_tokenizer_load(name, ret);
}

static int print_json(mf_jw *w)
{
    const char *text = mf_jw_text(w, NULL);
    if (!text) return MF_ENOMEM;
    puts(text);
    return MF_OK;
}

/* Reads the file. The text is cleaned if --clean was given. */
static int read_text(const mf_cli *cli, const char *file, char **ret, size_t *ret_n)
{
    char *text;
    size_t n;
    int rc = mf_read_input(file, 0, &text, &n);
    if (rc != MF_OK || !mf_cli_flag(cli, "clean")) {
        if (rc == MF_OK) {
            *ret = text;
            *ret_n = n;
        }
        return rc;
    }
    rc = mf_clean_lines(text, n, ret, ret_n);
    mf_free(text);
    return rc;
}

static int save(const mf_cli *cli, const mf_tokenizer *t, int layout, const char *out)
{
    layout = mf_cli_enum(cli, "format", layout);
    return layout == VOCAB_DICT ? mf_tokenizer_save_vocab_dict(t, out)
                                : mf_tokenizer_save(t, out);
}

static int told(const mf_cli *cli, const mf_tokenizer *t, const char *out)
{
    if (!mf_cli_json(cli)) {
        printf("%s: %s, %d ids\n", mf_shown(out), t->ops->name, (int)t->vocab);
        return MF_OK;
    }
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "kind", t->ops->name);
    mf_jw_kv_int(w, "vocab", t->vocab);
    mf_jw_kv_string(w, "file", out);
    mf_jw_end(w);
    int rc = print_json(w);
    mf_jw_free(w);
    return rc;
}

static int export(const mf_cli *cli, const mf_tokenizer *t)
{
    const char *out = mf_cli_text(cli, "out", NULL);
    if (!out) return mf_fail(MF_EUSAGE, "tokenize export: --out FILE is needed");
    int rc = mf_cli_new_file(cli, out);
    if (rc == MF_OK) rc = save(cli, t, VOCAB_DICT, out);
    return rc == MF_OK ? told(cli, t, out) : rc;
}

static int train(const mf_cli *cli)
{
    const char *kind = mf_cli_operand(cli, 0), *file = mf_cli_operand(cli, 1);
    const char *out = mf_cli_text(cli, "out", NULL);
    char *text;
    size_t n;
    mf_tokenizer *t = NULL;
    mf_tokenizer_options o = {.vocab_size = (int32_t)mf_cli_int(cli, "vocab-size", 0),
                              .merges = (int32_t)mf_cli_int(cli, "merges", 0),
                              .min_count = (int32_t)mf_cli_int(cli, "min-count", 0),
                              .keeps_counts = mf_cli_enum(cli, "trainer", OWN) == VOCAB_DICT};
    if (!out) return mf_fail(MF_EUSAGE, "tokenize train: --out FILE is needed");
    if (o.keeps_counts && strcmp(kind, "bpe") != 0)
        return mf_fail(MF_EUSAGE, "--trainer=vocab_dict makes tokenizers of kind bpe, not %s",
                       kind);
    if (mf_cli_flag(cli, "eos")) {
        o.specials = MF_SPECIAL_BIT(MF_SPECIAL_EOS);
        o.vocab_size -= o.vocab_size > 1; /* --vocab-size includes <eos> */
    }
    int rc = mf_cli_new_file(cli, out);
    if (rc == MF_OK) rc = read_text(cli, file, &text, &n);
    if (rc != MF_OK) return rc;
    rc = mf_tokenizer_train(kind, file, text, n, &o, &t);
    if (rc == MF_OK) rc = save(cli, t, OWN, out);
    if (rc == MF_OK) rc = told(cli, t, out);
    mf_tokenizer_free(t);
    mf_free(text);
    return rc;
}

/* Encodes line by line. <eos> is appended to each line that is not empty. */
static int encode_lines(const mf_tokenizer *t, const char *file, const char *text, size_t n,
                        mf_ids *ids)
{
    int rc = MF_OK;
    if (t->special[MF_SPECIAL_EOS] < 0)
        return mf_fail(MF_EUSAGE, "the tokenizer has no <eos>: expected one made with --eos");
    for (size_t at = 0; at < n && rc == MF_OK;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - text) - at : n - at, had = ids->n;
        rc = t->ops->encode(t, file, at, text + at, length, ids);
        if (rc == MF_OK && ids->n > had)
            rc = mf_ids_push(ids, t->special[MF_SPECIAL_EOS], at + length);
        at += length + 1;
    }
    return rc;
}

/* Writes a token file: 16 or 32 bits per id, little endian. */
static int write_bin(const mf_tokenizer *t, const char *path, bool wide, const mf_ids *ids)
{
    const size_t width = wide ? 4 : 2;
    if (!wide && t->vocab > UINT16_MAX + 1)
        return mf_fail(MF_EUSAGE,
                       "%d ids do not fit into the 16 bits of a token file: expected --bits=32",
                       (int)t->vocab);
    unsigned char *bytes = mf_alloc_raw(width * ids->n + 1);
    if (!bytes) return MF_ENOMEM;
    for (size_t i = 0; i < ids->n; i++)
        for (size_t b = 0; b < width; b++)
            bytes[width * i + b] = (unsigned char)((uint32_t)ids->id[i] >> 8 * b & 255);
    int rc = mf_write_file_atomic(path, bytes, width * ids->n);
    mf_free(bytes);
    return rc;
}

static int print_ids(const mf_cli *cli, const mf_ids *ids)
{
    if (!mf_cli_json(cli)) {
        for (size_t i = 0; i < ids->n; i++)
            printf("%d%c", (int)ids->id[i], i + 1 < ids->n ? ' ' : '\n');
        return MF_OK;
    }
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_key(w, "ids");
    mf_jw_array(w);
    for (size_t i = 0; i < ids->n; i++)
        mf_jw_int(w, ids->id[i]);
    mf_jw_end(w);
    mf_jw_end(w);
    int rc = print_json(w);
    mf_jw_free(w);
    return rc;
}

static int print_count(const mf_cli *cli, const char *path, const mf_ids *ids)
{
    if (!mf_cli_json(cli)) {
        printf("%s: %zu tokens\n", mf_shown(path), ids->n);
        return MF_OK;
    }
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "file", path);
    mf_jw_kv_int(w, "tokens", (int64_t)ids->n);
    mf_jw_end(w);
    int rc = print_json(w);
    mf_jw_free(w);
    return rc;
}

/* Encodes the text as a whole, with the special tokens that the tokenizer adds around
 * a text. */
static int encode_template(const mf_tokenizer *t, const char *file, const char *text, size_t n,
                           mf_ids *ids)
{
    mf_ids plain = {0};
    int rc = mf_tokenizer_encode(t, file, text, n, &plain);
    if (rc == MF_OK) rc = mf_tokenizer_wrap(t, &plain, NULL, ids, NULL);
    mf_ids_free(&plain);
    return rc;
}

static int encode(const mf_cli *cli, const mf_tokenizer *t, const char *file, const char *text,
                  size_t n)
{
    const char *bin = mf_cli_text(cli, "bin", NULL);
    const bool eos = mf_cli_flag(cli, "eos"), template = mf_cli_flag(cli, "template");
    mf_ids ids = {0};
    if (eos && template)
        return mf_fail(MF_EUSAGE, "--eos is for each line, --template for the whole text: "
                                  "expected one of them");
    int rc = mf_cli_new_file(cli, bin);
    if (rc != MF_OK) return rc;
    rc = eos        ? encode_lines(t, file, text, n, &ids)
         : template ? encode_template(t, file, text, n, &ids)
                    : mf_tokenizer_encode(t, file, text, n, &ids);
    if (rc == MF_OK && bin) {
        rc = write_bin(t, bin, mf_cli_enum(cli, "bits", 0) == 1, &ids);
        if (rc == MF_OK) rc = print_count(cli, bin, &ids);
    } else if (rc == MF_OK) {
        rc = print_ids(cli, &ids);
    }
    mf_ids_free(&ids);
    return rc;
}

/* Decodes integers separated by blanks. Each integer must be an id of the tokenizer. */
static int decode(const mf_tokenizer *t, const char *file, const char *text, size_t size)
{
    static const char blanks[] = " \t\r\n";
    mf_decoder d;
    mf_begun_char begun = {.n = 0};
    size_t n;
    int rc = mf_decoder_open(&d, t);
    if (rc != MF_OK) return rc;
    const char *at = text + strspn(text, blanks);
    while (*at && rc == MF_OK) {
        char *end;
        size_t digits = strspn(at, "0123456789");
        long long id = digits > 0 && digits < 10 ? strtoll(at, &end, 10) : -1;
        if (id < 0 || id >= t->vocab || (at[digits] && !strchr(blanks, at[digits]))) {
            rc = mf_fail(MF_EINPUT, "%s: byte %zu: expected an id from 0 to %d", file,
                         (size_t)(at - text), (int)t->vocab - 1);
            break;
        }
        const char *piece = mf_decoder_next(&d, (int32_t)id, &n);
        mf_terminal_put(stdout, &begun, piece, n);
        at += digits + strspn(at + digits, blanks);
    }
    if (rc == MF_OK && (size_t)(at - text) != size)
        rc = mf_fail(MF_EINPUT, "%s: byte %zu: NUL", file, (size_t)(at - text));
    if (rc == MF_OK) {
        const char *rest = mf_decoder_end(&d, &n);
        mf_terminal_put(stdout, &begun, rest, n);
        mf_terminal_put(stdout, &begun, "\n", 1);
    }
    mf_decoder_close(&d);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *action = mf_cli_action(cli), *file = mf_cli_operand(cli, 1);
    mf_tokenizer *t = NULL;
    char *text = NULL;
    size_t n = 0;
    if (strcmp(action, "train") == 0) return train(cli);
    int rc = strcmp(action, "decode") == 0 ? mf_cli_no_json(cli, "the text") : MF_OK;
    if (rc == MF_OK) rc = open_tokenizer(mf_cli_operand(cli, 0), &t);
    if (rc == MF_OK && strcmp(action, "export") == 0) {
        rc = export(cli, t);
        mf_tokenizer_free(t);
        return rc;
    }
    if (rc == MF_OK)
        rc = strcmp(action, "encode") == 0 ? read_text(cli, file, &text, &n)
                                           : mf_read_input(file, 0, &text, &n);
    if (rc == MF_OK)
        rc = strcmp(action, "encode") == 0 ? encode(cli, t, file, text, n)
                                           : decode(t, file, text, n);
    mf_free(text);
    mf_tokenizer_free(t);
    return rc;
}

const mf_verb mf_verb_tokenize = {.name = "tokenize",
                                  .brief = "make tokenizers, convert texts to ids and back",
                                  .forms = forms,
                                  .options = options,
                                  .run = run,
                                  .plain = true,
                                  .inputs = true};
