/* strict.h: functions with which an op of a test plugin queues work in a stream of the
 * strict device. */
#ifndef TESTS_DEVICE_STRICT_H
#define TESTS_DEVICE_STRICT_H

#include <stddef.h>

/* mf_on_device.stream points to such a structure. */
typedef struct strict_stream {
    /* Queues fn, which is called later with a copy of arg [bytes]. arg begins with n_pointers
     * pointers to device memory, or NULL. In the copy these are replaced by addresses that fn
     * may access. */
    void (*enqueue)(struct strict_stream *s, const char *name, void (*fn)(void *arg),
                    const void *arg, size_t bytes, int n_pointers);
} strict_stream;

#endif
