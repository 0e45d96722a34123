/* run/modules.c: counts the elements of a model's parameters: of all parameters, and of those
 * that one token uses. The name of a parameter determines its module. */
#include "run/modules.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "model/heads.h"
#include "model/model.h"

/* Beginnings of parameter names, without "layers.N.". All other parameters of a block belong to
 * adapters; their names begin with the section's NAME or the plugin's `path`. */
static const struct {
    const char *name, *begins[6];
} modules[MF_MODEL_MODULES] = {
    [MF_MODULE_EMBEDDING] = {"embedding", {"embed.", "position.", "token_type."}},
    [MF_MODULE_ATTENTION] = {"attention", {"attention.", "delta.", "conv."}},
    [MF_MODULE_DENSE] = {"dense", {"ffn."}},
    [MF_MODULE_ROUTER] = {"router", {"router."}},
    [MF_MODULE_EXPERTS] = {"experts",
                           {"expert.", "shared.", "shared_gate.", "moe.down.", "moe.up.",
                            "moe.latent_norm"}},
    [MF_MODULE_NORMS] = {"norms",
                         {"norm.", "norm1.", "norm2.", "norm1_out.", "norm2_out.",
                          "embed_norm."}},
    [MF_MODULE_HEAD] = {"head", {"head.", "pooler."}},
    [MF_MODULE_ADAPTERS] = {"adapters", {"adapter."}},
    [MF_MODULE_OTHER] = {"other", {NULL}},
};

const char *mf_module_name(mf_module module)
{
    return modules[module].name;
}

mf_module mf_module_of(const char *name)
{
    const bool in_block = strncmp(name, "layers.", 7) == 0 && strchr(name + 7, '.');
    if (in_block) name = strchr(name + 7, '.') + 1;
    for (int i = 0; i < MF_MODEL_MODULES; i++)
        for (int k = 0; k < 6 && modules[i].begins[k]; k++)
            if (strncmp(name, modules[i].begins[k], strlen(modules[i].begins[k])) == 0)
                return (mf_module)i;
    return in_block ? MF_MODULE_ADAPTERS : MF_MODULE_OTHER;
}

/* Returns the block of a parameter; -1: it belongs to none. */
static int layer_of(const char *name)
{
    return strncmp(name, "layers.", 7) == 0 ? atoi(name + 7) : -1;
}

static void count(const mf_model *m, mf_model_module out[MF_MODEL_MODULES])
{
    for (int i = 0; i < MF_MODEL_MODULES; i++)
        out[i] = (mf_model_module){.name = modules[i].name};
    for (int i = 0; i < mf_store_count(m->store); i++) {
        const mf_param *p = mf_store_at(m->store, i);
        if (p->buffer) continue;
        /* For a parameter that is divided by expert, a token uses k of the E parts. If the
         * parameter belongs only to some kinds or groups of experts, the token uses at most k
         * of its parts. It uses all shared experts. */
        const int64_t parts = p->init.flags & MF_PARAM_BY_EXPERT ? p->shape.dim[0] : 0;
        const mf_moe_config c = mf_model_moe(m->config, layer_of(p->name));
        const bool split =
            parts > 0 && (parts == c.experts ||
                          (parts < c.experts && parts > c.top_k && mf_model_of_experts(p)));
        mf_model_module *of = &out[mf_module_of(p->name)];
        of->params += p->count;
        of->active += split ? p->count / parts * c.top_k : p->count;
    }
    out[MF_MODULE_ATTENTION].active -= mf_heads_idle(m);
}

int mf_model_modules(const mf_model *m, mf_model_module out[MF_MODEL_MODULES])
{
    int n = 0;
    count(m, out);
    for (int i = 0; i < MF_MODEL_MODULES; i++)
        if (out[i].params > 0) out[n++] = out[i];
    return n;
}

void mf_model_count(const mf_model *m, int64_t *ret_all, int64_t *ret_active)
{
    mf_model_module by[MF_MODEL_MODULES];
    *ret_all = *ret_active = 0;
    count(m, by);
    for (int i = 0; i < MF_MODEL_MODULES; i++) {
        *ret_all += by[i].params;
        *ret_active += by[i].active;
    }
}
