/* lab/analyze/analysis.h: the figures of all layers of a run, as moefw analyze shows them. */
#ifndef MF_LAB_ANALYSIS_H
#define MF_LAB_ANALYSIS_H

#include "lab/analyze/analyze.h"

/* Tokens of a trace, without padding. */
typedef struct mf_routed_text {
    int64_t n;      /* N */
    int32_t *place; /* [N] index of the token in the trace */
    int32_t *id, *position;
    int32_t *next;  /* [N] id of the token that follows in the text; -1: none. All are -1 unless
                     * the task of the model is lm */
    int32_t *label; /* [N] label of the corpus, -1: unknown; NULL: the corpus has no labels */
    int32_t labels; /* number of labels */
    mf_clusters documents;
    const char
        *unit; /* "documents", or "windows" of a stream that says not where documents end */
} mf_routed_text;

enum {
    MF_ANALYZE_TEXT = 400, /* number of tokens of the text that are shown */
    MF_ANALYZE_MAP = 48,   /* of which so many are shown with their probabilities */
    MF_ANALYZE_THEN = 16   /* most checkpoints with which the end is compared */
};

/* The number of ids that are listed for an expert, and of tokens that an id must have. */
enum { MF_WORDS = 8, MF_WORD_TOKENS = 10 };

typedef struct mf_expert_word {
    int32_t id, tokens; /* tokens: number of tokens of the id, whichever expert they chose */
    double share;       /* of which chose the expert */
} mf_expert_word;

typedef struct mf_expert_words {
    mf_expert_word *words; /* [E, MF_WORDS] in falling order of the share */
    int32_t *n;            /* [E] numbers of words */
    /* Mean over tokens, of ids with at least MF_WORD_TOKENS, of the share of the id's most used
     * expert; and the same with ids exchanged at random. NaN: no id is so frequent */
    double top_share, top_share_shuffled;
    const char **piece; /* [E, MF_WORDS] texts of the ids; NULL: none were looked up */
} mf_expert_words;

enum { MF_OUTPUT_TOKENS = 128, MF_OUTPUT_VALUES = 2048 };

/* What the experts of a layer compute for the same tokens, without shared experts and gates. */
typedef struct mf_expert_outputs {
    int32_t experts, tokens; /* tokens 0: not computed */
    /* [E,E] mean over tokens of the cosine of both outputs; and the same over pairs of
     * different tokens, mean over pairs of experts. NaN: an output is 0 */
    double *cosine, cosine_chance;
    /* [E,E] linear CKA: |Yj' Yi|^2 / (|Yi' Yi| |Yj' Yj|), with centred columns and Frobenius
     * norms (Kornblith et al. 2019); 1: equal up to rotation and scale */
    double *cka, cka_chance;
    int32_t first, second; /* the pair with the largest cosine; -1: none */
    double *values;        /* [n_values] of the layer's output, drawn */
    int32_t n_values;
    double sd; /* of all values */
} mf_expert_outputs;

/* The shares of tokens below margin[] of mf_analysis_layer. */
extern const double mf_analyze_quantiles[5];

typedef struct mf_analysis_layer {
    int32_t layer, experts;
    mf_utilization use;
    mf_information id, next, position;
    mf_label_use labels; /* labels.labels 0: the text has no labels */
    mf_coactivation pairs;
    mf_saturation then[MF_ANALYZE_THEN]; /* [n_then] */
    /* [experts, experts of the next layer] lift; NULL: the last layer */
    double *moved;
    /* Quantiles (mf_analyze_quantiles) of the difference between the lowest score of a chosen
     * expert and the highest other one, and the share of tokens in which it is below 2^-8 of
     * the lowest chosen score, which is the rounding of bf16. NaN: the trace has no margins */
    double margin[5], close;
    mf_expert_outputs outputs;
    mf_expert_words words;
    int32_t *top;   /* [shown] first expert of each shown token, -1: none */
    float *prob;    /* [map, experts] probabilities; NULL: the router has none */
    uint8_t *marks; /* [map, experts] 1: chosen */
} mf_analysis_layer;

typedef struct mf_analysis {
    const char *run, *text; /* text: name of the split, or path of the text */
    int64_t step, tokens, batches;
    double loss; /* of the recorded batches */
    mf_routed_text routed;
    const char *const *label_names; /* [routed.labels] */
    int n_layers, n_then;
    mf_analysis_layer *layers;
    int shown, map;           /* numbers of tokens */
    const char *const *piece; /* [shown] */
    mf_arena *arena;
} mf_analysis;

void mf_analysis_free(mf_analysis *a);

#endif
