/* lib/device.h: the device on which tests run: the one that MOEFW_TEST_DEVICE names, whose
 * backend is in a plugin folder; without the variable the host. */
#ifndef TESTS_LIB_DEVICE_H
#define TESTS_LIB_DEVICE_H

#include <stdbool.h>

#include "graph/device/device.h"

/* The device, which is opened once and closed when the program ends; NULL: the host. If it
 * cannot be opened, the program ends with status 1. */
mf_device *mf_test_device(void);

/* For programs that open the strict device: its backend is in the build folder, which the
 * variable builddir names, wherever the program is called from. MOEFW_PLUGIN_PATH then names
 * it; always: in place of the folder that it names. */
void mf_test_find_strict(bool always);

#endif
