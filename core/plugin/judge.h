/* plugin/judge.h: whether a descriptor can be trusted, before any function of it is called.
 *
 * What is judged, in this order: size of the symbol, magic, ABI, sizes, kind, strings, name,
 * option table, function table, host slot. A refusal says what is wrong, what was expected,
 * what was found and what to do. A newer plugin (larger structs) is taken if it leaves zero
 * what this moefw does not know.
 */
#ifndef MF_PLUGIN_JUDGE_H
#define MF_PLUGIN_JUDGE_H

#include "plugin/option.h"

typedef struct mf_loaded mf_loaded;

/* A judged plugin in the shapes of this moefw: tables that were shorter are filled with
 * zeros. */
struct mf_loaded {
    mf_kind kind;
    uint32_t abi;
    const char *name, *version, *license, *brief;
    mf_schema schema;
    size_t conf_size, self_size;
    mf_init_fn init;
    mf_fini_fn fini; /* may be NULL */
    union {          /* by kind */
        mf_router router;
        mf_expert expert;
        mf_regularizer regularizer;
        mf_controller controller;
    } table;
    const mf_plugin *descriptor;
    /* Filled by the opener. */
    const char *path;
    char hash[33]; /* of the file, XXH3-128 */
    bool own;      /* came with the program */
};

/* symbol_bytes: size of the object behind the descriptor, 0 if unknown. want: the kind that is
 * needed, 0: any. want_name: the name that it must have, NULL: any; want_by: who says so ("the
 * drop-in x.ini:1", "its file"). MF_EPLUGIN. */
int mf_judge(const mf_plugin *d, size_t symbol_bytes, mf_kind want, const char *want_name,
             const char *want_by, mf_arena *arena, mf_loaded *ret);

#endif
