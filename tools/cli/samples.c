/* Generates texts without a conversation and measures them. Text i depends only on the run, the
 * settings, the prompt and seed + i. So asking for more texts does not change the
 * earlier texts. */
#include "cli/samples.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "generate/quality.h"

typedef struct {
    char *text;
    size_t n, room;
    mf_ids ids;
    int64_t tokens;
    double own, other; /* sums of log-likelihoods, under the run itself and under the
                        * other run */
    /* number of the other run's tokens; 0: it could not encode the text */
    int64_t other_tokens;
} sample;

/* The texts of one run. With quality all are kept for statistics; otherwise each is dropped
 * after it is written. */
typedef struct {
    mf_talker *who;
    sample *list; /* [count] with quality, else a single element */
} side;

typedef struct {
    const mf_samples *s;
    side run, baseline;
    const char *name; /* name of the baseline; NULL: there is none */
} job;

/* ---- writing ---- */

typedef struct {
    sample *to;
    bool aloud; /* the text is also printed to standard output */
} listener;

static int hear_piece(void *arg, const char *text, size_t n)
{
    sample *x = ((listener *)arg)->to;
    if (((listener *)arg)->aloud) mf_talker_put(text, n);
    if (n == 0) return MF_OK;
    if (x->n + n > x->room) {
        const size_t room = 2 * (x->n + n) + 256;
        char *larger = mf_realloc(x->text, x->room, room);
        if (!larger) return MF_ENOMEM;
        x->text = larger;
        x->room = room;
    }
    memcpy(x->text + x->n, text, n);
    x->n += n;
    return MF_OK;
}

static int hear_token(void *arg, int32_t id)
{
    return mf_ids_push(&((listener *)arg)->to->ids, id, 0);
}

static void put_heading(const job *j, const char *name, uint64_t seed)
{
    if (j->name && j->s->count > 1)
        printf("[%s, seed %llu]\n", mf_shown_on(stdout, name), (unsigned long long)seed);
    else if (j->name)
        printf("[%s]\n", mf_shown_on(stdout, name));
    else if (j->s->count > 1)
        printf("[seed %llu]\n", (unsigned long long)seed);
}

/* ---- likelihood ---- */

static int judge_ids(mf_talker *by, const mf_samples *s, const mf_ids *text, double *ret)
{
    mf_ids prompt = {0};
    const mf_model *m = by->session->model;
    int rc = mf_talker_encode(by, s->prompt, s->n_prompt, true, &prompt);
    if (rc == MF_OK)
        rc = mf_log_likelihood(by->generator, m->dims.vocab, prompt.id, (int64_t)prompt.n,
                               text->id, (int64_t)text->n, ret);
    mf_ids_free(&prompt);
    return rc;
}

/* Computes the likelihood of one run's text under the other run, if the other run's tokenizer
 * can encode the text. */
static int judge_text(mf_talker *by, const mf_samples *s, sample *x)
{
    mf_ids ids = {0};
    int rc = mf_tokenizer_encode(by->session->tokenizer, "what the other run wrote", x->text,
                                 x->n, &ids);
    if (rc == MF_OK) rc = judge_ids(by, s, &ids, &x->other);
    if (rc == MF_OK) x->other_tokens = (int64_t)ids.n;
    mf_ids_free(&ids);
    if (rc != MF_EINPUT) return rc;
    mf_log(MF_LOG_WARN, "a text is not judged by the other run: %s", mf_error_message());
    mf_error_clear();
    x->other = 0;
    return MF_OK;
}

/* ---- one text ---- */

static sample *place_of(const job *j, const side *of, int64_t i)
{
    return &of->list[j->s->quality ? i : 0];
}

static void forget(sample *x)
{
    mf_free(x->text);
    mf_ids_free(&x->ids);
    *x = (sample){0};
}

/* Generates the i-th text of a run. The sampler's seed is its configured seed + i, so the text
 * does not depend on earlier texts. */
static int write_one(const job *j, const side *of, const char *name, int64_t i, bool aloud)
{
    mf_talker *t = of->who;
    mf_sampler_options *settings = mf_sampler_settings(t->sampler);
    const uint64_t seed = settings->seed;
    listener to = {place_of(j, of, i), aloud};
    const mf_talker_ear ear = {&to, hear_piece, hear_token, aloud};
    if (aloud) put_heading(j, name, seed + (uint64_t)i);
    if (aloud && j->s->shown) {
        mf_talker_put(j->s->prompt, j->s->n_prompt);
        /* an answer does not continue the message's last line */
        if (t->chat.form != MF_CHAT_PLAIN) mf_talker_put("\n", 1);
    }
    mf_generator_reset(t->generator);
    settings->seed = seed + (uint64_t)i;
    t->run->drawn = 0;
    t->ear = &ear;
    const int rc = mf_talker_continue(t, j->s->prompt, j->s->n_prompt, aloud && j->s->shown);
    t->ear = NULL;
    settings->seed = seed;
    to.to->tokens = (int64_t)to.to->ids.n;
    return rc;
}

/* Generates a text, prints it if aloud, and measures it if requested, also with the model of
 * the other run if there is one. */
static int make_one(const job *j, const side *of, const side *other, const char *name,
                    int64_t i, bool aloud)
{
    sample *x = place_of(j, of, i);
    int rc = write_one(j, of, name, i, aloud);
    if (rc != MF_OK || !j->s->quality) return rc;
    rc = judge_ids(of->who, j->s, &x->ids, &x->own);
    mf_ids_free(&x->ids);
    x->ids = (mf_ids){0};
    return rc == MF_OK && j->name ? judge_text(other->who, j->s, x) : rc;
}

/* ---- output ---- */

typedef struct {
    int64_t tokens, bytes;
    /* nats per token and per byte; NaN: nothing was measured */
    double own, own_byte, other, other_byte;
    mf_repetition repetition;
} summary;

static double per(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : (double)NAN;
}

static int sum_up(const job *j, const side *of, summary *ret)
{
    const int64_t n = j->s->count;
    double own = 0, other = 0;
    int64_t other_tokens = 0, other_bytes = 0;
    mf_piece_of_text *texts = mf_alloc((size_t)n, sizeof *texts);
    if (!texts) return MF_ENOMEM;
    *ret = (summary){0};
    for (int64_t i = 0; i < n; i++) {
        const sample *x = &of->list[i];
        texts[i] = (mf_piece_of_text){x->text ? x->text : "", x->n};
        ret->tokens += x->tokens;
        ret->bytes += (int64_t)x->n;
        own += x->own;
        other += x->other;
        other_tokens += x->other_tokens;
        other_bytes += x->other_tokens > 0 ? (int64_t)x->n : 0;
    }
    ret->own = per(own, ret->tokens);
    ret->own_byte = per(own, ret->bytes);
    ret->other = per(other, other_tokens);
    ret->other_byte = per(other, other_bytes);
    const int rc = mf_repetition_of((int)n, texts, &ret->repetition);
    mf_free(texts);
    return rc;
}

/* Prints "name 0.1234", or "name -" if there is nothing to measure. */
static void put_number(const char *name, double value)
{
    if (isnan(value))
        printf("%s -", name);
    else
        printf("%s %.4f", name, value);
}

static int put_quality(const job *j, const side *of, const char *name, const char *other)
{
    summary q;
    const int rc = sum_up(j, of, &q);
    const mf_repetition *r = &q.repetition;
    if (rc != MF_OK) return rc;
    if (j->name) printf("[%s] ", mf_shown_on(stdout, name));
    put_number("repetition: rep-2", r->rep[2]);
    put_number(", rep-3", r->rep[3]);
    put_number(", rep-4", r->rep[4]);
    put_number(", diversity", r->diversity);
    put_number(", again", r->again);
    put_number(", distinct-1", r->distinct[1]);
    put_number(", distinct-2", r->distinct[2]);
    printf(" (%lld words in %lld texts)\n", (long long)r->words, (long long)j->s->count);
    if (j->name) printf("[%s] ", mf_shown_on(stdout, name));
    put_number("coherence:", q.own);
    put_number(" nats/token,", q.own_byte);
    printf(" nats/byte");
    if (other) {
        printf("; by %s", mf_shown_on(stdout, other));
        put_number("", q.other);
        put_number(",", q.other_byte);
    }
    putchar('\n');
    return MF_OK;
}

static void json_sample(mf_jw *w, const job *j, const side *of, int64_t i)
{
    const sample *x = place_of(j, of, i);
    mf_jw_object(w);
    mf_jw_kv_int(w, "seed", (int64_t)(mf_sampler_settings(of->who->sampler)->seed) + i);
    mf_jw_key(w, "text");
    mf_jw_string_n(w, x->text ? x->text : "", x->n);
    mf_jw_kv_int(w, "tokens", x->tokens);
    if (j->s->quality) {
        mf_jw_kv_real(w, "coherence", per(x->own, x->tokens));
        if (j->name) mf_jw_kv_real(w, "other_coherence", per(x->other, x->other_tokens));
    }
    mf_jw_end(w);
}

static int json_quality(mf_jw *w, const job *j, const side *of)
{
    summary q;
    const int rc = sum_up(j, of, &q);
    char key[24];
    if (rc != MF_OK) return rc;
    mf_jw_key(w, "quality");
    mf_jw_object(w);
    mf_jw_kv_int(w, "texts", j->s->count);
    mf_jw_kv_int(w, "tokens", q.tokens);
    mf_jw_kv_int(w, "bytes", q.bytes);
    mf_jw_kv_int(w, "words", q.repetition.words);
    for (int n = 1; n <= MF_QUALITY_ORDER; n++) {
        snprintf(key, sizeof key, "rep_%d", n);
        mf_jw_kv_real(w, key, q.repetition.rep[n]);
    }
    mf_jw_kv_real(w, "diversity", q.repetition.diversity);
    for (int n = 1; n <= MF_QUALITY_ORDER; n++) {
        snprintf(key, sizeof key, "distinct_%d", n);
        mf_jw_kv_real(w, key, q.repetition.distinct[n]);
    }
    mf_jw_kv_real(w, "again", q.repetition.again);
    mf_jw_kv_real(w, "coherence", q.own);
    mf_jw_kv_real(w, "coherence_byte", q.own_byte);
    if (j->name) {
        mf_jw_kv_real(w, "other_coherence", q.other);
        mf_jw_kv_real(w, "other_coherence_byte", q.other_byte);
    }
    mf_jw_end(w);
    return MF_OK;
}

static int json_side(mf_jw *w, const job *j, const side *of, const side *other)
{
    int rc = MF_OK;
    mf_jw_key(w, "samples");
    mf_jw_array(w);
    for (int64_t i = 0; rc == MF_OK && i < j->s->count; i++) {
        rc = make_one(j, of, other, NULL, i, false);
        if (rc == MF_OK) json_sample(w, j, of, i);
        if (!j->s->quality) forget(place_of(j, of, i));
    }
    mf_jw_end(w);
    return rc == MF_OK && j->s->quality ? json_quality(w, j, of) : rc;
}

/* ---- all texts ---- */

static void close_side(const job *j, side *of)
{
    for (int64_t i = 0; of->list && i < (j->s->quality ? j->s->count : 1); i++)
        forget(&of->list[i]);
    mf_free(of->list);
}

static void close_job(job *j)
{
    close_side(j, &j->run);
    close_side(j, &j->baseline);
}

static int open_job(job *j, const mf_samples *s, mf_talker *run, mf_talker *baseline,
                    const char *name)
{
    const bool both = baseline && baseline->session;
    const size_t n = s->quality ? (size_t)s->count : 1;
    *j = (job){.s = s, .run.who = run, .baseline.who = baseline, .name = both ? name : NULL};
    j->run.list = mf_alloc(n, sizeof *j->run.list);
    if (both) j->baseline.list = mf_alloc(n, sizeof *j->baseline.list);
    return j->run.list && (!both || j->baseline.list) ? MF_OK : MF_ENOMEM;
}

int mf_samples_write(const mf_samples *s, mf_talker *run, mf_talker *baseline, const char *name)
{
    job j;
    int rc = open_job(&j, s, run, baseline, name);
    for (int64_t i = 0; rc == MF_OK && i < s->count; i++) {
        rc = make_one(&j, &j.run, &j.baseline, "this run", i, true);
        if (rc == MF_OK && j.name) rc = make_one(&j, &j.baseline, &j.run, j.name, i, true);
        if (s->quality) continue;
        forget(place_of(&j, &j.run, i));
        if (j.name) forget(place_of(&j, &j.baseline, i));
    }
    if (rc == MF_OK && s->quality) rc = put_quality(&j, &j.run, "this run", j.name);
    if (rc == MF_OK && s->quality && j.name)
        rc = put_quality(&j, &j.baseline, j.name, "this run");
    close_job(&j);
    return rc;
}

int mf_samples_json(mf_jw *w, const mf_samples *s, mf_talker *run, mf_talker *baseline,
                    const char *name)
{
    job j;
    int rc = open_job(&j, s, run, baseline, name);
    if (rc == MF_OK) rc = json_side(w, &j, &j.run, &j.baseline);
    if (rc == MF_OK && j.name) {
        mf_jw_key(w, "baseline");
        mf_jw_object(w);
        mf_jw_kv_string(w, "run", j.name);
        mf_jw_kv_int(w, "step", baseline->step);
        rc = json_side(w, &j, &j.baseline, &j.run);
        mf_jw_end(w);
    }
    close_job(&j);
    return rc;
}
