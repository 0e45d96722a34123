/* pretrained/family.h: families of pretrained models, as tables.
 *
 * A family describes the meaning of the keys of its config.json (function `settings`), and
 * which tensor of its files is which part of which of our parameters (table `rules`). A
 * family is one file, families/family_NAME.c. Everything else in this folder uses no family
 * by name. */
#ifndef MF_PRETRAINED_FAMILY_H
#define MF_PRETRAINED_FAMILY_H

#include "pretrained/keys.h"

/* Which rows of a parameter a tensor contains. Rows are those of its last two dimensions, or
 * the elements of a bias. */
typedef enum mf_part {
    MF_PART_ALL,
    MF_PART_Q, /* the first heads x head_dim rows of attention.qkv */
    MF_PART_K, /* the next kv_heads x head_dim rows */
    MF_PART_V,
    MF_PART_GATE,  /* the first half of the rows */
    MF_PART_UP,    /* the second half */
    MF_PART_PAIRS, /* alternately row i of the first half and row i of the second half */
    /* for each head the rows of this parameter, then those of the parameter `more` */
    MF_PART_HEADS,
    /* for each head its rows of MF_PART_Q, then those of the parameter `more` */
    MF_PART_Q_HEADS
} mf_part;

enum {
    MF_RULE_TRANSPOSED = 1, /* the tensor's last two dimensions are exchanged */
    MF_RULE_FUSED = 2,      /* one tensor contains all experts */
    /* tied weights: the tensor is not imported, because it repeats the values of `ours` */
    MF_RULE_TIED = 4,
    /* rows i and i + half of a head are adjacent in the tensor: 0, half, 1, half + 1, ... */
    MF_RULE_TURNS = 8,
    MF_RULE_BY_HEADS = 16, /* the rows have two dimensions: head, and row of the head */
    /* the reverse of MF_RULE_TURNS: rows i and i + half of a head are adjacent in
     * the parameter */
    MF_RULE_APART = 32,
    MF_RULE_JOINED = 64, /* one tensor contains the rows of all experts, one behind the other */
    MF_RULE_ROW = 128    /* the tensor has a first dimension of size 1, which our parameter does
                          * not have */
};

typedef struct mf_family_rule {
    const char *theirs; /* name of the tensor; {l} is the block, {e} the expert; NULL: end of
                         * the table */
    const char *ours;   /* name of the parameter; NULL: the tensor has no parameter and
                         * is skipped */
    mf_part part;
    unsigned flags;
    /* for skipped tensors, their content; for parts by heads, the second parameter; else
     * NULL */
    const char *more;
} mf_family_rule;

typedef struct mf_family {
    const char *name;
    const char *const *types; /* values of model_type; NULL-terminated */
    /* values of model_type of folders with more than the text model, whose keys are in the
     * object text_config; NULL-terminated; NULL: there are none */
    const char *const *whole_types;
    /* names of tensors that begin with one of these are skipped, because they belong to another
     * part than the text model; NULL-terminated; NULL: there are none */
    const char *const *skipped;
    /* names in files may begin with this text in place of "model."; NULL: they do not */
    const char *inner;
    const char *prefix; /* names in files may begin with this prefix; NULL: there is
                               * no prefix */
    /* names of tensors contain file_part where names of modules contain module_part; NULL: the
     * names are the same */
    const char *file_part, *module_part;
    /* PEFT treats linear layers with the names of experts as experts */
    bool peft_takes_experts;
    /* files may contain blocks after the last block, which predict further tokens and are
     * skipped here */
    bool further_blocks;
    const mf_family_rule *rules;
    const mf_key_default *defaults; /* values of keys that are missing in
                                     * config.json (family_rules.h) */
    /* reads config.json: writes our settings and the numbers of mf_keys */
    void (*settings)(mf_keys *k);
} mf_family;

/* All families; NULL-terminated. */
extern const mf_family *const mf_families[];
/* Finds the family whose types contain config.json's model_type. MF_EINPUT if there is none.
 * path: path of config.json, for messages. */
int mf_family_of(const char *path, const mf_json *config, const mf_family **ret);
/* Writes which family is nearest to a model of another type, and which properties this family
 * lacks. Returns false if no family is near. out: size bytes. */
bool mf_family_nearest(const mf_json *config, const char *type, char *out, size_t size);
/* Reads config.json with a family's function. The result is valid as long as arena and config
 * exist. MF_EINPUT with the key named; MF_ENOMEM. */
int mf_keys_read(const mf_family *family, const char *path, const mf_json *config,
                 mf_arena *arena, mf_keys *ret);

#endif
