/* graph/device/code.h: images of plugins with kernels for a device (mf_device_code). A device
 * loads each image once, when the first graph needs it, and keeps it until it is closed. */
#ifndef MF_GRAPH_CODE_H
#define MF_GRAPH_CODE_H

#include "graph/device/device.h"

/* Returns the next entry of an op's list of devices. The entries have the size that was in use
 * when the plugin was built. */
static inline const mf_device_op *mf_device_op_next(const mf_device_op *l)
{
    return (const mf_device_op *)(const void *)((const char *)l + l->size);
}

typedef struct mf_code mf_code;

/* Loads the image, or finds it if it is already loaded. MF_EDEP: the device loads no images, or
 * the image has nothing for this device; the device then has a text (mf_device_ops.message).
 * Other errors are recorded. */
int mf_code_load(mf_device *d, const mf_device_code *code, mf_code **ret);
/* Loads a kernel of the image. The codes are the same as for mf_code_load. */
int mf_code_kernel(mf_device *d, mf_code *code, const char *name, void **ret);
/* Unloads all images; mf_device_close calls it. */
void mf_codes_free(mf_device *d);

#endif
