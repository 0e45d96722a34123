/* data/members/learned.h: members of jsonl objects that say whether a line or message is
 * learned: "weight" (OpenAI, Mistral), "train", "training", "loss", each 0, 1 or a
 * truth value. */
#ifndef MF_DATA_LEARNED_H
#define MF_DATA_LEARNED_H

#include "io/json.h"

/* Whether the name is one of these members. */
bool mf_learned_names(const char *key);
/* Whether the value of the member is a decision about learning: 0, 1, true or false. "loss" may
 * also be a measured number, and "weight" a number between 0 and 1; such numbers are not read.
 * *ret: the decision. */
bool mf_learned_value(const mf_json *v, bool *ret);
/* Whether one of these members says that the object is not learned. */
bool mf_learned_not(const mf_json *object);

#endif
