/* base/ini.h: INI files that know where each value stands.
 *
 * The whole file is read first, then judged line by line (UTF-8, no NUL, size <= 1 MiB, line <=
 * 190 bytes, section <= 48 bytes, no continuation lines, no duplicate key in one file), and only
 * then handed to inih: inih alone would cut long lines silently, merge duplicates, and take a
 * directory for an empty file. Entries keep file and line for later messages.
 *
 * Several sources are laid over one another (defaults < system < user < CONFIG < --set): the
 * later one wins; mf_ini_get returns the winner.
 */
#ifndef MF_BASE_INI_H
#define MF_BASE_INI_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mf_ini_entry {
    const char *section, *key, *value; /* value: trimmed, comment removed, quotes kept */
    const char *file;                  /* "--set" for the command line */
    int line;                          /* 1-based; for --set the position of the option */
    bool overridden;                   /* a later source has the same section and key */
    bool used;                         /* somebody read it; unread entries are unknown keys */
} mf_ini_entry;

typedef struct mf_ini mf_ini;

mf_ini *mf_ini_new(void);
void mf_ini_free(mf_ini *ini);
/* Lays a file, or text under a given name, over what is there. Error: MF_ECONFIG with file:line. */
int mf_ini_load(mf_ini *ini, const char *path);
int mf_ini_load_text(mf_ini *ini, const char *name, const char *text, size_t size);
/* "section.key=value"; the last dot before '=' parts section from key. position counts from 1. */
int mf_ini_set(mf_ini *ini, const char *assignment, int position);

int mf_ini_count(const mf_ini *ini);
mf_ini_entry *mf_ini_at(mf_ini *ini, int i); /* in order of appearance, overridden ones too */
/* The entry in force, marked used; NULL when absent. */
mf_ini_entry *mf_ini_get(mf_ini *ini, const char *section, const char *key);
bool mf_ini_has_section(const mf_ini *ini, const char *section);
/* Distinct sections in order of first appearance; i from 0, NULL past the end. */
const char *mf_ini_section_at(const mf_ini *ini, int i);

/* Strict values: the whole text must be a number (C locale), yes|no|true|false|on|off|1|0.
 * Integers take the suffixes k, M, G (x 1000). Return false when the text is not one. */
bool mf_parse_i64(const char *text, long long *out);
bool mf_parse_f64(const char *text, double *out);
bool mf_parse_bool(const char *text, bool *out);

#endif
