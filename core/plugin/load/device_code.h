/* plugin/load/device_code.h: checks the device code that an op of a plugin carries as data
 * (mf_device_code), before anything is done with it and without a device.
 *
 * It is an image, names, and functions that describe launches; the plugin is linked with
 * nothing of CUDA. A broken image is a fault of the plugin wherever it runs.
 * graph/plugin_kernels.c loads kernels before a run, because CUDA may not load while launches
 * are recorded, and gives each the same one parameter, the views of the op's call. So a kernel
 * that an ordinary compiler made has a known type, and the emulator needs only its name. An ELF
 * file of the host is an image, too: code for the emulator, which every GPU refuses. */
#ifndef MF_PLUGIN_DEVICE_CODE_H
#define MF_PLUGIN_DEVICE_CODE_H

#include <moefw/op.h>

/* Checks the op's list of devices and the images that it names: sizes, names, functions; that
 * an image is within the data of one mapped file, and is a whole fat binary or ELF file. The
 * fields of *op up to its name must have been checked. MF_EPLUGIN: the message names the op. */
int mf_judge_device_code(const mf_opdef *op);

/* Writes what the op has for devices in words, such as "cuda: code for sm_80 (12 KiB)", to text
 * [size]; an empty text if it has nothing. The op must have been checked. */
void mf_device_code_text(const mf_opdef *op, char *text, size_t size);

#endif
