/* base/thread/thread_memory.h: memory that belongs to a thread and is too large for
 * thread-local variables. A running program cannot load a library that has large
 * thread-local variables. */
#ifndef MF_BASE_THREAD_MEMORY_H
#define MF_BASE_THREAD_MEMORY_H

#include <stddef.h>

typedef enum mf_thread_part {
    MF_THREAD_ERROR,      /* used by base/error.c */
    MF_THREAD_SHOWN,      /* used by base/text/shown.c */
    MF_THREAD_PROVENANCE, /* used by run/folder/provenance.c */
    MF_THREAD_PARTS
} mf_thread_part;

/* Returns the calling thread's memory of this part. It is zeroed at first, and freed when the
 * thread ends. The size of a part must be the same in each call. If no memory is left, returns
 * `spare`, which several threads may then share. Records no error. */
void *mf_thread_memory(mf_thread_part part, size_t bytes, void *spare);

#endif
