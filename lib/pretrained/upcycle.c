/* pretrained/upcycle.c: settings and weights of an upcycled model. The plugins swiglu and mlp
 * store the weights of one expert in the same layout as a dense block, so an expert is a plain
 * copy. Experts of low rank (lora_experts) have such weights once for all experts of a layer.
 * They also have their own matrices, lora.*, which the dense model does not have and which keep
 * their initial values. */
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

/* Appends a pattern to a list, if the list does not contain it yet. */
static const char *with_pattern(mf_arena *arena, const char *list, const char *pattern)
{
    const size_t n = strlen(pattern);
    for (const char *at = list; at && (at = strstr(at, pattern)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0')) return list;
    if (!list) return NULL;
    return mf_arena_strf(arena, "%s%s%s", list, *list != '\0' ? ", " : "", pattern);
}

/* Sets train.freeze to all parameters of the dense model, under their names in the
 * new model. */
static void freeze_dense(const mf_session *dense, mf_keys *k)
{
    const char *list = "";
    for (int i = 0; i < mf_store_count(dense->model->store); i++) {
        const char *name = mf_store_at(dense->model->store, i)->name, *part = name;
        if (strncmp(name, "layers.", 7) == 0) part = strchr(name + 7, '.') + 1;
        const int n = (int)strcspn(part, ".");
        const char *pattern = strncmp(part, "ffn.", 4) == 0
                                  ? mf_arena_strf(k->arena, "expert.%c*", part[4])
                                  : mf_arena_strf(k->arena, "%.*s.*", n, part);
        list = pattern ? with_pattern(k->arena, list, pattern) : NULL;
    }
    if (list)
        mf_keys_set(k, "train.freeze=%s", list);
    else
        k->rc = MF_ENOMEM;
}

int mf_upcycle_settings(const mf_session *dense, const char *text, mf_keys *k)
{
    static const char *const activations[] = {
        [MF_FFN_RELU] = "=relu",
        [MF_FFN_GELU] = "=gelu",
        [MF_FFN_GELU_TANH] = "=gelu_tanh",
    };
    const bool low_rank = strstr(text, "expert.plugin=lora_experts") != NULL;
    const mf_model_config *m = &dense->config->model;
    const bool biases = m->ffn_activation == MF_FFN_SWIGLU && m->ffn_bias == MF_BIAS_YES;
    char *words = mf_arena_strdup(k->arena, text), *rest = NULL;
    int given = 0, rc = words ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && dense->model->n_moe > 0)
        return mf_fail(MF_EUSAGE, "--upcycle: the model of %s has experts already", k->path);
    if (rc == MF_OK && low_rank && biases)
        return mf_fail(MF_EUSAGE,
                       "--upcycle: lora_experts of the form swiglu have no biases, and the "
                       "dense model has them (model.ffn_bias)");
    mf_keys_set(k, "model.moe_every=1");
    mf_keys_set(k, "moe.renormalize=yes");
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "router.plugin=linear");
    if (m->ffn_activation == MF_FFN_SWIGLU) {
        if (!low_rank) mf_keys_set(k, "expert.plugin=swiglu");
        if (biases) mf_keys_set(k, "expert.bias=yes");
    } else {
        if (!low_rank) mf_keys_set(k, "expert.plugin=mlp");
        mf_keys_set(k, "expert.%s%s", low_rank ? "form" : "activation",
                    activations[m->ffn_activation]);
    }
    if (low_rank) freeze_dense(dense, k);
    mf_keys_set(k, "expert.hidden=%lld", (long long)m->ffn_hidden);
    if (rc == MF_OK) rc = k->rc;
    for (char *w = words ? strtok_r(words, ",", &rest) : NULL; rc == MF_OK && w;
         w = strtok_r(NULL, ",", &rest))
        rc = set_word(k, w, &given);
    return rc == MF_OK && given != 3 ? bad_word(text) : rc;
}

/* Returns the parameter of the dense model whose values are copied to p, *ret_times times one
 * after another; NULL: none. */
static const mf_param *source_of(const mf_store *dense, const mf_param *p, int64_t *ret_times)
{
    const char *at = strstr(p->name, ".expert.");
    char name[256];
    *ret_times = 1;
    if (!at) return mf_store_find(dense, p->name);
    const char *part = at + strlen(".expert.");
    snprintf(name, sizeof name, "%.*s.ffn.%s", (int)(at - p->name), p->name,
             strcmp(part, "w13") == 0   ? "w1"
             : strcmp(part, "b13") == 0 ? "b1"
                                        : part);
    const mf_param *from = mf_store_find(dense, name);
    *ret_times = from && mf_shape_equal(from->shape, p->shape) ? 1 : p->shape.dim[0];
    return from;
}

/* Checks that each parameter of a dense block is also a parameter of the experts. Otherwise the
 * experts would compute something else. */
static int judge_taken(const mf_session *dense, const mf_session *experts)
{
    const mf_store *from = dense->model->store, *to = experts->model->store;
    for (int i = 0; i < mf_store_count(from); i++) {
        const mf_param *p = mf_store_at(from, i);
        bool taken = strstr(p->name, ".ffn.") == NULL;
        for (int j = 0; !taken && j < mf_store_count(to); j++) {
            int64_t times;
            taken = source_of(from, mf_store_at(to, j), &times) == p;
        }
        if (!taken)
            return mf_fail(MF_EUSAGE,
                           "--upcycle: the experts have no place for %s of the "
                           "dense model",
                           p->name);
    }
    return MF_OK;
}

int mf_upcycle_fill(const mf_session *dense, mf_session *experts)
{
    mf_store *to = experts->model->store;
    int rc = judge_taken(dense, experts);
    for (int i = 0; rc == MF_OK && i < mf_store_count(to); i++) {
        mf_param *p = mf_store_at(to, i);
        int64_t times;
        if (strstr(p->name, ".router.") || strstr(p->name, ".expert.lora.")) continue;
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
