/* moefw swap: replaces the router in a run's model, and reports how this changes the model. The
 * verb only parses and prints; lab/swap/swap.h swaps. */
#include <math.h>
#include <stdio.h>
#include "base/error.h"
#include "base/log.h"
#include "io/json.h"
#include "base/text/shown.h"
#include "cli/cli.h"
#include "lab/swap/swap.h"
#include "report/compare/swap.h"
#include "report/page/doc.h"

static const mf_cli_form forms[] = {
    {NULL, "RUN", 1, 1, "give the model of a run another router; the result is a new run"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "router",
     .kind = MF_CLI_TEXT,
     .arg = "PLUGIN",
     .code = MF_CLI_NAMES_CODE,
     .help = "the new router, with options after a colon: mlp:hidden=64,activation=relu"},
    {.name = "layers",
     .kind = MF_CLI_TEXT,
     .arg = "A-B",
     .help = "only these blocks get it, numbered from 0, as 2-5 or 0,3 (all)"},
    {.name = "match",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e9,
     .help = "first fit the new router to the probabilities of the old one, on N batches (0)"},
    {.name = "match-lr",
     .kind = MF_CLI_REAL,
     .arg = "LR",
     .lo = 1e-9,
     .hi = 1e3,
     .help = "highest learning rate of the fit (0.01)"},
    {.name = "fresh",
     .help = "initial values, also for parameters that the old router has with the same name"},
    {.name = "batches",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "measure on at most N batches of the validation split; 0: all of it (8)"},
    {.name = "data",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .set = "data.path",
     .help = "text of the fit, of the measurement and of the new run, instead of the run's"},
    {.name = "out",
     .letter = 'o',
     .kind = MF_CLI_TEXT,
     .arg = "NEWRUN",
     .help = "the new run, a directory that is new or empty (runs/RUN-PLUGIN-N)"},
    {.name = "report",
     .kind = MF_CLI_TEXT,
     .arg = "FILE",
     .help = "also write the numbers, with figures, as one HTML page"},
    MF_CLI_FORCE_OF(NULL),
    MF_CLI_END};

static void print_loads(mf_jw *w, const char *key, const double *load, int32_t n)
{
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int32_t e = 0; e < n; e++)
        mf_jw_real(w, load[e]);
    mf_jw_end(w);
}

static int print_json(const mf_swap_report *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", r->router);
    mf_jw_key(w, "layers");
    mf_jw_array(w);
    for (int32_t i = 0; i < r->n_layers; i++) {
        const mf_swap_layer *l = &r->layers[i];
        mf_jw_object(w);
        mf_jw_kv_int(w, "layer", l->layer);
        mf_jw_kv_bool(w, "swapped", l->swapped);
        mf_jw_kv_real(w, "overlap", l->overlap);
        mf_jw_kv_real(w, "kl", l->kl);
        mf_jw_kv_real(w, "kl_start", l->kl_start);
        mf_jw_kv_real(w, "mass_moved", l->mass_moved);
        print_loads(w, "load_before", l->load_before, l->experts);
        print_loads(w, "load_after", l->load_after, l->experts);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_kv_real(w, "kl_next_token", r->kl_next_token);
    mf_jw_kv_real(w, "loss_before", r->loss_before);
    mf_jw_kv_real(w, "loss_after", r->loss_after);
    mf_jw_kv_int(w, "match", r->matched);
    mf_jw_kv_int(w, "batches", r->batches);
    mf_jw_kv_int(w, "tokens", r->tokens);
    mf_jw_kv_string(w, "run", r->run);
    mf_jw_end(w);
    return mf_cli_print_json(w);
}

/* The largest share of assignments of any expert. */
static double highest(const double *load, int32_t n)
{
    double most = 0;
    for (int32_t e = 0; e < n; e++)
        most = fmax(most, load[e]);
    return most;
}

static void print_text(const mf_swap_report *r)
{
    printf("router %s, %lld batches of %lld tokens in all\n", mf_shown(r->router),
           (long long)r->batches, (long long)r->tokens);
    printf("layer  overlap        KL  KL before fit  gates moved  highest load\n");
    for (int32_t i = 0; i < r->n_layers; i++) {
        const mf_swap_layer *l = &r->layers[i];
        char start[32] = "-";
        if (r->matched > 0) snprintf(start, sizeof start, "%.6f", l->kl_start);
        printf("%5d  %7.4f  %8.6f  %13s  %11.4f  %5.3f -> %5.3f%s\n", (int)l->layer, l->overlap,
               l->kl, start, l->mass_moved, highest(l->load_before, l->experts),
               highest(l->load_after, l->experts), l->swapped ? "" : " (not swapped)");
    }
    printf("KL of predictions %.6f, loss %.6f -> %.6f\n", r->kl_next_token, r->loss_before,
           r->loss_after);
    puts(mf_shown_on(stdout, r->run));
}

/* Writes the page, with the command that repeats the swap into another run. */
static int write_page(const mf_cli *cli, const mf_swap_options *o, const mf_swap_report *r)
{
    const char *out = mf_cli_text(cli, "report", NULL), *from = mf_cli_operand(cli, 0);
    mf_doc *d = mf_doc_new();
    if (!d) return MF_ENOMEM;
    mf_doc_put(d, "moefw swap ");
    mf_doc_put_path(d, from);
    mf_doc_put(d, " --router ");
    mf_doc_put_path(d, o->router);
    if (o->layers) mf_doc_put(d, " --layers ");
    if (o->layers) mf_doc_put_path(d, o->layers);
    if (o->match > 0)
        mf_doc_printf(d, " --match %lld --match-lr %g", (long long)o->match, o->match_lr);
    if (o->fresh) mf_doc_put(d, " --fresh");
    mf_doc_printf(d, " --batches %lld", (long long)o->batches);
    for (int i = 0; i < o->n_set; i++) { /* among them --data */
        mf_doc_put(d, " --set ");
        mf_doc_put_path(d, o->set[i].text);
    }
    const char *command = mf_doc_string(d, NULL);
    const int rc = command ? mf_report_swap(r, from, command, out) : MF_ENOMEM;
    mf_doc_free(d);
    if (rc == MF_OK) mf_log(MF_LOG_INFO, "report: %s", out);
    return rc;
}

static int run(const mf_cli *cli)
{
    mf_swap_options o = {.router = mf_cli_text(cli, "router", NULL),
                         .layers = mf_cli_text(cli, "layers", NULL),
                         .match = mf_cli_int(cli, "match", 0),
                         .match_lr = mf_cli_real(cli, "match-lr", 0.01),
                         .batches = mf_cli_int(cli, "batches", 8),
                         .fresh = mf_cli_flag(cli, "fresh"),
                         .run = mf_cli_text(cli, "out", NULL)};
    mf_swap_report *r = NULL;
    mf_assignment *set = NULL;
    if (!o.router)
        return mf_fail(MF_EUSAGE, "swap wants --router PLUGIN; 'moefw plugin list' lists them");
    mf_arena *arena = mf_arena_new();
    int rc = arena ? mf_cli_assignments(cli, arena, &set, &o.n_set) : MF_ENOMEM;
    o.set = set;
    if (rc == MF_OK) rc = mf_cli_new_file(cli, mf_cli_text(cli, "report", NULL));
    if (rc == MF_OK) rc = mf_swap(mf_cli_operand(cli, 0), &o, &r);
    if (rc == MF_OK && mf_cli_json(cli))
        rc = print_json(r);
    else if (rc == MF_OK)
        print_text(r);
    if (rc == MF_OK && mf_cli_text(cli, "report", NULL)) rc = write_page(cli, &o, r);
    mf_swap_report_free(r);
    mf_arena_free(arena);
    return rc;
}

const mf_verb mf_verb_swap = {
    .name = "swap",
    .brief = "another router in a run's model, and what this changes",
    .forms = forms,
    .options = options,
    .run = run,
    .notes = "k and the gates of shared experts stay as they are, unless --set names them.\n"};
