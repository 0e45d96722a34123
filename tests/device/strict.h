/* strict.h: what an op of a test plugin may do with a stream of the strict device. */
#ifndef TESTS_DEVICE_STRICT_H
#define TESTS_DEVICE_STRICT_H

#include <stddef.h>

/* mf_on_device.stream points to one. */
typedef struct strict_stream {
    /* Queues fn, which runs late with a copy of arg [bytes]. That begins with n_pointers
     * pointers to device memory, which are then addresses that it may read and write. */
    void (*enqueue)(struct strict_stream *s, const char *name, void (*fn)(void *arg),
                    const void *arg, size_t bytes, int n_pointers);
} strict_stream;

#endif
