#include "model/config_tables.h"

#include <math.h>
#include <string.h>

#define BIG INFINITY /* no bound but that of the type */

#define WITH_AUTO(conf, field, def, lo, hi, help)                                              \
    {                                                                                          \
#field, help, def, MF_OPT_INT, 0, offsetof(conf, field), lo, hi, automatic             \
    }
#define INT(conf, field, def, lo, hi, help)  MF_OPTION_INT(conf, field, def, lo, hi, 0, help)
#define REAL(conf, field, def, lo, hi, help) MF_OPTION_REAL(conf, field, def, lo, hi, 0, help)
#define BOOL(conf, field, def, help)         MF_OPTION_BOOL(conf, field, def, 0, help)
#define ENUM                                 MF_OPTION_ENUM
#define STR                                  MF_OPTION_STR

static const char *const automatic[] = {"auto", NULL}; /* 0 */

static const char *const tasks[] = {"lm", "classify", "mlm", "regress", NULL};
static const char *const norms[] = {"rmsnorm", "layernorm", NULL};
static const char *const norm_places[] = {"pre", "post", NULL};
static const char *const position_kinds[] = {"rope", "sinusoidal", "learned", "none", NULL};
static const char *const activations[] = {"relu", "gelu", "swiglu", NULL};
static const char *const gate_forms[] = {"sigmoid", "raw", NULL};
static const char *const gate_starts[] = {"even", "middle", NULL};
static const char *const head_norms[] = {"none", "token", "batch", NULL};
static const char *const skips[] = {"none", "unet", NULL};
static const char *const skip_forms[] = {"linear", "residual", NULL};
static const char *const skip_rules[] = {"deeper_less", "deeper_more", "constant", NULL};

static const char *const scale_dims[] = {"head_dim", "model_dim", NULL};
static const char *const starts[] = {"normal", "uniform", "uniform_xavier", NULL};
static const char *const pools[] = {"first", "mean", NULL};

static const mf_option model_options[] = {
    ENUM(mf_model_config, task, "lm", tasks,
         "what is learned: the next token, a class, masked tokens, or a number"),
    INT(mf_model_config, dim, "128", 1, 65536, "width of the residual stream"),
    INT(mf_model_config, layers, "4", 1, 1024, "number of blocks"),
    INT(mf_model_config, heads, "4", 1, 1024, "attention heads a block"),
    WITH_AUTO(mf_model_config, kv_heads, "auto", 0, 1024,
              "heads of keys and values (grouped-query attention); auto: as heads"),
    INT(mf_model_config, seq, "128", 1, 1048576, "tokens a sequence, at most"),
    WITH_AUTO(mf_model_config, vocab, "auto", 0, 16777216,
              "token ids; auto: as the tokenizer has"),
    ENUM(mf_model_config, norm, "rmsnorm", norms, "kind of normalisation"),
    ENUM(mf_model_config, norm_place, "pre", norm_places,
         "normalise before each half block, or after it"),
    ENUM(mf_model_config, position, "rope", position_kinds, "how tokens know their place"),
    REAL(mf_model_config, norm_eps, "1e-5", 1e-12, 1,
         "added to the mean square, or the variance"),
    BOOL(mf_model_config, norm_eps_outside, "no",
         "rmsnorm: add norm_eps to the root, not under it"),
    REAL(mf_model_config, rope_theta, "10000", 1, 1e9, "rope: base of the wavelengths"),
    BOOL(mf_model_config, rope_half, "no",
         "rope: pair channel i with i + half, not with its neighbour"),
    BOOL(mf_model_config, attention_bias, "no", "biases on queries, keys and values"),
    BOOL(mf_model_config, attention_out_bias, "no", "bias on the attention output"),
    REAL(mf_model_config, attention_scale, "0", 0, 1e6,
         "factor on attention scores; 0: as attention_scale_by says"),
    ENUM(mf_model_config, attention_scale_by, "head_dim", scale_dims,
         "attention scores over the root of the width of a head, or of the model (LaMoE)"),
    BOOL(mf_model_config, causal, "yes", "lm: a token sees only what stands before it"),
    BOOL(mf_model_config, tie_embeddings, "no",
         "the output head shares the embedding's weights"),
    BOOL(mf_model_config, head_bias, "no", "bias on the output head"),
    REAL(mf_model_config, logit_scale, "1", 1e-3, 1e3, "factor on the output head's logits"),
    WITH_AUTO(mf_model_config, ffn_hidden, "auto", 0, 1048576,
              "hidden width of dense blocks; auto: 4 x dim"),
    ENUM(mf_model_config, ffn_activation, "swiglu", activations,
         "nonlinearity of dense blocks"),
    INT(mf_model_config, cache_start, "0", 0, 65536,
        "generate: places before the first token, which attention takes for zeros (LaMoE's "
        "code: 1)"),
    BOOL(mf_model_config, head_gates, "no",
         "a gate on each attention head, the sigmoid of a trained logit; heads can be pruned"),
    REAL(mf_model_config, gate_init, "3", -100, 100,
         "head_gates: logit that gates start with; gate_form = raw: the gate itself"),
    ENUM(mf_model_config, gate_form, "sigmoid", gate_forms,
         "head_gates: the sigmoid of a trained logit, or raw, a trained number cut to 0 to 1"),
    ENUM(mf_model_config, gate_start, "even", gate_starts,
         "head_gates: all alike, or middle: times 1 - 0.1 d, d the distance from the middle "
         "head, 1 "
         "for the first and the last"),
    BOOL(mf_model_config, gate_bias, "no",
         "head_gates: the bias on the attention output is gated, a head's share each: b sum(g) "
         "/ heads"),
    REAL(mf_model_config, gate_lr, "1", 0, 1e3, "head_gates: factor on their learning rate"),
    ENUM(mf_model_config, head_norm, "none", head_norms,
         "each head's output, before its gate, over its length (token), or over the mean "
         "length of all "
         "tokens of the batch, later ones too (batch: a constant to the gradient; no cache)"),
    BOOL(mf_model_config, head_mean, "no",
         "attention is the sum of its heads' outputs and the bias over the number of heads"),
    ENUM(mf_model_config, skip, "none", skips,
         "unet: the first half's blocks feed the second half's"),
    ENUM(mf_model_config, skip_form, "linear", skip_forms,
         "unet: h' = Linear([h_enc; h]), or h + scale Linear([h; h_enc])"),
    ENUM(mf_model_config, skip_rule, "deeper_less", skip_rules,
         "residual: share of skip_scale by progress p through the second half: 1 - p / 2, 1 + "
         "p, 1"),
    REAL(mf_model_config, skip_scale, "0.1", -1e3, 1e3,
         "residual: factor on skips; 0 switches skips of both forms off"),
    REAL(mf_model_config, skip_lr, "1", 0, 1e3, "unet: factor on the skips' learning rate"),
    INT(mf_model_config, moe_every, "1", 0, 1024,
        "experts in every n-th block, dense otherwise; 0: a dense model"),
    REAL(mf_model_config, init_std, "0.02", 0, 10, "standard deviation of start weights"),
    BOOL(mf_model_config, attention, "yes",
         "self-attention in each block; no: only experts see other tokens, if they do"),
    ENUM(mf_model_config, init, "normal", starts,
         "start weights: N(0, init_std); U(-1, 1) / sqrt(inputs) and embeddings N(0, 1); or so "
         "with queries, keys and values by Xavier"),
    BOOL(mf_model_config, share_layers, "no",
         "blocks share attention, router and experts; norms are their own"),
    BOOL(mf_model_config, layers_alike, "no", "all blocks begin with equal weights"),
    ENUM(mf_model_config, pool, "first", pools,
         "classify, regress: what the answer is read from, the first token or the mean of all"),
    REAL(mf_model_config, ffn_dropout, "0", 0, 0.99,
         "dropout behind the nonlinearity of dense blocks"),
    REAL(mf_model_config, head_dropout, "0", 0, 0.99, "dropout before the output head"),
    WITH_AUTO(mf_model_config, classes, "auto", 0, 65536,
              "classify: most classes that data may have; a model has those that they have; "
              "auto: any"),
    REAL(mf_model_config, task_weight, "1", 0, 1e9,
         "factor on the loss of task where [task.NAME] sections add theirs"),
    MF_END_OPTIONS};

static const char *const further_tasks[] = {"classify", "regress", "none", NULL};

static const mf_option task_options[] = {
    ENUM(mf_task_section, task, "classify", further_tasks,
         "what is learned: a class, a number, or nothing: no such task"),
    STR(mf_task_section, column, "",
        "column of its label, jsonl: member; empty: the one called NAME"),
    REAL(mf_task_section, weight, "1", 0, 1e9, "factor on its loss"),
    WITH_AUTO(mf_task_section, classes, "auto", 0, 65536,
              "classify: most classes that data may have; a model has those that they have; "
              "auto: any"),
    MF_END_OPTIONS};

static const char *const overflows[] = {"drop", "reassign", NULL};
static const char *const priorities[] = {"position", "gate", "importance",
                                         "drawn",    "time", NULL};
static const char *const choices_of_gate[] = {"new", "first", NULL};
static const char *const dropped_ways[] = {"residual", "input", "scaled_input", NULL};

static const mf_option moe_options[] = {
    INT(mf_moe_config, experts, "8", 1, 4096, "experts a layer"),
    INT(mf_moe_config, top_k, "2", 1, 4096, "experts a token"),
    REAL(mf_moe_config, capacity_factor, "0", 0, 1e6,
         "rows an expert takes, in even shares; 0: all that come (dropless)"),
    ENUM(mf_moe_config, overflow, "drop", overflows, "what becomes of rows over capacity"),
    ENUM(mf_moe_config, priority, "position", priorities,
         "which rows are admitted first: those of the first sequences, of the largest gate, of "
         "the longest vector, drawn ones, or the early ones of every sequence; a router's own "
         "goes before (tia_r)"),
    REAL(mf_moe_config, adaptive_capacity, "0", 0, 1e3,
         "k: expert i with n rows takes k max(0, n - even share) more; 0: none"),
    REAL(mf_moe_config, adaptive_limit, "0.5", 0, 1e3,
         "adaptive_capacity adds at most this share of the capacity"),
    INT(mf_moe_config, max_reassign, "0", 0, INT32_MAX,
        "overflow reassign: most rows a layer and batch; 0: all"),
    ENUM(mf_moe_config, reassign_gate, "new", choices_of_gate,
         "a reassigned row's gate is its new expert's, or its first choice's"),
    ENUM(mf_moe_config, dropped, "residual", dropped_ways,
         "a dropped row adds nothing, the layer's input, or the input times its gate"),
    BOOL(mf_moe_config, unit_gates, "no",
         "gates are 1 in value and keep their gradient: p / detach(p)"),
    INT(mf_moe_config, shared_experts, "0", 0, 4096, "experts that every token visits besides"),
    BOOL(mf_moe_config, renormalize, "yes", "gates of a token sum to 1"),
    REAL(mf_moe_config, gate_scale, "1", 0, 1e6, "factor on all gates"),
    BOOL(mf_moe_config, force_causal, "no", "allow routers that look ahead in a decoder"),
    MF_END_OPTIONS};

static const mf_option router_options[] = {
    STR(mf_plugin_section, plugin, NULL, "name or path of the plugin; its own options follow"),
    MF_END_OPTIONS};

static const mf_option regularizer_options[] = {
    STR(mf_plugin_section, plugin, NULL,
        "name or path of the plugin, none: no such term; if absent, NAME"),
    REAL(mf_plugin_section, weight, "1", -1e9, 1e9, "factor on its term in the loss"),
    MF_END_OPTIONS};

static const mf_option controller_options[] = {
    STR(mf_plugin_section, plugin, NULL,
        "name or path of the plugin, none: no such controller; if absent, NAME"),
    INT(mf_plugin_section, every, "1", 1, BIG, "runs after every so many steps"),
    MF_END_OPTIONS};

static const char *const film_modes[] = {"off", "per_expert", "shared", NULL};

static const char *const film_arounds[] = {"one", "zero", NULL};

static const mf_option film_options[] = {
    ENUM(mf_film_config, mode, "off", film_modes,
         "scale and shift made from the token, an own pair for each expert or one for all"),
    ENUM(mf_film_config, around, "one", film_arounds,
         "what is added to the scales that the weights make: 1, so that they begin near it, or "
         "0"),
    MF_END_OPTIONS};

static const char *const picks[] = {"first", "drawn", NULL};
static const char *const id_widths[] = {"auto", "16", "32", NULL};
static const char *const paddings[] = {"max", "batch", NULL};

static const mf_option data_options[] = {
    STR(mf_data_config, path, "builtin:topics",
        "file, or builtin:topics (a generated corpus with known topics)"),
    STR(mf_data_config, format, "text", "text, jsonl, tsv or bin"),
    STR(mf_data_config, tokenizer, "byte",
        "byte, char, bpe, bpe_bytes, wordpiece, or a tokenizer file"),
    REAL(mf_data_config, split, "0.9", 0.001, 1,
         "share that is trained on; the rest validates"),
    STR(mf_data_config, val_path, "", "validation file; empty: the rest of path"),
    INT(mf_data_config, limit, "0", 0, BIG, "documents or examples of path to use; 0: all"),
    ENUM(mf_data_config, pick, "first", picks,
         "which these are; drawn ones are the same for every seed"),
    STR(mf_data_config, first_column, "",
        "tsv with a header: column of the sentence, or the first of two; empty: by its usual "
        "name"),
    STR(mf_data_config, second_column, "",
        "column of the second sentence, none: there is none; empty: by its usual name"),
    STR(mf_data_config, label_column, "",
        "column of the label, jsonl: member; empty: by its usual name"),
    ENUM(mf_data_config, padding, "max", paddings,
         "examples and documents are padded to model.seq, or to the longest of the batch"),
    BOOL(mf_data_config, pad_mask, "yes",
         "padding is hidden from attention, routers and measurements; no: it counts as tokens"),
    BOOL(mf_data_config, clean, "no",
         "text, and prompts: write contractions out, leave only letters, digits, . and %"),
    INT(mf_data_config, stride, "0", 0, INT32_MAX,
        "windows begin at every n-th token, each once an epoch; 0: anywhere, drawn"),
    BOOL(mf_data_config, split_windows, "no",
         "deal windows to training and validation, not text: they overlap; wants stride"),
    ENUM(mf_data_config, bin_bits, "auto", id_widths,
         "bits of an id in token files without a header (auto: 16)"),
    MF_END_OPTIONS};

static const char *const optimizers[] = {"adamw", "adam", NULL};
static const char *const schedules[] = {"cosine", "linear", "constant", "step", NULL};
const char *const mf_config_dtypes[] = {"f32", "bf16", NULL}; /* mf_dtype */
static const char *const recomputed[] = {"none", "light", "block", NULL}; /* mf_recompute */
static const char *const bests[] = {"loss",    "accuracy", "macro_f1", "mse",
                                    "pearson", "spearman", NULL};
static const char *const nan_policies[] = {"stop", "skip", NULL};

static const mf_option train_options[] = {
    INT(mf_train_config, steps, "1000", 0, BIG, "optimizer steps; 0: as epochs says"),
    REAL(mf_train_config, epochs, "0", 0, 1e9,
         "passes over the training data, instead of steps"),
    INT(mf_train_config, batch, "16", 1, 1048576, "sequences a graph run"),
    INT(mf_train_config, accumulate, "1", 1, 1048576, "runs whose gradients make one step"),
    ENUM(mf_train_config, optimizer, "adamw", optimizers,
         "adamw, or adam with decay inside the gradient"),
    REAL(mf_train_config, lr, "0.001", 0, 1e3, "highest learning rate"),
    REAL(mf_train_config, lr_min, "0.1", 0, 1,
         "cosine, linear: share of lr that is left at the end"),
    ENUM(mf_train_config, schedule, "cosine", schedules, "how the learning rate falls"),
    INT(mf_train_config, warmup, "50", 0, BIG, "steps over which it rises first"),
    INT(mf_train_config, step_size, "1000", 1, BIG, "schedule step: falls every so many steps"),
    REAL(mf_train_config, step_epochs, "0", 0, 1e9,
         "schedule step: passes over the data instead of step_size; 0: as step_size says"),
    REAL(mf_train_config, step_gamma, "0.1", 0, 1, "schedule step: to this share"),
    REAL(mf_train_config, weight_decay, "0.1", 0, 1e3,
         "pull of weights towards 0 (norms, biases and embeddings excepted)"),
    BOOL(mf_train_config, decay_all, "no", "pull norms, biases and embeddings, too"),
    REAL(mf_train_config, beta1, "0.9", 0, 0.999999999, "memory of the gradient's mean"),
    REAL(mf_train_config, beta2, "0.95", 0, 0.999999999, "memory of the gradient's square"),
    REAL(mf_train_config, eps, "1e-8", 0, 1, "added to the root of the square"),
    REAL(mf_train_config, clip, "1", 0, 1e9, "longest gradient; 0: any"),
    REAL(mf_train_config, dropout, "0", 0, 0.99,
         "share of activations set to 0 while training"),
    BOOL(mf_train_config, dropout_embedding, "yes", "dropout on embeddings, too"),
    INT(mf_train_config, seed, "1", 0, BIG,
        "start weights, order of data, dropout: all follow from it"),
    INT(mf_train_config, log_every, "10", 1, BIG, "steps between lines of metrics.jsonl"),
    INT(mf_train_config, eval_every, "100", 0, BIG,
        "steps between validations; 0: only at the end"),
    REAL(mf_train_config, eval_epochs, "0", 0, 1e9,
         "passes over the data between validations; 0: as eval_every says"),
    INT(mf_train_config, eval_batches, "8", 0, BIG,
        "batches of a validation on the way; 0, and at the end: the whole split"),
    BOOL(mf_train_config, eval_train, "no",
         "with each validation measure eval_batches of the training data: split train_eval"),
    BOOL(mf_train_config, keep_best, "no",
         "keep the checkpoint of the best validation in RUN/best"),
    ENUM(
        mf_train_config, best_by, "loss", bests,
        "what tells the best validation: the lowest loss or mse, or the highest of the others"),
    INT(mf_train_config, eval_context, "0", 0, 1048576,
        "tokens by which validation windows overlap: known before each prediction that counts"),
    INT(mf_train_config, save_every, "500", 0, BIG,
        "steps between checkpoints; 0: only at the end"),
    INT(mf_train_config, keep, "3", 1, BIG, "checkpoints kept"),
    REAL(mf_train_config, time_limit, "0", 0, 1e9,
         "seconds, then a checkpoint and exit status 75; 0: none"),
    ENUM(mf_train_config, dtype, "f32", mf_config_dtypes,
         "numbers that products are made of; weights, sums, norms, routers and losses stay "
         "f32"),
    STR(mf_train_config, from, "",
        "run whose newest weights this one begins with; empty: drawn by the seed"),
    ENUM(mf_train_config, recompute, "none", recomputed,
         "what the backward pass computes again to save memory: light: norms, gates, gathered "
         "rows; "
         "block: all between residual sums, of all blocks but the last"),
    STR(mf_train_config, device, "cpu", "cpu, cuda or cuda:N"),
    INT(mf_train_config, threads, "0", 0, 4096, "0: all cores; results do not depend on it"),
    ENUM(mf_train_config, nan_policy, "stop", nan_policies,
         "on NaN or Inf: stop, or skip up to 3 steps in a row"),
    MF_END_OPTIONS};

static const mf_option report_options[] = {
    BOOL(mf_report_config, enabled, "yes", "write report.html at the end of training"),
    INT(mf_report_config, samples, "4", 0, 16,
        "evaluations at which the routing of a stretch of text is kept for pictures, evenly "
        "spread"),
    STR(mf_report_config, sample_at, "",
        "numbers of these evaluations, as 1,5,15,20; empty: as samples says"),
    MF_END_OPTIONS};

static const mf_option trace_options[] = {
    INT(mf_trace_config, every, "0", 0, BIG,
        "record the routing of each n-th validation batch; 0: none"),
    MF_END_OPTIONS};

#define SECTION(label, field, options, help)                                                   \
    {                                                                                          \
        label, help, options, sizeof(((mf_config *)0)->field), offsetof(mf_config, field),     \
            false                                                                              \
    }
#define PLUGIN_SECTION(label, options, help)                                                   \
    {                                                                                          \
        label, help, options, sizeof(mf_plugin_section), 0, true                               \
    }

const mf_config_section mf_config_sections[] = {
    SECTION("model", model, model_options, "the shape of the transformer"),
    {"task.",
     "one more thing that is learned of each example, on the same encoder; any number up to 8",
     task_options, sizeof(mf_task_section), 0, false},
    SECTION("moe", moe, moe_options, "experts and how rows are dealt to them"),
    PLUGIN_SECTION("router", router_options, "which experts, with what weight"),
    PLUGIN_SECTION("expert", router_options, "what an expert computes"),
    SECTION("film", film, film_options, "modulation of expert outputs by the token"),
    PLUGIN_SECTION("regularizer.", regularizer_options,
                   "a term added to the loss; any number of sections"),
    PLUGIN_SECTION("controller.", controller_options,
                   "looks after each step and turns live options; any number of sections"),
    SECTION("data", data, data_options, "what is read"),
    SECTION("train", train, train_options, "the training loop"),
    SECTION("report", report, report_options, "the page written at the end"),
    SECTION("trace", trace, trace_options, "recorded routing"),
    {NULL, NULL, NULL, 0, 0, false},
};

const mf_config_section *mf_config_section_find(const char *name)
{
    for (const mf_config_section *s = mf_config_sections; s->name != NULL; s++) {
        size_t n = strlen(s->name);
        bool prefix =
            s->name[n - 1] == '.' && strncmp(s->name, name, n) == 0 && name[n] != '\0';
        if (prefix || strcmp(s->name, name) == 0) return s;
    }
    return NULL;
}
