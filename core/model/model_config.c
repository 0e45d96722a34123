/* model/model_config.c: the keys of a model's sections with defaults and bounds, and the rules
 * between keys. */
#include "model/model_config.h"
#include <string.h>

static const char *const tasks[] = {"lm", "classify", "mlm", "regress", NULL};
static const char *const norms[] = {"rmsnorm", "layernorm", NULL};
static const char *const norm_places[] = {"pre", "post", NULL};
static const char *const position_kinds[] = {"rope", "sinusoidal", "learned", "none", NULL};
static const char *const activations[] = {"relu", "gelu", "swiglu", NULL};
static const char *const scale_dims[] = {"head_dim", "model_dim", NULL};
static const char *const starts[] = {"normal", "uniform", "uniform_xavier", NULL};
static const char *const pools[] = {"first", "mean", NULL};

static const mf_option model_options[] = {
    MF_OPTION_ENUM(mf_model_config, task, "lm", tasks,
                   "what is learned: the next token, a class, masked tokens, or a number"),
    MF_SECTION_INT(mf_model_config, dim, "128", 1, 65536, "width of the residual stream"),
    MF_SECTION_INT(mf_model_config, layers, "4", 1, 1024, "number of blocks"),
    MF_SECTION_INT(mf_model_config, heads, "4", 1, 1024, "attention heads a block"),
    MF_SECTION_AUTO(mf_model_config, kv_heads, "auto", 0, 1024,
                    "heads of keys and values (grouped-query attention); auto: as heads"),
    MF_SECTION_INT(mf_model_config, seq, "128", 1, 1048576, "tokens a sequence, at most"),
    MF_SECTION_AUTO(mf_model_config, vocab, "auto", 0, 16777216,
                    "token ids; auto: as the tokenizer has"),
    MF_OPTION_ENUM(mf_model_config, norm, "rmsnorm", norms, "kind of normalisation"),
    MF_OPTION_ENUM(mf_model_config, norm_place, "pre", norm_places,
                   "normalise before each half block, or after it"),
    MF_OPTION_ENUM(mf_model_config, position, "rope", position_kinds,
                   "how tokens know their place"),
    MF_SECTION_REAL(mf_model_config, norm_eps, "1e-5", 1e-12, 1,
                    "added to the mean square, or the variance"),
    MF_SECTION_BOOL(mf_model_config, norm_eps_outside, "no",
                    "rmsnorm: add norm_eps to the root, not under it"),
    MF_SECTION_REAL(mf_model_config, rope_theta, "10000", 1, 1e9,
                    "rope: base of the wavelengths"),
    MF_SECTION_BOOL(mf_model_config, rope_half, "no",
                    "rope: pair channel i with i + half, not with its neighbour"),
    MF_SECTION_BOOL(mf_model_config, attention_bias, "no",
                    "biases on queries, keys and values"),
    MF_SECTION_BOOL(mf_model_config, attention_out_bias, "no", "bias on the attention output"),
    MF_SECTION_REAL(mf_model_config, attention_scale, "0", 0, 1e6,
                    "factor on attention scores; 0: as attention_scale_by says"),
    MF_OPTION_ENUM(mf_model_config, attention_scale_by, "head_dim", scale_dims,
                   "attention scores over the root of the width of a head, or of the model"),
    MF_SECTION_BOOL(mf_model_config, causal, "yes",
                    "lm: a token sees only what stands before it"),
    MF_SECTION_BOOL(mf_model_config, tie_embeddings, "no",
                    "the output head shares the embedding's weights"),
    MF_SECTION_BOOL(mf_model_config, head_bias, "no", "bias on the output head"),
    MF_SECTION_REAL(mf_model_config, logit_scale, "1", 1e-3, 1e3,
                    "factor on the output head's logits"),
    MF_SECTION_AUTO(mf_model_config, ffn_hidden, "auto", 0, 1048576,
                    "hidden width of dense blocks; auto: 4 x dim"),
    MF_OPTION_ENUM(mf_model_config, ffn_activation, "swiglu", activations,
                   "nonlinearity of dense blocks"),
    MF_SECTION_INT(
        mf_model_config, cache_start, "0", 0, 65536,
        "generate: positions before the first token, which attention takes for zeros"),
    MF_SECTION_INT(mf_model_config, moe_every, "1", 0, 1024,
                   "experts in every n-th block, dense otherwise; 0: a dense model"),
    MF_SECTION_REAL(mf_model_config, init_std, "0.02", 0, 10,
                    "standard deviation of start weights"),
    MF_SECTION_BOOL(
        mf_model_config, attention, "yes",
        "self-attention in each block; no: only experts see other tokens, if they do"),
    MF_OPTION_ENUM(
        mf_model_config, init, "normal", starts,
        "start weights: N(0, init_std); U(-1, 1) / sqrt(inputs) and embeddings N(0, 1); or so "
        "with queries, keys and values by Xavier"),
    MF_SECTION_BOOL(mf_model_config, share_layers, "no",
                    "blocks share attention, router and experts; norms are their own"),
    MF_SECTION_BOOL(mf_model_config, layers_alike, "no", "all blocks begin with equal weights"),
    MF_OPTION_ENUM(
        mf_model_config, pool, "first", pools,
        "classify, regress: what the answer is read from, the first token or the mean of all"),
    MF_SECTION_REAL(mf_model_config, ffn_dropout, "0", 0, 0.99,
                    "dropout behind the nonlinearity of dense blocks"),
    MF_SECTION_REAL(mf_model_config, head_dropout, "0", 0, 0.99,
                    "dropout before the output head"),
    MF_SECTION_AUTO(
        mf_model_config, classes, "auto", 0, 65536,
        "classify: most classes that data may have; a model has those that they have; "
        "auto: any"),
    MF_SECTION_REAL(mf_model_config, task_weight, "1", 0, 1e9,
                    "factor on the loss of task where [task.NAME] sections add theirs"),
    MF_END_OPTIONS};

static const char *const further_tasks[] = {"classify", "regress", "none", NULL};

static const mf_option task_options[] = {
    MF_OPTION_ENUM(mf_task_section, task, "classify", further_tasks,
                   "what is learned: a class, a number, or nothing: no such task"),
    MF_OPTION_STR(mf_task_section, column, "",
                  "column of its label, jsonl: member; empty: the one called NAME"),
    MF_SECTION_REAL(mf_task_section, weight, "1", 0, 1e9, "factor on its loss"),
    MF_SECTION_AUTO(
        mf_task_section, classes, "auto", 0, 65536,
        "classify: most classes that data may have; a model has those that they have; "
        "auto: any"),
    MF_END_OPTIONS};

static const char *const overflows[] = {"drop", "reassign", NULL};
static const char *const priorities[] = {"position", "gate", "importance",
                                         "drawn",    "time", NULL};
static const char *const choices_of_gate[] = {"new", "first", NULL};
static const char *const dropped_ways[] = {"residual", "input", "scaled_input", NULL};

static const mf_option moe_options[] = {
    MF_SECTION_INT(mf_moe_config, experts, "8", 1, 4096, "experts a layer"),
    MF_SECTION_INT(mf_moe_config, top_k, "2", 1, 4096, "experts a token"),
    MF_SECTION_REAL(mf_moe_config, capacity_factor, "0", 0, 1e6,
                    "rows an expert takes, in even shares; 0: all that come (dropless)"),
    MF_OPTION_ENUM(mf_moe_config, overflow, "drop", overflows,
                   "what becomes of rows over capacity"),
    MF_OPTION_ENUM(
        mf_moe_config, priority, "position", priorities,
        "which rows are admitted first: those of the first sequences, of the largest gate, of "
        "the longest vector, drawn ones, or the early ones of every sequence; a router's own "
        "goes before"),
    MF_SECTION_REAL(mf_moe_config, adaptive_capacity, "0", 0, 1e3,
                    "k: expert i with n rows takes k max(0, n - even share) more; 0: none"),
    MF_SECTION_REAL(mf_moe_config, adaptive_limit, "0.5", 0, 1e3,
                    "adaptive_capacity adds at most this share of the capacity"),
    MF_SECTION_INT(mf_moe_config, max_reassign, "0", 0, INT32_MAX,
                   "overflow reassign: most rows a layer and batch; 0: all"),
    MF_OPTION_ENUM(mf_moe_config, reassign_gate, "new", choices_of_gate,
                   "a reassigned row's gate is its new expert's, or its first choice's"),
    MF_OPTION_ENUM(
        mf_moe_config, dropped, "residual", dropped_ways,
        "a dropped row adds nothing, the layer's input, or the input times its gate"),
    MF_SECTION_BOOL(mf_moe_config, unit_gates, "no",
                    "gates are 1 in value and keep their gradient: p / detach(p)"),
    MF_SECTION_INT(mf_moe_config, shared_experts, "0", 0, 4096,
                   "experts that every token visits besides"),
    MF_SECTION_BOOL(mf_moe_config, renormalize, "yes", "gates of a token sum to 1"),
    MF_SECTION_REAL(mf_moe_config, gate_scale, "1", 0, 1e6, "factor on all gates"),
    MF_SECTION_BOOL(mf_moe_config, force_causal, "no",
                    "allow routers that look ahead in a decoder"),
    MF_END_OPTIONS};

static const mf_option router_options[] = {
    MF_OPTION_STR(mf_plugin_section, plugin, NULL,
                  "name or path of the plugin; its own options follow"),
    MF_END_OPTIONS};

static const mf_option regularizer_options[] = {
    MF_OPTION_STR(mf_plugin_section, plugin, NULL,
                  "name or path of the plugin, none: no such term; if absent, NAME"),
    MF_SECTION_REAL(mf_plugin_section, weight, "1", -1e9, 1e9,
                    "factor on its term in the loss"),
    MF_END_OPTIONS};

static const mf_option controller_options[] = {
    MF_OPTION_STR(mf_plugin_section, plugin, NULL,
                  "name or path of the plugin, none: no such controller; if absent, NAME"),
    MF_SECTION_INT(mf_plugin_section, every, "1", 1, MF_NO_BOUND,
                   "runs after every so many steps"),
    MF_END_OPTIONS};

static const mf_option adapter_options[] = {
    MF_OPTION_STR(mf_plugin_section, plugin, NULL,
                  "name or path of the plugin, none: no such adapter; if absent, NAME"),
    MF_OPTION_STR(mf_plugin_section, at, "",
                  "points of a block (block_in, attention, heads, ffn, expert_out, ...) and "
                  "names of linear "
                  "layers (attention.q, router.*, head); empty: as the plugin says"),
    MF_OPTION_STR(mf_plugin_section, layers, "all", "numbers of blocks from 0, as 2-5 or 0,3"),
    MF_SECTION_REAL(mf_plugin_section, lr, "1", 0, 1e6,
                    "factor on the learning rate of its parameters"),
    MF_END_OPTIONS};

/* ---- [task.NAME] ---- */

static int complete_task(void *one, const char *section, const char *label, mf_arena *arena,
                         bool *ret_keep)
{
    mf_task_section *t = one;
    (void)arena;
    t->section = section;
    t->name = label;
    if (!t->column || t->column[0] == '\0') t->column = label;
    *ret_keep = t->task != MF_FURTHER_NONE;
    return MF_OK;
}

/* ---- the sections ---- */

const mf_section mf_model_section = {.name = "model",
                                     .help = "the shape of the transformer",
                                     .options = model_options,
                                     .size = sizeof(mf_model_config)};
const mf_section mf_task_sections = {
    .name = "task.",
    .help =
        "one more thing that is learned of each example, on the same encoder; any number up "
        "to 8",
    .options = task_options,
    .size = sizeof(mf_task_section),
    .complete = complete_task,
    .most = MF_TASKS_MAX};
const mf_section mf_moe_section = {.name = "moe",
                                   .help = "experts and how rows are dealt to them",
                                   .options = moe_options,
                                   .size = sizeof(mf_moe_config)};

#define PLUGIN_SECTION(prefix, what, table, text)                                              \
    {                                                                                          \
        .name = prefix, .help = text, .options = table, .size = sizeof(mf_plugin_section),     \
        .plugin = true, .kind = what                                                           \
    }
const mf_section mf_router_section =
    PLUGIN_SECTION("router", MF_ROUTER, router_options, "which experts, with what weight");
const mf_section mf_expert_section =
    PLUGIN_SECTION("expert", MF_EXPERT, router_options, "what an expert computes");
const mf_section mf_adapter_sections =
    PLUGIN_SECTION("adapter.", MF_ADAPTER, adapter_options,
                   "changes values inside blocks; any number of sections, in their order");
const mf_section mf_regularizer_sections =
    PLUGIN_SECTION("regularizer.", MF_REGULARIZER, regularizer_options,
                   "a term added to the loss; any number of sections");
const mf_section mf_controller_sections =
    PLUGIN_SECTION("controller.", MF_CONTROLLER, controller_options,
                   "looks after each step and turns live options; any number of sections");

/* ---- rules ---- */

void mf_model_config_settle(mf_model_config *m)
{
    if (m->kv_heads == 0) m->kv_heads = m->heads;
    if (m->ffn_hidden == 0) m->ffn_hidden = 4 * m->dim;
}

static void judge_model(mf_config_faults *j, const mf_model_config *m)
{
    long long dim = m->dim, heads = m->heads, kv_heads = m->kv_heads;
    if (dim % heads != 0)
        mf_config_fault(j, "model", "heads", NULL,
                        "expected a divisor of dim (%lld), found %lld", dim, heads);
    else if (m->position == MF_POS_ROPE && dim / heads % 2 != 0)
        mf_config_fault(j, "model", "heads", NULL,
                        "rope wants an even width a head, found dim / heads = %lld",
                        dim / heads);
    if (m->kv_heads > 0 && heads % kv_heads != 0)
        mf_config_fault(j, "model", "kv_heads", NULL,
                        "expected a divisor of heads (%lld), found %lld", heads, kv_heads);
    if (m->cache_start > 0 &&
        (m->position == MF_POS_SINUSOIDAL || m->position == MF_POS_LEARNED))
        mf_config_fault(j, "model", "cache_start", NULL,
                        "expected 0 with positions that end with model.seq, found %lld",
                        (long long)m->cache_start);
}

static void judge_tasks(mf_config_faults *j, const mf_model_settings *c)
{
    const bool by_row = mf_task_by_row(c->model.task);
    for (int i = 0; i < c->n_tasks; i++) {
        const mf_task_section *t = &c->tasks[i];
        if (!by_row)
            mf_config_fault(j, t->section, "task", NULL,
                            "further tasks want model.task = classify or regress");
        if (strcmp(t->name, "main") == 0)
            mf_config_fault(j, t->section, "task", NULL,
                            "'main' is the name of model.task; expected another one");
        if (strlen(t->name) > 64)
            mf_config_fault(j, t->section, "task", NULL,
                            "expected a name of at most 64 letters");
    }
    if (c->n_tasks == 0 && c->model.task_weight != 1)
        mf_config_fault(j, "model", "task_weight", NULL,
                        "expected 1 without sections [task.NAME], found %g",
                        c->model.task_weight);
}

static void judge_moe(mf_config_faults *j, const mf_moe_config *m)
{
    if (m->top_k > m->experts)
        mf_config_fault(j, "moe", "top_k", NULL,
                        "expected at most as many as experts (%lld), found %lld",
                        (long long)m->experts, (long long)m->top_k);
}

void mf_model_config_judge(mf_config_faults *j, const mf_model_settings *s)
{
    judge_model(j, &s->model);
    judge_tasks(j, s);
    judge_moe(j, &s->moe);
}
