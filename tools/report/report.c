/* Writes report.html: title, key figures, sections, and the commands that repeat the run. If
 * memory runs out, no page is written. If a file other than metrics.jsonl is missing, its
 * content is omitted. */
#include "report/report.h"

#include "base/file/io.h"
#include "report/compare/compare.h"
#include "report/page/report_curves.h"
#include "report/page/report_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNS 64

const char *mf_report_strf(const mf_report *p, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *copy = mf_arena_strdup(p->arena, text);
    return copy ? copy : "";
}

const char *mf_report_num(const mf_report *p, int digits, double v)
{
    return isnan(v) ? "-" : mf_report_strf(p, "%.*g", digits, v);
}

const char *mf_report_count(const mf_report *p, double n)
{
    if (isnan(n)) return "-";
    if (n >= 1e9) return mf_report_strf(p, "%.2f G", n / 1e9);
    if (n >= 1e6) return mf_report_strf(p, "%.2f M", n / 1e6);
    return n >= 1e4 ? mf_report_strf(p, "%.1f k", n / 1e3) : mf_report_strf(p, "%.0f", n);
}

static bool has_layers(const mf_report *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->runs[i]->n_layers > 0) return true;
    return false;
}

/* ---- key figures ---- */

/* Mean over the layers in the last record that has layers; NaN if no record has any. */
static double mean_of_layers(const mf_report_run *r, double (*of)(const mf_layer_stats *s))
{
    for (int i = r->history->n - 1; i >= 0; i--) {
        const mf_metrics_record *m = &r->history->records[i];
        double sum = 0;
        for (int l = 0; l < m->n_layers; l++)
            sum += of(&m->layers[l]);
        if (m->n_layers > 0) return sum / m->n_layers;
    }
    return NAN;
}

static double load_cv(const mf_layer_stats *s)
{
    return s->load_cv;
}

static double drop_rate(const mf_layer_stats *s)
{
    return s->drop_rate;
}

/* The highest NMI of any layer, and the NMI of the same layer under random routing; NaN:
 * not known. */
static double best_nmi(const mf_report_run *r, double *ret_random)
{
    double best = NAN;
    *ret_random = NAN;
    for (int i = 0; r->sample && i < r->sample->n_layers; i++)
        if (!isnan(r->sample->layers[i].nmi) && !(r->sample->layers[i].nmi <= best)) {
            best = r->sample->layers[i].nmi;
            *ret_random = r->sample->layers[i].nmi_random;
        }
    const mf_metrics_record *val = mf_report_last(r, "val");
    for (int i = 0; isnan(*ret_random) && val && i < val->n_layers; i++)
        if (!isnan(val->layers[i].nmi) && !(val->layers[i].nmi <= best))
            best = val->layers[i].nmi;
    return best;
}

static double loss_of(const mf_metrics_record *m)
{
    return !m ? NAN : isnan(m->task_loss) ? m->loss : m->task_loss;
}

/* Mean speed of the whole run, in tokens per second, without the time of evaluations. Each
 * record contains the mean speed since the record before. */
static double mean_speed(const mf_report_run *r)
{
    double tokens = 0, seconds = 0;
    int64_t before = 0;
    for (int i = 0; i < r->history->n; i++) {
        const mf_metrics_record *m = &r->history->records[i];
        if (strcmp(m->split, "train") != 0) continue;
        if (m->tokens > before && m->tokens_per_s > 0) {
            tokens += (double)(m->tokens - before);
            seconds += (double)(m->tokens - before) / m->tokens_per_s;
        }
        before = m->tokens;
    }
    return seconds > 0 ? tokens / seconds : (double)NAN;
}

static const char *against_floor(const mf_report *p, const mf_report_run *r, double loss)
{
    const char *tokenizer = mf_report_config(r, "data", "tokenizer", "byte");
    if (isnan(loss) || isnan(r->floor) || r->floor <= 0)
        return strcmp(mf_report_loss_unit(r), "nats/token") == 0
                   ? mf_report_strf(p, "nats/token, tokenizer %s", tokenizer)
                   : mf_report_loss_unit(r);
    return mf_report_strf(p, "nats; %.3f x the floor of %.4f", loss / r->floor, r->floor);
}

/* Writes a card with the seconds of an epoch, of a run that is validated after each. */
static void epoch_card(const mf_report *p, const mf_report_run *r)
{
    double training, validation;
    mf_report_seconds(r, &training, &validation);
    if (isnan(training) || !mf_report_by_epoch(r)) return;
    mf_html_card(
        p->d, mf_report_strf(p, "%s s", mf_report_num(p, 3, training)), "an epoch",
        mf_report_strf(p, "its validation: %s s; medians", mf_report_num(p, 3, validation)));
}

/* Writes a card with the best validation if that was not the last one. The number of batches is
 * named, because the validation at the end used more. */
static void best_card(const mf_report *p, const mf_report_run *r)
{
    const mf_metrics_history *h = r->history;
    const int best = mf_metrics_best(h->n, h->records);
    if (best < 0) return;
    const mf_metrics_record m = mf_metrics_like(&h->records[best]);
    const char *over = m.batches > 0 ? mf_report_strf(p, ", over the %lld batches of each",
                                                      (long long)m.batches)
                                     : "";
    mf_html_card(p->d, mf_report_strf(p, "%lld", (long long)m.step),
                 "step of the best validation",
                 !isnan(m.accuracy)
                     ? mf_report_strf(p, "accuracy %s%s", mf_report_num(p, 4, m.accuracy), over)
                     : mf_report_strf(p, "loss %s%s", mf_report_num(p, 5, loss_of(&m)), over));
}

static void cards(const mf_report *p)
{
    const mf_report_run *r = p->runs[0];
    const mf_metrics_record *val = mf_report_last(r, "val"),
                            *train = mf_report_last(r, "train");
    const double loss = loss_of(val);
    const double active = val && val->params_active > 0
                              ? (double)val->params_active
                              : mf_report_manifest_number(r, "params_active");
    double random, nmi = best_nmi(r, &random);
    mf_html_cards(p->d);
    if (val)
        mf_html_card(p->d, mf_report_num(p, 5, loss), "validation loss",
                     against_floor(p, r, loss));
    else
        mf_html_card(p->d, mf_report_num(p, 5, loss_of(train)), "training loss",
                     mf_report_strf(p, "%s; not validated", mf_report_loss_unit(r)));
    if (val && !isnan(val->accuracy))
        mf_html_card(p->d, mf_report_num(p, 4, val->accuracy), "accuracy",
                     mf_report_strf(p, "macro F1 %s", mf_report_num(p, 4, val->macro_f1)));
    else if (val && !isnan(val->mse))
        mf_html_card(
            p->d, mf_report_num(p, 4, val->pearson), "Pearson's r of predictions and labels",
            mf_report_strf(p, "Spearman %s, RMSE %s", mf_report_num(p, 4, val->spearman),
                           mf_report_num(p, 4, sqrt(val->mse))));
    else if (val && !isnan(val->bits_per_byte))
        mf_html_card(p->d, mf_report_num(p, 4, val->bits_per_byte), "bits/byte",
                     mf_report_strf(p, "perplexity %s a token", mf_report_num(p, 4, val->ppl)));
    else if (val && !isnan(val->ppl))
        mf_html_card(p->d, mf_report_num(p, 4, val->ppl), "perplexity", "a token");
    if (val) best_card(p, r);
    if (!isnan(nmi)) {
        const char *part = mf_report_strf(p, "%.2g %% of what is possible", 100 * nmi);
        mf_html_card(p->d, mf_report_num(p, 3, nmi), "NMI(expert, label), best layer",
                     isnan(random) ? part
                                   : mf_report_strf(p, "%s; random routing: %s", part,
                                                    mf_report_num(p, 2, random)));
    }
    if (r->n_layers > 0)
        mf_html_card(p->d, mf_report_num(p, 3, mean_of_layers(r, load_cv)),
                     "load imbalance (CV)",
                     mf_report_strf(p, "drop rate %s",
                                    mf_report_num(p, 3, mean_of_layers(r, drop_rate))));
    mf_html_card(p->d, mf_report_count(p, mean_speed(r)), "tokens/s",
                 train ? mf_report_strf(p, "step %lld, %s tokens%s", (long long)train->step,
                                        mf_report_count(p, (double)train->tokens),
                                        isnan(train->wall_s)
                                            ? ""
                                            : mf_report_strf(p, ", %.0f s", train->wall_s))
                       : NULL);
    epoch_card(p, r);
    if (!isnan(active))
        mf_html_card(
            p->d, mf_report_count(p, mf_report_manifest_number(r, "params")), "parameters",
            mf_report_strf(
                p, "%s active a token%s", mf_report_count(p, active),
                val && val->heads_active < val->heads_total ? ", without pruned heads" : ""));
    if (val && val->heads_total > 0 && val->params_active > 0)
        mf_html_card(p->d, mf_report_num(p, 3, mf_metrics_efficiency(val)),
                     "parameter efficiency",
                     mf_report_strf(p, "1 / perplexity for each million of %s; a head: %s",
                                    mf_report_count(p, (double)val->params_active),
                                    mf_report_num(p, 3, mf_metrics_head_efficiency(val))));
    mf_html_cards_end(p->d);
}

/* Whether no block has experts, regardless of [router] and [expert]. */
static bool is_dense(const mf_report_run *r)
{
    const int layers = atoi(mf_report_config(r, "model", "layers", "1"));
    for (int l = 0; l < layers; l++)
        if (mf_report_has_experts(r, l)) return false;
    return true;
}

static void table_of_runs(const mf_report *p)
{
    static const char *const head[] = {"run",  "router",          "seed",      "parameters",
                                       "step", "validation loss", "bits/byte", "x floor",
                                       "NMI",  "load CV",         "drop rate", "tokens/s"};
    static const char align[] = "llrrrrrrrrrr";
    mf_html_section(p->d, "runs", "Runs");
    mf_html_table(p->d, align, head);
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const mf_metrics_record *val = mf_report_last(r, "val"),
                                *train = mf_report_last(r, "train");
        const double loss = loss_of(val);
        double random, nmi = best_nmi(r, &random);
        const char *const cells[] = {r->name,
                                     is_dense(r) ? "-" : mf_report_plugin(r, "router", "-"),
                                     mf_report_config(r, "train", "seed", "-"),
                                     mf_report_count(p, mf_report_manifest_number(r, "params")),
                                     train ? mf_report_strf(p, "%lld", (long long)train->step)
                                           : "-",
                                     mf_report_num(p, 5, loss),
                                     mf_report_num(p, 4, val ? val->bits_per_byte : NAN),
                                     mf_report_num(p, 4, r->floor > 0 ? loss / r->floor : NAN),
                                     mf_report_num(p, 3, nmi),
                                     mf_report_num(p, 3, mean_of_layers(r, load_cv)),
                                     mf_report_num(p, 3, mean_of_layers(r, drop_rate)),
                                     mf_report_count(p, mean_speed(r))};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    if (mf_report_by_bits(p))
        mf_html_paragraph(p->d, "The runs have different tokenizers: compare bits/byte, not "
                                "the losses, which are per token.");
    mf_html_section_end(p->d);
}

/* ---- how to repeat ---- */

static void commands(const mf_report *p)
{
    mf_doc *text = mf_doc_new();
    if (!text) return;
    for (int i = 0; i < p->n; i++) {
        mf_doc_put(text, "moefw train ");
        mf_doc_put_path(text, mf_report_strf(p, "%s/config.ini", p->runs[i]->dir));
        mf_doc_put(text, "\n");
    }
    mf_doc_put(text, "moefw report");
    for (int i = 0; i < p->n; i++) {
        mf_doc_put(text, " ");
        mf_doc_put_path(text, p->runs[i]->dir);
    }
    if (mf_doc_string(text, NULL)) mf_html_code(p->d, mf_doc_string(text, NULL));
    mf_doc_free(text);
}

static void print_repeat(const mf_report *p)
{
    mf_html_section(p->d, "repeat", "How to repeat");
    mf_html_paragraph(p->d, "config.ini holds every key, resolved. On the same machine the run "
                            "comes out the same, bit for bit.");
    commands(p);
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const char *of = p->n > 1 ? mf_report_strf(p, " of %s", r->name) : "";
        if (r->config_text)
            mf_html_details(p->d, mf_report_strf(p, "config.ini%s", of), r->config_text);
        if (r->manifest_text)
            mf_html_details(p->d, mf_report_strf(p, "manifest.json%s", of), r->manifest_text);
        for (int k = 0; k < r->n_notes; k++)
            if (r->notes[k])
                mf_html_paragraph(p->d, mf_report_strf(p, "Note: %s.", r->notes[k]));
    }
    mf_html_section_end(p->d);
}

/* ---- the page ---- */

static const char *subtitle(const mf_report *p)
{
    const mf_report_run *r = p->runs[0];
    if (p->n > 1) return mf_report_strf(p, "%d runs", p->n);
    if (!r->config) return "";
    const char *experts = mf_report_strf(
        p, "router %s, expert %s, %s experts, top %s", mf_report_plugin(r, "router", "?"),
        mf_report_plugin(r, "expert", "?"), mf_report_moe_range(r, "experts", "?"),
        mf_report_moe_range(r, "top_k", "?"));
    return mf_report_strf(
        p, "%s; %s layers, width %s, context %s; data %s; seed %s",
        is_dense(r) ? "dense, without experts" : experts,
        mf_report_config(r, "model", "layers", "?"), mf_report_config(r, "model", "dim", "?"),
        mf_report_config(r, "model", "seq", "?"), mf_report_config(r, "data", "path", "?"),
        mf_report_config(r, "train", "seed", "?"));
}

static void contents(const mf_report *p)
{
    mf_html_entry e[16];
    int n = 0;
    if (p->n > 1) e[n++] = (mf_html_entry){"differences", "Differences"};
    if (p->n > 1) e[n++] = (mf_html_entry){"runs", "Runs"};
    if (p->n == 1 && mf_report_has_modules(p->runs[0]))
        e[n++] = (mf_html_entry){"model", "Parameters"};
    e[n++] = (mf_html_entry){"learning", "Learning"};
    if (p->n == 1 && mf_report_has_tasks(p->runs[0]))
        e[n++] = (mf_html_entry){"tasks", "Tasks"};
    if (has_layers(p)) e[n++] = (mf_html_entry){"balance", "Routing over time"};
    if (p->n == 1 && p->runs[0]->n_layers > 0)
        e[n++] = (mf_html_entry){"load", "Load of the experts"};
    if (p->n == 1 && mf_report_has_labels(p->runs[0]))
        e[n++] = (mf_html_entry){"labels", "Experts and labels"};
    if (p->n == 1 && p->runs[0]->sample && p->runs[0]->sample->n_layers > 0)
        e[n++] = (mf_html_entry){"routing", "One text"};
    if (p->n == 1 && mf_report_has_steps(p->runs[0]))
        e[n++] = (mf_html_entry){"evaluations", "Several evaluations"};
    if (p->n == 1 && mf_report_has_attention(p->runs[0]))
        e[n++] = (mf_html_entry){"attention", "Attention weights"};
    if (p->n == 1 && mf_report_has_heads(p->runs[0]))
        e[n++] = (mf_html_entry){"heads", "Attention heads"};
    if (p->n == 1 && mf_report_has_changes(p->runs[0]))
        e[n++] = (mf_html_entry){"changes", "Changed options"};
    if (p->n == 1) e[n++] = (mf_html_entry){"structure", "Structure and weights"};
    e[n++] = (mf_html_entry){"repeat", "How to repeat"};
    mf_html_contents(p->d, n, e);
}

/* Writes the seconds of a run at about 100 of its training records. The page's script uses them
 * to draw curves over the time. Each run has a line of "step,seconds" pairs. */
static void put_times(const mf_report *p)
{
    mf_doc_put(p->d, "<div id=\"times\" hidden=\"hidden\">\n");
    for (int i = 0; i < p->n; i++) {
        const mf_metrics_history *h = p->runs[i]->history;
        const int every = h->n / 100 + 1;
        const char *gap = "";
        for (int k = 0, n = 0; k < h->n; k++) {
            const mf_metrics_record *r = &h->records[k];
            if (strcmp(r->split, "train") != 0 || !isfinite(r->wall_s)) continue;
            if (n++ % every != 0 && k + 2 < h->n) continue;
            mf_doc_printf(p->d, "%s%lld,%.5g", gap, (long long)r->step, r->wall_s);
            gap = " ";
        }
        mf_doc_put(p->d, "\n");
    }
    mf_doc_put(p->d, "</div>\n");
}

static void page(const mf_report *p)
{
    const mf_report_run *r = p->runs[0];
    mf_html_begin(p->d, p->n > 1 ? "Comparison of runs" : r->name, subtitle(p), p->refresh);
    contents(p);
    if (p->n > 1) {
        mf_report_differences(p);
        table_of_runs(p);
    } else {
        cards(p);
    }
    if (p->n == 1) mf_report_modules(p, p->runs[0]);
    mf_report_learning(p);
    if (p->n == 1) mf_report_tasks(p, r);
    if (has_layers(p)) mf_report_balance(p);
    if (p->n == 1) {
        mf_report_load(p, r);
        mf_report_labels(p, r);
        mf_report_routing(p, r);
        mf_report_steps(p, r);
        mf_report_attention(p, r);
        mf_report_heads(p, r);
        mf_report_changes(p, r);
        mf_report_model(p, p->runs[0]);
    }
    print_repeat(p);
    put_times(p);
    mf_html_end(p->d, mf_report_strf(p, "moefw %s. One file, nothing loaded from elsewhere.",
                                     mf_report_manifest(r, "moefw", "")));
}

/* Writes the page to a file. faults: number of faults of this thread before the runs
 * were read. */
static int write_page(const mf_report *p, unsigned long faults, const char *out)
{
    size_t n;
    mf_error_clear();
    page(p);
    /* Missing files of a run are noted on the page. Failures of the machine to read files are
     * errors instead. */
    int code = MF_EIO;
    const char *why = mf_faults() != faults ? mf_fault_last(&code) : NULL;
    if (why) return mf_fail(code, "%s: not written: %s", out, why);
    const char *text = mf_doc_string(p->d, &n);
    /* If memory runs out, figures are omitted, so the page would be incomplete. */
    if (!text || mf_error_code() == MF_ENOMEM)
        return mf_fail(MF_ENOMEM, "out of memory for %s", out);
    return mf_write_file_atomic(out, text, n);
}

int mf_report_write_live(int n, const char *const *runs, const char *out, int refresh)
{
    mf_report_run *open[MAX_RUNS] = {NULL};
    mf_report p = {.runs = open, .refresh = refresh};
    const unsigned long faults = mf_faults();
    int rc = MF_OK;
    if (n == 1 && mf_report_is_comparison(runs[0])) return mf_report_comparison(runs[0], out);
    if (n < 1 || n > MAX_RUNS)
        return mf_fail(MF_EUSAGE, "a report takes 1 to %d runs, not %d", MAX_RUNS, n);
    for (; rc == MF_OK && p.n < n; p.n += rc == MF_OK)
        rc = mf_report_run_open(runs[p.n], &open[p.n]);
    p.d = mf_doc_new();
    p.arena = mf_arena_new();
    if (rc == MF_OK && (!p.d || !p.arena)) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = write_page(&p, faults, out);
    for (int i = 0; i < p.n; i++)
        mf_report_run_close(open[i]);
    mf_arena_free(p.arena);
    mf_doc_free(p.d);
    return rc;
}

int mf_report_write(int n, const char *const *runs, const char *out)
{
    return mf_report_write_live(n, runs, out, 0);
}
