/* table.c: the kernel set by its name. An unknown name gives NULL, which the caller reports
 * with the names that there are.
 */
#include <string.h>

#include "kernels/kernel.h"

const mf_kernels *mf_kernels_select(const char *name)
{
    if (name == NULL || name[0] == '\0' || strcmp(name, "cpu") == 0) return mf_kernels_cpu();
    if (strcmp(name, "ref") == 0) return &mf_kernels_ref;
    return NULL;
}
