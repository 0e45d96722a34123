/* lib/device.c: opens the device under test. It stays open until the program ends, so that its
 * counts cover all tests. */
#include "tests/lib/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "run/backend.h"

static mf_device *device;

static void close_device(void)
{
    mf_device_close(device);
}

mf_device *mf_test_device(void)
{
    const char *name = getenv("MOEFW_TEST_DEVICE");
    if (device || !name || !*name) return device;
    if (mf_backend_open(name, &device) != MF_OK) {
        fprintf(stderr, "MOEFW_TEST_DEVICE: %s\n", mf_error_message());
        exit(1);
    }
    atexit(close_device);
    return device;
}

void mf_test_find_strict(bool always)
{
    const char *build = getenv("builddir");
    char path[4096];
    if (!build) return;
    snprintf(path, sizeof path, "%s/tests/device", build);
    setenv("MOEFW_PLUGIN_PATH", path, always);
}
