/* config/section.h: sections of the INI file, described by the layers of the program that
 * own them.
 *
 * One option table per section is the only list of its keys. Reading, checks of bounds, the
 * nearest key in messages, the resolved INI file, etc/moefw.ini and the manual's key lists use
 * this table. A layer describes its sections beside its code. The owner of a whole
 * configuration (run/run_config.h) has a table of mf_section_at with the offsets of their
 * values. No section is known by name here.
 *
 * Integers, booleans (0 or 1) and enums are int64_t in the structs, because option tables write
 * that type. */
#ifndef MF_CONFIG_SECTION_H
#define MF_CONFIG_SECTION_H

#include "base/error.h"
#include "base/text/ini.h"
#include "plugin/load/open.h"
#include "plugin/option.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct mf_section {
    const char *name; /* "train"; "regularizer." means every [regularizer.NAME] */
    const char *help; /* help text of one line */
    const mf_option *options;
    size_t size;              /* size of the struct that the options fill */
    const char *const *paths; /* keys whose values may be paths of files; NULL: none */
    /* the struct is an mf_plugin_section, and further keys belong to a plugin of this kind */
    bool plugin;
    mf_kind kind;
    /* For [PREFIX.NAME] without a plugin: completes the struct after its options were read.
     * *ret_keep false: the section is not used. The struct must begin with the fields
     * of mf_named_section. */
    int (*complete)(void *one, const char *section, const char *label, mf_arena *arena,
                    bool *ret_keep);
    int most; /* maximum number of such sections; 0: any number */
    /* Keys that describe how a machine or a user runs things, and that do not change model and
     * results. "*": all keys; NULL: none. If the configuration is complete, only these keys are
     * read from moefw.ini files. */
    const char *const *local;
    /* Keys that a run keeps when it is resumed, because changing them would change the meaning
     * of weights or moments. "*": all keys; NULL: none. */
    const char *const *fixed;
} mf_section;

/* The first fields of the struct of a section [PREFIX.NAME] that belongs to no plugin. */
typedef struct mf_named_section {
    const char *section; /* "task.score" */
} mf_named_section;

/* The position of a section's values in the struct of a whole configuration. */
typedef struct mf_section_at {
    const mf_section *section; /* NULL ends a table */
    /* offset of the struct; for [PREFIX.NAME]: offset of a pointer to an array */
    size_t offset;
    /* for [PREFIX.NAME]: offset of an int with the length of the array */
    size_t count;
} mf_section_at;

/* A section that belongs to a plugin: its name and core's own keys; the other keys belong to
 * the plugin. A section like [regularizer.X] without `plugin` uses the plugin X;
 * `plugin = none` removes the section. [router] and [expert] without `plugin` use the plugin of
 * the default preset. */
typedef struct mf_plugin_section {
    const char *section; /* for example "router", "regularizer.balance" */
    const char *label;   /* for example "balance"; "" for router and expert */
    const char *plugin;  /* name or path of the plugin */
    double weight;       /* for regularizers; default 1; the live
                          * option regularizer.LABEL.weight */
    int64_t every;       /* for controllers: number of steps between calls; default 1 */
    const char *at;      /* for adapters: points and linear layers; "": the plugin's default */
    const char *layers;  /* for adapters: list of blocks, "all" or "0-2, 5" */
    /* for adapters: factor on the learning rate of their parameters; default 1 */
    double lr;
    const char *file; /* file that contains the key `plugin`, for messages */
    int line;
    const mf_section *of;        /* description of the section */
    const char *const *reserved; /* keys of the section that belong to core,
                                  * for mf_instance_new */
} mf_plugin_section;

#define MF_NO_BOUND INFINITY /* no bound except that of the type */
/* Maximum number of steps and of batches, far below 2^63. */
#define MF_STEPS_MAX 1e15
extern const char *const mf_section_auto[]; /* the list {"auto", NULL}; auto means 0 */
#define MF_SECTION_AUTO(conf, field, def, low, high, text)                                     \
    {                                                                                          \
        .name = #field, .help = text, .value = def, .type = MF_OPT_INT,                        \
        .offset = offsetof(conf, field), .lo = low, .hi = high, .choices = mf_section_auto     \
    }
#define MF_SECTION_INT(conf, field, def, lo, hi, help)                                         \
    MF_OPTION_INT(conf, field, def, lo, hi, 0, help)
#define MF_SECTION_REAL(conf, field, def, lo, hi, help)                                        \
    MF_OPTION_REAL(conf, field, def, lo, hi, 0, help)
#define MF_SECTION_BOOL(conf, field, def, help) MF_OPTION_BOOL(conf, field, def, 0, help)

/* ---- reading ---- */

/* Finds the description of a section: "regularizer." for "regularizer.x". NULL: no description
 * has the name. */
const mf_section *mf_section_find(const mf_section_at *all, const char *name);
/* Whether a key of the section is in its list `local`. */
bool mf_section_local(const mf_section *s, const char *key);
/* Whether a key of the section is in its list `fixed`. */
bool mf_section_fixed(const mf_section *s, const char *key);
extern const char *const mf_section_all_keys[]; /* the list {"*", NULL} */
/* Whether the description is for any number of sections, like [regularizer.NAME]. */
bool mf_section_named(const mf_section *s);

/* ---- rules between keys ---- */

typedef struct mf_config_faults {
    mf_ini *ini;
    const mf_problem_sink *sink; /* NULL: only the first fault is recorded */
    int first;                   /* MF_OK, or the code of the first fault */
} mf_config_faults;
/* Reports a wrong value at its line. */
MF_PRINTF(4, 5)
void mf_config_fault_at(mf_config_faults *j, const mf_ini_entry *at, const char *nearest,
                        const char *fmt, ...);
void mf_config_vfault_at(mf_config_faults *j, const mf_ini_entry *at, const char *nearest,
                         const char *fmt, va_list args);
/* Reports the entries that were refused when the sources were read. */
void mf_config_judge_refused(mf_config_faults *j, const mf_ini *given);
/* Reports a broken rule between keys, with the key. other: "SECTION.KEY" of the other key of
 * the rule, or NULL. The line of the message is the line of the key that was set last. If
 * neither key was set, the message has no line. */
MF_PRINTF(6, 7)
void mf_config_fault(mf_config_faults *j, const char *section, const char *key,
                     const char *other, const char *nearest, const char *fmt, ...);

#endif
