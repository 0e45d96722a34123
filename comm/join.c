/* comm/join.c: TCP between rank 0 and each other rank.
 *
 * What travels later than the greeting are single numbers: 0 says that a rank is done (from
 * rank 0: that all are), any other one is the exit code for all. */
#include "join.h"
#include <errno.h>
#include <moefw/version.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "comm/launch.h"

enum { HELLO_SECONDS = 5, AGAIN_MS = 50 };
#define MAGIC "moefwJN1"

typedef struct hello {
    char magic[8], version[24], host[64];
    int32_t rank, ranks;
} hello;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    const long n = text ? strtol(text, &end, 10) : -1;
    return text && *text && !*end && n >= 0 && n <= 1000000 ? (int)n : -1;
}

void mf_join_find(int32_t *ret_rank, int32_t *ret_ranks)
{
    mf_launch l = {0};
    const int rank = number_of("RANK"), ranks = number_of("WORLD_SIZE");
    if (mf_launch_find(&l)) {
        *ret_rank = l.rank;
        *ret_ranks = l.ranks;
    } else {
        *ret_rank = rank >= 0 && ranks > rank ? rank : 0;
        *ret_ranks = rank >= 0 && ranks > rank ? ranks : 1;
    }
}

/* ---- bytes ---- */

static bool ready(int fd, short what, double until)
{
    struct pollfd p = {.fd = fd, .events = what};
    for (;;) {
        const double left = until - now();
        if (left <= 0) return false;
        const int n = poll(&p, 1, left < 3600 ? (int)(1e3 * left) + 1 : 3600000);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

static bool get(int fd, void *to, size_t size, double until)
{
    for (size_t at = 0; at < size;) {
        if (!ready(fd, POLLIN, until)) return false;
        const ssize_t n = recv(fd, (char *)to + at, size - at, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return false;
        if (n > 0) at += (size_t)n;
    }
    return true;
}

static bool put(int fd, const void *from, size_t size, double until)
{
    for (size_t at = 0; at < size;) {
        if (!ready(fd, POLLOUT, until)) return false;
        const ssize_t n =
            send(fd, (const char *)from + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
        if (n > 0) at += (size_t)n;
    }
    return true;
}

/* ---- addresses ---- */

/* HOST:PORT, where HOST may be [IPv6]. */
static int root_of(struct addrinfo **ret, char *text, size_t room)
{
    const char *root = getenv("MOEFW_COMM_ROOT"), *host = getenv("MASTER_ADDR"),
               *port = getenv("MASTER_PORT");
    char name[256] = "";
    if (root && *root) {
        const char *colon = strrchr(root, ':');
        const size_t n = colon ? (size_t)(colon - root) : 0;
        if (n > 0 && n < sizeof name) {
            memcpy(name, root, n);
            if (name[0] == '[' && name[n - 1] == ']') {
                memmove(name, name + 1, n - 2);
                name[n - 2] = '\0';
            }
        }
        host = name;
        port = colon ? colon + 1 : "";
    }
    if (!host || !*host || !port || !*port || strspn(port, "0123456789") != strlen(port)) {
        snprintf(text, room,
                 "expected MOEFW_COMM_ROOT = HOST:PORT of rank 0 (or MASTER_ADDR and "
                 "MASTER_PORT), found '%.80s'",
                 root ? root : "");
        return 1;
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const int rc = getaddrinfo(host, port, &hints, ret);
    if (rc == 0) return 0;
    snprintf(text, room, "%.80s:%.10s: %s", host, port, gai_strerror(rc));
    return 1;
}

static void prepare(int fd)
{
    const int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
}

static int listen_at(const struct addrinfo *a, int ranks, char *text, size_t room)
{
    const int yes = 1;
    for (; a; a = a->ai_next) {
        const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, ranks) == 0) return fd;
        snprintf(text, room, "rank 0 cannot listen at MOEFW_COMM_ROOT: %s", strerror(errno));
        close(fd);
    }
    return -1;
}

static int reach(const struct addrinfo *first, double until)
{
    while (now() < until) {
        for (const struct addrinfo *a = first; a; a = a->ai_next) {
            const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
            if (fd >= 0) close(fd);
        }
        poll(NULL, 0, AGAIN_MS);
    }
    return -1;
}

/* ---- joining ---- */

static bool judge(const hello *h, const hello *mine, const mf_join *j, char *text, size_t room)
{
    if (h->ranks != mine->ranks || strncmp(h->version, mine->version, sizeof h->version) != 0)
        snprintf(text, room, "rank %d has %d ranks and moefw %.20s; rank 0 has %d and %s",
                 h->rank, h->ranks, h->version, mine->ranks, mine->version);
    else if (h->rank < 1 || h->rank >= j->ranks || j->socket[h->rank] >= 0)
        snprintf(text, room, "two processes are rank %d", h->rank);
    else
        return true;
    return false;
}

/* Greets until all have come. Who does not speak our language is sent away. */
static bool greet(mf_join *j, int fd, hello *all, double until, char *text, size_t room)
{
    for (int n = 1; n < j->ranks;) {
        hello h;
        if (!ready(fd, POLLIN, until)) {
            snprintf(text, room, "%d of %d ranks have come to rank 0", n, j->ranks);
            return false;
        }
        const int peer = accept(fd, NULL, NULL);
        if (peer < 0) continue;
        const double soon = now() + HELLO_SECONDS;
        if (!get(peer, &h, sizeof h, soon < until ? soon : until) ||
            memcmp(h.magic, MAGIC, sizeof h.magic) != 0) {
            close(peer);
            continue;
        }
        if (!judge(&h, &all[0], j, text, room)) {
            close(peer);
            return false;
        }
        h.host[sizeof h.host - 1] = '\0';
        prepare(peer);
        j->socket[h.rank] = peer;
        all[h.rank] = h;
        n++;
    }
    return true;
}

static void find_place(mf_join *j, const hello *all)
{
    j->place =
        (mf_comm_place){.rank = j->rank, .ranks = j->ranks, .node = j->rank, .node_ranks = 0};
    for (int r = j->ranks - 1; r >= 0; r--) {
        if (strcmp(all[r].host, all[j->rank].host) != 0) continue;
        j->place.node = r;
        j->place.node_ranks++;
        j->local += r < j->rank;
    }
    memcpy(j->place.host, all[j->rank].host, sizeof j->place.host);
}

/* Everybody gets the hellos of all, and the blob. */
static bool spread(mf_join *j, hello *all, double until, void *blob, size_t size)
{
    const size_t n = (size_t)j->ranks * sizeof *all;
    if (j->rank > 0)
        return put(j->socket[0], &all[j->rank], sizeof *all, until) &&
               get(j->socket[0], all, n, until) && get(j->socket[0], blob, size, until);
    bool fine = true;
    for (int r = 1; r < j->ranks; r++)
        fine = fine && put(j->socket[r], all, n, until) && put(j->socket[r], blob, size, until);
    return fine;
}

static int join(mf_join *j, hello *all, double seconds, void *blob, size_t size, char *text,
                size_t room)
{
    struct addrinfo *root;
    const double until = now() + seconds;
    bool fine = true;
    if (root_of(&root, text, room)) return 1;
    if (j->rank == 0) {
        const int fd = listen_at(root, j->ranks, text, room);
        fine = fd >= 0 && greet(j, fd, all, until, text, room);
        if (fd >= 0) close(fd);
    } else {
        j->socket[0] = reach(root, until);
        fine = j->socket[0] >= 0;
        if (fine) prepare(j->socket[0]);
        if (!fine) snprintf(text, room, "rank %d does not reach rank 0", j->rank);
    }
    freeaddrinfo(root);
    if (fine && !spread(j, all, until, blob, size)) {
        snprintf(text, room, "rank %d: the connection ended before all ranks were there",
                 j->rank);
        fine = false;
    }
    return !fine;
}

int mf_join_open(mf_join *j, double seconds, void *blob, size_t size, char *text, size_t room)
{
    *j = (mf_join){0};
    mf_join_find(&j->rank, &j->ranks);
    hello *all = calloc((size_t)j->ranks, sizeof *all);
    j->socket = malloc((size_t)j->ranks * sizeof *j->socket);
    j->left = calloc((size_t)j->ranks, sizeof *j->left);
    if (!all || !j->socket || !j->left) {
        snprintf(text, room, "out of memory");
        free(all);
        mf_join_close(j);
        return 1;
    }
    for (int r = 0; r < j->ranks; r++)
        j->socket[r] = -1;
    hello *h = &all[j->rank];
    *h = (hello){.magic = MAGIC, .rank = j->rank, .ranks = j->ranks};
    snprintf(h->version, sizeof h->version, "%s", MOEFW_VERSION);
    gethostname(h->host, sizeof h->host - 1);
    const int rc = j->ranks > 1 ? join(j, all, seconds, blob, size, text, room) : 0;
    if (rc == 0) find_place(j, all);
    free(all);
    if (rc != 0) mf_join_close(j);
    return rc;
}

/* ---- later ---- */

int mf_join_look(mf_join *j, int32_t *ret_code)
{
    for (int r = 0; r < j->ranks; r++) {
        int32_t code = 0;
        if (j->socket[r] < 0 || j->left[r]) continue;
        const ssize_t n = recv(j->socket[r], &code, sizeof code, MSG_DONTWAIT | MSG_PEEK);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) return -1;
        if (n < (ssize_t)sizeof code) continue;
        if (recv(j->socket[r], &code, sizeof code, MSG_DONTWAIT) != sizeof code) return -1;
        *ret_code = code;
        if (code != 0) return 1;
        j->left[r] = true;
    }
    return 0;
}

void mf_join_end_all(mf_join *j, int32_t code)
{
    for (int r = 0; r < j->ranks; r++)
        if (j->socket[r] >= 0) (void)put(j->socket[r], &code, sizeof code, now() + 1);
}

int mf_join_leave(mf_join *j, double seconds)
{
    const double until = now() + seconds;
    const int32_t done = 0;
    int32_t code = 0;
    if (j->ranks == 1) return 0;
    if (j->rank > 0 && !put(j->socket[0], &done, sizeof done, until)) return 1;
    for (;;) {
        bool all = true;
        if (mf_join_look(j, &code) != 0 || now() > until) return 1;
        for (int r = 0; r < j->ranks; r++)
            all = all && (j->socket[r] < 0 || j->left[r]);
        if (all) break;
        poll(NULL, 0, 1);
    }
    for (int r = 1; j->rank == 0 && r < j->ranks; r++)
        if (!put(j->socket[r], &done, sizeof done, until)) return 1;
    return 0;
}

void mf_join_close(mf_join *j)
{
    for (int r = 0; j->socket && r < j->ranks; r++)
        if (j->socket[r] >= 0) close(j->socket[r]);
    free(j->socket);
    free(j->left);
    j->socket = NULL;
    j->left = NULL;
}
