/* cli/samples.h: texts that a run writes without a conversation: one or several, beside those
 * of another run, with what can be counted of them. */
#ifndef MF_CLI_SAMPLES_H
#define MF_CLI_SAMPLES_H

#include "base/json.h"
#include "cli/talker.h"

typedef struct mf_samples {
    const char *prompt;
    size_t n_prompt;
    bool shown;    /* the prompt is written before each text; not into JSON */
    int64_t count; /* text i is drawn with the seed of the samplers + i */
    bool quality;  /* tell repetition and coherence: generate/quality.h */
} mf_samples;

/* To standard output. baseline: NULL or without a session: none; `name` is what it is called. A
 * text that the other run's tokenizer does not know is not judged by it. MF_EINPUT: as
 * mf_talker_continue. */
int mf_samples_write(const mf_samples *s, mf_talker *run, mf_talker *baseline,
                     const char *name);
/* The same as members of the open object: samples, quality; baseline: an object of them. */
int mf_samples_json(mf_jw *w, const mf_samples *s, mf_talker *run, mf_talker *baseline,
                    const char *name);

#endif
