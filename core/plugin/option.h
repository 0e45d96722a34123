/* plugin/option.h: options by schema: a table of mf_option says all that there is to say.
 *
 * A schema is such a table, copied and judged, together with the struct (conf) that its offsets
 * point into. Plugins bring theirs; core's own sections ([train], [data], ...) are described
 * the same way, so that one piece of code reads INI, --set and live turns, and one writes the
 * help, the manual and the resolved configuration. A judged schema has no duplicate name, no
 * field outside conf, and only defaults that its own bounds allow.
 *
 *   mf_schema_init -> mf_options_default -> mf_options_load / mf_option_set -> read conf
 *
 * Where a value is refused the message begins with "file:line: " and names section and key,
 * what was expected, what was found, and the nearest valid name.
 */
#ifndef MF_PLUGIN_OPTION_H
#define MF_PLUGIN_OPTION_H

#include <moefw/plugin.h>
#include "base/ini.h"
#include "base/mem.h"

#define MF_OPTIONS_MAX 256 /* in one table; more means that its end is missing */

typedef struct mf_schema {
    const char *owner;        /* for messages: "plugin x"; NULL where the section says it all */
    const mf_option *options; /* [count], then one with a NULL name */
    const char *const *names; /* [count], then NULL: for suggestions */
    int32_t count;
    size_t conf_size;
} mf_schema;

/* ---- schemas ---- */

/* Copies the table, whose entries are `stride` bytes apart (option_size of a plugin, which may
 * be newer and have more in each), and judges it. Strings are not copied. owner may be NULL.
 * Error: MF_EPLUGIN, naming the option. */
int mf_schema_init(mf_schema *s, mf_arena *arena, const char *owner, const mf_option *table,
                   size_t stride, size_t conf_size);
const mf_option *mf_schema_find(const mf_schema *s, const char *name); /* NULL if unknown */
const char *
mf_option_type_name(const mf_option *o); /* "int", "real", "bool", "string", "enum" */
/* "a number from 0 to 1", "one of mean, sum": what a value has to be. */
void mf_option_expected(const mf_option *o, char *out, size_t size);
/* "; did you mean 'x'?" or "", by mf_nearest: to be put into messages. Returns out. */
const char *mf_did_you_mean(const char *word, const char *const *names, char *out, size_t size);

/* ---- faults: the first one, or all of them ---- */

typedef struct mf_problem {
    int code;
    const char *file; /* NULL when the value is not in any file (a default, a missing key) */
    int line;
    const char *section, *key;
    const char *nearest; /* NULL when nothing is near */
    const char *message; /* complete, with "file:line: " */
} mf_problem;

/* With a sink all faults are told to it, one by one, and reading goes on; the first one's code
 * is returned in the end. Without (NULL), the first fault ends the reading. Strings live for
 * the call only. */
typedef struct mf_problem_sink {
    void (*add)(void *arg, const mf_problem *problem);
    void *arg;
} mf_problem_sink;

/* ---- filling conf; strings are put into the arena ---- */

/* Writes all defaults. Options that must be given are left zero. */
int mf_options_default(const mf_schema *s, void *conf, mf_arena *arena);
/* One option from text. at: where the text stands, for messages; NULL: nowhere. section:
 * without brackets. MF_ECONFIG. */
int mf_option_set(const mf_schema *s, const mf_option *o, void *conf, mf_arena *arena,
                  const char *text, const char *section, const mf_ini_entry *at,
                  const mf_problem_sink *sink);
/* All entries of a section, after mf_options_default. Keys in `reserved` (NULL-terminated, may
 * be NULL) belong to somebody else and are passed over; all others must be in the schema, and
 * options without a default must be there. MF_ECONFIG. A section that is absent counts as
 * empty. */
int mf_options_load(const mf_schema *s, void *conf, mf_arena *arena, mf_ini *ini,
                    const char *section, const char *const *reserved,
                    const mf_problem_sink *sink);

/* ---- looking and turning ---- */

/* The value as INI text that mf_option_set reads back to the same value. Returns its length,
 * which is >= size when it did not fit and was cut (strings only). */
size_t mf_option_text(const mf_option *o, const void *conf, char *out, size_t size);
/* Numbers, booleans (0, 1) and enums (the index); NaN for strings. */
double mf_option_number(const mf_option *o, const void *conf);
const char *mf_option_string(const mf_option *o, const void *conf); /* NULL unless a string */
bool mf_option_is_default(const mf_option *o, const void *conf);
/* A live option while training runs. MF_ECONFIG: not live, not finite, out of bounds, not
 * whole. */
int mf_option_turn(const mf_option *o, void *conf, double value);

#endif
