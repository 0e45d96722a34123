/* adapters/import_peft.c: makes a run from an adapter folder and the run to which the adapter
 * belongs (the base).
 *
 * The new run contains all weights and a copy of the record, so it needs neither of the two
 * later. Modules are parts of the weights as the file divides them; sites are parts as the
 * model divides them. Changes of modules are converted to changes of sites. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "pretrained/import.h"
#include "pretrained/adapters/lora.h"
#include "pretrained/adapters/peft.h"
#include "run/checkpoint/checkpoint.h"
#include "run/observers/observers.h"
#include "run/load.h"
#include "run/modules.h"
#include "run/folder/provenance.h"
#include "run/folder/rundir.h"

/* A linear layer of the model and its change. */
typedef struct placed {
    int32_t layer;
    const char *site; /* name of the layer in the adapter's option `at` */
    mf_param *weight; /* weight of the base model */
    mf_low_rank change;
    int section; /* index of the section that lists this layer; -1: not yet known */
} placed;

typedef struct import_work {
    const char *folder, *onto;
    mf_rundir *base;
    mf_session *old; /* session of the base run */
    mf_record *record;
    mf_peft peft;
    placed *placed; /* [n] */
    int n, room;
    const char **set; /* [n_set] assignments of the new run */
    int n_set;
    mf_arena *arena;
    mf_rundir *dir;
    bool made;
    mf_session *session;
} import_work;

bool mf_import_is_adapter(const char *folder)
{
    char *path = mf_path_join(folder, MF_PEFT_CONFIG);
    const bool is = path && mf_exists(path);
    mf_free(path);
    return is;
}

/* ---- reading ---- */

static int read_base(import_work *im)
{
    const mf_session_options o = {.no_data = true};
    const mf_load_change change = {.step = -1};
    int64_t step;
    mf_peft_module *modules;
    int n, rc = mf_rundir_read(im->onto, &im->base);
    if (rc == MF_OK) rc = mf_load_run_as(im->onto, &o, &change, &im->old, &step);
    if (rc == MF_OK && im->old->config->n_adapters > 0)
        rc = mf_fail(MF_EINPUT, "%s: expected a run without adapters, found [%s]", im->onto,
                     im->old->config->adapters[0].section);
    if (rc == MF_OK) rc = mf_record_need(im->onto, &im->record);
    if (rc == MF_OK)
        rc = mf_modules_list(im->record, im->old->model->store, im->arena, &modules, &n);
    return rc == MF_OK ? mf_peft_read(im->folder, im->record, im->old->model->store, modules, n,
                                      im->arena, &im->peft)
                       : rc;
}

/* ---- sites ---- */

/* Adds a linear layer if changes of its weight cover some of its rows. */
static int place(import_work *im, const mf_peft_change *like, const char *site)
{
    const mf_peft *p = &im->peft;
    const mf_low_rank **all = mf_arena_alloc(im->arena, ((size_t)p->n + 1) * sizeof *all);
    mf_rows rows;
    placed *s = &im->placed[im->n];
    bool any = false;
    int n = 0;
    if (!all || im->n == im->room) return MF_ENOMEM;
    for (int i = 0; i < p->n; i++)
        if (p->changes[i].module->weight == like->module->weight)
            all[n++] = &p->changes[i].change;
    *s = (placed){.layer = like->module->layer,
                  .site = site,
                  .weight = mf_lora_weight(im->old->model, like->module->layer, site, &rows),
                  .section = -1};
    if (s->weight != like->module->weight)
        return mf_fail(MF_EINPUT, "%s: no adapter can change %s", im->folder,
                       like->module->weight->name);
    const int rc = mf_low_rank_fit(all, n, &rows, im->arena, &s->change, &any);
    im->n += any;
    return rc;
}

/* Adds the linear layers of a changed weight. */
static int place_weight(import_work *im, const mf_peft_change *c)
{
    static const char *const parts[] = {"attention.q", "attention.k", "attention.v"};
    const char *name = c->module->weight->name, *dot;
    if (c->module->layer >= 0 && (dot = strchr(name + 7, '.'))) name = dot + 1;
    static const char *const whole[][2] = {{"attention.out.weight", "attention.o"},
                                           {"attention.out_gate.weight", "attention.gate"},
                                           {"attention.q.weight", "attention.q"},
                                           {"attention.q_down.weight", "attention.q_a"},
                                           {"attention.q_up.weight", "attention.q_b"},
                                           {"attention.kv_down.weight", "attention.kv_a"},
                                           {"attention.k_up.weight", "attention.kv_b"}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(name, whole[i][0]) == 0) return place(im, c, whole[i][1]);
    if (strcmp(name, "attention.qkv.weight") != 0) return place(im, c, name);
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < 3; i++)
        rc = place(im, c, parts[i]);
    return rc;
}

static int place_all(import_work *im)
{
    const mf_peft *p = &im->peft;
    int rc = MF_OK;
    im->room = 3 * p->n;
    im->placed = mf_arena_alloc(im->arena, ((size_t)im->room + 1) * sizeof *im->placed);
    if (!im->placed) return MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < p->n; i++) {
        bool again = false;
        for (int k = 0; k < i; k++)
            again = again || p->changes[k].module->weight == p->changes[i].module->weight;
        if (!again) rc = place_weight(im, &p->changes[i]);
    }
    return rc;
}

/* ---- sections ---- */

static bool same_options(const mf_low_rank *a, const mf_low_rank *b)
{
    return a->rank == b->rank && a->alpha == b->alpha && a->rslora == b->rslora;
}

/* Whether the sites of the two layers have the same options in the same blocks. */
static bool same_blocks(const import_work *im, const placed *a, const placed *b)
{
    for (int i = 0; i < im->n; i++) {
        const placed *x = &im->placed[i];
        const bool as_a = strcmp(x->site, a->site) == 0, as_b = strcmp(x->site, b->site) == 0;
        bool found = false;
        if ((!as_a && !as_b) || !same_options(&x->change, &a->change)) continue;
        for (int k = 0; k < im->n && !found; k++) {
            const placed *y = &im->placed[k];
            found = y->layer == x->layer && same_options(&y->change, &a->change) &&
                    strcmp(y->site, as_a ? b->site : a->site) == 0;
        }
        if (!found) return false;
    }
    return true;
}

/* Assigns a section number to each linear layer. Layers with the same options and blocks get
 * the same number. A block of a family has at most twelve linear layers, which is less than the
 * number that a section may name. */
static int number_sections(import_work *im)
{
    int sections = 0;
    for (int i = 0; i < im->n; i++) {
        placed *a = &im->placed[i];
        if (a->section >= 0) continue;
        a->section = sections;
        for (int k = i + 1; k < im->n; k++) {
            placed *b = &im->placed[k];
            const bool same = strcmp(a->site, b->site) == 0;
            if (b->section >= 0 || !same_options(&a->change, &b->change)) continue;
            if (!same && ((a->layer < 0) != (b->layer < 0) || !same_blocks(im, a, b))) continue;
            b->section = sections;
        }
        sections++;
    }
    return sections;
}

/* Appends a word to a comma-separated list, if the list does not contain it yet. */
static const char *append(mf_arena *arena, const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; p && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ',' || p[n] == '\0')) return list;
    return list && *list ? mf_arena_strf(arena, "%s, %s", list, word) : word;
}

static int set(import_work *im, const char *text)
{
    if (!text) return MF_ENOMEM;
    im->set[im->n_set++] = text;
    return MF_OK;
}

static int write_section(import_work *im, int section)
{
    const char *at = "", *layers = "", *name = MF_LORA_PLUGIN;
    const placed *first = NULL;
    mf_arena *arena = im->arena;
    if (section > 0) name = mf_arena_strf(arena, MF_LORA_PLUGIN "_%d", section + 1);
    for (int i = 0; name && at && layers && i < im->n; i++) {
        const placed *p = &im->placed[i];
        char number[16];
        if (p->section != section) continue;
        if (!first) first = p;
        at = append(arena, at, p->site);
        snprintf(number, sizeof number, "%d", (int)p->layer);
        const char *word = mf_arena_strdup(arena, number);
        layers = word ? append(arena, layers, word) : NULL;
    }
    if (!name || !at || !layers || !first) return MF_ENOMEM;
    if (first->layer < 0) layers = "all"; /* the output head */
    const mf_low_rank *c = &first->change;
    int rc = set(im, mf_arena_strf(arena, "adapter.%s.plugin=" MF_LORA_PLUGIN, name));
    if (rc == MF_OK) rc = set(im, mf_arena_strf(arena, "adapter.%s.at=%s", name, at));
    if (rc == MF_OK) rc = set(im, mf_arena_strf(arena, "adapter.%s.layers=%s", name, layers));
    if (rc == MF_OK)
        rc = set(im, mf_arena_strf(arena, "adapter.%s.rank=%lld", name, (long long)c->rank));
    if (rc == MF_OK)
        rc = set(im, mf_arena_strf(arena, "adapter.%s.alpha=%.17g", name, c->alpha));
    if (rc == MF_OK)
        rc = set(im,
                 mf_arena_strf(arena, "adapter.%s.rslora=%s", name, c->rslora ? "yes" : "no"));
    if (rc == MF_OK)
        rc = set(im, mf_arena_strf(arena, "adapter.%s.dropout=%.17g", name, im->peft.dropout));
    return rc;
}

static int write_sections(import_work *im)
{
    const int sections = number_sections(im);
    im->set = mf_arena_alloc(im->arena, ((size_t)sections * 7 + 4) * sizeof *im->set);
    if (!im->set) return MF_ENOMEM;
    int rc = set(im, "train.freeze=*");
    if (rc == MF_OK) rc = set(im, "train.lr=2e-4"); /* the usual learning rate of LoRA */
    if (rc == MF_OK) rc = set(im, mf_arena_strf(im->arena, "train.from=%s", im->onto));
    for (int i = 0; rc == MF_OK && i < sections; i++)
        rc = write_section(im, i);
    return rc;
}

/* ---- the new run ---- */

static int open_new(import_work *im)
{
    mf_config *c = NULL;
    mf_model_dims dims;
    mf_session_options o = {.training = true,
                            .no_data = true,
                            .dims = &dims,
                            .tokenizer_file =
                                mf_exists(im->base->tokenizer) ? im->base->tokenizer : NULL,
                            .stored_file = im->base->stored};
    int rc = mf_provenance_read_dims(im->base->manifest, &dims);
    if (rc == MF_OK) rc = mf_config_load(im->base->config, im->n_set, im->set, &c);
    if (rc == MF_OK) rc = mf_session_open(c, &o, &im->session);
    int64_t step;
    int missing; /* number of parameters without values: those of the adapters */
    char id[MF_PROVENANCE_ID];
    bool found;
    if (rc == MF_OK) rc = mf_provenance_read_id(im->base->manifest, id, &found);
    if (rc != MF_OK) return rc;
    return mf_ckpt_start(im->base->ckpt, id, im->session->model->store, &step, &missing);
}

static int fill(const import_work *im, const mf_lora_site *s)
{
    const placed *found = NULL;
    for (int i = 0; i < im->n && !found; i++) {
        const placed *p = &im->placed[i];
        if (strcmp(p->weight->name, s->weight->name) == 0 &&
            p->change.rows.from == s->change.rows.from && p->change.rank == s->change.rank)
            found = p;
    }
    float *a = mf_param_edit(s->a), *b = mf_param_edit(s->b);
    if (!a || !b) return MF_ENOMEM;
    if (!found) return mf_fail(MF_EINVAL, "no change for %s", s->a->name);
    memcpy(a, found->change.a, (size_t)s->a->count * sizeof *a);
    memcpy(b, found->change.b, (size_t)s->b->count * sizeof *b);
    return MF_OK;
}

static int fill_all(const import_work *im)
{
    mf_lora_site *sites;
    int n, rc = mf_lora_sites(im->session->model, im->arena, &sites, &n);
    if (rc == MF_OK && n != im->n)
        rc = mf_fail(MF_EINVAL, "%d linear layers got adapters, expected %d", n, im->n);
    for (int i = 0; rc == MF_OK && i < n; i++)
        rc = fill(im, &sites[i]);
    if (rc == MF_OK) mf_store_refresh_bf16(im->session->model->store);
    return rc;
}

static int write_run(import_work *im, const char *run)
{
    mf_state *state = mf_state_new();
    im->made = !run || !mf_exists(run);
    int rc = state ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK)
        rc = run ? mf_rundir_create_at(run, &im->dir)
                 : mf_rundir_create("runs", "adapter", &im->dir);
    /* replaces the train.from of the base run */
    if (rc == MF_OK) im->session->config->train.from = im->dir->path;
    if (rc == MF_OK) rc = mf_run_files_write(im->session, im->dir);
    if (rc == MF_OK) rc = mf_write_file_atomic(im->dir->metrics, "", 0);
    if (rc == MF_OK) rc = mf_record_copy(im->onto, im->dir->path);
    if (rc == MF_OK)
        rc = mf_ckpt_save(im->dir->ckpt, 0, im->session->model->store, NULL, state,
                          mf_provenance_of(im->session), 0);
    mf_state_free(state);
    if (rc != MF_OK && im->dir && im->made) {
        char *why = mf_strf("%s", mf_error_message());
        mf_remove_tree(im->dir->path);
        if (why) mf_fail(rc, "%s", why);
        mf_free(why);
    }
    return rc;
}

static int report(const import_work *im, mf_import_report *ret)
{
    *ret = (mf_import_report){.run = mf_strdup(im->dir->path),
                              .family = im->record->family->name,
                              .dtype = "F32",
                              .used = 2 * im->peft.n,
                              .tokenizer = im->session->tokenizer != NULL};
    mf_model_count(im->session->model, &ret->params, &ret->params_active);
    return ret->run ? MF_OK : MF_ENOMEM;
}

int mf_import_adapter(const char *folder, const char *onto, const char *run,
                      mf_import_report *ret)
{
    import_work im = {.folder = folder, .onto = onto, .arena = mf_arena_new()};
    int rc = im.arena ? read_base(&im) : MF_ENOMEM;
    if (rc == MF_OK) rc = place_all(&im);
    if (rc == MF_OK) rc = write_sections(&im);
    if (rc == MF_OK) rc = open_new(&im);
    if (rc == MF_OK) rc = fill_all(&im);
    if (rc == MF_OK) rc = write_run(&im, run);
    if (rc == MF_OK) rc = report(&im, ret);
    mf_session_close(im.session);
    mf_rundir_close(im.dir);
    mf_record_free(im.record);
    mf_session_close(im.old);
    mf_rundir_close(im.base);
    mf_arena_free(im.arena);
    return rc;
}
