/* base/ini.h: INI files that know where each value stands.
 *
 * The whole file is read first, then judged line by line, and only then handed to inih: inih
 * alone would cut long lines silently, merge duplicates, and take a directory for an empty
 * file. Entries keep file and line for later messages. The rules:
 *   - a regular file of at most 1 MiB, UTF-8 (a byte-order mark at its start is skipped), no
 *     control characters but tab; lines end in LF or CR LF and have at most 190 bytes;
 *   - a line is empty, a comment (first character ; or #), [section], or key = value; blanks
 *     around each part do not matter, a line can be indented, none continues the one before;
 *   - a section has 1 to 48 letters, digits, _ - . and single inner blanks ("plugin hadamard");
 *     a key 1 to 48 letters, digits, _ -; both are case-sensitive; a section may come again;
 *   - a value is all up to the end of the line or to a ; that follows a blank; "a;b" and "#"
 *     are part of the value; quotes are kept; it may be empty, not begin with ;
 *     key and value have at most 187 bytes together, so that "key = value" is a line again;
 *   - no key before the first section; no key twice in one section of one file.
 * Errors are MF_ECONFIG, "file:line: what was found, what was expected". A failed load changes
 * nothing.
 *
 * Several sources are laid over one another (defaults < system < user < CONFIG < --set): the
 * later one wins; mf_ini_get returns the winner.
 */
#ifndef MF_BASE_INI_H
#define MF_BASE_INI_H

#include "number.h" /* mf_parse_i64, mf_parse_f64, mf_parse_bool: the strict values */

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_ini_entry {
    const char *section, *key, *value; /* value: trimmed, comment removed, quotes kept */
    const char *file;                  /* "--set" for the command line */
    int line;                          /* 1-based; for --set the position of the option */
    bool overridden;                   /* a later source has the same section and key */
    bool used;                         /* somebody read it; unread entries are unknown keys */
    bool optional;                     /* may be unknown or unfit: then as if it were not
                                          there */
} mf_ini_entry;

typedef struct mf_ini mf_ini;

mf_ini *mf_ini_new(void);
void mf_ini_free(mf_ini *ini);
/* Lays a file, or text under a given name, over what is there. Error: MF_ECONFIG with
 * file:line; MF_ENOTFOUND when there is no such file. */
int mf_ini_load(mf_ini *ini, const char *path);
int mf_ini_load_text(mf_ini *ini, const char *name, const char *text, size_t size);
/* "section.key=value"; the last dot before '=' parts section from key. position counts from 1.
 * What could not stand in a file is refused here too, so that every configuration can be
 * written out and read again. */
int mf_ini_set(mf_ini *ini, const char *assignment, int position);

int mf_ini_count(const mf_ini *ini);
mf_ini_entry *mf_ini_at(mf_ini *ini, int i); /* in order of appearance, overridden ones too */
/* The entry in force, marked used; NULL when absent. */
mf_ini_entry *mf_ini_get(mf_ini *ini, const char *section, const char *key);
bool mf_ini_has_section(const mf_ini *ini, const char *section);
/* Distinct sections in order of first appearance; i from 0, NULL past the end. */
const char *mf_ini_section_at(const mf_ini *ini, int i);
/* Where that section was first named: file and line; key and value are "". */
const mf_ini_entry *mf_ini_section_entry(const mf_ini *ini, int i);

#endif
