/* run/checkpoint/checkpoint_manifest.c: MANIFEST.json, which has the checksums of the other
 * files and of itself. Its last member, "self", is the XXH3-128 of the text before it, closed
 * by a brace. Therefore a change of any byte is detected. */
#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "io/json.h"
#include "base/mem.h"
#include "run/checkpoint/checkpoint_parts.h"

#include <stdio.h>
#include <string.h>

const char *const mf_ckpt_files[MF_CKPT_FILES] = {MF_CKPT_MODEL, MF_CKPT_STATE};

static const char self_key[] = ",\"self\":\"", self_end[] = "\"}\n";
enum {
    MANIFEST_MAX = 16 << 20,
    SELF_KEY = sizeof self_key - 1,
    SELF_END = sizeof self_end - 1,
    TAIL = SELF_KEY + MF_HASH_TEXT - 1 + SELF_END
};

static void put_identity(mf_jw *w, const mf_provenance *id)
{
    mf_jw_kv_string(w, "moefw", id->version);
    mf_jw_kv_int(w, "abi", id->abi);
    mf_jw_kv_int(w, "threads", id->threads);
    mf_jw_kv_string(w, "kernels", id->kernels);
    mf_jw_kv_string(w, "cpu", id->cpu);
    mf_jw_kv_string(w, "blas", id->blas);
    mf_jw_kv_real(w, "wall_s", id->wall_s);
    if (id->run && *id->run) mf_jw_kv_string(w, "run", id->run);
    if (id->data && *id->data) mf_jw_kv_string(w, "data", id->data);
    if (id->data_all && *id->data_all) mf_jw_kv_string(w, "data_all", id->data_all);
    if (id->data_files && *id->data_files) mf_jw_kv_string(w, "data_files", id->data_files);
    mf_jw_key(w, "plugins");
    mf_jw_array(w);
    for (int i = 0; i < id->n_plugins; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "name", id->plugins[i].name);
        mf_jw_kv_string(w, "kind", id->plugins[i].kind);
        mf_jw_kv_string(w, "file", id->plugins[i].file);
        mf_jw_kv_string(w, "hash", id->plugins[i].hash);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static int put_file(mf_jw *w, const char *path, const char *name)
{
    char hash[MF_HASH_TEXT];
    uint64_t bytes = 0;
    int fd = -1;
    char *file = mf_path_join(path, name);
    if (file == NULL) return MF_ENOMEM;
    int code = mf_file_open(file, &fd, &bytes);
    if (code == MF_OK) {
        mf_file_close(fd);
        code = mf_hash_file(file, hash);
    }
    mf_free(file);
    if (code != MF_OK) return code;
    mf_jw_object(w);
    mf_jw_kv_string(w, "name", name);
    mf_jw_kv_int(w, "bytes", (int64_t)bytes);
    mf_jw_kv_string(w, "xxh3_128", hash);
    mf_jw_end(w);
    return MF_OK;
}

static int write_text(const char *path, const char *text, size_t n)
{
    char hash[MF_HASH_TEXT];
    char *file = mf_path_join(path, MF_CKPT_MANIFEST);
    if (file == NULL) return MF_ENOMEM;
    mf_hash_bytes(text, n, hash);
    mf_writer w;
    int code = mf_writer_open(&w, file, true);
    if (code == MF_OK) {
        mf_writer_put(&w, text, n - 1); /* without the closing brace */
        mf_writer_put(&w, self_key, SELF_KEY);
        mf_writer_put(&w, hash, MF_HASH_TEXT - 1);
        mf_writer_put(&w, self_end, SELF_END);
        code = mf_writer_close(&w, true);
    }
    mf_free(file);
    return code;
}

int mf_manifest_write(const char *path, int64_t step, const mf_provenance *identity)
{
    mf_jw *w = mf_jw_new();
    if (w == NULL) return MF_ENOMEM;
    mf_jw_object(w);
    mf_jw_kv_string(w, "format", "moefw-checkpoint");
    mf_jw_kv_int(w, "version", MF_CKPT_VERSION);
    mf_jw_kv_int(w, "step", step);
    put_identity(w, identity);
    mf_jw_key(w, "files");
    mf_jw_array(w);
    int code = MF_OK;
    for (int i = 0; i < MF_CKPT_FILES && code == MF_OK; i++)
        code = put_file(w, path, mf_ckpt_files[i]);
    mf_jw_end(w);
    mf_jw_end(w);
    size_t n = 0;
    const char *text = code == MF_OK ? mf_jw_text(w, &n) : NULL;
    if (code == MF_OK)
        code = text != NULL ? write_text(path, text, n)
                            : mf_fail(MF_ENOMEM, "%s: out of memory", path);
    mf_jw_free(w);
    return code;
}

/* ---- reading ---- */

static const char *text_of(const mf_json *object, const char *key)
{
    const char *text = mf_json_string(mf_json_get(object, key), NULL);
    return text != NULL ? text : "";
}

static int int_of(const mf_json *object, const char *key)
{
    int64_t value = 0;
    mf_json_int(mf_json_get(object, key), &value);
    return (int)value;
}

static double real_of(const mf_json *object, const char *key)
{
    double value = 0;
    mf_json_real(mf_json_get(object, key), &value);
    return value;
}

static int get_identity(const mf_json *d, mf_manifest *m)
{
    const mf_json *list = mf_json_get(d, "plugins");
    size_t n = mf_json_size(list);
    m->plugins = mf_alloc(n > 0 ? n : 1, sizeof *m->plugins);
    if (m->plugins == NULL) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const mf_json *p = mf_json_at(list, i);
        m->plugins[i] = (mf_provenance_plugin){text_of(p, "name"), text_of(p, "kind"),
                                               text_of(p, "file"), text_of(p, "hash")};
    }
    m->provenance = (mf_provenance){.version = text_of(d, "moefw"),
                                    .abi = int_of(d, "abi"),
                                    .threads = int_of(d, "threads"),
                                    .kernels = text_of(d, "kernels"),
                                    .cpu = text_of(d, "cpu"),
                                    .blas = text_of(d, "blas"),
                                    .wall_s = real_of(d, "wall_s"),
                                    .plugins = m->plugins,
                                    .n_plugins = (int)n,
                                    .run = text_of(d, "run"),
                                    .data = text_of(d, "data"),
                                    .data_all = text_of(d, "data_all"),
                                    .data_files = text_of(d, "data_files")};
    return MF_OK;
}

static int get_files(const char *file, const mf_json *d, mf_manifest *m)
{
    const mf_json *list = mf_json_get(d, "files");
    for (int i = 0; i < MF_CKPT_FILES; i++) {
        const mf_json *f = mf_json_at(list, (size_t)i);
        const char *hash = text_of(f, "xxh3_128");
        int64_t bytes;
        if (strcmp(text_of(f, "name"), mf_ckpt_files[i]) != 0 ||
            !mf_json_int(mf_json_get(f, "bytes"), &bytes) || bytes < 0 ||
            strlen(hash) != MF_HASH_TEXT - 1)
            return mf_fail(MF_ECHECKPOINT,
                           "%s: \"files\": expected name, bytes and xxh3_128 of %s", file,
                           mf_ckpt_files[i]);
        m->file[i].bytes = (uint64_t)bytes;
        memcpy(m->file[i].hash, hash, MF_HASH_TEXT);
    }
    return MF_OK;
}

static int judge(const char *file, const mf_json *d, mf_manifest *m)
{
    int64_t version;
    if (strcmp(text_of(d, "format"), "moefw-checkpoint") != 0)
        return mf_fail(MF_ECHECKPOINT, "%s: not the manifest of a checkpoint", file);
    if (!mf_json_int(mf_json_get(d, "version"), &version) || version != MF_CKPT_VERSION)
        return mf_fail(MF_ECHECKPOINT, "%s: \"version\": expected %d", file, MF_CKPT_VERSION);
    if (!mf_json_int(mf_json_get(d, "step"), &m->step) || m->step < 0)
        return mf_fail(MF_ECHECKPOINT, "%s: \"step\": expected a whole number", file);
    int code = get_files(file, d, m);
    return code == MF_OK ? get_identity(d, m) : code;
}

/* Checks the text against its own checksum (member "self"). */
static int check_self(const char *file, char *text, size_t n)
{
    char hash[MF_HASH_TEXT];
    char *tail = text + n - TAIL;
    if (n <= TAIL || memcmp(tail, self_key, SELF_KEY) != 0 ||
        memcmp(text + n - SELF_END, self_end, SELF_END) != 0)
        return mf_fail(MF_ECHECKPOINT, "%s: damaged: it does not end in its own checksum",
                       file);
    char first = *tail;
    *tail = '}';
    mf_hash_bytes(text, n - TAIL + 1, hash);
    *tail = first;
    if (memcmp(hash, tail + SELF_KEY, MF_HASH_TEXT - 1) != 0)
        return mf_fail(MF_ECHECKPOINT, "%s: damaged: its own checksum does not fit", file);
    return MF_OK;
}

int mf_manifest_read(const char *path, mf_manifest *ret)
{
    *ret = (mf_manifest){0};
    char *file = mf_path_join(path, MF_CKPT_MANIFEST), *text = NULL;
    size_t n = 0;
    if (file == NULL) return MF_ENOMEM;
    int code = mf_read_file(file, MANIFEST_MAX, &text, &n);
    if (code == MF_OK) code = check_self(file, text, n);
    if (code == MF_OK) code = mf_json_parse(file, text, n, &ret->document);
    if (code == MF_OK) code = judge(file, ret->document, ret);
    mf_free(text);
    mf_free(file);
    if (code != MF_OK) mf_manifest_free(ret);
    return code;
}

void mf_manifest_free(mf_manifest *m)
{
    mf_json_free(m->document);
    mf_free(m->plugins);
    *m = (mf_manifest){0};
}
