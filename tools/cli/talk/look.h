/* look.h: shows and sets heads and skips of a run that generates text, for conversations
 * and for single commands. */
#ifndef MF_CLI_LOOK_H
#define MF_CLI_LOOK_H

#include "io/json.h"
#include "cli/talk/talker.h"

/* mf_look_needs_gates fails with MF_EUSAGE if the heads have no gates; mf_look_needs_skips if
 * no adapter has a switch. */
int mf_look_needs_gates(const mf_model *m);
int mf_look_needs_skips(const mf_model *m);
bool mf_look_has_skips(const mf_model *m);

/* Print gates by layer, with the active and the pruned heads: to standard output, or as a
 * JSON object. */
void mf_look_gates(const mf_model *m);
void mf_look_gates_json(mf_jw *w, const mf_model *m);

/* Sets the gates of heads head[0] .. head[1] - 1 in layers layer[0] .. layer[1] - 1. A gate
 * above 0 makes a pruned head active again. *ret_gate: the value that was set, which may
 * be clamped. */
int mf_look_set_gates(mf_talker *t, const int64_t layer[2], const int64_t head[2], double gate,
                      double *ret_gate);

/* The scale that /skip on and --enable-skips set: the configured scale, or 0.1 if the
 * configured scale is 0 or absent. */
double mf_look_usual_skip(const mf_model *m);
int mf_look_set_skip(mf_talker *t, double scale);
void mf_look_skip(const mf_model *m);
void mf_look_skip_json(mf_jw *w, const mf_model *m);

#endif
