/* adapters/lora.h: the changes of the adapter plugin `lora`, as low-rank changes of the model's
 * weights. The plugin is recognized by its name, its options and the names of its parameters:
 * PATH.SITE.a and PATH.SITE.b. */
#ifndef MF_PRETRAINED_LORA_H
#define MF_PRETRAINED_LORA_H

#include "model/model.h"
#include "pretrained/adapters/low_rank.h"

#define MF_LORA_PLUGIN "lora"

typedef struct mf_lora_site {
    mf_param *weight;   /* the weight that is changed */
    mf_param *a, *b;    /* parameters of the adapter */
    double dropout;     /* dropout on the inputs during training */
    mf_low_rank change; /* the values of a and b at the time of mf_lora_sites */
} mf_lora_site;

/* Finds the weight of a linear layer, and the rows of the weight that belong to the layer, by
 * the layer's name ("attention.q", "expert.w13", "head.weight") and block (-1: the output
 * head). NULL: there is no such layer. */
mf_param *mf_lora_weight(const mf_model *m, int32_t layer, const char *site, mf_rows *ret);
/* Lists all linear layers that lora adapters of the model change. The arena owns the list.
 * MF_EINPUT if the model has adapters of another plugin, MF_ENOMEM. */
int mf_lora_sites(const mf_model *m, mf_arena *arena, mf_lora_site **ret, int *ret_n);
/* Adds the changes of all lora adapters to the weights (sign 1), or subtracts them again (-1).
 * The adapters do not change. Errors of mf_lora_sites. */
int mf_lora_merge(mf_model *m, double sign);

#endif
