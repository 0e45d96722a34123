/* data/turns_internal.h: turns.c calls turns_template.c. */
#ifndef MF_DATA_TURNS_INTERNAL_H
#define MF_DATA_TURNS_INTERNAL_H

#include "data/turns.h"

/* mf_turns_encode for a form MF_CHAT_TEMPLATE. */
int mf_turns_template(const mf_tokenizer *t, const mf_chat *form, const char *name,
                      const mf_source *s, const mf_document *d, mf_ids *ids, mf_ids *counted);

#endif
