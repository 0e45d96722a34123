/* table.c: finds a kernel set by its name. The result is NULL for an unknown name, or if the
 * cpu set cannot be used; the caller reports it together with the valid names. */
#include <string.h>

#include "kernels/kernel.h"

const mf_kernels *mf_kernels_select(const char *name)
{
    if (name == NULL || name[0] == '\0' || strcmp(name, "cpu") == 0) return mf_kernels_cpu();
    if (strcmp(name, "ref") == 0) return &mf_kernels_ref;
    return NULL;
}
