/* data/turns.h: prompts, answers and messages as tokens. Only the text of the assistant and the
 * token that ends it count in the loss. A message may be marked as not counted.
 *
 *   plain    a prompt and its answer are joined without changes. A newline follows each
 *            message. An answer ends with <eos> if the tokenizer has this token. Otherwise an
 *            answer that is a message ends with its newline.
 *   ChatML, Mistral   the form of the tokenizer's template (data/tokenizer/chat.h). A prompt is
 *            a message of the user, and its answer is a message of the assistant.
 *   template the tokenizer's template, rendered. What counts is what it encloses in
 *            {% generation %}; without this tag, what an answer adds to the messages before
 *            it and the head of an answer. Messages with functions (tools, tool_calls, the role
 *            tool) have this form only. */
#ifndef MF_DATA_TURNS_H
#define MF_DATA_TURNS_H

#include "data/source.h"
#include "data/tokenizer/chat.h"

/* Finds the form of the tokenizer's template. use false: the form is plain. MF_ECONFIG: the
 * template is not read. */
int mf_turns_form(const mf_tokenizer *t, bool use, mf_chat *ret);
/* Appends the tokens of a document to ids, and appends 0 or 1 to `counted` for each token:
 * whether it counts in the loss. name: name of the line, for messages. MF_EINPUT, MF_ENOMEM. */
int mf_turns_encode(const mf_tokenizer *t, const mf_chat *form, const char *name,
                    const mf_source *s, const mf_document *d, mf_ids *ids, mf_ids *counted);

#endif
