/* lab/serve/serve.h: a run behind the completions interface of OpenAI, for programs on the same
 * machine: first of all the client local-completions of lm-evaluation-harness, which scores
 * prompts by echo and logprobs.
 *
 * The server listens at 127.0.0.1 only, answers one request after another, and keeps
 * connections open. It answers
 *
 *     POST /v1/completions   GET /v1/models   GET /health
 *     POST /tokenize   POST /detokenize   GET /tokenizer_info
 *
 * An error is {"error": {"message": TEXT, "type": TEXT, "code": STATUS}} with its status. */
#ifndef MF_LAB_SERVE_H
#define MF_LAB_SERVE_H

#include "api/run_internal.h"
#include "data/tokenizer/tokenizer.h"
#include "io/json.h"
#include "io/request.h"

enum {
    MF_SERVE_BODY_MAX = 16 << 20,  /* bytes of the body of a request */
    MF_SERVE_PROMPTS_MAX = 4096,   /* prompts of a request */
    MF_SERVE_TOKENS_MAX = 1 << 20, /* tokens of a request, prompts and answers together */
    MF_SERVE_TOP_MAX = 20,         /* logprobs */
    MF_SERVE_STOPS_MAX = 64        /* texts in stop */
};

/* ---- requests ---- */

/* A prompt: a text, or ids. */
typedef struct mf_prompt {
    const char *text; /* [n] bytes; NULL: ids */
    const int32_t *id;
    size_t n;
} mf_prompt;

/* The fields of a request for completions. Texts belong to the JSON document. */
typedef struct mf_completion {
    mf_arena *arena;
    mf_prompt *prompts; /* [n] */
    size_t n;
    int64_t tokens; /* max_tokens, per prompt */
    double temperature, top_p, repeat_penalty;
    int64_t top_k, seed;
    bool echo, logprobs, special_tokens;
    int top; /* number of entries of top_logprobs */
    const char *stops[MF_SERVE_STOPS_MAX];
    size_t n_stops;
} mf_completion;

/* Reads the fields. MF_EINPUT names the field that is unknown, is not served, or has a wrong
 * value; MF_ENOMEM. The caller frees ret->arena, also after a failure. */
int mf_completion_read(const mf_json *v, mf_completion *ret);

/* ---- answers ---- */

struct mf_scorer;
typedef struct mf_served {
    moefw_run *run; /* opened with generate_only; the caller owns it */
    const char *name;
    struct mf_scorer *scorer;
    bool (*stop)(void);                          /* ends work on a request */
    int64_t requests, prompts, tokens, answered; /* so far; answered: tokens that were drawn */
} mf_served;

/* Opens a run for requests. name: of the model, for answers. MF_EINPUT if the run has no
 * tokenizer; MF_ECONFIG if it is no language model. */
int mf_served_open(mf_served *s, moefw_run *run, const char *name, bool (*stop)(void));
void mf_served_close(mf_served *s);
/* Answers a request; writes one JSON value to w and returns the status of HTTP. Errors of the
 * request are answers, too. */
int mf_served_answer(mf_served *s, const mf_request *r, const char *body, size_t n, mf_jw *w);
/* The object of an error. */
void mf_served_error(mf_jw *w, int status, const char *message);

/* ---- the server ---- */

/* Listens at a port of 127.0.0.1; 0: a free one. *ret_port: the port. MF_EIO if it is
 * in use. */
int mf_server_listen(int port, int *ret_fd, int *ret_port);
/* Answers requests until s->stop says so. Closes fd. MF_EIO, MF_ENOMEM. */
int mf_server_run(mf_served *s, int fd);

#endif
