/* comm/mirror.c: a communicator of two ranks without a second process. The other rank has the
 * same data as this rank, and sends back what it receives. Tests use it to inspect messages
 * between ranks. */
#include "comm/table.h"

#include <moefw/version.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* A test may change the data that the other rank sends, which are a copy of the data sent
 * to it. */
EXPORT extern void (*mirror_change)(void *data, int64_t bytes);
void (*mirror_change)(void *data, int64_t bytes);

struct mf_comm {
    int unused;
};

struct mf_comm_wait {
    int unused;
};

static int join(int64_t chunk, mf_comm_place *ret_place, mf_comm **ret, char *text, size_t size)
{
    static mf_comm comm;
    (void)chunk, (void)text, (void)size;
    *ret_place = (mf_comm_place){.rank = 0, .ranks = 2, .node = 0, .node_ranks = 1};
    snprintf(ret_place->host, sizeof ret_place->host, "here");
    *ret = &comm;
    return 0;
}

static int start(mf_comm *c, int32_t n_send, const mf_comm_piece *send, int32_t n_recv,
                 const mf_comm_piece *recv, mf_comm_wait **ret)
{
    static mf_comm_wait wait;
    (void)c;
    for (int32_t i = 0; i < n_recv; i++) {
        const int64_t sent = i < n_send ? send[i].bytes : 0,
                      n = sent < recv[i].bytes ? sent : recv[i].bytes;
        memset(recv[i].data, 0, (size_t)recv[i].bytes);
        if (n > 0) memcpy(recv[i].data, send[i].data, (size_t)n);
        if (mirror_change) mirror_change(recv[i].data, recv[i].bytes);
    }
    *ret = &wait;
    return 0;
}

static int test(mf_comm *c, mf_comm_wait *w, bool *ret_done)
{
    (void)c, (void)w;
    *ret_done = true;
    return 0;
}

static bool waits_for(mf_comm_wait *w, int32_t peer)
{
    (void)w, (void)peer;
    return false;
}

static void end(mf_comm *c, int code)
{
    (void)c, (void)code;
}

static void leave(mf_comm *c)
{
    (void)c;
}

EXPORT extern const mf_comm_table moefw_comm;
const mf_comm_table moefw_comm = {.magic = MF_COMM_MAGIC,
                                  .size = sizeof(mf_comm_table),
                                  .version = MOEFW_VERSION,
                                  .name = "mirror",
                                  .open = join,
                                  .start = start,
                                  .test = test,
                                  .waits_for = waits_for,
                                  .abort = end,
                                  .close = leave};
