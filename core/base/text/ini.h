/* base/text/ini.h: INI files. Each value keeps its file and line for messages.
 *
 * The whole file is read first, then checked line by line, and only then passed to inih. inih
 * alone would cut long lines without a message, merge duplicates, and take a directory for an
 * empty file. The rules:
 *   - a regular file of at most 1 MiB, UTF-8 (a byte-order mark at its start is skipped), no
 *     control characters but tab; lines end in LF or CR LF and have at most 190 bytes;
 *   - a line is empty, a comment (first character ; or #), [section], or key = value; blanks
 *     around each part are ignored, a line may be indented, no line continues the one before;
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
 * of a later source overrides the earlier one; mf_ini_get returns the entry in use.
 */
#ifndef MF_BASE_INI_H
#define MF_BASE_INI_H

#include "base/error.h"
#include "number.h" /* mf_parse_i64, mf_parse_f64, mf_parse_bool read the values */

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_ini_entry {
    const char *section, *key, *value; /* value: trimmed, comment removed, quotes kept */
    const char *file;                  /* origin of the entry: see mf_ini_is_file */
    int line;                          /* 1-based; for an assignment its position */
    int index;                         /* mf_ini_at(ini, index) is this entry */
    bool overridden;                   /* a later source has the same section and key */
    bool used; /* the entry was read; entries that were never read have unknown keys */
    /* it is no error if the plugin does not know the key or does not accept the value */
    bool optional;
    /* If the entry was translated: section and key as the user gave them, and all keys of that
     * section (NULL: not listed here). They must live as long as the entry. NULL: as above. */
    const char *given_section, *given_key;
    const char *const *given_keys;
    const char *elsewhere; /* the only other section with a key of this name; NULL: none */
} mf_ini_entry;

typedef struct mf_ini mf_ini;

mf_ini *mf_ini_new(void);
void mf_ini_free(mf_ini *ini);
/* Reads a file, or a text under a given name; its entries override the present ones. Errors:
 * MF_ECONFIG, with file:line if a line is wrong; MF_ENOTFOUND if there is no such
 * file; MF_ENOMEM. */
int mf_ini_load(mf_ini *ini, const char *path);
int mf_ini_load_text(mf_ini *ini, const char *name, const char *text, size_t size);
/* From now on an entry that is refused does not end the reading: it is kept aside, its value
 * is not used, and the caller must report it. A key that occurs twice in a section of one
 * source is treated likewise: its first value is used. */
void mf_ini_keep_refused(mf_ini *ini);
/* Refuses an entry: MF_ECONFIG with its place and the message, or MF_OK if it is kept aside. */
int mf_ini_refuse(mf_ini *ini, const mf_ini_entry *at, const char *fmt, ...) MF_PRINTF(3, 4);
/* The i-th entry that was kept aside, NULL past the last; *ret_why: the message without
 * its place. */
const mf_ini_entry *mf_ini_refused(const mf_ini *ini, int i, const char **ret_why);
/* Sets "section.key=value"; the last dot before '=' separates section and key. position counts
 * from 1. Text that could not stand in a file is refused here too, so every configuration can
 * be written to a file and read again. */
int mf_ini_set(mf_ini *ini, const char *assignment, int position);

/* Adds one entry of a separate source, as if a file had it at that line; key "": only the
 * section. All texts are copied. They must be texts of other entries, because their characters
 * are not checked. */
int mf_ini_put(mf_ini *ini, const char *section, const char *key, const char *value,
               const char *file, int line);
/* The same for an entry that was translated: `from` is the entry that the user gave. */
int mf_ini_put_for(mf_ini *ini, const char *section, const char *key, const char *value,
                   const mf_ini_entry *from, const char *const *given_keys);
/* The `file` of an assignment whose origin is not known. */
#define MF_INI_SET "(set)"
/* Whether `file` of an entry names a file. Otherwise it is the origin of an assignment:
 * MF_INI_SET, or an option of a command line ("--steps"). */
bool mf_ini_is_file(const char *file);

/* Puts "FILE:LINE: " before the recorded message, or only the origin of an assignment; nothing
 * if file is NULL. Returns code. */
int mf_ini_context(int code, const char *file, int line);

int mf_ini_count(const mf_ini *ini);
/* in order of appearance, overridden entries too */
mf_ini_entry *mf_ini_at(mf_ini *ini, int i);
/* The entries of one section in that order: its first one, and the one after an entry; NULL:
 * there is none. A loop over all sections and their entries thus takes time proportional to the
 * number of entries. */
mf_ini_entry *mf_ini_first_of(const mf_ini *ini, const char *section);
mf_ini_entry *mf_ini_next_of(const mf_ini_entry *e);
/* The entry in use, which is then marked as used; NULL if there is none. */
mf_ini_entry *mf_ini_get(mf_ini *ini, const char *section, const char *key);
bool mf_ini_has_section(const mf_ini *ini, const char *section);
/* Distinct sections in order of first appearance, i from 0; NULL past the end. */
const char *mf_ini_section_at(const mf_ini *ini, int i);
/* The file and line where that section was first named; key and value are "". */
const mf_ini_entry *mf_ini_section_entry(const mf_ini *ini, int i);
/* the same by name; NULL: no source has the section */
const mf_ini_entry *mf_ini_section_begin(const mf_ini *ini, const char *section);

#endif
