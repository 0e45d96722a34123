/* run/backend.h: opens a device by its name. */
#ifndef MF_RUN_BACKEND_H
#define MF_RUN_BACKEND_H

#include "graph/device/device.h"

/* Opens a device. name is "cpu", or "NAME" or "NAME:INDEX" of a backend; the backend is the
 * file backend_NAME.so in the first plugin folder (plugin/load/find.h) that contains it. *ret
 * is NULL for cpu; otherwise the caller closes it with mf_device_close. The file stays mapped
 * until the process ends. Any thread may call this.
 *
 * MF_ECONFIG: name has another form. MF_EDEP: there is no such backend (the message says what
 * to install) or no such device, or the backend cannot be loaded. MF_EPLUGIN: the file
 * is refused. */
int mf_backend_open(const char *name, mf_device **ret);

/* Passes each line of a backend's description of its libraries and devices to `line`. Errors
 * are those of mf_backend_open. */
int mf_backend_describe(const char *name, void (*line)(void *arg, const char *text), void *arg);

#endif
