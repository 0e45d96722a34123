/* data/tokenizer/pretrained/read_words.c: reads the members "normalizer" and "pre_tokenizer" of
 * a tokenizer.json. A member that encoding cannot reproduce exactly is refused by its name. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int mf_pt_refuse(const char *source, const char *member, const mf_json *type,
                 const char *expected)
{
    const char *name = mf_json_string(type, NULL);
    return mf_fail(MF_EINPUT, "%s: \"%s\": %.200s%s%s: expected %s", source, member,
                   name ? "\"" : "an entry without \"type\"", name ? name : "",
                   name ? "\"" : "", expected);
}

bool mf_pt_is(const mf_json *v, const char *type)
{
    const char *name = mf_json_string(mf_json_get(v, "type"), NULL);
    return name && strcmp(name, type) == 0;
}

bool mf_pt_true(const mf_json *v, const char *key, bool missing)
{
    bool value;
    return mf_json_bool(mf_json_get(v, key), &value) ? value : missing;
}

/* ---- "normalizer" ---- */

static const char step_names[] =
    "NFC, NFD, NFKC, NFKD, BertNormalizer, Lowercase, StripAccents, "
    "Prepend, Replace, Strip, Precompiled, or a Sequence of them";

/* Copies a string, which may contain NUL. */
static int copy_string(const mf_json *v, char **ret, size_t *ret_n)
{
    const char *text = mf_json_string(v, ret_n);
    if (!text) return MF_EINPUT;
    *ret = mf_memdup(text, *ret_n);
    return *ret ? MF_OK : MF_ENOMEM;
}

static int read_replace(const char *source, const mf_json *v, mf_pt_step *s)
{
    const mf_json *pattern = mf_json_get(v, "pattern");
    const char *regex = mf_json_string(mf_json_get(pattern, "Regex"), &s->n_text);
    s->kind = regex ? MF_PT_MATCHES : MF_PT_REPLACE;
    if (regex) {
        char where[4200];
        snprintf(where, sizeof where, "%s: \"normalizer\": Replace", source);
        const int code = copy_string(mf_json_get(v, "content"), &s->with, &s->n_with);
        if (code == MF_OK) return mf_regex_new(where, regex, s->n_text, &s->regex);
        if (code == MF_ENOMEM) return code;
    }
    int rc = copy_string(mf_json_get(pattern, "String"), &s->text, &s->n_text);
    if (rc == MF_OK) rc = copy_string(mf_json_get(v, "content"), &s->with, &s->n_with);
    if (rc == MF_ENOMEM || (rc == MF_OK && s->n_text > 0)) return rc;
    return mf_fail(MF_EINPUT,
                   "%s: \"normalizer\": Replace: expected a pattern {\"String\": ...} or "
                   "{\"Regex\": ...}, and a \"content\"",
                   source);
}

static int read_charsmap(const char *source, const mf_json *v, mf_pt_step *s)
{
    size_t n = 0;
    char where[4200];
    const char *text = mf_json_string(mf_json_get(v, "precompiled_charsmap"), &n);
    snprintf(where, sizeof where, "%s: \"normalizer\": Precompiled", source);
    s->kind = MF_PT_CHARSMAP;
    return mf_pt_charsmap_read(where, text ? text : "", n, &s->map);
}

static int read_bert(const char *source, const mf_json *v, mf_pt_step *s)
{
    (void)source;
    s->kind = MF_PT_BERT;
    s->clean = mf_pt_true(v, "clean_text", true);
    s->ideographs = mf_pt_true(v, "handle_chinese_chars", true);
    s->lower = mf_pt_true(v, "lowercase", true);
    s->accents = mf_pt_true(v, "strip_accents", s->lower);
    return MF_OK;
}

static int read_step(const char *source, const mf_json *v, mf_pt_step *s)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    for (int i = 0; i < 4; i++)
        if (mf_pt_is(v, forms[i])) {
            s->kind = MF_PT_FORM;
            s->form = (mf_unicode_form)i;
            return MF_OK;
        }
    if (mf_pt_is(v, "BertNormalizer")) return read_bert(source, v, s);
    if (mf_pt_is(v, "Replace")) return read_replace(source, v, s);
    if (mf_pt_is(v, "Precompiled")) return read_charsmap(source, v, s);
    s->left = mf_pt_true(v, "strip_left", true);
    s->right = mf_pt_true(v, "strip_right", true);
    if (mf_pt_is(v, "Lowercase"))
        s->kind = MF_PT_LOWER;
    else if (mf_pt_is(v, "StripAccents"))
        s->kind = MF_PT_UNMARK;
    else if (mf_pt_is(v, "Strip"))
        s->kind = MF_PT_TRIM;
    else if (!mf_pt_is(v, "Prepend"))
        return mf_pt_refuse(source, "normalizer", mf_json_get(v, "type"), step_names);
    else
        s->kind = MF_PT_PREPEND;
    if (s->kind != MF_PT_PREPEND) return MF_OK;
    int rc = copy_string(mf_json_get(v, "prepend"), &s->text, &s->n_text);
    return rc != MF_EINPUT ? rc
                           : mf_fail(MF_EINPUT,
                                     "%s: \"normalizer\": Prepend: expected a string "
                                     "\"prepend\"",
                                     source);
}

int mf_pt_read_steps(const char *source, const mf_json *v, mf_pt_steps *ret)
{
    int rc = MF_OK;
    if (mf_json_typeof(v) == MF_JSON_NULL) return MF_OK;
    if (mf_pt_is(v, "Sequence")) {
        const mf_json *list = mf_json_get(v, "normalizers");
        for (size_t i = 0; i < mf_json_size(list) && rc == MF_OK; i++)
            rc = mf_pt_read_steps(source, mf_json_at(list, i), ret);
        return rc;
    }
    if (ret->n == MF_PT_STEPS)
        return mf_fail(MF_EINPUT, "%s: \"normalizer\": expected at most %d steps", source,
                       MF_PT_STEPS);
    mf_pt_step *s = &ret->step[ret->n++];
    rc = read_step(source, v, s);
    if (rc != MF_OK || (s->kind != MF_PT_REPLACE && s->kind != MF_PT_MATCHES)) return rc;
    /* The growth factors of successive steps multiply. A match may be empty. */
    ret->growth =
        (ret->growth > 0 ? ret->growth : 1) *
        (s->regex ? 1 + (double)s->n_with : fmax(1, (double)s->n_with / (double)s->n_text));
    if (ret->growth <= MF_PT_GROWTH) return MF_OK;
    return mf_fail(MF_EINPUT,
                   "%s: \"normalizer\": Replace: a text could become more than %d times as "
                   "long",
                   source, MF_PT_GROWTH);
}

/* ---- "pre_tokenizer" ---- */

/* Makes the next pre-tokenizer. NULL, with the error recorded: there are too many. */
static mf_pt_rule *add_cut(const char *source, mf_pt_words *ret, mf_pt_rule_kind kind)
{
    if (ret->n == MF_PT_RULES) {
        mf_fail(MF_EINPUT, "%s: \"pre_tokenizer\": expected at most %d parts", source,
                MF_PT_RULES);
        return NULL;
    }
    mf_pt_rule *cut = &ret->rule[ret->n++];
    *cut = (mf_pt_rule){.kind = kind, .behavior = MF_PT_ISOLATED, .letters = ret->bytes};
    return cut;
}

static int add_splitter(const char *source, mf_pt_splitter split, mf_pt_words *ret)
{
    mf_pt_rule *cut = add_cut(source, ret, MF_PT_CUT_SPLITTER);
    if (!cut) return MF_EINPUT;
    cut->split = split;
    return MF_OK;
}

/* Reads "behavior": "MergedWithNext" or merged_with_next, as older files have it. */
static int read_behavior(const char *source, const char *what, const mf_json *v,
                         mf_pt_behavior *ret)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = mf_json_string(mf_json_get(v, "behavior"), NULL);
    for (int i = 0; name && i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (mf_pt_behavior)i;
            return MF_OK;
        }
    return mf_fail(MF_EINPUT,
                   "%s: \"pre_tokenizer\": %s: \"behavior\": expected Removed, Isolated, "
                   "MergedWithPrevious, MergedWithNext or Contiguous, found %.20s",
                   source, what, name ? name : "none");
}

/* An expression that has a function gets it if this is all it needs: the function is faster. */
static int read_regex(const char *source, const char *pattern, size_t n, mf_pt_rule *cut)
{
    char where[4200];
    const mf_pt_splitter split = cut->behavior == MF_PT_ISOLATED && !cut->invert
                                     ? mf_pt_split_pattern(pattern, n)
                                     : NULL;
    cut->split = split;
    cut->kind = split ? MF_PT_CUT_SPLITTER : MF_PT_CUT_REGEX;
    if (split) return MF_OK;
    cut->cuts_lines =
        cut->behavior == MF_PT_ISOLATED && !cut->invert && mf_pt_cuts_lines(pattern, n);
    snprintf(where, sizeof where, "%s: \"pre_tokenizer\": Split", source);
    return mf_regex_new(where, pattern, n, &cut->regex);
}

static int read_split(const char *source, const mf_json *v, mf_pt_words *ret)
{
    size_t n = 0, n_string = 0;
    const mf_json *pattern = mf_json_get(v, "pattern");
    const char *regex = mf_json_string(mf_json_get(pattern, "Regex"), &n),
               *string = mf_json_string(mf_json_get(pattern, "String"), &n_string);
    mf_pt_rule *cut = add_cut(source, ret, MF_PT_CUT_STRING);
    if (!cut) return MF_EINPUT;
    int rc = read_behavior(source, "Split", v, &cut->behavior);
    if (rc != MF_OK) return rc;
    cut->invert = mf_pt_true(v, "invert", false);
    if (regex) return read_regex(source, regex, n, cut);
    if (!string)
        return mf_fail(MF_EINPUT,
                       "%s: \"pre_tokenizer\": Split: expected a \"pattern\" with \"Regex\" or "
                       "\"String\"",
                       source);
    if (n_string == 0) { /* cuts nothing */
        ret->n--;
        return MF_OK;
    }
    cut->n = n_string;
    cut->text = mf_memdup(string, n_string);
    return cut->text ? MF_OK : MF_ENOMEM;
}

/* Reads CharDelimiterSplit, which removes a character. */
static int read_delimiter(const char *source, const mf_json *v, mf_pt_words *ret)
{
    size_t n = 0;
    const char *text = mf_json_string(mf_json_get(v, "delimiter"), &n);
    mf_pt_rule *cut = add_cut(source, ret, MF_PT_CUT_STRING);
    if (!cut) return MF_EINPUT;
    if (!text || n == 0)
        return mf_fail(MF_EINPUT,
                       "%s: \"pre_tokenizer\": CharDelimiterSplit: expected a \"delimiter\"",
                       source);
    cut->behavior = MF_PT_REMOVED;
    cut->n = n;
    cut->text = mf_memdup(text, n);
    return cut->text ? MF_OK : MF_ENOMEM;
}

/* Whitespace: words and runs of other characters; what lies between them is removed. This
 * expression is not of Oniguruma, whose \w has other characters. */
#define WORD "[[\\w\\x{200c}\\x{200d}]&&[^\\xb2\\xb3\\xb9\\xbc-\\xbe]]"
static int read_whitespace(const char *source, mf_pt_words *ret)
{
    static const char pattern[] = WORD "+|[^" WORD "\\s]+";
    mf_pt_rule *cut = add_cut(source, ret, MF_PT_CUT_REGEX);
    if (!cut) return MF_EINPUT;
    cut->behavior = MF_PT_REMOVED;
    cut->invert = true;
    return mf_regex_new(source, pattern, strlen(pattern), &cut->regex);
}

static int read_punctuation(const char *source, const mf_json *v, mf_pt_words *ret)
{
    mf_pt_rule *cut = add_cut(source, ret, MF_PT_CUT_SIGNS);
    if (!cut) return MF_EINPUT;
    return mf_json_get(v, "behavior") ? read_behavior(source, "Punctuation", v, &cut->behavior)
                                      : MF_OK;
}

static int read_bytes(const char *source, const mf_json *v, mf_pt_words *ret)
{
    int rc = MF_OK;
    if (ret->bytes)
        return mf_fail(MF_EINPUT, "%s: \"pre_tokenizer\": expected ByteLevel once", source);
    ret->blank = mf_pt_true(v, "add_prefix_space", true);
    if (ret->blank && !add_cut(source, ret, MF_PT_BLANK)) return MF_EINPUT;
    if (mf_pt_true(v, "use_regex", true)) rc = add_splitter(source, mf_pt_split_bytes, ret);
    ret->bytes = true;
    return rc;
}

static int read_bars(const char *source, const mf_json *v, mf_pt_words *ret)
{
    static const char *const schemes[] = {"never", "first", "always"};
    const char *bar = mf_json_string(mf_json_get(v, "replacement"), NULL),
               *scheme = mf_json_string(mf_json_get(v, "prepend_scheme"), NULL);
    if (!bar || strcmp(bar, "\xE2\x96\x81") != 0 || ret->bars || ret->bytes)
        return mf_fail(MF_EINPUT,
                       "%s: \"pre_tokenizer\": Metaspace: expected \"replacement\" U+2581, "
                       "once, and not behind ByteLevel",
                       source);
    ret->bars = true;
    ret->prepend = mf_pt_true(v, "add_prefix_space", true) ? MF_PT_BAR_ALWAYS : MF_PT_BAR_NEVER;
    for (int i = 0; i < 3 && scheme; i++)
        if (strcmp(scheme, schemes[i]) == 0) ret->prepend = (mf_pt_bar)i;
    mf_pt_rule *cut = add_cut(source, ret, MF_PT_BARS);
    if (!cut) return MF_EINPUT;
    cut->prepend = ret->prepend;
    return mf_pt_true(v, "split", true) ? add_splitter(source, mf_pt_split_each_bar, ret)
                                        : MF_OK;
}

int mf_pt_read_words(const char *source, const mf_json *v, mf_pt_words *ret)
{
    int rc = MF_OK;
    if (mf_json_typeof(v) == MF_JSON_NULL) return MF_OK;
    if (mf_pt_is(v, "Sequence")) {
        const mf_json *list = mf_json_get(v, "pretokenizers");
        for (size_t i = 0; i < mf_json_size(list) && rc == MF_OK; i++)
            rc = mf_pt_read_words(source, mf_json_at(list, i), ret);
        return rc;
    }
    if (mf_pt_is(v, "Split")) return read_split(source, v, ret);
    if (mf_pt_is(v, "ByteLevel")) return read_bytes(source, v, ret);
    if (mf_pt_is(v, "Metaspace")) return read_bars(source, v, ret);
    if (mf_pt_is(v, "Punctuation")) return read_punctuation(source, v, ret);
    if (mf_pt_is(v, "Whitespace")) return read_whitespace(source, ret);
    if (mf_pt_is(v, "CharDelimiterSplit")) return read_delimiter(source, v, ret);
    if (mf_pt_is(v, "BertPreTokenizer")) return add_splitter(source, mf_pt_split_bert, ret);
    if (mf_pt_is(v, "WhitespaceSplit")) return add_splitter(source, mf_pt_split_blanks, ret);
    if (mf_pt_is(v, "Digits"))
        return add_splitter(source,
                            mf_pt_true(v, "individual_digits", false) ? mf_pt_split_digit
                                                                      : mf_pt_split_digits,
                            ret);
    return mf_pt_refuse(
        source, "pre_tokenizer", mf_json_get(v, "type"),
        "Split, ByteLevel, Metaspace, Punctuation, Whitespace, WhitespaceSplit, Digits, "
        "BertPreTokenizer, CharDelimiterSplit, or a Sequence of them");
}
