/* data/stream/cache_text.c: texts larger than memory. A text is converted once to a token file
 * in the cache folder; memory contains one piece at a time. A piece ends where the tokenizer
 * says that a cut changes no token. If the tokenizer finds no such position, it gets the whole
 * text at once.
 *
 * A line after the ids of a token file contains their number, their hash and the name of the
 * file. This line is compared whenever the file is opened. A file that was cut, changed, or
 * made from another text is therefore written again and never used for training. */
#include "data/stream/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/tokenizer/tokenizer_kinds.h"

enum { PIECE = 4 << 20, WORDS = 1 << 16, SEAL = 160 };

int mf_source_files_read(const mf_source_files *files, uint64_t begin, size_t n, char *out)
{
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && n > 0 && i < files->n; i++) {
        const uint64_t before = i > 0 ? files->end[i - 1] : 0, end = files->end[i];
        if (begin >= end) continue;
        const size_t part = end - begin < n ? (size_t)(end - begin) : n;
        uint64_t size = 0;
        int fd = -1;
        rc = mf_file_open(files->path[i], &fd, &size);
        if (rc != MF_OK) return rc;
        rc = begin - before + part <= size
                 ? mf_file_read_at(fd, files->path[i], out, part, begin - before)
                 : mf_fail(MF_EINPUT, "%s: shorter than it was", files->path[i]);
        mf_file_close(fd);
        out += part;
        n -= part;
        begin += part;
    }
    return rc;
}

/* ---- the byte tokenizer: the files are their own tokens ---- */

static int map_bytes(const mf_source_files *files, uint64_t begin, uint64_t end,
                     mf_id_parts *ret)
{
    int rc = MF_OK;
    uint64_t at = 0;
    for (int i = 0; rc == MF_OK && i < files->n && at < end; i++) {
        mf_map map;
        rc = mf_map_open(files->path[i], &map);
        if (rc != MF_OK) return rc;
        const uint64_t next = at + map.size;
        if (next > begin && at < end) {
            const uint64_t from = begin > at ? begin - at : 0,
                           to = end < next ? end - at : map.size;
            mf_id_part part = {.n = (int64_t)(to - from),
                               .ids = (const char *)map.data + from,
                               .id_bytes = 1,
                               .largest = 255,
                               .map = map};
            mf_map_scattered(&map);
            rc = mf_id_parts_add(ret, &part);
        } else {
            mf_map_close(&map);
        }
        at = next;
    }
    return rc;
}

/* ---- other tokenizers: a token file ---- */

typedef struct work {
    const mf_tokenizer *t;
    const char *name;
    const mf_source_files *files;
    uint64_t at, end; /* range of the text that is not yet tokenized */
    size_t room, n;   /* capacity and number of text bytes in memory */
    char *text;
    int32_t id_bytes;
    mf_ids ids;
    mf_cache_draft draft;
} work;

static int id_bytes(const mf_tokenizer *t)
{
    return t->vocab <= 256 ? 1 : t->vocab <= 65536 ? 2 : 4;
}

static int write_ids(work *w)
{
    unsigned char words[4 * WORDS];
    for (size_t i = 0; i < w->ids.n;) {
        size_t n = 0;
        for (; i < w->ids.n && n < WORDS; i++, n++)
            for (int b = 0; b < w->id_bytes; b++)
                words[n * (size_t)w->id_bytes + (size_t)b] =
                    (unsigned char)((uint32_t)w->ids.id[i] >> (8 * b));
        mf_writer_put(&w->draft.out, words, n * (size_t)w->id_bytes);
    }
    w->ids.n = 0;
    return w->draft.out.error == MF_OK
               ? MF_OK
               : mf_fail(w->draft.out.error, "%s", w->draft.out.message);
}

/* Reads until the piece has n bytes or the text ends. */
static int fill(work *w, size_t n)
{
    if (n > w->end - w->at) n = (size_t)(w->end - w->at);
    if (n <= w->n) return MF_OK; /* the last piece may have left enough bytes */
    if (n > w->room) {
        char *larger = mf_realloc(w->text, w->n, n);
        if (!larger) return MF_ENOMEM;
        w->text = larger;
        w->room = n;
    }
    const int rc = mf_source_files_read(w->files, w->at + w->n, n - w->n, w->text + w->n);
    if (rc == MF_OK) w->n = n;
    return rc;
}

static int tokenize_piece(work *w)
{
    size_t want = PIECE, cut = 0;
    int rc = MF_OK;
    while (rc == MF_OK && cut == 0) {
        rc = fill(w, want);
        if (rc != MF_OK) return rc;
        const bool last = w->at + w->n == w->end;
        cut = last ? w->n : w->t->ops->cut ? w->t->ops->cut(w->t, w->text, w->n) : 0;
        want = w->t->ops->cut ? 2 * w->n : (size_t)(w->end - w->at);
    }
    rc = w->t->ops->encode(w->t, w->name, (size_t)w->at, w->text, cut, &w->ids);
    if (rc == MF_OK) rc = write_ids(w);
    memmove(w->text, w->text + cut, w->n - cut);
    w->n -= cut;
    w->at += cut;
    return rc;
}

/* Writes the line after n ids whose bytes have this hash. The line always has the
 * same length. */
static int write_seal(const char *path, int32_t id_bytes, uint64_t n, const char hash[33],
                      char seal[SEAL])
{
    const char *slash = strrchr(path, '/');
    return snprintf(seal, SEAL, "\nmoefw-tokens 1 %d %020llu %s %s\n", (int)id_bytes,
                    (unsigned long long)n, hash, slash ? slash + 1 : path);
}

static int put_seal(work *w, const char *path)
{
    char hash[33], seal[SEAL];
    int rc = mf_writer_flush(&w->draft.out);
    if (rc == MF_OK) rc = mf_hash_file(w->draft.name, hash);
    if (rc != MF_OK) return rc;
    const uint64_t n = w->draft.out.bytes / (uint64_t)w->id_bytes;
    mf_writer_put(&w->draft.out, seal, (size_t)write_seal(path, w->id_bytes, n, hash, seal));
    return MF_OK;
}

static int tokenize(work *w, const char *path)
{
    int rc = mf_cache_draft_open(&w->draft, path);
    const bool opened = rc == MF_OK;
    while (rc == MF_OK && w->at < w->end)
        rc = tokenize_piece(w);
    if (rc == MF_OK) rc = put_seal(w, path);
    if (opened) rc = mf_cache_draft_close(&w->draft, path, rc);
    mf_free(w->text);
    mf_ids_free(&w->ids);
    return rc;
}

/* Adds a file's identity to the text from which the name of the token file is made. */
static int add_identity(const char *path, char **text)
{
    mf_map map;
    int rc = mf_map_open(path, &map);
    if (rc != MF_OK) return rc;
    char *real = realpath(path, NULL);
    char *more =
        mf_strf("%s %s %zu %lld", *text, real ? real : path, map.size, (long long)map.changed);
    free(real);
    mf_map_close(&map);
    mf_free(*text);
    *text = more;
    return more ? MF_OK : MF_ENOMEM;
}

static int path_of(const char *folder, const mf_tokenizer *t, const mf_source_files *files,
                   uint64_t begin, uint64_t end, char **ret)
{
    char hash[33], *text;
    *ret = NULL;
    int rc = mf_tokenizer_hash(t, hash);
    if (rc != MF_OK) return rc;
    text = mf_strf("%s %llu %llu", hash, (unsigned long long)begin, (unsigned long long)end);
    if (!text) return MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < files->n; i++)
        rc = add_identity(files->path[i], &text);
    if (rc == MF_OK) {
        mf_hash_bytes(text, strlen(text), hash);
        *ret = mf_strf("%s/text-%s.bin", folder, hash);
        if (!*ret) rc = MF_ENOMEM;
    }
    mf_free(text);
    return rc;
}

/* Whether the map has the content that the name of the token file requires. *ret_n: number
 * of ids. */
static bool is_sealed(const mf_map *map, const char *path, int32_t width, uint64_t *ret_n)
{
    char hash[33] = "", seal[SEAL];
    const size_t length =
        (size_t)write_seal(path, width, 0, "00000000000000000000000000000000", seal);
    if (map->size < length || (map->size - length) % (size_t)width != 0) return false;
    const size_t bytes = map->size - length;
    *ret_n = bytes / (size_t)width;
    mf_map_ordered(map);
    mf_hash_bytes(map->data, bytes, hash);
    write_seal(path, width, *ret_n, hash, seal);
    return memcmp((const char *)map->data + bytes, seal, length) == 0;
}

/* Opens a token file and adds its ids to *ret. *ret_good is false if there is no such file, or
 * if it is damaged; damage is logged. */
static int open_file(const char *path, const mf_tokenizer *t, mf_id_parts *ret, bool *ret_good)
{
    mf_map map;
    uint64_t n = 0;
    int rc = mf_map_open_itself(path, &map);
    *ret_good = rc == MF_OK && is_sealed(&map, path, id_bytes(t), &n);
    if (*ret_good) {
        mf_id_part part = {.n = (int64_t)n,
                           .ids = map.data,
                           .id_bytes = id_bytes(t),
                           .largest = t->vocab - 1,
                           .map = map};
        mf_map_scattered(&map);
        return mf_id_parts_add(ret, &part);
    }
    if (rc == MF_OK) mf_map_close(&map);
    if (rc != MF_OK && rc != MF_EINPUT && rc != MF_ENOTFOUND) return rc;
    if (rc != MF_ENOTFOUND)
        mf_log(MF_LOG_WARN, "%s: not the token file that its name tells (%s); it is made anew",
               path, rc == MF_OK ? "damaged, or of an earlier version" : "a link or a folder");
    mf_error_clear();
    return MF_OK;
}

int mf_cache_text(const char *folder, const mf_tokenizer *t, const char *name,
                  const mf_source_files *files, uint64_t begin, uint64_t end, mf_id_parts *ret)
{
    char *path;
    bool good = false;
    if (t->ops == &mf_tokenizer_byte) return map_bytes(files, begin, end, ret);
    int rc = path_of(folder, t, files, begin, end, &path);
    if (rc == MF_OK) mf_cache_clean(folder);
    if (rc == MF_OK) rc = open_file(path, t, ret, &good);
    if (rc == MF_OK && !good) {
        work w = {.t = t,
                  .name = name,
                  .files = files,
                  .at = begin,
                  .end = end,
                  .id_bytes = id_bytes(t)};
        mf_log(MF_LOG_INFO, "%s: bytes %llu to %llu become the token file %s", name,
               (unsigned long long)begin, (unsigned long long)end, path);
        rc = mf_mkdirs(folder);
        if (rc == MF_OK) rc = tokenize(&w, path);
        if (rc == MF_OK) rc = open_file(path, t, ret, &good);
        if (rc == MF_OK && !good)
            rc = mf_fail(MF_EIO,
                         "%s: changed while it was written: expected a folder in which "
                         "nobody else writes",
                         path);
    }
    mf_free(path);
    return rc;
}
