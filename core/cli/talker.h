/* cli/talker.h: a trained run that continues texts on standard output. */
#ifndef MF_CLI_TALKER_H
#define MF_CLI_TALKER_H

#include "generate/generator.h"
#include "train/session.h"

/* Who hears a text while it is written: pieces of it, and its tokens. */
typedef struct mf_talker_ear {
    void *arg;
    int (*piece)(void *arg, const char *text, size_t n);
    int (*token)(void *arg, int32_t id);
} mf_talker_ear;

typedef struct mf_talker {
    mf_session *session;
    mf_generator *generator;
    mf_sampler *sampler;
    int64_t step;             /* of the weights */
    int64_t tokens;           /* to write */
    int64_t drawn;            /* so far, over the whole conversation */
    bool experts;             /* show which experts each token used, on standard error */
    const mf_talker_ear *ear; /* NULL: texts go to standard output */
} mf_talker;

/* dtype: what products are made of, "f32" or "bf16"; NULL: as the run was trained. */
int mf_talker_open(mf_talker *t, const char *run, const char *dtype, bool cache,
                   const mf_sampler_options *sampling, int64_t tokens);
void mf_talker_close(mf_talker *t);
/* The ids of a prompt, which is cleaned where the texts were that the run was trained on.
 * MF_EINPUT: a character that the run's tokenizer does not know. */
int mf_talker_encode(const mf_talker *t, const char *text, size_t n, mf_ids *ids);
/* Reads the text and writes what follows it, then, to standard output, a newline. shown: the
 * text stands before it on the same line. MF_EINPUT: as mf_talker_encode. */
int mf_talker_continue(mf_talker *t, const char *text, size_t n, bool shown);
/* Bytes to standard output, harmless for a terminal, at once. */
void mf_talker_put(const char *text, size_t n);
/* A token's text, harmless: out. */
const char *mf_talker_piece(const mf_talker *t, int32_t id, char *out, size_t size);

/* The conversation on standard input, until its end or /exit. baseline: another run that
 * continues the same lines, under this name; it is closed at the end. Without a session:
 * none. */
int mf_talk(mf_talker *t, mf_talker *baseline, const char *name);

#endif
