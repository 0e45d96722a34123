/* pretrained/upcycle.c: settings and weights of an upcycled model. The plugins swiglu and mlp
 * lay out the weights of one expert as a dense block does, so an expert is a plain copy. */
#include "pretrained/upcycle.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"

static int bad_word(const char *word)
{
    return mf_fail(MF_EUSAGE,
                   "--upcycle: expected experts=N,top_k=K, or SECTION.KEY=VALUE, found '%s'",
                   word);
}

static int set_word(mf_keys *k, char *word, int *given)
{
    const char *value = strchr(word, '=');
    if (!value || value[1] == '\0') return bad_word(word);
    const int n = (int)(value - word);
    const bool experts = n == 7 && strncmp(word, "experts", 7) == 0,
               top_k = n == 5 && strncmp(word, "top_k", 5) == 0;
    if (!experts && !top_k && !memchr(word, '.', (size_t)n)) return bad_word(word);
    *given |= experts ? 1 : top_k ? 2 : 0;
    mf_keys_set(k, "%s%s", experts || top_k ? "moe." : "", word);
    if (k->rc != MF_EINPUT) return k->rc;
    return mf_fail(MF_EUSAGE, "--upcycle: '%.64s': too long for a setting", word);
}

int mf_upcycle_settings(const mf_session *dense, const char *text, mf_keys *k)
{
    static const char *const activations[] = {
        [MF_FFN_RELU] = "expert.activation=relu",
        [MF_FFN_GELU] = "expert.activation=gelu",
        [MF_FFN_GELU_TANH] = "expert.activation=gelu_tanh",
    };
    const mf_model_config *m = &dense->config->model;
    char *words = mf_arena_strdup(k->arena, text), *rest = NULL;
    int given = 0, rc = words ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && dense->model->n_moe > 0)
        return mf_fail(MF_EUSAGE, "--upcycle: the model of %s has experts already", k->path);
    mf_keys_set(k, "model.moe_every=1");
    mf_keys_set(k, "moe.renormalize=yes");
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "router.plugin=linear");
    if (m->ffn_activation == MF_FFN_SWIGLU) {
        mf_keys_set(k, "expert.plugin=swiglu");
    } else {
        mf_keys_set(k, "expert.plugin=mlp");
        mf_keys_set(k, "%s", activations[m->ffn_activation]);
    }
    mf_keys_set(k, "expert.hidden=%lld", (long long)m->ffn_hidden);
    if (rc == MF_OK) rc = k->rc;
    for (char *w = words ? strtok_r(words, ",", &rest) : NULL; rc == MF_OK && w;
         w = strtok_r(NULL, ",", &rest))
        rc = set_word(k, w, &given);
    return rc == MF_OK && given != 3 ? bad_word(text) : rc;
}

/* The parameter of the dense model whose values p gets; NULL: none. */
static const mf_param *source_of(const mf_store *dense, const mf_param *p, int64_t *ret_times)
{
    const char *at = strstr(p->name, ".expert.");
    char name[256];
    *ret_times = 1;
    if (!at) return mf_store_find(dense, p->name);
    const char *part = at + strlen(".expert.");
    snprintf(name, sizeof name, "%.*s.ffn.%s", (int)(at - p->name), p->name,
             strcmp(part, "w13") == 0 ? "w1" : part);
    *ret_times = p->shape.dim[0];
    return mf_store_find(dense, name);
}

int mf_upcycle_fill(const mf_session *dense, mf_session *experts)
{
    mf_store *to = experts->model->store;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_store_count(to); i++) {
        mf_param *p = mf_store_at(to, i);
        int64_t times;
        if (strstr(p->name, ".router.")) continue;
        const mf_param *from = source_of(dense->model->store, p, &times);
        if (!from && p->buffer) continue;
        if (!from || from->count * times != p->count)
            return mf_fail(MF_EUSAGE, "--upcycle: the dense model has no values for %s",
                           p->name);
        const float *values = mf_param_host(from);
        const size_t bytes = (size_t)from->count * sizeof *values;
        if (!values) return MF_ENOMEM;
        for (int64_t e = 0; rc == MF_OK && e < times; e++)
            rc = mf_param_write(p, values, (size_t)e * bytes, bytes);
    }
    mf_store_refresh_bf16(to);
    return rc;
}
