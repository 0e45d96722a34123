/* generate/quality.c: measures repetition and likelihood of texts. Equal words have equal
 * numbers, so n-grams are sequences of numbers. Distinct n-grams are counted after sorting. */
#include "generate/quality.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "generate/score.h"

enum { WINDOW = 50 }; /* number of words: a word and the 49 after it */

typedef struct {
    const char *text;
    size_t n;
    int64_t place; /* index among all words */
} word;

typedef struct {
    const int32_t *id; /* [n] numbers of its words */
    int n;
} gram;

typedef struct {
    int n_texts;
    int64_t *end; /* [n_texts] end of each text's words in id */
    int64_t n;    /* number of words */
    int32_t *id;  /* [n] number of each word */
    gram *gram;   /* [n] space for the n-grams of a count */
} words;

/* ---- words ---- */

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Finds the next word of a text, from *at on, and moves *at behind the word. Returns false at
 * the end of the text. */
static bool next_word(const mf_piece_of_text *t, size_t *at, word *ret)
{
    while (*at < t->n && blank(t->text[*at]))
        ++*at;
    ret->text = t->text + *at;
    const size_t from = *at;
    while (*at < t->n && !blank(t->text[*at]))
        ++*at;
    ret->n = *at - from;
    return ret->n > 0;
}

static int by_text(const void *a_, const void *b_)
{
    const word *a = a_, *b = b_;
    const int order = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);
    return order != 0 ? order : a->n < b->n ? -1 : a->n > b->n;
}

static void number(words *w, word *all)
{
    int32_t id = 0;
    qsort(all, (size_t)w->n, sizeof *all, by_text);
    for (int64_t i = 0; i < w->n; i++) {
        if (i > 0 && by_text(&all[i - 1], &all[i]) != 0) id++;
        w->id[all[i].place] = id;
    }
}

static void close_words(words *w)
{
    mf_free(w->end);
    mf_free(w->id);
    mf_free(w->gram);
}

static int open_words(words *w, int n_texts, const mf_piece_of_text *texts)
{
    word one;
    *w = (words){.n_texts = n_texts};
    for (int t = 0; t < n_texts; t++)
        for (size_t at = 0; next_word(&texts[t], &at, &one);)
            w->n++;
    word *all = mf_alloc((size_t)w->n + 1, sizeof *all);
    w->end = mf_alloc((size_t)n_texts + 1, sizeof *w->end);
    w->id = mf_alloc((size_t)w->n + 1, sizeof *w->id);
    w->gram = mf_alloc((size_t)w->n + 1, sizeof *w->gram);
    const bool room = all && w->end && w->id && w->gram;
    int64_t i = 0;
    for (int t = 0; room && t < n_texts; t++) {
        for (size_t at = 0; next_word(&texts[t], &at, &one); i++) {
            all[i] = one;
            all[i].place = i;
        }
        w->end[t] = i;
    }
    if (room) number(w, all);
    mf_free(all);
    if (!room) close_words(w);
    return room ? MF_OK : MF_ENOMEM;
}

/* ---- n-grams ---- */

static int by_ids(const void *a_, const void *b_)
{
    const gram *a = a_, *b = b_;
    for (int i = 0; i < a->n; i++)
        if (a->id[i] != b->id[i]) return a->id[i] < b->id[i] ? -1 : 1;
    return 0;
}

/* Number of distinct n-grams among the first n of w->gram. */
static int64_t different(words *w, int64_t n)
{
    int64_t count = n > 0;
    qsort(w->gram, (size_t)n, sizeof *w->gram, by_ids);
    for (int64_t i = 1; i < n; i++)
        count += by_ids(&w->gram[i - 1], &w->gram[i]) != 0;
    return count;
}

/* Writes the n-grams of texts first .. last - 1 into w->gram and returns their number. */
static int64_t list(words *w, int first, int last, int n)
{
    int64_t count = 0;
    for (int t = first; t < last; t++)
        for (int64_t i = t > 0 ? w->end[t - 1] : 0; i + n <= w->end[t]; i++)
            w->gram[count++] = (gram){w->id + i, n};
    return count;
}

static void count(words *w, int n, double *ret_rep, double *ret_distinct)
{
    int64_t all = 0, each = 0;
    for (int t = 0; t < w->n_texts; t++) {
        const int64_t here = list(w, t, t + 1, n);
        all += here;
        each += different(w, here);
    }
    const int64_t together = different(w, list(w, 0, w->n_texts, n));
    *ret_rep = all > 0 ? 1 - (double)each / (double)all : (double)NAN;
    *ret_distinct = all > 0 ? (double)together / (double)all : (double)NAN;
}

static double again(const words *w)
{
    int64_t hits = 0, asked = 0;
    for (int t = 0; t < w->n_texts; t++)
        for (int64_t i = t > 0 ? w->end[t - 1] : 0; i + 1 < w->end[t]; i++) {
            asked++;
            for (int64_t j = i + 1; j < w->end[t] && j < i + WINDOW; j++)
                if (w->id[j] == w->id[i]) {
                    hits++;
                    break;
                }
        }
    return asked > 0 ? (double)hits / (double)asked : (double)NAN;
}

int mf_repetition_of(int n_texts, const mf_piece_of_text *texts, mf_repetition *ret)
{
    words w;
    int rc = open_words(&w, n_texts, texts);
    if (rc != MF_OK) return rc;
    *ret = (mf_repetition){.words = w.n, .again = again(&w), .diversity = 1};
    for (int n = 1; n <= MF_QUALITY_ORDER; n++) {
        count(&w, n, &ret->rep[n], &ret->distinct[n]);
        if (n > 1) ret->diversity *= 1 - ret->rep[n];
    }
    close_words(&w);
    return MF_OK;
}

/* ---- likelihood ---- */

/* Checks all ids first. The generator would not check the last id, which it never receives. It
 * would check each other id only after the probability of this id was read. */
static int check_ids(const int32_t *ids, int64_t n, int32_t vocab)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return mf_fail(MF_EINPUT, "token %lld is %d; expected one from 0 to %d",
                           (long long)i, (int)ids[i], (int)vocab - 1);
    return MF_OK;
}

int mf_log_likelihood(mf_generator *g, int32_t vocab, const int32_t *prompt, int64_t n_prompt,
                      const int32_t *ids, int64_t n, double *ret)
{
    const float *logits;
    double sum = 0;
    *ret = 0;
    int rc = check_ids(ids, n, vocab);
    if (rc != MF_OK) return rc;
    mf_generator_reset(g);
    rc = mf_generator_feed(g, prompt, n_prompt, &logits);
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        sum += mf_log_share(mf_log_sum_of(logits, vocab), logits[ids[i]]);
        if (i + 1 < n) rc = mf_generator_feed(g, &ids[i], 1, &logits);
    }
    *ret = sum;
    return rc;
}
