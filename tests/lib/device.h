/* lib/device.h: the device that tests run on: the one that MOEFW_TEST_DEVICE names, whose
 * backend is in a folder of MOEFW_PLUGIN_PATH; without the variable the host. */
#ifndef TESTS_LIB_DEVICE_H
#define TESTS_LIB_DEVICE_H

#include "graph/device/device.h"

/* Opened once, and closed when the program ends; NULL: the host. A device that cannot be opened
 * fails the test. */
mf_device *mf_test_device(void);

#endif
