/* model/model_config.c: the keys of a model's sections with defaults and bounds, and the rules
 * that combine several keys. */
#include "model/model_config.h"
#include "kernels/kernel.h"
#include <stdio.h>
#include <string.h>

static const char *const tasks[] = {"lm", "classify", "mlm", "regress", NULL};
static const char *const norms[] = {"rmsnorm", "layernorm", NULL};
static const char *const norm_places[] = {"pre", "post", "output", "both", NULL};
static const char *const position_kinds[] = {"rope", "sinusoidal", "learned", "none", NULL};
static const char *const activations[] = {"relu", "gelu", "swiglu", "gelu_tanh", NULL};
static const char *const rope_scalings[] = {"none", "linear", "yarn", "llama3", "given", NULL};
static const char *const biases[] = {"auto", "no", "yes", NULL};
static const char *const qk_norms[] = {"none", "head", "all", NULL};
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
    MF_SECTION_AUTO(mf_model_config, head_dim, "auto", 0, MF_MAX_HEAD_DIM,
                    "width of a head; auto: dim / heads"),
    MF_SECTION_INT(mf_model_config, seq, "128", 1, 1048576, "tokens a sequence, at most"),
    MF_SECTION_AUTO(mf_model_config, vocab, "auto", 0, 16777216,
                    "token ids; auto: as the tokenizer has"),
    MF_OPTION_ENUM(mf_model_config, norm, "rmsnorm", norms, "kind of normalisation"),
    MF_OPTION_ENUM(
        mf_model_config, norm_place, "pre", norm_places,
        "normalise the input of each half block, the sum after it, its output before the sum, "
        "or its input and its output"),
    MF_SECTION_REAL(mf_model_config, embed_scale, "1", 1e-6, 1e6, "factor on embeddings"),
    MF_SECTION_REAL(mf_model_config, residual_scale, "1", 1e-6, 1e6,
                    "factor on the output of each half block"),
    MF_OPTION_ENUM(mf_model_config, position, "rope", position_kinds,
                   "how tokens know their place"),
    MF_SECTION_AUTO(mf_model_config, positions, "auto", 1, 1048576,
                    "learned: positions in the table; auto: seq"),
    MF_SECTION_REAL(mf_model_config, norm_eps, "1e-5", 1e-12, 1,
                    "added to the mean square, or the variance"),
    MF_SECTION_BOOL(mf_model_config, norm_eps_outside, "no",
                    "rmsnorm: add norm_eps to the root, not under it"),
    MF_SECTION_BOOL(mf_model_config, norm_bias, "yes", "layernorm: norms have biases"),
    MF_SECTION_BOOL(mf_model_config, norm_shift, "no",
                    "norms multiply by 1 + weight, and weights begin at 0"),
    MF_SECTION_REAL(mf_model_config, rope_theta, "10000", 1, 1e9,
                    "rope: base of the wavelengths"),
    MF_SECTION_BOOL(mf_model_config, rope_half, "no",
                    "rope: pair channel i with i + half, not with its neighbour"),
    MF_SECTION_AUTO(mf_model_config, rope_dims, "auto", 0, MF_MAX_HEAD_DIM,
                    "rope: channels of a head that are rotated; auto: all"),
    MF_SECTION_BOOL(mf_model_config, rope_last, "no",
                    "rope: rope_dims are the last channels of a head, not the first"),
    MF_OPTION_ENUM(mf_model_config, rope_scaling, "none", rope_scalings,
                   "rope: how angles shrink so that a longer text fits: all alike, by "
                   "wavelength (YaRN), by wavelength as Llama 3 does, or by factors that come "
                   "with the weights (rope.factor)"),
    MF_SECTION_REAL(mf_model_config, rope_factor, "1", 1, 1e6,
                    "rope_scaling: longer by this factor"),
    MF_SECTION_REAL(mf_model_config, rope_original, "0", 0, 1e9,
                    "yarn, llama3: tokens a sequence before scaling; given: tokens a sequence "
                    "at most, 0: any"),
    MF_SECTION_REAL(mf_model_config, rope_beta_fast, "32", 1e-3, 1e6,
                    "yarn: turns in rope_original tokens from which angles stay as they are"),
    MF_SECTION_REAL(mf_model_config, rope_beta_slow, "1", 1e-3, 1e6,
                    "yarn: turns up to which angles shrink by the whole factor"),
    MF_SECTION_BOOL(mf_model_config, rope_truncate, "yes",
                    "yarn: the bounds in between are rounded to whole channels"),
    MF_SECTION_REAL(mf_model_config, rope_low, "1", 1e-3, 1e6,
                    "llama3: turns up to which angles shrink by the whole factor"),
    MF_SECTION_REAL(mf_model_config, rope_high, "4", 1e-3, 1e6,
                    "llama3: turns from which angles stay as they are"),
    MF_SECTION_REAL(mf_model_config, rope_magnitude, "0", 0, 1e3,
                    "rope: factor on rotated queries and keys; 0: 1, yarn: 0.1 ln(rope_factor) "
                    "+ 1"),
    MF_OPTION_STR(mf_model_config, rope_layers, "all",
                  "rope: blocks that have it: all, or numbers from 0 as 2-5 or 0,3"),
    MF_OPTION_STR(mf_model_config, rope_plain_layers, "",
                  "rope: blocks with rope_plain_theta, and without scaling: numbers from 0"),
    MF_SECTION_REAL(mf_model_config, rope_plain_theta, "10000", 1, 1e9,
                    "rope_plain_layers: base of the wavelengths"),
    MF_SECTION_BOOL(mf_model_config, attention_bias, "no",
                    "biases on queries, keys and values; with latent, on what gives the latent "
                    "vectors"),
    MF_SECTION_BOOL(mf_model_config, attention_out_bias, "no", "bias on the attention output"),
    MF_OPTION_ENUM(mf_model_config, qk_norm, "none", qk_norms,
                   "norm of queries and keys before rope: each head by itself with the same "
                   "weights, or all heads of a token together"),
    MF_SECTION_BOOL(mf_model_config, qk_norm_late, "no", "qk_norm: after rope, not before it"),
    MF_SECTION_BOOL(mf_model_config, qk_norm_weights, "yes", "qk_norm: with weights"),
    MF_OPTION_STR(mf_model_config, qk_norm_layers, "all",
                  "qk_norm: blocks that have it: all, or numbers from 0 as 2-5 or 0,3"),
    MF_SECTION_BOOL(mf_model_config, attention_gate, "no",
                    "outputs of heads are multiplied by sigmoid(W x)"),
    MF_SECTION_REAL(mf_model_config, clip_qkv, "0", 0, 1e6,
                    "limit of the size of queries, keys and values before rope; 0: none"),
    MF_SECTION_INT(
        mf_model_config, latent, "0", 0, MF_MAX_HEAD_DIM,
        "width of a latent vector from which keys and values come, which is all that "
        "decoding keeps besides rope_dims rotated channels; 0: none"),
    MF_SECTION_INT(mf_model_config, latent_q, "0", 0, 65536,
                   "latent: width of a latent vector from which queries come; 0: none"),
    MF_SECTION_AUTO(mf_model_config, value_dim, "auto", 0, MF_MAX_HEAD_DIM,
                    "latent: width of a head's values; auto: head_dim"),
    MF_SECTION_INT(mf_model_config, window, "0", 0, INT32_MAX,
                   "tokens up to itself that a token of a decoder sees; 0: all"),
    MF_OPTION_STR(mf_model_config, window_layers, "all",
                  "blocks with a window: all, or numbers from 0, as 0-5 or 0,2"),
    MF_SECTION_BOOL(mf_model_config, window_chunks, "no",
                    "a token sees back to a multiple of window, not window tokens"),
    MF_SECTION_REAL(
        mf_model_config, query_growth, "0", 0, 1e3,
        "queries at position p, in blocks without rope, times 1 + query_growth ln(1 "
        "+ floor((p + 1) / query_growth_step)); 0: 1"),
    MF_SECTION_INT(mf_model_config, query_growth_step, "8192", 1, INT32_MAX,
                   "query_growth: tokens between two values"),
    MF_SECTION_BOOL(
        mf_model_config, sinks, "no",
        "one more learned logit a head in the softmax of attention, without a value"),
    MF_OPTION_STR(mf_model_config, delta_layers, "",
                  "blocks with the gated delta rule in place of attention: numbers from 0"),
    MF_SECTION_INT(mf_model_config, delta_heads, "4", 1, 1024, "delta rule: heads of values"),
    MF_SECTION_INT(mf_model_config, delta_key_heads, "4", 1, 1024,
                   "delta rule: heads of queries and keys, a divisor of delta_heads"),
    MF_SECTION_INT(mf_model_config, delta_key_dim, "32", 1, 1024,
                   "delta rule: width of a query or a key"),
    MF_SECTION_INT(mf_model_config, delta_value_dim, "32", 1, 1024,
                   "delta rule: width of a value"),
    MF_SECTION_INT(mf_model_config, delta_taps, "4", 2, 64,
                   "delta rule: tokens that its convolution sees"),
    MF_SECTION_BOOL(
        mf_model_config, delta_grouped, "no",
        "delta rule: one weight for queries, keys, values and gates by head of keys, "
        "another for a and b"),
    MF_OPTION_STR(mf_model_config, conv_layers, "",
                  "blocks with a short convolution in place of attention: numbers from 0"),
    MF_SECTION_INT(mf_model_config, conv_taps, "3", 2, 64,
                   "short convolution: tokens that it sees"),
    MF_SECTION_BOOL(mf_model_config, conv_bias, "no",
                    "short convolution: biases on it and on its linear layers"),
    MF_SECTION_REAL(mf_model_config, attention_scale, "0", 0, 1e6,
                    "factor on attention scores; 0: as attention_scale_by says"),
    MF_OPTION_ENUM(mf_model_config, attention_scale_by, "head_dim", scale_dims,
                   "attention scores over the root of the width of a head, or of the model"),
    MF_SECTION_BOOL(mf_model_config, attention_scale_by_layer, "no",
                    "attention scores of block i over i + 1, with i from 0"),
    MF_SECTION_BOOL(mf_model_config, causal, "yes",
                    "lm: a token sees only what stands before it"),
    MF_SECTION_INT(
        mf_model_config, token_types, "0", 0, 4096,
        "segments of an example, ended by the tokenizer's separator, whose tokens get "
        "an embedding more; later ones count as the last; 0: none"),
    MF_SECTION_BOOL(mf_model_config, embed_norm, "no", "norm of embeddings before the blocks"),
    MF_SECTION_BOOL(mf_model_config, pooler, "no",
                    "classify, regress: a linear layer and tanh before the heads of tasks"),
    MF_SECTION_BOOL(mf_model_config, tie_embeddings, "no",
                    "the output head shares the embedding's weights"),
    MF_SECTION_BOOL(mf_model_config, head_bias, "no", "bias on the output head"),
    MF_SECTION_REAL(mf_model_config, logit_scale, "1", 1e-3, 1e3,
                    "factor on the output head's logits"),
    MF_SECTION_AUTO(mf_model_config, ffn_hidden, "auto", 0, 1048576,
                    "hidden width of dense blocks; auto: 4 x dim"),
    MF_OPTION_ENUM(mf_model_config, ffn_activation, "swiglu", activations,
                   "nonlinearity of dense blocks"),
    MF_OPTION_ENUM(mf_model_config, ffn_bias, "auto", biases,
                   "biases of dense blocks; auto: yes, except of swiglu"),
    MF_SECTION_INT(
        mf_model_config, cache_start, "0", 0, 65536,
        "generate: positions before the first token, which attention takes for zeros"),
    MF_SECTION_INT(mf_model_config, moe_every, "1", 0, 1024,
                   "experts in every n-th block, dense otherwise; 0: a dense model"),
    MF_OPTION_STR(mf_model_config, dense_layers, "",
                  "blocks that are dense in any case: numbers from 0, as 0 or 0,3-5"),
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
                    "blocks share attention, router and experts; norms are their own; a shared "
                    "router is updated once a step, by the loads of all its blocks"),
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
static const char *const orders[] = {"token", "rank", NULL};
static const char *const choices_of_gate[] = {"new", "first", NULL};
static const char *const dropped_ways[] = {"residual", "input", "scaled_input", NULL};

static const char *const latent_norms[] = {"no", "rmsnorm", NULL};
static const char *const sums_of_gates[] = {"no", "yes", "auto", NULL};

static const mf_option moe_options[] = {
    MF_SECTION_INT(mf_moe_config, experts, "8", 1, 4096, "experts a layer"),
    MF_SECTION_INT(mf_moe_config, top_k, "2", 1, 4096, "experts a token"),
    MF_SECTION_REAL(mf_moe_config, capacity_factor, "0", 0, 1e6,
                    "rows an expert takes, in even shares: floor(factor T k / E), at least 1, "
                    "T without padding, k as top_k (hash: its hashes, oracle: 1); 0: all that "
                    "come (dropless)"),
    MF_OPTION_ENUM(mf_moe_config, overflow, "drop", overflows,
                   "what becomes of rows over capacity"),
    MF_OPTION_ENUM(
        mf_moe_config, priority, "position", priorities,
        "admitted first: rows of the first sequences, of the largest gate, of the longest "
        "vector (nearly equal behind any norm), drawn ones, or early ones; a router's own goes "
        "before"),
    MF_OPTION_ENUM(
        mf_moe_config, admit, "token", orders,
        "by rank, first choices of all tokens are admitted before second ones (GShard); "
        "only with priority position or drawn"),
    MF_SECTION_REAL(mf_moe_config, adaptive_capacity, "0", 0, 1e3,
                    "k: expert i with n rows takes k max(0, n - even share) more; 0: none"),
    MF_SECTION_REAL(mf_moe_config, adaptive_limit, "0.5", 0, 1e3,
                    "adaptive_capacity adds at most this share of the capacity"),
    MF_SECTION_INT(mf_moe_config, max_reassign, "0", 0, INT32_MAX,
                   "overflow reassign: most rows a layer and batch; 0: all"),
    MF_OPTION_ENUM(mf_moe_config, reassign_gate, "new", choices_of_gate,
                   "a reassigned row's gate is its new expert's, or its first choice's"),
    MF_OPTION_ENUM(mf_moe_config, dropped, "residual", dropped_ways,
                   "a dropped row adds nothing, 1/k of the layer's input (k as of "
                   "capacity_factor), or the "
                   "input times its gate"),
    MF_SECTION_BOOL(mf_moe_config, unit_gates, "no",
                    "gates are 1 in value and keep their gradient: p / detach(p)"),
    MF_SECTION_BOOL(mf_moe_config, gate_inputs, "no",
                    "gates multiply the inputs of experts, not their outputs"),
    MF_SECTION_INT(mf_moe_config, shared_experts, "0", 0, MF_SHARED_MAX,
                   "experts that every token visits besides"),
    MF_SECTION_INT(mf_moe_config, shared_hidden, "0", 0, 1048576,
                   "hidden width of shared experts; 0: as expert.hidden"),
    MF_SECTION_BOOL(mf_moe_config, shared_gate, "no",
                    "outputs of shared experts are multiplied by sigmoid(w x)"),
    MF_OPTION_ENUM(
        mf_moe_config, renormalize, "auto", sums_of_gates,
        "gates of a token sum to 1; auto: if top_k is above 1, since the gate of one "
        "expert would always be 1, and the router not learn; those of random always "
        "do, of noisy_topk if top_k is above 1; "
        "sigmoid_bias, quantile and densemix have their own key, sinkhorn with gate = sigmoid "
        "never "
        "divides; hash, oracle, relu and expert_choice set their gates"),
    MF_SECTION_REAL(mf_moe_config, gate_scale, "1", 0, 1e6, "factor on all gates"),
    MF_SECTION_BOOL(mf_moe_config, force_causal, "no",
                    "allow routers that look ahead in a decoder"),
    MF_SECTION_INT(
        mf_moe_config, latent, "0", 0, 65536,
        "width of the rows that routed experts get and give, behind one linear layer "
        "and before another; 0: dim"),
    MF_OPTION_ENUM(mf_moe_config, latent_norm, "no", latent_norms,
                   "latent: normalise the rows before experts"),
    MF_END_OPTIONS};

static const mf_option router_options[] = {
    MF_OPTION_STR(mf_plugin_section, plugin, NULL,
                  "name or path of the plugin; its own options follow"),
    MF_END_OPTIONS};

static const mf_option own_router_options[] = {
    MF_OPTION_STR(mf_plugin_section, plugin, NULL,
                  "name or path of the plugin; if absent, NAME; its own options follow"),
    MF_OPTION_STR(mf_plugin_section, layers, "all", "numbers of blocks from 0, as 2-5 or 0,3"),
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
    MF_SECTION_INT(mf_plugin_section, every, "1", 1, MF_STEPS_MAX,
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
                                     .size = sizeof(mf_model_config),
                                     .fixed = mf_section_all_keys};
const mf_section mf_task_sections = {
    .name = "task.",
    .help =
        "one more thing that is learned of each example, on the same encoder; any number up "
        "to 8",
    .options = task_options,
    .size = sizeof(mf_task_section),
    .complete = complete_task,
    .most = MF_TASKS_MAX,
    .fixed = mf_section_all_keys};
const mf_section mf_moe_section = {.name = "moe",
                                   .help = "experts and how rows are dealt to them",
                                   .options = moe_options,
                                   .size = sizeof(mf_moe_config),
                                   .fixed = mf_section_all_keys};

/* Maximum number of sections of one kind; each section costs time to load. */
#define PLUGINS_MAX 256
#define PLUGIN_SECTION(prefix, what, table, keys, text)                                        \
    {                                                                                          \
        .name = prefix, .help = text, .options = table, .size = sizeof(mf_plugin_section),     \
        .plugin = true, .kind = what, .most = PLUGINS_MAX, .fixed = keys                       \
    }
const mf_section mf_router_section =
    PLUGIN_SECTION("router", MF_ROUTER, router_options, mf_section_all_keys,
                   "which experts, with what weight");
const mf_section mf_router_sections =
    PLUGIN_SECTION("router.", MF_ROUTER, own_router_options, mf_section_all_keys,
                   "another router for some blocks; the last one that names a block counts");
const mf_section mf_expert_section = PLUGIN_SECTION(
    "expert", MF_EXPERT, router_options, mf_section_all_keys, "what an expert computes");
const mf_section mf_expert_sections =
    PLUGIN_SECTION("expert.", MF_EXPERT, own_router_options, mf_section_all_keys,
                   "another expert for some blocks; the last one that names a block counts");
const mf_section mf_adapter_sections =
    PLUGIN_SECTION("adapter.", MF_ADAPTER, adapter_options, mf_section_all_keys,
                   "changes values inside blocks; up to 256 sections, in their order");
const mf_section mf_regularizer_sections =
    PLUGIN_SECTION("regularizer.", MF_REGULARIZER, regularizer_options, NULL,
                   "a term added to the loss; up to 256 sections");
const mf_section mf_controller_sections =
    PLUGIN_SECTION("controller.", MF_CONTROLLER, controller_options, NULL,
                   "looks after each step and turns live options; up to 256 sections");

/* ---- rules ---- */

void mf_model_config_settle(mf_model_config *m)
{
    if (m->kv_heads == 0) m->kv_heads = m->heads;
    if (m->ffn_hidden == 0) m->ffn_hidden = 4 * m->dim;
}

static void judge_rope(mf_config_faults *j, const mf_model_config *m)
{
    const bool by_length = m->rope_scaling == MF_ROPE_YARN || m->rope_scaling == MF_ROPE_LLAMA3;
    if (m->rope_dims > mf_model_head_dim(m) || m->rope_dims % 2 != 0)
        mf_config_fault(j, "model", "rope_dims", "model.head_dim", NULL,
                        "expected an even number up to the width of a head (%lld), found %lld",
                        (long long)mf_model_head_dim(m), (long long)m->rope_dims);
    if (by_length && m->rope_original <= 0)
        mf_config_fault(j, "model", "rope_original", "model.rope_scaling", NULL,
                        "rope_scaling = %s wants the length before scaling, found 0",
                        rope_scalings[m->rope_scaling]);
    if (m->rope_scaling == MF_ROPE_GIVEN && m->rope_original > 0 &&
        m->rope_original < (double)m->seq)
        mf_config_fault(j, "model", "seq", "model.rope_original", NULL,
                        "expected at most %g: longer sequences have other factors of rope, "
                        "found %lld",
                        m->rope_original, (long long)m->seq);
    if (m->rope_scaling == MF_ROPE_YARN && m->rope_theta <= 1)
        mf_config_fault(j, "model", "rope_theta", "model.rope_scaling", NULL,
                        "rope_scaling = yarn wants more than 1, found %g", m->rope_theta);
    if (m->rope_scaling == MF_ROPE_LLAMA3 && m->rope_high < m->rope_low)
        mf_config_fault(j, "model", "rope_high", "model.rope_low", NULL,
                        "expected at least rope_low (%g), found %g", m->rope_low, m->rope_high);
}

/* Returns the key that cannot be combined with latent attention; NULL: no such key is set. */
static const char *not_latent(const mf_model_config *m)
{
    if (m->kv_heads > 0 && m->kv_heads != m->heads) return "kv_heads";
    if (m->qk_norm != MF_QK_NONE) return "qk_norm";
    if (m->clip_qkv > 0) return "clip_qkv";
    if (m->attention_gate) return "attention_gate";
    if (m->window_chunks) return "window_chunks";
    if (m->query_growth > 0) return "query_growth";
    return m->sinks ? "sinks" : NULL;
}

static void judge_latent(mf_config_faults *j, const mf_model_config *m)
{
    const long long hd = mf_model_head_dim(m), r = m->rope_dims;
    if (m->latent == 0) {
        if (m->latent_q > 0 || m->value_dim > 0)
            mf_config_fault(j, "model", m->latent_q > 0 ? "latent_q" : "value_dim",
                            "model.latent", NULL, "it wants model.latent > 0");
        return;
    }
    if (not_latent(m))
        mf_config_fault(j, "model", not_latent(m), "model.latent", NULL,
                        "expected its default with model.latent > 0");
    if (r == 0 || r >= hd)
        mf_config_fault(j, "model", "rope_dims", "model.latent", NULL,
                        "model.latent wants 2 .. head_dim - 1 (%lld), found %lld", hd - 1, r);
    if (m->latent + r > MF_MAX_HEAD_DIM)
        mf_config_fault(j, "model", "latent", "model.rope_dims", NULL,
                        "expected latent + rope_dims <= %d, found %lld", MF_MAX_HEAD_DIM,
                        (long long)m->latent + r);
}

static void judge_list(mf_config_faults *j, const char *key, const char *layers)
{
    bool bad;
    mf_model_in_layers(layers, 0, &bad);
    if (bad)
        mf_config_fault(j, "model", key, NULL, NULL,
                        "expected all, or numbers of blocks from 0 as 2-5 or 0,3, found '%s'",
                        layers);
}

/* Checks a list of blocks that have something else in place of attention. */
static void judge_mixers(mf_config_faults *j, const mf_model_config *m, const char *key,
                         const char *layers)
{
    bool bad, both = false;
    int64_t n = 0;
    if (layers[0] == '\0') return;
    judge_list(j, key, layers);
    for (int64_t l = 0; l < m->layers; l++) {
        n += mf_model_in_layers(layers, l, &bad);
        both = both || (mf_model_in_layers(m->delta_layers, l, &bad) &&
                        mf_model_in_layers(m->conv_layers, l, &bad));
    }
    if (m->task != MF_TASK_LM || !m->causal || !m->attention)
        mf_config_fault(j, "model", key, "model.task", NULL,
                        "expected no blocks, unless task is lm, with causal and attention");
    if (both)
        mf_config_fault(j, "model", key, NULL, NULL,
                        "expected no block that is in delta_layers and in conv_layers");
    if (m->share_layers && n > 0 && n < m->layers)
        mf_config_fault(j, "model", key, "model.share_layers", NULL,
                        "expected all blocks or none, because blocks share weights");
}

static void judge_model(mf_config_faults *j, const mf_model_config *m)
{
    long long dim = m->dim, heads = m->heads, kv_heads = m->kv_heads;
    const long long hd = mf_model_head_dim(m);
    bool bad;
    if (m->head_dim == 0 && dim % heads != 0)
        mf_config_fault(j, "model", "heads", "model.dim", NULL,
                        "expected a divisor of dim (%lld), or model.head_dim, found %lld", dim,
                        heads);
    else if (m->position == MF_POS_ROPE && hd % 2 != 0)
        mf_config_fault(j, "model", m->head_dim ? "head_dim" : "heads", "model.dim", NULL,
                        "rope wants an even width a head, found %s = %lld",
                        m->head_dim ? "head_dim" : "dim / heads", hd);
    if (m->attention && hd > MF_MAX_HEAD_DIM)
        mf_config_fault(j, "model", "heads", "model.dim", NULL,
                        "expected heads of width %d at most, found dim / heads = %lld",
                        MF_MAX_HEAD_DIM, hd);
    if (m->window > 0 && !m->causal)
        mf_config_fault(j, "model", "window", "model.causal", NULL,
                        "expected 0 without model.causal, found %lld", (long long)m->window);
    judge_list(j, "window_layers", m->window_layers);
    judge_list(j, "rope_layers", m->rope_layers);
    judge_list(j, "qk_norm_layers", m->qk_norm_layers);
    if (m->rope_plain_layers[0] != '\0')
        judge_list(j, "rope_plain_layers", m->rope_plain_layers);
    if (m->delta_heads % m->delta_key_heads != 0)
        mf_config_fault(j, "model", "delta_key_heads", "model.delta_heads", NULL,
                        "expected a divisor of delta_heads (%lld), found %lld",
                        (long long)m->delta_heads, (long long)m->delta_key_heads);
    judge_mixers(j, m, "delta_layers", m->delta_layers);
    judge_mixers(j, m, "conv_layers", m->conv_layers);
    judge_rope(j, m);
    judge_latent(j, m);
    if (m->token_types > 0 && m->task == MF_TASK_LM)
        mf_config_fault(j, "model", "token_types", "model.task", NULL,
                        "expected 0 with task = lm, found %lld", (long long)m->token_types);
    if (m->pooler && !mf_task_by_row(m->task))
        mf_config_fault(j, "model", "pooler", "model.task", NULL,
                        "expected no, unless task is classify or regress");
    if (m->dense_layers[0] != '\0' && (mf_model_in_layers(m->dense_layers, 0, &bad), bad))
        mf_config_fault(j, "model", "dense_layers", NULL, NULL,
                        "expected numbers of blocks from 0 as 2-5 or 0,3, found '%s'",
                        m->dense_layers);
    if (m->kv_heads > 0 && heads % kv_heads != 0)
        mf_config_fault(j, "model", "kv_heads", "model.heads", NULL,
                        "expected a divisor of heads (%lld), found %lld", heads, kv_heads);
    if (m->positions > 0 && m->positions < m->seq)
        mf_config_fault(j, "model", "positions", "model.seq", NULL,
                        "expected at least seq (%lld), found %lld", (long long)m->seq,
                        (long long)m->positions);
    if (m->cache_start > 0 &&
        (m->position == MF_POS_SINUSOIDAL || m->position == MF_POS_LEARNED))
        mf_config_fault(j, "model", "cache_start", "model.position", NULL,
                        "expected 0 with positions that end with model.seq, found %lld",
                        (long long)m->cache_start);
}

static void judge_tasks(mf_config_faults *j, const mf_model_settings *c)
{
    const bool by_row = mf_task_by_row(c->model.task);
    for (int i = 0; i < c->n_tasks; i++) {
        const mf_task_section *t = &c->tasks[i];
        if (!by_row)
            mf_config_fault(j, t->section, "task", NULL, NULL,
                            "further tasks want model.task = classify or regress");
        if (strcmp(t->name, "main") == 0)
            mf_config_fault(j, t->section, "task", NULL, NULL,
                            "'main' is the name of model.task; expected another one");
    }
    if (c->n_tasks == 0 && c->model.task_weight != 1)
        mf_config_fault(j, "model", "task_weight", NULL, NULL,
                        "expected 1 without sections [task.NAME], found %g",
                        c->model.task_weight);
}

void mf_moe_config_settle(mf_moe_config *m)
{
    if (m->renormalize == MF_RENORMALIZE_AUTO)
        m->renormalize = m->top_k > 1 ? MF_RENORMALIZE_YES : MF_RENORMALIZE_NO;
}

static void judge_moe(mf_config_faults *j, const mf_model_settings *s)
{
    const mf_moe_config *m = &s->moe;
    bool latent = m->latent > 0;
    for (int i = 0; i < s->n_blocks; i++)
        latent = latent || s->blocks[i].latent > 0;
    if (m->latent_norm != MF_LATENT_NO_NORM && !latent)
        mf_config_fault(j, "moe", "latent_norm", "moe.latent", NULL,
                        "it is about moe.latent, which is 0 here");
    if (m->latent > s->model.dim)
        mf_config_fault(j, "moe", "latent", "model.dim", NULL,
                        "expected at most model.dim (%lld), found %lld",
                        (long long)s->model.dim, (long long)m->latent);
    if (m->top_k > m->experts)
        mf_config_fault(j, "moe", "top_k", "moe.experts", NULL,
                        "expected at most as many as experts (%lld), found %lld",
                        (long long)m->experts, (long long)m->top_k);
    if (m->admit == MF_ADMIT_RANK && m->priority != MF_PRIORITY_POSITION &&
        m->priority != MF_PRIORITY_DRAWN)
        mf_config_fault(j, "moe", "admit", "moe.priority", NULL,
                        "expected token, or priority = position or drawn, found rank and %s",
                        priorities[m->priority]);
    if (m->shared_experts == 0 && (m->shared_hidden > 0 || m->shared_gate))
        mf_config_fault(j, "moe", m->shared_gate ? "shared_gate" : "shared_hidden",
                        "moe.shared_experts", NULL,
                        "it is about shared experts, and moe.shared_experts is 0");
}

void mf_model_config_judge(mf_config_faults *j, const mf_model_settings *s)
{
    judge_model(j, &s->model);
    judge_tasks(j, s);
    judge_moe(j, s);
    mf_block_config_judge(j, s);
}
