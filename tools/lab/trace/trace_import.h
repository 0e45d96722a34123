/* lab/trace/trace_import.h: traces from the routes that inference engines send with a text. */
#ifndef MF_LAB_TRACE_IMPORT_H
#define MF_LAB_TRACE_IMPORT_H

#include "model/model.h"

typedef enum mf_routes_from {
    MF_ROUTES_VLLM,
    MF_ROUTES_SGLANG,
    MF_ROUTES_MEGATRON
} mf_routes_from;

typedef struct mf_imported_routes {
    int64_t sequences, tokens, recorded; /* recorded: tokens with experts */
} mf_imported_routes;

/* Reads answers, one JSON object a line, and writes a new trace with tokens and chosen experts
 * only. run, step: of the model, for information.
 *
 *   vLLM      choices[] with token_ids and routed_experts (base64 of .npy, [tokens - 1, layers,
 *             k]), prompt_token_ids in the choice or the object, and if it is there
 *             routed_experts_prompt_start, the token of the first row; or, as vLLM 0.21 sends
 *             them, prompt_routed_experts and routed_experts of the generated tokens
 *   SGLang    input_ids, output_ids, meta_info.routed_experts (base64 of raw int32)
 *   Megatron  prompt_tokens, generated_tokens, moe_topk_indices and if it is there
 *             prompt_moe_topk_indices ([tokens, MoE layers, k])
 *
 * An array may also be nested JSON lists, or base64 of .npy in all forms. vLLM and SGLang have
 * a row for each layer of the model, Megatron for each layer with experts. MF_EINPUT with the
 * line, the token and the layer if shapes do not fit, an id is outside the vocabulary or the
 * experts, an expert stands twice, or all experts of a token are 0, which means that the engine
 * did not record it. */
int mf_trace_import(mf_routes_from from, const char *path, const mf_model *m, const char *run,
                    int64_t step, const char *out, mf_imported_routes *ret);

#endif
