/* data/tokenizer/chat.h: messages of a conversation as the text that a model was trained on. A
 * published tokenizer describes that text by a template in a language of its own. Templates of
 * two frequent forms are recognized by their text; others are not read. */
#ifndef MF_DATA_CHAT_H
#define MF_DATA_CHAT_H

#include "data/tokenizer/tokenizer.h"

typedef enum mf_chat_form {
    MF_CHAT_PLAIN,  /* the message as it is */
    MF_CHAT_CHATML, /* <|im_start|>user ... <|im_end|> <|im_start|>assistant */
    MF_CHAT_MISTRAL /* <s>[INST] ... [/INST] */
} mf_chat_form;

enum { MF_CHAT_SYSTEM = 256 };
typedef struct mf_chat {
    mf_chat_form form;
    char system[MF_CHAT_SYSTEM]; /* of ChatML: the first message, of the system; "": none */
    bool blank;                  /* of Mistral: a blank after </s> */
} mf_chat;

/* Finds the form of the tokenizer's template; plain without one. False, with plain, if it has a
 * template of another form. */
bool mf_chat_of(const mf_tokenizer *t, mf_chat *ret);
/* Makes the text of a message, which the caller frees with mf_free. first: it begins the
 * conversation; otherwise it follows an answer, whose end is not yet in the text. Special
 * tokens are in the text by their names. MF_EUSAGE if the tokenizer lacks one; MF_ENOMEM. */
int mf_chat_message(const mf_chat *c, const mf_tokenizer *t, bool first, const char *text,
                    size_t n, char **ret, size_t *ret_n);

#endif
