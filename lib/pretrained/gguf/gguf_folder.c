/* gguf/gguf_folder.c: unpacks a GGUF file into a model folder. Numbers of one element keep
 * their type; blocks of few bits become F32, one piece of a tensor at a time. */
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "pretrained/folder.h"
#include "pretrained/gguf/gguf_file.h"
#include "pretrained/gguf/gguf_in.h"

enum { PIECE = 1 << 16 }; /* elements, a multiple of every block */

bool mf_gguf_is_file(const char *path)
{
    return mf_ends_with(path, ".gguf") && !mf_is_dir(path);
}

static mf_st_dtype dtype_of(uint32_t type)
{
    return type == MF_GGUF_F16 ? MF_ST_F16 : type == MF_GGUF_BF16 ? MF_ST_BF16 : MF_ST_F32;
}

/* Whether a tensor belongs to the folder: the head that repeats the embedding does not, nor
 * do the rope factors, which config.json says. */
static bool is_weight(const mf_gguf_in_tensor *t, bool tied)
{
    return strcmp(t->name, "rope_freqs.weight") != 0 &&
           !(tied && strcmp(t->name, "output.weight") == 0);
}

static int put_tensor(const mf_gguf_in_tensor *t, float *room, mf_st_writer *w)
{
    int64_t elements = 1, bytes = 1;
    int rc = MF_OK;
    if (t->type == MF_GGUF_F32 || dtype_of(t->type) != MF_ST_F32)
        return mf_st_writer_put(w, t->data, (size_t)t->bytes);
    mf_gguf_block(t->type, &elements, &bytes);
    for (int64_t at = 0; rc == MF_OK && at < t->count; at += PIECE) {
        const int64_t n = t->count - at < PIECE ? t->count - at : PIECE;
        mf_gguf_decode(t->type, t->data + at / elements * bytes, n, room);
        rc = mf_st_writer_put(w, room, (size_t)n * sizeof *room);
    }
    return rc;
}

static int write_weights(const mf_gguf_in *f, const char *folder, bool tied)
{
    mf_st_writer *w = mf_st_writer_new();
    char *path = mf_path_join(folder, MF_FOLDER_MODEL);
    float *room = mf_alloc(PIECE, sizeof *room);
    const int64_t n = mf_gguf_tensors(f);
    int64_t *order = mf_alloc((size_t)n + 1, sizeof *order), kept = 0;
    size_t at;
    int rc = w && path && room && order ? MF_OK : MF_ENOMEM;
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        const mf_gguf_in_tensor *t = mf_gguf_tensor_at(f, i);
        if (!is_weight(t, tied)) continue;
        order[kept++] = i;
        rc = mf_st_writer_add(w, t->name, dtype_of(t->type), t->rank, t->shape);
    }
    if (rc == MF_OK) rc = mf_st_writer_begin(w, path);
    while (rc == MF_OK && mf_st_writer_due(w, &at))
        rc = put_tensor(mf_gguf_tensor_at(f, order[at]), room, w);
    if (rc == MF_OK) rc = mf_st_writer_end(w, false);
    mf_st_writer_free(w);
    mf_free(order);
    mf_free(room);
    mf_free(path);
    return rc;
}

static int write_text(const char *folder, const char *name, const char *text)
{
    char *path = mf_path_join(folder, name);
    const int rc = path ? mf_write_file_atomic(path, text, strlen(text)) : MF_ENOMEM;
    mf_free(path);
    return rc;
}

int mf_gguf_unpack(const char *path, const char *folder, bool tokenizer,
                   const mf_family_rule **ret_rules)
{
    mf_gguf_in *f;
    char *config = NULL, *words = NULL, *words_config = NULL;
    bool tied;
    int rc = mf_exists(path) ? mf_gguf_open(path, &f)
                             : mf_fail(MF_EINPUT, "%s: there is no such file", path);
    if (rc != MF_OK) return rc;
    rc = mf_gguf_config(f, &config, ret_rules, &tied);
    if (rc == MF_OK && tokenizer) rc = mf_gguf_tokenizer(f, &words, &words_config);
    if (rc == MF_OK) rc = write_text(folder, MF_FOLDER_CONFIG, config);
    if (rc == MF_OK && words) rc = write_text(folder, "tokenizer.json", words);
    if (rc == MF_OK && words) rc = write_text(folder, "tokenizer_config.json", words_config);
    if (rc == MF_OK) rc = write_weights(f, folder, tied);
    mf_free(words_config);
    mf_free(words);
    mf_free(config);
    mf_gguf_close(f);
    return rc;
}
