/* base/thread/thread_memory.h: memory that belongs to a thread and is too large for
 * thread-local variables: a running program cannot open a library with much of those. */
#ifndef MF_BASE_THREAD_MEMORY_H
#define MF_BASE_THREAD_MEMORY_H

#include <stddef.h>

typedef enum mf_thread_part {
    MF_THREAD_ERROR,      /* base/error.c */
    MF_THREAD_SHOWN,      /* base/text/shown.c */
    MF_THREAD_PROVENANCE, /* run/folder/provenance.c */
    MF_THREAD_PARTS
} mf_thread_part;

/* The calling thread's memory of this part: zeros at first, freed when the thread ends. A part
 * always has the same size. Without memory the result is `spare`, which threads then share. It
 * records no error. */
void *mf_thread_memory(mf_thread_part part, size_t bytes, void *spare);

#endif
