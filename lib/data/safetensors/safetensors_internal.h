/* data/safetensors/safetensors_internal.h: the rules for one tensor, shared by reader
 * and writer. */
#ifndef MF_DATA_SAFETENSORS_INTERNAL_H
#define MF_DATA_SAFETENSORS_INTERNAL_H

#include "data/safetensors/safetensors.h"

#define MF_ST_META "__metadata__"

/* Returns MF_OK or MF_EINPUT. where: the file or "writer", for messages. */
int mf_st_check_name(const char *where, const char *name);
/* Computes count and bytes (0 bytes for MF_ST_UNKNOWN) from dtype, rank and shape. MF_EINPUT
 * for a bad rank or shape, and if a number overflows. */
int mf_st_measure(const char *where, mf_st_tensor *t);

#endif
