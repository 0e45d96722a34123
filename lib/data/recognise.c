/* data/recognise.c: recognises formats of data by their first bytes, because the name of a file
 * often does not show its format. A file that is not recognised is treated as text. */
#include "data/recognise.h"

#include "base/error.h"
#include "io/lfs.h"
#include "io/json.h"

#include <string.h>

bool mf_recognise_jsonl(const char *data, size_t n)
{
    mf_json *object = NULL;
    if (n >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) data += 3, n -= 3;
    if (n < 2 || data[0] != '{') return false;
    const char *end = memchr(data, '\n', n);
    if (!end) return data[1] == '"';
    const bool is = mf_json_parse("", data, (size_t)(end - data), &object) == MF_OK;
    if (!is) mf_error_clear();
    mf_json_free(object);
    return is;
}

int mf_recognise_foreign(const char *path, const char *data, size_t n)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *name, *way; /* way: a command that decompresses the file; the file's name
                                 * follows it */
    } known[] = {{"\x1f\x8b\x08", 3, "gzip", "gunzip -c"},
                 {"\x28\xb5\x2f\xfd", 4, "zstd", "zstd -dc"},
                 {"\xfd"
                  "7zXZ",
                  5, "xz", "xz -dc"},
                 {"BZh", 3, "bzip2", "bzip2 -dc"},
                 {"PK\x03\x04", 4, "zip", "unzip -p"}};
    const int pointer = mf_lfs_judge(path, data, n);
    if (pointer != MF_OK) return pointer;
    if (n >= 4 && memcmp(data, "PAR1", 4) == 0)
        return mf_fail(
            MF_EINPUT,
            "%s: a Parquet file; expected text, JSON lines, tsv or token ids; python3 "
            "-c \"import pandas; pandas.read_parquet('%s').to_json('data.jsonl', "
            "orient='records', lines=True)\" converts it",
            path, path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= known[i].n && memcmp(data, known[i].magic, known[i].n) == 0)
            return mf_fail(
                MF_EINPUT,
                "%s: a file compressed by %s; expected text, JSON lines, tsv or token "
                "ids; '%s %s | moefw ... --data -' reads it",
                path, known[i].name, known[i].way, path);
    return MF_OK;
}
