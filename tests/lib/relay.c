/* relay: connects two network namespaces, delays frames and loses some of them.
 *
 *     relay NAMESPACE NAMESPACE MILLISECONDS PER_MILLE
 *
 * The program makes the interface `wire` (TAP) in both, prints a line when it is ready, and
 * passes on frames until it is killed. Each frame is delayed by the same time; PER_MILLE of the
 * frames are lost. This replaces netem in kernels without it. Frames that do not fit into the
 * queue are lost, too. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 8192, LONGEST = 2048 };

typedef struct frame {
    double due;
    ssize_t size;
    char data[LONGEST];
} frame;

/* The frames that came from one side. Frames first .. first+count-1 have not been passed on. */
typedef struct queue {
    int from, to;
    int first, count;
    frame ring[FRAMES];
} queue;

static queue queues[2];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int open_end(const char *name)
{
    char path[256];
    struct ifreq r = {0};
    snprintf(path, sizeof path, "/run/netns/%s", name);
    const int space = open(path, O_RDONLY);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) return -1;
    close(space);
    const int end = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    r.ifr_flags = IFF_TAP | IFF_NO_PI;
    strcpy(r.ifr_name, "wire");
    return end >= 0 && ioctl(end, TUNSETIFF, &r) == 0 ? end : -1;
}

static void take(queue *q, double delay, long lost)
{
    static uint64_t state = 88172645463325252u;
    frame scrap;
    for (;;) {
        frame *f = q->count < FRAMES ? &q->ring[(q->first + q->count) % FRAMES] : &scrap;
        f->size = read(q->from, f->data, sizeof f->data);
        if (f->size <= 0) return;
        f->due = now() + delay;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (f != &scrap && (long)(state % 1000) >= lost) q->count++;
    }
}

static void give(queue *q)
{
    while (q->count > 0 && q->ring[q->first].due <= now()) {
        const frame *f = &q->ring[q->first];
        /* if the interface does not accept the frame, the frame is lost */
        if (write(q->to, f->data, (size_t)f->size) < 0) {
        }
        q->first = (q->first + 1) % FRAMES;
        q->count--;
    }
}

int main(int n, char **arg)
{
    if (n != 5) return 2;
    const double delay = 1e-3 * atof(arg[3]);
    const long lost = atol(arg[4]);
    for (int i = 0; i < 2; i++) {
        queues[i].from = queues[1 - i].to = open_end(arg[1 + i]);
        if (queues[i].from < 0) {
            perror(arg[1 + i]);
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct pollfd p[2] = {{queues[0].from, POLLIN, 0}, {queues[1].from, POLLIN, 0}};
        const int waits = queues[0].count + queues[1].count > 0 ? 1 : 1000;
        poll(p, 2, waits);
        for (int i = 0; i < 2; i++) {
            take(&queues[i], delay, lost);
            give(&queues[i]);
        }
    }
}
