/* run/metrics/tracking_client.c: builds the JSON of requests, and reads the JSON of answers.
 * Every value in an answer is checked. */
#include "run/metrics/tracking_client.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/json.h"

/* ---- one request ---- */

/* Records the error of a status other than 200. MLflow's own errors are objects with a
 * message; only these are refusals. Other texts are pages of another program between client
 * and server. */
static int judge_status(int status, const char *body, size_t n)
{
    mf_json *v = NULL;
    const char *why = NULL;
    if (n > 0 && body[0] == '{' && mf_json_parse("answer", body, n, &v) == MF_OK)
        why = mf_json_string(mf_json_get(v, "message"), NULL);
    const int code = why && (status == 400 || status == 404) ? MF_EINPUT : MF_EPEER;
    if (why)
        mf_fail(code, "status %d: %.300s", status, why);
    else
        mf_fail(code, "status %d%s", status,
                status == 401 || status == 403
                    ? ": a login is sent if MLFLOW_TRACKING_URI is this address"
                    : "");
    mf_json_free(v);
    return code;
}

/* Sends the text of the writer, or a request without a body if the writer is NULL. *ret: the
 * answer, which the caller frees. */
static int call(mf_tracking_client *c, const char *what, mf_jw *w, mf_json **ret)
{
    const char *body = "", *json = w ? mf_jw_text(w, NULL) : NULL;
    size_t n = 0;
    int status = 0;
    *ret = NULL;
    if (w && !json) return mf_error_code();
    char *url = mf_strf("%s/api/2.0/mlflow/%s", c->server, what);
    int rc = url ? mf_http_send(c->http, url, json, &status, &body, &n) : MF_ENOMEM;
    if (rc == MF_OK && status != 200)
        rc = judge_status(status, body, n);
    else if (rc == MF_OK && mf_json_parse(url, body, n, ret) != MF_OK)
        rc = mf_error_code() == MF_ENOMEM
                 ? MF_ENOMEM
                 : mf_fail(MF_EPEER, "the answer to %s is no JSON, as MLflow's are", what);
    mf_free(url);
    return rc;
}

/* The same as call, for requests whose answers contain nothing to read. Frees the writer. */
static int tell(mf_tracking_client *c, const char *what, mf_jw *w)
{
    mf_json *v = NULL;
    const int rc = w ? call(c, what, w, &v) : MF_ENOMEM;
    mf_json_free(v);
    mf_jw_free(w);
    return rc;
}

static mf_jw *new_object(void)
{
    mf_jw *w = mf_jw_new();
    if (w) mf_jw_object(w);
    return w;
}

static mf_jw *of_run(const mf_tracking_client *c)
{
    mf_jw *w = new_object();
    if (w) mf_jw_kv_string(w, "run_id", c->run);
    return w;
}

/* Copies an id from an answer. */
static int take_id(const mf_json *v, const char *key, char ret[MF_TRACKING_ID])
{
    const char *id = mf_json_string(mf_json_get(v, key), NULL);
    if (!id || id[0] == '\0' || strlen(id) >= MF_TRACKING_ID)
        return mf_fail(MF_EPEER, "the answer lacks %s", key);
    snprintf(ret, MF_TRACKING_ID, "%s", id);
    return MF_OK;
}

/* ---- the experiment ---- */

/* Returns a copy of the text in which every character except letters, digits, '-' and '_'
 * is percent-encoded. */
static char *encoded(const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = mf_alloc_raw(3 * strlen(text) + 1), *p = out;
    if (!out) return NULL;
    for (const unsigned char *t = (const unsigned char *)text; *t != '\0'; t++) {
        if ((*t >= 'a' && *t <= 'z') || (*t >= 'A' && *t <= 'Z') || (*t >= '0' && *t <= '9') ||
            *t == '-' || *t == '_') {
            *p++ = (char)*t;
            continue;
        }
        *p++ = '%';
        *p++ = digits[*t >> 4];
        *p++ = digits[*t & 15];
    }
    *p = '\0';
    return out;
}

static int find_experiment(mf_tracking_client *c)
{
    mf_json *v = NULL;
    char *name = encoded(c->experiment);
    char *what = name ? mf_strf("experiments/get-by-name?experiment_name=%s", name) : NULL;
    int rc = what ? call(c, what, NULL, &v) : MF_ENOMEM;
    if (rc == MF_OK)
        rc = take_id(mf_json_get(v, "experiment"), "experiment_id", c->experiment_id);
    mf_json_free(v);
    mf_free(what);
    mf_free(name);
    return rc;
}

static int make_experiment(mf_tracking_client *c)
{
    mf_json *v = NULL;
    mf_jw *w = new_object();
    if (!w) return MF_ENOMEM;
    mf_jw_kv_string(w, "name", c->experiment);
    mf_jw_end(w);
    int rc = call(c, "experiments/create", w, &v);
    if (rc == MF_OK) rc = take_id(v, "experiment_id", c->experiment_id);
    mf_json_free(v);
    mf_jw_free(w);
    return rc;
}

/* ---- the run ---- */

int mf_tracking_create(mf_tracking_client *c, int64_t began)
{
    mf_json *v = NULL;
    int rc = find_experiment(c);
    if (rc == MF_EINPUT) rc = make_experiment(c);
    /* The request was refused: another run may have created the experiment in the meantime. */
    if (rc == MF_EINPUT && find_experiment(c) == MF_OK) rc = MF_OK;
    if (rc != MF_OK) return rc;
    mf_jw *w = new_object();
    if (!w) return MF_ENOMEM;
    mf_jw_kv_string(w, "experiment_id", c->experiment_id);
    mf_jw_kv_string(w, "run_name", c->name);
    mf_jw_kv_int(w, "start_time", began);
    mf_jw_end(w);
    rc = call(c, "runs/create", w, &v);
    const mf_json *info = mf_json_get(mf_json_get(v, "run"), "info");
    if (rc == MF_OK) rc = take_id(info, "run_id", c->run);
    mf_json_free(v);
    mf_jw_free(w);
    return rc;
}

int mf_tracking_read(mf_tracking_client *c,
                     void (*seen)(void *arg, const char *key, int64_t step), void *arg)
{
    mf_json *v = NULL;
    char *what = mf_strf("runs/get?run_id=%s", c->run);
    const int rc = what ? call(c, what, NULL, &v) : MF_ENOMEM;
    const mf_json *run = mf_json_get(v, "run"),
                  *metrics = mf_json_get(mf_json_get(run, "data"), "metrics");
    for (size_t i = 0; i < mf_json_size(metrics); i++) {
        const mf_json *m = mf_json_at(metrics, i);
        const char *key = mf_json_string(mf_json_get(m, "key"), NULL);
        if (key) seen(arg, key, mf_json_int_or_0(m, "step"));
    }
    mf_json_free(v);
    mf_free(what);
    return rc;
}

int mf_tracking_set_status(mf_tracking_client *c, const char *status, int64_t ended)
{
    mf_jw *w = of_run(c);
    if (!w) return MF_ENOMEM;
    mf_jw_kv_string(w, "status", status);
    if (ended) mf_jw_kv_int(w, "end_time", ended);
    mf_jw_end(w);
    return tell(c, "runs/update", w);
}

int mf_tracking_log_metrics(mf_tracking_client *c, const mf_tracking_metric *metrics, size_t n)
{
    mf_jw *w = of_run(c);
    if (!w) return MF_ENOMEM;
    mf_jw_key(w, "metrics");
    mf_jw_array(w);
    for (size_t i = 0; i < n; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "key", metrics[i].key);
        mf_jw_kv_real(w, "value", metrics[i].value);
        mf_jw_kv_int(w, "timestamp", metrics[i].time);
        mf_jw_kv_int(w, "step", metrics[i].step);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
    return tell(c, "runs/log-batch", w);
}

static void put_pairs(mf_jw *w, const char *name, bool tags, const mf_tracking_pair *pairs,
                      size_t n)
{
    mf_jw_key(w, name);
    mf_jw_array(w);
    for (size_t i = 0; i < n; i++) {
        if (pairs[i].tag != tags) continue;
        mf_jw_object(w);
        mf_jw_kv_string(w, "key", pairs[i].key);
        mf_jw_kv_string(w, "value", pairs[i].value);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

int mf_tracking_log_pairs(mf_tracking_client *c, const mf_tracking_pair *pairs, size_t n)
{
    mf_jw *w = of_run(c);
    if (!w) return MF_ENOMEM;
    put_pairs(w, "params", false, pairs, n);
    put_pairs(w, "tags", true, pairs, n);
    mf_jw_end(w);
    return tell(c, "runs/log-batch", w);
}
