/* data/tokenizer/pretrained/files.c: makes a pretrained tokenizer from its files. The tokenizer
 * keeps the files unchanged. A run stores them in its tokenizer file, from which the same
 * tokenizer is made. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/file/io.h"
#include "io/lfs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/pretrained/convert.h"
#include "data/tokenizer/tokenizer_kinds.h"

#include <stdio.h>
#include <string.h>

const char *const mf_pt_file_name[MF_PT_FILES] = {"tokenizer.json",
                                                  "vocab.json",
                                                  "merges.txt",
                                                  "vocab.txt",
                                                  "tokenizer_config.json",
                                                  "special_tokens_map.json",
                                                  "chat_template.jinja"};

enum { FILE_MAX = 64 << 20 };

static void free_files(mf_pt_files *f)
{
    for (int i = 0; i < MF_PT_FILES; i++)
        mf_free(f->text[i]);
    *f = (mf_pt_files){0};
}

/* ---- the kind ---- */

static void destroy(mf_tokenizer *base)
{
    mf_pretrained *t = (mf_pretrained *)base;
    free_files(&t->files);
    mf_pt_steps_free(&t->steps);
    mf_pt_words_free(&t->words);
    mf_pt_model_free(&t->model);
    mf_pt_trie_free(&t->plain);
    mf_pt_trie_free(&t->normal);
    mf_strings_free(&t->added_names);
    mf_free(t->added);
    mf_free(t->chat_template);
    mf_jinja_free(t->jinja);
    mf_free(t->shown);
    mf_free(t->shown_begin);
    mf_free(base->template[0].item);
    mf_free(base->template[1].item);
    mf_free(t);
}

static const char *piece(const mf_tokenizer *base, int32_t id, size_t *ret_n)
{
    const mf_pretrained *t = (const mf_pretrained *)base;
    *ret_n = t->shown_begin[id + 1] - t->shown_begin[id];
    return *ret_n > 0 ? t->shown + t->shown_begin[id] : "";
}

static int write_members(const mf_tokenizer *base, mf_jw *w)
{
    const mf_pt_files *f = &((const mf_pretrained *)base)->files;
    mf_jw_key(w, "files");
    mf_jw_object(w);
    for (int i = 0; i < MF_PT_FILES; i++) {
        if (!f->text[i]) continue;
        mf_jw_key(w, mf_pt_file_name[i]);
        mf_jw_string_n(w, f->text[i], f->n[i]);
    }
    mf_jw_end(w);
    return MF_OK;
}

/* ---- construction ---- */

/* Whether decoding returns each text in the form that normalization has made. */
static bool is_lossless(const mf_pretrained *t)
{
    bool same = t->model.byte_level && t->decoding.bytes && !t->words.blank && !t->words.bars &&
                !t->decoding.trim_first;
    for (int32_t i = 0; i < t->added_names.n; i++) {
        size_t n;
        const char *name = mf_strings_get(&t->added_names, i, &n);
        same = same && !t->added[i].lstrip && !t->added[i].rstrip;
        /* Such an id means bytes but is shown as its name, which is another text. */
        if (mf_pt_means_bytes(name, n) && mf_strings_find(&t->model.names, name, n) >= 0)
            same = false;
    }
    for (int i = 0; i < t->words.n; i++) /* these remove a part of the text */
        same = same && t->words.rule[i].split != mf_pt_split_blanks &&
               t->words.rule[i].split != mf_pt_split_bert &&
               t->words.rule[i].behavior != MF_PT_REMOVED;
    return same;
}

/* Warns about truncation and padding, which the library applies to the ids at the end of a
 * text. Training must not apply them. */
static void tell_lengths(const char *source, const mf_json *v)
{
    static const char *const keys[][2] = {{"truncation", "texts are not cut"},
                                          {"padding", "nothing is added to them"}};
    for (int i = 0; i < 2; i++)
        if (mf_json_typeof(mf_json_get(v, keys[i][0])) != MF_JSON_NULL)
            mf_log(MF_LOG_WARN, "%s: \"%s\" is not followed: %s", source, keys[i][0],
                   keys[i][1]);
}

static int judge_version(const char *source, const mf_json *v)
{
    const mf_json *version = mf_json_get(v, "version");
    const char *text = mf_json_string(version, NULL);
    if (!version || (text && strcmp(text, "1.0") == 0)) return MF_OK;
    return mf_fail(MF_EINPUT, "%s: \"version\": expected \"1.0\"%s%.20s", source,
                   text ? ", found " : "", text ? text : "");
}

static int read_document(const char *source, const mf_json *v, mf_pretrained *t)
{
    int rc = judge_version(source, v);
    if (rc == MF_OK) rc = mf_pt_read_steps(source, mf_json_get(v, "normalizer"), &t->steps);
    if (rc == MF_OK) rc = mf_pt_read_words(source, mf_json_get(v, "pre_tokenizer"), &t->words);
    if (rc == MF_OK)
        rc = mf_pt_read_model(source, mf_json_get(v, "model"), t->words.bytes, &t->model);
    if (rc == MF_OK && t->model.kind != MF_PT_BPE && t->words.bytes)
        rc = mf_fail(MF_EINPUT,
                     "%s: \"pre_tokenizer\": ByteLevel: expected it with BPE, another one with "
                     "WordPiece, Unigram and WordLevel",
                     source);
    if (rc == MF_OK && t->words.bytes && t->model.n_prefix + t->model.n_suffix > 0)
        rc = mf_fail(MF_EINPUT,
                     "%s: \"pre_tokenizer\": ByteLevel: expected no "
                     "\"continuing_subword_prefix\" and \"end_of_word_suffix\" with it",
                     source);
    if (rc == MF_OK && t->model.cuts_at_bars) mf_pt_add_splitter(&t->words, mf_pt_split_bars);
    if (rc == MF_OK) rc = mf_pt_read_decoding(source, mf_json_get(v, "decoder"), &t->decoding);
    if (rc == MF_OK) rc = mf_pt_read_added(source, mf_json_get(v, "added_tokens"), t);
    if (rc == MF_OK) rc = mf_pt_read_template(source, mf_json_get(v, "post_processor"), t);
    return rc;
}

static int parse(const char *where, bool folder, const mf_pt_files *f, mf_pt_file file,
                 mf_json **ret)
{
    char name[4096];
    *ret = NULL;
    if (!f->text[file]) return MF_OK;
    snprintf(name, sizeof name, folder ? "%s/%s" : "%s", where, mf_pt_file_name[file]);
    return mf_json_parse_nul(name, f->text[file], f->n[file], ret);
}

static int read_tokenizer(const char *where, bool folder, const mf_json *document,
                          mf_pretrained *t)
{
    char source[4096];
    mf_json *own = NULL;
    snprintf(source, sizeof source, folder ? "%s/%s" : "%s", where,
             mf_pt_file_name[MF_PT_TOKENIZER]);
    int rc = document ? MF_OK : parse(where, folder, &t->files, MF_PT_TOKENIZER, &own);
    if (rc == MF_OK && !document && !mf_pretrained_is(own))
        rc = mf_fail(MF_EINPUT, "%s: expected a tokenizer with a \"model\"", source);
    if (rc == MF_OK) rc = read_document(source, document ? document : own, t);
    if (rc == MF_OK && !t->files.kept) tell_lengths(source, document ? document : own);
    mf_json_free(own);
    return rc;
}

/* Reads chat_template.jinja, or "chat_template" of tokenizer_config.json. It is a text, or a
 * list of texts with names, from which "default" is read. */
static int read_chat(const mf_pt_files *f, const mf_json *config, mf_pretrained *t)
{
    const mf_json *v = mf_json_get(config, "chat_template");
    const char *text = f->text[MF_PT_CHAT] ? f->text[MF_PT_CHAT] : mf_json_string(v, NULL);
    for (size_t i = 0; i < mf_json_size(v) && !text; i++) {
        const mf_json *one = mf_json_at(v, i);
        const char *name = mf_json_string(mf_json_get(one, "name"), NULL);
        if (name && strcmp(name, "default") == 0)
            text = mf_json_string(mf_json_get(one, "template"), NULL);
    }
    if (!text) return MF_OK;
    t->base.chat_template = t->chat_template = mf_strdup(text);
    if (!t->chat_template) return MF_ENOMEM;
    /* A template that is not read is an error only where it is used. */
    const int rc = mf_jinja_new("chat_template", text, strlen(text), &t->jinja);
    t->base.jinja = t->jinja;
    return rc == MF_ENOMEM ? rc : MF_OK;
}

/* Checks that the ids in templates are ids of tokens. */
static int judge_templates(const char *where, const mf_pretrained *t)
{
    for (int pair = 0; pair < 2; pair++)
        for (int i = 0; i < t->base.template[pair].n; i++)
            if (t->base.template[pair].item[i].id >= t->base.pieces)
                return mf_fail(MF_EINPUT,
                               "%s: \"post_processor\": expected ids below %d, found %d", where,
                               (int)t->base.pieces, (int)t->base.template[pair].item[i].id);
    return MF_OK;
}

static int fill(const char *where, bool folder, const mf_json *document, mf_pretrained *t)
{
    mf_json *config = NULL, *map = NULL;
    const mf_pt_files *f = &t->files;
    int rc = parse(where, folder, f, MF_PT_CONFIG, &config);
    if (rc == MF_OK) rc = parse(where, folder, f, MF_PT_SPECIALS, &map);
    if (rc == MF_OK && (document || f->text[MF_PT_TOKENIZER])) {
        rc = read_tokenizer(where, folder, document, t);
        if (rc == MF_OK) mf_pt_find_roles(t, config, map);
    } else if (rc == MF_OK &&
               ((f->text[MF_PT_VOCAB] && f->text[MF_PT_MERGES]) || f->text[MF_PT_LIST])) {
        rc = mf_pt_read_lists(where, config, t);
    } else if (rc == MF_OK) {
        rc =
            mf_fail(MF_EINPUT,
                    "%s: no tokenizer: expected tokenizer.json, vocab.json with merges.txt, or "
                    "vocab.txt",
                    where);
    }
    if (rc == MF_OK) rc = read_chat(f, config, t);
    mf_json_free(config);
    mf_json_free(map);
    if (rc == MF_OK) rc = mf_pt_show(where, t);
    return rc == MF_OK ? judge_templates(where, t) : rc;
}

/* Makes a tokenizer from the files. It takes ownership of the files, even if it fails. where:
 * the folder, or the single file, for messages. document: tokenizer.json, if it was already
 * parsed; else NULL. */
static int make(const char *where, bool folder, const mf_json *document, mf_pt_files *f,
                mf_tokenizer **ret)
{
    mf_pretrained *t = mf_alloc(1, sizeof *t);
    *ret = NULL;
    if (!t) {
        free_files(f);
        return MF_ENOMEM;
    }
    t->files = *f;
    *f = (mf_pt_files){0};
    mf_pt_trie_begin(&t->plain);
    mf_pt_trie_begin(&t->normal);
    t->base = (mf_tokenizer){.ops = &mf_tokenizer_pretrained, .own_specials = true};
    int rc = fill(where, folder, document, t);
    if (rc != MF_OK) {
        destroy(&t->base);
        return rc;
    }
    t->base.vocab = t->base.pieces;
    const mf_pt_steps *s = &t->steps;
    t->base.lossless = is_lossless(t) && s->n == 0;
    t->base.normal = is_lossless(t) && s->n == 1 && s->step[0].kind == MF_PT_FORM &&
                     s->step[0].form == MF_UNICODE_NFC;
    t->base.trim_first = t->decoding.trim_first;
    t->base.trim_last = t->decoding.suffix;
    *ret = &t->base;
    return MF_OK;
}

/* ---- what holds the files ---- */

static int read_members(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    const mf_json *list = mf_json_get(object, "files");
    mf_pt_files f = {.kept = true};
    *ret = NULL;
    for (int i = 0; i < MF_PT_FILES; i++) {
        const char *text = mf_json_string(mf_json_get(list, mf_pt_file_name[i]), &f.n[i]);
        if (text && (f.text[i] = mf_memdup(text, f.n[i])) == NULL) {
            free_files(&f);
            return MF_ENOMEM;
        }
    }
    return make(source, true, NULL, &f, ret);
}

const mf_tokenizer_ops mf_tokenizer_pretrained = {
    .name = "pretrained",
    .encode = mf_pt_encode,
    .piece = piece,
    .write = write_members,
    .free = destroy,
    .read = read_members,
    .cut = mf_pt_cut,
};

bool mf_pretrained_is(const mf_json *document)
{
    return mf_json_typeof(mf_json_get(document, "model")) == MF_JSON_OBJECT &&
           !mf_json_get(document, "format");
}

int mf_pretrained_read_text(const char *source, const char *text, size_t n,
                            const mf_json *document, mf_tokenizer **ret)
{
    mf_pt_files f = {0};
    f.text[MF_PT_TOKENIZER] = mf_memdup(text, n);
    f.n[MF_PT_TOKENIZER] = n;
    *ret = NULL;
    if (!f.text[MF_PT_TOKENIZER]) return MF_ENOMEM;
    return make(source, false, document, &f, ret);
}

/* ---- folders ---- */

static int read_file(const char *folder, mf_pt_file file, mf_pt_files *f)
{
    const unsigned long before = mf_faults();
    char *path = mf_strf("%s/%s", folder, mf_pt_file_name[file]);
    if (!path) return MF_ENOMEM;
    int rc = mf_exists(path)         ? mf_read_file(path, FILE_MAX, &f->text[file], &f->n[file])
             : mf_faults() != before ? mf_fail(MF_EIO, "%s: cannot look at it", path)
                                     : MF_OK;
    if (rc == MF_OK && f->text[file]) rc = mf_lfs_judge(path, f->text[file], f->n[file]);
    if (rc == MF_OK && f->text[file]) {
        const size_t valid = mf_utf8_check(f->text[file], f->n[file]);
        if (valid < f->n[file])
            rc = mf_fail(MF_EINPUT, "%s: byte %zu is not valid UTF-8", path, valid);
    }
    mf_free(path);
    return rc;
}

/* Reads the vocabulary file of another program as a tokenizer.json. */
static int read_other(const char *folder, mf_pt_files *f)
{
    mf_json *config = NULL;
    int rc = parse(folder, true, f, MF_PT_CONFIG, &config);
    if (rc == MF_OK)
        rc = mf_pt_convert_folder(folder, config, &f->text[MF_PT_TOKENIZER],
                                  &f->n[MF_PT_TOKENIZER]);
    mf_json_free(config);
    return rc;
}

/* Reports a folder without a vocabulary that can be read. */
static int no_vocabulary(const char *folder)
{
    static const char *const parts[] = {"tokenizer_config.json", "vocab.json", "merges.txt",
                                        "added_tokens.json", "special_tokens_map.json"};
    static const char expected[] = "expected tokenizer.json, vocab.json with merges.txt, "
                                   "vocab.txt, tokenizer.model, tiktoken.model or tekken.json";
    const char *part = NULL;
    for (size_t i = 0; !part && i < sizeof parts / sizeof *parts; i++) {
        char *path = mf_path_join(folder, parts[i]);
        if (path && mf_exists(path)) part = parts[i];
        mf_free(path);
    }
    if (part)
        return mf_fail(MF_EINPUT, "%s: no tokenizer, but a part of one (%s): %s", folder, part,
                       expected);
    return mf_fail(MF_ENOTFOUND, "%s: no tokenizer: %s", folder, expected);
}

int mf_pretrained_read_folder(const char *folder, mf_tokenizer **ret)
{
    mf_pt_files f = {0};
    int rc = MF_OK;
    *ret = NULL;
    for (int i = 0; i < MF_PT_FILES && rc == MF_OK; i++)
        rc = read_file(folder, (mf_pt_file)i, &f);
    const bool lists = f.text[MF_PT_LIST] || (f.text[MF_PT_VOCAB] && f.text[MF_PT_MERGES]);
    if (rc == MF_OK && !f.text[MF_PT_TOKENIZER] && !lists) {
        rc = read_other(folder, &f);
        if (rc == MF_OK && !f.text[MF_PT_TOKENIZER]) rc = no_vocabulary(folder);
    }
    if (rc == MF_OK) return make(folder, true, NULL, &f, ret);
    free_files(&f);
    return rc;
}
