/* plugin/load/judge.h: decides whether a descriptor can be trusted, before any of its functions
 * is called.
 *
 * The checks, in this order: size of the symbol, magic, ABI, sizes, kind, name, other strings,
 * sizes of conf and self, option table, function table, examples and the device code of their
 * ops, host slot. The message of a refusal says what is wrong, what was expected and what was
 * found. A newer plugin (larger structs) is accepted if all bytes of its descriptor and its
 * function table that this moefw does not know are zero. */
#ifndef MF_PLUGIN_JUDGE_H
#define MF_PLUGIN_JUDGE_H

#include "plugin/option.h"

typedef struct mf_loaded mf_loaded;

/* A checked plugin in the structs of this moefw. Shorter tables are filled up with zeros. */
struct mf_loaded {
    mf_kind kind;
    uint32_t abi;
    const char *name, *version, *license, *brief;
    mf_schema schema;
    size_t conf_size, self_size;
    mf_init_fn init;
    mf_fini_fn fini; /* may be NULL */
    union {          /* function table, by kind */
        mf_router router;
        mf_expert expert;
        mf_regularizer regularizer;
        mf_controller controller;
        mf_adapter adapter;
    } table;
    const mf_plugin *descriptor;
    const mf_op_example *const *examples; /* [n_examples] examples of its ops */
    int32_t n_examples;
    /* Fields that plugin/load/open.c sets. */
    const char *host_names; /* MF_HOST_NAMES of the plugin's headers; NULL: not known */
    const char *path;
    char hash[33]; /* XXH3-128 of the file */
    bool own;      /* true if the plugin came with the program */
};

/* Checks a descriptor. symbol_bytes: size of the symbol moefw_plugin in bytes, 0 if unknown.
 * want: the required kind, 0: any. want_name: the required name, NULL: any. want_by: the origin
 * of this requirement ("x.ini:1", "its file's name"). MF_EPLUGIN: refused; MF_ENOMEM. */
int mf_judge(const mf_plugin *d, size_t symbol_bytes, mf_kind want, const char *want_name,
             const char *want_by, mf_arena *arena, mf_loaded *ret);

#endif
