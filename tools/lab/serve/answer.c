/* lab/serve/answer.c: which path answers what, and the small ones: models, tokens, and what the
 * client of lm-evaluation-harness asks about the tokenizer. */
#include "generate/score.h"
#include "lab/serve/completions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

void mf_served_error(mf_jw *w, int status, const char *message)
{
    mf_jw_object(w);
    mf_jw_key(w, "error");
    mf_jw_object(w);
    mf_jw_kv_string(w, "message", message);
    mf_jw_kv_string(w, "type", status < 500 ? "invalid_request_error" : "server_error");
    mf_jw_kv_int(w, "code", status);
    mf_jw_end(w);
    mf_jw_end(w);
}

int mf_served_open(mf_served *s, moefw_run *run, const char *name, bool (*stop)(void))
{
    const moefw_sampling usual = MOEFW_SAMPLING_INIT;
    *s = (mf_served){.run = run, .name = name, .stop = stop};
    if (!run->session->tokenizer)
        return mf_fail(MF_EINPUT, "%s: the run has no tokenizer; expected a run on texts",
                       name);
    int rc = mf_run_generator(run, &usual); /* packs the weights */
    return rc == MF_OK ? mf_scorer_new(run->session->model, &s->scorer) : rc;
}

void mf_served_close(mf_served *s)
{
    mf_scorer_free(s->scorer);
    s->scorer = NULL;
}

const char *mf_serve_token(const mf_tokenizer *t, int32_t id, size_t *ret_n)
{
    const char *piece = mf_tokenizer_piece(t, id, ret_n);
    const char *special = *ret_n == 0 ? mf_tokenizer_special(t, id) : NULL;
    if (special) *ret_n = strlen(special);
    return special ? special : piece;
}

/* ---- small answers ---- */

static int health(mf_served *s, const mf_json *v, mf_jw *w)
{
    (void)v;
    mf_jw_object(w);
    mf_jw_kv_string(w, "status", "ok");
    mf_jw_kv_int(w, "requests", s->requests);
    mf_jw_end(w);
    return MF_OK;
}

static int models(mf_served *s, const mf_json *v, mf_jw *w)
{
    (void)v;
    mf_jw_object(w);
    mf_jw_kv_string(w, "object", "list");
    mf_jw_key(w, "data");
    mf_jw_array(w);
    mf_jw_object(w);
    mf_jw_kv_string(w, "id", s->name);
    mf_jw_kv_string(w, "object", "model");
    mf_jw_kv_string(w, "owned_by", "moefw");
    mf_jw_kv_int(w, "max_model_len", s->run->session->config->model.seq);
    mf_jw_end(w);
    mf_jw_end(w);
    mf_jw_end(w);
    return MF_OK;
}

static void put_special(mf_jw *w, const mf_tokenizer *t, const char *key, mf_special special)
{
    size_t n;
    const int32_t id = t->special[special];
    const char *text = id >= 0 ? mf_serve_token(t, id, &n) : NULL;
    mf_jw_key(w, key);
    if (text)
        mf_jw_string_n(w, text, n);
    else
        mf_jw_null(w);
}

static int tokenizer_info(mf_served *s, const mf_json *v, mf_jw *w)
{
    const mf_tokenizer *t = s->run->session->tokenizer;
    (void)v;
    mf_jw_object(w);
    put_special(w, t, "eos_token", MF_SPECIAL_EOS);
    put_special(w, t, "bos_token", MF_SPECIAL_BOS);
    put_special(w, t, "pad_token", MF_SPECIAL_PAD);
    put_special(w, t, "unk_token", MF_SPECIAL_UNK);
    mf_jw_key(w, "chat_template");
    if (t->chat_template)
        mf_jw_string(w, t->chat_template);
    else
        mf_jw_null(w);
    mf_jw_end(w);
    return MF_OK;
}

/* The special token of this name; -1: none. The client asks so for the ids of the tokens in
 * /tokenizer_info; texts that moefw's own tokenizers encode hold no special tokens. */
static int32_t special_named(const mf_tokenizer *t, const char *text, size_t n)
{
    for (int i = 0; i < MF_SPECIALS; i++) {
        size_t m = 0;
        const char *name = t->special[i] >= 0 ? mf_serve_token(t, t->special[i], &m) : "";
        if (m > 0 && m == n && memcmp(name, text, n) == 0) return t->special[i];
    }
    return -1;
}

static int tokenize(mf_served *s, const mf_json *v, mf_jw *w)
{
    const mf_tokenizer *t = s->run->session->tokenizer;
    size_t n = 0;
    const char *text = mf_json_string(mf_json_get(v, "prompt"), &n);
    bool special = true;
    mf_ids ids = {0};
    if (!text) return mf_fail(MF_EINPUT, "prompt: expected a text");
    (void)mf_json_bool(mf_json_get(v, "add_special_tokens"), &special);
    const int32_t id = special_named(t, text, n);
    int rc = special && id < 0 ? mf_tokenizer_begin(t, &ids) : MF_OK;
    if (rc == MF_OK && id >= 0)
        rc = mf_ids_push(&ids, id, 0);
    else if (rc == MF_OK)
        rc = mf_tokenizer_encode(t, "prompt", text, n, &ids);
    if (rc == MF_OK) {
        mf_jw_object(w);
        mf_jw_kv_int(w, "count", (int64_t)ids.n);
        mf_jw_kv_int(w, "max_model_len", s->run->session->config->model.seq);
        mf_jw_key(w, "tokens");
        mf_jw_array(w);
        for (size_t i = 0; i < ids.n; i++)
            mf_jw_int(w, ids.id[i]);
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_ids_free(&ids);
    return rc;
}

static int detokenize(mf_served *s, const mf_json *v, mf_jw *w)
{
    const mf_tokenizer *t = s->run->session->tokenizer;
    const mf_json *list = mf_json_get(v, "tokens");
    mf_decoder d;
    char *text = NULL;
    size_t size = 0, n;
    if (mf_json_typeof(list) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT, "tokens: expected a list of ids");
    FILE *f = open_memstream(&text, &size);
    int rc = f ? mf_decoder_open(&d, t) : MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < mf_json_size(list); i++) {
        int64_t id;
        if (!mf_json_int(mf_json_at(list, i), &id) || id < 0 || id >= t->vocab) {
            rc = mf_fail(MF_EINPUT, "tokens: entry %zu: expected an id from 0 to %d", i,
                         (int)t->vocab - 1);
            mf_decoder_close(&d);
            break;
        }
        const char *piece = mf_decoder_next(&d, (int32_t)id, &n);
        fwrite(piece, 1, n, f);
    }
    if (rc == MF_OK) {
        const char *rest = mf_decoder_end(&d, &n);
        fwrite(rest, 1, n, f);
        mf_decoder_close(&d);
    }
    if (f && fclose(f) != 0 && rc == MF_OK) rc = MF_ENOMEM;
    if (rc == MF_OK) {
        mf_jw_object(w);
        mf_jw_key(w, "prompt");
        mf_jw_string_n(w, text, size);
        mf_jw_end(w);
    }
    free(text);
    return rc;
}

/* ---- requests ---- */

static const struct {
    const char *method, *path;
    int (*answer)(mf_served *s, const mf_json *v, mf_jw *w);
} paths[] = {{"POST", "/v1/completions", mf_serve_completions},
             {"GET", "/v1/models", models},
             {"GET", "/health", health},
             {"POST", "/tokenize", tokenize},
             {"POST", "/detokenize", detokenize},
             {"GET", "/tokenizer_info", tokenizer_info}};
enum { PATHS = sizeof paths / sizeof *paths };

static int refuse(mf_jw *w, int status, const char *message)
{
    mf_jw_reset(w);
    mf_served_error(w, status, message);
    return status;
}

static int unknown(mf_jw *w, const mf_request *r)
{
    char text[1024];
    const char *names[PATHS + 1] = {NULL};
    for (int i = 0; i < PATHS; i++) {
        names[i] = paths[i].path;
        if (strcmp(paths[i].path, r->path) != 0) continue;
        snprintf(text, sizeof text, "%s: expected %s, found %s", r->path, paths[i].method,
                 r->method);
        return refuse(w, 405, text);
    }
    const char *near = mf_nearest(r->path, names);
    snprintf(text, sizeof text, "%s: there is no such path; nearest: %s", r->path,
             near ? near : paths[0].path);
    return refuse(w, 404, text);
}

static int status_of(int rc)
{
    return rc == MF_EINPUT || rc == MF_EUSAGE ? 400 : rc == MF_ESIGNAL ? 503 : 500;
}

int mf_served_answer(mf_served *s, const mf_request *r, const char *body, size_t n, mf_jw *w)
{
    int i = 0;
    mf_json *v = NULL;
    mf_jw_reset(w);
    mf_error_clear();
    /* a page in a browser must not reach the server by a name that leads here */
    if (!r->local)
        return refuse(w, 403, "Host: expected localhost or 127.0.0.1, where the server is");
    while (i < PATHS &&
           (strcmp(paths[i].path, r->path) != 0 || strcmp(paths[i].method, r->method) != 0))
        i++;
    if (i == PATHS) return unknown(w, r);
    s->requests++;
    int rc = strcmp(r->method, "POST") == 0 ? mf_json_parse("the request", body, n, &v) : MF_OK;
    if (rc == MF_OK) rc = paths[i].answer(s, v, w);
    mf_json_free(v);
    if (rc == MF_OK && !mf_jw_text(w, NULL)) rc = MF_ENOMEM;
    return rc == MF_OK ? 200 : refuse(w, status_of(rc), mf_error_message());
}
