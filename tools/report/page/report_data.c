/* Opens a run directory for the report. Only metrics.jsonl is required. If another file is
 * damaged, a note is added to the page; for config.ini and manifest.json also if the file
 * is missing. */
#include "report/page/report_data.h"

#include "base/error.h"
#include "base/file/io.h"
#include "config/aliases.h"
#include "model/model_config.h"
#include "run/folder/rundir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* number of points of a smoothed track; a figure cannot show more */
#define TRACK_MOST 80
#define TEXT_MAX   (4u << 20) /* largest config.ini or manifest.json, in bytes */

static void note(mf_report_run *r, const char *what)
{
    if (mf_error_code() == MF_ENOMEM) r->no_memory = true;
    if (r->n_notes == r->notes_room) {
        const int room = 2 * r->notes_room + 8;
        const char **larger = mf_arena_alloc(r->arena, (size_t)room * sizeof *larger);
        if (!larger) {
            r->no_memory = true;
            return;
        }
        if (r->n_notes > 0) memcpy(larger, r->notes, (size_t)r->n_notes * sizeof *larger);
        r->notes = larger;
        r->notes_room = room;
    }
    r->notes[r->n_notes++] = mf_arena_strdup(r->arena, what);
}

void mf_report_note_error(mf_report_run *r)
{
    note(r, mf_error_message());
    if (mf_error_code() != MF_ENOMEM) mf_error_clear();
}

/* Reads the text of a file of the run; the caller frees it. If the file is unreadable, adds a
 * note and returns NULL. */
static char *text_of(mf_report_run *r, const char *name, size_t *ret_size)
{
    char *path = mf_path_join(r->dir, name), *text = NULL;
    if (!path) return NULL;
    if (mf_read_file(path, TEXT_MAX, &text, ret_size) != MF_OK) {
        note(r, mf_error_message());
        text = NULL;
    }
    mf_free(path);
    return text;
}

static void read_config(mf_report_run *r)
{
    size_t size;
    r->config_text = text_of(r, "config.ini", &size);
    if (!r->config_text) return;
    mf_ini *given = mf_ini_new();
    r->config = mf_ini_new();
    int rc = given && r->config ? mf_ini_load_text(given, "config.ini", r->config_text, size)
                                : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_config_translate(given, r->config, 0, NULL);
    mf_ini_free(given);
    if (rc == MF_OK) return;
    note(r, mf_error_message());
    mf_ini_free(r->config);
    r->config = NULL;
}

static void read_manifest(mf_report_run *r)
{
    size_t size;
    r->manifest_text = text_of(r, "manifest.json", &size);
    if (r->manifest_text &&
        mf_json_parse("manifest.json", r->manifest_text, size, &r->manifest) != MF_OK) {
        note(r, mf_error_message());
        r->manifest = NULL;
    }
}

static void read_sample(mf_report_run *r)
{
    char *path = mf_path_join(r->dir, "routing_sample.json");
    if (!path) return;
    if (mf_exists(path) && mf_sample_read(path, &r->sample) != MF_OK)
        note(r, mf_error_message());
    mf_free(path);
}

/* Reads evenly spaced files of samples/. The last element is the sample at the end of
 * the run. */
static void read_taken(mf_report_run *r)
{
    int64_t *steps = NULL;
    int n = 0;
    char *folder = mf_path_join(r->dir, "samples");
    if (!folder) return;
    if (mf_sample_list(folder, &steps, &n) != MF_OK) note(r, mf_error_message());
    const int room = MF_REPORT_TAKEN - (r->sample != NULL);
    for (int i = 0; i < n && i < room; i++) {
        const int64_t step = steps[n <= room ? i : i * (n - 1) / (room - 1)];
        if (r->sample && step >= r->sample->step) break;
        char *path = mf_sample_path(folder, step);
        if (!path || mf_sample_read(path, &r->taken[r->n_taken]) != MF_OK)
            note(r, mf_error_message());
        else
            r->n_taken++;
        mf_free(path);
    }
    if (r->sample) r->taken[r->n_taken++] = r->sample;
    mf_free(steps);
    mf_free(folder);
}

static void note_damage(mf_report_run *r, const char *file, const mf_step_damage *d)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %d damaged %s skipped", file, d->lines,
             d->lines == 1 ? "line" : "lines");
    if (d->lines > 0) note(r, text);
    snprintf(text, sizeof text, "%s: the last line has no end; it was skipped", file);
    if (d->truncated) note(r, text);
}

static void read_memory(mf_report_run *r)
{
    char *path = mf_path_join(r->dir, "memory.jsonl");
    if (!path) return;
    if (mf_memory_read(path, &r->memory) != MF_OK) note(r, mf_error_message());
    note_damage(r, "memory.jsonl", &r->memory.damage);
    mf_free(path);
}

static int read_metrics(mf_report_run *r)
{
    char *path = mf_path_join(r->dir, "metrics.jsonl");
    if (!path) return MF_ENOMEM;
    int rc = mf_exists(path) ? mf_metrics_read(path, &r->history)
                             : mf_rundir_missing(r->dir, "metrics.jsonl");
    if (rc == MF_OK && r->history->n == 0) rc = mf_fail(MF_EINPUT, "%s: no record in it", path);
    mf_free(path);
    if (rc == MF_OK) note_damage(r, "metrics.jsonl", &r->history->damage);
    return rc;
}

/* The floor of the last validation, which is the floor for the model's windows. Records of
 * older runs do not contain it. For them, returns the floor of a model that uses the whole
 * past, which is lower. */
static double known_floor(const mf_report_run *r)
{
    const mf_metrics_record *val = mf_report_last(r, "val");
    return val && !isnan(val->floor) ? val->floor
                                     : mf_report_manifest_number(r, "entropy_floor");
}

static const char *last_part(mf_arena *arena, const char *dir)
{
    char *copy = mf_arena_strdup(arena, dir);
    if (!copy) return dir;
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    const char *slash = strrchr(copy, '/');
    return slash && slash[1] != '\0' ? slash + 1 : copy;
}

int mf_report_run_open(const char *dir, mf_report_run **ret)
{
    *ret = NULL;
    mf_report_run *r = mf_alloc(1, sizeof *r);
    if (!r) return MF_ENOMEM;
    r->arena = mf_arena_new();
    r->dir = r->arena ? mf_arena_strdup(r->arena, dir) : NULL;
    int rc = r->dir ? read_metrics(r) : MF_ENOMEM;
    if (rc != MF_OK) {
        mf_report_run_close(r);
        return rc;
    }
    read_memory(r);
    r->name = last_part(r->arena, dir);
    read_config(r);
    read_manifest(r);
    read_sample(r);
    read_taken(r);
    if (r->no_memory || mf_error_code() == MF_ENOMEM) {
        mf_report_run_close(r);
        return mf_fail(MF_ENOMEM, "out of memory for the report of %s", dir);
    }
    mf_error_clear(); /* the notes say what could not be read */
    for (int i = 0; i < r->history->n; i++)
        if (r->history->records[i].n_layers > 0) r->n_layers = r->history->records[i].n_layers;
    r->floor = known_floor(r);
    *ret = r;
    return MF_OK;
}

void mf_report_run_close(mf_report_run *r)
{
    if (!r) return;
    mf_metrics_history_free(r->history);
    mf_memory_free(&r->memory);
    for (int i = 0; i < r->n_taken; i++)
        if (r->taken[i] != r->sample) mf_sample_free(r->taken[i]);
    mf_sample_free(r->sample);
    mf_ini_free(r->config);
    mf_json_free(r->manifest);
    mf_free(r->config_text);
    mf_free(r->manifest_text);
    mf_arena_free(r->arena);
    mf_free(r);
}

const char *mf_report_config(const mf_report_run *r, const char *section, const char *key,
                             const char *absent)
{
    const mf_ini_entry *e = r->config ? mf_ini_get(r->config, section, key) : NULL;
    return e ? e->value : absent;
}

bool mf_report_has_experts(const mf_report_run *r, int layer)
{
    const int every = atoi(mf_report_config(r, "model", "moe_every", "1"));
    const char *dense = mf_report_config(r, "model", "dense_layers", "");
    bool bad; /* an empty list is written as "" */
    return every > 0 && (layer + 1) % every == 0 && !mf_model_in_layers(dense, layer, &bad);
}

const char *mf_report_manifest(const mf_report_run *r, const char *key, const char *absent)
{
    const char *text = mf_json_string(mf_json_get(r->manifest, key), NULL);
    return text ? text : absent;
}

const char *mf_report_plugin(const mf_report_run *r, const char *kind, const char *absent)
{
    const char *set = mf_report_config(r, kind, "plugin", absent);
    const mf_json *all = mf_json_get(r->manifest, "plugins");
    if (!strchr(set, '/')) return set;
    for (size_t i = 0; mf_json_typeof(all) == MF_JSON_ARRAY && i < mf_json_size(all); i++) {
        const mf_json *one = mf_json_at(all, i);
        const char *name = mf_json_string(mf_json_get(one, "name"), NULL),
                   *its = mf_json_string(mf_json_get(one, "kind"), NULL);
        if (name && its && strcmp(its, kind) == 0) return name;
    }
    return strrchr(set, '/') + 1;
}

double mf_report_manifest_number(const mf_report_run *r, const char *key)
{
    double v;
    return mf_json_real(mf_json_get(r->manifest, key), &v) ? v : NAN;
}

const mf_metrics_record *mf_report_last(const mf_report_run *r, const char *split)
{
    for (int i = r->history->n - 1; i >= 0; i--)
        if (strcmp(r->history->records[i].split, split) == 0) return &r->history->records[i];
    return NULL;
}

const mf_layer_stats *mf_report_layer(const mf_metrics_record *r, int i)
{
    return r && i >= 0 && i < r->n_layers ? &r->layers[i] : NULL;
}

/* ---- curves ---- */

mf_track mf_report_track(const mf_report_run *r, const char *split, mf_pick pick,
                         const void *arg)
{
    const mf_metrics_history *h = r->history;
    mf_track t = {0};
    t.x = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *t.x);
    t.y = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *t.y);
    if (!t.x || !t.y) return (mf_track){0};
    for (int i = 0; i < h->n; i++) {
        if (strcmp(h->records[i].split, split) != 0) continue;
        if (!mf_metrics_compares(h->n, h->records, i)) continue;
        const mf_metrics_record like = mf_metrics_like(&h->records[i]);
        const double y = pick(&like, arg);
        if (!isfinite(y)) continue;
        t.x[t.n] = (double)h->records[i].step;
        t.y[t.n++] = y;
    }
    return t;
}

static mf_track point_of(const mf_report_run *r, double x, double y)
{
    mf_track t = {1, mf_arena_alloc(r->arena, sizeof(double)),
                  mf_arena_alloc(r->arena, sizeof(double))};
    if (!t.x || !t.y || !isfinite(y)) return (mf_track){0};
    t.x[0] = x;
    t.y[0] = y;
    return t;
}

mf_track mf_report_final(const mf_report_run *r, mf_pick pick, const void *arg,
                         int64_t *ret_batches)
{
    const mf_metrics_history *h = r->history;
    for (int i = h->n - 1; i >= 0; i--) {
        const mf_metrics_record *m = &h->records[i];
        if (strcmp(m->split, "val") != 0) continue;
        *ret_batches = m->batches;
        if (m->curve.batches == 0 && mf_metrics_compares(h->n, h->records, i)) break;
        return point_of(r, (double)m->step, pick(m, arg));
    }
    return (mf_track){0};
}

mf_track mf_report_best(const mf_report_run *r, mf_pick pick, const void *arg)
{
    const mf_metrics_history *h = r->history;
    const int best = mf_metrics_best(h->n, h->records);
    if (best < 0) return (mf_track){0};
    const mf_metrics_record like = mf_metrics_like(&h->records[best]);
    return point_of(r, (double)like.step, pick(&like, arg));
}

/* Replaces neighbouring points by their means, so that at most TRACK_MOST points remain. */
static mf_track thinned(mf_track t)
{
    const int each = (t.n + TRACK_MOST - 1) / TRACK_MOST;
    int n = 0;
    if (each < 2) return t;
    for (int i = 0; i < t.n; i += each, n++) {
        const int end = i + each < t.n ? i + each : t.n;
        double x = 0, y = 0;
        for (int k = i; k < end; k++) {
            x += t.x[k];
            y += t.y[k];
        }
        t.x[n] = x / (end - i);
        t.y[n] = y / (end - i);
    }
    t.n = n;
    return t;
}

mf_track mf_report_smooth(const mf_report_run *r, mf_track t, double share)
{
    const int half = (int)(t.n * share / 2);
    mf_track out = t;
    if (t.n <= 2 || half < 1) return t;
    out.x = mf_arena_alloc(r->arena, (size_t)t.n * sizeof *out.x);
    out.y = mf_arena_alloc(r->arena, (size_t)t.n * sizeof *out.y);
    if (!out.x || !out.y) return t;
    memcpy(out.x, t.x, (size_t)t.n * sizeof *out.x);
    for (int i = 0; i < t.n; i++) {
        /* the same number of points on both sides, so that the ends are not biased */
        int reach = half < i ? half : i;
        if (reach > t.n - 1 - i) reach = t.n - 1 - i;
        double sum = 0;
        for (int k = i - reach; k <= i + reach; k++)
            sum += t.y[k];
        out.y[i] = sum / (2 * reach + 1);
    }
    return thinned(out);
}

const char *mf_report_layer_split(const mf_report_run *r)
{
    int train = 0, val = 0;
    for (int i = 0; i < r->history->n; i++) {
        const mf_metrics_record *m = &r->history->records[i];
        if (m->n_layers == 0) continue;
        if (strcmp(m->split, "train") == 0)
            train++;
        else if (strcmp(m->split, "val") == 0)
            val++;
    }
    return train >= val ? "train" : "val";
}
