/* cli/look.h: heads and skips of a run that is loaded to write texts: what they are, and
 * turning them. For conversations and for single commands. */
#ifndef MF_CLI_LOOK_H
#define MF_CLI_LOOK_H

#include "base/json.h"
#include "cli/talker.h"

/* MF_EUSAGE: the model has none. */
int mf_look_needs_gates(const mf_model *m);
int mf_look_needs_skips(const mf_model *m);

/* Gates by layer, heads in use and pruned, to standard output; as an object. */
void mf_look_gates(const mf_model *m);
void mf_look_gates_json(mf_jw *w, const mf_model *m);

/* Gates of layers and heads from .. to - 1. A gate above 0 brings a pruned head back.
 * *ret_gate: what they are now, as far as the model can hold 0 and 1. */
int mf_look_set_gates(mf_talker *t, const int64_t layer[2], const int64_t head[2], double gate,
                      double *ret_gate);

/* Where /skip on and --enable-unet put it: as configured, or 0.1 where that is 0. */
double mf_look_usual_skip(const mf_model *m);
int mf_look_set_skip(mf_talker *t, double scale);
void mf_look_skip(const mf_model *m);
void mf_look_skip_json(mf_jw *w, const mf_model *m);

#endif
