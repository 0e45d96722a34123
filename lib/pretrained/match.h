/* pretrained/match.h: the ledger of an import: which tensor is which part of which parameter.
 *
 * A rule uses or skips each tensor. A tensor without a rule is an error that names it. Every
 * element of every parameter comes from exactly one tensor; only the parameters of adapters
 * have no tensors. Only names, types and shapes are compared, so this works before any value is
 * read, and before memory for values is allocated. */
#ifndef MF_PRETRAINED_MATCH_H
#define MF_PRETRAINED_MATCH_H

#include "data/safetensors/safetensors.h"
#include "graph/store/param.h"
#include "pretrained/family.h"
#include "pretrained/weights/packed.h"

enum { MF_PLACE_RANK = 4 };

/* Positions of the elements of a tensor in its parameter. Element (i0, i1, ...) of the tensor,
 * with the sizes in `size`, is element base + sum i_d stride_d of param. If i_cut >= at, it is
 * instead an element of `other`, with other_base and other_stride. */
typedef struct mf_place {
    const mf_family_rule *rule;
    mf_param *param; /* NULL: the tensor is skipped */
    int32_t index;   /* index of param in its store */
    bool tied;       /* the tensor is skipped, but its values must be those of param */
    /* If form is not MF_FORM_PLAIN, the weight is stored as several tensors. The first of them
     * has this place; `parts` are the indices of all, -1 for parts that it lacks. The places of
     * the others have form and rule, but no param. */
    mf_form form;
    int64_t parts[MF_FORM_PARTS];
    int shape_rank;
    int64_t shape[MF_PLACE_RANK]; /* shape of the tensor, or of the weight in plain form */
    int rank;
    int64_t size[MF_PLACE_RANK], stride[MF_PLACE_RANK], base;
    mf_param *other; /* NULL: all elements are in param */
    int32_t other_index;
    int cut;
    int64_t at, other_stride[MF_PLACE_RANK], other_base;
} mf_place;

/* Computes the place and the name of the tensor that a rule defines for a block and an expert,
 * which counts only if the name contains {e}. ret->param is NULL if the model has no such
 * parameter. MF_EINVAL: the parameter has no such part. name: MF_ST_NAME_MAX bytes. */
int mf_place_find(const mf_keys *k, const mf_family_rule *rule, const mf_store *store,
                  int64_t layer, int64_t expert, mf_place *ret, char name[MF_ST_NAME_MAX]);
/* Whether the rows of a rule's parameter belong to the heads of queries or keys. Rope
 * determines the order of these rows. */
bool mf_rule_is_of_heads(const mf_family_rule *rule);
/* Number of elements. */
int64_t mf_place_count(const mf_place *place);
/* Returns the name of a tensor with this place in plain form. The text is in out or in the
 * tensor. out: MF_ST_NAME_MAX bytes. */
const char *mf_place_plain_name(const mf_place *place, const mf_st_tensor *t, char *out);

typedef struct mf_ledger {
    int64_t n, used, skipped;
    mf_packing packing; /* parameters of the forms of all places */
    mf_place *places;   /* [n] places in the order of the tensors; the caller frees them
                       * with mf_free */
} mf_ledger;

/* Finds the blocks whose router has another number of rows than config.json says, as in models
 * from which experts were removed. Their sections [block.NAME] are added to the settings of k,
 * and k->layer_experts is set. At least one block must have the number of config.json; if none
 * has, nothing is changed, and mf_match_tensors names the tensor that does not fit. tensors
 * [n]: sorted by name. MF_ENOMEM, MF_EINPUT. */
int mf_match_layers(const mf_family *family, mf_keys *k, const mf_st_tensor *const *tensors,
                    int64_t n);

/* Finds the place of each tensor in the parameters of the store. tensors [n]: sorted by name.
 * where: the folder, for messages. MF_EINPUT, with the tensor named, if a tensor has no place,
 * has another shape or a type that cannot be read, or is missing. */
int mf_match_tensors(const mf_family *family, const mf_keys *k, const mf_store *store,
                     const char *where, const mf_st_tensor *const *tensors, int64_t n,
                     mf_ledger *ret);

#endif
