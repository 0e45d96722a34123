/* Draws the structure of a run's model from its resolved configuration, with the parameter
 * counts of its checkpoint. Without a checkpoint the counts are omitted. */
#include "base/error.h"
#include "plugin/load/open.h"
#include "report/page/report_parts.h"
#include "report/svg/svg_flow.h"

#include <stdlib.h>
#include <string.h>

enum { ITEMS = 48 };
/* indices of mf_colour */
enum { EMBED = 0, EXPERTS = 1, ATTENTION = 2, HEAD = 5, SKIP = 6, NORM = 7 };

typedef struct structure {
    const mf_report *p;
    const mf_report_run *r;
    const mf_inventory *v;
    int layers, every;
    bool attention, detailed;
    const char *norms; /* model.norm_place */
    const char *norm;
    mf_flow_item items[ITEMS];
    int n;
} structure;

static const char *text(const structure *s, const char *section, const char *key)
{
    return mf_report_config(s->r, section, key, "");
}

static int number(const structure *s, const char *section, const char *key)
{
    return atoi(text(s, section, key));
}

static bool is(const structure *s, const char *section, const char *key, const char *value)
{
    return strcmp(text(s, section, key), value) == 0;
}

/* The plugin's name, even if the configuration contains a path: "x" for "build/x.so". */
static const char *plugin(const structure *s, const char *section)
{
    const char *name = text(s, section, "plugin"), *slash = strrchr(name, '/');
    if (slash) name = slash + 1;
    const char *end = strstr(name, ".so");
    return end ? mf_report_strf(s->p, "%.*s", (int)(end - name), name) : name;
}

/* ---- adapters ---- */

/* The i-th section [adapter.NAME] whose plugin is not `none`; NULL after the last. */
static const char *adapter_section(const structure *s, int i)
{
    const char *name;
    for (int k = 0; (name = mf_ini_section_at(s->r->config, k)); k++)
        if (strncmp(name, "adapter.", 8) == 0 && !is(s, name, "plugin", "none") && i-- == 0)
            return name;
    return NULL;
}

/* Whether the adapter of a section is at that point. If `at` is empty or missing, the plugin's
 * default decides, if the plugin is installed. */
static bool stands_at(const structure *s, const char *section, const char *point)
{
    const mf_loaded *loaded;
    const char *at = text(s, section, "at");
    if ((*at == '\0' || strcmp(at, "\"\"") == 0)) {
        if (mf_plugin_load(MF_ADAPTER, text(s, section, "plugin"), NULL, 0, &loaded) == MF_OK)
            at = loaded->table.adapter.at;
        else if (mf_error_code() != MF_ENOMEM)
            mf_error_clear();
    }
    const size_t n = strlen(point);
    for (const char *p = at; (p = strstr(p, point)) != NULL; p += n)
        if ((p == at || strchr(", ", p[-1])) && (p[n] == '\0' || strchr(", ", p[n])))
            return true;
    return false;
}

/* ---- parameters ---- */

/* Number of elements of a module's parameters in block `layer` (-1: outside the blocks).
 * holding: counts only parameters whose name contains this text; NULL: all. For a block that
 * shares weights, the parameters of the first block with these weights are counted. */
static int64_t elements(const structure *s, mf_module module, int layer, const char *holding)
{
    int64_t n = 0, first = 0;
    int owner = -1;
    for (int i = 0; i < mf_inventory_count(s->v); i++) {
        const mf_inventory_item *item = mf_inventory_at(s->v, i);
        if (item->module != module || (holding && !strstr(item->name, holding))) continue;
        if (item->layer == layer) n += item->elements;
        if (owner < 0) owner = item->layer;
        if (item->layer == owner) first += item->elements;
    }
    return n == 0 && is(s, "model", "share_layers", "yes") ? first : n;
}

/* "4.2 k parameters" after the text `before`; NULL if n is 0 and `before` is empty. */
static const char *counted(const structure *s, const char *before, int64_t n)
{
    const char *all =
        n > 0 ? mf_report_strf(s->p, "%s parameters", mf_report_count(s->p, (double)n)) : "";
    const char *gap = *before != '\0' && *all != '\0' ? "; " : "";
    const char *both = mf_report_strf(s->p, "%s%s%s", before, gap, all);
    return *both != '\0' ? both : NULL;
}

/* Elements of an adapter's parameters in a block; layer -1: in all blocks. */
static int64_t adapter_elements(const structure *s, const char *section, int layer)
{
    const char *label = mf_report_strf(s->p, ".%s.", section + strlen("adapter."));
    int64_t n = 0;
    for (int l = layer < 0 ? 0 : layer; l <= (layer < 0 ? s->layers - 1 : layer); l++)
        n += elements(s, MF_MODULE_ADAPTERS, l, label);
    return n;
}

/* ---- the column ---- */

static mf_flow_item *add(structure *s, mf_flow_kind kind, const char *words, const char *note,
                         int colour)
{
    mf_flow_item *item = &s->items[s->n < ITEMS - 1 ? s->n++ : s->n];
    *item = (mf_flow_item){.kind = kind, .text = words, .note = note, .colour = colour};
    return item;
}

static void add_norm(structure *s, int layer, const char *name)
{
    add(s, MF_FLOW_BOX, s->norm, counted(s, "", elements(s, MF_MODULE_NORMS, layer, name)),
        NORM);
}

static void add_attention(structure *s, int layer)
{
    const int heads = number(s, "model", "heads"), kv = number(s, "model", "kv_heads");
    const bool lm = is(s, "model", "task", "lm") && is(s, "model", "causal", "yes");
    const char *share = kv > 0 && kv != heads ? mf_report_strf(s->p, " (%d kv)", kv) : "";
    const char *how = is(s, "model", "position", "rope") ? "rope" : "", *section;
    for (int i = 0; (section = adapter_section(s, i)); i++)
        if (stands_at(s, section, "heads") || stands_at(s, section, "attention"))
            how = mf_report_strf(s->p, "%s%s%s", how, *how != '\0' ? ", " : "",
                                 plugin(s, section));
    add(s, MF_FLOW_BOX,
        mf_report_strf(s->p, "%sattention, %d heads%s", lm ? "causal " : "", heads, share),
        counted(s, how, elements(s, MF_MODULE_ATTENTION, layer, NULL)), ATTENTION);
}

/* Adds the adapters of the residual stream at a point of the blocks `layer` to `last` of a
 * frame. If an adapter has no parameters in the first of these blocks, its box is dashed and
 * names the blocks, beginning with the first block in which it has parameters. */
static void add_adapters(structure *s, const char *point, int layer, int last)
{
    const char *section;
    for (int i = 0; (section = adapter_section(s, i)); i++) {
        int first = layer, with = layer;
        if (!stands_at(s, section, point)) continue;
        if (adapter_elements(s, section, -1) > 0)
            for (with = first; with <= last && adapter_elements(s, section, with) == 0; with++)
                ;
        if (with > last) continue;
        const char *which =
            with == first ? "" : mf_report_strf(s->p, " (blocks %d to %d)", with, last);
        const char *label = section + strlen("adapter."), *name = plugin(s, section);
        add(s, MF_FLOW_BOX, mf_report_strf(s->p, "%s: %s%s", label, name, which),
            counted(s, text(s, section, "form"), adapter_elements(s, section, with)), SKIP)
            ->dashed = with > first;
    }
}

static void add_half(structure *s, int layer, bool experts)
{
    const mf_module module = experts ? MF_MODULE_EXPERTS : MF_MODULE_DENSE;
    int64_t n = elements(s, module, layer, NULL);
    if (!experts) {
        add(s, MF_FLOW_BOX,
            mf_report_strf(s->p, "feed-forward: %s, hidden %s",
                           text(s, "model", "ffn_activation"), text(s, "model", "ffn_hidden")),
            counted(s, "", n), HEAD);
        return;
    }
    n += elements(s, MF_MODULE_ROUTER, layer, NULL) +
         elements(s, MF_MODULE_ADAPTERS, layer, NULL);
    add(s, MF_FLOW_BOX,
        mf_report_strf(s->p, "mixture of %s experts",
                       mf_report_moe_range(s->r, "experts", "?")),
        counted(s, "", n), EXPERTS);
    s->detailed = true;
}

static void add_block(structure *s, int layer, int last, bool experts)
{
    add_adapters(s, "block_in", layer, last);
    for (int half = s->attention ? 1 : 2; half <= 2; half++) {
        const char *name = half == 1 ? "norm1." : "norm2.",
                   *behind = half == 1 ? "norm1_out." : "norm2_out.";
        const bool both = strcmp(s->norms, "both") == 0;
        add(s, MF_FLOW_BRANCH, "", NULL, 0);
        if (both || strcmp(s->norms, "pre") == 0) add_norm(s, layer, name);
        if (half == 1)
            add_attention(s, layer);
        else
            add_half(s, layer, experts);
        if (both) add_norm(s, layer, behind);
        if (strcmp(s->norms, "output") == 0) add_norm(s, layer, name);
        add(s, MF_FLOW_SUM, "", NULL, 0);
        if (strcmp(s->norms, "post") == 0) add_norm(s, layer, name);
        add_adapters(s, half == 1 ? "block_mid" : "block_out", layer, last);
    }
}

static const char *times(const structure *s, int n)
{
    return n > 1 ? mf_report_strf(s->p, "\xc3\x97 %d", n) : NULL;
}

static const char *range(const structure *s, int from, int to)
{
    return from == to ? mf_report_strf(s->p, "block %d", from)
                      : mf_report_strf(s->p, "blocks %d to %d", from, to);
}

/* Draws n equal consecutive blocks once, in a frame. last: the last block of the frame. */
static void add_blocks(structure *s, const char *label, int layer, int last, int n,
                       bool experts)
{
    add(s, MF_FLOW_OPEN, label, times(s, n), 0);
    add_block(s, layer, last, experts);
    add(s, MF_FLOW_CLOSE, "", NULL, 0);
}

static bool has_experts(const structure *s, int layer)
{
    return mf_report_has_experts(s->r, layer);
}

/* Index of the first block after `layer` that is of another kind. */
static int end_of_kind(const structure *s, int layer)
{
    int end = layer + 1;
    while (end < s->layers && has_experts(s, end) == has_experts(s, layer))
        end++;
    return end;
}

/* Adds the blocks if model.dense_layers lists some of them. If there are at most three runs of
 * equal blocks, they are drawn in their order, else in one frame for each kind. */
static void add_listed_blocks(structure *s)
{
    int stretches = 0, of_kind[2] = {0, 0}, first[2] = {0, 0};
    for (int l = 0; l < s->layers; l = end_of_kind(s, l))
        stretches++;
    for (int l = s->layers - 1; l >= 0; l--) {
        of_kind[has_experts(s, l)]++;
        first[has_experts(s, l)] = l;
    }
    for (int l = 0; stretches <= 3 && l < s->layers; l = end_of_kind(s, l))
        add_blocks(s, range(s, l, end_of_kind(s, l) - 1), l, end_of_kind(s, l) - 1,
                   end_of_kind(s, l) - l, has_experts(s, l));
    for (int kind = 0; stretches > 3 && kind < 2; kind++)
        if (of_kind[kind] > 0)
            add_blocks(s, kind ? "blocks with experts" : "dense blocks", first[kind],
                       s->layers - 1, of_kind[kind], kind);
}

/* Adds all blocks. Every `every`-th block has experts; the blocks after the last complete group
 * are dense. */
static void add_all_blocks(structure *s)
{
    for (int l = s->every - 1; s->every > 0 && l < s->layers; l += s->every)
        if (!has_experts(s, l)) {
            add_listed_blocks(s);
            return;
        }
    const int groups = s->every > 0 ? s->layers / s->every : 0, in = groups * s->every;
    if (s->every == 1) {
        add_blocks(s, range(s, 0, s->layers - 1), 0, s->layers - 1, s->layers, true);
        return;
    }
    if (groups > 0) {
        if (groups > 1) add(s, MF_FLOW_OPEN, range(s, 0, in - 1), times(s, groups), 0);
        add_blocks(s, s->every > 2 ? "dense blocks" : "dense block", 0, in - 2, s->every - 1,
                   false);
        add_blocks(s, "block with experts", s->every - 1, in - 1, 1, true);
        if (groups > 1) add(s, MF_FLOW_CLOSE, "", NULL, 0);
    }
    if (in < s->layers)
        add_blocks(s, range(s, in, s->layers - 1), in, s->layers - 1, s->layers - in, false);
}

static void add_front(structure *s)
{
    const mf_report *p = s->p;
    const char *position = text(s, "model", "position");
    add(s, MF_FLOW_TEXT, mf_report_strf(p, "tokens, up to %s", text(s, "model", "seq")), NULL,
        0);
    add(s, MF_FLOW_BOX,
        mf_report_strf(p, "embedding, %s \xc3\x97 %s",
                       mf_report_num(p, 7, mf_report_manifest_number(s->r, "vocab")),
                       text(s, "model", "dim")),
        counted(s, "", elements(s, MF_MODULE_EMBEDDING, -1, "embed.")), EMBED);
    if (strcmp(position, "sinusoidal") == 0 || strcmp(position, "learned") == 0)
        add(s, MF_FLOW_BOX, mf_report_strf(p, "+ positions, %s", position),
            counted(s, "", elements(s, MF_MODULE_EMBEDDING, -1, "position.")), EMBED);
}

/* "main -> 2, score -> 1", with arrows, for a model with several heads; NULL if it has
 * only one. */
static const char *several_heads(const structure *s, int *ret_n)
{
    const mf_json *list = mf_json_get(s->r->manifest, "tasks");
    const size_t n = mf_json_typeof(list) == MF_JSON_ARRAY ? mf_json_size(list) : 0;
    const char *all = "";
    *ret_n = (int)n;
    if (n < 2) return NULL;
    for (size_t i = 0; i < n; i++) {
        const mf_json *t = mf_json_at(list, i);
        const char *name = mf_json_string(mf_json_get(t, "name"), NULL);
        int64_t classes;
        const bool number = !mf_json_int(mf_json_get(t, "classes"), &classes);
        if (strlen(all) > 34) return mf_report_strf(s->p, "%s, \xe2\x80\xa6", all);
        all = mf_report_strf(s->p, "%s%s%s \xe2\x86\x92 %d", all, i > 0 ? ", " : "",
                             name ? name : "", number ? 1 : (int)classes);
    }
    return all;
}

/* Adds the heads that predict one value per task for a whole sequence. */
static void add_predictions(structure *s)
{
    const bool classify = is(s, "model", "task", "classify");
    const int64_t n = elements(s, MF_MODULE_HEAD, -1, NULL);
    int heads;
    const char *classes = mf_report_num(s->p, 7, mf_report_manifest_number(s->r, "classes")),
               *several = several_heads(s, &heads);
    add(s, MF_FLOW_BOX,
        is(s, "model", "pool", "mean") ? "mean over the tokens" : "the first token", NULL,
        NORM);
    if (several) {
        add(s, MF_FLOW_BOX, several, counted(s, mf_report_strf(s->p, "%d heads", heads), n),
            HEAD);
        add(s, MF_FLOW_TEXT, "a prediction of each head", NULL, 0);
        return;
    }
    add(s, MF_FLOW_BOX,
        mf_report_strf(s->p, "head, %s \xe2\x86\x92 %s", text(s, "model", "dim"),
                       classify ? classes : "1"),
        counted(s, "", n), HEAD);
    add(s, MF_FLOW_TEXT,
        classify ? mf_report_strf(s->p, "one of %s classes", classes) : "a number", NULL, 0);
}

static void add_tokens(structure *s)
{
    add(s, MF_FLOW_BOX,
        mf_report_strf(s->p, "head, %s \xe2\x86\x92 %s", text(s, "model", "dim"),
                       mf_report_num(s->p, 7, mf_report_manifest_number(s->r, "vocab"))),
        counted(s, is(s, "model", "tie_embeddings", "yes") ? "weights of the embedding" : "",
                elements(s, MF_MODULE_HEAD, -1, NULL)),
        HEAD);
    add(s, MF_FLOW_TEXT, is(s, "model", "task", "mlm") ? "the hidden tokens" : "the next token",
        NULL, 0);
}

static void add_back(structure *s)
{
    const int64_t norm = elements(s, MF_MODULE_NORMS, -1, NULL);
    if (norm > 0 || (!s->v && strcmp(s->norms, "post") != 0))
        add(s, MF_FLOW_BOX, s->norm, counted(s, "", norm), NORM);
    if (is(s, "model", "task", "classify") || is(s, "model", "task", "regress"))
        add_predictions(s);
    else
        add_tokens(s);
}

/* ---- the layer with experts ---- */

static const char *expert_note(const structure *s, int64_t n, int experts)
{
    const char *hidden = text(s, "expert", "hidden");
    if (n > 0) return mf_report_count(s->p, (double)n / experts);
    return *hidden != '\0' && strcmp(hidden, "0") != 0
               ? mf_report_strf(s->p, "hidden %s", hidden)
               : NULL;
}

static const char *capacity_note(const structure *s)
{
    const char *factor = text(s, "moe", "capacity_factor");
    const char *rule = strcmp(factor, "0") == 0
                           ? "no capacity: every assignment is admitted"
                           : mf_report_strf(s->p, "capacity factor %s, overflow: %s", factor,
                                            text(s, "moe", "overflow"));
    return mf_report_strf(s->p, "%s%s", rule,
                          is(s, "model", "share_layers", "yes")
                              ? "; blocks share attention, router and experts"
                              : "");
}

static mf_flow_detail detail_of(const structure *s)
{
    const mf_report *p = s->p;
    int layer = s->every - 1;
    while (layer + 1 < s->layers && !has_experts(s, layer))
        layer++;
    const int experts = atoi(mf_report_moe(s->r, layer, "experts", "0")),
              k = atoi(mf_report_moe(s->r, layer, "top_k", "0")),
              shared = atoi(mf_report_moe(s->r, layer, "shared_experts", "0"));
    const int64_t of_shared = elements(s, MF_MODULE_EXPERTS, layer, ".shared.");
    const int64_t of_experts = elements(s, MF_MODULE_EXPERTS, layer, NULL) - of_shared;
    const char *section, *adapter = NULL, *last = "";
    int64_t of_adapter = 0;
    for (int i = 0; (section = adapter_section(s, i)); i++) {
        if (!stands_at(s, section, "expert_out") && !stands_at(s, section, "expert_in"))
            continue;
        last = section;
        adapter = adapter ? mf_report_strf(p, "%s, %s", adapter, plugin(s, section))
                          : plugin(s, section);
        of_adapter += adapter_elements(s, section, layer);
    }
    /* By convention, adapters of experts have an option `mode`; `shared` means one adapter for
     * all experts. */
    const bool one = *last != '\0' && is(s, last, "mode", "shared");
    return (mf_flow_detail){
        .title = mf_report_strf(p, "A mixture of experts (block %d)", layer),
        .router = mf_report_strf(p, "router: %s",
                                 plugin(s, mf_report_section_of(s->r, "router", layer))),
        .router_note = counted(s, "", elements(s, MF_MODULE_ROUTER, layer, NULL)),
        .choice = mf_report_strf(p, "%d of %d a token", k, experts),
        .experts = experts,
        .chosen = k,
        .expert = plugin(s, mf_report_section_of(s->r, "expert", layer)),
        .expert_note = expert_note(s, of_experts, experts > 0 ? experts : 1),
        .adapter = adapter,
        .adapter_note = of_adapter > 0
                            ? mf_report_count(p, (double)of_adapter / (one ? 1 : experts))
                            : NULL,
        .adapter_shared = one,
        .shared = shared > 0 ? mf_report_strf(p, "%d shared", shared) : NULL,
        .shared_note = of_shared > 0 ? mf_report_count(p, (double)of_shared) : "for all tokens",
        .sum = "sum, weighted by the gates",
        .note = capacity_note(s)};
}

/* ---- the figure ---- */

void mf_report_structure(const mf_report *p, const mf_report_run *r, const mf_inventory *v)
{
    structure s = {.p = p, .r = r, .v = v};
    if (!r->config) return;
    s.layers = number(&s, "model", "layers");
    s.every = number(&s, "model", "moe_every");
    s.attention = !is(&s, "model", "attention", "no");
    s.norms = is(&s, "model", "norm_place", "post")     ? "post"
              : is(&s, "model", "norm_place", "output") ? "output"
              : is(&s, "model", "norm_place", "both")   ? "both"
                                                        : "pre";
    s.norm = is(&s, "model", "norm", "layernorm") ? "LayerNorm" : "RMSNorm";
    if (s.layers < 1) return;
    if (s.every > s.layers) s.every = 0;
    add_front(&s);
    add_all_blocks(&s);
    add_back(&s);
    const mf_flow_detail detail = s.detailed ? detail_of(&s) : (mf_flow_detail){0};
    const double active = mf_report_manifest_number(r, "params_active");
    mf_doc_put(p->d, "<div class=\"figures plan\">\n");
    mf_html_figure(p->d, "Structure");
    mf_svg_flow(p->d, "structure of the model", s.n, s.items);
    mf_html_figure_end(
        p->d,
        mf_report_strf(p,
                       "%s parameters, %s active a token. Blocks that are alike are drawn "
                       "once; numbers in boxes are of one of them.",
                       mf_report_count(p, mf_report_manifest_number(r, "params")),
                       mf_report_count(p, active)));
    if (s.detailed) {
        mf_html_figure(p->d, "Experts of a block");
        mf_svg_flow_detail(p->d, &detail);
        mf_html_figure_end(p->d, NULL);
    }
    mf_html_figures_end(p->d);
}
