/* data/tokenizer/chat.h: writes messages of a conversation as the text on which a model was
 * trained. A published tokenizer describes this text by a template. Templates of two frequent
 * forms are recognized by their text; others are rendered (data/jinja). */
#ifndef MF_DATA_CHAT_H
#define MF_DATA_CHAT_H

#include "data/jinja/jinja.h"
#include "data/tokenizer/tokenizer.h"

typedef enum mf_chat_form {
    MF_CHAT_PLAIN,   /* only the text of the message */
    MF_CHAT_CHATML,  /* <|im_start|>user ... <|im_end|> <|im_start|>assistant */
    MF_CHAT_MISTRAL, /* <s>[INST] ... [/INST] */
    MF_CHAT_TEMPLATE /* the tokenizer's template */
} mf_chat_form;

enum { MF_CHAT_SYSTEM = 256 };
typedef struct mf_chat {
    mf_chat_form form;
    char system[MF_CHAT_SYSTEM]; /* for ChatML: the first message, whose author is the system;
                                  * "": none */
    bool blank;                  /* for Mistral: whether a blank follows </s> */
    const mf_jinja *jinja;       /* for a template: the tokenizer owns it */
} mf_chat;

/* Finds the form of the tokenizer's template; the form is plain if there is no template.
 * Returns false, with the form plain and the reason recorded, if the template is not read. */
bool mf_chat_of(const mf_tokenizer *t, mf_chat *ret);
/* Renders the first `most` messages (0: all) of a list of objects with role and content.
 * tools: the functions that may be called; NULL: none. prompt: the head of an answer follows
 * them (add_generation_prompt). The form must be a template. MF_EINPUT, MF_ENOMEM. */
int mf_chat_render(const mf_chat *c, const mf_tokenizer *t, const mf_json *messages,
                   const mf_json *tools, size_t most, bool prompt, mf_jinja_result *ret);
/* Makes the text of a message, which the caller frees with mf_free. first: the message begins
 * the conversation. Otherwise it follows an answer whose end is not yet in the text. Special
 * tokens appear in the text by their names. MF_EUSAGE if the tokenizer lacks one of them;
 * MF_EINPUT for a fault of its template; MF_ENOMEM. */
int mf_chat_message(const mf_chat *c, const mf_tokenizer *t, bool first, const char *text,
                    size_t n, char **ret, size_t *ret_n);

#endif
