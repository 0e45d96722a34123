/* Experts of the router bench that are copies of a dense block of a run. Experts that store
 * their weights under the names and in the order of a dense block, as those of moefw do, are
 * plain copies of it. */
#include "lab/bench/router_bench_parts.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/text/number.h"
#include "run/load.h"

/* The parameter of the block that an expert's parameter is a copy of; NULL: none. */
static const mf_param *source_of(const mf_bench_block *k, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "layers.%d.ffn.%s", (int)k->layer,
             strcmp(part, "w13") == 0   ? "w1"
             : strcmp(part, "b13") == 0 ? "b1"
                                        : part);
    return mf_store_find(k->session->model->store, name);
}

int mf_bench_block_open(const char *text, mf_bench_block *ret)
{
    const mf_session_options options = {
        .no_data = true, .no_controllers = true, .bind = MF_BIND_NONE};
    const mf_load_change change = {.step = -1};
    const char *colon = strrchr(text, ':');
    long long layer = 0;
    int64_t step;
    *ret = (mf_bench_block){0};
    if (colon && (!mf_parse_i64(colon + 1, &layer) || layer < 0 || layer > INT32_MAX)) {
        colon = NULL; /* a part of the folder's name */
        layer = 0;
    }
    char *run = mf_strndup(text, colon ? (size_t)(colon - text) : strlen(text));
    int rc = run ? mf_load_run_as(run, &options, &change, &ret->session, &step) : MF_ENOMEM;
    if (rc == MF_OK) {
        const mf_model_config *m = &ret->session->config->model;
        ret->layer = (int32_t)layer;
        ret->dim = (int32_t)m->dim;
        ret->hidden = (int32_t)m->ffn_hidden;
        if (!source_of(ret, "w1") || !source_of(ret, "w2"))
            rc = mf_fail(MF_EUSAGE,
                         "%s: expected the number of a dense block, from 0 to %d, found block "
                         "%d, which has %s",
                         run, (int)m->layers - 1, (int)layer,
                         layer < m->layers ? "experts" : "no weights");
    }
    mf_free(run);
    return rc;
}

void mf_bench_block_close(mf_bench_block *b)
{
    mf_session_close(b->session);
    b->session = NULL;
}

int mf_bench_set_block(const mf_bench_layer *b)
{
    static const char *const activations[] = {
        [MF_FFN_RELU] = "expert.activation=relu",
        [MF_FFN_GELU] = "expert.activation=gelu",
        [MF_FFN_GELU_TANH] = "expert.activation=gelu_tanh",
    };
    const mf_bench_block *k = &b->spec->block;
    if (!k->session) return MF_OK;
    const mf_model_config *m = &k->session->config->model;
    int rc = mf_ini_set(b->ini, source_of(k, "b1") ? "expert.bias=yes" : "expert.bias=no", 1);
    if (rc == MF_OK && m->ffn_activation != MF_FFN_SWIGLU)
        rc = mf_ini_set(b->ini, activations[m->ffn_activation], 1);
    return rc;
}

int mf_bench_copy_block(const mf_bench_layer *b)
{
    static const char prefix[] = "layers.0.expert.";
    const mf_bench_block *k = &b->spec->block;
    if (!k->session || !b->spec->layer) return MF_OK;
    for (int i = 0; i < mf_store_count(b->store); i++) {
        mf_param *p = mf_store_at(b->store, i);
        if (strncmp(p->name, prefix, sizeof prefix - 1) != 0) continue;
        const mf_param *from = source_of(k, p->name + sizeof prefix - 1);
        float *to = mf_param_edit(p);
        if (!from || from->count * b->spec->experts != p->count)
            return mf_fail(MF_EUSAGE,
                           "--expert=%s: its weights %s are not those of the dense block",
                           b->spec->expert, p->name + sizeof prefix - 1);
        if (!to) return mf_error_code() ? mf_error_code() : MF_ENOMEM;
        for (int32_t e = 0; e < b->spec->experts; e++) {
            const int rc =
                mf_param_read(from, to + e * from->count, 0, (size_t)from->count * sizeof *to);
            if (rc != MF_OK) return rc;
        }
    }
    return MF_OK;
}
