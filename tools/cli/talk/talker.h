/* cli/talk/talker.h: a trained run that continues texts on standard output. */
#ifndef MF_CLI_TALKER_H
#define MF_CLI_TALKER_H

#include "data/tokenizer/chat.h"
#include "api/run_internal.h"
#include "run/session.h"

/* Callbacks for a text while it is generated: its parts, and its tokens. */
typedef struct mf_talker_ear {
    void *arg;
    int (*piece)(void *arg, const char *text, size_t n);
    int (*token)(void *arg, int32_t id);
    bool aloud; /* the callback prints the text: it ends with a newline as usual */
} mf_talker_ear;

typedef struct mf_talker {
    moefw_run *run;      /* opened only to generate; owns session, generator, sampler */
    mf_session *session; /* NULL: closed */
    mf_generator *generator;
    mf_sampler *sampler;
    int64_t step;             /* of the checkpoint */
    int64_t tokens;           /* number of tokens to generate */
    mf_chat chat;             /* plain: texts are continued; else each is a message */
    bool experts;             /* print the experts of each token to standard error */
    const mf_talker_ear *ear; /* NULL: texts go to standard output */
} mf_talker;

/* step: of the checkpoint, -1: the newest. dtype: type of the gemms, "f32" or "bf16"; NULL: as
 * the run was trained. device: as train.device; NULL: that of the run. MF_EINPUT if the run has
 * no tokenizer; else fails as moefw_run_open. */
int mf_talker_open(mf_talker *t, const char *run, int64_t step, const char *dtype,
                   const char *device, bool cache, const mf_sampler_options *sampling,
                   int64_t tokens);
void mf_talker_close(mf_talker *t);
/* Appends the ids of a prompt, which is cleaned if the run's training texts were, and is a
 * message if t->chat is not plain. begins: no text precedes it. Fails with MF_EINPUT if the
 * run's tokenizer does not know a character. */
int mf_talker_encode(const mf_talker *t, const char *text, size_t n, bool begins, mf_ids *ids);
/* Reads the text, then generates its continuation. It goes to t->ear, or with a newline after
 * it to standard output. shown: the text is already on the same line. MF_EUSAGE if the text is
 * empty; else fails as mf_talker_encode, the generator or the ear does. */
int mf_talker_continue(mf_talker *t, const char *text, size_t n, bool shown);
/* Writes bytes to standard output at once; safe for a terminal. */
void mf_talker_put(const char *text, size_t n);
/* A token's text in out; it cannot control a terminal. */
const char *mf_talker_piece(const mf_talker *t, int32_t id, char *out, size_t size);

/* Runs the conversation on standard input until the input ends or a line says exit. baseline:
 * another run, which continues the same lines and is printed under `name`. It is moved out of
 * *baseline and closed at the end. If its session is NULL, there is no other run. */
int mf_talk(mf_talker *t, mf_talker *baseline, const char *name);

#endif
