/* Flattens the JSON records of metrics.jsonl into named numbers. The name of a number is the
 * path of keys to it, so equal names of several runs share a column. */
#include "report/export/flat.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "run/metrics/memory.h"
#include "run/metrics/metrics.h"
#include "run/folder/rundir.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 400

void mf_flat_free(mf_flat *f)
{
    mf_strings_free(&f->names);
    mf_free(f->lines);
    mf_free(f->values);
    mf_arena_free(f->arena);
    *f = (mf_flat){0};
}

/* Makes space for one more element of `size` bytes. */
static int grow(void *list, size_t n, size_t *cap, size_t size)
{
    void *have;
    if (n < *cap) return MF_OK;
    const size_t more = *cap > 0 ? 2 * *cap : 64;
    memcpy(&have, list, sizeof have);
    void *larger = mf_realloc(have, n * size, more * size);
    if (!larger) return MF_ENOMEM;
    memcpy(list, &larger, sizeof larger);
    *cap = more;
    return MF_OK;
}

static int add_value(mf_flat *f, const char *name, bool counted, double value)
{
    int32_t id;
    bool added;
    int rc = grow(&f->values, f->n_values, &f->cap_values, sizeof *f->values);
    if (rc == MF_OK) rc = mf_strings_add(&f->names, name, strlen(name), &id, &added);
    if (rc != MF_OK) return rc;
    f->values[f->n_values++] = (mf_flat_value){id, counted, value};
    f->lines[f->n_lines - 1].n++;
    return MF_OK;
}

static int flatten(mf_flat *f, const char *name, bool counted, const mf_json *v);

static int join(char out[NAME_MAX_BYTES], const char *name, const char *part)
{
    const int n = snprintf(out, NAME_MAX_BYTES, "%s%s%s", name, name[0] ? "." : "", part);
    return n < NAME_MAX_BYTES
               ? MF_OK
               : mf_fail(MF_EINPUT,
                         "metrics.jsonl: the name %.60s... is too long: expected "
                         "less than %d bytes, found %d",
                         out, NAME_MAX_BYTES, n);
}

static int flatten_array(mf_flat *f, const char *name, const mf_json *list)
{
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++) {
        const mf_json *v = mf_json_at(list, i);
        int64_t at = (int64_t)i;
        char part[24], full[NAME_MAX_BYTES];
        mf_json_int(mf_json_get(v, "layer"), &at);
        snprintf(part, sizeof part, "%lld", (long long)at);
        rc = join(full, name, part);
        if (rc == MF_OK) rc = flatten(f, full, mf_json_typeof(v) != MF_JSON_OBJECT, v);
    }
    return rc;
}

/* Adds the new value of each changed option. Values that are not numbers are skipped. */
static int flatten_changes(mf_flat *f, const mf_json *list)
{
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++) {
        const mf_json *change = mf_json_at(list, i);
        const char *option = mf_json_string(mf_json_get(change, "option"), NULL);
        double to;
        char full[NAME_MAX_BYTES];
        if (!option || !mf_json_real(mf_json_get(change, "to"), &to)) continue;
        rc = join(full, "turns", option);
        if (rc == MF_OK) rc = add_value(f, full, false, to);
    }
    return rc;
}

/* Whether a key of a record does not belong to the numbers of its split. Such keys say which
 * batches were used. If `curve` replaces the record, the numbers that are known only for all
 * batches are skipped, too. */
static bool is_skipped(const mf_flat *f, const char *key, bool like)
{
    static const char *const keys[] = {
        "batches",          "final", "gap_loss",       "gap_accuracy", "floor", "regularizers",
        "reassigned",       "moe",   "ppl_batch_mean", "heads",        "tasks", "efficiency",
        "dropped_per_token"};
    const size_t n = like ? sizeof keys / sizeof *keys : f->apart ? 2 : 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return f->apart && strncmp(key, "curve_", 6) == 0;
}

/* The number of a record under a key, in the form that is comparable with
 * earlier validations. */
static const mf_json *like_value(const mf_json *record, const char *key, const mf_json *own)
{
    char name[64];
    snprintf(name, sizeof name, "curve_%.50s", key);
    const mf_json *value = mf_json_get(record, name);
    return value ? value : own;
}

static int flatten_object(mf_flat *f, const char *name, const mf_json *object)
{
    int rc = MF_OK;
    const char *key;
    const mf_json *value;
    const bool like = f->like && name[0] == '\0';
    for (size_t i = 0; rc == MF_OK && mf_json_member(object, i, &key, &value); i++) {
        char full[NAME_MAX_BYTES];
        if (name[0] == '\0' && strcmp(key, "step") == 0) continue;
        if (name[0] != '\0' && strcmp(key, "layer") == 0) continue;
        if (name[0] == '\0' && is_skipped(f, key, like)) continue;
        if (like) value = like_value(object, key, value);
        rc = join(full, name, key);
        if (rc == MF_OK && strcmp(full, "turns") == 0)
            rc = flatten_changes(f, value);
        else if (rc == MF_OK)
            rc = flatten(f, full, false, value);
    }
    return rc;
}

static int flatten(mf_flat *f, const char *name, bool counted, const mf_json *v)
{
    double real;
    bool truth;
    if (mf_json_typeof(v) == MF_JSON_OBJECT) return flatten_object(f, name, v);
    if (mf_json_typeof(v) == MF_JSON_ARRAY) return flatten_array(f, name, v);
    if (mf_json_real(v, &real)) return add_value(f, name, counted, real);
    if (mf_json_bool(v, &truth)) return add_value(f, name, counted, truth);
    return MF_OK;
}

typedef struct reader {
    mf_flat *f;
    mf_memory_past memory;
    int64_t batches; /* number of batches of the last validation that was not final; 0:
                      * not known */
    int at; /* index of the first record of memory.jsonl at or after the current step */
} reader;

static int add_memory(reader *rd, int64_t step)
{
    const mf_memory_past *m = &rd->memory;
    while (rd->at < m->n && m->step[rd->at] < (double)step)
        rd->at++;
    if (rd->at == m->n || m->step[rd->at] != (double)step) return MF_OK;
    return add_value(rd->f, "peak_rss_mib", false, m->peak_mib[rd->at]);
}

/* Adds a line of a split with the numbers of the record v. */
static int add_split(reader *rd, const mf_json *v, const char *split)
{
    mf_flat *f = rd->f;
    int64_t step = 0;
    mf_json_int(mf_json_get(v, "step"), &step);
    int rc = grow(&f->lines, f->n_lines, &f->cap_lines, sizeof *f->lines);
    if (rc != MF_OK || !f->lines) return rc;
    const mf_flat_line *last = f->n_lines > 0 ? &f->lines[f->n_lines - 1] : NULL;
    double wall = last && last->run == f->n_runs ? last->wall_s : 0;
    mf_json_real(mf_json_get(v, "wall_s"), &wall);
    f->lines[f->n_lines++] = (mf_flat_line){.run = f->n_runs,
                                            .step = step,
                                            .split = mf_arena_strdup(f->arena, split),
                                            .wall_s = wall,
                                            .first = f->n_values};
    if (!f->lines[f->n_lines - 1].split) return MF_ENOMEM;
    rc = flatten(f, "", false, v);
    return rc == MF_OK && strcmp(split, "val") == 0 ? add_memory(rd, step) : rc;
}

static int add_line(void *arg, const mf_json *v, bool *ret_damaged)
{
    reader *rd = arg;
    const bool curve = mf_json_get(v, "curve_batches") != NULL;
    int64_t step, batches = mf_json_int_or_0(v, "batches");
    bool final = false;
    const char *split = mf_json_string(mf_json_get(v, "split"), NULL);
    if (!mf_json_int(mf_json_get(v, "step"), &step) || !split) {
        *ret_damaged = true;
        return MF_OK;
    }
    mf_json_bool(mf_json_get(v, "final"), &final);
    if (!rd->f->apart || !final) {
        if (strcmp(split, "val") == 0) rd->batches = batches;
        return add_split(rd, v, split);
    }
    const bool differs = !curve && rd->batches > 0 && batches != rd->batches;
    rd->f->like = curve;
    int rc = differs ? MF_OK : add_split(rd, v, split);
    rd->f->like = false;
    return rc == MF_OK ? add_split(rd, v, MF_SPLIT_FINAL) : rc;
}

static int read_lines(mf_flat *f, const char *dir, const char *metrics, const char *memory)
{
    reader rd = {.f = f};
    mf_step_damage damage = {0};
    int rc = mf_memory_read(memory, &rd.memory);
    f->damaged_memory = rd.memory.damage.lines + rd.memory.damage.truncated;
    if (rc == MF_OK) rc = mf_step_file_read(metrics, add_line, &rd, &damage);
    f->damaged = damage.lines + damage.truncated;
    mf_memory_free(&rd.memory);
    return rc == MF_ENOTFOUND ? mf_rundir_missing(dir, "metrics.jsonl") : rc;
}

int mf_flat_add(mf_flat *f, const char *dir)
{
    char *metrics = mf_path_join(dir, "metrics.jsonl"),
         *memory = mf_path_join(dir, "memory.jsonl");
    const size_t had = f->n_lines;
    if (!f->arena) f->arena = mf_arena_new();
    int rc = metrics && memory && f->arena ? read_lines(f, dir, metrics, memory) : MF_ENOMEM;
    if (rc == MF_OK && f->n_lines == had)
        rc = mf_fail(MF_EINPUT, "%s: no record in it", metrics);
    f->n_runs++;
    mf_free(metrics);
    mf_free(memory);
    return rc;
}

void mf_flat_warn(const mf_flat *f, const char *run)
{
    const struct {
        const char *file;
        int n;
    } damaged[] = {{"metrics.jsonl", f->damaged}, {"memory.jsonl", f->damaged_memory}};
    for (int i = 0; i < 2; i++)
        if (damaged[i].n > 0)
            mf_log(MF_LOG_WARN, "%s/%s: %d damaged %s skipped", run, damaged[i].file,
                   damaged[i].n, damaged[i].n == 1 ? "line" : "lines");
}
