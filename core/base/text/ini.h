/* base/text/ini.h: INI files. Each value keeps its file and line for messages.
 *
 * The whole file is read first, then checked line by line, and only then passed to inih. inih
 * alone would cut long lines without a message, merge duplicates, and treat a directory as an
 * empty file. The rules:
 *   - a regular file of at most 1 MiB, UTF-8 (a byte-order mark at its start is skipped), no
 *     control characters except tab; lines end in LF or CR LF and have at most 190 bytes;
 *   - a line is empty, a comment (first character ; or #), [section], or key = value; blanks
 *     around each part are ignored, a line may be indented, no line continues the line before;
 *   - a section has 1 to 48 letters, digits, _ - . and single inner blanks ("plugin hadamard");
 *     a key has 1 to 48 letters, digits, _ -; both are case-sensitive; a section may
 *     occur twice;
 *   - a value is everything up to the end of the line or to a ; that follows a blank; "a;b" and
 *     "#" are part of the value; quotes are kept; it may be empty, and must not begin with ;
 *     key and value have at most 187 bytes together, so that "key = value" is again a line;
 *   - no key before the first section; no key twice in one section of one file; at most 10000
 *     lines of a file are sections and keys.
 * Errors are MF_ECONFIG, "file:line: what was found, what was expected". A failed load
 * changes nothing.
 *
 * Several sources can be loaded one after another (system, user, CONFIG, assignments). An entry
 * of a later source overrides the entry of an earlier source; mf_ini_get returns the entry
 * in use. */
#ifndef MF_BASE_INI_H
#define MF_BASE_INI_H

#include "base/error.h"
#include "number.h" /* mf_parse_i64, mf_parse_f64, mf_parse_bool read the values */

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_ini_entry {
    const char *section, *key, *value; /* value: trimmed, comment removed, quotes kept */
    const char *file;                  /* origin of the entry, see mf_ini_is_file */
    int line;                          /* counted from 1; for an assignment its position */
    int index;                         /* mf_ini_at(ini, index) is this entry */
    bool overridden;                   /* a later source has the same section and key */
    bool used; /* false: nothing has read the entry, so its key is unknown */
    /* it is no error if the plugin has no such key or refuses the value */
    bool optional;
    /* Section and key as the user wrote them, if the entry was translated; otherwise NULL. The
     * next field lists all keys of that section (NULL: the section has no list here). The texts
     * must stay valid as long as the entry. */
    const char *given_section, *given_key;
    const char *const *given_keys;
    const char *elsewhere; /* the only other section that has a key of this name; NULL: there
                            * is none */
} mf_ini_entry;

typedef struct mf_ini mf_ini;

mf_ini *mf_ini_new(void);
void mf_ini_free(mf_ini *ini);
/* Reads a file, or a text under the name that the caller passes. Its entries override the
 * present entries. Errors: MF_ECONFIG, with file:line if a line is wrong; MF_ENOTFOUND if the
 * file does not exist; MF_ENOMEM. */
int mf_ini_load(mf_ini *ini, const char *path);
int mf_ini_load_text(mf_ini *ini, const char *name, const char *text, size_t size);
/* After this call an entry that is refused does not end the reading: it is kept aside, its
 * value is not used, and the caller must report it. A key that occurs twice in a section of one
 * source is treated in the same way: its first value is used. */
void mf_ini_keep_refused(mf_ini *ini);
/* Refuses an entry. Returns MF_ECONFIG with the entry's file and line before the message, or
 * MF_OK if the entry is kept aside. */
int mf_ini_refuse(mf_ini *ini, const mf_ini_entry *at, const char *fmt, ...) MF_PRINTF(3, 4);
/* Returns the i-th entry that was kept aside, NULL past the last; *ret_why: the message without
 * file and line. */
const mf_ini_entry *mf_ini_refused(const mf_ini *ini, int i, const char **ret_why);
/* Sets "section.key=value"; the last dot before '=' separates section and key. position counts
 * from 1. Text that is not allowed in a file is refused here too, so every configuration can be
 * written to a file and read again. */
int mf_ini_set(mf_ini *ini, const char *assignment, int position);

/* Adds one entry of a separate source, as if a file contained it at that line. If key is "",
 * only the section is added. All texts are copied. They must come from other entries, because
 * their characters are not checked. */
int mf_ini_put(mf_ini *ini, const char *section, const char *key, const char *value,
               const char *file, int line);
/* Like mf_ini_put, for an entry that was translated: `from` is the entry that the
 * user wrote. */
int mf_ini_put_for(mf_ini *ini, const char *section, const char *key, const char *value,
                   const mf_ini_entry *from, const char *const *given_keys);
/* The `file` of an assignment whose origin is not known. */
#define MF_INI_SET "(set)"
/* Whether `file` of an entry names a file. Otherwise it is the origin of an assignment:
 * MF_INI_SET, or an option of a command line ("--steps"). */
bool mf_ini_is_file(const char *file);

/* Puts "FILE:LINE: " before the recorded message, or only the origin if the entry is an
 * assignment. Changes nothing if file is NULL. Returns code. */
int mf_ini_context(int code, const char *file, int line);

int mf_ini_count(const mf_ini *ini);
/* returns entries in order of appearance, including overridden entries */
mf_ini_entry *mf_ini_at(mf_ini *ini, int i);
/* Walk over the entries of one section in order of appearance: its first entry, and the entry
 * after a given entry; NULL: there is none. A loop over all sections and their entries thus
 * takes time proportional to the number of entries. */
mf_ini_entry *mf_ini_first_of(const mf_ini *ini, const char *section);
mf_ini_entry *mf_ini_next_of(const mf_ini_entry *e);
/* Returns the entry in use and marks it as used; NULL if there is none. */
mf_ini_entry *mf_ini_get(mf_ini *ini, const char *section, const char *key);
bool mf_ini_has_section(const mf_ini *ini, const char *section);
/* Returns the i-th distinct section in order of first appearance, i from 0; NULL past
 * the end. */
const char *mf_ini_section_at(const mf_ini *ini, int i);
/* Returns the file and line where section i was first named; key and value are "". */
const mf_ini_entry *mf_ini_section_entry(const mf_ini *ini, int i);
/* like mf_ini_section_entry, by the section's name; NULL: no source contains the section */
const mf_ini_entry *mf_ini_section_begin(const mf_ini *ini, const char *section);

#endif
