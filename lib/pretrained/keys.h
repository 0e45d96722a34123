/* pretrained/keys.h: reads the keys of a config.json and collects our settings.
 *
 * A missing key has the value of the family's table of defaults, which is the value of
 * transformers (the table is in the family's file). null is a value: functions with `_or` have
 * an argument for it, the others refuse it, as transformers does. A name may list spellings,
 * separated by '|': the first spelling in the file is read, and the last is used in the table.
 * A name "a.b" means the key b in the object a.
 * A reading keeps its first error in `rc`. After an error, calls do nothing, so a family checks
 * once, at the end. All errors are MF_EINPUT with file and key named, or MF_ENOMEM. */
#ifndef MF_PRETRAINED_KEYS_H
#define MF_PRETRAINED_KEYS_H

#include "base/error.h"
#include "base/mem.h"
#include "io/json.h"
#include "pretrained/weights/packed.h"

enum { MF_KEYS_SET_MAX = 256 };

/* The value of a key that config.json does not contain, as text: "32000", "silu", "null". */
typedef struct mf_key_default {
    const char *key; /* NULL: end of the table */
    const char *value;
} mf_key_default;

/* The names of the keys that were read, with all spellings. */
typedef struct mf_keys_asked {
    const char *name[128];
    int n;
} mf_keys_asked;

typedef struct mf_keys {
    const char *path; /* path of config.json, for messages */
    const mf_json *json;
    const mf_key_default *defaults; /* defaults of the family; NULL: none */
    mf_arena *arena;
    mf_keys_asked *asked; /* NULL: the names are not collected */
    int rc;
    const char *set[MF_KEYS_SET_MAX]; /* [n] assignments "section.key=value" */
    int n;
    /* Numbers that are used to expand names of tensors and to compute their parts. */
    int64_t vocab, seq, dim, layers, heads, kv_heads, head_dim;
    int64_t experts; /* number of experts; 0: a dense model */
    /* [layers] number of experts of each block, if blocks differ (match.h); NULL: they
     * do not */
    const int64_t *layer_experts;
    bool whole;         /* the folder has more than the text model, whose keys these are */
    int64_t classes;    /* number of classes of a classifier; else 0 */
    mf_packing packing; /* what quantization_config says */
    bool tied;          /* the output head shares the embedding's weights */
    /* the only partial_rotary_factor other than 1 that scaled rope may have, since the family
     * counts rotated values by another key; 0: none */
    double rope_share;
    /* [n_rope_factors] factors on the angles of rope, for the buffer rope.factor; NULL: none */
    const double *rope_factors;
    int64_t n_rope_factors;
} mf_keys;

/* Returns the value, an integer from lo to hi. */
int64_t mf_keys_int(mf_keys *k, const char *name, int64_t lo, int64_t hi);
double mf_keys_real(mf_keys *k, const char *name);
bool mf_keys_bool(mf_keys *k, const char *name);
/* The same as mf_keys_int, for keys that may be null, in config.json or in the table, or that
 * have no default. `null` is then returned. */
int64_t mf_keys_int_or(mf_keys *k, const char *name, int64_t null, int64_t lo, int64_t hi);
double mf_keys_real_or(mf_keys *k, const char *name, double null);
bool mf_keys_bool_or(mf_keys *k, const char *name, bool null);
/* Returns the default of a key; NULL: there is none, or it is null. */
const char *mf_keys_usual(const mf_keys *k, const char *name);
/* Whether the value is this text. */
bool mf_keys_is(const mf_keys *k, const char *name, const char *text);
/* Whether the key exists and is not null. */
bool mf_keys_has(const mf_keys *k, const char *name);
/* Adds an assignment of our configuration, "model.dim=%lld". It replaces an earlier assignment
 * to the same option. */
void mf_keys_set(mf_keys *k, const char *fmt, ...) MF_PRINTF(2, 3);
/* Returns the value that was set for one of our options; NULL: none was set. */
const char *mf_keys_setting(const mf_keys *k, const char *section, const char *key);
/* Records that a key's value cannot be imported. */
void mf_keys_refuse(mf_keys *k, const char *name, const char *fmt, ...) MF_PRINTF(3, 4);

/* ---- groups of keys that several families share ---- */

/* Refuses the key `name` unless its value, or its default, is one of the texts in `names`,
 * which are separated by '|'. */
void mf_keys_expect_text(mf_keys *k, const char *name, const char *names);
/* Reads sizes and settings of a decoder with rmsnorm, rope (i with i + half) and SwiGLU: vocab,
 * dim, layers, heads, kv_heads, head_dim, seq, norm_eps, tied embeddings. */
void mf_keys_decoder(mf_keys *k);
/* The same, for a family that has other names for the keys rms_norm_eps and hidden_act.
 * activation NULL: the family has no such key. */
void mf_keys_decoder_by(mf_keys *k, const char *norm_eps, const char *activation);
/* Reads attention_bias: whether queries, keys, values and the attention output have biases. */
void mf_keys_attention_bias(mf_keys *k);
/* Sets a sliding window of `width` tokens. If types is set and the key layer_types exists, it
 * names the blocks. Otherwise they are the blocks from `begin` to end - 1 whose number is a
 * multiple of step. A window that is not shorter than the longest sequence is not set. */
void mf_keys_window(mf_keys *k, int64_t width, bool types, int64_t step, int64_t begin,
                    int64_t end);
/* Sets rope in the blocks for which the key has a number other than 0, or in all blocks if it
 * is null. */
void mf_keys_rope_blocks(mf_keys *k, const char *name);
/* Sets rope in all blocks except each `step`-th block. */
void mf_keys_rope_except(mf_keys *k, int64_t step);
/* Sets rope in the blocks that layer_types calls sliding_attention. */
void mf_keys_rope_sliding(mf_keys *k);
/* The same as mf_keys_window, in all blocks except each `step`-th block. */
void mf_keys_window_except(mf_keys *k, int64_t width, int64_t step);
/* The same as mf_keys_window, in the blocks for which `is` returns true. */
void mf_keys_window_where(mf_keys *k, int64_t width, bool (*is)(mf_keys *k, int64_t layer));
/* Sets an option of [model] to the list of blocks for which `is` returns true, if there
 * are any. */
void mf_keys_blocks_where(mf_keys *k, const char *option,
                          bool (*is)(mf_keys *k, int64_t layer));
/* Sets rope in the blocks for which `is` returns true. */
void mf_keys_rope_where(mf_keys *k, bool (*is)(mf_keys *k, int64_t layer));
/* Makes the blocks for which `is` returns true dense. Reads their width, intermediate_size. */
void mf_keys_dense_where(mf_keys *k, bool (*is)(mf_keys *k, int64_t layer));
/* Returns the list of blocks that layer_types calls sliding_attention, or without this key all
 * blocks except each `step`-th; NULL: there are none. */
const char *mf_keys_sliding(mf_keys *k, int64_t step);
/* Returns the width for mf_keys_window if use_sliding_window decides whether
 * sliding_window counts. */
int64_t mf_keys_optional_window(mf_keys *k);
/* Makes all blocks dense. Reads their width, intermediate_size. */
void mf_keys_dense(mf_keys *k);
/* Sets dense blocks between those with experts, from mlp_only_layers
 * and decoder_sparse_step. */
void mf_keys_dense_blocks(mf_keys *k);
/* Sets the dense blocks before those with experts. They are read from mlp_layer_types if this
 * key exists. Otherwise they are the first first_k_dense_replace blocks, or the first `usual`
 * blocks if that key is null or the family does not have it. */
void mf_keys_dense_first(mf_keys *k, int64_t usual);
/* Reads rope: its base, kind of scaling and numbers. They come from rope_scaling if it is not
 * empty, else from rope_parameters, else from the table. *ret_softmax: factor on attention
 * scores from mscale_all_dim, else 1; NULL: the family has none. */
void mf_keys_rope(mf_keys *k, double *ret_softmax);
/* Reads rope of a family with one set of numbers for blocks of full_attention, and another for
 * those of sliding_attention, which have no scaling. sliding: list of the latter; NULL: there
 * are none. usual: their base of rope, if config.json has none for them. */
void mf_keys_rope_kinds(mf_keys *k, const char *sliding, double usual);
/* After mf_keys_rope: reads the share of a head that is rotated, partial_rotary_factor, in the
 * object of rope or beside it. usual: the value if the family has no default for it. */
void mf_keys_partial_rope(mf_keys *k, double usual);
/* Reads the routed and the shared experts of DeepSeek-V3, in blocks of SwiGLU. The shared
 * experts are one expert with their total width. experts, shared (NULL: none), hidden: the keys
 * of their numbers and of their width. */
void mf_keys_shared_experts(mf_keys *k, const char *experts, const char *hidden,
                            const char *shared);
/* Reads the router of DeepSeek-V3: sigmoids, and a choice by score and bias, within the best
 * groups (n_group, topk_group). The bias of the trained model does not change unless the run
 * sets a rate. */
void mf_keys_sigmoid_router(mf_keys *k, double scale, bool renormalize);
/* Sets experts with a linear router and top-k of a softmax. `experts` and `hidden` name the
 * keys of their number and of their width. The regularizer of the family's auxiliary loss is
 * declared, with weight 0 unless the model outputs it. */
void mf_keys_experts(mf_keys *k, const char *experts, const char *hidden, bool renormalize);
/* The same, for a family that has other names for the keys num_experts_per_tok (per_token) and
 * router_aux_loss_coef (loss). */
void mf_keys_experts_by(mf_keys *k, const char *experts, const char *per_token,
                        const char *hidden, const char *loss, bool renormalize);

#endif
