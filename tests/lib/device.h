/* lib/device.h: the device on which tests run. MOEFW_TEST_DEVICE names it, and its backend is
 * in a plugin folder. Without the variable, tests run on the host. */
#ifndef TESTS_LIB_DEVICE_H
#define TESTS_LIB_DEVICE_H

#include <stdbool.h>

#include "graph/device/device.h"

/* The device, which is opened once and closed when the program ends; NULL: the host. If it
 * cannot be opened, the program ends with status 1. */
mf_device *mf_test_device(void);

/* For programs that open the strict device. Its backend is in the build folder, which the
 * variable builddir names, so the current folder does not matter. Sets MOEFW_PLUGIN_PATH to
 * this folder. always: even if the variable already has a value. */
void mf_test_find_strict(bool always);

#endif
