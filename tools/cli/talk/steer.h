/* cli/talk/steer.h: changes of routing in a conversation. A change stays for all later text
 * until it is taken back; the text so far then runs again with the changes that remain. */
#ifndef MF_CLI_STEER_H
#define MF_CLI_STEER_H

#include "cli/talk/talker.h"
#include "lab/probe/probe.h"

struct mf_probe_base;

/* Zero at the start. */
typedef struct mf_steer {
    const mf_model *model;
    mf_arena *arena;
    mf_probe_list list;
    struct mf_probe_base *base; /* [MoE layers] */
} mf_steer;

/* Makes a change. how: ban (mf_probe_kind NEXT), drop, exchange, force, or bias, with words as
 * in lab/probe/probe.h; d: what bias adds to the score. MF_EUSAGE if the word is wrong, or if
 * the router does not allow the change; nothing is changed then. */
int mf_steer_add(mf_steer *s, mf_talker *t, const char *how, const char *word, double d);
/* Takes the last change back. Returns its name, or NULL in *ret_name if there is none. */
int mf_steer_undo(mf_steer *s, mf_talker *t, const char **ret_name);
/* Prints the changes, one a line, the first one first. */
void mf_steer_print(const mf_steer *s);
/* Computes the mean loss of the tokens of the text so far, at most the last model.seq ones,
 * with the changes and without them. MF_EUSAGE: the text has fewer than two tokens. */
int mf_steer_measure(mf_steer *s, const mf_talker *t, double *ret_with, double *ret_without,
                     int64_t *ret_tokens);
void mf_steer_free(mf_steer *s);

#endif
