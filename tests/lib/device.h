/* lib/device.h: the device on which tests run: the one that MOEFW_TEST_DEVICE names, whose
 * backend is in a plugin folder; without the variable the host. */
#ifndef TESTS_LIB_DEVICE_H
#define TESTS_LIB_DEVICE_H

#include "graph/device/device.h"

/* The device, which is opened once and closed when the program ends; NULL: the host. If it
 * cannot be opened, the program ends with status 1. */
mf_device *mf_test_device(void);

#endif
