/* pretrained/gguf/gguf_arch.h: architectures of GGUF, as tables.
 *
 * An architecture describes the families that it supports, the part of a parameter that each
 * tensor contains (rules like those of a family, with the names of GGUF), its keys, and the
 * models that it cannot express. */
#ifndef MF_PRETRAINED_GGUF_ARCH_H
#define MF_PRETRAINED_GGUF_ARCH_H

#include "pretrained/export_run.h"
#include "pretrained/gguf/gguf_file.h"

typedef struct mf_gguf_arch {
    const char *name;            /* value of general.architecture */
    const char *const *families; /* NULL-terminated */
    const mf_family_rule *rules;
    /* The file must contain the output head as a separate tensor, even if it is equal to
     * the embedding. */
    bool own_head;
    /* Returns MF_EINPUT, with the property that cannot be expressed and the reason. */
    int (*judge)(const mf_export_run *x);
    /* Writes the keys that only this architecture has. */
    void (*keys)(const mf_export_run *x, mf_gguf *w);
} mf_gguf_arch;

/* Finds the architecture for a run's family that can express the run's model. MF_EINPUT: there
 * is none, or it cannot express the model. */
int mf_gguf_arch_of(const mf_export_run *x, const mf_gguf_arch **ret);
/* Writes the keys that describe the model. */
void mf_gguf_arch_keys(const mf_export_run *x, const mf_gguf_arch *a, mf_gguf *w);
/* Whether a model has its own rope factors as a tensor (llama3). */
bool mf_gguf_has_factors(const mf_export_run *x);

/* ---- for the tables ---- */

/* Fails with MF_EINPUT and the message "WHAT cannot be said in GGUF: WHY". */
int mf_gguf_refuse(const char *what, const char *why);
/* Writes the key ARCH.NAME. */
void mf_gguf_arch_u32(mf_gguf *w, const mf_gguf_arch *a, const char *name, int64_t value);
void mf_gguf_arch_f32(mf_gguf *w, const mf_gguf_arch *a, const char *name, double value);
/* Returns a number that the family sets for a router or for experts ("router.scale");
 * 0: none. */
double mf_gguf_setting(const mf_export_run *x, const char *name);

extern const mf_gguf_arch mf_gguf_llama, mf_gguf_qwen2moe, mf_gguf_qwen3moe, mf_gguf_olmoe,
    mf_gguf_deepseek2, mf_gguf_gpt_oss, mf_gguf_gpt2;

/* Returns the [moe] of all blocks; the checks of an export have refused blocks that differ. */
mf_moe_config mf_gguf_moe(const mf_export_run *x);

#endif
