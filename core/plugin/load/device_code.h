/* plugin/load/device_code.h: checks the device code that an op of a plugin contains as data
 * (mf_device_code), before it is used and without a device.
 *
 * Device code consists of an image, names, and functions that describe launches; the plugin is
 * not linked with CUDA. A broken image is a fault of the plugin on every machine.
 * graph/plugin_kernels.c loads kernels before a run, because CUDA may not load while launches
 * are recorded. Each kernel gets the same single parameter, the views of the op's call. So a
 * kernel that an ordinary compiler made has a known type, and the emulator needs only its name.
 * An ELF file of the host is an image, too: it is code for the emulator, which every
 * GPU refuses. */
#ifndef MF_PLUGIN_DEVICE_CODE_H
#define MF_PLUGIN_DEVICE_CODE_H

#include <moefw/op.h>

/* Checks the op's list of devices and the images that it names: sizes, names and functions. An
 * image must be within the data of one mapped file, and must be a whole fat binary or ELF file.
 * The fields of *op up to its name must have been checked before. MF_EPLUGIN: the message names
 * the op. */
int mf_judge_device_code(const mf_opdef *op);

/* Writes a description of the op's device code to text [size], such as "cuda: code for sm_80
 * (12 KiB)"; an empty text if the op has none. The op must have been checked. */
void mf_device_code_text(const mf_opdef *op, char *text, size_t size);

#endif
