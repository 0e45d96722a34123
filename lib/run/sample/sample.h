/* run/sample/sample.h: the routing of a short validation text: routing_sample.json at the end
 * of a run, and samples/step-N.json, without by_label, NMIs and attention, at some evaluations.
 *
 * An observer writes these files beside metrics.jsonl; the report draws heat maps from them.
 * Each file is one object:
 *
 *     {"step": 2000, "evaluation": 20, "evaluations": 20, "labels": ["sea", "garden", ...],
 *      "tokens": ["t", "h", "e", ...], "token_labels": [3, 3, ...],
 *      "layers": [{"layer": 0, "experts": 8, "top_k": 2,
 *                  "prob": [[E numbers] per token], "chosen": [[k experts] per token],
 *                  "gate": [[their k gates] per token],
 *                  "by_label": [[counts of every label] per expert],
 *                  "nmi": 0.41, "nmi_random": 0.002}],
 *      "attention_weights": {"tokens": 24, "heads": [{"layer": 0, "head": 3,
 *                    "prob": [[weight of each token] per token]}]}}
 *
 * prob is null for routers without probabilities; chosen and gate are absent if assignments
 * list their tokens. labels, token_labels, by_label and the NMIs are absent without a labelled
 * corpus. by_label counts admitted assignments over the whole evaluation, not only over the
 * tokens shown; nmi_random is the NMI of random experts. The attention head of an expert also
 * has "expert": 2; weights of tokens that were not sent to this expert are null. */
#ifndef MF_RUN_SAMPLE_H
#define MF_RUN_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_sample_layer {
    int layer, experts, top_k;
    const float *prob;      /* [n_tokens, experts], or NULL */
    const int32_t *chosen;  /* [n_tokens, top_k] or NULL; -1: none */
    const float *gate;      /* [n_tokens, top_k] or NULL: gates of the chosen experts */
    const double *by_label; /* [experts, n_labels], or NULL */
    double nmi, nmi_random; /* NaN: unknown */
} mf_sample_layer;

/* Attention weights of one head. Row t contains the weights of token t over all tokens; NaN:
 * token t was not sent to this expert. */
typedef struct mf_sample_head {
    int layer, head;
    int expert;        /* the expert of the head; -1: the block's own attention */
    const float *prob; /* [n_seen, n_seen] */
} mf_sample_head;

typedef struct mf_sample {
    int64_t step;
    /* evaluation: number of this evaluation, from 1; evaluations: number of all; 0: unknown */
    int64_t evaluation, evaluations;
    int n_tokens, n_labels, n_layers;
    /* [n_tokens] text of each token; for special tokens the name */
    const char *const *tokens;
    const int32_t *token_labels; /* [n_tokens] or NULL */
    const char *const *labels;   /* [n_labels] names, or NULL */
    const mf_sample_layer *layers;
    int n_heads, n_seen;         /* n_seen <= n_tokens: attention is shown for the first
                                  * n_seen tokens */
    const mf_sample_head *heads; /* [n_heads] */
    struct mf_arena *arena;      /* owner of the sample if it was read; else NULL */
} mf_sample;

int mf_sample_write(const char *path, const mf_sample *s);
int mf_sample_read(const char *path, mf_sample **ret);
void mf_sample_free(mf_sample *s); /* frees a result of mf_sample_read */

/* Returns the path FOLDER/step-N.json. The caller frees it with mf_free. */
char *mf_sample_path(const char *folder, int64_t step);
/* Lists the steps of the samples in a folder, in increasing order; *ret_n is 0 if there is no
 * folder. The caller frees the list with mf_free. */
int mf_sample_list(const char *folder, int64_t **ret_steps, int *ret_n);

#endif
