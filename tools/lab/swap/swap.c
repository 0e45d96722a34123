/* The order of a swap: open both models, measure, fit, measure again, write the new run. The
 * run directory is made first, so that a name that is not free is reported at once. It is
 * removed if a later step fails. */
#include "lab/swap/swap_parts.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "lab/new_run.h"
#include "pretrained/record.h"
#include "run/load.h"
#include "run/folder/rundir.h"

typedef struct swap {
    const mf_swap_options *options;
    mf_rundir *from;
    mf_new_run new;
    mf_swap_pair pair;
    mf_swap_report *report;
    mf_arena *arena;
} swap;

/* ---- the two models ---- */

/* Whether an assignment also concerns the batches of the old model. */
static bool of_batches(const char *text)
{
    static const char seq[] = "model.seq";
    return strncmp(text, "data.", 5) == 0 || strncmp(text, "train.", 6) == 0 ||
           (strcspn(text, "= \t") == sizeof seq - 1 && strncmp(text, seq, sizeof seq - 1) == 0);
}

static int open_before(swap *s)
{
    const mf_swap_options *o = s->options;
    /* old and new routers must use the same gemm kernel, so that equal routers differ by
     * exactly 0 */
    const mf_session_options session = {.bind_but = ".router."};
    mf_assignment *set = mf_arena_alloc(s->arena, ((size_t)o->n_set + 1) * sizeof *set);
    if (!set) return MF_ENOMEM;
    mf_load_change change = {.step = -1, .set = set};
    int64_t step;
    for (int i = 0; i < o->n_set; i++)
        if (of_batches(o->set[i].text)) set[change.n_set++] = o->set[i];
    int rc = mf_load_run_as(s->report->run, &session, &change, &s->pair.before, &step);
    if (rc == MF_OK && s->pair.before->model->n_moe == 0)
        rc = mf_fail(MF_EUSAGE, "%s: the model has no routers", s->report->run);
    return rc;
}

/* The section of the new router. It is [router] if all blocks get the new router and no other
 * section names routers (*ret is NULL then). Otherwise it is a new section, which overrides
 * earlier sections because it is the last. */
static int section_of(const swap *s, const char **ret)
{
    const mf_config *c = s->pair.before->config;
    *ret = NULL;
    if (!s->options->layers && c->n_routers == 0) return MF_OK;
    for (int n = 1; !*ret; n++) {
        const char *name = mf_arena_strf(s->arena, "router.swap%d", n);
        if (!name) return MF_ENOMEM;
        bool taken = false;
        for (int i = 0; i < c->n_routers; i++)
            taken = taken || strcmp(c->routers[i].section, name) == 0;
        if (!taken) *ret = name;
    }
    return MF_OK;
}

static int open_after(swap *s)
{
    const mf_swap_options *o = s->options;
    /* only routers are fitted */
    const mf_session_options session = {
        .training = true, .no_data = true, .no_controllers = true, .bind = MF_BIND_ALL};
    const char *section = NULL, *layers = o->layers ? o->layers : "all";
    bool bad;
    mf_model_in_layers(layers, 0, &bad);
    if (bad)
        return mf_fail(MF_EUSAGE,
                       "--layers: expected all, or numbers of blocks from 0 as 2-5 or 0,3, "
                       "found '%s'",
                       layers);
    int rc = section_of(s, &section);
    mf_assignment *set = mf_arena_alloc(s->arena, ((size_t)o->n_set + 1) * sizeof *set);
    if (rc != MF_OK || !set) return MF_ENOMEM;
    for (int i = 0; i < o->n_set; i++)
        set[i] = o->set[i];
    mf_load_change change = {.step = -1,
                             .router = o->router,
                             .router_section = section,
                             .strict_router = true,
                             .n_set = o->n_set,
                             .set = set};
    if (section) {
        const char *text = mf_arena_strf(s->arena, "%s.layers=%s", section, layers);
        if (!text) return MF_ENOMEM;
        set[change.n_set++] = (mf_assignment){text, "--layers"};
    }
    int64_t step;
    return mf_load_run_as(s->report->run, &session, &change, &s->pair.after, &step);
}

/* Draws the initial values of the new routers again. This includes parameters that the old
 * routers have under the same names. */
static int draw_again(const swap *s)
{
    const mf_model *m = s->pair.after->model;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        if (!mf_swap_has(&s->pair, p)) continue;
        float *values = mf_alloc((size_t)p->count + 1, sizeof *values);
        if (!values) return MF_ENOMEM;
        mf_param_draw(p, m->options.seed, values);
        rc = mf_param_write(p, values, 0, (size_t)p->count * sizeof *values);
        mf_free(values);
    }
    mf_store_refresh_bf16(m->store);
    return rc;
}

/* Fails unless both models have the same experts and lengths. */
static int judge(const swap *s)
{
    const mf_config *a = s->pair.before->config, *b = s->pair.after->config;
    const mf_model_settings x = mf_config_model(a), y = mf_config_model(b);
    bool same = a->model.seq == b->model.seq && a->model.layers == b->model.layers;
    for (int64_t l = 0; same && l < a->model.layers; l++)
        same = mf_model_moe(&x, l).experts == mf_model_moe(&y, l).experts;
    if (same) return MF_OK;
    return mf_fail(MF_EUSAGE, "a swap changes neither moe.experts nor the blocks of a model");
}

static int choose_layers(swap *s)
{
    const mf_model *m = s->pair.after->model;
    const char *layers = s->options->layers ? s->options->layers : "all";
    bool any = false, bad;
    s->pair.swapped = mf_arena_alloc(s->arena, ((size_t)m->n_moe + 1) * sizeof(bool));
    if (!s->pair.swapped) return MF_ENOMEM;
    for (int32_t i = 0; i < m->n_moe; i++) {
        s->pair.swapped[i] = mf_model_in_layers(layers, m->moe[i].layer, &bad);
        any = any || s->pair.swapped[i];
    }
    return any ? MF_OK : mf_fail(MF_EUSAGE, "--layers %s: none of them has a router", layers);
}

static int open_pair(swap *s)
{
    int rc = open_before(s);
    if (rc == MF_OK) rc = open_after(s);
    if (rc == MF_OK) rc = judge(s);
    if (rc == MF_OK) rc = choose_layers(s);
    if (rc == MF_OK && s->options->fresh) rc = draw_again(s);
    if (rc != MF_OK) return rc;
    const mf_config *c = s->pair.before->config;
    mf_model *m = s->pair.before->model;
    const mf_model_shape shape = {.mode = MF_MODE_EVAL,
                                  .batch = (int32_t)c->train.batch,
                                  .seq = (int32_t)c->model.seq,
                                  .masked = true,
                                  .want_logits = true,
                                  .want_trace = true};
    rc = mf_batch_new(shape.batch, shape.seq, &s->pair.batch);
    return rc == MF_OK ? mf_model_graph_new(m, &shape, &s->pair.old) : rc;
}

/* ---- the report ---- */

static int new_layers(swap *s)
{
    const mf_model *m = s->pair.after->model;
    mf_swap_report *r = s->report;
    r->n_layers = m->n_moe;
    r->layers = mf_arena_alloc(r->arena, ((size_t)m->n_moe + 1) * sizeof *r->layers);
    if (!r->layers) return MF_ENOMEM;
    for (int32_t i = 0; i < m->n_moe; i++) {
        mf_swap_layer *l = &r->layers[i];
        const size_t E = (size_t)m->moe[i].config.experts;
        *l = (mf_swap_layer){.layer = m->moe[i].layer,
                             .experts = (int32_t)E,
                             .swapped = s->pair.swapped[i],
                             .load_before = mf_arena_alloc(r->arena, E * sizeof(double)),
                             .load_after = mf_arena_alloc(r->arena, E * sizeof(double))};
        if (!l->load_before || !l->load_after) return MF_ENOMEM;
    }
    return MF_OK;
}

static int measure(swap *s)
{
    const mf_swap_options *o = s->options;
    mf_swap_report *r = s->report;
    int rc = new_layers(s);
    if (rc == MF_OK && o->match > 0) rc = mf_swap_measure(&s->pair, o->batches, false, r);
    if (rc == MF_OK && o->match > 0) rc = mf_swap_fit(&s->pair, o->match, o->match_lr);
    if (rc == MF_OK) rc = mf_swap_measure(&s->pair, o->batches, true, r);
    for (int32_t i = 0; rc == MF_OK && i < r->n_layers && o->match == 0; i++)
        r->layers[i].kl_start = r->layers[i].kl;
    r->matched = o->match;
    return rc;
}

/* The last part of the old run's path, and the name of the new router. */
static const char *name_of(const swap *s)
{
    const char *path = s->from->path; /* mf_rundir_read has removed slashes at its end */
    const char *slash = strrchr(path, '/'), *router = s->options->router;
    return mf_arena_strf(s->arena, "%s-%.*s", slash ? slash + 1 : path,
                         (int)strcspn(router, ":"), router);
}

static int new_report(swap *s, const char *run)
{
    mf_arena *arena = mf_arena_new();
    mf_swap_report *r = arena ? mf_arena_alloc(arena, sizeof *r) : NULL;
    if (!r) {
        mf_arena_free(arena);
        return MF_ENOMEM;
    }
    s->report = r;
    *r = (mf_swap_report){.arena = arena,
                          .run = mf_arena_strdup(arena, run),
                          .router = mf_arena_strdup(arena, s->options->router)};
    s->arena = arena;
    return r->run && r->router ? MF_OK : MF_ENOMEM;
}

int mf_swap(const char *run, const mf_swap_options *options, mf_swap_report **ret)
{
    swap s = {.options = options};
    int rc = new_report(&s, run);
    if (rc == MF_OK) rc = mf_rundir_read(run, &s.from);
    if (rc == MF_OK) rc = mf_new_run_open(options->run, name_of(&s), &s.new);
    if (rc == MF_OK) rc = open_pair(&s);
    if (rc == MF_OK) rc = measure(&s);
    if (rc == MF_OK) rc = mf_new_run_write(&s.new, s.pair.after);
    if (rc == MF_OK) rc = mf_record_copy(s.from->path, s.new.dir->path);
    if (rc == MF_OK && !(s.report->run = mf_arena_strdup(s.arena, s.new.dir->path)))
        rc = MF_ENOMEM;
    if (rc != MF_OK) mf_new_run_undo(&s.new);
    mf_model_graph_free(s.pair.old);
    mf_batch_free(s.pair.batch);
    mf_session_close(s.pair.after);
    mf_session_close(s.pair.before);
    mf_rundir_close(s.new.dir);
    mf_rundir_close(s.from);
    if (rc != MF_OK) {
        mf_swap_report_free(s.report);
        return rc;
    }
    *ret = s.report;
    return MF_OK;
}

void mf_swap_report_free(mf_swap_report *r)
{
    if (r) mf_arena_free(r->arena);
}
