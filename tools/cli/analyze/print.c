/* Prints the figures of moefw analyze. Beside each figure stands the value that it would have
 * by chance, or the bounds between which the truth is. */
#include "cli/analyze/print.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "report/terminal/terminal.h"

/* ---- as text ---- */

/* "0.412"; "-" if v is not known. */
static const char *share(double v, char out[16])
{
    if (isnan(v)) return "-";
    snprintf(out, 16, "%.3f", fabs(v) < .0005 ? 0 : v); /* no "-0.000" */
    return out;
}

static int put_share(mf_table *t, int column, double v)
{
    char text[16];
    return mf_table_put(t, column, share(v, text));
}

static int put_between(mf_table *t, int column, double v, double lo, double hi)
{
    char a[16], b[16], c[16], text[64];
    if (isnan(lo)) return put_share(t, column, v);
    snprintf(text, sizeof text, "%s [%s, %s]", share(v, a), share(lo, b), share(hi, c));
    return mf_table_put(t, column, text);
}

static int put_pairs(mf_table *t, int column, const mf_coactivation *p)
{
    char text[96];
    if (p->pairs == 0) return mf_table_put(t, column, NULL);
    if (p->first < 0)
        snprintf(text, sizeof text, "0 of %lld", (long long)p->pairs);
    else
        snprintf(text, sizeof text, "%lld of %lld, most %d-%d: x%.2f", (long long)p->over,
                 (long long)p->pairs, (int)p->first, (int)p->second,
                 p->lift[(int64_t)p->first * p->experts + p->second]);
    return mf_table_put(t, column, text);
}

static int put_saturation(mf_table *t, int column, const mf_saturation *s)
{
    char a[16], b[16], text[48];
    if (isnan(s->overlap.value)) return mf_table_put(t, column, NULL);
    snprintf(text, sizeof text, "%s (%s)", share(s->overlap.value, a), share(s->chance, b));
    return mf_table_put(t, column, text);
}

/* The columns that all texts have, then those of labels, then one for each checkpoint. */
enum { LAYER, LOADS, TOP, DEAD, PAIRS, BY_ID, BY_NEXT, BY_POSITION, COLUMNS };
static const char *const heads[COLUMNS] = {"layer",      "entropy of loads",  "top share",
                                           "dead",       "pairs over chance", "by id",
                                           "by next id", "by position"};

static int put_layer(mf_table *t, const mf_analysis *a, const mf_analysis_layer *l)
{
    char text[24];
    const bool labels = l->labels.labels > 0;
    int rc = mf_table_row(t);
    snprintf(text, sizeof text, "%d", (int)l->layer);
    if (rc == MF_OK) rc = mf_table_put(t, LAYER, text);
    if (rc == MF_OK)
        rc = put_between(t, LOADS, l->use.entropy, l->use.entropy_lo, l->use.entropy_hi);
    if (rc == MF_OK) rc = put_share(t, TOP, l->use.top);
    snprintf(text, sizeof text, "%d of %d", (int)l->use.dead, (int)l->experts);
    if (rc == MF_OK) rc = mf_table_put(t, DEAD, text);
    if (rc == MF_OK) rc = put_pairs(t, PAIRS, &l->pairs);
    if (rc == MF_OK) rc = put_between(t, BY_ID, l->id.held_out, l->id.lo, l->id.hi);
    if (rc == MF_OK) rc = put_between(t, BY_NEXT, l->next.held_out, l->next.lo, l->next.hi);
    if (rc == MF_OK)
        rc = put_between(t, BY_POSITION, l->position.held_out, l->position.lo, l->position.hi);
    if (rc == MF_OK && labels)
        rc = put_between(t, COLUMNS, l->labels.says.held_out, l->labels.says.lo,
                         l->labels.says.hi);
    if (rc == MF_OK && labels)
        rc = put_between(t, COLUMNS + 1, l->labels.distance, l->labels.distance_lo,
                         l->labels.distance_hi);
    for (int i = 0; rc == MF_OK && i < a->n_then; i++)
        rc = put_saturation(t, COLUMNS + 2 * labels + i, &l->then[i]);
    return rc;
}

static int print_table(const mf_analysis *a)
{
    const mf_terminal terminal = mf_terminal_of(stdout);
    const bool labels = a->routed.labels > 0;
    mf_table t = {0};
    char text[48];
    int rc = mf_table_start(&t, COLUMNS + 2 * labels + a->n_then);
    if (rc == MF_OK) rc = mf_table_row(&t);
    for (int i = 0; rc == MF_OK && i < COLUMNS; i++)
        rc = mf_table_put(&t, i, heads[i]);
    if (rc == MF_OK && labels) rc = mf_table_put(&t, COLUMNS, "by label");
    if (rc == MF_OK && labels) rc = mf_table_put(&t, COLUMNS + 1, "distance to oracle");
    for (int i = 0; rc == MF_OK && i < a->n_then; i++) {
        snprintf(text, sizeof text, "as at %lld", (long long)a->layers[0].then[i].step);
        rc = mf_table_put(&t, COLUMNS + 2 * labels + i, text);
    }
    for (int i = 0; rc == MF_OK && i < a->n_layers; i++)
        rc = put_layer(&t, a, &a->layers[i]);
    if (rc == MF_OK) mf_table_print(&t, mf_terminal_columns(&terminal));
    mf_table_clear(&t);
    return rc;
}

/* Says for each layer between which values the information of the ids is, if the counts are too
 * few to know it. */
static void print_few(const mf_analysis *a)
{
    for (int i = 0; i < a->n_layers; i++) {
        const mf_information *s = &a->layers[i].id;
        char b[16], c[16];
        if (s->per_cell >= MF_FEW_IN_CELL || isnan(s->plug_in)) continue;
        mf_wrap_line(
            stdout, 2,
            "layer %d: too few tokens for ids: %.1f for each of %lld ids and %d "
            "experts, expected %d; the truth is between %s (shuffled) and %s (plug-in)",
            (int)a->layers[i].layer, s->per_cell, (long long)s->values,
            (int)a->layers[i].experts, MF_FEW_IN_CELL, share(s->shuffled, b),
            share(s->plug_in, c));
    }
}

static void print_outputs(const mf_analysis *a)
{
    for (int i = 0; i < a->n_layers; i++) {
        const mf_expert_outputs *o = &a->layers[i].outputs;
        char b[16], c[16], d[16];
        if (o->tokens == 0 || o->first < 0) continue;
        const int64_t at = (int64_t)o->first * o->experts + o->second;
        mf_wrap_line(stdout, 2,
                     "layer %d: outputs of the experts for %d tokens: most alike %d-%d, cosine "
                     "%s (other tokens: %s), CKA %s",
                     (int)a->layers[i].layer, (int)o->tokens, (int)o->first, (int)o->second,
                     share(o->cosine[at], b), share(o->cosine_chance, c), share(o->cka[at], d));
    }
}

/* Chance values, in the words of the columns. */
static void print_chance(const mf_analysis *a)
{
    const mf_analysis_layer *l = &a->layers[0];
    char b[16], c[16], d[16];
    mf_wrap_line(stdout, 2,
                 "by: share of the experts' entropy that the token's id, the next id, its "
                 "position%s explains in %s that were not counted; [ ]: 95 %%, by %s",
                 a->routed.labels > 0 ? " or its label" : "", a->routed.unit, a->routed.unit);
    mf_wrap_line(
        stdout, 2,
        "chance: by: 0, and at most %s with %.3g of %d experts%s; top share %s at equal "
        "loads%s%s",
        share(l->id.most, b), l->use.mean_k, (int)l->experts,
        a->routed.labels > 0 ? "; distance to oracle: 1" : "", share(1. / l->experts, c),
        l->pairs.pairs > 0 ? "; P(j | i) of a pair " : "",
        l->pairs.pairs > 0 ? share(l->pairs.even, d) : "");
    if (a->n_then > 0)
        mf_wrap_line(stdout, 2,
                     "as at N: share of the choices that step N already made "
                     "(chance, with the loads of both)");
    else
        mf_wrap_line(stdout, 2, "no earlier checkpoint to compare with");
}

int mf_analyze_print(const mf_analysis *a)
{
    mf_wrap_line(stdout, 2,
                 "%s after %lld steps: %lld tokens of %s in %d %s, loss %.4f; router's own "
                 "choice, before capacity",
                 mf_shown(a->run), (long long)a->step, (long long)a->tokens, mf_shown(a->text),
                 (int)a->routed.documents.n, a->routed.unit, a->loss);
    if (a->routed.documents.n < MF_FEW_DOCUMENTS)
        mf_wrap_line(stdout, 2,
                     "few %s: with less than %d intervals are too short, and what is "
                     "explained in others is too low",
                     a->routed.unit, MF_FEW_DOCUMENTS);
    const int rc = print_table(a);
    if (rc != MF_OK) return rc;
    print_few(a);
    print_outputs(a);
    print_chance(a);
    return MF_OK;
}

/* ---- as JSON ---- */

static void json_numbers(mf_jw *w, const char *key, const double *v, int64_t n)
{
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int64_t i = 0; i < n; i++)
        mf_jw_real(w, v[i]);
    mf_jw_end(w);
}

static void json_matrix(mf_jw *w, const char *key, const double *v, int64_t rows, int64_t n)
{
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int64_t r = 0; r < rows; r++) {
        mf_jw_array(w);
        for (int64_t i = 0; i < n; i++)
            mf_jw_real(w, v[r * n + i]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void json_information(mf_jw *w, const char *key, const mf_information *i)
{
    mf_jw_key(w, key);
    mf_jw_object(w);
    mf_jw_kv_int(w, "tokens", i->tokens);
    mf_jw_kv_int(w, "values", i->values);
    mf_jw_kv_real(w, "expert_entropy", i->entropy);
    mf_jw_kv_real(w, "per_cell", i->per_cell);
    mf_jw_kv_bool(w, "few", i->per_cell < MF_FEW_IN_CELL);
    mf_jw_kv_real(w, "held_out", i->held_out);
    mf_jw_kv_real(w, "held_out_lo", i->lo);
    mf_jw_kv_real(w, "held_out_hi", i->hi);
    mf_jw_kv_real(w, "shuffled", i->shuffled);
    mf_jw_kv_real(w, "plug_in", i->plug_in);
    mf_jw_kv_real(w, "most", i->most);
    mf_jw_end(w);
}

static void json_use(mf_jw *w, const mf_analysis_layer *l)
{
    const mf_utilization *u = &l->use;
    mf_jw_key(w, "utilization");
    mf_jw_object(w);
    mf_jw_kv_real(w, "mean_k", u->mean_k);
    mf_jw_kv_real(w, "load_entropy", u->entropy);
    mf_jw_kv_real(w, "load_entropy_lo", u->entropy_lo);
    mf_jw_kv_real(w, "load_entropy_hi", u->entropy_hi);
    mf_jw_kv_real(w, "cv", u->cv);
    mf_jw_kv_real(w, "cv_lo", u->cv_lo);
    mf_jw_kv_real(w, "cv_hi", u->cv_hi);
    mf_jw_kv_real(w, "cv_chance", u->cv_chance);
    mf_jw_kv_real(w, "top_share", u->top);
    mf_jw_kv_int(w, "experts_for_half", u->half);
    mf_jw_kv_int(w, "dead", u->dead);
    json_numbers(w, "load", u->load, l->experts);
    mf_jw_end(w);
}

static void json_pairs(mf_jw *w, const mf_coactivation *p)
{
    mf_jw_key(w, "coactivation");
    mf_jw_object(w);
    mf_jw_kv_string(w, "counted", "all pairs of a token's experts");
    mf_jw_kv_int(w, "pairs", p->pairs);
    mf_jw_kv_int(w, "over_chance", p->over);
    mf_jw_kv_real(w, "even", p->even);
    if (p->pairs > 0) {
        json_matrix(w, "count", p->count, p->experts, p->experts);
        json_matrix(w, "chance", p->chance, p->experts, p->experts);
        json_matrix(w, "lift", p->lift, p->experts, p->experts);
        json_matrix(w, "lift_lo", p->lo, p->experts, p->experts);
        json_matrix(w, "lift_hi", p->hi, p->experts, p->experts);
    }
    mf_jw_end(w);
}

static void json_labels(mf_jw *w, const mf_label_use *u, int32_t experts)
{
    mf_jw_key(w, "labels");
    mf_jw_object(w);
    json_numbers(w, "tokens", u->tokens, u->labels);
    json_matrix(w, "share", u->share, experts, u->labels);
    json_matrix(w, "share_lo", u->lo, experts, u->labels);
    json_matrix(w, "share_hi", u->hi, experts, u->labels);
    mf_jw_kv_real(w, "nmi", u->nmi);
    mf_jw_kv_real(w, "nmi_random", u->nmi_random);
    mf_jw_kv_real(w, "distance_to_oracle", u->distance);
    mf_jw_kv_real(w, "distance_lo", u->distance_lo);
    mf_jw_kv_real(w, "distance_hi", u->distance_hi);
    mf_jw_end(w);
}

static void json_words(mf_jw *w, const mf_expert_words *x, int32_t experts)
{
    mf_jw_key(w, "ids");
    mf_jw_object(w);
    mf_jw_kv_real(w, "top_expert_share", x->top_share);
    mf_jw_kv_real(w, "top_expert_share_shuffled", x->top_share_shuffled);
    mf_jw_kv_int(w, "least_tokens", MF_WORD_TOKENS);
    mf_jw_key(w, "experts");
    mf_jw_array(w);
    for (int32_t e = 0; e < experts; e++) {
        mf_jw_array(w);
        for (int32_t i = 0; i < x->n[e]; i++) {
            const mf_expert_word *word = &x->words[(int64_t)e * MF_WORDS + i];
            mf_jw_object(w);
            mf_jw_kv_int(w, "id", word->id);
            mf_jw_kv_string(w, "text", x->piece[(int64_t)e * MF_WORDS + i]);
            mf_jw_kv_int(w, "tokens", word->tokens);
            mf_jw_kv_real(w, "share", word->share);
            mf_jw_end(w);
        }
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

static void json_outputs(mf_jw *w, const mf_expert_outputs *o)
{
    mf_jw_key(w, "outputs");
    mf_jw_object(w);
    mf_jw_kv_int(w, "tokens", o->tokens);
    json_matrix(w, "mean_cosine", o->cosine, o->experts, o->experts);
    mf_jw_kv_real(w, "cosine_chance", o->cosine_chance);
    json_matrix(w, "cka", o->cka, o->experts, o->experts);
    mf_jw_kv_real(w, "cka_chance", o->cka_chance);
    mf_jw_kv_real(w, "layer_output_sd", o->sd);
    mf_jw_end(w);
}

static void json_layer(mf_jw *w, const mf_analysis *a, int i)
{
    const mf_analysis_layer *l = &a->layers[i];
    mf_jw_object(w);
    mf_jw_kv_int(w, "layer", l->layer);
    mf_jw_kv_int(w, "experts", l->experts);
    json_use(w, l);
    json_information(w, "by_id", &l->id);
    json_information(w, "by_next_id", &l->next);
    json_information(w, "by_position", &l->position);
    if (l->labels.labels > 0) json_information(w, "by_label", &l->labels.says);
    if (l->labels.labels > 0) json_labels(w, &l->labels, l->experts);
    json_pairs(w, &l->pairs);
    mf_jw_key(w, "saturation");
    mf_jw_array(w);
    for (int j = 0; j < a->n_then; j++) {
        mf_jw_object(w);
        mf_jw_kv_int(w, "step", l->then[j].step);
        mf_jw_kv_real(w, "overlap", l->then[j].overlap.value);
        mf_jw_kv_real(w, "overlap_lo", l->then[j].overlap.lo);
        mf_jw_kv_real(w, "overlap_hi", l->then[j].overlap.hi);
        mf_jw_kv_real(w, "chance", l->then[j].chance);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    json_numbers(w, "margin_quantiles", l->margin, 5);
    mf_jw_kv_real(w, "margin_below_bf16", l->close);
    json_words(w, &l->words, l->experts);
    if (l->outputs.tokens > 0) json_outputs(w, &l->outputs);
    if (l->moved)
        json_matrix(w, "next_layer_lift", l->moved, l->experts, a->layers[i + 1].experts);
    mf_jw_end(w);
}

int mf_analyze_print_json(const mf_analysis *a)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "run", a->run);
    mf_jw_kv_int(w, "step", a->step);
    mf_jw_kv_string(w, "text", a->text);
    mf_jw_kv_int(w, "batches", a->batches);
    mf_jw_kv_int(w, "tokens", a->tokens);
    mf_jw_kv_string(w, "clusters", a->routed.unit);
    mf_jw_kv_int(w, "n_clusters", a->routed.documents.n);
    mf_jw_kv_bool(w, "few_clusters", a->routed.documents.n < MF_FEW_DOCUMENTS);
    mf_jw_kv_real(w, "loss", a->loss);
    mf_jw_key(w, "labels");
    mf_jw_array(w);
    for (int32_t i = 0; i < a->routed.labels; i++)
        mf_jw_string(w, a->label_names[i]);
    mf_jw_end(w);
    mf_jw_key(w, "layers");
    mf_jw_array(w);
    for (int i = 0; i < a->n_layers; i++)
        json_layer(w, a, i);
    mf_jw_end(w);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}
