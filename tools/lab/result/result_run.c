/* Writes what others need to make a run again, and to see whether it is the same: its
 * configuration, inputs, plugins, logged values, and hashes of metrics and checkpoints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/map.h"
#include "lab/result/result_parts.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/rundir.h"
#include "run/metrics/metrics.h"

int mf_result_sha256(const char *path, uint64_t *ret_bytes, char ret[MF_SHA256_HEX])
{
    mf_map map;
    const int rc = mf_map_open(path, &map);
    if (rc != MF_OK) return rc;
    if (ret_bytes) *ret_bytes = map.size;
    mf_map_ordered(&map);
    mf_sha256_hex(map.size > 0 ? map.data : "", map.size, ret);
    mf_map_close(&map);
    return MF_OK;
}

/* ---- the configuration ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] != '\0' ? slash + 1 : path;
}

static void put_input(mf_jw *w, const mf_ini_entry *e)
{
    char sha[MF_SHA256_HEX];
    uint64_t bytes = 0;
    const bool file = mf_result_sha256(e->value, &bytes, sha) == MF_OK;
    mf_error_clear();
    mf_jw_object(w);
    mf_jw_kv_string(w, "section", e->section);
    mf_jw_kv_string(w, "key", e->key);
    mf_jw_kv_string(w, "name", base_of(e->value));
    if (file) mf_jw_kv_int(w, "bytes", (int64_t)bytes);
    mf_jw_key(w, "sha256"); /* null: a folder, a pattern, or a file that is gone */
    file ? mf_jw_string(w, sha) : mf_jw_null(w);
    mf_jw_end(w);
}

bool mf_result_is_path(const char *value)
{
    return strchr(value, '/') && strncmp(value, "builtin:", 8) != 0;
}

/* Without the keys that describe the machine and its user, such as log.mlflow. */
static int put_config(mf_jw *w, const char *text)
{
    char *out = NULL;
    size_t size = 0;
    mf_ini *ini = mf_ini_new();
    FILE *f = open_memstream(&out, &size);
    int rc = ini && f ? mf_ini_load_text(ini, "config.ini", text, strlen(text)) : MF_ENOMEM;
    mf_jw_key(w, "inputs");
    mf_jw_array(w);
    if (rc == MF_OK) fputs(MF_RESULT_FIRST_LINE, f);
    for (int i = 0; rc == MF_OK && mf_ini_section_at(ini, i); i++) {
        const char *name = mf_ini_section_at(ini, i);
        fprintf(f, "[%s]\n", name);
        for (const mf_ini_entry *e = mf_ini_first_of(ini, name); e; e = mf_ini_next_of(e)) {
            if (mf_result_is_local(e)) continue;
            const bool path = mf_result_is_path(e->value);
            if (path) put_input(w, e);
            fprintf(f, "%s = %s\n", e->key, path ? base_of(e->value) : e->value);
        }
    }
    mf_jw_end(w);
    if (f && fclose(f) != 0 && rc == MF_OK) rc = MF_ENOMEM;
    if (rc == MF_OK) mf_jw_kv_string(w, "config", out);
    free(out); /* of the C library, not of mf_alloc */
    mf_ini_free(ini);
    return rc;
}

/* ---- plugins ---- */

static void copy_text(mf_jw *w, const mf_json *from, const char *key)
{
    const char *text = mf_json_string(mf_json_get(from, key), NULL);
    if (text) mf_jw_kv_string(w, key, text);
}

/* The manifest has the hash of the file that the run loaded. If the file has another one now,
 * its SHA-256 is not that of the run's plugin. */
static void put_plugins(mf_jw *w, const mf_json *manifest)
{
    const mf_json *all = mf_json_get(manifest, "plugins");
    mf_jw_key(w, "plugins");
    mf_jw_array(w);
    for (size_t i = 0; i < mf_json_size(all); i++) {
        const mf_json *p = mf_json_at(all, i);
        const char *file = mf_json_string(mf_json_get(p, "file"), NULL);
        const char *hash = mf_json_string(mf_json_get(p, "xxh3_128"), NULL);
        char now[33], sha[MF_SHA256_HEX];
        const bool known = file && hash && mf_hash_file(file, now) == MF_OK &&
                           strcmp(now, hash) == 0 && mf_result_sha256(file, NULL, sha) == MF_OK;
        mf_error_clear();
        mf_jw_object(w);
        copy_text(w, p, "kind");
        copy_text(w, p, "name");
        copy_text(w, p, "version");
        mf_jw_key(w, "sha256");
        known ? mf_jw_string(w, sha) : mf_jw_null(w);
        if (known && mf_result_code(file, sha)) mf_jw_kv_string(w, "code", sha);
        mf_error_clear();
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

/* ---- logged values ---- */

/* Removes a member with a number from a line of metrics; *n: its length. */
static void drop(char *line, size_t *n, const char *mark)
{
    char *at = memmem(line, *n, mark, strlen(mark));
    char *end = at ? memchr(at, ',', *n - (size_t)(at - line)) : NULL;
    if (!end) return;
    memmove(at, end + 1, *n - (size_t)(end + 1 - line));
    *n -= (size_t)(end + 1 - at);
}

int mf_result_lines_hash(const char *metrics, char ret[MF_SHA256_HEX])
{
    char *text;
    size_t size, kept = 0;
    const int rc = mf_read_file(metrics, 0, &text, &size);
    if (rc != MF_OK) return rc;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t next = end ? (size_t)(end - text) + 1 : size;
        size_t n = next - at;
        memmove(text + kept, text + at, n);
        /* the members of a line that contain a time */
        drop(text + kept, &n, "\"tokens_per_s\":");
        drop(text + kept, &n, "\"wall_s\":");
        kept += n;
        at = next;
    }
    mf_sha256_hex(text, kept, ret);
    mf_free(text);
    return MF_OK;
}

static void put_curves(mf_jw *w, const mf_metrics_history *h)
{
    static const char *const splits[] = {"train", "val"};
    for (int k = 0; k < 2; k++) {
        mf_jw_key(w, splits[k]);
        mf_jw_array(w);
        for (int i = 0; i < h->n; i++) {
            const mf_metrics_record *r = &h->records[i];
            if (strcmp(r->split, splits[k]) != 0) continue;
            mf_jw_array(w);
            mf_jw_int(w, r->step);
            mf_jw_real(w, r->task_loss);
            if (k == 0) mf_jw_real(w, r->grad_norm);
            mf_jw_end(w);
        }
        mf_jw_end(w);
    }
}

/* The last validation, from which the table of a comparison is computed. */
static void put_final(mf_jw *w, const mf_metrics_history *h)
{
    const mf_metrics_record *last = NULL;
    for (int i = 0; i < h->n; i++)
        if (strcmp(h->records[i].split, "val") == 0) last = &h->records[i];
    mf_jw_key(w, "final");
    if (!last) {
        mf_jw_null(w);
        return;
    }
    mf_jw_object(w);
    mf_jw_kv_int(w, "step", last->step);
    mf_jw_kv_int(w, "tokens", last->tokens);
    mf_jw_kv_real(w, "task_loss", last->task_loss);
    mf_jw_kv_real(w, "bits_per_byte", last->bits_per_byte);
    mf_jw_kv_real(w, "accuracy", last->accuracy);
    mf_jw_kv_real(w, "mse", last->mse);
    mf_jw_end(w);
}

/* ---- checkpoints ---- */

static int put_checkpoint(mf_jw *w, const char *folder, int64_t step)
{
    static const char *const files[] = {"model.safetensors", "state.safetensors"};
    static const char *const keys[] = {"weights", "state"};
    mf_jw_object(w);
    mf_jw_kv_int(w, "step", step);
    for (int i = 0; i < 2; i++) {
        char sha[MF_SHA256_HEX],
            *path = mf_strf("%s/step-%lld/%s", folder, (long long)step, files[i]);
        const int rc = path ? mf_result_sha256(path, NULL, sha) : MF_ENOMEM;
        mf_free(path);
        if (rc != MF_OK) return rc;
        mf_jw_kv_string(w, keys[i], sha);
    }
    mf_jw_end(w);
    return MF_OK;
}

static int put_checkpoints(mf_jw *w, const char *folder)
{
    int64_t *steps = NULL;
    int n = 0, rc = mf_is_dir(folder) ? mf_ckpt_list(folder, &steps, &n) : MF_OK;
    mf_jw_key(w, "checkpoints");
    mf_jw_array(w);
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = put_checkpoint(w, folder, steps[i]);
    mf_jw_end(w);
    mf_free(steps);
    return rc;
}

/* ---- the run ---- */

static int put_files(mf_jw *w, const mf_rundir *dir, const mf_json *manifest,
                     const char *config, const char *router)
{
    mf_metrics_history *h = NULL;
    char lines[MF_SHA256_HEX];
    int64_t v;
    int rc = mf_metrics_read(dir->metrics, &h);
    if (rc == MF_OK) rc = mf_result_lines_hash(dir->metrics, lines);
    if (rc == MF_OK) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "router", router);
        if (mf_json_int(mf_json_get(manifest, "seed"), &v)) mf_jw_kv_int(w, "seed", v);
        if (mf_json_int(mf_json_get(manifest, "steps"), &v)) mf_jw_kv_int(w, "steps", v);
        if (mf_json_int(mf_json_get(manifest, "params"), &v)) mf_jw_kv_int(w, "params", v);
        copy_text(w, manifest, "moefw");
        copy_text(w, manifest, "kernels");
        copy_text(w, manifest, "blas");
        rc = put_config(w, config);
        put_plugins(w, manifest);
        put_final(w, h);
        put_curves(w, h);
        mf_jw_kv_string(w, "lines", lines);
        if (rc == MF_OK) rc = put_checkpoints(w, dir->ckpt);
        mf_jw_end(w);
    }
    mf_metrics_history_free(h);
    return rc;
}

int mf_result_put_run(mf_jw *w, const char *run, const char *router)
{
    mf_rundir *dir = NULL;
    mf_json *manifest = NULL;
    char *text = NULL, *config = NULL;
    size_t size;
    int rc = mf_rundir_read(run, &dir);
    if (rc == MF_OK) rc = mf_read_file(dir->manifest, 0, &text, &size);
    if (rc == MF_OK) rc = mf_json_parse(dir->manifest, text, size, &manifest);
    if (rc == MF_OK) rc = mf_read_file(dir->config, 0, &config, &size);
    if (rc == MF_OK) rc = put_files(w, dir, manifest, config, router);
    mf_json_free(manifest);
    mf_free(config);
    mf_free(text);
    mf_rundir_close(dir);
    return rc;
}
