/* data/safetensors/safetensors_internal.h: the rules for one tensor, shared by reader
 * and writer. */
#ifndef MF_DATA_SAFETENSORS_INTERNAL_H
#define MF_DATA_SAFETENSORS_INTERNAL_H

#include "data/safetensors/safetensors.h"

#define MF_ST_META "__metadata__"

/* Returns MF_OK or MF_EINPUT. where: the file or "writer", for messages. */
int mf_st_check_name(const char *where, const char *name);
/* Computes count and bytes from dtype, rank and shape (0 for MF_ST_UNKNOWN), and checks every
 * step for overflow. */
int mf_st_measure(const char *where, mf_st_tensor *t);

#endif
