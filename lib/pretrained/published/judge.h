/* pretrained/published/judge.h: compares the settings of a run with those that a config.json
 * means. A model may be written in the form of a family only if they are equal. */
#ifndef MF_PRETRAINED_JUDGE_H
#define MF_PRETRAINED_JUDGE_H

#include "pretrained/keys.h"
#include "run/run_config.h"

enum { MF_JUDGE_TEXT = 160, MF_JUDGE_FOUND = 320 };

typedef struct mf_differences {
    const mf_config *config;
    const mf_keys *keys; /* the settings that config.json means */
    /* The rows of queries and keys can be written in another order (MF_RULE_APART), so both
     * values of model.rope_half are accepted. */
    bool reorder;
    /* Several shared experts can be written as one expert with their total width. */
    bool join;
    /* The result: the number of settings that differ, and the first of them. In `distance`
     * another plugin counts more, since its options are not compared. */
    int faults, distance;
    /* The first setting, as "SECTION.KEY = VALUE" or "[SECTION]", and the value that the form
     * means. `expected` is empty for a section. */
    char found[MF_JUDGE_FOUND], expected[MF_JUDGE_TEXT];
} mf_differences;

/* Fills the result of j. Errors are those of loading a plugin; MF_ENOMEM. */
int mf_judge_settings(mf_differences *j);
/* Adds a setting that differs to the result. key NULL: the whole section, which no form has. */
void mf_judge_fault(mf_differences *j, const char *section, const char *key, const char *found,
                    const char *expected);
/* Fails with MF_EINPUT and the first setting that differs. family: name of the form. */
int mf_judge_refuse(const mf_differences *j, const char *family);
/* Whether a block of the model has experts. */
bool mf_judge_any_experts(const mf_model_config *m);
/* Whether the rows of queries and keys must be written in another order for a form whose rope
 * rotates the halves of a head. */
bool mf_judge_reorders(const mf_model_config *m);

#endif
