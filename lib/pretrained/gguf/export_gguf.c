/* pretrained/gguf/export_gguf.c: writes the weights of a run as a GGUF file.
 *
 * The architecture's rules define the tensors. Every value of every parameter must be in
 * exactly one tensor; otherwise the model is refused. The file is written under a temporary
 * name and renamed. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "model/rope.h"
#include "pretrained/gguf/gguf_arch.h"
#include "pretrained/gguf/gguf_tokens.h"
#include "pretrained/weights/values.h"

/* GROUP_BYTES: 32 weights in the files of Hugging Face; BLOCK_BYTES: the same in GGUF with
 * their scale. */
enum { GROUP = 32, GROUP_BYTES = 16, BLOCK_BYTES = 17 };

typedef struct gguf_tensor {
    char name[MF_ST_NAME_MAX];
    mf_place place; /* param NULL: the tensor of the rope factors */
    mf_gguf_type type;
    const mf_place *packed; /* MXFP4: the place of its stored tensors */
} gguf_tensor;

typedef struct export
{
    mf_export_run run;
    const mf_export_options *options;
    const mf_gguf_arch *arch;
    const char *name;     /* path that names the model; NULL: the imported folder */
    gguf_tensor *tensors; /* [n] */
    int64_t n, cap;
    int64_t *covered; /* [parameters] number of values that are in a tensor */
}
export;

/* ---- types ---- */

/* Whether programs compute with this tensor only in F32. */
static bool is_f32(const gguf_tensor *t)
{
    const char *name = t->name, *end = name + strlen(name);
    const size_t weight = sizeof ".weight" - 1, norm = sizeof "_norm.weight" - 1;
    const size_t n = strlen(name);
    return t->place.shape_rank < 2 || n < weight || strcmp(end - weight, ".weight") != 0 ||
           (n >= norm && strcmp(end - norm, "_norm.weight") == 0) ||
           strstr(name, "ffn_gate_inp") || strstr(name, "position_embd");
}

static mf_gguf_type type_of(mf_st_dtype dtype)
{
    return dtype == MF_ST_F16 ? MF_GGUF_F16 : dtype == MF_ST_BF16 ? MF_GGUF_BF16 : MF_GGUF_F32;
}

static mf_st_dtype dtype_of(mf_gguf_type type)
{
    return type == MF_GGUF_F16 ? MF_ST_F16 : type == MF_GGUF_BF16 ? MF_ST_BF16 : MF_ST_F32;
}

/* Sets the type of a tensor: the type that its parameter has in the files, or F32 if it has
 * several types. */
static int choose_type(const export *x, gguf_tensor *t)
{
    const mf_record *r = x->run.record;
    mf_st_dtype found = MF_ST_UNKNOWN;
    bool same = true;
    t->type = MF_GGUF_F32;
    if (!t->place.param || is_f32(t)) return MF_OK;
    for (int64_t i = 0; i < r->n; i++) {
        const mf_place *p = &r->ledger.places[i];
        if (p->tied || (p->param != t->place.param && p->other != t->place.param)) continue;
        if (p->form == MF_FORM_MXFP4) {
            const int rc = mf_export_unchanged(&x->run, p, &same);
            if (rc != MF_OK) return rc;
            if (same) {
                t->type = MF_GGUF_MXFP4;
                t->packed = p;
                return MF_OK;
            }
        }
        if (!mf_form_has_numbers(p->form) && !x->options->dtype)
            return mf_fail(MF_EINPUT,
                           p->form != MF_FORM_MXFP4
                               ? "tensor '%s': GGUF has no form for it; --dtype f16, bf16 or "
                                 "f32 writes the values"
                               : "tensor '%s' was trained, and its form of four bits cannot "
                                 "say the new values; --dtype f16, bf16 or f32 writes them",
                           r->tensors[i]->name);
        if (found && found != r->tensors[i]->dtype) same = false;
        found = r->tensors[i]->dtype;
    }
    if (x->options->dtype) found = x->options->dtype;
    t->type = same || x->options->dtype ? type_of(found) : MF_GGUF_F32;
    return MF_OK;
}

/* ---- the list of tensors ---- */

static int add_tensor(export *x, const gguf_tensor *t)
{
    if (x->n == x->cap) {
        const int64_t cap = 2 * x->cap + 64;
        gguf_tensor *list =
            mf_realloc(x->tensors, (size_t)x->n * sizeof *list, (size_t)cap * sizeof *list);
        if (!list) return MF_ENOMEM;
        x->tensors = list;
        x->cap = cap;
    }
    x->tensors[x->n++] = *t;
    return MF_OK;
}

/* Returns the rule for a model whose rope turns neighbours. If the rule makes rows i and i +
 * half of queries and keys neighbours (MF_RULE_TURNS), the rows stay as they are. Otherwise
 * they are written apart (MF_RULE_APART). NULL: not enough memory. */
static const mf_family_rule *reordered(const export *x, const mf_family_rule *r)
{
    if (!x->run.record->reordered || !mf_rule_is_of_heads(r)) return r;
    mf_family_rule *own = mf_arena_alloc(x->run.record->arena, sizeof *own);
    if (!own) return NULL;
    *own = *r;
    own->flags = r->flags & MF_RULE_TURNS ? r->flags & ~(unsigned)MF_RULE_TURNS
                                          : r->flags | MF_RULE_APART;
    return own;
}

static int apply(export *x, const mf_family_rule *rule, int64_t layer)
{
    gguf_tensor t = {.packed = NULL};
    const mf_export_run *run = &x->run;
    const mf_family_rule *own = reordered(x, rule);
    if (!own) return MF_ENOMEM;
    int rc = mf_place_find(&run->record->keys, own, run->session->model->store, layer, 0,
                           &t.place, t.name);
    if (rc != MF_OK || !t.place.param) return rc;
    rc = choose_type(x, &t);
    if (!(rule->flags & MF_RULE_TIED)) x->covered[t.place.index] += mf_place_count(&t.place);
    return rc == MF_OK ? add_tensor(x, &t) : rc;
}

/* A tied head, written as a separate tensor. */
static const mf_family_rule head_rule = {"output.weight", "embed.weight", MF_PART_ALL,
                                         MF_RULE_TIED, NULL};

static int list_tensors(export *x)
{
    const mf_keys *k = &x->run.record->keys;
    const mf_store *store = x->run.session->model->store;
    int rc = MF_OK;
    x->covered = mf_alloc((size_t)mf_store_count(store) + 1, sizeof *x->covered);
    if (!x->covered) return MF_ENOMEM;
    for (const mf_family_rule *r = x->arch->rules; rc == MF_OK && r->theirs; r++) {
        const int64_t layers = strstr(r->theirs, "{l}") ? k->layers : 1;
        for (int64_t l = 0; rc == MF_OK && l < layers; l++)
            rc = apply(x, r, l);
    }
    if (rc == MF_OK && k->tied && x->arch->own_head) rc = apply(x, &head_rule, 0);
    if (rc == MF_OK && mf_gguf_has_factors(&x->run)) {
        gguf_tensor t = {.name = "rope_freqs.weight", .place = {.shape_rank = 1}};
        t.place.shape[0] = k->head_dim / 2;
        rc = add_tensor(x, &t);
    }
    return rc;
}

/* Checks that the tensors contain the whole of every parameter that is in the
 * family's files. */
static int judge_covered(const export *x)
{
    const mf_record *r = x->run.record;
    for (int64_t i = 0; i < r->n; i++) {
        const mf_param *both[2] = {r->ledger.places[i].param, r->ledger.places[i].other};
        for (int j = 0; j < 2; j++)
            if (both[j] && x->covered[both[j]->index] != both[j]->count)
                return mf_fail(MF_EINPUT,
                               "%s cannot be said in GGUF: the architecture %s has no tensor "
                               "for it",
                               both[j]->name, x->arch->name);
    }
    return MF_OK;
}

/* ---- values ---- */

static int put(void *arg, const void *data, size_t n)
{
    return mf_gguf_put(arg, data, n);
}

/* A byte contains elements i and i + 16 of a group in GGUF, and 2 i and 2 i + 1 in the files of
 * Hugging Face. The low half of a byte is the first element in both. */
static void reorder(const unsigned char *from, unsigned char scale, unsigned char *to)
{
    unsigned char value[GROUP];
    for (int i = 0; i < GROUP_BYTES; i++) {
        value[2 * i] = from[i] & 15;
        value[2 * i + 1] = from[i] >> 4;
    }
    to[0] = scale;
    for (int i = 0; i < GROUP_BYTES; i++)
        to[1 + i] = (unsigned char)(value[i] | value[i + GROUP_BYTES] << 4);
}

/* Returns the row of the stored tensors that is row r of a part with `rows` rows. */
static int64_t stored_row(const gguf_tensor *t, int64_t rows, int64_t r)
{
    const bool up = t->place.rule->part == MF_PART_UP;
    if (t->packed->rule->part == MF_PART_PAIRS) return 2 * r + (up ? 1 : 0);
    return up ? rows + r : r;
}

static int put_mxfp4(const export *x, const gguf_tensor *t, mf_gguf *w)
{
    const int64_t E = t->place.shape[0], rows = t->place.shape[1],
                  groups = t->place.shape[2] / GROUP;
    mf_source s;
    int rc = mf_export_packed(&x->run, t->packed, &s);
    if (rc != MF_OK) return rc;
    const int64_t all = s.tensor[0]->shape[1]; /* number of stored rows of an expert */
    unsigned char *room = mf_alloc((size_t)groups, GROUP_BYTES + 1 + BLOCK_BYTES);
    if (!room) return MF_ENOMEM;
    unsigned char *scales = room + groups * GROUP_BYTES, *out = scales + groups;
    for (int64_t e = 0; rc == MF_OK && e < E; e++)
        for (int64_t r = 0; rc == MF_OK && r < rows; r++) {
            const uint64_t at = (uint64_t)((e * all + stored_row(t, rows, r)) * groups);
            rc = mf_st_read_part(s.file[0], s.tensor[0], room, (size_t)groups * GROUP_BYTES,
                                 at * GROUP_BYTES);
            if (rc == MF_OK)
                rc = mf_st_read_part(s.file[1], s.tensor[1], scales, (size_t)groups, at);
            for (int64_t g = 0; g < groups; g++)
                reorder(room + g * GROUP_BYTES, scales[g], out + g * BLOCK_BYTES);
            if (rc == MF_OK) rc = mf_gguf_put(w, out, (size_t)groups * BLOCK_BYTES);
        }
    mf_free(room);
    return rc;
}

/* Writes the rope factors. Programs divide frequencies by these numbers. */
static int put_factors(const export *x, int64_t n, mf_gguf *w)
{
    float *factor = mf_alloc((size_t)n + 1, sizeof *factor);
    if (!factor) return MF_ENOMEM;
    mf_rope_factors(&x->run.session->config->model, 2 * n, factor);
    for (int64_t i = 0; i < n; i++)
        factor[i] = 1 / factor[i];
    const int rc = mf_gguf_put(w, factor, (size_t)n * sizeof *factor);
    mf_free(factor);
    return rc;
}

static int put_tensor(const export *x, const gguf_tensor *t, mf_gguf *w)
{
    if (!t->place.param) return put_factors(x, t->place.shape[0], w);
    if (t->type == MF_GGUF_MXFP4) return put_mxfp4(x, t, w);
    float *values[2];
    const int rc = mf_export_values(&x->run, &t->place, values);
    return rc == MF_OK ? mf_values_stream(dtype_of(t->type), &t->place, values, put, w) : rc;
}

/* ---- the file ---- */

/* Returns the number of the file type, which is the type of most values. */
static uint32_t file_type(const export *x)
{
    static const struct {
        mf_gguf_type type;
        uint32_t number;
    } types[] = {{MF_GGUF_F32, 0}, {MF_GGUF_F16, 1}, {MF_GGUF_BF16, 32}, {MF_GGUF_MXFP4, 38}};
    int64_t count[sizeof types / sizeof *types] = {0};
    size_t most = 0;
    for (int64_t i = 0; i < x->n; i++)
        for (size_t j = 0; j < sizeof types / sizeof *types; j++)
            if (types[j].type == x->tensors[i].type && x->tensors[i].place.param)
                count[j] += mf_place_count(&x->tensors[i].place);
    for (size_t j = 0; j < sizeof types / sizeof *types; j++)
        if (count[j] > count[most]) most = j;
    /* if experts have four bits, they determine the file type */
    return count[3] > 0 ? types[3].number : types[most].number;
}

/* Writes the name of the model: the name of the folder from which it was imported, or of
 * the run. */
static void put_name(const export *x, mf_gguf *w)
{
    char name[256];
    const char *folder =
        x->name ? x->name : mf_json_string(mf_json_get(x->run.record->doc, "folder"), NULL);
    size_t n = folder ? strlen(folder) : 0;
    while (n > 1 && folder[n - 1] == '/')
        n--;
    size_t from = n;
    while (from > 0 && folder[from - 1] != '/')
        from--;
    snprintf(name, sizeof name, "%.*s", (int)(n - from < 200 ? n - from : 200),
             folder ? folder + from : "");
    mf_gguf_text(w, "general.name", name);
}

static int write_file(const export *x, const char *path)
{
    mf_gguf *w = mf_gguf_new();
    if (!w) return MF_ENOMEM;
    mf_gguf_text(w, "general.architecture", x->arch->name);
    mf_gguf_text(w, "general.type", "model");
    put_name(x, w);
    mf_gguf_u32(w, "general.file_type", file_type(x));
    mf_gguf_u32(w, "general.quantization_version", 2);
    mf_gguf_arch_keys(&x->run, x->arch, w);
    int rc = mf_gguf_tokens(&x->run, x->arch, x->options->no_tokenizer, w);
    for (int64_t i = 0; i < x->n; i++) {
        const gguf_tensor *t = &x->tensors[i];
        mf_gguf_tensor(w, t->name, t->type, t->place.shape_rank, t->place.shape);
    }
    if (rc == MF_OK) rc = mf_gguf_begin(w, path);
    for (int64_t i = 0; rc == MF_OK && i < x->n; i++)
        rc = put_tensor(x, &x->tensors[i], w);
    if (rc == MF_OK) rc = mf_gguf_end(w);
    mf_gguf_free(w);
    return rc;
}

/* Writes the file under a temporary name beside the path, and renames it. */
static int write_beside(const export *x, const char *path)
{
    char *beside = mf_strf("%s.tmp", path);
    int rc = beside ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_exists(beside)) {
        rc = mf_fail(MF_EUSAGE,
                     "%s: exists already; remove it if it is left of an export that was "
                     "stopped, or name another file",
                     beside);
        mf_free(beside);
        return rc;
    }
    if (rc == MF_OK) rc = write_file(x, beside);
    if (rc == MF_OK && mf_io()->rename_new(beside, path) != 0)
        rc = mf_fail_errno(MF_EIO, "%s: cannot rename to %s", beside, path);
    if (rc != MF_OK && beside) mf_io()->unlink(beside);
    mf_free(beside);
    return rc;
}

/* Determines the path of the file: the path itself if it ends in .gguf, else a file in
 * this folder. */
static int find_file(const char *path, char **ret)
{
    static const char end[] = ".gguf";
    const size_t n = strlen(path), m = sizeof end - 1;
    const bool file = n > m && strcmp(path + n - m, end) == 0 && !mf_is_dir(path);
    *ret = file ? mf_strdup(path) : mf_path_join(path, MF_EXPORT_GGUF);
    if (!*ret) return MF_ENOMEM;
    if (!file && mf_exists(path) && !mf_is_dir(path))
        return mf_fail(MF_EUSAGE,
                       "%s: is a file; expected a folder, or a new file that ends in .gguf",
                       path);
    if (!mf_exists(*ret)) return MF_OK;
    return mf_fail(MF_EUSAGE, "%s: exists already; expected a new file", *ret);
}

int mf_export_gguf(const char *run, const char *path, const mf_export_options *options,
                   char **ret_path)
{
    export x = {.options = options};
    char *file = NULL;
    int rc = find_file(path, &file);
    if (rc == MF_OK) rc = mf_export_open(run, options, &x.run);
    if (rc == MF_OK && !x.run.record->folder) x.name = run;
    if (rc == MF_OK) rc = mf_gguf_arch_of(&x.run, &x.arch);
    if (rc == MF_OK) rc = list_tensors(&x);
    if (rc == MF_OK) rc = judge_covered(&x);
    if (rc == MF_OK && strcmp(file, path) != 0) rc = mf_mkdirs(path);
    if (rc == MF_OK) rc = write_beside(&x, file);
    mf_export_close(&x.run);
    mf_free(x.tensors);
    mf_free(x.covered);
    if (rc == MF_OK)
        *ret_path = file;
    else
        mf_free(file);
    return rc;
}
