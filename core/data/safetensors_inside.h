/* data/safetensors_inside.h: the rules for one tensor, the same for what is read and
 * written. */
#ifndef MF_DATA_SAFETENSORS_INSIDE_H
#define MF_DATA_SAFETENSORS_INSIDE_H

#include "data/safetensors.h"

#define MF_ST_META "__metadata__"

/* MF_OK or MF_EINPUT. where: file or "writer", for messages. */
int mf_st_check_name(const char *where, const char *name);
/* From dtype, rank and shape: count and bytes (0 for MF_ST_UNKNOWN), with every product
 * checked. */
int mf_st_measure(const char *where, mf_st_tensor *t);

#endif
