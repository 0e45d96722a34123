/* pretrained/quantized.h: which quantised folders can be read. */
#ifndef MF_PRETRAINED_QUANTIZED_H
#define MF_PRETRAINED_QUANTIZED_H

#include "pretrained/folder.h"
#include "pretrained/match.h"

/* Reads quantization_config into k->packing. If it has a form that cannot be read, calls
 * mf_keys_refuse with the form found and the program that writes a supported form. */
void mf_quantized_judge(mf_keys *k);
/* Refuses zeros of GPTQ that belong to another version of the format than config.json says.
 * Version 2 stores zeros unchanged, version 1 stores zeros minus 1. MF_EINPUT with the tensor;
 * MF_EIO, MF_ENOMEM. */
int mf_quantized_judge_zeros(const mf_folder *f, const mf_ledger *ledger);

#endif
