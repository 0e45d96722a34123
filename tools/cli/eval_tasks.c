/* moefw eval --tasks: prints the scores of multiple-choice tasks, which lab/tasks computes, as
 * text or as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "base/text/shown.h"
#include "cli/signals.h"
#include "cli/eval_tasks.h"
#include "io/json.h"
#include "lab/tasks/tasks.h"
#include "report/terminal/progress.h"
#include "report/terminal/terminal.h"

typedef struct view {
    mf_terminal terminal;
    mf_progress *progress;
    bool quiet;
} view;

static int on_item(void *arg, int done, int total)
{
    view *v = arg;
    if (!v->progress) v->progress = mf_progress_new(&v->terminal, "tasks", 0, total, v->quiet);
    mf_progress_step(v->progress, done, (double)NAN, (double)NAN);
    return mf_signals_stop();
}

static void print(const mf_task_file *f, int shots)
{
    char text[32] = "";
    if (shots > 0) snprintf(text, sizeof text, ", %d-shot", shots);
    for (int i = 0; i < MF_TASK_SCORES; i++) {
        const mf_task_share x = mf_task_share_of(f, i);
        printf("%-24s %-9s %.4f +- %.4f [%.4f, %.4f]  %d items%s\n", mf_shown(f->name),
               mf_task_scores[i], x.value, x.error, x.lo, x.hi, f->n, text);
    }
}

static void put(mf_jw *w, const mf_task_file *f, int shots)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "task", f->name);
    mf_jw_kv_int(w, "items", f->n);
    mf_jw_kv_int(w, "shots", shots);
    mf_jw_kv_int(w, "cut", f->cut);
    for (int i = 0; i < MF_TASK_SCORES; i++) {
        const mf_task_share x = mf_task_share_of(f, i);
        mf_jw_key(w, mf_task_scores[i]);
        mf_jw_object(w);
        mf_jw_kv_real(w, "value", x.value);
        mf_jw_kv_real(w, "stderr", x.error);
        mf_jw_kv_real(w, "lo", x.lo);
        mf_jw_kv_real(w, "hi", x.hi);
        mf_jw_end(w);
    }
    mf_jw_key(w, "loglikelihoods");
    mf_jw_array(w);
    for (int i = 0; i < f->n; i++) {
        mf_jw_array(w);
        for (int k = 0; k < f->items[i].n; k++)
            mf_jw_real(w, f->items[i].score[k]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

/* from: the file of --shots-from, or NULL. */
static int run_file(const mf_cli *cli, const mf_session *s, const char *path,
                    const mf_task_shots *shots, const mf_task_file *from, mf_jw *w)
{
    view v = {.terminal = mf_terminal_of(stderr), .quiet = mf_cli_quiet(cli)};
    mf_task_file *f = NULL;
    int rc = mf_task_file_read(path, &f);
    if (rc == MF_OK && shots->n > 0) rc = mf_task_give_shots(f, from ? from : f, shots);
    if (rc == MF_OK) rc = mf_task_score(f, s, on_item, &v);
    mf_progress_end(v.progress);
    if (rc == MF_OK && f->cut > 0)
        mf_log(MF_LOG_WARN,
               "%s: %d of %d items are longer than the model's window of %d tokens "
               "(model.seq): the beginning of their texts was cut off",
               f->name, f->cut, f->n, (int)s->config->model.seq);
    if (rc == MF_OK && mf_cli_json(cli))
        put(w, f, shots->n);
    else if (rc == MF_OK)
        print(f, shots->n);
    mf_task_file_free(f);
    return rc;
}

/* Reads the options of examples. *from: the file of --shots-from, or NULL. */
static int read_shots(const mf_cli *cli, mf_task_shots *ret, mf_task_file **from)
{
    const char *draw = mf_cli_text(cli, "shots-draw", "1234");
    long long seed = 0;
    *from = NULL;
    ret->n = (int)mf_cli_int(cli, "shots", 0);
    ret->first = strcmp(draw, "first") == 0;
    if (!ret->first && (!mf_parse_i64(draw, &seed) || seed < 0 || seed > UINT32_MAX))
        return mf_fail(MF_EUSAGE,
                       "--shots-draw: expected first, or a seed from 0 to %lld, "
                       "found '%s'",
                       (long long)UINT32_MAX, draw);
    ret->seed = (uint32_t)seed;
    if (mf_cli_count(cli, "shots-from") == 0) return MF_OK;
    return mf_task_file_read(mf_cli_text(cli, "shots-from", NULL), from);
}

int mf_eval_tasks(const mf_cli *cli, const mf_session *s)
{
    char *files = mf_strdup(mf_cli_text(cli, "tasks", "")), *next = files;
    mf_jw *w = mf_jw_new();
    mf_task_shots shots;
    mf_task_file *from = NULL;
    int rc = files && w ? read_shots(cli, &shots, &from) : MF_ENOMEM;
    if (w) mf_jw_array(w);
    mf_signals_catch(NULL, false);
    for (char *path; rc == MF_OK && (path = strsep(&next, ",")) != NULL;)
        rc = run_file(cli, s, path, &shots, from, w);
    mf_signals_release();
    if (rc == MF_ESIGNAL) mf_signals_end();
    if (rc == MF_OK && mf_cli_json(cli)) {
        mf_jw_end(w);
        const char *text = mf_jw_text(w, NULL);
        if (text) puts(text);
        if (!text) rc = MF_ENOMEM;
    }
    mf_jw_free(w);
    mf_task_file_free(from);
    mf_free(files);
    return rc;
}
