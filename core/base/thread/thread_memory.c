/* base/thread/thread_memory.c: pointers of each thread, and the code that frees them. This file
 * calls malloc directly, because errors of allocation are recorded in this memory. */
#include "base/thread/thread_memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local void *parts[MF_THREAD_PARTS];
static _Thread_local bool spared[MF_THREAD_PARTS]; /* true: the part is in the spare memory */
static pthread_key_t at_end;
static bool has_key;

/* Another destructor of the thread may record an error later; the error then allocates a
 * new block. */
static void free_parts(void *of)
{
    (void)of;
    for (int i = 0; i < MF_THREAD_PARTS; i++) {
        free(parts[i]);
        parts[i] = NULL;
    }
}

static void make_key(void)
{
    has_key = pthread_key_create(&at_end, free_parts) == 0;
}

void *mf_thread_memory(mf_thread_part part, size_t bytes, void *spare)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (parts[part]) return parts[part];
    pthread_once(&once, make_key);
    void *fresh = has_key ? calloc(1, bytes) : NULL;
    if (fresh && pthread_setspecific(at_end, parts) != 0) {
        free(fresh);
        fresh = NULL;
    }
    if (!fresh) {
        spared[part] = true;
        return spare;
    }
    if (spared[part]) memcpy(fresh, spare, bytes);
    return parts[part] = fresh;
}
