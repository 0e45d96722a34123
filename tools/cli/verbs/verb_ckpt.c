/* moefw ckpt: lists, verifies and compares checkpoints. The verb writes no files. With --json
 * every action prints one object. */
#include "cli/cli.h"

#include "base/file/io.h"
#include "io/json.h"
#include "base/text/shown.h"
#include "data/safetensors/safetensors.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/rundir.h"
#include "run/folder/file_sums.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const mf_cli_form forms[] = {
    {"ls", "RUN", 1, 1, "list the checkpoints of a run, newest first"},
    {"verify", "RUN|CHECKPOINT", 1, 1,
     "check every byte of a checkpoint, of its run's tokenizer and of the files that the run's "
     "weights are in, and the keys of config.ini that weights depend on; exit 3 if one is bad"},
    {"diff", "A B", 2, 2, "compare the tensors of two checkpoints; exit 1 if they differ"},
    MF_CLI_FORM_END};

static const mf_cli_option options[] = {
    {.name = "step",
     .of = "verify diff",
     .kind = MF_CLI_INT,
     .arg = "N",
     .lo = 0,
     .hi = 1e15,
     .help = "the checkpoint of this step instead of the newest"},
    MF_CLI_END};

static int print_json(mf_jw *w)
{
    const char *text = w ? mf_jw_text(w, NULL) : NULL;
    if (!text) return MF_ENOMEM;
    puts(text);
    return MF_OK;
}

/* The path of the folder of checkpoints for RUN or RUN/ckpt; NULL: out of memory. */
static char *folder_of(const char *what)
{
    return mf_rundir_is(what) ? mf_path_join(what, "ckpt") : mf_strdup(what);
}

static bool is_checkpoint(const char *path)
{
    char *model = mf_path_join(path, "model.safetensors");
    char *manifest = mf_path_join(path, "MANIFEST.json");
    bool is = model && manifest && (mf_exists(model) || mf_exists(manifest));
    mf_free(model);
    mf_free(manifest);
    return is;
}

/* Finds a checkpoint. what: directory of a checkpoint, a run, or the folder ckpt of a run. In a
 * run, the option --step chooses the checkpoint; without this option it is the newest. */
static int find(const mf_cli *cli, const char *what, char **ret_path)
{
    int64_t *steps = NULL, step = mf_cli_int(cli, "step", -1);
    int n = 0, rc = MF_OK;
    *ret_path = NULL;
    if (!mf_exists(what)) return mf_rundir_missing(what, NULL);
    if (is_checkpoint(what)) {
        *ret_path = mf_strdup(what);
        return *ret_path ? MF_OK : MF_ENOMEM;
    }
    char *folder = folder_of(what);
    if (!folder) return MF_ENOMEM;
    rc = mf_ckpt_list(folder, &steps, &n);
    int64_t chosen = -1;
    for (int i = 0; i < n && chosen < 0; i++)
        if (step < 0 || steps[i] == step) chosen = steps[i];
    if (rc == MF_OK && chosen < 0)
        rc = step >= 0 ? mf_fail(MF_ECHECKPOINT, "%s: no checkpoint of step %lld", what,
                                 (long long)step)
                       : mf_fail(MF_ECHECKPOINT, "%s: there is no checkpoint", what);
    if (rc == MF_OK && !(*ret_path = mf_ckpt_path(folder, chosen))) rc = MF_ENOMEM;
    mf_free(steps);
    mf_free(folder);
    return rc;
}

/* ---- ls ---- */

static void list_one(mf_jw *w, bool json, int64_t step, const mf_ckpt_report *r)
{
    if (!json) {
        printf("step-%-10lld %6lld tensors %12llu bytes  %s\n", (long long)step,
               (long long)r->tensors, (unsigned long long)r->bytes,
               r->ok ? "ok" : mf_shown(r->errors[0]));
        return;
    }
    mf_jw_object(w);
    mf_jw_kv_int(w, "step", step);
    mf_jw_kv_bool(w, "ok", r->ok);
    mf_jw_kv_int(w, "tensors", r->tensors);
    mf_jw_kv_int(w, "bytes", (int64_t)r->bytes);
    mf_jw_end(w);
}

static int list(const mf_cli *cli, mf_jw *w)
{
    const char *what = mf_cli_operand(cli, 0);
    bool json = mf_cli_json(cli);
    int64_t *steps = NULL;
    int n = 0;
    if (!mf_is_dir(what)) return mf_rundir_missing(what, NULL);
    char *folder = folder_of(what);
    int rc = folder ? mf_ckpt_list(folder, &steps, &n) : MF_ENOMEM;
    if (rc == MF_OK && n == 0 && !mf_rundir_is(what)) rc = mf_rundir_missing(what, NULL);
    mf_jw_object(w);
    mf_jw_key(w, "checkpoints");
    mf_jw_array(w);
    for (int i = 0; i < n && rc == MF_OK; i++) {
        mf_ckpt_report r = {0};
        char *path = mf_ckpt_path(folder, steps[i]);
        rc = path ? mf_ckpt_verify(path, &r) : MF_ENOMEM;
        if (rc == MF_OK) list_one(w, json, steps[i], &r);
        mf_ckpt_report_free(&r);
        mf_free(path);
    }
    mf_jw_end(w);
    mf_jw_end(w);
    if (rc == MF_OK && json) rc = print_json(w);
    if (rc == MF_OK && !json && n == 0) printf("no checkpoints\n");
    mf_free(steps);
    mf_free(folder);
    return rc;
}

/* ---- verify ---- */

/* Writes a report as JSON. error: why there is no report; NULL: there is a report. */
static int put_report(mf_jw *w, const mf_ckpt_report *r, const char *error)
{
    mf_jw_object(w);
    mf_jw_kv_bool(w, "ok", r->ok);
    mf_jw_key(w, "step");
    error ? mf_jw_null(w) : mf_jw_int(w, r->step);
    mf_jw_kv_int(w, "tensors", r->tensors);
    mf_jw_kv_int(w, "bytes", (int64_t)r->bytes);
    mf_jw_key(w, "errors");
    mf_jw_array(w);
    if (error) mf_jw_string(w, error);
    for (int i = 0; i < r->n_errors; i++)
        mf_jw_string(w, r->errors[i]);
    mf_jw_end(w);
    mf_jw_end(w);
    return print_json(w);
}

/* Verifies files outside the run's checkpoints, among them the weights of an imported model. */
static int verify_files(const char *path, mf_ckpt_report *r)
{
    mf_rundir *dir = NULL;
    uint64_t bytes = 0;
    if (!r->ok || !mf_rundir_readable(path)) return MF_OK;
    int rc = mf_rundir_read(path, &dir);
    if (rc == MF_OK) rc = mf_file_sums_verify(dir, &bytes);
    mf_rundir_close(dir);
    r->bytes += bytes;
    return rc;
}

static int verify(const mf_cli *cli, mf_jw *w)
{
    char *path = NULL;
    mf_ckpt_report r = {0};
    const char *what = mf_cli_operand(cli, 0);
    int rc = find(cli, what, &path);
    if (rc == MF_OK) rc = mf_ckpt_verify(path, &r);
    if (rc == MF_OK) rc = verify_files(path, &r);
    if ((rc == MF_EINPUT || rc == MF_ECHECKPOINT) && mf_cli_json(cli))
        put_report(w, &(mf_ckpt_report){0}, mf_error_message());
    else if (rc == MF_OK && mf_cli_json(cli)) {
        rc = put_report(w, &r, NULL);
    } else if (rc == MF_OK && r.ok) {
        printf("%s: ok: step %lld, %lld tensors, %llu bytes\n", mf_shown(path),
               (long long)r.step, (long long)r.tensors, (unsigned long long)r.bytes);
    }
    if (rc == MF_OK && !r.ok) rc = mf_fail(MF_ECHECKPOINT, "%s", r.errors[0]);
    mf_ckpt_report_free(&r);
    mf_free(path);
    return rc;
}

/* ---- diff ---- */

enum { PART = 1 << 16 };

typedef struct comparison {
    mf_st_file *a, *b;
    mf_jw *w;
    bool json;
    int64_t tensors, differ;
    float *x, *y; /* [PART] */
} comparison;

static bool same_form(const mf_st_tensor *x, const mf_st_tensor *y)
{
    return strcmp(x->dtype_name, y->dtype_name) == 0 && x->rank == y->rank &&
           memcmp(x->shape, y->shape, (size_t)x->rank * sizeof x->shape[0]) == 0;
}

/* Compares the elements of two tensors of the same form. *largest: the largest |x - y| of an
 * F32 tensor; infinite if a difference is NaN. For other types it is NaN. *elements: number of
 * elements whose bits differ. */
static int compare_data(comparison *c, const mf_st_tensor *x, const mf_st_tensor *y,
                        double *largest, int64_t *elements)
{
    const size_t width = mf_st_dtype_size(x->dtype);
    *largest = x->dtype == MF_ST_F32 ? 0 : (double)NAN;
    *elements = 0;
    for (uint64_t at = 0; at < x->bytes;) {
        size_t n = x->bytes - at < PART * sizeof(float) ? (size_t)(x->bytes - at)
                                                        : PART * sizeof(float);
        int rc = mf_st_read_part(c->a, x, c->x, n, at);
        if (rc == MF_OK) rc = mf_st_read_part(c->b, y, c->y, n, at);
        if (rc != MF_OK) return rc;
        at += n;
        if (x->dtype != MF_ST_F32) {
            for (size_t i = 0; i < n; i += width)
                *elements += memcmp((char *)c->x + i, (char *)c->y + i, width) != 0;
            continue;
        }
        for (size_t i = 0; i < n / sizeof(float); i++) {
            if (memcmp(&c->x[i], &c->y[i], sizeof(float)) == 0) continue;
            double difference = fabs((double)c->x[i] - (double)c->y[i]);
            ++*elements;
            if (isnan(difference)) difference = (double)INFINITY;
            if (difference > *largest) *largest = difference;
        }
    }
    return MF_OK;
}

static void tell(comparison *c, const char *name, const char *how, double largest,
                 int64_t elements)
{
    c->differ++;
    if (!c->json) {
        printf("%s: %s", mf_shown(name), mf_shown(how));
        if (elements > 0) printf(": %lld elements", (long long)elements);
        if (elements > 0 && !isnan(largest)) printf(", at most %g apart", largest);
        putchar('\n');
        return;
    }
    mf_jw_object(c->w);
    mf_jw_kv_string(c->w, "name", name);
    mf_jw_kv_string(c->w, "how", how);
    mf_jw_kv_int(c->w, "elements", elements);
    mf_jw_kv_real(c->w, "max_abs", largest);
    mf_jw_end(c->w);
}

static int compare(comparison *c)
{
    for (size_t i = 0; i < mf_st_count(c->a); i++) {
        const mf_st_tensor *x = mf_st_at(c->a, i), *y = mf_st_find(c->b, x->name);
        double largest;
        int64_t elements;
        c->tensors++;
        if (!y || !same_form(x, y)) {
            tell(c, x->name, !y ? "only in the first" : "other type or shape", 0, 0);
            continue;
        }
        int rc = compare_data(c, x, y, &largest, &elements);
        if (rc != MF_OK) return rc;
        if (elements > 0) tell(c, x->name, "other values", largest, elements);
    }
    for (size_t i = 0; i < mf_st_count(c->b); i++)
        if (!mf_st_find(c->a, mf_st_at(c->b, i)->name))
            tell(c, mf_st_at(c->b, i)->name, "only in the second", 0, 0);
    return MF_OK;
}

static int open_model(const mf_cli *cli, int operand, mf_st_file **ret)
{
    char *path = NULL, *file = NULL;
    int rc = find(cli, mf_cli_operand(cli, operand), &path);
    if (rc == MF_OK) file = mf_path_join(path, "model.safetensors");
    if (rc == MF_OK) rc = file ? mf_st_open(file, ret) : MF_ENOMEM;
    mf_free(file);
    mf_free(path);
    return rc;
}

static int diff(const mf_cli *cli, mf_jw *w)
{
    comparison c = {.w = w, .json = mf_cli_json(cli)};
    c.x = mf_alloc(PART, sizeof *c.x);
    c.y = mf_alloc(PART, sizeof *c.y);
    int rc = c.x && c.y ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) rc = open_model(cli, 0, &c.a);
    if (rc == MF_OK) rc = open_model(cli, 1, &c.b);
    mf_jw_object(w);
    mf_jw_key(w, "differences");
    mf_jw_array(w);
    if (rc == MF_OK) rc = compare(&c);
    mf_jw_end(w);
    mf_jw_kv_int(w, "tensors", c.tensors);
    mf_jw_kv_bool(w, "identical", c.differ == 0);
    mf_jw_end(w);
    if (rc == MF_OK && c.json) rc = print_json(w);
    if (rc == MF_OK && !c.json && c.differ == 0)
        printf("identical: %lld tensors\n", (long long)c.tensors);
    if (rc == MF_OK && c.differ > 0)
        rc = mf_fail(MF_ERUN, "%s and %s differ in %lld tensors", mf_cli_operand(cli, 0),
                     mf_cli_operand(cli, 1), (long long)c.differ);
    mf_st_close(c.a);
    mf_st_close(c.b);
    mf_free(c.x);
    mf_free(c.y);
    return rc;
}

static int run(const mf_cli *cli)
{
    const char *action = mf_cli_action(cli);
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    int rc = strcmp(action, "ls") == 0       ? list(cli, w)
             : strcmp(action, "verify") == 0 ? verify(cli, w)
                                             : diff(cli, w);
    mf_jw_free(w);
    return rc;
}

const mf_verb mf_verb_ckpt = {.name = "ckpt",
                              .brief = "list, verify and compare checkpoints",
                              .forms = forms,
                              .options = options,
                              .run = run,
                              .plain = true};
