/* The list of verbs. mf_verbs has them in the order of the manual; parser, help, manual and
 * completion use only this list. */
#include "cli/cli.h"

#include <stddef.h>

extern const mf_verb mf_verb_train;
extern const mf_verb mf_verb_compare;
extern const mf_verb mf_verb_verify;
extern const mf_verb mf_verb_board;
extern const mf_verb mf_verb_eval;
extern const mf_verb mf_verb_generate;
extern const mf_verb mf_verb_serve;
extern const mf_verb mf_verb_bench;
extern const mf_verb mf_verb_report;
extern const mf_verb mf_verb_import;
extern const mf_verb mf_verb_swap;
extern const mf_verb mf_verb_quantize;
extern const mf_verb mf_verb_runs;
extern const mf_verb mf_verb_presets;
extern const mf_verb mf_verb_probe;
extern const mf_verb mf_verb_prune;
extern const mf_verb mf_verb_export;
extern const mf_verb mf_verb_plan;
extern const mf_verb mf_verb_plugin;
extern const mf_verb mf_verb_data;
extern const mf_verb mf_verb_tokenize;
extern const mf_verb mf_verb_ckpt;
extern const mf_verb mf_verb_trace;
extern const mf_verb mf_verb_analyze;
extern const mf_verb mf_verb_config;
extern const mf_verb mf_verb_graph;
extern const mf_verb mf_verb_doctor;
extern const mf_verb mf_verb_completion;

const mf_verb *const mf_verbs[] = {
    &mf_verb_train,
    &mf_verb_eval,
    &mf_verb_generate,
    &mf_verb_serve,
    &mf_verb_compare,
    &mf_verb_verify,
    &mf_verb_board,
    &mf_verb_bench,
    &mf_verb_plan,
    &mf_verb_trace,
    &mf_verb_analyze,
    &mf_verb_probe,
    &mf_verb_runs,
    &mf_verb_report,
    &mf_verb_import,
    &mf_verb_swap,
    &mf_verb_prune,
    &mf_verb_quantize,
    &mf_verb_export,
    &mf_verb_plugin,
    &mf_verb_data,
    &mf_verb_tokenize,
    &mf_verb_ckpt,
    &mf_verb_presets,
    &mf_verb_config,
    &mf_verb_graph,
    &mf_verb_doctor,
    &mf_verb_completion,
    NULL,
};
