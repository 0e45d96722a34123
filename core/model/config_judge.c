/* Rules between keys, and values that a table's bounds cannot express. */
#include "base/error.h"
#include "model/config.h"
#include "model/pictured.h"

#include <stdarg.h>
#include <string.h>

typedef struct judge {
    const mf_config *c;
    const mf_problem_sink *sink;
    int first;
} judge;

/* Does not hold: says so where the key was given. */
MF_PRINTF(5, 6)
static void fault(judge *j, const char *section, const char *key, const char *nearest,
                  const char *fmt, ...)
{
    if (j->first != MF_OK && j->sink == NULL) return;
    va_list args;
    va_start(args, fmt);
    mf_vfail(MF_ECONFIG, fmt, args);
    va_end(args);
    const mf_ini_entry *at = mf_ini_get(j->c->ini, section, key);
    mf_problem p = {.code = MF_ECONFIG, .section = section, .key = key, .nearest = nearest};
    if (at == NULL) {
        mf_fail_context(MF_ECONFIG, "'%s' in [%s]", key, section);
    } else {
        p.file = at->file;
        p.line = at->line;
        if (strncmp(at->file, "--", 2) == 0)
            mf_fail_context(MF_ECONFIG, "%s: '%s' in [%s]", at->file, key, section);
        else
            mf_fail_context(MF_ECONFIG, "%s:%d: '%s' in [%s]", at->file, at->line, key,
                            section);
    }
    j->first = MF_ECONFIG;
    if (j->sink != NULL) {
        p.message = mf_error_message();
        j->sink->add(j->sink->arg, &p);
    }
}

static void judge_model(judge *j)
{
    const mf_model_config *m = &j->c->model;
    long long dim = m->dim, heads = m->heads, kv_heads = m->kv_heads;
    if (dim % heads != 0)
        fault(j, "model", "heads", NULL, "expected a divisor of dim (%lld), found %lld", dim,
              heads);
    else if (m->position == MF_POS_ROPE && dim / heads % 2 != 0)
        fault(j, "model", "heads", NULL,
              "rope wants an even width a head, found dim / heads = %lld", dim / heads);
    if (j->c->train.eval_context >= m->seq)
        fault(j, "train", "eval_context", NULL,
              "expected less than model.seq (%lld), found %lld", (long long)m->seq,
              (long long)j->c->train.eval_context);
    if (m->kv_heads > 0 && heads % kv_heads != 0)
        fault(j, "model", "kv_heads", NULL, "expected a divisor of heads (%lld), found %lld",
              heads, kv_heads);
    if (m->cache_start > 0 &&
        (m->position == MF_POS_SINUSOIDAL || m->position == MF_POS_LEARNED))
        fault(j, "model", "cache_start", NULL,
              "expected 0 with positions that end with model.seq, found %lld",
              (long long)m->cache_start);
    if (m->skip == MF_SKIP_UNET && m->layers < 2)
        fault(j, "model", "skip", NULL, "unet wants at least 2 layers, found %lld",
              (long long)m->layers);
}

/* Sections [task.NAME], and by what the best checkpoint is told. */
static void judge_tasks(judge *j)
{
    const mf_config *c = j->c;
    const bool by_row = mf_task_by_row(c->model.task);
    bool classes = c->model.task == MF_TASK_CLASSIFY,
         numbers = c->model.task == MF_TASK_REGRESS;
    for (int i = 0; i < c->n_tasks; i++) {
        const mf_task_section *t = &c->tasks[i];
        if (!by_row)
            fault(j, t->section, "task", NULL,
                  "further tasks want model.task = classify or regress");
        if (strcmp(t->name, "main") == 0)
            fault(j, t->section, "task", NULL,
                  "'main' is the name of model.task; expected another one");
        if (strlen(t->name) > 64)
            fault(j, t->section, "task", NULL, "expected a name of at most 64 letters");
        classes = classes || t->task == MF_FURTHER_CLASSIFY;
        numbers = numbers || t->task == MF_FURTHER_REGRESS;
    }
    if (c->n_tasks == 0 && c->model.task_weight != 1)
        fault(j, "model", "task_weight", NULL,
              "expected 1 without sections [task.NAME], found %g", c->model.task_weight);
    const int64_t by = c->train.best_by;
    if ((by == MF_BEST_ACCURACY || by == MF_BEST_MACRO_F1) && !classes)
        fault(j, "train", "best_by", "loss",
              "accuracy and macro_f1 want a task that learns classes (classify)");
    if (by >= MF_BEST_MSE && !numbers)
        fault(j, "train", "best_by", "loss",
              "mse, pearson and spearman want a task that learns numbers (regress)");
}

static void judge_attention(judge *j)
{
    const mf_model_config *m = &j->c->model;
    if (!m->attention && m->head_gates)
        fault(j, "model", "head_gates", NULL,
              "model.attention = no leaves no heads to be gated");
    if (!m->attention && (m->head_norm != MF_HEAD_NORM_NONE || m->head_mean))
        fault(j, "model", m->head_mean ? "head_mean" : "head_norm", NULL,
              "model.attention = no leaves no heads to be scaled");
    if (!m->head_gates) return;
    if (m->gate_form == MF_GATE_RAW && !(m->gate_init >= 0 && m->gate_init <= 1))
        fault(j, "model", "gate_init", NULL,
              "raw gates start between 0 and 1 (the published code: 1), found %g",
              m->gate_init);
    if (m->gate_bias && !m->attention_out_bias)
        fault(j, "model", "gate_bias", NULL,
              "there is no bias to be gated: expected model.attention_out_bias = yes");
}

static void judge_moe(judge *j)
{
    const mf_moe_config *m = &j->c->moe;
    if (m->top_k > m->experts)
        fault(j, "moe", "top_k", NULL, "expected at most as many as experts (%lld), found %lld",
              (long long)m->experts, (long long)m->top_k);
}

static void judge_data(judge *j)
{
    static const char *const formats[] = {"text", "jsonl", "tsv", "bin", NULL};
    const mf_data_config *d = &j->c->data;
    char hint[128];
    bool known = false;
    for (int i = 0; formats[i] != NULL; i++)
        if (strcmp(formats[i], d->format) == 0) known = true;
    if (!known)
        fault(j, "data", "format", mf_nearest(d->format, formats),
              "expected one of text, jsonl, tsv, bin, found '%s'%s", d->format,
              mf_did_you_mean(d->format, formats, hint, sizeof hint));
    if (d->split_windows && (d->stride == 0 || d->val_path[0] != '\0'))
        fault(j, "data", "split_windows", NULL,
              "expected stride above 0 and no val_path with it, found stride = %lld%s%s",
              (long long)d->stride, d->val_path[0] != '\0' ? ", val_path = " : "", d->val_path);
    if (d->path[0] == '\0') fault(j, "data", "path", NULL, "expected a file or builtin:topics");
}

static bool good_device(const char *device)
{
    if (strcmp(device, "cpu") == 0 || strcmp(device, "cuda") == 0) return true;
    return strncmp(device, "cuda:", 5) == 0 && device[5] != '\0' && strlen(device + 5) <= 4 &&
           strspn(device + 5, "0123456789") == strlen(device + 5);
}

static void judge_train(judge *j)
{
    const mf_train_config *t = &j->c->train;
    if (t->steps == 0 && t->epochs == 0)
        fault(j, "train", "steps", NULL, "nothing to train: expected steps or epochs above 0");
    if (!good_device(t->device))
        fault(j, "train", "device", NULL, "expected cpu, cuda or cuda:N, found '%s'",
              t->device);
}

static void judge_report(judge *j)
{
    int64_t list[MF_PICTURED_MAX];
    int n;
    const char *at = j->c->report.sample_at;
    if (!mf_pictured_list(at, list, &n))
        fault(
            j, "report", "sample_at", NULL,
            "expected up to %d rising numbers of evaluations, from 1, as 1,5,15,20, found '%s'",
            MF_PICTURED_MAX, at);
}

int mf_config_judge(const mf_config *c, const mf_problem_sink *sink)
{
    judge j = {c, sink, MF_OK};
    judge_model(&j);
    judge_tasks(&j);
    judge_attention(&j);
    judge_moe(&j);
    judge_data(&j);
    judge_train(&j);
    judge_report(&j);
    return j.first;
}
