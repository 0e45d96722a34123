/* run/metrics/tracking.c: the thread that sends a run to an MLflow server.
 *
 * `lock` guards the fields of mf_tracking below it. The fields above it belong to the caller
 * until the thread begins, and then to the thread until it has ended. */
#include "run/metrics/tracking.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/json.h"
#include "run/metrics/tracking_queue.h"

enum {
    NAME_BYTES = 250,   /* MLflow's limit */
    VALUE_BYTES = 5000, /* limit for tags, also MLflow's */
    NOTES = 4,
    NOTE_BYTES = 768
};
static const double collect_s = 1; /* time between two batches that are not full */
static const double retry_s = 1,
                    rare_s = 60; /* the first and the longest pause after a failure */
/* Time limits in seconds after the end of the run: answer_s for a request, and end_s for all
 * requests together. The status is sent afterwards in a request of its own. If the server does
 * not answer, the caller waits 5 seconds. A slow server may use the whole time. */
static const double answer_s = 5, end_s = 20;

struct mf_tracking {
    mf_tracking_client client;
    mf_tracking_queue *queue;
    char *server, *experiment, *name_of_run, *state;
    int64_t began;
    bool resumed, described, contacted, told, away, refused;
    mf_tracking_pair *pairs;
    size_t n_pairs, pairs_room, pairs_sent;
    pthread_t thread;
    bool started;
    _Atomic int64_t limit_ms; /* time of mf_clock in ms at which the present request ends;
                               * 0: never */
    int64_t last_ms;          /* time at which the last request ends; set with `status` */
    atomic_int n_notes;

    pthread_mutex_t lock;
    pthread_cond_t wake, over;
    const char *status; /* status at the end of the run; NULL: the run continues */
    bool is_over, left; /* is_over: the thread has ended; left: nobody waits for the thread, so
                         * it frees the handle */
    struct {
        mf_log_level level;
        char text[NOTE_BYTES];
    } notes[NOTES];
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t clock_ms(void)
{
    return (int64_t)(mf_clock() * 1000);
}

/* ---- names ---- */

/* Replaces characters that MLflow does not accept in names. It accepts letters, digits, and
 * some signs. */
static void make_safe(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
              (*c >= '0' && *c <= '9') || strchr("_-. :/", *c)))
            *c = '_';
}

/* ---- notes ---- */

static void leave_note(mf_tracking *m, mf_log_level level, const char *text)
{
    pthread_mutex_lock(&m->lock);
    const int n = atomic_load(&m->n_notes);
    if (n < NOTES) {
        m->notes[n].level = level;
        snprintf(m->notes[n].text, NOTE_BYTES, "%s", text);
        atomic_store(&m->n_notes, n + 1);
    }
    pthread_mutex_unlock(&m->lock);
}

void mf_tracking_tell(mf_tracking *m)
{
    char text[NOTES][NOTE_BYTES];
    mf_log_level level[NOTES];
    if (atomic_load_explicit(&m->n_notes, memory_order_relaxed) == 0) return;
    pthread_mutex_lock(&m->lock);
    const int n = atomic_load(&m->n_notes);
    for (int i = 0; i < n; i++) {
        level[i] = m->notes[i].level;
        memcpy(text[i], m->notes[i].text, NOTE_BYTES);
    }
    atomic_store(&m->n_notes, 0);
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < n; i++)
        mf_log(level[i], "log.mlflow = %s: %s", m->server, text[i]);
}

/* ---- RUN/mlflow.json ---- */

static void copy_text(const mf_json *v, const char *key, char ret[MF_TRACKING_ID])
{
    const char *text = mf_json_string(mf_json_get(v, key), NULL);
    if (text && strlen(text) < MF_TRACKING_ID) snprintf(ret, MF_TRACKING_ID, "%s", text);
}

/* Reads RUN/mlflow.json. If the file is missing, damaged, or of another server, a new run
 * is made. */
static int read_state(mf_tracking *m)
{
    char *text = NULL;
    size_t n = 0;
    mf_json *v = NULL;
    int rc = mf_read_file(m->state, 1 << 16, &text, &n);
    if (rc == MF_OK) rc = mf_json_parse(m->state, text, n, &v);
    const char *server = mf_json_string(mf_json_get(v, "server"), NULL);
    if (rc == MF_OK && server && strcmp(server, m->server) == 0) {
        copy_text(v, "run_id", m->client.run);
        copy_text(v, "experiment_id", m->client.experiment_id);
        mf_json_bool(mf_json_get(v, "described"), &m->described);
    }
    m->resumed = m->client.run[0] != '\0';
    m->described = m->described && m->resumed;
    mf_json_free(v);
    mf_free(text);
    if (rc == MF_ENOMEM) return rc;
    if (rc != MF_OK) mf_error_clear();
    return MF_OK;
}

static void write_state(mf_tracking *m)
{
    size_t n;
    mf_jw *w = mf_jw_new();
    if (w) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "server", m->server);
        mf_jw_kv_string(w, "experiment_id", m->client.experiment_id);
        mf_jw_kv_string(w, "run_id", m->client.run);
        mf_jw_kv_bool(w, "described", m->described);
        mf_jw_end(w);
    }
    const char *text = w ? mf_jw_text(w, &n) : NULL;
    if (!text || mf_write_file_atomic(m->state, text, n) != MF_OK)
        leave_note(m, MF_LOG_WARN, mf_error_message());
    mf_error_clear();
    mf_jw_free(w);
}

/* ---- the thread ---- */

static void seen(void *arg, const char *key, int64_t step)
{
    mf_tracking_queue_known(((mf_tracking *)arg)->queue, key, step);
}

static int create(mf_tracking *m)
{
    char note[NOTE_BYTES];
    const int rc = mf_tracking_create(&m->client, m->began);
    /* A refusal is reported as MF_EPEER, because the server may accept the request later. */
    if (rc != MF_OK) return rc == MF_EINPUT ? MF_EPEER : rc;
    write_state(m);
    snprintf(note, sizeof note, "this run is %s/#/experiments/%s/runs/%s", m->server,
             m->client.experiment_id, m->client.run);
    leave_note(m, MF_LOG_INFO, note);
    return MF_OK;
}

/* Finds the run of mlflow.json on the server again. If the server refuses it, a new run
 * is made. */
static int go_on(mf_tracking *m)
{
    char note[NOTE_BYTES];
    int rc = mf_tracking_read(&m->client, seen, m);
    if (rc == MF_OK) rc = mf_tracking_set_status(&m->client, "RUNNING", 0);
    if (rc == MF_EINPUT) {
        snprintf(note, sizeof note,
                 "the run %s cannot be continued (%.300s), a new one is made", m->client.run,
                 mf_error_message());
        leave_note(m, MF_LOG_WARN, note);
        m->client.run[0] = '\0';
        mf_tracking_queue_forget(m->queue);
        rc = MF_OK;
    }
    if (rc == MF_OK) m->resumed = false;
    return rc;
}

/* Logs once that the server refuses values. They are dropped, because the server would refuse
 * them again. */
static int judge_refused(mf_tracking *m, int rc)
{
    char note[NOTE_BYTES];
    if (rc != MF_EINPUT) return rc;
    snprintf(note, sizeof note, "values were refused (%.400s), and skipped",
             mf_error_message());
    if (!m->refused) leave_note(m, MF_LOG_WARN, note);
    m->refused = true;
    return MF_OK;
}

static int describe(mf_tracking *m)
{
    const size_t rest = m->n_pairs - m->pairs_sent,
                 n = rest < MF_TRACKING_PAIRS ? rest : MF_TRACKING_PAIRS;
    int rc = n > 0 ? mf_tracking_log_pairs(&m->client, m->pairs + m->pairs_sent, n) : MF_OK;
    rc = judge_refused(m, rc);
    if (rc != MF_OK) return rc;
    m->pairs_sent += n;
    if (m->pairs_sent < m->n_pairs) return MF_OK;
    m->described = true;
    write_state(m);
    return MF_OK;
}

static int send_batch(mf_tracking *m)
{
    mf_tracking_metric batch[MF_TRACKING_BATCH];
    size_t n;
    const uint64_t mark = mf_tracking_queue_peek(m->queue, batch, MF_TRACKING_BATCH, &n);
    const int rc =
        n > 0 ? judge_refused(m, mf_tracking_log_metrics(&m->client, batch, n)) : MF_OK;
    if (rc == MF_OK) mf_tracking_queue_remove(m->queue, mark);
    return rc;
}

/* Whether something else must be sent before the metrics. */
static bool sets_up(const mf_tracking *m)
{
    return m->resumed || m->client.run[0] == '\0' || !m->described;
}

/* Does one step of the remaining work: sends what is next. */
static int attempt(mf_tracking *m)
{
    if (m->resumed) return go_on(m);
    if (m->client.run[0] == '\0') return create(m);
    return m->described ? send_batch(m) : describe(m);
}

/* Waits until there is something to send, until `pause` seconds after a failure have passed, or
 * until the end. Returns whether the run has ended; *ret_empty: nothing is left to send. */
static bool wait_for_work(mf_tracking *m, double pause, bool *ret_empty)
{
    struct timespec until;
    const double s = pause > 0 ? pause : collect_s;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)s;
    pthread_mutex_lock(&m->lock);
    int rc = 0;
    while (
        rc == 0 && !m->status &&
        (pause > 0 || (!sets_up(m) && mf_tracking_queue_waiting(m->queue) < MF_TRACKING_BATCH)))
        rc = pthread_cond_timedwait(&m->wake, &m->lock, &until);
    const bool ended = m->status != NULL;
    pthread_mutex_unlock(&m->lock);
    *ret_empty = !sets_up(m) && mf_tracking_queue_waiting(m->queue) == 0;
    return ended;
}

static bool is_late(void *arg)
{
    mf_tracking *m = arg;
    const int64_t limit = atomic_load(&m->limit_ms);
    return limit > 0 && clock_ms() >= limit;
}

/* Logs the first failure and its end. Repeated failures of a server are logged once. */
static void judge(mf_tracking *m, int rc)
{
    char note[NOTE_BYTES];
    if (rc == MF_OK) {
        if (m->away) leave_note(m, MF_LOG_INFO, "the server answers now");
        m->away = false;
        m->contacted = true;
        return;
    }
    if (m->told || is_late(m)) return;
    snprintf(note, sizeof note, "%.400s%s; training does not wait for it", mf_error_message(),
             m->contacted ? "" : " (expected the address of an MLflow server)");
    leave_note(m, MF_LOG_WARN, note);
    m->told = m->away = true;
}

/* Sets the time limit of a request after the end of the run. Returns false if no time
 * is left. */
static bool limit(mf_tracking *m)
{
    const int64_t now = clock_ms(), next = now + (int64_t)(1000 * answer_s);
    atomic_store(&m->limit_ms, next < m->last_ms ? next : m->last_ms);
    return now < m->last_ms;
}

static void send_end(mf_tracking *m)
{
    atomic_store(&m->limit_ms, clock_ms() + (int64_t)(1000 * answer_s));
    if (mf_tracking_set_status(&m->client, m->status, now_ms()) == MF_OK) return;
    leave_note(m, MF_LOG_WARN, "the end of the run could not be told");
}

static void free_all(mf_tracking *m)
{
    for (size_t i = 0; i < m->n_pairs; i++) {
        mf_free(m->pairs[i].key);
        mf_free(m->pairs[i].value);
    }
    mf_http_close(m->client.http);
    mf_tracking_queue_free(m->queue);
    mf_free(m->pairs);
    mf_free(m->server);
    mf_free(m->experiment);
    mf_free(m->name_of_run);
    mf_free(m->state);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->wake);
    pthread_cond_destroy(&m->over);
    mf_free(m);
}

static void *work(void *arg)
{
    mf_tracking *m = arg;
    double pause = 0;
    bool ended, empty;
    int rc = MF_OK;
    do {
        ended = wait_for_work(m, pause, &empty);
        if (ended && (empty || !limit(m))) break;
        rc = attempt(m);
        judge(m, rc);
        mf_error_clear();
        pause = rc == MF_OK          ? 0
                : pause == 0         ? retry_s
                : pause < rare_s / 2 ? 2 * pause
                                     : rare_s;
    } while (!ended || rc == MF_OK);
    if (rc == MF_OK && m->client.run[0] != '\0') send_end(m);
    mf_error_clear();
    pthread_mutex_lock(&m->lock);
    m->is_over = true;
    const bool left = m->left;
    pthread_cond_signal(&m->over);
    pthread_mutex_unlock(&m->lock);
    if (left) free_all(m);
    return NULL;
}

/* ---- the caller's side ---- */

bool mf_tracking_is_address(const char *text)
{
    const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
                       : strncmp(text, "https://", 8) == 0 ? text + 8
                                                           : NULL;
    if (!host || host[0] == '\0' || strchr(":/", host[0]) || strlen(text) > 1000) return false;
    for (const char *c = host; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~' || strchr("@?#\"'<>\\^`{|}", *c)) return false;
    return true;
}

/* The login is read from the variables that MLflow's own clients read. It is used only for the
 * server of MLFLOW_TRACKING_URI. Therefore a configuration from another person cannot send
 * it elsewhere. */
static int connect_to(mf_tracking *m)
{
    const char *uri = getenv("MLFLOW_TRACKING_URI");
    const size_t n = strlen(m->server);
    const int rc = mf_http_open(is_late, m, &m->client.http);
    if (rc != MF_OK || !uri || strncmp(uri, m->server, n) != 0 || uri[n + strspn(uri + n, "/")])
        return rc;
    return mf_http_login(m->client.http, getenv("MLFLOW_TRACKING_USERNAME"),
                         getenv("MLFLOW_TRACKING_PASSWORD"), getenv("MLFLOW_TRACKING_TOKEN"));
}

int mf_tracking_new(const mf_tracking_options *o, mf_tracking **ret)
{
    pthread_condattr_t attributes;
    mf_tracking *m = mf_alloc(1, sizeof *m);
    *ret = NULL;
    if (!m) return MF_ENOMEM;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, &attributes);
    pthread_cond_init(&m->over, &attributes);
    pthread_condattr_destroy(&attributes);
    m->server = mf_strdup(o->server);
    m->experiment = mf_strdup(o->experiment);
    m->name_of_run = mf_strdup(o->name);
    m->state = mf_strdup(o->state);
    int rc = m->server && m->experiment && m->name_of_run && m->state ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_tracking_queue_new(&m->queue);
    if (rc == MF_OK) {
        for (size_t n = strlen(m->server); n > 0 && m->server[n - 1] == '/';)
            m->server[--n] = '\0';
        m->client.server = m->server;
        m->client.experiment = m->experiment;
        m->client.name = m->name_of_run;
        if (o->resumed) rc = read_state(m);
    }
    if (rc == MF_OK) rc = connect_to(m);
    if (rc != MF_OK) {
        free_all(m);
        return rc;
    }
    *ret = m;
    return MF_OK;
}

bool mf_tracking_described(const mf_tracking *m)
{
    return m->described;
}

int mf_tracking_describe(mf_tracking *m, bool tag, const char *name, const char *value)
{
    if (strlen(name) > NAME_BYTES) return MF_OK;
    if (m->n_pairs == m->pairs_room) {
        const size_t room = m->pairs_room ? 2 * m->pairs_room : 256;
        mf_tracking_pair *more =
            mf_realloc(m->pairs, m->n_pairs * sizeof *more, room * sizeof *more);
        if (!more) return MF_ENOMEM;
        m->pairs = more;
        m->pairs_room = room;
    }
    mf_tracking_pair *p = &m->pairs[m->n_pairs];
    *p = (mf_tracking_pair){tag, mf_strdup(name), mf_strndup(value, VALUE_BYTES)};
    m->n_pairs++;
    if (!p->key || !p->value) return MF_ENOMEM;
    make_safe(p->key);
    return MF_OK;
}

int mf_tracking_log(mf_tracking *m, const char *name, double value, int64_t step, int64_t time)
{
    char key[NAME_BYTES + 2];
    size_t waiting;
    if (snprintf(key, sizeof key, "%s", name) > NAME_BYTES) return MF_OK;
    make_safe(key);
    const mf_tracking_metric metric = {key, value, step, time};
    const int rc = mf_tracking_queue_put(m->queue, &metric, &waiting);
    if (waiting == MF_TRACKING_BATCH) pthread_cond_signal(&m->wake);
    return rc;
}

int mf_tracking_begin(mf_tracking *m, int64_t began)
{
    sigset_t all, before;
    m->began = began;
    mf_tracking_queue_dropped(m->queue); /* drops counted earlier do not matter: these values
                                          * are mostly on the server already */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* only the caller's threads handle signals */
    m->started = pthread_create(&m->thread, NULL, work, m) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return m->started ? MF_OK : mf_fail(MF_ERUN, "no thread can be started");
}

/* Waits for the thread, which ends requests at limit_ms. The thread may hang in a system call,
 * for example one that resolves the address of a name. The thread is then abandoned. */
static bool wait_for_end(mf_tracking *m, const char *status)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec +=
        /* is_late is called only once a second (io/http.h), so a request may end that much
         * after its limit */
        (time_t)(end_s + answer_s) + 2;
    pthread_mutex_lock(&m->lock);
    m->status = status;
    m->last_ms = clock_ms() + (int64_t)(1000 * end_s);
    atomic_store(&m->limit_ms, clock_ms() + (int64_t)(1000 * answer_s));
    pthread_cond_signal(&m->wake);
    while (rc == 0 && !m->is_over)
        rc = pthread_cond_timedwait(&m->over, &m->lock, &until);
    m->left = !m->is_over;
    const bool over = m->is_over;
    pthread_mutex_unlock(&m->lock);
    return over;
}

void mf_tracking_end(mf_tracking *m, const char *status)
{
    if (!m) return;
    if (!m->started) {
        free_all(m);
        return;
    }
    mf_tracking_tell(m);
    char *server = mf_strdup(m->server);
    const pthread_t thread = m->thread;
    if (!wait_for_end(m, status)) {
        pthread_detach(thread);
        mf_log(MF_LOG_WARN,
               "log.mlflow = %s: values were not sent; 'moefw export mlflow' writes "
               "all values of a run",
               server ? server : "");
        mf_free(server);
        return;
    }
    pthread_join(thread, NULL);
    mf_tracking_tell(m);
    const uint64_t waits = mf_tracking_queue_waiting(m->queue),
                   dropped = mf_tracking_queue_dropped(m->queue);
    if (waits + dropped > 0 || sets_up(m))
        mf_log(MF_LOG_WARN,
               "log.mlflow = %s: %llu values were not sent%s; 'moefw export mlflow' "
               "writes all values of a run",
               server ? server : "", (unsigned long long)waits + dropped,
               dropped == 0 ? ", --resume sends them" : "");
    mf_free(server);
    free_all(m);
}
