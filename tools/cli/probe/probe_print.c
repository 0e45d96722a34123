/* Prints the tables of a probe: a table for each kind of change, in the order of layers, then
 * which experts matter, are redundant, or hurt. */
#include "cli/probe/probe_print.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/text/shown.h"
#include "base/text/wrap.h"
#include "cli/table.h"
#include "report/terminal/terminal.h"

#define FEW    20 /* with fewer clusters, 95 % intervals cover less (lab/probe/cluster.h) */
#define LISTED 12

static const char *meaning_of(mf_probe_kind k)
{
    switch (k) {
    case MF_PROBE_NEXT:
        return "removal (next): the next choice comes in, as if the expert did not exist";
    case MF_PROBE_DROP:
        return "removal (drop): the expert's output is 0, the other gates stay";
    case MF_PROBE_EXCHANGE:
        return "exchange: what is routed to one expert is computed by the other";
    case MF_PROBE_FORCE:
        return "forced: all tokens choose among the named experts";
    case MF_PROBE_RANK:
        return "ranks: a choice of each token is replaced by its choice k + 1";
    case MF_PROBE_BIAS:
        return "bias: added to the score of the expert, for selection only";
    case MF_PROBE_TOP_K:
        return "another k: gates are as moe.renormalize says for this k";
    case MF_PROBE_KINDS:
        break;
    }
    return "";
}

const char *const *mf_probe_label_names(const mf_session *s, const mf_probe_report *r)
{
    const mf_corpus *c = s->corpus;
    const bool by_row = mf_task_by_row(s->config->model.task);
    return by_row && c && c->n_classes == r->labels ? (const char *const *)c->classes : NULL;
}

/* ---- JSON ---- */

static void put_mean(mf_jw *w, const char *key, const mf_cluster_mean *m)
{
    mf_jw_key(w, key);
    mf_jw_object(w);
    mf_jw_kv_real(w, "mean", m->mean);
    mf_jw_kv_real(w, "stderr", m->se);
    mf_jw_kv_real(w, "lo", m->lo);
    mf_jw_kv_real(w, "hi", m->hi);
    mf_jw_kv_real(w, "count", m->tokens);
    mf_jw_kv_int(w, "clusters", m->clusters);
    mf_jw_end(w);
}

static void put_row(mf_jw *w, const mf_session *s, const mf_probe_report *r,
                    const mf_probe_row *row)
{
    const mf_probe_change *c = row->change;
    const mf_moe_layer *l = &s->model->moe[c->at];
    mf_jw_object(w);
    mf_jw_kv_string(w, "kind", mf_probe_kinds[c->kind]);
    mf_jw_kv_string(w, "name", c->name);
    mf_jw_kv_int(w, "layer", l->layer);
    mf_jw_key(w, "experts");
    mf_jw_array(w);
    for (int64_t e = 0; e < l->config.experts; e++)
        if (c->set[e]) mf_jw_int(w, e);
    mf_jw_end(w);
    if (c->kind == MF_PROBE_RANK) mf_jw_kv_int(w, "rank", c->a);
    if (c->kind == MF_PROBE_TOP_K) mf_jw_kv_int(w, "top_k", c->a);
    if (c->kind == MF_PROBE_BIAS) mf_jw_kv_real(w, "bias", c->d);
    mf_jw_kv_real(w, "share", row->share);
    put_mean(w, "change", &row->all);
    mf_jw_kv_real(w, "p", row->p);
    mf_jw_kv_string(w, "verdict", mf_probe_verdicts[row->verdict]);
    for (int32_t i = 0; i < r->labels; i++) {
        if (i == 0) mf_jw_key(w, "labels");
        if (i == 0) mf_jw_array(w);
        mf_jw_object(w);
        mf_jw_kv_int(w, "label", i);
        if (mf_probe_label_names(s, r))
            mf_jw_kv_string(w, "name", mf_probe_label_names(s, r)[i]);
        put_mean(w, "change", &row->label[i]);
        mf_jw_kv_string(w, "verdict", mf_probe_verdicts[row->label_verdict[i]]);
        mf_jw_end(w);
    }
    if (r->labels > 0) mf_jw_end(w);
    mf_jw_end(w);
}

static int print_json(const mf_session *s, const mf_probe_report *r, const mf_probe_options *o)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "split", mf_split_name(o->split));
    mf_jw_kv_string(w, "text", r->text);
    mf_jw_kv_int(w, "step", o->step);
    mf_jw_kv_int(w, "batches", r->batches);
    mf_jw_kv_int(w, "draw", (int64_t)o->draw);
    mf_jw_kv_string(w, "clusters_are", r->unit);
    mf_jw_kv_string(w, "loss_of", r->loss_of);
    put_mean(w, "loss", &r->base);
    mf_jw_kv_real(w, "margin", o->margin);
    mf_jw_key(w, "rows");
    mf_jw_array(w);
    for (int i = 0; i < r->n; i++)
        put_row(w, s, r, &r->row[i]);
    mf_jw_end(w);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

/* ---- text ---- */

static int put(mf_table *t, int column, const char *fmt, ...) MF_PRINTF(3, 4);
static int put(mf_table *t, int column, const char *fmt, ...)
{
    char text[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mf_table_put(t, column, text);
}

static int print_width(void)
{
    const mf_terminal t = mf_terminal_of(stdout);
    return mf_terminal_columns(&t);
}

/* The verdict, and the labels for which the change matters if these are not all labels. */
static int put_verdict(mf_table *t, const mf_session *s, const mf_probe_report *r,
                       const mf_probe_row *x)
{
    const char *const *names = mf_probe_label_names(s, r);
    mf_line line = {0};
    int of = 0, all = 0;
    for (int32_t l = 0; l < r->labels; l++) {
        all += x->label[l].clusters > 0;
        of += x->label_verdict[l] == MF_PROBE_MATTERS;
    }
    mf_line_add(&line, "%s", mf_probe_verdicts[x->verdict]);
    for (int32_t l = 0, n = 0; of > 0 && of < all && l < r->labels; l++) {
        if (x->label_verdict[l] != MF_PROBE_MATTERS) continue;
        mf_line_add(&line, n++ == 0 ? "; for " : ", ");
        if (names)
            mf_line_add(&line, "%.20s", mf_shown(names[l]));
        else
            mf_line_add(&line, "%d", (int)l);
    }
    return mf_table_put(t, 4, line.text);
}

static int print_rows(const mf_session *s, const mf_probe_report *r, mf_probe_kind kind)
{
    static const char *const heads[] = {"expert", "share", "change", "95 % interval",
                                        "verdict"};
    mf_table t;
    int rc = mf_table_start(&t, 5);
    if (rc == MF_OK) rc = mf_table_row(&t);
    for (int i = 0; rc == MF_OK && i < 5; i++)
        rc = mf_table_put(&t, i, heads[i]);
    for (int i = 0; rc == MF_OK && i < r->n; i++) {
        const mf_probe_row *x = &r->row[i];
        if (x->change->kind != kind) continue;
        rc = mf_table_row(&t);
        if (rc == MF_OK) rc = put(&t, 0, "%s", x->change->name);
        if (rc == MF_OK && x->share == x->share) rc = put(&t, 1, "%.3f", x->share);
        if (rc == MF_OK) rc = put(&t, 2, "%+.4f", x->all.mean);
        if (rc == MF_OK && x->all.lo == x->all.lo)
            rc = put(&t, 3, "%+.4f to %+.4f", x->all.lo, x->all.hi);
        if (rc == MF_OK) rc = put_verdict(&t, s, r, x);
    }
    if (rc == MF_OK) mf_table_print(&t, print_width());
    mf_table_clear(&t);
    return rc;
}

/* Change +- half of its interval, for each label. */
static int print_labels(const mf_session *s, const mf_probe_report *r, mf_probe_kind kind)
{
    const char *const *names = mf_probe_label_names(s, r);
    mf_table t;
    int rc = mf_table_start(&t, 1 + r->labels);
    if (rc == MF_OK) rc = mf_table_row(&t);
    if (rc == MF_OK) rc = mf_table_put(&t, 0, "expert");
    for (int32_t l = 0; rc == MF_OK && l < r->labels; l++)
        rc = names ? put(&t, 1 + l, "%.20s", mf_shown(names[l]))
                   : put(&t, 1 + l, "label %d", (int)l);
    for (int i = 0; rc == MF_OK && i < r->n; i++) {
        const mf_probe_row *x = &r->row[i];
        if (x->change->kind != kind) continue;
        rc = mf_table_row(&t);
        if (rc == MF_OK) rc = put(&t, 0, "%s", x->change->name);
        for (int32_t l = 0; rc == MF_OK && l < r->labels; l++) {
            const mf_cluster_mean *m = &x->label[l];
            if (m->clusters >= 2)
                rc = put(&t, 1 + l, "%+.3f+-%.3f", m->mean, (m->hi - m->lo) / 2);
            else if (m->clusters == 1)
                rc = put(&t, 1 + l, "%+.3f", m->mean);
        }
    }
    if (rc == MF_OK) puts("By label: change, and half of its 95 % interval.");
    if (rc == MF_OK) mf_table_print(&t, print_width());
    mf_table_clear(&t);
    return rc;
}

static int by_change(const void *a, const void *b)
{
    const double x = (*(const mf_probe_row *const *)a)->all.mean,
                 y = (*(const mf_probe_row *const *)b)->all.mean;
    return (x < y) - (x > y);
}

/* Names the rows with a verdict, the largest change first, or for HURTS the smallest. */
static void name_rows(const mf_probe_row *const *row, int n, mf_probe_verdict v,
                      const char *words)
{
    mf_line line = {0};
    int found = 0, listed = 0;
    for (int i = 0; i < n; i++)
        found += row[i]->verdict == v;
    if (found == 0) return;
    mf_line_add(&line, "%s: %d of %d", words, found, n);
    for (int i = 0; i < n; i++) {
        const mf_probe_row *x = row[v == MF_PROBE_MATTERS ? i : n - 1 - i];
        if (x->verdict != v) continue;
        if (listed++ == LISTED) mf_line_add(&line, ", ...");
        if (listed > LISTED) break;
        mf_line_add(&line, "%s %s (%+.4f)", listed == 1 ? ":" : ",", x->change->name,
                    x->all.mean);
    }
    mf_wrap_line(stdout, 2, "%s", line.text);
}

static int print_sum(const mf_probe_report *r, const mf_probe_options *o)
{
    char words[64];
    const mf_probe_row **row = mf_arena_alloc(r->arena, ((size_t)r->n + 1) * sizeof *row);
    if (!row) return MF_ENOMEM;
    for (int i = 0; i < r->n; i++)
        row[i] = &r->row[i];
    qsort(row, (size_t)r->n, sizeof *row, by_change);
    name_rows(row, r->n, MF_PROBE_MATTERS, "matter");
    snprintf(words, sizeof words, "redundant within %g nats", o->margin);
    name_rows(row, r->n, MF_PROBE_REDUNDANT, words);
    name_rows(row, r->n, MF_PROBE_HURTS, "hurt (the loss is lower without them)");
    return MF_OK;
}

static int print_text(const mf_session *s, const mf_probe_report *r, const mf_probe_options *o)
{
    mf_line line = {0};
    int rc = MF_OK;
    mf_line_add(&line, "%s of %s after %lld steps: loss %.4f nats/%s", mf_split_name(o->split),
                mf_shown_on(stdout, r->text), (long long)o->step, r->base.mean, r->loss_of);
    if (r->base.lo == r->base.lo) mf_line_add(&line, " +- %.4f", (r->base.hi - r->base.lo) / 2);
    mf_line_add(&line, "; %.0f %ss in %lld %s", r->base.tokens, r->loss_of,
                (long long)r->base.clusters, r->unit);
    if (r->batches < r->of)
        mf_line_add(&line, "; %lld of %lld batches, draw %lld", (long long)r->batches,
                    (long long)r->of, (long long)o->draw);
    mf_wrap_line(stdout, 2, "%s", line.text);
    mf_wrap_line(stdout, 2,
                 "Changes of the loss in nats/%s, on the same %ss; intervals over %s; verdicts "
                 "against %g nats, Holm over %d rows.",
                 r->loss_of, r->loss_of, r->unit, o->margin, r->n);
    for (int k = 0; rc == MF_OK && k < MF_PROBE_KINDS; k++) {
        bool any = false;
        for (int i = 0; i < r->n; i++)
            any = any || (int)r->row[i].change->kind == k;
        if (!any) continue;
        mf_wrap_line(stdout, 2, "%s", meaning_of((mf_probe_kind)k));
        rc = print_rows(s, r, (mf_probe_kind)k);
        if (rc == MF_OK && r->labels > 0) rc = print_labels(s, r, (mf_probe_kind)k);
    }
    return rc == MF_OK ? print_sum(r, o) : rc;
}

int mf_probe_print(const mf_cli *cli, const mf_session *s, const mf_probe_report *r,
                   const mf_probe_options *o)
{
    if (r->base.clusters < FEW)
        mf_log(MF_LOG_WARN,
               "only %lld %s: intervals over fewer than %d are too short; --batches 0 measures "
               "all",
               (long long)r->base.clusters, r->unit, FEW);
    return mf_cli_json(cli) ? print_json(s, r, o) : print_text(s, r, o);
}
