/* cli/talk/talker.h: a trained run that continues texts on standard output. */
#ifndef MF_CLI_TALKER_H
#define MF_CLI_TALKER_H

#include "data/tokenizer/chat.h"
#include "api/run_internal.h"
#include "run/session.h"

/* Callbacks for a text while it is generated: one for parts of the text, one for its tokens. */
typedef struct mf_talker_ear {
    void *arg;
    int (*piece)(void *arg, const char *text, size_t n);
    int (*token)(void *arg, int32_t id);
    bool aloud; /* the callback prints the text, so a newline is printed after it as
                 * without callbacks */
} mf_talker_ear;

typedef struct mf_talker {
    moefw_run *run;      /* opened only to generate; owns session, generator and sampler */
    mf_session *session; /* NULL: the talker is closed */
    mf_generator *generator;
    mf_sampler *sampler;
    int64_t step;             /* step of the checkpoint */
    int64_t tokens;           /* number of tokens to generate */
    mf_chat chat;             /* plain: texts are continued; other formats: each text is
                               * a message */
    bool experts;             /* print the experts of each token to standard error */
    const mf_talker_ear *ear; /* NULL: texts go to standard output */
} mf_talker;

/* Opens a run to generate text. step: that of the checkpoint to read; -1: the newest. dtype:
 * type of the gemms, "f32" or "bf16"; NULL: as the run was trained. device: like train.device;
 * NULL: the run's own. Fails with MF_EINPUT if the run has no tokenizer, else
 * like moefw_run_open. */
int mf_talker_open(mf_talker *t, const char *run, int64_t step, const char *dtype,
                   const char *device, bool cache, const mf_sampler_options *sampling,
                   int64_t tokens);
void mf_talker_close(mf_talker *t);
/* Appends the ids of a prompt. The prompt is cleaned if the run's training texts were cleaned.
 * It is encoded as a message if t->chat is not plain. begins: no text precedes it. Fails with
 * MF_EINPUT if the run's tokenizer has no token for a character. */
int mf_talker_encode(const mf_talker *t, const char *text, size_t n, bool begins, mf_ids *ids);
/* Reads the text, then generates its continuation. The continuation is passed to t->ear, or
 * printed to standard output with a newline after it. shown: the text is already on the same
 * line. Fails with MF_EUSAGE if the text is empty, else like mf_talker_encode, the generator or
 * the ear. */
int mf_talker_continue(mf_talker *t, const char *text, size_t n, bool shown);
/* Writes bytes to standard output at once. Bytes that could control a terminal are
 * made harmless. */
void mf_talker_put(const char *text, size_t n);
/* Writes a token's text to out, without bytes that could control a terminal. */
const char *mf_talker_piece(const mf_talker *t, int32_t id, char *out, size_t size);

/* Runs the conversation on standard input until the input ends or a line says exit.
 * baseline: another run, which continues the same lines and is printed under `name`. Its
 * contents are moved out of *baseline and closed at the end. If its session is NULL, there
 * is no other run. */
int mf_talk(mf_talker *t, mf_talker *baseline, const char *name);

#endif
