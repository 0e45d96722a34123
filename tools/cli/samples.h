/* cli/samples.h: generates one or several texts without a conversation, optionally with the
 * texts of another run, and with statistics. */
#ifndef MF_CLI_SAMPLES_H
#define MF_CLI_SAMPLES_H

#include "io/json.h"
#include "cli/talk/talker.h"

typedef struct mf_samples {
    const char *prompt;
    size_t n_prompt;
    bool shown;    /* print the prompt before each text; not in JSON */
    int64_t count; /* text i uses the seed of the samplers + i */
    bool quality;  /* measure repetition and coherence (generate/quality.h) */
} mf_samples;

/* Prints the texts to standard output. If baseline is NULL or has no session, only the texts of
 * `run` are printed. name: the name of the baseline in the output. A text that the other run's
 * tokenizer cannot encode is not measured with the model of that run. Fails
 * like mf_talker_continue. */
int mf_samples_write(const mf_samples *s, mf_talker *run, mf_talker *baseline,
                     const char *name);
/* Like mf_samples_write, but adds members to the open JSON object: "samples", and "quality" if
 * s->quality. With a baseline it also adds "baseline", an object with the same members for
 * that run. */
int mf_samples_json(mf_jw *w, const mf_samples *s, mf_talker *run, mf_talker *baseline,
                    const char *name);

#endif
