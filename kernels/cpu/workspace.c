/* workspace.c: maps a thread's workspace when the thread first needs it, and unmaps it when the
 * thread ends. Only pages that are used occupy memory. */
#include "kernels/cpu/workspace.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SIZE = MF_ROOM_STORED_SIZE + MF_ROOM_SUMS_SIZE + MF_ROOM_TILE_SIZE };

static _Thread_local float *own;
static pthread_key_t at_end;
static bool has_key;

static void unmap(void *workspace)
{
    munmap(workspace, SIZE * sizeof(float));
    own = NULL;
}

static void make_key(void)
{
    has_key = pthread_key_create(&at_end, unmap) == 0;
}

bool mf_cpu_workspace(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (own) return true;
    pthread_once(&once, make_key);
    void *at = mmap(NULL, SIZE * sizeof(float), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    if (!has_key || pthread_setspecific(at_end, at) != 0) {
        munmap(at, SIZE * sizeof(float));
        return false;
    }
    own = at;
    return true;
}

float *mf_cpu_room(mf_room part)
{
    static const int begin[] = {[MF_ROOM_STORED] = 0,
                                [MF_ROOM_SUMS] = MF_ROOM_STORED_SIZE,
                                [MF_ROOM_TILE] = MF_ROOM_STORED_SIZE + MF_ROOM_SUMS_SIZE};
    if (!own && !mf_cpu_workspace()) abort();
    return own + begin[part];
}
