/* data/tokenizer/pretrained/read_lists.c: the vocabularies of folders without tokenizer.json:
 * vocab.json with merges.txt (byte-level BPE), and vocab.txt (WordPiece, one token per line).
 * tokenizer_config.json sets the rest; missing values are those of the first models with
 * these files. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"

#include <stdio.h>
#include <string.h>

/* Reads the lines of a text. next_line moves to the next line, without its line end, and
 * returns false at the end of the text. */
typedef struct lines {
    const char *at, *end, *line;
    size_t n, count;
} lines;

static bool next_line(lines *l)
{
    if (l->at >= l->end) return false;
    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
    l->line = l->at;
    l->n = (size_t)((newline ? newline : l->end) - l->at);
    if (l->n > 0 && l->line[l->n - 1] == '\r') l->n--;
    l->at = newline ? newline + 1 : l->end;
    l->count++;
    return true;
}

/* Opens the lines of a file. MF_EINPUT if the file is not UTF-8 or contains NUL. */
static int open_lines(const char *where, const mf_pt_files *f, mf_pt_file file, lines *ret)
{
    const char *text = f->text[file];
    const size_t n = f->n[file];
    *ret = (lines){.at = text, .end = text + n};
    if (mf_utf8_check(text, n) == n && !memchr(text, 0, n)) return MF_OK;
    return mf_fail(MF_EINPUT, "%s/%s: byte %zu is not valid UTF-8, or NUL", where,
                   mf_pt_file_name[file], mf_utf8_check(text, n));
}

/* ---- added tokens ---- */

/* Makes a token of the vocabulary an added token. */
static int add_special(mf_pretrained *t, const char *name, size_t n)
{
    const int32_t id = mf_pt_id(&t->model, name, n);
    int32_t index;
    bool new;
    if (id < 0 || n == 0) return MF_OK;
    mf_pt_added_token *added = mf_realloc(t->added, (size_t)t->added_names.n * sizeof *added,
                                          ((size_t)t->added_names.n + 1) * sizeof *added);
    if (!added) return MF_ENOMEM;
    t->added = added;
    int rc = mf_strings_add(&t->added_names, name, n, &index, &new);
    if (rc != MF_OK || !new) return rc;
    t->added[index] = (mf_pt_added_token){.id = id, .special = true};
    return mf_pt_trie_add(&t->plain, name, n, index);
}

/* Makes the special tokens (base.special) added tokens. Call this after mf_pt_find_roles. */
static int add_roles(mf_pretrained *t)
{
    int rc = MF_OK;
    for (int s = 0; s < MF_SPECIALS && rc == MF_OK; s++) {
        for (int32_t i = 0; i < t->model.names.n; i++) {
            size_t n;
            const char *name = mf_strings_get(&t->model.names, i, &n);
            if (t->model.id_of[i] != t->base.special[s]) continue;
            rc = add_special(t, name, n);
            break;
        }
    }
    return rc;
}

/* Adds the tokens of "added_tokens_decoder" in tokenizer_config.json: {id:
 * {"content": ...}}. */
static int add_listed(const char *source, const mf_json *config, mf_pretrained *t)
{
    const mf_json *list = mf_json_get(config, "added_tokens_decoder"), *value;
    const char *key;
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && mf_json_member(list, i, &key, &value); i++) {
        size_t n = 0;
        long long id = -1;
        char end;
        const char *name = mf_json_string(mf_json_get(value, "content"), &n);
        if (!name || n == 0 || sscanf(key, "%lld%c", &id, &end) != 1) continue;
        if (mf_pt_id(&t->model, name, n) < 0)
            rc = mf_pt_add_name(source, name, n, id, &t->model);
        if (rc == MF_OK) rc = add_special(t, name, n);
    }
    return rc;
}

/* ---- vocab.json and merges.txt ---- */

static int read_merges(const char *where, mf_pretrained *t)
{
    lines l;
    int32_t rank = 0;
    char source[4096];
    int rc = open_lines(where, &t->files, MF_PT_MERGES, &l);
    snprintf(source, sizeof source, "%s/%s", where, mf_pt_file_name[MF_PT_MERGES]);
    const size_t most = t->files.n[MF_PT_MERGES] / 4 + 1; /* a line has at least 4 bytes */
    while (rc == MF_OK && next_line(&l)) {
        static const char version[] = "#version";
        if (l.n == 0 || (l.count == 1 && l.n >= sizeof version - 1 &&
                         memcmp(l.line, version, sizeof version - 1) == 0))
            continue;
        const char *blank = memchr(l.line, ' ', l.n);
        const size_t left = blank ? (size_t)(blank - l.line) : 0;
        if (left == 0 || left + 1 == l.n)
            return mf_fail(MF_EINPUT, "%s:%zu: expected two tokens and a blank", source,
                           l.count);
        rc = mf_pt_name_merge(source, &t->model, rank++, most, l.line, left, blank + 1,
                              l.n - left - 1);
    }
    return rc;
}

/* Two tokenizers have these files: that of GPT-2, and that of Qwen2, which has another regular
 * expression and the normal form NFC. "tokenizer_class" in the configuration shows which of the
 * two is meant. */
static void choose_words(const mf_json *config, mf_pretrained *t)
{
    static const char second[] =
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
        "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    const char *class = mf_json_string(mf_json_get(config, "tokenizer_class"), NULL);
    t->words.bytes = t->decoding.bytes = t->model.byte_level = true;
    mf_pt_add_splitter(&t->words, mf_pt_split_bytes);
    if (!class || strncmp(class, "Qwen2Tokenizer", strlen("Qwen2Tokenizer")) != 0) return;
    t->words.rule[0].split = mf_pt_split_pattern(second, strlen(second));
    t->steps.step[t->steps.n++] = (mf_pt_step){.kind = MF_PT_FORM, .form = MF_UNICODE_NFC};
}

static int read_bytes(const char *where, const mf_json *config, mf_pretrained *t)
{
    char source[4096];
    mf_json *vocabulary = NULL;
    const mf_pt_files *f = &t->files;
    snprintf(source, sizeof source, "%s/%s", where, mf_pt_file_name[MF_PT_VOCAB]);
    choose_words(config, t);
    int rc = mf_json_parse_nul(source, f->text[MF_PT_VOCAB], f->n[MF_PT_VOCAB], &vocabulary);
    if (rc != MF_OK) return rc;
    rc = mf_pt_read_vocabulary(source, vocabulary, &t->model);
    mf_json_free(vocabulary);
    t->model.unk = -1;
    if (rc == MF_OK) rc = read_merges(where, t);
    if (rc == MF_OK) rc = add_listed(source, config, t);
    if (rc == MF_OK) mf_pt_settle(&t->model);
    return rc;
}

/* ---- vocab.txt ---- */

/* Whether a token, apart from those in brackets, has capital letters. Then the vocabulary
 * is case-sensitive. */
static bool is_cased(const mf_strings *names)
{
    for (int32_t i = 0; i < names->n; i++) {
        size_t n;
        const char *name = mf_strings_get(names, i, &n);
        for (size_t j = 0; j < n && name[0] != '['; j++)
            if (name[j] >= 'A' && name[j] <= 'Z') return true;
    }
    return false;
}

static int add_template(mf_pretrained *t)
{
    const int32_t c = t->base.special[MF_SPECIAL_CLS], s = t->base.special[MF_SPECIAL_SEP];
    const mf_template_item items[] = {
        {c, 0}, {MF_TEMPLATE_FIRST, 0}, {s, 0}, {MF_TEMPLATE_SECOND, 1}, {s, 1}};
    for (int pair = 0; pair < 2 && c >= 0 && s >= 0; pair++) {
        mf_template *to = &t->base.template[pair];
        to->item = mf_alloc(5, sizeof *to->item);
        if (!to->item) return MF_ENOMEM;
        to->n = pair ? 5 : 3;
        memcpy(to->item, items, (size_t)to->n * sizeof *items);
    }
    return MF_OK;
}

static int read_list(const char *where, const mf_json *config, mf_pretrained *t)
{
    char source[4096];
    lines l;
    mf_pt_model *m = &t->model;
    snprintf(source, sizeof source, "%s/%s", where, mf_pt_file_name[MF_PT_LIST]);
    int rc = open_lines(where, &t->files, MF_PT_LIST, &l);
    while (rc == MF_OK && next_line(&l))
        rc = mf_pt_add_name(source, l.line, l.n, (int64_t)l.count - 1, m);
    if (rc != MF_OK) return rc;
    m->kind = MF_PT_WORDPIECE;
    m->word_max = 100;
    m->n_prefix = 2;
    memcpy(m->prefix, "##", m->n_prefix);
    m->unk = mf_pt_id(m, "[UNK]", strlen("[UNK]"));
    if (m->unk < 0) return mf_fail(MF_EINPUT, "%s: the vocabulary has no token [UNK]", source);
    mf_pt_step *s = &t->steps.step[t->steps.n++];
    s->kind = MF_PT_BERT;
    s->clean = true;
    s->ideographs = mf_pt_true(config, "tokenize_chinese_chars", true);
    s->lower = mf_pt_true(config, "do_lower_case", !is_cased(&m->names));
    s->accents = mf_pt_true(config, "strip_accents", s->lower);
    mf_pt_add_splitter(&t->words, mf_pt_split_bert);
    t->decoding = (mf_pt_decoding){.words = true, .clean = true, .trim_first = true};
    mf_pt_settle(m);
    return MF_OK;
}

int mf_pt_read_lists(const char *where, const mf_json *config, mf_pretrained *t)
{
    const bool list = !t->files.text[MF_PT_VOCAB] || !t->files.text[MF_PT_MERGES];
    t->added = mf_alloc(1, sizeof *t->added);
    if (!t->added) return MF_ENOMEM;
    static const char *const usual[] = {"[PAD]", "[UNK]",  "[CLS]",
                                        "[SEP]", "[MASK]", "<|endoftext|>"};
    int rc = list ? read_list(where, config, t) : read_bytes(where, config, t);
    for (int i = list ? 0 : 5; i < (list ? 5 : 6) && rc == MF_OK; i++)
        rc = add_special(t, usual[i], strlen(usual[i]));
    if (rc != MF_OK) return rc;
    mf_pt_find_roles(t, config, NULL);
    rc = add_roles(t);
    return rc == MF_OK && list ? add_template(t) : rc;
}
