/* pretrained/quantize/files.c: writes the folder of a quantized model: the small files of the
 * record, config.json with the settings for few bits that loaders read, and all tensors in
 * one file. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "base/log.h"
#include "base/thread/parallel.h"
#include "pretrained/beside.h"
#include "pretrained/checksums.h"
#include "pretrained/quantize/quantize_parts.h"
#include "pretrained/weights/values.h"

enum { PARTS = 4 };
static const char *const endings[PARTS] = {".g_idx", ".qweight", ".qzeros", ".scales"};

#define WEIGHTS  "model.safetensors"
#define SETTINGS "quantize_config.json"

typedef struct target {
    mf_quantize_work *w;
    const char *to;
    double told; /* time of the last message */
    /* of the two things that `finish` does: codes, and messages, which belong to threads */
    int code[2];
    char why[2][1024];
} target;

/* ---- small files ---- */

static char *settings_text(const mf_quantize_work *w, const char *indent)
{
    const mf_quantize_options *o = w->options;
    return mf_strf(
        "{\n%s  \"bits\": %d,\n%s  \"group_size\": %lld,\n%s  \"damp_percent\": %g,\n"
        "%s  \"desc_act\": %s,\n%s  \"static_groups\": false,\n%s  \"sym\": true,\n"
        "%s  \"true_sequential\": true,\n%s  \"checkpoint_format\": \"gptq\",\n"
        "%s  \"quant_method\": \"gptq\"\n%s}",
        indent, o->bits, indent, (long long)o->group, indent, o->damp, indent,
        o->act_order && o->calibrate > 0 ? "true" : "false", indent, indent, indent, indent,
        indent, indent);
}

/* Writes config.json, with the settings of the quantization as its first key. */
static int write_config(const target *f, const char *from, const char *to)
{
    char *data = NULL, *text = NULL, *settings = settings_text(f->w, "  ");
    size_t size = 0;
    int rc = settings ? mf_read_file(from, 0, &data, &size) : MF_ENOMEM;
    const char *brace = rc == MF_OK ? strchr(data, '{') : NULL;
    if (rc == MF_OK && !brace) rc = mf_fail(MF_EINPUT, "%s: expected an object", from);
    if (rc == MF_OK &&
        !(text = mf_strf("{\n  \"quantization_config\": %s,%s", settings, brace + 1)))
        rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_write_file_atomic(to, text, strlen(text));
    mf_free(settings);
    mf_free(data);
    mf_free(text);
    return rc;
}

static bool is_left_out(const char *name)
{
    return strcmp(name, MF_PRETRAINED_LEDGER) == 0 ||
           strcmp(name, MF_PRETRAINED_SKIPPED) == 0 || strcmp(name, MF_CHECKSUMS) == 0 ||
           strcmp(name, MF_FOLDER_INDEX) == 0 || strcmp(name, SETTINGS) == 0;
}

static int write_small(const target *f)
{
    const char *folder = f->w->x.record->folder;
    char **names = NULL, *settings = settings_text(f->w, ""),
         *path = mf_path_join(f->to, SETTINGS);
    int n = 0, rc = settings && path ? mf_list_dir(folder, &names, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_write_file_atomic(path, settings, strlen(settings));
    for (int i = 0; rc == MF_OK && i < n; i++) {
        char *data = NULL;
        size_t size = 0;
        if (is_left_out(names[i])) continue;
        char *from = mf_path_join(folder, names[i]), *to = mf_path_join(f->to, names[i]);
        rc = from && to ? MF_OK : MF_ENOMEM;
        if (rc == MF_OK && strcmp(names[i], MF_FOLDER_CONFIG) == 0) {
            rc = write_config(f, from, to);
        } else if (rc == MF_OK) {
            rc = mf_read_file(from, 0, &data, &size);
            if (rc == MF_OK) rc = mf_write_file_atomic(to, data, size);
        }
        mf_free(data);
        mf_free(from);
        mf_free(to);
    }
    mf_list_free(names, n);
    mf_free(settings);
    mf_free(path);
    return rc;
}

/* ---- tensors ---- */

/* Writes the name of part i of the weight that tensor t has become. out:
 * MF_ST_NAME_MAX bytes. */
static void part_name(const mf_st_tensor *t, int i, char *out)
{
    snprintf(out, MF_ST_NAME_MAX, "%.*s%s", (int)(strlen(t->name) - strlen(".weight")), t->name,
             endings[i]);
}

static int declare_parts(mf_st_writer *out, const mf_st_tensor *t, const mf_gptq *w)
{
    static const mf_st_dtype types[] = {MF_ST_I32, MF_ST_I32, MF_ST_I32, MF_ST_F16};
    const int64_t shapes[PARTS][2] = {{w->in, 0},
                                      {w->in * w->bits / 32, w->out},
                                      {w->groups, w->out * w->bits / 32},
                                      {w->groups, w->out}};
    char name[MF_ST_NAME_MAX];
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < PARTS; i++) {
        part_name(t, i, name);
        rc = mf_st_writer_add(out, name, types[i], i == 0 ? 1 : 2, shapes[i]);
    }
    return rc;
}

static int declare(const target *f, mf_st_writer *out)
{
    const mf_record *r = f->w->x.record;
    const mf_json *meta = r->shards[0].metadata, *value;
    const char *key;
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && mf_json_member(meta, i, &key, &value); i++) {
        const char *text = mf_json_string(value, NULL);
        if (text) rc = mf_st_writer_meta(out, key, text);
    }
    for (int64_t i = 0; rc == MF_OK && i < r->n; i++) {
        const mf_st_tensor *t = r->tensors[i];
        rc = f->w->weights[i] ? declare_parts(out, t, f->w->weights[i])
                              : mf_st_writer_add(out, t->name, t->dtype, t->rank, t->shape);
    }
    return rc;
}

enum { GROUPS_OF, WORDS, ZEROS, SCALES }; /* the parts */

/* Returns the next weight that has to be made; -1: there is none. */
static int64_t next_of(const target *f, int64_t i)
{
    for (i++; f->w->streams && i < f->w->x.record->n; i++)
        if (f->w->weights[i] && !f->w->weights[i]->scales) return i;
    return -1;
}

/* Writes a part of the weight of tensor i, which may have to be made first. While the words are
 * written, the next weight is made. */
static int put_part(const target *f, mf_st_writer *out, int64_t i, int part)
{
    mf_gptq *w = f->w->weights[i];
    int rc = part == SCALES || w->words ? MF_OK : mf_quantize_stream(f->w, i, out, NULL, 0);
    const void *const from[PARTS] = {w->group_of, w->words, w->zeros, w->scales};
    const int64_t bytes[PARTS] = {4 * w->in, w->in * w->bits / 8 * w->out,
                                  w->groups * w->out * w->bits / 8, 2 * w->groups * w->out};
    const int64_t next = part == WORDS ? next_of(f, i) : -1;
    if (rc == MF_OK && next >= 0)
        rc = mf_quantize_stream(f->w, next, out, from[part], (size_t)bytes[part]);
    else if (rc == MF_OK)
        rc = mf_st_writer_put(out, from[part], (size_t)bytes[part]);
    if (f->w->streams && part == ZEROS) mf_gptq_forget(w);
    return rc;
}

/* Writes the tensor that is due. It is tensor i of the record, or part of its weight. */
static int put_tensor(const target *f, mf_st_writer *out, int64_t i, const char *due)
{
    const mf_place *p = &f->w->x.record->ledger.places[i];
    const mf_st_tensor *t = f->w->x.record->tensors[i];
    char name[MF_ST_NAME_MAX];
    float *values[2];
    for (int part = 0; f->w->weights[i] && part < PARTS; part++) {
        part_name(t, part, name);
        if (strcmp(name, due) == 0) return put_part(f, out, i, part);
    }
    if (!p->param || p->form != MF_FORM_PLAIN || (p->param->stored && !p->other))
        return mf_export_copy(&f->w->x, t, out);
    const int rc = mf_export_values(&f->w->x, p, values);
    return rc == MF_OK ? mf_values_write(out, t, p, values) : rc;
}

/* Says every few seconds how far a long file is. */
static void tell(target *f, size_t done, size_t all)
{
    enum { SECONDS = 5 };
    if (mf_clock() < f->told + SECONDS) return;
    f->told = mf_clock();
    mf_log(MF_LOG_INFO, "%zu of %zu tensors are written", done, all);
}

static int write_tensors(target *f)
{
    const mf_record *r = f->w->x.record;
    mf_st_writer *out = mf_st_writer_new();
    char *path = mf_path_join(f->to, WEIGHTS);
    const mf_st_tensor *due;
    size_t index, done = 0, all = 0;
    int rc = out && path ? declare(f, out) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_st_writer_begin(out, path);
    for (int64_t i = 0; i < r->n; i++)
        all += f->w->weights[i] ? PARTS : 1;
    f->told = mf_clock();
    while (rc == MF_OK && (due = mf_st_writer_due(out, &index))) {
        int64_t i = 0; /* index in the record of the tensor that was declared with `index` */
        for (size_t before = 0;; i++) {
            before += f->w->weights[i] ? PARTS : 1;
            if (before > index || i + 1 == r->n) break;
        }
        rc = put_tensor(f, out, i, due->name);
        tell(f, ++done, all);
    }
    if (rc == MF_OK) rc = mf_st_writer_end(out, false);
    mf_st_writer_free(out);
    mf_free(path);
    return rc;
}

static int write_sums(const target *f)
{
    char **names = NULL, *list = mf_path_join(f->to, MF_CHECKSUMS);
    int n = 0, rc = list ? mf_list_dir(f->to, &names, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_checksums_write(f->to, (const char *const *)names, n, NULL, list);
    mf_list_free(names, n);
    mf_free(list);
    return rc;
}

static int sync_weights(const target *f)
{
    char *path = mf_path_join(f->to, WEIGHTS);
    uint64_t size;
    int fd, rc = path ? mf_file_open(path, &fd, &size) : MF_ENOMEM;
    if (rc == MF_OK) {
        if (mf_raw_fsync(fd) != 0) rc = mf_fail_errno(MF_EIO, "%s: cannot sync", path);
        mf_file_close(fd);
    }
    mf_free(path);
    return rc;
}

/* Computes checksums while the system writes the weights to the disk. */
static void finish(void *arg, int64_t tile)
{
    target *f = arg;
    f->code[tile] = tile == 0 ? sync_weights(f) : write_sums(f);
    if (f->code[tile] != MF_OK)
        snprintf(f->why[tile], sizeof f->why[tile], "%s", mf_error_message());
}

static int write_all(void *arg, const char *to)
{
    target f = {.w = arg, .to = to};
    int rc = write_small(&f);
    if (rc == MF_OK) rc = write_tensors(&f);
    if (rc == MF_OK) mf_parallel(2, finish, &f);
    for (int i = 0; i < 2 && rc == MF_OK; i++)
        if (f.code[i] != MF_OK) rc = mf_fail(f.code[i], "%s", f.why[i]);
    return rc;
}

int mf_quantize_write(mf_quantize_work *w, const char *folder)
{
    return mf_write_beside(folder, write_all, w);
}
