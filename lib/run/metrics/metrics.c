/* run/metrics/metrics.c: records of metrics.jsonl, as JSON and as text for people. NaN is
 * written as null, or not at all if the number is optional. Values whose name is NULL are
 * not written. */
#include "run/metrics/metrics.h"

#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mf_metrics_record_init(mf_metrics_record *r)
{
    *r = (mf_metrics_record){.split = "train"};
    r->loss = r->task_loss = r->lr = r->grad_norm = r->tokens_per_s = r->wall_s = NAN;
    r->ppl = r->ppl_batch_mean = r->bits_per_byte = r->accuracy = r->macro_f1 = r->floor = NAN;
    r->mse = r->pearson = r->spearman = NAN;
    r->train_loss = r->train_accuracy = r->gap_loss = r->gap_accuracy = NAN;
    r->dropped_per_token = r->reassigned = NAN;
    r->curve = (mf_metrics_curve){0, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
}

/* ---- records that compare ---- */

static bool is_val(const mf_metrics_record *r)
{
    return strcmp(r->split, "val") == 0;
}

bool mf_metrics_compares(int n, const mf_metrics_record *records, int i)
{
    const mf_metrics_record *r = &records[i], *other = NULL;
    bool last = true;
    if (!is_val(r) || r->curve.batches > 0) return true;
    for (int k = i + 1; k < n && last && r->batches == 0; k++)
        last = !is_val(&records[k]);
    if (r->batches > 0 ? !r->final : !last) return true;
    for (int k = i - 1; k >= 0 && !other; k--)
        if (is_val(&records[k])) other = &records[k];
    if (!other) return true;
    if (r->batches > 0 && other->batches > 0)
        return r->batches == (other->curve.batches > 0 ? other->curve.batches : other->batches);
    return r->tokens == other->tokens;
}

mf_metrics_record mf_metrics_like(const mf_metrics_record *r)
{
    mf_metrics_record out = *r;
    const mf_metrics_curve *c = &r->curve;
    if (c->batches == 0) return out;
    out.batches = c->batches;
    out.tokens = c->tokens;
    out.loss = c->loss;
    out.task_loss = c->task_loss;
    out.ppl = c->ppl;
    out.ppl_batch_mean = out.floor = out.dropped_per_token = out.reassigned = NAN;
    out.bits_per_byte = c->bits_per_byte;
    out.accuracy = c->accuracy;
    out.macro_f1 = c->macro_f1;
    out.mse = c->mse;
    out.pearson = c->pearson;
    out.spearman = c->spearman;
    out.gap_loss += c->loss - r->loss;
    out.gap_accuracy += r->accuracy - c->accuracy;
    out.n_layers = out.n_tasks = out.n_regularizers = out.n_head_layers = 0;
    return out;
}

int mf_metrics_best(int n, const mf_metrics_record *records)
{
    int best = -1, known = 0;
    double least = INFINITY;
    for (int i = 0; i < n; i++) {
        if (!is_val(&records[i]) || !mf_metrics_compares(n, records, i)) continue;
        const mf_metrics_record r = mf_metrics_like(&records[i]);
        const double x = !isnan(r.accuracy)    ? -r.accuracy
                         : !isnan(r.task_loss) ? r.task_loss
                                               : r.loss;
        if (isnan(x)) continue;
        known++;
        if (!(x < least)) continue;
        least = x;
        best = i;
    }
    return known > 1 ? best : -1;
}

/* ---- one record ---- */

static void put_if_known(mf_jw *w, const char *key, double value)
{
    if (!isnan(value)) mf_jw_kv_real(w, key, value);
}

static void put_values(mf_jw *w, const char *key, int n, const mf_named_value *values)
{
    mf_jw_key(w, key);
    mf_jw_object(w);
    for (int i = 0; i < n; i++)
        if (values[i].name != NULL) mf_jw_kv_real(w, values[i].name, values[i].value);
    mf_jw_end(w);
}

static void put_counts(mf_jw *w, const char *key, int n, const double *values)
{
    if (values == NULL) return;
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int i = 0; i < n; i++)
        mf_jw_real(w, values[i]);
    mf_jw_end(w);
}

static void put_floats(mf_jw *w, const char *key, int n, const float *values)
{
    if (values == NULL) return;
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int i = 0; i < n; i++)
        mf_jw_float(w, values[i]);
    mf_jw_end(w);
}

double mf_from_even(int n, const float *share, bool kl)
{
    double d = 0, sum = 0;
    for (int i = 0; share != NULL && i < n; i++) {
        const double u = share[i], off = u - 1.0 / n;
        sum += u;
        d += !kl ? off * off : u > 0 ? u * log(u * n) : 0;
    }
    if (kl && d < 0) d = 0; /* rounding can make it slightly negative */
    return sum > 0 ? (kl ? d : sqrt(d)) : (double)NAN;
}

static void put_layer(mf_jw *w, const mf_layer_stats *s)
{
    mf_jw_object(w);
    mf_jw_kv_int(w, "layer", s->layer);
    mf_jw_kv_real(w, "entropy", s->entropy);
    mf_jw_kv_real(w, "load_entropy", s->load_entropy);
    put_if_known(w, "gate_entropy", s->gate_entropy);
    mf_jw_kv_real(w, "top_prob", s->top_prob);
    put_if_known(w, "max_prob", s->max_prob);
    put_floats(w, "load", s->experts, s->load);
    put_counts(w, "count", s->experts, s->count);
    put_floats(w, "demand", s->experts, s->demand);
    put_floats(w, "importance", s->experts, s->importance);
    put_floats(w, "prob_sum", s->experts, s->prob_sum);
    put_if_known(w, "balance_l2", mf_from_even(s->experts, s->importance, false));
    put_if_known(w, "balance_kl", mf_from_even(s->experts, s->importance, true));
    mf_jw_kv_real(w, "load_cv", s->load_cv);
    mf_jw_kv_real(w, "drop_rate", s->drop_rate);
    mf_jw_kv_real(w, "reassigned", s->reassigned);
    mf_jw_kv_int(w, "empty", s->empty);
    put_if_known(w, "nmi", s->nmi);
    mf_jw_end(w);
}

static void put_head_layer(mf_jw *w, const mf_head_stats *s)
{
    mf_jw_object(w);
    mf_jw_kv_int(w, "layer", s->layer);
    put_floats(w, "gate", s->heads, s->gate);
    put_floats(w, "active", s->heads, s->active);
    put_floats(w, "entropy", s->heads, s->entropy);
    put_floats(w, "grad_norm", s->heads, s->grad_norm);
    put_floats(w, "importance", s->heads, s->importance);
    mf_jw_end(w);
}

static void put_heads(mf_jw *w, const mf_metrics_record *r)
{
    mf_jw_key(w, "heads");
    mf_jw_object(w);
    mf_jw_kv_int(w, "active", r->heads_active);
    mf_jw_kv_int(w, "total", r->heads_total);
    if (r->n_head_layers > 0) {
        mf_jw_key(w, "layers");
        mf_jw_array(w);
        for (int i = 0; i < r->n_head_layers; i++)
            put_head_layer(w, (const mf_head_stats *)((const char *)r->heads +
                                                      (size_t)i * r->heads[0].size));
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

/* ---- efficiency ---- */

double mf_metrics_efficiency(const mf_metrics_record *r)
{
    return r->params_active > 0 ? 1e6 / (r->ppl * (double)r->params_active) : (double)NAN;
}

double mf_metrics_head_efficiency(const mf_metrics_record *r)
{
    return r->heads_total > 0 && r->heads_active > 0 ? 1 / (r->ppl * (double)r->heads_active)
                                                     : (double)NAN;
}

static void put_efficiency(mf_jw *w, const mf_metrics_record *r)
{
    const bool heads = r->heads_total > 0 && r->heads_active > 0;
    mf_jw_key(w, "efficiency");
    mf_jw_object(w);
    mf_jw_kv_int(w, "params_active", r->params_active);
    mf_jw_kv_real(w, "ppl_per_mparam", r->ppl / (double)r->params_active * 1e6);
    mf_jw_kv_real(w, "parameter_efficiency", mf_metrics_efficiency(r));
    if (heads) {
        mf_jw_kv_real(w, "ppl_per_head", r->ppl / (double)r->heads_active);
        mf_jw_kv_real(w, "head_efficiency", mf_metrics_head_efficiency(r));
    }
    mf_jw_end(w);
}

static void put_controllers(mf_jw *w, const mf_metrics_record *r)
{
    mf_jw_key(w, "controllers");
    mf_jw_object(w);
    for (int i = 0; i < r->n_controllers; i++)
        put_values(w, r->controllers[i].name, r->controllers[i].n, r->controllers[i].values);
    mf_jw_end(w);
}

static void put_turns(mf_jw *w, const mf_metrics_record *r)
{
    mf_jw_key(w, "turns");
    mf_jw_array(w);
    for (int i = 0; i < r->n_turns; i++) {
        const mf_change *t = &r->turns[i];
        mf_jw_object(w);
        mf_jw_kv_int(w, "step", t->step);
        mf_jw_kv_string(w, "option", t->option);
        mf_jw_kv_real(w, "from", t->from);
        mf_jw_kv_real(w, "to", t->to);
        mf_jw_kv_string(w, "by", t->by != NULL ? t->by : "");
        mf_jw_kv_string(w, "reason", t->reason != NULL ? t->reason : "");
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void put_numbers(mf_jw *w, double mse, double pearson, double spearman)
{
    put_if_known(w, "mse", mse);
    put_if_known(w, "rmse", sqrt(mse));
    put_if_known(w, "pearson", pearson);
    put_if_known(w, "spearman", spearman);
}

static void put_tasks(mf_jw *w, const mf_metrics_record *r)
{
    mf_jw_key(w, "tasks");
    mf_jw_object(w);
    for (int i = 0; i < r->n_tasks; i++) {
        const mf_task_score *t = &r->tasks[i];
        mf_jw_key(w, t->name);
        mf_jw_object(w);
        mf_jw_kv_string(w, "task", t->number ? "regress" : "classify");
        mf_jw_kv_real(w, "weight", t->weight);
        mf_jw_kv_real(w, "loss", t->loss);
        mf_jw_kv_int(w, "rows", t->rows);
        put_if_known(w, "accuracy", t->accuracy);
        put_if_known(w, "macro_f1", t->macro_f1);
        put_numbers(w, t->mse, t->pearson, t->spearman);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

/* Uses flat keys. Therefore a search for "task_loss" finds only one key in a line. */
static void put_curve(mf_jw *w, const mf_metrics_curve *c)
{
    mf_jw_kv_int(w, "curve_batches", c->batches);
    mf_jw_kv_int(w, "curve_tokens", c->tokens);
    mf_jw_kv_real(w, "curve_loss", c->loss);
    mf_jw_kv_real(w, "curve_task_loss", c->task_loss);
    put_if_known(w, "curve_ppl", c->ppl);
    put_if_known(w, "curve_bits_per_byte", c->bits_per_byte);
    put_if_known(w, "curve_accuracy", c->accuracy);
    put_if_known(w, "curve_macro_f1", c->macro_f1);
    put_if_known(w, "curve_mse", c->mse);
    put_if_known(w, "curve_rmse", sqrt(c->mse));
    put_if_known(w, "curve_pearson", c->pearson);
    put_if_known(w, "curve_spearman", c->spearman);
}

void mf_metrics_json(mf_jw *w, const mf_metrics_record *r)
{
    mf_jw_object(w);
    mf_jw_kv_int(w, "step", r->step);
    mf_jw_kv_string(w, "split", r->split);
    if (r->dtype) mf_jw_kv_string(w, "dtype", r->dtype);
    mf_jw_kv_real(w, "loss", r->loss);
    mf_jw_kv_real(w, "task_loss", r->task_loss);
    mf_jw_kv_real(w, "lr", r->lr);
    mf_jw_kv_real(w, "grad_norm", r->grad_norm);
    mf_jw_kv_int(w, "tokens", r->tokens);
    if (r->batches > 0) mf_jw_kv_int(w, "batches", r->batches);
    if (r->final) mf_jw_kv_bool(w, "final", true);
    mf_jw_kv_real(w, "tokens_per_s", r->tokens_per_s);
    mf_jw_kv_real(w, "wall_s", r->wall_s);
    put_if_known(w, "ppl", r->ppl);
    put_if_known(w, "ppl_batch_mean", r->ppl_batch_mean);
    put_if_known(w, "bits_per_byte", r->bits_per_byte);
    put_if_known(w, "accuracy", r->accuracy);
    put_if_known(w, "macro_f1", r->macro_f1);
    put_numbers(w, r->mse, r->pearson, r->spearman);
    put_if_known(w, "train_loss", r->train_loss);
    put_if_known(w, "train_accuracy", r->train_accuracy);
    put_if_known(w, "gap_loss", r->gap_loss);
    put_if_known(w, "gap_accuracy", r->gap_accuracy);
    put_if_known(w, "dropped_per_token", r->dropped_per_token);
    put_if_known(w, "reassigned", r->reassigned);
    put_if_known(w, "floor", r->floor);
    if (r->curve.batches > 0) put_curve(w, &r->curve);
    if (r->n_tasks > 0) put_tasks(w, r);
    put_values(w, "regularizers", r->n_regularizers, r->regularizers);
    put_controllers(w, r);
    mf_jw_key(w, "moe");
    mf_jw_array(w);
    for (int i = 0; i < r->n_layers; i++)
        put_layer(w, (const mf_layer_stats *)((const char *)r->layers +
                                              (size_t)i * r->layers[0].size));
    mf_jw_end(w);
    if (r->n_metrics > 0) put_values(w, "plugin_metrics", r->n_metrics, r->metrics);
    if (r->n_turns > 0) put_turns(w, r);
    if (r->heads_total > 0) put_heads(w, r);
    if (r->params_active > 0 && !isnan(r->ppl)) put_efficiency(w, r);
    mf_jw_end(w);
}

/* ---- text for people ---- */

MF_PRINTF(3, 4)
static void append(char *out, size_t size, const char *fmt, ...)
{
    const size_t n = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + n, size - n, fmt, args);
    va_end(args);
}

static void append_score(char *out, size_t size, const mf_task_score *t)
{
    if (!isnan(t->accuracy))
        append(out, size, "accuracy %.4f, macro F1 %.4f", t->accuracy, t->macro_f1);
    if (!isnan(t->mse)) append(out, size, "RMSE %.4f", sqrt(t->mse));
    if (!isnan(t->pearson))
        append(out, size, ", Pearson %.4f, Spearman %.4f", t->pearson, t->spearman);
}

mf_task_score mf_metrics_one_task(const mf_metrics_record *r)
{
    return (mf_task_score){.accuracy = r->accuracy,
                           .macro_f1 = r->macro_f1,
                           .mse = r->mse,
                           .pearson = r->pearson,
                           .spearman = r->spearman};
}

const char *mf_metrics_predictions(const mf_metrics_record *r, char *out, size_t size)
{
    const mf_task_score one = mf_metrics_one_task(r);
    out[0] = '\0';
    if (r->n_tasks == 0) append_score(out, size, &one);
    for (int i = 0; i < r->n_tasks; i++) {
        append(out, size, "%s%s: ", i > 0 ? "; " : "", r->tasks[i].name);
        append_score(out, size, &r->tasks[i]);
    }
    return out;
}

int mf_metrics_put(mf_step_file *log, const mf_metrics_record *r)
{
    mf_metrics_json(mf_step_file_line(log), r);
    return mf_step_file_put(log);
}
