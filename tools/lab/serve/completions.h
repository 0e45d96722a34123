/* lab/serve/completions.h: POST /v1/completions, and what its files share. */
#ifndef MF_LAB_SERVE_COMPLETIONS_H
#define MF_LAB_SERVE_COMPLETIONS_H

#include "lab/serve/serve.h"

/* Answers the request v and writes one object. After a failure w is to be reset. MF_EINPUT: the
 * request is wrong; MF_ESIGNAL: s->stop ended it; MF_ENONFINITE, MF_ENOMEM. */
int mf_serve_completions(mf_served *s, const mf_json *v, mf_jw *w);

/* The text of a token; special tokens have their names. Not all are UTF-8. */
const char *mf_serve_token(const mf_tokenizer *t, int32_t id, size_t *ret_n);

#endif
