/* plugin/option.h: options by schema: a table of mf_option describes each option completely.
 *
 * A schema is such a table, copied and checked, together with the struct (conf) to which its
 * offsets refer. Plugins have their own schemas; core's sections ([train], [data], ...) are
 * described in the same way. So the same code reads INI files, --set and live changes, and
 * writes the help, the manual and the resolved configuration. A checked schema has no duplicate
 * name and no field outside conf, and each default is within the bounds of its option.
 *
 *   mf_schema_init -> mf_options_default -> mf_options_load / mf_option_set -> read conf
 *
 * If a value is refused, the message begins with its origin, if known: "file:line: ", or the
 * option of the command line. It names section and key, what was expected, what was found, and
 * the nearest valid name. */
#ifndef MF_PLUGIN_OPTION_H
#define MF_PLUGIN_OPTION_H

#include <moefw/plugin.h>
#include "base/text/ini.h"
#include "base/mem.h"

/* maximum number of options in one table; a longer table is refused */
#define MF_OPTIONS_MAX 256

typedef struct mf_schema {
    const char *owner;        /* text for messages, for example "plugin x"; NULL if the section
                               * is enough */
    const mf_option *options; /* [count] options, then an entry with name NULL */
    const char *const *names; /* [count] names, then NULL; used for suggestions */
    int32_t count;
    size_t conf_size;
} mf_schema;

/* ---- schemas ---- */

/* Copies and checks the table. Its entries are `stride` bytes apart (option_size of a plugin,
 * which may be newer and have longer entries). Strings are not copied. owner may be NULL.
 * MF_EPLUGIN: the message names the option. */
int mf_schema_init(mf_schema *s, mf_arena *arena, const char *owner, const mf_option *table,
                   size_t stride, size_t conf_size);
/* Finds an option by name; NULL if the name is unknown. */
const mf_option *mf_schema_find(const mf_schema *s, const char *name);
const char *
mf_option_type_name(const mf_option *o); /* returns "int", "real", "bool", "string" or "enum" */
/* Writes the valid values in words: "a number from 0 to 1", "one of mean, sum". */
void mf_option_expected(const mf_option *o, char *out, size_t size);
/* Writes "; did you mean 'x'?" or "", by mf_nearest, for use in messages. Returns out. */
const char *mf_did_you_mean(const char *word, const char *const *names, char *out, size_t size);

/* ---- faults: the first one, or all of them ---- */

typedef struct mf_problem {
    int code;
    const char *file; /* NULL if the value is in no file (a default, a missing key) */
    int line;
    const char *section, *key;
    const char *nearest; /* NULL if no name is near */
    const char *message; /* the complete message, which begins with the origin if it is known */
} mf_problem;

/* With a sink, every fault is passed to the sink and reading continues; the code of the first
 * fault is returned at the end. Without a sink (NULL), the first fault ends the reading. The
 * strings are valid only during the call. */
typedef struct mf_problem_sink {
    void (*add)(void *arg, const mf_problem *problem);
    void *arg;
} mf_problem_sink;

/* ---- filling conf; strings go into the arena ---- */

/* Writes all defaults. Fields of options without a default are not written. */
int mf_options_default(const mf_schema *s, void *conf, mf_arena *arena);
/* Sets one option from text. at: the entry that contains the text, for messages; NULL: none.
 * section: its name without brackets. MF_ECONFIG. */
int mf_option_set(const mf_schema *s, const mf_option *o, void *conf, mf_arena *arena,
                  const char *text, const char *section, const mf_ini_entry *at,
                  const mf_problem_sink *sink);
/* Sets all entries of a section, after mf_options_default. Keys in `reserved` (NULL-terminated,
 * may be NULL) belong to the caller and are skipped; all others must be in the schema, and
 * options without a default must be present. MF_ECONFIG. An entry that is marked optional is
 * skipped if it is unknown or invalid. A missing section counts as empty. */
int mf_options_load(const mf_schema *s, void *conf, mf_arena *arena, mf_ini *ini,
                    const char *section, const char *const *reserved,
                    const mf_problem_sink *sink);

/* ---- reading and changing ---- */

/* Writes the value as INI text, from which mf_option_set reads the same value. Returns the
 * text's length, which is >= size if the text was cut (strings only). */
size_t mf_option_text(const mf_option *o, const void *conf, char *out, size_t size);
/* Returns the value of a number, boolean (0, 1) or enum (the index); NaN for strings. */
double mf_option_number(const mf_option *o, const void *conf);
/* NULL if the option is no string */
const char *mf_option_string(const mf_option *o, const void *conf);
bool mf_option_is_default(const mf_option *o, const void *conf);
/* Changes a live option while training runs. MF_ECONFIG: not live, not finite, out of bounds,
 * or not an integer. */
int mf_option_change(const mf_option *o, void *conf, double value);

#endif
