/* pretrained/code/code.h: writes a run as a model folder of Hugging Face with its own code,
 * for models that no published form can express. */
#ifndef MF_PRETRAINED_CODE_CODE_H
#define MF_PRETRAINED_CODE_CODE_H

#include <stdbool.h>
#include <stdint.h>

/* Writes config.json with the graph of the model (trace.h), model.safetensors with
 * parameters and buffers under their own names in f32, the Python files of share/code,
 * which run such a graph in transformers (trust_remote_code), generation_config.json,
 * README.md and, if `tokenizer` is set and the run has one, the tokenizer. The folder must
 * be new. It is written under a temporary name and renamed at the end. *ret_tensors: number
 * of its tensors. MF_EINPUT: the model is no decoder, or the graph cannot be written;
 * MF_EUSAGE: the folder exists; MF_ENOTFOUND: the Python files are missing; errors of
 * mf_load_run_as; MF_EIO; MF_ENOMEM. */
int mf_export_code(const char *run, const char *folder, bool tokenizer, int64_t *ret_tensors);

#endif
