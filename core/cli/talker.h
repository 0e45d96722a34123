/* cli/talker.h: a trained run that continues texts on standard output. */
#ifndef MF_CLI_TALKER_H
#define MF_CLI_TALKER_H

#include "run/run_internal.h"
#include "train/run/session.h"

/* Callbacks for a text while it is generated: its parts, and its tokens. */
typedef struct mf_talker_ear {
    void *arg;
    int (*piece)(void *arg, const char *text, size_t n);
    int (*token)(void *arg, int32_t id);
} mf_talker_ear;

typedef struct mf_talker {
    moefw_run *run;      /* opened only to generate; it owns the next three */
    mf_session *session; /* NULL: closed */
    mf_generator *generator;
    mf_sampler *sampler;
    int64_t step;             /* of the checkpoint */
    int64_t tokens;           /* number of tokens to generate */
    bool experts;             /* print the experts of each token to standard error */
    const mf_talker_ear *ear; /* NULL: texts go to standard output */
} mf_talker;

/* dtype: type of the gemms, "f32" or "bf16"; NULL: as the run was trained. */
int mf_talker_open(mf_talker *t, const char *run, const char *dtype, bool cache,
                   const mf_sampler_options *sampling, int64_t tokens);
void mf_talker_close(mf_talker *t);
/* The ids of a prompt, which is cleaned if the run's training texts were. Fails with MF_EINPUT
 * if the run's tokenizer does not know a character. */
int mf_talker_encode(const mf_talker *t, const char *text, size_t n, mf_ids *ids);
/* Reads the text, then generates its continuation and a newline on standard output. shown: the
 * text is already on the same line. Fails as mf_talker_encode. */
int mf_talker_continue(mf_talker *t, const char *text, size_t n, bool shown);
/* Writes bytes to standard output at once; safe for a terminal. */
void mf_talker_put(const char *text, size_t n);
/* A token's text in out; it cannot control a terminal. */
const char *mf_talker_piece(const mf_talker *t, int32_t id, char *out, size_t size);

/* Runs the conversation on standard input until its end or /exit. baseline: another run that
 * continues the same lines, under this name; it is closed at the end. Without a
 * session: none. */
int mf_talk(mf_talker *t, mf_talker *baseline, const char *name);

#endif
