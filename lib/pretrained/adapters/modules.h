/* adapters/modules.h: the linear layers of a family under the names in the family's own
 * programs ("model.layers.0.self_attn.q_proj"), and the rows of our weights that belong to
 * each layer.
 *
 * The table follows from the rules of the family, so it works for every family. The experts of
 * a block are one module, "....experts", with a parameter for each of our two weights, in the
 * form of transformers 5. */
#ifndef MF_PRETRAINED_MODULES_H
#define MF_PRETRAINED_MODULES_H

#include "pretrained/adapters/low_rank.h"
#include "pretrained/record.h"

typedef struct mf_peft_module {
    const char *name;
    /* "gate_up_proj", or "weight" for a router: the module is not a linear layer but has this
     * parameter. NULL: a linear layer. */
    const char *parameter;
    bool transposed; /* the parameter of experts is [experts, inputs, outputs] */
    bool fused;      /* the parameter contains all experts */
    mf_param *weight;
    int32_t layer; /* index of the block; -1: the output head */
    mf_rows rows;
    int64_t experts, inputs;
} mf_peft_module;

/* Lists the modules of the model that the record describes. The arena owns the list, in the
 * order of the family's rules. MF_ENOMEM. */
int mf_modules_list(const mf_record *record, const mf_store *store, mf_arena *arena,
                    mf_peft_module **ret, int *ret_n);

#endif
