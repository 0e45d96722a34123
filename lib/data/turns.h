/* data/turns.h: prompts, answers and messages as tokens. Only what the assistant says counts in
 * the loss, and the token that ends it; a message may say that it does not.
 *
 *   plain    a prompt and its answer as they are, one after the other; messages each with a
 *            newline behind it. An answer ends with <eos> if the tokenizer has it, else, of a
 *            message, with its newline.
 *   ChatML, Mistral   as the tokenizer's template has them (data/tokenizer/chat.h); a prompt is
 *            a message of the user, its answer one of the assistant. */
#ifndef MF_DATA_TURNS_H
#define MF_DATA_TURNS_H

#include "data/source.h"
#include "data/tokenizer/chat.h"

/* The form of the tokenizer's template. use false: plain. MF_ECONFIG: the template
 * has another form. */
int mf_turns_form(const mf_tokenizer *t, bool use, mf_chat *ret);
/* Appends the tokens of a document to ids, and for each whether it counts to `counted`, as 0 or
 * 1. name: of its line. MF_EINPUT, MF_ENOMEM. */
int mf_turns_encode(const mf_tokenizer *t, const mf_chat *form, const char *name,
                    const mf_source *s, const mf_document *d, mf_ids *ids, mf_ids *counted);

#endif
