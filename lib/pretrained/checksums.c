/* pretrained/checksums.c: writes and verifies XXH3-128 checksums of files.
 *
 * Names come from a file that a third party may have written. A name with '/' or '..' is
 * refused before it is used in a path. */
#include "pretrained/checksums.h"

#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "io/writer.h"
#include "base/mem.h"

enum { DIGITS = 32, FILE_MAX = 1 << 20 };

/* Copies the checksum of a file from a list. Returns false if the list does not contain it. */
static bool find_sum(const char *list, const char *name, char hash[DIGITS + 1])
{
    const size_t n = strlen(name);
    for (const char *line = list, *end; line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        const size_t size = end ? (size_t)(end - line) : strlen(line);
        if (size != DIGITS + 2 + n || memcmp(line + DIGITS + 2, name, n) != 0) continue;
        memcpy(hash, line, DIGITS);
        hash[DIGITS] = '\0';
        return true;
    }
    return false;
}

int mf_checksums_write(const char *folder, const char *const *names, int64_t n,
                       const char *known, const char *to)
{
    mf_writer w;
    char *list = NULL;
    size_t size = 0;
    int rc = known ? mf_read_file(known, FILE_MAX, &list, &size) : MF_OK;
    if (rc != MF_OK) return rc;
    rc = mf_writer_open(&w, to, false);
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        char hash[DIGITS + 1];
        char *path = mf_path_join(folder, names[i]);
        /* The checksums are read line by line, so a name must not contain a line end. */
        if (strpbrk(names[i], "\n\r"))
            rc = mf_fail(MF_EINPUT, "%s: '%s': expected names of files on one line", folder,
                         names[i]);
        else if (!find_sum(list, names[i], hash))
            rc = path ? mf_hash_file(path, hash) : MF_ENOMEM;
        mf_free(path);
        if (rc == MF_OK) mf_writer_printf(&w, "%s  %s\n", hash, names[i]);
    }
    mf_free(list);
    const int closed = mf_writer_close(&w, true);
    return rc == MF_OK ? closed : rc;
}

static bool is_line(const char *line)
{
    return strspn(line, "0123456789abcdef") == DIGITS && line[DIGITS] == ' ' &&
           line[DIGITS + 1] == ' ' && line[DIGITS + 2] != '\0' &&
           !strchr(line + DIGITS + 2, '/') && line[DIGITS + 2] != '.';
}

static int verify_line(const char *file, int number, const char *folder, const char *line)
{
    char hash[DIGITS + 1];
    if (!is_line(line))
        return mf_fail(MF_EINPUT, "%s:%d: expected a checksum of 32 digits and a file name",
                       file, number);
    char *path = mf_path_join(folder, line + DIGITS + 2);
    int rc = path ? mf_hash_file(path, hash) : MF_ENOMEM;
    if (rc == MF_ENOTFOUND)
        rc = mf_fail(MF_EINPUT, "%s: there is no such file, but %s names it", path, file);
    if (rc == MF_OK && memcmp(hash, line, DIGITS) != 0)
        rc = mf_fail(MF_EINPUT, "%s: the file was changed: its XXH3-128 is %s, %s says %.32s",
                     path, hash, file, line);
    mf_free(path);
    return rc;
}

int mf_checksums_verify(const char *file, const char *folder)
{
    char *text = NULL, *rest, *line;
    size_t size = 0;
    int rc = mf_read_file(file, FILE_MAX, &text, &size);
    int number = 0;
    rest = text;
    while (rc == MF_OK && (line = strsep(&rest, "\n")) != NULL)
        if (*line || rest) rc = verify_line(file, ++number, folder, line);
    mf_free(text);
    return rc;
}
