/* base/text/ini_scan.h: checks an INI text line by line (rules in ini.h) before inih
 * reads it. */
#ifndef MF_BASE_INI_SCAN_H
#define MF_BASE_INI_SCAN_H

#include <stdbool.h>
#include <stddef.h>

enum {
    MF_INI_FILE_MAX = 1024 * 1024,
    MF_INI_LINE_MAX = 190,
    MF_INI_NAME_MAX = 48,
    MF_INI_MARKS_MAX = 10000 /* maximum number of sections and keys of a file; a real
                              * configuration has less than a tenth of it */
};

typedef struct mf_ini_mark {
    int line;
    bool is_section;     /* false: the mark is a key = value line */
    size_t name, length; /* offset and length of the section's name in text */
} mf_ini_mark;

typedef struct mf_ini_scan {
    char *text; /* text for inih: trimmed lines, the same number of lines as in the
                 * input, NUL-terminated */
    mf_ini_mark *marks;
    size_t n_marks, n_pairs;
} mf_ini_scan;

/* Returns MF_OK, MF_ENOMEM or MF_ECONFIG; after an error *ret is unchanged. The message of
 * MF_ECONFIG begins with "name:line:", or with "name:" if the text is too large. */
int mf_ini_scan_text(const char *name, const char *text, size_t size, mf_ini_scan *ret);
void mf_ini_scan_free(mf_ini_scan *scan);

bool mf_ini_is_section(const char *name, size_t n);
bool mf_ini_is_key(const char *name, size_t n);
/* Whether the text can be written after "key = " and read again unchanged. */
bool mf_ini_is_value(const char *text, size_t n);

#endif
