/* data/stream/cache_ids.c: the largest ids of large token files. A file is identified by its
 * path, size and time of change before it was read. If the folder is lost, files are only
 * scanned again. */
#include "data/stream/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "io/json.h"

char *mf_cache_folder(const char *key)
{
    const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    if (strcmp(key, "no") == 0) return mf_strdup("");
    if (strcmp(key, "auto") != 0) return mf_strdup(key);
    if (base && base[0] == '/') return mf_strf("%s/moefw", base);
    return home && home[0] == '/' ? mf_strf("%s/.cache/moefw", home) : mf_strdup("");
}

/* Returns the path of the cache file of a part, and the hash in its name. NULL: nothing is
 * cached, or not enough memory. */
static char *file_of(const char *folder, const char *path, const mf_id_part *p, char hash[33])
{
    if (!folder || !folder[0] || !p->map.data) return NULL;
    char *real = realpath(path, NULL);
    char *text = real ? mf_strf("%s %zu %lld %lld %d %zu", real, p->map.size,
                                (long long)p->map.changed, (long long)p->n, (int)p->id_bytes,
                                (size_t)((const char *)p->ids - (const char *)p->map.data))
                      : NULL;
    free(real);
    if (!text) return NULL;
    mf_hash_bytes(text, strlen(text), hash);
    mf_free(text);
    return mf_strf("%s/ids-%s.json", folder, hash);
}

/* Writes the content of the cache file: a text that depends on this part and its largest id. */
static int write_text(const char part[33], int32_t largest, char text[128])
{
    char all[64], check[33];
    snprintf(all, sizeof all, "%s %d", part, (int)largest);
    mf_hash_bytes(all, strlen(all), check);
    return snprintf(text, 128, "{\"largest\":%d,\"check\":\"%s\"}\n", (int)largest, check);
}

bool mf_cache_ids_read(const char *folder, const char *path, mf_id_part *part)
{
    char hash[33], right[128], *file = file_of(folder, path, part, hash), *text = NULL;
    size_t n = 0;
    mf_json *object = NULL;
    int64_t largest = -1;
    bool known = file && mf_exists(file) && mf_read_file(file, 4096, &text, &n) == MF_OK &&
                 mf_json_parse(file, text, n, &object) == MF_OK &&
                 mf_json_int(mf_json_get(object, "largest"), &largest) && largest >= 0 &&
                 largest < MF_IDS_VOCAB &&
                 (size_t)write_text(hash, (int32_t)largest, right) == n &&
                 memcmp(text, right, n) == 0;
    if (known)
        part->largest = (int32_t)largest;
    else
        mf_error_clear();
    mf_json_free(object);
    mf_free(text);
    mf_free(file);
    return known;
}

void mf_cache_ids_write(const char *folder, const char *path, const mf_id_part *part)
{
    char hash[33], text[128], *file = file_of(folder, path, part, hash);
    const int n = file ? write_text(hash, part->largest, text) : 0;
    if (file) mf_cache_clean(folder);
    if (!file || mf_mkdirs(folder) != MF_OK ||
        mf_write_file_atomic(file, text, (size_t)n) != MF_OK)
        mf_error_clear();
    mf_free(file);
}
