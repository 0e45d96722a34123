/* adapters/peft.h: adapter folders of PEFT: adapter_config.json, adapter_model.safetensors.
 *
 * These functions read and write LoRA adapters of linear layers and of the parameters of
 * routers and experts. Names: base_model.model.MODULE.lora_A.weight [r,in] and .lora_B.weight
 * [out,r]; for experts A [E r,in], expert by expert, and B [out,r E], in which column i E + e
 * is column i of expert e. If both weights of a block's experts have adapters, the first has
 * .base_layer after the module's name. PEFT before 0.19 exchanged in and out for experts. The
 * shapes show which form a file has. If they do not (square matrices), peft_version decides. */
#ifndef MF_PRETRAINED_PEFT_H
#define MF_PRETRAINED_PEFT_H

#include "pretrained/import.h"
#include "pretrained/adapters/modules.h"

#define MF_PEFT_CONFIG  "adapter_config.json"
#define MF_PEFT_WEIGHTS "adapter_model.safetensors"

/* The change of one module. */
typedef struct mf_peft_change {
    const mf_peft_module *module;
    mf_low_rank change;
} mf_peft_change;

typedef struct mf_peft {
    int n;
    mf_peft_change *changes; /* [n] */
    double dropout;
} mf_peft;

/* Reads an adapter for the modules [n] of a run with this record and store. Base weights that
 * the file repeats must have the same values as in the run (record NULL: the file must repeat
 * none). The arena owns the result. MF_EINPUT, with file, key or tensor named, if the file is
 * not a LoRA adapter, if it needs a function that lora does not have, or if a tensor belongs to
 * no module, has another shape or no partner; MF_EIO, MF_ENOMEM. */
int mf_peft_read(const char *folder, const mf_record *record, const mf_store *store,
                 const mf_peft_module *modules, int n, mf_arena *arena, mf_peft *ret);

#endif
