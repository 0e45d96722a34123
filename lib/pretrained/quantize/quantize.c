/* pretrained/quantize/quantize.c: the order of a quantization: opens the model twice, quantizes
 * one of the two, measures, writes its folder, and imports this folder as the new run. Without
 * inputs and measurements no model is needed, and weights go from file to file.
 *
 * If a later step fails, the written files are removed. */
#include "pretrained/quantize/quantize.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "pretrained/quantize/quantize_parts.h"
#include "run/load.h"

/* The last part of the run's path. */
static char *name_of(mf_arena *arena, const char *run)
{
    char *copy = mf_arena_strdup(arena, run);
    if (!copy) return NULL;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/';)
        copy[--n] = '\0';
    char *slash = strrchr(copy, '/');
    return slash ? slash + 1 : copy;
}

/* Chooses paths that do not exist: runs/NAME-intBITS-N unless the caller named the run. */
static int choose_paths(mf_quantize_work *w, const char *run)
{
    mf_quantize_report *r = w->report;
    const char *name = name_of(r->arena, run), *given = w->options->run;
    if (!name) return MF_ENOMEM;
    for (int n = 1;; n++) {
        r->run = given ? mf_arena_strdup(r->arena, given)
                       : mf_arena_strf(r->arena, "runs/%s-int%d-%d", name, w->options->bits, n);
        if (!r->run) return MF_ENOMEM;
        for (size_t end = strlen(r->run); end > 1 && r->run[end - 1] == '/';)
            r->run[--end] = '\0';
        r->folder = mf_arena_strf(r->arena, "%s.hf", r->run);
        if (!r->folder) return MF_ENOMEM;
        if (given || (!mf_exists(r->run) && !mf_exists(r->folder))) break;
    }
    if (mf_exists(r->folder))
        return mf_fail(MF_EUSAGE, "%s: exists already; expected a new folder", r->folder);
    return given || mf_exists("runs") ? MF_OK : mf_mkdirs("runs");
}

/* Checks whether the run has data for the report. *ret_none: it has none, so the loss is not
 * measured. MF_EUSAGE if GPTQ needs data. */
static int judge_data(const mf_quantize_work *w, const char *run, bool *ret_none)
{
    const mf_quantize_options *o = w->options;
    *ret_none = strcmp(w->x.session->config->data.path, MF_DATA_NONE) == 0;
    for (int i = 0; i < o->n_set; i++)
        if (strncmp(o->set[i].text, "data.path=", 10) == 0)
            *ret_none = strcmp(o->set[i].text + 10, MF_DATA_NONE) == 0;
    if (!*ret_none) return MF_OK;
    if (o->calibrate > 0)
        return mf_fail(MF_EUSAGE,
                       "%s has no data, and GPTQ wants inputs: expected --calibrate FILE, "
                       "or rounding to nearest (--gptq 0)",
                       run);
    if (o->unmeasured) return MF_OK;
    mf_log(MF_LOG_WARN,
           "%s has no data: its weights are rounded, and what this costs is not measured; "
           "--calibrate FILE gives data",
           run);
    return MF_OK;
}

static int open_both(mf_quantize_work *w, const char *run)
{
    const mf_quantize_options *o = w->options;
    mf_session_options session = {0};
    const mf_load_change change = {
        .step = -1, .dtype = "f32", .n_set = o->n_set, .set = o->set};
    int64_t step;
    w->streams = o->unmeasured && o->calibrate == 0;
    int rc = mf_export_open_values(run, w->streams, &w->x);
    for (int64_t i = 0; rc == MF_OK && i < w->x.record->n; i++)
        if (!mf_form_has_numbers(w->x.record->ledger.places[i].form))
            rc = mf_fail(MF_EUSAGE, "%s: tensor '%s' has few bits already", run,
                         w->x.record->tensors[i]->name);
    if (rc == MF_OK) rc = judge_data(w, run, &session.no_data);
    if (w->streams) session.no_data = true;
    if (rc == MF_OK && !(w->streams && o->n_set == 0))
        rc = mf_load_run_as(run, &session, &change, &w->before, &step);
    if (rc != MF_OK) return rc;
    w->weights = mf_alloc((size_t)w->x.record->n + 1, sizeof *w->weights);
    return w->weights ? MF_OK : MF_ENOMEM;
}

static int import_folder(mf_quantize_work *w)
{
    const mf_import_options o = {.no_tokenizer = !w->x.session->tokenizer, .verified = true};
    mf_import_report report = {0};
    const int rc = mf_import(w->report->folder, &o, w->report->run, &report);
    mf_free(report.run);
    return rc;
}

/* Removes the folder; the recorded error stays. */
static void undo(const char *folder)
{
    const int rc = mf_error_code();
    char why[2048];
    snprintf(why, sizeof why, "%s", mf_error_message());
    mf_remove_tree(folder);
    mf_fail(rc, "%s", why);
}

int mf_quantize(const char *run, const mf_quantize_options *options, mf_quantize_report **ret)
{
    mf_arena *arena = mf_arena_new();
    mf_quantize_report *r = arena ? mf_arena_alloc(arena, sizeof *r) : NULL;
    mf_quantize_work w = {.options = options, .report = r};
    bool written = false;
    int rc = r ? MF_OK : MF_ENOMEM;
    if (r) *r = (mf_quantize_report){.arena = arena};
    if (rc == MF_OK) rc = choose_paths(&w, run);
    if (rc == MF_OK) rc = open_both(&w, run);
    if (rc == MF_OK) rc = mf_quantize_weights(&w);
    if (options->unmeasured && r)
        r->kl_next_token = r->loss_before = r->loss_after = NAN;
    else if (rc == MF_OK)
        rc = mf_quantize_measure(&w);
    if (rc == MF_OK) rc = mf_quantize_write(&w, r->folder);
    written = rc == MF_OK;
    if (rc == MF_OK) rc = import_folder(&w);
    if (rc != MF_OK && written) undo(r->folder);
    for (int64_t i = 0; w.weights && i < w.x.record->n; i++)
        mf_gptq_free(w.weights[i]);
    mf_free(w.weights);
    mf_session_close(w.before);
    mf_export_close(&w.x);
    if (rc == MF_OK)
        *ret = r;
    else
        mf_arena_free(arena);
    return rc;
}

void mf_quantize_report_free(mf_quantize_report *r)
{
    if (r) mf_arena_free(r->arena);
}
