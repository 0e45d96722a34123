/* Scores the choices of items by a language model, and counts right answers. Borders between
 * tokens, and what is cut from long texts, are those of lm-evaluation-harness. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "generate/score.h"
#include "lab/tasks/tasks.h"

const char *const mf_task_scores[] = {"acc", "acc_norm", "acc_bytes"};

/* ---- log-likelihood ---- */

/* The token that stands before a text without a context. */
static int prefix_of(const mf_tokenizer *t, const char *name, int item, int32_t *ret)
{
    *ret = t->special[MF_SPECIAL_BOS] >= 0 ? t->special[MF_SPECIAL_BOS]
                                           : t->special[MF_SPECIAL_EOS];
    if (*ret >= 0) return MF_OK;
    return mf_fail(
        MF_EINPUT,
        "%s: item %d has no context, and the tokenizer has no token for the begin or "
        "the end of texts: expected a context",
        name, item + 1);
}

/* Encodes the context, and the whole text behind it. *ret_from: number of tokens before those
 * of the choice. */
static int encode(const mf_session *s, const mf_task_file *f, int item, int choice,
                  mf_ids *whole, size_t *ret_from)
{
    const mf_task_item *it = &f->items[item];
    const mf_tokenizer *t = s->tokenizer;
    char *before = mf_task_context(it);
    char *text = before ? mf_strf("%s %s", before, it->choice[choice]) : NULL;
    size_t n = before ? strlen(before) : 0;
    mf_ids context = {0};
    mf_free(before);
    if (!text) return MF_ENOMEM;
    while (n > 0 && strchr(" \t\n\r\v\f", text[n - 1]))
        n--;
    int rc = n > 0 ? mf_tokenizer_encode(t, f->name, text, n, &context) : MF_OK;
    if (rc == MF_OK && n == 0) {
        int32_t prefix;
        rc = prefix_of(t, f->name, item, &prefix);
        if (rc == MF_OK) rc = mf_ids_push(whole, prefix, 0);
    }
    if (rc == MF_OK) rc = mf_tokenizer_encode(t, f->name, text, strlen(text), whole);
    /* a text that begins with the token already has its context */
    if (rc == MF_OK && n == 0 && whole->n > 2 && whole->id[1] == whole->id[0])
        memmove(whole->id, whole->id + 1, --whole->n * sizeof *whole->id);
    *ret_from = n > 0 ? context.n : 1;
    mf_ids_free(&context);
    mf_free(text);
    return rc;
}

/* A choice that is being scored: its tokens follow those of the context. */
typedef struct choice {
    const int32_t *id; /* the text that the model runs, and one token more if it is cut */
    int64_t from, n;   /* indices in id of the choice's tokens: from .. n-1 */
    int32_t vocab;
    double sum;
} choice;

static int add(void *arg, int64_t i, const float *logits)
{
    choice *c = arg;
    if (i + 1 >= c->from && i + 1 < c->n)
        c->sum += mf_log_share(mf_log_sum_of(logits, c->vocab), logits[c->id[i + 1]]);
    return MF_OK;
}

/* Scores a choice. Of a text longer than the model's window, the last tokens count, and *cut
 * becomes true. A text that
 * fits runs with its last token, whose logits are not needed: so it is the batch that moefw
 * serve runs, and the numbers have the same bits. */
static int score(mf_scorer *g, const mf_session *s, mf_task_file *f, int item, int which,
                 bool *cut)
{
    const size_t seq = (size_t)s->config->model.seq;
    mf_ids whole = {0};
    size_t from, first = 0;
    int rc = encode(s, f, item, which, &whole, &from);
    if (rc == MF_OK && whole.n > seq + 1) first = whole.n - seq - 1;
    if (rc == MF_OK && (from >= whole.n || first >= from))
        rc = mf_fail(
            MF_EINPUT,
            "%s: item %d, choice %d: expected 1 to %zu tokens behind the context, found "
            "%zu",
            f->name, item + 1, which, seq, whole.n - (from < whole.n ? from : whole.n));
    if (rc == MF_OK) {
        const size_t n = whole.n - first;
        *cut = *cut || first > 0;
        choice c = {.id = whole.id + first,
                    .from = (int64_t)(from - first),
                    .n = (int64_t)n,
                    .vocab = s->model->dims.vocab};
        rc = mf_score(g, c.id, (int64_t)(n > seq ? seq : n), add, &c);
        f->items[item].score[which] = c.sum;
    }
    mf_ids_free(&whole);
    return rc;
}

int mf_task_score(mf_task_file *f, const mf_session *s,
                  int (*tick)(void *arg, int done, int total), void *arg)
{
    mf_scorer *g = NULL;
    if (!s->tokenizer)
        return mf_fail(MF_EINPUT, "%s: tasks are texts, and the run has no tokenizer", f->name);
    int rc = mf_scorer_new(s->model, &g);
    f->cut = 0;
    for (int i = 0; rc == MF_OK && i < f->n; i++) {
        bool cut = false;
        for (int k = 0; rc == MF_OK && k < f->items[i].n; k++)
            rc = score(g, s, f, i, k, &cut);
        f->cut += cut;
        if (rc == MF_OK && tick && tick(arg, i + 1, f->n)) rc = MF_ESIGNAL;
    }
    mf_scorer_free(g);
    return rc;
}

/* ---- answers ---- */

static double characters(const char *text)
{
    double n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static bool right(const mf_task_item *it, int score)
{
    double best = -INFINITY;
    int answer = 0;
    for (int k = 0; k < it->n; k++) {
        const double by = score == MF_TASK_ACC_NORM    ? characters(it->choice[k])
                          : score == MF_TASK_ACC_BYTES ? (double)strlen(it->choice[k])
                                                       : 1;
        const double v = it->score[k] / by;
        if (v > best) {
            best = v;
            answer = k;
        }
    }
    return answer == it->gold;
}

mf_task_share mf_task_share_of(const mf_task_file *f, int score)
{
    const double z = 1.959963984540054, n = f->n; /* z: the normal quantile of .975 */
    double sum = 0;
    for (int i = 0; i < f->n; i++)
        sum += right(&f->items[i], score);
    const double p = sum / n, below = 1 + z * z / n;
    const double middle = (p + z * z / (2 * n)) / below;
    const double half = z / below * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    return (mf_task_share){.value = p,
                           .error = n > 1 ? sqrt(p * (1 - p) / (n - 1)) : (double)NAN,
                           .lo = fmax(0, middle - half),
                           .hi = fmin(1, middle + half)};
}
