/* The verbs, in the order of the manual: one line each, when it works. */
#include "cli/cli.h"

#include <stddef.h>

extern const mf_verb mf_verb_config;
extern const mf_verb mf_verb_completion;
extern const mf_verb mf_verb_plugin;

const mf_verb *const mf_verbs[] = {
    &mf_verb_plugin,
    &mf_verb_config,
    &mf_verb_completion,
    NULL,
};
